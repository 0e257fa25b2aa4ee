//! What a part of the operations shows of the start, and what all of them do: the files of a part are as they were, not as small as they
//! could have been.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{EntryKind, FileId, FirstId, FsModel, State};

/// Which files of a part have been made those of the whole.
#[derive(Default)]
struct Same {
    /// By those of the whole.
    own: FxHashMap<FileId, FileId>,
    taken: FxHashSet<FileId>,
}

impl FsModel {
    /// Everything that was there at the start is as `all` has it, which has seen all that this one has, and more. What is in here only because
    /// something is missing that made it was not there.
    pub fn as_in(&mut self, all: &Self) {
        let (mut places, mut same) = (vec![(FirstId(0), FirstId(0))], Same::default());
        while let Some(place) = places.pop() {
            self.first_as_in(place, all, &mut same, &mut places);
        }
    }

    /// What is in a directory goes into `places`, with its place in `all`.
    fn first_as_in(
        &mut self,
        (at, in_all): (FirstId, FirstId),
        all: &Self,
        same: &mut Same,
        places: &mut Vec<(FirstId, FirstId)>,
    ) {
        let children: Vec<_> =
            self.first(at).children.iter().map(|(name, it)| (name.clone(), *it)).collect();
        let mut has_something = false;
        for (name, child) in children {
            let Some(known) = all.first(in_all).children.get(&name).copied() else {
                if all.has_forgotten(in_all, &name) {
                    self.first_mut(child).state = State::Absent;
                }
                continue;
            };
            self.state_as_in((child, known), all, same);
            has_something |= matches!(self.first(child).state, State::There(_));
            places.push((child, known));
        }
        let has_more = all.first(in_all).has_more;
        self.first_mut(at).has_more &= has_more || !has_something;
    }

    fn state_as_in(&mut self, (at, in_all): (FirstId, FirstId), all: &Self, same: &mut Same) {
        let known = all.first(in_all);
        let is_there = matches!(self.first(at).state, State::There(_));
        let state = match (self.first(at).state, known.state) {
            (State::There(EntryKind::File(file)), State::There(EntryKind::File(it))) => {
                State::There(EntryKind::File(self.file_as_in(Some(file), (all, it), same)))
            }
            (State::There(_), State::There(EntryKind::File(it))) => {
                State::There(EntryKind::File(self.file_as_in(None, (all, it), same)))
            }
            (State::There(own), State::There(EntryKind::Any)) => State::There(own),
            (_, state) if is_there => state,
            (own, _) => own,
        };
        let first = self.first_mut(at);
        first.state = state;
        first.mode = known.mode.filter(|_| is_there);
        first.is_executable = known.is_executable;
        first.perhaps = known.perhaps;
    }

    /// The file that is this one of all. What are two names of one file there are so here: a part may have nothing that says so, and may
    /// lack what says that the inode of one was given to the other.
    fn file_as_in(
        &mut self,
        known: Option<FileId>,
        (all, it): (&Self, FileId),
        same: &mut Same,
    ) -> FileId {
        if let Some(own) = same.own.get(&it) {
            return *own;
        }
        let own = known.filter(|it| !same.taken.contains(it));
        let own = own.unwrap_or_else(|| self.new_file(*all.size(it)));
        *self.size_mut(own) = *all.size(it);
        same.own.insert(it, own);
        same.taken.insert(own);
        own
    }
}
