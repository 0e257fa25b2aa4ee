//! Writer of capture logs, which appends frames.

use std::io::{self, Write};

use super::fact::FactsFrame;
use super::format::{
    Codec, FILE_MAGIC, FrameHeader, FrameKind, MAJOR, MINOR, NO_CPU, PAYLOAD_BYTES_MAX,
};
use crate::units::KernelTime;

/// Compression level of zstd: the fastest that still reduces a tight loop to a few bytes per
/// operation.
const LEVEL: i32 = 1;

/// Minimum bytes of a payload that is compressed: compressing shorter ones costs more than it
/// saves.
const COMPRESS_BYTES_MIN: usize = 128;

/// Metadata of a data frame.
#[derive(Clone, Copy, Debug)]
pub struct DataFrame {
    /// CPU of the ring.
    pub cpu: u32,
    /// Index among the CPU's rings.
    pub stream: u32,
    /// Index into the header's layouts.
    pub layout: u16,
    /// Codec of the payload: [`Codec::ZSTD_DELTA`] for perf's records, [`Codec::ZSTD`] for others.
    pub codec: Codec,
    /// Time of the earliest record.
    pub first_time: KernelTime,
    /// Time of the latest record.
    pub last_time: KernelTime,
    /// Number of records.
    pub records: u32,
}

impl DataFrame {
    /// Adds the metadata of a later part of the same ring.
    pub fn extend(&mut self, later: &Self) {
        self.first_time = self.first_time.min(later.first_time);
        self.last_time = self.last_time.max(later.last_time);
        self.records += later.records;
    }
}

/// Appends frames to a log.
pub struct Writer<W> {
    out: W,
    compressor: zstd::bulk::Compressor<'static>,
    scratch: Vec<u8>,
    written: u64,
}

impl<W> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a log on `out`, which must be empty. `out` gets each frame in one `write_all`; it
    /// should not buffer, since a crash would lose its buffer.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            compressor: zstd::bulk::Compressor::new(LEVEL)?,
            scratch: Vec::new(),
            written: 0,
        };
        let mut start = Vec::new();
        start.extend_from_slice(&FILE_MAGIC);
        start.extend_from_slice(&MAJOR.to_le_bytes());
        start.extend_from_slice(&MINOR.to_le_bytes());
        start.extend_from_slice(&[0; 4]);
        writer.out.write_all(&start)?;
        writer.written = start.len() as u64;
        Ok(writer)
    }

    /// Appends whole records of one ring, as the kernel wrote them. The contents of `payload` are
    /// undefined afterwards.
    ///
    /// # Errors
    ///
    /// Errors of the output; `InvalidInput` for a payload beyond [`PAYLOAD_BYTES_MAX`].
    pub fn data(&mut self, frame: &DataFrame, payload: &mut [u8]) -> io::Result<()> {
        let header = FrameHeader {
            layout: frame.layout,
            cpu: frame.cpu,
            stream: frame.stream,
            last_time: frame.last_time.0,
            items: frame.records,
            codec: frame.codec,
            ..blank(FrameKind::DATA, frame.first_time)
        };
        self.frame(header, payload)
    }

    /// Appends a ROUND frame: all rings were taken after the clock showed `time`.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn round(&mut self, time: KernelTime) -> io::Result<()> {
        self.frame(blank(FrameKind::ROUND, time), &mut [])
    }

    /// Appends facts. Their contents are undefined afterwards.
    ///
    /// # Errors
    ///
    /// As for [`Self::data`].
    pub fn facts(&mut self, time: KernelTime, facts: &mut FactsFrame) -> io::Result<()> {
        self.facts_of(FrameKind::FACTS, time, facts)
    }

    /// Appends facts that were found at the end and apply to the whole recording.
    ///
    /// # Errors
    ///
    /// As for [`Self::data`].
    pub fn last_facts(&mut self, time: KernelTime, facts: &mut FactsFrame) -> io::Result<()> {
        self.facts_of(FrameKind::LAST_FACTS, time, facts)
    }

    fn facts_of(
        &mut self,
        kind: FrameKind,
        time: KernelTime,
        facts: &mut FactsFrame,
    ) -> io::Result<()> {
        let (items, codec) = (facts.count, Codec::ZSTD_DELTA);
        let header = FrameHeader { items, codec, ..blank(kind, time) };
        self.frame(header, &mut facts.bytes)
    }

    /// Appends a frame of JSON (HEADER, END).
    ///
    /// # Errors
    ///
    /// As for [`Self::data`].
    pub fn json(
        &mut self,
        kind: FrameKind,
        time: KernelTime,
        value: &impl serde::Serialize,
    ) -> io::Result<()> {
        let mut payload = serde_json::to_vec(value)?;
        self.frame(blank(kind, time), &mut payload)
    }

    /// Appends whole frames of another log.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn frames(&mut self, frames: &[u8]) -> io::Result<()> {
        self.out.write_all(frames)?;
        self.written += frames.len() as u64;
        Ok(())
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the output: all frames have been written.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Returns a reference to the output.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    fn frame(&mut self, mut header: FrameHeader, payload: &mut [u8]) -> io::Result<()> {
        let too_long = || {
            io::Error::new(io::ErrorKind::InvalidInput, "a frame is longer than the format allows")
        };
        header.payload_bytes = u32::try_from(payload.len())
            .ok()
            .filter(|&it| it <= PAYLOAD_BYTES_MAX)
            .ok_or_else(too_long)?;
        if header.codec == Codec::ZSTD_DELTA {
            super::delta::encode(header.kind, payload);
        }
        // Header and payload leave in one write: a crash can cut a frame, but not mix two.
        self.scratch.clear();
        self.scratch.resize(super::format::FRAME_HEADER_BYTES, 0);
        header.codec = self.append_encoded(header.codec, payload)?;
        let (head, stored) = self.scratch.split_at_mut(super::format::FRAME_HEADER_BYTES);
        header.stored_bytes = u32::try_from(stored.len()).map_err(|_| too_long())?;
        header.payload_crc = crc32fast::hash(stored);
        head.copy_from_slice(&header.encode());
        self.out.write_all(&self.scratch)?;
        self.written += self.scratch.len() as u64;
        Ok(())
    }

    /// Appends the payload to the scratch buffer, compressed if the codec requires it or if that
    /// makes it shorter.
    fn append_encoded(&mut self, codec: Codec, payload: &[u8]) -> io::Result<Codec> {
        if codec == Codec::ZSTD_DELTA || payload.len() >= COMPRESS_BYTES_MIN {
            let compressed = self.compressor.compress(payload)?;
            if codec == Codec::ZSTD_DELTA || compressed.len() < payload.len() {
                self.scratch.extend_from_slice(&compressed);
                return Ok(if codec == Codec::ZSTD_DELTA { codec } else { Codec::ZSTD });
            }
        }
        self.scratch.extend_from_slice(payload);
        Ok(Codec::STORED)
    }
}

