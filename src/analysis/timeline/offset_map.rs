//! Accesses of a file by time and offset: a map of fields for each of the files with many accesses.
//!
//! The fields become wider when a later time or a larger offset comes, so the maps have a fixed
//! size.

use super::time_axis::{BINS_MAX, spread};

/// Columns of a map.
pub const MAP_COLUMNS: usize = 64;

/// Rows of a map.
pub const MAP_ROWS: usize = 24;

/// Bins of a column, as a power of two.
pub(super) const MAP_COLUMN_BITS: u32 = (BINS_MAX / MAP_COLUMNS).ilog2();

/// Accesses of a file before it gets a map.
const FIRST_MAX: usize = 16;

/// Largest number of maps; the first files with many accesses get them.
const MAPS_MAX: usize = 256;

/// Height of a field of a new map, as a power of two, bytes.
const FIRST_ROW_BITS: u32 = 12;

/// Read or write of a file at a known offset.
#[derive(Clone, Copy, Debug)]
pub struct PlacedAccess {
    /// Time of its end, ns since the origin.
    pub since_origin: u64,
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes that it read and wrote.
    pub moved: [u64; 2],
}

/// Map of the accesses of a file.
#[derive(Clone, Debug)]
pub struct OffsetMap {
    /// Bytes read and written by field, row after row, the smallest offsets first.
    fields: Vec<[u64; 2]>,
    /// Height of a field as a power of two, bytes.
    row_bits: u32,
}

impl OffsetMap {
    fn new() -> Self {
        Self { fields: vec![[0; 2]; MAP_COLUMNS * MAP_ROWS], row_bits: FIRST_ROW_BITS }
    }

    /// Returns the height of a field, bytes.
    pub fn row_bytes(&self) -> u64 {
        1 << self.row_bits
    }

    /// Returns the bytes read and written in a field.
    pub fn field(&self, row: usize, column: usize) -> [u64; 2] {
        self.fields.get(row * MAP_COLUMNS + column).copied().unwrap_or_default()
    }

    fn add(&mut self, access: &PlacedAccess, column_bits: u32) {
        let [read, written] = access.moved;
        let bytes = read.max(written);
        let end = access.offset.saturating_add(bytes);
        while end.saturating_sub(1) >> self.row_bits >= MAP_ROWS as u64 {
            self.double_rows();
        }
        let column = usize::try_from(access.since_origin >> column_bits).unwrap_or(usize::MAX);
        let is_written = usize::from(written > read);
        let fields = &mut self.fields;
        spread(access.offset, end, self.row_bits, |row, part| {
            let field = fields.get_mut(row * MAP_COLUMNS + column.min(MAP_COLUMNS - 1));
            if let Some(sum) = field.and_then(|field| field.get_mut(is_written)) {
                *sum = sum.saturating_add(part);
            }
        });
    }

    fn double_rows(&mut self) {
        self.row_bits += 1;
        self.join(|row, column| [(2 * row, column), (2 * row + 1, column)]);
    }

    fn halve_columns(&mut self) {
        self.join(|row, column| [(row, 2 * column), (row, 2 * column + 1)]);
    }

    /// Replaces each field by the sum of two, which lie at its place or behind it.
    fn join(&mut self, of: impl Fn(usize, usize) -> [(usize, usize); 2]) {
        for row in 0..MAP_ROWS {
            for column in 0..MAP_COLUMNS {
                let mut sum = [0_u64; 2];
                for (row, column) in of(row, column) {
                    if row < MAP_ROWS && column < MAP_COLUMNS {
                        let part = self.field(row, column);
                        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                    }
                }
                if let Some(field) = self.fields.get_mut(row * MAP_COLUMNS + column) {
                    *field = sum;
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum FileAccesses {
    First(Vec<PlacedAccess>),
    Map(Box<OffsetMap>),
    /// All maps are in use.
    LeftOut,
}

/// Maps of files, by the number of the file's row.
#[derive(Clone, Debug, Default)]
pub struct OffsetMaps {
    files: Vec<FileAccesses>,
    maps: usize,
}

impl OffsetMaps {
    /// Returns the map of a file, if it has one.
    pub fn of(&self, place: usize) -> Option<&OffsetMap> {
        match self.files.get(place)? {
            FileAccesses::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Adds an access of a file; columns are `1 << column_bits` ns wide.
    pub(super) fn add(&mut self, place: usize, access: PlacedAccess, column_bits: u32) {
        // The row of all further files is none of a file.
        if place == usize::MAX {
            return;
        }
        if self.files.len() <= place {
            self.files.resize(place + 1, FileAccesses::First(Vec::new()));
        }
        let Some(file) = self.files.get_mut(place) else { return };
        match file {
            FileAccesses::Map(map) => map.add(&access, column_bits),
            FileAccesses::First(first) if first.len() < FIRST_MAX => first.push(access),
            FileAccesses::First(first) if self.maps < MAPS_MAX => {
                let mut map = Box::new(OffsetMap::new());
                first.iter().chain([&access]).for_each(|access| map.add(access, column_bits));
                *file = FileAccesses::Map(map);
                self.maps += 1;
            }
            FileAccesses::First(_) => *file = FileAccesses::LeftOut,
            FileAccesses::LeftOut => {}
        }
    }

    /// Joins each pair of columns.
    pub(super) fn halve(&mut self) {
        for file in &mut self.files {
            if let FileAccesses::Map(map) = file {
                map.halve_columns();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Fails if bytes are lost when offsets grow or columns are joined, in any order.
        #[test]
        fn sums_over_fields_equal_totals(
            all in prop::collection::vec((0_u64..1 << 16, 0_u64..1 << 34, 0_u64..1 << 24), 17..40),
        ) {
            let (mut maps, mut bits) = (OffsetMaps::default(), 8);
            for (number, (since_origin, offset, bytes)) in all.iter().enumerate() {
                while since_origin >> bits >= MAP_COLUMNS as u64 {
                    bits += 1;
                    maps.halve();
                }
                let moved = if number % 2 == 0 { [*bytes, 0] } else { [0, *bytes] };
                let access = PlacedAccess { since_origin: *since_origin, offset: *offset, moved };
                maps.add(3, access, bits);
            }
            let map = maps.of(3).expect("there are many accesses");
            let fields = (0..MAP_ROWS).flat_map(|row| (0..MAP_COLUMNS).map(move |column| (row, column)));
            let sum: u64 = fields.flat_map(|(row, column)| map.field(row, column)).sum();
            prop_assert_eq!(sum, all.iter().map(|access| access.2).sum::<u64>());
            prop_assert!(maps.of(2).is_none());
        }
    }
}
