use std::rc::Rc;

use super::*;
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::event::syscall_table::CallId;
use crate::operation::model::{ProcessKey, SyscallOperation, ThreadInfo, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::{CpuId, KernelTime, Pid, Tid};

const MS: u64 = 1_000_000;

fn trigger(text: &str) -> Trigger {
    Trigger::parse(text).expect("a trigger")
}

#[track_caller]
fn check_error(text: &str, position: usize, what: &str) {
    let error = Trigger::parse(text).expect_err(text);
    assert_eq!(error.position, position, "{error}");
    assert!(error.what.contains(what), "{error}");
    Trigger::parse(error.example).expect("the example is right");
}

#[test]
fn each_metric_is_parsed() {
    let fsync = trigger("fsync>200ms");
    assert_eq!((fsync.limit, fsync.unit(), fsync.text.as_str()), (200 * MS, "ns", "fsync>200ms"));
    assert!(matches!(&fsync.metric, Metric::Call(set) if set.calls.len() == 1));
    assert!(matches!(trigger("%sync>1.5s").metric, Metric::Call(set) if set.calls.len() > 3));
    assert_eq!(trigger("device.await>100us").limit, 100_000);
    assert_eq!(trigger("device.request>1s").metric, Metric::Request);
    assert_eq!((trigger("lost>0").metric, trigger("lost>7").limit), (Metric::Lost, 7));
    let Metric::Window { statistic, source, window_ns } = trigger("p99.9(device,30s)>1ms").metric
    else {
        panic!("a window");
    };
    assert_eq!(
        (statistic, source, window_ns),
        (Statistic::Percentile(999), TriggerSource::Device, 30_000 * MS)
    );
    let count = trigger("count(%stat)>11");
    assert_eq!((count.unit(), count.limit), ("operations", 11));
}

#[test]
fn mistakes_have_their_place() {
    check_error("fsnc>200ms", 1, "fsnc is no system call");
    check_error("%snc>200ms", 1, "there are %data");
    check_error("fsync 200ms", 6, "'>' is missing before ' '");
    check_error("fsync", 6, "before the end");
    check_error("fsync>200", 10, "a unit is needed here (us, ms, s), not nothing");
    check_error("fsync>200min", 10, "not min");
    check_error("fsync>ms", 7, "a time is needed");
    check_error("fsync>-3ms", 7, "a unit is needed");
    check_error("fsync>200ms and", 12, "too much");
    check_error("p100(read)>1ms", 1, "none of p50");
    check_error("p99(rd,10s)>1ms", 5, "rd is no system call");
    check_error("p99(read,1ms)>1ms", 10, "from 1s to 3600s");
    check_error("p99(read,10s>1ms", 13, "')' is missing");
    check_error("lost>2ms", 6, "a number of records");
    check_error("", 1, "is missing");
}

#[test]
fn events_that_are_not_recorded_are_named() {
    let read: Vec<CallId> = CallId::by_name("read").into_iter().collect();
    let events = TriggerEvents { calls: &read, has_block: false };
    assert_eq!(trigger("fsync>1s").lacks(events).as_deref(), Some("fsync"));
    assert_eq!(trigger("device.await>1s").lacks(events).as_deref(), Some("block"));
    assert_eq!(trigger("p50(device)>1s").lacks(events).as_deref(), Some("block"));
    assert_eq!(trigger("%data>1s").lacks(events), None);
    assert_eq!(trigger("lost>0").lacks(events), None);
}

fn call(name: &str, tid: i32, start: u64) -> SyscallOperation {
    SyscallOperation {
        call: CallId::by_name(name).expect("it exists"),
        thread: ThreadKey(1),
        process: ProcessKey(1),
        pid: Pid(11),
        tid: Tid(tid),
        cpu: CpuId(0),
        start: KernelTime(start),
        end: None,
        args: [0; 6],
        ret: None,
        fd: None,
        file: None,
        named: None,
        target: None,
        offset: None,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        bytes_requested: None,
        spans: Vec::new(),
        chain: None,
    }
}

/// Evaluates triggers over calls, each `(name, thread, start, end)`, in ms.
struct Evaluated<'a> {
    triggers: &'a [Trigger],
    calls: &'a [(&'a str, i32, u64, u64)],
    until: u64,
}

impl Evaluated<'_> {
    fn firings(&self) -> Vec<Firing> {
        let mut firings = Vec::new();
        let mut fold = TriggerFold::new(self.triggers, |firing| firings.push(firing));
        let comm = b"dd".to_vec();
        let (key, process, tid) = (ThreadKey(1), ProcessKey(1), Tid(12));
        let seen = ThreadInfo { key, process, tid, comm };
        fold.step(KernelTime(0), &Step::ThreadSeen(&seen)).expect("infallible");
        let mut steps = Vec::new();
        for (name, tid, start, end) in self.calls {
            let begun = Rc::new(call(name, *tid, start * MS));
            let done = SyscallOperation {
                end: Some(KernelTime(end * MS)),
                ret: Some(0),
                ..(*begun).clone()
            };
            steps.push((start * MS, false, begun));
            steps.push((end * MS, true, Rc::new(done)));
        }
        steps.extend(
            (0..self.until).step_by(50).map(|ms| (ms * MS, false, Rc::new(call("sync", -1, 0)))),
        );
        steps.sort_by_key(|step| step.0);
        for (time, is_end, operation) in &steps {
            if *time >= self.until * MS {
                break;
            }
            let time = KernelTime(*time);
            let done = match (operation.tid.0, is_end) {
                (-1, _) => fold.complete_until(time),
                (_, true) => fold.step(time, &Step::SyscallEnded(operation, &[])),
                (_, false) => fold.step(time, &Step::SyscallBegun(operation)),
            };
            done.expect("infallible");
        }
        drop(fold);
        firings
    }
}

