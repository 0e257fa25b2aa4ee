//! Joins names to the opens that they were read for, and judges them.
//!
//! A name is good if its read ended before anything could have changed what was read: for an argument, before the
//! thread's next record; for a descriptor, before any close or re-use of it by a thread of the process. So the event of
//! an open's exit waits until the end of its reads has passed in the stream, some 20 µs, and so does everything behind
//! it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::capture::fact::NameOf;
use crate::event::syscall_table::{Class, Role};
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, FileStat, Name, ReadNames, SysEnter};
use crate::units::{KernelTime, Pid, Tid};

/// A name as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadName {
    /// What was read.
    pub of: NameOf,
    /// Clock after the read.
    pub end: KernelTime,
    /// 0, or why it could not be read.
    pub errno: i32,
    /// Where the argument stood (for an argument): it must be the one that the call entered with.
    pub address: u64,
    /// What the descriptor was (for a link).
    pub stat: Option<FileStat>,
    /// The name.
    pub bytes: Vec<u8>,
}

/// Events in, events out in the same order, opens with their names.
#[derive(Debug)]
pub struct NameJoin {
    /// Every call that closes was recorded; if not, nothing shows that a link was too late.
    sees_closes: bool,
    /// The call that a thread is inside, if something can be read beside it.
    entered: FxHashMap<Tid, SysEnter>,
    /// Names by thread and time of the exit that they were read for.
    read: FxHashMap<(Tid, KernelTime), Vec<ReadName>>,
    /// Events that wait behind an open.
    waiting: VecDeque<Event>,
    /// Opens among them that are not judged yet, oldest first.
    open: VecDeque<Judged>,
    /// Number of the first waiting event.
    first: u64,
}

/// An open whose names are being judged.
#[derive(Debug)]
struct Judged {
    /// Number of its event.
    number: u64,
    pid: Pid,
    tid: Tid,
    fd: i64,
    argument_end: KernelTime,
    link_end: KernelTime,
    argument_good: bool,
    link_good: bool,
}

/// Waiting events: a read that took longer than this many of them is judged as not in time. A named limit instead of
/// a queue that grows as long as a reader was stuck.
const WAITING_MAX: usize = 1 << 16;

impl NameJoin {
    /// For a capture in which every call that closes was recorded, or not.
    pub fn new(sees_closes: bool) -> Self {
        Self {
            sees_closes,
            entered: FxHashMap::default(),
            read: FxHashMap::default(),
            waiting: VecDeque::new(),
            open: VecDeque::new(),
            first: 0,
        }
    }

    /// Takes a name. It must come before its exit does.
    pub fn add(&mut self, tid: Tid, record_time: KernelTime, name: ReadName) {
        self.read.entry((tid, record_time)).or_default().push(name);
    }

    /// Names of exits before this time whose exit did not come are of no use any more.
    pub fn forget_before(&mut self, time: KernelTime) {
        self.read.retain(|key, _| key.1 >= time);
    }

    /// True if the next event is an end to no wait and begins none, as most are: it need not be pushed.
    pub fn passes(&self, event: &Event) -> bool {
        let is_beside = match &event.kind {
            EventKind::SysEnter(enter) => enter.call.call().is_read_beside(),
            _ => is_exit_with_names(event),
        };
        self.open.is_empty() && !is_beside
    }

    /// Takes the next event; passes on those that wait for nothing.
    pub fn push(&mut self, event: Event, out: &mut impl FnMut(Event)) {
        if let EventKind::SysEnter(enter) = &event.kind
            && enter.call.call().is_read_beside()
        {
            self.entered.insert(event.tid, *enter);
        }
        if self.open.is_empty() && !is_exit_with_names(&event) {
            out(event);
            return;
        }
        for judged in &mut self.open {
            judged.look_at(&event);
        }
        self.settle(event.time);
        self.enqueue(event);
        if self.waiting.len() > WAITING_MAX {
            self.give_up();
        }
        self.pass_on(out);
    }

    /// Nothing follows: passes on all.
    pub fn finish(&mut self, out: &mut impl FnMut(Event)) {
        self.settle(KernelTime::MAX);
        self.pass_on(out);
    }

