//! Directories of a replay: its own, and one for each captured directory that is placed elsewhere
//! (`--map`).
//!
//! Each is a [`ReplayDir`] with a list of its own. The replay's place records where the others are;
//! each of the others records which replay it is a part of. A path that was resolved when it was
//! given is never followed through a link later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::dir_walk::{MountPolicy, WalkEntry, make_directory, walk};
use super::manifest::{DirState, ManifestError, ReplayDir, SymlinkPolicy};
use super::path_mapping::{MapError, PathMapping};
use super::purge::{PurgeCounts, purge, purge_files};
use super::settings::Settings;
use crate::replay::plan::plan_file::{FileBefore, Fingerprint};
use crate::sys::files;
use crate::sys::identity::Identity;
use crate::sys::replay::sandbox::{SandboxDirectory, SandboxMount};

/// Reason why the directories of a replay cannot be used.
#[derive(Debug, Error)]
pub enum PlacesError {
    /// Error of one directory.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Error of a captured directory.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Directory is a symbolic link.
    #[error("{0} is a symbolic link; give the directory itself")]
    Link(PathBuf),
    /// One directory is inside another one.
    #[error(
        "{0} and {1} are nested; give each captured directory, and --root, a directory of its own"
    )]
    Inside(PathBuf, PathBuf),
    /// Directory belongs to another replay.
    #[error(
        "{directory} contains files of another replay; remove them first: iotrace-perf replay purge --root {replay}"
    )]
    Taken {
        /// Directory with the files.
        directory: PathBuf,
        /// Replay that they belong to.
        replay: PathBuf,
    },
    /// Directory is only a part of a replay.
    #[error(
        "{directory} contains only a part of a replay; give the directory of the whole replay: --root {replay}"
    )]
    Part {
        /// Directory that was given.
        directory: PathBuf,
        /// Directory that has to be given.
        replay: PathBuf,
    },
    /// Directory no longer contains the part that was made in it.
    #[error("{0} no longer contains the files of {1}; make them again: iotrace-perf replay init")]
    Lost(PathBuf, String),
    /// Files of an earlier replay could not be removed.
    #[error(
        "{directory} contains more than a replay has made: {path}: {source}; see: iotrace-perf replay purge --root {root}"
    )]
    Left {
        /// Directory in question.
        directory: PathBuf,
        /// First file that is left.
        path: PathBuf,
        /// Reason why the file is left.
        source: io::Error,
        /// Directory of the replay.
        root: PathBuf,
    },
    /// System call has failed.
    #[error("{path}: {source}")]
    Io {
        /// File in question.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// All directories of a replay, locked while the process works in them.
#[derive(Debug)]
pub struct ReplayDirs {
    root: ReplayDir,
    /// Captured directories, in the order of `parts`.
    maps: PathMapping,
    parts: Vec<ReplayDir>,
}

impl ReplayDirs {
    /// Creates the directories, or reuses those of an earlier replay in `root` after removing its
    /// files. `wanted`: settings as the user typed them.
    ///
    /// # Errors
    ///
    /// A directory contains something else or cannot be created, or a captured directory is not in
    /// the plan. Then nothing new is created.
    pub fn make(
        root: &Path,
        plan: Fingerprint,
        before: &[FileBefore],
        wanted: &Settings,
    ) -> Result<Self, PlacesError> {
        let captured: Vec<_> = wanted.maps.iter().map(|it| it.0.clone()).collect();
        let (maps, numbers) = PathMapping::new(&captured)?;
        maps.check(before)?;
        let resolved = resolved(root, SymlinkPolicy::Followed)?;
        let given = numbers.iter().filter_map(|it| wanted.maps.get(*it));
        let directories: Vec<PathBuf> = given
            .map(|it| self::resolved(&it.1, SymlinkPolicy::Refused))
            .collect::<Result<_, _>>()?;
        apart(&resolved, &directories)?;
        // If there is none, `ReplayDir::make` below reports why it cannot be created.
        if let Ok(place) = ReplayDir::open(root, SymlinkPolicy::Followed) {
            empty(place, root)?;
        }
        for it in &directories {
            free(it, &resolved)?;
        }
        let pairs = maps.captured().iter().cloned().zip(directories.iter().cloned()).collect();
        let settings = Settings { maps: pairs, ..wanted.clone() };
        let root = ReplayDir::make(root, plan, settings, SymlinkPolicy::Followed)?;
        let part = |directory: &PathBuf| {
            let part_of = Some(resolved.clone());
            let settings = Settings { part_of, user: wanted.user, ..Settings::default() };
            ReplayDir::make(directory, plan, settings, SymlinkPolicy::Refused)
        };
        let parts = directories.iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { root, maps, parts })
    }

    /// Opens the directories that an earlier call of `make` has created.
    ///
    /// # Errors
    ///
    /// A directory was not created by a replay, or no longer exists.
    pub fn open(root: &Path) -> Result<Self, PlacesError> {
        let place = ReplayDir::open(root, SymlinkPolicy::Followed)?;
        if let Some(replay) = &place.settings.part_of {
            let (directory, replay) = (root.to_owned(), replay.clone());
            return Err(PlacesError::Part { directory, replay });
        }
        let resolved = resolved(root, SymlinkPolicy::Followed)?;
        let captured: Vec<_> = place.settings.maps.iter().map(|it| it.0.clone()).collect();
        // Maps are stored in sorted order.
        let (maps, _) = PathMapping::new(&captured)?;
        let part = |(captured, directory): &(Vec<u8>, PathBuf)| {
            let part = ReplayDir::open(directory, SymlinkPolicy::Refused)?;
            if part.settings.part_of.as_ref() == Some(&resolved) {
                return Ok(part);
            }
            let captured = String::from_utf8_lossy(captured).into_owned();
            Err(PlacesError::Lost(directory.clone(), captured))
        };
        let parts = place.settings.maps.iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { root: place, maps, parts })
    }

    /// Returns the replay's own directory, then the others.
    pub fn all(&self) -> impl Iterator<Item = &ReplayDir> {
        std::iter::once(&self.root).chain(&self.parts)
    }

    /// Returns the settings that `init` was given.
    pub fn settings(&self) -> &Settings {
        &self.root.settings
    }

    /// Returns the captured directories that are placed elsewhere.
    pub(super) fn maps(&self) -> &PathMapping {
        &self.maps
    }

    /// Sets the state of all directories.
    ///
    /// # Errors
    ///
    /// The state cannot be written.
    pub fn set(&mut self, state: DirState) -> Result<(), ManifestError> {
        std::iter::once(&mut self.root).chain(&mut self.parts).try_for_each(|it| it.set(state))
    }

    /// Writes the lists of files that will be created. Paths are those of the capture.
    pub(super) fn list(
        &self,
        listed: impl Iterator<Item = WalkEntry>,
    ) -> Result<(), ManifestError> {
        let mut each = vec![Vec::new(); self.parts.len() + 1];
        for WalkEntry { kind, path } in listed {
            let (owner, rest) = self.maps.owner(&path);
            each[owner.map_or(0, |it| it + 1)].push(WalkEntry { kind, path: rest.to_vec() });
        }
        self.all().zip(each).try_for_each(|(place, listed)| place.list(listed.into_iter()))
    }

    /// Writes the lists of files that exist, independent of the current root: a replay may have
    /// moved the directory in which another one is mounted.
    ///
    /// # Errors
    ///
    /// A directory cannot be read, or its list cannot be written.
    pub fn list_what_is_there(&self) -> Result<(), ManifestError> {
        self.all().try_for_each(|place| {
            let found = place.tree_file().and_then(|it| walk(&it, MountPolicy::Left));
            place.list(found.map_err(in_tree(place))?.into_iter())
        })
    }

    /// Creates for this user the directories of all files, and in them the mount points of the
    /// others. Works in the locked directories, whatever their paths lead to by now.
    pub(super) fn make_trees(&self, user: Option<&Identity>) -> Result<(), ManifestError> {
        self.all().try_for_each(|it| it.make_tree(user).map_err(in_tree(it)))?;
        for captured in self.maps.captured() {
            let is_end = |at: &usize| captured.get(*at).is_none_or(|byte| *byte == b'/');
            for directory in (1..=captured.len()).filter(is_end).map(|end| &captured[..end]) {
                let (owner, rest) = self.maps.owner(directory);
                let place = owner.and_then(|it| self.parts.get(it)).unwrap_or(&self.root);
                let make = || match make_directory(&place.tree_file()?, rest, user) {
                    // Another mount point is below it.
                    Err(it) if it.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    it => it,
                };
                make().map_err(in_tree(place))?;
            }
        }
        Ok(())
    }

    /// Returns the directory that becomes the root.
    ///
    /// # Errors
    ///
    /// The directory no longer exists.
    pub fn root(&self) -> Result<SandboxDirectory, ManifestError> {
        directory(&self.root)
    }

    /// Returns the directories that have to be mounted below the root, upper ones first.
    ///
    /// # Errors
    ///
    /// A directory no longer exists.
    pub fn mounts(&self) -> Result<Vec<SandboxMount>, ManifestError> {
        let mount = |(place, captured): (&ReplayDir, &Vec<u8>)| {
            Ok(SandboxMount { source: directory(place)?, target: captured.clone() })
        };
        self.parts.iter().zip(self.maps.captured()).map(mount).collect()
    }
}

