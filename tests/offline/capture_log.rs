//! The capture log against everything that may befall a file: cut at any byte, any byte flipped,
//! written by a newer or another version, no room left. What is whole is read, what is not is
//! counted, nothing panics.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use iotrace_perf::capture::format::{
    Codec, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, MAJOR, MINOR,
    PAYLOAD_BYTES_MAX,
};
use iotrace_perf::capture::reader::{Item, OpenError, Reader};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline::{self, PipelineError, Summary};
use iotrace_perf::units::KernelTime;
use proptest::prelude::*;

use crate::support::driver::process::is_own_process;

mod prefetch;
mod writing;

const LOGS: [&str; 5] = ["dd", "fio", "lost", "pipes", "tar"];

fn corpus_log(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v1");
    std::fs::read(directory.join(name).with_extension("iocap")).expect("a log of the corpus")
}

/// Reads to the end and checks that every byte of the file is accounted for.
#[track_caller]
fn items(log: &[u8]) -> Vec<Item> {
    let mut reader = Reader::new(log).expect("a log");
    let items: Vec<Item> =
        std::iter::from_fn(|| reader.next_item().expect("memory can be read")).collect();
    let sum: u64 = items.iter().map(length).sum();
    assert_eq!(
        FILE_HEADER_BYTES as u64 + sum,
        log.len() as u64,
        "each byte is delivered or counted as damaged"
    );
    items
}

/// Bytes of the file that an item covers.
fn length(item: &Item) -> u64 {
    match item {
        Item::Frame(header, _) => FRAME_HEADER_BYTES as u64 + u64::from(header.stored_bytes),
        Item::Damaged { bytes, .. } => *bytes,
    }
}

/// The frames of an undamaged log and where each begins; last of all where the log ends.
fn frames(log: &[u8]) -> (Vec<Item>, Vec<usize>) {
    let items = items(log);
    assert!(items.iter().all(|it| matches!(it, Item::Frame(..))), "the corpus is not damaged");
    let mut starts = vec![FILE_HEADER_BYTES];
    for item in &items {
        let end = starts.last().copied().unwrap_or(0)
            + usize::try_from(length(item)).expect("a small log");
        starts.push(end);
    }
    (items, starts)
}

/// Number of the frame that this byte is in.
fn frame_of(starts: &[usize], position: usize) -> usize {
    starts.partition_point(|&start| start <= position) - 1
}

/// A log whose middle is this row of frames of the log: short enough to be read once per byte.
fn excerpt(log: &[u8], frames: std::ops::Range<usize>, starts: &[usize]) -> Vec<u8> {
    let (start, end) = (starts[frames.start], starts[frames.end]);
    [&log[..FILE_HEADER_BYTES], &log[start..end]].concat()
}

/// Calls `check` with every excerpt of three frames, or the whole log if it has fewer.
fn for_each_excerpt(log: &[u8], mut check: impl FnMut(&[u8])) {
    let (items, starts) = frames(log);
    for first in (0..items.len()).step_by(2) {
        check(&excerpt(log, first..items.len().min(first + 3), &starts));
    }
}

#[test]
fn every_prefix_gives_its_whole_frames() {
    for name in LOGS {
        let log = corpus_log(name);
        for end in 0..FILE_HEADER_BYTES {
            assert!(
                matches!(Reader::new(&log[..end]), Err(OpenError::NotALog)),
                "{name}: {end} bytes"
            );
        }
        for_each_excerpt(&log, |log| {
            let (whole, starts) = frames(log);
            for end in FILE_HEADER_BYTES..log.len() {
                let got = items(&log[..end]);
                let count = frame_of(&starts, end);
                assert_eq!(got[..count], whole[..count], "{name}: {end} bytes");
                let rest = (end - starts[count]) as u64;
                let torn =
                    Item::Damaged { offset: starts[count] as u64, bytes: rest, at_end: true };
                let expected = if rest == 0 { vec![] } else { vec![torn] };
                assert_eq!(got[count..], expected, "{name}: {end} bytes");
            }
        });
    }
}

