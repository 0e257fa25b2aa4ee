//! What is below a directory, found from its descriptor: whatever was mounted over it, and wherever our root is.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstatat};

use crate::replay::file::FileKind;

/// Something below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is.
    pub kind: FileKind,
    /// From that directory, with a slash at its beginning.
    pub path: Vec<u8>,
}

/// Everything below a directory, which is listed before what is in it; links are not followed.
///
/// # Errors
///
/// A directory cannot be read.
pub fn walk(root: &impl AsFd) -> io::Result<Vec<Listed>> {
    let mut found = Vec::new();
    below(root, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn below(root: &impl AsFd, path: &mut Vec<u8>, found: &mut Vec<Listed>) -> io::Result<()> {
    // No descriptor is kept for those above: paths may be deeper than there may be descriptors.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut directory = Dir::from_fd(open_below(root, path, flags)?)?;
    let mut names = Vec::new();
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let kinds: io::Result<Vec<_>> = names
        .into_iter()
        .map(|(name, known)| Ok((kind(&directory, &name, known)?, name)))
        .collect();
    drop(directory);
    for (kind, name) in kinds? {
        let length = path.len();
        path.push(b'/');
        path.extend_from_slice(&name);
        found.push(Listed { kind, path: path.clone() });
        if kind == FileKind::Directory {
            below(root, path, found)?;
        }
        path.truncate(length);
    }
    Ok(())
}

/// Not every file system tells types with names.
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

/// Opens what has this path from a directory: never beyond it, never through a link.
///
/// # Errors
///
/// Those of `openat2(2)`.
pub(super) fn open_below(root: &impl AsFd, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
    openat2(root, path, how)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_stand_before_what_is_in_them_and_links_are_links() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        fs::create_dir_all(root.join("b/c")).expect("space");
        fs::write(root.join("b/c/f"), "").expect("space");
        fs::write(root.join("b-"), "").expect("space");
        symlink(root, root.join("b/l")).expect("space");
        let found = walk(&File::open(root).expect("there")).expect("readable");
        let found: Vec<_> = found.iter().map(|it| (it.kind, &*it.path)).collect();
        let (d, f, l) = (FileKind::Directory, FileKind::File, FileKind::Link);
        let expected: [(FileKind, &[u8]); 5] =
            [(d, b"/b"), (d, b"/b/c"), (f, b"/b/c/f"), (l, b"/b/l"), (f, b"/b-")];
        assert_eq!(found, expected);
    }
}
