//! Logs of every version of the format that was ever written stay readable, whole, and give what
//! they gave. `tests/offline/pipeline.rs` compares every line of them; here it counts that no
//! version is without a log, and no kind of frame or fact.
//!
//! A new version of the format needs a row in docs/format.md, a log in `tests/corpus/logs`, and a
//! row in [`GOLDEN`].

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;

use iotrace_perf::capture::format::{FrameKind, MAJOR, MAJOR_OLDEST, MINOR};
use iotrace_perf::capture::reader::{Item, Reader};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline::{self, Summary};
use iotrace_perf::units::KernelTime;

/// Counts of a log's content: records, those that became events, operations, asynchronous ones,
/// block requests, and records that the kernel lost.
type LogCounts = [u64; 6];

/// Logs for ever: version of the format, name, what they hold.
const GOLDEN: &[((u16, u16), &str, LogCounts)] = &[
    ((1, 0), "v1/dd", [139, 138, 66, 0, 1, 0]),
    ((1, 0), "v1/fio", [854, 782, 328, 0, 29, 0]),
    ((1, 0), "v1/lost", [320, 318, 152, 0, 0, 1840]),
    ((1, 0), "v1/tracefs", [705, 302, 134, 0, 1, 0]),
    ((2, 0), "v2/tracefs", [725, 322, 144, 0, 1, 0]),
    ((2, 0), "v2/asynchronous", [1465, 296, 67, 42, 8, 0]),
    ((2, 0), "v2/event", [569, 166, 64, 0, 0, 0]),
    ((2, 1), "v2/block-xfs", [2868, 2416, 453, 0, 358, 0]),
    ((2, 2), "v2/layers-kprobe", [1145, 611, 43, 0, 20, 0]),
    ((2, 3), "v2/stacks", [630, 618, 0, 0, 154, 0]),
    ((2, 4), "v2/unwound", [323, 317, 156, 0, 0, 0]),
    ((2, 4), "v2/attached", [485, 63, 12, 0, 0, 0]),
    ((2, 4), "v2/fanotify", [613, 205, 50, 0, 1, 0]),
    ((2, 4), "v2/switched-off", [2201, 2201, 1100, 0, 0, 0]),
    ((2, 4), "v2/programs", [517, 109, 43, 0, 0, 0]),
    ((2, 4), "v2/identity", [880, 169, 71, 0, 0, 0]),
    ((2, 4), "v2/excerpt", [485, 63, 12, 0, 0, 0]),
    ((2, 4), "v2/others", [614, 191, 23, 0, 1, 0]),
];

/// Takes steps and does nothing with them.
struct Nothing;

impl Sink for Nothing {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, _: &Step<'_>) -> Result<(), Infallible> {
        Ok(())
    }
}

fn log(name: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    std::fs::read(corpus.join(name).with_extension("iocap")).expect(name)
}

fn read(log: &[u8]) -> Summary {
    let (reader, header) = pipeline::open::<_, Infallible>(log).expect("a log");
    pipeline::run(reader, header, &mut Nothing, &mut || true).expect("nothing fails here")
}

/// Number of the kind, or of the TEXT, of each fact of a payload: two bytes kind, four length, and
/// so many.
fn kinds_of_facts(mut payload: &[u8]) -> Vec<(u16, Option<u16>)> {
    let mut kinds = Vec::new();
    let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    while payload.len() >= 6 {
        let (head, rest) = payload.split_at(6);
        let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (body, rest) = rest.split_at(length);
        let kind = u16_at(head, 0);
        // The number of the text follows the time.
        kinds.push((kind, (kind == 4).then(|| u16_at(body, 8))));
        payload = rest;
    }
    assert!(payload.is_empty(), "facts fill their frame");
    kinds
}

/// Content of several logs: numbers of kinds of frames, of facts, of texts, and of codecs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kinds {
    frames: BTreeSet<u16>,
    facts: BTreeSet<u16>,
    texts: BTreeSet<u16>,
    codecs: BTreeSet<u16>,
}

