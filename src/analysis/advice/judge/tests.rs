//! Rules about habits and devices, with operations made by hand: each with an input that it finds,
//! and with one that is just not enough. Times are ns.

use std::sync::Arc;

use super::super::finding::AdviceAmount;
use super::super::finding::AdviceAmount::{Bytes, Count, Ns};
use super::*;
use crate::analysis::completed_op::CompletedOp;
use crate::analysis::summary::KeyParts;
use crate::anomaly::Link;

use crate::capture::header::{Disk, End, Header, Host, Partition, Tracepoint};
use crate::event::FileStat;
use crate::event::block::RequestOp;
use crate::event::layer::{COMMIT, Layer};
use crate::operation::attribution::BlockContents;
use crate::operation::block::{BlockRequest, BlockStep};
use crate::operation::model::{FilePath, OpenFile, PathSource, SyscallOperation, ThreadKey};
use crate::operation::span::Span;
use crate::operation::{Sink, Step, test_fixtures};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

const MS: u64 = 1_000_000;
const PAGE: u64 = 4096;
const INODE: u64 = 17;
const DIRECT: u32 = libc::O_DIRECT.unsigned_abs();
const REFUSED: i64 = -(libc::EINVAL as i64);

fn disk() -> DevId {
    DevId::new(8, 1)
}

/// Folds of the operations of a test.
struct FoldedCalls {
    fold: AdviceFold,
    recording: Summary,
    time: u64,
}

/// Place of a finding: name, count, bytes, time.
type ShownPlace<'a> = (&'a str, u64, u64, u64);

impl FoldedCalls {
    /// Creates the folds of a recording that lacks nothing, of a machine with these disks.
    fn of_disks(disks: Vec<Disk>) -> Self {
        let tracepoint = Tracepoint { system: "block".to_owned(), ..Tracepoint::default() };
        let calls = ["openat", "pread64", "pwrite64", "fsync", "dup"].map(str::to_owned).to_vec();
        let header = Header {
            host: Host { page_bytes: PAGE, ..Host::default() },
            calls,
            names: "kprobe".to_owned(),
            layers: Some("kprobe".to_owned()),
            tracepoints: vec![tracepoint],
            disks,
            ..Header::default()
        };
        let fold = AdviceFold::new(&header, DIRECT);
        let recording = Summary { header, end: Some(End::default()), ..Summary::default() };
        Self { fold, recording, time: 0 }
    }

    fn new() -> Self {
        Self::of_disks(Vec::new())
    }

    fn step(&mut self, step: &Step<'_>) {
        self.time += 1;
        let time = KernelTime(self.time);
        self.fold.facts.take(time, step, CompletedOp::of(step).as_ref(), true);
        let Ok(()) = self.fold.summary.step(time, step);
        if let Some(files) = &mut self.fold.files {
            let Ok(()) = files.step(time, step);
        }
    }

    fn call(&mut self, operation: &SyscallOperation) {
        self.step(&Step::SyscallEnded(operation, &[]));
    }

    /// Adds a completed read of a disk, of the file if it has an offset.
    fn disk_read(&mut self, request: &BlockRequest, offset: Option<u64>) {
        let contents = match offset {
            Some(_) => {
                BlockContents::File { key: (disk(), INODE), offset, file: None, link: Link::Exact }
            }
            None => BlockContents::Unknown,
        };
        let pieces = [test_fixtures::piece(request, contents)];
        let step = BlockStep::Ended(request);
        self.step(&Step::Block { step: &step, thread: None, pieces: &pieces });
    }

    fn of_rule(&self, rule: RuleId) -> Vec<AdviceFinding> {
        let advice = judge(&AdviceInput::of(&self.fold, &self.recording, &[]));
        let unjudged = advice.not_judged.iter().find(|unjudged| unjudged.rule == rule);
        assert_eq!(unjudged, None);
        advice.findings.into_iter().filter(|finding| finding.rule == rule).collect()
    }

