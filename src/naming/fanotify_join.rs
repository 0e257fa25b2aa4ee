//! Fanotify join: assigns each event of fanotify to the call that opened the file.
//!
//! An event is put into the kernel's queue inside the call that opened. The event has its thread,
//! and two times between which it was queued (the queue was empty; it was read), but not its call.
//! Within a thread, events and calls are in the same order:
//!
//! ```text
//!  calls of the thread    ──[─1─]──[──2──]────────[─3─]──►
//!  events, and their times   └──a──┘  └───b, c──────────┘     b is of 2 and c of 3; a of 1
//! ```
//!
//! A call may have no event: it failed, opened no file or directory, or one of a file system that
//! is not watched, or the kernel merged its event into an older unread one. But each event belongs
//! to a call ([`super::open_assignment`]).
//!
//! Not seen: opens by other means than a call that opens (`swapon`, `acct`, and `io_uring` where
//! that is not recorded). If a thread does so and within the same moment opens a file without an
//! event, one may be mistaken for the other.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::eventless_mounts::EventlessMounts;
use super::explained_opens::{KnownPaths, OpenedPath, PathBase};
use super::open_assignment::{FanotifyOpen, JoinedOpen, OpenCall, OpenKind, verdicts_of};
use super::pending_validation::renames;
use super::room::Room;
use crate::event::registers::fd;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, OpenFlags, SysEnter, SysExit};
use crate::units::{KernelTime, Tid};

/// Calls and events that are not assigned to each other yet.
#[derive(Debug, Default)]
pub struct FanotifyJoin {
    /// Time from which on all calls that open were recorded.
    seen_since: KernelTime,
    /// True if the bits of `O_*` are those of this machine.
    knows_flags: bool,
    threads: FxHashMap<Tid, ThreadOpens>,
    room: Room,
    /// Threads that also open by other means.
    otherwise: FxHashSet<Tid>,
    /// Times at which the calls of threads may be judged.
    due: BTreeSet<(KernelTime, Tid)>,
    known: KnownPaths,
    eventless: EventlessMounts,
    /// Number of changes of working directories; `None`: not all are recorded.
    directory_changes: Option<u64>,
    /// Number of renames, removals, mounts and changes of roots.
    name_changes: u64,
}

#[derive(Debug, Default)]
struct ThreadOpens {
    reports: VecDeque<FanotifyOpen>,
    calls: VecDeque<OpenCall>,
    /// The call that it is inside.
    inside: Option<EnteredOpen>,
    /// Time until which its calls cannot be judged, and at which they are due.
    not_before: KernelTime,
}

/// A call that opens and has not ended.
#[derive(Clone, Copy, Debug)]
struct EnteredOpen {
    start: KernelTime,
    opens: OpenKind,
    /// Directory at which a relative path begins.
    base: PathBase,
    /// Number of changes of names before.
    name_changes: u64,
}

/// Progress of the judging of a thread's calls.
enum JoinProgress {
    /// All calls are judged.
    Done,
    /// The rest must wait until this time has passed.
    Due(KernelTime),
    /// The rest must wait for the end of the call that the thread is inside.
    Inside,
}

impl FanotifyJoin {
    /// Returns a join for a capture of such a machine, in which all calls that open are recorded
    /// from this time on; `MAX`: not all are.
    pub fn new(seen_since: KernelTime, machine: &str) -> Self {
        let knows_flags = machine == std::env::consts::ARCH;
        Self { seen_since, knows_flags, ..Self::default() }
    }

    /// Notes that all changes of working directories are recorded.
    pub fn with_directory_changes(self) -> Self {
        Self { directory_changes: Some(0), ..self }
    }

    /// Sets the mounts at the start: the content of `/proc/self/mountinfo`.
    pub fn mounts(&mut self, mountinfo: &[u8]) {
        self.eventless = EventlessMounts::new(mountinfo);
    }

