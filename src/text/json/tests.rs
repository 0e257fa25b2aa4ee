use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::Value;

use super::JsonLines;
use crate::operation::Step;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::block::BlockRequest;
use crate::operation::model::{PathSource, SyscallOperation, Unfinished};
use crate::text::fixtures::{self, CWD, START, at, call, file, pass};
use crate::units::Fd;

/// Returns the output of the sink for these steps.
fn written(steps: impl FnOnce(&mut JsonLines<Vec<u8>>)) -> String {
    let mut sink = JsonLines::new(START, fixtures::disks(), Vec::new());
    steps(&mut sink);
    String::from_utf8(sink.finish().expect("a vector takes everything")).expect("JSON is UTF-8")
}

/// Compares the output, and parses every line.
#[track_caller]
fn check(steps: impl FnOnce(&mut JsonLines<Vec<u8>>), expected: Expect) -> Vec<Value> {
    let text = written(steps);
    expected.assert_eq(&text);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[track_caller]
fn check_calls(comm: &[u8], calls: &[SyscallOperation], expected: Expect) -> Vec<Value> {
    check(
        |sink| {
            pass(sink, &Step::ThreadSeen(&fixtures::thread(comm)));
            fixtures::pass_calls(sink, calls);
        },
        expected,
    )
}

#[test]
fn calls_on_one_file() {
    let passwd = file(b"/etc/passwd", PathSource::Link);
    let mut read = call("pread64", &[3, 0x7fff_0000, 4096, 1 << 40], 4096, Some(3), Some(&passwd));
    (read.offset, read.bytes_requested) = (Some(1 << 40), Some(4096));
    let mut early = call("close", &[3], 0, Some(3), Some(&passwd));
    early.start = at(-7);
    let open = call("openat", &[CWD, 0x7fff_0000, 0], 3, Some(3), Some(&passwd));
    check_calls(
        b"tar",
        &[open, read, early],
        expect![[r#"
        {"kind":"syscall","name":"openat","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/etc/passwd","path_source":"fd-link","offset":null,"bytes_requested":null,"result":3,"errno":null,"dirfd":"AT_FDCWD"}
        {"kind":"syscall","name":"pread64","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/etc/passwd","path_source":"fd-link","offset":1099511627776,"bytes_requested":4096,"result":4096,"errno":null}
        {"kind":"syscall","name":"close","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":-7,"duration_ns":136006,"fd":3,"path":"/etc/passwd","path_source":"fd-link","offset":null,"bytes_requested":null,"result":0,"errno":null}
    "#]],
    );
}

#[test]
fn calls_that_fail() {
    let odd = call("fsync", &[u64::MAX], -999, Some(-1), None);
    check_calls(
        b"tar",
        &[
            fixtures::failed_open(b"/nix", PathSource::Argument),
            fixtures::failed_open(b"/n\xfc\\\x1b", PathSource::Unverified),
            odd,
        ],
        expect![[r#"
            {"kind":"syscall","name":"openat","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":null,"path":"/nix","path_source":"argument","offset":null,"bytes_requested":null,"result":-2,"errno":"ENOENT","file_flags":"O_WRONLY|O_CREAT|O_TRUNC","dirfd":"AT_FDCWD"}
            {"kind":"syscall","name":"openat","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":null,"path":"/n\\xfc\\\\\u001b","path_bytes":"2f6efc5c1b","path_source":"unverified","offset":null,"bytes_requested":null,"result":-2,"errno":"ENOENT","file_flags":"O_WRONLY|O_CREAT|O_TRUNC","dirfd":"AT_FDCWD"}
            {"kind":"syscall","name":"fsync","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":-1,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":-999,"errno":"E999"}
        "#]],
    );
}

/// Fails if requests are members of a call: they have lines of their own.
#[test]
fn layers_inside_a_call() {
    check_calls(
        b"tar",
        &[fixtures::with_spans()],
        expect![[r#"
        {"kind":"syscall","name":"fsync","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":0,"errno":null,"inside":[{"layer":"fs","what":"ext4_sync_file","start_ns":123500,"duration_ns":11500}]}
    "#]],
    );
}

#[test]
fn calls_on_two_files() {
    let (from, to) = (file(b"/from", PathSource::Snapshot), file(b"/\xff", PathSource::Unverified));
    let mut splice = call("splice", &[3, 0, 4, 0, 65536, 0], 512, Some(3), Some(&from));
    splice.target = Some((Fd(4), to));
    splice.bytes_requested = Some(65536);
    let unknown = call("sendfile64", &[9, 3, 0, 10], 10, Some(3), Some(&from));
    let mut dup = call("dup2", &[3, 10], 10, Some(3), Some(&from));
    dup.target = Some((Fd(10), Arc::clone(&from)));
    let same = call("dup2", &[3, 3], 3, Some(3), Some(&from));
    let failed = call("dup3", &[3, 11, 0], -9, Some(3), Some(&from));
    let mut control = call("fcntl", &[3, 1030, 5], 5, Some(3), Some(&from));
    control.target = Some((Fd(5), Arc::clone(&from)));
    check_calls(
        b"tar",
        &[splice, unknown, dup, same, failed, control],
        expect![[r#"
            {"kind":"syscall","name":"splice","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/from","path_source":"snapshot","offset":null,"bytes_requested":65536,"result":512,"errno":null,"fd2":4,"path2":"/\\xff","path2_bytes":"2fff","path2_source":"unverified","offset2":null}
            {"kind":"syscall","name":"sendfile64","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/from","path_source":"snapshot","offset":null,"bytes_requested":null,"result":10,"errno":null,"fd2":9,"path2":null,"path2_source":null,"offset2":null}
            {"kind":"syscall","name":"dup2","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/from","path_source":"snapshot","offset":null,"bytes_requested":null,"result":10,"errno":null,"fd2":10,"path2":"/from","path2_source":"snapshot"}
            {"kind":"syscall","name":"dup2","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/from","path_source":"snapshot","offset":null,"bytes_requested":null,"result":3,"errno":null,"fd2":3,"path2":"/from","path2_source":"snapshot"}
            {"kind":"syscall","name":"dup3","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/from","path_source":"snapshot","offset":null,"bytes_requested":null,"result":-9,"errno":"EBADF","fd2":11,"path2":null,"path2_source":null}
            {"kind":"syscall","name":"fcntl","pid":4711,"tid":4712,"comm":"tar","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":"/from","path_source":"snapshot","offset":null,"bytes_requested":null,"result":5,"errno":null,"fd2":5,"path2":"/from","path2_source":"snapshot"}
        "#]],
    );
}

#[test]
fn calls_without_an_end() {
    let passwd = file(b"/etc/passwd", PathSource::Link);
    let mut read = call("read", &[3, 0, 10], 0, Some(3), Some(&passwd));
    (read.end, read.ret) = (None, None);
    check(
        |sink| {
            for why in [Unfinished::CaptureEnd, Unfinished::ThreadEnd, Unfinished::ExitLost] {
                pass(sink, &Step::SyscallUnfinished(&read, why));
            }
        },
        expect![[r#"
            {"kind":"syscall","name":"read","pid":4711,"tid":4712,"comm":null,"cpu":1,"start_ns":123456,"duration_ns":null,"fd":3,"path":"/etc/passwd","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"unfinished":"capture-end"}
            {"kind":"syscall","name":"read","pid":4711,"tid":4712,"comm":null,"cpu":1,"start_ns":123456,"duration_ns":null,"fd":3,"path":"/etc/passwd","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"unfinished":"thread-end"}
            {"kind":"syscall","name":"read","pid":4711,"tid":4712,"comm":null,"cpu":1,"start_ns":123456,"duration_ns":null,"fd":3,"path":"/etc/passwd","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"unfinished":"exit-lost"}
        "#]],
    );
}

#[test]
fn names_of_threads_come_and_go() {
    let sync = call("fsync", &[3], 0, Some(3), None);
    check(
        |sink| {
            for comm in [&b"fio"[..], b"a\"b\\\n", b"\xe4\\"] {
                pass(sink, &Step::ThreadRenamed(&fixtures::thread(comm)));
                pass(sink, &Step::SyscallEnded(&sync, &[]));
            }
            pass(sink, &Step::ThreadEnded(&fixtures::thread(b"")));
            pass(sink, &Step::SyscallEnded(&sync, &[]));
        },
        expect![[r#"
            {"kind":"syscall","name":"fsync","pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":0,"errno":null}
            {"kind":"syscall","name":"fsync","pid":4711,"tid":4712,"comm":"a\"b\\\u000a","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":0,"errno":null}
            {"kind":"syscall","name":"fsync","pid":4711,"tid":4712,"comm":"\\xe4\\\\","comm_bytes":"e45c","cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":0,"errno":null}
            {"kind":"syscall","name":"fsync","pid":4711,"tid":4712,"comm":null,"cpu":1,"start_ns":123456,"duration_ns":12543,"fd":3,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":0,"errno":null}
        "#]],
    );
}

#[test]
fn asynchronous_operations() {
    check(
        |sink| {
            pass(sink, &Step::ThreadSeen(&fixtures::thread(b"fio")));
            for operation in fixtures::asynchronous_ones() {
                pass(sink, &Step::AsyncEnded(&operation, &[]));
            }
            let open = fixtures::asynchronous(&file(b"/data/a", PathSource::Link));
            let open = AsyncOperation { end: None, result: None, results: 0, ..open };
            for why in
                [NoResult::CaptureEnd, NoResult::ProcessEnd, NoResult::Skipped, NoResult::Unseen]
            {
                pass(sink, &Step::AsyncUnfinished(&open, why));
            }
        },
        expect![[r#"
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":3,"path":"/data/a\\xff","path_bytes":"2f646174612f61ff","path_source":"fd-link","offset":null,"bytes_requested":null,"result":4096,"errno":null,"bytes":4096,"results":1,"unread":["offset","bytes_requested"]}
            {"kind":"async","interface":"aio","name":"PWRITE","opcode":1,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":3,"path":"/data/a\\xff","path_bytes":"2f646174612f61ff","path_source":"fd-link","offset":8192,"bytes_requested":4096,"result":4096,"errno":null,"bytes":4096,"results":1}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":null,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":4096,"errno":null,"bytes":4096,"results":1,"unread":["path","offset","bytes_requested"],"file":"registered","done_by":"worker"}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":3,"path":"/data/a\\xff","path_bytes":"2f646174612f61ff","path_source":"fd-link","offset":null,"bytes_requested":null,"result":-9,"errno":"EBADF","bytes":0,"results":1,"unread":["offset","bytes_requested"]}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":3,"path":"/data/a\\xff","path_bytes":"2f646174612f61ff","path_source":"fd-link","offset":null,"bytes_requested":null,"result":0,"errno":null,"bytes":150,"results":3,"unread":["offset","bytes_requested"]}
            {"kind":"async","interface":"io_uring","name":null,"opcode":999,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":null,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":4096,"errno":null,"bytes":null,"results":1}
            {"kind":"async","interface":"io_uring","name":"SPLICE","opcode":30,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":80000,"user_data":18446744073709551615,"fd":3,"path":"/data/a\\xff","path_bytes":"2f646174612f61ff","path_source":"fd-link","offset":null,"bytes_requested":null,"result":4096,"errno":null,"bytes":4096,"results":1,"fd2":9,"path2":"/data/b\\xff","path2_bytes":"2f646174612f62ff","path2_source":"fd-link","unread":["offset","bytes_requested"]}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":null,"user_data":18446744073709551615,"fd":3,"path":"/data/a","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"bytes":null,"results":0,"unread":["offset","bytes_requested"],"unfinished":"capture-end"}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":null,"user_data":18446744073709551615,"fd":3,"path":"/data/a","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"bytes":null,"results":0,"unread":["offset","bytes_requested"],"unfinished":"process-end"}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":null,"user_data":18446744073709551615,"fd":3,"path":"/data/a","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"bytes":null,"results":0,"unread":["offset","bytes_requested"],"unfinished":"result-skipped"}
            {"kind":"async","interface":"io_uring","name":"READ","opcode":22,"pid":4711,"tid":4712,"comm":"fio","cpu":1,"start_ns":210000,"duration_ns":null,"user_data":18446744073709551615,"fd":3,"path":"/data/a","path_source":"fd-link","offset":null,"bytes_requested":null,"result":null,"errno":null,"bytes":null,"results":0,"unread":["offset","bytes_requested"],"unfinished":"result-unseen"}
        "#]],
    );
}

#[test]
fn block_requests() {
    let lines = check(
        |sink| {
            for request in fixtures::requests() {
                fixtures::pass_request(sink, &request, Some(&fixtures::thread(b"fio")), &[]);
            }
            fixtures::pass_request(sink, &fixtures::request(), None, &fixtures::pieces());
        },
        expect![[r#"
            {"kind":"block","disk":"loop0","dev":"7:0","op":"write","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":301000,"issued_ns":303000,"completed_ns":383000,"pid":12,"comm":"fio","error":null,"tid":13,"rwbs":"WS","merges":2,"requeues":1,"ending":"completed","flush":"none","diskstats":"write","bytes_done":4096,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":"loop0","dev":"7:0","op":"read","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":null,"issued_ns":303000,"completed_ns":383000,"pid":12,"comm":"fio","error":"EIO","tid":13,"rwbs":"RA","merges":2,"requeues":1,"ending":"completed","flush":"none","diskstats":"read","bytes_done":4096,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":"loop0","dev":"7:0","op":"write","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":301000,"issued_ns":null,"completed_ns":null,"pid":12,"comm":"fio","error":null,"tid":13,"rwbs":"WS","merges":2,"requeues":1,"ending":"absorbed","flush":"none","diskstats":null,"bytes_done":0,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":"loop0","dev":"7:0","op":"write","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":301000,"issued_ns":303000,"completed_ns":null,"pid":12,"comm":"fio","error":null,"tid":13,"rwbs":"WS","merges":2,"requeues":1,"ending":"unfinished","flush":"none","diskstats":null,"bytes_done":0,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":"loop0","dev":"7:0","op":"write","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":301000,"issued_ns":303000,"completed_ns":null,"pid":12,"comm":"fio","error":null,"tid":13,"rwbs":"WS","merges":2,"requeues":1,"ending":"unfinished","flush":"none","diskstats":null,"bytes_done":0,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":"odd disk\u001b","dev":"8:16","op":"flush","sector":18446744073709551615,"bytes":0,"queued_ns":null,"inserted_ns":null,"issued_ns":-500,"completed_ns":383000,"pid":null,"comm":"fio","error":null,"tid":null,"rwbs":"FF","merges":2,"requeues":1,"ending":"completed","flush":"device","diskstats":"flush","bytes_done":0,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":null,"dev":"259:3","op":"discard","sector":18446744073709551614,"bytes":2199023255040,"queued_ns":300000,"inserted_ns":301000,"issued_ns":303000,"completed_ns":383000,"pid":12,"comm":"fio","error":null,"tid":13,"rwbs":"D","merges":2,"requeues":1,"ending":"completed","flush":"none","diskstats":"discard","bytes_done":4096,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[]}
            {"kind":"block","disk":"loop0","dev":"7:0","op":"write","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":301000,"issued_ns":303000,"completed_ns":383000,"pid":12,"comm":null,"error":null,"tid":13,"rwbs":"WS","merges":2,"requeues":1,"ending":"completed","flush":"none","diskstats":"write","bytes_done":4096,"bio_queued_ns":null,"request":0,"preflush":false,"serves":null,"serves_waiting":null,"pieces":[{"behind":"file","link":"exact","program":"exact","sector":2048,"bytes":4096,"bio_queued_ns":290000,"pid":12,"tid":12,"path":"/mnt/a file;\u001b\\xff","path_bytes":"2f6d6e742f612066696c653b1bff","path_source":"fd-link","fs_dev":"259:1","ino":12,"offset":4096,"levels":[{"dev":"259:1","disk":null,"sector":0}],"above":[],"writers":[]},{"behind":"file","link":"inferred","program":"inferred","sector":2056,"bytes":4096,"bio_queued_ns":290000,"pid":9,"tid":9,"path":null,"path_source":null,"fs_dev":"259:1","ino":12,"offset":null,"levels":[{"dev":"259:1","disk":null,"sector":8}],"above":[],"writers":[{"pid":12,"comm":"dd\\xfe","comm_bytes":"6464fe"},{"pid":13,"comm":"dd\\xfe","comm_bytes":"6464fe"}]},{"behind":"journal","link":"exact","program":null,"sector":2064,"bytes":4096,"bio_queued_ns":290000,"pid":9,"tid":9,"levels":[{"dev":"259:1","disk":null,"sector":16}],"above":[{"dev":"7:0","disk":"loop0","sector":8,"behind":"file","path":"/mnt/a file;\u001b\\xff","path_bytes":"2f6d6e742f612066696c653b1bff","path_source":"fd-link","fs_dev":"259:1","ino":12,"offset":4096}],"writers":[]},{"behind":"file","link":"inferred","program":"exact","sector":2072,"bytes":4096,"bio_queued_ns":290000,"pid":12,"tid":12,"path":null,"path_source":null,"device":"8:0","offset":1060864,"levels":[{"dev":"259:1","disk":null,"sector":24}],"above":[],"writers":[]}]}
        "#]],
    );
    let sectors: Vec<u64> = lines.iter().filter_map(|line| line.get("sector")?.as_u64()).collect();
    assert_eq!(sectors, [2048, 2048, 2048, 2048, 2048, u64::MAX, u64::MAX - 1, 2048]);
}

#[test]
fn anomalies() {
    let lines = check(
        |sink| {
            pass(sink, &Step::Anomaly(&fixtures::lost()));
        },
        expect![[r#"
            {"kind":"anomaly","what":"lost","time_ns":400000,"cpu":1,"pid":-1,"tid":4712,"count":17,"detail":"the ring \"was\" full\u000a\u001b[31m"}
        "#]],
    );
    assert_eq!(lines[0]["detail"], fixtures::lost().detail.as_str());
}

#[test]
fn every_key_is_documented() {
    let document = include_str!("../../../docs/json/script.md");
    let strange = fixtures::elsewhere(b"\xff");
    let mut all = call("openat", &[CWD, 0, 0], 3, Some(3), Some(&strange));
    all.target = Some((Fd(4), Arc::clone(&strange)));
    let mut renamed = call("renameat2", &[CWD, 1, CWD, 2, 0], 0, None, None);
    renamed.named = Some(Box::new(fixtures::renamed(b"\xff")));
    let text = written(|sink| {
        pass(sink, &Step::ThreadSeen(&fixtures::thread(b"\xff")));
        pass(sink, &Step::SyscallUnfinished(&all, Unfinished::ThreadEnd));
        pass(
            sink,
            &Step::SyscallEnded(&call("copy_file_range", &[3, 0, 4, 0, 1], 1, Some(3), None), &[]),
        );
        pass(sink, &Step::SyscallEnded(&renamed, &[]));
        pass(sink, &Step::SyscallEnded(&call("openat", &[CWD, 0, 0], -2, None, None), &[]));
        pass(sink, &Step::SyscallEnded(&fixtures::with_spans(), &[]));
        for operation in fixtures::asynchronous_ones() {
            pass(sink, &Step::AsyncEnded(&operation, &[]));
        }
        pass(sink, &Step::AsyncEnded(&fixtures::asynchronous_elsewhere(), &[]));
        let open = fixtures::asynchronous(&strange);
        pass(sink, &Step::AsyncUnfinished(&open, NoResult::Unseen));
        pass(sink, &Step::SyscallEnded(&call("readv", &[3, 80, 2], 1, Some(3), None), &[]));
        fixtures::pass_request(
            sink,
            &fixtures::request(),
            Some(&fixtures::thread(b"\xff")),
            &fixtures::pieces(),
        );
        pass(sink, &Step::Fault(&fixtures::fault(&strange)));
        pass(sink, &Step::Anomaly(&fixtures::lost()));
    });
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect(line);
        let kind = line["kind"].as_str().expect("a word").to_owned();
        collect_keys(&line, keys.entry(kind).or_default());
    }
    assert_eq!(keys.len(), 5);
    for (kind, written) in keys {
        let section = document
            .split("\n## ")
            .find(|part| part.starts_with(&format!("`\"kind\":\"{kind}\"`")));
        let documented: BTreeSet<String> = section
            .expect(&kind)
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(key, _)| key.to_owned())
            .collect();
        assert_eq!(documented, written);
    }
}

/// Collects the keys of the object, and of the objects in its lists.
fn collect_keys(value: &Value, keys: &mut BTreeSet<String>) {
    if let Some(object) = value.as_object() {
        keys.extend(object.keys().cloned());
        object.values().for_each(|value| collect_keys(value, keys));
    }
    value.as_array().into_iter().flatten().for_each(|array| collect_keys(array, keys));
}

/// Original bytes of a value with two keys.
fn bytes_of(line: &Value, key: &str) -> Vec<u8> {
    match line.get(format!("{key}_bytes")) {
        None => line[key].as_str().expect("text").as_bytes().to_vec(),
        Some(hex) => {
            let digits = hex.as_str().expect("hexadecimal digits").as_bytes();
            let pairs = digits.chunks(2).map(|chunk| std::str::from_utf8(chunk).expect("ASCII"));
            pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
        }
    }
}

proptest! {
    #[test]
    fn numbers_and_names_survive(
        path in prop::collection::vec(any::<u8>(), 0..30),
        comm in prop::collection::vec(any::<u8>(), 0..16),
        offset: u64,
        requested: u64,
        ret: i64,
        sector: u64,
        length: u32,
    ) {
        let mut read = call("pread64", &[3], ret, Some(3), Some(&file(&path, PathSource::Link)));
        (read.offset, read.bytes_requested) = (Some(offset), Some(requested));
        let request = BlockRequest { sector, nr_sector: length, ..fixtures::request() };
        let text = written(|sink| {
            pass(sink, &Step::ThreadSeen(&fixtures::thread(&comm)));
            fixtures::pass_calls(sink, &[read]);
            fixtures::pass_request(sink, &request, Some(&fixtures::thread(&comm)), &[]);
        });
        prop_assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        prop_assert_eq!(lines.len(), 2);
        let (call, block) = (&lines[0], &lines[1]);
        prop_assert_eq!(bytes_of(call, "path"), path);
        prop_assert_eq!(bytes_of(call, "comm"), &comm[..]);
        prop_assert_eq!(bytes_of(block, "comm"), comm);
        prop_assert_eq!(call["offset"].as_u64(), Some(offset));
        prop_assert_eq!(call["bytes_requested"].as_u64(), Some(requested));
        prop_assert_eq!(call["result"].as_i64(), Some(ret));
        prop_assert_eq!(block["sector"].as_u64(), Some(sector));
        prop_assert_eq!(block["bytes"].as_u64(), Some(u64::from(length) * 512));
    }
}
