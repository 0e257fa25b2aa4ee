//! Existing outputs that give their names to new ones (`--force`): each is renamed to `NAME.old`,
//! or to `NAME.old.2` and so on if that name is taken. Nothing is deleted, and no link is followed.
//!
//! A regular file is renamed whatever it contains. A directory is renamed if it has nothing but
//! outputs of a recording, an archive if its anchor, definitions and directory are what they are
//! called.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::existing_outputs::{ExistingKind, created, has_suffix, is_archive, kind, refused};
use super::message::print_line;
use super::output::Output;
use crate::sys::output_dir::{OutputDirectory, Users};

/// Largest number of earlier outputs of one name.
const EARLIER_MAX: u32 = 10_000;

/// Suffixes of further outputs in the directory of a recording.
const FURTHER: [&[u8]; 2] = [b"html", b"pftrace"];

/// Outputs that were renamed.
#[derive(Debug, Default)]
pub(super) struct ReplacedOutputs(Vec<ReplacedOutput>);

#[derive(Debug)]
struct ReplacedOutput {
    directory: OutputDirectory,
    /// Names before and after.
    names: [OsString; 2],
    /// Path before, for messages.
    path: PathBuf,
}

impl ReplacedOutputs {
    /// Renames the file at a path, if there is one.
    ///
    /// # Errors
    ///
    /// The entry is not a regular file; it cannot be renamed.
    pub(super) fn replace_file(&mut self, path: &Path, users: &Users) -> Result<(), CliError> {
        let (directory, name) = match OutputDirectory::parent_of(path, users) {
            // The file cannot exist either.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent.map_err(created(path))?,
        };
        match kind(&directory, &name).map_err(created(path))? {
            None => Ok(()),
            Some(ExistingKind::File) => self.rename(&directory, &[(name, "".into())], path),
            Some(_) => Err(refused(path, "it is not a regular file")),
        }
    }

    /// Renames the directory of a recording, or the files that have the names of an output.
    ///
    /// # Errors
    ///
    /// Something in their place is not an output of a recording; it cannot be renamed.
    pub(super) fn replace(&mut self, output: &Output, users: &Users) -> Result<(), CliError> {
        if output.own_directory {
            return self.replace_directory(output, users);
        }
        self.replace_archive(output, users)?;
        self.replace_file(&output.log(), users)
    }

