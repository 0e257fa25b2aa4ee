//! Bases of relative paths: directories whose names may lead through directories that are gone.
//!
//! ```text
//!   chdir d; chdir ..; rmdir d       the working directory is known as /top/d/..
//!   rmdir c                          /top/d/../c leads through d, which is gone; the kernel began
//!                                    at /top
//! ```
//!
//! Paths as programs spelled them keep their `..`: a call is refused if a directory before a `..`
//! is missing.

use super::Planner;
use crate::operation::model::{FilePath, OpenFile, PathArgument};
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replay_paths::of_given;
use crate::replay::plan::replayability::SkipReason;

impl<O: PlanOutput> Planner<O> {
    /// Returns the path that a call was given, from the root.
    ///
    /// # Errors
    ///
    /// Reason why the path is unknown.
    pub(super) fn given_path(&mut self, given: &PathArgument) -> Result<Vec<u8>, SkipReason> {
        let Some((base, spelled)) = parts(given).filter(|(base, _)| has_parent(base)) else {
            return of_given(given);
        };
        let absolute = self.collapsed(base).map(|base| [base.as_slice(), spelled].concat());
        of_given(&PathArgument { path: given.path.clone(), absolute })
    }

    /// Returns the name of an open file. A name as the program spelled it may lead through a
    /// directory that is gone; then the place to which it led is returned.
    pub(super) fn without_gone(&mut self, file: &OpenFile, path: Vec<u8>) -> Vec<u8> {
        let is_resolved = file.path.as_ref().is_some_and(FilePath::is_resolved);
        if is_resolved || !has_parent(&path) || !self.leads_through_gone(&path) {
            return path;
        }
        self.collapsed(&path).unwrap_or(path)
    }

    /// Returns true if a directory before a `..` of the path is gone.
    fn leads_through_gone(&mut self, path: &[u8]) -> bool {
        let mut end = 0;
        for part in path.split(|byte| *byte == b'/') {
            let before = path.get(..end).filter(|_| part == b"..");
            let node = before.and_then(|before| self.world.find(before));
            if node.is_some_and(|node| self.world.is_absent(node)) {
                return true;
            }
            end += part.len() + 1;
        }
        false
    }

    /// Returns the path without `..`; `None`: the path does not begin at the root, or the place to
    /// which it leads is no longer known.
    fn collapsed(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let mut links = Vec::new();
        let node = self.world.reach(path, true, &mut links)?;
        if links.is_empty() { Some(without_parents(path)) } else { self.world.path_now(node) }
    }
}

/// Splits a path into the directory at which it began, and the rest.
fn parts(given: &PathArgument) -> Option<(&[u8], &[u8])> {
    let names = given.path.bytes.split(|byte| *byte == b'/');
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    let bytes: usize = names.map(|name| name.len() + 1).sum();
    let absolute = given.absolute.as_deref()?;
    absolute.split_at_checked(absolute.len().checked_sub(bytes)?)
}

fn has_parent(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == b"..")
}

/// Removes `.` and `..`, as if no name on the way were a link.
fn without_parents(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.iter().flat_map(|name| [b"/", *name].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::PathSource;

    #[test]
    fn spelled_path_is_not_the_base() {
        let check = |spelled: &str, absolute: &str, expected: [&str; 2]| {
            let path = FilePath::new(spelled, PathSource::Kernel);
            let given = PathArgument { path, absolute: Some(absolute.into()) };
            let (base, rest) = parts(&given).expect("both");
            assert_eq!([base, rest].map(String::from_utf8_lossy), expected);
        };
        check("../x", "/a/b/../../x", ["/a/b/..", "/../x"]);
        check("./x//y/.", "/a/../x/y", ["/a/..", "/x/y"]);
        check(".", "/a/..", ["/a/..", ""]);
        check("/x", "/x", ["", "/x"]);
    }

    #[test]
    fn parents_of_the_root_are_the_root() {
        let without =
            |path: &str| String::from_utf8(without_parents(path.as_bytes())).expect("text");
        assert_eq!(without("/a/b/../../c/."), "/c");
        assert_eq!(without("/../a/.."), "");
    }
}
