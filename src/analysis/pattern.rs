//! Access patterns: order, sizes and depth of the accesses of files by processes, and of devices by
//! all tasks.
//!
//! A *stream* is the sequence of accesses of one process to one file in one direction. The accesses
//! are put in the order of their beginnings ([`order`]), because asynchronous ones end in any
//! order. Then each is compared with the previous one ([`class`]). At the block level a stream has
//! the accesses to one device, or to one file on a device, in the order in which their bios were
//! queued. Where operations with unknown positions access a file past the page cache, its requests
//! show the positions ([`Decisions`]).

pub mod class;
mod depth;
pub mod order;
pub mod stream;

use std::convert::Infallible;

use rustc_hash::FxHashMap;

use self::class::PatternClass;
use self::order::OrderedAccess;
use self::stream::Stream;
use super::bounded_map::BoundedMap;
use super::completed_op::{CompletedOp, NamedPath};
use super::process_names::ProcessNames;
use super::recent_rows::RecentRows;
use super::summary::{file_key, place_of};
use crate::event::block::RequestOp;
use crate::event::{FileStat, syscall_table};
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep, RequestEnd};
use crate::operation::model::{OpenFile, ProcessKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// Direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the file or device.
    Read,
    /// To the file or device.
    Write,
    /// Reads and writes in one sequence.
    Both,
}

impl Direction {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "both",
        }
    }
}

/// File of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamFile {
    /// File with a name, by the number of its row in [`Patterns::files`].
    Named(usize),
    /// File without a name, by its open file.
    Nameless(u64),
}

/// Key of a stream.
pub type StreamKey = (ProcessKey, StreamFile, Direction);

/// Accesses of a process to a file in one direction.
#[derive(Clone, Debug, Default)]
pub struct ProcessStream {
    /// Process number.
    pub pid: Pid,
    /// Stream of the accesses.
    pub stream: Stream,
    /// Accesses whose file's name is doubtful.
    pub doubtful: u64,
    /// `O_*` flags common to all opens of the file; `None` if they are not known for all.
    pub flags: Option<u32>,
    /// Device and inode, if known.
    pub inode: Option<FileKey>,
}

/// Requests to a device, or pieces of a file on it, in one direction.
#[derive(Clone, Debug, Default)]
pub struct DeviceStream {
    /// Stream of the accesses.
    pub stream: Stream,
    /// Name of the file as a key ([`file_key`]), if its open was seen.
    pub name: Option<Vec<u8>>,
}

/// Rows of the accesses of a process to a file with a name: that of the name, and those of the
/// streams in both directions.
#[derive(Clone, Copy, Debug)]
struct StreamRows {
    name: usize,
    streams: [Option<usize>; 2],
}

/// Fold of the access patterns.
#[derive(Debug, Default)]
pub struct Patterns {
    /// Names of files ([`file_key`]).
    pub files: BoundedMap<Vec<u8>, ()>,
    /// Streams of system calls and asynchronous operations.
    pub streams: BoundedMap<StreamKey, ProcessStream>,
    /// Streams of requests by device.
    pub devices: BoundedMap<(DevId, Direction), DeviceStream>,
    /// Streams of pieces of requests by device and file.
    pub device_files: BoundedMap<(DevId, FileKey, Direction), DeviceStream>,
    /// Operations on objects without positions: pipes, sockets, terminals, directories.
    pub elsewhere: u64,
    /// Operations on files of which nothing is known.
    pub untold: u64,
    /// Requests that moved no data: flushes, discards.
    pub without_data: u64,
    /// Names of processes.
    pub names: ProcessNames,
    recent: RecentRows<StreamRows>,
}

impl Patterns {
    /// Adds the operation that this step ends.
    pub(super) fn done(&mut self, step: &Step<'_>, done: &CompletedOp<'_>) {
        use syscall_table::CallClass::{Read, Transfer, Write};
        let direction = match done.class {
            Read | Transfer => Direction::Read,
            Write => Direction::Write,
            _ => return,
        };
        let (number, bytes_requested) = match step {
            Step::SyscallEnded(operation, _) => (0, operation.bytes_requested),
            Step::AsyncEnded(operation, _) => (operation.id, operation.bytes_requested),
            _ => return,
        };
        let access = OrderedAccess {
            start: done.start,
            number,
            end: done.end,
            offset: done.offset,
            bytes: done.bytes,
        };
        let bytes_requested = bytes_requested.unwrap_or(done.bytes);
        let opened = done.file.map(AsRef::as_ref);
        if let Some(row) = self.own_row(done, direction) {
            let row = self.streams.at(row);
            row.pid = done.pid;
            row.stream.add(access, bytes_requested, done.errno.is_some());
            row.doubtful += u64::from(done.name.is_some_and(|it| it.is_doubtful));
            row.opened(opened);
        }
        self.untold += u64::from(done.class == Transfer && done.target.is_none());
        if let Some(name) = &done.target {
            let file = StreamFile::Named(place_of(&mut self.files, name));
            let row = self.row(done, file, Direction::Write);
            let row = self.streams.at(row);
            row.pid = done.pid;
            let there = OrderedAccess { offset: done.target_offset, ..access };
            row.stream.add(there, bytes_requested, done.errno.is_some());
            row.doubtful += u64::from(name.is_doubtful);
            row.flags = None;
        }
    }

