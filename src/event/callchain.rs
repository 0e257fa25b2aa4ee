//! Call chains of events.

use crate::units::{KernelTime, Pid};

/// Number of a call chain: dense from 0 in the order in which chains were first seen. Events with
/// the same chain have the same number, from any thread. But the functions of a program are those
/// of one process between two execs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(pub u32);

/// Call chain. Each address is the return address of a call; the innermost comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChain {
    /// Number of the chain.
    pub id: ChainId,
    /// Process of the program's functions.
    pub pid: Pid,
    /// Time when the chain was first seen.
    pub time: KernelTime,
    /// Functions of the kernel.
    pub kernel: Box<[u64]>,
    /// Functions of the program; 0 denotes a value that was mistaken for an address.
    pub user: Box<[u64]>,
}
