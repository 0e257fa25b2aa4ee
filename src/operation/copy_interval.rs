//! Times of copies of shared resources.

use crate::units::KernelTime;

/// Period in which a copy was made: a change in between may be in the copy or not.
#[derive(Clone, Copy, Debug)]
pub struct CopyInterval {
    /// Earliest time of the copy.
    pub start: KernelTime,
    /// Latest time of the copy.
    pub end: KernelTime,
}
