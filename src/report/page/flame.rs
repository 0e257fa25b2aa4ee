//! Flame graph of the recorded call chains: each function above its callers' parts.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};

use super::chart::number;
use super::input::PageInput;
use super::page_table::{cut, sentence};
use super::time_scale::ratio;
use crate::report::stacks::{StackOptions, Stacks, Weight};
use crate::text::quantity::{count, counted, size};
use crate::text::shares;

/// Width of the picture.
const WIDTH: f64 = 1000.0;
/// Height of a function.
const ROW: usize = 17;
/// Narrowest function that is drawn.
const NARROWEST: f64 = 0.7;
/// Deepest function that is drawn.
const DEPTH_MAX: usize = 60;
/// Width of a letter.
const LETTER: f64 = 6.3;
/// Functions that are drawn.
const FRAMES_MAX: usize = 3000;
/// Bytes of the drawing. Names are as long as a program wants, and the tables need room, too.
const BYTES_MAX: usize = 600_000;

/// A function with its sum, and the functions that it called.
#[derive(Debug, Default)]
struct FlameFrame {
    weight: u64,
    called: BTreeMap<String, Self>,
}

/// A function as it is drawn.
struct DrawnFrame<'a> {
    name: &'a str,
    weight: u64,
    x: f64,
    width: f64,
    row: usize,
}

/// Returns the block; none without stacks.
pub(super) fn block(input: &PageInput<'_>) -> Option<Markup> {
    let fold = input.fold.stacks.as_ref()?;
    let of_bytes = StackOptions { kernel: true, user: true, by: Weight::Bytes };
    let mut stacks = Stacks::new(fold, input.summary, of_bytes);
    let is_bytes = !stacks.is_nothing();
    if !is_bytes {
        stacks = Stacks::new(fold, input.summary, StackOptions { by: Weight::Count, ..of_bytes });
    }
    let root = tree(&stacks.folded());
    let mut drawn = Vec::new();
    place(&root, root.weight, 0.0, 0, &mut drawn);
    drawn.sort_by(|a, b| b.width.total_cmp(&a.width));
    let amount = |weight: u64| if is_bytes { size(weight) } else { count(weight) };
    let (functions, left_out) = drawing(&mut drawn, &amount, root.weight);
    let rows = drawn.iter().map(|frame| frame.row + 1).max().unwrap_or(0);
    (root.weight > 0).then(|| {
        html! {
            figure class="flame" {
                figcaption { p {
                    (amount(root.weight)) " by call chain: a disk or call, the thread, and the functions, each below its caller. "
                    span class="note" { "The width is the amount. Functions that are too narrow are left out." }
                    @if left_out > 0 {
                        " " (counted(left_out, "further function")) " of the narrowest would make the page too large."
                    }
                } }
                svg viewBox={ "0 0 1000 " (rows * ROW) } role="img" aria-labelledby="flame-t" {
                    title id="flame-t" { "Flame graph of " (amount(root.weight)) }
                    (PreEscaped(functions))
                }
            }
            @for note in stacks.notes() { p class="note" { (sentence(note)) } }
        }
    })
}

/// Draws the functions, the widest first, up to [`FRAMES_MAX`] and [`BYTES_MAX`]; keeps those that
/// are drawn, and returns the number of the others, too.
fn drawing(
    frames: &mut Vec<DrawnFrame<'_>>,
    amount: &impl Fn(u64) -> String,
    all: u64,
) -> (String, u64) {
    let mut text = String::new();
    let is_drawn = |frame: &DrawnFrame<'_>| {
        let end = text.len();
        text.push_str(&rectangle(frame, &amount(frame.weight), all).into_string());
        let fits = text.len() <= BYTES_MAX;
        if !fits {
            text.truncate(end);
        }
        fits
    };
    let drawn = frames.iter().take(FRAMES_MAX).map(is_drawn).take_while(|fits| *fits).count();
    let left_out = frames.len() - drawn;
    frames.truncate(drawn);
    (text, left_out as u64)
}

