//! Requests of the program and of others, event by event.

use super::marks::{Mark, Marks, RecordRef};
use super::places::Places;
use super::requests::{Hit, Requests};
use crate::block::{At, BlockOptions};
use crate::capture::fact::{Fact, Text};
use crate::event::FileStat;
use crate::event::block::{BlockEvent, BlockPoint, Rwbs};
use crate::event::fs::{Extent, FsEvent, Unit};
use crate::event::uring::{UringEvent, UringPoint};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

const DEV: DevId = DevId(7 << 20 | 3);

struct Case {
    requests: Requests,
    places: Places,
    marks: Marks,
    count: usize,
}

/// Threads: the program's, another program's, one of the kernel's.
const OWN: i32 = 100;
const OTHER: i32 = 200;
const KERNEL: i32 = 300;

impl Case {
    fn new() -> Self {
        let mut marks = Marks::default();
        marks.add(64);
        let places = Places::new(true);
        Self { requests: Requests::new(BlockOptions::default()), places, marks, count: 0 }
    }

    fn at(&mut self, tid: i32) -> Hit {
        self.count += 1;
        let time = KernelTime(1000 * self.count as u64);
        let at = At { time, cpu: CpuId(0), pid: Pid(tid), tid: Tid(tid) };
        let record = RecordRef { chunk: 0, index: self.count - 1 };
        Hit { at, record, by_own: tid == OWN }
    }

    fn push(&mut self, tid: i32, point: BlockPoint, letters: &str, sector: u64, nr_sector: u32) {
        let hit = self.at(tid);
        let event = BlockEvent {
            point,
            dev: DEV,
            sector,
            nr_sector,
            error: 0,
            rwbs: Rwbs::new(letters.as_bytes()),
            from: None,
            comm: None,
            chain: None,
        };
        self.requests.push(&hit, &event, &mut self.places, &mut self.marks);
    }

    fn now(&self) -> KernelTime {
        KernelTime(1000 * self.count as u64)
    }

    /// A bio and its request.
    fn asks(&mut self, tid: i32, letters: &str, sector: u64, nr_sector: u32) {
        self.push(tid, BlockPoint::BioQueue, letters, sector, nr_sector);
        self.push(tid, BlockPoint::GetRq, letters, sector, nr_sector);
    }

    /// The request goes to the driver and completes; the completion interrupts a thread of the program.
    fn is_done(&mut self, letters: &str, sector: u64, nr_sector: u32) {
        self.push(KERNEL, BlockPoint::Issue, letters, sector, nr_sector);
        self.push(OWN, BlockPoint::Complete, letters, sector, nr_sector);
    }

    fn says(&mut self, tid: i32, ino: u64, block: u64, count: u64) -> Mark {
        let (offset, length, address, unit) = (0, count * 4096, block * 4096, Unit::Bytes);
        let dev = DEV;
        let it = Extent { dev, ino, on: DEV, unit, offset, length, address, is_shared: false };
        self.places.learn(self.now(), &FsEvent::Extent(it), tid == OWN)
    }

    fn opens(&mut self, ino: u64) {
        let stat = FileStat { mode: libc::S_IFREG | 0o600, dev: DEV, ino, size: 0 };
        assert!(self.places.opened(self.now(), &stat));
    }

    /// `k` kept, `d` dropped, `?` undecided, for each record.
    #[track_caller]
    fn check(self, expected: &str, left_out: &[(&str, u64, u64)]) {
        let letter = |index| match self.marks.get(RecordRef { chunk: 0, index }) {
            Mark::Kept => 'k',
            Mark::Dropped => 'd',
            Mark::Undecided => '?',
        };
        assert_eq!((0..self.count).map(letter).collect::<String>(), expected);
        let devices = self.requests.left_out.into_devices();
        let operations = devices.iter().flat_map(|it| &it.operations);
        let counted: Vec<_> =
            operations.map(|(word, it)| (word.as_str(), it.requests, it.bytes)).collect();
        assert_eq!(counted, left_out);
    }
}

#[test]
fn requests_of_others_are_counted_and_dropped() {
    let mut case = Case::new();
    case.asks(OTHER, "WS", 8, 8);
    case.asks(OWN, "WS", 8, 8);
    case.is_done("WS", 8, 8);
    case.is_done("WS", 8, 8);
    case.check("ddkkddkk", &[("write", 1, 4096)]);
}

