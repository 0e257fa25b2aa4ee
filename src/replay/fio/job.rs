//! One thread's log.

use std::fmt;
use std::io::Write as _;

use rustc_hash::FxHashMap;

use super::names::FileName;

/// What a line moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Bytes from the file.
    Read,
    /// Bytes to the file.
    Write,
    /// Everything of the file to its disk.
    Sync,
    /// The same without times and the like.
    Datasync,
}

impl Moved {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Datasync => "datasync",
        }
    }
}

/// The first line of a log (`iolog_ver3` in `iolog.c`).
const FIRST_LINE: &[u8] = b"fio version 3 iolog\n";

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// Its name when it first did something.
    pub comm: Vec<u8>,
    /// Reads, writes and syncs.
    pub operations: [u64; 3],
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Opens and closes that are in the log, also those that no call of its own has made.
    pub opens: u64,
    /// The same.
    pub closes: u64,
    /// Reads and writes without the page cache.
    pub direct: u64,
    /// Those that are done only when the bytes are on the disk, and of these those that need nothing else to be there.
    pub sync: [u64; 2],
    /// Files by number: whether it is open.
    files: FxHashMap<usize, bool>,
    /// Files that somebody else of its process has closed meanwhile.
    to_close: Vec<usize>,
    /// The time of the last line, µs.
    last: u64,
    /// Lines that nobody keeps yet.
    pub(super) lines: Vec<u8>,
}

impl Job {
    /// Nothing in it.
    pub(super) fn new(pid: i32, tid: i32, comm: Vec<u8>) -> Self {
        Self { pid, tid, comm, lines: FIRST_LINE.to_vec(), ..Self::default() }
    }

    /// True if fio takes it for a job.
    pub fn has_data(&self) -> bool {
        self.operations[0] + self.operations[1] > 0
    }

    /// The file is open from now on; false if it was.
    pub(super) fn open(&mut self, time: u64, file: usize, names: &[FileName]) -> bool {
        self.close_rest(time, Some(file), names);
        match self.files.insert(file, true) {
            Some(true) => return false,
            Some(false) => {}
            // The first line has the time from which the others are reckoned.
            None => {
                let time = if self.last == 0 { 1 } else { time };
                self.line(time, file, names, format_args!("add"));
            }
        }
        self.line(time, file, names, format_args!("open"));
        self.opens += 1;
        true
    }

    /// The job's own thread, or another one of its process, has closed the last descriptor of a file.
    pub(super) fn close(&mut self, time: Option<u64>, file: usize, names: &[FileName]) -> bool {
        if self.files.get(&file) != Some(&true) {
            return false;
        }
        self.to_close.push(file);
        if let Some(time) = time {
            self.close_rest(time, None, names);
        }
        true
    }

    /// Bytes are moved; the file is open.
    pub(super) fn moves(
        &mut self,
        time: u64,
        (file, names): (usize, &[FileName]),
        what: Moved,
        (offset, length): (u64, u32),
    ) {
        self.open(time, file, names);
        self.line(time, file, names, format_args!("{} {offset} {length}", what.word()));
        let place = what as usize;
        self.operations[place.min(2)] += 1;
        if let Some(bytes) = self.bytes.get_mut(place) {
            *bytes += u64::from(length);
        }
    }

    /// Closes what others have closed, but for what is needed now.
    fn close_rest(&mut self, time: u64, needed: Option<usize>, names: &[FileName]) {
        for file in std::mem::take(&mut self.to_close) {
            if Some(file) != needed && self.files.insert(file, false) == Some(true) {
                self.line(time, file, names, format_args!("close"));
                self.closes += 1;
            }
        }
    }

    /// Closes what is open at the end.
    pub(super) fn end(&mut self, names: &[FileName]) {
        self.to_close = self.files.iter().filter(|it| *it.1).map(|it| *it.0).collect();
        self.to_close.sort_unstable();
        self.close_rest(self.last, None, names);
    }

    /// Times of a log do not go back.
    fn line(&mut self, time: u64, file: usize, names: &[FileName], what: fmt::Arguments<'_>) {
        self.last = self.last.max(time);
        let lines = &mut self.lines;
        // Memory takes whatever is written.
        let _ = write!(lines, "{} ", self.last);
        lines.extend_from_slice(&names[file].name);
        let _ = writeln!(lines, " {what}");
    }
}
