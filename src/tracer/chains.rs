//! Which addresses chains had, and what the processes had in their memory there: so that they can be named at the end.
//!
//! In: the records and facts that go into the log. Whatever may have been meant is kept: a process can have had several files
//! at an address one after the other, and each is told with the time since when. Processes may do what they can to make this much:
//! all of it has its limits, and what is beyond them is counted, and unknown rather than wrong.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::symbols::{self, Programs, Wanted};
use crate::capture::fact::{Fact, Symbol, Text};
use crate::capture::header::Unread;
use crate::record::abi::record_type;
use crate::record::parse::{Body, CodeMap};
use crate::record::{RecordKind, SampleLayout};
use crate::units::{KernelTime, Pid};

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1 << 20;

/// Mappings of code that are remembered, of all processes.
const MAPPINGS_MAX: usize = 1 << 20;

/// Paths and build ids of all files that are remembered, in bytes.
const FILES_BYTES_MAX: usize = 64 << 20;

/// What an address was one after the other: of more, the latest are told.
const MEANINGS_MAX: usize = 16;

/// What all addresses were.
const ALL_MEANINGS_MAX: usize = 4 << 20;

/// Changes that are looked at to find what addresses were: a few seconds' work.
const LOOKS_MAX: u64 = 1 << 30;

/// Processes are followed to those that they were born of no further than this.
const ANCESTORS_MAX: usize = 64;

/// Whose code it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CodeFile {
    /// As the process calls it.
    pub path: Vec<u8>,
    /// What tells it from others.
    pub identity: Identity,
}

impl CodeFile {
    /// What it takes to remember it.
    fn bytes(&self) -> usize {
        let id = if let Identity::BuildId(id) = &self.identity { id.len() } else { 0 };
        self.path.len() + id
    }
}

/// What tells a file from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Identity {
    /// Its build id.
    BuildId(Vec<u8>),
    /// Major and minor number of its device, and its inode.
    Inode(u32, u32, u64),
}

/// Code in the memory of a process.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub start: u64,
    pub end: u64,
    /// What of the file `start` shows, in bytes.
    pub offset: u64,
    pub file: Arc<CodeFile>,
}

impl Code {
    /// True if a call that ends right before this address is in it.
    fn has(&self, address: u64) -> bool {
        self.start < address && address <= self.end
    }
}

/// What happened to the memory of a process.
#[derive(Clone, Debug)]
enum Change {
    /// This came.
    Code(Code),
    /// This was there when somebody looked.
    Seen(Code),
    /// It became another program: nothing of before is there any more.
    Exec,
    /// It was born with the memory of this process.
    BornOf(Pid),
}

/// Addresses of chains, and what was in memory.
#[derive(Debug, Default)]
pub struct SeenChains {
    /// What is in memory is noted, too.
    of_programs: bool,
    kernel: FxHashSet<u64>,
    user: FxHashSet<(Pid, u64)>,
    memory: FxHashMap<Pid, Vec<(KernelTime, Change)>>,
    files: FxHashSet<Arc<CodeFile>>,
    file_bytes: usize,
    mappings: usize,
    /// The earliest change for which there was no room: what is in memory from then on is not known.
    known_until: Option<KernelTime>,
    /// The users of processes whose addresses there are, if they were not over.
    owners: FxHashMap<Pid, Option<u32>>,
    /// Forgetting what is no code has not helped.
    only_code: bool,
    /// Addresses, mappings for which there was no room.
    left_out: u64,
}

/// Where an address is looked for, and what was found.
#[derive(Debug)]
struct Search {
    /// Changes that may still be looked at.
    looks_left: u64,
    /// Addresses for which none were left.
    given_up: u64,
    /// Meanings that were too many.
    left_out: u64,
    wanted: Vec<Wanted>,
}

impl SeenChains {
    /// Nothing yet; `of_programs`: their functions are to be named, too.
    pub(super) fn new(of_programs: bool) -> Self {
        Self { of_programs, ..Self::default() }
    }

