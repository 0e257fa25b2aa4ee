//! Precondition of a replay on the captured files themselves: operations must meet the same files
//! as in the capture.
//!
//! No sandbox confines such a replay, so the check precedes the first operation.
//!
//! ```text
//!   initial files              exist, with the same type and at least the same length;
//!                              links lead where they led
//!   initially open files       are reached by their names, through no link
//!   initially absent names     do not exist: names that operations create exclusively,
//!                              or do not find
//!   modified files             are reached through no link that the capture does not contain,
//!                              whatever is put in its place by then
//! ```
//!
//! Unknown facts are not checked: contents of files, and whether a name existed before a rename or
//! an open that may create a file.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use super::init::length;
use crate::replay::plan::initially_absent::{Absent, AbsentError, PathChange, above, absent};
use crate::replay::plan::plan_file::{FileBefore, FileKind, Index, PlanReader};

/// Names that are not as they were before the first operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreconditionMismatch {
    /// Path of the first name.
    pub first: PathBuf,
    /// Difference of that name.
    pub why: &'static str,
    /// Number of these names.
    pub count: usize,
}

impl fmt::Display for PreconditionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, why, count } = self;
        write!(
            f,
            "{count} names are not as they were before the capture ({} {why})",
            first.display()
        )
    }
}

const NEW_LINK: &str =
    "is a symbolic link that is not in the capture, and what it leads to would be changed";

/// Compares the capture's initial state with the files below the current root. Further files may
/// exist, and files may be longer: the capture does not show the whole initial state.
///
/// # Errors
///
/// The plan is damaged, or has too many names.
pub fn find_mismatch(
    reader: &PlanReader,
    index: &Index,
    before: &[FileBefore],
) -> Result<Option<PreconditionMismatch>, AbsentError> {
    let mut wrong: Vec<(Vec<u8>, &'static str)> = before
        .iter()
        .filter_map(|it| Some((it.path.clone(), of_file(it, before)?)))
        .chain(index.given.iter().filter_map(|it| Some((it.path.clone(), of_given(&it.path)?))))
        .collect();
    // Names on the way to modified files.
    let mut passed: FxHashSet<Vec<u8>> = FxHashSet::default();
    let mut parents = FxHashMap::default();
    let mut place = |path: &[u8]| place(path, &mut parents);
    let there: FxHashSet<Vec<u8>> = before.iter().map(|it| place(&it.path)).collect();
    let absent = absent(reader, index, &mut place, &mut |PathChange { path, follows }| {
        for it in above(path).chain(follows.then_some(path)) {
            if !passed.contains(it) {
                passed.insert(it.to_vec());
            }
        }
    })?;
    // A name that the capture has found existing is not absent, although a later operation did not
    // find it.
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
    Ok(first.map(|(path, why)| PreconditionMismatch {
        first: as_path(&path).to_owned(),
        why,
        count,
    }))
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Returns the difference of an initial file.
fn of_file(initial: &FileBefore, before: &[FileBefore]) -> Option<&'static str> {
    let path = as_path(&initial.path);
    // A directory may have been a link all along: its name is the one by which it was reached.
    let found = match initial.kind {
        FileKind::Link => path.symlink_metadata(),
        FileKind::Directory | FileKind::File => path.metadata(),
    };
    match (found, initial.kind) {
        (Err(_), _) => Some("is not there"),
        (Ok(is), FileKind::Directory) => (!is.is_dir()).then_some("is not a directory"),
        (Ok(is), FileKind::Link) if !is.is_symlink() => Some("is not a symbolic link"),
        (Ok(_), FileKind::Link) => of_link(initial, path),
        (Ok(is), FileKind::File) if !is.is_file() => Some("is not a regular file"),
        (Ok(is), FileKind::File) => {
            (is.len() < length(initial, before)).then_some("is shorter than it was")
        }
    }
}

/// Returns the difference of a link. The capture does not contain its text, but may show where it
/// led, or its length.
fn of_link(initial: &FileBefore, path: &Path) -> Option<&'static str> {
    let Ok(text) = fs::read_link(path) else { return Some("cannot be read") };
    let leads_to = |text: &OsStr| end(&path.parent().unwrap_or(Path::new("/")).join(text));
    match &initial.text {
        Some(captured) => {
            let captured = leads_to(OsStr::from_bytes(captured));
            (leads_to(text.as_os_str()) != captured).then_some("leads elsewhere than it did")
        }
        None => {
            let is_known = initial.size > 0 && initial.size != text.as_os_str().len() as u64;
            is_known.then_some("is a symbolic link of another length")
        }
    }
}

/// Resolves a path whose last name need not exist.
fn end(path: &Path) -> PathBuf {
    let parts = || Some((fs::canonicalize(path.parent()?).ok()?, path.file_name()?));
    fs::canonicalize(path)
        .ok()
        .or_else(|| parts().map(|(parent, name)| parent.join(name)))
        .unwrap_or_else(|| path.to_owned())
}

/// Returns the difference of an initially open file. Its name is the kernel's own, which contains
/// no links. A missing file is reported by the run.
fn of_given(path: &[u8]) -> Option<&'static str> {
    let path = as_path(path);
    let is_same = fs::canonicalize(path).map_or(true, |it| it == path);
    (!is_same).then_some("is, or is reached through, a symbolic link, and was not")
}

fn is_link(path: &[u8]) -> bool {
    as_path(path).symlink_metadata().is_ok_and(|it| it.is_symlink())
}

/// Resolves the links in the directory part of a path, as they lead now.
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

/// Returns true if the name, or the file that it leads to, exists; also if the check is not
/// permitted.
fn is_there(absent: &Absent) -> bool {
    let path = as_path(&absent.path);
    let found = if absent.is_free { path.symlink_metadata() } else { path.metadata() };
    let is_missing = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    found.as_ref().err().is_none_or(|error| !is_missing(error.kind()))
}
