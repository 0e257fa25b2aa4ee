//! One watched file.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{How, Refused, TURNS_MAX, is_on};
use crate::operation::access::Access;
use crate::operation::attribution::FileKey;
use crate::units::KernelTime;

/// A file that is to be watched.
#[derive(Clone, Debug)]
pub struct New {
    /// Its device and inode.
    pub key: FileKey,
    /// `DEVICE_INODE`.
    pub name: String,
    /// As it was called.
    pub path: Vec<u8>,
    /// So many of its accesses are kept.
    pub max: usize,
    /// From now on.
    pub at: KernelTime,
    /// Where it lies on its device: addresses and lengths in bytes.
    pub runs: Vec<(u64, u64)>,
}

/// An access that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The access.
    pub access: Access,
    /// How it was found.
    pub how: How,
    /// What the thread is called.
    pub comm: Option<Rc<[u8]>>,
}

/// How a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// It is not stopped.
    pub is_logging: bool,
    /// Times count from here.
    pub start: KernelTime,
    /// So many accesses are kept.
    pub max: usize,
    /// So many are there.
    pub kept: usize,
}

/// What there was of a file since it was added or reset, while it was not stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// By calls and asynchronous operations: how many, bytes.
    pub called: (u64, u64),
    /// Of these, asynchronous operations whose results were not seen: the bytes are those that were asked for.
    pub asked: (u64, u64),
    /// Of these, those of which only the file's name is known.
    pub by_name: (u64, u64),
    /// Pieces of block requests behind which the file certainly lies.
    pub exact: (u64, u64),
    /// Those behind which it probably lies.
    pub inferred: (u64, u64),
    /// Accesses that were not kept: there were as many already.
    pub beyond: u64,
    /// Calls and operations that moved its bytes, nobody knows which or how many: they have no line.
    pub without_line: u64,
}

impl Books {
    fn add(&mut self, kept: &Kept) {
        let book = |(count, bytes): &mut (u64, u64)| {
            *count += 1;
            *bytes = bytes.saturating_add(kept.access.bytes);
        };
        match kept.how {
            How::Called { is_asked, is_named } => {
                book(&mut self.called);
                let more = [(is_asked, &mut self.asked), (is_named, &mut self.by_name)];
                more.into_iter().filter(|it| it.0).for_each(|it| book(it.1));
            }
            How::Exact => book(&mut self.exact),
            How::Inferred => book(&mut self.inferred),
        }
    }
}

/// A watched file.
#[derive(Debug)]
pub struct File {
    /// Its device and inode.
    pub key: FileKey,
    /// `DEVICE_INODE`.
    pub name: String,
    /// As it was called.
    pub path: Vec<u8>,
    max: usize,
    start: KernelTime,
    /// What began earlier is of no interest.
    since: KernelTime,
    /// When it was stopped and started since then.
    turns: Vec<(KernelTime, bool)>,
    /// Ordered by address, none in another.
    runs: Vec<(u64, u64)>,
    /// By their beginnings, and by number.
    kept: BTreeMap<(KernelTime, u64), Kept>,
    books: Books,
}

impl File {
    pub(super) fn new(new: New) -> Self {
        let New { key, name, path, max, at, runs } = new;
        let (turns, kept, books) = (Vec::new(), BTreeMap::new(), Books::default());
        let mut file = Self {
            key,
            name,
            path,
            max,
            start: at,
            since: at,
            turns,
            runs: Vec::new(),
            kept,
            books,
        };
        file.lies(runs);
        file
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let Self { start, max, .. } = *self;
        let is_logging = self.turns.last().is_none_or(|it| it.1);
        Status { is_logging, start, max, kept: self.kept.len() }
    }

    /// What is kept, by its beginning.
    pub fn log(&self) -> impl Iterator<Item = &Kept> {
        self.kept.values()
    }

    /// What there was.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// From this time on nothing is logged, or all is.
    ///
    /// # Errors
    ///
    /// [`Refused::Turns`].
    pub fn turn(&mut self, at: KernelTime, is_on: bool) -> Result<(), Refused> {
        if self.status().is_logging == is_on {
            return Ok(());
        }
        if self.turns.len() >= TURNS_MAX {
            return Err(Refused::Turns);
        }
        self.turns.push((at, is_on));
        Ok(())
    }

    /// Forgets all that began before this time. Nothing later was told, or it is still there as far as it was kept.
    pub fn reset(&mut self, at: KernelTime) {
        let is_logging = self.status().is_logging;
        self.since = at;
        self.turns = if is_logging { Vec::new() } else { vec![(at, false)] };
        self.kept = self.kept.split_off(&(at, 0));
        self.books = Books::default();
        self.kept.values().for_each(|it| self.books.add(it));
    }

    /// The same, and times count from there.
    pub fn time_reset(&mut self, at: KernelTime) {
        self.reset(at);
        self.start = at;
    }

    pub(super) fn lies(&mut self, runs: Vec<(u64, u64)>) {
        self.runs = disjoint(runs);
    }

    pub(super) fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// True for what began while it was watched and not stopped.
    pub(super) fn counts(&self, begin: KernelTime) -> bool {
        begin >= self.since && is_on(&self.turns, begin)
    }

    pub(super) fn without_line(&mut self, begin: KernelTime) {
        self.books.without_line += u64::from(self.counts(begin));
    }

    /// Takes an access; false if it does not count.
    pub(super) fn take(&mut self, number: u64, kept: &Kept) -> bool {
        if !self.counts(kept.access.begin) {
            return false;
        }
        self.books.add(kept);
        self.kept.insert((kept.access.begin, number), kept.clone());
        if self.kept.len() > self.max {
            self.kept.pop_last();
            self.books.beyond += 1;
        }
        true
    }
}

/// The same bytes in order, each once: parts of a file may share theirs (reflinks).
pub(super) fn disjoint(mut runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (address, length) in runs {
        let end = address.saturating_add(length);
        match joined.last_mut() {
            Some(last) if address <= last.0.saturating_add(last.1) => {
                last.1 = last.1.max(end.saturating_sub(last.0));
            }
            _ => joined.push((address, length)),
        }
    }
    joined
}
