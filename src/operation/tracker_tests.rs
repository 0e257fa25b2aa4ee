//! Tests of the tracker's calls, in a small language: one event a line, and the steps that the sink
//! got.
//!
//! ```text
//! 100 1/1 > openat                 time, process/thread, entry and arguments
//! 101 1/1 < openat 3 /a            exit, result, the name that was read in time (and the second)
//! 5 cwd 1 /data                    working directory of process 1 in a snapshot
//! 5 mounts 1 mnt:[7]               its mount namespace; process 0 is the tracer
//! 110 off                          from then on events are switched off
//! 110 late                         a record that came too late
//! ```

use std::convert::Infallible;
use std::fmt::Write;

use expect_test::{Expect, expect};

use super::context::Observability;
use super::model::{MountNamespace, Unfinished};
use super::process::Scope;
use super::step::{Sink, Step};
use super::tracker::Tracker;
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::block::BlockOptions;
use crate::capture::fact::Text;
use crate::event::fault::{FaultEvent, FaultPlace};
use crate::event::syscall_table::CallId;
use crate::event::task::TaskEvent;
use crate::event::{
    Event, EventKind, FileStat, Name, ProbeObservation, ReadNames, SeenFd, StringFrom, SysEnter,
    SysExit,
};
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

#[derive(Default)]
struct StepText(String);

impl Sink for StepText {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Fault(it) = step {
            let path = it.file.path.as_ref();
            let path = path.map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
            let (path, access) = (path.unwrap_or_default(), it.access().unwrap_or("?"));
            let _ = writeln!(self.0, "{}: fault {path} at {} {access}", it.tid, it.offset);
        }
        if let Step::Anomaly(it) = step
            && matches!(it.kind, AnomalyKind::OrphanExit | AnomalyKind::Refused)
        {
            let _ = writeln!(self.0, "! {}: {}", it.kind.as_str(), it.detail);
        }
        if let Step::SyscallUnfinished(it, Unfinished::ExitLost) = step {
            let _ = writeln!(self.0, "{}: {} without its exit", it.tid, it.call.call().name);
        }
        if let Step::SyscallEnded(it, _) = step {
            let mounts =
                it.path().filter(|it| it.mounts != MountNamespace::OWN).map(|it| it.mounts);
            let path = it.path().map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
            let path = path.map(|it| it + &mounts.map_or(String::new(), |it| format!("@{}", it.0)));
            let source = it.path().map_or("", |it| it.source.as_str());
            let offset = it.offset.map_or("?".into(), |it| it.to_string());
            let fd = it.fd.map_or(-1, |it| it.0);
            let name = it.call.call().name;
            let _ = write!(
                self.0,
                "{}: {name} {fd} {} {source} at {offset} = {}",
                it.tid,
                path.unwrap_or_default(),
                it.ret.unwrap_or(0)
            );
            let given = it.named.iter().flat_map(|it| it.first.iter().chain(&it.second));
            for given in given {
                let _ = write!(self.0, " [{}]", String::from_utf8_lossy(given.whole()));
            }
            self.0.push('\n');
        }
        Ok(())
    }
}

const REGULAR: FileStat = FileStat { mode: libc::S_IFREG | 0o644, dev: DevId(1), ino: 2, size: 0 };

/// Returns the inode of a path: each path has its own; a path with the suffix `~` is another name
/// of the same file.
fn inode(path: &str) -> u64 {
    let bytes = path.trim_end_matches('~').bytes();
    bytes.fold(0, |sum, it| 31 * sum % 1_000_000_007 + u64::from(it))
}

