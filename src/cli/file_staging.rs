//! A file that is being written: as `NAME.iotrace-perf.part`, which gets its name when it is
//! complete.
//!
//! So a killed writer leaves nothing under the file's name. The unfinished file is locked while its
//! writer lives; one that is not locked is removed by the next writer of a file of that name. No
//! other program makes files of such names, and a file that others may read, or of another user, is
//! not removed.
//!
//! A writer may find the new file of another one before it is locked. So each writer looks, after
//! its lock and before the last rename, whether the name still leads to its own file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::FileStat;

use super::error::CliError;
use super::existing_outputs::WITH_FORCE;
use super::replaced_outputs::ReplacedOutputs;
use super::second_signal::{UnfinishedEntry, UnfinishedGuard};
use crate::sys::output_dir::{NewFile, OutputDirectory, Users};

/// End of the name of an unfinished file.
const UNFINISHED: &str = ".iotrace-perf.part";

/// Attempts to begin the unfinished file while other writers of the same name begin theirs.
const ATTEMPTS: usize = 16;

/// Name of a file that does not exist yet, and its directory.
#[derive(Clone, Debug)]
pub(super) struct FreeName {
    path: PathBuf,
    name: OsString,
    directory: OutputDirectory,
    users: Users,
    /// True if an existing file gives the name up.
    replaces: bool,
}

impl FreeName {
    /// Checks that the name is free, or that of a file which gives the name up, and that files can
    /// be made beside that.
    ///
    /// # Errors
    ///
    /// Error: a file of the name exists; the directory is missing or not writable.
    pub(super) fn find(path: &Path, users: &Users, replaces: bool) -> Result<Self, CliError> {
        let failed = |source| CliError::Create { path: path.into(), source };
        let (directory, name) = OutputDirectory::parent_of(path, users).map_err(failed)?;
        let found = directory.find(&name).map_err(failed)?;
        let is_file = |found: &FileStat| found.st_mode & libc::S_IFMT == libc::S_IFREG;
        if found.is_some_and(|found| !(replaces && is_file(&found))) {
            return Err(CliError::Exists { path: path.into(), option: WITH_FORCE });
        }
        directory.check_writable().map_err(failed)?;
        Ok(Self { path: path.into(), name, directory, users: users.clone(), replaces })
    }

    /// Returns the path of the name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the unfinished file, in place of one that a dead writer has left.
    ///
    /// # Errors
    ///
    /// Error: another process writes the file, or something else has the name of the unfinished
    /// one.
    pub(super) fn stage(&self) -> Result<StagedFile, CliError> {
        let mut unfinished = self.name.clone();
        unfinished.push(UNFINISHED);
        let part = self.path.with_file_name(&unfinished);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::WouldBlock => CliError::Usage(format!(
                "another process is writing {0}: {1} is locked; choose another name with -o",
                self.path.display(),
                part.display()
            )),
            io::ErrorKind::AlreadyExists => CliError::Exists { path: part.clone(), option: "-o" },
            _ => CliError::Create { path: part.clone(), source },
        };
        for _ in 0..ATTEMPTS {
            remove_left(&self.directory, &unfinished, &self.users).map_err(failed)?;
            if let Some((file, lock)) = begin(&self.directory, &unfinished).map_err(failed)? {
                let (name, directory) = (self.clone(), self.directory.clone());
                let own = file.file().try_clone().map_err(failed)?;
                let entry =
                    UnfinishedEntry { directory, name: unfinished.clone(), shown: part, file: own };
                let _unfinished = entry.register();
                return Ok(StagedFile { name, unfinished, file, _lock: lock, _unfinished });
            }
        }
        Err(failed(io::ErrorKind::WouldBlock.into()))
    }
}

/// Unfinished file; removed when dropped.
#[derive(Debug)]
pub(super) struct StagedFile {
    name: FreeName,
    unfinished: OsString,
    file: NewFile,
    /// Held while the file is written.
    _lock: Flock<File>,
    _unfinished: UnfinishedGuard,
}

