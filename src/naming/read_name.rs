//! Names as readers return them.

use crate::capture::fact::NameOf;
use crate::event::FileStat;
use crate::units::KernelTime;

/// A name from a reader, with the circumstances of the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadName {
    /// Kind of the name.
    pub of: NameOf,
    /// Clock after the read.
    pub end: KernelTime,
    /// 0, or the error of a failed read.
    pub errno: i32,
    /// Address of an argument: it must be the one with which the call was entered.
    pub address: u64,
    /// Type and inode of the descriptor's file (for a link).
    pub stat: Option<FileStat>,
    /// The name.
    pub bytes: Vec<u8>,
}

impl ReadName {
    /// Returns the approximate memory that it needs while it waits.
    pub(super) fn held_bytes(&self) -> usize {
        2 * size_of::<Self>() + self.bytes.len()
    }
}
