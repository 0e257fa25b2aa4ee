//! Filters of operations.

use std::ops::RangeInclusive;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustc_hash::FxHashMap;

use super::completed_op::{CompletedOp, OpKind};
use crate::event::block::RequestOp;
use crate::event::syscall_table::{CallClass, CallId};
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{BlockRequest, BlockStep};
use crate::operation::fault::Fault;
use crate::operation::model::{FilePath, OpenFile, ProcessKey, ThreadInfo, ThreadKey};
use crate::operation::span::Span;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid};

/// Name patterns with `*`, `?`, `[…]` and `{a,b}`.
#[derive(Clone, Debug)]
pub struct Globs {
    /// Patterns for whole names.
    whole: GlobSet,
    /// Patterns for the last part of a path.
    last: GlobSet,
}

impl Globs {
    /// Compiles patterns of paths. A pattern without a slash is for the last part of a path. In
    /// others `*` does not match a slash, and `**` does.
    ///
    /// # Errors
    ///
    /// The error of the first invalid pattern.
    pub fn of_paths(patterns: &[String]) -> Result<Option<Self>, globset::Error> {
        let (whole, last): (Vec<_>, Vec<_>) = patterns.iter().partition(|it| it.contains('/'));
        Self::new(patterns, &whole, &last)
    }

    /// Compiles patterns of words.
    ///
    /// # Errors
    ///
    /// The error of the first invalid pattern.
    pub fn of_words(patterns: &[String]) -> Result<Option<Self>, globset::Error> {
        let whole: Vec<&String> = patterns.iter().collect();
        Self::new(patterns, &whole, &[])
    }

    fn new(
        all: &[String],
        whole: &[&String],
        last: &[&String],
    ) -> Result<Option<Self>, globset::Error> {
        let (whole, last) = (set(whole)?, set(last)?);
        Ok((!all.is_empty()).then_some(Self { whole, last }))
    }

    /// Returns true if a pattern matches the name.
    pub fn is_match(&self, name: &[u8]) -> bool {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let last = name.rsplit(|it| *it == b'/').next().unwrap_or(name);
        self.whole.is_match(OsStr::from_bytes(name)) || self.last.is_match(OsStr::from_bytes(last))
    }
}

fn set(patterns: &[&String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build()?);
    }
    set.build()
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideFilter {
    /// Data from files and devices.
    Read,
    /// Data to files and devices.
    Write,
    /// Data in either direction.
    Both,
}

impl SideFilter {
    fn has(self, reads: bool, writes: bool) -> bool {
        match self {
            Self::Read => reads,
            Self::Write => writes,
            Self::Both => reads || writes,
        }
    }
}

/// Conditions on operations; by default all operations are selected.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Process numbers; empty selects all.
    pub pids: Vec<Pid>,
    /// Users of the processes; empty selects all.
    pub users: Vec<u32>,
    /// Names of threads.
    pub comms: Option<Globs>,
    /// Names of files.
    pub files: Option<Globs>,
    /// Devices of requests; empty selects all.
    pub devices: Vec<DevId>,
    /// Direction of the moved bytes.
    pub side: Option<SideFilter>,
    /// Minimum duration, ns.
    pub min_ns: u64,
    /// Number of moved bytes.
    pub bytes: Option<RangeInclusive<u64>>,
    /// Window of end times: after the first time, and not after the second.
    pub window: Option<(KernelTime, KernelTime)>,
    /// Kinds of events.
    pub events: Option<Events>,
}

/// Kinds of events that are selected.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// System calls that are selected.
    pub calls: Vec<CallId>,
    /// True for block requests.
    pub block: bool,
    /// True for operations of io_uring of any kind.
    pub uring: bool,
    /// True for layers at work outside of calls.
    pub layers: bool,
    /// True for page faults.
    pub faults: bool,
}

impl Filter {
    /// Returns true if everything is selected.
    pub fn is_all(&self) -> bool {
        let Self { pids, users, comms, files, devices, side, min_ns, bytes, window, events } = self;
        let no_names = comms.is_none() && files.is_none() && events.is_none();
        let no_numbers = *min_ns == 0 && bytes.is_none() && window.is_none();
        pids.is_empty()
            && users.is_empty()
            && devices.is_empty()
            && no_names
            && no_numbers
            && side.is_none()
    }

    /// Operations that move no bytes have no size.
    fn takes_bytes(&self, bytes: Option<u64>) -> bool {
        self.bytes.as_ref().is_none_or(|it| bytes.is_some_and(|bytes| it.contains(&bytes)))
    }

    fn takes_end(&self, end: KernelTime) -> bool {
        self.window.is_none_or(|(from, until)| from < end && end <= until)
    }

    fn takes_pid(&self, pid: Pid) -> bool {
        self.pids.is_empty() || self.pids.contains(&pid)
    }

