//! Output directories: all outputs are created, renamed, given away and removed relative to an open
//! descriptor.
//!
//! | This process | The directory | Files are made by |
//! |---|---|---|
//! | is a user's | any | that user |
//! | is root's | all steps of its path are safe | root, for the caller of `sudo` |
//! | is root's | the caller of `sudo`, or the user of `--as-user`, may write there | that user |
//! | is root's | any other | refused |
//!
//! A step is safe if only root could exchange it ([`super::output_path`]). Root creates a user's
//! files with that user's file-system identity.
//!
//! Links are not followed and existing files are not opened: files are created with `O_EXCL`, and
//! ownership is changed by descriptor.

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
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, geteuid, symlinkat, unlinkat};

use super::fs_identity::{Entered, FsIdentity};
use super::identity::Identity;
use super::output_path::{is_refused, open_checked, open_plain};
use super::rename;

/// Limit on nested directories in a tree that is removed or given away: archives have two.
const LEVELS_MAX: u32 = 16;

/// Users in whose directories root writes as these users.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// Caller of `sudo`: outputs are given to this user.
    caller: Option<FsIdentity>,
    /// The user of `--as-user`.
    program: Option<FsIdentity>,
}

impl Users {
    /// The caller of `sudo`, if there is one.
    pub fn caller() -> Self {
        Self { caller: FsIdentity::sudo_caller(), program: None }
    }

    /// The caller of `sudo`, if there is one, and the user of the started program.
    pub fn with_program(user: Option<&Identity>) -> Self {
        Self { program: user.map(FsIdentity::of), ..Self::caller() }
    }

    /// True if files of this user are the process's own, or those of the caller of `sudo`.
    pub fn owns(&self, user: u32) -> bool {
        let caller = self.caller.as_ref().map(FsIdentity::user);
        geteuid().as_raw() == user || caller == Some(user)
    }

    /// No other user: only directories of root.
    pub fn none() -> Self {
        Self::default()
    }
}

/// An open directory.
#[derive(Clone, Debug)]
pub struct OutputDirectory {
    held: Arc<OwnedFd>,
    /// The user who makes files in it, if not this process.
    user: Option<FsIdentity>,
    /// New owner of the files that this process creates in it.
    owner: Option<FsIdentity>,
}

impl OutputDirectory {
    /// Opens an existing directory.
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
            // A file server may refuse root, but not the user.
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

    /// Opens the parent directory of a path, and returns the last name of the path.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::open`]; `InvalidInput`: the path does not end with a name.
    pub fn parent_of(path: &Path, users: &Users) -> io::Result<(Self, OsString)> {
        let no_name =
            || io::Error::new(io::ErrorKind::InvalidInput, "the path has no name at its end");
        let name = path.file_name().ok_or_else(no_name)?;
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        Ok((Self::open(parent.unwrap_or(Path::new(".")), users)?, name.to_owned()))
    }

    /// Creates a directory; its parent must exist.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; as [`OutputDirectory::open`].
    pub fn make(path: &Path, users: &Users) -> io::Result<Self> {
        let (parent, name) = Self::parent_of(path, users)?;
        parent.make_directory(&name)
    }

