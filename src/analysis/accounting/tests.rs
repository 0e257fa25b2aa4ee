use super::*;
use crate::event::syscall_table::CallId;
use crate::operation::model::{ProcessKey, ThreadKey};
use crate::units::{CpuId, KernelTime, Pid, Tid};

fn call(name: &str, args: [u64; 6], ret: i64) -> SyscallOperation {
    SyscallOperation {
        call: CallId::by_name(name).expect(name),
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(1),
        tid: Tid(1),
        cpu: CpuId(0),
        start: KernelTime(0),
        end: Some(KernelTime(1)),
        args,
        ret: Some(ret),
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

/// Compares bytes, calls and doubtful calls of both sides.
#[track_caller]
fn check(name: &str, args: [u64; 6], ret: i64, read: [u64; 3], write: [u64; 3]) {
    let found = of(&call(name, args, ret));
    let numbers = |it: IoCounts| [it.bytes, it.calls, it.doubtful];
    assert_eq!([numbers(found.read), numbers(found.write)], [read, write], "{name} {args:?} {ret}");
}

const NONE: [u64; 3] = [0, 0, 0];
const ONE: [u64; 3] = [0, 1, 0];
const DOUBT: [u64; 3] = [0, 0, 1];
const BUFFER: u64 = 0x7ffd_0000_1000;

#[test]
fn plain_calls_count_after_their_checks() {
    let plain = [3, BUFFER, 8, 0, 0, 0];
    check("read", plain, 8, [8, 1, 0], NONE);
    check("write", plain, 8, NONE, [8, 1, 0]);
    check("read", plain, 0, ONE, NONE);
    check("read", plain, -9, NONE, NONE);
    check("write", plain, -32, NONE, ONE);
    check("read", plain, -512, ONE, NONE);
    check("read", plain, -22, DOUBT, NONE);
    check("read", [3, BUFFER, u64::MAX, 0, 0, 0], -22, NONE, NONE);
    check("read", plain, -14, ONE, NONE);
    check("read", [3, u64::MAX - 2, 8, 0, 0, 0], -14, NONE, NONE);
    check("read", [3, 1 << 62, 8, 0, 0, 0], -14, DOUBT, NONE);
    check("pread64", [3, BUFFER, 8, u64::MAX, 0, 0], -22, NONE, NONE);
    check("pwrite64", plain, -29, NONE, NONE);
}

#[test]
fn vectored_calls_count_despite_errors() {
    let vector = [u64::MAX, BUFFER, 1, 0, 0, 0];
    check("readv", vector, -9, ONE, NONE);
    check("writev", vector, -9, NONE, ONE);
    check("pwritev", vector, -29, NONE, ONE);
    check("preadv", [3, BUFFER, 1, u64::MAX, 0, 0], -22, NONE, NONE);
    check("preadv2", [3, BUFFER, 1, u64::MAX, 0, 0], -22, ONE, NONE);
    check("preadv2", [3, BUFFER, 1, u64::MAX - 1, 0, 0], -22, NONE, NONE);
}

#[test]
fn transfers_count_on_both_sides_and_pipes_on_none() {
    let copy = [3, 0, 4, 0, 8, 0];
    check("copy_file_range", copy, 8, [8, 1, 0], [8, 1, 0]);
    check("copy_file_range", copy, 0, NONE, NONE);
    check("copy_file_range", copy, -18, NONE, NONE);
    check("copy_file_range", copy, -28, ONE, ONE);
    check("copy_file_range", copy, -22, DOUBT, DOUBT);
    check("copy_file_range", [3, 0, 4, 0, 8, 1], -22, NONE, NONE);
    check("sendfile64", [4, 3, 0, 8, 0, 0], 0, ONE, ONE);
    check("sendfile64", [4, 3, 0, 8, 0, 0], -9, NONE, NONE);
    for name in ["splice", "tee", "vmsplice", "sendto", "recvfrom", "getdents64"] {
        check(name, copy, 8, NONE, NONE);
    }
}

#[test]
fn each_call_has_one_rule() {
    let mut names: Vec<&str> = RULES.iter().flat_map(|it| it.calls).copied().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let all = names.iter().all(|it| CallId::by_name(it).is_some());
    assert!(all, "{names:?}");
}
