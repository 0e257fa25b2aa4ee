//! Files of programs, opened while the helper has privileges, and read after it has given them up.
//!
//! Any file may be made to deceive or to stop the tracer. So only regular files are opened, and no
//! byte of them is read while the helper has privileges.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blazesym::helper::read_elf_build_id;
use nix::sys::stat::{major, minor};
use rustc_hash::FxHashMap;

use super::super::executable_mappings::{CodeFile, FileIdentity};
use crate::sys::regular::open_regular;
use crate::sys::sandboxed_helper;
use crate::units::Pid;

/// Largest total size of files that are copied into memory because not all users may read them, in
/// bytes.
const COPIED_BYTES_MAX: u64 = 256 << 20;

/// Open files.
#[derive(Debug)]
pub(in super::super) struct FileAccessTable {
    all: Vec<File>,
    /// Indices of the files, by device and inode.
    numbers: FxHashMap<(u64, u64), usize>,
    /// Bytes that may still be copied.
    left: u64,
}

impl FileAccessTable {
    /// Returns an empty collection.
    pub(in super::super) fn new() -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default(), left: COPIED_BYTES_MAX }
    }

    /// Returns the copies that may be the file that a process has mapped there, the likeliest
    /// first. Copies are opened if they are not open yet.
    pub(in super::super) fn candidates(
        &mut self,
        pid: Pid,
        start: u64,
        end: u64,
        file: &CodeFile,
    ) -> VecDeque<usize> {
        let below = Path::new(OsStr::from_bytes(file.path.get(1..).unwrap_or_default()));
        let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        // Some file systems show another device in `map_files` than `stat` does (btrfs), so this
        // file is checked by its inode only.
        let places = [
            (mapped, is_inode as fn(&Metadata, &FileIdentity) -> bool),
            (place_in(pid, below), is_file),
            (Path::new("/").join(below), is_file),
        ];
        let mut candidates = VecDeque::new();
        for (place, may_be) in places {
            let Some((opened, found)) = open_regular(&place, true) else { continue };
            if !may_be(&found, &file.identity) {
                continue;
            }
            let number = *self.numbers.entry((found.dev(), found.ino())).or_insert(self.all.len());
            if number == self.all.len() {
                self.all.push(readable_by_all(opened, &found, &mut self.left));
            }
            if !candidates.contains(&number) {
                candidates.push_back(number);
            }
        }
        candidates
    }

    /// Returns the path at which a copy is opened again after [`give_up_rights`].
    pub(in super::super) fn path(&self, number: usize) -> Option<PathBuf> {
        self.all.get(number).map(number_path)
    }
}

/// Gives up privileges. After this call only open files can be opened again, by their numbers.
///
/// # Errors
///
/// Those of [`sandboxed_helper::give_up_rights`].
pub(in super::super) fn give_up_rights() -> io::Result<()> {
    // Entered with privileges: without them the path from the root may be inaccessible.
    std::env::set_current_dir("/proc/self/fd")?;
    sandboxed_helper::give_up_rights()
}

/// Returns the file, or a copy of a file that not all users may read: it is opened again without
/// privileges.
fn readable_by_all(mut file: File, found: &Metadata, left: &mut u64) -> File {
    if found.mode() & libc::S_IROTH != 0 || found.len() > *left {
        return file;
    }
    // A file that is too large is later found to be unreadable.
    let Ok(Some((copy, bytes))) = sandboxed_helper::copy_in_memory(&mut file, *left) else {
        return file;
    };
    *left = left.saturating_sub(bytes);
    copy
}

/// Returns the path at which the tracer sees this path of a process, which is relative to the
/// process's root.
pub(super) fn place_in(pid: Pid, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path)
}

/// Returns the path at which the file is opened again, relative to `/proc/self/fd`.
fn number_path(file: &File) -> PathBuf {
    file.as_raw_fd().to_string().into()
}

/// False if the inode has another number than the mapped file.
fn is_inode(found: &Metadata, identity: &FileIdentity) -> bool {
    match identity {
        FileIdentity::BuildId(_) => true,
        FileIdentity::Inode(_, _, ino) => found.ino() == *ino,
    }
}

/// False if device or inode differ from those of the mapped file.
fn is_file(found: &Metadata, identity: &FileIdentity) -> bool {
    let is_device = match identity {
        FileIdentity::BuildId(_) => true,
        FileIdentity::Inode(of_major, of_minor, _) => {
            let dev = (major(found.dev()), minor(found.dev()));
            dev == (u64::from(*of_major), u64::from(*of_minor))
        }
    };
    is_device && is_inode(found, identity)
}

/// False if the build id differs from that of the mapped file.
pub(in super::super) fn is_same(path: &Path, identity: &FileIdentity) -> bool {
    match identity {
        FileIdentity::BuildId(id) => {
            let found = read_elf_build_id(path).ok().flatten();
            found.is_some_and(|it| it.as_ref() == id.as_slice())
        }
        FileIdentity::Inode(..) => true,
    }
}
