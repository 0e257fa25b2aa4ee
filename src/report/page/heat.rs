//! Fields of a heat map: their levels, and their paths in SVG.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::chart::swatch;

/// Number of levels; level 0 is nothing.
pub(super) const LEVELS: usize = 7;

/// Factor between two levels.
const FACTOR: u64 = 4;

/// Returns the level of an amount: the largest one has the last level, and each level below is for
/// a quarter.
pub(super) fn level(amount: u64, largest: u64) -> usize {
    if amount == 0 {
        return 0;
    }
    let mut level = LEVELS;
    let mut bound = largest / FACTOR;
    while level > 1 && amount <= bound {
        level -= 1;
        bound /= FACTOR;
    }
    level
}

/// Paths of fields, one for each level.
#[derive(Clone, Debug, Default)]
pub(super) struct HeatPaths {
    paths: [String; LEVELS],
}

impl HeatPaths {
    /// Adds a row of fields of equal width: the level of each. Neighbours of a level are one field.
    pub(super) fn row(&mut self, levels: &[usize], y: u32, height: u32) {
        let mut from = 0;
        while let Some(level) = levels.get(from) {
            let length = levels.iter().skip(from).take_while(|next| *next == level).count();
            if let Some(path) = level.checked_sub(1).and_then(|place| self.paths.get_mut(place)) {
                let _ = write!(path, "M{from} {y}h{length}v{height}h-{length}z");
            }
            from += length;
        }
    }

    /// Returns the elements; their unit is a field, and `kind` is the letter of the colours.
    pub(super) fn markup(&self, kind: &str) -> Markup {
        html! {
            @for (place, path) in self.paths.iter().enumerate() {
                @if !path.is_empty() { path class={ (kind) (place + 1) } d=(PreEscaped(path)) {} }
            }
        }
    }
}

/// Legend of the levels; `largest` is the text of the largest amount.
pub(super) fn scale_legend(largest: &str, what: &str) -> Markup {
    html! {
        p class="scale" {
            "colour: " (what) ", "
            @for level in 1..=LEVELS { (swatch(&format!("h{level}"))) }
            " up to " (largest) "; each step is four times the one before"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_quarters_of_the_next() {
        let levels = [0, 1, 10, 26, 100, 101, 400].map(|amount| level(amount, 400));
        assert_eq!(levels, [0, 3, 5, 6, 6, 7, 7]);
        assert_eq!(level(1, u64::MAX), 1);
        let mut paths = HeatPaths::default();
        paths.row(&[0, 7, 7, 1], 2, 3);
        assert_eq!(paths.paths[6], "M1 2h2v3h-2z");
        assert_eq!(paths.paths[0], "M3 2h1v3h-1z");
    }
}
