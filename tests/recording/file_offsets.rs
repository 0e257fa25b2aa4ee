//! File, offset, bytes and result of every read and write, against the program's own output
//! that it did.

use std::collections::BTreeMap;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::recording::{can_record, compile, names_in_time, record};
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

/// Arguments in memory, by call: unknown unless `--args exact` reads them.
const UNREAD: [(&str, &str); 11] = [
    ("writev", "bytes_requested"),
    ("pwritev", "bytes_requested"),
    ("pwritev2", "bytes_requested"),
    ("readv", "bytes_requested"),
    ("preadv", "bytes_requested"),
    ("preadv2", "bytes_requested"),
    ("sendfile64", "offset"),
    ("copy_file_range", "offset"),
    ("copy_file_range", "offset2"),
    ("splice", "offset"),
    ("splice", "offset2"),
];

/// Largest number of runs until one reads everything in time.
const RUNS_MAX: u32 = 8;

/// Directories in which the loader reads; the program also asks for its position there.
const BESIDES: [&str; 4] = ["/proc/", "/etc/", "/lib", "/usr/"];

/// One line of the program's.
#[derive(Debug)]
struct PrintedCall<'a> {
    call: &'a str,
    fd: Option<u64>,
    path: Option<String>,
    offset: Option<u64>,
    bytes: Option<u64>,
    result: i64,
    fd2: Option<u64>,
    offset2: Option<u64>,
}

/// By process, in order.
fn said(text: &str) -> BTreeMap<i32, Vec<PrintedCall<'_>>> {
    let mut by_process: BTreeMap<i32, Vec<PrintedCall<'_>>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[pid, call, fd, path, offset, bytes, result, fd2, offset2] = words.as_slice() else {
            panic!("{line}")
        };
        let number = |word: &str| word.parse().ok();
        let said = PrintedCall {
            call,
            fd: number(fd),
            path: Some(path.replace('|', " ")).filter(|it| it != "-"),
            offset: number(offset),
            bytes: number(bytes),
            result: result.parse().expect(line),
            fd2: number(fd2),
            offset2: number(offset2),
        };
        by_process.entry(pid.parse().expect(line)).or_default().push(said);
    }
    by_process
}

/// Fails if a call is missing, or if anything that is reported of it differs; or if something is
/// not reported that is in no table here.
#[test]
fn every_call_worked_where_the_program_says() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    for arguments in ["registers", "exact"] {
        let is_exact = arguments == "exact";
        let runs = (0..RUNS_MAX).map(|_| recorded(arguments));
        let in_time =
            |it: &(String, Vec<JsonOperation>)| it.1.iter().all(|it| !is_late(it, is_exact));
        let Some((text, mut operations)) = runs.into_iter().find(in_time) else {
            panic!("{arguments}: something was read too late in every run")
        };
        for (pid, said) in said(&text) {
            let ours: Vec<JsonOperation> = operations.extract_if(.., |it| it.pid == pid).collect();
            let mut ours = ours.iter();
            for said in said {
                // Calls that the program does not print: on the log, and on positions.
                let is_it = |it: &&JsonOperation| {
                    it.name == said.call
                        && it.result == Some(said.result)
                        && it.fd.map(i64::from) == said.fd.map(u64::cast_signed)
                        && it
                            .path
                            .as_deref()
                            .is_none_or(|it| !BESIDES.iter().any(|dir| it.starts_with(dir)))
                };
                let our = ours.find(is_it).unwrap_or_else(|| panic!("not there: {said:?}"));
                compare(&said, our, is_exact);
            }
        }
    }
}

/// Returns the program's output and the recorded operations.
fn recorded(arguments: &str) -> (String, Vec<JsonOperation>) {
    let dir = scratch_dir("positions");
    let program = compile("positions.c", dir.path());
    let place = dir.path().join("place");
    std::fs::create_dir(&place).expect("make it");
    let place = place.to_str().expect("text");
    // The program makes its calls through syscall(3), in which `auto` may have no probe.
    let options = ["--args", arguments, "--names", names_in_time()];
    let (finished, recording) = record(&dir.path().join("trace"), &options, &[&program, place]);
    let text = finished.success().stdout();
    recording.assert_whole();
    (text, recording.operations())
}

/// On a busy machine a reader may come too late, which is reported: a name that is not sure, memory
/// that was to be read and was not.
fn is_late(our: &JsonOperation, is_exact: bool) -> bool {
    let is_named = matches!(our.name.as_str(), "rename" | "unlink");
    let is_doubtful = our.path_source.as_deref() == Some("unverified");
    is_doubtful || is_named && our.path.is_none() || is_exact && !our.unread.is_empty()
}

#[track_caller]
fn compare(said: &PrintedCall<'_>, our: &JsonOperation, is_exact: bool) {
    // An open that succeeded is of the file that it made.
    if said.path.is_some() {
        // The two descriptors of a pipe are in memory.
        let is_pipe = said.path.as_deref().is_some_and(|it| it.starts_with("pipe:"));
        assert!(is_pipe || our.path == said.path, "{said:?} {our:?}");
    }
    if let Some(fd2) = said.fd2 {
        assert_eq!(our.fd2.map(i64::from), Some(fd2.cast_signed()), "{said:?} {our:?}");
    }
    // An append goes to wherever the end is, which another process may have moved: it is not
    // reported.
    let is_appended = said.path.as_deref().is_some_and(|it| it.ends_with("/appended"));
    for (key, ours, theirs) in [
        ("offset", our.offset, said.offset),
        ("bytes_requested", our.bytes_requested, said.bytes),
        ("offset2", our.offset2, said.offset2),
    ] {
        let is_unread = our.unread.iter().any(|it| it == key);
        let may_be_unread = !is_exact && UNREAD.contains(&(said.call, key));
        let is_reported = ours == theirs && !is_unread;
        assert!(
            is_reported
                || ours.is_none() && (is_unread && may_be_unread || key == "offset" && is_appended),
            "{key}: {said:?} {our:?}"
        );
    }
}
