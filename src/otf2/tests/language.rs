//! Line language of the tests: one event per line, `TIME PID/TID EVENT`, with the names of
//! `strace`:
//!
//! ```text
//!   10 7/7 enter read 3 0 4096              the call and its registers
//!   20 7/7 exit read 100                    the call and its result
//!   20 7/7 exit openat 3 link /data/a       and how the name of an open was found: `link`,
//!                                           `late` (a link that was read too late),
//!                                           `argument`, `second`; `dir` for a directory
//!   root 7 /                                root of absolute paths of process 7
//!   30 7/7 fork 8/8      31 8/8 comm cat exec      32 8/8 death
//!   40 7/7 block getrq 7:0 W 2048 +8        41 0/0 block complete 7:0 W 2048 +8 error -5
//! ```
//!
//! A text of such lines becomes an archive, whose contents `otf2-print` prints.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{EndFacts, OtfError, OtfOptions, OtfSink, OtfSummary};
use crate::capture::fact::Text;
use crate::capture::header::{Clock, Disk, Header, Host};
use crate::event::block::{BlockEvent, BlockPoint, Rwbs};
use crate::event::syscall_table::CallId;
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, FileStat, Name, ReadNames, SeenFd, SysEnter, SysExit};
use crate::operation::block::BlockOptions;
use crate::operation::context::Observability;
use crate::operation::process::Scope;
use crate::operation::tracker::Tracker;
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

/// Header of every archive of the tests: the capture began at 5.
pub(super) fn header() -> Header {
    Header {
        host: Host { hostname: "host".into(), kernel_release: "6.1".into(), ..Host::default() },
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            start_ns: 5,
            all_on_ns: 5,
            start_realtime_ns: 1_000_000,
        },
        disks: vec![disk()],
        ..Header::default()
    }
}

fn disk() -> Disk {
    let attributes = [("size", "2048"), ("queue/rotational", "0"), ("device/model", "Odd\u{1b}")];
    let text = |text: &str| text.to_owned();
    Disk {
        dev: text("7:0"),
        name: text("loop0"),
        scheduler: text("none"),
        attributes: attributes.map(|(name, value)| (text(name), text(value))).into(),
        ..Disk::default()
    }
}

/// Archive in a directory of its own.
pub(super) struct TestArchive {
    pub(super) directory: tempfile::TempDir,
    pub(super) summary: OtfSummary,
}

/// Writes the archive of these events.
pub(super) fn make(text: &str, options: OtfOptions, mounts: &str) -> Result<TestArchive, OtfError> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut sink = OtfSink::create(directory.path(), "traces", &header(), options)?;
    sink.set_mounts(mounts.as_bytes());
    let scope = Scope {
        system: true,
        all_requests: true,
        roots: Vec::new(),
        launched: false,
        own: Pid(1),
        children: true,
        excluded: Vec::new(),
    };
    let mut tracker =
        Tracker::new(scope, BlockOptions::default(), Observability::ALL, KernelTime(5));
    let mut last = 5;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(seen) = line.strip_prefix("snapshot ") {
            tracker.seen_fd(&snapshot(seen), KernelTime(5));
            continue;
        }
        if let Some((pid, root)) = line.strip_prefix("root ").and_then(|rest| rest.split_once(' '))
        {
            tracker.seen_place(Pid(pid.parse().expect("a pid")), Text::ROOT, root.as_bytes());
            continue;
        }
        let event = parse(line);
        last = event.time.0;
        tracker.push(event, &mut sink)?;
    }
    tracker.finish(KernelTime(last + 5), &mut sink)?;
    let properties = vec![("LOST".to_owned(), "3 records".to_owned())];
    let summary =
        sink.finish(&EndFacts { end_time: KernelTime(last + 5), properties, disks: vec![disk()] })?;
    Ok(TestArchive { directory, summary })
}

/// Parses `7 0 pipe:[9]`: process, descriptor, link.
fn snapshot(text: &str) -> SeenFd {
    let mut words = text.split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
    let (pid, fd) = (Pid(number()), Fd(number()));
    let link = words.next().expect("a link").as_bytes().to_vec();
    let flags = libc::O_WRONLY.cast_unsigned();
    SeenFd {
        begin: KernelTime(5),
        pid,
        fd,
        flags,
        position: Some(0),
        shared: false,
        stat: None,
        link,
    }
}

