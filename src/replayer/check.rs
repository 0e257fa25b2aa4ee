//! Whether what is there is what init has made: names, types and lengths.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::init::{length, more};
use super::walk::{Mounts, walk};
use crate::replay::plan_file::{FileBefore, FileKind};

/// What is no longer as init has left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The first one's path, from the root of the replay.
    pub first: PathBuf,
    /// What became of it.
    pub how: How,
    /// How many there are.
    pub count: usize,
    /// How many of them are in the way of making the files again: nothing removes what was not made.
    pub in_the_way: usize,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is not there.
    Gone,
    /// Init has not made it.
    New,
    /// It is of another type.
    OtherType,
    /// It has another length, in bytes.
    Length {
        /// As it was made.
        made: u64,
        /// As it is.
        there: u64,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("is gone"),
            Self::New => f.write_str("was not made by init"),
            Self::OtherType => f.write_str("is of another type"),
            Self::Length { made, there } => write!(f, "has {there} bytes and was made with {made}"),
        }
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.first.display(), self.how)?;
        match self.count - 1 {
            0 => Ok(()),
            others => write!(f, ", and {others} more are not as they were made"),
        }
    }
}

/// A file: its type, `None` if replays have none of this type, and its bytes; of a directory 0.
type Seen = (Option<FileKind>, u64);

/// Looks at all that is below the root of a replay; `None`: it is as [`super::init::init`] has left it.
///
/// # Errors
///
/// A directory cannot be read.
pub fn changed(root: &Path, before: &[FileBefore]) -> io::Result<Option<Changed>> {
    let files = before.iter().map(|it| (it.path.clone(), (Some(it.kind), length(it, before))));
    let others = more(before).into_iter().map(|it| (it, (Some(FileKind::Directory), 0)));
    let made: BTreeMap<Vec<u8>, Seen> = files.chain(others).collect();
    let there = there(root)?;
    let gone = made.keys().filter(|it| !there.contains_key(*it)).map(|it| (it, How::Gone));
    let other = there.iter().filter_map(|(path, is)| Some((path, how(made.get(path), *is)?)));
    let mut all: Vec<(&Vec<u8>, How)> = gone.chain(other).collect();
    all.sort_by_key(|it| it.0);
    let Some((path, how)) = all.first() else { return Ok(None) };
    let first = PathBuf::from(std::ffi::OsString::from_vec((*path).clone()));
    let is_in_the_way = |it: &&(&Vec<u8>, How)| matches!(it.1, How::New | How::OtherType);
    let in_the_way = all.iter().filter(is_in_the_way).count();
    Ok(Some(Changed { first, how: *how, count: all.len(), in_the_way }))
}

fn how(made: Option<&Seen>, (is, bytes): Seen) -> Option<How> {
    match made {
        None => Some(How::New),
        Some((kind, _)) if *kind != is => Some(How::OtherType),
        Some((_, made)) if *made != bytes => Some(How::Length { made: *made, there: bytes }),
        Some(_) => None,
    }
}

/// Bytes of a path, with the NUL behind it, that a call takes.
const PATH_MAX: usize = 4096;

fn there(root: &Path) -> io::Result<BTreeMap<Vec<u8>, Seen>> {
    let mut all = BTreeMap::new();
    for it in walk(&File::open(root)?, Mounts::Entered)? {
        let below = it.path.strip_prefix(b"/").unwrap_or(&it.path);
        let seen = match it.kind {
            FileKind::Directory => (Some(FileKind::Directory), 0),
            // Nobody has made it by its name.
            _ if below.len() >= PATH_MAX => (Some(it.kind), 0),
            FileKind::File | FileKind::Link => {
                let metadata = root.join(OsStr::from_bytes(below)).symlink_metadata()?;
                // What is no link and no directory may be a pipe.
                let is_known = metadata.is_file() || metadata.is_symlink();
                (Some(it.kind).filter(|_| is_known), metadata.len())
            }
        };
        all.insert(it.path, seen);
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

    /// Fails if something that init would not have left is taken for what it has made.
    #[track_caller]
    fn check(change: impl Fn(&Path), expected: Option<(&str, How, [usize; 2])>) {
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
        // A second name, of which another length is told.
        all[4].same_as = Some(1);
        fs::create_dir_all(root.join("e/more-0")).expect("space");
        fs::create_dir(root.join("d")).expect("space");
        fs::write(root.join("d/f"), [7; 23]).expect("space");
        fs::hard_link(root.join("d/f"), root.join("g")).expect("space");
        symlink("./././.", root.join("d/l")).expect("space");
        change(root);
        let expected = expected.map(|(path, how, [count, in_the_way])| {
            let first = PathBuf::from(path);
            Changed { first, how, count, in_the_way }
        });
        assert_eq!(changed(root, &all).expect("readable"), expected);
    }

    #[test]
    fn what_init_leaves_is_as_it_was_made() {
        check(|_| (), None);
    }

    #[test]
    fn other_names_are_found() {
        let new = |root: &Path| fs::write(root.join("d/a"), "").expect("space");
        check(new, Some(("/d/a", How::New, [1, 1])));
        let gone = |root: &Path| fs::remove_file(root.join("d/f")).expect("there");
        check(gone, Some(("/d/f", How::Gone, [1, 0])));
        let moved = |root: &Path| fs::rename(root.join("g"), root.join("c")).expect("there");
        check(moved, Some(("/c", How::New, [2, 1])));
    }

    #[test]
    fn other_types_are_found() {
        let link = |root: &Path| {
            fs::remove_file(root.join("d/f")).expect("there");
            symlink("x".repeat(23), root.join("d/f")).expect("space");
        };
        check(link, Some(("/d/f", How::OtherType, [1, 1])));
        let socket = |root: &Path| {
            fs::remove_file(root.join("g")).expect("there");
            std::os::unix::net::UnixListener::bind(root.join("g")).expect("space");
        };
        check(socket, Some(("/g", How::OtherType, [1, 1])));
    }

    #[test]
    fn other_lengths_are_found() {
        let longer = |root: &Path| fs::write(root.join("d/f"), [7; 24]).expect("space");
        check(longer, Some(("/d/f", How::Length { made: 23, there: 24 }, [2, 0])));
        let link = |root: &Path| {
            fs::remove_file(root.join("d/l")).expect("there");
            symlink("./f", root.join("d/l")).expect("space");
        };
        check(link, Some(("/d/l", How::Length { made: 7, there: 3 }, [1, 0])));
    }

    #[test]
    fn the_first_one_is_told_and_how_many() {
        let mut changed = Changed { first: "/d/f".into(), how: How::Gone, count: 1, in_the_way: 0 };
        assert_eq!(changed.to_string(), "/d/f is gone");
        changed.how = How::Length { made: 23, there: 24 };
        changed.count = 3;
        let expected =
            "/d/f has 24 bytes and was made with 23, and 2 more are not as they were made";
        assert_eq!(changed.to_string(), expected);
    }
}