/// Returns the path and the identity of the directory with a place's files.
fn directory(place: &ReplayDir) -> Result<SandboxDirectory, ManifestError> {
    let identity = place.tree_file().and_then(|it| files::identity(&it)).map_err(in_tree(place))?;
    Ok(SandboxDirectory { path: place.tree(), identity })
}

/// Turns an error into one of the directory with a place's files.
fn in_tree(place: &ReplayDir) -> impl Fn(io::Error) -> ManifestError {
    |source| ManifestError::Io { path: place.tree(), source }
}

/// Outcome of removing a replay.
#[derive(Debug, Default)]
pub struct AllPurged {
    /// Removed and remaining files.
    pub purged: PurgeCounts,
    /// Directories that do not exist.
    pub absent: Vec<PathBuf>,
}

/// Removes what the lists of a replay's directories contain, and nothing else.
///
/// # Errors
///
/// A list cannot be read, or the directory does not belong to a replay.
pub fn purge_all(root: &Path) -> Result<AllPurged, PlacesError> {
    purge_with_parts(ReplayDir::open(root, SymlinkPolicy::Followed)?, root)
}

fn purge_with_parts(root: ReplayDir, path: &Path) -> Result<AllPurged, PlacesError> {
    let mut all = AllPurged::default();
    let PurgeCounts { removed, left } = &mut all.purged;
    let resolved = resolved(path, SymlinkPolicy::Followed)?;
    // Lower directories first.
    for (_, directory) in root.settings.maps.iter().rev() {
        match part(directory, &resolved) {
            Ok(Some(place)) => {
                let mut it = purge(place)?;
                *removed += it.removed;
                let below = it.left.drain(..).map(|(path, source)| {
                    let path = path.strip_prefix("/").map(Path::to_owned).unwrap_or(path);
                    (directory.join(super::manifest::TREE).join(path), source)
                });
                left.extend(below);
            }
            Ok(None) => all.absent.push(directory.clone()),
            Err(it) => left.push((directory.clone(), io::Error::other(it.to_string()))),
        }
    }
    let own = purge_files(&root)?;
    *removed += own.removed;
    left.extend(own.left);
    if left.is_empty() {
        root.remove()?;
    }
    Ok(all)
}

