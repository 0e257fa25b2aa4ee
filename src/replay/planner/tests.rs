//! Plans of programs that lock a file, made up with a kernel's rules, and done again in any order that a plan allows.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::event::syscall_table::CallId;
use crate::operation::model::{FilePath, OpenFile, PathSource, ProcessInfo, ThreadInfo};
use crate::operation::{Sink, Step};
use crate::replay::locks::{Mode, Wish, wish};
use crate::units::{CpuId, Fd, Pid, Tid};

const FD: Fd = Fd(3);

#[derive(Debug, Default)]
pub(super) struct Kept(pub(super) Vec<PlannedOp>);

impl Out for Kept {
    type Error = Infallible;

    fn planned(&mut self, planned: &PlannedOp) -> Result<(), Infallible> {
        self.0.push(planned.clone());
        Ok(())
    }
}

/// What the capture sees, and when.
#[derive(Debug)]
enum Seen {
    Ended(Box<SyscallOperation>, Vec<FdEffect>),
    Forked { parent: u32, child: u32 },
    Exit { process: u32, has_fd: bool },
}

pub(super) fn file(description: u64) -> Rc<OpenFile> {
    Rc::new(OpenFile {
        id: description,
        path: Some(FilePath::new("/f", PathSource::Link)),
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    })
}

pub(super) fn call(
    (name, args, ret): (&str, [u64; 6], i64),
    process: u32,
    description: u64,
    (start, end): (u64, u64),
) -> Box<SyscallOperation> {
    let number = i32::try_from(process).expect("few of them");
    Box::new(SyscallOperation {
        call: CallId::by_name(name).expect(name),
        thread: ThreadKey(process),
        process: ProcessKey(process),
        pid: Pid(number),
        tid: Tid(number),
        cpu: CpuId(0),
        start: KernelTime(start),
        end: Some(KernelTime(end)),
        args,
        ret: Some(ret),
        fd: Some(FD),
        file: Some(file(description)),
        named: None,
        target: None,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        spans: Vec::new(),
        offset: None,
        bytes_requested: None,
        chain: None,
    })
}

fn flock(flags: i32, ret: i64) -> (&'static str, [u64; 6], i64) {
    ("flock", [3, flags.cast_unsigned().into(), 0, 0, 0, 0], ret)
}

/// The plan of what was seen, in the order of its times.
fn plan(mut seen: Vec<(u64, Seen)>) -> Planner<Kept> {
    let mut planner = Planner::new(Kept::default());
    seen.sort_by_key(|it| it.0);
    for (time, it) in &seen {
        let steps = match it {
            Seen::Ended(operation, effects) => vec![Step::SyscallEnded(operation, effects)],
            Seen::Forked { parent, child } => {
                let [parent, child] = [parent, child].map(|it| ProcessKey(*it));
                vec![Step::Forked { parent, child }]
            }
            Seen::Exit { process, has_fd } => {
                exit(&mut planner, *process, *has_fd, KernelTime(*time));
                Vec::new()
            }
        };
        for step in &steps {
            let Ok(()) = planner.step(KernelTime(*time), step);
        }
    }
    planner
}

fn exit(planner: &mut Planner<Kept>, process: u32, has_fd: bool, time: KernelTime) {
    let key = ProcessKey(process);
    let thread =
        ThreadInfo { key: ThreadKey(process), process: key, tid: Tid(1), comm: Vec::new() };
    let info = ProcessInfo { key, pid: Pid(1), parent: None, comm: Vec::new(), user: None };
    let steps = [
        Some(Step::ThreadEnded(&thread)),
        has_fd.then_some(Step::DescriptorsClosed(key, &[FD])),
        Some(Step::ProcessEnded(&info)),
    ];
    for step in steps.iter().flatten() {
        let Ok(()) = planner.step(time, step);
    }
}

/// The locks of one file, as a kernel has them: of what open of it, and how.
#[derive(Debug, Default)]
struct Kernel(BTreeMap<u64, Mode>);

impl Kernel {
    /// True if it has it then. Its lock of another kind is gone in any case.
    fn locks(&mut self, open: u64, mode: Mode) -> bool {
        if self.0.get(&open) == Some(&mode) {
            return true;
        }
        self.0.remove(&open);
        let excludes = |it: &Mode| *it == Mode::Exclusive || mode == Mode::Exclusive;
        let may = !self.0.values().any(excludes);
        if may {
            self.0.insert(open, mode);
        }
        may
    }
}

