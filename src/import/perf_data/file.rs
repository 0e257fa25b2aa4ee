//! The file of `perf record`: where its records are, which events they are of, and the machine's
//! architecture (`tools/perf/Documentation/perf.data-file-format.txt`).
//!
//! ```text
//!   header: PERFILE2 │ u64 size │ u64 attr_size │ 3 sections (u64 offset, size) │ u64 features[4]
//!   attributes: (perf_event_attr, section of u64 ids) …
//!   data: records │ a section for each feature, in the order of the bits
//! ```

use std::io::{Read, Seek, SeekFrom};

use super::formats::{self, TracepointFormat};
use super::refusal::Refusal;
use crate::record::abi::sample_type;
use crate::record::layout::SampleLayout;

/// First bytes of the file, on a machine of the same byte order.
pub(super) const MAGIC: &[u8] = b"PERFILE2";
/// First bytes on a machine of the other byte order.
pub(super) const SWAPPED_MAGIC: &[u8] = b"2ELIFREP";

/// Bytes of the header; a file that was written to a pipe has fewer.
const HEADER_BYTES: u64 = 104;

/// Features: bits of the header.
const TRACING_DATA: usize = 1;
const ARCH: usize = 6;
const COMPRESSED: usize = 27;

/// Limit on a section that is read at once.
const SECTION_MAX: u64 = 256 << 20;

/// Limit on the numbers of all events: one for each CPU and event.
const IDS_MAX: u64 = 1 << 20;

/// Limit on the attributes of a recording.
const ATTRS_MAX: u64 = 1 << 16;

/// Offsets in `struct perf_event_attr`.
const ATTR_SAMPLE_TYPE: usize = 24;
const ATTR_FLAGS: usize = 40;
const ATTR_REGS: usize = 80;
/// Bit of `sample_id_all` in the flags.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Bytes of the shortest attribute that has all of these.
const ATTR_MIN: usize = 88;

/// Place of a part of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Event of the recording.
#[derive(Debug)]
pub(super) struct RecordedEvent {
    /// Numbers by which records name it.
    pub(super) ids: Vec<u64>,
    pub(super) sample_type: u64,
    /// Layout of its records; `None` for one that is not read.
    pub(super) layout: Option<SampleLayout>,
}

/// Parts of the file that precede and follow the records.
#[derive(Debug)]
pub(super) struct PerfFile {
    pub(super) data: Section,
    pub(super) events: Vec<RecordedEvent>,
    pub(super) formats: Vec<TracepointFormat>,
    /// As `uname -m` prints it.
    pub(super) machine: String,
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn section(bytes: &[u8], at: usize) -> Option<Section> {
    Some(Section { offset: u64_at(bytes, at)?, size: u64_at(bytes, at + 8)? })
}

/// Reads a part of the file.
fn part<R: Read + Seek>(input: &mut R, place: Section) -> Result<Vec<u8>, Refusal> {
    if place.size > SECTION_MAX {
        return Err(Refusal::damaged("a section is longer than 256 MiB"));
    }
    input.seek(SeekFrom::Start(place.offset))?;
    let mut bytes = Vec::new();
    input.take(place.size).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != place.size {
        return Err(Refusal::damaged("the file ends within a section: perf record was killed"));
    }
    Ok(bytes)
}

impl PerfFile {
    /// Reads all parts but the records.
    pub(super) fn read<R: Read + Seek>(input: &mut R) -> Result<Self, Refusal> {
        let head = part(input, Section { offset: 0, size: 16 })?;
        if head.starts_with(SWAPPED_MAGIC) {
            return Err(Refusal::text("the recording is of a machine of the other byte order"));
        }
        if u64_at(&head, 8) != Some(HEADER_BYTES) {
            return Err(Refusal::text("the recording was written to a pipe"));
        }
        let head = part(input, Section { offset: 0, size: HEADER_BYTES })?;
        let parts = || {
            let attr_size = u64_at(&head, 16)?;
            Some((attr_size, section(&head, 24)?, section(&head, 40)?, u64_at(&head, 72)?))
        };
        let (attr_size, attrs, data, features) =
            parts().ok_or_else(|| Refusal::damaged("the header is incomplete"))?;
        let events = events(input, attr_size, attrs)?;
        let mut place = data.offset.saturating_add(data.size);
        let (mut formats, mut machine) = (Vec::new(), String::new());
        for bit in (0..64).filter(|bit| features >> bit & 1 != 0) {
            let entry = part(input, Section { offset: place, size: 16 })?;
            place += 16;
            let section = section(&entry, 0).unwrap_or_default();
            match bit {
                TRACING_DATA => formats = formats::read(&part(input, section)?)?,
                ARCH => machine = text(&part(input, section)?),
                COMPRESSED => return Err(Refusal::text("the recording is compressed (-z)")),
                _ => {}
            }
        }
        if formats.is_empty() {
            return Err(Refusal::text(
                "the recording has no tracepoints: record them with perf record -e \
                 'raw_syscalls:*,block:*'",
            ));
        }
        Ok(Self { data, events, formats, machine })
    }
}

/// Reads the attributes and their ids.
fn events<R: Read + Seek>(
    input: &mut R,
    attr_size: u64,
    place: Section,
) -> Result<Vec<RecordedEvent>, Refusal> {
    let bytes = part(input, place)?;
    let size = usize::try_from(attr_size).unwrap_or(0);
    if size < ATTR_MIN + 16 || bytes.len() as u64 / attr_size > ATTRS_MAX {
        return Err(Refusal::damaged("the attributes of its events have another size"));
    }
    let (mut events, mut left) = (Vec::new(), IDS_MAX);
    for attr in bytes.chunks_exact(size) {
        let field = |at| u64_at(attr, at).unwrap_or(0);
        let place = section(attr, size - 16).unwrap_or_default();
        left = left.checked_sub(place.size / 8).ok_or_else(|| Refusal::damaged("too many ids"))?;
        let ids = part(input, place)?;
        let ids = ids.chunks_exact(8).filter_map(|id| u64_at(id, 0)).collect();
        let sample_type = field(ATTR_SAMPLE_TYPE);
        let has_trailer = field(ATTR_FLAGS) & SAMPLE_ID_ALL != 0;
        // An event without a payload has records of other kinds: their trailer is the same.
        let layout = SampleLayout::new(sample_type | sample_type::RAW, field(ATTR_REGS));
        events.push(RecordedEvent { ids, sample_type, layout: layout.filter(|_| has_trailer) });
    }
    Ok(events)
}

/// Reads a text: `u32 length; char text[]`, up to its NUL.
fn text(bytes: &[u8]) -> String {
    let text = bytes.get(4..).unwrap_or_default().split(|byte| *byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}
