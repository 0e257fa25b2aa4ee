//! What nobody can need any more is forgotten, each time when there is twice as much as was left the last time: so there is never more than
//! twice of what is there at once, or [`KEPT`], and on the average an operation costs the same however many came before it.

use super::{Out, Planner};

/// Names, files and things that are kept in any case; some 10 MiB.
pub(super) const KEPT: usize = 64 << 10;

impl<O: Out> Planner<O> {
    /// Has a look, between two operations.
    pub(super) fn forget(&mut self) {
        if self.kept() < self.forget_at {
            return;
        }
        let Self { world, handles, things, strangers, locks, under_way, .. } = self;
        let (files, descriptions) = handles.known();
        // Before the names: those of files that were made and removed need not be known.
        world.forget_files(|it| files.contains(&it));
        // Who makes a name may have to wait for those who found that it was not there meanwhile.
        let oldest = under_way.makes_names_since().unwrap_or(u64::MAX);
        let oldest = oldest.saturating_sub(self.first.unwrap_or(0));
        let is_gone = world.forget_names(|it| strangers.has(it) || !things.is_settled(it, oldest));
        locks.forget(|it| world.knows(it));
        things.forget(
            |it| is_gone[it.0 as usize],
            |it| descriptions.contains(&it),
            |it| world.knows(it),
            under_way.past(),
        );
        self.forget_at = KEPT.max(2 * self.kept());
        #[cfg(test)]
        if self.forgets_at_once {
            self.forget_at = 0;
        }
    }

    /// How many names, files and things are kept.
    pub(super) fn kept(&self) -> usize {
        self.world.count() + self.things.len()
    }
}

#[cfg(test)]
impl<O: Out> Planner<O> {
    /// Behind each operation, whatever there is.
    pub(super) fn forgetting_at_once(self) -> Self {
        Self { forget_at: 0, forgets_at_once: true, ..self }
    }
}
