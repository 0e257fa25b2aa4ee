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
//! to a call. So an event is certain if it has the same call in all assignments that give every
//! event a call of its own, in order and in time. This is true if the earliest and the latest
//! assignment agree on it. Otherwise paths decide, if probes have recorded them
//! (`explained_opens`), or no assignment is reported.
//!
//! Not seen: opens by other means than a call that opens (`swapon`, `acct`, and `io_uring` where
//! that is not recorded). If a thread does so and within the same moment opens a file without an
//! event, one may be mistaken for the other.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::explained_opens::{OpenedPath, ReportedFile, by_paths};
use super::room::Room;
use crate::event::syscall_table::Role;
use crate::event::{AccessMode, FileStat, OpenFlags, SysEnter, SysExit};
use crate::units::{KernelTime, Tid};

/// An event of fanotify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanotifyOpen {
    /// Earliest time of its queueing.
    pub since: KernelTime,
    /// Time of its reading.
    pub until: KernelTime,
    /// Clock after the name was read.
    pub end: KernelTime,
    /// Type and inode of the opened file.
    pub stat: Option<FileStat>,
    /// Name of the opened file.
    pub bytes: Vec<u8>,
}

impl FanotifyOpen {
    fn held_bytes(&self) -> usize {
        2 * size_of::<Self>() + self.bytes.len()
    }
}

/// Result for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedOpen {
    /// Number of the call.
    pub number: u64,
    /// Event of the call, if it could be assigned.
    pub report: Option<FanotifyOpen>,
    /// True if nothing contradicts the assignment.
    pub sure: bool,
    /// True if the path of the call decided: a rename in the meantime contradicts.
    pub is_by_path: bool,
}

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
}

#[derive(Debug, Default)]
struct ThreadOpens {
    reports: VecDeque<FanotifyOpen>,
    calls: VecDeque<OpenCall>,
    /// Begin of the call that it is inside, and the kind of file that the call may open.
    inside: Option<(KernelTime, OpenKind)>,
    /// Time until which its calls cannot be judged, and at which they are due.
    not_before: KernelTime,
}

/// Kind of file that a call may open with an event, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenKind {
    Nothing,
    Directory,
    File,
    Either,
}

