//! Table of tasks by number: processes by pid, threads by tid.
//!
//! Each record of a call looks its process and its thread up several times. Most of these look-ups
//! take the short way: a small array that has the slots of recent numbers.

use std::array;
use std::cell::Cell;

use rustc_hash::FxHashMap;

/// Recent numbers that are kept, one for each value of their lowest bits.
const RECENT: usize = 256;

/// A number and the slot of its task.
#[derive(Clone, Copy, Debug)]
struct RecentSlot {
    number: i32,
    slot: usize,
}

/// Slot that no task has.
const NO_SLOT: usize = usize::MAX;

/// Tasks by number.
#[derive(Debug)]
pub(super) struct TaskTable<T> {
    slots: FxHashMap<i32, usize>,
    tasks: Vec<Option<T>>,
    free: Vec<usize>,
    recent: Box<[Cell<RecentSlot>; RECENT]>,
}

impl<T> Default for TaskTable<T> {
    fn default() -> Self {
        let none = |_| Cell::new(RecentSlot { number: 0, slot: NO_SLOT });
        Self {
            slots: FxHashMap::default(),
            tasks: Vec::new(),
            free: Vec::new(),
            recent: Box::new(array::from_fn(none)),
        }
    }
}

impl<T> TaskTable<T> {
    /// Returns the number of tasks.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the place of a number among the recent ones.
    #[inline]
    fn recent_place(&self, number: i32) -> &Cell<RecentSlot> {
        let place = number.cast_unsigned() as usize % RECENT;
        self.recent.get(place).unwrap_or(&self.recent[0])
    }

    #[inline]
    fn slot(&self, number: i32) -> Option<usize> {
        let place = self.recent_place(number);
        let recent = place.get();
        if recent.number == number && recent.slot != NO_SLOT {
            return Some(recent.slot);
        }
        let slot = *self.slots.get(&number)?;
        place.set(RecentSlot { number, slot });
        Some(slot)
    }

    /// Returns true if a task has the number.
    pub(super) fn contains(&self, number: i32) -> bool {
        self.slot(number).is_some()
    }

    /// Returns the task of a number.
    #[inline]
    pub(super) fn get(&self, number: i32) -> Option<&T> {
        self.tasks.get(self.slot(number)?)?.as_ref()
    }

    /// Returns the task of a number for changes.
    #[inline]
    pub(super) fn get_mut(&mut self, number: i32) -> Option<&mut T> {
        let slot = self.slot(number)?;
        self.tasks.get_mut(slot)?.as_mut()
    }

    /// Returns the task of a number; makes it if there is none.
    #[inline]
    pub(super) fn get_or_insert_with(&mut self, number: i32, make: impl FnOnce() -> T) -> &mut T {
        let slot = self.slot(number).unwrap_or_else(|| self.add_slot(number));
        // A slot that was just added is empty.
        self.tasks
            .get_mut(slot)
            .expect("slots of numbers are in the table")
            .get_or_insert_with(make)
    }

    /// Puts a task in the place of the one that has its number, if there is one.
    pub(super) fn insert(&mut self, number: i32, task: T) -> &mut T {
        self.remove(number);
        self.get_or_insert_with(number, || task)
    }

    fn add_slot(&mut self, number: i32) -> usize {
        let slot = self.free.pop().unwrap_or(self.tasks.len());
        if slot == self.tasks.len() {
            self.tasks.push(None);
        }
        self.slots.insert(number, slot);
        slot
    }

    /// Removes and returns the task of a number.
    pub(super) fn remove(&mut self, number: i32) -> Option<T> {
        let slot = self.slots.remove(&number)?;
        let place = self.recent_place(number);
        if place.get().number == number {
            place.set(RecentSlot { number, slot: NO_SLOT });
        }
        self.free.push(slot);
        self.tasks.get_mut(slot)?.take()
    }

    /// Returns all tasks.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.tasks.iter().flatten()
    }

    /// Returns all tasks for changes.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.tasks.iter_mut().flatten()
    }

    /// Removes and returns the wanted tasks.
    pub(super) fn take_if(&mut self, is_wanted: impl Fn(i32, &T) -> bool) -> Vec<T> {
        let all = self.slots.keys().copied();
        let is_taken =
            |number: &i32| self.get(*number).is_some_and(|task| is_wanted(*number, task));
        let taken: Vec<i32> = all.filter(is_taken).collect();
        taken.into_iter().filter_map(|number| self.remove(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers whose lowest bits are equal share a place among the recent ones.
    const SAME_PLACE: [i32; 3] = [7, 7 + 256, 7 + 512];

    #[test]
    fn table_equals_a_map_for_numbers_that_share_a_recent_place() {
        let mut table = TaskTable::default();
        let mut map = FxHashMap::default();
        for round in 0..40_usize {
            let number = SAME_PLACE[round * 7 % 3];
            match round % 4 {
                0 => {
                    table.insert(number, round);
                    map.insert(number, round);
                }
                1 => {
                    let (found, expected) = (
                        *table.get_or_insert_with(number, || round),
                        *map.entry(number).or_insert(round),
                    );
                    assert_eq!(found, expected, "round {round}");
                }
                2 => assert_eq!(table.remove(number), map.remove(&number), "round {round}"),
                _ => {
                    let task = table.get_mut(number);
                    assert_eq!(task.as_deref(), map.get(&number), "round {round}");
                }
            }
            for number in SAME_PLACE {
                assert_eq!(table.get(number), map.get(&number), "round {round}");
                assert_eq!(table.contains(number), map.contains_key(&number));
            }
            assert_eq!((table.len(), table.values().count()), (map.len(), map.len()));
        }
    }

    #[test]
    fn number_that_was_removed_is_found_no_more() {
        let mut table = TaskTable::default();
        table.insert(0, 'a');
        assert_eq!(table.get(0), Some(&'a'));
        assert_eq!(table.remove(0), Some('a'));
        assert_eq!(table.get(0), None);
        table.insert(256, 'b');
        assert_eq!((table.get(0), table.get(256)), (None, Some(&'b')));
    }

    #[test]
    fn wanted_tasks_are_taken_and_others_stay() {
        let mut table = TaskTable::default();
        (1..=5).for_each(|number| {
            table.insert(number, number * 10);
        });
        let mut taken = table.take_if(|number, _| number % 2 == 1);
        taken.sort_unstable();
        assert_eq!(taken, [10, 30, 50]);
        assert_eq!(Vec::from_iter(table.values().copied()), [20, 40]);
    }
}
