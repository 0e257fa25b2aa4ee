//! Lists a directory tree from its descriptor, independent of later mounts over it and of the
//! current root.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, fchownat};

use crate::replay::plan::plan_file::FileKind;
use crate::sys::identity::Identity;

/// Entry below the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Type of the entry.
    pub kind: FileKind,
    /// Path from that directory, with a slash at its beginning.
    pub path: Vec<u8>,
}

/// Treatment of directories on which something is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountPolicy {
    /// Mounts of the replay itself: entered.
    Entered,
    /// Mounts of others: left out.
    Left,
}

/// Longest path that is followed. Programs name paths of at most 4 KiB, but directories can be
/// nested without limit. The size of a list of them, and its time, is the square of their depth.
const PATH_BYTES_MAX: usize = 16 << 10;

/// Lists everything below a directory, each directory before its entries. Links are not followed.
pub fn walk(root: &impl AsFd, mounts: MountPolicy) -> io::Result<Vec<WalkEntry>> {
    let (mut found, mut path) = (Vec::new(), Vec::new());
    // Levels on the way down with their remaining entries: there may be more levels than the stack
    // has room for.
    let mut levels = vec![names(root, &path, mounts)?.into_iter()];
    while let Some(level) = levels.last_mut() {
        let Some((kind, name)) = level.next() else {
            levels.pop();
            up(&mut path);
            continue;
        };
        path.push(b'/');
        path.extend_from_slice(&name);
        if path.len() > PATH_BYTES_MAX {
            return Err(too_deep(&path));
        }
        found.push(WalkEntry { kind, path: path.clone() });
        match kind {
            FileKind::Directory => levels.push(names(root, &path, mounts)?.into_iter()),
            FileKind::File | FileKind::Link => up(&mut path),
        }
    }
    Ok(found)
}

fn too_deep(path: &[u8]) -> io::Error {
    let begin = String::from_utf8_lossy(path.get(..64).unwrap_or(path)).into_owned();
    io::Error::other(format!(
        "directories are nested more than {PATH_BYTES_MAX} bytes deep, which no replay makes: {begin}…; remove them: rm -r"
    ))
}

/// Removes the last name of a path.
fn up(path: &mut Vec<u8>) {
    path.truncate(path.iter().rposition(|it| *it == b'/').unwrap_or(0));
}

/// Returns the sorted entries of a directory; none if it is a foreign mount or no longer a
/// directory.
fn names(
    root: &impl AsFd,
    path: &[u8],
    mounts: MountPolicy,
) -> io::Result<Vec<(FileKind, Vec<u8>)>> {
    // No descriptor is kept for the levels above: paths may be deeper than the limit of
    // descriptors.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut opened = open_below(root, path, flags, mounts);
    if matches!(opened, Err(Errno::EACCES)) && allow(root, path).is_ok() {
        opened = open_below(root, path, flags, mounts);
    }
    let mut directory = match opened {
        Err(Errno::EXDEV) if mounts == MountPolicy::Left => return Ok(Vec::new()),
        // Another process has replaced it meanwhile.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) if !path.is_empty() => {
            return Ok(Vec::new());
        }
        it => Dir::from_fd(it?)?,
    };
    let mut names = Vec::new();
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let kinds = names.into_iter().map(|(name, known)| Ok((kind(&directory, &name, known)?, name)));
    kinds.collect()
}

/// Returns the type of an entry. Not every file system returns types with names.
fn kind(directory: &Dir, name: &[u8], known: Option<Type>) -> io::Result<FileKind> {
    let is_of = |stat: &FileStat, kind: SFlag| stat.st_mode & SFlag::S_IFMT.bits() == kind.bits();
    Ok(match known {
        Some(Type::Directory) => FileKind::Directory,
        Some(Type::Symlink) => FileKind::Link,
        Some(_) => FileKind::File,
        None => {
            let name = OsStr::from_bytes(name);
            let stat = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            match () {
                () if is_of(&stat, SFlag::S_IFDIR) => FileKind::Directory,
                () if is_of(&stat, SFlag::S_IFLNK) => FileKind::Link,
                () => FileKind::File,
            }
        }
    })
}

/// Bytes of a path that one call takes at most, with some reserve (`PATH_MAX`, 4096).
const PART_BYTES_MAX: usize = 4000;

