use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::LineWriter;
use crate::event::syscall_table::CallId;
use crate::operation::Step;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::fault::Fault;
use crate::operation::model::{PathSource, SyscallOperation, Unfinished};
use crate::text::fixtures::{self, CWD, START, at, call, file, pass};
use crate::units::Fd;

/// Returns the output of the sink for these steps.
fn written(steps: impl FnOnce(&mut LineWriter<Vec<u8>>)) -> String {
    let mut sink = LineWriter::new(START, fixtures::disks(), Vec::new());
    pass(&mut sink, &Step::ThreadSeen(&fixtures::thread(b"tar")));
    steps(&mut sink);
    String::from_utf8(sink.finish().expect("a vector takes everything")).expect("UTF-8")
}

/// Compares the output, below a ruler as wide as the column of the time.
#[track_caller]
fn check(steps: impl FnOnce(&mut LineWriter<Vec<u8>>), expected: Expect) {
    expected.assert_eq(&format!("--------------\n{}", written(steps)));
}

#[track_caller]
fn check_calls(calls: &[SyscallOperation], expected: Expect) {
    check(|sink| fixtures::pass_calls(sink, calls), expected);
}

#[test]
fn calls_on_one_file() {
    let passwd = file(b"/etc/passwd", PathSource::Link);
    let on = |name: &str, args: &[u64], ret: i64| call(name, args, ret, Some(3), Some(&passwd));
    let mut early = on("close", &[3], 0);
    early.start = at(-7);
    check_calls(
        &[
            on("openat", &[CWD, 0x7fff_0000, 0o2_000_000], 3),
            on("openat", &[7, 0x7fff_0000, 0o20_200_002], 3),
            on("creat", &[0x7fff_0000], 3),
            on("pread64", &[3, 0x7fff_0000, 4096, 0], 4096),
            on("readv", &[3, 0x7fff_0000, 2], 100),
            on("lseek", &[3, (-10_i64).cast_unsigned(), 2], 1990),
            on("lseek", &[3, 0, 9], 0),
            on("close_range", &[3, u64::MAX, 4], 0),
            early,
        ],
        expect![[r#"
            --------------
               0.000123456 tar[4711/4712] cpu1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd> <0.000012>
               0.000123456 tar[4711/4712] cpu1 openat(7, "/etc/passwd", O_RDWR|O_TMPFILE) = 3</etc/passwd> <0.000012>
               0.000123456 tar[4711/4712] cpu1 creat("/etc/passwd") = 3</etc/passwd> <0.000012>
               0.000123456 tar[4711/4712] cpu1 pread64(3</etc/passwd>, 4096, offset 0) = 4096 <0.000012>
               0.000123456 tar[4711/4712] cpu1 readv(3</etc/passwd>, iovcnt 2) = 100 <0.000012>
               0.000123456 tar[4711/4712] cpu1 lseek(3</etc/passwd>, offset -10, SEEK_END) = 1990 <0.000012>
               0.000123456 tar[4711/4712] cpu1 lseek(3</etc/passwd>, offset 0, 9) = 0 <0.000012>
               0.000123456 tar[4711/4712] cpu1 close_range(3</etc/passwd>, 4294967295, CLOSE_RANGE_CLOEXEC) = 0 <0.000012>
              -0.000000007 tar[4711/4712] cpu1 close(3</etc/passwd>) = 0 <0.000136>
        "#]],
    );
}

#[test]
fn calls_that_fail() {
    check_calls(
        &[
            fixtures::failed_open(b"/nix", PathSource::Argument),
            fixtures::failed_open(b"/n\xfc\\\x1b[2J\"", PathSource::Unverified),
            call("openat", &[CWD, 0, 0], -14, None, None),
            call("read", &[99, 0, 1], -9, Some(99), None),
            call("fsync", &[u64::MAX], -999, None, None),
        ],
        expect![[r#"
            --------------
               0.000123456 tar[4711/4712] cpu1 openat(AT_FDCWD, "/nix", O_WRONLY|O_CREAT|O_TRUNC) = -1 ENOENT <0.000012>
               0.000123456 tar[4711/4712] cpu1 openat(AT_FDCWD, "/n\xfc\\\x1b[2J\x22"?, O_WRONLY|O_CREAT|O_TRUNC) = -1 ENOENT <0.000012>
               0.000123456 tar[4711/4712] cpu1 openat(AT_FDCWD, ?, O_RDONLY) = -1 EFAULT <0.000012>
               0.000123456 tar[4711/4712] cpu1 read(99, 1) = -1 EBADF <0.000012>
               0.000123456 tar[4711/4712] cpu1 fsync(-1) = -1 E999 <0.000012>
        "#]],
    );
}

#[test]
fn calls_on_two_files() {
    let (from, to) =
        (file(b"/from", PathSource::Snapshot), file(b"/a> = 1", PathSource::Unverified));
    let mut splice = call("splice", &[3, 0, 4, 0, 65536, 0], 512, Some(3), Some(&from));
    splice.target = Some((Fd(4), to));
    let mut dup = call("dup2", &[3, 10], 10, Some(3), Some(&from));
    dup.target = Some((Fd(10), Arc::clone(&from)));
    check_calls(
        &[
            splice,
            call("sendfile64", &[9, 3, 0, 10], 10, Some(3), Some(&from)),
            dup,
            call("dup3", &[3, 11, 0o2_000_001], -22, Some(3), Some(&from)),
        ],
        expect![[r#"
            --------------
               0.000123456 tar[4711/4712] cpu1 splice(3</from>, 4</a\x3e = 1>?, 65536) = 512 <0.000012>
               0.000123456 tar[4711/4712] cpu1 sendfile64(9, 3</from>, 10) = 10 <0.000012>
               0.000123456 tar[4711/4712] cpu1 dup2(3</from>, 10) = 10</from> <0.000012>
               0.000123456 tar[4711/4712] cpu1 dup3(3</from>, 11, O_CLOEXEC|0x1) = -1 EINVAL <0.000012>
        "#]],
    );
}

#[test]
fn commands_of_fcntl() {
    let log = file(b"/log", PathSource::Link);
    let fcntl = |args: &[u64], ret: i64| call("fcntl", args, ret, Some(3), Some(&log));
    check_calls(
        &[
            fcntl(&[3, 1030, 10], 10),
            fcntl(&[3, 1, 0xdead], 1),
            fcntl(&[3, 2, 1], 0),
            fcntl(&[3, 3, 0xdead], 0o106_001),
            fcntl(&[3, 4, 0o4000], 0),
            fcntl(&[3, 6, 0x7fff_0000], -11),
            fcntl(&[3, 8, u64::MAX], 0),
            fcntl(&[3, 4711, 0x7f], -22),
        ],
        expect![[r#"
            --------------
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_DUPFD_CLOEXEC, 10) = 10</log> <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_GETFD) = 1 (FD_CLOEXEC) <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_SETFD, FD_CLOEXEC) = 0 <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_GETFL) = 35841 (O_WRONLY|O_APPEND|O_NONBLOCK|O_LARGEFILE) <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_SETFL, O_RDONLY|O_NONBLOCK) = 0 <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_SETLK) = -1 EAGAIN <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, F_SETOWN, -1) = 0 <0.000012>
               0.000123456 tar[4711/4712] cpu1 fcntl(3</log>, 4711, 0x7f) = -1 EINVAL <0.000012>
        "#]],
    );
}

#[test]
fn flags_are_those_of_the_machine() {
    let open = call("openat", &[CWD, 0, 0o40000], -2, None, None);
    let text = |machine| {
        let mut sink = LineWriter::new(START, [], Vec::new()).machine(machine);
        pass(&mut sink, &Step::SyscallEnded(&open, &[]));
        String::from_utf8(sink.finish().expect("a vector takes everything")).expect("UTF-8")
    };
    assert!(text("x86_64").contains("O_RDONLY|O_DIRECT)"));
    assert!(text("aarch64").contains("O_RDONLY|O_DIRECTORY)"));
}

#[test]
fn calls_without_an_end() {
    let mut read = call("read", &[3, 0, 10], 0, Some(3), None);
    (read.end, read.ret) = (None, None);
    check(
        |sink| {
            for why in [Unfinished::CaptureEnd, Unfinished::ThreadEnd, Unfinished::ExitLost] {
                pass(sink, &Step::SyscallUnfinished(&read, why));
            }
        },
        expect![[r#"
            --------------
               0.000123456 tar[4711/4712] cpu1 read(3, 10) = ? (capture ended)
               0.000123456 tar[4711/4712] cpu1 read(3, 10) = ? (thread ended)
               0.000123456 tar[4711/4712] cpu1 read(3, 10) = ? (exit lost)
        "#]],
    );
}

#[test]
fn names_of_threads_come_and_go() {
    let sync = call("fsync", &[3], 0, Some(3), None);
    check(
        |sink| {
            pass(sink, &Step::ThreadRenamed(&fixtures::thread(b"x[1/1] \x07\xe4")));
            pass(sink, &Step::SyscallEnded(&sync, &[]));
            pass(sink, &Step::ThreadEnded(&fixtures::thread(b"")));
            pass(sink, &Step::SyscallEnded(&sync, &[]));
        },
        expect![[r#"
            --------------
               0.000123456 x\x5b1/1] \x07\xe4[4711/4712] cpu1 fsync(3) = 0 <0.000012>
               0.000123456 ?[4711/4712] cpu1 fsync(3) = 0 <0.000012>
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
            --------------
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a\xff>, ?, offset ?) = 4096 <0.000080>
               0.000210000 fio[4711/4712] cpu1 aio:PWRITE(3</data/a\xff>, 4096, offset 8192) = 4096 <0.000080>
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(registered file, ?, offset ?) = 4096 <0.000080>
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a\xff>, ?, offset ?) = -1 EBADF <0.000080>
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a\xff>, ?, offset ?) = 0 in 3 results <0.000080>
               0.000210000 fio[4711/4712] cpu1 io_uring:999() = 4096 <0.000080>
               0.000210000 fio[4711/4712] cpu1 io_uring:SPLICE(3</data/a\xff>, 9</data/b\xff>, ?, offset ?) = 4096 <0.000080>
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a>, ?, offset ?) = ? (capture ended)
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a>, ?, offset ?) = ? (process ended)
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a>, ?, offset ?) = ? (result not asked for)
               0.000210000 fio[4711/4712] cpu1 io_uring:READ(3</data/a>, ?, offset ?) = ? (result not seen)
        "#]],
    );
}

