//! What a recording is asked for.

use std::time::Duration;

use super::choice::SourceWish;
use super::drain::Place;
use super::naming::NamesWish;
use super::source::RingSizes;
use crate::event::syscall_table::CallId;
use crate::sys::perf::Functions;
use crate::units::{DevId, Pid};

/// Whom to follow.
#[derive(Clone, Debug)]
pub enum Follow {
    /// Everybody.
    System,
    /// The launched program, its threads and children.
    Launched,
    /// These processes, their threads and children.
    Attached(Vec<i32>),
}

impl Follow {
    /// Those of the followed processes that the user has named.
    pub(super) fn named(&self, followed: &[Pid]) -> Vec<Pid> {
        match self {
            Self::Attached(roots) => roots.iter().copied().map(Pid).collect(),
            Self::System | Self::Launched => followed.to_vec(),
        }
    }
}

/// Which chains of functions to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chains {
    /// Whose functions.
    pub functions: Functions,
    /// Of system calls, too.
    pub calls: bool,
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom.
    pub follow: Follow,
    /// Which system calls.
    pub calls: Vec<CallId>,
    /// True if these are those that are recorded if nothing is asked for.
    pub is_default: bool,
    /// Where file names come from.
    pub names: NamesWish,
    /// True to read the memory that arguments point to, too.
    pub exact_args: bool,
    /// True to record block requests.
    pub block: bool,
    /// True to record what file systems say about where files lie, and to ask them at the end.
    pub extents: bool,
    /// Of which disks; empty: of all.
    pub devices: Vec<DevId>,
    /// True to show those of everybody, whoever is followed.
    pub all_block: bool,
    /// True to record the operations of io_uring.
    pub uring: bool,
    /// True to record what is at work inside calls: VFS, file systems, journals, the page cache.
    pub layers: bool,
    /// True to record page faults on files.
    pub faults: bool,
    /// Through which functions threads come to block requests, and, if wanted, to the ends of system calls.
    pub chains: Option<Chains>,
    /// Where hits are to come from.
    pub source: SourceWish,
    /// Where and how our threads run.
    pub place: Place,
    /// Bytes of each main ring, if not the default.
    pub ring_bytes: Option<usize>,
    /// How long, if not until the end.
    pub duration: Option<Duration>,
    /// True to keep records of processes that are not followed.
    pub keep_foreign: bool,
    /// The launched command, for the header.
    pub command: Vec<String>,
}

impl Options {
    /// How large the rings are on so many CPUs.
    pub(super) fn ring_sizes(&self, cpus: usize) -> RingSizes {
        let sizes = RingSizes::for_cpus(cpus);
        let unwind = self.chains.and_then(|it| it.functions.user);
        let copies = unwind.is_some_and(|it| it.stack_bytes() > 0);
        let sizes = if copies { sizes.with_stacks(cpus) } else { sizes };
        self.ring_bytes.map_or(sizes, |it| sizes.with_main(it))
    }
}
