//! Checks that the files are still as init has created them: names, types and lengths.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::dir_walk::{MountPolicy, walk};
use super::init::{length, more};
use crate::replay::plan::plan_file::{FileBefore, FileKind};

/// Differences from the files that init has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Path of the first difference, from the root of the replay.
    pub first: PathBuf,
    /// Kind of the first difference.
    pub how: FileChange,
    /// Number of differences.
    pub count: usize,
    /// Number of differences that prevent creating the files again: nothing removes files that init
    /// did not create.
    pub in_the_way: usize,
}

/// Kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// File does not exist.
    Gone,
    /// File was not created by init.
    New,
    /// File has another type.
    OtherType,
    /// File has another length, in bytes.
    Length {
        /// Length that init has given the file.
        made: u64,
        /// Current length.
        there: u64,
    },
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("is gone"),
            Self::New => f.write_str("was not made by init"),
            Self::OtherType => f.write_str("is of another type"),
            Self::Length { made, there } => write!(f, "has {there} bytes and was made with {made}"),
        }
    }
}

impl fmt::Display for ChangedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.first.display(), self.how)?;
        match self.count - 1 {
            0 => Ok(()),
            others => write!(f, ", and {others} more are not as they were made"),
        }
    }
}

/// Type and length of a file.
#[derive(Clone, Copy, Debug)]
struct EntryFacts {
    /// `None`: a type that replays do not create.
    kind: Option<FileKind>,
    /// Length; 0 for directories.
    bytes: u64,
}

/// Compares everything below the root of a replay with the plan; `None`: the files are as
/// [`super::init::init`] has created them.
///
/// # Errors
///
/// A directory cannot be read.
pub fn changed(root: &Path, before: &[FileBefore]) -> io::Result<Option<ChangedFile>> {
    let facts = |kind: FileKind, bytes: u64| EntryFacts { kind: Some(kind), bytes };
    let files = before.iter().map(|it| (it.path.clone(), facts(it.kind, length(it, before))));
    let others = more(before).into_iter().map(|it| (it, facts(FileKind::Directory, 0)));
    let made: BTreeMap<Vec<u8>, EntryFacts> = files.chain(others).collect();
    let there = there(root)?;
    let gone = made.keys().filter(|it| !there.contains_key(*it)).map(|it| (it, FileChange::Gone));
    let other = there.iter().filter_map(|(path, is)| Some((path, how(made.get(path), *is)?)));
    let mut all: Vec<(&Vec<u8>, FileChange)> = gone.chain(other).collect();
    all.sort_by_key(|it| it.0);
    let Some((path, how)) = all.first() else { return Ok(None) };
    let first = PathBuf::from(std::ffi::OsString::from_vec((*path).clone()));
    let is_in_the_way =
        |it: &&(&Vec<u8>, FileChange)| matches!(it.1, FileChange::New | FileChange::OtherType);
    let in_the_way = all.iter().filter(is_in_the_way).count();
    Ok(Some(ChangedFile { first, how: *how, count: all.len(), in_the_way }))
}

fn how(made: Option<&EntryFacts>, found: EntryFacts) -> Option<FileChange> {
    match made {
        None => Some(FileChange::New),
        Some(made) if made.kind != found.kind => Some(FileChange::OtherType),
        Some(made) if made.bytes != found.bytes => {
            Some(FileChange::Length { made: made.bytes, there: found.bytes })
        }
        Some(_) => None,
    }
}

/// Bytes of a path, with its final NUL, that a call takes.
const PATH_MAX: usize = 4096;

