//! Sums of the ledgers of several captures.

use super::{AttributionCounts, ByLink, Ledger};

impl Ledger {
    /// Adds the counters of another capture. What belongs to one capture stays out: times, the
    /// launched program, the tracer's own calls, and requests of others by device.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.anomalous {
            *self.anomalous.entry(*kind).or_default() += count;
        }
        for (reason, count) in &other.ignored {
            *self.ignored.entry(*reason).or_default() += count;
        }
        let counters = [
            (&mut self.records, other.records),
            (&mut self.events, other.events),
            (&mut self.lost, other.lost),
            (&mut self.entries, other.entries),
            (&mut self.exits, other.exits),
            (&mut self.pairs, other.pairs),
            (&mut self.open_at_end, other.open_at_end),
            (&mut self.cut_off, other.cut_off),
            (&mut self.lost_exits, other.lost_exits),
            (&mut self.orphan_exits, other.orphan_exits),
            (&mut self.requests, other.requests),
            (&mut self.requests_open, other.requests_open),
            (&mut self.requests_foreign, other.requests_foreign),
            (&mut self.unmatched, other.unmatched),
            (&mut self.asynchronous, other.asynchronous),
            (&mut self.async_ended, other.async_ended),
            (&mut self.async_open, other.async_open),
            (&mut self.async_unseen, other.async_unseen),
            (&mut self.async_nameless, other.async_nameless),
            (&mut self.async_orphans, other.async_orphans),
            (&mut self.async_unread, other.async_unread),
            (&mut self.unnamed, other.unnamed),
            (&mut self.untyped, other.untyped),
            (&mut self.unwaited, other.unwaited),
            (&mut self.children_left_out, other.children_left_out),
            (&mut self.execs, other.execs),
            (&mut self.unverified, other.unverified),
            (&mut self.unfollowed, other.unfollowed),
            (&mut self.other.count, other.other.count),
            (&mut self.spans.without_begin, other.spans.without_begin),
            (&mut self.spans.without_end, other.spans.without_end),
            (&mut self.spans.left_out, other.spans.left_out),
        ];
        // Saturating, as a log may be damaged.
        counters.into_iter().for_each(|(sum, count)| *sum = sum.saturating_add(count));
        self.attribution.add(&other.attribution);
    }
}

impl AttributionCounts {
    fn add(&mut self, other: &Self) {
        let by_link = [(&mut self.files, other.files), (&mut self.programs, other.programs)];
        for (sum, ByLink { exact, inferred, unknown }) in by_link {
            sum.exact = sum.exact.saturating_add(exact);
            sum.inferred = sum.inferred.saturating_add(inferred);
            sum.unknown = sum.unknown.saturating_add(unknown);
        }
        self.kernel = self.kernel.saturating_add(other.kernel);
        self.unsized_extents += other.unsized_extents;
        self.given_up += other.given_up;
    }
}

#[cfg(test)]
mod tests {
    use crate::anomaly::{AnomalyKind, Ignored, Ledger};

    /// Fails if the sum of two ledgers that balance does not.
    #[test]
    fn sums_balance() {
        let mut one =
            Ledger { records: 10, events: 7, entries: 3, exits: 3, pairs: 3, ..Ledger::default() };
        one.anomalous.insert(AnomalyKind::Late, 1);
        one.ignored.insert(Ignored::Own, 2);
        assert_eq!(one.imbalances(), Ledger::default().imbalances());
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.records, sum.events, sum.pairs), (20, 14, 6));
        assert_eq!(sum.imbalances(), Ledger::default().imbalances());
    }
}
