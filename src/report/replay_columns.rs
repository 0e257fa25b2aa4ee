//! What reports of replays have in common: the replay beside the capture.

use super::rows::column;
use crate::analysis::spread::Spread;
use crate::replay::comparison::Times;
use crate::replay::lateness::Lateness;
use crate::text::errno::ErrnoName;
use crate::text::table::{Cell, Column};

/// Times may be compared if operations began at theirs: 99 % of them no later than this, ns.
const LATENESS_MAX: u64 = 100_000;

/// And if all of them took as long as in the capture, but for one part in so many.
const SPAN_PARTS: u64 = 1000;

/// Columns of [`percentiles`].
pub(super) const PERCENTILES: [Column; 10] = [
    column("captured_p50_ns", "captured p50 us"),
    column("captured_p90_ns", "p90"),
    column("captured_p99_ns", "p99"),
    column("captured_p999_ns", "p99.9"),
    column("captured_max_ns", "max"),
    column("replayed_p50_ns", "replayed p50 us"),
    column("replayed_p90_ns", "p90"),
    column("replayed_p99_ns", "p99"),
    column("replayed_p999_ns", "p99.9"),
    column("replayed_max_ns", "max"),
];

/// Columns of [`totals`]; programs get the percentiles between, too.
pub(super) const TOTALS: [Column; 13] = [
    column("count", "operations"),
    column("captured_p50_ns", "captured p50 us"),
    column("captured_p90_ns", ""),
    column("captured_p99_ns", "p99"),
    column("captured_p999_ns", ""),
    column("captured_max_ns", "max"),
    column("captured_time_ns", "in all"),
    column("replayed_p50_ns", "replayed p50 us"),
    column("replayed_p90_ns", ""),
    column("replayed_p99_ns", "p99"),
    column("replayed_p999_ns", ""),
    column("replayed_max_ns", "max"),
    column("replayed_time_ns", "in all"),
];

/// How long they took, by percentiles.
pub(super) fn percentiles(times: &Times) -> impl Iterator<Item = Cell> {
    [&times.captured, &times.replayed].into_iter().flat_map(spread)
}

/// How many there were, and how long they took one by one and together.
pub(super) fn totals(times: &Times) -> impl Iterator<Item = Cell> {
    let part = |times: &Spread| spread(times).into_iter().chain([Cell::Ns(times.sum())]);
    let count = Cell::Count(times.replayed.count());
    std::iter::once(count).chain(part(&times.captured)).chain(part(&times.replayed))
}

fn spread(it: &Spread) -> [Cell; 5] {
    let [p50, p90, p99, p999] = [500, 900, 990, 999].map(|at| Cell::ns(it.percentile(at)));
    [p50, p90, p99, p999, Cell::Ns(it.max())]
}

/// How long a replay took, and how late it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace<'a> {
    pub(super) lateness: &'a Lateness,
    /// ns.
    pub(super) span: u64,
    /// How long the capture took, ns.
    pub(super) captured_span: u64,
    /// How long the replay was to take, ns; `None`: as fast as it could.
    pub(super) expected_span: Option<u64>,
}

impl Pace<'_> {
    /// For the facts of a report.
    pub(super) fn facts(&self) -> [(&'static str, &'static str, Cell); 9] {
        let late = self.lateness;
        let drift = self
            .expected_span
            .map(|expected_span| self.span.cast_signed() - expected_span.cast_signed());
        [
            ("span_ns", "took us", Cell::Ns(self.span)),
            ("captured_span_ns", "  in the capture", Cell::Ns(self.captured_span)),
            ("expected_span_ns", "  to be", Cell::ns(self.expected_span)),
            ("drift_ns", "", drift.map_or(Cell::None, Cell::Signed)),
            ("lateness_p50_ns", "late us: p50", Cell::ns(late.percentile(500))),
            ("lateness_p99_ns", "  p99", Cell::ns(late.percentile(990))),
            ("lateness_max_ns", "  max", Cell::ns(late.max())),
            ("late_over_1ms", "  more than 1 ms", Cell::Count(late.very_late)),
            ("timing_is_comparable", "times can be compared", self.verdict()),
        ]
    }

    /// Whether times can be compared with the capture: not where nothing was paced.
    fn verdict(&self) -> Cell {
        let Some(expected) = self.expected_span else { return Cell::None };
        let late = self.lateness.percentile(990).unwrap_or(0);
        let off = self.span.abs_diff(expected);
        Cell::Flag(late <= LATENESS_MAX && off <= expected / SPAN_PARTS)
    }
}

/// Sentences about other results that a report does not show; `what`: operations, or requests; of
/// `all` of them so many were kept.
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

/// What a call returned, for people.
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
    fn times_are_compared_if_nobody_was_late() {
        let verdict = |late: u64, span: u64, expected_span: Option<u64>| {
            let mut lateness = Lateness::default();
            lateness.add(late);
            Pace { lateness: &lateness, span, captured_span: 0, expected_span }.verdict()
        };
        assert_eq!(verdict(100_000, 1_001_000, Some(1_000_000)), Cell::Flag(true));
        assert_eq!(verdict(100_001, 1_000_000, Some(1_000_000)), Cell::Flag(false));
        assert_eq!(verdict(0, 1_001_001, Some(1_000_000)), Cell::Flag(false));
        assert_eq!(verdict(0, 998_999, Some(1_000_000)), Cell::Flag(false));
        assert_eq!(verdict(0, 1_000_000, None), Cell::None);
    }
}
