//! Tests of the fold with steps made by hand. A script has a line for each event, in the order of
//! the reports:
//!
//! ```text
//! add 7 10 3             inode 7 is watched from 10 on, three accesses are kept
//! add 7 10 3 100+50      the same, and its file system reports these sectors
//! stop 7 20              also start, reset, timereset, remove
//! lies 7 100+50          its file system reports these sectors now
//! read 7 30 0 4096       begins at 30, at this offset (?: unknown), this many bytes; also write
//! send 7>8 30 0>? 4096   a transfer
//! asked 7 30 0 4096      an asynchronous read of 4096 bytes (?: unknown) whose result was not seen
//! named /f 30 0 4096     a read of a file of which only the name is known
//! asked /f 30 0 4096     both at once
//! bio 30 100+8 7         a request for these sectors, of file 7, ?7 (inferred), or unknown (?)
//! ```

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::limits::TURNS_MAX;
use super::*;
use crate::event::FileStat;
use crate::event::async_table::{Interface, Opcode};
use crate::event::block::{DevicePosition, RequestOp};
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::model::{FilePath, PathSource, ProcessKey, SyscallOperation, ThreadKey};
use crate::operation::test_fixtures;
use crate::units::{CpuId, Fd, KernelTime, Pid, Tid};

const DEV: DevId = DevId(7 << 20);
const DISK: DevId = DevId(8 << 20);

fn file(ino: u64) -> Arc<OpenFile> {
    let stat = FileStat { mode: libc::S_IFREG, dev: DEV, ino, size: 0 };
    let (path, first_path, flags) = (None, None, None);
    Arc::new(OpenFile {
        id: ino,
        path,
        first_path,
        given: None,
        stat: Some(stat),
        flags,
        pre_created: false,
    })
}

/// Creates a file of which only the path is known, or nothing (`?`).
fn named(path: &str) -> Arc<OpenFile> {
    let path = path.starts_with('/').then(|| FilePath::new(path, PathSource::Link));
    let (first_path, stat, flags) = (None, None, None);
    Arc::new(OpenFile { id: 0, path, first_path, given: None, stat, flags, pre_created: false })
}

fn call(name: &str, file: &Arc<OpenFile>, begin: u64, at: &str, bytes: u64) -> SyscallOperation {
    let bytes = bytes.try_into().expect("small");
    test_fixtures::call(name, Arc::clone(file), [begin, begin + 5], at.parse().ok(), bytes)
}

fn async_request(file: &Arc<OpenFile>, begin: u64, offset: &str, bytes: &str) -> AsyncOperation {
    AsyncOperation {
        id: 0,
        opcode: Opcode { interface: Interface::IoUring, number: 22 },
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(11),
        tid: Tid(11),
        cpu: CpuId(0),
        start: KernelTime(begin),
        end: None,
        ring: 0,
        user_data: 0,
        fd: Some(Fd(3)),
        file: Some(Arc::clone(file)),
        target: None,
        fixed_file: false,
        offset: offset.parse().ok(),
        bytes_requested: bytes.parse().ok(),
        result: None,
        results: 0,
        bytes_before: 0,
        by_worker: false,
        rw_flags: 0,
        flags: 0,
    }
}

/// Creates a request and its piece. On the disk it is 1000 sectors further on than on the device of
/// the file system.
fn bio(begin: u64, sector: u64, nr_sector: u64, behind: &str) -> (BlockRequest, Piece) {
    let (start, length) = (1000 + sector, u32::try_from(nr_sector).expect("small"));
    let request = test_fixtures::request(DISK, RequestOp::Write, start, length, [begin, begin + 9]);
    let link = if behind.starts_with('?') { Link::Inferred } else { Link::Exact };
    let behind = match behind.trim_start_matches('?').parse() {
        Ok(ino) => BlockContents::File { key: (DEV, ino), offset: None, file: None, link },
        Err(_) => BlockContents::Unknown,
    };
    let levels = vec![DevicePosition { dev: DEV, sector }].into();
    let piece = Piece { levels, ..test_fixtures::piece(&request, behind) };
    (request, piece)
}

fn run_of(word: &str) -> (u64, u64) {
    let (sector, count) = word.split_once('+').expect("a run");
    (sector.parse().expect("a sector"), count.parse().expect("a length"))
}

fn runs_of(words: &[&str]) -> Vec<(u64, u64)> {
    let bytes = |run: &&str| {
        let (sector, count) = run_of(run);
        (sector * SECTOR_BYTES, count * SECTOR_BYTES)
    };
    words.iter().map(bytes).collect()
}

#[derive(Default)]
struct Script {
    watch: Watch,
    output: String,
}

