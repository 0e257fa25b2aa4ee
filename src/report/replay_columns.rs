//! Common columns of reports on replays: captured and replayed values next to each other.

use super::rows::column;
use crate::analysis::histogram::Histogram;
use crate::replay::comparison::TimePair;
use crate::replay::lateness::Lateness;
use crate::text::errno::ErrnoName;
use crate::text::table::{Cell, Column};
use crate::units::Nanos;

/// Largest 99th percentile of the lateness with which times are comparable.
const LATENESS_MAX: Nanos = Nanos(100_000);

/// Largest deviation of the duration with which times are comparable, as one part in this number.
const SPAN_PARTS: u64 = 1000;

/// Columns of [`percentiles`].
pub(super) const PERCENTILES: [Column; 10] = [
    column("captured_p50_ns", "captured p50"),
    column("captured_p90_ns", "p90"),
    column("captured_p99_ns", "p99"),
    column("captured_p999_ns", "p99.9"),
    column("captured_max_ns", "max"),
    column("replayed_p50_ns", "replayed p50"),
    column("replayed_p90_ns", "p90"),
    column("replayed_p99_ns", "p99"),
    column("replayed_p999_ns", "p99.9"),
    column("replayed_max_ns", "max"),
];

/// Columns of [`totals`]; programs also get the percentiles between.
pub(super) const TOTALS: [Column; 13] = [
    column("count", "operations"),
    column("captured_p50_ns", "captured p50"),
    column("captured_p90_ns", ""),
    column("captured_p99_ns", "p99"),
    column("captured_p999_ns", ""),
    column("captured_max_ns", "max"),
    column("captured_time_ns", "in all"),
    column("replayed_p50_ns", "replayed p50"),
    column("replayed_p90_ns", ""),
    column("replayed_p99_ns", "p99"),
    column("replayed_p999_ns", ""),
    column("replayed_max_ns", "max"),
    column("replayed_time_ns", "in all"),
];

/// Percentiles of durations.
pub(super) fn percentiles(times: &TimePair) -> impl Iterator<Item = Cell> {
    [&times.captured, &times.replayed].into_iter().flat_map(spread)
}

/// Number of operations, percentiles and sum of their durations.
pub(super) fn totals(times: &TimePair) -> impl Iterator<Item = Cell> {
    let part = |times: &Histogram| spread(times).into_iter().chain([Cell::Ns(times.sum())]);
    let count = Cell::Count(times.replayed.count());
    std::iter::once(count).chain(part(&times.captured)).chain(part(&times.replayed))
}

fn spread(times: &Histogram) -> [Cell; 5] {
    let [p50, p90, p99, p999] = [500, 900, 990, 999].map(|at| Cell::ns(times.percentile(at)));
    [p50, p90, p99, p999, Cell::Ns(times.max())]
}

/// Duration of a replay, and its lateness.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace<'a> {
    pub(super) lateness: &'a Lateness,
    /// Duration of the replay.
    pub(super) span: Nanos,
    /// Duration of the capture.
    pub(super) captured_span: Nanos,
    /// Planned duration of the replay; `None`: as short as possible.
    pub(super) expected_span: Option<Nanos>,
}

impl Pace<'_> {
    /// Facts of a report.
    pub(super) fn facts(&self) -> [(&'static str, &'static str, Cell); 9] {
        let late = self.lateness;
        let ns = |time: Option<Nanos>| Cell::ns(time.map(|time| time.0));
        let drift = self
            .expected_span
            .map(|expected_span| self.span.0.cast_signed() - expected_span.0.cast_signed());
        [
            ("span_ns", "duration", Cell::Ns(self.span.0)),
            ("captured_span_ns", "  in the capture", Cell::Ns(self.captured_span.0)),
            ("expected_span_ns", "  expected", ns(self.expected_span)),
            ("drift_ns", "", drift.map_or(Cell::None, Cell::Signed)),
            ("lateness_p50_ns", "lateness: p50", ns(late.percentile(500))),
            ("lateness_p99_ns", "  p99", ns(late.percentile(990))),
            ("lateness_max_ns", "  max", ns(late.max())),
            ("late_over_1ms", "  more than 1 ms", Cell::Count(late.very_late)),
            ("timing_is_comparable", "times can be compared", self.verdict()),
        ]
    }

    /// True if times can be compared with the capture: not if the replay was not paced.
    fn verdict(&self) -> Cell {
        let Some(Nanos(expected)) = self.expected_span else { return Cell::None };
        let late = self.lateness.percentile(990).unwrap_or_default();
        let off = self.span.0.abs_diff(expected);
        Cell::Flag(late <= LATENESS_MAX && off <= expected / SPAN_PARTS)
    }
}

/// Notes on other results that a report does not show; `what`: operations, or requests; `kept` of
/// `all` were kept.
pub(super) fn not_shown(what: &str, all: u64, kept: usize, not_shown: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if all > kept as u64 {
        notes.push(format!("of {all} {what} with other results the first {kept} are kept"));
    }
    if not_shown > 0 {
        notes.push(format!(
            "{not_shown} of the {what} with other results are not shown; -n 0 shows all"
        ));
    }
    notes
}

/// Result of a call, for people.
pub(super) fn result(ret: i64) -> Cell {
    match i32::try_from(ret.saturating_neg()) {
        Ok(errno @ 1..=4095) => Cell::Word(ErrnoName(errno).to_string()),
        _ => Cell::Signed(ret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_only_without_lateness() {
        let verdict = |late, span, expected_span: Option<u64>| {
            let mut lateness = Lateness::default();
            lateness.add(Nanos(late));
            let (span, expected_span) = (Nanos(span), expected_span.map(Nanos));
            let captured_span = Nanos::default();
            Pace { lateness: &lateness, span, captured_span, expected_span }.verdict()
        };
        assert_eq!(verdict(100_000, 1_001_000, Some(1_000_000)), Cell::Flag(true));
        assert_eq!(verdict(100_001, 1_000_000, Some(1_000_000)), Cell::Flag(false));
        assert_eq!(verdict(0, 1_001_001, Some(1_000_000)), Cell::Flag(false));
        assert_eq!(verdict(0, 998_999, Some(1_000_000)), Cell::Flag(false));
        assert_eq!(verdict(0, 1_000_000, None), Cell::None);
    }
}
