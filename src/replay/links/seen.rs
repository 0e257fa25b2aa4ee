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
//! nothing of what was there before, by whatever path they were changed. It grows with directories, links and what is behind them, not with
//! operations.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Links, names, text};
use crate::event::syscall_table::{Class, Role};
use crate::operation::model::{Given, Mounts, OpenFile, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::replay::replay_paths::{is_kernels, is_short, of_file, of_given};
use crate::units::KernelTime;

/// Links behind links behind links: with more, what they lead to stays unknown.
const ROUNDS_MAX: usize = 40;

/// Opens that have shown the same link, of which each is kept, as it may be none: then what they were given are links. Of more there is a number.
const ALIKE_MAX: usize = 1000;

/// Changed names that are known; some 10 MiB. With more of them it begins anew: a link that the program has made may be taken for one that was
/// there, until the second plan comes to where it was made.
const CHANGED_MAX: usize = 1 << 16;

/// What opens and `readlink` have shown.
#[derive(Debug, Default)]
pub struct Seen {
    /// What opens were given and got, as the link that it seems to be, and where that leads.
    opened: BTreeMap<(Vec<u8>, Vec<u8>), Alike>,
    /// Directories that the kernel has called so, but for those that the program has made.
    directories: FxHashSet<Box<[u8]>>,
    /// How long the texts are of what was given to `readlink`.
    lengths: BTreeMap<Vec<u8>, usize>,
    /// Names that were made, given to something, or taken from it, as calls were given them, and when first.
    changed: FxHashMap<Box<[u8]>, u64>,
    /// Counts what is seen.
    now: u64,
}

/// Opens that have shown the same link.
#[derive(Debug, Default)]
struct Alike {
    /// What followed its name, and when first.
    ends: BTreeMap<Vec<u8>, u64>,
    /// Those that are not kept.
    more: u64,
}

/// An open by another name than the kernel's.
#[derive(Debug)]
struct Open {
    given: Vec<u8>,
    got: Vec<u8>,
    at: u64,
}

/// Where links lead.
type Targets = BTreeMap<Vec<u8>, Vec<u8>>;

/// Places, and when they were changed first.
type Changed = FxHashMap<Vec<u8>, u64>;

impl Seen {
    /// The links, as far as it is known where they lead.
    pub fn links(&self) -> Links {
        let targets = self.targets();
        let lengths: BTreeMap<Vec<u8>, usize> =
            self.lengths.iter().map(|(path, it)| (itself(path, &targets), *it)).collect();
        let with_text = |(link, target): (&Vec<u8>, &Vec<u8>)| {
            let is_directory = self.directories.contains(&**target);
            (link.clone(), text(link, (target, is_directory), lengths.get(link).copied()))
        };
        let is_none = |link: &[u8]| self.directories.contains(&*itself(link, &targets));
        let lost = self.opened.iter().filter(|it| is_none(&it.0.0)).map(|it| it.1.more);
        Links { unknown: lost.sum(), ..targets.iter().map(with_text).collect() }
    }

    fn targets(&self) -> Targets {
        let mut opens: Vec<Open> = self.opens().collect();
        opens.sort_by_key(|it| (names(&it.given).count(), it.at));
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

    /// The links that opens have shown, if these places were changed.
    fn targets_of(&self, opens: &[Open], changed: &Changed) -> Targets {
        let mut targets = Targets::new();
        for _ in 0..ROUNDS_MAX {
            let known = targets.len();
            for open in opens {
                targets.extend(self.between(open, &targets, changed));
            }
            if targets.len() == known {
                break;
            }
            // What was found by a path through another link has its name elsewhere.
            let all = targets.clone();
            targets.retain(|link, _| itself(link, &all) == *link);
        }
        targets
    }

    fn opens(&self) -> impl Iterator<Item = Open> {
        self.opened.iter().flat_map(|((link, target), alike)| {
            alike.ends.iter().map(move |(end, at)| {
                let target = target.strip_suffix(b"/").unwrap_or(target);
                let got = Some([target, end].concat()).filter(|it| !it.is_empty());
                let given = [&**link, end].concat();
                Open { given, got: got.unwrap_or_else(|| b"/".to_vec()), at: *at }
            })
        })
    }

    /// Which places were changed, if these are the links.
    fn changed_places(&self, targets: &Targets) -> Changed {
        let mut places = Changed::default();
        for (path, at) in &self.changed {
            let first = places.entry(itself(path, targets)).or_insert(*at);
            *first = (*first).min(*at);
        }
        places
    }

    /// The link on the way from what was given to what was opened, besides those that are known, and where it leads.
    fn between(
        &self,
        open: &Open,
        known: &Targets,
        changed: &Changed,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let is_changed = |place: &[u8]| is_before(changed, place, open.at);
        let walked = through(&open.given, known, is_changed);
        if walked == open.got {
            return None;
        }
        let unchanged = prefixes(&walked).take_while(|it| !is_changed(it)).count();
        let mut places = places(&walked, &open.got).take_while(|it| it.0 < unchanged);
        places.find(|it| !self.directories.contains(&*it.1)).map(|it| (it.1, it.2))
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
            (is_plain(&path) && is_short(&path)).then_some(path)
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
                first.into_iter().chain(second).for_each(|it| self.has_changed(it));
            }
            _ if call.name.starts_with("readlink") => {
                let room = call.arg(Role::Path).and_then(|it| operation.args.get(it + 2)).copied();
                let is_all = room.is_some_and(|it| ret as u64 != it);
                if let Some(path) = named.and_then(|it| whole(it.first.as_ref()))
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
        let is_own =
            file.path.as_ref().is_some_and(|it| it.is_resolved() && it.mounts.is(Mounts::OWN));
        let Ok(path) = of_file(file) else { return };
        // What is longer is in no plan, and each of its directories would be kept with its path.
        if !is_own || !is_short(path) {
            return;
        }
        if file.stat.is_some_and(|it| it.is_directory()) {
            self.is_directory(path);
        }
        let mut above = path;
        while let Some(at) = above.iter().rposition(|it| *it == b'/').filter(|it| *it > 0) {
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

    /// An open was given a path, and got the file of another one.
    fn leads(&mut self, given: &[u8], got: &[u8]) {
        if !is_plain(given) || !is_short(given) || is_kernels(given) {
            return;
        }
        let is_link = |it: &(usize, Vec<u8>, Vec<u8>)| !self.directories.contains(&*it.1);
        let first = places(given, got).find(is_link).or_else(|| places(given, got).last());
        let Some((_, link, target)) = first else { return };
        let end = given[link.len()..].to_vec();
        self.now += 1;
        let alike = self.opened.entry((link, target)).or_default();
        if alike.ends.len() < ALIKE_MAX {
            alike.ends.entry(end).or_insert(self.now);
        } else {
            alike.more += u64::from(!alike.ends.contains_key(&end));
        }
    }

    /// What the program has made was nothing at the start.
    fn is_directory(&mut self, path: &[u8]) {
        if !self.directories.contains(path) && !self.is_changed(path) {
            self.directories.insert(path.into());
        }
    }

    fn has_changed(&mut self, path: Vec<u8>) {
        // What is in it is another one's, too.
        if self.is_changed(&path) {
            return;
        }
        if self.changed.len() >= CHANGED_MAX {
            self.changed.clear();
        }
        self.now += 1;
        self.changed.insert(path.into(), self.now);
    }

    /// True if something on the way there, or itself, was changed, by a call that was given the same names.
    fn is_changed(&self, path: &[u8]) -> bool {
        prefixes(path).any(|it| self.changed.contains_key(it))
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

/// A path up to its first name, its second, and so on.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (1..=path.len()).filter(|it| *it == path.len() || path[*it] == b'/');
    ends.map(|it| &path[..it])
}

/// Which names of what was given may be a link: how manieth, its path, and where it leads then.
fn places(given: &[u8], got: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>, Vec<u8>)> {
    let way: Vec<&[u8]> = names(given).collect();
    let to: Vec<&[u8]> = names(got).collect();
    let same = way.iter().zip(&to).take_while(|(one, other)| one == other).count();
    (same..way.len()).filter_map(move |place| {
        let target = to.strip_suffix(&way[place + 1..])?;
        Some((place, whole(&way[..=place]), whole(target)))
    })
}

/// True if a place was changed before.
fn is_before(changed: &Changed, place: &[u8], at: u64) -> bool {
    changed.get(place).is_some_and(|it| *it < at)
}

/// Where a path leads, as far as known. Behind what is changed nothing is.
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

/// The same for all of a path but its last name.
fn itself(path: &[u8], targets: &Targets) -> Vec<u8> {
    let Some(at) = path.iter().rposition(|it| *it == b'/') else { return path.to_vec() };
    let (above, name) = path.split_at(at);
    let above = through(above, targets, |_| false);
    [above.strip_suffix(b"/").unwrap_or(&above), name].concat()
}

impl Sink for Seen {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.look_at(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
