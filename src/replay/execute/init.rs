//! Creates the initial files of a replay, with the rights of the user who will own them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use super::dir_walk::WalkEntry;
use super::file_content::ContentsSource;
use super::manifest::{DirState, ManifestError};
use super::originals::{Original, Originals, Sources};
use super::replay_dirs::ReplayDirs;
use super::sparse_layout;
use crate::replay::plan::hole_map::hole_bytes;
use crate::replay::plan::links::TEXT_BYTES_MAX;
use crate::replay::plan::plan_file::{FileBefore, FileKind};
use crate::sys::files;
use crate::sys::identity::{self, Identity};
use crate::sys::replay::sandbox::{self, SandboxError};

/// Reason why files cannot be created.
#[derive(Debug, Error)]
pub enum InitError {
    /// Error of the directory.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Replay cannot be confined to its directory.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Process cannot act as the owner of the files.
    #[error("cannot act as the user who is to own the files: {0}")]
    User(io::Error),
    /// Plan is damaged or malicious: the parent of a file is not in it.
    #[error("the plan names a file that is in no directory: {}", String::from_utf8_lossy(.0))]
    Path(Vec<u8>),
    /// Plan is damaged or malicious: a path is in it twice.
    #[error("the plan names a file twice: {}", String::from_utf8_lossy(.0))]
    Twice(Vec<u8>),
    /// File system is full.
    #[error(
        "the files need {needed} bytes and {directory} has {free} left; choose another directory, or create holes: --content sparse"
    )]
    Full {
        /// Bytes of all files.
        needed: u64,
        /// Free bytes.
        free: u64,
        /// Directory without room.
        directory: PathBuf,
    },
    /// File cannot be created.
    #[error("cannot make {path} in the replay's directory: {source}")]
    Make {
        /// Path from the root of the replay.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Statistics of the created files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreatedCounts {
    /// Directories, including those that only keep another one from being empty.
    pub directories: u64,
    /// Files, without second names.
    pub files: u64,
    /// Second names of files.
    pub names: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that are in holes according to the capture.
    pub hole_bytes: u64,
    /// Files whose holes and data differ from the capture.
    pub other_layouts: u64,
    /// Origins of the contents, if there are originals.
    pub sources: Sources,
}

/// Wanted properties of the files.
#[derive(Clone, Copy, Debug)]
pub struct InitOptions<'a> {
    /// Contents of the files.
    pub contents: ContentsSource,
    /// Captured files with the same paths, whose contents are used as far as they reach.
    pub originals: Option<&'a Originals>,
    /// Owner of the files; `None`: the current user.
    pub user: Option<&'a Identity>,
}

/// Permissions of files and directories without known ones.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Permission bits that no file gets.
const NEVER: u32 = libc::S_ISUID | libc::S_ISGID;

