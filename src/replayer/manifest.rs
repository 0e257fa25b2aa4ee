//! What a replay has made, so that it can be removed again, and nothing else.
//!
//! ```text
//! DIR/iotrace-perf.state   how far it is, one line, and for which plan the files were made, another; changed at once (rename(2))
//! DIR/iotrace-perf.files   what is below files/: a letter (d, f, l), the path, NUL; directories before what is in them
//! DIR/iotrace-perf.given   which directories are elsewhere, or of which replay this is a part; whose the files are, and what is in them
//! DIR/files/               the root directory of the replay, or what is in a captured directory that was given a place of its own
//! ```
//!
//! The list is written before anything is made. So whatever ends us, what is there is in it, or was made by a replay that did not come to its
//! end, which is the only one who may write below `files/` then. All but `files/` belongs to who has made it, whomever that belongs to.

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

use super::settings::Settings;
use super::walk::{Listed, Mounts, allow, make_directory, open_below};
use crate::replay::plan_file::{FileKind, Fingerprint};
use crate::sys::files;
use crate::sys::output_dir::{OutputDirectory, Users};
use crate::sys::user::Identity;

const STATE: &str = "iotrace-perf.state";
const STATE_NEW: &str = "iotrace-perf.state.new";
const FILES: &str = "iotrace-perf.files";
const GIVEN: &str = "iotrace-perf.given";
/// Where a replay has its files, in the directory that it was given.
pub const TREE: &str = "files";

/// First words of the state.
const TITLE: &str = "iotrace-perf replay 1: ";

/// And of its second line.
const PLAN: &str = "plan ";

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Files are being made.
    Beginning,
    /// They are as they have to be before the first operation.
    Ready,
    /// A replay is at work, or was until it was killed.
    Running,
    /// A replay has changed them; the list is what is there now.
    Done,
}

impl State {
    const ALL: [Self; 4] = [Self::Beginning, Self::Ready, Self::Running, Self::Done];

    /// The word for it in its file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
        }
    }
}

/// Why a directory is not what a replay has made.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// Something else.
    #[error("{0} has not been made by iotrace-perf replay init; nothing in it is touched")]
    NotOurs(PathBuf),
    /// There is something in it.
    #[error(
        "{0} is not empty and has not been made by iotrace-perf replay init; choose a new directory"
    )]
    NotEmpty(PathBuf),
    /// It belongs to somebody else.
    #[error(
        "{0} belongs to another user, who could change what is in it; choose a directory of your own"
    )]
    NotOwned(PathBuf),
    /// Somebody has put a link there.
    #[error(
        "{0} is, or is reached through, a symbolic link that was not there when it was given; nothing behind it is touched"
    )]
    Link(PathBuf),
    /// Something else is there.
    #[error(
        "something has been mounted over the files of the replay, and is not touched; try: umount {0}"
    )]
    Mounted(PathBuf),
    /// Somebody else is at work there.
    #[error("another iotrace-perf is at work in {0}")]
    Busy(PathBuf),
    /// The system said.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Whether a directory may be reached through symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// As with any path that somebody has typed.
    Followed,
    /// It was resolved when it was given, and a link on its way now is somebody else's.
    Refused,
}

/// A directory of a replay, which nobody else works in meanwhile.
#[derive(Debug)]
pub struct Place {
    directory: PathBuf,
    /// How far it is.
    pub state: State,
    /// For which plan its files were made; `None`: it does not say.
    pub plan: Option<Fingerprint>,
    /// What else is known about them.
    pub settings: Settings,
    /// The directory, held as long as we work in it: it leads there also when our root is below it.
    lock: Flock<File>,
}

impl Place {
    /// A new directory, or an empty one, for the files of this plan.
    ///
    /// # Errors
    ///
    /// There is something in it; it cannot be made.
    pub fn make(
        directory: &Path,
        plan: Fingerprint,
        settings: Settings,
        links: Links,
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
        let mut place = Self { directory, state: State::Beginning, plan, settings, lock };
        // Whose state is there has all.
        let given = place.settings.to_bytes();
        place.replace(GIVEN, |out| out.write_all(&given))?;
        place.set(State::Beginning)?;
        Ok(place)
    }

