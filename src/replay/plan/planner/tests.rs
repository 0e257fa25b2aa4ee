//! Plans of programs that lock a file: invented by a kernel's rules, and replayed in any order that
//! a plan allows.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::event::syscall_table::CallId;
use crate::operation::model::{FilePath, OpenFile, PathSource, ProcessInfo, ThreadInfo};
use crate::operation::{Sink, Step};
use crate::replay::plan::locks::{FlockRequest, Mode, wish};
use crate::replay::plan::planned_op::PlannedOp;
use crate::units::{CpuId, Fd, Nanos, Pid, Tid};

const FD: Fd = Fd(3);

#[derive(Debug, Default)]
pub(in crate::replay::plan) struct KeptOps(pub(in crate::replay::plan) Vec<PlannedOp>);

impl PlanOutput for KeptOps {
    type Error = Infallible;

    fn planned(&mut self, planned: &PlannedOp) -> Result<(), Infallible> {
        self.0.push(planned.clone());
        Ok(())
    }
}

/// Event of a capture.
#[derive(Debug)]
enum CaptureEvent {
    Ended(Box<SyscallOperation>, Vec<FdEffect>),
    Forked { parent: u32, child: u32 },
    Exit { process: u32, has_fd: bool },
}

pub(in crate::replay::plan) fn file(description: u64) -> Arc<OpenFile> {
    Arc::new(OpenFile {
        id: description,
        path: Some(FilePath::new("/f", PathSource::Link)),
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    })
}

/// Call as a test writes it.
#[derive(Clone, Copy, Debug)]
pub(in crate::replay::plan) struct TestCall<'a> {
    pub(super) name: &'a str,
    pub(super) args: [u64; 6],
    pub(super) ret: i64,
}

impl<'a> TestCall<'a> {
    pub(in crate::replay::plan) fn new(name: &'a str, args: [u64; 6], ret: i64) -> Self {
        Self { name, args, ret }
    }
}

