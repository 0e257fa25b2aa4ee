//! Counters that no other report has: searches for files that do not exist, queries of a path,
//! opens without a use, syncs of a file, direct I/O, threads that write one file, throttled
//! writers.

use rangemap::RangeSet;
use rustc_hash::FxHashMap;

use super::super::bounded_map::BoundedMap;
use super::super::completed_op::{CompletedOp, NamedPath, OpKind};
use super::super::process_names::ProcessNames;
use super::super::summary::{file_key, place_of};
use super::medium::{Media, Medium};
use crate::event::OpenFlags;
use crate::event::layer::{COMMIT, Layer};
use crate::event::syscall_table::CallClass;
use crate::naming::paths::parent;
use crate::operation::Step;
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep, RequestEnd};
use crate::operation::io_class::IoClass;
use crate::operation::model::{FdEffect, OpenFile, ProcessKey, SyscallOperation, ThreadKey};
use crate::units::{KernelTime, Pid, SECTOR_BYTES};

/// Alignment of direct I/O that all disks accept.
pub const DIRECT_BYTES: u64 = 4096;

/// Limit of open files that are watched for a use.
const OPEN_MAX: usize = 1 << 16;

/// Limit of ranges that no disk has yet.
const RANGES_MAX: usize = 1 << 18;

/// Limit of files whose last write is remembered.
const WRITERS_MAX: usize = 1 << 14;

/// Operations of a kind on one file, directory or program.
#[derive(Clone, Copy, Debug, Default)]
pub struct HabitRow {
    /// Number of operations.
    pub count: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Time, ns.
    pub time_ns: u64,
    /// Process of all operations, if it is only one.
    pub process: Option<(ProcessKey, Pid)>,
    is_shared: bool,
}

/// Rows by the key of a file, or the path of a directory.
pub type HabitRows = BoundedMap<Vec<u8>, HabitRow>;

/// Last write to a file.
#[derive(Clone, Copy, Debug)]
struct LastWrite {
    thread: ThreadKey,
    start: KernelTime,
    end: KernelTime,
}

/// Fold of the counters.
#[derive(Debug, Default)]
pub struct Habits {
    direct_flag: u32,
    media: Media,
    /// Calls with a path, and those that failed with ENOENT.
    pub lookups: [u64; 2],
    /// Failed searches by directory.
    pub missing: HabitRows,
    /// Successful queries by path.
    pub queries: HabitRows,
    /// Opens without a use by path.
    pub unused: HabitRows,
    /// Syncs by file.
    pub syncs: HabitRows,
    /// Calls of `sync` and `syncfs` by name.
    pub all_syncs: HabitRows,
    /// Syncs of files that are always synced.
    pub twice: HabitRows,
    /// Direct accesses with other offsets or lengths than multiples of [`DIRECT_BYTES`].
    pub unaligned: HabitRows,
    /// Direct accesses that failed with EINVAL.
    pub refused: HabitRows,
    /// Writes that overlap with a write of another thread.
    pub overlaps: HabitRows,
    /// Throttled writes by file.
    pub throttled: HabitRows,
    /// Syncs that waited for a commit of a journal, by file.
    pub commits: HabitRows,
    /// Time of all syncs, ns.
    pub sync_ns: u64,
    /// Bytes that were overwritten before a disk had them.
    pub overwritten: HabitRows,
    /// Writes whose ranges were not remembered for lack of room.
    pub forgotten: u64,
    /// Writes to files beyond the limit of those whose last write is remembered.
    pub forgotten_writers: u64,
    /// Opens that were not watched for a use for lack of room.
    pub forgotten_opens: u64,
    /// Names of processes.
    pub names: ProcessNames,
    opened: FxHashMap<u64, Vec<u8>>,
    pending: FxHashMap<FileKey, RangeSet<u64>>,
    /// Files with such ranges by their paths.
    places: FxHashMap<Vec<u8>, FileKey>,
    ranges: usize,
    writers: FxHashMap<FileKey, LastWrite>,
}

impl Habits {
    /// Creates the fold; `direct_flag` is the bit of `O_DIRECT` on the machine of the recording.
    pub fn new(direct_flag: u32) -> Self {
        Self { direct_flag, ..Self::default() }
    }

