//! Groups of files: the files that share a row of a table, by directory, mount or device.

use std::collections::HashMap;

use super::file_rows::{file_cells, file_columns};
use super::file_systems::FileSystems;
use super::rows::{column, key_column};
use crate::analysis::op_groups::OpDimension;
use crate::analysis::summary::KeyParts;
use crate::operation::mount_table::{FileMount, MountEntry};
use crate::text::table::{Cell, Column};
use crate::units::DevId;

/// File of a row, or the word for operations without one.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlacedFile<'a> {
    /// Key of the file ([`crate::analysis::summary::file_key`]) and its device number.
    Named(&'a [u8], Option<DevId>),
    /// File without a name, on a device with this number.
    OnDevice(DevId),
    /// A word.
    Word(&'static str),
}

/// Table of a dimension: its key and title, and the columns that name a row.
pub(super) struct PlaceTable {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) columns: Vec<Column>,
}

/// Returns the table of a dimension.
pub(super) fn table_of(dimension: OpDimension) -> PlaceTable {
    let by_path = column("by_path", "by path");
    let (key, title, columns) = match dimension {
        OpDimension::Thread => (
            "threads",
            "Threads",
            vec![
                key_column(2, "pid", "pid"),
                key_column(1, "tid", "tid"),
                key_column(0, "comm", "thread"),
            ],
        ),
        OpDimension::Directory => {
            ("directories", "Directories", file_columns("directory").to_vec())
        }
        OpDimension::Mount => (
            "mounts",
            "Mounts",
            vec![
                by_path,
                column("fs_dev", ""),
                key_column(1, "fs_type", "type"),
                key_column(0, "mount", "mount"),
            ],
        ),
        OpDimension::Device => (
            "file_devices",
            "Devices of files",
            vec![by_path, column("fs_dev", ""), key_column(0, "file_device", "device")],
        ),
    };
    PlaceTable { key, title, columns }
}

/// Places of files in a report.
pub(super) struct Places<'a> {
    pub(super) dimension: OpDimension,
    pub(super) file_systems: &'a FileSystems,
    /// Names of disks and partitions.
    pub(super) disks: &'a [(DevId, String)],
}

/// Word for a place that is not known.
const NOT_KNOWN: &str = "(not known)";

impl Places<'_> {
    /// Combines rows of files: the cells that name each group, and its sum.
    pub(super) fn groups<'f, T>(
        &self,
        rows: impl Iterator<Item = (PlacedFile<'f>, T)>,
        merge: impl Fn(&mut T, &T),
    ) -> Vec<(Vec<Cell>, T)> {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut groups: Vec<(Place, T)> = Vec::new();
        for (file, sum) in rows {
            let found = self.place(file);
            let place = *places.entry(format!("{:?}", found.names)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((known, total)) => {
                    known.is_by_path |= found.is_by_path;
                    merge(total, &sum);
                }
                None => groups.push((found, sum)),
            }
        }
        let has_flag = matches!(self.dimension, OpDimension::Mount | OpDimension::Device);
        let cells = |(place, sum): (Place, T)| {
            let flag = has_flag.then_some(Cell::Flag(place.is_by_path));
            (flag.into_iter().chain(place.names).collect(), sum)
        };
        groups.into_iter().map(cells).collect()
    }

    fn place(&self, file: PlacedFile<'_>) -> Place {
        let word = |word: &str| Place { names: self.word(word), is_by_path: false };
        match (self.dimension, file) {
            (_, PlacedFile::Word(text)) => word(text),
            (OpDimension::Thread, _) => word(NOT_KNOWN),
            (OpDimension::Directory, PlacedFile::Named(key, _)) => match directory(key) {
                Some(directory) => {
                    Place { names: file_cells(&directory).to_vec(), is_by_path: false }
                }
                None => word("(no directory)"),
            },
            (OpDimension::Directory, PlacedFile::OnDevice(_)) => word("(files without a name)"),
            (dimension, PlacedFile::Named(key, dev)) => {
                self.on_mount(dimension, self.file_systems.of_file(key, dev), dev)
            }
            (dimension, PlacedFile::OnDevice(dev)) => {
                let mount = self.file_systems.of_dev(dev);
                let found = mount.map(|mount| FileMount { mount, is_by_path: false });
                self.on_mount(dimension, found, Some(dev))
            }
        }
    }

    fn on_mount(
        &self,
        dimension: OpDimension,
        found: Option<FileMount<'_>>,
        dev: Option<DevId>,
    ) -> Place {
        let is_by_path = found.is_some_and(|found| found.is_by_path);
        let mount = found.map(|found| found.mount);
        let number = dev.or_else(|| mount.map(|mount| mount.dev));
        let number_cell = number.map_or(Cell::None, |number| Cell::Word(number.to_string()));
        let names = match (dimension, mount) {
            (OpDimension::Mount, Some(mount)) => vec![
                Cell::Word(mount.dev.to_string()),
                Cell::Name(mount.fs_type.clone().into_bytes()),
                Cell::Name(mount.point.clone()),
            ],
            (OpDimension::Mount, None) => {
                let is_unmounted = number.is_some_and(|number| number.major() == 0);
                let word = if is_unmounted { "(no mount)" } else { NOT_KNOWN };
                vec![number_cell, Cell::None, Cell::Word(word.to_owned())]
            }
            _ => vec![number_cell, self.device(mount, number)],
        };
        Place { names, is_by_path }
    }

    /// Returns the name of the device of a file.
    fn device(&self, mount: Option<&MountEntry>, number: Option<DevId>) -> Cell {
        let Some(number) = number else { return Cell::Word(NOT_KNOWN.to_owned()) };
        if let Some((_, name)) = self.disks.iter().find(|(dev, _)| *dev == number) {
            return Cell::Name(name.clone().into_bytes());
        }
        match mount {
            Some(mount) => match mount.source.strip_prefix(b"/dev/") {
                Some(name) => Cell::Name(name.to_vec()),
                None => Cell::Word(format!("(no disk: {})", mount.fs_type)),
            },
            // File systems without a device have numbers of major 0.
            None if number.major() == 0 => Cell::Word("(no disk)".to_owned()),
            None => Cell::Word(number.to_string()),
        }
    }

    /// Returns the cells of a row with a word instead of a name.
    fn word(&self, word: &str) -> Vec<Cell> {
        let columns = table_of(self.dimension).columns;
        let named = columns.iter().filter(|column| column.key != "by_path");
        let cell = |column: &Column| match column.rank {
            Some(0) => Cell::Word(word.to_owned()),
            _ => Cell::None,
        };
        named.map(cell).collect()
    }
}

/// Cells that name a group, without the flag.
struct Place {
    names: Vec<Cell>,
    is_by_path: bool,
}

/// Returns the key of the directory of a file; `None`: the file has no place, as `socket:[7]` and
/// paths with an unknown beginning.
pub(super) fn directory(key: &[u8]) -> Option<Vec<u8>> {
    let parts = KeyParts::of(key);
    let slash = parts.path.iter().rposition(|byte| *byte == b'/')?;
    let path = parts.path.get(..slash.max(1)).unwrap_or_default();
    Some(KeyParts { path, ..parts }.key())
}
