//! Symbolic links that a capture shows.
//!
//! ```text
//!   given    /a/l/t      the first name that differs leads to its counterpart, if the
//!                        rest is the same:
//!   opened   /a/d/t      /a/l is a link to /a/d
//!
//!   given    /lib/x/y
//!   opened   /usr/lib/x/y      /lib is a link to /usr/lib
//! ```
//!
//! A name that is known to be a directory is not a link: then the next name is one. Names that the
//! program has made, or has given to something, show nothing of the start, by whatever path they
//! were changed. Memory grows with directories, links and their targets, not with operations.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::{FxHashMap, FxHashSet};

use super::link_text::{names, text};
use super::symlink_map::SymlinkMap;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{MountNamespace, OpenFile, PathArgument, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::replay::plan::replay_paths::{is_kernels, is_short, of_file, of_given};
use crate::units::KernelTime;

/// Maximum number of links that lead through each other; targets of further ones stay unknown.
const ROUNDS_MAX: usize = 40;

/// Maximum number of opens that are kept for one link. Each is kept because the apparent link may
/// be a directory: then names of the opened paths are links. Further opens are only counted.
const ALIKE_MAX: usize = 1000;

/// Maximum number of changed names that are known; some 10 MiB. Beyond that the collection begins
/// anew: a link that the program has made may be taken for an initial one, until the second plan
/// reaches the operation that made it.
const CHANGED_MAX: usize = 1 << 16;

/// Collector of links that opens and `readlink` calls show.
#[derive(Debug, Default)]
pub struct SymlinkEvidence {
    /// Opens by the apparent link between their given path and the kernel's path, and its target.
    opened: BTreeMap<(Vec<u8>, Vec<u8>), LinkWitnesses>,
    /// Directories that the kernel has reported, except for those that the program has made.
    directories: FxHashSet<Box<[u8]>>,
    /// Text lengths of the paths that `readlink` was given.
    lengths: BTreeMap<Vec<u8>, usize>,
    /// Names that were made, given to something, or taken from it, as calls spelled them, with the
    /// number of the first observation of a change.
    changed: FxHashMap<Box<[u8]>, u64>,
    /// Number of observations so far.
    seen: u64,
}

/// Opens that have shown the same link.
#[derive(Debug, Default)]
struct LinkWitnesses {
    /// Rests of the paths after the link, each with the number of the first open.
    ends: BTreeMap<Vec<u8>, u64>,
    /// Number of opens that are not kept.
    more: u64,
}

/// Open by another path than the kernel's.
#[derive(Debug)]
struct ShownOpen {
    given: Vec<u8>,
    got: Vec<u8>,
    number: u64,
}

/// Targets of links.
type Targets = BTreeMap<Vec<u8>, Vec<u8>>;

/// Places with the number of the first observation of their change.
type FirstChanges = FxHashMap<Vec<u8>, u64>;

impl SymlinkEvidence {
    /// Returns the links whose targets are known.
    pub fn links(&self) -> SymlinkMap {
        let targets = self.targets();
        let lengths: BTreeMap<Vec<u8>, usize> =
            self.lengths.iter().map(|(path, bytes)| (itself(path, &targets), *bytes)).collect();
        let with_text = |(link, target): (&Vec<u8>, &Vec<u8>)| {
            let is_directory = self.directories.contains(&**target);
            (link.clone(), text(link, target, is_directory, lengths.get(link).copied()))
        };
        let is_none = |link: &[u8]| self.directories.contains(&*itself(link, &targets));
        let lost = self.opened.iter().filter(|((link, _), _)| is_none(link));
        let lost = lost.map(|(_, alike)| alike.more);
        SymlinkMap { unknown: lost.sum(), ..targets.iter().map(with_text).collect() }
    }

    fn targets(&self) -> Targets {
        let mut opens: Vec<ShownOpen> = self.opens().collect();
        opens.sort_by_key(|open| (names(&open.given).count(), open.number));
        let mut targets = Targets::new();
        for _ in 0..ROUNDS_MAX {
            let changed = self.changed_places(&targets);
            let next = self.targets_of(&opens, &changed);
            if next == targets {
                break;
            }
            targets = next;
        }
        targets
    }

    /// Returns the links that opens have shown, given the places that were changed.
    fn targets_of(&self, opens: &[ShownOpen], changed: &FirstChanges) -> Targets {
        let mut targets = Targets::new();
        for _ in 0..ROUNDS_MAX {
            let known = targets.len();
            for open in opens {
                targets.extend(self.between(open, &targets, changed));
            }
            if targets.len() == known {
                break;
            }
            // A link that was found by a path through another link has its name elsewhere.
            let all = targets.clone();
            targets.retain(|link, _| itself(link, &all) == *link);
        }
        targets
    }

    fn opens(&self) -> impl Iterator<Item = ShownOpen> {
        self.opened.iter().flat_map(|((link, target), alike)| {
            alike.ends.iter().map(move |(end, at)| {
                let target = target.strip_suffix(b"/").unwrap_or(target);
                let got = Some([target, end].concat()).filter(|path| !path.is_empty());
                let given = [&**link, end].concat();
                ShownOpen { given, got: got.unwrap_or_else(|| b"/".to_vec()), number: *at }
            })
        })
    }

    /// Returns the places that were changed, given the links.
    fn changed_places(&self, targets: &Targets) -> FirstChanges {
        let mut places = FirstChanges::default();
        for (path, at) in &self.changed {
            let first = places.entry(itself(path, targets)).or_insert(*at);
            *first = (*first).min(*at);
        }
        places
    }

    /// Returns the next unknown link on the way from the given path of an open to the kernel's
    /// path, and its target.
    fn between(
        &self,
        open: &ShownOpen,
        known: &Targets,
        changed: &FirstChanges,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let is_changed = |place: &[u8]| is_before(changed, place, open.number);
        let walked = through(&open.given, known, is_changed);
        if walked == open.got {
            return None;
        }
        let unchanged = prefixes(&walked).take_while(|prefix| !is_changed(prefix)).count();
        let mut places = places(&walked, &open.got).take_while(|place| place.0 < unchanged);
        let found = places.find(|(_, link, _)| !self.directories.contains(&**link));
        found.map(|(_, link, target)| (link, target))
    }

    /// Takes the next step of the capture.
    pub fn observe(&mut self, step: &Step<'_>) {
        if let Step::SyscallEnded(operation, _) = step {
            self.ended(operation);
        }
    }

    fn ended(&mut self, operation: &SyscallOperation) {
        let call = operation.call.call();
        let Some(ret) = operation.ret.and_then(|ret| usize::try_from(ret).ok()) else { return };
        let named = operation.named.as_deref();
        let whole = |given: Option<&PathArgument>| {
            let path = of_given(given?).ok()?;
            (is_plain(&path) && is_short(&path)).then_some(path)
        };
        match call.class {
            CallClass::Open => {
                if let Some(file) = &operation.file {
                    self.opened(file);
                }
            }
            CallClass::Name | CallClass::Rename => {
                let first = named.and_then(|named| whole(named.first.as_ref()));
                let second = named.and_then(|named| whole(named.second.as_ref()));
                let second = second.filter(|_| !call.is_symlink());
                first.into_iter().chain(second).for_each(|path| self.has_changed(path));
            }
            _ if call.name.starts_with("readlink") => {
                let room = call.arg(Role::Path).and_then(|path| operation.args.get(path + 2));
                let is_all = room.is_some_and(|room| ret as u64 != *room);
                if let Some(path) = named.and_then(|named| whole(named.first.as_ref()))
                    && is_all
                    && !self.is_changed(&path)
                {
                    self.lengths.entry(path).or_insert(ret);
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, file: &OpenFile) {
        let path = file.path.as_ref();
        let is_own =
            path.is_some_and(|path| path.is_resolved() && path.mounts.is(MountNamespace::OWN));
        let Ok(path) = of_file(file) else { return };
        // Longer paths are in no plan, and each of their directories would be kept with its path.
        if !is_own || !is_short(path) {
            return;
        }
        if file.stat.is_some_and(|stat| stat.is_directory()) {
            self.is_directory(path);
        }
        let mut above = path;
        while let Some(at) = above.iter().rposition(|byte| *byte == b'/').filter(|at| *at > 0) {
            above = &path[..at];
            if self.directories.contains(above) {
                break;
            }
            self.is_directory(above);
        }
        if let Some(given) = &file.given {
            self.leads(given, path);
        }
    }

    /// Records that an open was given one path and got the file of another one.
    fn leads(&mut self, given: &[u8], got: &[u8]) {
        if !is_plain(given) || !is_short(given) || is_kernels(given) {
            return;
        }
        let is_link = |place: &(usize, Vec<u8>, Vec<u8>)| !self.directories.contains(&*place.1);
        let first = places(given, got).find(is_link).or_else(|| places(given, got).last());
        let Some((_, link, target)) = first else { return };
        let end = given[link.len()..].to_vec();
        self.seen += 1;
        let alike = self.opened.entry((link, target)).or_default();
        if alike.ends.len() < ALIKE_MAX {
            alike.ends.entry(end).or_insert(self.seen);
        } else {
            alike.more += u64::from(!alike.ends.contains_key(&end));
        }
    }

    /// Records a directory, unless the program has made it: then it was absent at the start.
    fn is_directory(&mut self, path: &[u8]) {
        if !self.directories.contains(path) && !self.is_changed(path) {
            self.directories.insert(path.into());
        }
    }

    fn has_changed(&mut self, path: Vec<u8>) {
        // Names inside it have changed, too.
        if self.is_changed(&path) {
            return;
        }
        if self.changed.len() >= CHANGED_MAX {
            self.changed.clear();
        }
        self.seen += 1;
        self.changed.insert(path.into(), self.seen);
    }

    /// Returns true if a place, or one on the way to it, was changed by a call that was given the
    /// same names.
    fn is_changed(&self, path: &[u8]) -> bool {
        prefixes(path).any(|prefix| self.changed.contains_key(prefix))
    }
}

/// Returns true if a path begins at the root and only descends.
fn is_plain(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && path.split(|byte| *byte == b'/').skip(1).all(|name| !matches!(name, b"" | b"." | b".."))
}

fn whole(names: &[&[u8]]) -> Vec<u8> {
    match names {
        [] => b"/".to_vec(),
        all => all.iter().flat_map(|name| [&b"/"[..], *name]).collect::<Vec<&[u8]>>().concat(),
    }
}

/// Returns a path up to its first name, its second, and so on.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (1..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
    ends.map(|end| &path[..end])
}

/// Returns the names of a given path that may be a link: index, path, and target of each.
fn places(given: &[u8], got: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>, Vec<u8>)> {
    let way: Vec<&[u8]> = names(given).collect();
    let to: Vec<&[u8]> = names(got).collect();
    let same = way.iter().zip(&to).take_while(|(one, other)| one == other).count();
    (same..way.len()).filter_map(move |place| {
        let target = to.strip_suffix(&way[place + 1..])?;
        Some((place, whole(&way[..=place]), whole(target)))
    })
}

/// Returns true if a place was changed before the observation with this number.
fn is_before(changed: &FirstChanges, place: &[u8], number: u64) -> bool {
    changed.get(place).is_some_and(|first| *first < number)
}

/// Returns the place to which a path leads, as far as known. Links at a changed place, or below
/// one, are not followed.
fn through(path: &[u8], targets: &Targets, is_changed: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut at = Vec::new();
    let mut is_known = true;
    for name in names(path) {
        at = [&at, &b"/"[..], name].concat();
        is_known &= !is_changed(&at);
        if let Some(target) = targets.get(&at).filter(|_| is_known) {
            at = target.strip_suffix(b"/").unwrap_or(target).to_vec();
        }
    }
    if at.is_empty() { b"/".to_vec() } else { at }
}

/// Returns the place of a path without following a final link, as far as known.
fn itself(path: &[u8], targets: &Targets) -> Vec<u8> {
    let Some(at) = path.iter().rposition(|byte| *byte == b'/') else { return path.to_vec() };
    let (above, name) = path.split_at(at);
    let above = through(above, targets, |_| false);
    [above.strip_suffix(b"/").unwrap_or(&above), name].concat()
}

impl Sink for SymlinkEvidence {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.observe(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