impl StagedFile {
    /// Creates the unfinished file of a name that must be free.
    ///
    /// # Errors
    ///
    /// As [`FreeName::find`] and [`FreeName::stage`].
    pub(super) fn create(path: &Path, users: &Users, replaces: bool) -> Result<Self, CliError> {
        FreeName::find(path, users, replaces)?.stage()
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> &File {
        self.file.file()
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    ///
    /// Error: a file of its name has been created meanwhile, which stays; the unfinished file is
    /// not there any more.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        let FreeName { path, name, directory, users, replaces } = &self.name;
        let failed = |source| CliError::Create { path: path.clone(), source };
        if !directory.leads_to(&self.unfinished, self.file()).map_err(failed)? {
            return Err(failed(io::Error::other(
                "another process has removed the unfinished file",
            )));
        }
        if *replaces {
            let mut replaced = ReplacedOutputs::default();
            replaced.replace_file(path, users)?;
            replaced.tell();
        }
        let renamed = directory.rename_new(&self.unfinished, directory, name);
        renamed.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CliError::Exists { path: path.clone(), option: "-o" },
            _ => failed(source),
        })?;
        self.file.keep();
        Ok(())
    }
}

fn lock(file: File) -> io::Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Creates and locks the unfinished file; `None`: another writer has come between.
fn begin(directory: &OutputDirectory, name: &OsStr) -> io::Result<Option<(NewFile, Flock<File>)>> {
    let file = match NewFile::create_in(directory.clone(), name.to_owned()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        created => created?,
    };
    owned(directory, name, file)
}

/// Locks a file that was just created; `None`: another writer has taken it for a leftover.
fn owned(
    directory: &OutputDirectory,
    name: &OsStr,
    file: NewFile,
) -> io::Result<Option<(NewFile, Flock<File>)>> {
    let lock = match lock(file.file().try_clone()?) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        locked => locked?,
    };
    Ok(directory.leads_to(name, &lock)?.then_some((file, lock)))
}

