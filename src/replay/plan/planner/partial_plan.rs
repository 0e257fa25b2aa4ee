//! Partial plan: wanted operations, and those on which they depend
//! ([`crate::replay::plan::dependency_selection`]).

use super::Planner;
use crate::analysis::completed_op::{CompletedOp, OpKind};
use crate::analysis::filter::Filter;
use crate::event::syscall_table::Role;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::model::{FdEffect, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::replay::plan::dependency_selection::{DependencySelection, PassFindings, Selection};
use crate::replay::plan::in_flight::InFlightKey;
use crate::replay::plan::links::SymlinkMap;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replayability::SkipReason;
use crate::units::KernelTime;

/// Last pass, after all dependencies have been found.
#[derive(Debug)]
pub struct Selected<O> {
    /// Decides on each operation.
    needs: DependencySelection,
    /// Planner of the selected operations.
    planner: Planner<O>,
}

impl<O: PlanOutput> Selected<O> {
    /// Creates the last pass with the findings of the earlier ones.
    pub fn new(filter: Filter, found: PassFindings, links: &SymlinkMap, out: O) -> Self {
        let planner = Planner::new(out).knowing(links);
        Self { needs: DependencySelection::new(filter, found, links), planner }
    }

    /// Ends the pass after the last step.
    pub fn end(mut self) -> (Planner<O>, DependencySelection) {
        self.planner.world.as_in(self.needs.fs_model());
        (self.planner, self.needs)
    }
}

impl<O: PlanOutput> Sink for Selected<O> {
    type Error = O::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), O::Error> {
        let verdict = self.needs.judge(time, step);
        let planner = &mut self.planner;
        match (verdict, step) {
            (Selection::Wanted, _) => {
                planner.step(time, step)?;
                planner.wanted(step);
                Ok(())
            }
            (Selection::Needed, _) => {
                planner.is_needed = true;
                planner.step(time, step)?;
                planner.is_needed = false;
                Ok(())
            }
            (_, Step::SyscallEnded(operation, effects)) => {
                planner.not_done(verdict, OpKind::Call(operation.call));
                let effects = match self.needs.is_after_last_wanted(time) {
                    true => Vec::new(),
                    false => self.needs.of_needed(effects),
                };
                planner.passed_by(operation, &effects)
            }
            (_, Step::SyscallUnfinished(operation, _)) => {
                planner.not_done(verdict, OpKind::Call(operation.call));
                planner.passed_by(operation, &[])
            }
            (_, Step::AsyncEnded(operation, _) | Step::AsyncUnfinished(operation, _)) => {
                planner.not_done(verdict, OpKind::Async(operation.opcode));
                planner.asynchronous_passed_by(operation);
                Ok(())
            }
            // Steps after the last wanted operation cannot make any operation wait.
            _ if self.needs.is_after_last_wanted(time) => Ok(()),
            (_, Step::AsyncFile(operation)) if !self.needs.is_on_needed(operation) => Ok(()),
            _ => planner.step(time, step),
        }
    }
}

impl<O: PlanOutput> Planner<O> {
    /// Notes an operation that is in the plan because it is wanted.
    fn wanted(&mut self, step: &Step<'_>) {
        let start = CompletedOp::of(step).map(|completed_op| self.since_first(completed_op.start));
        self.wanted_from = self.wanted_from.into_iter().chain(start).min();
    }

    /// Counts a wanted operation that is not replayed.
    fn not_done(&mut self, verdict: Selection, what: OpKind) {
        match verdict {
            Selection::Skipped(reason) => *self.skipped.entry((reason, what)).or_default() += 1,
            Selection::ModelOnly => self.model_only += 1,
            Selection::Wanted | Selection::Needed | Selection::Out => {}
        }
    }

    /// Passes over a call that is not in the plan; `effects`: its effects on open files that are.
    fn passed_by(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
    ) -> Result<(), O::Error> {
        if operation.call.call().arg(Role::Iocbs).is_none() {
            self.in_flight.remove_operation(InFlightKey::Call(operation.thread));
        }
        self.foreign(operation, effects, SkipReason::NoFile)
    }

    fn asynchronous_passed_by(&mut self, operation: &AsyncOperation) {
        let flight = self.lanes.over(operation.id);
        self.in_flight.remove_operation(InFlightKey::Operation(operation.id));
        flight.into_iter().for_each(|flight| self.lanes.settled(flight.thread));
    }
}

#[cfg(test)]
impl<O: PlanOutput> Selected<O> {
    /// Returns a pass that evicts after each operation.
    pub(in crate::replay::plan) fn forgetting_at_once(self) -> Self {
        let Self { needs, planner } = self;
        Self { needs: needs.forgetting_at_once(), planner: planner.forgetting_at_once() }
    }
}
