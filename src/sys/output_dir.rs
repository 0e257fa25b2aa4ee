//! Directories of outputs: everything that is written is made, renamed, given away and removed below a held descriptor.
//!
//! | This process | The directory | Files are made by |
//! |---|---|---|
//! | is a user's | any | that user |
//! | is root's | only root could exchange a step of its path ([`super::output_path`]) | root, and given to the caller of `sudo` |
//! | is root's | the caller of `sudo`, or the user of `--as-user`, may write there | that user: the thread has its file-system identity |
//! | is root's | any other | refused |
//!
//! Nothing is followed and nothing that was there is opened: files are made with `O_EXCL`, and what is given away is what was
//! opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, geteuid, unlinkat};

use super::fs_identity::{Entered, FsIdentity};
use super::output_path::{is_refused, open_checked, open_plain};
use super::user::Identity;

/// Directories below each other in what is removed or given away: archives have two.
const LEVELS_MAX: u32 = 16;

/// Users in whose directories root writes as these users.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// Who called `sudo`: outputs are given to this user.
    caller: Option<FsIdentity>,
    /// The user of `--as-user`.
    program: Option<FsIdentity>,
}

impl Users {
    /// The caller of `sudo`, if there is one.
    pub fn caller() -> Self {
        Self { caller: FsIdentity::sudo_caller(), program: None }
    }

    /// The same, and the user of the started program.
    pub fn with_program(user: Option<&Identity>) -> Self {
        Self { program: user.map(FsIdentity::of), ..Self::caller() }
    }

    /// No other user: only what is root's own.
    pub fn none() -> Self {
        Self::default()
    }
}

/// A directory, held.
#[derive(Clone, Debug)]
pub struct OutputDirectory {
    held: Arc<OwnedFd>,
    /// The user who makes files in it, if not this process.
    user: Option<FsIdentity>,
    /// Who gets what this process makes in it.
    owner: Option<FsIdentity>,
}

