//! In which order, how large and how many at once: accesses of files by processes, and of devices by everybody.
//!
//! A *stream* is what one process does to one file in one direction. Its accesses are put in the order in which they began
//! ([`order`]), for asynchronous ones end in any order; then each is compared with the one before ([`class`]). At the block level a
//! stream is what goes to one device, or to one file on a device, in the order in which its bios were queued. Where a file is
//! accessed by operations whose places are not known, and past the page cache, its requests show the places ([`Decisions`]).

pub mod class;
mod depth;
pub mod order;
pub mod stream;

use std::convert::Infallible;

use rustc_hash::FxHashMap;

use self::class::Class;
use self::order::Access;
use self::stream::Stream;
use super::done::{Done, Name};
use super::keyed::Keyed;
use super::names::ProcessNames;
use super::summary::{file_key, place_of};
use crate::event::block::RequestOp;
use crate::event::{FileStat, syscall_table};
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep, Ending};
use crate::operation::model::{OpenFile, ProcessKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the file or device.
    Read,
    /// To it.
    Write,
    /// Reads and writes as they come.
    Both,
}

impl Direction {
    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "both",
        }
    }
}

/// A file of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamFile {
    /// By the number of its row in [`Patterns::files`].
    Named(usize),
    /// One without a name: an open file.
    Nameless(u64),
}

/// The key of a stream.
pub type StreamKey = (ProcessKey, StreamFile, Direction);

/// What a process did to a file in one direction.
#[derive(Clone, Debug, Default)]
pub struct OfProcess {
    /// Its number.
    pub pid: Pid,
    /// The accesses.
    pub stream: Stream,
    /// Those whose file's name is doubtful.
    pub doubtful: u64,
    /// `O_*` flags that the file was opened with each time; `None`: not known of all.
    pub flags: Option<u32>,
    /// Device and inode, if known.
    pub inode: Option<FileKey>,
}

/// Requests to a device, or pieces of a file on it, in one direction.
#[derive(Clone, Debug, Default)]
pub struct OfDevice {
    /// The accesses.
    pub stream: Stream,
    /// The file's name as a key ([`file_key`]), if it was seen opened.
    pub name: Option<Vec<u8>>,
}

/// The fold.
#[derive(Debug, Default)]
pub struct Patterns {
    /// Names ([`file_key`]).
    pub files: Keyed<Vec<u8>, ()>,
    /// System calls and asynchronous operations.
    pub streams: Keyed<StreamKey, OfProcess>,
    /// Requests by device.
    pub devices: Keyed<(DevId, Direction), OfDevice>,
    /// Pieces of requests by device and file.
    pub device_files: Keyed<(DevId, FileKey, Direction), OfDevice>,
    /// Operations on what has no places: pipes, sockets, terminals, directories.
    pub elsewhere: u64,
    /// Those on files of which nothing is known.
    pub untold: u64,
    /// Requests that moved no data: flushes, discards.
    pub without_data: u64,
    /// Names of processes.
    pub names: ProcessNames,
}

impl Patterns {
    fn done(&mut self, done: &Done<'_>, number: u64, asked: Option<u64>) {
        use syscall_table::Class::{Read, Transfer, Write};
        let direction = match done.class {
            Read | Transfer => Direction::Read,
            Write => Direction::Write,
            _ => return,
        };
        let access = Access {
            start: done.start,
            number,
            end: done.end,
            offset: done.offset,
            bytes: done.bytes,
        };
        let asked = asked.unwrap_or(done.bytes);
        if let Some(file) = self.file(done.file, done.name.as_ref(), done.offset) {
            let row = self.row(done, (file, direction));
            row.stream.add(access, asked, done.errno.is_some());
            row.doubtful += u64::from(done.name.is_some_and(|it| it.is_doubtful));
            row.opened(done.file);
        }
        self.untold += u64::from(done.class == Transfer && done.target.is_none());
        if let Some(name) = &done.target {
            let file = StreamFile::Named(place_of(&mut self.files, name));
            let row = self.row(done, (file, Direction::Write));
            let there = Access { offset: done.target_offset, ..access };
            row.stream.add(there, asked, done.errno.is_some());
            row.doubtful += u64::from(name.is_doubtful);
            row.flags = None;
        }
    }

