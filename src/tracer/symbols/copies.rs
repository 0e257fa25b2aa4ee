//! Files of programs, opened while there are rights to it, and read when there are none any more.
//!
//! Any of it may be there to deceive or to stop us: nothing is opened but regular files, and no byte of them is looked at while there
//! are rights to be had.

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

use super::super::code::{CodeFile, Identity};
use crate::sys::helper;
use crate::sys::regular::open_regular;
use crate::units::Pid;

/// Files that not everybody may read are copied into memory, all together up to this, in bytes.
const COPIED_BYTES_MAX: u64 = 256 << 20;

/// What is open.
#[derive(Debug)]
pub(in super::super) struct Copies {
    all: Vec<File>,
    /// Their numbers by device and inode.
    numbers: FxHashMap<(u64, u64), usize>,
    /// How much may still be copied, in bytes.
    left: u64,
}

impl Copies {
    /// Nothing so far.
    pub(in super::super) fn new() -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default(), left: COPIED_BYTES_MAX }
    }

    /// Which copies a process may have meant that has this file there in its memory, the likeliest first; they are opened if they are
    /// not yet.
    pub(in super::super) fn candidates(
        &mut self,
        pid: Pid,
        (start, end): (u64, u64),
        file: &CodeFile,
    ) -> VecDeque<usize> {
        let below = Path::new(OsStr::from_bytes(file.path.get(1..).unwrap_or_default()));
        let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        // Some file systems show another device there than `stat` (btrfs): what lies at the place is told by its inode.
        let places = [
            (mapped, is_inode as fn(&Metadata, &Identity) -> bool),
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
                self.all.push(for_everybody(opened, &found, &mut self.left));
            }
            if !candidates.contains(&number) {
                candidates.push_back(number);
            }
        }
        candidates
    }

    /// Where a copy is opened once more, behind [`give_up_rights`].
    pub(in super::super) fn path(&self, number: usize) -> Option<PathBuf> {
        self.all.get(number).map(number_path)
    }
}

/// From here on nothing is opened but what is open, by its number.
///
/// # Errors
///
/// As [`helper::give_up_rights`].
pub(in super::super) fn give_up_rights() -> io::Result<()> {
    // From the root nobody without rights may come here, if the root is closed to him.
    std::env::set_current_dir("/proc/self/fd")?;
    helper::give_up_rights()
}

/// The file, or if not everybody may read it, a copy: it is opened once more when there are no rights any more.
fn for_everybody(mut file: File, found: &Metadata, left: &mut u64) -> File {
    if found.mode() & libc::S_IROTH != 0 || found.len() > *left {
        return file;
    }
    // If it is too large it is found later that it cannot be read.
    let Ok(Some((copy, bytes))) = helper::copy_in_memory(&mut file, *left) else { return file };
    *left = left.saturating_sub(bytes);
    copy
}

/// Where a process has this, a path from its root.
pub(super) fn place_in(pid: Pid, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path)
}

/// Where it is opened once more, from `/proc/self/fd`.
fn number_path(file: &File) -> PathBuf {
    file.as_raw_fd().to_string().into()
}

/// False if its inode has not the number that was meant.
fn is_inode(found: &Metadata, identity: &Identity) -> bool {
    match identity {
        Identity::BuildId(_) => true,
        Identity::Inode(_, _, ino) => found.ino() == *ino,
    }
}

/// False if its device and inode are not those that were meant.
fn is_file(found: &Metadata, identity: &Identity) -> bool {
    let is_device = match identity {
        Identity::BuildId(_) => true,
        Identity::Inode(of_major, of_minor, _) => {
            let dev = (major(found.dev()), minor(found.dev()));
            dev == (u64::from(*of_major), u64::from(*of_minor))
        }
    };
    is_device && is_inode(found, identity)
}

/// False if its build id is not the one that was meant.
pub(in super::super) fn is_same(path: &Path, identity: &Identity) -> bool {
    match identity {
        Identity::BuildId(id) => {
            let found = read_elf_build_id(path).ok().flatten();
            found.is_some_and(|it| it.as_ref() == id.as_slice())
        }
        Identity::Inode(..) => true,
    }
}
