//! Contents of files from the captured ones, where those are on this machine now: shared with them where the file system can (reflinks),
//! else copied.
//!
//! They are found from the root directory that we had before the replay's became ours, and opened to be read only, as whom the files
//! belong to. A plan may be somebody else's, and name anything: what is no regular file on a disk is not opened, nothing is waited for, and
//! nobody gets more rights to a copy than to its original.

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

use super::fill::set_length;
use crate::sys::files;
use crate::sys::reflink::reflink;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Where the contents of a file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// It shares them with the original.
    Reflinked,
    /// They are a copy, as they could not be shared: an error's number.
    Copied(i32),
    /// The original is shorter than the file has to be.
    Shorter,
    /// It is not there.
    Absent,
    /// Something else is there.
    OtherType,
    /// It cannot be opened or read: an error's number.
    Unreadable(i32),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reflinked => f.write_str("shared with the originals (reflinks)"),
            Self::Copied(why) => {
                write!(f, "copied from the originals; they cannot be shared: {}", said(*why))
            }
            Self::Shorter => {
                f.write_str("from originals that are shorter now, and made up behind these")
            }
            Self::Absent => f.write_str("made up: the originals are not there"),
            Self::OtherType => f.write_str("made up: the originals are no regular files on a disk"),
            Self::Unreadable(why) => {
                write!(f, "made up: the originals cannot be read: {}", said(*why))
            }
        }
    }
}

fn said(errno: i32) -> &'static str {
    Errno::from_raw(errno).desc()
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// How many files have their contents from where, and the first one's path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<Source, (u64, Vec<u8>)>);

impl Sources {
    pub(super) fn add(&mut self, source: Source, path: &[u8]) {
        self.0.entry(source).or_insert_with(|| (0, path.to_vec())).0 += 1;
    }

    /// All of them, in the order of outputs.
    pub fn all(&self) -> impl Iterator<Item = (Source, u64, &[u8])> {
        self.0.iter().map(|(source, (count, first))| (*source, *count, &**first))
    }
}

/// The captured files.
#[derive(Debug)]
pub struct Originals {
    root: OwnedFd,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Original {
    file: File,
    stat: FileStat,
}

impl Originals {
    /// Those below the root directory that we have now.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn new() -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self { root: nix::fcntl::open("/", flags, Mode::empty())? })
    }

    /// The one that has this path.
    pub(super) fn open(&self, path: &[u8]) -> Result<Original, Source> {
        let open = |flags: OFlag| {
            // As in the capture links are followed: whoever made a plan could have named what is behind one.
            let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
            openat2(
                &self.root,
                path,
                OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve),
            )
        };
        let failed = |errno| match errno {
            Errno::ENOENT | Errno::ENOTDIR => Source::Absent,
            errno => Source::Unreadable(errno as i32),
        };
        // Nothing is opened before it is known what it is.
        let place = open(OFlag::O_PATH).map_err(failed)?;
        let seen = fstat(&place).map_err(failed)?;
        let is_of_kernel = files::is_of_kernel(&place).map_err(failed)?;
        let is_regular = seen.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        if !is_regular || is_of_kernel {
            return Err(Source::OtherType);
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        // Only its owner may leave its time of access as it is.
        let file: File = match open(flags | OFlag::O_NOATIME) {
            Err(Errno::EPERM) => open(flags),
            it => it,
        }
        .map_err(failed)?
        .into();
        let stat = fstat(&file).map_err(failed)?;
        if (stat.st_dev, stat.st_ino) != (seen.st_dev, seen.st_ino) {
            return Err(Source::Unreadable(libc::ESTALE));
        }
        Ok(Original { file, stat })
    }
}

impl Original {
    /// Its file system.
    pub(super) fn device(&self) -> u64 {
        self.stat.st_dev
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// These permissions without those that somebody does not have to the original, whoever the copy belongs to.
    pub(super) fn restrict(&self, mode: u32) -> u32 {
        let others = self.stat.st_mode & 0o007;
        let is_same_group = self.stat.st_gid == getegid().as_raw();
        let group = if is_same_group { self.stat.st_mode & 0o070 } else { others << 3 };
        mode & (0o7700 | group | others)
    }

    /// Can files in this directory share its contents?
    pub(super) fn is_shareable(&self, directory: &Path) -> bool {
        files::create_unnamed(directory).and_then(|it| reflink(&self.file, &it)).is_ok()
    }

    /// Gives its contents to a new file of this length. How far they go, and where they are from.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub(super) fn give(&self, to: &File, bytes: u64) -> io::Result<(u64, Source)> {
        let shared = reflink(&self.file, to);
        // Longer than that is nothing that any result in the capture needs, and some may need the end.
        set_length(to, bytes)?;
        let there = self.bytes().min(bytes);
        let (given, source) = match shared {
            Ok(()) => (there, Source::Reflinked),
            Err(why) => match self.copy(to, there)? {
                (given, None) => (given, Source::Copied(number(&why))),
                (given, Some(why)) => return Ok((given, Source::Unreadable(why))),
            },
        };
        Ok((given, if given < bytes { Source::Shorter } else { source }))
    }

    /// Copies it; holes stay holes. How far it could be read, and why no farther, if it is not only shorter by now.
    fn copy(&self, to: &File, bytes: u64) -> io::Result<(u64, Option<i32>)> {
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
        let find = |whence, at: u64| {
            let found = lseek(&self.file, i64::try_from(at).map_err(|_| Errno::EOVERFLOW)?, whence);
            found.map(|it| u64::try_from(it).unwrap_or(at))
        };
        let mut at = 0;
        while at < bytes {
            // A file system that tells nothing of holes has none.
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