    /// A path that leads to the directory while the value lives, even after a rename.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.held.as_raw_fd()).into()
    }

    /// Gives the thread the identity with which files are created in the directory, until the value
    /// is dropped: for libraries that create files below [`OutputDirectory::path`].
    ///
    /// # Errors
    ///
    /// `EPERM`.
    pub fn enter(&self) -> io::Result<Option<Entered>> {
        self.user.as_ref().map(FsIdentity::enter).transpose()
    }

    /// Metadata of the entry with this name, if it exists.
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

    /// Creates a file for reading and writing.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if an entry of that name exists, links included; those of `openat(2)`.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let file = self.open_file(name, flags)?;
        if let Some(owner) = &self.owner {
            std::os::unix::fs::fchown(&file, Some(owner.user()), Some(owner.group()))?;
        }
        Ok(file)
    }

    /// Creates a file below the directory, and the missing directories on its path.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::create`]; a step of the path is not a directory of the same owner.
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

    /// Opens a regular file at its end, or creates it. The call does not wait for the other end of
    /// a FIFO.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the file is not regular, or has another name as well; those of `openat(2)`.
    pub fn append(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND | OFlag::O_NONBLOCK;
        let file = self.open_file(name, flags)?;
        let found = file.metadata()?;
        if found.is_file() && found.nlink() == 1 {
            return Ok(file);
        }
        let why = "it is not a regular file with one name";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Opens an existing file for reading and writing. The call does not wait for the other end of
    /// a FIFO.
    ///
    /// # Errors
    ///
    /// Those of `openat(2)`.
    pub fn open_existing(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, OFlag::O_RDWR | OFlag::O_NONBLOCK)
    }

    fn open_file(&self, name: &OsStr, flags: OFlag) -> io::Result<File> {
        let _as = self.enter()?;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(openat(&*self.held, one_step(name)?, flags, mode)?.into())
    }

    /// Creates a directory, mode 0700. A directory that root creates for the caller of `sudo`
    /// belongs to the caller, and so do the files created in it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if an entry of that name exists; those of `mkdirat(2)`.
    pub fn make_directory(&self, name: &OsStr) -> io::Result<Self> {
        let made = self.make_own(name)?;
        let Some(owner) = &self.owner else { return Ok(made) };
        let (user, group) = (Uid::from_raw(owner.user()), Gid::from_raw(owner.group()));
        fchownat(&*made.held, "", Some(user), Some(group), AtFlags::AT_EMPTY_PATH)?;
        Ok(Self { user: self.owner.clone(), owner: None, ..made })
    }

    /// Creates a directory, mode 0700, that belongs to the creating user, root included.
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

    /// Opens a subdirectory that belongs to the user who creates files here.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`: the directory is another user's; those of `openat(2)`, for a link
    /// `ENOTDIR`.
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

    /// Opens the directory itself for reading or locking.
    ///
    /// # Errors
    ///
    /// Those of `openat(2)`.
    pub fn readable(&self) -> io::Result<File> {
        let _as = self.enter()?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(openat(&*self.held, ".", flags, Mode::empty())?.into())
    }

    /// Names of its entries.
    ///
    /// # Errors
    ///
    /// Those of `getdents64(2)`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        names(self.readable()?.into())
    }

    /// Moves an entry to another directory of the same file system, under a name that does not
    /// exist there.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if an entry of that name exists, links included; those of `renameat2(2)`.
    pub fn rename_new(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        let _as = self.enter()?;
        let (old, new) = (one_step(name)?, one_step(new)?);
        match rename::without_replacing(&*self.held, old, &*to.held, new) {
            // Not every file system can check and rename in one step.
            Err(Errno::EINVAL) => match fstatat(&*to.held, new, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => Ok(renameat(&*self.held, old, &*to.held, new)?),
            },
            done => Ok(done?),
        }
    }

    /// Renames an entry within the directory, and replaces the entry that has the new name.
    ///
    /// # Errors
    ///
    /// Those of `renameat(2)`.
    pub fn replace(&self, name: &OsStr, new: &OsStr) -> io::Result<()> {
        let _as = self.enter()?;
        Ok(renameat(&*self.held, one_step(name)?, &*self.held, one_step(new)?)?)
    }

    /// Lets a symbolic link lead to another entry of the directory. A link of that name is
    /// replaced.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the name is not a link's; those of `symlinkat(2)` and `renameat(2)`.
    pub fn link(&self, name: &OsStr, to: &OsStr) -> io::Result<()> {
        let is_link = |found: FileStat| found.st_mode & libc::S_IFMT == libc::S_IFLNK;
        if self.find(name)?.is_some_and(|found| !is_link(found)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut new = name.to_owned();
        new.push(format!(".{}", std::process::id()));
        {
            let _as = self.enter()?;
            symlinkat(one_step(to)?, &*self.held, one_step(&new)?)?;
        }
        let replaced = self.replace(&new, name);
        if replaced.is_err() {
            let _ = self.remove(&new);
        }
        replaced
    }

    /// Gives an entry, with all below it, to the owner of another directory's new files. No other
    /// user may be able to change anything in this directory.
    ///
    /// # Errors
    ///
    /// Those of `fchownat(2)`.
    pub fn give_away(&self, name: &OsStr, of: &Self) -> io::Result<()> {
        let Some(owner) = &of.owner else { return Ok(()) };
        let (user, group) = (Uid::from_raw(owner.user()), Gid::from_raw(owner.group()));
        give(self.held.as_fd(), one_step(name)?, user, group, LEVELS_MAX)
    }

    /// Removes an entry, and all below it in the same file system. In a directory of the user who
    /// gets this directory's files, entries are removed with that user's rights.
    ///
    /// # Errors
    ///
    /// Those of `unlinkat(2)`; `CrossesDevices`: a file system is mounted there.
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
            // The directory that was checked, even if another one has its name by now.
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

    /// Returns true if the entry of this name is this file.
    ///
    /// # Errors
    ///
    /// Those of `fstat(2)`.
    pub fn leads_to(&self, name: &OsStr, file: &File) -> io::Result<bool> {
        let own = file.metadata()?;
        let is_same = |found: FileStat| (own.dev(), own.ino()) == (found.st_dev, found.st_ino);
        Ok(self.find(name)?.is_some_and(is_same))
    }

    /// Checks that the user who makes files in the directory may do so.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`, `ReadOnlyFilesystem`.
    pub fn check_writable(&self) -> io::Result<()> {
        let _as = self.enter()?;
        may_write(self.as_fd())
    }

    /// Removes an entry if it is still this file.
    pub fn remove_file(&self, name: &OsStr, file: &File) {
        if self.leads_to(name, file).unwrap_or(false) {
            // A file that cannot be removed stays.
            let _ = self.enter().map(|_as| unlinkat(&*self.held, name, UnlinkatFlags::NoRemoveDir));
        }
    }
}