#[test]
fn flushes_are_kept_with_what_waits_for_them() {
    let mut case = Case::new();
    case.asks(OTHER, "FWS", 0, 0);
    case.push(KERNEL, BlockPoint::Issue, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FWS", 0, 0);
    case.asks(OWN, "FWS", 0, 0);
    case.push(KERNEL, BlockPoint::Issue, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FWS", 0, 0);
    case.check("dddddkkkkk", &[("flush", 1, 0), ("write", 1, 0)]);
}

/// Fails if a part of a request of the program is left out where another program began the request.
#[test]
fn merged_requests_are_whole_or_not_there() {
    let mut case = Case::new();
    case.asks(OTHER, "W", 8, 8);
    case.push(OWN, BlockPoint::BioQueue, "W", 16, 8);
    case.push(OWN, BlockPoint::BackMerge, "W", 16, 8);
    case.is_done("W", 8, 16);
    case.asks(OTHER, "W", 100, 8);
    case.asks(OTHER, "W", 108, 8);
    case.push(OTHER, BlockPoint::RqMerge, "W", 108, 8);
    case.is_done("W", 100, 16);
    case.check("kkkkkkddddddd", &[("write", 1, 8192)]);
}

#[test]
fn what_others_bring_to_the_programs_files_is_kept() {
    let mut case = Case::new();
    assert_eq!(case.says(OTHER, 51, 1, 1), Mark::Dropped);
    assert_eq!(case.says(OTHER, 52, 2, 1), Mark::Dropped);
    // On this device nothing is the program's.
    case.asks(KERNEL, "W", 80, 8);
    case.is_done("W", 80, 8);
    case.opens(51);
    case.asks(KERNEL, "W", 8, 8);
    case.is_done("W", 8, 8);
    case.asks(KERNEL, "W", 16, 8);
    case.is_done("W", 16, 8);
    // No file system has reported this place: it may be the program's. Metadata are not.
    case.asks(KERNEL, "W", 24, 8);
    case.is_done("W", 24, 8);
    case.asks(KERNEL, "WM", 32, 8);
    case.is_done("WM", 32, 8);
    case.asks(OTHER, "R", 8, 8);
    case.is_done("R", 8, 8);
    let facts = case.places.take_facts();
    let [Fact::Text { which: Text::PLACES, text, time, .. }] = facts.as_slice() else {
        panic!("{facts:?}")
    };
    assert_eq!(String::from_utf8_lossy(text), "7:3 51 7:3 bytes 0 4096 4096 0\n");
    assert_eq!(*time, KernelTime(5000 - 1));
    case.check("ddddkkkkddddkkkkdddddddd", &[("read", 1, 4096), ("write", 3, 12288)]);
}

/// Fails if the log has a place that is another file's by now, or one that nobody needs.
#[test]
fn places_that_take_those_of_the_program_are_told() {
    let mut case = Case::new();
    case.opens(51);
    assert_eq!(case.says(KERNEL, 51, 1, 4), Mark::Kept);
    assert_eq!(case.says(OTHER, 52, 100, 4), Mark::Dropped);
    assert_eq!(case.says(OTHER, 52, 3, 1), Mark::Kept);
    let freed = |block| FsEvent::Freed { dev: DEV, block, count: 1 };
    case.places.mounted(b"7:3 4096\n");
    assert_eq!(case.says(OWN, 53, 1, 4), Mark::Kept);
    assert_eq!(case.places.learn(case.now(), &freed(2), false), Mark::Kept);
    assert_eq!(case.places.learn(case.now(), &freed(100), false), Mark::Dropped);
    let gone = |ino| FsEvent::Evicted { dev: DEV, ino };
    assert_eq!(case.places.learn(case.now(), &gone(52), false), Mark::Dropped);
    assert_eq!(case.places.learn(case.now(), &gone(51), false), Mark::Kept);
}

/// Fails if a request that waits in a scheduler holds everything up, or is half in the log.
#[test]
fn what_waits_too_long_is_kept() {
    let mut case = Case::new();
    case.asks(OTHER, "W", 8, 8);
    assert!(!case.marks.is_decided(0));
    case.requests.keep_undecided(0, false, &mut case.marks);
    case.marks.keep_undecided(0);
    assert!(case.marks.is_decided(0));
    assert_eq!(case.marks.take_first().len(), 64);
    case.marks.add(64);
    case.count = 0;
    let records = [(BlockPoint::Issue, "W"), (BlockPoint::Complete, "W")];
    for (place, (point, letters)) in records.into_iter().enumerate() {
        let mut hit = case.at(KERNEL);
        hit.record = RecordRef { chunk: 1, index: place };
        hit.at.time = KernelTime(1 << 30);
        let event = BlockEvent {
            point,
            dev: DEV,
            sector: 8,
            nr_sector: 8,
            error: 0,
            rwbs: Rwbs::new(letters.as_bytes()),
            from: None,
            comm: None,
            chain: None,
        };
        case.requests.push(&hit, &event, &mut case.places, &mut case.marks);
        assert_eq!(case.marks.get(hit.record), Mark::Kept);
    }
    assert_eq!(case.requests.kept_undecided, 1);
    assert!(case.requests.left_out.into_devices().is_empty());
}

/// Fails if a result of the program's is left out because another thread brings it, or another program's operations are kept.
#[test]
fn operations_of_io_uring_are_those_of_their_ring() {
    let mut rings = super::rings::Rings::default();
    let event = |point, ctx| UringEvent {
        point,
        ctx,
        req: None,
        user_data: 0,
        opcode: 0,
        fd: 0,
        res: 0,
        flags: 0,
        cflags: 0,
        sq_thread: false,
        off: None,
        len: None,
    };
    use UringPoint::{Complete, Create, Submit};
    assert_eq!(
        rings.learn(&event(Complete, 7), false),
        Mark::Kept,
        "the ring's process is unknown"
    );
    assert_eq!(rings.learn(&event(Create, 7), false), Mark::Dropped);
    assert_eq!(rings.learn(&event(Submit, 7), false), Mark::Dropped);
    assert_eq!(
        rings.learn(&event(Complete, 7), true),
        Mark::Dropped,
        "the interrupted thread does not matter"
    );
    assert_eq!(rings.learn(&event(Submit, 8), true), Mark::Kept);
    assert_eq!(rings.learn(&event(Complete, 8), false), Mark::Kept);
    // The program has inherited the ring.
    assert_eq!(rings.learn(&event(Submit, 7), true), Mark::Kept);
    assert_eq!(rings.learn(&event(Submit, 7), false), Mark::Kept);
}

/// Fails if a file that the program has opened loses its place among the program's because the file that had its inode before is gone: its open
/// may be known before that record has its turn.
#[test]
fn an_inode_that_is_used_again_is_the_programs() {
    let mut case = Case::new();
    let stat = FileStat { mode: libc::S_IFREG | 0o600, dev: DEV, ino: 51, size: 0 };
    assert!(case.places.opened(KernelTime(2), &stat));
    assert!(case.places.opened(KernelTime(500), &stat));
    let gone = FsEvent::Evicted { dev: DEV, ino: 51 };
    assert_eq!(case.places.learn(KernelTime(400), &gone, false), Mark::Kept);
    assert_eq!(case.says(KERNEL, 51, 1, 1), Mark::Kept);
    case.asks(KERNEL, "W", 8, 8);
    case.is_done("W", 8, 8);
    assert_eq!(case.places.learn(KernelTime(9000), &gone, false), Mark::Kept);
    assert_eq!(case.places.learn(KernelTime(9000), &gone, false), Mark::Dropped);
    case.check("kkkk", &[]);
}

/// Fails if a request that was left out and did not end is in no number.
#[test]
fn what_is_left_out_and_under_way_at_the_end_is_counted() {
    let mut case = Case::new();
    case.asks(OTHER, "WS", 8, 8);
    case.push(KERNEL, BlockPoint::Issue, "WS", 8, 8);
    case.asks(OWN, "WS", 80, 8);
    case.push(KERNEL, BlockPoint::Issue, "WS", 80, 8);
    case.requests.finish();
    let devices = case.requests.left_out.into_devices();
    let counts: Vec<u64> = devices.iter().map(|it| it.not_counted).collect();
    assert_eq!((counts, devices[0].operations.len()), (vec![1], 0));
}
