//! Watched files: the first accesses of each, at the level of calls and of devices.
//!
//! Input: steps, and commands on a file at a time (`stop`, `reset`, …). Output: each access when it
//! has ended, and the kept accesses: the first ones of each file by their beginnings, up to a
//! limit. The others are counted.
//!
//! A command applies from its time on, and an access is judged by its beginning, however late it is
//! reported. An access that began before a `stop` is included; one that began before a `reset` is
//! not.
//!
//! A piece of a block request belongs to a file if the operation model attributes it. If the model
//! does not know the content of the sectors (a file system that reports nothing), the extents count
//! that the file system returned ([`Watch::lies`]): such an attribution is *inferred*. Unattributed
//! pieces on the same device wait for the next extents, up to a limit.

mod evidence;
mod file;
mod limits;
mod refusal;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::evidence::AccessEvidence;
pub use self::file::{FileAccounting, KeptAccess, NewWatch, Status, WatchedFile};
pub use self::limits::{EVENTS_MAX, FILE_EVENTS_MAX, FILES_MAX};
pub use self::refusal::WatchError;
use crate::anomaly::{AnomalyKind, Link};
use crate::operation::Step;
use crate::operation::access::{self, Access, FileAccess, RecentNames};
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep};
use crate::operation::model::OpenFile;
use crate::units::{DevId, SECTOR_BYTES};

/// Maximum number of pieces that wait for an attribution.
const UNKNOWN_MAX: usize = 1 << 16;

/// Maximum number of thread names that are distinguished.
const UNIDENTIFIED_MAX: usize = 64;

/// Receiver of reports: the file, and one of its accesses.
pub type AccessListener<'a> = &'a mut dyn FnMut(&WatchedFile, &KeptAccess);

/// Set of the watched files.
#[derive(Debug, Default)]
pub struct Watch {
    files: Vec<WatchedFile>,
    comms: RecentNames,
    /// Order of accesses that began at the same time.
    number: u64,
    unknown: Vec<Unknown>,
    /// Waiting pieces that were dropped for lack of space.
    pub given_up: u64,
    /// Reads and writes of unknown files, by the names of the threads; the empty name is for the
    /// threads above the limit.
    pub unidentified: BTreeMap<Arc<[u8]>, u64>,
    /// Number of lost records.
    pub lost: u64,
}

/// Piece of a request on a device with watched files, whose content is unknown.
#[derive(Clone, Debug)]
struct Unknown {
    /// Device of the file system.
    dev: DevId,
    /// First byte on that device.
    begin: u64,
    access: Access,
    comm: Option<Arc<[u8]>>,
}

impl Watch {
    /// Adds a file to the watched ones.
    ///
    /// # Errors
    ///
    /// [`WatchError`] if the file is already watched or a limit is reached.
    pub fn add(&mut self, new: NewWatch) -> Result<(), WatchError> {
        let kept: usize = self.files.iter().map(|it| it.status().max).sum();
        if self.files.iter().any(|it| it.key == new.key) {
            return Err(WatchError::Watched);
        }
        if self.files.len() >= FILES_MAX {
            return Err(WatchError::Files);
        }
        if new.max == 0 || new.max > FILE_EVENTS_MAX || kept.saturating_add(new.max) > EVENTS_MAX {
            return Err(WatchError::Events);
        }
        self.files.push(WatchedFile::new(new));
        Ok(())
    }

    /// Stops watching the file.
    pub fn remove(&mut self, place: usize) {
        if place < self.files.len() {
            self.files.remove(place);
        }
        let files = &self.files;
        self.unknown.retain(|it| files.iter().any(|file| file.key.0 == it.dev));
    }

    /// Returns all files, in the order in which they were added.
    pub fn files(&self) -> &[WatchedFile] {
        &self.files
    }

    /// Returns one file for changes.
    pub fn file_mut(&mut self, place: usize) -> Option<&mut WatchedFile> {
        self.files.get_mut(place)
    }

    /// Returns the place of the file with this key, or else of the one with this name, or with this
    /// path.
    pub fn find(&self, key: Option<FileKey>, word: &[u8]) -> Option<usize> {
        let place = |is: &dyn Fn(&WatchedFile) -> bool| self.files.iter().position(is);
        place(&|it| Some(it.key) == key)
            .or_else(|| place(&|it| it.name.as_bytes() == word))
            .or_else(|| place(&|it| it.path == word))
    }

    /// Returns the bytes of pieces on the device of this file, since it was added or reset, whose
    /// content is unknown.
    pub fn unknown_bytes(&self, file: &WatchedFile) -> u64 {
        let may_be = |it: &&Unknown| it.dev == file.key.0 && file.counts(it.access.begin);
        self.unknown.iter().filter(may_be).map(|it| it.access.bytes).sum()
    }