fn there(root: &Path) -> io::Result<BTreeMap<Vec<u8>, EntryFacts>> {
    let mut all = BTreeMap::new();
    for it in walk(&File::open(root)?, MountPolicy::Entered)? {
        let below = it.path.strip_prefix(b"/").unwrap_or(&it.path);
        let found = match it.kind {
            FileKind::Directory => EntryFacts { kind: Some(FileKind::Directory), bytes: 0 },
            // Too long for a system call, so no call has created it by this path.
            _ if below.len() >= PATH_MAX => EntryFacts { kind: Some(it.kind), bytes: 0 },
            FileKind::File | FileKind::Link => {
                let metadata = root.join(OsStr::from_bytes(below)).symlink_metadata()?;
                // An entry that is neither a link nor a directory may be a pipe.
                let is_known = metadata.is_file() || metadata.is_symlink();
                EntryFacts { kind: Some(it.kind).filter(|_| is_known), bytes: metadata.len() }
            }
        };
        all.insert(it.path, found);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn before(path: &str, kind: FileKind, size: u64) -> FileBefore {
        FileBefore { size, ..FileBefore::new(path.as_bytes(), kind) }
    }

    /// Fails if a difference from what init creates is not found, or one is reported where there is
    /// none.
    #[track_caller]
    fn check(change: impl Fn(&Path), expected: Option<(&str, FileChange, [usize; 2])>) {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let mut all = [
            before("/d", FileKind::Directory, 0),
            before("/d/f", FileKind::File, 23),
            before("/d/l", FileKind::Link, 7),
            before("/e", FileKind::Directory, 0),
            before("/g", FileKind::File, 0),
        ];
        all[3].has_more = true;
        // A second name, with another length in the plan.
        all[4].same_as = Some(1);
        fs::create_dir_all(root.join("e/more-0")).expect("space");
        fs::create_dir(root.join("d")).expect("space");
        fs::write(root.join("d/f"), [7; 23]).expect("space");
        fs::hard_link(root.join("d/f"), root.join("g")).expect("space");
        symlink("./././.", root.join("d/l")).expect("space");
        change(root);
        let expected = expected.map(|(path, how, [count, in_the_way])| {
            let first = PathBuf::from(path);
            ChangedFile { first, how, count, in_the_way }
        });
        assert_eq!(changed(root, &all).expect("readable"), expected);
    }

    #[test]
    fn unchanged_files_pass_the_check() {
        check(|_| (), None);
    }

    #[test]
    fn other_names_are_found() {
        let new = |root: &Path| fs::write(root.join("d/a"), "").expect("space");
        check(new, Some(("/d/a", FileChange::New, [1, 1])));
        let gone = |root: &Path| fs::remove_file(root.join("d/f")).expect("there");
        check(gone, Some(("/d/f", FileChange::Gone, [1, 0])));
        let moved = |root: &Path| fs::rename(root.join("g"), root.join("c")).expect("there");
        check(moved, Some(("/c", FileChange::New, [2, 1])));
    }

    #[test]
    fn other_types_are_found() {
        let link = |root: &Path| {
            fs::remove_file(root.join("d/f")).expect("there");
            symlink("x".repeat(23), root.join("d/f")).expect("space");
        };
        check(link, Some(("/d/f", FileChange::OtherType, [1, 1])));
        let socket = |root: &Path| {
            fs::remove_file(root.join("g")).expect("there");
            std::os::unix::net::UnixListener::bind(root.join("g")).expect("space");
        };
        check(socket, Some(("/g", FileChange::OtherType, [1, 1])));
    }

    #[test]
    fn other_lengths_are_found() {
        let longer = |root: &Path| fs::write(root.join("d/f"), [7; 24]).expect("space");
        check(longer, Some(("/d/f", FileChange::Length { made: 23, there: 24 }, [2, 0])));
        let link = |root: &Path| {
            fs::remove_file(root.join("d/l")).expect("there");
            symlink("./f", root.join("d/l")).expect("space");
        };
        check(link, Some(("/d/l", FileChange::Length { made: 7, there: 3 }, [1, 0])));
    }

    #[test]
    fn first_difference_and_their_number_are_reported() {
        let mut changed =
            ChangedFile { first: "/d/f".into(), how: FileChange::Gone, count: 1, in_the_way: 0 };
        assert_eq!(changed.to_string(), "/d/f is gone");
        changed.how = FileChange::Length { made: 23, there: 24 };
        changed.count = 3;
        let expected =
            "/d/f has 24 bytes and was made with 23, and 2 more are not as they were made";
        assert_eq!(changed.to_string(), expected);
    }
}
