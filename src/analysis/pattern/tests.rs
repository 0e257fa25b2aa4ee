//! Tests of the fold with steps made by hand. One line is one operation, in the order of the ends:
//!
//! ```text
//! read FILE +START -END OFFSET BYTES
//!
//! FILE: a path, or `7` for a nameless open file; OFFSET: `?` if unknown
//! ```

use std::sync::Arc;

use super::*;
use crate::anomaly::Link;
use crate::event::FileStat;
use crate::operation::model::{FilePath, PathSource, SyscallOperation};
use crate::operation::test_fixtures;
use crate::units::Fd;

const DEV: DevId = DevId(7 << 20);
const DIRECT: u32 = 0o40000;

fn stat(ino: u64, mode: u32) -> FileStat {
    FileStat { mode, dev: DEV, ino, size: 0 }
}

/// Creates a regular file whose inode is the number of letters of its name.
fn file(name: &str, flags: u32) -> OpenFile {
    let path = name.starts_with('/').then(|| FilePath::new(name, PathSource::Link));
    OpenFile {
        id: name.parse().unwrap_or(1),
        path,
        first_path: None,
        given: None,
        stat: Some(stat(name.len() as u64, libc::S_IFREG)),
        flags: Some(flags),
        pre_created: false,
    }
}

fn call(
    name: &str,
    file: OpenFile,
    times: [u64; 2],
    offset: Option<u64>,
    bytes: i64,
) -> SyscallOperation {
    test_fixtures::call(name, Arc::new(file), times, offset, bytes)
}

fn add(patterns: &mut Patterns, operation: &SyscallOperation) {
    let step = Step::SyscallEnded(operation, &[]);
    patterns.step(KernelTime(0), &step).expect("it takes everything");
}

#[track_caller]
fn patterns_of(lines: &str, flags: u32) -> Patterns {
    let mut patterns = Patterns::default();
    for line in lines.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let &[name, path, start, end, offset, bytes] =
            line.split_whitespace().collect::<Vec<_>>().as_slice()
        else {
            panic!("{line}")
        };
        let time = |it: &str| it[1..].parse().expect("a time");
        let bytes = bytes.parse().expect("bytes");
        let times = [time(start), time(end)];
        let operation = call(name, file(path, flags), times, offset.parse().ok(), bytes);
        add(&mut patterns, &operation);
    }
    patterns
}

/// Adds a request for a piece of a file with this inode; its position on the device is that in the
/// file.
fn request(patterns: &mut Patterns, op: RequestOp, time: u64, ino: u64, offset: u64) {
    let request = test_fixtures::request(DEV, op, offset / SECTOR_BYTES, 8, [time, time + 50]);
    let behind = BlockContents::File {
        key: (DEV, ino),
        offset: Some(offset),
        file: None,
        link: Link::Exact,
    };
    let piece = test_fixtures::piece(&request, behind);
    let step = Step::Block { step: &BlockStep::Ended(&request), thread: None, pieces: &[piece] };
    patterns.step(KernelTime(0), &step).expect("it takes everything");
}

/// Compares the class of the only stream in a direction.
#[track_caller]
fn class(
    patterns: &Patterns,
    direction: Direction,
) -> (Option<PatternClass>, Option<PatternLevel>) {
    let streams = patterns.streams.iter().filter(|it| it.0.2 == direction).collect::<Vec<_>>();
    assert_eq!(streams.len(), 1, "{streams:?}");
    Decisions::of(patterns, DIRECT).class(streams[0].0, streams[0].1)
}

#[test]
fn calls_count_in_the_order_of_their_beginnings() {
    let patterns = patterns_of(
        "pread64 /a +10 -40 0 100
         pread64 /a +12 -30 200 100
         pread64 /a +11 -50 100 100
         pwrite64 /a +5 -6 7 1
         pread64 /a +13 -20 300 100",
        0,
    );
    assert_eq!(
        class(&patterns, Direction::Read),
        (Some(PatternClass::Consecutive), Some(PatternLevel::Vfs))
    );
    assert_eq!(
        class(&patterns, Direction::Write),
        (Some(PatternClass::Single), Some(PatternLevel::Vfs))
    );
    let read = patterns.streams.iter().find(|it| it.0.2 == Direction::Read).expect("some").1;
    assert_eq!((read.stream.count, read.stream.bytes, read.stream.found().depth.max), (4, 400, 4));
}

#[test]
fn a_transfer_is_a_read_and_a_write() {
    let mut patterns = Patterns::default();
    for at in 0..3 {
        let mut copy = call("copy_file_range", file("/from", 0), [at, at], Some(at * 10), 10);
        copy.target = Some((Fd(4), Arc::new(file("/to", 0))));
        copy.target_offset = Some(1000 - at * 10);
        add(&mut patterns, &copy);
    }
    assert_eq!(class(&patterns, Direction::Read).0, Some(PatternClass::Consecutive));
    assert_eq!(class(&patterns, Direction::Write).0, Some(PatternClass::Backward));
}

