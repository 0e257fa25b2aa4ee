//! Scanner of a log that is being written: finds whole frames by their headers, and reads only the
//! payloads that are wanted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::format::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader};
use super::payload::Unpacker;

/// Frame that was found.
#[derive(Debug)]
pub struct ScannedFrame {
    /// Header of the frame.
    pub header: FrameHeader,
    /// Offset of the header in the log.
    pub offset: u64,
    /// Decoded payload, if it was wanted and is not damaged.
    pub payload: Option<Vec<u8>>,
}

/// Position in a log.
#[derive(Debug)]
pub struct FrameScanner {
    log: File,
    offset: u64,
    unpacker: Unpacker,
}

impl FrameScanner {
    /// Creates a scanner at the start of a log. The position of `log` is not used.
    pub fn new(log: File) -> Self {
        Self { log, offset: FILE_HEADER_BYTES as u64, unpacker: Unpacker::default() }
    }

    /// Returns the next frame; `None` if it is not written wholly yet.
    ///
    /// # Errors
    ///
    /// Errors of the log; `InvalidData` if the next bytes are no frame.
    pub fn next_frame(
        &mut self,
        is_wanted: impl FnOnce(&FrameHeader) -> bool,
    ) -> io::Result<Option<ScannedFrame>> {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        if !read_whole(&self.log, &mut bytes, self.offset)? {
            return Ok(None);
        }
        let no_frame = || io::Error::new(io::ErrorKind::InvalidData, "the log has no frame here");
        let header = FrameHeader::decode(&bytes).ok_or_else(no_frame)?;
        let payload_at = self.offset + FRAME_HEADER_BYTES as u64;
        let end = payload_at + u64::from(header.stored_bytes);
        if self.log.metadata()?.len() < end {
            return Ok(None);
        }
        let mut payload = None;
        if is_wanted(&header) {
            let mut stored = vec![0; usize::try_from(header.stored_bytes).unwrap_or(0)];
            if !read_whole(&self.log, &mut stored, payload_at)? {
                return Ok(None);
            }
            payload = self.unpacker.unpack(&header, &stored);
        }
        let offset = std::mem::replace(&mut self.offset, end);
        Ok(Some(ScannedFrame { header, offset, payload }))
    }
}

/// Reads at an offset; returns false if the file ends before.
fn read_whole(log: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match log.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::capture::format::FrameKind;
    use crate::capture::writer::Writer;
    use crate::units::KernelTime;

    /// Fails if a frame is returned before all of its bytes are there.
    #[test]
    fn whole_frames_are_found_while_the_log_grows() {
        let mut writer = Writer::new(Vec::new()).expect("memory");
        writer.json(FrameKind::HEADER, KernelTime(1), &"a header").expect("memory");
        writer.round(KernelTime(2)).expect("memory");
        let bytes = writer.into_inner();
        let mut log = tempfile::tempfile().expect("a file");
        let mut scanner = FrameScanner::new(log.try_clone().expect("a handle"));
        let mut found = Vec::new();
        for byte in &bytes {
            log.write_all(&[*byte]).expect("written");
            while let Some(frame) = scanner.next_frame(|_| true).expect("no error") {
                let end = frame.offset + 52 + u64::from(frame.header.stored_bytes);
                assert_eq!(end, log.metadata().expect("a file").len());
                found.push((frame.header.kind, frame.payload));
            }
        }
        let header = (FrameKind::HEADER, Some(b"\"a header\"".to_vec()));
        assert_eq!(found, [header, (FrameKind::ROUND, Some(Vec::new()))]);
    }
}
