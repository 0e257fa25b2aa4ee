//! A ring of a CPU: records in the order in which they were written, which is not that of their
//! times.

use std::ops::Range;

use super::random::Random;

/// The rings of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Main,
    /// Calls with a path.
    Names,
}

impl Stream {
    pub(super) const ALL: [Self; 2] = [Self::Main, Self::Names];
}

/// Time from a record's stamp to its writing, ns: an interrupt may come between.
pub(super) fn delay(random: &mut Random) -> u64 {
    if random.one_in(512) { random.below(300_000) } else { 0 }
}

/// Bytes that have been written and not been taken.
#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    records: Vec<Written>,
}

#[derive(Debug)]
struct Written {
    /// Time at which it was written.
    written: u64,
    /// The time in it.
    time: u64,
    place: Range<usize>,
}

/// Bytes taken from a ring.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub bytes: Vec<u8>,
    pub records: u32,
    pub first_time: u64,
    pub last_time: u64,
}

impl Ring {
    pub(super) fn put(&mut self, time: u64, delay: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.records.push(Written { written: time + delay, time, place: start..self.bytes.len() });
    }

    /// Takes what was written before this moment, in pieces that are not much longer than this.
    pub(super) fn take(&mut self, until: u64, piece_bytes: usize) -> Vec<Taken> {
        self.records.sort_by_key(|it| it.written);
        let end = self.records.partition_point(|it| it.written < until);
        let mut pieces: Vec<Taken> = Vec::new();
        for it in self.records.drain(..end) {
            if pieces.last().is_none_or(|piece| piece.bytes.len() >= piece_bytes) {
                pieces.push(Taken { first_time: it.time, ..Taken::default() });
            }
            let Some(piece) = pieces.last_mut() else { continue };
            piece.bytes.extend_from_slice(&self.bytes[it.place]);
            piece.records += 1;
            piece.first_time = piece.first_time.min(it.time);
            piece.last_time = piece.last_time.max(it.time);
        }
        self.compact();
        pieces
    }

    /// Keeps the bytes of what is left only.
    fn compact(&mut self) {
        let mut left = Vec::new();
        for it in &mut self.records {
            let start = left.len();
            left.extend_from_slice(&self.bytes[it.place.clone()]);
            it.place = start..left.len();
        }
        self.bytes = left;
    }
}
