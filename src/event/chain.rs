//! Through which functions a thread came to a hit.

use crate::units::{KernelTime, Pid};

/// Number of a chain of functions: dense from 0 in the order in which they were first seen. Hits that came the same way have the
/// same, whoever made them, but that the functions of a program are those of one process between two execs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(pub u32);

/// A chain of functions. Each address is that behind a call; the innermost comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChain {
    /// Its number.
    pub id: ChainId,
    /// Whose the functions of the program are.
    pub pid: Pid,
    /// When it was first seen.
    pub time: KernelTime,
    /// The kernel's functions.
    pub kernel: Box<[u64]>,
    /// The program's; 0 is something that was taken for an address and is none.
    pub user: Box<[u64]>,
}
