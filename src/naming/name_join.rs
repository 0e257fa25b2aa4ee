//! Name join: assigns names to the opens that they were read for, and judges them.
//!
//! A name is valid if its read ended before anything could have changed the name: for an argument,
//! before the thread's next record; for a descriptor, before any close or reuse of the number by a
//! thread of the process. So the event of an open's exit waits until the end of its reads has
//! passed in the stream, some 20 µs, and all later events wait, too.
//!
//! Strings that probes and the entries of calls carry themselves need no verdict: their records are
//! in the stream, between the entry and the exit of the thread's call, and are assigned by the
//! address of the argument. Results of `io_getevents` are recorded by the thread after the exit of
//! its call, so that event waits for them.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::closed_fds::{ClosedFds, closes};
use super::fanotify_join::FanotifyJoin;
use super::in_call::{CurrentCall, better, list_address};
use super::open_assignment::{FanotifyOpen, JoinedOpen};
use super::pair;
use super::pending_arguments::{PendingArguments, is_argument};
use super::pending_results::PendingResults;
use super::pending_validation::{Undecided, renames};
use super::read_name::{ReadName, collected};
use super::room::NAME_BYTES_MAX;
use crate::capture::fact::NameOf;
use crate::event::registers::low_half;
use crate::event::syscall_strings::EventString;
use crate::event::syscall_table::Role;
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, Name, ProbeObservation, ReadNames, StringFrom, SysEnter};
use crate::units::{KernelTime, Pid, Tid};

/// Join of events and names: passes the events on in the same order, the opens with their names.
#[derive(Debug)]
pub struct NameJoin {
    /// True if every call that closes was recorded; if not, nothing shows that a link was read too
    /// late.
    sees_closes: bool,
    /// True if links were read at once, or every call that renames or removes was recorded; if not,
    /// nothing shows that a file was renamed after its opening.
    sees_renames: bool,
    /// Time in which all calls were recorded, from its begin until before its end, if links were
    /// read while the program went on.
    looked_in: (KernelTime, KernelTime),
    /// Call that a thread is inside, if memory or links can be read for it.
    entered: FxHashMap<Tid, CurrentCall>,
    /// Arguments of the next calls of threads, from probes.
    pending_arguments: PendingArguments,
    /// Strings that the next entry of a thread carries.
    strings: Vec<EventString>,
    /// Names by thread and time of the exit that they were read for.
    read: FxHashMap<(Tid, KernelTime), Vec<ReadName>>,
    /// Approximate memory of the names in `read`.
    read_bytes: usize,
    /// Join with the events of fanotify, if they were recorded.
    fanotify: Option<FanotifyJoin>,
    /// True if these events identify files by handles: the name is one of those of the file.
    has_handles: bool,
    /// Events that wait after an open.
    waiting: VecDeque<Event>,
    /// Opens among them that are not judged yet, oldest first.
    open: VecDeque<PendingOpen>,
    /// Index of the open ones by the events that may still change their verdicts.
    undecided: Undecided,
    /// Number of the first waiting event.
    first: u64,
    /// Number of pairs among the open ones.
    pairs: usize,
    /// Number of open ones that wait for their results.
    lists: usize,
}

/// An open whose names are being judged.
#[derive(Debug)]
struct PendingOpen {
    /// Number of its event.
    number: u64,
    /// Process, thread, and the new descriptor, twice; or the two of a pair.
    of: (Pid, Tid, [u64; 2]),
    /// True if two descriptors may have been made, whose numbers were read too late to be certain.
    is_pair: bool,
    argument_end: KernelTime,
    link_end: KernelTime,
    argument_good: bool,
    /// True while the descriptor was still the one that the open had made.
    link_good: bool,
    /// True while its file had not been renamed.
    name_good: bool,
    /// True if type and inode were read, not seen by a probe.
    stat_is_read: bool,
    /// True while the report of fanotify is not known yet.
    awaits_report: bool,
    /// True if the report is known, and nothing contradicts it.
    report_good: bool,
    /// True if the report is known by the path of the call: a rename contradicts it.
    report_is_by_path: bool,
    /// True if the file was opened by the name in the report.
    report_name_good: bool,
    /// List of results that a probe will record, if the thread reaches it.
    results: Option<PendingResults>,
}

