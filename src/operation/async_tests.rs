//! Tests of asynchronous operations, in a small language: one event a line, and the steps that the
//! sink got.
//!
//! ```text
//! 100 1 create RING FD              time, process, io_uring_create
//! 101 1 submit RING REQ DATA OP [FLAGS]
//! 102 1 file RING REQ FD
//! 103 1 complete RING REQ DATA RESULT [CFLAGS]     and overflow, failed, worker
//! 104 1 > io_submit 7 1 80          entry of a call
//! 105 1 < io_submit 1 IOCB:OP:FD:BYTES:OFFSET      its exit, and the memory that was read
//! 106 1 < io_getevents 1 IOCB:RESULT
//! 107 1 < io_submit 1 … recorded …   the same, and the list that a probe has recorded
//! ```
//!
//! A REQ of -1 is not reported by the kernel; 0 is no request.

use std::convert::Infallible;
use std::fmt::Write;

use expect_test::{Expect, expect};

use super::context::Observability;
use super::process::Scope;
use super::step::{Sink, Step};
use super::tracker::Tracker;
use crate::anomaly::Ledger;
use crate::block::BlockOptions;
use crate::event::file_io::FileIo;
use crate::event::syscall_table::{CallId, Role};
use crate::event::task::TaskEvent;
use crate::event::uring::{URING_POINTS, UringEvent};
use crate::event::{Event, EventKind, FileStat, Name, ReadNames, SeenFd, SysEnter, SysExit};
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

#[derive(Default)]
struct AsyncStepText(String);

impl Sink for AsyncStepText {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let (word, it) = match step {
            Step::AsyncBegun(it) => ("begun".to_owned(), it),
            Step::AsyncFile(it) => ("file".to_owned(), it),
            Step::AsyncEnded(it, effects) => (format!("ended, {} effects", effects.len()), it),
            Step::AsyncUnfinished(it, why) => (format!("no result ({})", why.as_str()), it),
            Step::Anomaly(it) => {
                let _ = writeln!(self.0, "{}: ! {}: {}", time.0, it.kind.as_str(), it.detail);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let fd = it.fd.map_or("-".into(), |it| it.0.to_string());
        let result = it.result.map_or("?".into(), |it| it.to_string());
        let offset = it.offset.map_or("?".into(), |it| it.to_string());
        let _ = writeln!(
            self.0,
            "{}: #{} {} on {fd} at {offset} = {result}, {:?} bytes in {}: {word}",
            time.0,
            it.id,
            it.opcode,
            it.bytes(),
            it.results
        );
        Ok(())
    }
}

fn number(word: &str) -> u64 {
    word.parse::<i64>().expect("a number").cast_unsigned()
}

fn uring(words: &[&str]) -> Option<EventKind> {
    let name = match words[0] {
        "submit" => "io_uring_submit_req",
        "file" => "io_uring_file_get",
        "worker" => "io_uring_queue_async_work",
        "failed" => "io_uring_req_failed",
        "overflow" => "io_uring_cqe_overflow",
        "create" => "io_uring_create",
        "complete" => "io_uring_complete",
        _ => return None,
    };
    let point = URING_POINTS.iter().find(|it| it.0 == name).expect("in the table").1;
    let at = |place: usize| words.get(place).map_or(0, |it| number(it));
    let mut event = UringEvent {
        point,
        ctx: at(1),
        req: Some(at(2)).filter(|it| *it != u64::MAX),
        user_data: at(3),
        opcode: 0,
        fd: 0,
        res: 0,
        flags: 0,
        cflags: 0,
        sq_thread: false,
        off: None,
        len: None,
    };
    let int = |place: usize| i32::try_from(at(place).cast_signed()).expect("an int");
    match words[0] {
        "create" => (event.req, event.fd) = (None, int(2)),
        "file" => (event.user_data, event.fd) = (0, int(3)),
        "submit" | "failed" => {
            event.opcode = u8::try_from(at(4)).expect("an opcode");
            event.flags = at(5);
            event.off = (words[0] == "failed").then_some(512);
        }
        _ => (event.res, event.cflags) = (at(4).cast_signed(), int(5).cast_unsigned()),
    }
    Some(EventKind::Uring(event))
}

/// Parses the memory of one argument: an iocb with its address, or a result.
fn read(word: &str) -> Vec<u8> {
    let parts: Vec<u64> = word.split(':').map(number).collect();
    let words = match parts.as_slice() {
        &[iocb, op, fd, bytes, offset] => {
            vec![iocb, 0, 0, op | fd << 32, 0, bytes, offset, 0, 0, u64::MAX]
        }
        &[iocb, result] => vec![0, iocb, result, 0],
        other => panic!("{other:?}"),
    };
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn kind(words: &[&str]) -> EventKind {
    if let Some(kind) = uring(words) {
        return kind;
    }
    match words[0] {
        ">" => {
            let mut args = [0; 6];
            for (arg, word) in args.iter_mut().zip(&words[2..]) {
                *arg = number(word);
            }
            let call = CallId::by_name(words[1]).expect("in the table");
            EventKind::SysEnter(SysEnter { call, args })
        }
        "<" => {
            let call = CallId::by_name(words[1]).expect("in the table");
            let mut lists = words[3..].split(|word| *word == "recorded");
            let mut list = || Some(lists.next()?.iter().flat_map(|word| read(word)).collect());
            let (bytes, recorded): (Vec<u8>, Option<Vec<u8>>) =
                (list().unwrap_or_default(), list());
            let role = if words[1] == "io_submit" { Role::Iocbs } else { Role::IoEvents };
            // Every pointer of these tests is 80.
            let memory = call.call().arg(role).map(|_| (80, Name { bytes, verified: true }));
            let (memory, list) = (memory.into_iter().collect(), recorded.map(|list| (80, list)));
            let names = ReadNames { memory, list, ..ReadNames::default() };
            let ret = number(words[2]).cast_signed();
            EventKind::SysExit(SysExit { call, ret, names: Some(Box::new(names)), chain: None })
        }
        "direct" => EventKind::FileIo(FileIo {
            dev: DevId(1),
            ino: number(words[1]),
            position: number(words[2]),
            count: number(words[3]),
            is_span: false,
        }),
        "seen" => EventKind::SeenFd(Box::new(SeenFd {
            begin: KernelTime(1),
            pid: Pid(1),
            fd: Fd(i32::try_from(number(words[1])).expect("an int")),
            flags: 0,
            position: Some(0),
            shared: false,
            stat: Some(FileStat { mode: libc::S_IFREG, dev: DevId(1), ino: 2, size: 0 }),
            link: b"/seen".to_vec(),
        })),
        "exit" => EventKind::Task(TaskEvent::Exit { pid: Pid(1), tid: Tid(1) }),
        other => panic!("no such line: {other}"),
    }
}

#[track_caller]
fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&steps_of(text).0);
}