    /// Sets the extents of a file, as its file system reports them: address on its device and
    /// length, in bytes.
    pub fn lies(&mut self, place: usize, runs: Vec<(u64, u64)>, listener: AccessListener<'_>) {
        let Some(file) = self.files.get_mut(place) else { return };
        file.lies(runs);
        for it in std::mem::take(&mut self.unknown) {
            self.unknown_piece(it, listener);
        }
    }

    /// Takes the next step; reports the accesses that ended with it.
    pub fn look(&mut self, step: &Step<'_>, listener: AccessListener<'_>) {
        self.comms.look(step);
        match step {
            Step::Anomaly(it) if it.kind == AnomalyKind::Lost => self.lost += it.count,
            _ if self.files.is_empty() => {}
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.request(request, pieces, listener);
            }
            _ => access::sides(step).for_each(|it| self.side(&it, listener)),
        }
    }

    fn side(&mut self, side: &FileAccess<'_>, listener: AccessListener<'_>) {
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
        let how = AccessEvidence::Called { lacks_result: side.lacks_result, is_named };
        match side.access() {
            Some(access) => {
                let comm = self.comms.of(access.tid).cloned();
                self.take(place, KeptAccess { access, how, comm }, listener);
            }
            None => {
                if let Some(file) = self.files.get_mut(place) {
                    file.without_line(side.begin());
                }
            }
        }
    }

    /// Returns the watched file of an open file, and whether only its name identifies it; an error
    /// if the file is unknown.
    fn place_of(&self, file: Option<&OpenFile>) -> Result<Option<(usize, bool)>, ()> {
        let place = |is: &dyn Fn(&WatchedFile) -> bool| self.files.iter().position(is);
        if let Some(stat) = file.and_then(|it| it.stat) {
            let found = place(&|it| it.key == (stat.dev, stat.ino));
            return Ok(found.map(|it| (it, false)));
        }
        let path = file.and_then(|it| it.path.as_ref()).filter(|it| !it.source.is_doubtful());
        let path = path.ok_or(())?;
        Ok(place(&|it| it.path == path.bytes).map(|it| (it, true)))
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece], listener: AccessListener<'_>) {
        let accesses = access::pieces(request, pieces).filter(|_| !access::is_passed_on(request));
        for (piece, access) in accesses.into_iter().flatten() {
            let comm = self.comms.of(access.tid).cloned();
            match &piece.contents {
                BlockContents::File { key, link, .. } => {
                    let place = self.files.iter().position(|it| it.key == *key);
                    let how = if *link == Link::Exact {
                        AccessEvidence::Exact
                    } else {
                        AccessEvidence::Inferred
                    };
                    if let Some(place) = place {
                        self.take(place, KeptAccess { access, how, comm }, listener);
                    }
                }
                BlockContents::Unknown => {
                    let top = piece.levels.last().map(|it| (it.dev, it.sector));
                    let (dev, sector) = top.unwrap_or((request.dev, piece.sector));
                    let begin = sector.saturating_mul(SECTOR_BYTES);
                    self.unknown_piece(Unknown { dev, begin, access, comm }, listener);
                }
                BlockContents::Journal | BlockContents::Metadata | BlockContents::Nothing => {}
            }
        }
    }

    /// Gives a piece to the files whose extents contain it; the rest waits.
    fn unknown_piece(&mut self, piece: Unknown, listener: AccessListener<'_>) {
        let mut left = vec![piece];
        for place in 0..self.files.len() {
            let Some(file) = self.files.get(place) else { break };
            let parts = left.iter().flat_map(|piece| {
                let runs = if file.key.0 == piece.dev { file.runs() } else { &[] };
                split(piece.begin, piece.access.bytes, runs)
                    .map(|(begin, bytes, is_in)| (piece.part(begin, bytes), is_in))
            });
            let (found, others): (Vec<_>, Vec<_>) = parts.partition(|it| it.1);
            for (it, _) in found {
                let kept =
                    KeptAccess { access: it.access, how: AccessEvidence::Inferred, comm: it.comm };
                self.take(place, kept, listener);
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

    fn take(&mut self, place: usize, kept: KeptAccess, listener: AccessListener<'_>) {
        self.number += 1;
        let number = self.number;
        if let Some(file) = self.files.get_mut(place)
            && file.take(number, &kept)
        {
            listener(file, &kept);
        }
    }
}

impl Unknown {
    /// Returns the part of this many bytes, from a byte of the device on.
    fn part(&self, begin: u64, bytes: u64) -> Self {
        let sectors = begin.saturating_sub(self.begin) / SECTOR_BYTES;
        let address = self.access.address.saturating_add(sectors);
        let access = Access { address, bytes, ..self.access };
        Self { begin, access, comm: self.comm.clone(), ..*self }
    }
}

/// Cuts a piece at the ends of runs, which are sorted and disjoint: begin, length, whether it is
/// inside a run.
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

#[cfg(test)]
mod tests;
