//! Manifest of a replay: what it has created, so that exactly this can be removed again.
//!
//! ```text
//! DIR/iotrace-perf.state   first line: state of the replay; second line: its plan;
//!                          replaced atomically (rename(2))
//! DIR/iotrace-perf.files   contents of files/: a letter (d, f, l), the path, NUL;
//!                          directories before what is in them
//! DIR/iotrace-perf.given   directories placed elsewhere, or the replay that this is a part of;
//!                          owner and contents of the files
//! DIR/files/               root directory of the replay, or the contents of a captured directory
//!                          that is placed elsewhere
//! ```
//!
//! The list is written before anything is created. So after any abort, each file is in the list or
//! was made by a replay that did not finish. Only that replay may write below `files/` then.
//! Everything but `files/` belongs to the user who ran `init`, whatever the owner of `files/`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, OpenHow, ResolveFlag, openat, openat2, renameat,
};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use thiserror::Error;

use super::dir_walk::{MountPolicy, WalkEntry, allow, make_directory, open_below};
use super::settings::Settings;
use crate::replay::plan::plan_file::{FileKind, Fingerprint};
use crate::sys::files;
use crate::sys::identity::Identity;
use crate::sys::output_dir::{OutputDirectory, Users};

const STATE: &str = "iotrace-perf.state";
const STATE_NEW: &str = "iotrace-perf.state.new";
const FILES: &str = "iotrace-perf.files";
const GIVEN: &str = "iotrace-perf.given";
/// Name of the directory with the files of a replay, inside the directory that the user has given.
pub const TREE: &str = "files";

/// First words of the state file.
const TITLE: &str = "iotrace-perf replay 1: ";

/// First word of its second line.
const PLAN: &str = "plan ";

/// State of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirState {
    /// Files are being created.
    Beginning,
    /// Files are as they have to be before the first operation.
    Ready,
    /// Replay is running, or was killed.
    Running,
    /// Replay has changed the files; the list contains what exists now.
    Done,
}

impl DirState {
    const ALL: [Self; 4] = [Self::Beginning, Self::Ready, Self::Running, Self::Done];

    /// Returns the word for the state in its file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
        }
    }
}

/// Reason why a directory cannot be used as a place of a replay.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// Directory was not created by a replay.
    #[error("{0} has not been made by iotrace-perf replay init; nothing in it is touched")]
    NotOurs(PathBuf),
    /// Directory is not empty.
    #[error(
        "{0} is not empty and has not been made by iotrace-perf replay init; choose a new directory"
    )]
    NotEmpty(PathBuf),
    /// Directory belongs to another user.
    #[error(
        "{0} belongs to another user, who could change what is in it; choose a directory of your own"
    )]
    NotOwned(PathBuf),
    /// Directory has been replaced by a symbolic link.
    #[error(
        "{0} is, or is reached through, a symbolic link that was not there when it was given; nothing that it leads to is touched"
    )]
    Link(PathBuf),
    /// Another file system is mounted over the files.
    #[error(
        "something has been mounted over the files of the replay, and is not touched; try: umount {0}"
    )]
    Mounted(PathBuf),
    /// Another process works in the directory.
    #[error("another iotrace-perf is at work in {0}")]
    Busy(PathBuf),
    /// System call has failed.
    #[error("{path}: {source}")]
    Io {
        /// File in question.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Rule for symbolic links on the way to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Followed, as in any path that a user types.
    Followed,
    /// Refused: the path was resolved when it was given, so a link on its way was put there by
    /// another user.
    Refused,
}

/// Directory of a replay, locked against other processes.
#[derive(Debug)]
pub struct ReplayDir {
    directory: PathBuf,
    /// State of the replay.
    pub state: DirState,
    /// Plan that the files were made for; `None`: the state file does not name one.
    pub plan: Option<Fingerprint>,
    /// Settings of the replay.
    pub settings: Settings,
    /// Descriptor of the directory, held while the process works in it. It stays valid when the
    /// root changes.
    lock: Flock<File>,
}