    /// Takes note of what a record says.
    pub(super) fn note(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        match record.kind {
            record_type::SAMPLE => self.note_chain(record, layout),
            record_type::MMAP2 | record_type::COMM | record_type::FORK if self.of_programs => {
                let Ok(parsed) = record.parse(layout) else { return };
                match parsed.body {
                    Body::Mmap(map) => self.note_code(parsed.time, &map),
                    Body::Comm { pid, exec: true, .. } => {
                        self.change(pid, parsed.time, Change::Exec);
                    }
                    Body::Fork { pid, ppid, .. } if pid != ppid => {
                        self.change(pid, parsed.time, Change::BornOf(ppid));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn note_chain(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        let Some(chain) = record.chain(layout) else { return };
        let is_full = !self.has_room();
        for address in chain.kernel() {
            if !is_full {
                self.kernel.insert(address);
            } else if !self.kernel.contains(&address) {
                self.left_out += 1;
            }
        }
        let Some((pid, _)) = record.task(layout) else { return };
        // At the end it may be over.
        if !is_full && chain.user().next().is_some() {
            self.owners.entry(pid).or_insert_with(|| symbols::owner_of(pid));
        }
        for key in chain.user().map(|it| (pid, it)) {
            if !is_full {
                self.user.insert(key);
            } else if !self.user.contains(&key) {
                self.left_out += 1;
            }
        }
    }

    /// True if there is room for more addresses. Without frame pointers anything may be taken for one: what is no code goes first.
    fn has_room(&mut self) -> bool {
        let is_full = |it: &Self| it.kernel.len() + it.user.len() >= ADDRESSES_MAX;
        if is_full(self) && !self.only_code {
            let code = self.code_of_all();
            let before = self.user.len();
            self.user.retain(|it| is_in(&code, it.1));
            // Not again for little.
            self.only_code = self.user.len() > before / 2;
        }
        !is_full(self)
    }

    /// Where any process has had code, in order, without overlaps: it need not be sought in each process, for which there is no time.
    fn code_of_all(&self) -> Vec<(u64, u64)> {
        let place = |(_, change): &(KernelTime, Change)| match change {
            Change::Code(code) | Change::Seen(code) => Some((code.start, code.end)),
            Change::Exec | Change::BornOf(_) => None,
        };
        let mut all: Vec<(u64, u64)> = self.memory.values().flatten().filter_map(place).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let is_joined = next.0 <= last.1;
            last.1 = if is_joined { last.1.max(next.1) } else { last.1 };
            is_joined
        });
        all
    }

    fn sort(&mut self) {
        for changes in self.memory.values_mut() {
            changes.sort_by_key(|it| it.0);
        }
    }

    fn note_code(&mut self, time: KernelTime, map: &CodeMap<'_>) {
        let word = |at: usize| map.file.get(at..)?.first_chunk().map(|it| u32::from_le_bytes(*it));
        let identity = if map.has_build_id {
            let length = map.file.first().copied().map_or(0, usize::from);
            Identity::BuildId(map.file.get(4..4 + length).unwrap_or_default().to_vec())
        } else {
            let ino = map.file.get(8..).and_then(|it| it.first_chunk());
            let ino = ino.map_or(0, |it| u64::from_le_bytes(*it));
            Identity::Inode(word(0).unwrap_or(0), word(4).unwrap_or(0), ino)
        };
        let (start, end) = (map.start, map.start.saturating_add(map.bytes));
        let file = CodeFile { path: map.path.into(), identity };
        self.code_came(map.pid, time, ((start, end, map.offset), file), Change::Code);
    }

    /// Takes note of a fact, if it tells what is in memory.
    pub(super) fn note_fact(&mut self, fact: &Fact) {
        let Fact::Text { which: Text::MAPS, time, pid, text } = fact else { return };
        for line in text.split(|it| *it == b'\n') {
            if let Some((place, file)) = line_of_maps(line) {
                self.code_came(*pid, *time, (place, file), Change::Seen);
            }
        }
    }

    fn code_came(
        &mut self,
        pid: Pid,
        time: KernelTime,
        ((start, end, offset), file): ((u64, u64, u64), CodeFile),
        how: impl Fn(Code) -> Change,
    ) {
        if self.mappings >= MAPPINGS_MAX {
            return self.forget_from(time);
        }
        let file = Arc::new(file);
        let known = self.files.get(&file).cloned();
        let file = match known {
            Some(known) => known,
            None => {
                let bytes = self.file_bytes + file.bytes();
                if bytes > FILES_BYTES_MAX {
                    return self.forget_from(time);
                }
                self.file_bytes = bytes;
                self.files.insert(Arc::clone(&file));
                file
            }
        };
        self.change(pid, time, how(Code { start, end, offset, file }));
    }

    fn change(&mut self, pid: Pid, time: KernelTime, change: Change) {
        if self.mappings >= MAPPINGS_MAX {
            return self.forget_from(time);
        }
        self.mappings += 1;
        self.memory.entry(pid).or_default().push((time, change));
    }

    /// There is no room for what happened then.
    fn forget_from(&mut self, time: KernelTime) {
        self.left_out += 1;
        self.known_until = Some(self.known_until.map_or(time, |it| it.min(time)));
    }

    /// Names all addresses. What is to be said of those that have none, and what could not be read.
    pub(super) fn name(mut self) -> (Vec<Fact>, Option<String>, Unread) {
        self.sort();
        let (mut found, mut warning) = (Vec::new(), None);
        match symbols::kernel::functions(&self.kernel.drain().collect()) {
            Ok(named) => found.extend(named),
            Err(why) => warning = Some(format!("the kernel's functions have no names: {why}")),
        }
        let mut search = Search::new();
        let mut user: Vec<(Pid, u64)> = self.user.iter().copied().collect();
        user.sort_unstable();
        for (pid, address) in user {
            self.look_for(&mut search, pid, address);
        }
        let Programs { named, cut, unread } = symbols::of_programs(search.wanted, &self.owners);
        let is_nothing =
            |it: &Symbol| it.since == KernelTime::MIN && it.name.is_empty() && it.module.is_empty();
        let before = found.len();
        found.extend(named.into_iter().filter(|it| !is_nothing(it)));
        let unknown = self.unknown_at_the_end(found.get(before..).unwrap_or_default());
        found.extend(unknown);
        let counted = [
            (self.left_out, "addresses or mappings were too many to be remembered"),
            (search.left_out, "mappings were too many for their addresses to be told"),
            (search.given_up, "addresses have no names: too much happened in memory"),
            (cut, "lists of compiled functions were too long to be read to their ends"),
        ];
        let counted = counted.into_iter().filter(|it| it.0 > 0);
        let all: Vec<String> = warning
            .into_iter()
            .chain(counted.map(|(count, what)| format!("{count} {what}")))
            .collect();
        let fact = |it: Symbol| Fact::Symbol(Box::new(it));
        let warning = (!all.is_empty()).then(|| all.join("; "));
        (found.into_iter().map(fact).collect(), warning, unread)
    }

    /// Adds what an address was, as far as it is known.
    fn look_for(&self, search: &mut Search, pid: Pid, address: u64) {
        let mut all = self.at(pid, address, &mut search.looks_left);
        if search.looks_left == 0 {
            search.given_up += 1;
            return;
        }
        all.retain(|it| self.known_until.is_none_or(|until| it.0 < until));
        // Without any it may be in a list of what was compiled on the way.
        if all.is_empty() {
            all.push((KernelTime::MIN, None));
        }
        let room = MEANINGS_MAX.min(ALL_MEANINGS_MAX - search.wanted.len());
        let too_many = all.len().saturating_sub(room);
        search.left_out += too_many as u64;
        let told = all.drain(too_many..);
        search.wanted.extend(told.map(|(since, code)| Wanted { pid, address, since, code }));
    }

    /// If not everything could be remembered: none of these is known from then on.
    fn unknown_at_the_end(&self, named: &[Symbol]) -> Vec<Symbol> {
        let Some(since) = self.known_until else { return Vec::new() };
        let mut places: Vec<(Pid, u64)> = named.iter().map(|it| (it.pid, it.address)).collect();
        places.sort_unstable();
        places.dedup();
        let unknown = |(pid, address)| Symbol { pid, address, since, ..Symbol::default() };
        places.into_iter().map(unknown).collect()
    }

    /// What the process had at an address, and since when; `None`: nothing that is known. `looks`: changes that may be looked at; nothing
    /// of what is returned is to be believed if none is left.
    fn at(&self, pid: Pid, address: u64, looks: &mut u64) -> Vec<(KernelTime, Option<Code>)> {
        let mut all: Vec<(KernelTime, Option<Code>)> = Vec::new();
        let mut was_there_before = true;
        for (time, change) in self.memory.get(&pid).into_iter().flatten() {
            *looks = looks.saturating_sub(1);
            if *looks == 0 {
                break;
            }
            was_there_before &= !matches!(change, Change::Exec | Change::BornOf(_));
            match change {
                Change::Code(code) if code.has(address) => all.push((*time, Some(code.clone()))),
                Change::Seen(code) if code.has(address) => match all.last() {
                    // It is known how it came.
                    Some((_, Some(_))) => {}
                    // It was there before all that was told.
                    None if was_there_before => all.push((KernelTime::MIN, Some(code.clone()))),
                    _ => all.push((*time, Some(code.clone()))),
                },
                Change::Code(_) | Change::Seen(_) => {}
                Change::Exec => all.extend((!all.is_empty()).then_some((*time, None))),
                Change::BornOf(parent) => {
                    let code = self.last(*parent, address, *time, looks);
                    if code.is_some() || !all.is_empty() {
                        all.push((*time, code));
                    }
                }
            }
        }
        all
    }

    /// What the process had at an address at this time: of itself, or of those that it was born of.
    fn last(&self, pid: Pid, address: u64, until: KernelTime, looks: &mut u64) -> Option<Code> {
        let (mut pid, mut until) = (pid, until);
        for _ in 0..ANCESTORS_MAX {
            let changes = self.memory.get(&pid)?;
            let told = changes.partition_point(|it| it.0 <= until);
            let mut seen = None;
            let mut parent = None;
            for (time, change) in changes.iter().take(told).rev() {
                *looks = looks.checked_sub(1)?;
                match change {
                    Change::Code(code) if code.has(address) => return Some(code.clone()),
                    // What is behind it has told how it came, or has not.
                    Change::Seen(code) if code.has(address) => seen = Some(code),
                    Change::Code(_) | Change::Seen(_) => {}
                    Change::Exec => return seen.cloned(),
                    Change::BornOf(of) => {
                        parent = Some((*of, *time));
                        break;
                    }
                }
            }
            if seen.is_some() {
                return seen.cloned();
            }
            (pid, until) = parent?;
        }
        None
    }
}

/// True if a call that ends right before this address is in one of these.
fn is_in(code: &[(u64, u64)], address: u64) -> bool {
    let place = code.partition_point(|it| it.0 < address);
    place.checked_sub(1).and_then(|it| code.get(it)).is_some_and(|it| address <= it.1)
}

impl Search {
    fn new() -> Self {
        Self { looks_left: LOOKS_MAX, given_up: 0, left_out: 0, wanted: Vec::new() }
    }
}

#[cfg(test)]
impl SeenChains {
    /// The last that the process had at an address.
    pub(super) fn at_for_tests(&self, pid: Pid, address: u64) -> Option<Code> {
        self.at(pid, address, &mut { LOOKS_MAX }).pop()?.1
    }
}

/// `START-END RIGHTS OFFSET MAJOR:MINOR INODE   PATH` of code: from, to, offset, and what it is.
fn line_of_maps(line: &[u8]) -> Option<((u64, u64, u64), CodeFile)> {
    let mut words = line.splitn(6, |it| *it == b' ');
    let mut text = || std::str::from_utf8(words.next()?).ok();
    let (range, rights, offset, dev, ino) = (text()?, text()?, text()?, text()?, text()?);
    let hex = |it: &str| u64::from_str_radix(it, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = dev.split_once(':')?;
    let number = |it: &str| u32::from_str_radix(it, 16).ok();
    let identity = Identity::Inode(number(major)?, number(minor)?, ino.parse().ok()?);
    let path = words.next().unwrap_or_default().trim_ascii_start().to_vec();
    let is_code = rights.contains('x');
    is_code.then_some(((hex(start)?, hex(end)?, hex(offset)?), CodeFile { path, identity }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(changes: &[(i32, u64, &str)]) -> SeenChains {
        let mut seen = SeenChains::default();
        for &(pid, time, what) in changes {
            let (pid, time) = (Pid(pid), KernelTime(time));
            match what.split_once(' ') {
                None => seen.change(pid, time, Change::Exec),
                Some(("born", of)) => {
                    seen.change(pid, time, Change::BornOf(Pid(of.parse().expect("a number"))));
                }
                Some((how, path)) => {
                    let identity = Identity::Inode(8, 1, 1);
                    let file = CodeFile { path: path.into(), identity };
                    let change = if how == "map" { Change::Code } else { Change::Seen };
                    seen.code_came(pid, time, ((0x1000, 0x2000, 0), file), change);
                }
            }
        }
        seen
    }

    #[track_caller]
    fn check(changes: &[(i32, u64, &str)], pid: i32, address: u64, expected: &[(u64, &str)]) {
        let found = seen(changes).at(Pid(pid), address, &mut { LOOKS_MAX });
        let path = |it: Option<Code>| {
            it.map_or_else(|| "-".to_owned(), |it| String::from_utf8_lossy(&it.file.path).into())
        };
        let found: Vec<_> = found.into_iter().map(|it| (it.0.0, path(it.1))).collect();
        let expected: Vec<_> = expected.iter().map(|it| (it.0, it.1.to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_at_an_address() {
        let changes = [(7, 10, "map /a"), (7, 20, "map /b"), (7, 30, "exec"), (7, 40, "map /c")];
        let all = [(10, "/a"), (20, "/b"), (30, "-"), (40, "/c")];
        check(&changes, 7, 0x1800, &all);
        // The address is that behind a call, so it may be the end.
        check(&changes[..1], 7, 0x2000, &[(10, "/a")]);
        check(&changes[..1], 7, 0x1000, &[]);
        check(&changes, 8, 0x1800, &[]);
    }

    #[test]
    fn what_is_seen_was_there_before_if_nobody_said_how_it_came() {
        check(&[(7, 10, "seen /a")], 7, 0x1800, &[(0, "/a")]);
        check(&[(7, 5, "map /a"), (7, 10, "seen /a")], 7, 0x1800, &[(5, "/a")]);
        check(&[(7, 5, "exec"), (7, 10, "seen /a")], 7, 0x1800, &[(10, "/a")]);
        check(&[(7, 5, "born 1"), (7, 10, "seen /a")], 7, 0x1800, &[(10, "/a")]);
        let changes = [(7, 10, "seen /a"), (8, 20, "born 7"), (7, 30, "map /b")];
        check(&changes, 8, 0x1800, &[(20, "/a")]);
    }

    #[test]
    fn a_child_has_what_its_parent_had() {
        let changes = [
            (7, 10, "map /a"),
            (8, 20, "born 7"),
            (7, 30, "map /b"),
            (8, 40, "exec"),
            (9, 50, "born 8"),
        ];
        check(&changes, 8, 0x1800, &[(20, "/a"), (40, "-")]);
        check(&changes, 9, 0x1800, &[]);
        // Two that are each other's parents, in damaged records.
        let changes = [(7, 10, "born 8"), (8, 10, "born 7"), (7, 20, "map /a")];
        check(&changes, 7, 0x1800, &[(20, "/a")]);
    }

    #[test]
    fn what_is_no_code_is_forgotten_and_not_told() {
        let mut seen = seen(&[(7, 10, "map /nowhere/a")]);
        seen.user.extend((0..ADDRESSES_MAX as u64).map(|it| (Pid(7), it << 8)));
        assert!(seen.has_room());
        // 16 times 256 bytes.
        assert_eq!(seen.user.len(), 16);
        seen.user.insert((Pid(7), 0x7777));
        let (facts, warning, _) = seen.name();
        assert_eq!((facts.len(), warning), (16, None));
    }

    fn told(seen: &SeenChains, search: &mut Search) -> Vec<u64> {
        seen.look_for(search, Pid(7), 0x1800);
        search.wanted.drain(..).map(|it| it.since.0).collect()
    }

    #[test]
    fn of_many_meanings_the_latest_are_told_and_the_rest_counted() {
        let changes: Vec<_> = (1..=20).map(|it| (7, it, "map /a")).collect();
        let mut search = Search::new();
        assert_eq!(told(&seen(&changes), &mut search), (5..=20).collect::<Vec<u64>>());
        assert_eq!((search.left_out, search.given_up), (4, 0));
        search.looks_left = 19;
        assert_eq!(told(&seen(&changes), &mut search), [0_u64; 0]);
        assert_eq!((search.left_out, search.given_up), (4, 1));
    }

    /// Fails if what a process made after the table was full is called by what was there before.
    #[test]
    fn nothing_is_known_from_when_there_was_no_room_on() {
        let mut seen = seen(&[(7, 10, "map /nowhere/a"), (7, 40, "map /nowhere/b")]);
        seen.mappings = MAPPINGS_MAX;
        let identity = Identity::Inode(8, 1, 1);
        let file = CodeFile { path: b"/nowhere/c".to_vec(), identity };
        let files = seen.files.len();
        seen.code_came(Pid(7), KernelTime(30), ((0x1000, 0x2000, 0), file), Change::Code);
        assert_eq!((seen.files.len(), seen.left_out), (files, 1));
        seen.user.insert((Pid(7), 0x1800));
        let (facts, warning, _) = seen.name();
        let symbol = |it: &Fact| match it {
            Fact::Symbol(it) => (it.since.0, String::from_utf8_lossy(&it.module).into_owned()),
            other => panic!("{other:?}"),
        };
        let found: Vec<_> = facts.iter().map(symbol).collect();
        assert_eq!(found, [(10, "/nowhere/a".to_owned()), (30, String::new())]);
        assert!(warning.is_some_and(|it| it.starts_with("1 addresses or mappings")));
    }

    #[test]
    fn code_of_all_processes_together() {
        let seen = seen(&[(7, 10, "map /a"), (8, 20, "seen /b"), (8, 30, "exec")]);
        assert_eq!(seen.code_of_all(), [(0x1000, 0x2000)]);
        let code = [(1, 3), (5, 9)];
        let inside: Vec<u64> = (0..12).filter(|it| is_in(&code, *it)).collect();
        assert_eq!(inside, [2, 3, 6, 7, 8, 9]);
    }

    #[test]
    fn lines_of_maps() {
        let line = b"7f0010-7f0020 r-xp 00002000 fe:01 1234                       /usr/lib/a b.so";
        let (place, file) = line_of_maps(line).expect("code");
        assert_eq!(place, (0x7f_0010, 0x7f_0020, 0x2000));
        assert_eq!(
            (file.path.as_slice(), file.identity),
            (&b"/usr/lib/a b.so"[..], Identity::Inode(0xfe, 1, 1234))
        );
        assert!(line_of_maps(b"7f0010-7f0020 rw-p 00002000 fe:01 1234 /a").is_none());
        assert!(line_of_maps(b"7f0010-7f0020 r-xp 00000000 00:00 0").is_some());
        assert!(line_of_maps(b"x").is_none());
    }
}
