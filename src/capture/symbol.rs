//! What an address of a chain is called.

use crate::units::{KernelTime, Pid};

/// The function that an address of a chain was in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// The process; 0: it is the kernel's.
    pub pid: Pid,
    /// The address, as chains have it: behind a call.
    pub address: u64,
    /// From when on the process had this in its memory; the latest before a hit holds.
    pub since: KernelTime,
    /// The function, readable; empty: not known.
    pub name: Vec<u8>,
    /// How far behind its beginning the address is, in bytes.
    pub offset: u64,
    /// The file, or the kernel's module; empty: not known, or the kernel itself.
    pub module: Vec<u8>,
    /// Where in the file the address is, in bytes.
    pub place: u64,
    /// The file's build id; empty: not known, or it has none.
    pub build_id: Vec<u8>,
}
