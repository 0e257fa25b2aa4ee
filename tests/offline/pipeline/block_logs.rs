//! Recorded block requests: are they those that the kernel's own counters count, and do they lead
//! from each disk to the files?

use std::collections::BTreeMap;
use std::convert::Infallible;

use iotrace_perf::analysis::call_totals::BlockTotals;
use iotrace_perf::capture::fact::Text;
use iotrace_perf::operation::attribution::{BlockContents, Piece};
use iotrace_perf::operation::block::{BlockStep, DiskstatsClass};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline::Summary;
use iotrace_perf::units::{DevId, KernelTime};

use super::{Nothing, names, read, run};

/// Requests, merges and sectors of each class, but those that have none of it.
type Counts = BTreeMap<DiskstatsClass, [u64; 3]>;

/// The difference of two texts of `/proc/diskstats` for a device
/// (`Documentation/admin-guide/iostats.rst`).
#[track_caller]
fn by_kernel(summary: &Summary, disk: &str) -> Counts {
    let numbers = |which: Text| -> Vec<u64> {
        let text = String::from_utf8(summary.text(which).expect("recorded").to_vec());
        let text = text.expect("the kernel writes text");
        let line = text.lines().find(|it| it.split_whitespace().nth(2) == Some(disk));
        let fields = line.expect("the disk").split_whitespace().skip(3);
        fields.map(|it| it.parse().expect("a number")).collect()
    };
    let (before, after) = (numbers(Text::DISKSTATS_START), numbers(Text::DISKSTATS_END));
    let more: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let classes = [
        (DiskstatsClass::Read, [more[0], more[1], more[2]]),
        (DiskstatsClass::Write, [more[4], more[5], more[6]]),
        (DiskstatsClass::Discard, [more[11], more[12], more[13]]),
        (DiskstatsClass::Flush, [more[15], 0, 0]),
    ];
    classes.into_iter().filter(|it| it.1 != [0; 3]).collect()
}

/// The device was at rest when the counters were read.
#[test]
fn recorded_requests_equal_the_kernel_counters() {
    let mut compared = 0;
    for name in names("iocap").into_iter().filter(|it| it.contains("/block-")) {
        let (summary, totals, Nothing) = run(&read(&name, "iocap"), Nothing);
        for disk in summary.header.disks.iter().filter(|it| it.name.starts_with("loop")) {
            let dev = DevId::parse(&disk.dev).expect("a number");
            let count = |it: &BlockTotals| [it.requests, it.merges, it.sectors];
            let of_disk = totals.blocks.iter().filter(|it| it.0.0 == dev);
            let ours: Counts = of_disk.map(|((_, class), it)| (*class, count(it))).collect();
            let is_recorded = summary.header.device_filter.is_empty()
                || summary.header.device_filter.contains(&disk.dev);
            if is_recorded {
                assert_eq!(ours, by_kernel(&summary, &disk.name), "{name}: {}", disk.name);
                compared += ours.values().map(|it| it[0]).sum::<u64>();
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

/// A part of a file on a disk: where in the file, how long; on which disk, from which sector on;
/// where on the uppermost device; the programs, and how they are known.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    offset: u64,
    sectors: u64,
    disk: DevId,
    sector: u64,
    top: Option<(DevId, u64)>,
    programs: Vec<String>,
}

/// Pieces of the file of this name in requests of disks.
struct Pieces(&'static str, Vec<Found>);

impl Pieces {
    fn add(&mut self, disk: DevId, piece: &Piece) {
        let BlockContents::File { offset: Some(offset), file: Some(file), .. } = &piece.contents
        else {
            return;
        };
        let path = file.path.as_ref().map_or(&b""[..], |it| &it.bytes);
        if path.ends_with(self.0.as_bytes()) {
            let programs = piece.writers.iter().map(|it| String::from_utf8_lossy(&it.comm).into());
            self.1.push(Found {
                offset: *offset,
                sectors: piece.nr_sector,
                disk,
                sector: piece.sector,
                top: piece.levels.last().map(|it| (it.dev, it.sector)),
                programs: programs.collect(),
            });
        }
    }
}

impl Sink for Pieces {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Block { step: BlockStep::Ended(request), pieces, .. } = step
            && request.diskstats_class() == Some(DiskstatsClass::Write)
        {
            pieces.iter().for_each(|it| self.add(request.dev, it));
        }
        Ok(())
    }
}

/// Writes of this file that reached disks, by place in the file.
#[track_caller]
fn pieces(log: &str, file: &'static str) -> Vec<Found> {
    let (summary, _, pieces) = run(&read(log, "iocap"), Pieces(file, Vec::new()));
    let disks: BTreeMap<DevId, &str> = summary
        .header
        .disks
        .iter()
        .filter_map(|it| Some((DevId::parse(&it.dev)?, it.name.as_str())))
        .collect();
    let is_at_the_bottom = |it: &Found| disks[&it.disk].starts_with("loop");
    let mut found: Vec<Found> = pieces.1.into_iter().filter(is_at_the_bottom).collect();
    found.sort();
    found
}

/// The border between two disks is inside a file: by `scripts/vm/run-check-stacks` the second
/// begins at its sector 24, and the first at 2048.
#[test]
fn file_on_a_linear_device_is_followed_to_both_disks() {
    let found = pieces("v2/block-linear", "/direct");
    let mut end = 0;
    let mut disks = BTreeMap::new();
    for it in &found {
        assert_eq!(it.offset, end, "{found:#?}");
        end += it.sectors * 512;
        let (_, top) = it.top.expect("it came from above");
        // The device begins there on this disk.
        disks.entry(it.disk).or_insert(top.wrapping_sub(it.sector));
        assert_eq!(disks[&it.disk], top.wrapping_sub(it.sector), "{found:#?}");
    }
    assert_eq!((end, disks.len()), (32768, 2), "{found:#?}");
    let border = found.iter().find(|it| it.sector == 24).expect("where the second disk begins");
    assert_eq!(border.offset % 4096, 20 * 512 % 4096, "inside a block of the file system");
    assert!(disks.values().any(|it| *it == 2048_u64.wrapping_neg()));
}

/// Offset of the data on the disks of md, in sectors (`/sys/block/md0/md/rd0/offset` of that
/// machine).
const MD_DATA_OFFSET: u64 = 2048;

/// Each byte is on each disk.
#[test]
fn file_on_a_mirror_is_followed_to_each_disk() {
    for file in ["/direct", "/fsynced"] {
        let found = pieces("v2/block-mirror", file);
        let mut ends: BTreeMap<DevId, u64> = BTreeMap::new();
        for it in &found {
            let end = ends.entry(it.disk).or_default();
            assert_eq!(it.offset, *end, "{found:#?}");
            *end += it.sectors * 512;
            let (md, top) = it.top.expect("it came from above");
            assert_eq!((md.major(), it.sector - top), (9, MD_DATA_OFFSET), "{found:#?}");
        }
        assert_eq!(ends.into_values().collect::<Vec<_>>(), [32768, 32768], "{file}");
    }
}

/// One of the kernel's threads has written what two programs had left in memory.
#[test]
fn writes_of_two_programs_are_distinguished() {
    for (file, blocks) in [("/one", 23), ("/two", 29)] {
        let found = pieces("v2/block-two", file);
        assert_eq!(found.iter().map(|it| it.sectors).sum::<u64>(), blocks * 8, "{found:#?}");
        assert!(found.iter().all(|it| it.programs == ["dd"]), "{found:#?}");
    }
}
