//! Filters of operations.

mod cgroups;
mod globs;
mod mounts;
mod nearest;

use std::ops::{Range, RangeInclusive};

use rustc_hash::{FxHashMap, FxHashSet};

pub use self::cgroups::Cgroups;
pub use self::globs::Globs;
use self::mounts::FilePlace;
pub use self::mounts::MountFilter;
use self::nearest::{FilterWords, SeenNames};
use super::completed_op::{CompletedOp, NamedPath, OpKind};
use crate::event::block::RequestOp;
use crate::event::syscall_table::{CallClass, CallId};
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{BlockRequest, BlockStep, RequestEnd};
use crate::operation::fault::Fault;
use crate::operation::model::{
    FilePath, MountNamespace, OpenFile, ProcessInfo, ProcessKey, ThreadInfo, ThreadKey,
};
use crate::operation::span::Span;
use crate::operation::task::TaskId;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, Tid};

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
    /// Process numbers that are not selected.
    pub excluded_pids: Vec<Pid>,
    /// Thread numbers; empty selects all.
    pub tids: Vec<Tid>,
    /// Users of the processes; empty selects all.
    pub users: Vec<u32>,
    /// Control groups of the processes; empty selects all.
    pub cgroups: Cgroups,
    /// Names of threads.
    pub comms: Option<Globs>,
    /// Names of files.
    pub files: Option<Globs>,
    /// Mounts of the files.
    pub mounts: MountFilter,
    /// Devices of requests; empty selects all.
    pub devices: Vec<DevicePart>,
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
    /// Result of the operations: true for failed ones only, false for the others only.
    pub failed: Option<bool>,
    /// True to select all block requests, whatever the other conditions are.
    pub all_requests: bool,
}

/// A device, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePart {
    /// The device.
    pub dev: DevId,
    /// Sectors of the part; `None`: all.
    pub sectors: Option<Range<u64>>,
}