/// A call that may have an event.
#[derive(Clone, Debug)]
struct OpenCall {
    opens: OpenKind,
    start: KernelTime,
    end: KernelTime,
    /// Path that the call has opened, if it was recorded.
    path: Option<OpenedPath>,
    /// Number of the call; `None`: it failed.
    number: Option<u64>,
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
                thread.forget_reports(thread.inside.map_or(time, |inside| inside.0.min(time)));
            }
            !thread.reports.is_empty() || !thread.calls.is_empty() || thread.inside.is_some()
        });
    }

    /// Handles a loss: calls may be missing before this time.
    pub fn lost(&mut self, time: KernelTime) {
        self.seen_since = self.seen_since.max(time);
        for thread in self.threads.values_mut() {
            thread.inside = None;
        }
    }

    /// Notes that the thread has a ring open files: none of its later events is certainly a call's.
    pub fn opens_otherwise(&mut self, tid: Tid) {
        self.otherwise.insert(tid);
    }

    /// Handles the entry of a call that opens.
    pub fn enter(&mut self, tid: Tid, time: KernelTime, enter: &SysEnter) {
        let opens = match OpenKind::by_flags(enter) {
            OpenKind::File | OpenKind::Directory if !self.knows_flags => OpenKind::Either,
            opens => opens,
        };
        self.threads.entry(tid).or_default().inside = Some((time, opens));
    }

    /// Handles the exit. If its events must be awaited, returns the time at which they are read;
    /// the verdict will have this number.
    pub fn exit(
        &mut self,
        tid: Tid,
        time: KernelTime,
        exit: &SysExit,
        number: u64,
    ) -> Option<KernelTime> {
        let thread = self.threads.entry(tid).or_default();
        let before = thread.calls.back().map_or(KernelTime::MIN, |it| it.end);
        let (start, opens) = thread.inside.take().unwrap_or((before, OpenKind::Either));
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
            let until = last.filter(|it| call.is_while(it)).map(|it| it.end);
            if until.is_some() {
                call.path = self.kept_path(exit);
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
    fn kept_path(&mut self, exit: &SysExit) -> Option<OpenedPath> {
        let path = &exit.names.as_ref()?.argument.as_ref()?.bytes;
        let threads = &self.threads;
        let waiting = || threads.values().map(ThreadOpens::held_bytes).sum();
        self.room.take(path.len(), waiting).then(|| OpenedPath(path.clone().into()))
    }

    /// Handles the end of a thread, maybe inside a call.
    pub fn ended(&mut self, tid: Tid, time: KernelTime) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // The number may be another thread's from now on; calls that are not judged yet belong to
        // this one.
        if thread.calls.is_empty() {
            self.otherwise.remove(&tid);
        }
        if let Some((start, opens)) = thread.inside.take() {
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
            match thread.judge(now, seen_since, &mut verdicts) {
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

impl OpenKind {
    /// Returns the kind of file by the flags of a call; those of `openat2` are stored in memory.
    fn by_flags(enter: &SysEnter) -> Self {
        let call = enter.call.call();
        let Some(flags) = OpenFlags::of_call(call, &enter.args, None) else {
            return if call.arg(Role::How).is_some() { Self::Either } else { Self::File };
        };
        let writes = matches!(flags.access_mode(), AccessMode::Write | AccessMode::ReadWrite);
        match () {
            // `O_PATH` is the same on every supported machine.
            () if flags.is_path_only() => Self::Nothing,
            // `O_TMPFILE` includes the bit of `O_DIRECTORY`.
            () if flags.is_unnamed() => Self::File,
            () if flags.is_directory() => Self::Directory,
            // A directory is opened neither for writing nor with creation (`EISDIR`).
            () if writes || flags.creates() => Self::File,
            () => Self::Either,
        }
    }
}

impl OpenCall {
    /// Returns true if the call and the event overlap in time.
    fn is_while(&self, report: &FanotifyOpen) -> bool {
        self.start <= report.until && self.end >= report.since
    }

    fn may_be_of(&self, report: &FanotifyOpen) -> bool {
        let is_such = match (self.opens, report.stat) {
            (OpenKind::Directory, Some(stat)) => stat.is_directory(),
            (OpenKind::File, Some(stat)) => !stat.is_directory(),
            (OpenKind::Nothing, _) => false,
            (_, None) | (OpenKind::Either, _) => true,
        };
        is_such && self.is_while(report)
    }
}

impl ThreadOpens {
    fn held_bytes(&self) -> usize {
        let paths = self.calls.iter().filter_map(|call| call.path.as_ref());
        let paths: usize = paths.map(|path| path.0.len()).sum();
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
            if self.inside.is_some_and(|(start, opens)| may_open(opens) && start <= until) {
                return JoinProgress::Inside;
            }
            let reports: Vec<FanotifyOpen> = self.reports.drain(..reports).collect();
            let calls: Vec<OpenCall> = self.calls.drain(..calls).collect();
            verdicts.extend(verdicts_of(&reports, &calls, seen_since));
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

/// Returns a verdict for each call, with its event where the assignment is unique.
fn verdicts_of(
    reports: &[FanotifyOpen],
    calls: &[OpenCall],
    seen_since: KernelTime,
) -> Vec<JoinedOpen> {
    let mut of_calls: Vec<Option<AssignedEvent>> = vec![None; calls.len()];
    let mut sure = false;
    if let Some(places) = places(reports, calls) {
        sure = reports.iter().all(|it| it.since >= seen_since);
        let is_unique = |(earliest, latest): &(usize, usize)| earliest == latest;
        if !places.iter().all(is_unique) {
            of_calls = explained(reports, calls, &places);
        }
        for (index, (place, _)) in places.into_iter().enumerate().filter(|it| is_unique(&it.1)) {
            let event = AssignedEvent { index, is_by_path: false };
            of_calls.get_mut(place).into_iter().for_each(|assigned| *assigned = Some(event));
        }
    }
    let verdict = |(call, event): (&OpenCall, Option<AssignedEvent>)| {
        let report = event.and_then(|event| reports.get(event.index)).cloned();
        let is_by_path = event.is_some_and(|event| event.is_by_path);
        Some(JoinedOpen { number: call.number?, report, sure, is_by_path })
    };
    calls.iter().zip(of_calls).filter_map(verdict).collect()
}

/// An event that was assigned to a call.
#[derive(Clone, Copy, Debug)]
struct AssignedEvent {
    index: usize,
    is_by_path: bool,
}

/// Returns the event of each call by the paths of the calls. `places` are the first and the last
/// call that each event may belong to by its order. A call after the last one may have opened the
/// file again, so that the kernel merged its event.
fn explained(
    reports: &[FanotifyOpen],
    calls: &[OpenCall],
    places: &[(usize, usize)],
) -> Vec<Option<AssignedEvent>> {
    let paths: Vec<Option<&OpenedPath>> = calls.iter().map(|call| call.path.as_ref()).collect();
    let file = |(report, (earliest, _)): (&FanotifyOpen, &(usize, usize))| {
        let begin = calls.partition_point(|call| call.end < report.since).max(*earliest);
        let end = calls.partition_point(|call| call.start <= report.until);
        (report.stat.and_then(|stat| stat.inode()), begin..end)
    };
    let files = reports.iter().zip(places).map(file).zip(reports);
    let files: Vec<ReportedFile<'_>> = files
        .map(|((inode, calls), report)| ReportedFile { name: &report.bytes, inode, calls })
        .collect();
    let may_be = |event: usize, call: usize| {
        calls.get(call).zip(reports.get(event)).is_some_and(|(call, report)| call.may_be_of(report))
    };
    let events = by_paths(&files, &paths, may_be).into_iter();
    events.map(|event| event.map(|index| AssignedEvent { index, is_by_path: true })).collect()
}

/// Returns the first and the last call that each event may belong to; `None`: some events are not
/// of these calls.
fn places(reports: &[FanotifyOpen], calls: &[OpenCall]) -> Option<Vec<(usize, usize)>> {
    let mut free = 0;
    let mut earliest = Vec::new();
    for it in reports {
        let place = free + calls.get(free..)?.iter().position(|call| call.may_be_of(it))?;
        earliest.push(place);
        free = place + 1;
    }
    let mut free = calls.len();
    let mut latest = Vec::new();
    for it in reports.iter().rev() {
        let place = calls.get(..free)?.iter().rposition(|call| call.may_be_of(it))?;
        latest.push(place);
        free = place;
    }
    latest.reverse();
    Some(earliest.into_iter().zip(latest).collect())
}

/// Returns false if the call failed before it had opened a file. With other errors (of a security
/// module, or of truncating) the file had been opened.
fn may_have_opened(ret: i64) -> bool {
    const BEFORE: [i32; 8] = [
        libc::ENOENT,
        libc::ENOTDIR,
        libc::EEXIST,
        libc::ELOOP,
        libc::ENAMETOOLONG,
        libc::EFAULT,
        libc::EINVAL,
        libc::EBADF,
    ];
    !BEFORE.iter().any(|it| ret == -i64::from(*it))
}

#[cfg(test)]
#[path = "fanotify_join_tests.rs"]
mod tests;
