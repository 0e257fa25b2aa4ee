//! Options of the writer, facts for its end, and its summary.

use crate::capture::header::Disk;
use crate::units::KernelTime;

/// Options of the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtfOptions {
    /// Limit on open event files, if memory allows; best half of `RLIMIT_NOFILE`. Default: 512.
    pub open_files_max: u64,
    /// Bytes of memory for the events of all locations together. Default: 64 MiB.
    pub memory_budget_bytes: u64,
    /// True to show block requests also on the submitting thread, under an I/O paradigm of their
    /// own, so that no sum counts them twice. Default: off.
    pub block_on_threads: bool,
}

impl Default for OtfOptions {
    fn default() -> Self {
        let otf2_sys::Options { memory_budget_bytes, open_files_max } =
            otf2_sys::Options::default();
        Self { open_files_max, memory_budget_bytes, block_on_threads: false }
    }
}

/// Facts that are known after the last step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndFacts {
    /// End of the recording; the trace extends to this time, or to its last event if that is later.
    pub end_time: KernelTime,
    /// Losses and other counters, by name: they become properties of the archive (`IOTRACE::NAME`,
    /// in which each character that is not a letter, a digit or `_` becomes `_`) and of the node in
    /// the system tree (by the unchanged name).
    pub properties: Vec<(String, String)>,
    /// Block devices: they become properties of their nodes.
    pub disks: Vec<Disk>,
}

/// Summary of a written archive.
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
    /// Events whose time was earlier than that of the previous event on their location; they got
    /// the previous time.
    pub clamped: u64,
    /// Texts that were too long for the archive, and were truncated.
    pub strings_cut: u64,
    /// Opens and removals of files for which the archive has no name: it names 65,536, and shows
    /// the others as their directory.
    pub files_left_out: u64,
    /// Failed opens whose path was omitted, because too many different ones failed.
    pub paths_left_out: u64,
    /// Steps of threads that had ended; 0 unless the steps are contradictory.
    pub after_end: u64,
}