impl OutputDirectory {
    /// Opens a directory that is there.
    ///
    /// # Errors
    ///
    /// Root must not write there; those of `openat(2)`.
    pub fn open(path: &Path, users: &Users) -> io::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self { held: Arc::new(open_plain(path)?), user: None, owner: None });
        }
        let refused = match open_checked(path) {
            Ok(held) => {
                return Ok(Self { held: Arc::new(held), user: None, owner: users.caller.clone() });
            }
            // A file server may refuse root, and not the user.
            Err(error) if is_refused(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
                error
            }
            Err(error) => return Err(error),
        };
        for user in users.caller.iter().chain(&users.program) {
            let opened = {
                let _as = user.enter()?;
                open_plain(path).and_then(|it| may_write(it.as_fd()).map(|()| it))
            };
            match opened {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
                Ok(held) => {
                    return Ok(Self {
                        held: Arc::new(held),
                        user: Some(user.clone()),
                        owner: None,
                    });
                }
            }
        }
        Err(refused)
    }

    /// Opens the directory that a path is in; the name of the path there.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::open`]; `InvalidInput`: the path ends with no name.
    pub fn parent_of(path: &Path, users: &Users) -> io::Result<(Self, OsString)> {
        let no_name =
            || io::Error::new(io::ErrorKind::InvalidInput, "the path has no name at its end");
        let name = path.file_name().ok_or_else(no_name)?;
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        Ok((Self::open(parent.unwrap_or(Path::new(".")), users)?, name.to_owned()))
    }

    /// Makes a new directory; its parent must be there.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; as [`OutputDirectory::open`].
    pub fn make(path: &Path, users: &Users) -> io::Result<Self> {
        let (parent, name) = Self::parent_of(path, users)?;
        parent.make_directory(&name)
    }

    /// A path that leads to the directory while the value lives, whatever becomes of its name.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.held.as_raw_fd()).into()
    }

    /// The thread has the identity with which files are made in the directory, until the value is dropped: for what another
    /// library does below [`OutputDirectory::path`].
    ///
    /// # Errors
    ///
    /// `EPERM`.
    pub fn enter(&self) -> io::Result<Option<Entered>> {
        self.user.as_ref().map(FsIdentity::enter).transpose()
    }

    /// What has this name, if anything has.
    ///
    /// # Errors
    ///
    /// Those of `fstatat(2)`.
    pub fn find(&self, name: &OsStr) -> io::Result<Option<FileStat>> {
        let _as = self.enter()?;
        match fstatat(&*self.held, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Makes a new file, to be read and written.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if anything of that name is there, links included; those of `openat(2)`.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let file = self.open_file(name, flags)?;
        if let Some(owner) = &self.owner {
            std::os::unix::fs::fchown(&file, Some(owner.user()), Some(owner.group()))?;
        }
        Ok(file)
    }

    /// Makes a new file below the directory, and the directories on its way that are missing.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::create`]; something else than a directory of the same owner is on the way.
    pub fn make_below(&self, path: &Path) -> io::Result<File> {
        let mut at = self.clone();
        for step in path.parent().into_iter().flat_map(Path::iter) {
            at = match at.make_directory(step) {
                Err(it) if it.kind() == io::ErrorKind::AlreadyExists => at.open_own(step)?,
                made => made?,
            };
        }
        at.create(path.file_name().unwrap_or_default())
    }

    /// Opens a regular file at its end; makes it if it is not there. A FIFO in its place is not waited for.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is no regular file, or has another name as well; those of `openat(2)`.
    pub fn append(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND | OFlag::O_NONBLOCK;
        let file = self.open_file(name, flags)?;
        let found = file.metadata()?;
        if found.is_file() && found.nlink() == 1 {
            return Ok(file);
        }
        let why = "it is no regular file with one name";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    fn open_file(&self, name: &OsStr, flags: OFlag) -> io::Result<File> {
        let _as = self.enter()?;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(openat(&*self.held, one_step(name)?, flags, mode)?.into())
    }

    /// Makes a new directory, mode 0700. One that root makes for the caller of `sudo` is the caller's, and so is what is made in it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if anything of that name is there; those of `mkdirat(2)`.
    pub fn make_directory(&self, name: &OsStr) -> io::Result<Self> {
        let made = self.make_own(name)?;
        let Some(owner) = &self.owner else { return Ok(made) };
        let (user, group) = (Uid::from_raw(owner.user()), Gid::from_raw(owner.group()));
        fchownat(&*made.held, "", Some(user), Some(group), AtFlags::AT_EMPTY_PATH)?;
        Ok(Self { user: self.owner.clone(), owner: None, ..made })
    }

    /// The same, but one that root makes stays root's.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::make_directory`].
    pub fn make_own(&self, name: &OsStr) -> io::Result<Self> {
        {
            let _as = self.enter()?;
            mkdirat(&*self.held, one_step(name)?, Mode::S_IRWXU)?;
        }
        let made = self.open_own(name);
        if made.is_err() {
            let _ = self.remove_directory(name);
        }
        made
    }

    /// Opens a directory in this one that belongs to who makes files here.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`: it is another user's; those of `openat(2)`, for a link `ENOTDIR`.
    pub fn open_own(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let held = {
            let _as = self.enter()?;
            openat(&*self.held, one_step(name)?, flags, Mode::empty())?
        };
        let owner = fstat(&held)?.st_uid;
        let own = self.user.as_ref().map_or(geteuid().as_raw(), FsIdentity::user);
        if owner != own {
            let why = format!("it belongs to user {owner}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { held: Arc::new(held), user: self.user.clone(), owner: None })
    }

    /// The directory itself, to be read or locked.
    ///
    /// # Errors
    ///
    /// Those of `openat(2)`.
    pub fn readable(&self) -> io::Result<File> {
        let _as = self.enter()?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(openat(&*self.held, ".", flags, Mode::empty())?.into())
    }

    /// The names of what is in it.
    ///
    /// # Errors
    ///
    /// Those of `getdents64(2)`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        names(self.readable()?.into())
    }

    /// Gives what has this name here a name in another directory of the same file system, which nothing there has.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if anything of that name is there, links included; those of `renameat2(2)`.
    pub fn rename_new(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        let _as = self.enter()?;
        let (old, new) = (one_step(name)?, one_step(new)?);
        match renameat2(&*self.held, old, &*to.held, new, RenameFlags::RENAME_NOREPLACE) {
            // Not every file system can do both at once.
            Err(Errno::EINVAL) => match fstatat(&*to.held, new, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => Ok(renameat(&*self.held, old, &*to.held, new)?),
            },
            done => Ok(done?),
        }
    }

    /// Gives what has this name another one here, in the place of what has it.
    ///
    /// # Errors
    ///
    /// Those of `renameat(2)`.
    pub fn replace(&self, name: &OsStr, new: &OsStr) -> io::Result<()> {
        let _as = self.enter()?;
        Ok(renameat(&*self.held, one_step(name)?, &*self.held, one_step(new)?)?)
    }

    /// Gives what has this name, with all below it, to the user who gets the files of another directory. This one must be such that no other
    /// user can change anything in it.
    ///
    /// # Errors
    ///
    /// Those of `fchownat(2)`.
    pub fn give_away(&self, name: &OsStr, of: &Self) -> io::Result<()> {
        let Some(owner) = &of.owner else { return Ok(()) };
        let ids = (Uid::from_raw(owner.user()), Gid::from_raw(owner.group()));
        give(self.held.as_fd(), one_step(name)?, ids, LEVELS_MAX)
    }

    /// Removes what has this name, and all below it in the same file system. Below a directory of the user who gets the files of this
    /// one, it is removed as that user.
    ///
    /// # Errors
    ///
    /// Those of `unlinkat(2)`; `CrossesDevices`: something is mounted there.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let _as = self.enter()?;
        let at = self.held.as_fd();
        match unlinkat(at, one_step(name)?, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => {}
            done => return Ok(done?),
        }
        let place =
            openat(at, name, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
        let found = fstat(&place)?;
        if found.st_dev != fstat(at)?.st_dev {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let owner = self.owner.as_ref().filter(|it| it.user() == found.st_uid);
        {
            let _as = owner.map(FsIdentity::enter).transpose()?;
            // What was looked at, whatever has its name by now.
            remove_below(&open_below(place.as_fd(), OsStr::new("."))?, found.st_dev, LEVELS_MAX)?;
        }
        Ok(unlinkat(at, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// Those of `unlinkat(2)`.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        let _as = self.enter()?;
        Ok(unlinkat(&*self.held, one_step(name)?, UnlinkatFlags::RemoveDir)?)
    }

    /// Removes what has this name, if it is still this file.
    pub fn remove_file(&self, name: &OsStr, file: &File) {
        let found = self.find(name).ok().flatten();
        let is_it = |it: FileStat| {
            file.metadata().is_ok_and(|file| (file.dev(), file.ino()) == (it.st_dev, it.st_ino))
        };
        if found.is_some_and(is_it) {
            // What cannot be removed stays.
            let _ = self.enter().map(|_as| unlinkat(&*self.held, name, UnlinkatFlags::NoRemoveDir));
        }
    }
}

impl AsFd for OutputDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// A new file, which is removed with the value unless it is kept.
#[derive(Debug)]
pub struct NewFile {
    directory: OutputDirectory,
    name: OsString,
    file: File,
    is_kept: bool,
}

impl NewFile {
    /// Makes it where a path leads.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::parent_of`] and [`OutputDirectory::create`].
    pub fn create(path: &Path, users: &Users) -> io::Result<Self> {
        let (directory, name) = OutputDirectory::parent_of(path, users)?;
        Self::create_in(directory, name)
    }

    /// Makes it in a directory.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::create`].
    pub fn create_in(directory: OutputDirectory, name: OsString) -> io::Result<Self> {
        let file = directory.create(&name)?;
        Ok(Self { directory, name, file, is_kept: false })
    }

    /// To be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// It stays.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            self.directory.remove_file(&self.name, &self.file);
        }
    }
}

/// A name is one step: no path, and no way up.
fn one_step(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file"));
    }
    Ok(name)
}

/// Whether the thread may make files there; a kernel without the call (before 5.8) tells when they are made.
fn may_write(directory: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, mode) = (directory.as_raw_fd(), libc::W_OK | libc::X_OK);
    // SAFETY: the text ends with NUL and lives over the call, which changes nothing in our memory.
    let code =
        unsafe { libc::syscall(libc::SYS_faccessat2, fd, c".".as_ptr(), mode, libc::AT_EACCESS) };
    let error = io::Error::last_os_error();
    if code < 0 && error.raw_os_error() == Some(libc::EACCES) { Err(error) } else { Ok(()) }
}

fn names(directory: OwnedFd) -> io::Result<Vec<OsString>> {
    let mut found = Vec::new();
    for entry in Dir::from_fd(directory)?.iter() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            found.push(name);
        }
    }
    Ok(found)
}