/// Creates the files of a plan in the places, which are empty. Afterwards the root directory is
/// that of the replay. `progress` is called with the bytes of each file.
///
/// # Errors
///
/// No room, or a file that cannot be created. Files created so far are in the list.
pub fn init(
    places: &mut ReplayDirs,
    before: &[FileBefore],
    wish: InitOptions<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<CreatedCounts, InitError> {
    check(before)?;
    let more = more(before);
    let listed = before.iter().map(|it| WalkEntry { kind: it.kind, path: it.path.clone() });
    let others = more.iter().map(|it| WalkEntry { kind: FileKind::Directory, path: it.clone() });
    places.list(listed.chain(others))?;
    places.make_trees(wish.user)?;
    sandbox::enter(&places.root()?, &places.mounts()?, wish.user)?;
    files::give_all_permissions();
    let be = |errno: nix::errno::Errno| InitError::User(errno.into());
    wish.user.map_or(Ok(()), Identity::begin).map_err(be)?;
    // Room is checked with the rights and the root with which the originals are read and the files
    // created: contents that this user cannot read or share there need room.
    let made =
        has_room(before, places, wish).and_then(|()| all(before, &more, places, wish, progress));
    identity::end().map_err(be)?;
    let made = made?;
    places.set(DirState::Ready)?;
    Ok(made)
}

fn all(
    before: &[FileBefore],
    more: &BTreeSet<Vec<u8>>,
    places: &ReplayDirs,
    wish: InitOptions<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<CreatedCounts, InitError> {
    let mut made = CreatedCounts::default();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| InitError::Make { path, source }
    };
    for (number, it) in (0..).zip(before) {
        let path = Path::new(OsStr::from_bytes(&it.path));
        let is_there = places.maps().is_on_the_way(&it.path);
        one(it, path, number, is_there, before, wish, &mut made).map_err(failed(path))?;
        progress(it.size);
    }
    for path in more {
        let path = Path::new(OsStr::from_bytes(path));
        fs::create_dir(path).map_err(failed(path))?;
        made.directories += 1;
    }
    // Permissions of directories come last: users other than root cannot create files in a
    // read-only directory.
    for it in before.iter().rev().filter(|it| it.kind == FileKind::Directory) {
        let path = Path::new(OsStr::from_bytes(&it.path));
        let mode = Permissions::from_mode(it.mode.unwrap_or(DIRECTORY_MODE) & !NEVER);
        fs::set_permissions(path, mode).map_err(failed(path))?;
    }
    Ok(made)
}

fn one(
    initial: &FileBefore,
    path: &Path,
    number: u64,
    is_there: bool,
    before: &[FileBefore],
    wish: InitOptions<'_>,
    made: &mut CreatedCounts,
) -> io::Result<()> {
    match (initial.kind, first_name(initial, before)) {
        (FileKind::Directory, _) => {
            made.directories += 1;
            // A mount point was created before.
            if is_there { Ok(()) } else { fs::create_dir(path) }
        }
        (FileKind::Link, _) => {
            made.links += 1;
            symlink(OsStr::from_bytes(&text(initial)), path)
        }
        (FileKind::File, Some(first)) => {
            made.names += 1;
            fs::hard_link(Path::new(OsStr::from_bytes(&first.path)), path)
        }
        (FileKind::File, None) => {
            made.files += 1;
            made.bytes = made.bytes.saturating_add(initial.size);
            let holes = hole_bytes(initial.parts.iter().copied());
            made.hole_bytes = made.hole_bytes.saturating_add(holes);
            file(initial, path, number, wish, made)
        }
    }
}

/// Creates a file with its contents.
fn file(
    initial: &FileBefore,
    path: &Path,
    number: u64,
    InitOptions { contents, originals, .. }: InitOptions<'_>,
    made: &mut CreatedCounts,
) -> io::Result<()> {
    let original = originals.filter(|_| initial.size > 0).map(|all| all.open(&initial.path));
    let mode = initial.mode.unwrap_or(FILE_MODE) & !NEVER;
    let mode = match &original {
        Some(Ok(original)) => original.restrict(mode),
        _ => mode,
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let (given, source) = match original {
        Some(Ok(original)) => original.give(&file, initial.size).map(|it| (it.0, Some(it.1)))?,
        none => (0, none.and_then(Result::err)),
    };
    if let Some(source) = source {
        made.sources.add(source, &initial.path);
    }
    // The length is set first: a write beyond the end could otherwise allocate the space before it.
    sparse_layout::set_length(&file, initial.size)?;
    // Generator 0 is reserved for the writes of operations.
    sparse_layout::fill(
        &file,
        &sparse_layout::data(initial, contents),
        given,
        contents.of(number + 1),
    )?;
    made.other_layouts += u64::from(!sparse_layout::is_as_known(&file, initial));
    Ok(())
}

/// Returns the file that this one is a second name of.
fn first_name<'a>(initial: &FileBefore, before: &'a [FileBefore]) -> Option<&'a FileBefore> {
    initial.same_as.and_then(|first| before.get(first as usize))
}

/// Returns the length of the created file in bytes. Directories count 0: their length depends on
/// the file system.
pub(super) fn length(initial: &FileBefore, before: &[FileBefore]) -> u64 {
    match initial.kind {
        FileKind::Directory => 0,
        FileKind::File => first_name(initial, before).unwrap_or(initial).size,
        FileKind::Link => text(initial).len() as u64,
    }
}

/// Returns the target of a link. If only its length is known, the target is the directory that the
/// link is in.
fn text(link: &FileBefore) -> Cow<'_, [u8]> {
    if let Some(text) = &link.text {
        return text.into();
    }
    let length = usize::try_from(link.size).unwrap_or(TEXT_BYTES_MAX).clamp(1, TEXT_BYTES_MAX);
    b"./".iter().copied().cycle().take(length).collect()
}

/// Returns a new path in each directory that has unlisted entries in the capture. A directory
/// created there keeps it from being empty.
pub(super) fn more(before: &[FileBefore]) -> BTreeSet<Vec<u8>> {
    let taken: BTreeSet<&[u8]> = before.iter().map(|it| &*it.path).collect();
    let name = |directory: &FileBefore| {
        let names =
            (0..).map(|it: u32| [&directory.path, format!("/more-{it}").as_bytes()].concat());
        names.into_iter().find(|it| !taken.contains(&**it))
    };
    // Only real directories: nothing is created through a link, whatever the plan contains.
    let directories = before.iter().filter(|it| it.kind == FileKind::Directory);
    directories.filter(|it| it.has_more).filter_map(name).collect()
}