impl DevicePart {
    fn has(&self, dev: DevId, sector: u64) -> bool {
        self.dev == dev && self.sectors.as_ref().is_none_or(|sectors| sectors.contains(&sector))
    }
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
        let no_processes = self.pids.is_empty() && self.excluded_pids.is_empty();
        let no_groups = self.users.is_empty() && self.cgroups.is_empty() && self.tids.is_empty();
        let no_files = self.files.is_none() && self.mounts.is_empty();
        let no_names = self.comms.is_none() && no_files && self.events.is_none();
        let no_numbers = self.min_ns == 0 && self.bytes.is_none() && self.window.is_none();
        let no_kinds = self.side.is_none() && self.failed.is_none() && self.devices.is_empty();
        no_processes && no_groups && no_names && no_numbers && no_kinds
    }

    /// Returns the time after which nothing is selected, so that a log need not be read further.
    pub fn last_time(&self) -> KernelTime {
        // All requests are selected, whatever their times are.
        self.window.filter(|_| !self.all_requests).map_or(KernelTime::MAX, |(_, until)| until)
    }

    /// Operations that move no bytes have no size.
    fn takes_bytes(&self, bytes: Option<u64>) -> bool {
        self.bytes.as_ref().is_none_or(|it| bytes.is_some_and(|bytes| it.contains(&bytes)))
    }

    fn takes_end(&self, end: KernelTime) -> bool {
        self.window.is_none_or(|(from, until)| from < end && end <= until)
    }

    /// Checks an operation without an end, which belongs to the window without an end: windows that
    /// follow each other have each operation once, and a log need not be read beyond a window.
    fn takes_unended(&self) -> bool {
        self.window.is_none_or(|(_, until)| until == KernelTime::MAX)
    }

    fn takes_end_of_request(&self, request: &BlockRequest) -> bool {
        match (request.completed, request.ending) {
            (Some(completed), _) => self.takes_end(completed),
            (None, Some(RequestEnd::Absorbed { at, .. })) => self.takes_end(at),
            (None, _) => self.takes_unended(),
        }
    }

    fn takes_pid(&self, pid: Pid) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid)) && !self.excluded_pids.contains(&pid)
    }

    fn takes_task(&self, task: TaskId) -> bool {
        self.takes_pid(task.pid) && (self.tids.is_empty() || self.tids.contains(&task.tid))
    }

    /// Checks all conditions of an operation but that on its end.
    fn takes_done(&self, done: &CompletedOp<'_>) -> bool {
        let names = || [done.name, done.target].into_iter().flatten().map(|name| name.path);
        let is_named = |globs: &Globs| globs.selects(names());
        let is_called = |events: &Events| match done.what {
            OpKind::Call(call) => events.calls.contains(&call),
            OpKind::Async(_) => {
                events.uring
                    || events.calls.iter().any(|call| call.call().class == CallClass::Async)
            }
        };
        let reads = matches!(done.class, CallClass::Read | CallClass::Transfer);
        let writes = matches!(done.class, CallClass::Write | CallClass::Transfer);
        self.takes_task(TaskId { pid: done.pid, tid: done.tid })
            && self.takes_result(done.errno.is_some())
            && done.ns() >= self.min_ns
            && self.takes_bytes(done.class.moves_bytes().then_some(done.bytes))
            && self.side.is_none_or(|it| it.has(reads, writes))
            && self.events.as_ref().is_none_or(is_called)
            && self.files.as_ref().is_none_or(is_named)
            && self.mounts.selects(places(done))
    }

    fn takes_result(&self, has_failed: bool) -> bool {
        self.failed.is_none_or(|failed| failed == has_failed)
    }

    fn takes_fault(&self, fault: &Fault) -> bool {
        let path = fault.file.path.as_ref();
        let is_named = |globs: &Globs| globs.selects(path.map(|path| path.bytes.as_slice()));
        self.takes_task(TaskId { pid: fault.pid, tid: fault.tid })
            && self.takes_result(false)
            && self.min_ns == 0
            && self.takes_bytes(None)
            && self.takes_end(fault.time)
            && self.side.is_none()
            && self.events.as_ref().is_none_or(|it| it.faults)
            && self.files.as_ref().is_none_or(is_named)
            && self.mounts.selects(place_of_file(&fault.file))
    }

    /// Activity of kernel threads is not a call, and not on a reported file.
    fn takes_aside(&self, task: TaskId, span: &Span) -> bool {
        let is_left_out = self.events.as_ref().is_some_and(|it| !it.layers);
        let has_files = self.files.is_some() || !self.mounts.is_empty();
        let has_others = has_files || self.side.is_some() || is_left_out || self.failed.is_some();
        self.takes_task(task)
            && !has_others
            && self.devices.is_empty()
            && span.ns() >= self.min_ns
            && self.takes_bytes(None)
            && self.takes_end(span.end)
    }

    fn takes_device(&self, request: &BlockRequest) -> bool {
        let is_wanted = self.events.as_ref().is_none_or(|it| it.block);
        let is_there = |part: &DevicePart| part.has(request.dev, request.sector);
        is_wanted && (self.devices.is_empty() || self.devices.iter().any(is_there))
    }

    /// Checks the submitter of a request, and the last writers of its data.
    fn takes_request_pid(&self, request: &BlockRequest, pieces: &[Piece]) -> bool {
        let is_wanted = |pid: Pid| self.pids.is_empty() || self.pids.contains(&pid);
        let is_thread = |tid: Tid| self.tids.is_empty() || self.tids.contains(&tid);
        let queued = || pieces.iter().map(|piece| (piece.queued.pid, piece.queued.tid));
        let submitter = request.submitter.map(|by| (by.pid, by.tid));
        let mut tasks = submitter.into_iter().chain(queued());
        let writers = || pieces.iter().flat_map(|piece| &piece.writers).map(|by| by.pid);
        // The thread of a last writer is not known.
        let is_written = self.tids.is_empty() && writers().any(is_wanted);
        let has_tasks = self.pids.is_empty() && self.tids.is_empty();
        let is_selected =
            has_tasks || is_written || tasks.any(|(pid, tid)| is_wanted(pid) && is_thread(tid));
        is_selected && !self.excludes(request, pieces)
    }

    /// Returns true if all known causes of a request are excluded: the last writers, or without
    /// them the submitter.
    fn excludes(&self, request: &BlockRequest, pieces: &[Piece]) -> bool {
        let is_excluded = |pid: Pid| self.excluded_pids.contains(&pid);
        let mut writers =
            pieces.iter().flat_map(|piece| &piece.writers).map(|by| by.pid).peekable();
        match writers.peek() {
            _ if self.excluded_pids.is_empty() => false,
            Some(_) => writers.all(is_excluded),
            None => request.submitter.is_some_and(|by| is_excluded(by.pid)),
        }
    }

    fn takes_request(&self, request: &BlockRequest, pieces: &[Piece]) -> bool {
        let paths = || pieces.iter().filter_map(path_of).map(|path| path.bytes.as_slice());
        let is_named = |globs: &Globs| globs.selects(paths());
        let times = request.begin().zip(request.completed);
        let ns = times.map_or(0, |(begin, end)| end.0.saturating_sub(begin.0));
        let (reads, writes) = (
            request.op == RequestOp::Read,
            !matches!(request.op, RequestOp::Read | RequestOp::Other),
        );
        self.takes_device(request)
            && self.takes_request_pid(request, pieces)
            && self.takes_result(request.error.is_some())
            && ns >= self.min_ns
            && self.takes_bytes(Some(request.bytes_done))
            && self.takes_end_of_request(request)
            && self.side.is_none_or(|it| it.has(reads, writes))
            && self.files.as_ref().is_none_or(is_named)
            && self.mounts.selects(pieces.iter().filter_map(place_of_piece))
    }
}

