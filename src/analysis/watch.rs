//! Watched files: the first accesses of each, at the level of calls and of devices.
//!
//! In: steps, and what is to be done to a file at a time (`stop`, `reset`, …). Out: each access when it has ended, and what is kept of
//! them: the first so many of each file by their beginnings. The others are counted.
//!
//! What is done to a file holds from a time on, and an access is judged by when it began, however late it is told: one that began
//! before a `stop` is there, one that began before a `reset` is not.
//!
//! A piece of a block request is a file's if the operation model says so. Where it does not know what lies there (a file system that
//! tells nothing), the places count that the file system was asked for ([`Watch::lies`]): that is *inferred*. Pieces on the same
//! device that nobody knows wait for the next answer, so many at most.

mod file;

use std::collections::BTreeMap;
use std::rc::Rc;

pub use self::file::{Books, File, Kept, New, Status};
use crate::anomaly::{AnomalyKind, Link};
use crate::operation::Step;
use crate::operation::access::{self, Access, Comms, Side};
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep};
use crate::operation::model::OpenFile;
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Files that can be watched at the same time.
pub const FILES_MAX: usize = 1024;
/// Accesses that can be kept of one file: what an answer with all of them may take (20 MB).
pub const FILE_EVENTS_MAX: usize = 1 << 18;
/// Accesses that can be kept of all files together, some 120 bytes each.
pub const EVENTS_MAX: usize = 1 << 20;
/// Stops and starts of a file since it was added or reset.
const TURNS_MAX: usize = 4096;
/// Pieces that wait until somebody says what lies there.
const UNKNOWN_MAX: usize = 1 << 16;

/// Names of threads that are told apart.
const UNIDENTIFIED_MAX: usize = 64;

/// Why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The file is there already.
    #[error("it is watched already")]
    Watched,
    /// There are too many.
    #[error("{FILES_MAX} files are watched, and no more can be")]
    Files,
    /// More accesses would be kept than there is room for.
    #[error(
        "at least 1 and at most {FILE_EVENTS_MAX} accesses can be kept of a file, and {EVENTS_MAX} of all; ask for fewer, or remove a file"
    )]
    Events,
    /// It was stopped and started too often.
    #[error("it was stopped and started {TURNS_MAX} times; reset it first")]
    Turns,
}

/// How an access was found to be a file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A call or an asynchronous operation on it.
    Called {
        /// The result of the operation was not seen: what was asked for.
        is_asked: bool,
        /// The kernel did not say which file it was: by its name.
        is_named: bool,
    },
    /// A piece behind which it lies, as the kernel said.
    Exact,
    /// A piece behind which it lies as far as is known.
    Inferred,
}

/// What is told of: the file, and one of its accesses.
pub type Tell<'a> = &'a mut dyn FnMut(&File, &Kept);

/// The watched files.
#[derive(Debug, Default)]
pub struct Watch {
    files: Vec<File>,
    comms: Comms,
    /// Of those that began at the same time.
    number: u64,
    unknown: Vec<Unknown>,
    /// Those of them that there was no room for.
    pub given_up: u64,
    /// Reads and writes of files that are not known, by the names of the threads; the empty name is for those of whom there are too
    /// many.
    pub unidentified: BTreeMap<Rc<[u8]>, u64>,
    /// Records that were lost.
    pub lost: u64,
}

/// A piece of a request on a device with watched files, behind which it is not known what lies.
#[derive(Clone, Debug)]
struct Unknown {
    /// The device of the file system.
    dev: DevId,
    /// Where it begins there, in bytes.
    begin: u64,
    access: Access,
    comm: Option<Rc<[u8]>>,
}