/// Checks that every path is absolute, unique, without `.` and `..`, and in a directory of the
/// plan.
///
/// # Errors
///
/// The first path that violates this.
pub fn check(before: &[FileBefore]) -> Result<(), InitError> {
    let mut directories: FxHashSet<&[u8]> = FxHashSet::from_iter([&b""[..]]);
    let mut all: FxHashSet<&[u8]> = FxHashSet::default();
    for it in before {
        if !all.insert(&it.path) {
            return Err(InitError::Twice(it.path.clone()));
        }
        let parent = it.path.iter().rposition(|it| *it == b'/').map(|at| it.path.split_at(at));
        let is_down = parent.is_some_and(|(parent, name)| {
            let is_name = !matches!(name, b"/" | b"/." | b"/..") && !name.contains(&0);
            is_name && directories.contains(parent)
        });
        if !is_down {
            return Err(InitError::Path(it.path.clone()));
        }
        if it.kind == FileKind::Directory {
            directories.insert(&it.path);
        }
    }
    Ok(())
}

/// Checks that each file system has room for its files, however many directories it holds.
fn has_room(
    before: &[FileBefore],
    places: &ReplayDirs,
    wish: InitOptions<'_>,
) -> Result<(), InitError> {
    let mounted = places.maps().captured().iter().map(|it| Path::new(OsStr::from_bytes(it)));
    let directories: Vec<&Path> = std::iter::once(Path::new("/")).chain(mounted).collect();
    let mut needed = vec![0_u64; directories.len()];
    let mut shareable = FxHashMap::default();
    for it in before.iter().filter(|it| it.kind == FileKind::File && it.same_as.is_none()) {
        let (owner, _) = places.maps().owner(&it.path);
        let place = owner.map_or(0, |it| it + 1);
        // Whether reflinks work depends only on the two file systems, so one file of a pair is
        // tried.
        let shares = |original: &Original| {
            let key = (original.device(), place);
            let is_shareable = || original.is_shareable(directories[place]);
            original.bytes() >= it.size && *shareable.entry(key).or_insert_with(is_shareable)
        };
        let original = wish.originals.and_then(|all| all.open(&it.path).ok());
        if !original.as_ref().is_some_and(shares) {
            let bytes = sparse_layout::bytes(&sparse_layout::data(it, wish.contents));
            needed[place] = needed[place].saturating_add(bytes);
        }
    }
    let mut all: Vec<(u64, u64, &Path, PathBuf)> = Vec::new();
    for ((place, needed), inside) in places.all().zip(needed).zip(directories) {
        let directory = place.tree();
        let failed = |source| InitError::Make { path: directory.clone(), source };
        let device = fs::metadata(inside).map_err(failed)?.dev();
        match all.iter_mut().find(|it| it.0 == device) {
            Some((_, sum, ..)) => *sum = sum.saturating_add(needed),
            None => all.push((device, needed, inside, directory)),
        }
    }
    for (_, needed, inside, directory) in all {
        let free = files::free_bytes(inside)
            .map_err(|source| InitError::Make { path: directory.clone(), source })?;
        if needed > free {
            return Err(InitError::Full { needed, free, directory });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(path: &str, kind: FileKind) -> FileBefore {
        FileBefore::new(path.as_bytes(), kind)
    }

    /// Fails if a plan could create files elsewhere, were it not for the sandbox.
    #[test]
    fn paths_that_lead_out_are_refused() {
        let is_refused = |path: &str| {
            check(&[before("/d", FileKind::Directory), before(path, FileKind::File)]).is_err()
        };
        for path in
            ["", "x", "/", "/d/", "/..", "/d/..", "/d/.", "/d/../x", "/e/x", "//x", "/d/x\0y"]
        {
            assert!(is_refused(path), "{path:?}");
        }
        for path in ["/x", "/d/x", "/d/...", "/d/\n"] {
            assert!(!is_refused(path), "{path:?}");
        }
    }

    #[test]
    fn link_of_known_length_leads_to_its_own_directory() {
        for length in [1, 2, 3, 17, 4095] {
            let link = FileBefore { size: length, ..before("/l", FileKind::Link) };
            assert_eq!(text(&link).len() as u64, length);
            let path = Path::new(OsStr::from_bytes(&text(&link))).to_owned();
            assert!(path.components().all(|it| it == std::path::Component::CurDir));
        }
    }

    #[test]
    fn files_are_not_created_through_a_link() {
        let link = FileBefore {
            has_more: true,
            text: Some(b"/etc".to_vec()),
            ..before("/l", FileKind::Link)
        };
        assert_eq!(more(std::slice::from_ref(&link)), BTreeSet::new());
        assert!(check(&[link, before("/l/passwd", FileKind::File)]).is_err());
    }

    #[test]
    fn filler_entry_has_a_unique_name() {
        let mut all = [before("/d", FileKind::Directory), before("/d/more-0", FileKind::File)];
        all[0].has_more = true;
        assert_eq!(more(&all), BTreeSet::from([b"/d/more-1".to_vec()]));
    }
}