impl AsFd for OutputDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// A new file, which the drop removes unless it is kept.
#[derive(Debug)]
pub struct NewFile {
    directory: OutputDirectory,
    name: OsString,
    file: File,
    is_kept: bool,
}

impl NewFile {
    /// Creates the file at a path.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::parent_of`] and [`OutputDirectory::create`].
    pub fn create(path: &Path, users: &Users) -> io::Result<Self> {
        let (directory, name) = OutputDirectory::parent_of(path, users)?;
        Self::create_in(directory, name)
    }

    /// Creates the file in a directory.
    ///
    /// # Errors
    ///
    /// As [`OutputDirectory::create`].
    pub fn create_in(directory: OutputDirectory, name: OsString) -> io::Result<Self> {
        let file = directory.create(&name)?;
        Ok(Self { directory, name, file, is_kept: false })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Keeps the file.
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

/// Checks that a name is one step: no path, and no `..`.
fn one_step(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not the name of a file"));
    }
    Ok(name)
}

/// Checks that the thread may create files there. A kernel without the call (before 5.8) reports
/// that when they are created.
fn may_write(directory: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, mode) = (directory.as_raw_fd(), libc::W_OK | libc::X_OK);
    // SAFETY: the text ends with NUL and outlives the call, which changes none of our memory.
    let code =
        unsafe { libc::syscall(libc::SYS_faccessat2, fd, c".".as_ptr(), mode, libc::AT_EACCESS) };
    let error = io::Error::last_os_error();
    let is_refused = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EROFS));
    if code < 0 && is_refused { Err(error) } else { Ok(()) }
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

/// Opens a directory in another one for reading; links are refused.
fn open_below(at: BorrowedFd<'_>, name: &OsStr) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

fn give(at: BorrowedFd<'_>, name: &OsStr, user: Uid, group: Gid, levels: u32) -> io::Result<()> {
    match open_below(at, name) {
        Ok(directory) => {
            let left = levels.checked_sub(1).ok_or(Errno::ELOOP)?;
            for inside in names(directory.try_clone()?)? {
                give(directory.as_fd(), &inside, user, group, left)?;
            }
        }
        Err(Errno::ENOTDIR | Errno::ELOOP) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(fchownat(at, name, Some(user), Some(group), AtFlags::AT_SYMLINK_NOFOLLOW)?)
}

/// Removes all entries of a directory that are in this file system.
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
