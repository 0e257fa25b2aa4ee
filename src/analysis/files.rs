//! File report: opens, reads and writes of each file, repeated reads and writes, and bytes written
//! to files that were removed later.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rangemap::RangeSet;
use rustc_hash::FxHashMap;

use super::bounded_map::BoundedMap;
use super::completed_op::{CompletedOp, NamedPath};
use super::group_stats::{GroupStats, OpAmounts};
use super::histogram::Histogram;
use super::job_keys::{Absorb, CaptureKeys};
use super::process_names::ProcessNames;
use super::recent_rows::RecentRows;
use super::summary::{file_key, place_of};
use crate::event::syscall_table::CallClass;
use crate::operation::io_class::IoClass;
use crate::operation::model::{PathArgument, PathArguments, ProcessKey, SyscallOperation};
use crate::operation::renaming::exchanges;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid};

/// Limit of the pieces of a file that are remembered as read or written; bytes that touch no piece
/// are then not compared.
const PIECES_MAX: usize = 1024;

/// Limit of the pieces of all files together.
const ALL_PIECES_MAX: usize = 1 << 20;

/// Bytes of a file that were moved in one direction.
#[derive(Clone, Debug, Default)]
pub struct MovedBytes {
    /// Operations that moved bytes.
    pub count: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Bytes that had been moved in this direction before.
    pub again: u64,
    /// Bytes for which that is unknown: their offset is unknown, or there are too many pieces.
    pub unknown: u64,
}

impl MovedBytes {
    /// Adds `bytes` from `offset` on, and compares them with those in `pieces`. `room` is the
    /// number of pieces that may still be added, over all files.
    fn add(
        &mut self,
        offset: Option<u64>,
        bytes: u64,
        pieces: &mut RangeSet<u64>,
        room: &mut usize,
    ) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let Some((begin, end)) = offset.and_then(|it| Some((it, it.checked_add(bytes)?))) else {
            self.unknown = self.unknown.saturating_add(bytes);
            return;
        };
        let known = pieces.overlapping(begin..end);
        let again = known.map(|it| it.end.min(end) - it.start.max(begin)).sum::<u64>();
        self.again = self.again.saturating_add(again);
        if again == bytes {
            return;
        }
        let before = pieces.len();
        let touches = again > 0 || begin > 0 && pieces.contains(&(begin - 1));
        if !touches && (before >= PIECES_MAX || *room == 0) {
            // Some of these bytes may be moved again unseen.
            self.unknown = self.unknown.saturating_add(bytes);
            return;
        }
        pieces.insert(begin..end);
        let after = pieces.len();
        *room = room.saturating_add(before).saturating_sub(after);
    }

    /// Adds the numbers of another instance.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.again = self.again.saturating_add(other.again);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }
}

/// Known content of the file that has a name now.
#[derive(Clone, Debug, Default)]
struct NamedContents {
    /// Ranges that were read.
    read: RangeSet<u64>,
    /// Ranges that were written.
    changed: RangeSet<u64>,
    /// Bytes written to it, repeated writes included.
    written: u64,
}

impl NamedContents {
    fn forget(&mut self, room: &mut usize) {
        *room = room.saturating_add(self.read.len() + self.changed.len());
        *self = Self::default();
    }
}

/// Operations on one file, summed up.
#[derive(Clone, Debug, Default)]
pub struct FileUse {
    /// Opens that succeeded.
    pub opens: u64,
    /// Opens that failed.
    pub failed_opens: u64,
    /// All operations on it, opens included.
    pub count: u64,
    /// Operations that failed, opens included.
    pub errors: u64,
    /// Bytes that were read.
    pub read: MovedBytes,
    /// Bytes that were written.
    pub written: MovedBytes,
    /// Durations of all operations, ns.
    pub time: Histogram,
    /// Bytes of each access.
    pub sizes: Histogram,
    /// Largest known end of its content, in bytes.
    pub size: u64,
    /// Number of removals of the name.
    pub removals: u64,
    /// Bytes that had been written to removed files, under this name or an earlier one.
    pub written_then_removed: u64,
    now: NamedContents,
    /// Processes that used it.
    pub processes: u64,
    /// Operations whose name is doubtful.
    pub doubtful: u64,
    /// Operations that are file I/O, and those on descriptors of unknown type; the other operations
    /// wait.
    pub classes: [u64; 2],
    /// File system, of the last operation that tells it.
    pub file_system: Option<DevId>,
}

