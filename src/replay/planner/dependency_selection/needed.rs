//! What passes over the log have found to be needed, and until when.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::renames::Renames;
use crate::replay::locks::Locked;
use crate::replay::namespace::{FileId, Keys};
use crate::units::KernelTime;

/// Things that are needed, and until when.
#[derive(Debug)]
pub(super) struct Until<T>(FxHashMap<T, KernelTime>);

impl<T> Default for Until<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: Copy + Eq + Hash> Until<T> {
    /// It is needed; true if that is new.
    pub(super) fn add(&mut self, thing: T, until: KernelTime) -> bool {
        let known = self.0.get(&thing).copied();
        let is_new = known.is_none_or(|it| it < until);
        if is_new {
            self.0.insert(thing, until);
        }
        is_new
    }

    /// True if what begins then does something to it that is needed.
    pub(super) fn has(&self, thing: T, start: KernelTime) -> bool {
        self.0.get(&thing).is_some_and(|it| start <= *it)
    }
}

/// Names that are needed, and until when.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) until: Until<u64>,
    /// Which of them are in which directory.
    within: FxHashMap<u64, Vec<u64>>,
}

impl Names {
    /// It is needed; true if that is new.
    pub(super) fn add(&mut self, Keys { place, within }: Keys, until: KernelTime) -> bool {
        if !self.until.0.contains_key(&place) {
            self.within.entry(within).or_default().push(place);
        }
        self.until.add(place, until)
    }

    /// Of those in a directory that is removed nothing may be left then; true if that is new.
    pub(super) fn leave(&mut self, directory: u64, until: KernelTime) -> bool {
        let Self { until: names, within } = self;
        let all = within.get(&directory).into_iter().flatten();
        all.fold(false, |is_new, it| names.add(*it, until) | is_new)
    }
}

/// Dense numbers, one bit each.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<u64>);

impl Numbers {
    fn place(number: u64) -> Option<(usize, u64)> {
        Some((usize::try_from(number / 64).ok()?, 1 << (number % 64)))
    }

    pub(super) fn has(&self, number: u64) -> bool {
        let Some((word, bit)) = Self::place(number) else { return false };
        self.0.get(word).is_some_and(|it| it & bit != 0)
    }

    /// True if that is new.
    pub(super) fn add(&mut self, number: u64) -> bool {
        let Some((word, bit)) = Self::place(number) else { return false };
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

/// What passes over the log have found, from one to the next.
#[derive(Debug, Default)]
pub struct Found {
    /// Open files: who makes, copies, changes or closes their descriptors is needed.
    pub(super) descriptions: Numbers,
    /// Those where it is not known where somebody read or wrote: who moves their positions is needed.
    pub(super) unplaced: Until<u64>,
    /// Names: who makes, renames or removes what is there is needed.
    pub(super) names: Names,
    /// Files: who cuts them off or makes them longer by no write is needed.
    pub(super) files: Until<FileId>,
    /// Files whose bytes have to be there: who writes behind their ends is needed, too.
    pub(super) bytes: Until<FileId>,
    /// Files that somebody locks: who else does is needed.
    pub(super) locks: Until<Locked>,
    /// The end of the last wanted operation.
    pub(super) last: KernelTime,
    /// Renames that may turn out to be needed.
    pub(super) renames: Renames,
    /// Something of it is new.
    pub(super) has_grown: bool,
}

impl Found {
    /// True if the pass has found something new. Asks for the next pass.
    pub fn take_grown(&mut self) -> bool {
        self.has_grown |= std::mem::take(&mut self.renames).follow(&mut self.names);
        std::mem::take(&mut self.has_grown)
    }
}
