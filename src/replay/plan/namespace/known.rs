//! Initial state of a partial plan, taken from the model of all operations: files of a partial plan
//! are as they were, not as small as its operations allow.

use rustc_hash::{FxHashMap, FxHashSet};

use super::fs_model::FsModel;
use super::model::{EntryKind, FileId, FirstId, PlaceState};

/// Files of a partial model that have been matched with files of the whole one.
#[derive(Default)]
struct MergedFiles {
    /// Matched files by those of the whole model.
    own: FxHashMap<FileId, FileId>,
    taken: FxHashSet<FileId>,
}

/// Corresponding initial entries of the two models.
#[derive(Clone, Copy)]
struct FilePair {
    own: FirstId,
    in_all: FirstId,
}

impl FsModel {
    /// Adopts the initial state from `all`, which has seen all operations that this model has seen,
    /// and more. An entry that is in this model only because the operation that made it is missing
    /// was not there.
    pub fn as_in(&mut self, all: &Self) {
        let root = FilePair { own: FirstId(0), in_all: FirstId(0) };
        let (mut places, mut same) = (vec![root], MergedFiles::default());
        while let Some(place) = places.pop() {
            self.first_as_in(place, all, &mut same, &mut places);
        }
    }

    /// Adopts the state of a directory's contents, which are added to `places`.
    fn first_as_in(
        &mut self,
        FilePair { own: at, in_all }: FilePair,
        all: &Self,
        same: &mut MergedFiles,
        places: &mut Vec<FilePair>,
    ) {
        let children = self.first(at).children.iter();
        let children: Vec<_> = children.map(|(name, child)| (name.clone(), *child)).collect();
        let mut has_something = false;
        for (name, child) in children {
            let Some(known) = all.first(in_all).children.get(&name).copied() else {
                if all.has_forgotten(in_all, &name) {
                    self.first_mut(child).state = PlaceState::Absent;
                }
                continue;
            };
            let pair = FilePair { own: child, in_all: known };
            self.state_as_in(pair, all, same);
            has_something |= matches!(self.first(child).state, PlaceState::There(_));
            places.push(pair);
        }
        let has_more = all.first(in_all).has_more;
        self.first_mut(at).has_more &= has_more || !has_something;
    }

    fn state_as_in(
        &mut self,
        FilePair { own: at, in_all }: FilePair,
        all: &Self,
        same: &mut MergedFiles,
    ) {
        let known = all.first(in_all);
        let is_there = matches!(self.first(at).state, PlaceState::There(_));
        let state = match (self.first(at).state, known.state) {
            (PlaceState::There(EntryKind::File(own)), PlaceState::There(EntryKind::File(file))) => {
                PlaceState::There(EntryKind::File(self.file_as_in(Some(own), all, file, same)))
            }
            (PlaceState::There(_), PlaceState::There(EntryKind::File(file))) => {
                PlaceState::There(EntryKind::File(self.file_as_in(None, all, file, same)))
            }
            (PlaceState::There(own), PlaceState::There(EntryKind::Any)) => PlaceState::There(own),
            (_, state) if is_there => state,
            (own, _) => own,
        };
        let first = self.first_mut(at);
        first.state = state;
        first.mode = known.mode.filter(|_| is_there);
        first.is_executable = known.is_executable;
        first.perhaps = known.perhaps;
    }

    /// Returns the file that corresponds to `file` of the whole model; `known`: the file that is
    /// there so far. Two names of one file there are so here: a partial plan may lack the operation
    /// that shows this, and the one that shows that the inode of one was given to the other.
    fn file_as_in(
        &mut self,
        known: Option<FileId>,
        all: &Self,
        file: FileId,
        same: &mut MergedFiles,
    ) -> FileId {
        if let Some(own) = same.own.get(&file) {
            return *own;
        }
        let own = known.filter(|own| !same.taken.contains(own));
        let own = own.unwrap_or_else(|| self.new_file(*all.size(file)));
        *self.size_mut(own) = *all.size(file);
        same.own.insert(file, own);
        same.taken.insert(own);
        own
    }
}