#[test]
fn flipped_byte_loses_only_its_frame() {
    for name in LOGS {
        for_each_excerpt(&corpus_log(name), |log| {
            let (whole, starts) = frames(log);
            let mut log = log.to_vec();
            for position in FILE_HEADER_BYTES..log.len() {
                log[position] ^= 1 << (position % 8);
                let got = items(&log);
                log[position] ^= 1 << (position % 8);
                let which = frame_of(&starts, position);
                let (start, end) = (starts[which], starts[which + 1]);
                let at_end = end == log.len();
                assert_eq!(got.len(), whole.len(), "{name}: byte {position}");
                for (number, (got, whole)) in got.iter().zip(&whole).enumerate() {
                    if number == which {
                        let bytes = (end - start) as u64;
                        assert_eq!(
                            *got,
                            Item::Damaged { offset: start as u64, bytes, at_end },
                            "{name}: {position}"
                        );
                    } else {
                        assert_eq!(got, whole, "{name}: byte {position}, frame {number}");
                    }
                }
            }
        });
    }
}

#[test]
fn first_bytes_identify_a_log() {
    let log = corpus_log("dd");
    for position in 0..FILE_HEADER_BYTES {
        let mut log = log.clone();
        log[position] ^= 0x40;
        match (position, Reader::new(log.as_slice())) {
            (0..8, Err(OpenError::NotALog)) | (8..10, Err(OpenError::Version { .. })) => {}
            // The log is of an older major version, whatever its minor one.
            (10..12, Ok(reader)) => assert!(reader.version().1 >= 0x40 && !reader.is_newer()),
            (12..16, Ok(reader)) => assert!(reader.version().1 < 0x40),
            (_, other) => panic!("byte {position}: {other:?}"),
        }
    }
}

#[test]
fn newer_minor_version_reads() {
    let log = corpus_log("dd");
    let mut newer = log.clone();
    newer[10..12].copy_from_slice(&(MINOR + 1).to_le_bytes());
    assert_eq!(items(&newer), items(&log));
    let mut is_newer = |major: u16, minor: u16| {
        newer[8..12].copy_from_slice(&[major.to_le_bytes(), minor.to_le_bytes()].concat());
        let reader = Reader::new(newer.as_slice()).expect("a log");
        assert_eq!(reader.version(), (major, minor));
        reader.is_newer()
    };
    assert_eq!(
        [(1, 99), (MAJOR, MINOR), (MAJOR, MINOR + 1)].map(|it| is_newer(it.0, it.1)),
        [false, false, true]
    );
}

#[test]
fn another_major_version_is_refused_in_words() {
    for major in [0, MAJOR + 1, u16::MAX] {
        let mut log = corpus_log("dd");
        log[8..10].copy_from_slice(&major.to_le_bytes());
        let error = Reader::new(log.as_slice()).expect_err("refused").to_string();
        assert!(
            error.contains(&format!("{major}.")) && error.contains("use the version"),
            "{error}"
        );
    }
}

/// Takes steps and does nothing with them.
struct Nothing;

impl Sink for Nothing {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, _: &Step<'_>) -> Result<(), Infallible> {
        Ok(())
    }
}

fn run(log: &[u8]) -> Result<Summary, PipelineError<Infallible>> {
    let (reader, header) = pipeline::open(log)?;
    pipeline::run(reader, header, &mut Nothing, &mut || true)
}

/// A frame with sums that are right.
fn frame(kind: FrameKind, codec: Codec, payload_bytes: u32, stored: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        kind,
        codec,
        layout: 0,
        cpu: 0,
        stream: 0,
        first_time: 1,
        last_time: 1,
        items: 1,
        stored_bytes: u32::try_from(stored.len()).expect("short"),
        payload_bytes,
        payload_crc: crc32fast::hash(stored),
    };
    [&header.encode()[..], stored].concat()
}

