//! The charts over time as one picture in SVG, for a paper: with its own colours and texts.

use maud::{Markup, PreEscaped, html};

use super::chart::{LEFT, WIDTH};
use super::document::{STYLE, short};
use super::input::PageInput;
use super::page_table::{cut, sentence};
use super::time_scale::TimeScale;
use super::timeline;
use crate::text::quantity;

/// Units of a line of text.
const LINE: u32 = 16;

/// Units between two charts.
const GAP: u32 = 10;

/// Letters of the first line at most.
const LETTERS_MAX: usize = 140;

/// Marks around the rules of `style.css` that charts need.
const RULES: [&str; 2] = ["/* charts */", "/* end of charts */"];

/// Returns the picture; `None`: there is nothing to draw.
pub fn timeline_svg(input: &PageInput<'_>) -> Option<String> {
    let scale = TimeScale::of(input);
    let charts = timeline::charts(input, &scale);
    if charts.is_empty() {
        return None;
    }
    let mut y = LINE;
    let mut lines = Vec::new();
    for (class, text) in heading(input, &scale) {
        lines.push((class, text, y));
        y += LINE;
    }
    let mut parts = Vec::new();
    for (chart, darkest) in &charts {
        let (part, height) = chart.part(&scale, y, darkest.as_deref());
        parts.push(part);
        y += height + GAP;
    }
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (y) } width=(WIDTH) height=(y)
            font-family="Helvetica, Arial, sans-serif" font-size="12" {
            style { (PreEscaped(rules())) }
            @for (class, text, y) in &lines { text class=(class) x=(LEFT) y=(y) { (text) } }
            @for part in &parts { (part) }
        }
    };
    Some(Markup::into_string(markup) + "\n")
}

/// Lines above the charts: subject and time, and what makes the numbers too small.
fn heading(input: &PageInput<'_>, scale: &TimeScale) -> Vec<(&'static str, String)> {
    let at = |ns: u64| quantity::time(scale.origin_ns + ns);
    let subject = short(&sentence(&input.subject()));
    let window = match scale.origin_ns + scale.from_ns {
        0 => at(scale.to_ns),
        _ => format!("{} to {}", at(scale.from_ns), at(scale.to_ns)),
    };
    let step = quantity::time(scale.bin_ns);
    let part = if input.is_whole { "" } else { "; selected operations" };
    let first = format!("I/O of {subject}, {window}, in steps of {step}{part}");
    let mut lines = vec![("title", first)];
    if !input.incomplete.is_empty() {
        let missing = cut(&sentence(&input.incomplete.join("; ")));
        let missing: String = missing.chars().take(LETTERS_MAX).collect();
        lines.push(("cut", format!("INCOMPLETE: {missing}")));
    }
    lines
}

/// Rules of the charts with the light colours in place of variables, which few programs know.
fn rules() -> String {
    let [begin, end] = RULES;
    let rules = STYLE.split(begin).nth(1).and_then(|rest| rest.split(end).next());
    let mut parts = rules.unwrap_or_default().split("var(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        text.push_str(colour(name));
        text.push_str(rest);
    }
    text + ".title { font-weight: bold; fill: " + colour("--ink") + "; font-size: 12px; }\n"
}

/// Returns the light colour with this name.
fn colour(name: &str) -> &'static str {
    let value = STYLE.split_once(&format!("{name}: ")).map_or("", |(_, rest)| rest);
    value.split(';').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_colours_in_place_of_variables() {
        let rules = rules();
        for rule in
            [".read { fill: #1f6fb5; }", ".h7 { fill: #0b3d6e; }", ".cut { fill: #a3170f; }"]
        {
            assert!(rules.contains(rule), "{rule}: {rules}");
        }
        assert!(!rules.contains("var") && !rules.contains("fill: ;"), "{rules}");
    }
}