#[test]
fn long_call_fires_once_while_it_runs() {
    let triggers = [trigger("fsync>200ms"), trigger("read>1s")];
    let calls = [("fsync", 12, 100, 290), ("fsync", 12, 310, 900), ("read", 13, 100, 1_000)];
    let firings = Evaluated { triggers: &triggers, calls: &calls, until: 2_000 }.firings();
    let [fired] = firings.as_slice() else { panic!("{firings:?}") };
    assert_eq!((fired.trigger, fired.time, fired.is_running), (0, KernelTime(550 * MS), true));
    assert_eq!(fired.value, 240 * MS);
    assert_eq!(
        (fired.subject.comm.as_slice(), fired.subject.task),
        (&b"dd"[..], Some((Pid(11), Tid(12))))
    );
}

#[test]
fn call_without_an_end_fires() {
    let triggers = [trigger("fsync>200ms")];
    let calls = [("fsync", 12, 100, 9_000)];
    let firings = Evaluated { triggers: &triggers, calls: &calls, until: 500 }.firings();
    assert_eq!(firings.len(), 1);
    assert!(firings[0].is_running && firings[0].subject.call.as_deref() == Some("fsync"));
}

#[test]
fn percentile_needs_enough_calls_and_leaves_the_window() {
    let triggers = [trigger("p90(read,2s)>15ms")];
    let slow = |number: u64| ("read", 12, number * 30, number * 30 + 20);
    let few: Vec<_> = (0..7).map(slow).collect();
    let none = Evaluated { triggers: &triggers, calls: &few, until: 3_000 }.firings();
    assert_eq!(none, [], "nine of ten of seven calls is the longest one");
    let many: Vec<_> = (0..13).map(slow).collect();
    let firings = Evaluated { triggers: &triggers, calls: &many, until: 6_000 }.firings();
    let [fired] = firings.as_slice() else { panic!("one event: {firings:?}") };
    assert_eq!(fired.value, 20 * MS);
    let again = (0..13).map(|number| ("read", 12, 4_000 + number * 30, 4_020 + number * 30));
    let twice: Vec<_> = many.into_iter().chain(again).collect();
    let firings = Evaluated { triggers: &triggers, calls: &twice, until: 6_000 }.firings();
    assert_eq!(firings.len(), 2, "the first calls have left the window");
}

#[test]
fn number_of_calls_of_a_window_is_compared() {
    let triggers = [trigger("count(read,1s)>11")];
    let calls: Vec<_> = (0..13).map(|number| ("read", 12, number * 10, number * 10 + 1)).collect();
    let firings = Evaluated { triggers: &triggers, calls: &calls, until: 400 }.firings();
    assert_eq!(firings.first().map(|fired| fired.value), Some(13));
}

#[test]
fn lost_records_fire() {
    let triggers = [trigger("lost>6")];
    let mut firings = Vec::new();
    let mut fold = TriggerFold::new(&triggers, |firing: Firing| firings.push(firing.value));
    for count in [5, 7] {
        let (kind, time, cpu) = (AnomalyKind::Lost, KernelTime(3), CpuId(0));
        let (pid, tid, detail) = (Pid(0), Tid(0), String::new());
        let lost = Anomaly { kind, time, cpu, pid, tid, count, detail };
        fold.step(time, &Step::Anomaly(&lost)).expect("infallible");
    }
    drop(fold);
    assert_eq!(firings, [7]);
}

/// Fails if steps of a second reader are compared again, or if a call of theirs is unknown.
#[test]
fn steps_that_were_evaluated_change_only_the_state() {
    let triggers = [trigger("fsync>200ms")];
    let mut values = Vec::new();
    let mut fold = TriggerFold::new(&triggers, |firing: Firing| values.push(firing.value / MS));
    let long = call("fsync", 12, 100 * MS);
    let ended = SyscallOperation { end: Some(KernelTime(400 * MS)), ret: Some(0), ..long.clone() };
    let later = call("fsync", 13, 600 * MS);
    for _ in 0..2 {
        let at = |ms: u64| KernelTime(ms * MS);
        fold.step(at(100), &Step::SyscallBegun(&long)).expect("infallible");
        fold.step(at(400), &Step::SyscallEnded(&ended, &[])).expect("infallible");
        fold.step(at(600), &Step::SyscallBegun(&later)).expect("infallible");
        fold.complete_until(at(700)).expect("infallible");
        assert!(!fold.is_quiet());
        fold.renew();
    }
    fold.complete_until(KernelTime(900 * MS)).expect("infallible");
    drop(fold);
    assert_eq!(values, [300, 300]);
}