    /// Takes an event, which must come before the calls that it may belong to. Returns false if too
    /// many events wait for theirs.
    pub fn add(&mut self, tid: Tid, report: FanotifyOpen) -> bool {
        let threads = &self.threads;
        let waiting = || threads.values().map(ThreadOpens::held_bytes).sum();
        if !self.room.take(report.held_bytes(), waiting) {
            return false;
        }
        let thread = self.threads.entry(tid).or_default();
        // Events come in the order in which they were read.
        let is_in_order = |last: &FanotifyOpen| {
            last.since <= report.since && last.until <= report.until && last.end <= report.end
        };
        if !thread.reports.back().is_none_or(is_in_order) {
            self.otherwise.insert(tid);
        }
        thread.reports.push_back(report);
        true
    }

    /// Drops the events from before this time: their calls did not come.
    pub fn forget_before(&mut self, time: KernelTime) {
        self.threads.retain(|_, thread| {
            if thread.calls.is_empty() {
                thread.forget_reports(thread.inside.map_or(time, |inside| inside.start.min(time)));
            }
            !thread.reports.is_empty() || !thread.calls.is_empty() || thread.inside.is_some()
        });
    }

    /// Handles a loss: calls may be missing before this time.
    fn lost(&mut self, time: KernelTime) {
        self.seen_since = self.seen_since.max(time);
        self.changes_names(time);
        self.changes_directory();
        for thread in self.threads.values_mut() {
            thread.inside = None;
        }
    }

    /// Notes that the thread has a ring open files: none of its later events is certainly a call's.
    pub fn opens_otherwise(&mut self, tid: Tid) {
        self.otherwise.insert(tid);
    }

    /// Handles an event of the recording. If it is the exit of a call that opens, returns the time
    /// at which the call's reports are read; the verdict will have this number.
    pub fn look(&mut self, event: &Event, number: u64) -> Option<KernelTime> {
        if renames(&event.kind) {
            self.changes_names(event.time);
        }
        match &event.kind {
            EventKind::SysEnter(enter) if enter.call.call().opens_files() => {
                self.enter(event.tid, event.time, enter);
            }
            EventKind::SysExit(exit) if exit.call.call().opens_files() => {
                return self.exit(event.tid, event.time, exit, number);
            }
            EventKind::SysEnter(SysEnter { call, .. })
            | EventKind::SysExit(SysExit { call, .. })
                if call.call().class == CallClass::Place =>
            {
                self.changes_directory();
            }
            EventKind::SysEnter(SysEnter { call, .. })
            | EventKind::SysExit(SysExit { call, .. })
                if matches!(call.call().class, CallClass::Mount | CallClass::Root) =>
            {
                self.changes_names(event.time);
            }
            EventKind::Task(TaskEvent::Exit { tid, .. }) => self.ended(*tid, event.time),
            EventKind::Uring(request) if request.opcode().class() == CallClass::Open => {
                self.opens_otherwise(event.tid);
            }
            EventKind::Lost(_) => self.lost(event.time),
            _ => {}
        }
        None
    }

    /// Handles the entry of a call that opens.
    fn enter(&mut self, tid: Tid, time: KernelTime, enter: &SysEnter) {
        let opens = match OpenKind::by_flags(enter) {
            OpenKind::File | OpenKind::Directory if !self.knows_flags => OpenKind::Either,
            opens => opens,
        };
        let base = self.base_of(tid, enter);
        let name_changes = self.name_changes;
        let entered = EnteredOpen { start: time, opens, base, name_changes };
        self.threads.entry(tid).or_default().inside = Some(entered);
    }

    /// Notes that from now on paths may lead to other files.
    fn changes_names(&mut self, time: KernelTime) {
        self.known.renamed(time);
        self.name_changes += 1;
    }

    /// Notes that a thread changes its working directory, or has changed it.
    fn changes_directory(&mut self) {
        self.directory_changes = self.directory_changes.map(|changes| changes + 1);
    }

