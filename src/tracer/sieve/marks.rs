//! Marks of the records that wait in the log thread: they decide which records go into the log.

use std::collections::VecDeque;

/// Decision about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tracer) enum Mark {
    /// Not decided yet.
    Undecided,
    /// The record goes into the log.
    Kept,
    /// The record does not go into the log.
    Dropped,
}

/// A waiting record: the number of its chunk, and its index among the marked records of the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordRef {
    pub(super) chunk: u64,
    pub(super) index: usize,
}

/// Marks of one chunk: the records that were taken from a ring together.
#[derive(Debug, Default)]
struct Chunk {
    marks: Vec<Mark>,
    undecided: usize,
}

/// Marks by chunk. Chunks leave in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct RecordMarks {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
}

impl RecordMarks {
    /// Returns the number of the next chunk.
    pub(super) fn next_chunk(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    /// Adds a chunk with this number of records.
    pub(super) fn add(&mut self, records: usize) {
        self.chunks.push_back(Chunk { marks: vec![Mark::Undecided; records], undecided: records });
    }

    /// Marks a record, unless its chunk has left. Kept records stay kept.
    pub(super) fn set(&mut self, record: RecordRef, mark: Mark) {
        let Some(chunk) = self.chunk(record.chunk) else { return };
        let Some(place) = chunk.marks.get_mut(record.index) else { return };
        if *place == Mark::Undecided && mark != Mark::Undecided {
            chunk.undecided -= 1;
        }
        if *place != Mark::Kept {
            *place = mark;
        }
    }

    /// Returns the mark of a record; `Kept` if its chunk has left.
    pub(super) fn get(&self, record: RecordRef) -> Mark {
        let place = record.chunk.checked_sub(self.first).and_then(|it| usize::try_from(it).ok());
        let chunk = place.and_then(|it| self.chunks.get(it));
        chunk.and_then(|it| it.marks.get(record.index)).copied().unwrap_or(Mark::Kept)
    }

    /// True if all records of a chunk have their marks.
    pub(super) fn is_decided(&self, chunk: u64) -> bool {
        let place = chunk.checked_sub(self.first).and_then(|it| usize::try_from(it).ok());
        place.and_then(|it| self.chunks.get(it)).is_none_or(|it| it.undecided == 0)
    }

    /// Keeps all undecided records of a chunk.
    pub(super) fn keep_undecided(&mut self, chunk: u64) {
        let Some(chunk) = self.chunk(chunk) else { return };
        chunk.undecided = 0;
        for mark in chunk.marks.iter_mut().filter(|it| **it == Mark::Undecided) {
            *mark = Mark::Kept;
        }
    }

    /// Removes the first chunk and returns its marks.
    pub(super) fn take_first(&mut self) -> Vec<Mark> {
        let Some(chunk) = self.chunks.pop_front() else { return Vec::new() };
        self.first += 1;
        chunk.marks
    }

    fn chunk(&mut self, number: u64) -> Option<&mut Chunk> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.chunks.get_mut(place)
    }
}