    /// Returns the row of the stream of an operation on its own file, if the bytes of that have
    /// positions.
    fn own_row(&mut self, done: &CompletedOp<'_>, direction: Direction) -> Option<usize> {
        let opened = done.file.map(AsRef::as_ref);
        if self.has_no_positions(opened) {
            self.elsewhere += 1;
            return None;
        }
        let way = usize::from(direction == Direction::Write);
        let mut known = self.recent.find(done);
        let known_row = known.and_then(|rows| *rows.streams.get(way)?);
        if known_row.is_some() {
            return known_row;
        }
        let file = match known {
            Some(rows) => StreamFile::Named(rows.name),
            None => self.file(opened, done.name.as_ref(), done.offset)?,
        };
        let row = self.row(done, file, direction);
        if let StreamFile::Named(name) = file {
            let rows = known.get_or_insert(StreamRows { name, streams: [None; 2] });
            rows.streams.iter_mut().skip(way).take(1).for_each(|stream| *stream = Some(row));
            self.recent.keep(done, *rows);
        }
        Some(row)
    }

    fn has_no_positions(&self, file: Option<&OpenFile>) -> bool {
        let stat = file.and_then(|file| file.stat.as_ref());
        stat.is_some_and(|stat| !stat.has_position()) || file.is_some_and(OpenFile::is_made)
    }

    /// Returns the file; `None`: nothing is known of it.
    fn file(
        &mut self,
        file: Option<&OpenFile>,
        name: Option<&NamedPath<'_>>,
        offset: Option<u64>,
    ) -> Option<StreamFile> {
        let stat = file.and_then(|it| it.stat.as_ref());
        match (name, file) {
            (Some(name), _) => Some(StreamFile::Named(place_of(&mut self.files, name))),
            (None, Some(file)) if stat.is_some() || offset.is_some() => {
                Some(StreamFile::Nameless(file.id))
            }
            _ => {
                self.untold += 1;
                None
            }
        }
    }

    /// Returns the number of the row of a stream.
    fn row(&mut self, done: &CompletedOp<'_>, file: StreamFile, direction: Direction) -> usize {
        if file == StreamFile::Named(usize::MAX) {
            return usize::MAX;
        }
        let key = (done.process, file, direction);
        let names = &mut self.names;
        self.streams.place(&key, || {
            names.keep(done.process);
            key
        })
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        if request.ending != Some(RequestEnd::Completed) {
            return;
        }
        let direction = match request.op {
            RequestOp::Read => Direction::Read,
            RequestOp::ZoneAppend => Direction::Write,
            RequestOp::Write if request.writes_data() => Direction::Write,
            _ => {
                self.without_data += 1;
                return;
            }
        };
        let end = request.completed.unwrap_or(KernelTime::MAX);
        let failed = request.error.is_some();
        let access = |sector: u64, sectors: u64, start: Option<KernelTime>| OrderedAccess {
            start: start.unwrap_or(end),
            number: sector,
            end,
            offset: Some(sector.saturating_mul(SECTOR_BYTES)),
            bytes: if failed { 0 } else { sectors.saturating_mul(SECTOR_BYTES) },
        };
        let whole = access(request.sector, request.nr_sector.into(), request.begin());
        for direction in [direction, Direction::Both] {
            let key = (request.dev, direction);
            self.devices.row(&key, || key).stream.add(whole, request.bytes(), failed);
        }
        for piece in pieces {
            let BlockContents::File { key, offset, file, .. } = &piece.contents else { continue };
            let row_key = (request.dev, *key, direction);
            let row = self.device_files.row(&row_key, || row_key);
            if let Some(path) = file.as_ref().and_then(|it| it.path.as_ref())
                && row.name.is_none()
            {
                row.name = Some(file_key(&NamedPath::of(path)));
            }
            let on_device = access(piece.sector, piece.nr_sector, Some(piece.queued.time));
            let in_file = OrderedAccess { offset: *offset, ..on_device };
            row.stream.add(in_file, piece.nr_sector.saturating_mul(SECTOR_BYTES), failed);
        }
    }
}

