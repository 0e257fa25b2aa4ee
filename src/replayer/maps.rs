//! Which directory has what the capture had at a path, if some of its directories are elsewhere (`--map`).

use thiserror::Error;

use crate::replay::plan_file::{FileBefore, FileKind};

/// Why directories of a capture cannot be elsewhere.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MapError {
    /// No absolute path, or not a plain one.
    #[error(
        "--map {0}: a captured directory is an absolute path without . and .., and not the root; try: --map /data=/mnt/disk/replay"
    )]
    Captured(String),
    /// Two places.
    #[error("--map {0}: it has two places; leave out one of them")]
    Twice(String),
    /// Nothing to make there.
    #[error(
        "--map {0}: the plan has no such directory before its first operation; see what it has: iotrace-perf replay plan LOG"
    )]
    NotInPlan(String),
    /// No file has names in two file systems.
    #[error(
        "{0} and {1} are names of one file, and --map puts them into two file systems; map a directory that both are in"
    )]
    LinkAcross(String, String),
}

/// Captured directories that are elsewhere, those further up first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(Vec<Vec<u8>>);

impl Maps {
    /// Of paths as they were given; where each one of them stood.
    ///
    /// # Errors
    ///
    /// One of them cannot be a captured directory.
    pub fn new(captured: &[Vec<u8>]) -> Result<(Self, Vec<usize>), MapError> {
        let mut all = Vec::new();
        for (number, given) in captured.iter().enumerate() {
            let end = given.iter().rposition(|it| *it != b'/').map_or(0, |it| it + 1);
            let plain = &given[..end];
            let is_plain = plain.strip_prefix(b"/").is_some_and(|it| {
                it.split(|it| *it == b'/').all(|it| !matches!(it, b"" | b"." | b".."))
            });
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

    /// The captured directories.
    pub fn captured(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// In which of them a path is (`None`: in none), and the path from there. Each itself is in the one above it, as a mount point.
    pub fn owner<'a>(&self, path: &'a [u8]) -> (Option<usize>, &'a [u8]) {
        let below = |(number, directory): (usize, &Vec<u8>)| {
            let rest = path.strip_prefix(&directory[..])?;
            // `/database` is not in `/data`.
            (rest.len() > 1 && rest.starts_with(b"/")).then_some((Some(number), rest))
        };
        // Those further down stand behind.
        self.0.iter().enumerate().rev().find_map(below).unwrap_or((None, path))
    }

    /// True if one of them is this, or is in it: it is there before anything is mounted.
    pub fn is_on_the_way(&self, path: &[u8]) -> bool {
        self.0.iter().any(|it| {
            it.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// Fits it to what has to be there?
    ///
    /// # Errors
    ///
    /// It does not.
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

    fn maps(captured: &[&str]) -> Result<Maps, MapError> {
        let captured: Vec<_> = captured.iter().map(|it| it.as_bytes().to_vec()).collect();
        Maps::new(&captured).map(|it| it.0)
    }

    #[test]
    fn a_path_is_in_the_directory_furthest_down() {
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
    fn what_is_no_plain_directory_is_refused() {
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