/// Opens a path below a directory: never outside it, never through a link.
///
/// # Errors
///
/// Errors of `openat2(2)`.
pub(super) fn open_below(
    root: &impl AsFd,
    path: &[u8],
    flags: OFlag,
    mounts: MountPolicy,
) -> nix::Result<OwnedFd> {
    let mut resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    resolve.set(ResolveFlag::RESOLVE_NO_XDEV, mounts == MountPolicy::Left);
    let how = |flags| OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
    let mut rest = path.strip_prefix(b"/").unwrap_or(path);
    let mut above: Option<OwnedFd> = None;
    loop {
        let from = above.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        let begin = rest.get(..PART_BYTES_MAX).unwrap_or_default();
        let Some(end) = begin.iter().rposition(|it| *it == b'/') else {
            let path = if rest.is_empty() { b"." } else { rest };
            return openat2(from, path, how(flags));
        };
        let (part, after) = rest.split_at(end);
        above = Some(openat2(from, part, how(OFlag::O_PATH | OFlag::O_DIRECTORY))?);
        rest = after.strip_prefix(b"/").unwrap_or(after);
    }
}

/// Creates a directory at a path below another one, for this user: never outside it, never through
/// a link.
///
/// # Errors
///
/// Something is there already, or it cannot be created.
pub(super) fn make_directory(
    root: &impl AsFd,
    path: &[u8],
    user: Option<&Identity>,
) -> io::Result<()> {
    let (above, name) = parent(path);
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let above = open_below(root, above, flags, MountPolicy::Left)?;
    mkdirat(&above, name, Mode::S_IRWXU)?;
    let Some(user) = user else { return Ok(()) };
    let (user, group) = (Uid::from_raw(user.user()), Gid::from_raw(user.group()));
    let made = open_below(&above, name, flags, MountPolicy::Left)?;
    Ok(fchownat(&made, "", Some(user), Some(group), AtFlags::AT_EMPTY_PATH)?)
}

/// Returns the directory part of a path, and the name in it.
pub(super) fn parent(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|it| *it == b'/');
    slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]))
}

/// Restores the owner's permissions on a path of directories, from the root down: a replay may have
/// removed them (`chmod 000`).
///
/// # Errors
///
/// A directory belongs to another user, or `/proc` is not mounted.
pub(super) fn allow(root: &impl AsFd, directory: &[u8]) -> io::Result<()> {
    let slashes = directory.iter().enumerate().filter(|it| it.0 > 0 && *it.1 == b'/');
    for end in slashes.map(|it| it.0).chain([directory.len()]) {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let opened = open_below(root, &directory[..end], flags, MountPolicy::Left)?;
        // The path leads to the open directory and to nothing else.
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let mode = fs::metadata(&path)?.mode();
        if mode & OWNERS != OWNERS {
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777 | OWNERS))?;
        }
    }
    Ok(())
}

/// Permissions that an owner needs to list, enter and empty a directory.
const OWNERS: u32 = 0o700;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_precede_their_entries_and_links_stay_links() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        fs::create_dir_all(root.join("b/c")).expect("space");
        fs::write(root.join("b/c/f"), "").expect("space");
        fs::write(root.join("b-"), "").expect("space");
        symlink(root, root.join("b/l")).expect("space");
        let found = walk(&File::open(root).expect("there"), MountPolicy::Left).expect("readable");
        let found: Vec<_> = found.iter().map(|it| (it.kind, &*it.path)).collect();
        let (d, f, l) = (FileKind::Directory, FileKind::File, FileKind::Link);
        let expected: [(FileKind, &[u8]); 5] =
            [(d, b"/b"), (d, b"/b/c"), (f, b"/b/c/f"), (l, b"/b/l"), (f, b"/b-")];
        assert_eq!(found, expected);
    }

    /// Fails if a tree deeper than any path is not listed completely, or needs more stack the
    /// deeper it is.
    #[test]
    fn deep_trees_are_walked_and_endless_ones_are_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = File::open(directory.path()).expect("there");
        let mut inner = root.try_clone().expect("a descriptor");
        let mut deeper = |name: &str, levels: usize| {
            for _ in 0..levels {
                nix::sys::stat::mkdirat(&inner, name, Mode::S_IRWXU).expect("space");
                let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                let made = nix::fcntl::openat(&inner, name, flags, Mode::empty()).expect("made");
                inner = File::from(made);
            }
        };
        deeper("d", 2101);
        let found = walk(&root, MountPolicy::Left).expect("readable");
        assert_eq!((found.len(), found[2100].path.len()), (2101, 2 * 2101));
        deeper(&"e".repeat(255), PATH_BYTES_MAX / 256);
        let error = walk(&root, MountPolicy::Left).expect_err("too deep").to_string();
        assert!(error.contains("/d/d/d/"), "{error}");
        // The directory of the test is removed by whole paths.
        let removed = std::process::Command::new("rm").arg("-r").arg(directory.path()).status();
        assert!(removed.expect("it runs").success());
    }
}
