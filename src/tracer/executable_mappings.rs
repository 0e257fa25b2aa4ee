//! History of executable mappings: the code that processes had in memory, with the time of each
//! mapping, as far as recorded.
//!
//! All candidates are kept: a process can have had several files at one address, one after the
//! other. A malicious process can inflate this history. It has limits; from the time on at which a
//! limit was reached nothing is known.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::capture::fact::{Fact, Text};
use crate::record::abi::record_type;
use crate::record::parse::{CodeMap, RecordBody};
use crate::record::{RecordKind, SampleLayout};
use crate::units::{KernelTime, Pid};

/// Largest number of mappings of code that are remembered, of all processes.
const MAPPINGS_MAX: usize = 1 << 20;

/// Largest size of the paths and build ids of all files that are remembered, in bytes.
const FILES_BYTES_MAX: usize = 64 << 20;

/// Largest number of ancestors that are searched for inherited mappings.
const ANCESTORS_MAX: usize = 64;

/// File of a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CodeFile {
    /// Path as the process sees it.
    pub path: Vec<u8>,
    /// Identity of the file.
    pub identity: FileIdentity,
}

impl CodeFile {
    /// Returns the memory that the path and build id take, in bytes.
    fn bytes(&self) -> usize {
        let id = if let FileIdentity::BuildId(id) = &self.identity { id.len() } else { 0 };
        self.path.len() + id
    }
}

/// Identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum FileIdentity {
    /// Build id of the file.
    BuildId(Vec<u8>),
    /// Major and minor number of the device, and the inode.
    Inode(u32, u32, u64),
}

/// Code in the memory of a process.
#[derive(Clone, Debug)]
pub(super) struct CodeMapping {
    pub start: u64,
    pub end: u64,
    /// Offset in the file at `start`, in bytes.
    pub offset: u64,
    pub file: Arc<CodeFile>,
}

impl CodeMapping {
    /// True if the mapping contains a call instruction that ends right before this address.
    fn has(&self, address: u64) -> bool {
        self.start < address && address <= self.end
    }
}

/// Executable mapping whose file is not yet shared with other mappings.
struct NewMapping {
    start: u64,
    end: u64,
    /// Offset in the file at `start`, in bytes.
    offset: u64,
    file: CodeFile,
}

/// Change of the memory of a process.
#[derive(Clone, Debug)]
enum MappingChange {
    /// Mapping that was created.
    Code(CodeMapping),
    /// Mapping that existed when `/proc/PID/maps` was read.
    Seen(CodeMapping),
    /// The process executed another program: all earlier mappings are gone.
    Exec,
    /// The process was born with the memory of this process.
    BornOf(Pid),
}

/// Executable mappings of all processes.
#[derive(Debug, Default)]
pub(super) struct MappingHistory {
    memory: FxHashMap<Pid, Vec<(KernelTime, MappingChange)>>,
    files: FxHashSet<Arc<CodeFile>>,
    file_bytes: usize,
    mappings: usize,
    /// Time of the earliest change for which there was no room: mappings from then on are unknown.
    pub(super) known_until: Option<KernelTime>,
    /// Number of changes for which there was no room.
    pub(super) left_out: u64,
}

impl MappingHistory {
    /// Stores the change that a record reports.
    pub(super) fn note(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        if !matches!(record.kind, record_type::MMAP2 | record_type::COMM | record_type::FORK) {
            return;
        }
        let Ok(parsed) = record.parse(layout) else { return };
        match parsed.body {
            RecordBody::Mmap(map) => self.note_code(parsed.time, &map),
            RecordBody::Comm { pid, exec: true, .. } => {
                self.change(pid, parsed.time, MappingChange::Exec)
            }
            RecordBody::Fork { pid, ppid, .. } if pid != ppid => {
                self.change(pid, parsed.time, MappingChange::BornOf(ppid));
            }
            _ => {}
        }
    }

    /// Sorts all changes. Queries are valid only after this call.
    pub(super) fn sort(&mut self) {
        for changes in self.memory.values_mut() {
            changes.sort_by_key(|it| it.0);
        }
    }

    /// Returns the address ranges in which any process has had code, sorted and without overlaps.
    /// Searching each process separately would take too long.
    pub(super) fn code_of_all(&self) -> Vec<(u64, u64)> {
        let place = |(_, change): &(KernelTime, MappingChange)| match change {
            MappingChange::Code(code) | MappingChange::Seen(code) => Some((code.start, code.end)),
            MappingChange::Exec | MappingChange::BornOf(_) => None,
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
            FileIdentity::BuildId(map.file.get(4..4 + length).unwrap_or_default().to_vec())
        } else {
            let ino = map.file.get(8..).and_then(|it| it.first_chunk());
            let ino = ino.map_or(0, |it| u64::from_le_bytes(*it));
            FileIdentity::Inode(word(0).unwrap_or(0), word(4).unwrap_or(0), ino)
        };
        let file = CodeFile { path: map.path.into(), identity };
        let end = map.start.saturating_add(map.bytes);
        let mapping = NewMapping { start: map.start, end, offset: map.offset, file };
        self.add_mapping(map.pid, time, mapping, MappingChange::Code);
    }