fn kind(words: &[&str]) -> EventKind {
    let number = |index: usize| words.get(index).and_then(|it| it.parse::<i64>().ok()).unwrap_or(0);
    let task = |index: usize| {
        let (pid, tid) = words[index].split_once('/').expect("pid/tid");
        (Pid(pid.parse().expect("pid")), Tid(tid.parse().expect("tid")))
    };
    let call = || CallId::by_name(words[1]).expect("in the table");
    let exit = |ret, names| EventKind::SysExit(SysExit { call: call(), ret, names, chain: None });
    match words[0] {
        ">" => {
            let args = [2, 3, 4, 5, 6, 7].map(|it| number(it).cast_unsigned());
            EventKind::SysEnter(SysEnter { call: call(), args })
        }
        // Names from a probe, from the tracepoint of execs, or from the readers.
        "<k" | "<x" | "<" => {
            let name = |index: usize| {
                words.get(index).map(|it| Name { bytes: it.as_bytes().to_vec(), verified: true })
            };
            let (argument, second) = (name(3), name(4));
            let from = match words[0] {
                "<k" => StringFrom::Kernel,
                "<x" => StringFrom::Exec,
                _ => StringFrom::Memory,
            };
            let names = ReadNames {
                link: argument.clone().filter(|_| from == StringFrom::Memory),
                argument,
                second,
                from: [from; 2],
                stat: Some(FileStat { ino: words.get(3).map_or(0, |it| inode(it)), ..REGULAR }),
                ..ReadNames::default()
            };
            exit(number(2), Some(names.into()))
        }
        // Nothing was read, or too late.
        "<late" => exit(number(2), None),
        // The two descriptors that a call has put into memory.
        "<pair" => {
            let [address, first, second] = [2, 3, 4].map(number);
            let fds = [first, second].map(|it| i32::try_from(it).expect("a number").to_le_bytes());
            let name = Name { bytes: fds.concat(), verified: true };
            let memory = vec![(address.cast_unsigned(), name)];
            let names = Some(Box::new(ReadNames { memory, ..ReadNames::default() }));
            exit(0, names)
        }
        "fork" => {
            let ((ppid, ptid), (pid, tid)) = (task(1), task(2));
            EventKind::Task(TaskEvent::Fork { pid, tid, ppid, ptid })
        }
        // `born FLAGS` follows the fork, in the thread that forked.
        "born" => {
            let clone_flags = number(1).cast_unsigned();
            EventKind::Task(TaskEvent::NewTask { tid: Tid(0), clone_flags, comm: None })
        }
        "exec" | "end" => {
            let (pid, tid) = task(1);
            EventKind::Task(match words[0] {
                "end" => TaskEvent::Exit { pid, tid },
                _ => TaskEvent::Comm { pid, tid, comm: b"x".to_vec(), exec: true },
            })
        }
        "waited" => {
            let child = i32::try_from(number(1)).expect("a pid");
            EventKind::Probed(Box::new(ProbeObservation::Waited(Some(Pid(child)))))
        }
        "fault" | "page" => {
            let place = match words[0] {
                "fault" => FaultPlace::Address(number(1).cast_unsigned()),
                _ => FaultPlace::Page { dev: DevId(1), ino: inode(words[1]), index: 3 },
            };
            EventKind::Fault(FaultEvent { place, write: words.get(2).map(|it| *it == "write") })
        }
        "lost" => EventKind::Lost(1),
        other => panic!("no such line: {other}"),
    }
}

#[track_caller]
pub(super) fn check(text: &str, expected: &Expect) {
    check_with(Observability::ALL, text, expected);
}

/// Checks the steps with these kinds of recorded calls.
#[track_caller]
pub(super) fn check_with(followed: Observability, text: &str, expected: &Expect) {
    expected.assert_eq(&steps_with(followed, text));
}

/// Returns the steps of these lines.
#[track_caller]
pub(super) fn step_text(text: &str) -> String {
    steps_with(Observability::ALL, text)
}

#[track_caller]
fn steps_with(followed: Observability, text: &str) -> String {
    steps_from(KernelTime::MIN, followed, text)
}

/// Returns the steps of these lines if all events were on from this time on.
#[track_caller]
pub(super) fn steps_from(all_on: KernelTime, followed: Observability, text: &str) -> String {
    tracked(all_on, followed, text).1
}

fn whole_system() -> Scope {
    Scope {
        system: true,
        all_requests: true,
        roots: Vec::new(),
        launched: false,
        own: Pid(999),
        children: true,
        excluded: Vec::new(),
    }
}