#[test]
fn block_requests() {
    check(
        |sink| {
            for request in fixtures::requests() {
                fixtures::pass_request(sink, &request, Some(&fixtures::thread(b"fio")), &[]);
            }
            fixtures::pass_request(sink, &fixtures::request(), None, &fixtures::pieces());
        },
        expect![[r#"
            --------------
               0.000300000 loop0 7:0 WS 2048 + 8 Q2G - G2I 0.000001000 I2D 0.000002000 D2C 0.000080000 G2C 0.000083000 completed fio[12/13]
               0.000300000 loop0 7:0 RA 2048 + 8 Q2G - G2I - I2D - D2C 0.000080000 G2C 0.000083000 EIO fio[12/13]
               0.000300000 loop0 7:0 WS 2048 + 8 Q2G - G2I 0.000001000 I2D - D2C - G2C - absorbed fio[12/13]
               0.000300000 loop0 7:0 WS 2048 + 8 Q2G - G2I 0.000001000 I2D 0.000002000 D2C - G2C - unfinished fio[12/13]
               0.000300000 loop0 7:0 WS 2048 + 8 Q2G - G2I 0.000001000 I2D 0.000002000 D2C - G2C - given-up fio[12/13]
              -0.000000500 odd\x20disk\x1b 8:16 FF 18446744073709551615 + 0 Q2G - G2I - I2D - D2C 0.000383500 G2C - completed fio[?/?]
               0.000300000 ? 259:3 D 18446744073709551614 + 4294967295 Q2G - G2I 0.000001000 I2D 0.000002000 D2C 0.000080000 G2C 0.000083000 completed fio[12/13]
               0.000300000 loop0 7:0 WS 2048 + 8 Q2G - G2I 0.000001000 I2D 0.000002000 D2C 0.000080000 G2C 0.000083000 completed ?[12/13] <- 259:1 0 [/mnt/a\x20file\x3b\x1b\xff @4096 +8; inode 12 of 259:1 @? inferred +8 by dd\xfe[12], dd\xfe[13]; journal = loop0 8: /mnt/a\x20file\x3b\x1b\xff @4096 +8; device 8:0 @1060864 inferred +8]
        "#]],
    );
}

#[test]
fn anomalies() {
    check(
        |sink| {
            pass(sink, &Step::Anomaly(&fixtures::lost()));
        },
        expect![[r#"
            --------------
            ! lost: count 17, 0.000400000 cpu1 [-1/4712]: the ring "was" full\x0a\x1b[31m
        "#]],
    );
}

proptest! {
    #[test]
    fn every_call_is_one_harmless_line(
        row in 0..u16::try_from(CallId::all().count()).expect("a short table"),
        args: [u64; 6],
        ret: i64,
        path in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut operation = call("read", &args, ret, Some(3), Some(&file(&path, PathSource::Unverified)));
        operation.call = CallId(row);
        let text = written(|sink| fixtures::pass_calls(sink, &[operation]));
        let line = text.strip_suffix('\n').expect("a line ends");
        prop_assert!(!line.contains(char::is_control));
        prop_assert!(line.starts_with("   0.000123456 tar[4711/4712] cpu1 "));
        prop_assert!(line.ends_with(" <0.000012>"));
    }
}

#[test]
fn page_faults() {
    let known = fixtures::fault(&file(b"/data/a>", PathSource::Link));
    let file = file(b"/b", PathSource::Unverified);
    let unknown = Fault { address: None, write: None, ..fixtures::fault(&file) };
    check(
        |sink| {
            pass(sink, &Step::Fault(&known));
            pass(sink, &Step::Fault(&unknown));
        },
        expect![[r#"
            --------------
               0.000500000 tar[4711/4712] cpu1 fault(0x7f0000001007</data/a\x3e>+4103, write)
               0.000500000 tar[4711/4712] cpu1 fault(?</b>?+4103, ?)
        "#]],
    );
}

#[test]
fn addresses_in_memory() {
    let mut sync = call("msync", &[0x7f00_0000_1000, 8192, 4], 0, None, None);
    let mapped = file(b"/data/a", PathSource::Renamed);
    (sync.file, sync.offset) = (Some(Arc::clone(&mapped)), Some(4096));
    let moved = call("mremap", &[0x7f00_0000_1000, 4096, 8192, 1], 0x7f00_0001_0000, None, None);
    check_calls(
        &[sync, moved],
        expect![[r#"
        --------------
           0.000123456 tar[4711/4712] cpu1 msync(0x7f0000001000</data/a>+4096, 8192) = 0 <0.000012>
           0.000123456 tar[4711/4712] cpu1 mremap(0x7f0000001000, 4096, 8192) = 0x7f0000010000 <0.000012>
    "#]],
    );
}