/// Limit of waiting events: a read that took longer is judged as not in time. Without the limit,
/// the queue would grow as long as a reader was stuck.
const WAITING_MAX: usize = 1 << 16;

impl NameJoin {
    /// Returns a join for a capture in which every call that closes (or renames) was recorded, or
    /// not.
    pub fn new(sees_closes: bool, sees_renames: bool) -> Self {
        Self {
            sees_closes,
            sees_renames,
            looked_in: (KernelTime::MIN, KernelTime::MAX),
            entered: FxHashMap::default(),
            pending_arguments: PendingArguments::default(),
            strings: Vec::new(),
            read: FxHashMap::default(),
            read_bytes: 0,
            fanotify: None,
            has_handles: false,
            waiting: VecDeque::new(),
            open: VecDeque::new(),
            undecided: Undecided::default(),
            first: 0,
            pairs: 0,
            lists: 0,
        }
    }

    /// Sets that links were read while the program went on, and the time since which all calls were
    /// recorded.
    pub fn with_late_links(self, since: KernelTime) -> Self {
        Self { looked_in: (since, self.looked_in.1), ..self }
    }

    /// Sets the time at which the first ring was switched off: later calls are not recorded.
    pub fn switched_off(&mut self, since: KernelTime) {
        if self.looked_in.0 > KernelTime::MIN {
            self.looked_in.1 = self.looked_in.1.min(since);
        }
    }

    /// Adds a join with the reports of fanotify; `has_handles`: they identify files by handles.
    pub fn with_fanotify(self, join: FanotifyJoin, has_handles: bool) -> Self {
        Self { fanotify: Some(join), has_handles, ..self }
    }

    /// Sets the mounts at the start: the content of `/proc/self/mountinfo`.
    pub fn mounts(&mut self, mountinfo: &[u8]) {
        let join = self.fanotify.iter_mut().filter(|_| self.has_handles);
        join.for_each(|join| join.mounts(mountinfo));
    }

    /// Notes that reports of this thread do not identify the files that its calls open.
    pub fn opens_otherwise(&mut self, tid: Tid) {
        self.fanotify.iter_mut().for_each(|join| join.opens_otherwise(tid));
    }

    /// Takes a report of fanotify, which must come before the end of its call. Returns false if too
    /// much waits for its calls.
    pub fn add_report(&mut self, tid: Tid, report: FanotifyOpen) -> bool {
        self.fanotify.as_mut().is_none_or(|join| join.add(tid, report))
    }

    /// Takes a name, which must come before its exit. Returns false if too many names wait for
    /// theirs.
    pub fn add(&mut self, tid: Tid, record_time: KernelTime, name: ReadName) -> bool {
        let bytes = name.held_bytes();
        let has_room = self.read_bytes + bytes <= NAME_BYTES_MAX;
        if has_room {
            self.read_bytes += bytes;
            self.read.entry((tid, record_time)).or_default().push(name);
        }
        has_room
    }

    /// Drops the names of exits before this time: their exits did not come.
    pub fn forget_before(&mut self, time: KernelTime) {
        let read_bytes = &mut self.read_bytes;
        self.read.retain(|key, names| {
            let stays = key.1 >= time;
            *read_bytes -= if stays { 0 } else { held_bytes(names) };
            stays
        });
        if let Some(join) = &mut self.fanotify {
            join.forget_before(time);
        }
    }

    /// Sets the paths that the next pushed entry carries.
    pub fn carries(&mut self, strings: Vec<EventString>) {
        self.strings = strings;
    }

