//! Frame of a chart over time: figure, caption, axes and labels in SVG.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::time_scale::TimeScale;

/// Width of a chart in units of its view box.
pub(super) const WIDTH: u32 = 1000;
/// Units before the plot, for the labels of its axis.
pub(super) const LEFT: u32 = 70;
/// Units after the plot.
pub(super) const RIGHT: u32 = 10;
/// Width of the plot.
pub(super) const PLOT: u32 = WIDTH - LEFT - RIGHT;
/// Units above the plot.
const TOP: u32 = 8;
/// Units below the plot, for the times.
const BOTTOM: u32 = 22;

/// Units for the title of a part of a picture.
const TITLE: u32 = 18;
/// Units of a letter in a legend, about: the font is the reader's.
const LETTER: f64 = 6.0;
/// Units of a letter in a title, about.
const BOLD_LETTER: f64 = 7.5;
/// Units of a field of a legend with the room behind it.
const SWATCH: f64 = 14.0;
/// Units between two entries of a legend.
const LEGEND_GAP: f64 = 16.0;

/// A chart over time.
pub(super) struct TimeChart<'a> {
    /// Identifier, for the labels.
    pub(super) id: &'a str,
    /// Heading of the figure.
    pub(super) title: &'a str,
    /// Description of the chart in one sentence with its numbers.
    pub(super) text: String,
    /// Further explanation.
    pub(super) note: &'a str,
    /// Height of the plot.
    pub(super) height: u32,
    /// Labels of the vertical axis: distance from the top of the plot, and text.
    pub(super) labels: Vec<(f64, String)>,
    /// Legend: class of the colour, and meaning.
    pub(super) legend: Vec<(&'a str, &'a str)>,
    /// Contents of the plot; its left upper corner is the origin.
    pub(super) plot: Markup,
}

impl TimeChart<'_> {
    /// Returns the figure.
    pub(super) fn figure(&self, scale: &TimeScale) -> Markup {
        let (title, text) = (format!("{}-t", self.id), format!("{}-d", self.id));
        let all = self.height + TOP + BOTTOM;
        html! {
            figure class="chart" id=(self.id) {
                figcaption {
                    h3 { (self.title) }
                    p { (self.text) " " span class="note" { (self.note) } }
                    (legend(&self.legend))
                }
                svg class="time" viewBox={ "0 0 " (WIDTH) " " (all) } role="img"
                    aria-labelledby={ (title) " " (text) } {
                    title id=(title) { (self.title) }
                    desc id=(text) { (self.text) }
                    g transform={ "translate(" (LEFT) " " (TOP) ")" } {
                        (self.grid(scale))
                        (self.plot)
                        rect class="selected" y="0" height=(self.height) width="0" {}
                    }
                }
            }
        }
    }

    /// Returns the chart as a part of a picture, at this distance from its top, with a title and a
    /// legend; and its height.
    pub(super) fn part(&self, scale: &TimeScale, y: u32, darkest: Option<&str>) -> (Markup, u32) {
        let legend = self.legend.iter().copied().chain(darkest.map(|text| ("h7", text)));
        let mut x = f64::from(LEFT) + letters(self.title) * BOLD_LETTER + LEGEND_GAP;
        let mut entries = Vec::new();
        for (class, meaning) in legend {
            entries.push((class, meaning, x));
            x += SWATCH + letters(meaning) * LETTER + LEGEND_GAP;
        }
        let markup = html! {
            g transform={ "translate(0 " (y) ")" } {
                title { (self.title) }
                desc { (self.text) }
                text class="title" x=(LEFT) y="12" { (self.title) }
                @for (class, meaning, x) in entries {
                    rect class=(class) x=(number(x)) y="3" width="10" height="10" {}
                    text class="tick" x=(number(x + SWATCH)) y="12" { (meaning) }
                }
                g transform={ "translate(" (LEFT) " " (TITLE + TOP) ")" } {
                    (self.grid(scale))
                    (self.plot)
                }
            }
        };
        (markup, TITLE + TOP + self.height + BOTTOM)
    }

    fn grid(&self, scale: &TimeScale) -> Markup {
        let base = f64::from(self.height);
        html! {
            @for (ns, label) in scale.ticks(8) {
                @let x = number(scale.x(ns, PLOT));
                line class="grid" x1=(x) x2=(x) y1="0" y2=(self.height) {}
                text class="tick" x=(x) y=(number(base + 15.0)) text-anchor="middle" { (label) }
            }
            @for (y, label) in &self.labels {
                line class="grid" x1="0" x2=(PLOT) y1=(number(*y)) y2=(number(*y)) {}
                text class="tick" x="-6" y=(number(y + 4.0)) text-anchor="end" { (label) }
            }
        }
    }
}

/// Number of letters of one of our texts, for places on the screen.
fn letters(text: &str) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX))
}

/// List of colours and their meanings.
pub(super) fn legend(entries: &[(&str, &str)]) -> Markup {
    html! {
        @if !entries.is_empty() {
            ul class="legend" { @for (class, meaning) in entries {
                li { (swatch(class)) (meaning) }
            } }
        }
    }
}

/// Small field of a colour.
pub(super) fn swatch(class: &str) -> Markup {
    html! { svg class="swatch" viewBox="0 0 10 10" aria-hidden="true" { rect class=(class) width="10" height="10" {} } }
}

/// Number with one decimal at most.
pub(super) fn number(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Path of an area between a base line and steps: each value applies from its place to the next
/// one. `y` is the place of a value.
pub(super) fn step_area(steps: &[(f64, f64)], end: f64, base: f64) -> Markup {
    let mut path = format!("M0 {}", number(base));
    let mut last = base;
    for (x, y) in steps {
        if (y - last).abs() >= 0.05 {
            let _ = write!(path, "H{}V{}", number(*x), number(*y));
            last = *y;
        }
    }
    let _ = write!(path, "H{}V{}Z", number(end), number(base));
    PreEscaped(path)
}