    /// Returns the directory at which a relative path of the call begins.
    fn base_of(&self, tid: Tid, enter: &SysEnter) -> PathBase {
        let call = enter.call.call();
        let flags = OpenFlags::of_call(call, &enter.args, None);
        let place = call.arg(Role::DirFd).and_then(|place| enter.args.get(place));
        let is_working = place.is_none_or(|directory| fd(*directory).0 == libc::AT_FDCWD);
        match self.directory_changes {
            // The flags of `openat2` are stored in memory.
            _ if flags.is_none_or(OpenFlags::is_unnamed) => PathBase::Unknown,
            Some(changes) if is_working => PathBase::WorkingDirectory(tid, changes),
            _ => PathBase::Descriptor,
        }
    }

    /// Handles the exit. If its events must be awaited, returns the time at which they are read;
    /// the verdict will have this number.
    fn exit(
        &mut self,
        tid: Tid,
        time: KernelTime,
        exit: &SysExit,
        number: u64,
    ) -> Option<KernelTime> {
        let thread = self.threads.entry(tid).or_default();
        let before = thread.calls.back().map_or(KernelTime::MIN, |it| it.end);
        let (opens, base, name_changes) = (OpenKind::Either, PathBase::Unknown, self.name_changes);
        let unseen = EnteredOpen { start: before, opens, base, name_changes };
        let EnteredOpen { start, opens, base, name_changes } =
            thread.inside.take().unwrap_or(unseen);
        // Names that changed during the call may have led to either file.
        let base = if name_changes == self.name_changes { base } else { PathBase::Unknown };
        let mut waits_until = None;
        if opens != OpenKind::Nothing && may_have_opened(exit.ret) {
            if thread.calls.is_empty() {
                thread.forget_reports(start);
            }
            let number = (exit.ret >= 0).then_some(number);
            let mut call = OpenCall { opens, start, end: time, path: None, number };
            // The last of its events is read last.
            let begun = thread.reports.partition_point(|it| it.since <= call.end);
            let last = begun.checked_sub(1).and_then(|it| thread.reports.get(it));
            let mut until = last.filter(|it| call.is_while(it)).map(|it| it.end);
            call.path = until.and_then(|_| self.kept_path(exit, base));
            let path = call.path.as_ref().map(|path| &*path.bytes);
            until = until.filter(|_| !path.is_some_and(|path| self.eventless.has(path)));
            if until.is_some() {
                self.threads.entry(tid).or_default().calls.push_back(call);
            }
            waits_until = until.filter(|_| exit.ret >= 0);
        }
        let thread = self.threads.entry(tid).or_default();
        // Calls that had to wait for the end of this call can be judged now, if their time has
        // come.
        if !thread.calls.is_empty() {
            if time > thread.not_before {
                self.due.insert((time, tid));
            }
        } else if thread.reports.is_empty() {
            self.threads.remove(&tid);
        }
        waits_until
    }

    /// Returns the path that a probe has recorded for the call. Without room for it, the order of
    /// events and calls has to decide alone.
    fn kept_path(&mut self, exit: &SysExit, base: PathBase) -> Option<OpenedPath> {
        let path = &exit.names.as_ref()?.argument.as_ref()?.bytes;
        let threads = &self.threads;
        let waiting = || threads.values().map(ThreadOpens::held_bytes).sum();
        self.room.take(path.len(), waiting).then(|| OpenedPath::new(path, base, self.name_changes))
    }

