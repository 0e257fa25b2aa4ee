//! Tests of requests of the program and of other programs, event by event.

use super::marks::{Mark, RecordMarks, RecordRef};
use super::places::FilePlaces;
use super::requests::{BlockRecord, SievedRequests};
use crate::block::{BlockOptions, EventContext};
use crate::capture::fact::{Fact, Text};
use crate::capture::header::Disk;
use crate::event::FileStat;
use crate::event::block::{BlockEvent, BlockPoint, Rwbs};
use crate::event::fs::{AddressUnit, Extent, FsEvent};
use crate::event::uring::{UringEvent, UringPoint};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

const DEV: DevId = DevId(7 << 20 | 3);

struct Case {
    requests: SievedRequests,
    places: FilePlaces,
    marks: RecordMarks,
    count: usize,
}

/// Threads of the program, of another program, and of the kernel.
const OWN: i32 = 100;
const OTHER: i32 = 200;
const KERNEL: i32 = 300;

impl Case {
    fn new() -> Self {
        let mut marks = RecordMarks::default();
        marks.add(64);
        let places = FilePlaces::new(true);
        Self { requests: SievedRequests::new(BlockOptions::default()), places, marks, count: 0 }
    }

    fn at(&mut self, tid: i32) -> BlockRecord {
        self.count += 1;
        let time = KernelTime(1000 * self.count as u64);
        let at = EventContext { time, cpu: CpuId(0), pid: Pid(tid), tid: Tid(tid) };
        let record = RecordRef { chunk: 0, index: self.count - 1 };
        BlockRecord { at, record, by_own: tid == OWN }
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

    /// Queues a bio and gets its request.
    fn request(&mut self, tid: i32, letters: &str, sector: u64, nr_sector: u32) {
        self.push(tid, BlockPoint::BioQueue, letters, sector, nr_sector);
        self.push(tid, BlockPoint::GetRq, letters, sector, nr_sector);
    }

    /// Issues and completes the request; the completion interrupts a thread of the program.
    fn is_done(&mut self, letters: &str, sector: u64, nr_sector: u32) {
        self.push(KERNEL, BlockPoint::Issue, letters, sector, nr_sector);
        self.push(OWN, BlockPoint::Complete, letters, sector, nr_sector);
    }

    fn extent(&mut self, tid: i32, ino: u64, block: u64, count: u64) -> Mark {
        let (offset, length, address, unit) = (0, count * 4096, block * 4096, AddressUnit::Bytes);
        let dev = DEV;
        let it = Extent { dev, ino, on: DEV, unit, offset, length, address, is_shared: false };
        self.places.learn(self.now(), &FsEvent::Extent(it), tid == OWN)
    }

    fn opens(&mut self, ino: u64) {
        let stat = FileStat { mode: libc::S_IFREG | 0o600, dev: DEV, ino, size: 0 };
        assert!(self.places.opened(self.now(), &stat));
    }

    /// Checks the marks of all records: `k` kept, `d` dropped, `?` undecided.
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
    case.request(OTHER, "WS", 8, 8);
    case.request(OWN, "WS", 8, 8);
    case.is_done("WS", 8, 8);
    case.is_done("WS", 8, 8);
    case.check("ddkkddkk", &[("write", 1, 4096)]);
}

#[test]
fn flushes_are_kept_with_their_dependents() {
    let mut case = Case::new();
    case.request(OTHER, "FWS", 0, 0);
    case.push(KERNEL, BlockPoint::Issue, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FWS", 0, 0);
    case.request(OWN, "FWS", 0, 0);
    case.push(KERNEL, BlockPoint::Issue, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FF", 0, 0);
    case.push(KERNEL, BlockPoint::Complete, "FWS", 0, 0);
    case.check("dddddkkkkk", &[("flush", 1, 0), ("write", 1, 0)]);
}

/// Fails if a part of a request of the program is left out where another program began the request.
#[test]
fn merged_requests_are_whole_or_not_there() {
    let mut case = Case::new();
    case.request(OTHER, "W", 8, 8);
    case.push(OWN, BlockPoint::BioQueue, "W", 16, 8);
    case.push(OWN, BlockPoint::BackMerge, "W", 16, 8);
    case.is_done("W", 8, 16);
    case.request(OTHER, "W", 100, 8);
    case.request(OTHER, "W", 108, 8);
    case.push(OTHER, BlockPoint::RqMerge, "W", 108, 8);
    case.is_done("W", 100, 16);
    case.check("kkkkkkddddddd", &[("write", 1, 8192)]);
}

#[test]
fn writes_of_others_to_the_program_files_are_kept() {
    let mut case = Case::new();
    assert_eq!(case.extent(OTHER, 51, 1, 1), Mark::Dropped);
    assert_eq!(case.extent(OTHER, 52, 2, 1), Mark::Dropped);
    // On this device no file is the program's yet.
    case.request(KERNEL, "W", 80, 8);
    case.is_done("W", 80, 8);
    case.opens(51);
    case.request(KERNEL, "W", 8, 8);
    case.is_done("W", 8, 8);
    case.request(KERNEL, "W", 16, 8);
    case.is_done("W", 16, 8);
    // No file system has reported this location: it may be the program's. Metadata is not.
    case.request(KERNEL, "W", 24, 8);
    case.is_done("W", 24, 8);
    case.request(KERNEL, "WM", 32, 8);
    case.is_done("WM", 32, 8);
    case.request(OTHER, "R", 8, 8);
    case.is_done("R", 8, 8);
    let facts = case.places.take_facts();
    let [Fact::Text { which: Text::PLACES, text, time, .. }] = facts.as_slice() else {
        panic!("{facts:?}")
    };
    assert_eq!(String::from_utf8_lossy(text), "7:3 51 7:3 bytes 0 4096 4096 0\n");
    assert_eq!(*time, KernelTime(5000 - 1));
    case.check("ddddkkkkddddkkkkdddddddd", &[("read", 1, 4096), ("write", 3, 12288)]);
}

/// Fails if the log has an extent that belongs to another file by now, or an extent that is not
/// needed.
#[test]
fn reused_places_of_the_program_are_reported() {
    let mut case = Case::new();
    case.opens(51);
    assert_eq!(case.extent(KERNEL, 51, 1, 4), Mark::Kept);
    assert_eq!(case.extent(OTHER, 52, 100, 4), Mark::Dropped);
    assert_eq!(case.extent(OTHER, 52, 3, 1), Mark::Kept);
    let freed = |block| FsEvent::Freed { dev: DEV, block, count: 1 };
    case.places.mounted(b"7:3 4096\n");
    assert_eq!(case.extent(OWN, 53, 1, 4), Mark::Kept);
    assert_eq!(case.places.learn(case.now(), &freed(2), false), Mark::Kept);
    assert_eq!(case.places.learn(case.now(), &freed(100), false), Mark::Dropped);
    let gone = |ino| FsEvent::Evicted { dev: DEV, ino };
    assert_eq!(case.places.learn(case.now(), &gone(52), false), Mark::Dropped);
    assert_eq!(case.places.learn(case.now(), &gone(51), false), Mark::Kept);
}

/// Fails if a request that waits in a scheduler blocks the log, or is partly in the log.
#[test]
fn overdue_requests_are_kept() {
    let mut case = Case::new();
    case.request(OTHER, "W", 8, 8);
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

/// Fails if a result of the program's operation is left out because another thread reports it, or
/// if another program's operations are kept.
#[test]
fn operations_of_io_uring_are_those_of_their_ring() {
    let mut rings = super::rings::UringOwners::default();
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
    // After lost records the ring may be the program's, until another thread submits to it.
    rings.records_lost();
    assert_eq!(rings.learn(&event(Complete, 7), false), Mark::Kept);
    assert_eq!(rings.learn(&event(Submit, 7), false), Mark::Dropped);
    // The program has inherited the ring.
    assert_eq!(rings.learn(&event(Submit, 7), true), Mark::Kept);
    assert_eq!(rings.learn(&event(Submit, 7), false), Mark::Kept);
}

/// Fails if a file that the program has opened is no longer the program's because the previous file
/// with its inode was evicted: the open may be known before that record is processed.
#[test]
fn an_inode_that_is_used_again_is_the_programs() {
    let mut case = Case::new();
    let stat = FileStat { mode: libc::S_IFREG | 0o600, dev: DEV, ino: 51, size: 0 };
    assert!(case.places.opened(KernelTime(2), &stat));
    assert!(case.places.opened(KernelTime(500), &stat));
    let gone = FsEvent::Evicted { dev: DEV, ino: 51 };
    assert_eq!(case.places.learn(KernelTime(400), &gone, false), Mark::Kept);
    assert_eq!(case.extent(KERNEL, 51, 1, 1), Mark::Kept);
    case.request(KERNEL, "W", 8, 8);
    case.is_done("W", 8, 8);
    assert_eq!(case.places.learn(KernelTime(9000), &gone, false), Mark::Kept);
    assert_eq!(case.places.learn(KernelTime(9000), &gone, false), Mark::Dropped);
    case.check("kkkk", &[]);
}

/// Fails if a request that was left out and did not end is not counted.
#[test]
fn dropped_requests_in_flight_at_the_end_are_counted() {
    let mut case = Case::new();
    case.request(OTHER, "WS", 8, 8);
    case.push(KERNEL, BlockPoint::Issue, "WS", 8, 8);
    case.request(OWN, "WS", 80, 8);
    case.push(KERNEL, BlockPoint::Issue, "WS", 80, 8);
    case.requests.finish();
    let devices = case.requests.left_out.into_devices();
    let counts: Vec<u64> = devices.iter().map(|it| it.not_counted).collect();
    assert_eq!((counts, devices[0].operations.len()), (vec![1], 0));
}

/// Fails if a loss leaves out records that may be the program's, or forgets earlier omissions.
#[test]
fn undecided_requests_are_kept_after_a_loss() {
    let mut case = Case::new();
    case.request(OTHER, "W", 8, 8);
    case.push(KERNEL, BlockPoint::Issue, "W", 8, 8);
    case.request(OTHER, "W", 80, 8);
    case.push(OTHER, BlockPoint::BioQueue, "W", 160, 8);
    case.requests.records_lost(&mut case.marks);
    case.push(KERNEL, BlockPoint::Complete, "W", 8, 8);
    case.is_done("W", 80, 8);
    case.check("dddkkkdkk", &[("write", 1, 4096)]);
}

/// Fails if a request whose first records were lost, or that was in flight at the start, is taken
/// for another program's.
#[test]
fn a_request_without_a_beginning_is_kept() {
    let mut case = Case::new();
    case.is_done("W", 8, 8);
    case.push(KERNEL, BlockPoint::Insert, "W", 80, 8);
    case.is_done("W", 80, 8);
    case.push(OWN, BlockPoint::Complete, "W", 800, 8);
    case.check("kkkkkk", &[]);
}

/// Fails if the bio of another program is in the log and its request is not: a reader would take
/// the bio for a part of a later request.
#[test]
fn a_bio_that_waited_too_long_brings_its_requests() {
    let mut case = Case::new();
    case.push(OTHER, BlockPoint::BioQueue, "W", 8, 16);
    case.marks.add(64);
    let late = |case: &mut Case, tid, point, sector, nr_sector| {
        let mut hit = case.at(tid);
        hit.record.chunk = 1;
        let event = BlockEvent {
            point,
            dev: DEV,
            sector,
            nr_sector,
            error: 0,
            rwbs: Rwbs::new(b"W"),
            from: None,
            comm: None,
            chain: None,
        };
        case.requests.push(&hit, &event, &mut case.places, &mut case.marks);
        hit.record
    };
    let first = late(&mut case, OTHER, BlockPoint::GetRq, 8, 8);
    case.requests.keep_undecided(0, false, &mut case.marks);
    case.marks.keep_undecided(0);
    assert_eq!(case.marks.get(first), Mark::Kept);
    let second = late(&mut case, OTHER, BlockPoint::GetRq, 16, 8);
    for (sector, request) in [(8, first), (16, second)] {
        let issued = late(&mut case, KERNEL, BlockPoint::Issue, sector, 8);
        let completed = late(&mut case, KERNEL, BlockPoint::Complete, sector, 8);
        let marks = [request, issued, completed].map(|it| case.marks.get(it));
        assert_eq!(marks, [Mark::Kept; 3], "{sector}");
    }
    assert_eq!(case.requests.kept_undecided, 1);
    assert!(case.requests.left_out.into_devices().is_empty());
}

/// Fails if one of two requests of a bio is left out and the other is not.
#[test]
fn requests_of_one_bio_are_kept_together() {
    let mut case = Case::new();
    case.push(OTHER, BlockPoint::BioQueue, "W", 8, 16);
    case.push(OTHER, BlockPoint::GetRq, "W", 8, 8);
    case.push(OTHER, BlockPoint::GetRq, "W", 16, 8);
    case.push(OWN, BlockPoint::BioQueue, "W", 24, 8);
    case.push(OWN, BlockPoint::BackMerge, "W", 24, 8);
    case.is_done("W", 16, 16);
    case.is_done("W", 8, 8);
    case.check("kkkkkkkkk", &[]);
}

/// Fails if requests of another program to a device are always in the log because another device
/// was stacked on it once.
#[test]
fn devices_of_a_stack_are_plain_disks_after_it() {
    let mut case = Case::new();
    let disk = |holders: &[&str]| Disk {
        dev: DEV.to_string(),
        name: "sda".into(),
        holders: holders.iter().map(|it| (*it).to_owned()).collect(),
        ..Disk::default()
    };
    case.requests.has_only_disks(&[disk(&["dm-0"])]);
    case.request(OTHER, "W", 8, 8);
    case.is_done("W", 8, 8);
    case.request(OTHER, "W", 80, 8);
    // Requests that have begun stay in the log.
    case.requests.has_only_disks(&[disk(&[])]);
    case.is_done("W", 80, 8);
    case.request(OTHER, "W", 8, 8);
    case.is_done("W", 8, 8);
    case.requests.add_disks(&[disk(&["dm-0"])]);
    case.request(OTHER, "W", 8, 8);
    case.is_done("W", 8, 8);
    case.check("kkkkkkkkddddkkkk", &[("write", 1, 4096)]);
}

/// Fails if a partition that is created during the recording makes its disk a stacked device.
#[test]
fn a_partition_that_is_new_is_looked_for() {
    let mut case = Case::new();
    let partition = DevId(259 << 20 | 1);
    let event = |from| BlockEvent {
        point: BlockPoint::Remap,
        dev: DEV,
        sector: 2056,
        nr_sector: 8,
        error: 0,
        rwbs: Rwbs::new(b"W"),
        from: Some(crate::event::block::DevicePosition { dev: from, sector: 8 }),
        comm: None,
        chain: None,
    };
    assert!(case.requests.is_of_unknown(&event(partition)));
    assert!(!case.requests.is_of_unknown(&event(partition)), "once is enough");
    let hit = case.at(OTHER);
    case.requests.push(&hit, &event(partition), &mut case.places, &mut case.marks);
    let part = crate::capture::header::Partition {
        dev: partition.to_string(),
        ..crate::capture::header::Partition::default()
    };
    let disk = Disk { dev: DEV.to_string(), partitions: vec![part], ..Disk::default() };
    case.requests.has_only_disks(&[disk]);
    let hit = case.at(OTHER);
    case.requests.push(&hit, &event(partition), &mut case.places, &mut case.marks);
    case.request(OTHER, "W", 2056, 8);
    case.is_done("W", 2056, 8);
    case.check("kddddd", &[("write", 1, 4096)]);
}

/// Fails if the program's writes to a file received from another program do not make the file its
/// own.
#[test]
fn file_queried_for_extents_belongs_to_the_program() {
    let mut case = Case::new();
    assert_eq!(case.extent(OWN, 51, 1, 1), Mark::Kept);
    case.request(KERNEL, "W", 8, 8);
    case.is_done("W", 8, 8);
    case.check("kkkk", &[]);
}
