//! Reader of plans, for use by several threads at once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use thiserror::Error;
use zstd::bulk::Decompressor;

use super::{
    END_MAGIC, FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, FileBefore,
    FilesFrame, Fingerprint, Index, KIND_FILES, KIND_INDEX, KIND_NAMES, KIND_OPERATIONS,
    NamesFrame, OLDEST_VERSION, VERSION, payload_bytes_max,
};

/// Bytes after the last frame.
const END_BYTES: u64 = 16;

/// Reason why a plan cannot be read.
#[derive(Debug, Error)]
pub enum PlanError {
    /// File is not a plan.
    #[error("it is not a plan of iotrace-perf")]
    NoPlan,
    /// Plan has an unknown version.
    #[error(
        "it is a plan of version {0}, and this iotrace-perf reads versions {OLDEST_VERSION} to {VERSION}; make it again: iotrace-perf replay plan LOG -o PLAN"
    )]
    Version(u16),
    /// Plan lacks its end.
    #[error("it was not written to its end; make it again: iotrace-perf replay plan LOG -o PLAN")]
    Unfinished,
    /// Plan is for another kind of machine: registers, flags and error numbers have other meanings.
    #[error(
        "it is for {0} machines, and this one ({here}) has other numbers for flags and calls; capture, plan and replay on one kind of machine",
        here = std::env::consts::ARCH
    )]
    Machine(String),
    /// Plan is damaged.
    #[error("it is damaged at byte {offset}: {what}")]
    Damaged {
        /// Offset of the frame.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// System call has failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Open plan.
#[derive(Debug)]
pub struct PlanReader {
    file: File,
    length: u64,
    index_offset: u64,
}

/// Decoded header of a frame.
#[derive(Clone, Copy, Debug)]
struct PlanFrameHeader {
    stored_bytes: u32,
    payload_bytes: u32,
    /// CRC-32 of the stored payload.
    crc: u32,
}

impl PlanReader {
    /// Opens a plan and reads its index.
    ///
    /// # Errors
    ///
    /// The file is not a plan, or is damaged or unfinished.
    pub fn new(file: File) -> Result<(Self, Index), PlanError> {
        let length = file.metadata()?.len();
        let mut reader = Self { file, length, index_offset: 0 };
        if length < FILE_HEADER_BYTES {
            return Err(PlanError::NoPlan);
        }
        let [magic, rest] = reader.pair(0)?;
        if magic != FILE_MAGIC {
            return Err(PlanError::NoPlan);
        }
        let version = u16::from_le_bytes([rest[0], rest[1]]);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(PlanError::Version(version));
        }
        let end = length.checked_sub(END_BYTES).filter(|it| *it >= FILE_HEADER_BYTES);
        let [at, magic] = reader.pair(end.ok_or(PlanError::Unfinished)?)?;
        if magic != END_MAGIC {
            return Err(PlanError::Unfinished);
        }
        reader.index_offset = u64::from_le_bytes(at);
        let index: Index = reader.decoded(reader.index_offset, KIND_INDEX)?;
        // Names are printed without escaping.
        if !index.words().all(|it| it.bytes().all(|it| matches!(it, b' '..=b'~'))) {
            let (offset, what) = (reader.index_offset, "a name in it is not valid");
            return Err(PlanError::Damaged { offset, what });
        }
        if index.machine != std::env::consts::ARCH {
            return Err(PlanError::Machine(index.machine));
        }
        Ok((reader, index))
    }

    /// Returns the fingerprint of the plan.
    ///
    /// # Errors
    ///
    /// A frame is damaged.
    pub fn fingerprint(&self, index: &Index) -> Result<Fingerprint, PlanError> {
        let files = self.header(index.files_at, KIND_FILES)?.crc;
        Ok(Fingerprint { files, index: self.header(self.index_offset, KIND_INDEX)?.crc })
    }

    /// Reads the initial files.
    ///
    /// # Errors
    ///
    /// The frame is damaged.
    pub fn files(&self, index: &Index) -> Result<Vec<FileBefore>, PlanError> {
        self.decoded(index.files_at, KIND_FILES).map(|FilesFrame(it)| it)
    }

    /// Reads the paths of the files that operations concern, as they were first opened.
    ///
    /// # Errors
    ///
    /// The frame is damaged.
    pub fn names(&self, index: &Index) -> Result<FxHashMap<u32, Vec<u8>>, PlanError> {
        let NamesFrame(names) = self.decoded(index.names_at, KIND_NAMES)?;
        Ok(names.into_iter().collect())
    }

    /// Reads a frame of operations: encoded [`super::Operation`]s, one after the other.
    ///
    /// # Errors
    ///
    /// The frame is damaged.
    pub fn operations(
        &self,
        offset: u64,
        zstd: &mut Decompressor<'_>,
    ) -> Result<Vec<u8>, PlanError> {
        self.payload(offset, KIND_OPERATIONS, zstd)
    }

    fn decoded<T: DeserializeOwned>(&self, offset: u64, kind: u32) -> Result<T, PlanError> {
        let payload = self.payload(offset, kind, &mut Decompressor::new()?)?;
        postcard::from_bytes(&payload).map_err(|error| match error {
            // The only custom error: that of `limits::at_most`.
            postcard::Error::SerdeDeCustom => {
                PlanError::Damaged { offset, what: "it has more than a plan may have" }
            }
            _ => PlanError::Damaged { offset, what: "its contents have another shape" },
        })
    }

    fn header(&self, offset: u64, kind: u32) -> Result<PlanFrameHeader, PlanError> {
        let damaged = |what| PlanError::Damaged { offset, what };
        let left = self.length.checked_sub(offset).and_then(|it| it.checked_sub(END_BYTES));
        let left = left.ok_or(damaged("it is beyond the end of the file"))?;
        let mut header = [0; FRAME_HEADER_BYTES];
        if left < header.len() as u64 {
            return Err(damaged("it is beyond the end of the file"));
        }
        self.file.read_exact_at(&mut header, offset)?;
        let (words, _) = header.as_chunks::<4>();
        let [magic, rest @ ..] = words else { return Err(damaged("it has no header")) };
        let mut numbers = rest.iter().map(|it| u32::from_le_bytes(*it));
        let mut next = || numbers.next().unwrap_or_default();
        let (found, stored_bytes, payload_bytes, crc, header_crc) =
            (next(), next(), next(), next(), next());
        if *magic != FRAME_MAGIC || crc32fast::hash(&header[..header.len() - 4]) != header_crc {
            return Err(damaged("it is not a frame"));
        }
        if found != kind {
            return Err(damaged("it is a frame of another kind"));
        }
        if u64::from(stored_bytes) > left - header.len() as u64 {
            return Err(damaged("it is longer than the file"));
        }
        if stored_bytes.max(payload_bytes) > payload_bytes_max(kind) {
            return Err(damaged("it is longer than a frame of its kind may be"));
        }
        Ok(PlanFrameHeader { stored_bytes, payload_bytes, crc })
    }

    fn payload(
        &self,
        offset: u64,
        kind: u32,
        zstd: &mut Decompressor<'_>,
    ) -> Result<Vec<u8>, PlanError> {
        let damaged = |what| PlanError::Damaged { offset, what };
        let PlanFrameHeader { stored_bytes, payload_bytes, crc } = self.header(offset, kind)?;
        let mut stored = vec![0; stored_bytes as usize];
        self.file.read_exact_at(&mut stored, offset + FRAME_HEADER_BYTES as u64)?;
        if crc32fast::hash(&stored) != crc {
            return Err(damaged("its checksum does not match"));
        }
        let payload = zstd.decompress(&stored, payload_bytes as usize);
        let payload = payload.map_err(|_| damaged("it cannot be decompressed"))?;
        let is_whole = payload.len() == payload_bytes as usize;
        is_whole.then_some(payload).ok_or(damaged("it is shorter than its header states"))
    }

    /// Reads two words of 8 bytes.
    fn pair(&self, offset: u64) -> Result<[[u8; 8]; 2], PlanError> {
        let mut bytes = [0; 16];
        self.file.read_exact_at(&mut bytes, offset)?;
        let (words, _) = bytes.as_chunks::<8>();
        <[[u8; 8]; 2]>::try_from(words).map_err(|_| PlanError::NoPlan)
    }
}