    /// Handles the end of a thread, maybe inside a call.
    fn ended(&mut self, tid: Tid, time: KernelTime) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // The number may be another thread's from now on; calls that are not judged yet belong to
        // this one.
        if thread.calls.is_empty() {
            self.otherwise.remove(&tid);
        }
        if let Some(EnteredOpen { start, opens, .. }) = thread.inside.take() {
            let (end, path, number) = (time, None, None);
            thread.calls.push_back(OpenCall { opens, start, end, path, number });
        }
        self.due.insert((time, tid));
    }

    /// Returns the verdicts that are possible when all events from before this time have come.
    pub fn settle(&mut self, now: KernelTime) -> Vec<JoinedOpen> {
        let mut verdicts = Vec::new();
        while let Some(&(time, tid)) = self.due.first()
            && time < now
        {
            self.due.pop_first();
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            let is_doubtful = self.otherwise.contains(&tid);
            let seen_since = if is_doubtful { KernelTime::MAX } else { self.seen_since };
            match thread.judge(now, seen_since, &mut self.known, &mut verdicts) {
                JoinProgress::Due(time) => {
                    thread.not_before = time;
                    self.due.insert((time, tid));
                }
                JoinProgress::Done | JoinProgress::Inside => {}
            }
        }
        verdicts
    }
}

impl ThreadOpens {
    fn held_bytes(&self) -> usize {
        let paths = self.calls.iter().filter_map(|call| call.path.as_ref());
        let paths: usize = paths.map(|path| path.bytes.len()).sum();
        self.reports.iter().map(FanotifyOpen::held_bytes).sum::<usize>() + paths
    }

    /// Drops the events that were read before this time: they belong to none of its calls.
    fn forget_reports(&mut self, time: KernelTime) {
        while self.reports.front().is_some_and(|it| it.until < time) {
            self.reports.pop_front();
        }
    }

    /// Judges the calls that no later call can take an event from.
    fn judge(
        &mut self,
        now: KernelTime,
        seen_since: KernelTime,
        known: &mut KnownPaths,
        verdicts: &mut Vec<JoinedOpen>,
    ) -> JoinProgress {
        while let Some(first) = self.reports.front()
            && !self.calls.is_empty()
        {
            // Group of events and calls that overlap in time.
            let (mut reports, mut calls, mut until) = (1, 0, first.until);
            loop {
                calls += self.calls.iter().skip(calls).take_while(|it| it.start <= until).count();
                let Some(last) = calls.checked_sub(1).and_then(|it| self.calls.get(it)) else {
                    break;
                };
                let Some(next) = self.reports.get(reports).filter(|it| it.since <= last.end) else {
                    break;
                };
                until = next.until;
                reports += 1;
            }
            if now <= until {
                return JoinProgress::Due(until);
            }
            let may_open = |opens: OpenKind| opens != OpenKind::Nothing;
            if self.inside.is_some_and(|call| may_open(call.opens) && call.start <= until) {
                return JoinProgress::Inside;
            }
            let reports: Vec<FanotifyOpen> = self.reports.drain(..reports).collect();
            let calls: Vec<OpenCall> = self.calls.drain(..calls).collect();
            verdicts.extend(verdicts_of(&reports, &calls, seen_since, known));
        }
        let rest = self.calls.drain(..).filter_map(|it| it.number);
        verdicts.extend(rest.map(|number| JoinedOpen {
            number,
            report: None,
            sure: false,
            is_by_path: false,
        }));
        JoinProgress::Done
    }
}

/// Returns false if the call failed before the file was open: `vfs_open` of `fs/open.c` makes the
/// event, and refusals of a file system or driver come before. Security modules and truncations can
/// fail with other errors afterwards.
fn may_have_opened(ret: i64) -> bool {
    const BEFORE: [i32; 14] = [
        libc::ENOENT,
        libc::ENOTDIR,
        libc::EISDIR,
        libc::EEXIST,
        libc::ELOOP,
        libc::ENAMETOOLONG,
        libc::EFAULT,
        libc::EINVAL,
        libc::EBADF,
        libc::EMFILE,
        libc::ENFILE,
        libc::EWOULDBLOCK,
        libc::ENXIO,
        libc::ENODEV,
    ];
    !BEFORE.iter().any(|it| ret == -i64::from(*it))
}

#[cfg(test)]
#[path = "fanotify_join_tests.rs"]
mod tests;
