//! What a part of the operations shows of the start, and what all of them do: the files of a part are as they were, not as small as they
//! could have been.

use super::{FirstId, State, Thing, World};

impl World {
    /// Everything that was there at the start is as `all` has it, which has seen all that this one has, and more. What is in here only because
    /// something is missing that made it was not there.
    pub fn as_in(&mut self, all: &Self) {
        let mut places = vec![(FirstId(0), FirstId(0))];
        while let Some((at, in_all)) = places.pop() {
            self.first_as_in(at, all, in_all, &mut places);
        }
    }

    /// What is in a directory goes into `places`, with its place in `all`.
    fn first_as_in(
        &mut self,
        at: FirstId,
        all: &Self,
        in_all: FirstId,
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
            self.state_as_in(child, all, known);
            has_something |= matches!(self.first(child).state, State::There(_));
            places.push((child, known));
        }
        let has_more = all.first(in_all).has_more;
        self.first_mut(at).has_more &= has_more || !has_something;
    }

    fn state_as_in(&mut self, at: FirstId, all: &Self, in_all: FirstId) {
        let known = all.first(in_all);
        let is_there = matches!(self.first(at).state, State::There(_));
        let state = match (self.first(at).state, known.state) {
            (State::There(Thing::File(file)), State::There(Thing::File(it))) => {
                *self.size_mut(file) = *all.size(it);
                State::There(Thing::File(file))
            }
            (State::There(_), State::There(Thing::File(it))) => {
                State::There(Thing::File(self.new_file(*all.size(it))))
            }
            (State::There(own), State::There(Thing::Any)) => State::There(own),
            (_, state) if is_there => state,
            (own, _) => own,
        };
        let first = self.first_mut(at);
        first.state = state;
        first.mode = known.mode.filter(|_| is_there);
        first.is_executable = known.is_executable;
        first.perhaps = known.perhaps;
    }
}
