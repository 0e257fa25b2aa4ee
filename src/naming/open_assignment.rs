//! Assignment of events of fanotify to the calls of a thread that opened the files.
//!
//! Events and calls are in the same order, and each event belongs to a call. An event is certain if
//! it has the same call in all assignments that give every event a call of its own, in order and in
//! time. This is true if the earliest and the latest assignment agree on it. Otherwise paths
//! decide, if probes have recorded them ([`super::explained_opens`]), or no assignment is reported.

use rustc_hash::{FxHashMap, FxHashSet};

use super::explained_opens::{KnownPaths, OpenedPath, ReportedFile, by_paths};
use crate::event::syscall_table::Role;
use crate::event::{AccessMode, FileStat, OpenFlags, SysEnter};
use crate::units::KernelTime;

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
    /// True if the file may have other names, by one of which it was opened.
    pub has_other_names: bool,
}

impl FanotifyOpen {
    pub(super) fn held_bytes(&self) -> usize {
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

/// Kind of file that a call may open with an event, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenKind {
    Nothing,
    Directory,
    File,
    Either,
}

/// A call that may have an event.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) opens: OpenKind,
    pub(super) start: KernelTime,
    pub(super) end: KernelTime,
    /// Path that the call has opened, if it was recorded.
    pub(super) path: Option<OpenedPath>,
    /// Number of the call; `None`: it failed.
    pub(super) number: Option<u64>,
}

impl OpenKind {
    /// Returns the kind of file by the flags of a call; those of `openat2` are stored in memory.
    pub(super) fn by_flags(enter: &SysEnter) -> Self {
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
    /// Returns the path if the call has opened the file to which each call with this path leads. A
    /// call that failed may have an event, or not.
    fn fixed_path(&self) -> Option<&OpenedPath> {
        self.path.as_ref().filter(|path| path.is_fixed() && self.number.is_some())
    }

    /// Returns true if the call and the event overlap in time.
    pub(super) fn is_while(&self, report: &FanotifyOpen) -> bool {
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

/// Returns a verdict for each call, with its event where the assignment is unique.
pub(super) fn verdicts_of(
    reports: &[FanotifyOpen],
    calls: &[OpenCall],
    seen_since: KernelTime,
    known: &mut KnownPaths,
) -> Vec<JoinedOpen> {
    let mut of_calls: Vec<Option<AssignedEvent>> = vec![None; calls.len()];
    let mut sure = false;
    let (all_reports, all_calls): (Vec<_>, Vec<_>) =
        (reports.iter().collect(), calls.iter().collect());
    if let Some(places) = places(&all_reports, &all_calls) {
        sure = reports.iter().all(|it| it.since >= seen_since);
        let is_unique = |(earliest, latest): &(usize, usize)| earliest == latest;
        if !places.iter().all(is_unique) {
            of_calls = explained(reports, calls, &places, known);
            let distinct = by_distinct_paths(reports, calls).into_iter();
            of_calls.iter_mut().zip(distinct).for_each(|(event, other)| *event = event.or(other));
        }
        for (index, (place, _)) in places.into_iter().enumerate().filter(|it| is_unique(&it.1)) {
            let event = AssignedEvent { index, is_by_path: false };
            if sure {
                learn(known, reports.get(index), calls.get(place));
            }
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

/// Learns the file to which the path of a call led.
fn learn(known: &mut KnownPaths, report: Option<&FanotifyOpen>, call: Option<&OpenCall>) {
    if let Some(call) = call
        && let Some(path) = &call.path
        && let Some(inode) = report.and_then(|report| report.stat?.inode())
    {
        known.learn(path, call.start, inode);
    }
}

/// Returns the event of each call by the paths of the calls. `places` are the first and the last
/// call that each event may belong to by its order. A call after the last one may have opened the
/// file again, so that the kernel merged its event.
fn explained(
    reports: &[FanotifyOpen],
    calls: &[OpenCall],
    places: &[(usize, usize)],
    known: &KnownPaths,
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
    let events = by_paths(&files, &paths, known, may_be).into_iter();
    events.map(|event| event.map(|index| AssignedEvent { index, is_by_path: true })).collect()
}

/// Returns the event of each call by the order of different files and paths: the kernel merges the
/// event of a file that is opened again.
fn by_distinct_paths(reports: &[FanotifyOpen], calls: &[OpenCall]) -> Vec<Option<AssignedEvent>> {
    let mut inodes = FxHashSet::default();
    let is_first = |(_, report): &(usize, &FanotifyOpen)| {
        report.stat.and_then(|stat| stat.inode()).is_none_or(|inode| inodes.insert(inode))
    };
    let (indices, files): (Vec<usize>, Vec<&FanotifyOpen>) =
        reports.iter().enumerate().filter(is_first).unzip();
    let mut numbers: FxHashMap<&OpenedPath, usize> = FxHashMap::default();
    let mut firsts: Vec<&OpenCall> = Vec::new();
    let mut paths: Vec<usize> = Vec::new();
    for call in calls {
        let next = firsts.len();
        let number = call.fixed_path().map_or(next, |path| *numbers.entry(path).or_insert(next));
        if number == next {
            firsts.push(call);
        }
        paths.push(number);
    }
    let mut events = vec![None; firsts.len()];
    let places = places(&files, &firsts).unwrap_or_default();
    for ((earliest, latest), index) in places.into_iter().zip(indices) {
        if earliest == latest
            && let Some(event) = events.get_mut(earliest)
        {
            *event = Some(AssignedEvent { index, is_by_path: true });
        }
    }
    paths.into_iter().map(|path| events.get(path).copied().flatten()).collect()
}

/// Returns the first and the last call that each event may belong to; `None`: some events are not
/// of these calls.
fn places(reports: &[&FanotifyOpen], calls: &[&OpenCall]) -> Option<Vec<(usize, usize)>> {
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
