//! Plans of invented asynchronous operations.

use super::tests::{KeptOps, TestCall, call, file, plan_text};
use super::*;
use crate::event::async_table::{Interface, Opcode};
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::{Sink, Step};
use crate::units::{CpuId, Fd, Pid, Tid};

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FDSYNC: u16 = 3;

/// Plans the operations of a thread. Each line is one: `TIME open`, `TIME close`, `TIME submit
/// NUMBER OPCODE OFFSET` or `TIME got NUMBER RESULT`.
fn plan(lines: &[&str], change: impl Fn(&mut AsyncOperation)) -> Planner<KeptOps> {
    let mut planner = Planner::new(KeptOps::default());
    let mut under_way: Vec<AsyncOperation> = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let (now, end) = (KernelTime(number(0)), KernelTime(number(0) + 1));
        match words[1] {
            "open" => {
                let opened = call(TestCall::new("openat", [0, 1, 2, 0, 0, 0], 3), 1, 70, now, end);
                let effects = [FdEffect::Created { fd: Fd(3), file: file(70) }];
                let Ok(()) = planner.step(now, &Step::SyscallEnded(&opened, &effects));
            }
            "close" => {
                let closed = call(TestCall::new("close", [3, 0, 0, 0, 0, 0], 0), 1, 70, now, end);
                let effects = [FdEffect::Destroyed { fd: Fd(3), file: file(70) }];
                let Ok(()) = planner.step(now, &Step::SyscallEnded(&closed, &effects));
            }
            "submit" => {
                let mut submitted = operation(number(2), number(3), number(4), now);
                change(&mut submitted);
                let Ok(()) = planner.step(now, &Step::AsyncBegun(&submitted));
                let Ok(()) = planner.step(now, &Step::AsyncFile(&submitted));
                under_way.push(submitted);
            }
            _ => {
                let place = under_way.iter().position(|operation| operation.id == number(2));
                let mut ended = under_way.remove(place.expect("it was submitted"));
                (ended.end, ended.result) = (Some(now), words[3].parse().ok());
                let step = match ended.result {
                    Some(_) => Step::AsyncEnded(&ended, &[]),
                    None => Step::AsyncUnfinished(&ended, NoResult::Unseen),
                };
                let Ok(()) = planner.step(now, &step);
            }
        }
    }
    planner
}

fn operation(id: u64, opcode: u64, offset: u64, start: KernelTime) -> AsyncOperation {
    let number = u16::try_from(opcode).expect("an opcode");
    let opcode = Opcode { interface: Interface::Aio, number };
    AsyncOperation {
        id,
        opcode,
        thread: ThreadKey(1),
        process: ProcessKey(1),
        pid: Pid(1),
        tid: Tid(1),
        cpu: CpuId(0),
        start,
        end: None,
        ring: 0,
        user_data: id,
        fd: Some(Fd(3)),
        file: Some(file(70)),
        target: None,
        fixed_file: false,
        offset: opcode.has_offset().then_some(offset),
        bytes_requested: opcode.has_bytes().then_some(4096),
        result: None,
        results: 0,
        bytes_before: 0,
        by_worker: false,
        flags: 0,
        rw_flags: 0,
    }
}

fn left(planner: &Planner<KeptOps>) -> Vec<(&'static str, u64)> {
    planner.skipped.iter().map(|(key, count)| (key.0.as_str(), *count)).collect()
}

/// Two concurrent writes, a read of one after its end, a sync of both, and a close after all of
/// them.
#[test]
fn concurrent_operations_are_on_separate_lanes() {
    assert_eq!([PREAD, PWRITE, FDSYNC], [0, 1, 3]);
    let planner = plan(
        &[
            "10 open",
            "20 submit 1 1 0",
            "20 submit 2 1 1048576",
            "30 got 2 4096",
            "31 submit 3 0 1048576",
            "40 got 1 4096",
            "50 got 3 4096",
            "51 submit 4 3 0",
            "60 got 4 0",
            "61 close",
        ],
        |_| {},
    );
    expect_test::expect![[r#"
        0.0 openat 3 []
        1.0 aio:PWRITE 4096 [0.0]
        2.0 aio:PWRITE 4096 [0.0]
        1.1 aio:PREAD 4096 []
        1.2 aio:FDSYNC 0 [2.0]
        0.1 close 0 [1.2 2.0]
    "#]]
    .assert_eq(&plan_text(&planner));
    assert_eq!(planner.bytes, [4096, 8192]);
    let lanes: Vec<_> = planner.workers.iter().map(|worker| worker.lane).collect();
    assert_eq!(lanes, [None, Some(0), Some(1)]);
    assert_eq!(planner.out.0[1].call.call().name, "pwrite64");
    assert_eq!(left(&planner), []);
}

/// Fails if a replay uses a descriptor that is another file's by then, or invents unknown
/// arguments.
#[test]
fn uncertain_submissions_are_left_out() {
    let closed = ["10 open", "20 submit 1 0 0", "30 close", "40 got 1 4096"];
    assert_eq!(left(&plan(&closed, |_| {})), [("descriptor-closed", 1)]);
    let read = ["10 open", "20 submit 1 0 0", "40 got 1 4096"];
    let left_by = |change: fn(&mut AsyncOperation)| left(&plan(&read, change));
    assert_eq!(left_by(|op| op.offset = None), [("asynchronous", 1)]);
    assert_eq!(left_by(|op| op.bytes_requested = None), [("asynchronous", 1)]);
    assert_eq!(left_by(|op| op.opcode.interface = Interface::IoUring), [("asynchronous", 1)]);
    assert_eq!(left_by(|op| (op.fd, op.file) = (None, None)), [("descriptor-unknown", 1)]);
    let lost = ["10 open", "20 submit 1 0 0", "40 got 1 ?"];
    assert_eq!(left(&plan(&lost, |_| {})), [("no-result", 1)]);
}

#[test]
fn flags_of_io_submit_are_those_of_the_call() {
    let read = ["10 open", "20 submit 1 0 8192", "40 got 1 4096"];
    let planner = plan(&read, |op| op.rw_flags = 8);
    let planned = &planner.out.0[1];
    assert_eq!(planned.call.call().name, "preadv2");
    assert_eq!((planned.args[2..6].to_vec(), planned.bytes), (vec![1, 8192, 0, 8], Some(4096)));
}

/// Fails if memory grows with what a thread has submitted.
#[test]
fn finished_submissions_are_evicted() {
    let lines: Vec<String> = (0..1000_u64)
        .flat_map(|number| {
            let time = 20 + 10 * number;
            [format!("{time} submit {number} 1 0"), format!("{} got {number} 4096", time + 5)]
        })
        .collect();
    let lines: Vec<&str> =
        ["10 open"].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let planner = plan(&lines, |_| {});
    assert_eq!((planner.workers.len(), planner.out.0.len()), (2, 1001));
    assert_eq!(planner.in_flight.oldest(), None);
}