/// A process of the original.
#[derive(Debug)]
struct Process {
    key: u32,
    /// What it has open.
    open: Option<u64>,
    /// Since when it waits, and for what.
    waits: Option<(u64, Mode)>,
    /// When its last call ended.
    end: u64,
}

/// Programs at work: what they do is chosen by bytes.
#[derive(Debug, Default)]
struct Original {
    kernel: Kernel,
    seen: Vec<(u64, Seen)>,
    processes: Vec<Process>,
    /// Children that do nothing: what they have open, and when they end.
    children: Vec<(u32, u64, u64)>,
    next: u32,
}

const EAGAIN: i64 = -(libc::EWOULDBLOCK as i64);

impl Original {
    fn process(&mut self) -> Process {
        self.next += 1;
        Process { key: self.next, open: None, waits: None, end: 0 }
    }

    fn gone(&mut self, open: u64) {
        let others = self.processes.iter().filter_map(|it| it.open);
        let children = self.children.iter().map(|it| it.1);
        if !others.chain(children).any(|it| it == open) {
            self.kernel.0.remove(&open);
        }
    }

    fn children_end(&mut self, now: u64, slack: u64) {
        while let Some(at) = self.children.iter().position(|it| it.2 <= now) {
            let (process, open, _) = self.children.remove(at);
            self.gone(open);
            self.seen.push((now + slack, Seen::Exit { process, has_fd: true }));
        }
    }

    /// At `now` a process does something, in a call that began before and ends behind it.
    fn step(&mut self, now: u64, [who, what, early, late]: [u8; 4]) {
        let [early, late] = [early, late].map(|it| u64::from(it) % 40);
        self.children_end(now, late);
        let at = usize::from(who) % self.processes.len();
        let Process { key, open, waits, end } = self.processes[at];
        if end >= now {
            return;
        }
        let time = ((now - early).max(end + 1), now + late + 1);
        let Some(open) = open else { return self.opens(at, now, time) };
        let modes = [Mode::Exclusive, Mode::Shared];
        let flags = |mode| if mode == Mode::Shared { libc::LOCK_SH } else { libc::LOCK_EX };
        let mut effects = Vec::new();
        let call_made = match (waits, what % 8) {
            (Some((start, mode)), _) => {
                if !self.kernel.locks(open, mode) {
                    return;
                }
                let time = (start, time.1);
                self.processes[at].waits = None;
                self.processes[at].end = time.1;
                let operation = call(flock(flags(mode), 0), key, open, time);
                return self.seen.push((time.1, Seen::Ended(operation, effects)));
            }
            (None, it @ 0..=1) => {
                let mode = modes[usize::from(it)];
                if !self.kernel.locks(open, mode) {
                    self.processes[at].waits = Some((time.0, mode));
                    return;
                }
                flock(flags(mode), 0)
            }
            (None, it @ 2..=3) => {
                let mode = modes[usize::from(it - 2)];
                let got = self.kernel.locks(open, mode);
                flock(flags(mode) | libc::LOCK_NB, if got { 0 } else { EAGAIN })
            }
            (None, 4) => {
                self.kernel.0.remove(&open);
                flock(libc::LOCK_UN, 0)
            }
            (None, 5) => {
                effects.push(FdEffect::Destroyed { fd: FD, file: file(open) });
                self.processes[at].open = None;
                self.gone(open);
                ("close", [3, 0, 0, 0, 0, 0], 0)
            }
            (None, 6) => {
                self.next += 1;
                self.children.push((self.next, open, now + 10 * early));
                self.processes[at].end = now;
                let forked = Seen::Forked { parent: key, child: self.next };
                return self.seen.push((now, forked));
            }
            _ => {
                self.processes[at] = self.process();
                self.processes[at].end = time.1;
                self.gone(open);
                return self.seen.push((time.1, Seen::Exit { process: key, has_fd: true }));
            }
        };
        self.processes[at].end = time.1;
        self.seen.push((time.1, Seen::Ended(call(call_made, key, open, time), effects)));
    }

