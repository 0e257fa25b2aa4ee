//! Reads frames from any bytes whatever: it never panics, never allocates by an unchecked length, and passes on every
//! frame that is whole. Damaged bytes are reported with their number; reading goes on at the next whole frame.
//!
//! [`crate::pipeline`] makes operations of the frames. How many system calls a log has:
//!
//! ```
//! use std::convert::Infallible;
//! use std::fs::File;
//!
//! use iotrace_perf::capture::reader::Reader;
//! use iotrace_perf::operation::{Sink, Step};
//! use iotrace_perf::pipeline;
//! use iotrace_perf::units::KernelTime;
//!
//! /// Number of system calls that have ended.
//! struct Calls(u64);
//!
//! impl Sink for Calls {
//!     type Error = Infallible;
//!
//!     fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
//!         self.0 += u64::from(matches!(step, Step::SyscallEnded(..)));
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = File::open("tests/corpus/logs/v1/dd.iocap")?;
//! let (reader, header): (Reader<File>, _) = pipeline::open::<_, Infallible>(log)?;
//! let mut calls = Calls(0);
//! let summary = pipeline::run(reader, header, &mut calls, &mut || true)?;
//! assert_eq!((calls.0, summary.lost()), (66, 0));
//! # Ok(())
//! # }
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use thiserror::Error;

use super::format::{
    FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, FrameKind, MAJOR,
    MAJOR_OLDEST, MINOR,
};
use super::payload::Unpacker;

/// Why a log cannot be read at all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// It does not begin like one.
    #[error("this is not an iotrace-perf capture log (it does not begin with \"IOTRCAP\")")]
    NotALog,
    /// Written by an incompatible version.
    #[error(
        "the log has format version {major}.{minor}, this program reads {MAJOR_OLDEST}.x to {MAJOR}.x: use the version of iotrace-perf that wrote it"
    )]
    Version {
        /// Its major version.
        major: u16,
        /// Its minor version.
        minor: u16,
    },
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What comes out of a log.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A whole frame, its payload decoded.
    Frame(FrameHeader, Vec<u8>),
    /// So many bytes are not a whole frame: damaged, or cut off at the end of the file.
    Damaged {
        /// Where they begin, in bytes from the start of the file.
        offset: u64,
        /// How many they are.
        bytes: u64,
        /// True if the file ends inside them: the tracer was killed, or the disk was full.
        at_end: bool,
    },
}

/// Reads a log from front to back, in the caller's thread; see [`super::ahead`] for more of them.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    unpacker: Unpacker,
    /// Bytes taken from the input and not yet used.
    buffer: Vec<u8>,
    /// Where the input puts them first.
    room: Vec<u8>,
    /// How many of them are used up.
    used: usize,
    /// Offset in the file of `buffer[used]`.
    offset: u64,
    at_end: bool,
    /// Why no more bytes of the input could be read; told when they are needed.
    failed: Option<io::Error>,
    major: u16,
    minor: u16,
    /// Bytes of the payloads that were given out.
    unpacked: u64,
    /// How many there may be, however few are stored.
    unpacked_max: u64,
    /// There were more.
    is_too_long: bool,
}

/// Payloads may have so many bytes, and so many times as many as are stored: frames of some KiB can be packed so that they are 64 MiB each,
/// and to read a small file would take hours. What a tracer writes is some ten times as long as it is stored.
const UNPACKED_BYTES: u64 = 1 << 30;
const UNPACKED_TIMES: u64 = 1000;

/// How much is asked of the input at a time.
const READ_BYTES: usize = 64 << 10;

impl<R: Read> Reader<R> {
    /// Checks the start of the log.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: not a log, another major version, not readable.
    pub fn new(input: R) -> Result<Self, OpenError> {
        let mut reader = Self {
            input,
            unpacker: Unpacker::default(),
            buffer: Vec::new(),
            room: vec![0; READ_BYTES],
            used: 0,
            offset: 0,
            at_end: false,
            failed: None,
            major: 0,
            minor: 0,
            unpacked: 0,
            unpacked_max: UNPACKED_BYTES,
            is_too_long: false,
        };
        reader.fill(FILE_HEADER_BYTES)?;
        let start = reader.unused().get(..FILE_HEADER_BYTES).ok_or(OpenError::NotALog)?;
        let mut fields =
            super::format::Cursor(start.strip_prefix(&FILE_MAGIC).ok_or(OpenError::NotALog)?);
        let (Some(major), Some(minor)) = (fields.u16(), fields.u16()) else {
            return Err(OpenError::NotALog);
        };
        if !(MAJOR_OLDEST..=MAJOR).contains(&major) {
            return Err(OpenError::Version { major, minor });
        }
        (reader.major, reader.minor) = (major, minor);
        reader.consume(FILE_HEADER_BYTES);
        Ok(reader)
    }

