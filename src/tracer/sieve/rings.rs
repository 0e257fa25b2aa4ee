//! Rings of io_uring: whose their operations are.

use rustc_hash::FxHashSet;

use super::marks::Mark;
use crate::event::uring::{UringEvent, UringPoint};

/// Rings that are remembered as others'.
const RINGS_MAX: usize = 1 << 16;

/// Rings by their addresses in the kernel.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// Those that a thread of the program has used.
    own: FxHashSet<u64>,
    /// Those that only others have used.
    others: FxHashSet<u64>,
}

impl Rings {
    /// Records were lost: a ring may be another's by now.
    pub(super) fn records_lost(&mut self) {
        self.others.clear();
    }

    /// An operation is the program's if its ring is, whatever thread brings its result. What is not known to be another's is kept.
    pub(super) fn learn(&mut self, event: &UringEvent, by_own: bool) -> Mark {
        let asks =
            matches!(event.point, UringPoint::Create | UringPoint::Submit | UringPoint::FileGet);
        if by_own && asks {
            self.own.insert(event.ctx);
        } else if asks && !event.sq_thread {
            if self.others.len() >= RINGS_MAX {
                self.others.clear();
            }
            self.others.insert(event.ctx);
        }
        let is_others = !self.own.contains(&event.ctx) && self.others.contains(&event.ctx);
        if is_others { Mark::Dropped } else { Mark::Kept }
    }
}