    /// One that was made before.
    ///
    /// # Errors
    ///
    /// It was not.
    pub fn open(directory: &Path, links: Links) -> Result<Self, ManifestError> {
        let not_ours = || ManifestError::NotOurs(directory.to_owned());
        let lock = lock(directory, links).map_err(|it| match it {
            ManifestError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                not_ours()
            }
            it => it,
        })?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let read = |name: &str| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let file = openat(&*lock, name, flags, Mode::empty())?;
            File::from(file).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = read(STATE).ok().and_then(|it| String::from_utf8(it).ok());
        // Of an init that was killed before it had written down anything there is nothing else.
        let is_new = || names(&lock).is_ok_and(|it| has_only(&it, &[STATE_NEW, GIVEN]));
        let known = match text {
            Some(it) => parsed(&it),
            None => is_new().then_some((State::Beginning, None)),
        };
        let (state, plan) = known.ok_or_else(not_ours)?;
        let settings = match read(GIVEN) {
            // Of a version that had none, or of an init that was killed before its first state.
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
        // What is behind a link is somebody else's.
        match place.tree_file().and_then(|it| it.metadata()) {
            Err(it) if it.kind() == io::ErrorKind::NotFound => Ok(place),
            Err(it) if it.raw_os_error() == Some(libc::EXDEV) => {
                Err(ManifestError::Mounted(place.tree()))
            }
            Ok(it) if files::is_own(&it) || place.settings.user == Some(it.uid()) => Ok(place),
            _ => Err(not_ours()),
        }
    }

    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory of its files, for this user.
    ///
    /// # Errors
    ///
    /// It is there, or cannot be made.
    pub(super) fn make_tree(&self, user: Option<&Identity>) -> io::Result<()> {
        make_directory(&*self.lock, TREE.as_bytes(), user)
    }

    /// Where its files are, open, whatever was mounted meanwhile and wherever our root is.
    ///
    /// # Errors
    ///
    /// It is not there, or no directory.
    pub fn tree_file(&self) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let open = || open_below(&*self.lock, TREE.as_bytes(), flags, Mounts::Left);
        let opened = match open() {
            Err(Errno::EACCES) if allow(&*self.lock, TREE.as_bytes()).is_ok() => open(),
            it => it,
        };
        Ok(opened?.into())
    }

    /// Removes the directory of its files, which is empty.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn remove_tree(&self) -> io::Result<()> {
        Ok(unlinkat(&*self.lock, TREE, UnlinkatFlags::RemoveDir)?)
    }

    /// The root directory of the replay.
    pub fn tree(&self) -> PathBuf {
        self.directory.join(TREE)
    }

    /// It is so far.
    ///
    /// # Errors
    ///
    /// That cannot be written down.
    pub fn set(&mut self, state: State) -> Result<(), ManifestError> {
        let plan = self.plan.map_or_else(String::new, |it| format!("{PLAN}{it}\n"));
        self.replace(STATE, |out| write!(out, "{TITLE}{}\n{plan}", state.as_str()))?;
        self.state = state;
        Ok(())
    }

    /// A file beside `files/` has these contents, all at once.
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

    /// True if nothing has been made of it: not even for which plan.
    pub(super) fn is_new(&self) -> bool {
        self.plan.is_none()
            && self.state == State::Beginning
            && self.settings == Settings::default()
    }

    /// Writes down what is, or will be, there.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn list(&self, listed: impl Iterator<Item = Listed>) -> Result<(), ManifestError> {
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

    /// A file beside `files/`, empty.
    fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(openat(&*self.lock, name, flags | OFlag::O_CLOEXEC, mode)?.into())
    }

    /// What was written down.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn listed(&self) -> Result<Vec<Listed>, ManifestError> {
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
            Ok(Listed { kind, path: path.to_vec() })
        };
        BufReader::new(file).split(0).map(parse).collect::<io::Result<_>>().map_err(failed)
    }

    /// Removes what is left when everything that is listed is gone: our own files, and the directory if nothing else is in it.
    ///
    /// # Errors
    ///
    /// Something cannot be removed.
    pub fn remove(self) -> Result<(), ManifestError> {
        // Whose part it is stands there to the last.
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
            // Something is mounted there: it is empty now.
            Err(it) if it.kind() == io::ErrorKind::ResourceBusy => Ok(()),
            it => it.map_err(|source| ManifestError::Io { path: self.directory, source }),
        }
    }

    /// Removes the directory, which is empty, from the one that it is in: whatever its path leads to by now.
    fn remove_itself(&self) -> io::Result<()> {
        // It may have been given as `.`, or through a link.
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

/// What is in a directory.
fn names(directory: &File) -> io::Result<Vec<Vec<u8>>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut opened = Dir::openat(directory, ".", flags, Mode::empty())?;
    let names = opened.iter().map(|it| Ok(it?.file_name().to_bytes().to_vec()));
    let is_own = |it: &io::Result<Vec<u8>>| !matches!(it.as_deref(), Ok(b"." | b".."));
    names.filter(is_own).collect()
}

