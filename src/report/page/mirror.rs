//! Chart of two amounts over time: reads above a line, writes below it, on the same scale.

use maud::{Markup, html};

use super::chart::{PLOT, TimeChart, step_area};
use super::time_scale::{TimeScale, ratio, round_up, trimmed};
use crate::analysis::timeline::TimeBin;
use crate::text::quantity;

/// Height of each side.
const SIDE: u32 = 80;

/// Two amounts over time.
pub(super) struct MirrorChart<'a> {
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) note: &'a str,
    /// Amounts that are read and written in a bin.
    pub(super) all: fn(&TimeBin) -> [u64; 2],
    /// Parts of them that have a stronger colour.
    pub(super) part: Option<fn(&TimeBin) -> [u64; 2]>,
    /// Meanings of the colours: read, written, and the stronger ones.
    pub(super) legend: Vec<(&'a str, &'a str)>,
    /// True for bytes, false for counts.
    pub(super) is_bytes: bool,
}

impl MirrorChart<'_> {
    /// Returns the figure.
    pub(super) fn figure(&self, bins: &[TimeBin], scale: &TimeScale) -> Markup {
        let largest = bins.iter().flat_map(self.all).max().unwrap_or(0);
        let per_second = |amount: u64| {
            let rate = u128::from(amount) * 1_000_000_000 / u128::from(scale.bin_ns);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let top = round_up(per_second(largest)).max(1);
        let height = |amount: u64| ratio(per_second(amount), top).min(1.0) * f64::from(SIDE);
        let side = |amounts: fn(&TimeBin) -> [u64; 2], place: usize, class: &str| {
            let base = f64::from(SIDE);
            let sign = if place == 0 { -1.0 } else { 1.0 };
            let mut steps = Vec::new();
            for (number, bin) in bins.iter().enumerate() {
                let x = scale.x(number as u64 * scale.bin_ns, PLOT);
                let amount = amounts(bin).get(place).copied().unwrap_or(0);
                steps.push((x, base + sign * height(amount)));
            }
            let end = scale.x(bins.len() as u64 * scale.bin_ns, PLOT);
            html! { path class=(class) d=(step_area(&steps, end, base)) {} }
        };
        let is_split = self.part.is_some();
        let [read, written] =
            if is_split { ["read-light", "written-light"] } else { ["read", "written"] };
        let chart = TimeChart {
            id: self.id,
            title: self.title,
            text: self.text(bins, per_second(largest)),
            note: self.note,
            height: 2 * SIDE,
            labels: self.labels(top),
            legend: self.legend.clone(),
            plot: html! {
                (side(self.all, 0, read))
                (side(self.all, 1, written))
                @if let Some(part) = self.part {
                    (side(part, 0, "read"))
                    (side(part, 1, "written"))
                }
                line class="zero" x1="0" x2=(PLOT) y1=(SIDE) y2=(SIDE) {}
            },
        };
        chart.figure(scale)
    }

    /// Amount with its unit.
    fn amount(&self, amount: u64) -> String {
        if self.is_bytes { quantity::size(amount) } else { quantity::count(amount) }
    }

    fn text(&self, bins: &[TimeBin], peak: u64) -> String {
        let mut sums = [0_u64; 2];
        for bin in bins {
            let amounts = (self.all)(bin);
            sums.iter_mut()
                .zip(amounts)
                .for_each(|(sum, amount)| *sum = sum.saturating_add(amount));
        }
        let [read, written] = sums.map(|sum| self.amount(sum));
        let what = if self.is_bytes { ["read", "written"] } else { ["reads", "writes"] };
        format!(
            "{read} {} (up), {written} {} (down); peak {}/s.",
            what[0],
            what[1],
            self.amount(peak)
        )
    }

    fn labels(&self, top: u64) -> Vec<(f64, String)> {
        let side = f64::from(SIDE);
        let label = |amount: u64| format!("{}/s", trimmed(&self.amount(amount)));
        vec![
            (0.0, label(top)),
            (side / 2.0, label(top / 2)),
            (side, "0".to_owned()),
            (side * 1.5, label(top / 2)),
            (side * 2.0, label(top)),
        ]
    }
}
