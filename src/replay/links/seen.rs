//! Which links a capture shows.
//!
//! ```text
//!   given    /a/l/t      the first name that differs leads to what is instead of it, if what follows is the same:
//!   opened   /a/d/t      /a/l is a link to /a/d
//!
//!   given    /lib/x/y
//!   opened   /usr/lib/x/y      /lib is a link to /usr/lib
//! ```
//!
//! What is known to be a directory is no link: then the next name is one. Names that the program has made or given to something say
//! nothing of what was there before. It grows with directories, links and names that are made, not with operations.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::{Links, names, text};
use crate::event::syscall_table::{Class, Role};
use crate::operation::Step;
use crate::operation::model::{Given, Mounts, OpenFile, SyscallOperation};
use crate::replay::names::{is_kernels, of_file, of_given};

/// Links behind links behind links: with more, what they lead to stays unknown.
const ROUNDS_MAX: usize = 40;

/// What opens and `readlink` have shown.
#[derive(Debug, Default)]
pub struct Seen {
    /// What opens were given, and got.
    opened: BTreeMap<Vec<u8>, Got>,
    /// Directories that the kernel has called so.
    directories: FxHashSet<Box<[u8]>>,
    /// How long the texts are of what was given to `readlink`.
    lengths: BTreeMap<Vec<u8>, usize>,
    /// Names that were made, given to something, or taken from it.
    changed: FxHashSet<Box<[u8]>>,
}

#[derive(Debug)]
struct Got {
    path: Vec<u8>,
    /// So many names of what was given, from the first one on, had not been changed.
    unchanged: usize,
}

impl Seen {
    /// The links, as far as it is known where they lead.
    pub fn links(&self) -> Links {
        let mut pairs: Vec<(&Vec<u8>, &Got)> = self.opened.iter().collect();
        pairs.sort_by_key(|(given, _)| names(given).count());
        let mut targets = BTreeMap::new();
        for _ in 0..ROUNDS_MAX {
            let known = targets.len();
            for (given, got) in &pairs {
                targets.extend(self.between(given, got, &targets));
            }
            if targets.len() == known {
                break;
            }
            // What was found by a path through another link has its name elsewhere.
            let all = targets.clone();
            targets.retain(|link, _| is_itself(link, &all));
        }
        let lengths: BTreeMap<Vec<u8>, usize> =
            self.lengths.iter().map(|(path, it)| (itself(path, &targets), *it)).collect();
        let with_text = |(link, target): (&Vec<u8>, &Vec<u8>)| {
            let is_directory = self.directories.contains(&**target);
            (link.clone(), text(link, (target, is_directory), lengths.get(link).copied()))
        };
        targets.iter().map(with_text).collect()
    }

    /// The link on the way from what was given to what was opened, besides those that are known, and where it leads.
    fn between(
        &self,
        given: &[u8],
        got: &Got,
        known: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let walked = through(given, known);
        if walked == got.path {
            return None;
        }
        let unchanged = match walked == given {
            true => got.unchanged,
            false if got.unchanged == names(given).count() => usize::MAX,
            false => return None,
        };
        let way: Vec<&[u8]> = names(&walked).collect();
        let to: Vec<&[u8]> = names(&got.path).collect();
        let same = way.iter().zip(&to).take_while(|(one, other)| one == other).count();
        let mut places = (same..way.len().min(unchanged)).filter_map(|place| {
            let target = to.strip_suffix(&way[place + 1..])?;
            Some((whole(&way[..=place]), whole(target)))
        });
        places.find(|(link, _)| !self.directories.contains(&**link))
    }

    /// One step.
    pub fn look_at(&mut self, step: &Step<'_>) {
        if let Step::SyscallEnded(operation, _) = step {
            self.ended(operation);
        }
    }

    fn ended(&mut self, operation: &SyscallOperation) {
        let call = operation.call.call();
        let Some(ret) = operation.ret.and_then(|it| usize::try_from(it).ok()) else { return };
        let named = operation.named.as_deref();
        let whole = |it: Option<&Given>| {
            let path = of_given(it?).ok()?;
            is_plain(&path).then_some(path)
        };
        match call.class {
            Class::Open => {
                if let Some(file) = &operation.file {
                    self.opened(file);
                }
            }
            Class::Name | Class::Rename => {
                let first = named.and_then(|it| whole(it.first.as_ref()));
                let second = named.and_then(|it| whole(it.second.as_ref()));
                let second = second.filter(|_| !call.is_symlink());
                self.changed.extend(first.into_iter().chain(second).map(Vec::into_boxed_slice));
            }
            _ if call.name.starts_with("readlink") => {
                let room = call.arg(Role::Path).and_then(|it| operation.args.get(it + 2)).copied();
                let is_all = room.is_some_and(|it| ret as u64 != it);
                if let Some(path) = named.and_then(|it| whole(it.first.as_ref()))
                    && is_all
                    && self.unchanged(&path) == names(&path).count()
                {
                    self.lengths.entry(path).or_insert(ret);
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, file: &OpenFile) {
        let is_own =
            file.path.as_ref().is_some_and(|it| it.is_resolved() && it.mounts.is(Mounts::OWN));
        let Ok(path) = of_file(file) else { return };
        if !is_own {
            return;
        }
        if file.stat.is_some_and(|it| it.is_directory()) && !self.directories.contains(path) {
            self.directories.insert(path.into());
        }
        let mut above = path;
        while let Some(at) = above.iter().rposition(|it| *it == b'/').filter(|it| *it > 0) {
            above = &path[..at];
            if self.directories.contains(above) {
                break;
            }
            self.directories.insert(above.into());
        }
        let Some(given) = &file.given else { return };
        if is_plain(given) && !is_kernels(given) && !self.opened.contains_key(&**given) {
            let unchanged = self.unchanged(given);
            self.opened.insert(given.to_vec(), Got { path: path.to_vec(), unchanged });
        }
    }

    /// How many names of a path nobody has changed, from the first one on.
    fn unchanged(&self, path: &[u8]) -> usize {
        let slashes = (1..=path.len()).filter(|it| *it == path.len() || path[*it] == b'/');
        slashes.take_while(|it| !self.changed.contains(&path[..*it])).count()
    }
}

/// It begins at the root and only goes down.
fn is_plain(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && path.split(|it| *it == b'/').skip(1).all(|it| !matches!(it, b"" | b"." | b".."))
}

fn whole(names: &[&[u8]]) -> Vec<u8> {
    match names {
        [] => b"/".to_vec(),
        all => all.iter().flat_map(|it| [&b"/"[..], *it]).collect::<Vec<&[u8]>>().concat(),
    }
}

/// Where a path leads, as far as known.
fn through(path: &[u8], targets: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut at = Vec::new();
    for name in names(path) {
        at = [&at, &b"/"[..], name].concat();
        if let Some(target) = targets.get(&at) {
            at = target.strip_suffix(b"/").unwrap_or(target).to_vec();
        }
    }
    if at.is_empty() { b"/".to_vec() } else { at }
}

/// The same for all of a path but its last name.
fn itself(path: &[u8], targets: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let Some(at) = path.iter().rposition(|it| *it == b'/') else { return path.to_vec() };
    let (above, name) = path.split_at(at);
    let above = through(above, targets);
    [above.strip_suffix(b"/").unwrap_or(&above), name].concat()
}

fn is_itself(path: &[u8], targets: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
    itself(path, targets) == path
}

#[cfg(test)]
mod tests;
