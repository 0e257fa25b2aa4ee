//! Columns of the time axis in which a rank reads or writes, one bit each.

use std::ops::RangeInclusive;

use crate::analysis::timeline::BINS_MAX;

/// Columns of a word.
const COLUMNS: usize = u64::BITS as usize;

/// Number of words.
const WORDS: usize = BINS_MAX / COLUMNS;

/// Set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnMarks([u64; WORDS]);

impl ColumnMarks {
    /// Marks columns.
    pub fn mark(&mut self, columns: RangeInclusive<usize>) {
        for column in columns.take_while(|column| *column < BINS_MAX) {
            if let Some(word) = self.0.get_mut(column / COLUMNS) {
                *word |= 1 << (column % COLUMNS);
            }
        }
    }

    /// Returns true if a column is marked.
    pub fn has(&self, column: usize) -> bool {
        self.0.get(column / COLUMNS).is_some_and(|word| word >> (column % COLUMNS) & 1 == 1)
    }

    /// Joins each pair of columns.
    pub(super) fn halve(&mut self) {
        let mut halved = Self::default();
        for column in (0..BINS_MAX).filter(|column| self.has(*column)) {
            halved.mark(column / 2..=column / 2);
        }
        *self = halved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_where_they_are_when_columns_join() {
        let mut marks = ColumnMarks::default();
        marks.mark(62..=65);
        marks.mark(511..=900);
        let columns = |marks: &ColumnMarks| -> Vec<usize> {
            (0..BINS_MAX + 2).filter(|column| marks.has(*column)).collect()
        };
        assert_eq!(columns(&marks), [62, 63, 64, 65, 511]);
        marks.halve();
        assert_eq!(columns(&marks), [31, 32, 255]);
    }
}
