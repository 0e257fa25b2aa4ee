//! Chart of two amounts over time: reads above a line, writes below it, on the same scale.

use maud::{Markup, html};

use super::chart::{PLOT, TimeChart, number, step_area};
use super::time_scale::{TimeScale, axis_end, ratio, trimmed};
use crate::analysis::timeline::TimeBin;
use crate::text::quantity;

/// Height of each side.
const SIDE: u32 = 80;

/// Height of the mark of a step that is cut off.
const CUT: u32 = 3;

/// Percentage of the steps that the axis has to hold.
const FREQUENT: usize = 95;

/// Factor above these from which a step is cut off.
const OUTLIER: u64 = 3;

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

impl<'a> MirrorChart<'a> {
    /// Returns the chart.
    pub(super) fn chart(&self, bins: &[TimeBin], scale: &TimeScale) -> TimeChart<'a> {
        let amounts: Vec<u64> = bins.iter().flat_map(self.all).collect();
        let largest = amounts.iter().copied().max().unwrap_or(0);
        let per_second = |amount: u64| {
            let rate = u128::from(amount) * 1_000_000_000 / u128::from(scale.bin_ns);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let top = axis_end(per_second(usual(&amounts)));
        let above = amounts.iter().filter(|amount| per_second(**amount) > top).count();
        let height = |amount: u64| ratio(per_second(amount), top).min(1.0) * f64::from(SIDE);
        let sides = Sides::of(bins, self.all);
        let base = sides.base();
        let x = |number: usize| scale.x(number as u64 * scale.bin_ns, PLOT);
        let side = |amounts: fn(&TimeBin) -> [u64; 2], place: usize, class: &str| {
            let sign = if place == 0 { -1.0 } else { 1.0 };
            let amount = |bin| amounts(bin).get(place).copied().unwrap_or(0);
            let steps = bins.iter().enumerate();
            let steps = steps.map(|(number, bin)| (x(number), base + sign * height(amount(bin))));
            let path = step_area(&steps.collect::<Vec<_>>(), x(bins.len()), base);
            html! { path class=(class) d=(path) {} }
        };
        let [read, written] = match self.part {
            Some(_) => ["read-light", "written-light"],
            None => ["read", "written"],
        };
        TimeChart {
            id: self.id,
            title: self.title,
            text: self.text(bins, per_second(largest), above),
            note: self.note,
            height: sides.height(),
            labels: self.labels(top, sides),
            legend: self.legend(above),
            plot: html! {
                (side(self.all, 0, read))
                (side(self.all, 1, written))
                @if let Some(part) = self.part {
                    (side(part, 0, "read"))
                    (side(part, 1, "written"))
                }
                line class="zero" x1="0" x2=(PLOT) y1=(number(base)) y2=(number(base)) {}
                @for (bin_number, bin) in bins.iter().enumerate() {
                    @for (place, amount) in (self.all)(bin).into_iter().enumerate() {
                        @if per_second(amount) > top { (cut_mark(x(bin_number), x(bin_number + 1), sides.end(place))) }
                    }
                }
            },
        }
    }

    /// Meanings of the colours, with that of the marks of steps that are cut off, if there are any.
    fn legend(&self, above: usize) -> Vec<(&'a str, &'a str)> {
        let mut legend = self.legend.clone();
        if above > 0 {
            legend.push(("cut", "higher than the chart"));
        }
        legend
    }

    /// Amount with its unit.
    fn amount(&self, amount: u64) -> String {
        if self.is_bytes { quantity::size(amount) } else { quantity::count(amount) }
    }

    fn text(&self, bins: &[TimeBin], peak: u64, above: usize) -> String {
        let mut sums = [0_u64; 2];
        for bin in bins {
            let amounts = (self.all)(bin);
            sums.iter_mut()
                .zip(amounts)
                .for_each(|(sum, amount)| *sum = sum.saturating_add(amount));
        }
        let [read, written] = sums.map(|sum| self.amount(sum));
        let [up, down] = if self.is_bytes { ["read", "written"] } else { ["reads", "writes"] };
        let above = match above {
            0 => String::new(),
            _ => {
                format!("; {} higher than the chart: red", quantity::counted(above as u64, "step"))
            }
        };
        let peak = self.amount(peak);
        format!("{read} {up} (up), {written} {down} (down); peak {peak}/s{above}.")
    }

