//! Reader of frames from any bytes: it never panics, never allocates by an unchecked length, and
//! passes on every whole frame. Damaged bytes are reported with their number; reading continues at
//! the next whole frame.
//!
//! [`crate::pipeline`] makes operations of the frames. The number of system calls of a log:
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

/// Reason why a log cannot be read at all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The file does not begin like a capture log.
    #[error("this is not an iotrace-perf capture log (it does not begin with \"IOTRCAP\")")]
    NotALog,
    /// The log was written by an incompatible version.
    #[error(
        "the log has format version {major}.{minor}, this program reads {MAJOR_OLDEST}.x to {MAJOR}.x: use the version of iotrace-perf that wrote it"
    )]
    Version {
        /// Major version of the log.
        major: u16,
        /// Minor version of the log.
        minor: u16,
    },
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Element of a log.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// Whole frame with its decoded payload.
    Frame(FrameHeader, Vec<u8>),
    /// Bytes that are not a whole frame: damaged, or cut off at the end of the file.
    Damaged {
        /// Offset of the first of them, in bytes from the start of the file.
        offset: u64,
        /// Number of these bytes.
        bytes: u64,
        /// True if the file ends inside them: the tracer was killed, or the disk was full.
        at_end: bool,
    },
}

/// Reads a log from front to back, in the caller's thread; [`super::prefetch`] has more threads.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    unpacker: Unpacker,
    /// Bytes taken from the input and not yet used.
    buffer: Vec<u8>,
    /// Buffer into which the input is read first.
    room: Vec<u8>,
    /// Number of bytes of `buffer` that are used.
    used: usize,
    /// Offset in the file of `buffer[used]`.
    offset: u64,
    at_end: bool,
    /// Error of the input; reported when the missing bytes are needed.
    failed: Option<io::Error>,
    major: u16,
    minor: u16,
    /// Bytes of the payloads that were returned.
    unpacked: u64,
    /// Minimum limit of these bytes, however few are stored.
    unpacked_max: u64,
    /// True if the limit was exceeded.
    is_too_long: bool,
}

/// Limit of all payloads together: this many bytes, plus a multiple of the stored ones. Frames of
/// some KiB can be packed so that they are 64 MiB each, and reading a small file would take hours.
/// A tracer's payloads are about ten times as long as they are stored.
const UNPACKED_BYTES: u64 = 1 << 30;
const UNPACKED_TIMES: u64 = 1000;

/// Bytes that are requested from the input at a time.
const READ_BYTES: usize = 64 << 10;

impl<R: Read> Reader<R> {
    /// Creates a reader and checks the start of the log.
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

    /// Returns the major and minor version of the format in which the log was written.
    pub fn version(&self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// Returns true if that is newer than this program's: the log may have elements that are
    /// skipped.
    pub fn is_newer(&self) -> bool {
        self.version() > (MAJOR, MINOR)
    }

    /// Returns the next frame or run of damaged bytes; `None` at the end.
    ///
    /// # Errors
    ///
    /// Errors of the input.
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

    /// Returns the header at the current position, if there is one.
    pub(super) fn header(&mut self) -> io::Result<Option<FrameHeader>> {
        self.fill(FRAME_HEADER_BYTES)?;
        Ok(FrameHeader::decode(self.unused()))
    }

    /// Takes the bytes of the frame with this header, if all are there and unchanged.
    pub(super) fn take_intact(&mut self, header: &FrameHeader) -> io::Result<Option<Arc<[u8]>>> {
        let Some(total) = self.intact(header)? else { return Ok(None) };
        let frame = self.unused().get(..total).map(Arc::from);
        self.unpacked += u64::from(header.payload_bytes);
        self.consume(total);
        Ok(frame)
    }

    /// Returns the current offset in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Puts back the bytes that were taken last, whose payloads have `payload_bytes`.
    pub(super) fn put_back(&mut self, bytes: &[u8], payload_bytes: u64) {
        self.unpacked -= payload_bytes;
        self.buffer.splice(..self.used, bytes.iter().copied());
        self.used = 0;
        self.offset -= bytes.len() as u64;
    }

    /// Keeps an error of the input that occurred before its bytes were needed.
    pub(super) fn fail_later(&mut self, error: io::Error) {
        self.failed = Some(error);
    }

    /// Returns the length of the frame with this header, if all its bytes are there, its checksum
    /// is correct, and all payloads together are not too long for the stored bytes.
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

    /// Returns the payload of the frame of `total` bytes at the current position, if its contents
    /// match the header.
    fn unpack(&mut self, header: &FrameHeader, total: usize) -> Option<Vec<u8>> {
        let frame = self.buffer.get(self.used..self.used + total)?;
        self.unpacker.unpack(header, frame.get(FRAME_HEADER_BYTES..)?)
    }

    /// Skips bytes until a whole frame begins or the input ends.
    fn skip_to_next_frame(&mut self) -> io::Result<Item> {
        let offset = self.offset;
        // At least one byte is skipped, so that a damaged frame is not found again.
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
        // A refused frame is not cut off.
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
            // Any number of bytes is accepted: a log that is still written has no more for now.
            match self.input.read(&mut self.room) {
                Ok(0) => self.at_end = true,
                Ok(more) => {
                    self.buffer.extend_from_slice(self.room.get(..more).unwrap_or_default())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The bytes before the error are good.
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

/// Maximum bytes and objects (opening braces, those in strings too) of a frame's JSON. In memory an
/// empty object is a hundred times as long, and packed a thousandth. A tracepoint has one object
/// and some thousand bytes, a disk two and some hundred.
const JSON_BYTES_MAX: usize = 32 << 20;
const JSON_OBJECTS_MAX: usize = 1 << 18;

/// Returns the value of a JSON frame of this kind.
///
/// # Errors
///
/// The error of serde, with the position in the text; also if the text is too long.
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

    /// Fails if a small log is unpacked without a limit, or if refused frames are reported as the
    /// log's end.
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
            let damaged = items.iter().filter_map(|item| match item {
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
