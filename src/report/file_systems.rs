//! File systems of a log, from the mount tables in it.

use crate::analysis::summary::KeyParts;
use crate::capture::fact::Text;
use crate::operation::model::MountNamespace;
use crate::operation::mount_table::{FileMount, MountEntry, MountTable};
use crate::pipeline::Summary;
use crate::units::DevId;

/// Mount tables of a log.
pub(super) struct FileSystems {
    /// Tables, the last one first: a number may be given to another file system later.
    tables: Vec<MountTable>,
}

impl FileSystems {
    /// Returns those of a log.
    pub(super) fn of(summary: &Summary) -> Self {
        let tables = summary.texts.iter().rev().filter(|(which, ..)| *which == Text::MOUNTINFO);
        Self { tables: tables.map(|(.., text)| MountTable::parse(text)).collect() }
    }

    /// Returns no file systems.
    pub(super) fn none() -> Self {
        Self { tables: Vec::new() }
    }

    /// Returns type and first mount point of a file system, or its number if no table has it.
    pub(super) fn name(&self, dev: DevId) -> String {
        let found = self.tables.iter().find_map(|table| table.of_dev(dev));
        found.map_or_else(|| format!("file system {dev}"), type_and_point)
    }

    /// Returns the mount of a file with this key and device number.
    pub(super) fn of_file(&self, key: &[u8], dev: Option<DevId>) -> Option<FileMount<'_>> {
        let KeyParts { path, mounts, .. } = KeyParts::of(key);
        let namespace = mounts.unwrap_or(MountNamespace::OWN);
        self.tables.iter().find_map(|table| table.of_file(path, namespace, dev))
    }

    /// Returns the first mount of a file system.
    pub(super) fn of_dev(&self, dev: DevId) -> Option<&MountEntry> {
        self.tables.iter().find_map(|table| table.of_dev(dev))
    }
}

/// Returns type and mount point of a mount.
pub(super) fn type_and_point(mount: &MountEntry) -> String {
    format!("{} ({})", mount.fs_type, String::from_utf8_lossy(&mount.point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_type_and_first_mount_point() {
        let table = "21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
                     22 21 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n\
                     30 21 254:1 /home /srv rw - ext4 /dev/vda1 rw\n";
        let all = FileSystems { tables: vec![MountTable::parse(table.as_bytes())] };
        let names =
            [DevId::new(254, 1), DevId::new(0, 20), DevId::new(0, 21)].map(|dev| all.name(dev));
        assert_eq!(names, ["ext4 (/)", "proc (/proc)", "file system 0:21"]);
    }
}
