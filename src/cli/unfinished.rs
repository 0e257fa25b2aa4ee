//! An archive that is being written: in a directory of its own, `NAME.otf2.part`, from which it comes out when it is whole.
//!
//! So whatever ends us, nothing under the archive's name is half an archive, but between the three renames at the end: then the anchor is
//! not there yet, so nobody can open it. The directory is locked while its writer lives; one that
//! nobody holds is removed by whoever writes an archive of that name next.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::error::CliError;
use super::output::Output;
use crate::sys::files;

/// Removed when dropped.
#[derive(Debug)]
pub(super) struct Unfinished<'a> {
    output: &'a Output,
    directory: PathBuf,
    /// Held as long as we write.
    _lock: Flock<File>,
}

impl<'a> Unfinished<'a> {
    /// Makes the directory, in the place of one that a dead writer has left.
    ///
    /// # Errors
    ///
    /// Somebody else writes this archive, or has made something of that name; it cannot be made.
    pub(super) fn new(output: &'a Output) -> Result<Self, CliError> {
        let directory = output.unfinished();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock => {
                CliError::Exists { path: directory.clone() }
            }
            _ => CliError::Create { path: directory.clone(), source },
        };
        remove_left(&directory, &output.name).map_err(failed)?;
        files::create_new_directory(&directory).map_err(failed)?;
        let lock = lock(&directory).map_err(failed)?;
        Ok(Self { output, directory, _lock: lock })
    }

    /// Where it is written.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// It is whole: it gets its place, the anchor last.
    ///
    /// # Errors
    ///
    /// Something of its name has come there meanwhile: that stays, and nothing of the archive does.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let [anchor, definitions, parts] = self.output.archive_parts();
        let parts = [parts, definitions, anchor];
        let from = |path: &Path| self.directory.join(path.file_name().unwrap_or_default());
        for path in &parts {
            let failed = |source| CliError::Create { path: path.clone(), source };
            files::give_to_caller(&from(path)).map_err(failed)?;
        }
        // Nothing takes time from here on: who is killed just now leaves some of it in its place.
        let mut moved: Vec<PathBuf> = Vec::new();
        for path in parts {
            if let Err(source) = files::rename_new(&from(&path), &path) {
                moved.iter().for_each(|it| remove(it));
                return Err(if source.kind() == io::ErrorKind::AlreadyExists {
                    CliError::Exists { path }
                } else {
                    CliError::Create { path, source }
                });
            }
            moved.push(path);
        }
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // What cannot be removed stays, until somebody writes an archive of that name.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whatever it is.
fn remove(path: &Path) {
    // What cannot be removed stays, and is refused the next time.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

fn lock(directory: &Path) -> io::Result<Flock<File>> {
    Flock::lock(File::open(directory)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno.into())
}

/// Removes what a writer has left that was killed; what may be anything else stays.
fn remove_left(directory: &Path, name: &str) -> io::Result<()> {
    if directory.symlink_metadata().is_err() {
        return Ok(());
    }
    if !files::is_private_directory(directory) || !has_only_parts(directory, name)? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let _lock = lock(directory)?;
    fs::remove_dir_all(directory)
}

fn has_only_parts(directory: &Path, name: &str) -> io::Result<bool> {
    let parts = ["", ".def", ".otf2"].map(|it| OsString::from(format!("{name}{it}")));
    let mut entries = fs::read_dir(directory)?;
    entries.try_fold(true, |so_far, it| Ok(so_far && parts.contains(&it?.file_name())))
}