impl FileUse {
    /// Returns the class of all operations of the row; `None` if they are of several.
    pub fn io_class(&self) -> Option<IoClass> {
        match self.classes {
            [own, _] if own == self.count => Some(IoClass::File),
            [_, untyped] if untyped == self.count => Some(IoClass::Unknown),
            [0, 0] => Some(IoClass::Waiting),
            _ => None,
        }
    }

    fn add(
        &mut self,
        done: &CompletedOp<'_>,
        op: &OpAmounts,
        [read, written]: [u64; 2],
        room: &mut usize,
    ) {
        let failed = done.errno.is_some();
        self.count += 1;
        self.errors += u64::from(failed);
        if done.class == CallClass::Open {
            self.opens += u64::from(!failed);
            self.failed_opens += u64::from(failed);
        }
        let (time, bytes) = op.placed();
        self.time.add_placed(time);
        let [own, untyped] = &mut self.classes;
        *own += u64::from(done.io == IoClass::File);
        *untyped += u64::from(done.io == IoClass::Unknown);
        if done.bytes > 0 {
            self.sizes.add_placed(bytes);
        }
        if read > 0 {
            self.read.add(done.offset, read, &mut self.now.read, room);
        }
        if written > 0 {
            self.written.add(done.offset, written, &mut self.now.changed, room);
            self.now.written = self.now.written.saturating_add(written);
        }
        let end = done.offset.map_or(0, |it| it.saturating_add(read.max(written)));
        let known = done.file.and_then(|it| it.stat.as_ref()).map_or(0, |it| it.size);
        self.size = self.size.max(end).max(known);
        self.file_system = done.dev_of_name().or(self.file_system);
    }

    fn removed(&mut self, room: &mut usize) {
        self.removals += 1;
        self.written_then_removed = self.written_then_removed.saturating_add(self.now.written);
        self.now.forget(room);
    }

    /// Adds the numbers of another instance.
    pub fn merge(&mut self, other: &Self) {
        self.opens += other.opens;
        self.failed_opens += other.failed_opens;
        self.count += other.count;
        self.errors += other.errors;
        self.read.merge(&other.read);
        self.written.merge(&other.written);
        self.time.merge(&other.time);
        self.sizes.merge(&other.sizes);
        self.size = self.size.max(other.size);
        self.removals += other.removals;
        self.written_then_removed =
            self.written_then_removed.saturating_add(other.written_then_removed);
        self.doubtful += other.doubtful;
        for (sum, of_other) in self.classes.iter_mut().zip(other.classes) {
            *sum += of_other;
        }
    }
}

/// Operations of one process on one file.
#[derive(Clone, Debug, Default)]
pub struct ProcessUse {
    /// Process number.
    pub pid: Pid,
    /// Sum of its operations.
    pub tally: GroupStats,
}

/// Rows of the operations of a process on a file.
#[derive(Clone, Copy, Debug)]
struct UseRows {
    file: usize,
    by_process: usize,
}

/// Fold of the file report.
#[derive(Debug)]
pub struct FileTotals {
    /// Files by name ([`file_key`]).
    pub files: BoundedMap<Vec<u8>, FileUse>,
    /// Sums by process and row of the file.
    pub by_process: BoundedMap<(ProcessKey, usize), ProcessUse>,
    /// Operations without a known name: on files, pipes and similar, descriptors of unknown type.
    pub nameless: BTreeMap<IoClass, FileUse>,
    /// Names of processes.
    pub names: ProcessNames,
    room: usize,
    /// Rows of operations that may occur again.
    recent: RecentRows<UseRows>,
}

impl Default for FileTotals {
    fn default() -> Self {
        Self {
            files: BoundedMap::default(),
            by_process: BoundedMap::default(),
            nameless: BTreeMap::new(),
            names: ProcessNames::default(),
            room: ALL_PIECES_MAX,
            recent: RecentRows::default(),
        }
    }
}

impl FileTotals {
    /// Adds an operation, and applies its effect on names.
    pub(super) fn ended(&mut self, step: &Step<'_>, done: &CompletedOp<'_>) {
        self.done(done);
        if let Step::SyscallEnded(operation, _) = step
            && let Some(named) = &operation.named
        {
            self.names_changed(operation, named);
        }
    }