/// True if something is in a directory, and nothing but these.
fn has_only(there: &[Vec<u8>], names: &[&str]) -> bool {
    !there.is_empty() && there.iter().all(|it| names.iter().any(|name| name.as_bytes() == it))
}

/// What the state's file says.
fn parsed(text: &str) -> Option<(State, Option<Fingerprint>)> {
    let (first, second) = text.split_once('\n')?;
    let word = first.strip_prefix(TITLE)?;
    let state = State::ALL.into_iter().find(|it| word == it.as_str())?;
    let plan = second.strip_prefix(PLAN).and_then(|it| it.strip_suffix('\n'));
    Some((state, plan.and_then(Fingerprint::parse)))
}

/// Nobody else may work in it as long as this is held. It is ours, or whoever owns it could change what is in it meanwhile.
fn lock(directory: &Path, links: Links) -> Result<Flock<File>, ManifestError> {
    let failed = |source| ManifestError::Io { path: directory.to_owned(), source };
    let resolve = match links {
        Links::Followed => ResolveFlag::empty(),
        Links::Refused => ResolveFlag::RESOLVE_NO_SYMLINKS,
    };
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let file = openat2(AT_FDCWD, directory, OpenHow::new().flags(flags).resolve(resolve));
    let file: File = match file {
        Err(Errno::ELOOP) if links == Links::Refused => {
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
    fn the_plan_stays_known_whatever_becomes_of_the_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let plan = Fingerprint { files: 1, index: 2 };
        let make = || Place::make(directory.path(), plan, Settings::default(), Links::Followed);
        let mut place = make().expect("a directory");
        for state in State::ALL {
            place.set(state).expect("space");
            drop(place);
            place = Place::open(directory.path(), Links::Followed).expect("ours");
            assert_eq!((place.state, place.plan), (state, Some(plan)));
        }
    }

    /// Fails if another directory is removed, which has the name of ours by now.
    #[test]
    fn what_has_its_name_by_now_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let [place, moved] = ["place", "moved"].map(|it| directory.path().join(it));
        let make =
            || Place::make(&place, Fingerprint::default(), Settings::default(), Links::Followed);
        let made = make().expect("a directory");
        fs::rename(&place, &moved).expect("there");
        fs::create_dir(&place).expect("space");
        let told = made.remove().expect_err("it is another one").to_string();
        assert!(told.contains("something else has its name now"), "{told}");
        assert!(place.is_dir() && fs::read_dir(&moved).expect("there").next().is_none());
        fs::remove_dir(&place).expect("empty");
        make().expect("a directory").remove().expect("it is the same");
        assert!(!place.exists());
    }

    #[test]
    fn a_state_without_a_plan_is_one_of_an_unknown_plan() {
        let ready = "iotrace-perf replay 1: ready\n";
        assert_eq!(parsed(ready), Some((State::Ready, None)));
        assert_eq!(parsed(&format!("{ready}plan what\n")), Some((State::Ready, None)));
        assert_eq!(parsed("iotrace-perf replay 1: ready"), None);
        assert_eq!(parsed("iotrace-perf replay 1: steady\n"), None);
        assert_eq!(parsed("something else\n"), None);
    }
}