    /// Major and minor version of the format that it was written in.
    pub fn version(&self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// True if that is newer than this program's: it may hold things that are passed over.
    pub fn is_newer(&self) -> bool {
        self.version() > (MAJOR, MINOR)
    }

    /// The next frame or stretch of damaged bytes; `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of the input.
    pub fn next_item(&mut self) -> io::Result<Option<Item>> {
        let header = self.header()?;
        if self.unused().is_empty() {
            return Ok(None);
        }
        if let Some(header) = header
            && let Some(total) = self.intact(&header)?
            && let Some(payload) = self.unpack(&header, total)
        {
            self.consume(total);
            self.unpacked += u64::from(header.payload_bytes);
            return Ok(Some(Item::Frame(header, payload)));
        }
        self.skip_to_next_frame().map(Some)
    }

    /// The header that stands here, if one does.
    pub(super) fn header(&mut self) -> io::Result<Option<FrameHeader>> {
        self.fill(FRAME_HEADER_BYTES)?;
        Ok(FrameHeader::decode(self.unused()))
    }

    /// Takes the bytes of the frame with the header that stands here, if all are there and as they were written.
    pub(super) fn take_intact(&mut self, header: &FrameHeader) -> io::Result<Option<Arc<[u8]>>> {
        let Some(total) = self.intact(header)? else { return Ok(None) };
        let frame = self.unused().get(..total).map(Arc::from);
        self.unpacked += u64::from(header.payload_bytes);
        self.consume(total);
        Ok(frame)
    }

    /// Where in the file it is.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Puts back bytes that were taken last, whose payloads have so many.
    pub(super) fn put_back(&mut self, bytes: &[u8], payload_bytes: u64) {
        self.unpacked -= payload_bytes;
        self.buffer.splice(..self.used, bytes.iter().copied());
        self.used = 0;
        self.offset -= bytes.len() as u64;
    }

    /// The input failed when its bytes were not needed yet.
    pub(super) fn fail_later(&mut self, error: io::Error) {
        self.failed = Some(error);
    }

    /// Length of the frame with the header that stands here, if it is there, its sum is right, and all payloads are not too long for
    /// what is stored.
    fn intact(&mut self, header: &FrameHeader) -> io::Result<Option<usize>> {
        let most = self.unpacked_max.saturating_add(self.offset.saturating_mul(UNPACKED_TIMES));
        if self.unpacked.saturating_add(header.payload_bytes.into()) > most {
            self.is_too_long = true;
            return Ok(None);
        }
        let stored_bytes = usize::try_from(header.stored_bytes).unwrap_or(usize::MAX);
        let total = FRAME_HEADER_BYTES.saturating_add(stored_bytes);
        self.fill(total)?;
        let stored = self.unused().get(FRAME_HEADER_BYTES..total);
        Ok(stored.filter(|it| crc32fast::hash(it) == header.payload_crc).map(|_| total))
    }

    /// The payload of the frame of `total` bytes that stands here, if its contents are what the header says.
    fn unpack(&mut self, header: &FrameHeader, total: usize) -> Option<Vec<u8>> {
        let frame = self.buffer.get(self.used..self.used + total)?;
        self.unpacker.unpack(header, frame.get(FRAME_HEADER_BYTES..)?)
    }

    /// Passes over bytes until a whole frame begins or the input ends.
    fn skip_to_next_frame(&mut self) -> io::Result<Item> {
        let offset = self.offset;
        // At least one byte, so that a damaged frame is not found again.
        self.consume(1);
        loop {
            let found = self.unused().windows(FRAME_MAGIC.len()).position(|it| it == FRAME_MAGIC);
            match found {
                Some(at) => {
                    self.consume(at);
                    self.fill(FRAME_HEADER_BYTES)?;
                    if FrameHeader::decode(self.unused()).is_some() {
                        break;
                    }
                    self.consume(FRAME_MAGIC.len().min(self.unused().len()));
                }
                None => {
                    // The magic may be cut by the end of what has been read so far.
                    let keep = FRAME_MAGIC.len() - 1;
                    self.consume(self.unused().len().saturating_sub(keep));
                    let before = self.unused().len();
                    self.fill(before + 1)?;
                    if self.unused().len() == before {
                        self.consume(before);
                        break;
                    }
                }
            }
        }
        // What is refused has not been cut off.
        let at_end = self.unused().is_empty() && self.at_end && !self.is_too_long;
        Ok(Item::Damaged { offset, bytes: self.offset - offset, at_end })
    }

    fn unused(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
        self.offset += count as u64;
    }

    /// Reads until `wanted` unused bytes are there or the input ends.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.buffer.len() - self.used >= wanted || self.at_end {
            return Ok(());
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        while self.buffer.len() < wanted && !self.at_end {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            // Whatever there is: a log that is still written has no more for now.
            match self.input.read(&mut self.room) {
                Ok(0) => self.at_end = true,
                Ok(more) => {
                    self.buffer.extend_from_slice(self.room.get(..more).unwrap_or_default())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What was read before it is good.
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_item().transpose()
    }
}

/// The JSON of a frame has no more bytes than this, and no more objects (opening braces, those in strings too): in memory an empty one is a
/// hundred times as long, and packed a thousandth. A
/// tracepoint has one object and some thousand bytes, a disk two and some hundred.
const JSON_BYTES_MAX: usize = 32 << 20;
const JSON_OBJECTS_MAX: usize = 1 << 18;

/// The value of a JSON frame of this kind.
///
/// # Errors
///
/// serde's, with the place in the text; it is too long.
pub fn json<T: serde::de::DeserializeOwned>(
    header: &FrameHeader,
    payload: &[u8],
    kind: FrameKind,
) -> Option<Result<T, serde_json::Error>> {
    (header.kind == kind).then(|| {
        let objects = payload.iter().filter(|it| **it == b'{').count();
        if payload.len() > JSON_BYTES_MAX || objects > JSON_OBJECTS_MAX {
            let (bytes, max) = (payload.len(), JSON_BYTES_MAX);
            return Err(serde::de::Error::custom(format!(
                "{bytes} bytes with {objects} objects, more than {max} or {JSON_OBJECTS_MAX}"
            )));
        }
        serde_json::from_slice(payload)
    })
}

#[cfg(test)]
mod tests {
    use super::super::header::Header;
    use super::*;

    #[track_caller]
    fn is_refused(payload: &[u8]) {
        let header = FrameHeader::bare(FrameKind::HEADER);
        let value = json::<Header>(&header, payload, FrameKind::HEADER).expect("its kind");
        let error = value.expect_err("it is too long").to_string();
        assert!(error.contains("more than"), "{error}");
    }

    /// Fails if a small log is unpacked without an end, or if what is left out is told as the log's end.
    #[test]
    fn payloads_have_a_limit_together() {
        let payload = vec![0; 1 << 20];
        let stored = zstd::bulk::compress(&payload, 3).expect("memory");
        let header = FrameHeader {
            codec: crate::capture::format::Codec::ZSTD,
            stored_bytes: u32::try_from(stored.len()).expect("few"),
            payload_bytes: 1 << 20,
            payload_crc: crc32fast::hash(&stored),
            ..FrameHeader::bare(FrameKind::FACTS)
        };
        let mut log = FILE_MAGIC.to_vec();
        log.extend([MAJOR, MINOR].map(u16::to_le_bytes).concat());
        log.resize(FILE_HEADER_BYTES, 0);
        for _ in 0..40 {
            log.extend(header.encode());
            log.extend(&stored);
        }
        let frame = (FRAME_HEADER_BYTES + stored.len()) as u64;
        let read = |most: u64| {
            let mut reader = Reader::new(log.as_slice()).expect("a log");
            reader.unpacked_max = most;
            let items: Vec<Item> = reader.map(|it| it.expect("it can be read")).collect();
            let is_frame = |it: &&Item| matches!(it, Item::Frame(..));
            let damaged = items.iter().filter_map(|it| match it {
                Item::Damaged { bytes, at_end, .. } => Some((*bytes, *at_end)),
                Item::Frame(..) => None,
            });
            (items.iter().filter(is_frame).count() as u64, damaged.collect::<Vec<_>>())
        };
        assert_eq!(read(40 << 20), (40, vec![]));
        let (frames, damaged) = read(3 << 20);
        assert!((3..10).contains(&frames), "{frames}");
        let bytes: u64 = damaged.iter().map(|it| it.0).sum();
        assert_eq!(bytes, (40 - frames) * frame);
        assert!(damaged.iter().all(|it| !it.1), "{damaged:?}");
    }

    #[test]
    fn a_header_does_not_grow_to_gigabytes() {
        // Packed it has a few KiB, and its disks would have 50 MiB and more.
        let disks = ["{}"; JSON_OBJECTS_MAX].join(",");
        is_refused(format!("{{\"disks\":[{disks}]}}").as_bytes());
        is_refused(&[b' '; JSON_BYTES_MAX + 1]);
    }
}
