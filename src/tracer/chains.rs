//! Which addresses chains had, and what the processes had in their memory there: so that they can be named at the end.
//!
//! In: the records and facts that go into the log. Whatever may have been meant is kept: a process can have had several files
//! at an address one after the other, and each is told with the time since when.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::symbols::{self, Wanted};
use crate::capture::fact::{Fact, Symbol, Text};
use crate::record::abi::record_type;
use crate::record::parse::{Body, CodeMap};
use crate::record::{RecordKind, SampleLayout};
use crate::units::{KernelTime, Pid};

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1 << 20;

/// Mappings of code that are remembered, of all processes.
const MAPPINGS_MAX: usize = 1 << 20;

/// Processes are followed to those that they were born of no further than this.
const ANCESTORS_MAX: usize = 64;

/// Whose code it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CodeFile {
    /// As the process calls it.
    pub path: Vec<u8>,
    /// What tells it from others.
    pub identity: Identity,
}

/// What tells a file from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    mappings: usize,
    /// Forgetting what is no code has not helped.
    only_code: bool,
    /// Addresses, mappings for which there was no room.
    left_out: u64,
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
            self.sort();
            let mut user = std::mem::take(&mut self.user);
            let before = user.len();
            user.retain(|it| !self.at(it.0, it.1, KernelTime::MAX, ANCESTORS_MAX).is_empty());
            // Not again for little.
            self.only_code = user.len() > before / 2;
            self.user = user;
        }
        !is_full(self)
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
        let code = self.code((start, end, map.offset), file);
        self.change(map.pid, time, Change::Code(code));
    }

    /// Takes note of a fact, if it tells what is in memory.
    pub(super) fn note_fact(&mut self, fact: &Fact) {
        let Fact::Text { which: Text::MAPS, time, pid, text } = fact else { return };
        for line in text.split(|it| *it == b'\n') {
            if let Some((place, file)) = line_of_maps(line) {
                let code = self.code(place, file);
                self.change(*pid, *time, Change::Seen(code));
            }
        }
    }

    fn code(&mut self, (start, end, offset): (u64, u64, u64), file: CodeFile) -> Code {
        let file = Arc::new(file);
        let file = self.files.get(&file).cloned().unwrap_or(file);
        self.files.insert(Arc::clone(&file));
        Code { start, end, offset, file }
    }

    fn change(&mut self, pid: Pid, time: KernelTime, change: Change) {
        if self.mappings >= MAPPINGS_MAX {
            self.left_out += 1;
            return;
        }
        self.mappings += 1;
        self.memory.entry(pid).or_default().push((time, change));
    }

    /// Names all addresses. What is to be said of those that have none.
    pub(super) fn name(mut self) -> (Vec<Fact>, Option<String>) {
        self.sort();
        let (mut found, mut warning) = (Vec::new(), None);
        match symbols::of_kernel(&self.kernel.drain().collect()) {
            Ok(named) => found.extend(named),
            Err(why) => warning = Some(format!("the kernel's functions have no names: {why}")),
        }
        let mut wanted: Vec<Wanted> = Vec::new();
        for &(pid, address) in &self.user {
            let all = self.at(pid, address, KernelTime::MAX, ANCESTORS_MAX);
            // Without any it may be in a list of what was compiled on the way.
            let all = if all.is_empty() { vec![(KernelTime::MIN, None)] } else { all };
            wanted.extend(all.into_iter().map(|(since, code)| Wanted {
                pid,
                address,
                since,
                code,
            }));
        }
        let is_nothing =
            |it: &Symbol| it.since == KernelTime::MIN && it.name.is_empty() && it.module.is_empty();
        found.extend(symbols::of_programs(wanted).into_iter().filter(|it| !is_nothing(it)));
        if self.left_out > 0 {
            let left_out = self.left_out;
            let more = format!("{left_out} addresses or mappings were too many to be remembered");
            warning = Some(warning.map_or(more.clone(), |it| format!("{it}; {more}")));
        }
        let fact = |it: Symbol| Fact::Symbol(Box::new(it));
        (found.into_iter().map(fact).collect(), warning)
    }

    /// What the process had at an address, and since when, until this time; `None`: nothing that is known.
    fn at(
        &self,
        pid: Pid,
        address: u64,
        until: KernelTime,
        generations: usize,
    ) -> Vec<(KernelTime, Option<Code>)> {
        let mut all: Vec<(KernelTime, Option<Code>)> = Vec::new();
        let changes = self.memory.get(&pid).into_iter().flatten();
        let mut was_there_before = true;
        for (time, change) in changes.take_while(|it| it.0 <= until) {
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
                    let inherited = match generations.checked_sub(1) {
                        Some(left) => self.at(*parent, address, *time, left).pop(),
                        None => None,
                    };
                    let code = inherited.and_then(|it| it.1);
                    if code.is_some() || !all.is_empty() {
                        all.push((*time, code));
                    }
                }
            }
        }
        all
    }
}

#[cfg(test)]
impl SeenChains {
    /// The last that the process had at an address.
    pub(super) fn at_for_tests(&self, pid: Pid, address: u64) -> Option<Code> {
        self.at(pid, address, KernelTime::MAX, ANCESTORS_MAX).pop()?.1
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
                    let code = seen.code((0x1000, 0x2000, 0), file);
                    let is_new = how == "map";
                    let change = if is_new { Change::Code(code) } else { Change::Seen(code) };
                    seen.change(pid, time, change);
                }
            }
        }
        seen
    }

    #[track_caller]
    fn check(changes: &[(i32, u64, &str)], pid: i32, address: u64, expected: &[(u64, &str)]) {
        let found = seen(changes).at(Pid(pid), address, KernelTime::MAX, ANCESTORS_MAX);
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
        let (facts, warning) = seen.name();
        assert_eq!((facts.len(), warning), (16, None));
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
