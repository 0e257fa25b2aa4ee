//! Mapping of captured directories to directories elsewhere (`--map`).

use thiserror::Error;

use crate::replay::plan::plan_file::{FileBefore, FileKind};

/// Reason why captured directories cannot be placed elsewhere.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MapError {
    /// Path is not absolute or not normalized.
    #[error(
        "--map {0}: a captured directory is an absolute path without . and .., and not the root; try: --map /data=/mnt/disk/replay"
    )]
    Captured(String),
    /// Directory has two places.
    #[error("--map {0}: the directory is given two places; leave out one of them")]
    Twice(String),
    /// Directory is not in the plan.
    #[error(
        "--map {0}: the plan has no such directory before its first operation; list its files: iotrace-perf replay plan LOG"
    )]
    NotInPlan(String),
    /// Names of one file would be in two file systems.
    #[error(
        "{0} and {1} are names of one file, and --map puts them into two file systems; map a directory that both are in"
    )]
    LinkAcross(String, String),
}

/// Captured directories that are placed elsewhere, upper ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMapping(Vec<Vec<u8>>);

impl PathMapping {
    /// Creates the mapping from paths as the user has typed them. Returns the index of each in
    /// `captured`.
    ///
    /// # Errors
    ///
    /// A path cannot be a captured directory.
    pub fn new(captured: &[Vec<u8>]) -> Result<(Self, Vec<usize>), MapError> {
        let mut all = Vec::new();
        for (number, given) in captured.iter().enumerate() {
            let end = given.iter().rposition(|it| *it != b'/').map_or(0, |it| it + 1);
            let plain = &given[..end];
            let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
            let is_plain = plain
                .strip_prefix(b"/")
                .is_some_and(|names| names.split(|byte| *byte == b'/').all(is_name));
            if !is_plain || plain.contains(&0) {
                return Err(MapError::Captured(lossy(given)));
            }
            all.push((plain.to_vec(), number));
        }
        all.sort_unstable();
        if let Some(it) = all.windows(2).find(|it| it[0].0 == it[1].0) {
            return Err(MapError::Twice(lossy(&it[0].0)));
        }
        let (captured, numbers) = all.into_iter().unzip();
        Ok((Self(captured), numbers))
    }

    /// Returns the captured directories.
    pub fn captured(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Returns the mapped directory that a path is in (`None`: none), and the path relative to it.
    /// A mapped directory itself belongs to the one above it, as a mount point.
    pub fn owner<'a>(&self, path: &'a [u8]) -> (Option<usize>, &'a [u8]) {
        let below = |(number, directory): (usize, &Vec<u8>)| {
            let rest = path.strip_prefix(&directory[..])?;
            // `/database` is not in `/data`.
            (rest.len() > 1 && rest.starts_with(b"/")).then_some((Some(number), rest))
        };
        // Lower directories are last.
        self.0.iter().enumerate().rev().find_map(below).unwrap_or((None, path))
    }

    /// Returns true for the mapped directories and those above them: they exist before anything is
    /// mounted.
    pub fn is_on_the_way(&self, path: &[u8]) -> bool {
        let leads_to = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
        self.0.iter().any(|directory| directory.strip_prefix(path).is_some_and(leads_to))
    }

    /// Checks the mapping against the initial files.
    ///
    /// # Errors
    ///
    /// A mapped directory is not in the plan, or a file has names in two of them.
    pub fn check(&self, before: &[FileBefore]) -> Result<(), MapError> {
        let is_there = |path: &Vec<u8>| {
            before.iter().any(|it| it.kind == FileKind::Directory && it.path == *path)
        };
        if let Some(it) = self.0.iter().find(|it| !is_there(it)) {
            return Err(MapError::NotInPlan(lossy(it)));
        }
        for it in before {
            let first = it.same_as.and_then(|first| before.get(first as usize));
            if let Some(first) =
                first.filter(|first| self.owner(&first.path).0 != self.owner(&it.path).0)
            {
                return Err(MapError::LinkAcross(lossy(&first.path), lossy(&it.path)));
            }
        }
        Ok(())
    }
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(captured: &[&str]) -> Result<PathMapping, MapError> {
        let captured: Vec<_> = captured.iter().map(|it| it.as_bytes().to_vec()).collect();
        PathMapping::new(&captured).map(|it| it.0)
    }

    #[test]
    fn path_belongs_to_deepest_mapped_directory() {
        let maps = maps(&["/data/x/", "/data", "/database"]).expect("plain ones");
        let check = |path: &str, owner: Option<&str>, rest: &str| {
            let (number, found) = maps.owner(path.as_bytes());
            let name = number.map(|it| lossy(&maps.captured()[it]));
            assert_eq!((name.as_deref(), lossy(found).as_str()), (owner, rest), "{path}");
        };
        check("/data", None, "/data");
        check("/data/f", Some("/data"), "/f");
        check("/data/x", Some("/data"), "/x");
        check("/data/xy", Some("/data"), "/xy");
        check("/data/x/f", Some("/data/x"), "/f");
        check("/database/f", Some("/database"), "/f");
        check("/databases/f", None, "/databases/f");
        assert!(maps.is_on_the_way(b"/data") && maps.is_on_the_way(b"/data/x"));
        assert!(!maps.is_on_the_way(b"/dat") && !maps.is_on_the_way(b"/data/x/f"));
    }

    #[test]
    fn non_plain_directory_is_refused() {
        for wrong in ["", "/", "//", "data", "/data/../x", "/./data", "/a//b", "/a\0"] {
            assert!(maps(&[wrong]).is_err(), "{wrong:?}");
        }
        assert_eq!(maps(&["/a", "/b", "/a/"]), Err(MapError::Twice("/a".into())));
    }

    #[test]
    fn names_of_one_file_stay_together() {
        let before = |path: &str, kind, same_as| FileBefore {
            same_as,
            ..FileBefore::new(path.as_bytes(), kind)
        };
        let all = [
            before("/a", FileKind::Directory, None),
            before("/a/f", FileKind::File, None),
            before("/b", FileKind::Directory, None),
            before("/b/g", FileKind::File, Some(1)),
        ];
        let check = |captured: &[&str]| maps(captured).expect("plain ones").check(&all);
        assert_eq!(check(&["/a"]), Err(MapError::LinkAcross("/a/f".into(), "/b/g".into())));
        assert_eq!(check(&["/c"]), Err(MapError::NotInPlan("/c".into())));
        assert_eq!(check(&["/a/f"]), Err(MapError::NotInPlan("/a/f".into())));
        assert_eq!(check(&[]), Ok(()));
    }
}
