//! Files of pseudo file systems, such as `/proc`: those of a file system share one row of a table
//! for people.

use std::collections::BTreeMap;

use super::file_systems::FileSystems;
use crate::analysis::summary::KeyParts;
use crate::operation::mount_table::MountEntry;
use crate::text::quantity::counted;
use crate::text::table::Cell;
use crate::units::DevId;

/// File of a row: its key ([`crate::analysis::summary::file_key`]) and its device number.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedFile<'a> {
    pub(super) key: &'a [u8],
    pub(super) dev: Option<DevId>,
}

/// Files of a pseudo file system.
#[derive(Clone, Debug)]
pub(super) struct PseudoRow<T> {
    fs_type: String,
    files: u64,
    pub(super) sum: T,
}

impl<T> PseudoRow<T> {
    /// Returns the name of the row.
    pub(super) fn name(&self) -> Cell {
        Cell::Word(format!("({}: {})", self.fs_type, counted(self.files, "file")))
    }
}

/// Rows of a table of files: those with a name, and those of pseudo file systems.
pub(super) struct FoldedRows<'a, T> {
    pub(super) named: Vec<(&'a [u8], T)>,
    pub(super) pseudo: Vec<PseudoRow<T>>,
}

/// Combines the files of each pseudo file system that has several. Disks keep their names.
pub(super) fn folded<'a, T>(
    rows: impl Iterator<Item = (KeyedFile<'a>, T)>,
    file_systems: &FileSystems,
    disks: &[(DevId, String)],
    merge: impl Fn(&mut T, &T),
) -> FoldedRows<'a, T> {
    let mut named = Vec::new();
    let mut by_type: BTreeMap<String, Vec<(&'a [u8], T)>> = BTreeMap::new();
    for (file, sum) in rows {
        let found = file_systems.of_file(file.key, file.dev).map(|found| found.mount);
        match found.filter(|mount| mount.is_pseudo() && !is_disk(file.key, disks)) {
            Some(MountEntry { fs_type, .. }) => {
                by_type.entry(fs_type.clone()).or_default().push((file.key, sum));
            }
            None => named.push((file.key, sum)),
        }
    }
    let mut pseudo = Vec::new();
    for (fs_type, mut files) in by_type {
        let count = files.len() as u64;
        if count == 1 {
            named.append(&mut files);
        }
        let Some((_, mut sum)) = files.pop() else { continue };
        files.iter().for_each(|(_, more)| merge(&mut sum, more));
        pseudo.push(PseudoRow { fs_type, files: count, sum });
    }
    FoldedRows { named, pseudo }
}

/// Returns the note on combined files; `None`: there are none.
pub(super) fn note<T>(rows: &[PseudoRow<T>]) -> Option<String> {
    let files: u64 = rows.iter().map(|row| row.files).sum();
    let types: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row.files, row.fs_type)).collect();
    (files > 0).then(|| {
        format!(
            "{} of pseudo file systems ({}) share a row for each file system; each one: --all-files",
            counted(files, "file"),
            types.join(", ")
        )
    })
}

/// True for the file of a disk or partition.
fn is_disk(key: &[u8], disks: &[(DevId, String)]) -> bool {
    let name = KeyParts::of(key).path.strip_prefix(b"/dev/");
    name.is_some_and(|name| disks.iter().any(|(_, disk)| disk.as_bytes() == name))
}