/// Returns the places of the files of an operation.
fn places<'a>(done: &CompletedOp<'a>) -> impl Iterator<Item = FilePlace<'a>> {
    let dev = done.dev_of_name();
    let place =
        |name: NamedPath<'a>, dev| FilePlace { path: name.path, namespace: name.mounts, dev };
    let named = done.name.map(|name| place(name, dev));
    named.into_iter().chain(done.target.map(|target| place(target, None)))
}

fn place_of_file(file: &OpenFile) -> Option<FilePlace<'_>> {
    let dev = file.stat.as_ref().map(|stat| stat.dev);
    let path = file.path.as_ref()?;
    Some(FilePlace { path: &path.bytes, namespace: path.mounts, dev })
}

/// Returns the place of the file to which a piece of a request belongs.
fn place_of_piece(piece: &Piece) -> Option<FilePlace<'_>> {
    let BlockContents::File { key, .. } = &piece.contents else { return None };
    let (path, namespace) = match path_of(piece) {
        Some(path) => (path.bytes.as_slice(), path.mounts),
        None => (&[][..], MountNamespace::UNKNOWN),
    };
    Some(FilePlace { path, namespace, dev: Some(key.0) })
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
    /// Processes of the selected control groups, if that matters.
    in_cgroups: FxHashSet<ProcessKey>,
    /// Names that were not selected, until an operation is.
    nearest: Option<SeenNames>,
    /// Number of operations that were left out because their user is unknown.
    pub unknown_users: u64,
}

impl Picker {
    /// Creates a picker for this filter.
    pub fn new(filter: Filter) -> Self {
        let is_all = filter.is_all();
        let (named, users, in_cgroups) = Default::default();
        let nearest = (!is_all).then(SeenNames::default);
        Self { filter, is_all, named, users, in_cgroups, nearest, unknown_users: 0 }
    }

    /// Returns sentences about mount points of the filter that the recording does not have.
    pub fn unknown_mounts(&self) -> Vec<String> {
        self.filter.mounts.unknown()
    }