    /// Stores the mappings that a fact reports, if it contains some.
    pub(super) fn note_fact(&mut self, fact: &Fact) {
        let Fact::Text { which: Text::MAPS, time, pid, text } = fact else { return };
        for line in text.split(|it| *it == b'\n') {
            if let Some(mapping) = line_of_maps(line) {
                self.add_mapping(*pid, *time, mapping, MappingChange::Seen);
            }
        }
    }

    fn add_mapping(
        &mut self,
        pid: Pid,
        time: KernelTime,
        mapping: NewMapping,
        how: impl Fn(CodeMapping) -> MappingChange,
    ) {
        if self.mappings >= MAPPINGS_MAX {
            return self.forget_from(time);
        }
        let NewMapping { start, end, offset, file } = mapping;
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
        self.change(pid, time, how(CodeMapping { start, end, offset, file }));
    }

    fn change(&mut self, pid: Pid, time: KernelTime, change: MappingChange) {
        if self.mappings >= MAPPINGS_MAX {
            return self.forget_from(time);
        }
        self.mappings += 1;
        self.memory.entry(pid).or_default().push((time, change));
    }

    /// Counts a change at this time for which there is no room.
    pub(super) fn forget_from(&mut self, time: KernelTime) {
        self.left_out += 1;
        self.known_until = Some(self.known_until.map_or(time, |it| it.min(time)));
    }

    /// Returns the mappings that the process had at an address, and the time of each; `None`:
    /// unmapped or unknown from then on. `looks` is the number of changes that may be examined; if
    /// none is left the result is not valid.
    pub(super) fn at(
        &self,
        pid: Pid,
        address: u64,
        looks: &mut u64,
    ) -> Vec<(KernelTime, Option<CodeMapping>)> {
        let mut all: Vec<(KernelTime, Option<CodeMapping>)> = Vec::new();
        let mut was_there_before = true;
        for (time, change) in self.memory.get(&pid).into_iter().flatten() {
            *looks = looks.saturating_sub(1);
            if *looks == 0 {
                break;
            }
            was_there_before &= !matches!(change, MappingChange::Exec | MappingChange::BornOf(_));
            match change {
                MappingChange::Code(code) if code.has(address) => {
                    all.push((*time, Some(code.clone())))
                }
                MappingChange::Seen(code) if code.has(address) => match all.last() {
                    // The creation of the mapping is recorded.
                    Some((_, Some(_))) => {}
                    // The mapping existed before all recorded changes.
                    None if was_there_before => all.push((KernelTime::MIN, Some(code.clone()))),
                    _ => all.push((*time, Some(code.clone()))),
                },
                MappingChange::Code(_) | MappingChange::Seen(_) => {}
                MappingChange::Exec => all.extend((!all.is_empty()).then_some((*time, None))),
                MappingChange::BornOf(parent) => {
                    let code = self.last(*parent, address, *time, looks);
                    if code.is_some() || !all.is_empty() {
                        all.push((*time, code));
                    }
                }
            }
        }
        all
    }

