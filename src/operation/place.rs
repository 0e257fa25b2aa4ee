//! Where the paths of a process begin: its working directory and its root.
//!
//! Both come from the snapshot, are copied at a fork, and move with `chdir`, `fchdir` and `chroot`. What is not known for
//! certain makes the paths that begin there unknown, not wrong. Paths are put together, not resolved: `..` and symbolic
//! links stay, for what they lead to is the file system's to say.

use std::cell::RefCell;
use std::rc::Rc;

use super::file_names::{Change, FileNames, Spot, has_part, is_below};
use super::model::Mounts;

/// Where the paths of several threads or processes begin (`CLONE_FS`).
pub type SharedPlace = Rc<RefCell<Place>>;

/// Absolute paths, as the tracer sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    directory: Option<Vec<u8>>,
    root: Option<Vec<u8>>,
    /// What these paths lead to.
    pub mounts: Mounts,
}

/// What a relative path begins at.
#[derive(Clone, Copy, Debug)]
pub enum Base<'a> {
    /// The working directory.
    Working,
    /// A directory that is open; `None`: its path is not known.
    Directory(Option<&'a [u8]>),
}

/// The longest path that the kernel takes (`PATH_MAX`). What is put together from `sub` and `..` again and again gets longer:
/// then it is not known any more.
const PATH_BYTES_MAX: usize = 4096;

impl Place {
    /// A snapshot saw the working directory; what a call said is newer.
    pub fn seen_directory(&mut self, path: &[u8]) {
        self.directory.get_or_insert_with(|| path.to_vec());
    }

    /// A snapshot saw the root; what a call said is newer.
    pub fn seen_root(&mut self, path: &[u8]) {
        self.root.get_or_insert_with(|| path.to_vec());
    }

    /// `chdir`, `fchdir`: it is there now.
    pub fn enter(&mut self, directory: Option<Vec<u8>>) {
        self.directory = directory.filter(|it| it.len() <= PATH_BYTES_MAX);
    }

    /// Something was mounted there, or taken away (`None`: anywhere): a path through it leads to something else now.
    pub fn cover(&mut self, spot: Option<&Spot>) {
        let is_covered = |path: &Vec<u8>| {
            spot.is_none_or(|spot| *path == spot.path || is_below(path, &spot.path))
        };
        self.directory.take_if(|it| is_covered(it));
    }

    /// True if absolute paths lead to the same as for the tracer.
    pub fn is_at_own_root(&self) -> bool {
        self.root.as_deref() == Some(b"/") && self.mounts.is(Mounts::OWN)
    }

    /// Both lead elsewhere, and it is not known where.
    pub fn lose(&mut self) {
        (self.directory, self.root) = (None, None);
    }

    /// `chroot`: absolute paths begin there now.
    pub fn enter_root(&mut self, root: Option<Vec<u8>>) {
        self.root = root.filter(|it| it.len() <= PATH_BYTES_MAX);
    }

    /// Files have other names now: it may be below one of them. What may have been moved and is not known to have been
    /// is not known any more.
    pub fn follow(&mut self, change: &Change, names: &FileNames) {
        let mounts = self.mounts;
        for path in [&mut self.directory, &mut self.root] {
            if let Some(old) = path {
                *path = followed(std::mem::take(old), mounts, change, names);
            }
        }
    }

    /// The whole of a path; `None` if what it begins at is not known.
    pub fn absolute(&self, base: Base<'_>, path: &[u8]) -> Option<Vec<u8>> {
        let base = match base {
            _ if path.starts_with(b"/") => self.root.as_deref(),
            Base::Working => self.directory.as_deref(),
            Base::Directory(path) => path,
        };
        Some(joined(base?, path))
    }
}

/// Where a directory is after a change of names.
fn followed(path: Vec<u8>, mounts: Mounts, change: &Change, names: &FileNames) -> Option<Vec<u8>> {
    let Change::Renamed { from, to, exchange } = change else { return Some(path) };
    let moved = |from: &Spot, to: &Spot| {
        let rest = path.strip_prefix(from.path.as_slice())?;
        let is_it = rest.is_empty() || is_below(&path, &from.path);
        is_it.then(|| to.sure.then(|| [to.path.as_slice(), rest].concat()))
    };
    let all_sure = from.mounts.is(mounts) && from.sure && (to.sure || !exchange);
    let all_sure = all_sure && names.is_real(&path, mounts);
    if !all_sure && change.names().any(|it| has_part(&path, it)) {
        return None;
    }
    if !from.mounts.is(mounts) {
        return Some(path);
    }
    let there = moved(from, to);
    there.or_else(|| moved(to, from).filter(|_| *exchange)).unwrap_or(Some(path))
}

/// One behind the other, without empty parts and `.`.
fn joined(base: &[u8], path: &[u8]) -> Vec<u8> {
    let parts = path.split(|&it| it == b'/').filter(|it| !it.is_empty() && *it != b".");
    let mut whole = base.strip_suffix(b"/").unwrap_or(base).to_vec();
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(place: &Place, base: Base<'_>, path: &str) -> Option<String> {
        place.absolute(base, path.as_bytes()).map(|it| String::from_utf8(it).expect("made of text"))
    }

    fn at_home() -> Place {
        let mut place = Place::default();
        place.seen_directory(b"/data/here");
        place.seen_root(b"/");
        place
    }

    #[test]
    fn relative_paths_begin_at_the_working_directory() {
        let place = at_home();
        let whole = |path| text(&place, Base::Working, path).expect("known");
        assert_eq!(whole("a/b"), "/data/here/a/b");
        assert_eq!(whole("./a//b/."), "/data/here/a/b");
        assert_eq!(whole("../a"), "/data/here/../a");
        assert_eq!(whole(""), "/data/here");
        assert_eq!(whole("/etc/"), "/etc");
        assert_eq!(whole("/"), "/");
    }

    #[test]
    fn or_at_an_open_directory() {
        let place = at_home();
        assert_eq!(text(&place, Base::Directory(Some(b"/")), "a").as_deref(), Some("/a"));
        assert_eq!(text(&place, Base::Directory(None), "a"), None);
        assert_eq!(text(&place, Base::Directory(None), "/a").as_deref(), Some("/a"));
    }

    #[test]
    fn absolute_ones_begin_at_the_root() {
        let mut place = at_home();
        place.enter_root(Some(b"/srv/jail".to_vec()));
        assert_eq!(text(&place, Base::Working, "/a").as_deref(), Some("/srv/jail/a"));
        assert_eq!(text(&place, Base::Working, "a").as_deref(), Some("/data/here/a"));
        place.enter_root(None);
        assert_eq!(text(&place, Base::Working, "/a"), None);
    }

    #[test]
    fn calls_know_better_than_a_snapshot() {
        let mut place = Place::default();
        assert_eq!(text(&place, Base::Working, "a"), None);
        place.enter(Some(b"/tmp".to_vec()));
        place.seen_directory(b"/data/here");
        assert_eq!(text(&place, Base::Working, "a").as_deref(), Some("/tmp/a"));
        place.enter(None);
        assert_eq!(text(&place, Base::Working, "a"), None);
    }
}
