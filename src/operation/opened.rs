//! Which call opened what fanotify told of.
//!
//! An event is put into the kernel's queue inside the call that opened. It says which thread, and between which times
//! (the queue was empty; it was read), not which call. Within a thread events and calls are in the same order:
//!
//! ```text
//!  calls of the thread    ──[─1─]──[──2──]────────[─3─]──►
//!  events, and their times   └──a──┘  └───b, c──────────┘     b is of 2 and c of 3; a of 1
//! ```
//!
//! A call may have none: it failed, opened no file or directory, or one of a file system that is not listened to, or the kernel
//! merged its event into an older one that nobody had read. But each event is of a call. So an event is certain if in all ways
//! to give every event a call of its own, in order and in time, it gets the same one: that is so if the earliest and the
//! latest way agree on it. Otherwise nothing is said.
//!
//! Not seen: who opens by other means than a call that opens (`swapon`, `acct`, and `io_uring` where that is not recorded).
//! Where a thread does so and within the same moment opens what has no event, one may be taken for the other.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::bounds::Room;
use crate::event::FileStat;
use crate::event::syscall_table::Role;
use crate::event::{SysEnter, SysExit};
use crate::units::{KernelTime, Tid};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// It was put into the queue after this time.
    pub since: KernelTime,
    /// It was read at this time.
    pub until: KernelTime,
    /// Clock after the name was read.
    pub end: KernelTime,
    /// What was opened.
    pub stat: Option<FileStat>,
    /// Its name.
    pub bytes: Vec<u8>,
}

impl Told {
    fn held_bytes(&self) -> usize {
        2 * size_of::<Self>() + self.bytes.len()
    }
}

/// What is known of a call's event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The number that the call was given.
    pub number: u64,
    /// Its event, if it is known which.
    pub told: Option<Told>,
    /// Nothing speaks against it.
    pub sure: bool,
}

/// Calls and events that have not found each other.
#[derive(Debug, Default)]
pub struct OpenJoin {
    /// All calls that open were recorded from this time on.
    seen_since: KernelTime,
    /// The bits of `O_*` are those of this machine.
    knows_flags: bool,
    threads: FxHashMap<Tid, Thread>,
    room: Room,
    /// Those that open by other means, too.
    otherwise: FxHashSet<Tid>,
    /// When a thread's calls may be judged.
    due: BTreeSet<(KernelTime, Tid)>,
}

#[derive(Debug, Default)]
struct Thread {
    told: VecDeque<Told>,
    calls: VecDeque<Call>,
    /// Begin of the call that it is inside, and what that may have an event of.
    inside: Option<(KernelTime, Opens)>,
    /// Its calls cannot be judged up to this time, and are due then.
    not_before: KernelTime,
}

/// What a call may open that is told, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opens {
    Nothing,
    Directory,
    File,
    Either,
}

/// A call that may have an event.
#[derive(Clone, Copy, Debug)]
struct Call {
    opens: Opens,
    start: KernelTime,
    end: KernelTime,
    /// `None`: it failed.
    number: Option<u64>,
}

/// How far a thread's calls can be judged.
enum Progress {
    /// All are.
    Done,
    /// Not before this time has passed.
    Due(KernelTime),
    /// Not before the call ends that it is inside.
    Inside,
}

impl OpenJoin {
    /// For a capture, of such a machine, in which all calls that open are recorded from this time on; `MAX`: not all are.
    pub fn new(seen_since: KernelTime, machine: &str) -> Self {
        let knows_flags = machine == std::env::consts::ARCH;
        Self { seen_since, knows_flags, ..Self::default() }
    }

    /// Takes an event. It must come before the calls that it may be of. False: too many wait for theirs.
    pub fn add(&mut self, tid: Tid, told: Told) -> bool {
        let threads = &self.threads;
        let waiting = || threads.values().flat_map(|it| &it.told).map(Told::held_bytes).sum();
        if !self.room.take(told.held_bytes(), waiting) {
            return false;
        }
        let thread = self.threads.entry(tid).or_default();
        // They come in the order in which they were read.
        let is_in_order = |last: &Told| {
            last.since <= told.since && last.until <= told.until && last.end <= told.end
        };
        if !thread.told.back().is_none_or(is_in_order) {
            self.otherwise.insert(tid);
        }
        thread.told.push_back(told);
        true
    }