impl Watch {
    /// Watches one more file.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn add(&mut self, new: New) -> Result<(), Refused> {
        let kept: usize = self.files.iter().map(|it| it.status().max).sum();
        if self.files.iter().any(|it| it.key == new.key) {
            return Err(Refused::Watched);
        }
        if self.files.len() >= FILES_MAX {
            return Err(Refused::Files);
        }
        if new.max == 0 || new.max > FILE_EVENTS_MAX || kept.saturating_add(new.max) > EVENTS_MAX {
            return Err(Refused::Events);
        }
        self.files.push(File::new(new));
        Ok(())
    }

    /// Watches it no more.
    pub fn remove(&mut self, place: usize) {
        if place < self.files.len() {
            self.files.remove(place);
        }
        let files = &self.files;
        self.unknown.retain(|it| files.iter().any(|file| file.key.0 == it.dev));
    }

    /// All of them, in the order in which they came.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The same, to do something to one.
    pub fn file_mut(&mut self, place: usize) -> Option<&mut File> {
        self.files.get_mut(place)
    }

    /// The place of the file that is this one, or else of the one that has this name, or this path.
    pub fn find(&self, key: Option<FileKey>, word: &[u8]) -> Option<usize> {
        let place = |is: &dyn Fn(&File) -> bool| self.files.iter().position(is);
        place(&|it| Some(it.key) == key)
            .or_else(|| place(&|it| it.name.as_bytes() == word))
            .or_else(|| place(&|it| it.path == word))
    }

    /// Bytes of pieces on the device of this file, since it was added or reset, behind which it is not known what lies.
    pub fn unknown_bytes(&self, file: &File) -> u64 {
        let may_be = |it: &&Unknown| it.dev == file.key.0 && file.counts(it.access.begin);
        self.unknown.iter().filter(may_be).map(|it| it.access.bytes).sum()
    }

    /// The file lies there now, as its file system says: runs of an address on its device and a length, in bytes.
    pub fn lies(&mut self, place: usize, runs: Vec<(u64, u64)>, tell: Tell<'_>) {
        let Some(file) = self.files.get_mut(place) else { return };
        file.lies(runs);
        for it in std::mem::take(&mut self.unknown) {
            self.unknown_piece(it, tell);
        }
    }

    /// Takes the next step; tells of the accesses that have ended with it.
    pub fn look(&mut self, step: &Step<'_>, tell: Tell<'_>) {
        self.comms.look(step);
        match step {
            Step::Anomaly(it) if it.kind == AnomalyKind::Lost => self.lost += it.count,
            _ if self.files.is_empty() => {}
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.request(request, pieces, tell);
            }
            _ => access::sides(step).for_each(|it| self.side(&it, tell)),
        }
    }

    fn side(&mut self, side: &Side<'_>, tell: Tell<'_>) {
        let Ok(found) = self.place_of(side.file.map(|it| &**it)) else {
            let known = &mut self.unidentified;
            let comm = self
                .comms
                .of(side.tid())
                .filter(|it| known.len() < UNIDENTIFIED_MAX || known.contains_key(*it));
            *known.entry(comm.cloned().unwrap_or_default()).or_default() += 1;
            return;
        };
        let Some((place, is_named)) = found else { return };
        let how = How::Called { is_asked: side.is_asked, is_named };
        match side.access() {
            Some(access) => {
                let comm = self.comms.of(access.tid).cloned();
                self.take(place, (access, how), comm, tell);
            }
            None => {
                if let Some(file) = self.files.get_mut(place) {
                    file.without_line(side.begin());
                }
            }
        }
    }

    /// The watched file that an open file is, and whether it is so by its name only; an error if that is not known.
    fn place_of(&self, file: Option<&OpenFile>) -> Result<Option<(usize, bool)>, ()> {
        let place = |is: &dyn Fn(&File) -> bool| self.files.iter().position(is);
        if let Some(stat) = file.and_then(|it| it.stat) {
            let found = place(&|it| it.key == (stat.dev, stat.ino));
            return Ok(found.map(|it| (it, false)));
        }
        let path = file.and_then(|it| it.path.as_ref()).filter(|it| !it.source.is_doubtful());
        let path = path.ok_or(())?;
        Ok(place(&|it| it.path == path.bytes).map(|it| (it, true)))
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece], tell: Tell<'_>) {
        let accesses = access::pieces(request, pieces).filter(|_| !access::is_passed_on(request));
        for (piece, access) in accesses.into_iter().flatten() {
            let comm = self.comms.of(access.tid).cloned();
            match &piece.behind {
                BlockContents::File { key, link, .. } => {
                    let place = self.files.iter().position(|it| it.key == *key);
                    let how = if *link == Link::Exact { How::Exact } else { How::Inferred };
                    if let Some(place) = place {
                        self.take(place, (access, how), comm, tell);
                    }
                }
                BlockContents::Unknown => {
                    let top = piece.levels.last().map(|it| (it.dev, it.sector));
                    let (dev, sector) = top.unwrap_or((request.dev, piece.sector));
                    let begin = sector.saturating_mul(SECTOR_BYTES);
                    self.unknown_piece(Unknown { dev, begin, access, comm }, tell);
                }
                BlockContents::Journal | BlockContents::Metadata | BlockContents::Nothing => {}
            }
        }
    }

    /// Gives a piece to the files that lie there; what is left over waits.
    fn unknown_piece(&mut self, piece: Unknown, tell: Tell<'_>) {
        let mut left = vec![piece];
        for place in 0..self.files.len() {
            let Some(file) = self.files.get(place) else { break };
            let parts = left.iter().flat_map(|it| {
                let runs = if file.key.0 == it.dev { file.runs() } else { &[] };
                split(it.begin, it.access.bytes, runs).map(|part| (it.part(part.0, part.1), part.2))
            });
            let (found, others): (Vec<_>, Vec<_>) = parts.partition(|it| it.1);
            for (it, _) in found {
                self.take(place, (it.access, How::Inferred), it.comm, tell);
            }
            left = others.into_iter().map(|it| it.0).collect();
        }
        for it in left {
            let mut files = self.files.iter();
            if !files.any(|file| file.key.0 == it.dev && file.counts(it.access.begin)) {
                continue;
            }
            if self.unknown.len() < UNKNOWN_MAX {
                self.unknown.push(it);
            } else {
                self.given_up += 1;
            }
        }
    }

    fn take(
        &mut self,
        place: usize,
        (access, how): (Access, How),
        comm: Option<Rc<[u8]>>,
        tell: Tell<'_>,
    ) {
        self.number += 1;
        let number = self.number;
        if let Some(file) = self.files.get_mut(place) {
            let kept = Kept { access, how, comm };
            if file.take(number, &kept) {
                tell(file, &kept);
            }
        }
    }
}

