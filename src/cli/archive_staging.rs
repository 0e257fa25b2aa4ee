//! An archive that is being written: in a directory of its own, `NAME.otf2.part`, out of which it
//! is moved when it is complete.
//!
//! So a killed writer leaves no half archive under the archive's name, except between the three
//! renames at the end: then the anchor does not exist yet, so the archive cannot be opened. The
//! directory is locked while its writer lives; one that is not locked is removed by the next writer
//! of an archive of that name.
//!
//! The OTF2 library works with paths: it gets one that leads to the open directory. What root
//! writes stays root's, and is in a directory that only root may enter, until it is complete.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use nix::fcntl::{Flock, FlockArg};

use super::error::CliError;
use super::output::OpenOutput;
use super::replaced_outputs::ReplacedOutputs;
use super::second_signal::{UnfinishedEntry, UnfinishedGuard};
use crate::sys::fs_identity::Entered;
use crate::sys::output_dir::{OutputDirectory, Users};

/// Directory of an incomplete archive; removed when dropped.
#[derive(Debug)]
pub(super) struct StagedArchive<'a> {
    output: &'a OpenOutput,
    directory: OutputDirectory,
    name: OsString,
    /// Held while the archive is written.
    _lock: Flock<File>,
    _unfinished: UnfinishedGuard,
}

impl<'a> StagedArchive<'a> {
    /// Creates the directory, in place of one that a dead writer has left.
    ///
    /// # Errors
    ///
    /// Error: another process writes this archive, or the name is taken.
    pub(super) fn new(output: &'a OpenOutput) -> Result<Self, CliError> {
        let path = output.output.unfinished();
        let name = OsString::from(format!("{}.otf2.part", output.output.name));
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock => {
                CliError::Exists { path: path.clone(), option: "-o" }
            }
            _ => CliError::Create { path: path.clone(), source },
        };
        remove_left(output, &name).map_err(failed)?;
        let directory = output.directory.make_own(&name).map_err(failed)?;
        let lock = lock(&directory).map_err(failed)?;
        let file = lock.try_clone().map_err(failed)?;
        let (parent, name_of) = (output.directory.clone(), name.clone());
        let shown = output.output.unfinished();
        let unfinished = UnfinishedEntry { directory: parent, name: name_of, shown, file };
        let _unfinished = unfinished.register();
        Ok(Self { output, directory, name, _lock: lock, _unfinished })
    }

    /// Path of the archive: one that leads there even if the directory is renamed.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path()
    }

    /// Takes the identity of the directory's owner for new files, until the value is dropped.
    ///
    /// # Errors
    ///
    /// `EPERM`.
    pub(super) fn enter(&self) -> Result<Option<Entered>, CliError> {
        let path = || self.output.output.unfinished();
        self.directory.enter().map_err(|source| CliError::Create { path: path(), source })
    }

    /// Moves the complete archive to its place, the anchor last.
    ///
    /// # Errors
    ///
    /// A file of its name has been created there meanwhile: that file stays, and nothing of the
    /// archive does.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let to = &self.output.directory;
        if self.output.replaces {
            let mut replaced = ReplacedOutputs::default();
            replaced.replace_archive(&self.output.output, &Users::caller())?;
            replaced.tell();
        }
        let [anchor, definitions, parts] = self.output.output.archive_parts();
        let named = [parts, definitions, anchor].map(|path| {
            let name = path.file_name().unwrap_or_default().to_owned();
            (path, name)
        });
        for (path, name) in &named {
            let failed = |source| CliError::Create { path: path.clone(), source };
            self.directory.give_away(name, to).map_err(failed)?;
        }
        // All steps from here on are short: a writer that is killed now leaves a part in place.
        let mut moved: Vec<OsString> = Vec::new();
        for (path, name) in named {
            if let Err(source) = self.directory.rename_new(&name, to, &name) {
                // A part that cannot be removed stays, and is refused the next time.
                moved.iter().for_each(|moved| drop(to.remove(moved)));
                return Err(if source.kind() == io::ErrorKind::AlreadyExists {
                    CliError::Exists { path, option: "-o" }
                } else {
                    CliError::Create { path, source }
                });
            }
            moved.push(name);
        }
        Ok(())
    }
}

impl Drop for StagedArchive<'_> {
    fn drop(&mut self) {
        // A directory that cannot be removed stays until the next archive of that name.
        let _ = self.output.directory.remove(&self.name);
    }
}

fn lock(directory: &OutputDirectory) -> io::Result<Flock<File>> {
    Flock::lock(directory.readable()?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno.into())
}

/// Removes the leftover of a killed writer; anything that may be something else stays.
fn remove_left(output: &OpenOutput, name: &OsString) -> io::Result<()> {
    let Some(found) = output.directory.find(name)? else { return Ok(()) };
    let other = |_| io::Error::from(io::ErrorKind::AlreadyExists);
    let left = output.directory.open_own(name).map_err(other)?;
    let name_of = |text: &str| OsString::from(format!("{}{text}", output.output.name));
    let parts = ["", ".def", ".otf2"].map(name_of);
    if found.st_mode & 0o077 != 0 || !left.names()?.iter().all(|name| parts.contains(name)) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let _lock = lock(&left)?;
    output.directory.remove(name)
}
