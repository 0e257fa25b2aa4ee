//! Unwound stacks: call chains of programs at samples, found from copies of stacks and stored at
//! the end of the recording.

use crate::capture::fact::{StackEnd, UnwoundHit, UnwoundStack, UserStack};
use crate::capture::user_stack::{HITS_MAX, WAYS_MAX, WORDS_MAX};
use crate::units::{KernelTime, Tid};

/// Unwound stacks and the samples that they belong to.
#[derive(Clone, Debug, Default)]
pub struct UserStacks {
    /// Stacks by their numbers.
    ways: Vec<UnwoundStack>,
    words: usize,
    /// Samples in the order of their times.
    hits: Vec<UnwoundHit>,
}

impl UserStacks {
    /// Adds a stack. Stacks beyond the limits, or out of order, are not stored: their samples
    /// have none.
    pub fn add(&mut self, stack: UserStack) {
        let UserStack { number, way, .. } = stack;
        let words = self.words.saturating_add(way.addresses.len());
        let is_next = usize::try_from(number).is_ok_and(|it| it == self.ways.len());
        if is_next && self.ways.len() < WAYS_MAX && words <= WORDS_MAX {
            self.words = words;
            self.ways.push(way);
        }
    }

    /// Adds samples with their stacks. Samples beyond the limit, or out of order, have none.
    pub fn add_hits(&mut self, hits: &[UnwoundHit]) {
        for hit in hits {
            let is_in_order = self.hits.last().is_none_or(|it| it <= hit);
            if is_in_order && self.hits.len() < HITS_MAX {
                self.hits.push(*hit);
            }
        }
    }

    /// Returns the stack of a sample; `None` if it is not known, or was stored twice.
    pub fn of(&self, tid: Tid, time: KernelTime) -> Option<&UnwoundStack> {
        let is_before = |it: &UnwoundHit| (it.time, it.tid) < (time, tid);
        let place = self.hits.partition_point(is_before);
        let is_it = |it: &&UnwoundHit| (it.time, it.tid) == (time, tid);
        let found = self.hits.get(place).filter(is_it)?;
        if self.hits.get(place + 1).is_some_and(|it| is_it(&it)) {
            return None;
        }
        self.ways.get(usize::try_from(found.stack).ok()?)
    }
}

/// Completeness of the unwound stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwindStats {
    /// Samples, by the reason for which unwinding stopped ([`StackEnd::ALL`]).
    pub endings: [u64; StackEnd::ALL.len()],
    /// Samples with functions in their stacks that have no unwind information.
    pub guessed: u64,
    /// Samples without a stack.
    pub unknown: u64,
}

impl UnwindStats {
    /// Counts one more sample.
    pub fn add(&mut self, way: Option<&UnwoundStack>) {
        let Some(way) = way else {
            self.unknown += 1;
            return;
        };
        self.guessed += u64::from(way.is_guessed);
        for (ending, count) in StackEnd::ALL.iter().zip(&mut self.endings) {
            *count += u64::from(*ending == way.ending);
        }
    }

    /// Returns the number of samples whose stacks ended so.
    pub fn ended(&self, ending: StackEnd) -> u64 {
        StackEnd::ALL.iter().zip(self.endings).filter(|it| *it.0 == ending).map(|it| it.1).sum()
    }

    /// Returns the number of all samples whose stacks were copied.
    pub fn all(&self) -> u64 {
        self.endings.iter().sum::<u64>() + self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pid;

    fn way(address: u64, ending: StackEnd) -> UnwoundStack {
        UnwoundStack { addresses: [address].into(), ending, is_guessed: ending == StackEnd::Short }
    }

    fn hit(time: u64, tid: i32, stack: u32) -> UnwoundHit {
        UnwoundHit { time: KernelTime(time), tid: Tid(tid), stack }
    }

    #[test]
    fn a_hit_is_found_by_its_time_and_thread() {
        let mut ways = UserStacks::default();
        for (number, ending) in
            [(0, StackEnd::Outermost), (1, StackEnd::Short), (3, StackEnd::Broken)]
        {
            let stack = UserStack { number, pid: Pid(1), way: way(u64::from(number), ending) };
            ways.add(stack);
        }
        ways.add_hits(&[hit(5, 7, 0), hit(10, 7, 1), hit(10, 8, 0), hit(20, 7, 1)]);
        // The first sample comes too late.
        ways.add_hits(&[hit(20, 6, 0), hit(30, 7, 3), hit(40, 7, 0), hit(40, 7, 1)]);
        let of = |time, tid| ways.of(Tid(tid), KernelTime(time)).map(|it| it.addresses[0]);
        let found = [(5, 7), (10, 7), (10, 8), (20, 7), (20, 6), (30, 7), (40, 7), (50, 7)];
        let found = found.map(|(time, tid)| of(time, tid));
        assert_eq!(found, [Some(0), Some(1), Some(0), Some(1), None, None, None, None]);
    }

    #[test]
    fn each_hit_is_counted_once() {
        let mut found = UnwindStats::default();
        for ending in [StackEnd::Outermost, StackEnd::Short, StackEnd::Short] {
            found.add(Some(&way(1, ending)));
        }
        found.add(None);
        let ended = StackEnd::ALL.map(|it| found.ended(it));
        assert_eq!((ended, found.guessed, found.unknown, found.all()), ([1, 2, 0, 0], 2, 1, 4));
    }
}