    /// Events of before this time whose calls did not come are of no use any more.
    pub fn forget_before(&mut self, time: KernelTime) {
        self.threads.retain(|_, thread| {
            if thread.calls.is_empty() {
                thread.forget_told(thread.inside.map_or(time, |it| it.0.min(time)));
            }
            !thread.told.is_empty() || !thread.calls.is_empty() || thread.inside.is_some()
        });
    }

    /// Calls may be missing before this time.
    pub fn lost(&mut self, time: KernelTime) {
        self.seen_since = self.seen_since.max(time);
        for thread in self.threads.values_mut() {
            thread.inside = None;
        }
    }

    /// The thread has a ring open files: nothing that is told of it from now on is certainly a call's.
    pub fn opens_otherwise(&mut self, tid: Tid) {
        self.otherwise.insert(tid);
    }

    /// A call that opens begins.
    pub fn enter(&mut self, tid: Tid, time: KernelTime, enter: &SysEnter) {
        let opens = match Opens::by_flags(enter) {
            Opens::File | Opens::Directory if !self.knows_flags => Opens::Either,
            opens => opens,
        };
        self.threads.entry(tid).or_default().inside = Some((time, opens));
    }

    /// It has ended. Until when its events are read and looked at, if it has to wait for that: its verdict has this number.
    pub fn exit(
        &mut self,
        tid: Tid,
        time: KernelTime,
        exit: &SysExit,
        number: u64,
    ) -> Option<KernelTime> {
        let thread = self.threads.entry(tid).or_default();
        let before = thread.calls.back().map_or(KernelTime::MIN, |it| it.end);
        let (start, opens) = thread.inside.take().unwrap_or((before, Opens::Either));
        let mut waits_until = None;
        if opens != Opens::Nothing && may_have_opened(exit.ret) {
            if thread.calls.is_empty() {
                thread.forget_told(start);
            }
            let number = (exit.ret >= 0).then_some(number);
            let call = Call { opens, start, end: time, number };
            // The last of its events is read last.
            let begun = thread.told.partition_point(|it| it.since <= call.end);
            let last = begun.checked_sub(1).and_then(|it| thread.told.get(it));
            let until = last.filter(|it| call.is_while(it)).map(|it| it.end);
            thread.calls.extend(until.map(|_| call));
            waits_until = until.filter(|_| exit.ret >= 0);
        }
        // What could not be judged before the end of this call can be now, if its time has come.
        if !thread.calls.is_empty() {
            if time > thread.not_before {
                self.due.insert((time, tid));
            }
        } else if thread.told.is_empty() {
            self.threads.remove(&tid);
        }
        waits_until
    }

    /// The thread has ended, maybe inside a call.
    pub fn ended(&mut self, tid: Tid, time: KernelTime) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // The number may be another thread's from now on; what is not judged yet is still this one's.
        if thread.calls.is_empty() {
            self.otherwise.remove(&tid);
        }
        if let Some((start, opens)) = thread.inside.take() {
            thread.calls.push_back(Call { opens, start, end: time, number: None });
        }
        self.due.insert((time, tid));
    }

    /// The verdicts that are possible when all events of before this time have come.
    pub fn settle(&mut self, now: KernelTime) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        while let Some(&(time, tid)) = self.due.first()
            && time < now
        {
            self.due.pop_first();
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            let is_doubtful = self.otherwise.contains(&tid);
            let seen_since = if is_doubtful { KernelTime::MAX } else { self.seen_since };
            match thread.judge(now, seen_since, &mut verdicts) {
                Progress::Due(time) => {
                    thread.not_before = time;
                    self.due.insert((time, tid));
                }
                Progress::Done | Progress::Inside => {}
            }
        }
        verdicts
    }
}

impl Opens {
    /// Those of `openat2` stand in memory.
    fn by_flags(enter: &SysEnter) -> Self {
        let call = enter.call.call();
        let Some(flags) = call.arg(Role::OpenFlags).and_then(|it| enter.args.get(it)) else {
            return if call.arg(Role::How).is_some() { Self::Either } else { Self::File };
        };
        let has = |flag: i32| {
            let flag = u64::from(flag.cast_unsigned());
            flags & flag == flag
        };
        let writes = has(libc::O_WRONLY) != has(libc::O_RDWR);
        match () {
            // The same on every machine that is known.
            () if has(libc::O_PATH) => Self::Nothing,
            // It has the bit of O_DIRECTORY, too.
            () if has(libc::O_TMPFILE) => Self::File,
            () if has(libc::O_DIRECTORY) => Self::Directory,
            // A directory is opened neither for writing nor to be made (`EISDIR`).
            () if writes || has(libc::O_CREAT) => Self::File,
            () => Self::Either,
        }
    }
}

