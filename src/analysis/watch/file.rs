//! State of one watched file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::evidence::AccessEvidence;
use super::limits::TURNS_MAX;
use super::refusal::WatchError;
use crate::operation::access::Access;
use crate::operation::attribution::FileKey;
use crate::units::KernelTime;

/// Parameters of a file to watch.
#[derive(Clone, Debug)]
pub struct NewWatch {
    /// Device and inode.
    pub key: FileKey,
    /// Name in the form `DEVICE_INODE`.
    pub name: String,
    /// Path by which the user named it.
    pub path: Vec<u8>,
    /// Maximum number of kept accesses.
    pub max: usize,
    /// Time from which the file is watched.
    pub at: KernelTime,
    /// Extents on its device: addresses and lengths in bytes.
    pub runs: Vec<(u64, u64)>,
}

/// Access that is kept.
#[derive(Clone, Debug)]
pub struct KeptAccess {
    /// Access itself.
    pub access: Access,
    /// Evidence for its file.
    pub how: AccessEvidence,
    /// Name of the thread.
    pub comm: Option<Arc<[u8]>>,
}

/// Status of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// True if the file is not stopped.
    pub is_logging: bool,
    /// Time from which times count.
    pub start: KernelTime,
    /// Maximum number of kept accesses.
    pub max: usize,
    /// Number of kept accesses.
    pub kept: usize,
}

/// Counters of a file since it was added or reset, for the time in which it was not stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAccounting {
    /// Calls and asynchronous operations: count, bytes.
    pub called: (u64, u64),
    /// Asynchronous operations among them whose results were not seen: the bytes are the requested
    /// ones.
    pub without_result: (u64, u64),
    /// Operations among them for which only the file's name is known.
    pub by_name: (u64, u64),
    /// Pieces of block requests that certainly belong to the file.
    pub exact: (u64, u64),
    /// Pieces of block requests that probably belong to the file.
    pub inferred: (u64, u64),
    /// Accesses that were not kept, because the maximum was reached.
    pub beyond: u64,
    /// Calls and operations that moved bytes of the file at unknown positions or in unknown
    /// numbers: they have no line.
    pub without_line: u64,
}

impl FileAccounting {
    fn add(&mut self, kept: &KeptAccess) {
        let book = |(count, bytes): &mut (u64, u64)| {
            *count += 1;
            *bytes = bytes.saturating_add(kept.access.bytes);
        };
        match kept.how {
            AccessEvidence::Called { lacks_result, is_named } => {
                book(&mut self.called);
                let more =
                    [(lacks_result, &mut self.without_result), (is_named, &mut self.by_name)];
                more.into_iter().filter(|it| it.0).for_each(|it| book(it.1));
            }
            AccessEvidence::Exact => book(&mut self.exact),
            AccessEvidence::Inferred => book(&mut self.inferred),
        }
    }
}

/// Watched file.
#[derive(Debug)]
pub struct WatchedFile {
    /// Device and inode.
    pub key: FileKey,
    /// Name in the form `DEVICE_INODE`.
    pub name: String,
    /// Path by which the user named it.
    pub path: Vec<u8>,
    max: usize,
    start: KernelTime,
    /// Time before which accesses are ignored.
    since: KernelTime,
    /// Times of stops and starts since then.
    turns: Vec<(KernelTime, bool)>,
    /// Extents sorted by address, disjoint.
    runs: Vec<(u64, u64)>,
    /// Kept accesses by beginning and number.
    kept: BTreeMap<(KernelTime, u64), KeptAccess>,
    accounting: FileAccounting,
}

impl WatchedFile {
    pub(super) fn new(new: NewWatch) -> Self {
        let NewWatch { key, name, path, max, at, runs } = new;
        let (turns, kept, accounting) = (Vec::new(), BTreeMap::new(), FileAccounting::default());
        let mut file = Self {
            key,
            name,
            path,
            max,
            start: at,
            since: at,
            turns,
            runs: Vec::new(),
            kept,
            accounting,
        };
        file.lies(runs);
        file
    }

    /// Returns the status of the file.
    pub fn status(&self) -> Status {
        let Self { start, max, .. } = *self;
        let is_logging = self.turns.last().is_none_or(|it| it.1);
        Status { is_logging, start, max, kept: self.kept.len() }
    }

    /// Returns the kept accesses by their beginnings.
    pub fn log(&self) -> impl Iterator<Item = &KeptAccess> {
        self.kept.values()
    }

    /// Returns the counters.
    pub fn accounting(&self) -> &FileAccounting {
        &self.accounting
    }

    /// Switches logging on or off from this time on.
    ///
    /// # Errors
    ///
    /// [`WatchError::Turns`] if it was switched too often.
    pub fn turn(&mut self, at: KernelTime, is_on: bool) -> Result<(), WatchError> {
        if self.status().is_logging == is_on {
            return Ok(());
        }
        if self.turns.len() >= TURNS_MAX {
            return Err(WatchError::Turns);
        }
        self.turns.push((at, is_on));
        Ok(())
    }

    /// Forgets all accesses that began before this time. Later accesses were not reported yet, or
    /// are still there as far as they were kept.
    pub fn reset(&mut self, at: KernelTime) {
        let is_logging = self.status().is_logging;
        self.since = at;
        self.turns = if is_logging { Vec::new() } else { vec![(at, false)] };
        self.kept = self.kept.split_off(&(at, 0));
        self.accounting = FileAccounting::default();
        self.kept.values().for_each(|it| self.accounting.add(it));
    }

    /// Resets the file as [`Self::reset`] does, and counts times from there.
    pub fn time_reset(&mut self, at: KernelTime) {
        self.reset(at);
        self.start = at;
    }

    pub(super) fn lies(&mut self, runs: Vec<(u64, u64)>) {
        self.runs = disjoint(runs);
    }

    pub(super) fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// Returns true for an access that began while the file was watched and not stopped.
    pub(super) fn counts(&self, begin: KernelTime) -> bool {
        begin >= self.since && is_on(&self.turns, begin)
    }

    pub(super) fn without_line(&mut self, begin: KernelTime) {
        self.accounting.without_line += u64::from(self.counts(begin));
    }

    /// Takes an access; returns false if it does not count.
    pub(super) fn take(&mut self, number: u64, kept: &KeptAccess) -> bool {
        if !self.counts(kept.access.begin) {
            return false;
        }
        self.accounting.add(kept);
        self.kept.insert((kept.access.begin, number), kept.clone());
        if self.kept.len() > self.max {
            self.kept.pop_last();
            self.accounting.beyond += 1;
        }
        true
    }
}

/// Returns the same bytes in order, each once: parts of a file may share extents (reflinks).
pub(super) fn disjoint(mut runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (address, length) in runs {
        let end = address.saturating_add(length);
        match joined.last_mut() {
            Some(last) if address <= last.0.saturating_add(last.1) => {
                last.1 = last.1.max(end.saturating_sub(last.0));
            }
            _ => joined.push((address, length)),
        }
    }
    joined
}

/// Returns true if the last turn before this time switched logging on, or if there was none.
fn is_on(turns: &[(KernelTime, bool)], at: KernelTime) -> bool {
    let before = turns.partition_point(|it| it.0 <= at);
    before.checked_sub(1).and_then(|it| turns.get(it)).is_none_or(|it| it.1)
}