    fn takes_done(&self, done: &CompletedOp<'_>) -> bool {
        let is_named = |globs: &Globs| {
            [done.name, done.target].iter().flatten().any(|it| globs.is_match(it.path))
        };
        let is_called = |events: &Events| match done.what {
            OpKind::Call(call) => events.calls.contains(&call),
            OpKind::Async(_) => {
                events.uring
                    || events.calls.iter().any(|call| call.call().class == CallClass::Async)
            }
        };
        let reads = matches!(done.class, CallClass::Read | CallClass::Transfer);
        let writes = matches!(done.class, CallClass::Write | CallClass::Transfer);
        self.takes_pid(done.pid)
            && done.ns() >= self.min_ns
            && self.takes_bytes(done.class.moves_bytes().then_some(done.bytes))
            && self.takes_end(done.end)
            && self.side.is_none_or(|it| it.has(reads, writes))
            && self.events.as_ref().is_none_or(is_called)
            && self.files.as_ref().is_none_or(is_named)
    }

    fn takes_fault(&self, fault: &Fault) -> bool {
        let path = fault.file.path.as_ref();
        let is_named = |globs: &Globs| path.is_some_and(|it| globs.is_match(&it.bytes));
        self.takes_pid(fault.pid)
            && self.min_ns == 0
            && self.takes_bytes(None)
            && self.takes_end(fault.time)
            && self.side.is_none()
            && self.events.as_ref().is_none_or(|it| it.faults)
            && self.files.as_ref().is_none_or(is_named)
    }

    /// Activity of kernel threads is not a call, and not on a reported file.
    fn takes_aside(&self, pid: Pid, span: &Span) -> bool {
        let is_left_out = self.events.as_ref().is_some_and(|it| !it.layers);
        let has_others = self.files.is_some() || self.side.is_some() || is_left_out;
        self.takes_pid(pid)
            && !has_others
            && self.devices.is_empty()
            && span.ns() >= self.min_ns
            && self.takes_bytes(None)
            && self.takes_end(span.end)
    }

    fn takes_device(&self, dev: DevId) -> bool {
        let is_wanted = self.events.as_ref().is_none_or(|it| it.block);
        is_wanted && (self.devices.is_empty() || self.devices.contains(&dev))
    }

    /// Checks the submitter of a request, and the last writers of its data.
    fn takes_request_pid(&self, request: &BlockRequest, pieces: &[Piece]) -> bool {
        self.pids.is_empty()
            || request.submitter.is_some_and(|it| self.takes_pid(it.pid))
            || pieces.iter().any(|piece| {
                self.takes_pid(piece.queued.pid)
                    || piece.writers.iter().any(|by| self.takes_pid(by.pid))
            })
    }

    fn takes_request(&self, request: &BlockRequest, pieces: &[Piece]) -> bool {
        let is_named = |globs: &Globs| {
            let paths = pieces.iter().filter_map(path_of);
            paths.into_iter().any(|it| globs.is_match(&it.bytes))
        };
        let times = request.begin().zip(request.completed);
        let ns = times.map_or(0, |(begin, end)| end.0.saturating_sub(begin.0));
        let (reads, writes) = (
            request.op == RequestOp::Read,
            !matches!(request.op, RequestOp::Read | RequestOp::Other),
        );
        self.takes_device(request.dev)
            && self.takes_request_pid(request, pieces)
            && ns >= self.min_ns
            && self.takes_bytes(Some(request.bytes_done))
            && request.completed.is_none_or(|it| self.takes_end(it))
            && self.side.is_none_or(|it| it.has(reads, writes))
            && self.files.as_ref().is_none_or(is_named)
    }
}

/// Returns the path of the file to which a piece of a request belongs.
pub fn path_of(piece: &Piece) -> Option<&FilePath> {
    match &piece.contents {
        BlockContents::File { file: Some(file), .. } => file.path.as_ref(),
        _ => None,
    }
}

/// Decides which steps are selected; it must see all of them.
#[derive(Debug)]
pub struct Picker {
    filter: Filter,
    /// True if the filter selects everything: checked for each step.
    is_all: bool,
    /// Threads, with whether their names are selected.
    named: FxHashMap<ThreadKey, bool>,
    /// Users of processes, if that matters.
    users: FxHashMap<ProcessKey, Option<u32>>,
    /// Number of operations that were left out because their user is unknown.
    pub unknown_users: u64,
}

impl Picker {
    /// Creates a picker for this filter.
    pub fn new(filter: Filter) -> Self {
        let is_all = filter.is_all();
        let (named, users) = Default::default();
        Self { filter, is_all, named, users, unknown_users: 0 }
    }