impl ReplayDir {
    /// Creates a directory, or takes an empty one, for the files of this plan.
    ///
    /// # Errors
    ///
    /// The directory is not empty or cannot be created.
    pub fn make(
        directory: &Path,
        plan: Fingerprint,
        settings: Settings,
        links: SymlinkPolicy,
    ) -> Result<Self, ManifestError> {
        let failed = |source| ManifestError::Io { path: directory.to_owned(), source };
        if directory.symlink_metadata().is_err() {
            OutputDirectory::make(directory, &Users::caller()).map_err(failed)?;
        }
        let lock = lock(directory, links)?;
        if !names(&lock).map_err(failed)?.is_empty() {
            return Err(ManifestError::NotEmpty(directory.to_owned()));
        }
        lock.set_permissions(PermissionsExt::from_mode(0o700)).map_err(failed)?;
        let (directory, plan) = (directory.to_owned(), Some(plan));
        let mut place = Self { directory, state: DirState::Beginning, plan, settings, lock };
        // The settings are written first: a directory with a state has both.
        let given = place.settings.to_bytes();
        place.replace(GIVEN, |out| out.write_all(&given))?;
        place.set(DirState::Beginning)?;
        Ok(place)
    }

    /// Opens a directory that `make` has created.
    ///
    /// # Errors
    ///
    /// The directory was not created by a replay, is locked, or is not safe to use.
    pub fn open(directory: &Path, links: SymlinkPolicy) -> Result<Self, ManifestError> {
        let not_ours = || ManifestError::NotOurs(directory.to_owned());
        let lock = lock(directory, links).map_err(|error| match error {
            ManifestError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                not_ours()
            }
            error => error,
        })?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let read = |name: &str| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let file = openat(&*lock, name, flags, Mode::empty())?;
            File::from(file).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = read(STATE).ok().and_then(|it| String::from_utf8(it).ok());
        // An init that was killed before its first state has left nothing but these files.
        let is_new = || names(&lock).is_ok_and(|it| has_only(&it, &[STATE_NEW, GIVEN]));
        let known = match text {
            Some(it) => parsed(&it),
            None => is_new().then_some((DirState::Beginning, None)),
        };
        let (state, plan) = known.ok_or_else(not_ours)?;
        let settings = match read(GIVEN) {
            // Written by a version without this file, or by an init that was killed before its
            // first state.
            Err(it) if it.kind() == io::ErrorKind::NotFound => Some(Settings::default()),
            it => it.ok().and_then(|it| Settings::parse(&it)),
        };
        let place = Self {
            settings: settings.ok_or_else(not_ours)?,
            directory: directory.to_owned(),
            state,
            plan,
            lock,
        };
        // Files that a link leads to belong to another user.
        match place.tree_file().and_then(|it| it.metadata()) {
            Err(it) if it.kind() == io::ErrorKind::NotFound => Ok(place),
            Err(it) if it.raw_os_error() == Some(libc::EXDEV) => {
                Err(ManifestError::Mounted(place.tree()))
            }
            Ok(it) if files::is_own(&it) || place.settings.user == Some(it.uid()) => Ok(place),
            _ => Err(not_ours()),
        }
    }

    /// Returns the path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the directory of its files, for this user.
    ///
    /// # Errors
    ///
    /// The directory exists, or cannot be created.
    pub(super) fn make_tree(&self, user: Option<&Identity>) -> io::Result<()> {
        make_directory(&*self.lock, TREE.as_bytes(), user)
    }

    /// Opens the directory of its files, independent of later mounts and of the current root.
    ///
    /// # Errors
    ///
    /// The directory does not exist, or is not a directory.
    pub fn tree_file(&self) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let open = || open_below(&*self.lock, TREE.as_bytes(), flags, MountPolicy::Left);
        let opened = match open() {
            Err(Errno::EACCES) if allow(&*self.lock, TREE.as_bytes()).is_ok() => open(),
            it => it,
        };
        Ok(opened?.into())
    }

    /// Removes the directory of its files, which must be empty.
    ///
    /// # Errors
    ///
    /// The directory is not empty.
    pub fn remove_tree(&self) -> io::Result<()> {
        Ok(unlinkat(&*self.lock, TREE, UnlinkatFlags::RemoveDir)?)
    }

    /// Returns the root directory of the replay.
    pub fn tree(&self) -> PathBuf {
        self.directory.join(TREE)
    }

    /// Sets the state.
    ///
    /// # Errors
    ///
    /// The state cannot be written.
    pub fn set(&mut self, state: DirState) -> Result<(), ManifestError> {
        let plan = self.plan.map_or_else(String::new, |it| format!("{PLAN}{it}\n"));
        self.replace(STATE, |out| write!(out, "{TITLE}{}\n{plan}", state.as_str()))?;
        self.state = state;
        Ok(())
    }

    /// Replaces a file beside `files/` atomically.
    fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), ManifestError> {
        let failed = |source| ManifestError::Io { path: self.directory.join(STATE_NEW), source };
        let mut out = BufWriter::new(self.create(STATE_NEW).map_err(failed)?);
        write(&mut out).map_err(failed)?;
        let file = out.into_inner().map_err(|it| failed(it.into_error()))?;
        file.sync_all().map_err(failed)?;
        let directory = &*self.lock;
        renameat(directory, STATE_NEW, directory, name).map_err(|it| failed(it.into()))
    }

    /// Returns true if nothing was recorded yet, not even the plan.
    pub(super) fn is_new(&self) -> bool {
        self.plan.is_none()
            && self.state == DirState::Beginning
            && self.settings == Settings::default()
    }

    /// Writes the list of files that exist or will be created.
    ///
    /// # Errors
    ///
    /// The list cannot be written.
    pub fn list(&self, listed: impl Iterator<Item = WalkEntry>) -> Result<(), ManifestError> {
        self.replace(FILES, |out| {
            for it in listed {
                let letter = match it.kind {
                    FileKind::Directory => b"d",
                    FileKind::File => b"f",
                    FileKind::Link => b"l",
                };
                let parts = [&letter[..], &it.path, b"\0"];
                parts.into_iter().try_for_each(|it| out.write_all(it))?;
            }
            Ok(())
        })
    }

    /// Creates an empty file beside `files/`.
    fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(openat(&*self.lock, name, flags | OFlag::O_CLOEXEC, mode)?.into())
    }

    /// Reads the list.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub fn listed(&self) -> Result<Vec<WalkEntry>, ManifestError> {
        let failed = |source| ManifestError::Io { path: self.directory.join(FILES), source };
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file: File = match openat(&*self.lock, FILES, flags, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(Vec::new()),
            it => it.map_err(|it| failed(it.into()))?.into(),
        };
        let parse = |line: io::Result<Vec<u8>>| {
            let line = line?;
            let damaged = || io::Error::other("the list is damaged");
            let (letter, path) = line.split_first().ok_or_else(damaged)?;
            let kind = match letter {
                b'd' => FileKind::Directory,
                b'f' => FileKind::File,
                b'l' => FileKind::Link,
                _ => return Err(damaged()),
            };
            Ok(WalkEntry { kind, path: path.to_vec() })
        };
        BufReader::new(file).split(0).map(parse).collect::<io::Result<_>>().map_err(failed)
    }

    /// Removes the manifest's own files when everything listed is removed, and the directory if it
    /// is then empty.
    ///
    /// # Errors
    ///
    /// A file cannot be removed.
    pub fn remove(self) -> Result<(), ManifestError> {
        // The settings are removed last: they name the replay that this is a part of.
        for name in [FILES, STATE_NEW, STATE, GIVEN] {
            match unlinkat(&*self.lock, name, UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => {
                    let path = self.directory.join(name);
                    return Err(ManifestError::Io { path, source: errno.into() });
                }
            }
        }
        match self.remove_itself() {
            Err(it) if it.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            // A file system is mounted there. The directory is empty now, but cannot be removed.
            Err(it) if it.kind() == io::ErrorKind::ResourceBusy => Ok(()),
            it => it.map_err(|source| ManifestError::Io { path: self.directory, source }),
        }
    }

    /// Removes the empty directory from its parent directory, whatever its path leads to by now.
    fn remove_itself(&self) -> io::Result<()> {
        // The path may have been given as `.`, or through a link.
        let path = fs::canonicalize(&self.directory)?;
        let name = path.file_name().ok_or(Errno::EBUSY)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let above = openat(&*self.lock, "..", flags, Mode::empty())?;
        let there = fstatat(&above, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if (there.st_dev, there.st_ino) != files::identity(&self.lock)? {
            return Err(io::Error::other("something else has its name now, and is not touched"));
        }
        Ok(unlinkat(&above, name, UnlinkatFlags::RemoveDir)?)
    }
}

