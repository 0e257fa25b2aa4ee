//! Writer of one log of a recorder: its header, whole frames of the recording, and an end.
//!
//! The log of an incident gets its name when all of it is on the disk: a recorder that is killed
//! leaves whole logs and at most one unfinished file, which has another name. A log of a rotation
//! has its name from the beginning.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::part_names::PartNames;
use crate::capture::format::FrameKind;
use crate::capture::frame_ring::RingFrame;
use crate::capture::header::{End, Excerpt, Header, TracerCost};
use crate::capture::writer::Writer;
use crate::cli::error::CliError;
use crate::cli::file_staging::StagedFile;
use crate::cli::output::OpenOutput;
use crate::sys::output_dir::Users;
use crate::units::KernelTime;

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Log that was written.
#[derive(Debug)]
pub(super) struct WrittenPart {
    /// Path that messages show.
    pub(super) shown: PathBuf,
    /// Bytes of the log.
    pub(super) bytes: u64,
    /// Directory of the log.
    pub(super) output: OpenOutput,
}

impl WrittenPart {
    /// Removes the log, and its directory if nothing else is in it.
    pub(super) fn remove(self) -> io::Result<()> {
        let name = self.shown.file_name().unwrap_or_default();
        self.output.directory.remove(name)?;
        self.output.discard();
        Ok(())
    }
}

/// Log that is being written.
pub(super) struct PartFile {
    output: OpenOutput,
    /// File until it gets its name; `None`: it has it already.
    staged: Option<StagedFile>,
    writer: Writer<File>,
    /// Time of its beginning: of the recording's clock, and of the wall clock.
    start: (u64, u64),
}

impl PartFile {
    /// Creates the next free name, and writes the header.
    ///
    /// # Errors
    ///
    /// The file cannot be made or written.
    pub(super) fn begin(
        names: &mut PartNames,
        users: &Users,
        header: Header,
    ) -> Result<Self, CliError> {
        Self::begin_as(names, users, header, true)
    }

    /// Creates the next free name as [`Self::begin`] does, at its place.
    ///
    /// # Errors
    ///
    /// The file cannot be made or written.
    pub(super) fn begin_in_place(
        names: &mut PartNames,
        users: &Users,
        header: Header,
    ) -> Result<Self, CliError> {
        Self::begin_as(names, users, header, false)
    }

    fn begin_as(
        names: &mut PartNames,
        users: &Users,
        header: Header,
        is_staged: bool,
    ) -> Result<Self, CliError> {
        let (number, output) = names.next_free()?;
        let log = output.log();
        let output = output.open(users, false)?;
        let failed = |source| CliError::Create { path: log.clone(), source };
        let create = || {
            if is_staged {
                let staged = StagedFile::create(&log, users, false)?;
                let file = staged.file().try_clone().map_err(failed)?;
                return Ok((Some(staged), file));
            }
            let mut new = output.create_log()?;
            new.keep();
            Ok((None, new.file().try_clone().map_err(failed)?))
        };
        let begun =
            create().and_then(|(staged, file)| Ok((staged, Writer::new(file).map_err(failed)?)));
        let (staged, mut writer) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                output.discard();
                return Err(error);
            }
        };
        let excerpt = header.excerpt.clone().unwrap_or_default();
        let header = Header { excerpt: Some(Excerpt { number, ..excerpt }), ..header };
        let start = (header.clock.start_ns, header.clock.start_realtime_ns);
        let written = writer.json(FrameKind::HEADER, KernelTime(start.0), &header);
        let part = Self { output, staged, writer, start };
        match written {
            Ok(()) => Ok(part),
            Err(error) => Err(part.abandoned(error)),
        }
    }

    /// Copies frames of the recording.
    ///
    /// # Errors
    ///
    /// Those of reading and writing.
    pub(super) fn copy(&mut self, log: &File, frames: &[RingFrame]) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut frames = frames.iter().peekable();
        while let Some(first) = frames.next() {
            let mut length = first.bytes;
            // Frames beside each other are copied together.
            while let Some(next) = frames.peek()
                && next.offset == first.offset + length
                && length + next.bytes <= COPY_BYTES as u64
            {
                length += next.bytes;
                frames.next();
            }
            bytes.resize(usize::try_from(length).map_err(io::Error::other)?, 0);
            log.read_exact_at(&mut bytes, first.offset)?;
            self.writer.write_atomically(|writer| writer.frames(&bytes))?;
        }
        Ok(())
    }

    /// Returns its path.
    pub(super) fn path(&self) -> PathBuf {
        self.output.output.log()
    }

    /// Returns the bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.writer.written()
    }

    /// Writes the end, waits for the disk, and gives the file its name.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`].
    pub(super) fn finish(
        mut self,
        reason: &str,
        end: KernelTime,
        cpu_ns: u64,
    ) -> Result<WrittenPart, CliError> {
        let since_start = end.0.saturating_sub(self.start.0);
        let end_record = End {
            end_ns: end.0,
            end_realtime_ns: self.start.1.saturating_add(since_start),
            reason: reason.to_owned(),
            own: TracerCost { cpu_ns, ..TracerCost::default() },
            ..End::default()
        };
        let written = self.writer.json(FrameKind::END, end, &end_record);
        let synced = written.and_then(|()| self.writer.get_ref().sync_all());
        if let Err(error) = synced {
            return Err(self.abandoned(error));
        }
        let (bytes, shown) = (self.writer.written(), self.output.output.log());
        let Self { output, staged, .. } = self;
        if let Some(Err(error)) = staged.map(StagedFile::finish) {
            output.discard();
            return Err(error);
        }
        // The name is on the disk, too; a file system that cannot do this keeps it in its own time.
        let _ = output.directory.readable().and_then(|directory| directory.sync_all());
        Ok(WrittenPart { shown, bytes, output })
    }

    /// Removes the unfinished file; one that has its name stays. Returns the error as one of the
    /// log.
    pub(super) fn abandoned(self, source: io::Error) -> CliError {
        let path = self.output.output.log();
        let Self { output, staged, .. } = self;
        drop(staged);
        output.discard();
        CliError::Create { path, source }
    }
}
