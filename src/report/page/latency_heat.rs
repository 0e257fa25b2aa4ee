//! Heat map of durations over time, with lines of the median and of the slowest hundredth.

use std::fmt::Write;
use std::ops::Range;

use maud::{Markup, PreEscaped, html};

use super::chart::{PLOT, TimeChart, number};
use super::heat::{HeatPaths, level, scale_legend};
use super::input::PageInput;
use super::time_scale::{TimeScale, ratio, trimmed};
use crate::analysis::timeline::{IoTimeline, LatencyGrid, PARTS_OF_OCTAVE, RANGES, percentile};
use crate::text::quantity;

/// Columns of the map at most.
const COLUMNS_MAX: usize = 256;

/// Height of a field: a range in which the duration doubles.
const FIELD: u32 = 9;

/// Counts of a column by range.
type HeatColumn = Vec<u64>;

/// Returns the figure; empty without operations on files.
pub(super) fn figure(input: &PageInput<'_>, scale: &TimeScale) -> Markup {
    let Some((chart, largest)) = chart(input, scale) else { return html! {} };
    html! {
        (chart.figure(scale))
        (scale_legend(&quantity::counted(largest, "operation"), "operations in a field"))
    }
}

/// Returns the chart and the largest number of operations in a field; `None`: there are no
/// operations on files.
pub(super) fn chart(input: &PageInput<'_>, scale: &TimeScale) -> Option<(TimeChart<'static>, u64)> {
    let fold = &input.fold.timeline;
    let first = usize::try_from(scale.from_ns / scale.bin_ns).unwrap_or(0);
    let bins_of_column =
        (fold.bins.len() - first.min(fold.bins.len())).div_ceil(COLUMNS_MAX).max(1);
    let columns = columns(fold, first, bins_of_column);
    let used = |range: &usize| {
        columns.iter().any(|column| column.get(*range).is_some_and(|count| *count > 0))
    };
    let (low, high) = ((0..RANGES).find(used)?, (0..RANGES).rev().find(used)?);
    let octaves = low / PARTS_OF_OCTAVE..high / PARTS_OF_OCTAVE + 1;
    let rows = u32::try_from(octaves.len()).unwrap_or(0);
    let (paths, largest) = fields(&columns, &octaves);
    let step = scale.bin_ns * bins_of_column as u64;
    let from = scale.from_ns / scale.bin_ns * scale.bin_ns;
    let left = scale.x(from, PLOT);
    let unit = ratio(step, scale.ns()) * f64::from(PLOT);
    let line = |per_mille| line(&columns, per_mille, &octaves, [left, unit]);
    let chart = TimeChart {
        id: "chart-latency",
        title: "Durations of operations on files",
        text: text(&columns),
        note: "Each row doubles the duration. The lines are estimates within a quarter of a row; exact percentiles are in the tables.",
        height: rows * FIELD,
        labels: labels(&octaves),
        legend: vec![("p50", "p50: half of the operations are faster"), ("p99", "p99")],
        plot: html! {
            g transform={ "translate(" (number(left)) " 0) scale(" (format!("{unit:.4}")) " " (FIELD) ")" } { (paths.markup("h")) }
            path class="p50" d=(line(500)) {}
            path class="p99" d=(line(990)) {}
        },
    };
    Some((chart, largest))
}

/// Counts of columns of several bins each.
fn columns(fold: &IoTimeline, first: usize, bins_of_column: usize) -> Vec<HeatColumn> {
    let bins: Vec<usize> = (first..fold.bins.len()).collect();
    let column = |bins: &[usize]| {
        let mut sums = vec![0; RANGES];
        for bin in bins {
            sums.iter_mut().zip(fold.latency.bin(*bin)).for_each(|(sum, count)| *sum += count);
        }
        sums
    };
    bins.chunks(bins_of_column).map(column).collect()
}

/// Fields of the map, the longest durations first, and the largest count.
fn fields(columns: &[HeatColumn], octaves: &Range<usize>) -> (HeatPaths, u64) {
    let count = |column: &HeatColumn, octave: usize| -> u64 {
        let ranges = octave * PARTS_OF_OCTAVE..(octave + 1) * PARTS_OF_OCTAVE;
        column.get(ranges).unwrap_or_default().iter().sum()
    };
    let all = columns.iter().flat_map(|column| octaves.clone().map(|octave| count(column, octave)));
    let largest = all.max().unwrap_or(0);
    let mut paths = HeatPaths::default();
    for (y, octave) in octaves.clone().rev().enumerate() {
        let levels: Vec<usize> =
            columns.iter().map(|column| level(count(column, octave), largest)).collect();
        paths.row(&levels, u32::try_from(y).unwrap_or(0), 1);
    }
    (paths, largest)
}

/// Path of a percentile: a step for each column with operations.
fn line(
    columns: &[HeatColumn],
    per_mille: u64,
    octaves: &Range<usize>,
    [left, unit]: [f64; 2],
) -> Markup {
    let top = LatencyGrid::begin_ns(octaves.end * PARTS_OF_OCTAVE);
    let mut path = String::new();
    let mut x = left;
    let mut is_joined = false;
    for column in columns {
        if let Some(ns) = percentile(column, per_mille) {
            let y = height_of(top, ns);
            let command = if is_joined { 'L' } else { 'M' };
            let _ = write!(path, "{command}{} {}H{}", number(x), number(y), number(x + unit));
        }
        is_joined = column.iter().any(|count| *count > 0);
        x += unit;
    }
    PreEscaped(path)
}

/// Labels at powers of ten.
fn labels(octaves: &Range<usize>) -> Vec<(f64, String)> {
    let [low, top] =
        [octaves.start, octaves.end].map(|octave| LatencyGrid::begin_ns(octave * PARTS_OF_OCTAVE));
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let shown = powers.filter(|power| (low..=top).contains(power));
    shown.map(|power| (height_of(top, power), trimmed(&quantity::time(power)))).collect()
}

/// Distance of a duration from the top of the map.
fn height_of(top: u64, ns: u64) -> f64 {
    f64::from(FIELD) * ratio(top, ns).log2()
}

fn text(columns: &[HeatColumn]) -> String {
    let mut all = vec![0; RANGES];
    for column in columns {
        all.iter_mut().zip(column).for_each(|(sum, count)| *sum += count);
    }
    let at = |per_mille| percentile(&all, per_mille).map_or_else(String::new, quantity::time);
    format!(
        "{}: half of them take up to about {}, 99 % up to about {}.",
        quantity::counted(all.iter().sum(), "operation"),
        at(500),
        at(990)
    )
}