impl Script {
    fn line(&mut self, line: &str) {
        let number = |it: &str| it.parse::<u64>().expect("a number");
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["add", ino, at, max, ref runs @ ..] => {
                let (name, path) = (format!("d_{ino}"), format!("/f{ino}").into_bytes());
                let (key, at) = ((DEV, number(ino)), KernelTime(number(at)));
                let (max, runs) = (max.parse().expect("a number"), runs_of(runs));
                if let Err(why) = self.watch.add(NewWatch { key, name, path, max, at, runs }) {
                    writeln!(self.output, "{line}: {why}").expect("a string");
                }
            }
            ["lies", ino, ref runs @ ..] => {
                let place = self.place(ino);
                let mut accesses = Vec::new();
                let mut listener = |file: &WatchedFile, kept: &KeptAccess| {
                    accesses.push((file.key.1, kept.access))
                };
                self.watch.lies(place, runs_of(runs), &mut listener);
                self.report(&accesses);
            }
            ["bio", at, run, behind] => {
                let (sector, nr_sector) = run_of(run);
                let (request, piece) = bio(number(at), sector, nr_sector, behind);
                let pieces = [piece];
                let step = BlockStep::Ended(&request);
                self.step(&Step::Block { step: &step, thread: None, pieces: &pieces });
            }
            ["send", files, at, offsets, bytes] => {
                let ((from, to), (offset, target_offset)) = (
                    files.split_once('>').expect("two files"),
                    offsets.split_once('>').expect("two offsets"),
                );
                let mut operation =
                    call("sendfile64", &file(number(from)), number(at), offset, number(bytes));
                operation.target = Some((Fd(4), file(number(to))));
                operation.target_offset = target_offset.parse().ok();
                self.step(&Step::SyscallEnded(&operation, &[]));
            }
            ["asked", which, at, offset, bytes] => {
                let file = which.parse().map_or_else(|_| named(which), file);
                let operation = async_request(&file, number(at), offset, bytes);
                self.step(&Step::AsyncUnfinished(&operation, NoResult::Unseen));
            }
            ["named", path, at, offset, bytes] => {
                let operation = call("read", &named(path), number(at), offset, number(bytes));
                self.step(&Step::SyscallEnded(&operation, &[]));
            }
            [name @ ("read" | "write"), ino, at, offset, bytes] => {
                let operation = call(name, &file(number(ino)), number(at), offset, number(bytes));
                self.step(&Step::SyscallEnded(&operation, &[]));
            }
            [what, ino, at] => self.change(what, ino, KernelTime(number(at))),
            _ => panic!("{line}"),
        }
    }

    fn place(&self, ino: &str) -> usize {
        let place = self.watch.find(None, format!("d_{ino}").as_bytes());
        place.expect("it is watched")
    }

    fn change(&mut self, what: &str, ino: &str, at: KernelTime) {
        let place = self.place(ino);
        let file = self.watch.file_mut(place).expect("it is watched");
        match what {
            "stop" => file.turn(at, false).expect("not too often"),
            "start" => file.turn(at, true).expect("not too often"),
            "reset" => file.reset(at),
            "timereset" => file.time_reset(at),
            "remove" => self.watch.remove(place),
            _ => panic!("{what}"),
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        let mut accesses = Vec::new();
        let mut listener =
            |file: &WatchedFile, kept: &KeptAccess| accesses.push((file.key.1, kept.access));
        self.watch.look(step, &mut listener);
        self.report(&accesses);
    }

    fn report(&mut self, accesses: &[(u64, Access)]) {
        for (ino, access) in accesses {
            writeln!(self.output, "report {ino}: {}", shown(access)).expect("a string");
        }
    }
}

fn shown(access: &Access) -> String {
    let letter = if access.is_write { 'W' } else { 'R' };
    let Access { begin, address, bytes, level, .. } = access;
    format!("{} {letter} {address} {bytes} {}", begin.0, level.as_str())
}

