//! Files of the recording that is being read, by rank.

use rustc_hash::FxHashMap;

use super::sums::add_each;
use crate::analysis::completed_op::{CompletedOp, NamedPath};
use crate::analysis::recent_rows::{OpRows, RecentRows};
use crate::analysis::summary::file_key;

/// Largest number of files of a recording; operations on further ones are counted.
pub const FILES_OF_RECORDING: usize = 200_000;

/// Bytes of a row's number in a key.
const ROW_BYTES: usize = size_of::<u64>();

/// Use of a file by a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankFileUse {
    /// Operations that ended.
    pub operations: u64,
    /// Bytes read and written.
    pub moved: [u64; 2],
    /// Time in them, ns.
    pub ns: u64,
}

impl RankFileUse {
    /// Adds another use.
    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        add_each(&mut self.moved, &other.moved);
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Uses of files by the ranks of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct FileUses {
    /// Places of uses by row and file ([`file_key`]).
    places: FxHashMap<Vec<u8>, usize>,
    uses: Vec<RankFileUse>,
    recent: RecentRows<OpRows>,
    /// Operations on files beyond the limit.
    pub(super) beyond: u64,
}

impl FileUses {
    /// Adds an operation on a file by the rank of a row. A copy from file to file is one on both.
    pub(super) fn add(&mut self, row: usize, done: &CompletedOp<'_>) {
        let read = RankFileUse { operations: 1, moved: done.sides(), ns: done.ns() };
        let known = self.recent.find(done).filter(|rows| rows.process == row);
        match (known, &done.name) {
            (Some(OpRows { file: Some(place), .. }), _) => self.add_at(place, &read),
            (None, Some(name)) => {
                let place = self.place(row, name);
                if place < FILES_OF_RECORDING {
                    self.recent.keep(done, OpRows { process: row, file: Some(place) });
                }
                self.add_at(place, &read);
            }
            _ => {}
        }
        if let Some(target) = &done.target {
            let place = self.place(row, target);
            self.add_at(place, &RankFileUse { moved: [0, done.bytes], ..read });
        }
    }

    fn place(&mut self, row: usize, name: &NamedPath<'_>) -> usize {
        let mut key = (row as u64).to_le_bytes().to_vec();
        key.extend(file_key(name));
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.uses.len();
        if place < FILES_OF_RECORDING {
            self.places.insert(key, place);
            self.uses.push(RankFileUse::default());
        }
        place
    }

    fn add_at(&mut self, place: usize, of_operation: &RankFileUse) {
        match self.uses.get_mut(place) {
            Some(known) => known.merge(of_operation),
            None => self.beyond += of_operation.operations,
        }
    }

    /// Returns all uses: row, key of the file, and amounts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &[u8], &RankFileUse)> {
        self.places.iter().filter_map(|(key, place)| {
            let (row, file) = key.split_first_chunk::<ROW_BYTES>()?;
            let row = usize::try_from(u64::from_le_bytes(*row)).ok()?;
            Some((row, file, self.uses.get(*place)?))
        })
    }
}