    fn enqueue(&mut self, mut event: Event) {
        if let EventKind::SysExit(exit) = &mut event.kind
            && let Some(mut read) = self.read.remove(&(event.tid, event.time))
        {
            // A reader may have taken the address of an older open of the thread.
            let ret = exit.ret;
            let entered = self.entered.remove(&event.tid).filter(|it| it.call == exit.call);
            let addresses =
                entered.as_ref().map(|it| it.call.call().paths(&it.args)).unwrap_or_default();
            let has = |address| {
                let call = entered.as_ref().map(|it| (it.call.call(), &it.args));
                call.is_some_and(|(call, args)| call.memory(args, ret).any(|it| it.0 == address))
            };
            read.retain(|it| match it.of {
                NameOf::Link => true,
                NameOf::Argument => addresses.contains(&Some(it.address)),
                NameOf::Memory => has(it.address),
            });
            let number = self.first + self.waiting.len() as u64;
            let end = |of| {
                read.iter()
                    .filter(|it| it.of == of)
                    .map(|it| it.end)
                    .max()
                    .unwrap_or(KernelTime::MIN)
            };
            self.open.push_back(Judged {
                number,
                pid: event.pid,
                tid: event.tid,
                fd: exit.ret,
                argument_end: end(NameOf::Argument).max(end(NameOf::Memory)),
                link_end: end(NameOf::Link),
                argument_good: self.sees_closes,
                link_good: self.sees_closes,
            });
            let until = read.iter().map(|it| it.end).max().unwrap_or_default();
            exit.names = Some(Box::new(ReadNames { read: until, ..names(read, addresses) }));
        }
        self.waiting.push_back(event);
    }

    /// Judges the opens whose reads ended before `now`.
    fn settle(&mut self, now: KernelTime) {
        while let Some(judged) = self.open.front()
            && now > judged.argument_end.max(judged.link_end)
        {
            self.judge_first();
        }
    }

    fn give_up(&mut self) {
        if let Some(judged) = self.open.front_mut() {
            judged.argument_good = false;
            judged.link_good = false;
        }
        self.judge_first();
    }

