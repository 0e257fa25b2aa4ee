//! Sink that writes operations, requests, processes, files and anomalies as rows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use parquet::errors::ParquetError;
use rustc_hash::FxHashMap;

use super::column::{StoredCell, signed, unsigned, word};
use super::schema::{ANOMALIES, FILES, OPERATIONS, PIECES, PROCESSES, REQUESTS, TABLES};
use super::table::ParquetTable;
use crate::anomaly::{Anomaly, Link};
use crate::event::FileStat;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::attribution::{BlockContents, Piece, device_of};
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass, RequestEnd};
use crate::operation::fault::Fault;
use crate::operation::model::{
    FilePath, OpenFile, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo, ThreadKey,
    Unfinished,
};
use crate::operation::{Sink, Step};
use crate::text::errno::ErrnoName;
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Facts of a log that its tables need.
#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// Start of the recording: `start_ns` counts from it.
    pub start: KernelTime,
    /// Start by the wall clock, ns since 1970; 0: not known.
    pub start_wall: u64,
    /// Names of the whole disks.
    pub disks: Vec<(DevId, String)>,
    /// Number of the recording, with which keys are unique within a host and rank.
    pub recording: u64,
}

/// Sink of the tables.
#[derive(Debug)]
pub struct ParquetSink {
    start: KernelTime,
    start_wall: u64,
    recording: StoredCell<'static>,
    disks: FxHashMap<DevId, String>,
    /// Device of the latest operation's file, and its text.
    latest_device: (DevId, String),
    names: FxHashMap<ThreadKey, Vec<u8>>,
    /// Processes that live, and the time at which they were seen.
    processes: BTreeMap<ProcessKey, (KernelTime, ProcessInfo)>,
    /// Bits of the open files that have a row.
    written_files: Vec<u64>,
    operations: ParquetTable,
    requests: ParquetTable,
    pieces: ParquetTable,
    process_rows: ParquetTable,
    files: ParquetTable,
    anomalies: ParquetTable,
}

/// Names of the tables, in the order in which [`ParquetSink::create`] takes their files.
pub fn table_names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

/// Returns the error of a file as one of the system.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}

impl ParquetSink {
    /// Begins the tables in these files, which are in the order of [`table_names`].
    ///
    /// # Errors
    ///
    /// Errors of the files; `InvalidInput` if there are fewer than tables.
    pub fn create(files: Vec<File>, facts: LogFacts) -> io::Result<Self> {
        let mut files = files.into_iter();
        let mut table = |schema| {
            let file = files.next().ok_or(io::ErrorKind::InvalidInput)?;
            ParquetTable::create(file, schema).map_err(io_error)
        };
        Ok(Self {
            operations: table(OPERATIONS)?,
            requests: table(REQUESTS)?,
            pieces: table(PIECES)?,
            process_rows: table(PROCESSES)?,
            files: table(FILES)?,
            anomalies: table(ANOMALIES)?,
            start: facts.start,
            start_wall: facts.start_wall,
            recording: unsigned(Some(facts.recording)),
            disks: facts.disks.into_iter().collect(),
            latest_device: (DevId::default(), DevId::default().to_string()),
            names: FxHashMap::default(),
            processes: BTreeMap::new(),
            written_files: Vec::new(),
        })
    }

    /// Writes the processes that live at the end, and ends the files; `facts` are about the log's
    /// completeness.
    ///
    /// # Errors
    ///
    /// Errors of the files.
    pub fn finish(mut self, facts: &[(String, String)]) -> io::Result<()> {
        for (seen, process) in std::mem::take(&mut self.processes).into_values() {
            self.process(seen, &process, None).map_err(io_error)?;
        }
        let tables = [
            self.operations,
            self.requests,
            self.pieces,
            self.process_rows,
            self.files,
            self.anomalies,
        ];
        tables.into_iter().try_for_each(|table| table.finish(facts)).map_err(io_error)
    }