    fn labels(&self, top: u64, sides: Sides) -> Vec<(f64, String)> {
        let (side, base) = (f64::from(SIDE), sides.base());
        let label = |amount: u64| format!("{}/s", trimmed(&self.amount(amount)));
        let mut labels = vec![(base, "0".to_owned())];
        if sides.up {
            labels.extend([(base - side, label(top)), (base - side / 2.0, label(top / 2))]);
        }
        if sides.down {
            labels.extend([(base + side / 2.0, label(top / 2)), (base + side, label(top))]);
        }
        labels
    }
}

/// Sides of the line on which a chart has anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sides {
    up: bool,
    down: bool,
}

impl Sides {
    /// Returns the sides with amounts; both if there are none.
    fn of(bins: &[TimeBin], all: fn(&TimeBin) -> [u64; 2]) -> Self {
        let has = |place: usize| {
            bins.iter().any(|bin| all(bin).get(place).is_some_and(|amount| *amount > 0))
        };
        match (has(0), has(1)) {
            (false, false) => Self { up: true, down: true },
            (up, down) => Self { up, down },
        }
    }

    /// Height of the chart.
    fn height(self) -> u32 {
        SIDE * (u32::from(self.up) + u32::from(self.down))
    }

    /// Distance of the line from the top.
    fn base(self) -> f64 {
        if self.up { f64::from(SIDE) } else { 0.0 }
    }

    /// Distance of the mark of a step that is cut off from the top.
    fn end(self, place: usize) -> u32 {
        if place == 0 { 0 } else { self.height() - CUT }
    }
}

/// Upper end of the usual amounts: a few much larger ones would leave no room for the others.
fn usual(amounts: &[u64]) -> u64 {
    let mut used: Vec<u64> = amounts.iter().copied().filter(|amount| *amount > 0).collect();
    used.sort_unstable();
    let largest = used.last().copied().unwrap_or(0);
    let frequent = used.get(used.len() * FREQUENT / 100).copied().unwrap_or(largest);
    let room = frequent.saturating_add(frequent / 4);
    if largest / OUTLIER > room { room } else { largest }
}

/// Mark at the end of a step that is cut off.
fn cut_mark(from: f64, to: f64, y: u32) -> Markup {
    html! { rect class="cut" x=(number(from)) width=(number((to - from).max(1.0))) y=(y) height=(CUT) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legend_has_the_marks_of_the_chart() {
        let of = |last: u64| {
            let bin = |bytes| TimeBin { moved: [bytes, 0], ..TimeBin::default() };
            let bins = [[bin(last)].as_slice(), &[bin(7); 40]].concat();
            let scale = TimeScale { from_ns: 0, to_ns: 41_000, bin_ns: 1000, origin_ns: 0 };
            let chart = MirrorChart {
                id: "a",
                title: "a",
                note: "",
                all: |bin| bin.moved,
                part: None,
                legend: vec![("read", "read")],
                is_bytes: true,
            };
            let chart = chart.chart(&bins, &scale);
            let has_mark = chart.plot.into_string().contains("class=\"cut\"");
            (has_mark, chart.legend.iter().any(|(class, _)| *class == "cut"))
        };
        assert_eq!([of(7), of(7919)], [(false, false), (true, true)]);
    }

    #[test]
    fn side_without_amounts_takes_no_room() {
        let bins = |moved: [u64; 2]| [TimeBin { moved, ..TimeBin::default() }];
        let of = |moved| {
            let sides = Sides::of(&bins(moved), |bin| bin.moved);
            (sides.height(), sides.base(), [0, 1].map(|place| sides.end(place)))
        };
        assert_eq!(of([5, 7]), (160, 80.0, [0, 157]));
        assert_eq!(of([5, 0]), (80, 80.0, [0, 77]));
        assert_eq!(of([0, 7]), (80, 0.0, [0, 77]));
        assert_eq!(of([0, 0]), (160, 80.0, [0, 157]));
    }
}
