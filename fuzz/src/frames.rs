//! Conversion of bytes into a log with complete frames: checksums would prevent most bytes from
//! reaching the code after them.
//!
//! ```text
//! u8 number of a log whose header is used (255: u32 length and a header), then frames:
//!   u8 kind, u8 layout, u8 CPU, u8 stream, u64 time, u16 length, payload
//! ```

use std::convert::Infallible;
use std::sync::OnceLock;

use iotrace_perf::capture::fact::Text;
use iotrace_perf::capture::format::{
    Codec, FILE_MAGIC, FrameHeader, FrameKind, MAJOR, NO_CPU, PAYLOAD_BYTES_MAX,
};
use iotrace_perf::capture::reader::{Item, Reader};
use iotrace_perf::pipeline::{self, Summary};

use super::{corpus, integer};

/// Number for a header with a text of its own.
const OWN: u64 = 255;
/// Limit on the payload of a frame in a seed.
const SEED_PAYLOAD: usize = 6 << 10;
/// Limit on a complete seed.
const SEED_BYTES: usize = 24 << 10;

/// Headers of all logs of the corpus.
fn headers() -> &'static [Vec<u8>] {
    static HEADERS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    HEADERS.get_or_init(|| {
        corpus("logs", ".iocap").iter().map(|it| frames_of(it).remove(0).1).collect()
    })
}

/// Frames of a log.
pub fn frames_of(log: &[u8]) -> Vec<(FrameHeader, Vec<u8>)> {
    let items = Reader::new(log).expect("a log of the corpus");
    let frame = |it| match it {
        Ok(Item::Frame(header, payload)) => Some((header, payload)),
        _ => None,
    };
    items.filter_map(frame).collect()
}

/// Log that these bytes describe.
pub fn log_of(bytes: &[u8]) -> Vec<u8> {
    let (which, mut rest) = integer::<1>(bytes);
    let mut log = [&FILE_MAGIC[..], &MAJOR.to_le_bytes(), &[0; 6]].concat();
    let header = if which == OWN {
        piece::<4>(&mut rest)
    } else {
        &headers()[which as usize % headers().len()]
    };
    push(&mut log, FrameKind::HEADER, [0; 3], 0, header);
    while !rest.is_empty() {
        let mut number = |bytes: u8| {
            let (number, behind) = match bytes {
                1 => integer::<1>(rest),
                _ => integer::<8>(rest),
            };
            rest = behind;
            number
        };
        let (kind, of) = (number(1) as u8, [number(1), number(1), number(1)]);
        let time = number(8);
        push(&mut log, FrameKind(kind), of.map(|it| it as u8), time, piece::<2>(&mut rest));
    }
    log
}

/// Takes a length and that number of bytes off the front, or as many as there are.
fn piece<'a, const N: usize>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (length, behind) = integer::<N>(rest);
    let (piece, behind) = behind.split_at(behind.len().min(length as usize));
    *rest = behind;
    piece
}

fn push(
    log: &mut Vec<u8>,
    kind: FrameKind,
    [layout, cpu, stream]: [u8; 3],
    time: u64,
    payload: &[u8],
) {
    let length = payload.len() as u32;
    assert!(length <= PAYLOAD_BYTES_MAX);
    let header = FrameHeader {
        kind,
        codec: Codec::STORED,
        layout: layout.into(),
        cpu: if kind == FrameKind::DATA { cpu.into() } else { NO_CPU },
        stream: stream.into(),
        first_time: time,
        last_time: time,
        items: 0,
        stored_bytes: length,
        payload_bytes: length,
        payload_crc: crc32fast::hash(payload),
    };
    log.extend(header.encode());
    log.extend(payload);
}

/// Seeds from the logs of the corpus: the first part of each frame; a few with the text of their
/// header.
pub fn seeds(give: &mut dyn FnMut(&[u8])) {
    for (number, log) in corpus("logs", ".iocap").iter().enumerate() {
        let frames = frames_of(log);
        let mut body = Vec::new();
        for (header, payload) in &frames[1..] {
            let payload = &payload[..payload.len().min(SEED_PAYLOAD)];
            if body.len() + payload.len() > SEED_BYTES {
                continue;
            }
            body.extend([
                header.kind.0,
                header.layout as u8,
                header.cpu as u8,
                header.stream as u8,
            ]);
            body.extend(header.first_time.to_le_bytes());
            body.extend((payload.len() as u16).to_le_bytes());
            body.extend(payload);
        }
        give(&[&[number as u8], &body[..]].concat());
        let text = &frames[0].1;
        if number % 6 == 0 {
            give(&[&[OWN as u8], &(text.len() as u32).to_le_bytes()[..], text, &body].concat());
        }
    }
}

/// Passes a log to the sink that `make` creates for the header; `None`: the log is refused.
pub fn run<S: iotrace_perf::operation::Sink>(
    log: &[u8],
    make: impl FnOnce(&iotrace_perf::capture::header::Header) -> S,
) -> Option<(Summary, S)> {
    let (items, header) = pipeline::open::<_, Infallible>(log).ok()?;
    let mut sink = make(&header);
    let summary = pipeline::run(items, header, &mut sink, &mut || true).ok()?;
    // Values that the ends of commands use.
    let _ = (summary.lost(), summary.missing(), summary.end_time(), summary.disks());
    let _ = summary.text(Text::MOUNTINFO);
    Some((summary, sink))
}