#[test]
fn files_without_offsets_are_counted() {
    let mut patterns = Patterns::default();
    let pipe = OpenFile { stat: Some(stat(1, libc::S_IFIFO)), ..file("/fifo", 0) };
    let socket = FilePath::new("socket:[?]", PathSource::Call);
    let socket = OpenFile { stat: None, path: Some(socket), ..file("7", 0) };
    let unknown = OpenFile { stat: None, ..file("7", 0) };
    for file in [pipe, socket, unknown] {
        add(&mut patterns, &call("read", file, [0, 1], None, 3));
    }
    assert_eq!((patterns.elsewhere, patterns.untold, patterns.streams.iter().count()), (2, 1, 0));
    // For a file without a name each open is a stream.
    for id in ["7", "8", "7"] {
        add(&mut patterns, &call("read", file(id, 0), [0, 1], Some(0), 3));
    }
    assert_eq!(patterns.streams.iter().count(), 2);
}

const UNKNOWN: &str = "pread64 /a +1 -2 ? 4096
    pread64 /a +3 -4 ? 4096
    pread64 /a +5 -6 ? 4096";

/// Adds three requests for the file, forwards.
fn with_requests(mut patterns: Patterns) -> Patterns {
    for at in [0, 1, 2] {
        request(&mut patterns, RequestOp::Read, at, 2, at * 4096);
    }
    // The other direction, and another file.
    request(&mut patterns, RequestOp::Write, 3, 2, 0);
    request(&mut patterns, RequestOp::Read, 4, 3, 0);
    patterns
}

#[test]
fn requests_decide_for_unknown_offsets_of_uncached_io() {
    let unknown = (Some(PatternClass::Unknown), None);
    let direct = with_requests(patterns_of(UNKNOWN, DIRECT));
    let decided = (Some(PatternClass::Consecutive), Some(PatternLevel::Block));
    assert_eq!(class(&direct, Direction::Read), decided);
    assert_eq!(class(&with_requests(patterns_of(UNKNOWN, 0)), Direction::Read), unknown);
    assert_eq!(class(&patterns_of(UNKNOWN, DIRECT), Direction::Read), unknown);
    // One access went through the cache.
    let mut once = with_requests(patterns_of(UNKNOWN, DIRECT));
    add(&mut once, &call("pread64", file("/a", 0), [7, 8], None, 4096));
    assert_eq!(class(&once, Direction::Read), unknown);
    // The requests may belong to either stream.
    let mut two = with_requests(patterns_of(UNKNOWN, DIRECT));
    let theirs = call("pread64", file("/a", DIRECT), [7, 8], None, 4096);
    add(&mut two, &SyscallOperation { process: ProcessKey(1), ..theirs });
    let decisions = Decisions::of(&two, DIRECT);
    assert!(two.streams.iter().all(|it| decisions.class(it.0, it.1) == unknown));
    // The same name, but not known to be the same file.
    let mut two = with_requests(patterns_of(UNKNOWN, DIRECT));
    let unidentified = OpenFile { stat: None, ..file("/a", DIRECT) };
    let theirs = call("pread64", unidentified, [7, 8], None, 4096);
    add(&mut two, &SyscallOperation { process: ProcessKey(1), ..theirs });
    let decisions = Decisions::of(&two, DIRECT);
    assert!(two.streams.iter().all(|it| decisions.class(it.0, it.1) == unknown));
    // The positions of the operations themselves are preferred.
    let known = with_requests(patterns_of(&UNKNOWN.replace('?', "0"), DIRECT));
    assert_eq!(
        class(&known, Direction::Read),
        (Some(PatternClass::Repeated), Some(PatternLevel::Vfs))
    );
}

#[test]
fn requests_are_of_devices_and_files() {
    let mut patterns = with_requests(Patterns::default());
    request(&mut patterns, RequestOp::Discard, 9, 2, 0);
    assert_eq!(patterns.without_data, 1);
    let device = |patterns: &Patterns, direction| {
        let found = patterns.devices.iter().find(|it| *it.0 == (DEV, direction));
        let found = found.map(|it| &it.1.stream).expect("it is there").clone();
        (found.count, found.bytes, found.found().class, found.found().depth.max)
    };
    assert_eq!(device(&patterns, Direction::Read), (4, 4 * 4096, Some(PatternClass::Mixed), 4));
    assert_eq!(device(&patterns, Direction::Write).0, 1);
    assert_eq!(device(&patterns, Direction::Both).0, 5);
    let files: u64 = patterns.device_files.iter().map(|it| it.1.stream.count).sum();
    assert_eq!((files, patterns.device_files.iter().count()), (5, 3));
}