/// Opens a part of this replay; `None`: it was not created, or no longer exists.
fn part(directory: &Path, replay: &Path) -> Result<Option<ReplayDir>, PlacesError> {
    match ReplayDir::open(directory, SymlinkPolicy::Refused) {
        Ok(it) if it.settings.part_of.as_deref() == Some(replay) || it.is_new() => Ok(Some(it)),
        Ok(it) => Err(taken(directory, &it)),
        Err(_) if is_free(directory) => Ok(None),
        Err(it) => Err(it.into()),
    }
}

fn taken(directory: &Path, place: &ReplayDir) -> PlacesError {
    let replay = place.settings.part_of.clone().unwrap_or_else(|| directory.to_owned());
    PlacesError::Taken { directory: directory.to_owned(), replay }
}

/// Returns true if the directory does not exist or is empty.
fn is_free(directory: &Path) -> bool {
    match directory.symlink_metadata() {
        Err(it) => it.kind() == io::ErrorKind::NotFound,
        Ok(it) => it.is_dir() && fs::read_dir(directory).is_ok_and(|mut it| it.next().is_none()),
    }
}

/// Removes the files of an earlier replay in `root`.
fn empty(place: ReplayDir, root: &Path) -> Result<(), PlacesError> {
    if let Some(replay) = &place.settings.part_of {
        let (directory, replay) = (root.to_owned(), replay.clone());
        return Err(PlacesError::Part { directory, replay });
    }
    let Some((path, source)) = purge_with_parts(place, root)?.purged.left.into_iter().next() else {
        return Ok(());
    };
    let (directory, root) = (root.to_owned(), root.to_owned());
    Err(PlacesError::Left { directory, path, source, root })
}