/// Creates a frame header with only a kind and a time.
fn blank(kind: FrameKind, time: KernelTime) -> FrameHeader {
    FrameHeader {
        kind,
        codec: Codec::STORED,
        layout: 0,
        cpu: NO_CPU,
        stream: 0,
        first_time: time.0,
        last_time: time.0,
        items: 0,
        stored_bytes: 0,
        payload_bytes: 0,
        payload_crc: 0,
    }
}

impl Writer<std::fs::File> {
    /// Writes by `write`, wholly or not at all. After an error the part of a frame that was written
    /// is cut off, so that the log ends with a whole one.
    ///
    /// # Errors
    ///
    /// Errors of `write`. Where the file cannot be cut either, a part of a frame stays, which
    /// readers count as damaged.
    pub fn write_atomically(
        &mut self,
        write: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let good = self.written;
        let done = write(self);
        if done.is_err() {
            let _ = self.cut(good);
        }
        done
    }

    /// Waits until the disk has all of the log, also the END frame: a failed write may be reported
    /// only here. A file without a name is not synchronized, since it ends with this process.
    ///
    /// # Errors
    ///
    /// Errors of `fdatasync(2)`.
    pub fn synced(&self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        if self.out.metadata()?.nlink() == 0 { Ok(()) } else { self.out.sync_data() }
    }

    /// Cuts the file to its first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()> {
        use std::io::Seek;
        self.out.set_len(length)?;
        self.out.seek(io::SeekFrom::Start(length))?;
        self.written = length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::capture::reader::{Item, Reader};

    /// Fails if a part of a frame that found no space stays, whatever comes after it.
    #[test]
    fn partial_frame_is_cut_off() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut writer = Writer::new(file.try_clone().expect("another handle")).expect("space");
        let full = |writer: &mut Writer<std::fs::File>| {
            writer.out.write_all(&[1; 219])?;
            Err(io::ErrorKind::StorageFull.into())
        };
        for time in [1, 2] {
            writer.write_atomically(|it| it.round(KernelTime(time))).expect("space");
            let failed = writer.write_atomically(full).expect_err("it is full");
            assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        }
        let mut log = Vec::new();
        io::Seek::rewind(&mut file).and_then(|()| file.read_to_end(&mut log)).expect("it is there");
        assert_eq!(log.len() as u64, writer.written());
        let mut reader = Reader::new(log.as_slice()).expect("a log");
        let mut times = Vec::new();
        while let Some(item) = reader.next_item().expect("memory") {
            let Item::Frame(header, _) = item else { panic!("damaged: {item:?}") };
            times.push(header.first_time);
        }
        assert_eq!(times, [1, 2]);
    }
}
