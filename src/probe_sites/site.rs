//! Result of the search: positions in a file.

use std::collections::BTreeSet;

use crate::event::syscall_table::CallId;

/// Architecture of the code, as `uname -m` prints it.
pub const MACHINE: &str = "x86_64";

/// A position in a file at which paths or lists of calls are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Position in the file, bytes.
    pub offset: u64,
    /// Registers with the addresses of paths or of a list, by the names of the kernel's probes.
    pub registers: Vec<&'static str>,
    /// Calls that follow; calls that fill a list have ended.
    pub calls: BTreeSet<CallId>,
    /// True if the kernel emulates the instruction there; if not, each event costs a second trap.
    pub emulated: bool,
    /// Register with the number of the call, if other calls pass here, too, by the name of the
    /// kernel's probes.
    pub number: Option<&'static str>,
}

/// Results for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// Positions where probes see paths; each once.
    pub sites: Vec<Site>,
    /// Calls with a path for which no position was found, once for each place that makes them.
    pub hidden: Vec<CallId>,
    /// Number of instructions that make a call with an unknown number: any call may be made there.
    pub unknown: usize,
}
