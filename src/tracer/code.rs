//! What code processes had in their memory, and since when, as far as that was told.
//!
//! Whatever may have been meant is kept: a process can have had several files at an address one after the other. Processes may do what
//! they can to make this much: it has its limits, and from where one was reached on nothing is known.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::capture::fact::{Fact, Text};
use crate::record::abi::record_type;
use crate::record::parse::{Body, CodeMap};
use crate::record::{RecordKind, SampleLayout};
use crate::units::{KernelTime, Pid};

/// Mappings of code that are remembered, of all processes.
const MAPPINGS_MAX: usize = 1 << 20;

/// Paths and build ids of all files that are remembered, in bytes.
const FILES_BYTES_MAX: usize = 64 << 20;

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

/// The memory of all processes.
#[derive(Debug, Default)]
pub(super) struct CodeInMemory {
    memory: FxHashMap<Pid, Vec<(KernelTime, Change)>>,
    files: FxHashSet<Arc<CodeFile>>,
    file_bytes: usize,
    mappings: usize,
    /// The earliest change for which there was no room: what is in memory from then on is not known.
    pub(super) known_until: Option<KernelTime>,
    /// Changes for which there was no room.
    pub(super) left_out: u64,
}

impl CodeInMemory {
    /// Takes note of what a record says.
    pub(super) fn note(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        if !matches!(record.kind, record_type::MMAP2 | record_type::COMM | record_type::FORK) {
            return;
        }
        let Ok(parsed) = record.parse(layout) else { return };
        match parsed.body {
            Body::Mmap(map) => self.note_code(parsed.time, &map),
            Body::Comm { pid, exec: true, .. } => self.change(pid, parsed.time, Change::Exec),
            Body::Fork { pid, ppid, .. } if pid != ppid => {
                self.change(pid, parsed.time, Change::BornOf(ppid));
            }
            _ => {}
        }
    }

    /// Puts everything into its order: before that nothing can be asked.
    pub(super) fn sort(&mut self) {
        for changes in self.memory.values_mut() {
            changes.sort_by_key(|it| it.0);
        }
    }