/// Removes the leftover of a killed writer; anything else stays.
fn remove_left(directory: &OutputDirectory, name: &OsStr, users: &Users) -> io::Result<()> {
    let Some(found) = directory.find(name)? else { return Ok(()) };
    let is_file = found.st_mode & libc::S_IFMT == libc::S_IFREG && found.st_nlink == 1;
    if !is_file || found.st_mode & 0o077 != 0 || !users.owns(found.st_uid) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let left = match directory.open_existing(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // The name may lead to another file by now: that one is not removed.
    let left = lock(left)?;
    directory.remove_file(name, &left);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    use super::*;

    /// Returns the paths of a file and of its unfinished form.
    fn paths(dir: &tempfile::TempDir) -> (PathBuf, PathBuf) {
        (dir.path().join("a.x"), dir.path().join("a.x.iotrace-perf.part"))
    }

    #[test]
    fn complete_file_gets_its_name_and_an_incomplete_one_disappears() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, part) = paths(&dir);
        let staged = StagedFile::create(&path, &Users::none(), false).expect("created");
        assert!(part.exists() && !path.exists());
        drop(staged);
        assert!(!part.exists() && !path.exists());
        let staged = StagedFile::create(&path, &Users::none(), false).expect("created");
        staged.file().write_all(b"text").expect("written");
        staged.finish().expect("renamed");
        assert_eq!(std::fs::read(&path).expect("a file"), b"text");
        assert!(!part.exists());
        let again = StagedFile::create(&path, &Users::none(), false);
        assert!(matches!(again, Err(CliError::Exists { .. })), "{again:?}");
    }

    #[test]
    fn complete_file_replaces_an_old_one_which_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, _) = paths(&dir);
        std::fs::write(&path, "old").expect("written");
        drop(StagedFile::create(&path, &Users::none(), true).expect("created"));
        assert_eq!(std::fs::read(&path).expect("a file"), b"old");
        StagedFile::create(&path, &Users::none(), true).expect("created").finish().expect("made");
        assert_eq!(std::fs::read(&path).expect("a file"), b"");
        assert_eq!(std::fs::read(dir.path().join("a.x.old")).expect("a file"), b"old");
    }

    #[test]
    fn leftover_is_replaced_unless_its_writer_lives() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, _) = paths(&dir);
        let living = StagedFile::create(&path, &Users::none(), false).expect("created");
        let second = StagedFile::create(&path, &Users::none(), false);
        let text = second.expect_err("refused").to_string();
        assert!(text.contains("another process is writing"), "{text}");
        std::mem::forget(living.file);
        drop(living._lock);
        let third = StagedFile::create(&path, &Users::none(), false);
        assert!(third.is_ok(), "{third:?}");
    }

    #[test]
    fn files_that_are_no_leftovers_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, part) = paths(&dir);
        let other = dir.path().join("a.x.part");
        for (path, mode) in [(&other, 0o600), (&part, 0o644)] {
            std::fs::write(path, "mine").expect("written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("changed");
        }
        let refused =
            StagedFile::create(&path, &Users::none(), false).expect_err("refused").to_string();
        assert!(refused.contains("a.x.iotrace-perf.part is there already"), "{refused}");
        std::fs::remove_file(&part).expect("removed");
        std::fs::create_dir(&part).expect("a directory");
        let refused = StagedFile::create(&path, &Users::none(), false);
        assert!(matches!(refused, Err(CliError::Exists { .. })), "{refused:?}");
        std::fs::remove_dir(&part).expect("removed");
        StagedFile::create(&path, &Users::none(), false)
            .expect("created")
            .finish()
            .expect("renamed");
        assert_eq!(std::fs::read(&other).expect("a file"), b"mine");
    }

    #[test]
    fn file_of_another_writer_is_not_renamed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, part) = paths(&dir);
        let staged = StagedFile::create(&path, &Users::none(), false).expect("created");
        std::fs::remove_file(&part).expect("removed");
        std::fs::write(&part, "of another one").expect("written");
        let text = staged.finish().expect_err("refused").to_string();
        assert!(text.contains("another process has removed the unfinished file"), "{text}");
        assert!(part.exists() && !path.exists());
    }

    #[test]
    fn file_that_was_taken_for_a_leftover_is_given_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let users = Users::none();
        let (directory, name) =
            OutputDirectory::parent_of(&paths(&dir).1, &users).expect("a directory");
        let create = || NewFile::create_in(directory.clone(), name.clone()).expect("created");
        // The second writer comes between the creation and the lock of the first one.
        let first = create();
        remove_left(&directory, &name, &users).expect("removed");
        let second = owned(&directory, &name, create()).expect("locked");
        assert!(owned(&directory, &name, first).expect("locked").is_none());
        let (second, lock) = second.expect("the file is there");
        assert!(directory.leads_to(&name, second.file()).expect("a file"));
        // Now it is no leftover.
        let busy = remove_left(&directory, &name, &users).expect_err("locked");
        assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
        drop(lock);
    }

    /// Fails if a writer removes or renames the file of another one that has just begun.
    #[test]
    fn one_of_several_writers_wins() {
        const WRITERS: usize = 4;
        for round in 0..200 {
            let dir = tempfile::tempdir().expect("a directory");
            let (path, part) = paths(&dir);
            let begin = Barrier::new(WRITERS);
            let written = |number: usize| -> Option<usize> {
                begin.wait();
                let staged = StagedFile::create(&path, &Users::none(), false).ok()?;
                staged.file().write_all(number.to_string().as_bytes()).expect("written");
                staged.finish().ok().map(|()| number)
            };
            let winners: Vec<usize> = std::thread::scope(|scope| {
                let writers: Vec<_> =
                    (0..WRITERS).map(|number| scope.spawn(move || written(number))).collect();
                let all = writers.into_iter().map(|writer| writer.join().expect("it ends"));
                all.flatten().collect()
            });
            let found = std::fs::read_to_string(&path).expect("a file");
            let expected: Vec<String> = winners.iter().map(usize::to_string).collect();
            assert_eq!(expected, [found], "round {round}");
            assert!(!part.exists(), "round {round}");
        }
    }
}