/// Returns the tracker, too.
#[track_caller]
pub(super) fn tracked(
    all_on: KernelTime,
    followed: Observability,
    text: &str,
) -> (Tracker, String) {
    let mut tracker = Tracker::new(whole_system(), BlockOptions::default(), followed, all_on);
    tracker.runs_on("x86_64");
    let mut steps = StepText::default();
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let time: u64 = words[0].parse().expect("a time");
        if let "cwd" | "root" = words[1] {
            let which = if words[1] == "cwd" { Text::CWD } else { Text::ROOT };
            let pid = Pid(words[2].parse().expect("a pid"));
            tracker.seen_place(pid, which, words[3].as_bytes());
            continue;
        }
        if words[1] == "off" {
            tracker.switching_off(KernelTime(time));
            continue;
        }
        if words[1] == "late" {
            let Event { time, cpu, pid, tid, .. } = event(time, "0/0", EventKind::Lost(1));
            let (kind, detail) = (AnomalyKind::Late, String::new());
            let late = Anomaly { kind, time, cpu, pid, tid, count: 1, detail };
            let Ok(()) = tracker.anomaly(&late, time, &mut steps);
            continue;
        }
        if words[1] == "mounts" {
            let pid = Pid(words[2].parse().expect("a pid"));
            tracker.seen_mounts(pid, words[3].as_bytes());
            continue;
        }
        if words[1] == "maps" {
            let pid = Pid(words[2].parse().expect("a pid"));
            tracker.seen_maps(KernelTime(time), pid, words[3..].join(" ").into_bytes());
            continue;
        }
        if words[1] == "seen" {
            let number = |index: usize| words[index].parse::<u64>().expect("a number");
            let seen = SeenFd {
                begin: KernelTime(time),
                pid: Pid(words[2].parse().expect("a pid")),
                fd: Fd(words[3].parse().expect("a descriptor")),
                flags: 2,
                position: Some(number(4)),
                shared: words[5] == "shared",
                stat: Some(REGULAR),
                link: b"/seen".to_vec(),
            };
            tracker.seen_fd(&seen, KernelTime(time));
            continue;
        }
        let Ok(()) = tracker.push(event(time, words[1], kind(&words[2..])), &mut steps);
    }
    let Ok(()) = tracker.finish(KernelTime(u64::MAX), &mut steps);
    assert!(
        tracker.ledger().entries
            == tracker.ledger().pairs
                + tracker.ledger().open_at_end
                + tracker.ledger().cut_off
                + tracker.ledger().lost_exits
    );
    for (pid, _) in &tracker.ledger().other.first {
        let _ = writeln!(steps.0, "{pid} makes calls of another table");
    }
    (tracker, steps.0)
}

/// Returns the event of a task (`PID/TID`).
fn event(time: u64, task: &str, kind: EventKind) -> Event {
    let (pid, tid) = task.split_once('/').expect("pid/tid");
    let (pid, tid) = (Pid(pid.parse().expect("a pid")), Tid(tid.parse().expect("a tid")));
    Event { time: KernelTime(time), cpu: CpuId(0), pid, tid, kind }
}

pub(super) const OPEN: &str = "100 1/1 > openat -100 0 2
                    101 1/1 < openat 3 /a\n";

pub(super) fn after_open(text: &str, expected: &Expect) {
    let first = format!("{OPEN}{text}");
    check(&first, expected);
}

#[test]
fn reads_follow_one_another() {
    after_open(
        "110 1/1 > read 3 0 10
         111 1/1 < read 10
         112 1/1 > read 3 0 10
         113 1/1 < read 4
         114 1/1 > pread64 3 0 10 500
         115 1/1 < pread64 10
         116 1/1 > lseek 3 100 0
         117 1/1 < lseek 100
         118 1/1 > write 3 0 5
         119 1/1 < write 5
         120 1/1 > read 3 0 10
         121 1/1 < read 0",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a fd-link at 0 = 10
            1: read 3 /a fd-link at 10 = 4
            1: pread64 3 /a fd-link at 500 = 10
            1: lseek 3 /a fd-link at ? = 100
            1: write 3 /a fd-link at 100 = 5
            1: read 3 /a fd-link at 105 = 0
        "#]],
    );
}