    fn opens(&mut self, at: usize, now: u64, time: (u64, u64)) {
        let process = &mut self.processes[at];
        (process.open, process.end) = (Some(now), time.1);
        let flags = libc::O_RDWR.cast_unsigned().into();
        let operation = call(("openat", [0, 1, flags, 0, 0, 0], 3), process.key, now, time);
        let effects = vec![FdEffect::Created { fd: FD, file: file(now) }];
        self.seen.push((time.1, Seen::Ended(operation, effects)));
    }
}

/// Does a plan; `choose` says which of those whose turn it is. The calls that came out otherwise.
fn replayed(planned: &[PlannedOp], mut choose: impl FnMut(usize) -> usize) -> Vec<PlannedOp> {
    let (mut kernel, mut slots, mut opens) = (Kernel::default(), BTreeMap::new(), 0);
    let (mut done, mut other): (BTreeSet<OpId>, _) = (BTreeSet::new(), Vec::new());
    let mut left: Vec<&PlannedOp> = planned.iter().collect();
    while !left.is_empty() {
        let is_turn = |it: &PlannedOp| {
            let before = it.at.number.checked_sub(1).map(|number| OpId { number, ..it.at });
            it.before.iter().chain(&before).all(|it| done.contains(it))
        };
        let ready: Vec<usize> = (0..left.len()).filter(|it| is_turn(left[*it])).collect();
        assert!(!ready.is_empty(), "they wait for each other: {left:#?}");
        let it = left.remove(ready[choose(ready.len())]);
        done.insert(it.at);
        let open = it.handle.and_then(|it| slots.get(&it)).copied();
        let ret = match (it.call.call().name, open) {
            ("openat", _) => {
                opens += 1;
                slots.insert(it.makes.expect("it makes one"), opens);
                it.ret
            }
            (_, None) => -i64::from(libc::EBADF),
            ("close", Some(_)) if it.keeps_handle => 0,
            ("close", Some(open)) => {
                kernel.0.remove(&open);
                slots.remove(&it.handle.expect("it has one"));
                0
            }
            (_, Some(open)) => match wish(&it.args) {
                Wish::Lock(mode, _) if kernel.locks(open, mode) => 0,
                Wish::Lock(..) => EAGAIN,
                Wish::Unlock => {
                    kernel.0.remove(&open);
                    0
                }
                Wish::Other => 0,
            },
        };
        if ret != it.ret {
            other.push(it.clone());
        }
    }
    assert!(slots.len() <= opens.try_into().expect("few"));
    other
}

/// What programs chosen by these bytes did.
fn original(choices: &[[u8; 4]]) -> Vec<(u64, Seen)> {
    let mut original = Original::default();
    for _ in 0..5 {
        let process = original.process();
        original.processes.push(process);
    }
    let mut now = 1000;
    for choice in choices {
        now += 10;
        original.step(now, *choice);
    }
    original.seen
}

proptest! {
    /// Fails if in any order that a plan allows a lock is got that was not, or the other way round, or if somebody waits for ever.
    #[test]
    fn locks_come_out_as_they_did(
        choices in proptest::collection::vec(any::<[u8; 4]>(), 1..300),
        mut seed in any::<u64>(),
    ) {
        let planner = plan(original(&choices));
        let planned = &planner.out.0;
        prop_assert_eq!(replayed(planned, |_| 0), vec![]);
        prop_assert_eq!(replayed(planned, |count| count - 1), vec![]);
        let random = |count: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).expect("31 bits") % count
        };
        prop_assert_eq!(replayed(planned, random), vec![]);
        let lefts: u64 = planner.left.iter().filter(|it| it.0.0 != SkipReason::Lock).map(|it| it.1).sum();
        prop_assert_eq!(lefts, 0);
    }
}