    /// Adds the operation that this step ends.
    pub(super) fn ended(&mut self, done: &CompletedOp<'_>, step: &Step<'_>) {
        let effects: &[FdEffect] = match step {
            Step::SyscallEnded(_, effects) | Step::AsyncEnded(_, effects) => effects,
            _ => &[],
        };
        let requested = match step {
            Step::SyscallEnded(operation, _) => operation.bytes_requested,
            Step::AsyncEnded(operation, _) => operation.bytes_requested,
            _ => None,
        };
        self.uses(done, effects);
        self.begin_anew(done, effects);
        match done.class {
            CallClass::Open | CallClass::Stat => self.looked_up(done),
            CallClass::Sync => self.synced(done),
            CallClass::Read | CallClass::Write => self.accessed(done, requested),
            _ => {}
        }
        if let Step::SyscallEnded(operation, _) = step {
            self.spans(operation, done);
        }
    }

    /// Takes a step that ends no operation.
    pub fn take(&mut self, step: &Step<'_>) {
        match step {
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.request(request, pieces);
            }
            Step::MountsSeen(table) => self.media = Media::new(table),
            // A child may use what its parent has opened.
            Step::Forked { .. } => self.opened.clear(),
            _ => self.names.look(step),
        }
    }

    /// Takes a step that the filter does not select: bytes that others sync or write are on a disk.
    pub fn take_other(&mut self, step: &Step<'_>, done: Option<&CompletedOp<'_>>) {
        if let Step::Block { step: BlockStep::Ended(request), pieces, .. } = step {
            return self.request(request, pieces);
        }
        let Some(done) = done else { return };
        if let Step::SyscallEnded(_, effects) | Step::AsyncEnded(_, effects) = step {
            self.begin_anew(done, effects);
        }
        if done.class != CallClass::Sync {
            return;
        }
        let inode = done.file.and_then(|file| file.stat).and_then(|stat| stat.inode());
        match inode.filter(|_| done.errno.is_none()) {
            Some(inode) => self.forget_ranges(inode),
            None => {
                self.pending.clear();
                self.ranges = 0;
            }
        }
    }

    fn looked_up(&mut self, done: &CompletedOp<'_>) {
        let has_path = matches!(done.what, OpKind::Call(call) if call.call().has_path());
        let Some(name) = done.name.filter(|_| has_path) else { return };
        let [all, missing] = &mut self.lookups;
        *all += 1;
        if done.errno == Some(libc::ENOENT) {
            *missing += 1;
            let directory = parent(name.path);
            let directory = if directory.is_empty() { &b"/"[..] } else { directory };
            add(&mut self.missing, &mut self.names, directory, done, 0);
        } else if done.errno.is_none() && done.class == CallClass::Stat {
            add_named(&mut self.queries, &mut self.names, &name, done, 0);
        }
    }

    /// Follows whether an open file is used.
    fn uses(&mut self, done: &CompletedOp<'_>, effects: &[FdEffect]) {
        let is_use = !matches!(done.class, CallClass::Open | CallClass::Close | CallClass::Stat);
        if is_use
            && let Some(file) = done.file
            && !self.opened.is_empty()
        {
            self.opened.remove(&file.id);
        }
        for effect in effects {
            match effect {
                FdEffect::Created { file, .. } => {
                    let Some(key) = unused_key(file) else { continue };
                    if self.opened.len() < OPEN_MAX {
                        self.opened.insert(file.id, key);
                    } else {
                        self.forgotten_opens += 1;
                    }
                }
                FdEffect::Duplicated { file, .. } => drop(self.opened.remove(&file.id)),
                FdEffect::Destroyed { file, .. } => {
                    if let Some(key) = self.opened.remove(&file.id) {
                        add(&mut self.unused, &mut self.names, &key, done, 0);
                    }
                }
                _ => {}
            }
        }
    }

    fn synced(&mut self, done: &CompletedOp<'_>) {
        let name = match done.what {
            OpKind::Call(call) => call.call().name,
            OpKind::Async(opcode) => opcode.request_kind().name,
        };
        if matches!(name, "sync_file_range" | "SYNC_FILE_RANGE" | "msync") {
            return;
        }
        self.sync_ns = self.sync_ns.saturating_add(done.ns());
        if matches!(name, "sync" | "syncfs") {
            add(&mut self.all_syncs, &mut self.names, name.as_bytes(), done, 0);
            self.pending.clear();
            self.ranges = 0;
            return;
        }
        let (Some(file), Some(name)) = (done.file, done.name) else { return };
        let key = file_key(&name);
        add(&mut self.syncs, &mut self.names, &key, done, 0);
        if file.flags.is_some_and(|flags| OpenFlags(flags).has(libc::O_DSYNC)) {
            add(&mut self.twice, &mut self.names, &key, done, 0);
        }
        if done.errno.is_none()
            && let Some(inode) = file.stat.and_then(|stat| stat.inode())
        {
            self.forget_ranges(inode);
        }
    }

    /// Forgets the data of files that are made, emptied or removed: later writes overwrite nothing.
    fn begin_anew(&mut self, done: &CompletedOp<'_>, effects: &[FdEffect]) {
        for effect in effects {
            let FdEffect::Created { file, .. } = effect else { continue };
            let flags = file.flags.map(OpenFlags);
            let is_empty = |flags: OpenFlags| flags.truncates() || flags.makes_regular_file();
            if flags.is_some_and(is_empty)
                && let Some(inode) = file.stat.and_then(|stat| stat.inode())
            {
                self.forget_file(inode);
            }
        }
        let is_truncation = done.class == CallClass::Resize
            && matches!(done.what, OpKind::Call(call) if call.call().name.ends_with("truncate"));
        if done.errno.is_some() || !is_truncation && done.class != CallClass::Remove {
            return;
        }
        let by_name = || self.places.get(done.name?.path).copied();
        let inode = done.file.and_then(|file| file.stat).and_then(|stat| stat.inode());
        if let Some(inode) = inode.or_else(by_name) {
            self.forget_file(inode);
        }
    }

    fn forget_file(&mut self, inode: FileKey) {
        self.forget_ranges(inode);
        self.writers.remove(&inode);
    }

    fn forget_ranges(&mut self, inode: FileKey) {
        if let Some(ranges) = self.pending.remove(&inode) {
            self.ranges = self.ranges.saturating_sub(ranges.len());
        }
    }

    fn accessed(&mut self, done: &CompletedOp<'_>, requested: Option<u64>) {
        let (Some(file), Some(name)) = (done.file, done.name) else { return };
        let is_file = done.io == IoClass::File;
        if !is_file || file.stat.is_some_and(|stat| !stat.has_position()) {
            return;
        }
        if file.flags.is_some_and(|flags| flags & self.direct_flag != 0) {
            let key = file_key(&name);
            if done.errno == Some(libc::EINVAL) {
                add(&mut self.refused, &mut self.names, &key, done, 0);
            }
            let bytes = requested.unwrap_or_else(|| moved(done, file));
            if done.offset.is_some_and(|offset| !(offset | bytes).is_multiple_of(DIRECT_BYTES)) {
                add(&mut self.unaligned, &mut self.names, &key, done, done.bytes);
            }
        } else if done.class == CallClass::Write && done.bytes > 0 {
            let Some(inode) = file.stat.and_then(|stat| stat.inode()) else { return };
            self.overlapped(inode, &name, done);
            self.overwrote(inode, &name, file, done);
        }
    }

    fn overlapped(&mut self, inode: FileKey, name: &NamedPath<'_>, done: &CompletedOp<'_>) {
        let this = LastWrite { thread: done.thread, start: done.start, end: done.end };
        if let Some(last) = self.writers.get_mut(&inode) {
            let both = last.end.0.min(done.end.0).saturating_sub(last.start.0.max(done.start.0));
            let is_other = last.thread != done.thread;
            *last = this;
            if is_other && both > 0 {
                let row =
                    add(&mut self.overlaps, &mut self.names, &file_key(name), done, done.bytes);
                // Only the time of both counts.
                row.time_ns = row.time_ns.saturating_sub(done.ns()).saturating_add(both);
            }
        } else if self.writers.len() < WRITERS_MAX {
            self.writers.insert(inode, this);
        } else {
            self.forgotten_writers += 1;
        }
    }

    fn overwrote(
        &mut self,
        inode: FileKey,
        name: &NamedPath<'_>,
        file: &OpenFile,
        done: &CompletedOp<'_>,
    ) {
        let Some(offset) = done.offset else { return };
        if self.media.of(file.path.as_ref(), Some(inode.0)) == Medium::Memory {
            return;
        }
        let range = offset..offset.saturating_add(done.bytes);
        if range.is_empty() {
            return;
        }
        if self.ranges >= RANGES_MAX && !self.pending.contains_key(&inode) {
            self.forgotten += 1;
            return;
        }
        if !self.pending.contains_key(&inode) {
            if self.places.len() >= RANGES_MAX {
                self.places.clear();
            }
            self.places.insert(name.path.to_vec(), inode);
        }
        let known = self.pending.entry(inode).or_default();
        let overlapping = known.overlapping(range.clone());
        let again: u64 =
            overlapping.map(|old| old.end.min(range.end) - old.start.max(range.start)).sum();
        if again < range.end - range.start {
            let before = known.len();
            known.insert(range);
            self.ranges = (self.ranges + known.len()).saturating_sub(before);
        }
        if again > 0 {
            add_named(&mut self.overwritten, &mut self.names, name, done, again);
        }
    }

    fn spans(&mut self, operation: &SyscallOperation, done: &CompletedOp<'_>) {
        if operation.spans.is_empty() {
            return;
        }
        let time_of = |is_meant: &dyn Fn(&crate::operation::span::Span) -> bool| {
            let spans = operation.spans.iter().filter(|span| is_meant(span));
            spans.fold(0_u64, |sum, span| sum.saturating_add(span.ns()))
        };
        let throttled = time_of(&|span| span.layer == Layer::Throttle);
        let committed = time_of(&|span| span.what == COMMIT).min(done.ns());
        let key = done.name.map(|name| file_key(&name)).unwrap_or_default();
        for (rows, ns) in [
            (&mut self.throttled, throttled),
            (&mut self.commits, if done.class == CallClass::Sync { committed } else { 0 }),
        ] {
            if ns > 0 {
                let row = add(rows, &mut self.names, &key, done, 0);
                row.time_ns = row.time_ns.saturating_sub(done.ns()).saturating_add(ns);
            }
        }
    }

    /// Notes which bytes a disk has.
    fn request(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        if request.ending != Some(RequestEnd::Completed) || !request.writes_data() {
            return;
        }
        for piece in pieces {
            if let BlockContents::File { key, offset: Some(offset), .. } = &piece.contents
                && let Some(ranges) = self.pending.get_mut(key)
            {
                let before = ranges.len();
                let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES);
                if bytes > 0 {
                    ranges.remove(*offset..offset.saturating_add(bytes));
                }
                self.ranges = (self.ranges + ranges.len()).saturating_sub(before);
            }
        }
    }
}