#[test]
fn frames_of_unknown_kind_are_passed_over() {
    let log = corpus_log("tar");
    let (whole, starts) = frames(&log);
    let ledger = run(&log).expect("a whole log").ledger;
    let unknown = frame(FrameKind(200), Codec::STORED, 3, b"new");
    for place in 1..whole.len() {
        let log = [&log[..starts[place]], &unknown, &log[starts[place]..]].concat();
        let got = items(&log);
        assert!(
            matches!(&got[place], Item::Frame(header, payload) if header.kind.0 == 200 && payload == b"new")
        );
        assert_eq!(run(&log).expect("still whole").ledger, ledger, "before frame {place}");
    }
}

#[test]
fn codec_of_the_future_is_a_damaged_frame() {
    let log = corpus_log("tar");
    let (whole, starts) = frames(&log);
    let unknown = frame(FrameKind::DATA, Codec(77), 3, b"new");
    let log = [&log[..starts[1]], &unknown, &log[starts[1]..]].concat();
    let got = items(&log);
    let damaged =
        Item::Damaged { offset: starts[1] as u64, bytes: unknown.len() as u64, at_end: false };
    assert_eq!((&got[1], &got[2..]), (&damaged, &whole[1..]));
}

#[test]
fn pipeline_takes_damaged_logs() {
    for name in LOGS {
        let log = corpus_log(name);
        let (_, starts) = frames(&log);
        let whole = run(&log).expect("a whole log");
        assert_eq!((whole.damaged_bytes, whole.torn), (0, false), "{name}");
        for &start in &starts[2..] {
            for end in [start - 1, start, start + 1] {
                let Some(prefix) = log.get(..end) else { continue };
                let summary = run(prefix).expect("has a header");
                assert_eq!(
                    summary.ledger.imbalances(),
                    Vec::<String>::new(),
                    "{name}: {end} bytes"
                );
                assert_eq!(summary.torn, !starts.contains(&end), "{name}: {end} bytes");
                assert!(summary.ledger.records <= whole.ledger.records, "{name}: {end} bytes");
            }
        }
        for position in (0..log.len()).step_by(97) {
            let mut log = log.clone();
            log[position] ^= 0x81;
            match run(&log) {
                Ok(summary) => {
                    let lost = summary.damaged_bytes > 0 || position < FILE_HEADER_BYTES;
                    assert!(lost, "{name}: byte {position}: damage is reported");
                    assert_eq!(
                        summary.ledger.imbalances(),
                        Vec::<String>::new(),
                        "{name}: byte {position}"
                    );
                }
                // The header is what everything else rests on.
                Err(PipelineError::NoHeader | PipelineError::Open(_)) => {
                    assert!(position < starts[1], "{name}: {position}")
                }
                Err(other) => panic!("{name}: byte {position}: {other}"),
            }
        }
    }
}

#[test]
fn bytes_between_frames_are_counted() {
    let log = corpus_log("pipes");
    let (whole, starts) = frames(&log);
    for garbage in
        [&b"x"[..], b"IOF", b"IOFR", b"IOIOFIOFRIOFR", &[0; 100], &log[starts[1]..starts[2] - 1]]
    {
        for place in [0, 1, whole.len() - 1] {
            let log = [&log[..starts[place]], garbage, &log[starts[place]..]].concat();
            let got = items(&log);
            let bytes = garbage.len() as u64;
            assert_eq!(
                got[place],
                Item::Damaged { offset: starts[place] as u64, bytes, at_end: false },
                "{garbage:?}"
            );
            assert_eq!((&got[..place], &got[place + 1..]), (&whole[..place], &whole[place..]));
        }
    }
}

/// Gives its bytes in pieces of this length.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = to.len().min(self.1);
        self.0.read(&mut to[..length])
    }
}