/// Fails if the judge of these plans cannot: they need their edges, and the unlocks that nobody saw in time.
#[test]
fn what_a_plan_has_is_needed() {
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from(seed >> 56).expect("8 bits")
    };
    let mut counts = [0; 2];
    for _ in 0..20 {
        let choices: Vec<[u8; 4]> = (0..300).map(|_| [(); 4].map(|()| random())).collect();
        let planned = plan(original(&choices)).out.0;
        let mut others = [planned.clone(), planned];
        others[0].iter_mut().for_each(|it| it.before.clear());
        others[1].iter_mut().filter(|it| it.implicit).for_each(|it| it.args[1] = 0);
        for (count, other) in counts.iter_mut().zip(&others) {
            *count += usize::from(!replayed(other, |count| count - 1).is_empty());
        }
    }
    assert!(counts.iter().all(|it| *it > 10), "{counts:?}");
}

fn opened(process: u32, time: u64) -> (u64, Seen) {
    let mut original = Original::default();
    let process = Process { key: process, open: None, waits: None, end: 0 };
    original.processes.push(process);
    original.opens(0, time, (time, time + 1));
    original.seen.remove(0)
}

fn locked(what: (&str, [u64; 6], i64), process: u32, open: u64, time: (u64, u64)) -> (u64, Seen) {
    (time.1, Seen::Ended(call(what, process, open, time), Vec::new()))
}

/// Name, worker, result and whom it waits for of each operation; `*`: an implicit one.
pub(super) fn told(planner: &Planner<Kept>) -> String {
    let tell = |it: &PlannedOp| {
        let star = if it.implicit { "*" } else { "" };
        let before: Vec<String> =
            it.before.iter().map(|it| format!("{}.{}", it.worker.0, it.number)).collect();
        let OpId { worker, number } = it.at;
        format!("{}.{number} {star}{} {} [{}]\n", worker.0, it.what(), it.ret, before.join(" "))
    };
    planner.out.0.iter().map(tell).collect()
}

#[test]
fn what_goes_with_a_process_is_closed() {
    let seen = vec![
        opened(1, 10),
        (20, Seen::Forked { parent: 1, child: 2 }),
        locked(flock(libc::LOCK_SH, 0), 2, 10, (30, 31)),
        (40, Seen::Exit { process: 1, has_fd: true }),
        (50, Seen::Exit { process: 2, has_fd: true }),
        opened(3, 60),
    ];
    let planner = plan(seen);
    expect_test::expect![[r#"
        0.0 openat 3 []
        1.0 flock 0 [0.0]
        1.1 *close 0 []
        2.0 openat 3 [0.0 1.1]
    "#]]
    .assert_eq(&told(&planner));
    assert_eq!((planner.implicit, planner.handles()), (1, 1));
    assert_eq!(planner.done.values().sum::<u64>(), 3);
}

/// Somebody gets a lock before we hear that the process is over that had it.
#[test]
fn who_got_a_lock_has_waited_for_who_had_it() {
    let seen = vec![
        opened(1, 10),
        opened(2, 20),
        locked(flock(libc::LOCK_EX, 0), 1, 10, (30, 31)),
        locked(flock(libc::LOCK_EX | libc::LOCK_NB, EAGAIN), 2, 20, (32, 33)),
        locked(flock(libc::LOCK_EX, 0), 2, 20, (34, 50)),
        (51, Seen::Exit { process: 1, has_fd: true }),
    ];
    expect_test::expect![[r#"
        0.0 openat 3 []
        1.0 openat 3 []
        0.1 flock 0 []
        1.1 flock -11 [0.1]
        0.2 *flock 0 [1.1]
        1.2 flock 0 [0.2]
        0.3 *close 0 []
    "#]]
    .assert_eq(&told(&plan(seen)));
}

#[test]
fn who_was_refused_by_nobody_is_left_out() {
    let seen = vec![
        opened(1, 10),
        locked(flock(libc::LOCK_EX | libc::LOCK_NB, EAGAIN), 1, 10, (30, 31)),
        locked(flock(libc::LOCK_EX, -i64::from(libc::EINTR)), 1, 10, (32, 33)),
        locked(flock(libc::LOCK_EX, -512), 1, 10, (34, 35)),
        locked(flock(libc::LOCK_UN, 0), 1, 10, (36, 37)),
    ];
    let planner = plan(seen);
    let left: Vec<_> = planner.left.iter().map(|(key, count)| (key.0, *count)).collect();
    assert_eq!(left, [(SkipReason::Lock, 1), (SkipReason::Interrupted, 2)]);
    assert_eq!(planner.out.0.len(), 2);
}
