//! Places of processes: the working directory and the root, at which their paths begin.
//!
//! Both come from the snapshot, are copied at a fork, and move with `chdir`, `fchdir` and `chroot`.
//! A place that is not certain makes the paths that begin there unknown, not wrong: a directory
//! that was removed, or one that another thread may have changed during the call. Paths are joined,
//! not resolved: `..` and symbolic links stay, because only the file system knows their targets.

use std::cell::RefCell;
use std::rc::Rc;

use super::file_names::{FileNames, NameChange, NamedPlace};
use super::model::MountNamespace;
use crate::event::syscall_table::CallClass;
use crate::naming::paths::{DELETED, has_part, is_below, last};
use crate::units::{KernelTime, Tid};

/// Place that several threads or processes share (`CLONE_FS`).
pub type SharedPlace = Rc<RefCell<FsContext>>;

/// Working directory and root, as absolute paths in the tracer's view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsContext {
    directory: Start,
    root: Start,
    /// Mount namespace of these paths.
    pub mounts: MountNamespace,
}

/// A directory at which paths begin, and the calls that change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Start {
    /// Path of the directory; `None`: not known.
    path: Option<Vec<u8>>,
    /// Threads inside a call that may change it.
    changing: Vec<Tid>,
    /// Time of its last change.
    changed: KernelTime,
}

/// Thread and begin of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallInterval {
    /// Thread that makes the call.
    pub by: Tid,
    /// Time of the entry.
    pub since: KernelTime,
}

/// Base of a relative path.
#[derive(Clone, Copy, Debug)]
pub enum Base<'a> {
    /// The working directory.
    Working,
    /// An open directory; `None`: its path is not known.
    Directory(Option<&'a [u8]>),
}

/// Longest path that the kernel accepts (`PATH_MAX`). Paths that are joined repeatedly from `sub`
/// and `..` get longer; they are then not known any more.
const PATH_BYTES_MAX: usize = 4096;

impl Start {
    fn set(&mut self, path: Option<Vec<u8>>, at: KernelTime) {
        self.path = path.filter(|it| it.len() <= PATH_BYTES_MAX && !it.ends_with(DELETED));
        self.changed = self.changed.max(at);
    }

    fn seen(&mut self, path: &[u8]) {
        if self.path.is_none() && !path.ends_with(DELETED) {
            self.path = Some(path.to_vec());
        }
    }

    /// Returns the path, if it was the same since the entry of the call: another thread may change
    /// it meanwhile.
    fn of(&self, call: CallInterval) -> Option<&[u8]> {
        let others = self.changing.iter().any(|it| *it != call.by);
        self.path.as_deref().filter(|_| !others && self.changed < call.since)
    }

    /// Handles a call of the thread whose end was not seen: it may have changed the directory.
    fn abandon(&mut self, by: Tid) {
        if self.changing.contains(&by) {
            self.changing.retain(|it| *it != by);
            self.path = None;
        }
    }

    fn copied_since(&self, since: KernelTime) -> Self {
        let is_certain = self.changing.is_empty() && self.changed < since;
        let path = self.path.clone().filter(|_| is_certain);
        Self { path, changing: Vec::new(), changed: self.changed }
    }
}

impl FsContext {
    fn starts(&mut self) -> [&mut Start; 2] {
        [&mut self.directory, &mut self.root]
    }

    /// Notes the working directory from a snapshot; a path from a call is newer.
    pub fn seen_directory(&mut self, path: &[u8]) {
        self.directory.seen(path);
    }

    /// Notes the root from a snapshot; a path from a call is newer.
    pub fn seen_root(&mut self, path: &[u8]) {
        self.root.seen(path);
    }

    /// Begins a call of a thread, which may change the place.
    pub fn begin_call(&mut self, class: CallClass, by: Tid) {
        self.abandon_change(by);
        match class {
            CallClass::Place => self.directory.changing.push(by),
            CallClass::Root => self.root.changing.push(by),
            _ => {}
        }
    }

    /// Ends that call, whether or not it has changed anything.
    pub fn end_change(&mut self, by: Tid) {
        self.starts().into_iter().for_each(|it| it.changing.retain(|it| *it != by));
    }

    /// Abandons the thread's call, whose end was not seen: the thread does something else.
    pub fn abandon_change(&mut self, by: Tid) {
        self.starts().into_iter().for_each(|it| it.abandon(by));
    }

    /// Sets the working directory (`chdir`, `fchdir`). If another thread does the same meanwhile,
    /// the order of the two is not known.
    pub fn enter(&mut self, directory: Option<Vec<u8>>, call: CallInterval, at: KernelTime) {
        enter(&mut self.directory, directory, call, at);
    }

    /// Sets the root, at which absolute paths begin (`chroot`).
    pub fn enter_root(&mut self, root: Option<Vec<u8>>, call: CallInterval, at: KernelTime) {
        enter(&mut self.root, root, call, at);
    }

    /// Returns a copy for another process or thread, made at some time from `since` on.
    pub fn copied_since(&self, since: KernelTime) -> Self {
        let [directory, root] = [&self.directory, &self.root].map(|it| it.copied_since(since));
        Self { directory, root, mounts: self.mounts }
    }

    /// Returns a copy that was made just now.
    pub fn copied(&self) -> Self {
        self.copied_since(KernelTime::MAX)
    }

    /// Handles a mount at a spot or its end (`None`: anywhere): a path through the spot leads to
    /// another file now.
    pub fn cover(&mut self, spot: Option<&NamedPlace>) {
        self.directory.path.take_if(|it| is_at(it, spot));
    }