impl Call {
    /// At that time.
    fn is_while(&self, told: &Told) -> bool {
        self.start <= told.until && self.end >= told.since
    }

    fn may_be_of(&self, told: &Told) -> bool {
        let is_such = match (self.opens, told.stat) {
            (Opens::Directory, Some(stat)) => stat.is_directory(),
            (Opens::File, Some(stat)) => !stat.is_directory(),
            (Opens::Nothing, _) => false,
            (_, None) | (Opens::Either, _) => true,
        };
        is_such && self.is_while(told)
    }
}

impl Thread {
    /// Events that were read before this time are of none of its calls.
    fn forget_told(&mut self, time: KernelTime) {
        while self.told.front().is_some_and(|it| it.until < time) {
            self.told.pop_front();
        }
    }

    /// Judges the calls that no later call can take an event from.
    fn judge(
        &mut self,
        now: KernelTime,
        seen_since: KernelTime,
        verdicts: &mut Vec<Verdict>,
    ) -> Progress {
        while let Some(first) = self.told.front()
            && !self.calls.is_empty()
        {
            // Those that share an event with one another.
            let (mut told, mut calls, mut until) = (1, 0, first.until);
            loop {
                calls += self.calls.iter().skip(calls).take_while(|it| it.start <= until).count();
                let Some(last) = calls.checked_sub(1).and_then(|it| self.calls.get(it)) else {
                    break;
                };
                let Some(next) = self.told.get(told).filter(|it| it.since <= last.end) else {
                    break;
                };
                until = next.until;
                told += 1;
            }
            if now <= until {
                return Progress::Due(until);
            }
            if self.inside.is_some_and(|it| it.1 != Opens::Nothing && it.0 <= until) {
                return Progress::Inside;
            }
            let told: Vec<Told> = self.told.drain(..told).collect();
            let calls: Vec<Call> = self.calls.drain(..calls).collect();
            verdicts.extend(verdicts_of(told, &calls, seen_since));
        }
        let rest = self.calls.drain(..).filter_map(|it| it.number);
        verdicts.extend(rest.map(|number| Verdict { number, told: None, sure: false }));
        Progress::Done
    }
}

/// The call of each event, where there is only one way.
fn verdicts_of(told: Vec<Told>, calls: &[Call], seen_since: KernelTime) -> Vec<Verdict> {
    let mut its: Vec<Option<Told>> = calls.iter().map(|_| None).collect();
    let mut sure = false;
    if let Some(places) = places(&told, calls) {
        sure = told.iter().all(|it| it.since >= seen_since);
        for (told, (earliest, latest)) in told.into_iter().zip(places) {
            if earliest == latest
                && let Some(its) = its.get_mut(earliest)
            {
                *its = Some(told);
            }
        }
    }
    let numbered = calls.iter().zip(its).filter_map(|(call, told)| Some((call.number?, told)));
    numbered.map(|(number, told)| Verdict { number, told, sure }).collect()
}

/// The first and the last call that each event may be of; `None`: there are events of something else.
fn places(told: &[Told], calls: &[Call]) -> Option<Vec<(usize, usize)>> {
    let mut free = 0;
    let mut earliest = Vec::new();
    for it in told {
        let place = free + calls.get(free..)?.iter().position(|call| call.may_be_of(it))?;
        earliest.push(place);
        free = place + 1;
    }
    let mut free = calls.len();
    let mut latest = Vec::new();
    for it in told.iter().rev() {
        let place = calls.get(..free)?.iter().rposition(|call| call.may_be_of(it))?;
        latest.push(place);
        free = place;
    }
    latest.reverse();
    Some(earliest.into_iter().zip(latest).collect())
}

/// False if the call failed before it had opened anything: with all errors but those of what comes behind (a security
/// module's last word, truncating).
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
#[path = "opened_tests.rs"]
mod tests;
