//! Job: the fio log of one thread.

use std::fmt;
use std::io::Write as _;

use rustc_hash::FxHashMap;

use super::names::FileName;
use crate::units::Nanos;

/// Action of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobDirection {
    /// Reads bytes from the file.
    Read,
    /// Writes bytes to the file.
    Write,
    /// Writes all cached data of the file to its disk.
    Sync,
    /// Writes cached data to its disk, without metadata such as times.
    Datasync,
}

impl JobDirection {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Datasync => "datasync",
        }
    }
}

/// Time of a line in a log: µs since the first exported operation, from 1 on. 0 is before all
/// lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogTime(u64);

impl LogTime {
    /// Time of the first line, to which the others are relative.
    const FIRST: Self = Self(1);

    /// Returns the time at a distance from the first exported operation.
    pub(super) fn of(distance: Nanos) -> Self {
        Self(distance.0 / 1000 + 1)
    }
}

/// First line of a log (`iolog_ver3` in `iolog.c`).
const FIRST_LINE: &[u8] = b"fio version 3 iolog\n";

/// Job that replays one thread.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread at its first operation.
    pub comm: Vec<u8>,
    /// Numbers of reads, writes and syncs.
    pub operations: [u64; 3],
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Opens in the log, including those that no call of the thread has made.
    pub opens: u64,
    /// Closes in the log, including those that no call of the thread has made.
    pub closes: u64,
    /// Reads and writes with direct I/O.
    pub direct: u64,
    /// Reads and writes of files opened with `O_DSYNC`, and those of them without `O_SYNC`.
    pub sync: [u64; 2],
    /// Files by number: true if open.
    files: FxHashMap<usize, bool>,
    /// Files that another thread of the process has closed since the last line.
    to_close: Vec<usize>,
    /// Time of the last line.
    last: LogTime,
    /// Lines that are not yet stored.
    pub(super) lines: Vec<u8>,
}

impl Job {
    /// Creates a job with an empty log.
    pub(super) fn new(pid: i32, tid: i32, comm: Vec<u8>) -> Self {
        Self { pid, tid, comm, lines: FIRST_LINE.to_vec(), ..Self::default() }
    }

    /// Returns true if fio accepts the job: it reads or writes.
    pub fn has_data(&self) -> bool {
        self.operations[0] + self.operations[1] > 0
    }

    /// Opens a file. Returns false if it is open already.
    pub(super) fn open(&mut self, time: LogTime, file: usize, names: &[FileName]) -> bool {
        self.close_rest(time, Some(file), names);
        match self.files.insert(file, true) {
            Some(true) => return false,
            Some(false) => {}
            // The first line has the time that the others are relative to.
            None => {
                let is_first = self.last == LogTime::default();
                let time = if is_first { LogTime::FIRST } else { time };
                self.line(time, file, names, format_args!("add"));
            }
        }
        self.line(time, file, names, format_args!("open"));
        self.opens += 1;
        true
    }

    /// Records that this thread, or another one of its process, has closed the last descriptor of a
    /// file. Returns false if the job did not have the file open.
    pub(super) fn close(&mut self, time: Option<LogTime>, file: usize, names: &[FileName]) -> bool {
        if self.files.get(&file) != Some(&true) {
            return false;
        }
        self.to_close.push(file);
        if let Some(time) = time {
            self.close_rest(time, None, names);
        }
        true
    }

    /// Adds a line that moves bytes, after opening the file if needed.
    pub(super) fn moves(
        &mut self,
        time: LogTime,
        file: usize,
        names: &[FileName],
        what: JobDirection,
        offset: u64,
        length: u32,
    ) {
        self.open(time, file, names);
        self.line(time, file, names, format_args!("{} {offset} {length}", what.word()));
        let index = what as usize;
        self.operations[index.min(2)] += 1;
        if let Some(bytes) = self.bytes.get_mut(index) {
            *bytes += u64::from(length);
        }
    }

    /// Closes the files that other threads have closed, except the one needed now.
    fn close_rest(&mut self, time: LogTime, needed: Option<usize>, names: &[FileName]) {
        for file in std::mem::take(&mut self.to_close) {
            if Some(file) != needed && self.files.insert(file, false) == Some(true) {
                self.line(time, file, names, format_args!("close"));
                self.closes += 1;
            }
        }
    }

    /// Closes the files that are open at the end.
    pub(super) fn end(&mut self, names: &[FileName]) {
        self.to_close = self.files.iter().filter(|it| *it.1).map(|it| *it.0).collect();
        self.to_close.sort_unstable();
        self.close_rest(self.last, None, names);
    }

    /// Adds a line. Times of a log never decrease.
    fn line(&mut self, time: LogTime, file: usize, names: &[FileName], what: fmt::Arguments<'_>) {
        self.last = self.last.max(time);
        let lines = &mut self.lines;
        // Writing to memory cannot fail.
        let _ = write!(lines, "{} ", self.last.0);
        lines.extend_from_slice(&names[file].name);
        let _ = writeln!(lines, " {what}");
    }
}