    /// Returns true if the next event ends no wait and begins none, as most events: it need not be
    /// pushed.
    pub fn can_bypass(&self, event: &Event) -> bool {
        let is_beside = match &event.kind {
            EventKind::SysEnter(enter) => {
                enter.call.call().is_read_beside || self.pending_arguments.has(event.tid)
            }
            EventKind::Probed(_) | EventKind::Lost(_) => true,
            EventKind::Task(TaskEvent::Exit { .. }) | EventKind::Uring(_) => {
                self.fanotify.is_some()
            }
            _ => is_exit_with_names(event),
        };
        self.open.is_empty() && !is_beside
    }

    /// Takes the next event; passes on the events that wait for nothing.
    pub fn push(&mut self, mut event: Event, out: &mut impl FnMut(Event)) {
        let entered = self.look_inside(&mut event);
        let read = is_exit_with_names(&event).then(|| self.read.remove(&(event.tid, event.time)));
        let read = read.flatten();
        self.read_bytes -= read.as_deref().map_or(0, held_bytes);
        let reports_until = self.look_at_opens(&event);
        let results = self.awaited_results(&event, entered.as_ref());
        let waits = read.is_some() || reports_until.is_some() || results.is_some();
        if self.open.is_empty() && !waits {
            out(event);
            return;
        }
        self.observe(&mut event);
        self.settle(event.time);
        if waits {
            let read = read.unwrap_or_default();
            self.open_up(&mut event, read, reports_until, results, entered);
        }
        self.waiting.push_back(event);
        if self.waiting.len() > WAITING_MAX {
            self.give_up();
        }
        self.pass_on(out);
    }

    /// Advances to `now`: all earlier events have been pushed. Passes on the events that wait for
    /// nothing else.
    pub fn time_passes(&mut self, now: KernelTime, out: &mut impl FnMut(Event)) {
        self.take_verdicts(now);
        self.settle(now);
        self.pass_on(out);
    }

    /// Returns the time of the first event that waits.
    pub fn waits_since(&self) -> Option<KernelTime> {
        self.waiting.front().map(|it| it.time)
    }

    /// Ends the join: no event follows. Passes all events on.
    pub fn finish(&mut self, out: &mut impl FnMut(Event)) {
        self.take_verdicts(KernelTime::MAX);
        // The threads of these opens are still inside a call.
        for open in &mut self.open {
            open.awaits_report = false;
        }
        self.settle(KernelTime::MAX);
        self.pass_on(out);
    }

    /// Checks whether a later event shows that a read was too late.
    fn observe(&mut self, event: &mut Event) {
        if self.open.is_empty() || self.take_results(event) {
            return;
        }
        let time = event.time;
        self.look_at_pairs(event);
        for number in self.undecided.of_thread(event.tid) {
            self.decide(number, |judged| judged.argument_good &= time > judged.argument_end);
        }
        // The descriptor stays the same, but a rename or removal by any process may change its
        // name.
        if renames(&event.kind) {
            for number in self.undecided.of_names() {
                self.decide(number, |it| it.name_good &= time > it.link_end);
            }
        }
        let closed = match closes(&event.kind) {
            ClosedFds::Nothing => return,
            ClosedFds::One(fd) => self.undecided.of_descriptor(event.pid, Some(fd)),
            ClosedFds::OfProcess => self.undecided.of_descriptor(event.pid, None),
            ClosedFds::Any => self.undecided.of_all_descriptors(),
        };
        for number in closed {
            self.decide(number, |it| it.link_good &= time > it.link_end);
        }
    }

    /// Returns the results that a probe is expected to record after this exit.
    fn awaited_results(&self, event: &Event, entered: Option<&SysEnter>) -> Option<PendingResults> {
        let EventKind::SysExit(exit) = &event.kind else { return None };
        if exit.ret <= 0 || !self.pending_arguments.has_submitted(event.pid) {
            return None;
        }
        let address = list_address(entered?, Role::IoEvents)?;
        Some(PendingResults::new(address, exit.ret, event.time))
    }