#[test]
fn how_the_input_is_cut_makes_no_difference() {
    let mut log = corpus_log("fio");
    let middle = log.len() / 2;
    log[middle] ^= 1;
    let whole = items(&log);
    for piece in [1, 2, 3, 51, 52, 53, 4096] {
        let mut reader = Reader::new(Pieces(&log, piece)).expect("a log");
        let got: Vec<Item> =
            std::iter::from_fn(|| reader.next_item().expect("memory can be read")).collect();
        assert_eq!(got, whole, "pieces of {piece} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_after_the_start_are_frames_or_damaged(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let log = [&corpus_log("dd")[..FILE_HEADER_BYTES], &bytes].concat();
        items(&log);
    }

    /// Payloads with right sums and wrong contents: of each kind, with each codec.
    #[test]
    fn frames_with_senseless_contents_are_survived(
        contents in prop::collection::vec((0u8..8, 0u8..4, any::<Vec<u8>>(), 0u32..300), 1..8),
    ) {
        let log = corpus_log("dd");
        let (_, starts) = frames(&log);
        let made = contents.iter().flat_map(|(kind, codec, bytes, length)| {
            let length = if *codec == 0 { u32::try_from(bytes.len()).expect("short") } else { *length };
            frame(FrameKind(*kind), Codec(*codec), length, bytes)
        });
        let made: Vec<u8> = made.collect();
        let log = [&log[..starts[1]], &made, &log[starts[1]..]].concat();
        items(&log);
        let summary = run(&log).expect("has a header");
        prop_assert_eq!(summary.ledger.imbalances(), Vec::<String>::new());
    }
}

/// The most memory that this process ever had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).expect("it is always there");
    line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
}

/// Measured in a process of its own: other tests would count too.
#[test]
fn memory_is_bounded() {
    if !is_own_process("capture_log::memory_is_bounded") {
        return;
    }
    let start = corpus_log("dd")[..FILE_HEADER_BYTES].to_vec();
    let before = peak_kib();
    // Bytes without any frame, more than the limit.
    let endless = io::repeat(b'I').take(u64::from(PAYLOAD_BYTES_MAX) + (16 << 20));
    let mut reader = Reader::new(start.as_slice().chain(endless)).expect("a log");
    assert!(matches!(
        reader.next_item().expect("readable"),
        Some(Item::Damaged { at_end: true, .. })
    ));
    assert_eq!(reader.next_item().expect("readable"), None);
    drop(reader);
    assert!(peak_kib() - before < 16 << 10, "garbage: {} KiB", peak_kib() - before);
    // Twenty bytes whose header has too large a length.
    let little = zstd::bulk::compress(b"little", 1).expect("compresses");
    for codec in [Codec::ZSTD, Codec::ZSTD_DELTA] {
        let log =
            [start.as_slice(), &frame(FrameKind::DATA, codec, PAYLOAD_BYTES_MAX, &little)].concat();
        assert!(matches!(items(&log)[..], [Item::Damaged { at_end: true, .. }]));
    }
    // A few KiB that become more than the header's length, and than the limit.
    let mut bomb = Vec::new();
    let zeroes = io::repeat(0).take(3 * u64::from(PAYLOAD_BYTES_MAX));
    zstd::stream::copy_encode(zeroes, &mut bomb, 1).expect("memory takes all");
    let before = peak_kib();
    let log =
        [start.as_slice(), &frame(FrameKind::DATA, Codec::ZSTD, PAYLOAD_BYTES_MAX, &bomb)].concat();
    assert!(matches!(items(&log)[..], [Item::Damaged { at_end: true, .. }]));
    let bound = u64::from(PAYLOAD_BYTES_MAX >> 10) + (16 << 10);
    assert!(peak_kib() - before < bound, "bomb: {} KiB", peak_kib() - before);
}

#[test]
fn real_file_reads_as_memory_does() {
    let name = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v1/dd.iocap");
    let mut reader = Reader::new(File::open(name).expect("the corpus")).expect("a log");
    let from_file: Vec<Item> =
        std::iter::from_fn(|| reader.next_item().expect("readable")).collect();
    assert_eq!(from_file, items(&corpus_log("dd")));
}