    /// The file, if its bytes have places.
    fn file(
        &mut self,
        file: Option<&OpenFile>,
        name: Option<&Name<'_>>,
        offset: Option<u64>,
    ) -> Option<StreamFile> {
        let stat = file.and_then(|it| it.stat.as_ref());
        if stat.is_some_and(|it| !it.has_position()) || file.is_some_and(OpenFile::is_made) {
            self.elsewhere += 1;
            return None;
        }
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

    fn row(
        &mut self,
        done: &Done<'_>,
        (file, direction): (StreamFile, Direction),
    ) -> &mut OfProcess {
        if file == StreamFile::Named(usize::MAX) {
            return self.streams.at(usize::MAX);
        }
        let key = (done.process, file, direction);
        let names = &mut self.names;
        let row = self.streams.row(&key, || {
            names.keep(done.process);
            key
        });
        row.pid = done.pid;
        row
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        if request.ending != Some(Ending::Completed) {
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
        let access = |sector: u64, sectors: u64, start: Option<KernelTime>| Access {
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
            let BlockContents::File { key, offset, file, .. } = &piece.behind else { continue };
            let row_key = (request.dev, *key, direction);
            let row = self.device_files.row(&row_key, || row_key);
            if let Some(path) = file.as_ref().and_then(|it| it.path.as_ref())
                && row.name.is_none()
            {
                row.name = Some(file_key(&Name::of(path)));
            }
            let on_device = access(piece.sector, piece.nr_sector, Some(piece.queued.time));
            let in_file = Access { offset: *offset, ..on_device };
            row.stream.add(in_file, piece.nr_sector.saturating_mul(SECTOR_BYTES), failed);
        }
    }
}

impl OfProcess {
    fn opened(&mut self, file: Option<&OpenFile>) {
        let flags = file.and_then(|it| it.flags);
        let first = self.stream.count == 1;
        self.flags = flags.and_then(|it| if first { Some(it) } else { Some(self.flags? & it) });
        let stat = file.and_then(|it| it.stat.as_ref());
        self.inode = self.inode.or(stat.and_then(FileStat::inode));
    }

    /// True if it went past the page cache each time; `direct` is the bit of `O_DIRECT` on that machine.
    pub fn is_direct(&self, direct: u32) -> bool {
        self.flags.is_some_and(|it| it & direct != 0)
    }
}

impl Sink for Patterns {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(it, _) => {
                if let Some(done) = Done::of(step) {
                    self.done(&done, 0, it.bytes_requested);
                }
            }
            Step::AsyncEnded(it, _) => {
                if let Some(done) = Done::of(step) {
                    self.done(&done, it.id, it.bytes_requested);
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

/// Which level says what a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The operations themselves.
    Vfs,
    /// The requests for the file, for its operations have no known places and went past the page cache.
    Block,
}

impl Level {
    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vfs => "vfs",
            Self::Block => "block",
        }
    }
}

/// What the requests say about streams whose places are not known.
#[derive(Debug)]
pub struct Decisions {
    /// Streams of each file in each direction, by inode and by name.
    by_inode: FxHashMap<(FileKey, Direction), u32>,
    by_name: FxHashMap<(StreamFile, Direction), u32>,
    /// Not all streams have a row.
    is_cut: bool,
    /// What the file is on the device that moves most of its bytes.
    found: FxHashMap<(FileKey, Direction), Option<Class>>,
    direct: u32,
}

impl Decisions {
    /// Of all; `direct` is the bit of `O_DIRECT` on that machine.
    pub fn of(patterns: &Patterns, direct: u32) -> Self {
        let mut by_inode: FxHashMap<_, u32> = FxHashMap::default();
        let mut by_name: FxHashMap<_, u32> = FxHashMap::default();
        for ((_, file, direction), it) in patterns.streams.iter() {
            *by_name.entry((*file, *direction)).or_default() += 1;
            if let Some(inode) = it.inode {
                *by_inode.entry((inode, *direction)).or_default() += 1;
            }
        }
        let mut most: FxHashMap<_, (u64, DevId, &OfDevice)> = FxHashMap::default();
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

    /// What a stream is, and which level says so. The requests decide if they can be no other stream's.
    pub fn class(&self, key: &StreamKey, it: &OfProcess) -> (Option<Class>, Option<Level>) {
        let own = it.stream.found().class;
        if own != Some(Class::Unknown) {
            return (own, own.map(|_| Level::Vfs));
        }
        match self.by_requests(key, it) {
            Some(class) => (Some(class), Some(Level::Block)),
            None => (own, None),
        }
    }

    fn by_requests(&self, (_, file, direction): &StreamKey, it: &OfProcess) -> Option<Class> {
        let inode = (it.inode?, *direction);
        let is_alone = self.by_inode.get(&inode) == Some(&1)
            && self.by_name.get(&(*file, *direction)) == Some(&1);
        if self.is_cut || !is_alone || !it.is_direct(self.direct) {
            return None;
        }
        let class = self.found.get(&inode).copied().flatten();
        class.filter(|it| *it != Class::Unknown)
    }
}

#[cfg(test)]
#[path = "pattern/tests.rs"]
mod tests;