/// Returns the names in a directory.
fn names(directory: &File) -> io::Result<Vec<Vec<u8>>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut opened = Dir::openat(directory, ".", flags, Mode::empty())?;
    let names = opened.iter().map(|it| Ok(it?.file_name().to_bytes().to_vec()));
    let is_own = |it: &io::Result<Vec<u8>>| !matches!(it.as_deref(), Ok(b"." | b".."));
    names.filter(is_own).collect()
}

/// Returns true if a directory is not empty and contains only these names.
fn has_only(there: &[Vec<u8>], names: &[&str]) -> bool {
    !there.is_empty() && there.iter().all(|it| names.iter().any(|name| name.as_bytes() == it))
}

/// Parses the state file.
fn parsed(text: &str) -> Option<(DirState, Option<Fingerprint>)> {
    let (first, second) = text.split_once('\n')?;
    let word = first.strip_prefix(TITLE)?;
    let state = DirState::ALL.into_iter().find(|it| word == it.as_str())?;
    let plan = second.strip_prefix(PLAN).and_then(|it| it.strip_suffix('\n'));
    Some((state, plan.and_then(Fingerprint::parse)))
}

/// Opens and locks a directory. It must belong to the current user: another owner could change its
/// contents meanwhile.
fn lock(directory: &Path, links: SymlinkPolicy) -> Result<Flock<File>, ManifestError> {
    let failed = |source| ManifestError::Io { path: directory.to_owned(), source };
    let resolve = match links {
        SymlinkPolicy::Followed => ResolveFlag::empty(),
        SymlinkPolicy::Refused => ResolveFlag::RESOLVE_NO_SYMLINKS,
    };
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let file = openat2(AT_FDCWD, directory, OpenHow::new().flags(flags).resolve(resolve));
    let file: File = match file {
        Err(Errno::ELOOP) if links == SymlinkPolicy::Refused => {
            return Err(ManifestError::Link(directory.to_owned()));
        }
        it => it.map_err(|it| failed(it.into()))?.into(),
    };
    if !files::is_own(&file.metadata().map_err(failed)?) {
        return Err(ManifestError::NotOwned(directory.to_owned()));
    }
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| ManifestError::Busy(directory.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_stays_known_despite_changed_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let plan = Fingerprint { files: 1, index: 2 };
        let make = || {
            ReplayDir::make(directory.path(), plan, Settings::default(), SymlinkPolicy::Followed)
        };
        let mut place = make().expect("a directory");
        for state in DirState::ALL {
            place.set(state).expect("space");
            drop(place);
            place = ReplayDir::open(directory.path(), SymlinkPolicy::Followed).expect("ours");
            assert_eq!((place.state, place.plan), (state, Some(plan)));
        }
    }

    /// Fails if another directory, which has taken the name of ours, is removed.
    #[test]
    fn entry_that_took_the_name_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let [place, moved] = ["place", "moved"].map(|it| directory.path().join(it));
        let make = || {
            ReplayDir::make(
                &place,
                Fingerprint::default(),
                Settings::default(),
                SymlinkPolicy::Followed,
            )
        };
        let made = make().expect("a directory");
        fs::rename(&place, &moved).expect("there");
        fs::create_dir(&place).expect("space");
        let error = made.remove().expect_err("it is another one").to_string();
        assert!(error.contains("something else has its name now"), "{error}");
        assert!(place.is_dir() && fs::read_dir(&moved).expect("there").next().is_none());
        fs::remove_dir(&place).expect("empty");
        make().expect("a directory").remove().expect("it is the same");
        assert!(!place.exists());
    }

    #[test]
    fn state_without_a_plan_is_unknown() {
        let ready = "iotrace-perf replay 1: ready\n";
        assert_eq!(parsed(ready), Some((DirState::Ready, None)));
        assert_eq!(parsed(&format!("{ready}plan what\n")), Some((DirState::Ready, None)));
        assert_eq!(parsed("iotrace-perf replay 1: ready"), None);
        assert_eq!(parsed("iotrace-perf replay 1: steady\n"), None);
        assert_eq!(parsed("something else\n"), None);
    }
}
