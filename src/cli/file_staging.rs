//! A file that is being written: as `NAME.part`, which gets its name when it is complete.
//!
//! So a killed writer leaves nothing under the file's name. The unfinished file is locked while its
//! writer lives; one that is not locked is removed by the next writer of a file of that name.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::error::CliError;
use crate::sys::output_dir::{NewFile, OutputDirectory, Users};

/// Unfinished file; removed when dropped.
#[derive(Debug)]
pub(super) struct StagedFile {
    path: PathBuf,
    name: OsString,
    unfinished: OsString,
    directory: OutputDirectory,
    file: NewFile,
    /// Held while the file is written.
    _lock: Flock<File>,
}

impl StagedFile {
    /// Creates the unfinished file, in place of one that a dead writer has left.
    ///
    /// # Errors
    ///
    /// Error: a file of the name exists, or another process writes it.
    pub(super) fn create(path: &Path, users: &Users) -> Result<Self, CliError> {
        let failed = |source| CliError::Create { path: path.into(), source };
        let (directory, name) = OutputDirectory::parent_of(path, users).map_err(failed)?;
        if directory.find(&name).map_err(failed)?.is_some() {
            return Err(CliError::Exists { path: path.into(), option: "-o" });
        }
        let mut unfinished = name.clone();
        unfinished.push(".part");
        let part = path.with_file_name(&unfinished);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock => {
                CliError::Exists { path: part.clone(), option: "-o" }
            }
            _ => CliError::Create { path: part.clone(), source },
        };
        remove_left(&directory, &unfinished).map_err(failed)?;
        let file = NewFile::create_in(directory.clone(), unfinished.clone()).map_err(failed)?;
        let lock = file.file().try_clone().and_then(lock).map_err(failed)?;
        Ok(Self { path: path.into(), name, unfinished, directory, file, _lock: lock })
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> &File {
        self.file.file()
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    ///
    /// Error: a file of its name has been created meanwhile; that file stays.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        let renamed = self.directory.rename_new(&self.unfinished, &self.directory, &self.name);
        let path = self.path.clone();
        renamed.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CliError::Exists { path, option: "-o" },
            _ => CliError::Create { path, source },
        })?;
        self.file.keep();
        Ok(())
    }
}

fn lock(file: File) -> io::Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Removes the leftover of a killed writer; a file that others may read is not one.
fn remove_left(directory: &OutputDirectory, name: &OsString) -> io::Result<()> {
    let Some(found) = directory.find(name)? else { return Ok(()) };
    if found.st_mode & 0o077 != 0 {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let other = |_| io::Error::from(io::ErrorKind::AlreadyExists);
    let left = directory.append(name).map_err(other)?;
    let _lock = lock(left)?;
    directory.remove(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn complete_file_gets_its_name_and_an_incomplete_one_disappears() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, part) = (dir.path().join("a.x"), dir.path().join("a.x.part"));
        let staged = StagedFile::create(&path, &Users::none()).expect("created");
        assert!(part.exists() && !path.exists());
        drop(staged);
        assert!(!part.exists() && !path.exists());
        let staged = StagedFile::create(&path, &Users::none()).expect("created");
        staged.file().write_all(b"text").expect("written");
        staged.finish().expect("renamed");
        assert_eq!(std::fs::read(&path).expect("a file"), b"text");
        assert!(!part.exists());
        let again = StagedFile::create(&path, &Users::none());
        assert!(matches!(again, Err(CliError::Exists { .. })), "{again:?}");
    }

    #[test]
    fn leftover_is_replaced_unless_its_writer_lives() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.x");
        let living = StagedFile::create(&path, &Users::none()).expect("created");
        let second = StagedFile::create(&path, &Users::none());
        assert!(matches!(second, Err(CliError::Exists { .. })), "{second:?}");
        std::mem::forget(living.file);
        drop(living._lock);
        let third = StagedFile::create(&path, &Users::none());
        assert!(third.is_ok(), "{third:?}");
    }
}
