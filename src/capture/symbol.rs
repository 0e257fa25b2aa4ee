//! Symbols: the names of addresses in call chains.

use crate::units::{KernelTime, Pid};

/// Function of an address in a call chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Process of the address; 0 for the kernel.
    pub pid: Pid,
    /// Return address of a call, as in chains.
    pub address: u64,
    /// Time from which the process had this code in its memory; the latest before a sample applies.
    pub since: KernelTime,
    /// Readable name of the function; empty if unknown.
    pub name: Vec<u8>,
    /// Distance of the address from the beginning of the function, in bytes.
    pub offset: u64,
    /// File or kernel module; empty if unknown, or for the kernel itself.
    pub module: Vec<u8>,
    /// Offset of the address in the file, in bytes.
    pub place: u64,
    /// Build id of the file; empty if unknown, or if there is none.
    pub build_id: Vec<u8>,
}
