//! Where relative paths begin: a directory whose name may have led through others that are gone.
//!
//! ```text
//!   chdir d; chdir ..; rmdir d       the working directory is known as /top/d/..
//!   rmdir c                          /top/d/../c leads through what is gone; the kernel began at /top
//! ```
//!
//! What a program spelled keeps its `..`: a call is refused if what they stand in is not there.

use super::{Out, Planner};
use crate::operation::model::{FilePath, Given, OpenFile};
use crate::replay::replay_paths::of_given;
use crate::replay::replayability::SkipReason;

impl<O: Out> Planner<O> {
    /// The path that a call was given, from the root.
    ///
    /// # Errors
    ///
    /// Why it leads nowhere.
    pub(super) fn given_path(&mut self, given: &Given) -> Result<Vec<u8>, SkipReason> {
        let Some((base, spelled)) = parts(given).filter(|it| has_parent(it.0)) else {
            return of_given(given);
        };
        let absolute = self.collapsed(base).map(|it| [it.as_slice(), spelled].concat());
        of_given(&Given { path: given.path.clone(), absolute })
    }

    /// The name of an open file: if it is what the program spelled and leads through what is gone, where that led to.
    pub(super) fn without_gone(&mut self, file: &OpenFile, path: Vec<u8>) -> Vec<u8> {
        let is_resolved = file.path.as_ref().is_some_and(FilePath::is_resolved);
        if is_resolved || !has_parent(&path) || !self.leads_through_gone(&path) {
            return path;
        }
        self.collapsed(&path).unwrap_or(path)
    }

    /// True if nothing is there any more where a `..` of it stands.
    fn leads_through_gone(&mut self, path: &[u8]) -> bool {
        let mut behind = 0;
        for part in path.split(|it| *it == b'/') {
            let before = path.get(..behind).filter(|_| part == b"..");
            let node = before.and_then(|it| self.world.find(it));
            if node.is_some_and(|it| self.world.is_absent(it)) {
                return true;
            }
            behind += part.len() + 1;
        }
        false
    }

    /// The path without `..`; `None`: it does not begin at the root, or where it leads is not known any more.
    fn collapsed(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let mut links = Vec::new();
        let node = self.world.reach(path, true, &mut links)?;
        if links.is_empty() { Some(without_parents(path)) } else { self.world.path_now(node) }
    }
}

/// The directory at which a path began, and the rest of it.
fn parts(given: &Given) -> Option<(&[u8], &[u8])> {
    let names = given.path.bytes.split(|it| *it == b'/');
    let names = names.filter(|it| !it.is_empty() && *it != b".");
    let bytes: usize = names.map(|it| it.len() + 1).sum();
    let absolute = given.absolute.as_deref()?;
    absolute.split_at_checked(absolute.len().checked_sub(bytes)?)
}

fn has_parent(path: &[u8]) -> bool {
    path.split(|it| *it == b'/').any(|it| it == b"..")
}

/// As if no name on the way were a link.
fn without_parents(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for part in path.split(|it| *it == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.iter().flat_map(|it| [b"/", *it].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::PathSource;

    #[test]
    fn what_a_program_spelled_is_not_its_base() {
        let check = |spelled: &str, absolute: &str, expected: [&str; 2]| {
            let path = FilePath::new(spelled, PathSource::Kernel);
            let given = Given { path, absolute: Some(absolute.into()) };
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
        let without = |it: &str| String::from_utf8(without_parents(it.as_bytes())).expect("text");
        assert_eq!(without("/a/b/../../c/."), "/c");
        assert_eq!(without("/../a/.."), "");
    }
}