    /// Returns true for steps that end a selected operation, and for all steps about tasks.
    pub fn wants(&mut self, step: &Step<'_>) -> bool {
        if self.is_all {
            return true;
        }
        if let Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) = step {
            self.learn(thread);
        }
        if let Step::ProcessSeen(process) | Step::UserChanged(process) = step
            && !self.filter.users.is_empty()
        {
            self.users.insert(process.key, process.user);
        }
        let is_wanted = self.takes(step) && self.takes_user(step);
        if let Step::ThreadEnded(thread) = step {
            self.named.remove(&thread.key);
        }
        is_wanted
    }

    /// Checks the user of an operation that all other conditions select.
    fn takes_user(&mut self, step: &Step<'_>) -> bool {
        let users = &self.filter.users;
        let process = match step {
            _ if users.is_empty() => return true,
            Step::Aside { thread, .. } => Some(thread.process),
            Step::Fault(fault) => Some(fault.process),
            Step::Block { step: BlockStep::Ended(_), thread, .. } => thread.map(|it| it.process),
            _ => match CompletedOp::last_of(step) {
                Some(done) => Some(done.process),
                None => return true,
            },
        };
        let user = process.and_then(|it| self.users.get(&it).copied().flatten());
        self.unknown_users += u64::from(user.is_none());
        user.is_some_and(|it| users.contains(&it))
    }

    /// Returns true if a part of a selected operation that concerns this file is selected: a piece
    /// of a request, a side of a transfer.
    pub fn wants_file(&self, file: Option<&OpenFile>) -> bool {
        let path = file.and_then(|it| it.path.as_ref());
        let is_named = |globs: &Globs| path.is_some_and(|it| globs.is_match(&it.bytes));
        self.filter.files.as_ref().is_none_or(is_named)
    }

    fn is_named(&self, thread: ThreadKey) -> bool {
        self.filter.comms.is_none() || self.named.get(&thread).copied().unwrap_or(false)
    }

    fn learn(&mut self, thread: &ThreadInfo) {
        if let Some(comms) = &self.filter.comms {
            self.named.insert(thread.key, comms.is_match(&thread.comm));
        }
    }

    fn takes(&self, step: &Step<'_>) -> bool {
        match step {
            Step::SyscallEnded(..)
            | Step::AsyncEnded(..)
            | Step::SyscallUnfinished(..)
            | Step::AsyncUnfinished(..) => CompletedOp::last_of(step)
                .is_some_and(|it| self.is_named(it.thread) && self.filter.takes_done(&it)),
            Step::Fault(fault) => self.is_named(fault.thread) && self.filter.takes_fault(fault),
            Step::Block { step: BlockStep::Ended(request), thread, pieces } => {
                let comms = self.filter.comms.as_ref();
                let is_named = comms.is_none_or(|globs| {
                    let mut writers = pieces.iter().flat_map(|piece| &piece.writers);
                    thread.is_some_and(|by| globs.is_match(&by.comm))
                        || writers.any(|by| globs.is_match(&by.comm))
                });
                is_named && self.filter.takes_request(request, pieces)
            }
            Step::Aside { thread, pid, span } => {
                self.is_named(thread.key) && self.filter.takes_aside(*pid, span)
            }
            // Operations are checked when they have ended.
            Step::SyscallBegun(_)
            | Step::AsyncBegun(_)
            | Step::AsyncFile(_)
            | Step::Block { .. } => false,
            _ => true,
        }
    }
}

/// Sink that passes on the selected steps, and all steps about tasks.
#[derive(Debug)]
pub struct Filtered<S> {
    /// Picker that decides.
    pub picker: Picker,
    /// Next sink.
    pub sink: S,
}

impl<S> Filtered<S> {
    /// Creates the filter between the operations and a sink.
    pub fn new(filter: Filter, sink: S) -> Self {
        Self { picker: Picker::new(filter), sink }
    }
}

impl<S: Sink> Sink for Filtered<S> {
    type Error = S::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), S::Error> {
        if self.picker.wants(step) { self.sink.step(time, step) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_windows() {
        let window = Some((KernelTime(10), KernelTime(20)));
        let filter = Filter { bytes: Some(5..=7), window, ..Filter::default() };
        let takes = [None, Some(4), Some(5), Some(7), Some(8)].map(|it| filter.takes_bytes(it));
        assert_eq!(takes, [false, false, true, true, false]);
        // Consecutive windows select each operation once.
        let takes = [10, 11, 20, 21].map(|it| filter.takes_end(KernelTime(it)));
        assert_eq!(takes, [false, true, true, false]);
        assert!(!filter.is_all() && Filter::default().is_all());
    }

    #[test]
    fn patterns_of_paths() {
        let all = |patterns: &[&str]| {
            let owned: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            Globs::of_paths(&owned).expect("good").expect("some")
        };
        let globs = all(&["*.db", "/var/lib/*/x", "/srv/**"]);
        for path in ["/a/b/c.db", "c.db", "/var/lib/a/x", "/srv/a/b"] {
            assert!(globs.is_match(path.as_bytes()), "{path}");
        }
        for path in ["/a/c.dbx", "/var/lib/a/b/x", "/usr/srv/a"] {
            assert!(!globs.is_match(path.as_bytes()), "{path}");
        }
        assert!(globs.is_match(b"/tmp/\xff\n.db"));
        assert!(Globs::of_paths(&[]).expect("good").is_none());
        assert!(Globs::of_paths(&["a[".to_owned()]).is_err());
    }
}
