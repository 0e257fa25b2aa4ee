//! Rings of io_uring, and the decision whether their operations are the program's.

use rustc_hash::FxHashSet;

use super::marks::Mark;
use crate::event::uring::{UringEvent, UringPoint};

/// Largest number of rings that are remembered as used by other programs only.
const RINGS_MAX: usize = 1 << 16;

/// Rings by their addresses in the kernel.
#[derive(Debug, Default)]
pub(super) struct UringOwners {
    /// Rings that a thread of the program has used.
    own: FxHashSet<u64>,
    /// Rings that only other programs have used.
    others: FxHashSet<u64>,
}

impl UringOwners {
    /// Handles lost records: a ring of another program may be the program's by now.
    pub(super) fn records_lost(&mut self) {
        self.others.clear();
    }

    /// Returns the mark of an operation: it is the program's if its ring is, whatever thread
    /// reports its result. It is kept unless the ring is known to be another program's.
    pub(super) fn learn(&mut self, event: &UringEvent, by_own: bool) -> Mark {
        let is_use =
            matches!(event.point, UringPoint::Create | UringPoint::Submit | UringPoint::FileGet);
        if by_own && is_use {
            self.own.insert(event.ctx);
        } else if is_use && !event.sq_thread {
            if self.others.len() >= RINGS_MAX {
                self.others.clear();
            }
            self.others.insert(event.ctx);
        }
        let is_others = !self.own.contains(&event.ctx) && self.others.contains(&event.ctx);
        if is_others { Mark::Dropped } else { Mark::Kept }
    }
}