/// Compares the immediate reports, and then the status of each file, its kept accesses, and its
/// counters that are not empty.
#[track_caller]
fn check(script: &str, expected: Expect) {
    let mut run = Script::default();
    for line in script.lines().map(str::trim).filter(|it| !it.is_empty()) {
        run.line(line);
    }
    let Script { watch, mut output } = run;
    if !watch.unidentified.is_empty() {
        writeln!(output, "unidentified {:?}", watch.unidentified.values()).expect("a string");
    }
    for file in watch.files() {
        let Status { is_logging, start, max, kept } = file.status();
        let on = if is_logging { "on" } else { "off" };
        writeln!(output, "{}: {on} {} {max} {kept}", file.key.1, start.0).expect("a string");
        file.log().for_each(|it| writeln!(output, "  {}", shown(&it.access)).expect("a string"));
        let FileAccounting {
            called,
            without_result,
            by_name,
            exact,
            inferred,
            beyond,
            without_line,
        } = *file.accounting();
        let accounting = [
            ("called", called.0),
            ("asked", without_result.1),
            ("by name", by_name.0),
            ("exact", exact.1),
            ("inferred", inferred.1),
            ("beyond", beyond),
            ("without line", without_line),
            ("unknown", watch.unknown_bytes(file)),
        ];
        let accounting =
            accounting.iter().filter(|it| it.1 > 0).map(|it| format!("{} {}", it.0, it.1));
        writeln!(output, "  ({})", accounting.collect::<Vec<_>>().join(", ")).expect("a string");
    }
    expected.assert_eq(&output);
}

