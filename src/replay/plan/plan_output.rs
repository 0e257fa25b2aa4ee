//! Consumer of the operations of a planner.

use super::planned_op::PlannedOp;
use super::replayability::SkipReason;

/// Consumer of planned operations, which arrive one at a time.
pub trait PlanOutput {
    /// Error of the consumer.
    type Error;

    /// Takes the next operation.
    ///
    /// # Errors
    ///
    /// Errors of the consumer.
    fn planned(&mut self, planned: &PlannedOp) -> Result<(), Self::Error>;

    /// Reports an operation that is skipped.
    fn left(&mut self, _: SkipReason) {}
}