impl Unknown {
    /// So many bytes of it, from a byte of the device on.
    fn part(&self, begin: u64, bytes: u64) -> Self {
        let sectors = begin.saturating_sub(self.begin) / SECTOR_BYTES;
        let address = self.access.address.saturating_add(sectors);
        let access = Access { address, bytes, ..self.access };
        Self { begin, access, comm: self.comm.clone(), ..*self }
    }
}

/// Cuts what begins there at the ends of runs, which are in order and apart: begin, length, whether it is in one.
fn split(
    begin: u64,
    bytes: u64,
    runs: &[(u64, u64)],
) -> impl Iterator<Item = (u64, u64, bool)> + use<> {
    let end = begin.saturating_add(bytes);
    let mut parts = Vec::new();
    let mut at = begin;
    let first = runs.partition_point(|it| it.0.saturating_add(it.1) <= begin);
    for (address, length) in runs.iter().skip(first).take_while(|it| it.0 < end) {
        let (from, to) = ((*address).max(at), address.saturating_add(*length).min(end));
        if at < from {
            parts.push((at, from - at, false));
        }
        if from < to {
            parts.push((from, to - from, true));
            at = to;
        }
    }
    if at < end {
        parts.push((at, end - at, false));
    }
    parts.into_iter()
}

/// True if the time lies in the last of the turns that came before it, or at the beginning, where it is on.
fn is_on(turns: &[(KernelTime, bool)], at: KernelTime) -> bool {
    let before = turns.partition_point(|it| it.0 <= at);
    before.checked_sub(1).and_then(|it| turns.get(it)).is_none_or(|it| it.1)
}

#[cfg(test)]
mod tests;