pub(in crate::replay::plan) fn call(
    what: TestCall<'_>,
    process: u32,
    description: u64,
    start: KernelTime,
    end: KernelTime,
) -> Box<SyscallOperation> {
    let TestCall { name, args, ret } = what;
    let number = i32::try_from(process).expect("few of them");
    Box::new(SyscallOperation {
        call: CallId::by_name(name).expect(name),
        thread: ThreadKey(process),
        process: ProcessKey(process),
        pid: Pid(number),
        tid: Tid(number),
        cpu: CpuId(0),
        start,
        end: Some(end),
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

fn flock(flags: i32, ret: i64) -> TestCall<'static> {
    TestCall::new("flock", [3, flags.cast_unsigned().into(), 0, 0, 0, 0], ret)
}

/// Plans events in the order of their times.
fn plan(mut seen: Vec<(u64, CaptureEvent)>) -> Planner<KeptOps> {
    let mut planner = Planner::new(KeptOps::default());
    seen.sort_by_key(|(time, _)| *time);
    for (time, seen) in &seen {
        let steps = match seen {
            CaptureEvent::Ended(operation, effects) => vec![Step::SyscallEnded(operation, effects)],
            CaptureEvent::Forked { parent, child } => {
                let [parent, child] = [parent, child].map(|process| ProcessKey(*process));
                vec![Step::Forked { parent, child }]
            }
            CaptureEvent::Exit { process, has_fd } => {
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

fn exit(planner: &mut Planner<KeptOps>, process: u32, has_fd: bool, time: KernelTime) {
    let key = ProcessKey(process);
    let thread =
        ThreadInfo { key: ThreadKey(process), process: key, tid: Tid(1), comm: Vec::new() };
    let info = ProcessInfo::new(key, Pid(1));
    let steps = [
        Some(Step::ThreadEnded(&thread)),
        has_fd.then_some(Step::DescriptorsClosed(key, &[FD])),
        Some(Step::ProcessEnded(&info)),
    ];
    for step in steps.iter().flatten() {
        let Ok(()) = planner.step(time, step);
    }
}

/// Locks of one file, as a kernel has them: the mode by open file description.
#[derive(Debug, Default)]
struct LockModel(BTreeMap<u64, Mode>);

impl LockModel {
    /// Tries a lock; returns true if it is acquired. A lock of another kind is lost in any case.
    fn locks(&mut self, open: u64, mode: Mode) -> bool {
        if self.0.get(&open) == Some(&mode) {
            return true;
        }
        self.0.remove(&open);
        let excludes = |held: &Mode| *held == Mode::Exclusive || mode == Mode::Exclusive;
        let may = !self.0.values().any(excludes);
        if may {
            self.0.insert(open, mode);
        }
        may
    }
}

/// Process of the original.
#[derive(Debug)]
struct OriginalProcess {
    key: u32,
    /// Open file description, if any.
    open: Option<u64>,
    /// Lock for which the process waits, with the begin of the wait.
    waits: Option<(u64, Mode)>,
    /// End of its last call.
    end: KernelTime,
}

/// Programs at work: bytes choose their operations.
#[derive(Debug, Default)]
struct OriginalRun {
    kernel: LockModel,
    seen: Vec<(u64, CaptureEvent)>,
    processes: Vec<OriginalProcess>,
    /// Idle children: key, open file description, and end of each.
    children: Vec<(u32, u64, u64)>,
    next: u32,
}

const EAGAIN: i64 = -(libc::EWOULDBLOCK as i64);

impl OriginalRun {
    fn process(&mut self) -> OriginalProcess {
        self.next += 1;
        OriginalProcess { key: self.next, open: None, waits: None, end: KernelTime::MIN }
    }

    fn gone(&mut self, open: u64) {
        let others = self.processes.iter().filter_map(|process| process.open);
        let children = self.children.iter().map(|child| child.1);
        if !others.chain(children).any(|other| other == open) {
            self.kernel.0.remove(&open);
        }
    }

    fn children_end(&mut self, now: KernelTime, slack: Nanos) {
        while let Some(at) = self.children.iter().position(|child| child.2 <= now.0) {
            let (process, open, _) = self.children.remove(at);
            self.gone(open);
            self.seen.push((now.0 + slack.0, CaptureEvent::Exit { process, has_fd: true }));
        }
    }

    /// Lets a process act at `now`, in a call that begins before and ends after that.
    fn step(&mut self, now: KernelTime, [who, what, early, late]: [u8; 4]) {
        let [early, late] = [early, late].map(|byte| u64::from(byte) % 40);
        self.children_end(now, Nanos(late));
        let at = usize::from(who) % self.processes.len();
        let OriginalProcess { key, open, waits, end } = self.processes[at];
        if end >= now {
            return;
        }
        let call_start = KernelTime((now.0 - early).max(end.0 + 1));
        let call_end = KernelTime(now.0 + late + 1);
        let Some(open) = open else { return self.opens(at, now, call_start, call_end) };
        let KernelTime(now) = now;
        let modes = [Mode::Exclusive, Mode::Shared];
        let flags = |mode| if mode == Mode::Shared { libc::LOCK_SH } else { libc::LOCK_EX };
        let mut effects = Vec::new();
        let call_made = match (waits, what % 8) {
            (Some((start, mode)), _) => {
                if !self.kernel.locks(open, mode) {
                    return;
                }
                self.processes[at].waits = None;
                self.processes[at].end = call_end;
                let operation = call(flock(flags(mode), 0), key, open, KernelTime(start), call_end);
                return self.seen.push((call_end.0, CaptureEvent::Ended(operation, effects)));
            }
            (None, choice @ 0..=1) => {
                let mode = modes[usize::from(choice)];
                if !self.kernel.locks(open, mode) {
                    self.processes[at].waits = Some((call_start.0, mode));
                    return;
                }
                flock(flags(mode), 0)
            }
            (None, choice @ 2..=3) => {
                let mode = modes[usize::from(choice - 2)];
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
                TestCall::new("close", [3, 0, 0, 0, 0, 0], 0)
            }
            (None, 6) => {
                self.next += 1;
                self.children.push((self.next, open, now + 10 * early));
                self.processes[at].end = KernelTime(now);
                let forked = CaptureEvent::Forked { parent: key, child: self.next };
                return self.seen.push((now, forked));
            }
            _ => {
                self.processes[at] = self.process();
                self.processes[at].end = call_end;
                self.gone(open);
                let exit = CaptureEvent::Exit { process: key, has_fd: true };
                return self.seen.push((call_end.0, exit));
            }
        };
        self.processes[at].end = call_end;
        let operation = call(call_made, key, open, call_start, call_end);
        self.seen.push((call_end.0, CaptureEvent::Ended(operation, effects)));
    }

    fn opens(&mut self, at: usize, now: KernelTime, start: KernelTime, end: KernelTime) {
        let process = &mut self.processes[at];
        let KernelTime(now) = now;
        (process.open, process.end) = (Some(now), end);
        let flags = libc::O_RDWR.cast_unsigned().into();
        let open = TestCall::new("openat", [0, 1, flags, 0, 0, 0], 3);
        let operation = call(open, process.key, now, start, end);
        let effects = vec![FdEffect::Created { fd: FD, file: file(now) }];
        self.seen.push((end.0, CaptureEvent::Ended(operation, effects)));
    }
}

/// Replays a plan; `choose` selects one of the operations that may run next. Returns the calls
/// whose results differ.
fn replayed(planned: &[PlannedOp], mut choose: impl FnMut(usize) -> usize) -> Vec<PlannedOp> {
    let (mut kernel, mut slots, mut opens) = (LockModel::default(), BTreeMap::new(), 0);
    let (mut done, mut other): (BTreeSet<OpId>, _) = (BTreeSet::new(), Vec::new());
    let mut left: Vec<&PlannedOp> = planned.iter().collect();
    while !left.is_empty() {
        let is_turn = |op: &PlannedOp| {
            let before = op.at.number.checked_sub(1).map(|number| OpId { number, ..op.at });
            op.before.iter().chain(&before).all(|at| done.contains(at))
        };
        let ready: Vec<usize> = (0..left.len()).filter(|place| is_turn(left[*place])).collect();
        assert!(!ready.is_empty(), "they wait for each other: {left:#?}");
        let op = left.remove(ready[choose(ready.len())]);
        done.insert(op.at);
        let open = op.handle.and_then(|handle| slots.get(&handle)).copied();
        let ret = match (op.call.call().name, open) {
            ("openat", _) => {
                opens += 1;
                slots.insert(op.makes.expect("it makes one"), opens);
                op.ret
            }
            (_, None) => -i64::from(libc::EBADF),
            ("close", Some(_)) if op.keeps_handle => 0,
            ("close", Some(open)) => {
                kernel.0.remove(&open);
                slots.remove(&op.handle.expect("it has one"));
                0
            }
            (_, Some(open)) => match wish(&op.args) {
                FlockRequest::Lock(mode, _) if kernel.locks(open, mode) => 0,
                FlockRequest::Lock(..) => EAGAIN,
                FlockRequest::Unlock => {
                    kernel.0.remove(&open);
                    0
                }
                FlockRequest::Other => 0,
            },
        };
        if ret != op.ret {
            other.push(op.clone());
        }
    }
    assert!(slots.len() <= opens.try_into().expect("few"));
    other
}

/// Returns the events of programs whose operations are chosen by these bytes.
fn original(choices: &[[u8; 4]]) -> Vec<(u64, CaptureEvent)> {
    let mut original = OriginalRun::default();
    for _ in 0..5 {
        let process = original.process();
        original.processes.push(process);
    }
    let mut now = 1000;
    for choice in choices {
        now += 10;
        original.step(KernelTime(now), *choice);
    }
    original.seen
}

proptest! {
    /// Fails if a replay order that a plan allows acquires a lock that was refused, or the other
    /// way round, or if an operation waits forever.
    #[test]
    fn locks_have_the_captured_results(
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
        let lefts = planner.skipped.iter().filter(|((reason, _), _)| *reason != SkipReason::Lock);
        let lefts: u64 = lefts.map(|(_, count)| count).sum();
        prop_assert_eq!(lefts, 0);
    }
}

/// Fails if the replay of these plans cannot fail: the plans need their edges, and the releases
/// that were not seen in time.
#[test]
fn planned_files_are_needed() {
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
        others[0].iter_mut().for_each(|op| op.before.clear());
        others[1].iter_mut().filter(|op| op.implicit).for_each(|op| op.args[1] = 0);
        for (count, other) in counts.iter_mut().zip(&others) {
            *count += usize::from(!replayed(other, |count| count - 1).is_empty());
        }
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

fn opened(process: u32, begin: KernelTime) -> (u64, CaptureEvent) {
    let mut original = OriginalRun::default();
    let process = OriginalProcess { key: process, open: None, waits: None, end: KernelTime::MIN };
    original.processes.push(process);
    original.opens(0, begin, begin, KernelTime(begin.0 + 1));
    original.seen.remove(0)
}

fn locked(
    what: TestCall<'_>,
    process: u32,
    open: u64,
    start: KernelTime,
    end: KernelTime,
) -> (u64, CaptureEvent) {
    (end.0, CaptureEvent::Ended(call(what, process, open, start, end), Vec::new()))
}

/// Formats worker, number, name, result and dependencies of each operation; `*` marks an implicit
/// one.
pub(super) fn plan_text(planner: &Planner<KeptOps>) -> String {
    let line = |op: &PlannedOp| {
        let star = if op.implicit { "*" } else { "" };
        let before: Vec<String> =
            op.before.iter().map(|at| format!("{}.{}", at.worker.0, at.number)).collect();
        let OpId { worker, number } = op.at;
        format!("{}.{number} {star}{} {} [{}]\n", worker.0, op.kind(), op.ret, before.join(" "))
    };
    planner.out.0.iter().map(line).collect()
}

#[test]
fn descriptors_of_an_exited_process_are_closed() {
    let seen = vec![
        opened(1, KernelTime(10)),
        (20, CaptureEvent::Forked { parent: 1, child: 2 }),
        locked(flock(libc::LOCK_SH, 0), 2, 10, KernelTime(30), KernelTime(31)),
        (40, CaptureEvent::Exit { process: 1, has_fd: true }),
        (50, CaptureEvent::Exit { process: 2, has_fd: true }),
        opened(3, KernelTime(60)),
    ];
    let planner = plan(seen);
    expect_test::expect![[r#"
        0.0 openat 3 []
        1.0 flock 0 [0.0]
        1.1 *close 0 []
        2.0 openat 3 [0.0 1.1]
    "#]]
    .assert_eq(&plan_text(&planner));
    assert_eq!((planner.implicit, planner.handles()), (1, 1));
    assert_eq!(planner.done.values().sum::<u64>(), 3);
}

/// A lock is acquired before the end of the process is reported that held the lock.
#[test]
fn lock_acquisition_waits_for_the_holder() {
    let seen = vec![
        opened(1, KernelTime(10)),
        opened(2, KernelTime(20)),
        locked(flock(libc::LOCK_EX, 0), 1, 10, KernelTime(30), KernelTime(31)),
        locked(flock(libc::LOCK_EX | libc::LOCK_NB, EAGAIN), 2, 20, KernelTime(32), KernelTime(33)),
        locked(flock(libc::LOCK_EX, 0), 2, 20, KernelTime(34), KernelTime(50)),
        (51, CaptureEvent::Exit { process: 1, has_fd: true }),
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
    .assert_eq(&plan_text(&plan(seen)));
}

#[test]
fn unexplained_lock_refusal_is_left_out() {
    let seen = vec![
        opened(1, KernelTime(10)),
        locked(flock(libc::LOCK_EX | libc::LOCK_NB, EAGAIN), 1, 10, KernelTime(30), KernelTime(31)),
        locked(
            flock(libc::LOCK_EX, -i64::from(libc::EINTR)),
            1,
            10,
            KernelTime(32),
            KernelTime(33),
        ),
        locked(flock(libc::LOCK_EX, -512), 1, 10, KernelTime(34), KernelTime(35)),
        locked(flock(libc::LOCK_UN, 0), 1, 10, KernelTime(36), KernelTime(37)),
    ];
    let planner = plan(seen);
    let left: Vec<_> = planner.skipped.iter().map(|(key, count)| (key.0, *count)).collect();
    assert_eq!(left, [(SkipReason::Lock, 1), (SkipReason::Interrupted, 2)]);
    assert_eq!(planner.out.0.len(), 2);
}

/// Fails if an implicit release does not wait for a child whose end the holder may have waited for.
#[test]
fn implicit_release_waits_for_ended_children() {
    let seen = vec![
        opened(1, KernelTime(10)),
        opened(3, KernelTime(20)),
        locked(flock(libc::LOCK_EX, 0), 1, 10, KernelTime(30), KernelTime(31)),
        (35, CaptureEvent::Forked { parent: 1, child: 2 }),
        opened(2, KernelTime(40)),
        (45, CaptureEvent::Exit { process: 2, has_fd: true }),
        locked(flock(libc::LOCK_EX, 0), 3, 20, KernelTime(50), KernelTime(60)),
        (70, CaptureEvent::Exit { process: 1, has_fd: true }),
    ];
    let planner = plan(seen);
    let child =
        planner.out.0.iter().find(|op| op.kind().to_string() == "openat" && op.at.worker.0 == 2);
    let child = child.expect("the operation of the child").at;
    let release = planner.out.0.iter().find(|op| op.implicit && op.kind().to_string() == "flock");
    let release = release.expect("an implicit release");
    assert!(release.before.contains(&child), "{}", plan_text(&planner));
}