    /// Writes the verdict into the oldest open's event.
    fn judge_first(&mut self) {
        let Some(judged) = self.open.pop_front() else { return };
        let place = usize::try_from(judged.number - self.first).unwrap_or(usize::MAX);
        if let Some(Event { kind: EventKind::SysExit(exit), .. }) = self.waiting.get_mut(place)
            && let Some(names) = &mut exit.names
        {
            let memory = names.memory.iter_mut().map(|it| &mut it.1);
            for name in names.argument.iter_mut().chain(&mut names.second).chain(memory) {
                name.verified = judged.argument_good;
            }
            if let Some(name) = &mut names.link {
                name.verified = judged.link_good;
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

/// The exit of a call beside which something can be read.
fn is_exit_with_names(event: &Event) -> bool {
    matches!(&event.kind, EventKind::SysExit(exit) if exit.call.call().is_read_beside())
}

/// What could be read.
fn names(read: Vec<ReadName>, entered: [Option<u64>; 2]) -> ReadNames {
    let mut names = ReadNames::default();
    for it in read.into_iter().filter(|it| it.errno == 0) {
        let name = Name { bytes: it.bytes, verified: false };
        match it.of {
            NameOf::Argument => {
                // A file may be renamed to itself.
                let [first, second] = entered.map(|address| address == Some(it.address));
                if second {
                    names.second = Some(name.clone());
                }
                if first {
                    names.argument = Some(name);
                }
            }
            NameOf::Memory => names.memory.push((it.address, name)),
            NameOf::Link => {
                names.link = Some(name);
                names.stat = it.stat;
            }
        }
    }
    names
}

impl Judged {
    /// An event behind the open: does it show that a read was too late?
    fn look_at(&mut self, event: &Event) {
        if event.tid == self.tid {
            self.argument_good &= event.time > self.argument_end;
        }
        let is_lost = matches!(event.kind, EventKind::Lost(_));
        if (is_lost || event.pid == self.pid)
            && event.time <= self.link_end
            && may_close(&event.kind, self.fd)
        {
            self.link_good = false;
        }
    }
}

/// True if the event may mean that this descriptor is closed or used for something else.
fn may_close(kind: &EventKind, fd: i64) -> bool {
    match kind {
        EventKind::SysEnter(enter) => {
            let call = enter.call.call();
            let is_fd = |role| {
                call.arg(role)
                    .and_then(|it| enter.args.get(it))
                    .is_some_and(|&it| it & 0xffff_ffff == fd.cast_unsigned() & 0xffff_ffff)
            };
            match call.class {
                Class::Close => is_fd(Role::Fd),
                Class::Dup => is_fd(Role::Fd2),
                Class::CloseRange => true,
                _ => false,
            }
        }
        // A close that began before the open ended: which descriptor is not said here.
        EventKind::SysExit(exit) => {
            matches!(exit.call.call().class, Class::Close | Class::Dup | Class::CloseRange)
        }
        EventKind::Task(TaskEvent::Comm { exec, .. }) => *exec,
        EventKind::Task(TaskEvent::Exit { .. }) => true,
        // The close may be what was lost.
        EventKind::Lost(_) => true,
        // Which one it closes is not said.
        EventKind::Uring(event) => event.opcode().class() == Class::Close,
        EventKind::Task(_)
        | EventKind::Block(_)
        | EventKind::Fault(_)
        | EventKind::FileIo(_)
        | EventKind::SeenFd(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;
    use crate::event::{SysEnter, SysExit};
    use crate::units::CpuId;

    fn event(time: u64, tid: i32, kind: EventKind) -> Event {
        Event { time: KernelTime(time), cpu: CpuId(0), pid: Pid(7), tid: Tid(tid), kind }
    }

    fn call(name: &str) -> CallId {
        CallId::by_name(name).expect("in the table")
    }

    fn exit(time: u64, tid: i32, name: &str, ret: i64) -> Event {
        event(time, tid, EventKind::SysExit(SysExit { call: call(name), ret, names: None }))
    }

    fn enter(time: u64, tid: i32, name: &str, first: u64) -> Event {
        let args = [first, 0, 0, 0, 0, 0];
        event(time, tid, EventKind::SysEnter(SysEnter { call: call(name), args }))
    }

    /// Opens fd 5 at 100 with its names read at 130, then `after`. Were argument and link good?
    #[track_caller]
    fn check(after: Vec<Event>, good: (bool, bool)) {
        let mut join = NameJoin::new(true);
        for of in [NameOf::Link, NameOf::Argument] {
            let name = ReadName {
                of,
                end: KernelTime(130),
                errno: 0,
                address: 0,
                stat: None,
                bytes: b"/a".to_vec(),
            };
            join.add(Tid(7), KernelTime(100), name);
        }
        let mut out = Vec::new();
        let count = after.len() + 1;
        join.push(enter(90, 7, "openat", 0), &mut |it| out.push(it));
        out.clear();
        join.push(exit(100, 7, "openat", 5), &mut |it| out.push(it));
        assert!(out.is_empty(), "waits for its verdict");
        for it in after {
            join.push(it, &mut |it| out.push(it));
        }
        join.finish(&mut |it| out.push(it));
        assert_eq!(out.len(), count);
        assert!(out.is_sorted_by_key(|it| it.time));
        let EventKind::SysExit(SysExit { names: Some(names), .. }) = &out[0].kind else {
            panic!("{:?}", out[0])
        };
        let verified = |it: &Option<Name>| it.as_ref().is_some_and(|it| it.verified);
        assert_eq!((verified(&names.argument), verified(&names.link)), good);
    }

    #[test]
    fn a_name_read_in_time_is_good() {
        check(vec![], (true, true));
        check(vec![enter(131, 7, "read", 5)], (true, true));
        check(vec![enter(120, 8, "close", 4), enter(140, 7, "close", 5)], (true, true));
    }

    #[test]
    fn a_thread_that_went_on_makes_its_argument_doubtful() {
        check(vec![enter(120, 7, "read", 5)], (false, true));
        check(vec![enter(120, 7, "close", 5)], (false, false));
    }

    #[test]
    fn a_close_by_another_thread_makes_it_doubtful() {
        check(vec![enter(120, 8, "close", 5)], (true, false));
        check(vec![exit(120, 8, "close", 0)], (true, false));
        check(vec![enter(120, 8, "close_range", 3)], (true, false));
    }
}