    /// Ends the wait for results of a call of this thread. Returns true if the event is their
    /// record, which nothing else depends on: the thread's memory has not changed.
    fn take_results(&mut self, event: &mut Event) -> bool {
        let mut part = match &mut event.kind {
            EventKind::Probed(probed) => match &mut **probed {
                ProbeObservation::Completed { address, count, first, bytes } => {
                    Some((*address, *count, *first, std::mem::take(bytes)))
                }
                _ => return false,
            },
            // A later call of the thread may have been lost together with the record.
            EventKind::Lost(_) => {
                let awaited = self.open.iter_mut().filter_map(|open| open.results.as_mut());
                awaited.for_each(PendingResults::expire);
                return false;
            }
            // The thread does not reach the probe any more. Other records of a thread may be of
            // interrupts.
            EventKind::SysEnter(_) | EventKind::Task(TaskEvent::Exit { .. }) => None,
            _ => return false,
        };
        let is_record = part.is_some();
        if self.lists == 0 {
            return is_record;
        }
        let awaits = |open: &PendingOpen| open.results.as_ref().is_some_and(|it| !it.is_expired());
        let its = |open: &&mut PendingOpen| open.of.1 == event.tid && awaits(open);
        if let Some(open) = self.open.iter_mut().find(its)
            && let Some(mut awaited) = open.results.take()
        {
            let is_its = |part: &mut (u64, i64, usize, Vec<u8>)| awaited.is_list(part.0, part.1);
            if let Some((_, _, first, bytes)) = part.take_if(is_its)
                && !awaited.add(first, bytes)
            {
                open.results = Some(awaited);
                return is_record;
            }
            self.lists -= 1;
            let place = usize::try_from(open.number - self.first).unwrap_or(usize::MAX);
            if let Some(list) = awaited.into_list()
                && let Some(Event { kind: EventKind::SysExit(exit), .. }) =
                    self.waiting.get_mut(place)
            {
                exit.names.get_or_insert_default().list = Some(list);
            }
        }
        is_record
    }

    /// Checks the pairs: a number that another call has made meanwhile is not that of the pair; the
    /// reader may also have read another pair.
    fn look_at_pairs(&mut self, event: &Event) {
        if self.pairs == 0 {
            return;
        }
        let EventKind::SysExit(exit) = &event.kind else { return };
        let is_pair = exit.call.call().makes_pair();
        let makes = exit.ret >= 0 && exit.call.call().class.changes_descriptors();
        let number = low_half(exit.ret.cast_unsigned()).into();
        let pairs = self.open.iter_mut().filter(|it| it.is_pair && it.of.0 == event.pid);
        for judged in pairs.filter(|it| is_pair || makes && it.of.2.contains(&number)) {
            judged.link_good &= event.time > judged.link_end;
        }
    }

    fn decide(&mut self, number: u64, with: impl FnOnce(&mut PendingOpen)) {
        let place = self.open.binary_search_by_key(&number, |it| it.number);
        if let Some(judged) = place.ok().and_then(|it| self.open.get_mut(it)) {
            with(judged);
        }
    }

    /// Updates the fanotify join by the event. If the event is the exit of a call that opens,
    /// returns the time until which the call's reports are read.
    fn look_at_opens(&mut self, event: &Event) -> Option<KernelTime> {
        let number = self.first + self.waiting.len() as u64;
        self.take_verdicts(event.time);
        self.fanotify.as_mut()?.look(event, number)
    }