impl Kinds {
    fn add(&mut self, log: &[u8]) {
        let mut reader = Reader::new(log).expect("a log");
        while let Some(item) = reader.next_item().expect("memory can be read") {
            let Item::Frame(header, payload) = item else { panic!("{item:?}") };
            self.frames.insert(header.kind.0.into());
            self.codecs.insert(header.codec.0.into());
            if [FrameKind::FACTS, FrameKind::LAST_FACTS].contains(&header.kind) {
                let kinds = kinds_of_facts(&payload);
                self.facts.extend(kinds.iter().map(|it| it.0));
                self.texts.extend(kinds.iter().filter_map(|it| it.1));
            }
        }
    }
}

const DOCUMENT: &str = include_str!("../../docs/format.md");

/// First cells of the table of docs/format.md whose head begins so.
fn first_cells(head: &str) -> Vec<&'static str> {
    let table = DOCUMENT.split(&format!("\n| {head}")).nth(1).expect(head);
    // The rest of the head, and the line below it.
    let rows = table.lines().skip(2).map_while(|it| it.strip_prefix("| ")?.split(" | ").next());
    rows.map(str::trim).collect()
}

/// Numbers there, one or more in each cell.
fn numbers(head: &str) -> BTreeSet<u16> {
    let cells = first_cells(head).into_iter();
    let numbers = cells.flat_map(|it| it.split(',').map(|it| it.trim().parse().expect(it)));
    numbers.collect()
}

#[test]
fn golden_logs_are_read_whole() {
    for (version, name, books) in GOLDEN {
        let bytes = log(name);
        assert_eq!(Reader::new(bytes.as_slice()).expect("a log").version(), *version, "{name}");
        let summary = read(&bytes);
        assert_eq!((summary.damaged_bytes, summary.torn), (0, false), "{name}");
        assert!(summary.end.is_some(), "{name} ended in order");
        let ledger = &summary.ledger;
        assert_eq!(ledger.imbalances(), Vec::<String>::new(), "{name}");
        let got = [
            ledger.records,
            ledger.events,
            ledger.pairs,
            ledger.async_ended,
            ledger.requests,
            summary.lost(),
        ];
        assert_eq!(got, *books, "{name}");
    }
}

#[test]
fn readable_versions_have_a_golden_log() {
    let mut golden: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
    for ((major, minor), ..) in GOLDEN {
        golden.entry(*major).or_default().insert(*minor);
    }
    let majors: Vec<u16> = golden.keys().copied().collect();
    assert_eq!(majors, (MAJOR_OLDEST..=MAJOR).collect::<Vec<_>>(), "what the reader accepts");
    for (major, minors) in &golden {
        let newest = minors.last().copied().unwrap_or_default();
        assert_eq!(minors.iter().copied().collect::<Vec<_>>(), (0..=newest).collect::<Vec<_>>());
        assert!(*major < MAJOR || newest == MINOR, "a log of {MAJOR}.{MINOR} is missing");
    }
    let versions: Vec<String> = golden
        .iter()
        .flat_map(|(major, minors)| minors.iter().map(move |minor| format!("{major}.{minor}")))
        .collect();
    assert_eq!(versions, first_cells("Version"), "the table in docs/format.md");
}

/// Every kind needs a recording: without one nothing shows that it stays readable.
#[test]
fn every_kind_is_in_a_golden_log() {
    let mut kinds = Kinds::default();
    for (_, name, _) in GOLDEN {
        kinds.add(&log(name));
    }
    let expected = Kinds {
        frames: numbers("Kind | | Payload"),
        facts: numbers("Kind | | Fields in order"),
        texts: numbers("Text"),
        codecs: [0, 1, 2].into(),
    };
    assert_eq!(kinds, expected);
}