    /// Returns a line about a filter that has selected no operation, with names that are near its
    /// own; `None`: it has selected some.
    pub fn unmatched(&self) -> Option<String> {
        let words = |globs: &Option<Globs>| globs.as_ref().map_or(&[][..], Globs::words).to_vec();
        let (files, comms) = (words(&self.filter.files), words(&self.filter.comms));
        let (fs_types, known_types) = self.filter.mounts.fs_types();
        let wanted = FilterWords {
            fs_types: &fs_types,
            known_types: &known_types,
            tids: &self.filter.tids,
            files: &files,
            comms: &comms,
            cgroups: self.filter.cgroups.words(),
            pids: &self.filter.pids,
        };
        self.nearest.as_ref().map(|seen| seen.text(&wanted))
    }

    /// Returns true for steps that end a selected operation, and for all steps about tasks.
    pub fn wants(&mut self, step: &Step<'_>) -> bool {
        if self.is_all || self.filter.all_requests && matches!(step, Step::Block { .. }) {
            return true;
        }
        if let Step::MountsSeen(table) = step {
            self.filter.mounts.learn(table);
        }
        if let Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) = step {
            self.learn(thread);
        }
        if let Step::ProcessSeen(process) | Step::UserChanged(process) | Step::Identified(process) =
            step
        {
            self.learn_process(process);
        }
        let is_wanted = self.takes(step) && self.takes_cgroup(step) && self.takes_user(step);
        if let Some(seen) = &mut self.nearest {
            if is_wanted && is_end(step) {
                self.nearest = None;
            } else {
                seen.note(step);
            }
        }
        if let Step::ThreadEnded(thread) = step {
            self.named.remove(&thread.key);
        }
        is_wanted
    }

    fn learn_process(&mut self, process: &ProcessInfo) {
        if !self.filter.users.is_empty() {
            self.users.insert(process.key, process.user);
        }
        if !self.filter.cgroups.is_empty() {
            match process.cgroup.as_deref().is_some_and(|path| self.filter.cgroups.has(path)) {
                true => self.in_cgroups.insert(process.key),
                false => self.in_cgroups.remove(&process.key),
            };
        }
    }

    /// Checks the control group of an operation's process, or of those that caused a request.
    fn takes_cgroup(&self, step: &Step<'_>) -> bool {
        let has = |process: ProcessKey| self.in_cgroups.contains(&process);
        match step {
            _ if self.filter.cgroups.is_empty() => true,
            Step::Aside { thread, .. } => has(thread.process),
            Step::Fault(fault) => has(fault.process),
            Step::Block { step: BlockStep::Ended(_), thread, pieces } => {
                let mut writers = pieces.iter().flat_map(|piece| &piece.writers);
                thread.is_some_and(|by| has(by.process)) || writers.any(|by| has(by.process))
            }
            _ => CompletedOp::last_of(step).is_none_or(|done| has(done.process)),
        }
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
        let is_named = |globs: &Globs| globs.selects(path.map(|path| path.bytes.as_slice()));
        self.filter.files.as_ref().is_none_or(is_named)
            && self.filter.mounts.selects(file.and_then(place_of_file))
    }

    /// Returns true if requests of this device may be selected.
    pub fn has_device(&self, dev: DevId) -> bool {
        self.filter.devices.is_empty() || self.filter.devices.iter().any(|part| part.dev == dev)
    }

    /// Returns true for a rename or link whose new name is selected, and nothing else of which the
    /// filter leaves out.
    pub fn wants_new_name(&mut self, step: &Step<'_>) -> bool {
        let Step::SyscallEnded(operation, _) = step else { return false };
        let given = operation.named.as_ref().and_then(|named| named.second.as_ref());
        let Some(given) = given.filter(|_| self.filter.files.is_some()) else { return false };
        let Some(done) = CompletedOp::of(step) else { return false };
        let renamed = CompletedOp { name: Some(NamedPath::given(given)), ..done };
        let users = &self.filter.users;
        let user = self.users.get(&renamed.process).copied().flatten();
        let is_wanted = self.is_named(renamed.thread)
            && self.filter.takes_done(&renamed)
            && self.filter.takes_end(renamed.end)
            && self.takes_cgroup(step)
            && (users.is_empty() || user.is_some_and(|user| users.contains(&user)));
        if is_wanted {
            self.nearest = None;
        }
        is_wanted
    }

    fn is_named(&self, thread: ThreadKey) -> bool {
        self.filter.comms.is_none() || self.named.get(&thread).copied().unwrap_or(false)
    }

    fn learn(&mut self, thread: &ThreadInfo) {
        if let Some(comms) = &self.filter.comms {
            self.named.insert(thread.key, comms.is_match(&thread.comm));
        }
    }

    fn takes_done(&self, done: &CompletedOp<'_>) -> bool {
        self.is_named(done.thread) && self.filter.takes_done(done)
    }

    fn takes(&self, step: &Step<'_>) -> bool {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => CompletedOp::of(step)
                .is_some_and(|done| self.filter.takes_end(done.end) && self.takes_done(&done)),
            Step::SyscallUnfinished(..) | Step::AsyncUnfinished(..) => {
                self.filter.takes_unended()
                    && CompletedOp::last_of(step).is_some_and(|done| self.takes_done(&done))
            }
            Step::Fault(fault) => self.is_named(fault.thread) && self.filter.takes_fault(fault),
            Step::Block { step: BlockStep::Ended(request), thread, pieces } => {
                let comms = self.filter.comms.as_ref();
                let is_named = comms.is_none_or(|globs| {
                    let writers = || pieces.iter().flat_map(|piece| &piece.writers);
                    let writers = || writers().map(|by| &*by.comm);
                    let submitter = thread.map(|by| by.comm.as_slice());
                    // The last writers are the causes, if they are known.
                    let causes_are_excluded = match writers().next() {
                        Some(_) => writers().all(|comm| globs.excludes(comm)),
                        None => submitter.is_some_and(|comm| globs.excludes(comm)),
                    };
                    globs.wants_one_of(writers().chain(submitter)) && !causes_are_excluded
                });
                is_named && self.filter.takes_request(request, pieces)
            }
            Step::Aside { thread, pid, span } => {
                let task = TaskId { pid: *pid, tid: thread.tid };
                self.is_named(thread.key) && self.filter.takes_aside(task, span)
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

/// True for the end of an operation.
fn is_end(step: &Step<'_>) -> bool {
    match step {
        Step::Fault(_) | Step::Aside { .. } | Step::Block { step: BlockStep::Ended(_), .. } => true,
        _ => CompletedOp::last_of(step).is_some(),
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
    const USES_BEGINS: bool = S::USES_BEGINS;
    const IS_COSTLY: bool = S::IS_COSTLY;

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
    fn operation_without_an_end_is_in_the_last_window() {
        let [start, one, two] = [KernelTime::MIN, KernelTime(10), KernelTime(20)];
        let windows = [(start, one), (one, two), (two, KernelTime::MAX)];
        let filters = windows.map(|window| Filter { window: Some(window), ..Filter::default() });
        assert_eq!(filters.map(|filter| filter.takes_unended()), [false, false, true]);
        assert!(Filter::default().takes_unended());
    }

    #[test]
    fn last_time_is_that_of_the_window() {
        let window = Some((KernelTime(10), KernelTime(20)));
        let filter = Filter { window, ..Filter::default() };
        assert_eq!(filter.last_time(), KernelTime(20));
        assert_eq!(Filter::default().last_time(), KernelTime::MAX);
        let all_requests = Filter { all_requests: true, ..filter };
        assert_eq!(all_requests.last_time(), KernelTime::MAX);
    }
}