    fn since(&self, time: KernelTime) -> StoredCell<'static> {
        signed(Some(time.signed_since(self.start)))
    }

    fn since_known(&self, time: Option<KernelTime>) -> StoredCell<'static> {
        signed(time.map(|time| time.signed_since(self.start)))
    }

    /// Wall clock of a time, ns since 1970.
    fn wall(&self, time: Option<KernelTime>) -> StoredCell<'static> {
        let start = i64::try_from(self.start_wall).ok().filter(|start| *start > 0);
        let since = |time: KernelTime| time.signed_since(self.start);
        signed(start.zip(time).map(|(start, time)| start.saturating_add(since(time))))
    }

    fn syscall(
        &mut self,
        operation: &SyscallOperation,
        unfinished: Option<Unfinished>,
    ) -> Result<(), ParquetError> {
        if let Some(file) = &operation.file {
            self.file(file)?;
        }
        let is_over = unfinished.is_none();
        let call = operation.call.call();
        let end = operation.end.filter(|_| is_over);
        let ret = operation.ret.filter(|_| is_over);
        let target = operation.target.as_ref().and_then(|target| target.1.path.as_ref());
        let errno = operation.errno().filter(|_| is_over).map(error_name);
        self.operation(&OperationRow {
            kind: "syscall",
            name: StoredCell::Word(Some(call.name)),
            start: operation.start,
            end,
            thread: operation.thread,
            process: operation.process,
            ids: (operation.pid.0, operation.tid.0, operation.cpu.0),
            fd: operation.fd.map(|fd| fd.0),
            file: operation.file.as_deref(),
            path: operation.path(),
            path2: operation.second_path().or(target),
            offset: operation.offset,
            bytes_requested: operation.bytes_requested,
            bytes: ret.filter(|_| call.returns_bytes()).and_then(|ret| u64::try_from(ret).ok()),
            result: ret,
            errno,
            unfinished: unfinished.map(Unfinished::as_str),
        })
    }

    fn asynchronous(
        &mut self,
        operation: &AsyncOperation,
        unfinished: Option<NoResult>,
    ) -> Result<(), ParquetError> {
        if let Some(file) = &operation.file {
            self.file(file)?;
        }
        let name = operation.opcode.to_string();
        self.operation(&OperationRow {
            kind: "async",
            name: word(Some(&name)),
            start: operation.start,
            end: operation.end,
            thread: operation.thread,
            process: operation.process,
            ids: (operation.pid.0, operation.tid.0, operation.cpu.0),
            fd: operation.fd.map(|fd| fd.0),
            file: operation.file.as_deref(),
            path: operation.file.as_ref().and_then(|file| file.path.as_ref()),
            path2: operation.target.as_ref().and_then(|target| target.1.path.as_ref()),
            offset: operation.offset,
            bytes_requested: operation.bytes_requested,
            bytes: operation.bytes(),
            result: operation.result,
            errno: operation.errno().map(error_name),
            unfinished: unfinished.map(NoResult::as_str),
        })
    }

    fn fault(&mut self, fault: &Fault) -> Result<(), ParquetError> {
        self.file(&fault.file)?;
        self.operation(&OperationRow {
            kind: "fault",
            name: StoredCell::Word(Some(fault.access().unwrap_or("unknown"))),
            start: fault.time,
            end: None,
            thread: fault.thread,
            process: fault.process,
            ids: (fault.pid.0, fault.tid.0, fault.cpu.0),
            fd: None,
            file: Some(&fault.file),
            path: fault.file.path.as_ref(),
            path2: None,
            offset: Some(fault.offset),
            bytes_requested: None,
            bytes: None,
            result: None,
            errno: None,
            unfinished: None,
        })
    }

    fn operation(&mut self, row: &OperationRow<'_>) -> Result<(), ParquetError> {
        let (pid, tid, cpu) = row.ids;
        let duration = row.end.and_then(|end| end.since(row.start)).map(|time| time.0);
        let stat = row.file.and_then(|file| file.stat);
        if let Some(stat) = stat.filter(|stat| stat.dev != self.latest_device.0) {
            self.latest_device = (stat.dev, stat.dev.to_string());
        }
        let cells = [
            self.recording,
            StoredCell::Word(Some(row.kind)),
            row.name,
            self.wall(Some(row.start)),
            self.since(row.start),
            unsigned(duration),
            unsigned(Some(row.process.0.into())),
            signed(Some(pid.into())),
            signed(Some(tid.into())),
            StoredCell::Text(self.names.get(&row.thread).map(Vec::as_slice)),
            unsigned(Some(cpu.into())),
            signed(row.fd.map(Into::into)),
            unsigned(row.file.map(|file| file.id)),
            path_cell(row.path),
            StoredCell::Word(row.path.map(|path| path.source.as_str())),
            path_cell(row.path2),
            unsigned(row.offset),
            unsigned(row.bytes_requested),
            unsigned(row.bytes),
            signed(row.result),
            word(row.errno.as_deref()),
            word(stat.map(|_| self.latest_device.1.as_str())),
            unsigned(stat.map(|stat| stat.ino)),
            StoredCell::Word(row.unfinished),
        ];
        self.operations.row(&cells)
    }

    /// Writes the row of an open file, unless it has one.
    fn file(&mut self, file: &OpenFile) -> Result<(), ParquetError> {
        let Ok(at) = usize::try_from(file.id / 64) else { return Ok(()) };
        let bit = 1 << (file.id % 64);
        if self.written_files.len() <= at {
            self.written_files.resize(at + 1, 0);
        }
        let Some(bits) = self.written_files.get_mut(at).filter(|bits| **bits & bit == 0) else {
            return Ok(());
        };
        *bits |= bit;
        let dev = file.stat.map(|stat| stat.dev.to_string());
        self.files.row(&[
            self.recording,
            unsigned(Some(file.id)),
            path_cell(file.path.as_ref()),
            word(file.path.as_ref().map(|path| path.source.as_str())),
            word(file.stat.map(file_type)),
            word(dev.as_deref()),
            unsigned(file.stat.map(|stat| stat.ino)),
            unsigned(file.stat.map(|stat| stat.size)),
            unsigned(file.flags.map(Into::into)),
            word(Some(if file.pre_created { "yes" } else { "no" })),
        ])
    }

    fn request(
        &mut self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
    ) -> Result<(), ParquetError> {
        let (dev, rwbs) = (request.dev.to_string(), request.rwbs.to_string());
        let error = request.error.map(error_name);
        let disk = self.disks.get(&request.dev);
        let cells = [
            self.recording,
            unsigned(Some(request.id.0)),
            word(Some(&dev)),
            word(disk.map(String::as_str)),
            word(Some(request.op.as_str())),
            word(Some(&rwbs)),
            unsigned(Some(request.sector)),
            unsigned(Some(request.bytes())),
            unsigned(Some(request.bytes_done)),
            self.wall(request.begin()),
            self.since_known(request.begin()),
            self.since_known(request.bio_queued()),
            self.since_known(request.queued),
            self.since_known(request.inserted),
            self.since_known(request.issued),
            self.since_known(request.completed),
            signed(request.submitter.map(|task| task.pid.0.into())),
            signed(request.submitter.map(|task| task.tid.0.into())),
            StoredCell::Text(thread.map(|thread| thread.comm.as_slice())),
            unsigned(Some(request.merges.into())),
            unsigned(Some(request.requeues.into())),
            word(request.ending.map(RequestEnd::as_str)),
            word(request.diskstats_class().map(DiskstatsClass::as_str)),
            word(error.as_deref()),
        ];
        self.requests.row(&cells)?;
        pieces.iter().try_for_each(|piece| self.piece(request, &dev, piece))
    }

    fn piece(
        &mut self,
        request: &BlockRequest,
        dev: &str,
        piece: &Piece,
    ) -> Result<(), ParquetError> {
        let writer = piece.writers.first();
        let (file, key, offset) = match &piece.contents {
            BlockContents::File { key, file, offset, .. } => {
                (file.as_deref(), Some(*key).filter(|key| device_of(*key).is_none()), *offset)
            }
            _ => (None, None, None),
        };
        let fs_dev = key.map(|key| key.0.to_string());
        let time = piece.queued.time;
        let cells = [
            self.recording,
            unsigned(Some(request.id.0)),
            word(Some(dev)),
            word(Some(request.op.as_str())),
            unsigned(Some(piece.sector)),
            unsigned(Some(piece.nr_sector.saturating_mul(SECTOR_BYTES))),
            self.wall(Some(time)),
            self.since(time),
            word(Some(piece.contents.as_str())),
            word(Some(piece.contents.link().as_str())),
            word(piece.program().map(Link::as_str)),
            signed(Some(piece.queued.pid.0.into())),
            signed(Some(piece.queued.tid.0.into())),
            unsigned(Some(piece.writers.len() as u64)),
            signed(writer.map(|writer| writer.pid.0.into())),
            StoredCell::Text(writer.map(|writer| writer.comm.as_ref())),
            path_cell(file.and_then(|file| file.path.as_ref())),
            word(fs_dev.as_deref()),
            unsigned(key.map(|key| key.1)),
            unsigned(offset),
        ];
        self.pieces.row(&cells)
    }

    fn process(
        &mut self,
        seen: KernelTime,
        process: &ProcessInfo,
        ended: Option<KernelTime>,
    ) -> Result<(), ParquetError> {
        let line = process.command_line();
        let cells = [
            self.recording,
            unsigned(Some(process.key.0.into())),
            signed(Some(process.pid.0.into())),
            unsigned(process.parent.map(|parent| parent.0.into())),
            signed(process.parent_pid.map(|parent| parent.0.into())),
            StoredCell::Text(Some(process.comm.as_slice())),
            StoredCell::Text(process.program.as_deref()),
            StoredCell::Text(line.as_deref()),
            StoredCell::Text(process.cgroup.as_deref()),
            unsigned(process.user.map(Into::into)),
            unsigned(process.rank),
            self.since(seen),
            self.since_known(ended),
        ];
        self.process_rows.row(&cells)
    }

    fn anomaly(&mut self, anomaly: &Anomaly) -> Result<(), ParquetError> {
        let cells = [
            self.recording,
            word(Some(anomaly.kind.as_str())),
            self.wall(Some(anomaly.time)),
            self.since(anomaly.time),
            unsigned(Some(anomaly.cpu.0.into())),
            signed(Some(anomaly.pid.0.into())),
            signed(Some(anomaly.tid.0.into())),
            unsigned(Some(anomaly.count)),
            word(Some(&anomaly.detail)),
        ];
        self.anomalies.row(&cells)
    }

    /// Keeps what is known of a process until it ends.
    fn remember(&mut self, time: KernelTime, process: &ProcessInfo) {
        let known = self.processes.entry(process.key).or_insert((time, process.clone()));
        known.1 = process.clone();
    }
}

