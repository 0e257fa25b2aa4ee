//! Removes the files of a replay.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::dir_walk::{MountPolicy, WalkEntry, allow, open_below, parent, walk};
use super::manifest::{DirState, ManifestError, ReplayDir};
use crate::replay::plan::plan_file::FileKind;

/// Outcome of a removal.
#[derive(Debug, Default)]
pub struct PurgeCounts {
    /// Number of removed files.
    pub removed: u64,
    /// Files that could not be removed, each with its error.
    pub left: Vec<(PathBuf, io::Error)>,
}

/// Removes the files in a place's list, and the files that a killed replay has left. Removes the
/// place itself if nothing is left in it.
///
/// # Errors
///
/// The list cannot be read.
pub fn purge(place: ReplayDir) -> Result<PurgeCounts, ManifestError> {
    let purged = purge_files(&place)?;
    if purged.left.is_empty() {
        place.remove()?;
    }
    Ok(purged)
}

/// Removes the files of a place, but not the place itself.
///
/// # Errors
///
/// The list cannot be read.
pub(super) fn purge_files(place: &ReplayDir) -> Result<PurgeCounts, ManifestError> {
    let tree = place.tree();
    let failed = |source| ManifestError::Io { path: tree.clone(), source };
    let mut purged = PurgeCounts::default();
    match place.tree_file() {
        Err(it) if it.kind() == io::ErrorKind::NotFound => {}
        it => {
            let root = it.map_err(failed)?;
            let listed = match place.state {
                DirState::Running => walk(&root, MountPolicy::Left).map_err(failed)?,
                _ => place.listed()?,
            };
            for it in listed.iter().rev() {
                remove(&root, it, &mut purged);
            }
            if let Err(source) = place.remove_tree() {
                purged.left.push((tree, source));
            }
        }
    }
    Ok(purged)
}

fn remove(root: &File, entry: &WalkEntry, purged: &mut PurgeCounts) {
    let mut result = remove_one(root, entry);
    if result == Err(Errno::EACCES) && allow(root, parent(&entry.path).0).is_ok() {
        result = remove_one(root, entry);
    }
    match result {
        Ok(()) => purged.removed += 1,
        // An init that was killed had not created this file yet; or a user has removed it.
        Err(Errno::ENOENT) => {}
        Err(errno) => {
            let path = Path::new(OsStr::from_bytes(&entry.path)).to_owned();
            purged.left.push((path, errno.into()));
        }
    }
}

/// Removes one entry, never through a link, nor inside a mount: its directory may belong to another
/// user by now.
fn remove_one(root: &File, entry: &WalkEntry) -> nix::Result<()> {
    let (parent, name) = parent(&entry.path);
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let directory = open_below(root, parent, flags, MountPolicy::Left)?;
    let flag = match entry.kind {
        FileKind::Directory => UnlinkatFlags::RemoveDir,
        FileKind::File | FileKind::Link => UnlinkatFlags::NoRemoveDir,
    };
    unlinkat(&directory, name, flag)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::replay::execute::manifest::SymlinkPolicy;
    use crate::replay::execute::settings::Settings;
    use crate::replay::plan::plan_file::Fingerprint;

    fn made(directory: &Path) -> Result<ReplayDir, ManifestError> {
        ReplayDir::make(
            directory,
            Fingerprint::default(),
            Settings::default(),
            SymlinkPolicy::Followed,
        )
    }

    fn place(directory: &Path, listed: &[(FileKind, &str)]) -> ReplayDir {
        let mut place = made(directory).expect("a directory");
        fs::create_dir(place.tree()).expect("a directory");
        let listed = listed.iter().map(|(kind, path)| {
            let (kind, path) = (*kind, path.as_bytes().to_vec());
            WalkEntry { kind, path }
        });
        place.list(listed).expect("space");
        place.set(DirState::Done).expect("space");
        place
    }

    #[test]
    fn listed_entries_are_removed_before_the_rest() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        let place = place(&root, &[(FileKind::Directory, "/d"), (FileKind::File, "/d/f")]);
        fs::create_dir(place.tree().join("d")).expect("a directory");
        fs::write(place.tree().join("d/f"), "").expect("space");
        let purged = purge(place).expect("a list");
        assert_eq!((purged.removed, purged.left.len()), (2, 0));
        assert!(!root.exists());
    }

    /// Fails if a link in the place of a directory leads the removal elsewhere.
    #[test]
    fn nothing_is_removed_through_a_link() {
        let directory = tempfile::tempdir().expect("a directory");
        let (root, elsewhere) = (directory.path().join("root"), directory.path().join("elsewhere"));
        fs::create_dir(&elsewhere).expect("a directory");
        fs::write(elsewhere.join("f"), "kept").expect("space");
        let listed = [
            (FileKind::Directory, "/d"),
            (FileKind::File, "/d/f"),
            (FileKind::File, "/../../elsewhere/f"),
            (FileKind::Link, "/l"),
        ];
        let place = place(&root, &listed);
        symlink(&elsewhere, place.tree().join("d")).expect("a link");
        symlink(elsewhere.join("f"), place.tree().join("l")).expect("a link");
        let purged = purge(place).expect("a list");
        assert_eq!(fs::read(elsewhere.join("f")).expect("it is there"), b"kept");
        assert_eq!(purged.removed, 1);
        assert_eq!(purged.left.len(), 4, "{purged:?}");
    }

    #[test]
    fn unlisted_entries_stay_and_are_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        let place = place(&root, &[(FileKind::Directory, "/d")]);
        let tree = place.tree();
        fs::create_dir(tree.join("d")).expect("a directory");
        fs::write(tree.join("d/mine"), "kept").expect("space");
        let purged = purge(place).expect("a list");
        assert_eq!(purged.left.len(), 2, "{purged:?}");
        assert_eq!(fs::read(tree.join("d/mine")).expect("it is there"), b"kept");
        assert_eq!(
            ReplayDir::open(&root, SymlinkPolicy::Followed).expect("still ours").state,
            DirState::Done
        );
    }

    #[test]
    fn foreign_directory_is_not_touched() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("mine"), "").expect("space");
        let open = ReplayDir::open(directory.path(), SymlinkPolicy::Followed)
            .map(drop)
            .map_err(|it| it.to_string());
        assert!(open.expect_err("not ours").contains("has not been made by"));
        let make = made(directory.path());
        let make = make.map(drop).map_err(|it| it.to_string());
        assert!(make.expect_err("not empty").contains("is not empty"));
    }
}