/// Adds an operation to the row of a key.
fn add<'a>(
    rows: &'a mut HabitRows,
    names: &mut ProcessNames,
    key: &[u8],
    done: &CompletedOp<'_>,
    bytes: u64,
) -> &'a mut HabitRow {
    let row = rows.place(key, || key.to_vec());
    add_to(rows.at(row), names, done, bytes)
}

/// Adds an operation to the row of the file with this name.
fn add_named(
    rows: &mut HabitRows,
    names: &mut ProcessNames,
    name: &NamedPath<'_>,
    done: &CompletedOp<'_>,
    bytes: u64,
) {
    let row = place_of(rows, name);
    add_to(rows.at(row), names, done, bytes);
}

fn add_to<'a>(
    row: &'a mut HabitRow,
    names: &mut ProcessNames,
    done: &CompletedOp<'_>,
    bytes: u64,
) -> &'a mut HabitRow {
    row.count += 1;
    row.bytes = row.bytes.saturating_add(bytes);
    row.time_ns = row.time_ns.saturating_add(done.ns());
    match row.process {
        None if !row.is_shared => {
            names.keep(done.process);
            row.process = Some((done.process, done.pid));
        }
        Some((process, _)) if process != done.process => {
            (row.process, row.is_shared) = (None, true);
        }
        _ => {}
    }
    row
}

/// Returns the length of a vectored access, which tells only what it has moved; 0 if the end of the
/// file may have cut it.
fn moved(done: &CompletedOp<'_>, file: &OpenFile) -> u64 {
    let end = done.offset.map(|offset| offset.saturating_add(done.bytes));
    let size = file.stat.map_or(0, |stat| stat.size);
    match done.class {
        CallClass::Read if end >= Some(size) => 0,
        _ => done.bytes,
    }
}

/// Returns the key of a file that is opened to be read or written.
fn unused_key(file: &OpenFile) -> Option<Vec<u8>> {
    let flags = file.flags.map(OpenFlags)?;
    let is_regular = file.stat.is_some_and(|stat| stat.mode & libc::S_IFMT == libc::S_IFREG);
    let is_made = flags.creates() || flags.truncates() || flags.is_path_only();
    let path = file.path.as_ref().filter(|_| is_regular && !is_made)?;
    Some(file_key(&NamedPath::of(path)))
}