/// Row of the table of operations.
struct OperationRow<'a> {
    kind: &'static str,
    name: StoredCell<'a>,
    start: KernelTime,
    end: Option<KernelTime>,
    thread: ThreadKey,
    process: ProcessKey,
    /// Process, thread and CPU.
    ids: (i32, i32, u32),
    fd: Option<i32>,
    file: Option<&'a OpenFile>,
    path: Option<&'a FilePath>,
    path2: Option<&'a FilePath>,
    offset: Option<u64>,
    bytes_requested: Option<u64>,
    bytes: Option<u64>,
    result: Option<i64>,
    errno: Option<String>,
    unfinished: Option<&'static str>,
}

fn path_cell(path: Option<&FilePath>) -> StoredCell<'_> {
    StoredCell::Text(path.map(|path| path.bytes.as_slice()))
}

fn error_name(number: i32) -> String {
    ErrnoName(number).to_string()
}

/// Returns the word for the type of a file, as `find -printf %y` has none.
fn file_type(stat: FileStat) -> &'static str {
    match stat.mode & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "link",
        libc::S_IFBLK => "block device",
        libc::S_IFCHR => "character device",
        libc::S_IFIFO => "pipe",
        libc::S_IFSOCK => "socket",
        _ => "other",
    }
}

impl Sink for ParquetSink {
    type Error = io::Error;
    const USES_BEGINS: bool = false;
    const IS_COSTLY: bool = true;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> io::Result<()> {
        let done = match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => {
                self.names.insert(thread.key, thread.comm.clone());
                Ok(())
            }
            Step::ThreadEnded(thread) => {
                self.names.remove(&thread.key);
                Ok(())
            }
            Step::ProcessSeen(process) | Step::UserChanged(process) | Step::Identified(process) => {
                self.remember(time, process);
                Ok(())
            }
            Step::ProcessEnded(process) => {
                let seen = self.processes.remove(&process.key).map_or(time, |known| known.0);
                self.process(seen, process, Some(time))
            }
            Step::SyscallEnded(operation, _) => self.syscall(operation, None),
            Step::SyscallUnfinished(operation, why) => self.syscall(operation, Some(*why)),
            Step::AsyncEnded(operation, _) => self.asynchronous(operation, None),
            Step::AsyncUnfinished(operation, why) => self.asynchronous(operation, Some(*why)),
            Step::Fault(fault) => self.fault(fault),
            Step::Block { step: BlockStep::Ended(request), thread, pieces } => {
                self.request(request, *thread, pieces)
            }
            Step::Anomaly(anomaly) => self.anomaly(anomaly),
            Step::Block { .. }
            | Step::Aside { .. }
            | Step::AsyncBegun(_)
            | Step::AsyncFile(_)
            | Step::Forked { .. }
            | Step::SyscallBegun(_)
            | Step::DescriptorsClosed(..)
            | Step::ChainSeen(_)
            | Step::Committed(_)
            | Step::MountsSeen(_) => Ok(()),
        };
        done.map_err(io_error)
    }
}