    /// Gives calls the reports of fanotify, as far as they are known now.
    fn take_verdicts(&mut self, now: KernelTime) {
        for JoinedOpen { number, report, sure, is_by_path } in
            self.fanotify.iter_mut().flat_map(|it| it.settle(now))
        {
            let Ok(place) = self.open.binary_search_by_key(&number, |it| it.number) else {
                continue;
            };
            let Some(judged) = self.open.get_mut(place) else { continue };
            judged.awaits_report = false;
            let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
            if let Some(report) = report.filter(|it| !it.bytes.is_empty())
                && let Some(Event { kind: EventKind::SysExit(exit), .. }) =
                    self.waiting.get_mut(place)
                && let Some(names) = &mut exit.names
            {
                judged.report_good = sure;
                judged.report_is_by_path = is_by_path;
                judged.report_name_good = !report.has_other_names;
                names.opened = Some(Name { bytes: report.bytes, verified: false });
                names.stat_is_by_handle = self.has_handles;
                names.stat = if sure { report.stat } else { names.stat };
                names.read = names.read.max(report.end);
            }
        }
    }

    /// Updates the call that the event's thread is inside. If the event is the exit, returns that
    /// call's entry, and adds the names that were seen inside.
    fn look_inside(&mut self, event: &mut Event) -> Option<SysEnter> {
        match &mut event.kind {
            EventKind::SysEnter(enter) => {
                let given = self.pending_arguments.take(event.tid);
                if enter.call.call().is_read_beside {
                    let mut inside = CurrentCall::new(*enter, std::mem::take(&mut self.strings));
                    given.iter().for_each(|it| inside.given(it));
                    self.entered.insert(event.tid, inside);
                }
            }
            EventKind::Probed(probed) if is_argument(probed) => {
                self.pending_arguments.keep(event.pid, event.tid, probed);
            }
            EventKind::Probed(probed) => {
                if let Some(inside) = self.entered.get_mut(&event.tid) {
                    inside.probed(probed);
                }
            }
            // Later events may belong to another call.
            EventKind::Lost(_) => {
                self.entered.clear();
                self.pending_arguments.clear();
            }
            EventKind::SysExit(exit) => {
                let inside = self.entered.remove(&event.tid);
                let inside = inside.filter(|it| it.enter.call.ends_as(exit.call))?;
                exit.names = inside.names(exit.ret).map(Box::new);
                return Some(inside.enter);
            }
            _ => {}
        }
        None
    }

    /// Opens the judgement of a call's names; its event is pushed next.
    fn open_up(
        &mut self,
        event: &mut Event,
        mut read: Vec<ReadName>,
        reports_until: Option<KernelTime>,
        results: Option<PendingResults>,
        entered: Option<SysEnter>,
    ) {
        let EventKind::SysExit(exit) = &mut event.kind else { return };
        // A reader may have read at the address of an older open of the thread.
        let ret = exit.ret;
        let addresses =
            entered.as_ref().map(|enter| enter.call.call().paths(&enter.args)).unwrap_or_default();
        let has = |address| {
            let call = entered.as_ref().map(|enter| (enter.call.call(), &enter.args));
            call.is_some_and(|(call, args)| {
                call.memory(args, ret).any(|memory| memory.0 == address)
            })
        };
        read.retain(|name| match name.of {
            NameOf::Link => true,
            NameOf::Argument => addresses.contains(&Some(name.address)),
            NameOf::Memory => has(name.address),
        });
        let number = self.first + self.waiting.len() as u64;
        let end = |of| {
            read.iter().filter(|it| it.of == of).map(|it| it.end).max().unwrap_or(KernelTime::MIN)
        };
        let fds = pair::fds_of(&read, exit);
        let made = low_half(exit.ret.cast_unsigned()).into();
        let of = (event.pid, event.tid, fds.unwrap_or([made; 2]));
        self.pairs += usize::from(fds.is_some());
        self.lists += usize::from(results.is_some());
        self.undecided.add(number, of.0, of.1, of.2);
        self.open.push_back(PendingOpen {
            number,
            of,
            is_pair: fds.is_some(),
            argument_end: end(NameOf::Argument).max(end(NameOf::Memory)),
            link_end: end(NameOf::Link).max(reports_until.unwrap_or_default()),
            argument_good: self.sees_closes,
            link_good: self.sees_closes && event.time >= self.looked_in.0,
            name_good: self.sees_renames,
            stat_is_read: exit.names.as_ref().is_none_or(|it| it.stat.is_none()),
            awaits_report: reports_until.is_some(),
            report_good: false,
            report_is_by_path: false,
            report_name_good: false,
            results,
        });
        let seen = exit.names.take().map(|names| *names).unwrap_or_default();
        let read_until = read.iter().map(|name| name.end).max().unwrap_or_default();
        let names = better(collected(read, addresses, fds), seen);
        exit.names = Some(Box::new(ReadNames { read: read_until, ..names }));
    }