/// Flags 193 are `O_WRONLY | O_CREAT | O_EXCL`, 65 those without `O_EXCL`: the file may have
/// existed, as one of any type.
#[test]
fn new_file_has_positions_although_its_type_was_not_read() {
    check(
        "100 1/1 > openat -100 0 193
         101 1/1 <late openat 3
         110 1/1 > write 3 0 10
         111 1/1 < write 10
         112 1/1 > write 3 0 10
         113 1/1 < write 10
         120 1/1 > openat -100 0 65
         121 1/1 <late openat 4
         122 1/1 > write 4 0 10
         123 1/1 < write 10",
        &expect![[r#"
            1: openat 3   at ? = 3
            1: write 3   at 0 = 10
            1: write 3   at 10 = 10
            1: openat 4   at ? = 4
            1: write 4   at ? = 10
        "#]],
    );
}

#[test]
fn overlapping_reads_are_unknown_and_their_sum_is_not() {
    after_open(
        "110 1/1 > read 3 0 10
         111 1/2 > read 3 0 10
         112 1/1 < read 10
         113 1/2 < read 10
         114 1/2 > read 3 0 10
         115 1/2 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a fd-link at ? = 10
            2: read 3 /a fd-link at ? = 10
            2: read 3 /a fd-link at 20 = 10
        "#]],
    );
}

#[test]
fn a_seek_inside_a_read_makes_the_position_unknown() {
    after_open(
        "110 1/1 > read 3 0 10
         111 1/2 > lseek 3 0 0
         112 1/2 < lseek 0
         113 1/1 < read 10
         114 1/1 > read 3 0 10
         115 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at ? = 10
            1: read 3 /a fd-link at ? = 10
        "#]],
    );
}

#[test]
fn duplicates_and_children_share_the_position() {
    after_open(
        "110 1/1 > dup2 3 7
         111 1/1 < dup2 7
         112 1/1 fork 1/1 2/2
         113 2/2 > read 7 0 10
         114 2/2 < read 10
         115 1/1 > read 3 0 10
         116 1/1 < read 10
         117 1/1 > close 3
         118 1/1 < close 0
         119 1/1 > read 3 0 1
         120 1/1 < read -9
         121 2/2 > read 3 0 1
         122 2/2 < read 1",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: dup2 3 /a fd-link at ? = 7
            2: read 7 /a fd-link at 0 = 10
            1: read 3 /a fd-link at 10 = 10
            1: close 3 /a fd-link at ? = 0
            1: read 3   at ? = -9
            2: read 3 /a fd-link at 20 = 1
        "#]],
    );
}

#[test]
fn appends_go_to_the_end_wherever_that_is() {
    check(
        "100 1/1 > openat -100 0 1026
         101 1/1 < openat 3 /a
         110 1/1 > write 3 0 10
         111 1/1 < write 10
         112 1/1 > pwrite64 3 0 10 0
         113 1/1 < pwrite64 10
         114 1/1 > read 3 0 10
         115 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: write 3 /a fd-link at ? = 10
            1: pwrite64 3 /a fd-link at ? = 10
            1: read 3 /a fd-link at ? = 10
        "#]],
    );
}

#[test]
fn exec_closes_only_close_on_exec_descriptors() {
    check(
        "100 1/1 > openat -100 0 524288
         101 1/1 < openat 3 /cloexec
         102 1/1 > openat -100 0 0
         103 1/1 < openat 4 /kept
         104 1/1 exec 1/1
         105 1/1 > read 3 0 1
         106 1/1 < read 1
         107 1/1 > read 4 0 1
         108 1/1 < read 1",
        &expect![[r#"
            1: openat 3 /cloexec fd-link at ? = 3
            1: openat 4 /kept fd-link at ? = 4
            1: read 3   at ? = 1
            1: read 4 /kept fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn snapshot_gives_paths_and_positions() {
    check(
        "100 1/1 > read 3 0 10
         101 1/1 < read 10
         110 seen 1 3 700 alone
         111 1/1 > read 3 0 10
         112 1/1 < read 10
         120 seen 1 4 900 shared
         121 1/1 > read 4 0 10
         122 1/1 < read 10",
        &expect![[r#"
            1: read 3   at ? = 10
            1: read 3 /seen snapshot at 700 = 10
            1: read 4 /seen snapshot at ? = 10
        "#]],
    );
}

#[test]
fn snapshot_that_overlaps_a_read_gives_no_position() {
    check(
        "105 1/1 > read 3 0 10
         111 1/1 < read 10
         110 seen 1 3 700 alone
         112 1/1 > read 3 0 10
         113 1/1 < read 10
         114 1/1 > lseek 3 0 1
         115 1/1 < lseek 720
         116 1/1 > read 3 0 10
         117 1/1 < read 10",
        &expect![[r#"
            1: read 3   at ? = 10
            1: read 3 /seen snapshot at ? = 10
            1: lseek 3 /seen snapshot at ? = 720
            1: read 3 /seen snapshot at 720 = 10
        "#]],
    );
}

#[test]
fn snapshot_of_a_closed_descriptor_is_ignored() {
    check(
        "115 1/1 > close 3
         116 1/1 < close 0
         110 seen 1 3 700 alone
         117 1/1 > read 3 0 10
         118 1/1 < read 10",
        &expect![[r#"
            1: close 3   at ? = 0
            1: read 3   at ? = 10
        "#]],
    );
}

const AT_HOME: &str = "1 cwd 1 /data
                       1 root 1 /\n";

#[test]
fn paths_begin_where_the_process_is() {
    let text = "
        100 1/1 > unlink 0
        101 1/1 < unlink 0 a/b
        110 1/1 > rename 0 0
        111 1/1 < rename 0 ./a /b
        120 1/1 > chdir 0
        121 1/1 < chdir 0 deeper
        130 1/1 > unlink 0
        131 1/1 < unlink -2 a
        140 1/1 > openat -100 0 2
        141 1/1 < openat 5 /other/place
        150 1/1 > unlinkat 5 0 0
        151 1/1 < unlinkat 0 a
        160 1/1 > fchdir 5
        161 1/1 < fchdir 0
        170 1/1 > unlink 0
        171 1/1 < unlink 0 a
        180 1/1 fork 1/1 2/2
        190 1/1 > chroot 0
        191 1/1 < chroot 0 /jail
        200 1/1 > unlink 0
        201 1/1 < unlink 0 /a
        210 2/2 > unlink 0
        211 2/2 < unlink 0 /a
        220 2/2 > symlink 0 0
        221 2/2 < symlink 0 new ../contents
        230 2/2 > unlinkat 77 0 0
        231 2/2 < unlinkat -9 a";
    check(
        &format!("{AT_HOME}{text}"),
        &expect![[r#"
        1: unlink -1 a/b argument at ? = 0 [/data/a/b]
        1: rename -1 ./a argument at ? = 0 [/data/a] [/b]
        1: chdir -1 deeper argument at ? = 0 [/data/deeper]
        1: unlink -1 a argument at ? = -2 [/data/deeper/a]
        1: openat 5 /other/place fd-link at ? = 5
        1: unlinkat -1 a argument at ? = 0 [/other/place/a]
        1: fchdir 5 /other/place fd-link at ? = 0
        1: unlink -1 a argument at ? = 0 [/other/place/a]
        1: chroot -1 /jail argument at ? = 0 [/jail]
        1: unlink -1 /a argument at ? = 0 [/jail/a]
        2: unlink -1 /a argument at ? = 0 [/a]
        2: symlink -1 new argument at ? = 0 [/other/place/new] [../contents]
        2: unlinkat -1 a argument at ? = -9 [a]
    "#]],
    );
}

#[test]
fn probed_path_starts_at_the_working_directory() {
    check(
        "0 cwd 1 /data
         0 root 1 /
         100 1/1 > openat -100 0 0
         101 1/1 <k openat 3 dir
         110 1/1 > openat 3 0 0
         111 1/1 <k openat 4 ./a
         120 1/1 > read 4 0 10
         121 1/1 < read 10
         130 1/1 > rename 0 0
         131 1/1 <k rename 0 a /b
         140 1/1 > openat -100 0 0
         141 1/1 <k openat -2 /none",
        &expect![[r#"
            1: openat 3 /data/dir kernel-string at ? = 3
            1: openat 4 /data/dir/a kernel-string at ? = 4
            1: read 4 /data/dir/a kernel-string at 0 = 10
            1: rename -1 a kernel-string at ? = 0 [/data/a] [/b]
            1: openat -1 /none kernel-string at ? = -2 [/none]
        "#]],
    );
}

#[test]
fn path_from_an_unknown_root_is_doubtful() {
    check(
        "100 1/1 > openat -100 0 0
         101 1/1 <k openat 3 /a
         110 1/1 > openat -100 0 0
         111 1/1 <k openat 4 a",
        &expect![[r#"
            1: openat 3 /a unverified at ? = 3
            1: openat 4 a kernel-string at ? = 4
        "#]],
    );
}
