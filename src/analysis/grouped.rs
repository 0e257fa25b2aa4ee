//! A fold, and beside it the sums of the same operations in groups.

use std::convert::Infallible;

use super::job_keys::{Absorb, CaptureKeys};
use super::summary::IoSummary;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// A fold with the sums of its operations.
#[derive(Debug)]
pub struct Grouped<F> {
    /// The fold.
    pub fold: F,
    /// Sums of the operations, if they are wanted.
    pub sums: Option<IoSummary>,
}

impl<F: Absorb> Absorb for Grouped<F> {
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        self.fold.absorb(other.fold, keys);
        if let (Some(sums), Some(others)) = (&mut self.sums, other.sums) {
            sums.absorb(others, keys);
        }
    }
}

impl<F: Sink<Error = Infallible>> Sink for Grouped<F> {
    type Error = Infallible;
    const USES_BEGINS: bool = F::USES_BEGINS;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Some(sums) = &mut self.sums {
            sums.step(time, step)?;
        }
        self.fold.step(time, step)
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Infallible> {
        self.fold.complete_until(time)
    }
}