#[test]
fn the_first_accesses_are_kept_in_the_order_of_their_beginnings() {
    check(
        "add 7 10 3
         read 7 40 4096 10
         write 7 30 0 20
         read 8 31 0 20
         read 7 50 8192 30
         read 7 20 1 40
         read 7 9 2 50",
        expect![[r#"
            report 7: 40 R 4096 10 VFS
            report 7: 30 W 0 20 VFS
            report 7: 50 R 8192 30 VFS
            report 7: 20 R 1 40 VFS
            7: on 10 3 3
              20 R 1 40 VFS
              30 W 0 20 VFS
              40 R 4096 10 VFS
              (called 4, beyond 1)
        "#]],
    );
}

#[test]
fn file_commands_apply_by_time_despite_late_accesses() {
    check(
        "add 7 10 9
         read 7 15 0 1
         stop 7 20
         stop 7 22
         start 7 30
         read 7 19 1 1
         read 7 20 2 1
         read 7 29 3 1
         read 7 30 4 1
         stop 7 40
         read 7 41 5 1",
        expect![[r#"
            report 7: 15 R 0 1 VFS
            report 7: 19 R 1 1 VFS
            report 7: 30 R 4 1 VFS
            7: off 10 9 3
              15 R 0 1 VFS
              19 R 1 1 VFS
              30 R 4 1 VFS
              (called 3)
        "#]],
    );
}

#[test]
fn a_reset_forgets_what_began_before_it_and_a_timereset_also_counts_from_there() {
    check(
        "add 7 10 9
         add 8 10 9
         read 7 15 0 1
         read 8 15 0 1
         stop 8 16
         reset 7 20
         timereset 8 20
         read 7 19 1 1
         read 7 21 2 1
         read 8 21 2 1
         start 8 25
         read 8 26 3 1",
        expect![[r#"
            report 7: 15 R 0 1 VFS
            report 8: 15 R 0 1 VFS
            report 7: 21 R 2 1 VFS
            report 8: 26 R 3 1 VFS
            7: on 10 9 1
              21 R 2 1 VFS
              (called 1)
            8: on 20 9 1
              26 R 3 1 VFS
              (called 1)
        "#]],
    );
}

/// Fails if a command that is handled late has another effect.
#[test]
fn a_late_reset_keeps_what_began_since() {
    check(
        "add 7 10 9
         read 7 15 0 1
         read 7 20 1 1
         bio 25 100+8 7
         reset 7 20
         read 7 19 2 1",
        expect![[r#"
            report 7: 15 R 0 1 VFS
            report 7: 20 R 1 1 VFS
            report 7: 25 W 1100 4096 BLK
            7: on 10 9 2
              20 R 1 1 VFS
              25 W 1100 4096 BLK
              (called 1, exact 4096)
        "#]],
    );
}

#[test]
fn impossible_commands_are_refused() {
    check(
        "add 7 10 3
         add 7 11 3
         add 8 11 0
         add 8 11 262145
         add 1 11 262144
         add 2 11 262144
         add 3 11 262144
         add 4 11 262144
         remove 7 12
         read 7 13 0 1
         add 7 14 5",
        expect![[r#"
            add 7 11 3: it is watched already
            add 8 11 0: at least 1 and at most 262144 accesses can be kept of a file, and 1048576 of all; keep fewer, or remove a file
            add 8 11 262145: at least 1 and at most 262144 accesses can be kept of a file, and 1048576 of all; keep fewer, or remove a file
            add 4 11 262144: at least 1 and at most 262144 accesses can be kept of a file, and 1048576 of all; keep fewer, or remove a file
            1: on 11 262144 0
              ()
            2: on 11 262144 0
              ()
            3: on 11 262144 0
              ()
            7: on 14 5 0
              ()
        "#]],
    );
}

#[test]
fn both_sides_of_a_transfer() {
    check(
        "add 7 10 9
         add 8 10 9
         send 7>8 20 5>6 100
         send 7>8 21 7>? 100
         send 9>8 22 7>8 100
         read 7 23 ? 100",
        expect![[r#"
            report 7: 20 R 5 100 VFS
            report 8: 20 W 6 100 VFS
            report 7: 21 R 7 100 VFS
            report 8: 22 W 8 100 VFS
            7: on 10 9 2
              20 R 5 100 VFS
              21 R 7 100 VFS
              (called 2, without line 1)
            8: on 10 9 2
              20 W 6 100 VFS
              22 W 8 100 VFS
              (called 2, without line 1)
        "#]],
    );
}

#[test]
fn a_file_of_which_only_the_name_is_known() {
    check(
        "add 7 10 9
         named /f7 20 3 4
         named /f8 21 3 4
         named ? 22 3 4",
        expect![[r#"
            report 7: 20 R 3 4 VFS
            unidentified [1]
            7: on 10 9 1
              20 R 3 4 VFS
              (called 1, by name 1)
        "#]],
    );
}

#[test]
fn an_operation_whose_result_was_not_seen() {
    check(
        "add 7 10 9
         asked 7 20 4096 512
         asked 7 21 ? 512
         asked 7 22 4096 ?
         asked /f7 23 8192 512",
        expect![[r#"
            report 7: 20 R 4096 512 VFS
            report 7: 23 R 8192 512 VFS
            7: on 10 9 2
              20 R 4096 512 VFS
              23 R 8192 512 VFS
              (called 2, asked 1024, by name 1, without line 2)
        "#]],
    );
}

/// Fails if a piece does not go to the file with these sectors, of two on one device, as soon as
/// they are reported.
#[test]
fn unattributed_pieces_are_counted() {
    check(
        "add 7 10 9 100+50 200+10
         add 8 10 9
         bio 20 100+8 7
         bio 21 100+8 ?7
         bio 22 90+20 ?
         bio 23 145+70 ?
         lies 8 150+10 90+5
         bio 9 300+8 ?
         bio 24 300+8 9
         remove 7 30
         bio 31 300+16 ?",
        expect![[r#"
            report 7: 20 W 1100 4096 BLK
            report 7: 21 W 1100 4096 BLK
            report 7: 22 W 1100 5120 BLK
            report 7: 23 W 1145 2560 BLK
            report 7: 23 W 1200 5120 BLK
            report 8: 22 W 1090 2560 BLK
            report 8: 23 W 1150 5120 BLK
            8: on 10 9 2
              22 W 1090 2560 BLK
              23 W 1150 5120 BLK
              (inferred 7680, unknown 33792)
        "#]],
    );
}

#[test]
fn a_file_cannot_be_stopped_without_end() {
    let mut run = Script::default();
    run.line("add 7 10 3");
    let file = run.watch.file_mut(0).expect("it is watched");
    let turns = (0..).map(|it| file.turn(KernelTime(20 + it), it % 2 == 1));
    let done = turns.take_while(Result::is_ok).count();
    assert_eq!((done, file.turn(KernelTime(MANY), false)), (TURNS_MAX, Err(WatchError::Turns)));
    file.reset(KernelTime(MANY));
    assert_eq!(file.turn(KernelTime(MANY), false), Ok(()));
}

const MANY: u64 = 1 << 20;

#[test]
fn pieces_do_not_wait_without_end() {
    let mut run = Script::default();
    run.line("add 7 10 3");
    for _ in 0..UNKNOWN_MAX + 5 {
        run.line("bio 20 300+1 ?");
    }
    assert_eq!((run.watch.unknown.len(), run.watch.given_up), (UNKNOWN_MAX, 5));
    run.line("lies 7 300+1");
    let file = &run.watch.files()[0];
    assert_eq!((file.accounting().inferred.0, file.accounting().beyond), (65536, 65533));
}

proptest::proptest! {
    /// Fails if bytes of a piece are lost or come twice, or if a run is cut.
    #[test]
    fn piece_is_cut_at_the_ends_of_runs(
        list in proptest::collection::vec((0u64..40, 1u64..9), 0..6),
        begin in 0u64..40,
        bytes in 1u64..20,
    ) {
        let runs = super::file::disjoint(list.clone());
        let mut at = begin;
        for (from, length, is_in) in split(begin, bytes, &runs) {
            proptest::prop_assert!(from == at && length > 0);
            at += length;
            for byte in from..at {
                let lies = list.iter().any(|it| it.0 <= byte && byte < it.0 + it.1);
                proptest::prop_assert_eq!(lies, is_in, "{} in {:?}", byte, list);
            }
        }
        proptest::prop_assert_eq!(at, begin + bytes);
    }
}