/// Returns the steps of these events, and the counts.
#[track_caller]
fn steps_of(text: &str) -> (String, Ledger) {
    let scope = Scope {
        system: true,
        all_requests: true,
        roots: Vec::new(),
        launched: false,
        own: Pid(999),
        children: true,
        excluded: Vec::new(),
    };
    let mut tracker =
        Tracker::new(scope, BlockOptions::default(), Observability::ALL, KernelTime::MIN);
    let mut steps = AsyncStepText::default();
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let tid: i32 = words[1].parse().expect("a thread");
        let event = Event {
            time: KernelTime(words[0].parse().expect("a time")),
            cpu: CpuId(0),
            pid: Pid(1),
            tid: Tid(tid),
            kind: kind(&words[2..]),
        };
        // Steps of the snapshot are not records.
        tracker.ledger_mut().records += u64::from(words[2] != "seen");
        let Ok(()) = tracker.push(event, &mut steps);
    }
    let Ok(()) = tracker.finish(KernelTime(1000), &mut steps);
    assert_eq!(tracker.ledger().imbalances(), Vec::<String>::new());
    (steps.0, tracker.ledger().clone())
}

#[test]
fn a_request_gets_its_file_and_its_result() {
    check(
        "
        100 1 create 9 3
        101 1 submit 9 71 5 22
        102 1 file 9 71 4
        103 1 submit 9 72 5 23
        104 1 file 9 72 4
        105 2 complete 9 72 5 4096
        106 2 complete 9 71 5 -9
        ",
        &expect![[r#"
            101: #0 io_uring:READ on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ on 4 at ? = ?, None bytes in 0: file
            103: #1 io_uring:WRITE on - at ? = ?, None bytes in 0: begun
            104: #1 io_uring:WRITE on 4 at ? = ?, None bytes in 0: file
            105: #1 io_uring:WRITE on 4 at ? = 4096, Some(4096) bytes in 1: ended, 0 effects
            106: #0 io_uring:READ on 4 at ? = -9, Some(0) bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn one_with_several_results_ends_with_the_last() {
    check(
        "
        100 1 create 9 3
        101 1 submit 9 71 5 49
        102 1 file 9 71 4
        103 1 complete 9 0 5 100 2
        104 1 complete 9 0 5 50 2
        105 1 complete 9 71 5 0
        ",
        &expect![[r#"
            101: #0 io_uring:READ_MULTISHOT on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ_MULTISHOT on 4 at ? = ?, None bytes in 0: file
            105: #0 io_uring:READ_MULTISHOT on 4 at ? = 0, Some(150) bytes in 3: ended, 0 effects
        "#]],
    );
}

#[test]
fn recorded_list_precedes_what_a_reader_has_read() {
    // The second operation is beyond the recorded list; the first was read too late.
    check(
        "
        100 1 > io_submit 7 2 80
        101 1 < io_submit 2 40:0:9:1:9 48:1:4:512:1024 recorded 40:0:3:4096:8192
        102 1 > io_getevents 7 1 2 80
        103 1 < io_getevents 2 recorded 40:4096 48:512
        ",
        &expect![[r#"
            101: #0 aio:PREAD on - at 8192 = ?, None bytes in 0: begun
            101: #0 aio:PREAD on 3 at 8192 = ?, None bytes in 0: file
            101: #1 aio:PWRITE on - at 1024 = ?, None bytes in 0: begun
            101: #1 aio:PWRITE on 4 at ? = ?, None bytes in 0: file
            103: #0 aio:PREAD on 3 at 8192 = 4096, Some(4096) bytes in 1: ended, 0 effects
            103: #1 aio:PWRITE on 4 at ? = 512, Some(512) bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn recorded_request_is_certain_when_its_result_comes_first() {
    for recorded in ["", "recorded 40:0:3:4096:8192"] {
        let text = format!(
            "
            100 1 > io_submit 7 1 80
            101 2 > io_getevents 7 1 1 80
            102 2 < io_getevents 1 40:4096
            103 1 < io_submit 1 40:0:3:4096:8192 {recorded}
            "
        );
        let expected = if recorded.is_empty() {
            expect![[r#"
                103: #0 aio:PREAD on - at ? = ?, None bytes in 0: begun
                103: #0 aio:PREAD on - at ? = 4096, Some(4096) bytes in 1: ended, 0 effects
            "#]]
        } else {
            expect![[r#"
                103: #0 aio:PREAD on - at 8192 = ?, None bytes in 0: begun
                103: #0 aio:PREAD on 3 at 8192 = ?, None bytes in 0: file
                103: #0 aio:PREAD on 3 at 8192 = 4096, Some(4096) bytes in 1: ended, 0 effects
            "#]]
        };
        check(&text, &expected);
    }
}

#[test]
fn full_queue_repeats_or_replaces_a_result() {
    check(
        "
        100 1 create 9 3
        101 1 submit 9 71 5 22
        102 1 complete 9 71 5 8
        103 1 overflow 9 0 5 8
        104 1 submit 9 72 6 22
        105 1 overflow 9 0 6 9
        ",
        &expect![[r#"
            101: #0 io_uring:READ on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ on - at ? = 8, Some(8) bytes in 1: ended, 0 effects
            104: #1 io_uring:READ on - at ? = ?, None bytes in 0: begun
            105: #1 io_uring:READ on - at ? = 9, Some(9) bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn request_without_a_result_ends_when_its_slot_is_reused() {
    check(
        "
        100 1 create 9 3
        101 1 submit 9 71 5 22 64
        102 1 submit 9 71 6 22
        103 1 submit 9 71 7 22
        104 1 exit
        ",
        &expect![[r#"
            101: #0 io_uring:READ on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ on - at ? = ?, None bytes in 0: no result (result-skipped)
            102: #1 io_uring:READ on - at ? = ?, None bytes in 0: begun
            103: #1 io_uring:READ on - at ? = ?, None bytes in 0: no result (result-unseen)
            103: #2 io_uring:READ on - at ? = ?, None bytes in 0: begun
            104: #2 io_uring:READ on - at ? = ?, None bytes in 0: no result (process-end)
        "#]],
    );
}

#[test]
fn destroyed_context_drops_its_results() {
    check(
        "
        100 1 > io_submit 7 1 80
        101 1 < io_submit 1 500:1:4:8:0
        102 1 > io_submit 9 1 80
        103 1 < io_submit 1 600:1:4:16:0
        104 1 > io_destroy 7
        105 1 < io_destroy 0
        106 1 > io_destroy 9
        107 1 < io_destroy -22
        ",
        &expect![[r#"
            101: #0 aio:PWRITE on - at 0 = ?, None bytes in 0: begun
            101: #0 aio:PWRITE on 4 at ? = ?, None bytes in 0: file
            103: #1 aio:PWRITE on - at 0 = ?, None bytes in 0: begun
            103: #1 aio:PWRITE on 4 at ? = ?, None bytes in 0: file
            105: #0 aio:PWRITE on 4 at ? = ?, None bytes in 0: no result (result-unseen)
            1000: #1 aio:PWRITE on 4 at ? = ?, None bytes in 0: no result (capture-end)
        "#]],
    );
}

#[test]
fn kernels_without_addresses_are_followed_in_order() {
    check(
        "
        100 1 create 9 3
        101 1 file 9 -1 4
        102 1 submit 9 -1 5 22
        103 1 file 9 -1 6
        104 1 submit 9 -1 5 22
        105 1 complete 9 -1 5 10
        106 1 complete 9 -1 5 20
        107 1 complete 9 -1 6 -9
        ",
        &expect![[r#"
            102: #0 io_uring:READ on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ on 4 at ? = ?, None bytes in 0: file
            104: #1 io_uring:READ on - at ? = ?, None bytes in 0: begun
            104: #1 io_uring:READ on 6 at ? = ?, None bytes in 0: file
            105: #0 io_uring:READ on 4 at ? = 10, Some(10) bytes in 1: ended, 0 effects
            106: #1 io_uring:READ on 6 at ? = 20, Some(20) bytes in 1: ended, 0 effects
            107: ! orphan-result: io_uring: result -9 of a request (user_data 0x6) that was not seen before
        "#]],
    );
}

#[test]
fn addresses_may_be_reported_only_at_submission() {
    check(
        "
        100 1 create 9 3
        101 1 file 9 -1 4
        102 1 submit 9 71 5 22
        103 1 complete 9 -1 5 10
        104 1 file 9 -1 99
        105 1 complete 9 -1 6 -9
        106 1 submit 9 71 7 0
        107 1 complete 9 -1 7 0
        ",
        &expect![[r#"
            102: #0 io_uring:READ on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ on 4 at ? = ?, None bytes in 0: file
            103: #0 io_uring:READ on 4 at ? = 10, Some(10) bytes in 1: ended, 0 effects
            105: ! orphan-result: io_uring: result -9 of a request (user_data 0x6) that was not seen before
            106: #1 io_uring:NOP on - at ? = ?, None bytes in 0: begun
            107: #1 io_uring:NOP on - at ? = 0, None bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn results_of_unseen_requests_are_placed_by_order() {
    check(
        "
        100 1 complete 8 71 5 10
        101 1 create 9 3
        102 1 complete 9 71 5 10
        103 1 complete 9 0 5 10
        104 1 complete 9 71 5 10 8
        ",
        &expect![[r#"
            102: ! orphan-result: io_uring: result 10 of a request (user_data 0x5) that was not seen before
        "#]],
    );
}

#[test]
fn refused_request_has_its_offset() {
    check(
        "
        100 1 create 9 3
        101 1 failed 9 71 5 22
        102 1 complete 9 71 5 -22
        ",
        &expect![[r#"
            101: #0 io_uring:READ on - at 512 = ?, None bytes in 0: begun
            102: #0 io_uring:READ on - at 512 = -22, Some(0) bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn file_system_event_gives_the_direct_io_offset() {
    check(
        "
        10 1 seen 4
        100 1 create 9 3
        101 1 submit 9 71 5 22
        102 1 file 9 71 4
        103 2 direct 2 512 100
        104 1 direct 2 8192 4096
        105 1 direct 2 1 1
        106 1 submit 9 72 6 22
        107 1 file 9 72 4
        108 1 direct 3 8192 4096
        109 1 submit 9 73 7 22
        110 1 file 9 73 4
        111 1 worker 9 73 7
        112 1 direct 2 8192 4096
        ",
        &expect![[r#"
            101: #0 io_uring:READ on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:READ on 4 at ? = ?, None bytes in 0: file
            106: #1 io_uring:READ on - at ? = ?, None bytes in 0: begun
            107: #1 io_uring:READ on 4 at ? = ?, None bytes in 0: file
            109: #2 io_uring:READ on - at ? = ?, None bytes in 0: begun
            110: #2 io_uring:READ on 4 at ? = ?, None bytes in 0: file
            1000: #0 io_uring:READ on 4 at 8192 = ?, None bytes in 0: no result (capture-end)
            1000: #1 io_uring:READ on 4 at ? = ?, None bytes in 0: no result (capture-end)
            1000: #2 io_uring:READ on 4 at ? = ?, None bytes in 0: no result (capture-end)
        "#]],
    );
}

#[test]
fn an_open_makes_a_descriptor() {
    check(
        "
        100 1 create 9 3
        101 1 submit 9 71 5 18
        102 1 complete 9 71 5 7
        ",
        &expect![[r#"
            101: #0 io_uring:OPENAT on - at ? = ?, None bytes in 0: begun
            102: #0 io_uring:OPENAT on 7 at ? = 7, None bytes in 1: ended, 1 effects
        "#]],
    );
}

#[test]
fn iocbs_have_all_their_arguments() {
    check(
        "
        100 1 > io_submit 7 2 80
        101 1 < io_submit 2 4096:0:5:512:1024 8192:1:5:512:2048
        102 2 > io_getevents 7 1 2 80
        103 2 < io_getevents 2 8192:512 4096:-5
        ",
        &expect![[r#"
            101: #0 aio:PREAD on - at 1024 = ?, None bytes in 0: begun
            101: #0 aio:PREAD on 5 at 1024 = ?, None bytes in 0: file
            101: #1 aio:PWRITE on - at 2048 = ?, None bytes in 0: begun
            101: #1 aio:PWRITE on 5 at ? = ?, None bytes in 0: file
            103: #1 aio:PWRITE on 5 at ? = 512, Some(512) bytes in 1: ended, 0 effects
            103: #0 aio:PREAD on 5 at 1024 = -5, Some(0) bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn a_result_may_come_before_its_call_has_ended() {
    check(
        "
        100 1 > io_submit 7 1 80
        101 2 > io_getevents 7 1 1 80
        102 2 < io_getevents 1 4096:512
        103 1 < io_submit 1 4096:0:5:512:1024
        ",
        &expect![[r#"
            103: #0 aio:PREAD on - at ? = ?, None bytes in 0: begun
            103: #0 aio:PREAD on - at ? = 512, Some(512) bytes in 1: ended, 0 effects
        "#]],
    );
}

#[test]
fn unread_arguments_are_counted() {
    check(
        "
        100 1 > io_submit 7 2 80
        101 1 < io_submit 2 4096:0:5:512:1024
        102 1 > io_submit 7 1 80
        103 1 < io_submit -11
        ",
        &expect![[r#"
            101: #0 aio:PREAD on - at 1024 = ?, None bytes in 0: begun
            101: #0 aio:PREAD on 5 at 1024 = ?, None bytes in 0: file
            1000: #0 aio:PREAD on 5 at 1024 = ?, None bytes in 0: no result (capture-end)
        "#]],
    );
}

#[test]
fn what_was_not_read_of_lists_is_counted() {
    let unread = |list: &str| steps_of(list).1.async_unread;
    let missing = "100 1 > io_submit 7 2 80\n101 1 < io_submit 2 4096:0:5:512:1024";
    assert_eq!(unread(missing), 1, "an iocb");
    let vector = "100 1 > io_submit 7 1 80\n101 1 < io_submit 1 4096:7:5:2:1024";
    assert_eq!(unread(vector), 1, "the buffers of a vector");
    let reused = "100 1 > io_submit 7 1 80\n101 2 > io_getevents 7 1 1 80\n\
                  102 2 < io_getevents 1 4096:512\n103 1 < io_submit 1 4096:0:5:512:1024";
    assert_eq!(unread(reused), 1, "an iocb that the program may have used again");
    let whole = "100 1 > io_submit 7 1 80\n101 1 < io_submit 1 4096:0:5:512:1024";
    assert_eq!(unread(whole), 0);
}

#[test]
fn result_of_the_next_operation_is_not_taken() {
    check(
        "
        100 1 > io_submit 7 1 80
        101 1 < io_submit 1 4096:0:5:512:1024
        102 1 > io_getevents 7 1 1 80
        103 1 < io_getevents 1
        104 1 > io_submit 7 1 80
        105 1 < io_submit 1
        106 1 > io_getevents 7 1 1 80
        107 1 < io_getevents 1 4096:256
        ",
        &expect![[r#"
            101: #0 aio:PREAD on - at 1024 = ?, None bytes in 0: begun
            101: #0 aio:PREAD on 5 at 1024 = ?, None bytes in 0: file
            105: #0 aio:PREAD on 5 at 1024 = ?, None bytes in 0: no result (result-unseen)
        "#]],
    );
}
