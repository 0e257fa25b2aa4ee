//! Reader of a log while it is written.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::sys::{files, signal, thread};

/// Pause between two reads without new data.
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes of the log that are freed at once.
const GIVEN_BACK: u64 = 16 << 20;

/// Pause between two times at which an unread log is freed.
const DISCARD_PAUSE: Duration = Duration::from_millis(50);

/// Signal that a log is complete.
#[derive(Clone, Default)]
pub(super) struct LogCompletion {
    is_complete: Arc<AtomicBool>,
    is_unwanted: Arc<AtomicBool>,
}

impl LogCompletion {
    /// Ends the recording as Ctrl-C does, unless it has ended: its output has no reader any more.
    pub(super) fn stop_recording(&self) {
        if !self.is_set() {
            let _ = signal::send(std::process::id().cast_signed(), libc::SIGINT);
        }
    }

    /// Marks the log as complete.
    pub(super) fn set(&self) {
        // ORDERING: Release: a reader that sees it, and then the end of the file, has seen all of
        // the log.
        self.is_complete.store(true, Ordering::Release);
    }

    /// Ends the reading early: the rest of the log is not shown.
    pub(super) fn give_up(&self) {
        // ORDERING: Relaxed: the flag guards no other data.
        self.is_unwanted.store(true, Ordering::Relaxed);
    }

    /// True if the rest of the log is not wanted.
    pub(super) fn is_given_up(&self) -> bool {
        // ORDERING: Relaxed: as above.
        self.is_unwanted.load(Ordering::Relaxed)
    }

    /// True if the log is complete.
    pub(super) fn is_set(&self) -> bool {
        // ORDERING: Acquire: a later read sees all that was written before the flag was set.
        self.is_complete.load(Ordering::Acquire)
    }
}

/// A log that is still being written.
pub(super) struct TailingReader {
    file: File,
    /// The log's descriptor for writing, if no other reader follows.
    log: Option<File>,
    ended: LogCompletion,
    offset: u64,
    given_back: u64,
}

impl TailingReader {
    /// Opens the log at this path; with `log`, a descriptor for writing, the space of read bytes is
    /// freed.
    pub(super) fn open(path: &Path, log: Option<File>, ended: &LogCompletion) -> io::Result<Self> {
        let (file, ended) = (File::open(path)?, ended.clone());
        Ok(Self { file, log, ended, offset: 0, given_back: 0 })
    }

    /// Returns the discarder that takes the place of this reader after an error; `None`: another
    /// reader needs the log.
    pub(super) fn discarder(&self) -> io::Result<Option<LogDiscarder>> {
        let log = self.log.as_ref().map(File::try_clone).transpose()?;
        Ok(log.map(|log| LogDiscarder { log, ended: self.ended.clone() }))
    }

    /// Punches a hole over bytes that no reader needs again. On file systems without holes the file
    /// grows.
    fn give_back(&mut self) {
        let Some(log) = &self.log else { return };
        if self.offset - self.given_back >= 2 * GIVEN_BACK {
            let end = self.offset - GIVEN_BACK;
            let _ = files::give_back(log, self.given_back, end - self.given_back);
            self.given_back = end;
        }
    }
}

impl Read for TailingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Before the read: bytes that were written before the flag was set are read below.
            let has_ended = self.ended.is_set();
            // ORDERING: Relaxed: as above.
            if self.ended.is_unwanted.load(Ordering::Relaxed) {
                return Err(io::Error::other("cancelled by a signal"));
            }
            let count = self.file.read(buffer)?;
            if count > 0 || has_ended {
                self.offset += count as u64;
                self.give_back();
                return Ok(count);
            }
            thread::pause(PAUSE);
        }
    }
}

/// Log that no reader wants any more, while it is still being written.
pub(super) struct LogDiscarder {
    log: File,
    ended: LogCompletion,
}

impl LogDiscarder {
    /// Frees the space of the log until it is complete. On file systems without holes the file
    /// grows.
    pub(super) fn discard(self) {
        let mut freed = 0;
        while !self.ended.is_set() {
            let length = self.log.metadata().map_or(0, |facts| facts.len());
            // A multiple of the blocks of any file system: a part of a block stays.
            let end = length - length % GIVEN_BACK;
            if end > freed {
                let _ = files::give_back(&self.log, freed, end - freed);
                freed = end;
            }
            thread::pause(DISCARD_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// Bytes that are written at once.
    const PIECE: usize = 1 << 20;

    /// Fails if a log whose reader has failed takes more and more room.
    #[test]
    fn log_without_a_reader_takes_no_room() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut written = file.reopen().expect("it is there");
        let ended = LogCompletion::default();
        let log = Some(file.reopen().expect("it is there"));
        let reader = TailingReader::open(file.path(), log, &ended).expect("it is there");
        let discarder = reader.discarder().expect("a descriptor").expect("no other reader");
        let discarding = std::thread::spawn(move || discarder.discard());
        for _ in 0..67 {
            written.write_all(&vec![7; PIECE]).expect("there is room");
        }
        let room = || file.as_file().metadata().expect("it is there").blocks() * 512;
        for _ in 0..200 {
            if room() < 2 * GIVEN_BACK {
                break;
            }
            thread::pause(PAUSE);
        }
        ended.set();
        discarding.join().expect("it does not panic");
        assert!(room() < 2 * GIVEN_BACK, "{}", room());
        assert_eq!(file.as_file().metadata().expect("it is there").len(), 67 << 20);
    }
}
