//! Sums of the ledgers of several captures.

use crate::anomaly::{AttributionCounts, ByLink, Ledger};

/// Adds the counters of another capture. What belongs to one capture stays out: times, the
/// launched program, the tracer's own calls, and requests of others by device.
pub fn add(ledger: &mut Ledger, other: &Ledger) {
    for (kind, count) in &other.anomalous {
        *ledger.anomalous.entry(*kind).or_default() += count;
    }
    for (reason, count) in &other.ignored {
        *ledger.ignored.entry(*reason).or_default() += count;
    }
    let counters = [
        (&mut ledger.records, other.records),
        (&mut ledger.events, other.events),
        (&mut ledger.lost, other.lost),
        (&mut ledger.entries, other.entries),
        (&mut ledger.exits, other.exits),
        (&mut ledger.pairs, other.pairs),
        (&mut ledger.open_at_end, other.open_at_end),
        (&mut ledger.cut_off, other.cut_off),
        (&mut ledger.lost_exits, other.lost_exits),
        (&mut ledger.orphan_exits, other.orphan_exits),
        (&mut ledger.requests, other.requests),
        (&mut ledger.requests_open, other.requests_open),
        (&mut ledger.requests_foreign, other.requests_foreign),
        (&mut ledger.unmatched, other.unmatched),
        (&mut ledger.asynchronous, other.asynchronous),
        (&mut ledger.async_ended, other.async_ended),
        (&mut ledger.async_open, other.async_open),
        (&mut ledger.async_unseen, other.async_unseen),
        (&mut ledger.async_nameless, other.async_nameless),
        (&mut ledger.async_orphans, other.async_orphans),
        (&mut ledger.async_unread, other.async_unread),
        (&mut ledger.unnamed, other.unnamed),
        (&mut ledger.untyped, other.untyped),
        (&mut ledger.unwaited, other.unwaited),
        (&mut ledger.children_left_out, other.children_left_out),
        (&mut ledger.execs, other.execs),
        (&mut ledger.unverified, other.unverified),
        (&mut ledger.unfollowed, other.unfollowed),
        (&mut ledger.other.count, other.other.count),
        (&mut ledger.spans.without_begin, other.spans.without_begin),
        (&mut ledger.spans.without_end, other.spans.without_end),
        (&mut ledger.spans.left_out, other.spans.left_out),
    ];
    // Saturating, as a log may be damaged.
    counters.into_iter().for_each(|(sum, count)| *sum = sum.saturating_add(count));
    add_attribution(&mut ledger.attribution, &other.attribution);
}

fn add_attribution(counts: &mut AttributionCounts, other: &AttributionCounts) {
    let by_link = [(&mut counts.files, other.files), (&mut counts.programs, other.programs)];
    for (sum, ByLink { exact, inferred, unknown }) in by_link {
        sum.exact = sum.exact.saturating_add(exact);
        sum.inferred = sum.inferred.saturating_add(inferred);
        sum.unknown = sum.unknown.saturating_add(unknown);
    }
    counts.kernel = counts.kernel.saturating_add(other.kernel);
    counts.unsized_extents += other.unsized_extents;
    counts.given_up += other.given_up;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anomaly::{AnomalyKind, Ignored};

    /// Fails if the sum of two ledgers that balance does not.
    #[test]
    fn sums_balance() {
        let mut one =
            Ledger { records: 10, events: 7, entries: 3, exits: 3, pairs: 3, ..Ledger::default() };
        one.anomalous.insert(AnomalyKind::Late, 1);
        one.ignored.insert(Ignored::Own, 2);
        assert_eq!(one.imbalances(), Ledger::default().imbalances());
        let mut sum = one.clone();
        add(&mut sum, &one);
        assert_eq!((sum.records, sum.events, sum.pairs), (20, 14, 6));
        assert_eq!(sum.imbalances(), Ledger::default().imbalances());
    }
}
