//! Reading ahead in other threads gives what reading alone gives, whatever the log and the input
//! are.

use std::io::{self, Read};
use std::sync::LazyLock;

use iotrace_perf::capture::format::{Codec, FILE_HEADER_BYTES, FrameKind};
use iotrace_perf::capture::prefetch::Prefetch;
use iotrace_perf::capture::reader::{Item, Reader};
use iotrace_perf::capture::writer::{DataFrame, Writer};
use iotrace_perf::units::KernelTime;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{LOGS, corpus_log, frame, frames};

/// A part of a log.
#[derive(Clone, Debug)]
enum Part {
    /// Whole: so many times these bytes.
    Whole(Codec, Vec<u8>, usize),
    /// A frame whose sums are right and whose contents are not.
    Senseless(Codec, Vec<u8>, u32),
    /// A frame whose sums are right; it cannot be unpacked, and inside are parts that can.
    Around(Vec<Self>),
    /// Whole and not compressible: longer than what is asked of the input at a time is a row of
    /// these.
    Long(usize),
    /// No frame.
    Garbage(Vec<u8>),
    Round,
}

const LONG_BYTES: usize = 600_000;

/// Bytes without any order.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_add(7);
        state.to_le_bytes()[3]
    };
    (0..LONG_BYTES).map(next).collect()
});

fn part() -> impl Strategy<Value = Part> {
    let codec = || (0u8..3).prop_map(Codec);
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let whole = (codec(), bytes(), 0..60usize).prop_map(|it| Part::Whole(it.0, it.1, it.2));
    let simple = prop_oneof![
        8 => whole,
        2 => Just(Part::Round),
        2 => (1..LONG_BYTES).prop_map(Part::Long),
        1 => ((0u8..4).prop_map(Codec), prop::collection::vec(any::<u8>(), 0..9000), 0u32..300)
            .prop_map(|it| Part::Senseless(it.0, it.1, it.2)),
        1 => bytes().prop_map(Part::Garbage),
    ];
    simple
        .prop_recursive(2, 12, 4, |inner| prop::collection::vec(inner, 1..4).prop_map(Part::Around))
}

/// A row of frames as a [`Writer`] writes it, without the start of the file.
fn written(write: impl FnOnce(&mut Writer<&mut Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
    let mut log = Vec::new();
    let mut writer = Writer::new(&mut log).expect("memory takes all");
    write(&mut writer).expect("memory takes all");
    log.split_off(FILE_HEADER_BYTES)
}

fn encoded(part: &Part) -> Vec<u8> {
    let time = KernelTime(1);
    match part {
        Part::Whole(codec, bytes, times) => {
            let (cpu, stream, layout, records) = (0, 0, 0, 1);
            let (codec, first_time, last_time) = (*codec, time, time);
            let about = DataFrame { cpu, stream, layout, codec, first_time, last_time, records };
            written(|it| it.data(&about, &mut bytes.repeat(*times)))
        }
        Part::Senseless(codec, bytes, length) => frame(FrameKind::DATA, *codec, *length, bytes),
        Part::Long(length) => {
            let header_length = u32::try_from(*length).expect("short");
            frame(FrameKind::DATA, Codec::STORED, header_length, &NOISE[..*length])
        }
        Part::Around(parts) => frame(FrameKind::DATA, Codec::ZSTD, 1000, &all(parts)),
        Part::Garbage(bytes) => bytes.clone(),
        Part::Round => written(|it| it.round(time)),
    }
}

fn all(parts: &[Part]) -> Vec<u8> {
    parts.iter().flat_map(encoded).collect()
}

/// Gives its bytes in pieces, and fails once.
struct Input<'a> {
    bytes: &'a [u8],
    piece: usize,
    fails_at: Option<usize>,
}

impl Read for Input<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.fails_at == Some(0) {
            self.fails_at = None;
            return Err(io::ErrorKind::TimedOut.into());
        }
        let length = to.len().min(self.piece).min(self.fails_at.unwrap_or(usize::MAX));
        let given = self.bytes.read(&mut to[..length])?;
        self.fails_at = self.fails_at.map(|it| it - given);
        Ok(given)
    }
}

type Outcome = Vec<Result<Item, io::ErrorKind>>;

/// So many items, errors among them.
fn taken(items: impl Iterator<Item = io::Result<Item>>, count: usize) -> Outcome {
    items.take(count).map(|it| it.map_err(|error| error.kind())).collect()
}

/// Reads the log alone and with threads.
fn both(
    log: &[u8],
    piece: usize,
    fails_at: Option<usize>,
    count: usize,
    threads: usize,
) -> [Outcome; 2] {
    let reader = || Reader::new(Input { bytes: log, piece, fails_at });
    let Ok(alone) = reader() else { return [vec![], vec![]] };
    let ahead = Prefetch::with_threads(reader().expect("it was a log before"), threads);
    [taken(alone, count), taken(ahead, count)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn items_are_those_of_the_reader(
        parts in prop::collection::vec(part(), 0..20),
        flips in prop::collection::vec((any::<Index>(), 1u8..), 0..3),
        end in prop::option::weighted(0.3, any::<Index>()),
        fails_at in prop::option::weighted(0.3, any::<Index>()),
        piece in prop_oneof![1..300usize, 1000..100_000usize, Just(usize::MAX)],
        count in prop_oneof![1 => 0..20usize, 4 => Just(usize::MAX)],
        threads in 0..4usize,
    ) {
        let mut log = [corpus_log("dd")[..FILE_HEADER_BYTES].to_vec(), all(&parts)].concat();
        for (place, bits) in flips {
            let place = place.index(log.len());
            log[place] ^= bits;
        }
        log.truncate(end.map_or(log.len(), |it| it.index(log.len())));
        let fails_at = fails_at.map(|it| it.index(log.len() + 1));
        let [alone, ahead] = both(&log, piece, fails_at, count, threads);
        prop_assert_eq!(alone, ahead);
    }
}

#[test]
fn real_logs_read_the_same_damaged_or_not() {
    for name in LOGS {
        let mut log = corpus_log(name);
        let [alone, ahead] = both(&log, usize::MAX, None, usize::MAX, 2);
        assert_eq!(alone, ahead, "{name}");
        assert!(alone.len() > 2, "{name}: more than header and end");
        for place in (0..log.len()).step_by(499) {
            log[place] ^= 0x11;
            let [alone, ahead] = both(&log, usize::MAX, None, usize::MAX, 2);
            assert_eq!(alone, ahead, "{name}: byte {place}");
            log[place] ^= 0x11;
        }
    }
}

#[test]
fn frames_before_an_input_error_are_read() {
    let log = corpus_log("dd");
    let (whole, starts) = frames(&log);
    for (count, &start) in starts.iter().enumerate().skip(1) {
        for got in both(&log, usize::MAX, Some(start), usize::MAX, 1) {
            assert!(got[..count].iter().zip(&whole).all(|(got, whole)| got.as_ref() == Ok(whole)));
            assert_eq!(got[count], Err(io::ErrorKind::TimedOut), "before frame {count}");
        }
    }
}