fn parse(line: &str) -> Event {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [time, task, what, rest @ ..] = words.as_slice() else { panic!("{line}") };
    let (pid, tid) = task_of(task);
    let kind = match *what {
        "enter" => enter(rest),
        "exit" => exit(rest),
        "block" => block(rest),
        "fork" => {
            let (child, thread) = task_of(rest[0]);
            EventKind::Task(TaskEvent::Fork { pid: child, tid: thread, ppid: pid, ptid: tid })
        }
        "comm" => {
            let (comm, exec) = (rest[0].as_bytes().to_vec(), rest.get(1) == Some(&"exec"));
            EventKind::Task(TaskEvent::Comm { pid, tid, comm, exec })
        }
        "death" => EventKind::Task(TaskEvent::Exit { pid, tid }),
        "lost" => EventKind::Lost(number(rest[0]).unsigned_abs()),
        other => panic!("{other}: {line}"),
    };
    Event { time: KernelTime(number(time).unsigned_abs()), cpu: CpuId(0), pid, tid, kind }
}

fn task_of(word: &str) -> (Pid, Tid) {
    let (pid, tid) = word.split_once('/').expect("PID/TID");
    (Pid(pid.parse().expect("a pid")), Tid(tid.parse().expect("a tid")))
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is not a number"))
}

fn enter(rest: &[&str]) -> EventKind {
    let mut args = [0; 6];
    for (to, from) in args.iter_mut().zip(&rest[1..]) {
        *to = number(from).cast_unsigned();
    }
    EventKind::SysEnter(SysEnter { call: CallId::by_name(rest[0]).expect(rest[0]), args })
}

fn exit(rest: &[&str]) -> EventKind {
    let mut names = ReadNames::default();
    let mut words = rest[2..].iter();
    while let Some(&word) = words.next() {
        let mut name = |verified| {
            let bytes = words.next().expect("a name").replace("\\xff", "\u{1}");
            // A byte that is not UTF-8, from a text.
            let bytes = bytes.bytes().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
            Some(Name { bytes, verified })
        };
        match word {
            "link" => names.link = name(true),
            "late" => names.link = name(false),
            "argument" => names.argument = name(true),
            "second" => names.second = name(true),
            "dir" => {
                names.stat = Some(FileStat { mode: libc::S_IFDIR, dev: DevId(0), ino: 1, size: 0 })
            }
            "file" => {
                names.stat = Some(FileStat { mode: libc::S_IFREG, dev: DevId(0), ino: 1, size: 0 })
            }
            other => panic!("{other}"),
        }
    }
    let names = (rest.len() > 2).then(|| Box::new(names));
    EventKind::SysExit(SysExit {
        call: CallId::by_name(rest[0]).expect(rest[0]),
        ret: number(rest[1]),
        names,
        chain: None,
    })
}

fn block(rest: &[&str]) -> EventKind {
    let point = match rest[0] {
        "getrq" => BlockPoint::GetRq,
        "insert" => BlockPoint::Insert,
        "issue" => BlockPoint::Issue,
        "complete" => BlockPoint::Complete,
        "requeue" => BlockPoint::Requeue,
        "rq_merge" => BlockPoint::RqMerge,
        "queue" => BlockPoint::BioQueue,
        other => panic!("{other}"),
    };
    let (major, minor) = rest[1].split_once(':').expect("a device");
    let dev = DevId::new(major.parse().expect("a major"), minor.parse().expect("a minor"));
    let rwbs = Rwbs::new(rest[2].as_bytes());
    let sector = number(rest[3]).cast_unsigned();
    let nr_sector = rest[4].trim_start_matches('+').parse().expect("a length");
    let error = rest.get(6).map_or(0, |rest| rest.parse().expect("an error"));
    EventKind::Block(BlockEvent {
        point,
        dev,
        sector,
        nr_sector,
        error,
        rwbs,
        from: None,
        comm: None,
        chain: None,
    })
}

/// Path of the program; `None` if it is not installed, which only a continuous integration treats
/// as an error.
pub(super) fn otf2_print() -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join("otf2-print"))
        .find(|directory| directory.exists());
    let is_ci = std::env::var("CI").is_ok_and(|var| var == "true");
    assert!(found.is_some() || !is_ci, "otf2-print is missing; install otf2-tools");
    found
}

/// Output of the program without messages, with repeated blanks in its tables removed.
pub(super) fn printed(program: &Path, made: &TestArchive, arguments: &[&str]) -> String {
    let anchor = made.directory.path().join("traces.otf2");
    let run = |arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).arg(&anchor).output().expect("otf2-print runs");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && complaint.is_empty(),
            "otf2-print {arguments:?}: {complaint}"
        );
        String::from_utf8(output.stdout).expect("UTF-8 only")
    };
    run(&["--silent", "-Werror"]);
    let mut out = String::new();
    for line in run(arguments).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Headlines and rules belong to the program's format.
        let is_table = !words.is_empty() && !line.starts_with("===") && !line.starts_with("---");
        if is_table && words.first() != Some(&"Event") {
            let line = words
                .join(" ")
                .replace("ADDITIONAL ATTRIBUTES:", "   ")
                .replace(&u64::MAX.to_string(), "UNDEFINED");
            writeln!(out, "{line}").expect("a string takes it");
        }
    }
    out
}