    #[track_caller]
    fn check(&self, rule: RuleId, amounts: &[AdviceAmount], places: &[ShownPlace<'_>]) {
        let found = self.of_rule(rule);
        let [found] = found.as_slice() else { panic!("{rule:?}: {found:?}") };
        assert_eq!((found.severity, found.amounts.as_slice()), (rule.rule().severity, amounts));
        let place = |place: &super::super::finding::AdvicePlace| {
            let name = String::from_utf8_lossy(KeyParts::of(&place.key).path).into_owned();
            (name, place.count, place.bytes, place.time_ns)
        };
        let shown: Vec<_> = found.places.iter().map(place).collect();
        let expected = places.iter().map(|place| (place.0.to_owned(), place.1, place.2, place.3));
        assert_eq!(shown, expected.collect::<Vec<_>>());
    }

    #[track_caller]
    fn check_quiet(&self, rule: RuleId) {
        let found = self.of_rule(rule);
        assert!(found.is_empty(), "{found:?}");
    }
}

/// Returns the open file `/d/a`.
fn file(flags: u32, size: u64) -> Arc<OpenFile> {
    Arc::new(OpenFile {
        id: 1,
        path: Some(FilePath::new("/d/a", PathSource::Link)),
        first_path: None,
        given: None,
        stat: Some(FileStat { mode: libc::S_IFREG, dev: disk(), ino: INODE, size }),
        flags: Some(flags),
        pre_created: false,
    })
}

fn call(name: &str, times: [u64; 2], offset: Option<u64>, ret: i64) -> SyscallOperation {
    test_fixtures::call(name, file(2, 0), times, offset, ret)
}

/// A sync of 53 ms, 41 ms of which it waits for a commit.
fn committed(number: u64, commit_ns: u64) -> SyscallOperation {
    let begin = number * 100 * MS;
    let commit = Span {
        layer: Layer::Journal,
        what: COMMIT,
        begin: KernelTime(begin + MS),
        end: KernelTime(begin + MS + commit_ns),
    };
    let sync = call("fsync", [begin, begin + 53 * MS], None, 0);
    SyscallOperation { spans: vec![commit], ..sync }
}

#[test]
fn syncs_that_wait_for_commits_are_found() {
    let rule = RuleId::JournalCommits;
    let mut recorded = FoldedCalls::new();
    (0..2).for_each(|number| recorded.call(&committed(number, 41 * MS)));
    recorded.check_quiet(rule);
    recorded.call(&committed(2, 41 * MS));
    recorded.check(
        rule,
        &[Count(3, "sync that waited"), Ns(123 * MS, "for commits"), Ns(159 * MS, "in all syncs")],
        &[("/d/a", 3, 0, 123 * MS)],
    );
    // Less than half of the time of all syncs.
    recorded.call(&committed(3, 0));
    recorded.call(&committed(4, 0));
    recorded.check_quiet(rule);
}

#[test]
fn throttled_writers_are_found() {
    let rule = RuleId::ThrottledWriters;
    let mut recorded = FoldedCalls::new();
    let throttled = |number: u64| {
        let begin = number * 100 * MS;
        let (layer, what) = (Layer::Throttle, "balance_dirty_pages");
        let end = KernelTime(begin + 37 * MS);
        let span = Span { layer, what, begin: KernelTime(begin), end };
        let write = call("pwrite64", [begin, begin + 43 * MS], Some(number * 4099), 4099);
        SyscallOperation { spans: vec![span], ..write }
    };
    (0..2).for_each(|number| recorded.call(&throttled(number)));
    recorded.check_quiet(rule);
    recorded.call(&throttled(2));
    let amounts = [Count(3, "call"), Ns(111 * MS, "throttled")];
    recorded.check(rule, &amounts, &[("/d/a", 3, 0, 111 * MS)]);
}

/// Writes of 3 ms, each of which begins 1 ms before the end of the one before.
fn overlapping(recorded: &mut FoldedCalls, count: u64, threads: u32) {
    for number in 0..count {
        let begin = number * 2 * MS;
        let write = call("pwrite64", [begin, begin + 3 * MS], Some(number * 11), 11);
        let thread = ThreadKey(u32::try_from(number).expect("few") % threads);
        recorded.call(&SyscallOperation { thread, ..write });
    }
}

#[test]
fn threads_that_write_one_file_are_found() {
    let rule = RuleId::SharedFile;
    let mut recorded = FoldedCalls::new();
    overlapping(&mut recorded, 103, 2);
    let amounts = [Count(102, "write"), Ns(102 * MS, "beside another one")];
    recorded.check(rule, &amounts, &[("/d/a", 102, 102 * 11, 102 * MS)]);
    for (count, threads) in [(100, 2), (103, 1)] {
        let mut recorded = FoldedCalls::new();
        overlapping(&mut recorded, count, threads);
        recorded.check_quiet(rule);
    }
}

fn partitioned(starts: &[u64]) -> FoldedCalls {
    let partition = |(number, start): (usize, &u64)| Partition {
        name: format!("vdz{number}"),
        start_sectors: Some(*start),
        ..Partition::default()
    };
    let partitions = starts.iter().enumerate().map(partition).collect();
    FoldedCalls::of_disks(vec![Disk { name: "vdz".to_owned(), partitions, ..Disk::default() }])
}

#[test]
fn misaligned_partitions_are_found() {
    let rule = RuleId::MisalignedPartition;
    let amounts = [Count(2, "partition")];
    let places = [("vdz2", 1, 2053 * SECTOR_BYTES, 0), ("vdz0", 1, 61 * SECTOR_BYTES, 0)];
    partitioned(&[61, 2048, 2053]).check(rule, &amounts, &places);
    partitioned(&[8, 2048]).check_quiet(rule);
}

#[test]
fn names_that_take_more_time_than_data_are_found() {
    let rule = RuleId::MetadataHeavy;
    let heavy = |opens: u64, read_ns: u64| {
        let mut recorded = FoldedCalls::new();
        for number in 0..opens {
            recorded.call(&call("openat", [number * 10, number * 10 + 7], None, 3));
        }
        recorded.call(&call("pread64", [0, read_ns], Some(0), 11));
        recorded
    };
    let amounts = [
        Count(1009, "call for names"),
        Ns(7063, "in them"),
        Count(1, "call for data"),
        Ns(3531, "in those"),
    ];
    heavy(1009, 3531).check(rule, &amounts, &[]);
    heavy(1009, 3532).check_quiet(rule);
    heavy(997, 1).check_quiet(rule);
}

/// Reads of a page each, for which a disk reads more; `place` orders them.
fn page_reads(pages: u64, place: impl Fn(u64) -> u64) -> FoldedCalls {
    let mut recorded = FoldedCalls::new();
    for number in 0..131 {
        let (begin, offset) = (number * 100, place(number) * 4 * PAGE);
        let sectors = u32::try_from(pages * PAGE / SECTOR_BYTES).expect("few");
        let times = [begin + 10, begin + 50];
        let sector = offset / SECTOR_BYTES;
        let request = test_fixtures::request(disk(), RequestOp::Read, sector, sectors, times);
        recorded.disk_read(&request, Some(offset));
        recorded.call(&call("pread64", [begin, begin + 60], Some(offset), 4096));
    }
    recorded
}

#[test]
fn useless_readahead_is_found() {
    let rule = RuleId::UselessReadahead;
    let random = |number: u64| number * number * number % 131;
    let unused = 131 * 2 * PAGE;
    let amounts = [Bytes(unused, "read by disks and not used"), Count(131, "random read")];
    page_reads(3, random).check(rule, &amounts, &[("/d/a", 131, unused, 0)]);
    // Nothing is read ahead; the reads are in order.
    page_reads(1, random).check_quiet(rule);
    page_reads(3, |number| number).check_quiet(rule);
}

/// Reads of a whole file, the first ones from a disk.
fn whole_reads(flags: u32, from_disk: u64) -> FoldedCalls {
    const FILE: u32 = 257 * 4096;
    let bytes = u64::from(FILE);
    let mut recorded = FoldedCalls::new();
    for number in 0..3 {
        let begin = number * 100;
        if number < from_disk {
            let sectors = FILE / 512;
            let times = [begin + 10, begin + 50];
            let request = test_fixtures::request(disk(), RequestOp::Read, 8, sectors, times);
            recorded.disk_read(&request, Some(0));
        }
        let times = [begin, begin + 60];
        let open = file(flags, bytes);
        recorded.call(&test_fixtures::call("pread64", open, times, Some(0), FILE.into()));
    }
    recorded
}

#[test]
fn thrashing_of_the_page_cache_is_found() {
    let rule = RuleId::CacheThrash;
    let beyond = 2 * 257 * PAGE;
    let amounts = [Bytes(beyond, "read by disks beyond the size of the files")];
    whole_reads(2, 3).check(rule, &amounts, &[("/d/a", 3, beyond, 0)]);
    whole_reads(2, 1).check_quiet(rule);
    // Past the cache.
    whole_reads(2 | DIRECT, 3).check_quiet(rule);
}

/// Direct reads: of 512 bytes, and of pages that the file system refuses.
fn direct_reads(unaligned: u64, refused: u64) -> FoldedCalls {
    let mut recorded = FoldedCalls::new();
    let open = file(2 | DIRECT, 1 << 20);
    let mut read = |offset: u64, bytes: u64, ret: i64| {
        let call = test_fixtures::call("pread64", Arc::clone(&open), [1, 2], Some(offset), ret);
        recorded.call(&SyscallOperation { bytes_requested: Some(bytes), ..call });
    };
    (0..unaligned).for_each(|number| read(number * 512, 512, 512));
    (0..refused).for_each(|number| read(number * PAGE, PAGE, REFUSED));
    (0..211).for_each(|number| read(number * PAGE, PAGE, 4096));
    recorded
}

#[test]
fn unaligned_direct_reads_are_found() {
    let rule = RuleId::DirectUnaligned;
    let amounts =
        |counts: [u64; 2]| [Count(counts[0], "unaligned access"), Count(counts[1], "refusal")];
    direct_reads(101, 0).check(rule, &amounts([101, 0]), &[("/d/a", 101, 101 * 512, 101)]);
    direct_reads(0, 11).check(rule, &amounts([0, 11]), &[("/d/a", 11, 0, 11)]);
    direct_reads(97, 7).check_quiet(rule);
    // Vectored reads of 512 bytes: the last one may be cut by the end of the file.
    for (reads, found) in [(101, true), (100, false)] {
        let mut recorded = FoldedCalls::new();
        let open = file(2 | DIRECT, reads * PAGE + 512);
        for number in 1..=reads {
            let offset = Some(number * PAGE);
            recorded.call(&test_fixtures::call("preadv", Arc::clone(&open), [1, 2], offset, 512));
        }
        assert_eq!(recorded.of_rule(rule).len(), usize::from(found));
    }
}

/// Requests of 7 sectors to a disk with a queue of this length, the last one beside another one if
/// that is wanted.
fn requests(queue: &str, count: u64, is_overlapping: bool) -> FoldedCalls {
    let attribute = ("queue/nr_requests".to_owned(), queue.to_owned());
    let mut recorded = FoldedCalls::of_disks(vec![Disk {
        dev: "8:1".to_owned(),
        name: "vdz".to_owned(),
        attributes: [attribute].into(),
        ..Disk::default()
    }]);
    for number in 0..count {
        let is_early = is_overlapping && number + 1 == count;
        let begin = number * 10 - if is_early { 6 } else { 0 };
        let times = [begin, begin + 5];
        let request = test_fixtures::request(disk(), RequestOp::Read, number * 7, 7, times);
        recorded.disk_read(&request, None);
    }
    recorded
}

#[test]
fn one_request_at_a_time_is_found() {
    let rule = RuleId::OneAtATime;
    let bytes = 1009 * 7 * SECTOR_BYTES;
    let amounts = [Count(1009, "request"), Bytes(bytes, "moved"), Count(1, "at once")];
    requests("61", 1009, false).check(rule, &amounts, &[("vdz", 1009, bytes, 0)]);
    requests("61", 997, false).check_quiet(rule);
    requests("61", 1009, true).check_quiet(rule);
    requests("31", 1009, false).check_quiet(rule);
}

/// Fails if a rule is silent about a recording without any facts.
#[test]
fn rules_without_facts_are_listed() {
    let fold = AdviceFold::new(&Header::default(), 0);
    let recording = Summary::default();
    let advice = judge(&AdviceInput::of(&fold, &recording, &[RuleId::SyncAll]));
    let whole = advice.not_judged.iter().filter(|one| one.cases.is_none()).count() as u64;
    assert_eq!((advice.judged + whole, advice.ignored), (24, 1));
    assert!(advice.findings.is_empty());
    let reason = |rule: RuleId| {
        let found = advice.not_judged.iter().find(|one| one.rule == rule);
        found.map(|one| one.reason.as_str())
    };
    assert_eq!(reason(RuleId::StatStorm), Some("no %stat in this log (record -e %default,%stat)"));
    assert_eq!(
        reason(RuleId::CacheThrash),
        Some("no block in this log (record -e %default,block)")
    );
    assert_eq!(reason(RuleId::RenameUnsynced), Some("the log is damaged, or did not end in order"));
}

/// Fails if a summary judges rules whose folds it does not have.
#[test]
fn summary_judges_rules_that_cost_little() {
    let fold = AdviceFold::brief(0, IoSummary::default());
    let advice = judge(&AdviceInput::of(&fold, &Summary::default(), &[]));
    assert_eq!(advice.ignored, 7);
}
