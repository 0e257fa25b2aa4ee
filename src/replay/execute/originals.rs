//! Contents from the captured files, where these still exist on this machine: shared with them
//! where the file system supports reflinks, else copied.
//!
//! Originals are resolved in the root directory that was current before the replay's. They are
//! opened read-only, with the rights of the user who will own the files. A plan may come from
//! another user and name any path. So only regular files on a disk are opened, without blocking,
//! and a copy grants no permissions that its original does not.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{Whence, getegid, lseek};

use super::sparse_layout::set_length;
use crate::sys::files;
use crate::sys::replay::reflink::reflink;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Origin of the contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyMethod {
    /// Shared with the original.
    Reflinked,
    /// Copied, because sharing has failed with this error number.
    Copied(i32),
    /// Original is shorter than the file has to be.
    Shorter,
    /// Original does not exist.
    Absent,
    /// Original is not a regular file on a disk.
    OtherType,
    /// Original cannot be opened or read: error number.
    Unreadable(i32),
}

impl fmt::Display for CopyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reflinked => f.write_str("shared with the originals (reflinks)"),
            Self::Copied(why) => {
                write!(f, "copied from the originals; they cannot be shared: {}", description(*why))
            }
            Self::Shorter => {
                f.write_str("from originals that are shorter now, and generated beyond their end")
            }
            Self::Absent => f.write_str("generated: the originals do not exist"),
            Self::OtherType => {
                f.write_str("generated: the originals are not regular files on a disk")
            }
            Self::Unreadable(why) => {
                write!(f, "generated: the originals cannot be read: {}", description(*why))
            }
        }
    }
}

fn description(errno: i32) -> &'static str {
    Errno::from_raw(errno).desc()
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Number of files by origin of their contents, with the path of the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<CopyMethod, (u64, Vec<u8>)>);

impl Sources {
    pub(super) fn add(&mut self, source: CopyMethod, path: &[u8]) {
        self.0.entry(source).or_insert_with(|| (0, path.to_vec())).0 += 1;
    }

    /// Returns all origins, in the order of outputs.
    pub fn all(&self) -> impl Iterator<Item = (CopyMethod, u64, &[u8])> {
        self.0.iter().map(|(source, (count, first))| (*source, *count, &**first))
    }
}

/// Captured files on this machine.
#[derive(Debug)]
pub struct Originals {
    root: OwnedFd,
}

/// Open captured file.
#[derive(Debug)]
pub(super) struct Original {
    file: File,
    stat: FileStat,
}

impl Originals {
    /// Opens the current root directory.
    ///
    /// # Errors
    ///
    /// The root directory cannot be opened.
    pub fn new() -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self { root: nix::fcntl::open("/", flags, Mode::empty())? })
    }

    /// Opens the file with this path.
    pub(super) fn open(&self, path: &[u8]) -> Result<Original, CopyMethod> {
        let open = |flags: OFlag| {
            // Links are followed, as in the capture: a malicious plan could name the target of a
            // link directly.
            let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
            openat2(
                &self.root,
                path,
                OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve),
            )
        };
        let failed = |errno| match errno {
            Errno::ENOENT | Errno::ENOTDIR => CopyMethod::Absent,
            errno => CopyMethod::Unreadable(errno as i32),
        };
        // Nothing is opened before its type is known.
        let place = open(OFlag::O_PATH).map_err(failed)?;
        let seen = fstat(&place).map_err(failed)?;
        let is_of_kernel = files::is_of_kernel(&place).map_err(failed)?;
        let is_regular = seen.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        if !is_regular || is_of_kernel {
            return Err(CopyMethod::OtherType);
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        // Only the owner may suppress the update of the access time.
        let file: File = match open(flags | OFlag::O_NOATIME) {
            Err(Errno::EPERM) => open(flags),
            it => it,
        }
        .map_err(failed)?
        .into();
        let stat = fstat(&file).map_err(failed)?;
        if (stat.st_dev, stat.st_ino) != (seen.st_dev, seen.st_ino) {
            return Err(CopyMethod::Unreadable(libc::ESTALE));
        }
        Ok(Original { file, stat })
    }
}

impl Original {
    /// Returns the device of its file system.
    pub(super) fn device(&self) -> u64 {
        self.stat.st_dev
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Removes the permissions that other users do not have for the original, whatever the owner of
    /// the copy.
    pub(super) fn restrict(&self, mode: u32) -> u32 {
        let others = self.stat.st_mode & 0o007;
        let is_same_group = self.stat.st_gid == getegid().as_raw();
        let group = if is_same_group { self.stat.st_mode & 0o070 } else { others << 3 };
        mode & (0o7700 | group | others)
    }

    /// Returns whether files in this directory can share its contents.
    pub(super) fn is_shareable(&self, directory: &Path) -> bool {
        files::create_unnamed(directory).and_then(|it| reflink(&self.file, &it)).is_ok()
    }

    /// Gives its contents to a new file of this length. Returns how far they reach, and their
    /// origin.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub(super) fn give(&self, to: &File, bytes: u64) -> io::Result<(u64, CopyMethod)> {
        let shared = reflink(&self.file, to);
        // No result in the capture needs more bytes than this, and some need the end of the file.
        set_length(to, bytes)?;
        let there = self.bytes().min(bytes);
        let (given, source) = match shared {
            Ok(()) => (there, CopyMethod::Reflinked),
            Err(why) => match self.copy(to, there)? {
                (given, None) => (given, CopyMethod::Copied(number(&why))),
                (given, Some(why)) => return Ok((given, CopyMethod::Unreadable(why))),
            },
        };
        Ok((given, if given < bytes { CopyMethod::Shorter } else { source }))
    }

    /// Copies the file; holes stay holes. Returns how far it could be read, and the error number
    /// unless the file has only become shorter.
    fn copy(&self, to: &File, bytes: u64) -> io::Result<(u64, Option<i32>)> {
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
        let find = |whence, offset: u64| {
            let found =
                lseek(&self.file, i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?, whence);
            found.map(|it| u64::try_from(it).unwrap_or(offset))
        };
        let mut at = 0;
        while at < bytes {
            // A file system that does not support `SEEK_DATA` has no holes.
            let start = match find(Whence::SeekData, at) {
                Err(Errno::ENXIO) => return Ok((bytes, None)),
                it => it.unwrap_or(at).min(bytes),
            };
            let end = find(Whence::SeekHole, start).unwrap_or(bytes).min(bytes);
            at = start;
            while at < end {
                let length = chunk.len().min(usize::try_from(end - at).unwrap_or(CHUNK_BYTES));
                match self.file.read_at(&mut chunk[..length], at) {
                    Ok(0) => return Ok((at, None)),
                    Ok(read) => {
                        to.write_all_at(&chunk[..read], at)?;
                        at += read as u64;
                    }
                    Err(it) if it.kind() == io::ErrorKind::Interrupted => {}
                    Err(it) => return Ok((at, Some(number(&it)))),
                }
            }
        }
        Ok((bytes, None))
    }
}
