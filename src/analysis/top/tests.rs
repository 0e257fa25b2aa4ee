use std::convert::Infallible;
use std::sync::Arc;

use super::test_fixtures::interval;
use super::*;
use crate::analysis::completed_op::OpKind;
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::event::block::RequestOp;
use crate::event::syscall_table::CallId;
use crate::operation::block::BlockStep;
use crate::operation::io_class::IoClass;
use crate::operation::model::{
    FilePath, OpenFile, PathSource, ProcessInfo, ProcessKey, SyscallOperation,
};
use crate::operation::test_fixtures::{call, request};
use crate::operation::{Sink, Step};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Begin of the recording.
const START: u64 = 5_000;

/// Length of an interval, ns.
const LENGTH: u64 = 1_000;

fn file(path: &str) -> Arc<OpenFile> {
    Arc::new(OpenFile {
        id: 1,
        path: Some(FilePath::new(path, PathSource::Link)),
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    })
}

fn process() -> ProcessInfo {
    ProcessInfo { comm: b"app".to_vec(), ..ProcessInfo::new(ProcessKey(0), Pid(11)) }
}

/// Feeds operations and requests to a fold, and returns its intervals.
fn folded(
    count_max: Option<u64>,
    end: u64,
    feed: impl FnOnce(&mut dyn FnMut(u64, &Step<'_>)),
) -> Vec<TopInterval> {
    let mut closed = Vec::new();
    let close = |interval| -> Result<Option<TopPair>, Infallible> {
        closed.push(interval);
        Ok(None)
    };
    let mut fold = TopFold::new(KernelTime(START), LENGTH, count_max, close);
    let mut step = |time: u64, step: &Step<'_>| {
        let Ok(()) = fold.step(KernelTime(time), step);
    };
    step(START, &Step::ProcessSeen(&process()));
    feed(&mut step);
    let Ok(()) = fold.finish(KernelTime(end));
    closed
}

fn ends(operation: &SyscallOperation, step: &mut dyn FnMut(u64, &Step<'_>)) {
    let end = operation.end.expect("it has ended").0;
    step(end, &Step::SyscallEnded(operation, &[]));
}

#[test]
fn operation_counts_in_the_interval_in_which_it_ends() {
    let data = file("/data");
    let closed = folded(None, START + 3_500, |step| {
        // From the first interval into the second one, and at the very begin of the third one.
        ends(&call("read", Arc::clone(&data), [START + 900, START + 1_100], None, 4_099), step);
        ends(&call("write", data, [START + 1_950, START + 2_000], None, 7), step);
    });
    let sums: Vec<_> = closed
        .iter()
        .map(|sum| (sum.start.0 - START, sum.end.0 - START, sum.all.read, sum.all.written))
        .collect();
    assert_eq!(
        sums,
        [(0, 1_000, 0, 0), (1_000, 2_000, 4_099, 0), (2_000, 3_000, 0, 7), (3_000, 3_500, 0, 0)]
    );
    assert_eq!((closed[1].all.io_ns, closed[2].all.io_ns), (200, 50));
}

#[test]
fn last_interval_ends_with_the_recording() {
    let closed = folded(Some(2), START + 9_700, |step| {
        ends(&call("write", file("/data"), [START + 100, START + 9_600], None, 31), step);
    });
    let ends: Vec<_> = closed.iter().map(|sum| (sum.end.0 - START, sum.all.written)).collect();
    assert_eq!(ends, [(1_000, 0), (9_700, 31)]);
}

#[test]
fn rows_of_all_views_have_the_same_sums() {
    let closed = folded(None, START + 100, |step| {
        for (number, name) in ["/a", "/b", "/a"].into_iter().enumerate() {
            let bytes = [4_099, 13, 509][number];
            ends(&call("pwrite64", file(name), [START, START + 17], None, bytes), step);
        }
        ends(&call("read", file("/b"), [START, START + 19], None, -5), step);
    });
    let [interval] = closed.as_slice() else { panic!("{closed:?}") };
    let all = interval.all;
    assert_eq!((all.count, all.errors, all.written, all.io_ns), (4, 1, 4_621, 3 * 17 + 19));
    let sum = |rows: &mut dyn Iterator<Item = TopAmounts>| {
        rows.fold(TopAmounts::default(), |mut sum, row| {
            sum.merge(&row);
            sum
        })
    };
    assert_eq!(sum(&mut interval.processes.iter().map(|row| row.1)), all);
    assert_eq!(sum(&mut interval.pairs.iter().map(|row| row.1)), all);
    assert_eq!(sum(&mut interval.calls.iter().map(|row| row.1)), all);
    assert_eq!((interval.pairs.len(), interval.calls.len()), (2, 2));
    assert_eq!(interval.known[0].comm, b"app");
}

#[test]
fn transfer_counts_for_both_files() {
    let closed = folded(None, START + 100, |step| {
        let mut copy = call("copy_file_range", file("/from"), [START, START + 9], None, 4_099);
        copy.target = Some((crate::units::Fd(4), file("/to")));
        ends(&copy, step);
    });
    let mut rows: Vec<_> = closed[0]
        .pairs
        .iter()
        .map(|(pair, row)| (pair.file.clone(), row.read, row.written))
        .collect();
    rows.sort();
    let named = |path: &str| TopFile::Named(path.as_bytes().into());
    assert_eq!(rows, [(named("/from"), 4_099, 0), (named("/to"), 0, 4_099)]);
}

#[test]
fn device_has_its_requests_and_losses_are_counted() {
    let dev = DevId::new(8, 0);
    let closed = folded(None, START + 100, |step| {
        let mut read = request(dev, RequestOp::Read, 0, 8, [START, START + 50]);
        read.issued = Some(KernelTime(START + 20));
        let ended = BlockStep::Ended(&read);
        step(START + 50, &Step::Block { step: &ended, thread: None, pieces: &[] });
        let (time, detail) = (KernelTime(START), String::new());
        let (kind, cpu) = (AnomalyKind::Lost, CpuId(0));
        let lost = Anomaly { kind, time, cpu, pid: Pid(0), tid: Tid(0), count: 23, detail };
        step(START + 60, &Step::Anomaly(&lost));
    });
    let expected =
        TopAmounts { count: 1, read: 8 * 512, io_count: 1, io_ns: 30, ..TopAmounts::default() };
    assert_eq!((closed[0].devices.as_slice(), closed[0].lost), ([(dev, expected)].as_slice(), 23));
}

#[test]
fn ended_process_stays_for_a_while_and_is_summed_up_afterwards() {
    let second = 1_000_000_000;
    let mut model = TopModel::new(TopFacts::default());
    let key = ProcessKey(3);
    model.close(TopInterval { ended: vec![key], ..interval(0, key, "/a", 509) });
    for at in 1..=10 {
        let lines = model.lines(TopView::Processes);
        let is_ended: Vec<bool> = lines.lines.iter().map(|line| line.is_ended).collect();
        assert_eq!((is_ended, lines.rest.rows), (vec![true], 0), "{at}");
        let [start, end] = [at * second, (at + 1) * second].map(KernelTime);
        model.close(TopInterval { start, end, ..TopInterval::default() });
    }
    let lines = model.lines(TopView::Processes);
    assert_eq!((lines.lines.len(), lines.rest.rows, lines.rest.total.written), (0, 1, 509));
    assert!(model.files_of(key).lines.is_empty());
    // Files outlive the process.
    assert_eq!(model.lines(TopView::Files).lines.len(), 1);
    assert_eq!(model.total_all.written, 509);
}

#[test]
fn rows_beyond_the_limit_are_summed_up() {
    let mut model = TopModel::new(TopFacts::default());
    let key = ProcessKey(3);
    model.close(interval(0, key, "/busy", 7));
    let count = ROWS_MAX + 5;
    let mut many = interval(1, key, "/busy", 7);
    let (pair, amounts) = many.pairs[0].clone();
    many.pairs.extend((0..count).map(|number| {
        let file = TopFile::Named(format!("/idle/{number}").into_bytes().into());
        (TopPair { file, ..pair.clone() }, amounts)
    }));
    model.close(many);
    // An interval later the others are idle: the busy one stays.
    model.close(interval(2, key, "/busy", 7));
    let lines = model.lines(TopView::Files);
    assert_eq!((lines.lines.len(), lines.rest.rows), (ROWS_MAX, 6));
    let has_busy = lines.lines.iter().any(|line| line.name == b"/busy");
    assert!(has_busy);
    let total: u64 = lines.lines.iter().map(|line| line.row.total.written).sum();
    assert_eq!(total + lines.rest.total.written, 7 * (3 + u64::try_from(count).expect("small")));
}

#[test]
fn history_has_the_mean_of_each_interval() {
    let mut model = TopModel::new(TopFacts::default());
    let key = ProcessKey(3);
    for number in 0..20 {
        model.close(match number % 3 {
            0 => TopInterval::default(),
            _ => interval(number, key, "/a", 7),
        });
    }
    let lines = model.lines(TopView::Processes);
    let history = lines.lines[0].row.history;
    // Intervals 4 to 19.
    let expected: Vec<u64> = (4..20).map(|number| if number % 3 == 0 { 0 } else { 50 }).collect();
    assert_eq!(history.to_vec(), expected);
}

#[test]
fn focus_keeps_the_operations_of_one_pair() {
    let wanted = TopPair { process: ProcessKey(0), file: TopFile::Named(b"/b".as_slice().into()) };
    let mut closed = Vec::new();
    let close = |interval| -> Result<Option<TopPair>, Infallible> {
        closed.push(interval);
        Ok(Some(wanted.clone()))
    };
    let mut fold = TopFold::new(KernelTime(START), LENGTH, None, close);
    for at in [START, START + LENGTH] {
        for name in ["/a", "/b", "/a"] {
            let operation = call("write", file(name), [at + 10, at + 20], Some(31), 13);
            let Ok(()) = fold.step(KernelTime(at + 20), &Step::SyscallEnded(&operation, &[]));
        }
    }
    let Ok(()) = fold.finish(KernelTime(START + 2 * LENGTH));
    let names = |interval: &TopInterval| {
        interval.operations.iter().map(|(pair, _)| pair.file.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&closed[0]).len(), 3);
    assert_eq!(names(&closed[1]), std::slice::from_ref(&wanted.file));
    let (_, operation) = &closed[1].operations[0];
    assert_eq!((operation.offset, operation.bytes, operation.ns), (Some(31), 13, 10));
    assert_eq!(operation.what, OpKind::Call(CallId::by_name("write").expect("it exists")));
    let mut model = TopModel::new(TopFacts::default());
    closed.into_iter().for_each(|interval| model.close(interval));
    assert_eq!(model.operations_of(&wanted).count(), 2);
    model.set_focus(Some(wanted.clone()));
    let other = TopPair { file: TopFile::Nameless(IoClass::File), ..wanted.clone() };
    assert_eq!((model.operations_of(&wanted).count(), model.operations_of(&other).count()), (2, 0));
}