    /// Renames an archive, if there is one: `NAME.old.otf2` can be opened as before.
    ///
    /// # Errors
    ///
    /// Something in its place is not an archive; it cannot be renamed.
    pub(super) fn replace_archive(
        &mut self,
        output: &Output,
        users: &Users,
    ) -> Result<(), CliError> {
        if !output.has_archive {
            return Ok(());
        }
        let path = output.archive();
        let directory = match OutputDirectory::open(&output.directory, users) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(created(&output.directory))?,
        };
        let parts = output.archive_parts();
        if !is_archive(&directory, &parts)? {
            return Ok(());
        }
        let stem = OsString::from(&output.name);
        let name = |end: &str| (stem.clone(), OsString::from(end));
        // The anchor first: an archive without it is not opened.
        self.rename(&directory, &[".otf2", ".def", ""].map(name), &path)
    }

    fn replace_directory(&mut self, output: &Output, users: &Users) -> Result<(), CliError> {
        let path = &output.directory;
        let inside = match OutputDirectory::open(path, users) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(created(path))?,
        };
        let names = inside.names().map_err(created(path))?;
        let own = OsString::from(&output.name);
        let is_main = |name: &OsString| Path::new(name).file_stem() == Some(&own);
        if !names.iter().any(is_main) {
            return Ok(());
        }
        let is_further = |name: &OsString| has_suffix(name, &FURTHER);
        if let Some(other) = names.iter().find(|name| !is_main(name) && !is_further(name)) {
            let why = format!(
                "it has something else than outputs of a recording: {}",
                other.to_string_lossy().escape_debug()
            );
            return Err(refused(path, &why));
        }
        let (parent, name) = OutputDirectory::parent_of(path, users).map_err(created(path))?;
        if kind(&parent, &name).map_err(created(path))? != Some(ExistingKind::Directory) {
            return Err(refused(path, "it is not a directory itself, but leads to one"));
        }
        self.rename(&parent, &[(name, "".into())], path)
    }

    /// Renames entries, each given by its name and the suffix that it keeps, with the first number
    /// that is free for all of them.
    fn rename(
        &mut self,
        directory: &OutputDirectory,
        entries: &[(OsString, OsString)],
        path: &Path,
    ) -> Result<(), CliError> {
        let joined = |parts: [&OsStr; 3]| parts.into_iter().collect::<OsString>();
        for number in 1..=EARLIER_MAX {
            let old = if number == 1 { ".old".into() } else { format!(".old.{number}") };
            let names = entries.iter().map(|(stem, end)| {
                [joined([stem, end, "".as_ref()]), joined([stem, old.as_ref(), end])]
            });
            let names: Vec<[OsString; 2]> = names.collect();
            let is_taken =
                |[_, new]: &[OsString; 2]| directory.find(new).map(|found| found.is_some());
            let taken = names.iter().map(is_taken).collect::<io::Result<Vec<bool>>>();
            if taken.map_err(created(path))?.contains(&true) {
                continue;
            }
            return self.rename_to(directory, names, path);
        }
        Err(refused(path, "too many earlier ones have the names .old, .old.2, …"))
    }

    fn rename_to(
        &mut self,
        directory: &OutputDirectory,
        names: Vec<[OsString; 2]>,
        path: &Path,
    ) -> Result<(), CliError> {
        for names in names {
            let [old, new] = &names;
            directory.rename_new(old, directory, new).map_err(created(path))?;
            let path = path.with_file_name(old);
            self.0.push(ReplacedOutput { directory: directory.clone(), names, path });
        }
        Ok(())
    }

    /// Gives all outputs their names back, because nothing has taken these.
    pub(super) fn restore(self) {
        for ReplacedOutput { directory, names: [old, new], path } in self.0.into_iter().rev() {
            if let Err(error) = directory.rename_new(&new, &directory, &old) {
                print_line(&format!(
                    "warning: {} is now {}: {error}",
                    path.display(),
                    path.with_file_name(new).display()
                ));
            }
        }
    }

    /// Prints a line for each output that says where it is.
    pub(super) fn tell(&self) {
        let new = |output: &ReplacedOutput| output.path.with_file_name(&output.names[1]);
        let lines = self.0.iter().map(|output| {
            format!(
                "renamed the earlier {} to {} (--force)",
                output.path.display(),
                new(output).display()
            )
        });
        lines.for_each(|line| print_line(&line));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn output(path: &Path) -> Output {
        Output::parse(path.as_os_str()).expect("a name")
    }

    fn make(directory: &Path, files: &[&str]) {
        for file in files {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, file).expect("written");
        }
    }

    #[track_caller]
    fn replaced(output: &Output) -> ReplacedOutputs {
        let mut all = ReplacedOutputs::default();
        all.replace(output, &Users::none()).expect("renamed");
        all
    }

    #[track_caller]
    fn check_refused(output: &Output, why: &str) {
        let refused = ReplacedOutputs::default().replace(output, &Users::none());
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains(why), "{text}");
    }

    #[test]
    fn outputs_get_the_next_free_name_and_can_get_their_own_back() {
        let dir = tempfile::tempdir().expect("a directory");
        for _ in 0..2 {
            make(dir.path(), &["x.iocap"]);
            replaced(&output(&dir.path().join("x.iocap")));
        }
        assert_eq!(names(dir.path()), ["x.iocap.old", "x.iocap.old.2"]);
        make(dir.path(), &["x.iocap"]);
        replaced(&output(&dir.path().join("x.iocap"))).restore();
        assert_eq!(names(dir.path()), ["x.iocap", "x.iocap.old", "x.iocap.old.2"]);
        let absent = output(&dir.path().join("y/z.iocap"));
        assert!(replaced(&absent).0.is_empty());
    }

    #[test]
    fn archive_can_be_opened_under_its_new_name() {
        let dir = tempfile::tempdir().expect("a directory");
        make(dir.path(), &["x.otf2", "x.def", "x/0.evt", "x.iocap"]);
        let all = replaced(&output(&dir.path().join("x.otf2")));
        let expected = ["x.iocap.old", "x.old", "x.old.def", "x.old.otf2"];
        assert_eq!(names(dir.path()), expected);
        all.restore();
        assert_eq!(names(dir.path()), ["x", "x.def", "x.iocap", "x.otf2"]);
    }

    #[test]
    fn directory_of_a_recording_is_renamed_as_a_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        make(dir.path(), &["x/traces.iocap", "x/traces.otf2", "x/traces/0.evt", "x/a.html"]);
        replaced(&output(&dir.path().join("x/")));
        assert_eq!(names(dir.path()), ["x.old"]);
        // Without outputs there is nothing to rename.
        make(dir.path(), &["y/other"]);
        assert!(replaced(&output(&dir.path().join("y/"))).0.is_empty());
    }

    #[test]
    fn what_is_not_an_output_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        make(
            dir.path(),
            &["x/traces.iocap", "x/thesis.tex", "a/mine", "b.otf2", "b.def", "b/c.txt"],
        );
        check_refused(&output(&dir.path().join("x/")), "outputs of a recording: thesis.tex");
        check_refused(&output(&dir.path().join("a.otf2")), "a.otf2 is not a part of an archive");
        check_refused(&output(&dir.path().join("b.otf2")), "parts of an archive: c.txt");
        make(dir.path(), &["y/traces.iocap"]);
        std::os::unix::fs::symlink("y", dir.path().join("z")).expect("a link");
        std::os::unix::fs::symlink("y/traces.iocap", dir.path().join("l.iocap")).expect("a link");
        check_refused(&output(&dir.path().join("z/")), "leads to one");
        check_refused(&output(&dir.path().join("l.iocap")), "not a regular file");
        fs::create_dir(dir.path().join("d.iocap")).expect("made");
        let mut all = ReplacedOutputs::default();
        let refused = all.replace_file(&dir.path().join("d.iocap"), &Users::none());
        assert!(refused.is_err());
        let all = ["a", "b", "b.def", "b.otf2", "d.iocap", "l.iocap", "x", "y", "z"];
        assert_eq!(names(dir.path()), all);
    }
}