/// Opens a directory in another one, to be read; no link.
fn open_below(at: BorrowedFd<'_>, name: &OsStr) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

fn give(at: BorrowedFd<'_>, name: &OsStr, ids: (Uid, Gid), levels: u32) -> io::Result<()> {
    match open_below(at, name) {
        Ok(directory) => {
            let left = levels.checked_sub(1).ok_or(Errno::ELOOP)?;
            for inside in names(directory.try_clone()?)? {
                give(directory.as_fd(), &inside, ids, left)?;
            }
        }
        Err(Errno::ENOTDIR | Errno::ELOOP) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(fchownat(at, name, Some(ids.0), Some(ids.1), AtFlags::AT_SYMLINK_NOFOLLOW)?)
}

/// Removes all that is in a directory of this file system.
fn remove_below(directory: &OwnedFd, device: u64, levels: u32) -> io::Result<()> {
    let left = levels.checked_sub(1).ok_or(Errno::ELOOP)?;
    for name in names(directory.try_clone()?)? {
        match unlinkat(directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => {}
            done => {
                done?;
                continue;
            }
        }
        let inside = open_below(directory.as_fd(), &name)?;
        if fstat(&inside)?.st_dev != device {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        remove_below(&inside, device, left)?;
        unlinkat(directory, name.as_os_str(), UnlinkatFlags::RemoveDir)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "output_dir_tests.rs"]
mod tests;
