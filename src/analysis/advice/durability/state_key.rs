//! Identity of files.

use crate::units::DevId;

/// Identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum StateKey {
    /// Device and inode.
    Inode(DevId, u64),
    /// First open file, where the inode is not known.
    Open(u64),
}
