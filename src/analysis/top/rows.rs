//! Rows of a view, with totals and histories, and a limit on their number.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::amounts::TopAmounts;

/// Number of intervals that a history has.
pub const HISTORY: usize = 16;

/// Number of rows that a view keeps from one interval to the next. Those that have been idle for
/// the longest time are summed up beyond it.
pub const ROWS_MAX: usize = 4096;

/// Row of a view.
#[derive(Clone, Debug, Default)]
pub struct TopRow {
    /// Amounts of the last interval.
    pub last: TopAmounts,
    /// Amounts of all intervals.
    pub total: TopAmounts,
    /// Mean durations of the last intervals, ns, the newest last; 0: no operation.
    pub history: [u64; HISTORY],
    /// Number of intervals since the last operation.
    pub idle: u64,
}

impl TopRow {
    /// Begins a new interval.
    fn shift(&mut self) {
        self.last = TopAmounts::default();
        self.history.rotate_left(1);
        if let Some(newest) = self.history.last_mut() {
            *newest = 0;
        }
        self.idle += 1;
    }

    fn add(&mut self, amounts: &TopAmounts) {
        self.last.merge(amounts);
        self.total.merge(amounts);
        self.idle = 0;
        if let Some(newest) = self.history.last_mut() {
            // A mean of less than a nanosecond is an operation all the same.
            *newest = self.last.mean_ns().map_or(0, |mean_ns| mean_ns.max(1));
        }
    }
}

/// Operations without a row of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopRest {
    /// Number of rows that were summed up.
    pub rows: u64,
    /// Amounts of the last interval.
    pub last: TopAmounts,
    /// Amounts of all intervals.
    pub total: TopAmounts,
}

/// Rows by key.
#[derive(Clone, Debug)]
pub(super) struct TopRows<K> {
    rows: FxHashMap<K, TopRow>,
    rest: TopRest,
}

impl<K> Default for TopRows<K> {
    fn default() -> Self {
        Self { rows: FxHashMap::default(), rest: TopRest::default() }
    }
}

impl<K: Clone + Eq + Hash + Ord> TopRows<K> {
    /// Adds the sums of a closed interval; `others` have no key.
    pub(super) fn close(
        &mut self,
        done: impl IntoIterator<Item = (K, TopAmounts)>,
        others: &TopAmounts,
    ) {
        self.rows.values_mut().for_each(TopRow::shift);
        self.rest.last = *others;
        self.rest.total.merge(others);
        for (key, amounts) in done {
            self.rows.entry(key).or_default().add(&amounts);
        }
        self.shrink();
    }

    /// Sums up the rows beyond the limit: those that were idle for longest, and of these those with
    /// the least time.
    fn shrink(&mut self) {
        let Some(excess) = self.rows.len().checked_sub(ROWS_MAX) else { return };
        let mut order: Vec<(u64, std::cmp::Reverse<u64>, K)> = self
            .rows
            .iter()
            .map(|(key, row)| (row.idle, std::cmp::Reverse(row.total.io_ns), key.clone()))
            .collect();
        order.sort_unstable();
        for (_, _, key) in order.into_iter().rev().take(excess) {
            self.remove(&key);
        }
    }

    /// Removes a row: its amounts belong to the rest.
    pub(super) fn remove(&mut self, key: &K) {
        if let Some(row) = self.rows.remove(key) {
            self.rest.rows += 1;
            self.rest.last.merge(&row.last);
            self.rest.total.merge(&row.total);
        }
    }

    /// Removes the rows whose keys are not wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&K) -> bool) {
        let unwanted: Vec<K> = self.rows.keys().filter(|key| !is_wanted(key)).cloned().collect();
        unwanted.iter().for_each(|key| self.remove(key));
    }

    /// Returns all rows, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &TopRow)> {
        self.rows.iter()
    }

    /// True if the key has a row.
    pub(super) fn has(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    /// Returns the operations without a row.
    pub(super) fn rest(&self) -> &TopRest {
        &self.rest
    }
}
