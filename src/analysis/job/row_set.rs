//! Set of rows as ranges: the ranks of a job that use one file mostly follow each other.

/// Set of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    /// First and last row of each range, in order; no two touch.
    ranges: Vec<[u32; 2]>,
}

impl RowSet {
    /// Adds a row.
    pub(super) fn insert(&mut self, row: u32) {
        let place = self.ranges.partition_point(|range| range[1] < row);
        if self.ranges.get(place).is_some_and(|range| range[0] <= row) {
            return;
        }
        let follows = |range: &[u32; 2]| range[1].checked_add(1) == Some(row);
        let is_after = place.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(follows);
        let is_before =
            self.ranges.get(place).is_some_and(|range| row.checked_add(1) == Some(range[0]));
        match (is_after, is_before) {
            (true, true) => {
                let next = self.ranges.remove(place);
                self.last_before(place, next[1]);
            }
            (true, false) => self.last_before(place, row),
            (false, true) => {
                if let Some(range) = self.ranges.get_mut(place) {
                    range[0] = row;
                }
            }
            (false, false) => self.ranges.insert(place, [row; 2]),
        }
    }

    /// Changes the last row of the range before a place.
    fn last_before(&mut self, place: usize, row: u32) {
        let before = place.checked_sub(1).and_then(|at| self.ranges.get_mut(at));
        before.into_iter().for_each(|range| range[1] = row);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|[first, last]| u64::from(last - first) + 1).sum()
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        let rows = self.ranges.iter().flat_map(|[first, last]| *first..=*last);
        rows.filter_map(|row| usize::try_from(row).ok())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Fails if rows in any order are lost, repeated, or not joined to ranges.
        #[test]
        fn rows_are_those_that_were_added(all in prop::collection::vec(0_u32..40, 0..60)) {
            let mut set = RowSet::default();
            all.iter().for_each(|row| set.insert(*row));
            let expected: BTreeSet<usize> = all.iter().map(|row| *row as usize).collect();
            prop_assert_eq!(set.rows().collect::<Vec<_>>(), expected.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), expected.len() as u64);
            prop_assert!(set.ranges.windows(2).all(|pair| pair[0][1] + 1 < pair[1][0]));
        }
    }
}