    /// Returns the mapping that the process had at an address at this time, its own or inherited.
    fn last(
        &self,
        pid: Pid,
        address: u64,
        until: KernelTime,
        looks: &mut u64,
    ) -> Option<CodeMapping> {
        let (mut pid, mut until) = (pid, until);
        for _ in 0..ANCESTORS_MAX {
            let changes = self.memory.get(&pid)?;
            let recorded = changes.partition_point(|it| it.0 <= until);
            let mut seen = None;
            let mut parent = None;
            for (time, change) in changes.iter().take(recorded).rev() {
                *looks = looks.checked_sub(1)?;
                match change {
                    MappingChange::Code(code) if code.has(address) => return Some(code.clone()),
                    // An earlier change may have recorded the creation of the mapping.
                    MappingChange::Seen(code) if code.has(address) => seen = Some(code),
                    MappingChange::Code(_) | MappingChange::Seen(_) => {}
                    MappingChange::Exec => return seen.cloned(),
                    MappingChange::BornOf(of) => {
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

    /// Returns the recorded times at which a process with this number was born.
    pub(super) fn births(&self, pid: Pid) -> impl Iterator<Item = KernelTime> {
        let is_birth = |it: &&(KernelTime, MappingChange)| matches!(it.1, MappingChange::BornOf(_));
        self.of(pid).iter().filter(is_birth).map(|it| it.0)
    }

    /// Returns the mappings that a process had at time `from`, and the mappings that were created
    /// until `until`, each with its time; `None`: all earlier mappings are gone. The process is not
    /// born between the two times.
    pub(super) fn history(
        &self,
        pid: Pid,
        from: KernelTime,
        until: KernelTime,
    ) -> Vec<(KernelTime, Option<&CodeMapping>)> {
        let mut lives = vec![self.life(pid, from, until)];
        // A process is born with the mappings that its parent had at that time.
        while let Some((parent, time)) = lives.last().and_then(|it| it.born_of)
            && lives.len() < ANCESTORS_MAX
        {
            lives.push(self.life(parent, time, time));
        }
        lives.into_iter().rev().flat_map(|it| it.changes).collect()
    }

    /// Returns the changes from the start of the program that a process ran at time `from`, until
    /// `until`.
    fn life(&self, pid: Pid, from: KernelTime, until: KernelTime) -> ProcessHistory<'_> {
        let all = self.of(pid);
        let recorded = all.get(..all.partition_point(|it| it.0 <= until)).unwrap_or_default();
        let is_begin = |change: &(KernelTime, MappingChange)| {
            matches!(change.1, MappingChange::Exec | MappingChange::BornOf(_))
        };
        let begin = recorded.iter().rposition(|it| it.0 <= from && is_begin(it));
        let born_of =
            begin.and_then(|it| recorded.get(it)).and_then(|(time, change)| match change {
                MappingChange::BornOf(parent) => Some((*parent, *time)),
                _ => None,
            });
        let mut changes = Vec::new();
        if begin.is_none() {
            // Mappings that are seen later existed before all recorded changes.
            let first = all.iter().position(is_begin).unwrap_or(all.len());
            changes.extend(all.iter().take(first).filter_map(|(_, change)| match change {
                MappingChange::Seen(code) => Some((KernelTime::MIN, Some(code))),
                _ => None,
            }));
        }
        let mut has_begun = begin.is_some();
        for (time, change) in recorded.iter().skip(begin.map_or(0, |it| it + 1)) {
            match change {
                MappingChange::Code(code) => changes.push((*time, Some(code))),
                MappingChange::Seen(code) => {
                    changes.extend(has_begun.then_some((*time, Some(code))))
                }
                MappingChange::Exec | MappingChange::BornOf(_) => {
                    has_begun = true;
                    changes.push((*time, None));
                }
            }
        }
        ProcessHistory { changes, born_of }
    }

    fn of(&self, pid: Pid) -> &[(KernelTime, MappingChange)] {
        self.memory.get(&pid).map_or(&[], Vec::as_slice)
    }
}

/// Part of the history of a process, from one exec or birth to the next.
struct ProcessHistory<'a> {
    changes: Vec<(KernelTime, Option<&'a CodeMapping>)>,
    /// Parent from which the process inherited its earlier mappings, and the time of birth.
    born_of: Option<(Pid, KernelTime)>,
}

/// Parses a line `START-END RIGHTS OFFSET MAJOR:MINOR INODE PATH`; `None` if the mapping is not
/// executable.
fn line_of_maps(line: &[u8]) -> Option<NewMapping> {
    let mut words = line.splitn(6, |it| *it == b' ');
    let mut text = || std::str::from_utf8(words.next()?).ok();
    let (range, rights, offset, dev, ino) = (text()?, text()?, text()?, text()?, text()?);
    let hex = |it: &str| u64::from_str_radix(it, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = dev.split_once(':')?;
    let number = |it: &str| u32::from_str_radix(it, 16).ok();
    let identity = FileIdentity::Inode(number(major)?, number(minor)?, ino.parse().ok()?);
    let path = words.next().unwrap_or_default().trim_ascii_start().to_vec();
    let file = CodeFile { path, identity };
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(offset)?);
    rights.contains('x').then_some(NewMapping { start, end, offset, file })
}

/// Returns a history described by words: `map PATH`, `seen PATH`, `exec`, `born PID`.
#[cfg(test)]
pub(super) fn made(changes: &[(i32, u64, &str)]) -> MappingHistory {
    let mut code = MappingHistory::default();
    for &(pid, time, what) in changes {
        let (pid, time) = (Pid(pid), KernelTime(time));
        match what.split_once(' ') {
            None => code.change(pid, time, MappingChange::Exec),
            Some(("born", of)) => {
                code.change(pid, time, MappingChange::BornOf(Pid(of.parse().expect("a number"))));
            }
            Some((how, path)) => {
                let identity = FileIdentity::Inode(8, 1, 1);
                let file = CodeFile { path: path.into(), identity };
                let change = if how == "map" { MappingChange::Code } else { MappingChange::Seen };
                let mapping = NewMapping { start: 0x1000, end: 0x2000, offset: 0, file };
                code.add_mapping(pid, time, mapping, change);
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
        let path = |code: Option<CodeMapping>| match code {
            Some(code) => String::from_utf8_lossy(&code.file.path).into_owned(),
            None => "-".to_owned(),
        };
        let found: Vec<_> = found.into_iter().map(|(time, code)| (time.0, path(code))).collect();
        let expected: Vec<_> = expected.iter().map(|it| (it.0, it.1.to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn mapping_at_an_address_is_found() {
        let changes = [(7, 10, "map /a"), (7, 20, "map /b"), (7, 30, "exec"), (7, 40, "map /c")];
        let all = [(10, "/a"), (20, "/b"), (30, "-"), (40, "/c")];
        check(&changes, 7, 0x1800, &all);
        // The address is a return address, so it may be the end of the mapping.
        check(&changes[..1], 7, 0x2000, &[(10, "/a")]);
        check(&changes[..1], 7, 0x1000, &[]);
        check(&changes, 8, 0x1800, &[]);
    }

    #[test]
    fn unexplained_mapping_is_an_earlier_one() {
        check(&[(7, 10, "seen /a")], 7, 0x1800, &[(0, "/a")]);
        check(&[(7, 5, "map /a"), (7, 10, "seen /a")], 7, 0x1800, &[(5, "/a")]);
        check(&[(7, 5, "exec"), (7, 10, "seen /a")], 7, 0x1800, &[(10, "/a")]);
        check(&[(7, 5, "born 1"), (7, 10, "seen /a")], 7, 0x1800, &[(10, "/a")]);
        let changes = [(7, 10, "seen /a"), (8, 20, "born 7"), (7, 30, "map /b")];
        check(&changes, 8, 0x1800, &[(20, "/a")]);
    }

    #[test]
    fn child_inherits_mappings() {
        let changes = [
            (7, 10, "map /a"),
            (8, 20, "born 7"),
            (7, 30, "map /b"),
            (8, 40, "exec"),
            (9, 50, "born 8"),
        ];
        check(&changes, 8, 0x1800, &[(20, "/a"), (40, "-")]);
        check(&changes, 9, 0x1800, &[]);
        // Two processes that are each other's parents, in damaged records.
        let changes = [(7, 10, "born 8"), (8, 10, "born 7"), (7, 20, "map /a")];
        check(&changes, 7, 0x1800, &[(20, "/a")]);
    }

    /// Fails if the history of a process has a mapping that the process never had, or had no
    /// longer, or not in its order.
    #[test]
    fn history_starts_with_inherited_mappings() {
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
            let all = code.history(Pid(pid), KernelTime(from), KernelTime(until));
            let path = |code: Option<&CodeMapping>| match code {
                Some(code) => String::from_utf8_lossy(&code.file.path).into_owned(),
                None => "-".to_owned(),
            };
            let all = all.into_iter().map(|(time, code)| format!("{} {}", time.0, path(code)));
            all.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(history(7, 5, 30), "0 /a, 20 /b");
        assert_eq!(history(8, 30, 30), "0 /a, 20 /b");
        assert_eq!(history(8, 45, 80), "0 /a, 20 /b, 40 /d, 50 -, 60 /e, 70 /e");
        assert_eq!(history(8, 55, 80), "60 /e, 70 /e");
        assert_eq!(history(9, 5, 80), "");
        assert_eq!(code.births(Pid(8)).collect::<Vec<_>>(), [KernelTime(30)]);
    }

    /// Fails, or does not end, if two processes that are each other's parents, in damaged records,
    /// inherit each other's mappings repeatedly.
    #[test]
    fn history_is_bounded_by_its_events() {
        let born = [(7, 10, "born 8"), (8, 10, "born 7"), (7, 20, "map /a")];
        let code = made(&born);
        assert_eq!(code.history(Pid(7), KernelTime(15), KernelTime(30)).len(), 1);
    }

    #[test]
    fn number_of_mappings_is_bounded() {
        let mut code = made(&[(7, 10, "map /a")]);
        code.mappings = MAPPINGS_MAX;
        code.change(Pid(7), KernelTime(30), MappingChange::Exec);
        code.change(Pid(7), KernelTime(20), MappingChange::Exec);
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
        let mapping = line_of_maps(line).expect("code");
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f_0010, 0x7f_0020, 0x2000));
        let file = mapping.file;
        assert_eq!(
            (file.path.as_slice(), file.identity),
            (&b"/usr/lib/a b.so"[..], FileIdentity::Inode(0xfe, 1, 1234))
        );
        assert!(line_of_maps(b"7f0010-7f0020 rw-p 00002000 fe:01 1234 /a").is_none());
        assert!(line_of_maps(b"7f0010-7f0020 r-xp 00000000 00:00 0").is_some());
        assert!(line_of_maps(b"x").is_none());
    }
}
