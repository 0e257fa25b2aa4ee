//! File systems by what a sync means on them.

use rustc_hash::FxHashMap;

use crate::operation::model::{FilePath, MountNamespace};
use crate::operation::mount_table::{MountEntry, MountTable};
use crate::units::DevId;

/// Kinds of file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A file system on a device.
    Device,
    /// In memory, or the kernel's own: nothing survives the end of the machine.
    Memory,
    /// Each change is synced (`-o sync`).
    Synchronous,
    /// On another machine, or made by a program.
    Remote,
    /// Not in the table of mounts.
    Unknown,
}

/// Types of file systems in memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "rootfs", "hugetlbfs"];

/// Types of file systems on other machines.
const REMOTE: [&str; 8] = ["9p", "afs", "ceph", "cifs", "nfs", "nfs4", "smb3", "virtiofs"];

/// Limit of devices that are remembered.
const DEVICES_MAX: usize = 4096;

/// Media of the mounts of a recording.
#[derive(Debug, Default)]
pub struct Media {
    table: MountTable,
    by_dev: FxHashMap<DevId, Medium>,
}

impl Media {
    /// Creates the media of a table of mounts.
    pub fn new(table: &MountTable) -> Self {
        Self { table: table.clone(), by_dev: FxHashMap::default() }
    }

    /// Returns the medium of a file with this name and device.
    pub fn of(&mut self, path: Option<&FilePath>, dev: Option<DevId>) -> Medium {
        if self.table.mounts().is_empty() {
            return Medium::Device;
        }
        if let Some(known) = dev.and_then(|dev| self.by_dev.get(&dev)) {
            return *known;
        }
        let (bytes, mounts) =
            path.map_or((&b""[..], MountNamespace::UNKNOWN), |path| (&*path.bytes, path.mounts));
        let found = self.table.of_file(bytes, mounts, dev).map(|found| medium(found.mount));
        let medium = found.unwrap_or(Medium::Unknown);
        if let Some(dev) = dev.filter(|_| self.by_dev.len() < DEVICES_MAX)
            && medium != Medium::Unknown
        {
            self.by_dev.insert(dev, medium);
        }
        medium
    }
}

fn medium(mount: &MountEntry) -> Medium {
    let fs_type = mount.fs_type.as_str();
    let is_sync = |options: &str| options.split(',').any(|option| option == "sync");
    if IN_MEMORY.contains(&fs_type) || mount.is_pseudo() {
        Medium::Memory
    } else if REMOTE.contains(&fs_type) || fs_type.starts_with("fuse") {
        Medium::Remote
    } else if is_sync(&mount.options) || is_sync(&mount.fs_options) {
        Medium::Synchronous
    } else {
        Medium::Device
    }
}