    /// Where any process has had code, in order, without overlaps: it need not be sought in each process, for which there is no time.
    pub(super) fn code_of_all(&self) -> Vec<(u64, u64)> {
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
    pub(super) fn forget_from(&mut self, time: KernelTime) {
        self.left_out += 1;
        self.known_until = Some(self.known_until.map_or(time, |it| it.min(time)));
    }

    /// What the process had at an address, and since when; `None`: nothing that is known. `looks`: changes that may be looked at; nothing
    /// of what is returned is to be believed if none is left.
    pub(super) fn at(
        &self,
        pid: Pid,
        address: u64,
        looks: &mut u64,
    ) -> Vec<(KernelTime, Option<Code>)> {
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

    /// When a process of this number was born, each time that it was told.
    pub(super) fn births(&self, pid: Pid) -> impl Iterator<Item = KernelTime> {
        let is_birth = |it: &&(KernelTime, Change)| matches!(it.1, Change::BornOf(_));
        self.of(pid).iter().filter(is_birth).map(|it| it.0)
    }

    /// What a process had in its memory at the first of these times, since when, and what came until the other; `None`: nothing of before is
    /// there any more. It is not born between the two.
    pub(super) fn history(
        &self,
        pid: Pid,
        (from, until): (KernelTime, KernelTime),
    ) -> Vec<(KernelTime, Option<&Code>)> {
        let mut lives = vec![self.life(pid, from, until)];
        // What it was born with is what its parent had then.
        while let Some((parent, time)) = lives.last().and_then(|it| it.born_of)
            && lives.len() < ANCESTORS_MAX
        {
            lives.push(self.life(parent, time, time));
        }
        lives.into_iter().rev().flat_map(|it| it.changes).collect()
    }

    /// What came into the memory of a process since the program that it ran at the first of these times, until the other.
    fn life(&self, pid: Pid, from: KernelTime, until: KernelTime) -> Life<'_> {
        let all = self.of(pid);
        let told = all.get(..all.partition_point(|it| it.0 <= until)).unwrap_or_default();
        let is_begin = |it: &(KernelTime, Change)| matches!(it.1, Change::Exec | Change::BornOf(_));
        let begin = told.iter().rposition(|it| it.0 <= from && is_begin(it));
        let born_of = begin.and_then(|it| told.get(it)).and_then(|(time, it)| match it {
            Change::BornOf(parent) => Some((*parent, *time)),
            _ => None,
        });
        let mut changes = Vec::new();
        if begin.is_none() {
            // What is seen later was there before all that was told.
            let first = all.iter().position(is_begin).unwrap_or(all.len());
            changes.extend(all.iter().take(first).filter_map(|(_, it)| match it {
                Change::Seen(code) => Some((KernelTime::MIN, Some(code))),
                _ => None,
            }));
        }
        let mut is_told = begin.is_some();
        for (time, change) in told.iter().skip(begin.map_or(0, |it| it + 1)) {
            match change {
                Change::Code(code) => changes.push((*time, Some(code))),
                Change::Seen(code) => changes.extend(is_told.then_some((*time, Some(code)))),
                Change::Exec | Change::BornOf(_) => {
                    is_told = true;
                    changes.push((*time, None));
                }
            }
        }
        Life { changes, born_of }
    }

    fn of(&self, pid: Pid) -> &[(KernelTime, Change)] {
        self.memory.get(&pid).map_or(&[], Vec::as_slice)
    }
}

/// A piece of the history of a process.
struct Life<'a> {
    changes: Vec<(KernelTime, Option<&'a Code>)>,
    /// What was there before is what this process had then.
    born_of: Option<(Pid, KernelTime)>,
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

/// What processes had in their memory, by words: `map PATH`, `seen PATH`, `exec`, `born PID`.
#[cfg(test)]
pub(super) fn made(changes: &[(i32, u64, &str)]) -> CodeInMemory {
    let mut code = CodeInMemory::default();
    for &(pid, time, what) in changes {
        let (pid, time) = (Pid(pid), KernelTime(time));
        match what.split_once(' ') {
            None => code.change(pid, time, Change::Exec),
            Some(("born", of)) => {
                code.change(pid, time, Change::BornOf(Pid(of.parse().expect("a number"))));
            }
            Some((how, path)) => {
                let identity = Identity::Inode(8, 1, 1);
                let file = CodeFile { path: path.into(), identity };
                let change = if how == "map" { Change::Code } else { Change::Seen };
                code.code_came(pid, time, ((0x1000, 0x2000, 0), file), change);
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(changes: &[(i32, u64, &str)], pid: i32, address: u64, expected: &[(u64, &str)]) {
        let found = made(changes).at(Pid(pid), address, &mut { u64::MAX });
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

    /// Fails if a process is said to have what it never had, or what it has no more, or not in its order.
    #[test]
    fn the_history_of_a_process_begins_with_what_it_was_born_with() {
        let changes = [
            (7, 10, "seen /a"),
            (7, 20, "map /b"),
            (8, 30, "born 7"),
            (7, 35, "map /c"),
            (8, 40, "map /d"),
            (8, 50, "exec"),
            (8, 60, "map /e"),
            (8, 70, "seen /e"),
            (8, 90, "map /f"),
        ];
        let code = made(&changes);
        let history = |pid, from, until| {
            let all = code.history(Pid(pid), (KernelTime(from), KernelTime(until)));
            let path = |it: Option<&Code>| {
                it.map_or("-".into(), |it| String::from_utf8_lossy(&it.file.path).into_owned())
            };
            let all = all.into_iter().map(|it| format!("{} {}", it.0.0, path(it.1)));
            all.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(history(7, 5, 30), "0 /a, 20 /b");
        assert_eq!(history(8, 30, 30), "0 /a, 20 /b");
        assert_eq!(history(8, 45, 80), "0 /a, 20 /b, 40 /d, 50 -, 60 /e, 70 /e");
        assert_eq!(history(8, 55, 80), "60 /e, 70 /e");
        assert_eq!(history(9, 5, 80), "");
        assert_eq!(code.births(Pid(8)).collect::<Vec<_>>(), [KernelTime(30)]);
    }

    /// Fails, or does not end, if two that are each other's parents, in damaged records, have each other's memory over and over.
    #[test]
    fn a_history_is_not_longer_than_what_was_told() {
        let born = [(7, 10, "born 8"), (8, 10, "born 7"), (7, 20, "map /a")];
        let code = made(&born);
        assert_eq!(code.history(Pid(7), (KernelTime(15), KernelTime(30))).len(), 1);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut code = made(&[(7, 10, "map /a")]);
        code.mappings = MAPPINGS_MAX;
        code.change(Pid(7), KernelTime(30), Change::Exec);
        code.change(Pid(7), KernelTime(20), Change::Exec);
        assert_eq!((code.left_out, code.known_until), (2, Some(KernelTime(20))));
    }

    #[test]
    fn code_of_all_processes_together() {
        let code = made(&[(7, 10, "map /a"), (8, 20, "seen /b"), (8, 30, "exec")]);
        assert_eq!(code.code_of_all(), [(0x1000, 0x2000)]);
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