/// Joins lines of `name;name;… weight` to a tree.
fn tree(lines: &[String]) -> FlameFrame {
    let mut root = FlameFrame::default();
    for line in lines {
        let Some((names, weight)) = line.rsplit_once(' ') else { continue };
        let weight = weight.parse().unwrap_or(0);
        root.weight += weight;
        let mut frame = &mut root;
        for name in names.split(';').take(DEPTH_MAX) {
            frame = frame.called.entry(name.to_owned()).or_default();
            frame.weight += weight;
        }
    }
    root
}

fn place<'a>(frame: &'a FlameFrame, all: u64, x: f64, row: usize, drawn: &mut Vec<DrawnFrame<'a>>) {
    let mut x = x;
    for (name, called) in &frame.called {
        let width = ratio(called.weight, all) * WIDTH;
        if width >= NARROWEST {
            drawn.push(DrawnFrame { name, weight: called.weight, x, width, row });
            place(called, all, x, row + 1, drawn);
        }
        x += width;
    }
}

fn rectangle(frame: &DrawnFrame<'_>, amount: &str, all: u64) -> Markup {
    let DrawnFrame { name, weight, x, width, row } = frame;
    // The colour of a name is always the same.
    let color = name.bytes().fold(0_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 97) % 4;
    let fits = |letters: usize| {
        f64::from(u32::try_from(letters).unwrap_or(u32::MAX)) * LETTER < width - 4.0
    };
    // No name is longer than the picture.
    let shown: String = name
        .chars()
        .zip(1..)
        .take_while(|(_, length)| fits(*length))
        .map(|(letter, _)| letter)
        .collect();
    let length = shown.chars().count();
    html! {
        g {
            title { (cut(&sentence(name))) ": " (amount) ", " (shares::of(*weight, all)) }
            rect class={ "flame" (color) } x=(number(*x)) y=(row * ROW) width=(number(width - 0.3)) height=(ROW - 1) {}
            @if length >= 3 { text x=(number(x + 2.0)) y=(row * ROW + 12) { (sentence(&shown)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_tree_of_sums() {
        let lines = ["sda;dd;a;b 3", "sda;dd;a;c 5", "sdb;cp 2"].map(str::to_owned);
        let root = tree(&lines);
        let mut drawn = Vec::new();
        place(&root, root.weight, 0.0, 0, &mut drawn);
        let drawn: Vec<(&str, u64, usize)> =
            drawn.iter().map(|frame| (frame.name, frame.weight, frame.row)).collect();
        let expected = [
            ("sda", 8, 0),
            ("dd", 8, 1),
            ("a", 8, 2),
            ("b", 3, 3),
            ("c", 5, 3),
            ("sdb", 2, 0),
            ("cp", 2, 1),
        ];
        assert_eq!(drawn, expected);
    }

    #[test]
    fn long_names_are_cut_and_the_drawing_is_bounded() {
        let name = |number: usize| format!("f{number}_{}", "<".repeat(8191));
        let lines: Vec<String> =
            (0..1201).map(|number| format!("sda;{} 7", name(number))).collect();
        let root = tree(&lines);
        let mut drawn = Vec::new();
        place(&root, root.weight, 0.0, 0, &mut drawn);
        let all = drawn.len();
        let (text, left_out) = drawing(&mut drawn, &count, root.weight);
        assert!(text.len() <= BYTES_MAX && text.ends_with("</g>"), "{}", text.len());
        assert_eq!(text.matches("<g>").count(), drawn.len());
        assert!(drawn.len() > 101 && left_out > 101, "{} {left_out}", drawn.len());
        assert_eq!(drawn.len() as u64 + left_out, all as u64);
        let longest = text.split("<title>").map(str::len).max();
        assert!(longest.is_some_and(|bytes| bytes < 2000), "{longest:?}");
    }
}
