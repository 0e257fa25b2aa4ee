//! Options of a recording.

use std::fmt;
use std::time::Duration;

use super::joined_ranks::JoinedRanks;
use super::name_readers::PRIORITY;
use super::name_source::NameSourceOption;
use super::segments::SegmentRequests;
use super::source::RingSizes;
use super::source_selection::SourceOption;
use super::thread_placement::ThreadPlacement;
use crate::event::syscall_table::CallId;
use crate::sys::perf::{Functions, PerfTarget};
use crate::sys::thread;
use crate::units::{DevId, Pid, Tid};

/// Processes to follow.
#[derive(Clone, Debug)]
pub enum Follow {
    /// All processes.
    System,
    /// The launched program, its threads and children.
    Launched,
    /// The given processes, their threads and children.
    Attached(Vec<i32>),
}

impl Follow {
    /// Returns the followed processes that the user has named.
    pub(super) fn named(&self, followed: &[Pid]) -> Vec<Pid> {
        match self {
            Self::Attached(roots) => roots.iter().copied().map(Pid).collect(),
            Self::System | Self::Launched => followed.to_vec(),
        }
    }
}

/// Call chains to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallChainOptions {
    /// Kernel or user functions, or both.
    pub functions: Functions,
    /// True to record chains of system calls, too.
    pub calls: bool,
}

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processes to follow.
    pub follow: Follow,
    /// True to follow the children of the followed processes, too.
    pub follows_children: bool,
    /// Threads of the followed processes that are shown; empty: all.
    pub threads: Vec<i32>,
    /// Processes that a recording of all processes leaves out, with their descendants.
    pub excluded: Vec<i32>,
    /// System calls to record.
    pub calls: Vec<CallId>,
    /// True if `calls` is the default selection.
    pub is_default: bool,
    /// Source of file names.
    pub names: NameSourceOption,
    /// True to read the memory that arguments point to, too.
    pub exact_args: bool,
    /// True to remove the kernel's objects before the recording is over, and keep no instance.
    pub leaves_nothing: bool,
    /// True to record block requests.
    pub block: bool,
    /// True to record the extents that file systems report, and to query extents at the end.
    pub extents: bool,
    /// Disks of the block requests; empty: all.
    pub devices: Vec<DevId>,
    /// True to show the block requests of all processes, whatever processes are followed.
    pub all_block: bool,
    /// True to record the operations of io_uring.
    pub uring: bool,
    /// True to record layers inside calls: VFS, file systems, journals, the page cache.
    pub layers: bool,
    /// True to record page faults on files.
    pub faults: bool,
    /// Call chains to block requests and, if wanted, to the ends of system calls.
    pub chains: Option<CallChainOptions>,
    /// Source of samples.
    pub source: SourceOption,
    /// CPUs and priority of the tracer's own threads.
    pub place: ThreadPlacement,
    /// Bytes of each main ring, if not the default.
    pub ring_bytes: Option<usize>,
    /// Duration of the recording, if it does not last until the program ends.
    pub duration: Option<Duration>,
    /// Size of the log at which the recording ends, bytes.
    pub log_bytes_max: Option<u64>,
    /// Number of ended system calls at which the recording ends.
    pub operations_max: Option<u64>,
    /// Groups that the followed processes were in at the start, if these were chosen so.
    pub group: Option<TargetGroup>,
    /// True to keep records of processes that are not followed.
    pub keep_foreign: bool,
    /// Requests to begin a segment of the log, if the log is kept in segments.
    pub segments: Option<SegmentRequests>,
    /// Ranks of a parallel job that join the launched program, if this recording is that of a node.
    pub node: Option<JoinedRanks>,
    /// The launched command, for the header.
    pub command: Vec<String>,
}

impl Options {
    /// Returns the sizes of the rings on this number of CPUs.
    pub(super) fn ring_sizes(&self, cpus: usize) -> RingSizes {
        let sizes = RingSizes::for_cpus(cpus);
        let unwind = self.chains.and_then(|chains| chains.functions.user);
        let copies = unwind.is_some_and(|unwind| unwind.stack_bytes() > 0);
        let sizes = if copies { sizes.with_stacks(cpus) } else { sizes };
        self.ring_bytes.map_or(sizes, |bytes| sizes.with_main(bytes))
    }

    /// Returns true if memory that arguments point to is read: without real-time priority the read
    /// would be too late, unnoticed.
    pub(super) fn reads_exact_args(&self) -> bool {
        self.exact_args && thread::fifo_allowed(PRIORITY)
    }

    /// Returns the processes that join the launched program.
    pub(super) fn joined(&self) -> impl Iterator<Item = Pid> {
        let ranks = self.node.iter().flat_map(|node| &node.processes);
        ranks.map(|rank| Pid(rank.pid))
    }

    /// Returns the warning about a group: its processes of the start are followed, this number of
    /// them.
    pub(super) fn group_warning(&self, count: usize) -> Option<String> {
        Some(group_line(self.group.as_ref()?, count, self.follows_children))
    }

    /// Returns what the events of a thread record besides that thread.
    pub(super) fn inheritance(&self) -> fn(Tid) -> PerfTarget {
        if self.follows_children { PerfTarget::Thread } else { PerfTarget::ThreadsOf }
    }

    /// Returns true if all processes are recorded, in the kernel and here.
    pub(super) fn records_all_processes(&self) -> bool {
        matches!(self.follow, Follow::System) || self.keep_foreign
    }

    /// Returns true if calls may be counted that are not recorded: a counter has the list of the
    /// recorded threads, and would count the tracer's own calls, or children and threads that are
    /// left out later.
    pub(super) fn counts_calls(&self) -> bool {
        !self.records_all_processes() && self.follows_children && self.threads.is_empty()
    }

    /// Returns true if block requests of other processes are counted and not recorded.
    pub(super) fn counts_others(&self) -> bool {
        let is_wanted = self.block || self.extents;
        is_wanted && !self.records_all_processes() && !self.all_block
    }
}

/// Groups of processes to which a recording attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetGroup {
    /// Control groups, by the words that chose them.
    Control(String),
    /// Process groups, by their numbers.
    Process(String),
}

impl fmt::Display for TargetGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control(words) => f.write_str(words),
            Self::Process(numbers) => write!(f, "process group {numbers}"),
        }
    }
}

/// Returns the line about the processes of a group.
fn group_line(group: &TargetGroup, count: usize, follows_children: bool) -> String {
    let children = match follows_children {
        true => ", with later children, in whatever group",
        false => "",
    };
    let (processes, are) = match count {
        1 => ("the process that was in it at the start".to_owned(), "is"),
        _ => (format!("the {count} processes that were in it at the start"), "are"),
    };
    let example = match group {
        TargetGroup::Control(_) => " (as docker exec does)",
        TargetGroup::Process(_) => "",
    };
    format!(
        "of {group} {processes} {are} recorded{children}; not recorded: processes that entered it later{example}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_group_are_counted() {
        let group = TargetGroup::Control("ssh.service".to_owned());
        let begin = |count| group_line(&group, count, true).split(',').next().map(str::to_owned);
        let one = "of ssh.service the process that was in it at the start is recorded";
        assert_eq!(begin(1).as_deref(), Some(one));
        let two = "of ssh.service the 2 processes that were in it at the start are recorded";
        assert_eq!(begin(2).as_deref(), Some(two));
    }
}