    /// Handles a spot whose files are at another place now.
    pub fn displace(&mut self, spot: Option<&NamedPlace>) {
        for start in self.starts() {
            // The root of a namespace cannot be moved.
            start.path.take_if(|it| it.as_slice() != b"/" && is_at(it, spot));
        }
    }

    /// Forgets the working directory.
    pub fn lose_directory(&mut self) {
        self.directory.path = None;
    }

    /// Returns true if absolute paths lead to the same files as for the tracer.
    pub fn is_at_own_root(&self) -> bool {
        self.root.path.as_deref() == Some(b"/") && self.mounts.is(MountNamespace::OWN)
    }

    /// Forgets both directories: they were changed to unknown ones.
    pub fn lose(&mut self) {
        (self.directory.path, self.root.path) = (None, None);
    }

    /// Handles a rename or removal with unknown paths: directories that may be below it are not
    /// known any more.
    pub fn doubt(&mut self, may_be: impl Fn(&[u8]) -> bool) {
        for start in self.starts() {
            start.path.take_if(|it| it.as_slice() != b"/" && may_be(it));
        }
    }

    /// Follows a rename or removal of directories: the place may be below one of them. A directory
    /// that may or may not have been moved is not known any more.
    pub fn follow(&mut self, change: &NameChange, names: &FileNames, at: KernelTime) {
        let mounts = self.mounts;
        for start in self.starts() {
            let Some(old) = start.path.take() else { continue };
            let new = followed(old.clone(), mounts, change, names);
            match new {
                Some(new) if new == old => start.path = Some(old),
                new => start.set(new, at),
            }
        }
    }

    /// Returns the whole path for a path argument; `None` if its base is not known, or may have
    /// been changed meanwhile.
    pub fn absolute(&self, base: Base<'_>, path: &[u8], call: CallInterval) -> Option<Vec<u8>> {
        let base = match base {
            _ if path.starts_with(b"/") => self.root.of(call),
            Base::Working => self.directory.of(call),
            Base::Directory(path) => path,
        };
        Some(joined(base?, path))
    }
}

fn enter(start: &mut Start, path: Option<Vec<u8>>, call: CallInterval, at: KernelTime) {
    let others = start.changing.iter().any(|it| *it != call.by);
    let overlaps = others || start.changed >= call.since;
    start.set(path.filter(|_| !overlaps), at);
}

/// Returns true if the path is the spot, or below.
fn is_at(path: &[u8], spot: Option<&NamedPlace>) -> bool {
    spot.is_none_or(|spot| path == spot.path || is_below(path, &spot.path))
}

/// Returns the path of a directory after a change of names.
fn followed(
    path: Vec<u8>,
    mounts: MountNamespace,
    change: &NameChange,
    names: &FileNames,
) -> Option<Vec<u8>> {
    // Spot whose file is gone, or was replaced by another.
    let is_gone = |spot: &NamedPlace| match spot.sure && spot.mounts.is(mounts) {
        true => path == spot.path,
        false => last(&path) == last(&spot.path),
    };
    let (from, to, exchange) = match change {
        NameChange::Removed(spot) if is_gone(spot) => return None,
        NameChange::Removed(_) => return Some(path),
        NameChange::Renamed { from, to, exchange } => (from, to, exchange),
    };
    let moved = |from: &NamedPlace, to: &NamedPlace| {
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
    if let Some(there) = moved(from, to) {
        return there;
    }
    if !exchange && is_gone(to) {
        return None;
    }
    moved(to, from).filter(|_| *exchange).unwrap_or(Some(path))
}

/// Joins two paths, without empty parts and `.`.
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

    const CALL: CallInterval = CallInterval { by: Tid(1), since: KernelTime(10) };

    fn text(place: &FsContext, base: Base<'_>, path: &str) -> Option<String> {
        place
            .absolute(base, path.as_bytes(), CALL)
            .map(|it| String::from_utf8(it).expect("made of text"))
    }

    fn at_home() -> FsContext {
        let mut place = FsContext::default();
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
    fn relative_paths_begin_at_an_open_directory() {
        let place = at_home();
        assert_eq!(text(&place, Base::Directory(Some(b"/")), "a").as_deref(), Some("/a"));
        assert_eq!(text(&place, Base::Directory(None), "a"), None);
        assert_eq!(text(&place, Base::Directory(None), "/a").as_deref(), Some("/a"));
    }

    #[test]
    fn absolute_paths_begin_at_the_root() {
        let mut place = at_home();
        place.enter_root(Some(b"/srv/jail".to_vec()), CALL, KernelTime(5));
        assert_eq!(text(&place, Base::Working, "/a").as_deref(), Some("/srv/jail/a"));
        assert_eq!(text(&place, Base::Working, "a").as_deref(), Some("/data/here/a"));
        place.enter_root(None, CALL, KernelTime(5));
        assert_eq!(text(&place, Base::Working, "/a"), None);
    }

    #[test]
    fn calls_know_better_than_a_snapshot() {
        let mut place = FsContext::default();
        assert_eq!(text(&place, Base::Working, "a"), None);
        place.enter(Some(b"/tmp".to_vec()), CALL, KernelTime(5));
        place.seen_directory(b"/data/here");
        assert_eq!(text(&place, Base::Working, "a").as_deref(), Some("/tmp/a"));
        place.enter(None, CALL, KernelTime(5));
        assert_eq!(text(&place, Base::Working, "a"), None);
    }
}