/// Checks that a part of this replay may be created in a directory, and removes the files of an
/// earlier one.
fn free(directory: &Path, replay: &Path) -> Result<(), PlacesError> {
    if directory.symlink_metadata().is_ok_and(|it| it.is_dir() && !files::is_own(&it)) {
        return Err(ManifestError::NotOwned(directory.to_owned()).into());
    }
    let Some(place) = part(directory, replay).map_err(|error| match error {
        PlacesError::Manifest(ManifestError::NotOurs(it)) => ManifestError::NotEmpty(it).into(),
        error => error,
    })?
    else {
        return Ok(());
    };
    let Some((path, source)) = purge(place)?.left.into_iter().next() else { return Ok(()) };
    let (directory, root) = (directory.to_owned(), replay.to_owned());
    Err(PlacesError::Left { directory, path, source, root })
}

/// Resolves the path of a directory, which need not exist yet.
fn resolved(directory: &Path, links: SymlinkPolicy) -> Result<PathBuf, PlacesError> {
    let failed = |source| PlacesError::Io { path: directory.to_owned(), source };
    let is_link = directory.symlink_metadata().is_ok_and(|it| it.is_symlink());
    if is_link && links == SymlinkPolicy::Refused {
        return Err(PlacesError::Link(directory.to_owned()));
    }
    match fs::canonicalize(directory) {
        Err(it) if it.kind() == io::ErrorKind::NotFound && !is_link => {
            let name = directory.file_name().ok_or_else(|| failed(it))?;
            let parent = directory.parent().filter(|it| !it.as_os_str().is_empty());
            let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).map_err(failed)?;
            Ok(parent.join(name))
        }
        it => it.map_err(failed),
    }
}

/// Checks that no directory is inside another one.
fn apart(root: &Path, others: &[PathBuf]) -> Result<(), PlacesError> {
    let all: Vec<&Path> = std::iter::once(root).chain(others.iter().map(|it| &**it)).collect();
    for (number, one) in all.iter().enumerate() {
        for other in &all[number + 1..] {
            if one.starts_with(other) || other.starts_with(one) {
                return Err(PlacesError::Inside((*one).to_owned(), (*other).to_owned()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::replay::plan::plan_file::FileKind;

    /// Fails if files are created, listed or removed where the path of a directory leads after it
    /// was replaced.
    #[test]
    fn replacement_of_a_held_directory_is_not_touched() {
        let directory = tempfile::tempdir().expect("a directory");
        let [root, moved, victim, part] =
            ["root", "moved", "victim", "part"].map(|it| directory.path().join(it));
        let before = [&b"/a"[..], b"/a/b"].map(|it| FileBefore::new(it, FileKind::Directory));
        let wanted = Settings { maps: vec![(b"/a/b".to_vec(), part)], ..Settings::default() };
        let plan = Fingerprint::default();
        let mut places = ReplayDirs::make(&root, plan, &before, &wanted).expect("new directories");
        fs::create_dir(&victim).expect("space");
        fs::rename(&root, &moved).expect("there");
        fs::create_dir(&root).expect("space");
        symlink(&victim, root.join("files")).expect("space");
        let user = Identity::find("root").expect("a list of users");
        let user = user.filter(|_| nix::unistd::geteuid().is_root());
        places.make_trees(user.as_ref()).expect("space");
        places.list_what_is_there().expect("space");
        places.set(DirState::Done).expect("space");
        let names = |it: &Path| fs::read_dir(it).expect("there").count();
        assert_eq!((names(&victim), names(&root)), (0, 1));
        assert!(moved.join("files/a/b").is_dir());
        assert!(fs::read(moved.join("iotrace-perf.files")).expect("a list") == b"d/a\0d/a/b\0");
        // The identity is known, whatever the path leads to.
        let SandboxDirectory { path, identity } = places.root().expect("there");
        assert_eq!(path, root.join("files"));
        let is = moved.join("files").metadata().expect("there");
        assert_eq!(
            identity,
            (std::os::unix::fs::MetadataExt::dev(&is), std::os::unix::fs::MetadataExt::ino(&is))
        );
        // Both directories already exist.
        assert!(places.make_trees(None).is_err());
    }
}
