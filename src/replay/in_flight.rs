//! Who is inside a call, and since when: nobody who comes later began before the oldest of them.

use rustc_hash::FxHashMap;

use super::low_watermark::Past;
use crate::operation::model::ThreadKey;

/// What somebody is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Inside {
    /// A call of a thread.
    Call(ThreadKey),
    /// An asynchronous operation, by its number.
    Operation(u64),
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    /// ns of the capture's clock.
    start: u64,
    may_make_names: bool,
}

/// Calls and asynchronous operations that may be done again, and have not ended.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    of: FxHashMap<Inside, Begun>,
    past: Past,
    /// How many of them may make names.
    makers: usize,
}

impl UnderWay {
    /// It has begun, at so many ns of the capture's clock.
    pub(super) fn begun(&mut self, inside: Inside, start: u64, may_make_names: bool) {
        self.over(inside);
        self.past.begun(start);
        self.makers += usize::from(may_make_names);
        self.of.insert(inside, Begun { start, may_make_names });
    }

    /// It is over, or never will be.
    pub(super) fn over(&mut self, inside: Inside) {
        if let Some(it) = self.of.remove(&inside) {
            self.past.over(it.start);
            self.makers -= usize::from(it.may_make_names);
        }
    }

    /// An operation has been planned, to its end. `now` and `first` (when everything began) are ns of the capture's clock.
    pub(super) fn raise_floor(&mut self, now: u64, first: Option<u64>) {
        self.past.raise_floor(now, first);
    }

    /// When the oldest one began, in ns of the capture's clock.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.past.oldest()
    }

    /// True if one of them may have made a name already.
    pub(super) fn may_make_names(&self) -> bool {
        self.makers > 0
    }

    /// When the oldest one of these began, in ns of the capture's clock.
    pub(super) fn makes_names_since(&self) -> Option<u64> {
        self.of.values().filter(|it| it.may_make_names).map(|it| it.start).min()
    }

    /// When those may have begun who come later.
    pub(super) fn past(&self) -> &Past {
        &self.past
    }
}
