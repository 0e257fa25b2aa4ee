//! Activity by time: for processes, threads, files and devices a row each, of the columns in which
//! they did something.

use std::borrow::Borrow;
use std::hash::Hash;

use super::time_axis::spread;
use crate::analysis::bounded_map::BoundedMap;

/// Amounts of a row, or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivitySum {
    /// Operations or requests that ended.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time in them, ns.
    pub ns: u64,
}

impl ActivitySum {
    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Amounts of a row in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityCell {
    /// Number of the column.
    pub column: u32,
    /// Amounts in the column.
    pub sum: ActivitySum,
}

/// Activity of one process, thread, file or device.
#[derive(Clone, Debug, Default)]
pub struct ActivityRow {
    /// Sum over all columns.
    pub total: ActivitySum,
    /// Columns with activity, in order.
    pub cells: Vec<ActivityCell>,
}

impl ActivityRow {
    fn add(&mut self, column: usize, sum: &ActivitySum) {
        let column = u32::try_from(column).unwrap_or(u32::MAX);
        // Most operations end in the newest column.
        let last = self.cells.last_mut().filter(|cell| cell.column == column);
        if let Some(last) = last {
            return last.sum.merge(sum);
        }
        match self.cells.binary_search_by_key(&column, |cell| cell.column) {
            Ok(place) => {
                if let Some(cell) = self.cells.get_mut(place) {
                    cell.sum.merge(sum);
                }
            }
            Err(place) => self.cells.insert(place, ActivityCell { column, sum: *sum }),
        }
    }

    /// Adds another row.
    pub fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        let own = std::mem::take(&mut self.cells);
        self.cells = [own.as_slice(), &other.cells].concat();
        self.cells.sort_by_key(|cell| cell.column);
        self.join_equal();
    }

    fn halve(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.column /= 2);
        self.join_equal();
    }

    /// Joins neighbours that are in the same column.
    fn join_equal(&mut self) {
        self.cells.dedup_by(|next, cell| {
            let is_same = next.column == cell.column;
            if is_same {
                cell.sum.merge(&next.sum);
            }
            is_same
        });
    }
}

/// Operation or request of a row: its amounts, and the time that it took, ns since the origin.
#[derive(Clone, Copy, Debug)]
pub struct ActivitySpan {
    /// Begin of the operation.
    pub from: u64,
    /// End of the operation.
    pub to: u64,
    /// Time that it took, ns; it may have begun before the origin.
    pub ns: u64,
    /// Bytes that it moved.
    pub bytes: u64,
}

/// Rows of one kind.
#[derive(Clone, Debug)]
pub struct ActivityRows<K> {
    /// Rows by key, and one of all keys beyond the limit.
    pub rows: BoundedMap<K, ActivityRow>,
    /// Number of cells of all rows.
    cells: usize,
}

impl<K> Default for ActivityRows<K> {
    fn default() -> Self {
        Self { rows: BoundedMap::default(), cells: 0 }
    }
}

impl<K: Eq + Hash> ActivityRows<K> {
    /// Returns the number of the row of a key, which `own` creates.
    pub(super) fn place<Q>(&mut self, key: &Q, own: impl FnOnce() -> K) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.rows.place(key, own)
    }

    /// Adds an operation: its time to all columns that it touches, the rest to its last one.
    pub(super) fn add(&mut self, place: usize, span: &ActivitySpan, shift: u32) {
        let row = self.rows.at(place);
        let before = row.cells.len();
        let last = usize::try_from(span.to >> shift).unwrap_or(usize::MAX);
        spread(span.from, span.to, shift, |column, ns| {
            let is_last = column == last;
            let (operations, bytes) = if is_last { (1, span.bytes) } else { (0, 0) };
            row.add(column, &ActivitySum { operations, bytes, ns });
        });
        row.total.merge(&ActivitySum { operations: 1, bytes: span.bytes, ns: span.ns });
        self.cells += row.cells.len() - before;
    }

    /// Returns the number of cells of all rows.
    pub(super) fn cells(&self) -> usize {
        self.cells
    }

    /// Joins each pair of columns.
    pub(super) fn halve(&mut self) {
        self.rows.each_mut(ActivityRow::halve);
        let rows = self.rows.iter().map(|(_, row)| row).chain(self.rows.others());
        self.cells = rows.map(|row| row.cells.len()).sum();
    }
}