    fn done(&mut self, done: &CompletedOp<'_>) {
        match &done.name {
            Some(name) => {
                let rows = self.rows_of(name, done);
                self.on_file(rows, name, done, done.sides());
            }
            None if done.is_nameless() || done.class == CallClass::Transfer => {
                let row = self.nameless.entry(done.io).or_default();
                row.add(&unplaced(done), &OpAmounts::of(done), done.sides(), &mut self.room);
            }
            None => {}
        }
        if done.class != CallClass::Transfer {
            return;
        }
        // The file of the operation is the one that it reads.
        let there = CompletedOp { offset: done.target_offset, file: None, ..done.clone() };
        let moved = [0, done.bytes];
        match &done.target {
            Some(target) => {
                let rows = self.rows_of_name(target, &there);
                self.on_file(rows, target, &there, moved);
            }
            None => {
                let row = self.nameless.entry(done.io).or_default();
                row.add(&unplaced(&there), &OpAmounts::of(&there), moved, &mut self.room);
            }
        }
    }

    /// Returns the rows of an operation on the file of its name.
    fn rows_of(&mut self, name: &NamedPath<'_>, done: &CompletedOp<'_>) -> UseRows {
        if let Some(rows) = self.recent.find(done) {
            return rows;
        }
        let rows = self.rows_of_name(name, done);
        self.recent.keep(done, rows);
        rows
    }

    fn rows_of_name(&mut self, name: &NamedPath<'_>, done: &CompletedOp<'_>) -> UseRows {
        let file = place_of(&mut self.files, name);
        let key = (done.process, file);
        let names = &mut self.names;
        let by_process = self.by_process.place(&key, || {
            names.keep(done.process);
            key
        });
        UseRows { file, by_process }
    }

    fn on_file(
        &mut self,
        rows: UseRows,
        name: &NamedPath<'_>,
        done: &CompletedOp<'_>,
        moved: [u64; 2],
    ) {
        let by = self.by_process.at(rows.by_process);
        let is_first = by.tally.count == 0;
        by.pid = done.pid;
        let op = OpAmounts::of(done);
        by.tally.add(&op, moved);
        let file = self.files.at(rows.file);
        if rows.file == usize::MAX {
            file.add(&unplaced(done), &op, moved, &mut self.room);
        } else {
            file.add(done, &op, moved, &mut self.room);
        }
        file.processes += u64::from(is_first);
        file.doubtful += u64::from(name.is_doubtful);
    }

    /// Applies a removal or a rename: names that are gone, or now belong to another file.
    fn names_changed(&mut self, operation: &SyscallOperation, named: &PathArguments) {
        let key =
            |given: &Option<PathArgument>| given.as_ref().map(|it| file_key(&NamedPath::given(it)));
        let (first, second) = (key(&named.first), key(&named.second));
        if operation.ret != Some(0) {
            return;
        }
        match (operation.call.call().class, first, second) {
            (CallClass::Remove, Some(name), _) => {
                if let Some(row) = self.files.get_mut(name.as_slice()) {
                    row.removed(&mut self.room);
                }
            }
            (CallClass::Rename, Some(from), Some(to)) => {
                self.renamed(&from, &to, exchanges(operation));
            }
            _ => {}
        }
    }

    fn renamed(&mut self, from: &[u8], to: &[u8], exchange: bool) {
        let mut take = |key: &[u8]| self.files.get_mut(key).map(|it| std::mem::take(&mut it.now));
        let (mut first, mut second) = (take(from), take(to));
        if !exchange {
            // The old name has no file any more, and the earlier file of the new name is gone.
            second.iter_mut().for_each(|it| it.forget(&mut self.room));
            second = None;
        }
        for (key, now) in [(to, first.take()), (from, second.take())] {
            match (now, self.files.get_mut(key)) {
                (Some(now), Some(row)) => row.now = now,
                (Some(mut now), None) if now.written > 0 => {
                    let place = self.files.place(key, || key.to_vec());
                    let row = self.files.at(place);
                    row.now.forget(&mut self.room);
                    std::mem::swap(&mut row.now, &mut now);
                }
                (Some(mut now), None) => now.forget(&mut self.room),
                (None, _) => {}
            }
        }
    }
}

/// Removes the offset: in a row of many files, repetitions cannot be recognized.
fn unplaced<'a>(done: &CompletedOp<'a>) -> CompletedOp<'a> {
    CompletedOp { offset: None, ..done.clone() }
}