impl ProcessStream {
    fn opened(&mut self, file: Option<&OpenFile>) {
        let flags = file.and_then(|it| it.flags);
        let first = self.stream.count == 1;
        self.flags = flags.and_then(|it| if first { Some(it) } else { Some(self.flags? & it) });
        let stat = file.and_then(|it| it.stat.as_ref());
        self.inode = self.inode.or(stat.and_then(FileStat::inode));
    }

    /// Returns true if it bypassed the page cache each time; `direct` is the bit of `O_DIRECT` on
    /// that machine.
    pub fn is_direct(&self, direct: u32) -> bool {
        self.flags.is_some_and(|it| it & direct != 0)
    }
}

impl Sink for Patterns {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(step, &done);
                }
            }
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.request(request, pieces);
            }
            _ => self.names.look(step),
        }
        Ok(())
    }
}

/// Level that determines the class of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternLevel {
    /// Operations themselves.
    Vfs,
    /// Requests for the file, because its operations have no known positions and bypassed the page
    /// cache.
    Block,
}

impl PatternLevel {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vfs => "vfs",
            Self::Block => "block",
        }
    }
}

/// Classes that requests give to streams with unknown positions.
#[derive(Debug)]
pub struct Decisions {
    /// Number of streams of each file in each direction, by inode.
    by_inode: FxHashMap<(FileKey, Direction), u32>,
    /// Number of streams of each file in each direction, by name.
    by_name: FxHashMap<(StreamFile, Direction), u32>,
    /// True if not all streams have a row.
    is_cut: bool,
    /// Class of the file on the device that moves most of its bytes.
    found: FxHashMap<(FileKey, Direction), Option<PatternClass>>,
    direct: u32,
}

impl Decisions {
    /// Creates the decisions for all streams; `direct` is the bit of `O_DIRECT` on that machine.
    pub fn of(patterns: &Patterns, direct: u32) -> Self {
        let mut by_inode: FxHashMap<_, u32> = FxHashMap::default();
        let mut by_name: FxHashMap<_, u32> = FxHashMap::default();
        for ((_, file, direction), it) in patterns.streams.iter() {
            *by_name.entry((*file, *direction)).or_default() += 1;
            if let Some(inode) = it.inode {
                *by_inode.entry((inode, *direction)).or_default() += 1;
            }
        }
        let mut most: FxHashMap<_, (u64, DevId, &DeviceStream)> = FxHashMap::default();
        for ((dev, file, direction), it) in patterns.device_files.iter() {
            let this = (it.stream.bytes, *dev, it);
            let most = most.entry((*file, *direction)).or_insert(this);
            if (this.0, this.1) > (most.0, most.1) {
                *most = this;
            }
        }
        let found = most.into_iter().map(|(key, it)| (key, it.2.stream.found().class)).collect();
        Self { by_inode, by_name, is_cut: patterns.streams.others().is_some(), found, direct }
    }

    /// Returns the class of a stream, and the level that determines it. The requests decide if they
    /// cannot belong to another stream.
    pub fn class(
        &self,
        key: &StreamKey,
        process_stream: &ProcessStream,
    ) -> (Option<PatternClass>, Option<PatternLevel>) {
        let own = process_stream.stream.found().class;
        if own != Some(PatternClass::Unknown) {
            return (own, own.map(|_| PatternLevel::Vfs));
        }
        match self.by_requests(key, process_stream) {
            Some(class) => (Some(class), Some(PatternLevel::Block)),
            None => (own, None),
        }
    }

    fn by_requests(&self, key: &StreamKey, process_stream: &ProcessStream) -> Option<PatternClass> {
        let (_, file, direction) = key;
        let inode = (process_stream.inode?, *direction);
        let is_alone = self.by_inode.get(&inode) == Some(&1)
            && self.by_name.get(&(*file, *direction)) == Some(&1);
        if self.is_cut || !is_alone || !process_stream.is_direct(self.direct) {
            return None;
        }
        let class = self.found.get(&inode).copied().flatten();
        class.filter(|it| *it != PatternClass::Unknown)
    }
}

#[cfg(test)]
#[path = "pattern/tests.rs"]
mod tests;
