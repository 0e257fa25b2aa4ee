//! File systems whose opens are reported by handle, and the directory through which files are found
//! by their handles.
//!
//! A handle leads to a file only through an open directory of its file system. An open directory
//! keeps the file system in use: it cannot be unmounted. A copy of the mount (`open_tree(2)`) would
//! be worse: `umount` succeeds, but the file system lives on, still has data to write, and its
//! device does not have them. So the directory is opened for a few looks only.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statfs::{fsid_t, fstatfs, statfs};
use procfs::process::MountInfo;

use super::files::stat_and_mount_of;
use crate::units::DevId;

/// A file system that is listened to.
#[derive(Debug)]
pub(super) struct ListenedFileSystem {
    /// Number of its device, `MAJOR:MINOR`.
    majmin: String,
    /// Number that `statfs(2)` shows at the mount point: another file system has another one.
    id: fsid_t,
    /// The directory that is mounted at the mount point.
    root: (DevId, u64),
    mount_point: PathBuf,
    /// Directories of the file system, from its root on, that are mounted elsewhere, too: files in
    /// them have other names.
    elsewhere: Vec<PathBuf>,
    /// True if it opens files of other file systems for each of its own.
    pub(super) is_stacked: bool,
}

impl ListenedFileSystem {
    /// Opens the directory that is mounted there.
    ///
    /// # Errors
    ///
    /// Those of `open(2)` and `fstatfs(2)`; `ENODEV`: another file system is mounted over this one;
    /// `ENOTDIR`: a file is mounted there.
    pub(super) fn open(mount: &MountInfo) -> io::Result<(Self, File)> {
        let directory = open_directory(&mount.mount_point)?;
        let root = inode_of(directory.as_fd()).ok_or(Errno::ENODEV)?;
        // Each subvolume of btrfs has a device.
        if root.0.to_string() != mount.majmin && mount.fs_type != "btrfs" {
            return Err(Errno::ENODEV.into());
        }
        let listened = Self {
            majmin: mount.majmin.clone(),
            id: fstatfs(&directory)?.filesystem_id(),
            root,
            mount_point: mount.mount_point.clone(),
            elsewhere: Vec::new(),
            is_stacked: mount.fs_type == "overlay",
        };
        Ok((listened, directory))
    }

    /// True if the file system of this device is the same one.
    pub(super) fn is_on(&self, majmin: &str) -> bool {
        self.majmin == majmin
    }

    pub(super) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// True if the file system is still found at its mount point, among these mounts.
    pub(super) fn is_among(&self, mounts: &[MountInfo]) -> bool {
        mounts.iter().any(|mount| self.is_by(mount))
            && statfs(&self.mount_point).is_ok_and(|found| found.filesystem_id() == self.id)
    }

    fn is_by(&self, mount: &MountInfo) -> bool {
        self.is_on(&mount.majmin) && mount.mount_point == self.mount_point
    }

    /// Notes the directories that are mounted elsewhere, too.
    pub(super) fn note_others(&mut self, mounts: &[MountInfo]) {
        let others = mounts.iter().filter(|mount| {
            self.is_on(&mount.majmin) && (!self.is_by(mount) || mount.root != "/")
        });
        // Through a mount of a part of the file system no name is certain, nor where the root of a
        // mount has an escaped character.
        let root = |mount: &MountInfo| match self.is_by(mount) || mount.root.contains('\\') {
            true => PathBuf::from("/"),
            false => PathBuf::from(&mount.root),
        };
        self.elsewhere = others.map(root).collect();
    }

    /// Opens the directory through which handles lead to files.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`; `ENODEV`: the file system is not mounted there any more, or another one
    /// is mounted over it.
    pub(super) fn directory(&self) -> nix::Result<File> {
        let directory = open_directory(&self.mount_point)?;
        let is_same = inode_of(directory.as_fd()) == Some(self.root);
        is_same.then_some(directory).ok_or(Errno::ENODEV)
    }

    /// True if a file with this path may have been opened by another name: through another mount.
    pub(super) fn has_other_names(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let Ok(within) = path.strip_prefix(&self.mount_point) else { return true };
        let is_in = |root: &PathBuf| within.starts_with(root.strip_prefix("/").unwrap_or(root));
        self.elsewhere.iter().any(is_in)
    }
}

// Not `O_PATH`: a handle is looked up through an open directory.
fn open_directory(path: &Path) -> nix::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(path, flags, Mode::empty()).map(File::from)
}

pub(super) fn inode_of(file: BorrowedFd<'_>) -> Option<(DevId, u64)> {
    stat_and_mount_of(file).and_then(|(stat, _)| stat.inode())
}
