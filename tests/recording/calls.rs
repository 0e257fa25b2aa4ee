//! Every row of the table of system calls, against strace in the same run: name, descriptors,
//! result, error, paths.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::recording::{Recording, can_record, compile, record};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::oracle::strace::Log;
use crate::support::oracle::strace::arguments::{Annotated, quoted, split_arguments};
use crate::support::oracle::strace::compare::compare_counted;
use crate::support::oracle::strace::names::kernel_name;
use crate::support::scratch_dir;
use iotrace_perf::event::syscall_table::{CALLS, Call, CallClass, Role};

/// Records `tests/programs/calls.c` under strace: ours and strace's log of the same run.
fn recorded_under_strace(dir: &Path, options: &[&str], strace: &[&str]) -> (Recording, Log) {
    let program = compile("calls.c", dir);
    let (place, log) = (dir.join("place"), dir.join("strace"));
    fs::create_dir(&place).expect("make it");
    let [place, log_text] = [&place, &log].map(|it| it.to_str().expect("text"));
    let first = ["strace", "-f", "-o", log_text];
    let under = [&first, strace, &[program.as_str(), place]].concat();
    let (finished, recording) = record(&dir.join("trace"), options, &under);
    finished.success();
    recording.assert_whole();
    (recording, Log::read(&log).expect("strace wrote a log"))
}

/// Fails if a call is missing, or differs from what strace saw of it in the same run.
#[test]
fn calls_match_strace() {
    if !can_record(&[Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("calls");
    // Strings may be longer than what strace shows by default.
    let (recording, log) =
        recorded_under_strace(dir.path(), &["-e", "%all"], &["-y", "-s", "4096"]);
    recording.assert_archive(&dir.path().join("archive"));
    let operations = recording.operations();
    let names: Vec<&str> = CALLS.iter().map(|it| it.name).filter(|it| is_compared(it)).collect();
    let found = compare_counted(&log, &operations, &names);
    assert_eq!(found.differences, Vec::<String>::new());
    // strace and the loader open some of them: 57 with strace 6.13 on Debian 13, more with 6.1.
    assert!(found.given > 50, "{} paths were compared", found.given);

    let made: BTreeSet<&str> = operations.iter().map(|it| it.name.as_str()).collect();
    let tracepoints = Path::new("/sys/kernel/tracing/events/syscalls");
    let is_there = |it: &&Call| tracepoints.join(format!("sys_enter_{}", it.name)).exists();
    let machine = std::env::consts::ARCH;
    let rows = CALLS.iter().filter(|it| it.number(machine).is_some()).filter(is_there);
    let missing: Vec<&str> = rows.map(|it| it.name).filter(|it| !made.contains(it)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "rows that nothing was recorded of");
}

/// A child begins inside the call that made it, so its exit has no entry; an exec may end another
/// thread.
fn is_compared(name: &str) -> bool {
    !matches!(name, "clone" | "clone3" | "fork" | "vfork" | "execve" | "execveat")
}

/// Fails if the data that pointers lead to is not what strace shows of the same call: lengths of
/// vectors, descriptors of pipes, flags of `openat2`.
#[test]
fn exact_arguments_match_strace() {
    if !can_record(&[Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let options = ["-e", "%default,vmsplice", "--args", "exact"];
    let runs = (0..RUNS_MAX).map(|_| {
        let dir = scratch_dir("calls");
        let (recording, log) = recorded_under_strace(dir.path(), &options, &[]);
        (recording.operations(), log)
    });
    // A reader that comes too late reports it; strace wakes the thread on any CPU.
    let is_late = |it: &JsonOperation| {
        let is_meant = VECTORS.iter().chain(&PAIRS).any(|name| *name == it.name);
        is_meant && it.unread.iter().any(|key| matches!(key.as_str(), "bytes_requested" | "fd"))
    };
    let mut in_time = runs.filter(|it| !it.0.iter().any(is_late));
    let (operations, log) = in_time.next().expect("a run in which all was read in time");
    let mut checked = BTreeSet::new();
    for name in VECTORS.into_iter().chain(PAIRS) {
        let theirs: Vec<_> = log.all().map(|it| it.1).filter(|it| it.name == name).collect();
        // Not strace's own.
        let ours = operations.iter().filter(|it| log.calls.contains_key(&it.tid));
        let ours: Vec<_> = ours.filter(|it| it.name == name).collect();
        assert_eq!(theirs.len(), ours.len(), "{name}");
        for (their, our) in theirs.into_iter().zip(ours) {
            if VECTORS.contains(&name) {
                let lengths = their.args_text.split("iov_len=").skip(1);
                let digits =
                    |it: &str| it.chars().take_while(char::is_ascii_digit).collect::<String>();
                let sum: u64 = lengths.map(|it| digits(it).parse::<u64>().expect("a length")).sum();
                assert_eq!(our.bytes_requested, Some(sum), "{their:?} {our:?}");
            } else {
                let pair =
                    their.args_text.split(['[', ']', ',', ' ']).filter_map(|it| it.parse().ok());
                let pair: Vec<i32> = pair.collect();
                assert_eq!(
                    our.fd.into_iter().chain(our.fd2).collect::<Vec<_>>(),
                    pair,
                    "{their:?} {our:?}"
                );
            }
            checked.insert(name);
        }
    }
    assert!(checked.len() >= VECTORS.len(), "{checked:?}");
}

/// Largest number of runs until one reads everything in time.
const RUNS_MAX: u32 = 20;

const VECTORS: [&str; 7] =
    ["readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2", "vmsplice"];
const PAIRS: [&str; 2] = ["pipe", "pipe2"];

/// Fails if a row takes for a descriptor or a path what strace does not, or the other way round:
/// strace knows the calls by itself, and shows with `-y` what each descriptor is.
#[test]
fn argument_roles_match_strace() {
    if !can_record(&[Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("calls");
    let program = compile("calls.c", dir.path());
    let (place, log) = (dir.path().join("place"), dir.path().join("strace"));
    fs::create_dir(&place).expect("make it");
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-y", "-o"]).arg(&log).arg(&program).arg(&place);
    crate::support::driver::process::run(&mut strace, crate::support::driver::recording::TIMEOUT)
        .expect("it ends")
        .success();
    let log = Log::read(&log).expect("strace wrote a log");
    let mut checked = 0;
    // strace does not know the arguments of calls that are newer than itself.
    for (_, made) in log.all().filter(|it| !it.1.name.starts_with("syscall_")) {
        let Some(row) = CALLS.iter().find(|it| it.name == kernel_name(&made.name)) else {
            continue;
        };
        let (arguments, _) = split_arguments(&made.args_text);
        for (argument, role) in arguments.iter().zip(row.args) {
            let is_fd = Annotated::parse(argument).path.is_some();
            let fd_role = matches!(role, Role::Fd | Role::Fd2 | Role::DirFd | Role::DirFd2);
            assert!(
                !is_fd || fd_role || is_known(row, argument),
                "{}: {argument} is {role:?}",
                row.name
            );
            let path_role = matches!(role, Role::Path | Role::Path2);
            assert!(
                !path_role || quoted(argument).is_some() || *argument == "NULL",
                "{}: {argument}",
                row.name
            );
            checked += usize::from(is_fd || path_role);
        }
    }
    assert!(checked > 150, "{checked}");
}

/// Descriptors that are no business of the row: of sockets that wait, of the groups that perf has.
fn is_known(row: &Call, argument: &str) -> bool {
    matches!(row.class, CallClass::Make(_) | CallClass::Process) || argument.starts_with('[')
}
