//! Whether a plan can be done to the captured files themselves. Nothing keeps it inside there, so before anything is done it is looked
//! whether its operations would meet with what they met with in the capture, or with other files.
//!
//! ```text
//!   files that were there      are there, of the same type, and as long; links lead where they led
//!   files that were open       are reached by their names, through no link
//!   what was not there         is not there: names that operations make where nothing may be, or do not find
//!   what is changed            is behind no link of which the capture knows nothing, whatever was put in its place by then
//! ```
//!
//! What is not known is not asked for: what files contain, and what an open that may make a file or a rename found at its name.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use super::init::length;
use crate::replay::initially_absent::{Absent, AbsentError, Change, above, absent};
use crate::replay::plan_file::{FileBefore, FileKind, Index, PlanReader};

/// Names that are not as they were before the first operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otherwise {
    /// The first one's path.
    pub first: PathBuf,
    /// What is wrong with it.
    pub why: &'static str,
    /// How many there are.
    pub count: usize,
}

impl fmt::Display for Otherwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, why, count } = self;
        write!(
            f,
            "{count} names are not as they were before the capture ({} {why})",
            first.display()
        )
    }
}

const NEW_LINK: &str = "is a symbolic link, of which the capture knows nothing, and what is behind it would be changed";

/// Looks at all that the capture shows of the start, from the root that we have. Other files may be there, too, and files may be longer: not
/// all of them that is needed was seen.
///
/// # Errors
///
/// The plan is damaged, or has too many names.
pub fn otherwise(
    reader: &PlanReader,
    index: &Index,
    before: &[FileBefore],
) -> Result<Option<Otherwise>, AbsentError> {
    let mut wrong: Vec<(Vec<u8>, &'static str)> = before
        .iter()
        .filter_map(|it| Some((it.path.clone(), of_file(it, before)?)))
        .chain(index.given.iter().filter_map(|it| Some((it.path.clone(), of_given(&it.path)?))))
        .collect();
    // Names that changes go through.
    let mut passed: FxHashSet<Vec<u8>> = FxHashSet::default();
    let mut parents = FxHashMap::default();
    let mut place = |path: &[u8]| place(path, &mut parents);
    let there: FxHashSet<Vec<u8>> = before.iter().map(|it| place(&it.path)).collect();
    let absent = absent(reader, index, &mut place, &mut |Change { path, follows }| {
        for it in above(path).chain(follows.then_some(path)) {
            if !passed.contains(it) {
                passed.insert(it.to_vec());
            }
        }
    })?;
    // Of what the capture has found there it has seen more than that it was gone later.
    let absent = absent.into_iter().filter(|it| !there.contains(&it.path) && is_there(it));
    let new: FxHashSet<Vec<u8>> = absent.map(|it| it.path).collect();
    let links = before.iter().filter(|it| it.kind == FileKind::Link);
    let links: FxHashSet<Vec<u8>> = links.map(|it| place(&it.path)).collect();
    let is_known = |it: &Vec<u8>| new.contains(it) || links.contains(it);
    let links = passed.into_iter().filter(|it| is_link(it) && !is_known(&place(it)));
    wrong.extend(links.map(|it| (it, NEW_LINK)));
    wrong.extend(new.into_iter().map(|it| (it, "is there, and was not")));
    wrong.sort_unstable();
    let count = wrong.len();
    let first = wrong.into_iter().next();
    Ok(first.map(|(path, why)| Otherwise { first: as_path(&path).to_owned(), why, count }))
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// What is wrong with something that has to be there.
fn of_file(it: &FileBefore, before: &[FileBefore]) -> Option<&'static str> {
    let path = as_path(&it.path);
    // A directory may have been a link all along: its name is the one by which it was reached.
    let found = match it.kind {
        FileKind::Link => path.symlink_metadata(),
        FileKind::Directory | FileKind::File => path.metadata(),
    };
    match (found, it.kind) {
        (Err(_), _) => Some("is not there"),
        (Ok(is), FileKind::Directory) => (!is.is_dir()).then_some("is no directory"),
        (Ok(is), FileKind::Link) if !is.is_symlink() => Some("is no symbolic link"),
        (Ok(_), FileKind::Link) => of_link(it, path),
        (Ok(is), FileKind::File) if !is.is_file() => Some("is no regular file"),
        (Ok(is), FileKind::File) => {
            (is.len() < length(it, before)).then_some("is shorter than it was")
        }
    }
}

/// The same of a link: nobody has read what it contained, but where it led may be known, or how long it was.
fn of_link(it: &FileBefore, path: &Path) -> Option<&'static str> {
    let Ok(text) = fs::read_link(path) else { return Some("cannot be read") };
    let leads_to = |text: &OsStr| end(&path.parent().unwrap_or(Path::new("/")).join(text));
    match &it.text {
        Some(captured) => {
            let captured = leads_to(OsStr::from_bytes(captured));
            (leads_to(text.as_os_str()) != captured).then_some("leads elsewhere than it did")
        }
        None => {
            let is_known = it.size > 0 && it.size != text.as_os_str().len() as u64;
            is_known.then_some("is a symbolic link of another length")
        }
    }
}

/// Where a path leads, also if nothing is there yet.
fn end(path: &Path) -> PathBuf {
    let parts = || Some((fs::canonicalize(path.parent()?).ok()?, path.file_name()?));
    fs::canonicalize(path)
        .ok()
        .or_else(|| parts().map(|(parent, name)| parent.join(name)))
        .unwrap_or_else(|| path.to_owned())
}

/// What is wrong with something that was open: its name is the kernel's own, which has no links. One that is gone is told by the run.
fn of_given(path: &[u8]) -> Option<&'static str> {
    let path = as_path(path);
    let is_same = fs::canonicalize(path).map_or(true, |it| it == path);
    (!is_same).then_some("is, or is reached through, a symbolic link, and was not")
}

fn is_link(path: &[u8]) -> bool {
    as_path(path).symlink_metadata().is_ok_and(|it| it.is_symlink())
}

/// The same path from the root without links on its way, as these lead now.
fn place(path: &[u8], parents: &mut FxHashMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let slash = path.iter().rposition(|it| *it == b'/').unwrap_or(0);
    let (parent, name) = path.split_at(slash);
    if let Some(it) = parents.get(parent) {
        return [it, name].concat();
    }
    let found = fs::canonicalize(as_path(if parent.is_empty() { b"/" } else { parent }));
    let found = found.map_or_else(|_| parent.to_vec(), |it| it.as_os_str().as_bytes().to_vec());
    let found = found.strip_suffix(b"/").unwrap_or(&found).to_vec();
    let whole = [&found[..], name].concat();
    parents.insert(parent.to_vec(), found);
    whole
}

/// True if it, or what it leads to, is there; also if nobody lets us look.
fn is_there(it: &Absent) -> bool {
    let path = as_path(&it.path);
    let found = if it.is_free { path.symlink_metadata() } else { path.metadata() };
    let is_missing = |it: &io::Error| {
        matches!(it.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    found.as_ref().err().is_none_or(|it| !is_missing(it))
}