impl Absorb for FileTotals {
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        let mut places: FxHashMap<usize, usize> = FxHashMap::default();
        for (key, place) in other.files.keys() {
            let Some(used) = other.files.row_at(place) else { continue };
            let key = keys.file(key);
            let row = self.files.place(key.as_slice(), || key.clone());
            places.insert(place, row);
            let row = self.files.at(row);
            row.merge(used);
            // Processes of several captures are several ones.
            row.processes += used.processes;
            row.file_system = used.file_system.map(|dev| keys.file_system(dev)).or(row.file_system);
        }
        if let Some(used) = other.files.others() {
            self.files.at(usize::MAX).merge(used);
        }
        for ((process, place), used) in other.by_process.iter() {
            let of_job = keys.process(*process);
            let key = (of_job, places.get(place).copied().unwrap_or(usize::MAX));
            let row = self.by_process.place(&key, || key);
            if row != usize::MAX {
                self.names.absorb(*process, &other.names, keys);
            }
            let row = self.by_process.at(row);
            row.pid = used.pid;
            row.tally.merge(&used.tally);
        }
        if let Some(used) = other.by_process.others() {
            self.by_process.at(usize::MAX).tally.merge(&used.tally);
        }
        for (io, used) in &other.nameless {
            self.nameless.entry(*io).or_default().merge(used);
        }
    }
}

impl Sink for FileTotals {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.ended(step, &done);
                }
            }
            _ => self.names.look(step),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FileStat;
    use crate::operation::model::{FilePath, OpenFile, PathSource};
    use crate::operation::test_fixtures::call;
    use crate::units::Fd;

    fn moved(room: &mut usize, all: &[(Option<u64>, u64)]) -> MovedBytes {
        let (mut moved, mut pieces) = (MovedBytes::default(), RangeSet::new());
        all.iter().for_each(|it| moved.add(it.0, it.1, &mut pieces, room));
        moved
    }

    #[test]
    fn doubtful_name_has_its_own_row() {
        let open = |source, times| {
            let (first_path, given, stat, flags) = (None, None, None, None);
            let path = Some(FilePath::new("/a", source));
            let file = OpenFile { id: 0, path, first_path, given, stat, flags, pre_created: false };
            call("openat", file.into(), times, None, 3)
        };
        let mut fold = FileTotals::default();
        for it in [
            open(PathSource::Link, [1, 2]),
            open(PathSource::Unverified, [3, 5]),
            open(PathSource::Unverified, [6, 8]),
        ] {
            fold.done(&CompletedOp::of(&Step::SyscallEnded(&it, &[])).expect("it has ended"));
        }
        let mut rows: Vec<_> =
            fold.files.iter().map(|(key, it)| (key.clone(), it.opens, it.doubtful)).collect();
        rows.sort();
        assert_eq!(rows, [(b"/a".to_vec(), 1, 0), (b"/a\0\0".to_vec(), 2, 2)]);
    }

    /// Fails if the written file gets the size or the file system of the file that is read.
    #[test]
    fn a_transfer_describes_only_the_file_that_it_reads() {
        let file = |path: &str, stat| OpenFile {
            id: 0,
            path: Some(FilePath::new(path, PathSource::Link)),
            first_path: None,
            given: None,
            stat,
            flags: None,
            pre_created: false,
        };
        let dev = DevId::new(8, 1);
        let stat = FileStat { mode: libc::S_IFREG, dev, ino: 7, size: 1000 };
        let from = file("/from", Some(stat));
        let mut copy = call("copy_file_range", from.into(), [1, 2], Some(0), 10);
        copy.target = Some((Fd(4), file("/to", None).into()));
        copy.target_offset = Some(0);
        let mut fold = FileTotals::default();
        fold.done(&CompletedOp::of(&Step::SyscallEnded(&copy, &[])).expect("it has ended"));
        let row = |path: &[u8]| {
            let row = fold.files.iter().find(|(key, _)| key.as_slice() == path).expect("a row").1;
            (row.size, row.file_system)
        };
        assert_eq!([row(b"/from"), row(b"/to")], [(1000, Some(dev)), (10, None)]);
    }

    #[test]
    fn repeated_accesses_are_counted() {
        let mut room = 100;
        let all = [
            (Some(0), 10),
            (Some(10), 10),
            (Some(5), 10),
            (Some(30), 5),
            (Some(15), 20),
            (None, 7),
        ];
        let moved = moved(&mut room, &all);
        assert_eq!((moved.again, moved.unknown, room), (10 + 5 + 5, 7, 99));
        assert_eq!((moved.bytes, moved.count), (62, 6));
    }

    #[test]
    fn accesses_beyond_the_limit_are_unknown() {
        let mut room = 1;
        // Bytes next to a known piece need no space.
        let moved = moved(&mut room, &[(Some(0), 10), (Some(20), 10), (Some(10), 10)]);
        assert_eq!((moved.again, moved.unknown, room), (0, 10, 0));
    }
}
