//! File systems whose opens are reported by handle, and the directory through which files are found
//! by their handles.
//!
//! A handle leads to a file only through an open directory of its file system. An open directory
//! keeps the file system in use: it cannot be unmounted. A copy of the mount (`open_tree(2)`) would
//! be worse: `umount` succeeds, but the file system lives on, still has data to write, and its
//! device does not have them. So the directory is opened for one look only.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{fsid_t, fstatfs};
use procfs::process::MountInfo;

use super::files::stat_and_mount_of;
use super::regular::find_without_links;

/// Number of a file system in events, and in `statfs.f_fsid`.
pub(super) type FileSystemId = [u8; 8];

/// A file system that is listened to.
#[derive(Debug)]
pub(super) struct ListenedFileSystem {
    /// Number of its device, `MAJOR:MINOR`.
    majmin: String,
    /// Number of the mount through which files are found.
    mount_id: i32,
    mount_point: PathBuf,
    /// Directories of the file system, from its root on, that are mounted elsewhere, too: files in
    /// them have other names.
    elsewhere: Vec<PathBuf>,
    /// True if it opens files of other file systems for each of its own.
    is_stacked: bool,
    /// True if another file system has the same number: a copy of it.
    pub(super) has_double: bool,
}

impl ListenedFileSystem {
    /// Finds the directory that is mounted there, and the number of its file system. Nothing is
    /// opened (`O_PATH`).
    ///
    /// # Errors
    ///
    /// Those of `openat2(2)` and `fstatfs(2)`; `ENODEV`: another file system is mounted over this
    /// one.
    pub(super) fn find(mount: &MountInfo) -> io::Result<(FileSystemId, Self, File)> {
        let listened = Self {
            majmin: mount.majmin.clone(),
            mount_id: mount.mnt_id,
            mount_point: mount.mount_point.clone(),
            elsewhere: Vec::new(),
            is_stacked: mount.fs_type == "overlay",
            has_double: false,
        };
        let place = listened.place()?;
        let id = id_of(&place)?;
        Ok((id, listened, place))
    }

    pub(super) fn majmin(&self) -> &str {
        &self.majmin
    }

    pub(super) fn mount_id(&self) -> i32 {
        self.mount_id
    }

    /// True if this is the mount through which files are found. (A mount that replaces it within a
    /// fraction of a millisecond can have its number and its place: what is opened there is not
    /// reported then.)
    pub(super) fn is_by(&self, mount: &MountInfo) -> bool {
        self.mount_id == mount.mnt_id
            && self.majmin == mount.majmin
            && self.mount_point == mount.mount_point
    }

    /// True if events of it identify the files that threads have opened.
    pub(super) fn identifies_files(&self) -> bool {
        !self.is_stacked && !self.has_double
    }

    /// Notes the directories that are mounted elsewhere, too, from all mounts of this device.
    pub(super) fn note_others(&mut self, mounts: &[&MountInfo]) {
        let others = mounts.iter().filter(|mount| !self.is_by(mount) || mount.root != "/");
        // Through a mount of a part of the file system no name is certain, nor where the root of a
        // mount has an escaped character.
        let root = |mount: &&MountInfo| match self.is_by(mount) || mount.root.contains('\\') {
            true => PathBuf::from("/"),
            false => PathBuf::from(&mount.root),
        };
        self.elsewhere = others.map(root).collect();
    }

    /// Opens the directory through which handles lead to files.
    ///
    /// # Errors
    ///
    /// Those of `openat2(2)` and `openat(2)`; `ENODEV`: the file system is not mounted there any
    /// more, or another one is mounted over it.
    pub(super) fn directory(&self) -> io::Result<File> {
        open_for_handles(&self.place()?)
    }

    fn place(&self) -> io::Result<File> {
        let place = find_without_links(&self.mount_point)?;
        let mount = stat_and_mount_of(place.as_fd()).and_then(|(_, mount)| mount);
        let is_same = mount.is_some_and(|mount| i32::try_from(mount) == Ok(self.mount_id));
        is_same.then_some(place).ok_or_else(|| Errno::ENODEV.into())
    }

