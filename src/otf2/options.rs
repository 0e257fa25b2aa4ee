//! Options of the writer, facts for its end, and its summary.

use crate::capture::header::Disk;
use crate::units::KernelTime;

/// How to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtfOptions {
    /// How many event files may stay open, if memory allows; best half of `RLIMIT_NOFILE`. Default:
    /// 512.
    pub open_files_max: u64,
    /// Bytes of memory for the events of all locations together. Default: 64 MiB.
    pub memory_budget_bytes: u64,
    /// Show block requests also on the thread that asked for them, under an I/O paradigm of their
    /// own so that no sum counts them twice. Default: off.
    pub block_on_threads: bool,
}

impl Default for OtfOptions {
    fn default() -> Self {
        let otf2_sys::Options { memory_budget_bytes, open_files_max } =
            otf2_sys::Options::default();
        Self { open_files_max, memory_budget_bytes, block_on_threads: false }
    }
}

/// What is known when the last step is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndFacts {
    /// When the recording ended; the trace reaches to here, or to its last event if that is later.
    pub end_time: KernelTime,
    /// Losses and the like, by name: become properties of the archive (`IOTRACE::NAME`, where what
    /// is not a letter, a digit or `_` becomes `_`) and of the node in the system tree (by the name
    /// as it is).
    pub properties: Vec<(String, String)>,
    /// The block devices: they become properties of their nodes.
    pub disks: Vec<Disk>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtfSummary {
    /// Threads and devices; readers need a file descriptor for each.
    pub locations: u64,
    /// Events of all of them.
    pub events: u64,
    /// Files and directories.
    pub files: u64,
    /// I/O handles.
    pub handles: u64,
    /// Events whose time lay before the one of the event before them on their location; they got
    /// that time.
    pub clamped: u64,
    /// Texts that were too long for the archive.
    pub strings_cut: u64,
    /// Opens and removals of files for which the archive has no name: it names 65,536, and shows
    /// the others as their directory.
    pub files_left_out: u64,
    /// Failed opens whose path was left out, because too many different ones failed.
    pub paths_left_out: u64,
    /// Steps of threads that had ended; 0 unless the steps contradict themselves.
    pub after_end: u64,
}
