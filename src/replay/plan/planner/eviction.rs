//! Eviction of state that no later operation can need. Runs when the state has doubled since the
//! last eviction. So the state is never more than twice what is needed at once, or [`KEPT`], and
//! the amortized cost of an operation does not depend on the number of earlier ones.

use super::Planner;
use crate::replay::plan::plan_output::PlanOutput;
use crate::units::{KernelTime, ReplayTime};

/// Number of names, files and resources up to which nothing is evicted; about 10 MiB.
pub(super) const KEPT: usize = 64 << 10;

impl<O: PlanOutput> Planner<O> {
    /// Evicts state between two operations, if enough is kept.
    pub(super) fn forget(&mut self) {
        if self.kept() < self.evict_at {
            return;
        }
        let Self { world, handles, resources, external_entries, locks, in_flight, .. } = self;
        let (files, descriptions) = handles.known();
        // Files precede names: names of files that were made and removed need not be known.
        world.forget_files(|file| files.contains(&file));
        // A call that makes a name may have to wait for calls that found the name missing
        // meanwhile.
        let oldest = in_flight.makes_names_since().unwrap_or(KernelTime::MAX);
        let oldest = ReplayTime::of(oldest, self.first.unwrap_or(KernelTime::MIN));
        let is_gone = world
            .forget_names(|node| external_entries.has(node) || !resources.is_settled(node, oldest));
        locks.forget(|file| world.knows(file));
        resources.forget(
            |node| is_gone[node.0 as usize],
            |description| descriptions.contains(&description),
            |file| world.knows(file),
            in_flight.past(),
        );
        self.evict_at = KEPT.max(2 * self.kept());
        #[cfg(test)]
        if self.evicts_at_once {
            self.evict_at = 0;
        }
    }

    /// Returns the number of names, files and resources that are kept.
    pub(super) fn kept(&self) -> usize {
        self.world.count() + self.resources.len()
    }
}

#[cfg(test)]
impl<O: PlanOutput> Planner<O> {
    /// Returns a planner that evicts after each operation.
    pub(in crate::replay::plan) fn forgetting_at_once(self) -> Self {
        Self { evict_at: 0, evicts_at_once: true, ..self }
    }
}