    /// Judges the opens whose reads ended before `now`.
    fn settle(&mut self, now: KernelTime) {
        while let Some(judged) = self.open.front()
            && !judged.awaits_report
            && judged.results.as_ref().is_none_or(|results| now > results.until())
            && now > judged.argument_end.max(judged.link_end)
        {
            self.judge_first();
        }
    }

    fn give_up(&mut self) {
        if let Some(judged) = self.open.front_mut() {
            judged.argument_good = false;
            judged.link_good = false;
            judged.report_good = false;
        }
        self.judge_first();
    }

    /// Writes the verdict into the oldest open's event.
    fn judge_first(&mut self) {
        let Some(mut judged) = self.open.pop_front() else { return };
        judged.link_good &= judged.link_end < self.looked_in.1;
        judged.report_good &= judged.name_good || !judged.report_is_by_path;
        let (pid, tid, fds) = judged.of;
        self.undecided.judged(judged.number, pid, tid, fds);
        self.pairs -= usize::from(judged.is_pair);
        self.lists -= usize::from(judged.results.is_some());
        let place = usize::try_from(judged.number - self.first).unwrap_or(usize::MAX);
        if let Some(Event { kind: EventKind::SysExit(exit), .. }) = self.waiting.get_mut(place)
            && let Some(names) = &mut exit.names
        {
            let recorded = judged.results.take().and_then(PendingResults::into_list);
            names.list = recorded.or(names.list.take());
            let memory = names.memory.iter_mut().map(|it| &mut it.1);
            let strings = [&mut names.argument, &mut names.second].into_iter().zip(names.from);
            let read =
                strings.filter(|it| it.1 == StringFrom::Memory).filter_map(|it| it.0.as_mut());
            for name in read.chain(memory) {
                name.verified = judged.argument_good;
            }
            // A file that a probe saw has no name, and needs no verdict.
            for (_, name, _) in names.pair.iter_mut().filter(|it| !it.1.bytes.is_empty()) {
                name.verified = judged.link_good;
            }
            if let Some(name) = &mut names.link {
                name.verified = judged.link_good && judged.name_good;
            }
            names.is_opened_here = judged.report_good;
            if let Some(name) = &mut names.opened {
                name.verified = judged.report_good && judged.name_good && judged.report_name_good;
            }
            if judged.stat_is_read && !judged.link_good && !judged.report_good {
                names.stat = None;
            }
        }
    }

    fn pass_on(&mut self, out: &mut impl FnMut(Event)) {
        let until = self.open.front().map_or(u64::MAX, |it| it.number);
        while self.first < until
            && let Some(event) = self.waiting.pop_front()
        {
            self.first += 1;
            out(event);
        }
    }
}

/// Returns the approximate memory of waiting names.
fn held_bytes(names: &[ReadName]) -> usize {
    names.iter().map(ReadName::held_bytes).sum()
}

/// Returns true for the exit of a call for which names can be read.
fn is_exit_with_names(event: &Event) -> bool {
    matches!(&event.kind, EventKind::SysExit(exit) if exit.call.call().is_read_beside)
}

#[cfg(test)]
#[path = "name_join_tests.rs"]
mod tests;