    /// True if a file with this path may have been opened by another name: through another mount.
    pub(super) fn has_other_names(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let Ok(within) = path.strip_prefix(&self.mount_point) else { return true };
        let is_in = |root: &PathBuf| within.starts_with(root.strip_prefix("/").unwrap_or(root));
        self.elsewhere.iter().any(is_in)
    }
}

/// Opens a directory that was found: a handle is not looked up through `O_PATH`.
///
/// # Errors
///
/// Those of `openat(2)`.
pub(super) fn open_for_handles(place: &File) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(place, c".", flags, Mode::empty())?.into())
}

fn id_of(place: &File) -> io::Result<FileSystemId> {
    let id = fstatfs(place)?.filesystem_id();
    // SAFETY: a `__kernel_fsid_t` is two numbers of 4 bytes, without padding.
    Ok(unsafe { std::mem::transmute::<fsid_t, FileSystemId>(id) })
}

#[cfg(test)]
mod tests {
    use procfs::FromBufRead;
    use procfs::process::MountInfos;

    use super::*;

    /// The first of the mounts (number, device, root, mount point), beside the others.
    fn listened(mounts: &[[&str; 4]]) -> ListenedFileSystem {
        let line = |[id, majmin, root, point]: &[&str; 4]| {
            format!("{id} 1 {majmin} {root} {point} rw - ext4 /dev/d rw\n")
        };
        let text: String = mounts.iter().map(line).collect();
        let mounts = MountInfos::from_buf_read(text.as_bytes()).expect("mounts").0;
        let first = mounts.first().expect("a mount");
        let mut listened = ListenedFileSystem {
            majmin: first.majmin.clone(),
            mount_id: first.mnt_id,
            mount_point: first.mount_point.clone(),
            elsewhere: Vec::new(),
            is_stacked: false,
            has_double: false,
        };
        let same: Vec<&MountInfo> =
            mounts.iter().filter(|mount| mount.majmin == first.majmin).collect();
        listened.note_others(&same);
        listened
    }

    #[test]
    fn file_that_is_mounted_twice_has_other_names() {
        let alone = listened(&[["20", "7:0", "/", "/m"], ["21", "7:1", "/", "/m/below"]]);
        assert!(!alone.has_other_names(b"/m/a/file") && !alone.has_other_names(b"/m"));
        assert!(alone.has_other_names(b"/elsewhere/file"), "not in the mount");
        assert!(alone.has_other_names(b"/mm/file"), "not in the mount");
        let part = listened(&[["20", "7:0", "/", "/m"], ["21", "7:0", "/a", "/n"]]);
        assert!(part.has_other_names(b"/m/a/file") && !part.has_other_names(b"/m/b/file"));
        let whole = listened(&[["20", "7:0", "/", "/"], ["21", "7:0", "/", "/n"]]);
        assert!(whole.has_other_names(b"/b/file"));
        let root = listened(&[["20", "7:0", "/", "/"], ["21", "7:0", "/a", "/n"]]);
        assert!(root.has_other_names(b"/a/file") && !root.has_other_names(b"/b/file"));
        let only_part = listened(&[["20", "7:0", "/sub", "/m"]]);
        assert!(only_part.has_other_names(b"/m/file"), "its path in the file system is another");
    }

    #[test]
    fn mount_point_is_found_while_it_is_mounted() {
        let mounts = super::super::mounts::mounts_of("/proc/self").expect("mounts");
        let proc = mounts.iter().find(|mount| mount.mount_point == Path::new("/proc"));
        let (_, listened, _) = ListenedFileSystem::find(proc.expect("/proc")).expect("found");
        assert!(listened.directory().is_ok());
        let other = ListenedFileSystem { mount_id: -1, ..listened };
        let error = other.directory().expect_err("another mount is there");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
