//! Fold of the export: each operation goes into the log of its thread, or is counted by the reason
//! why it is in none.

use std::collections::BTreeMap;
use std::io;

use rustc_hash::FxHashMap;

use super::super::plan::replayability::{SkipReason, Treatment, treatment};
use super::job::{Job, JobDirection, LogTime};
use super::logs::Logs;
use super::names::{ExportNames, FileName};
use super::not_exported::NotExported;
use crate::event::OpenFlags;
use crate::event::syscall_table::{CallClass, CallId};
use crate::operation::model::{FdEffect, OpenFile, ProcessKey, SyscallOperation, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::{KernelTime, Nanos};

/// Bytes of lines that a job buffers before they are stored.
const WAITING_BYTES: usize = 64 << 10;

/// Granularity of direct I/O in bytes: the sectors of most disks (`O_DIRECT`, open(2)).
const DIRECT_BYTES: u64 = 512;

/// Export of a capture to fio.
#[derive(Debug)]
pub struct FioExport<L> {
    /// Storage of the logs.
    pub logs: L,
    /// Threads that have a log.
    pub jobs: Vec<Job>,
    names: ExportNames,
    numbers: FxHashMap<ThreadKey, usize>,
    comms: FxHashMap<ThreadKey, Vec<u8>>,
    /// Number of descriptors of each process for each name.
    open: FxHashMap<ProcessKey, FxHashMap<usize, u32>>,
    /// Jobs of each process.
    of_process: FxHashMap<ProcessKey, Vec<usize>>,
    /// Exported calls of each job.
    done: Vec<BTreeMap<CallId, u64>>,
    first: Option<KernelTime>,
    /// Calls without a line whose effect is in other lines.
    pub followed: u64,
    /// Operations that are in no log, by reason and call.
    pub left: BTreeMap<(NotExported, CallId), u64>,
    /// Bytes moved by operations that are in no log.
    pub left_bytes: u64,
    /// Asynchronous operations, none of which is exported.
    pub asynchronous: u64,
    /// Time from the first operation to the end of the last one.
    pub span: Nanos,
}

impl<L: Logs> FioExport<L> {
    /// Creates an empty export.
    pub fn new(logs: L) -> Self {
        Self {
            logs,
            jobs: Vec::new(),
            names: ExportNames::default(),
            numbers: FxHashMap::default(),
            comms: FxHashMap::default(),
            open: FxHashMap::default(),
            of_process: FxHashMap::default(),
            done: Vec::new(),
            first: None,
            followed: 0,
            left: BTreeMap::new(),
            left_bytes: 0,
            asynchronous: 0,
            span: Nanos::default(),
        }
    }

    /// Returns the files of the export.
    pub fn files(&self) -> &[FileName] {
        &self.names.all
    }

    /// Returns the jobs that fio accepts, which read or write, with the numbers of their logs.
    pub fn data_jobs(&self) -> impl Iterator<Item = (usize, &Job)> {
        self.jobs.iter().enumerate().filter(|it| it.1.has_data())
    }

    /// Returns the number of calls that are in logs.
    pub fn exported(&self) -> u64 {
        let jobs = self.jobs.iter().zip(&self.done).filter(|it| it.0.has_data());
        jobs.flat_map(|it| it.1.values()).sum()
    }

    /// Writes the last lines. Threads that move no bytes get no job.
    ///
    /// # Errors
    ///
    /// Errors of the logs.
    pub fn finish(&mut self) -> io::Result<()> {
        for (number, job) in self.jobs.iter_mut().enumerate() {
            if job.has_data() {
                job.end(&self.names.all);
                self.logs.append(number, &std::mem::take(&mut job.lines))?;
                continue;
            }
            self.logs.remove(number)?;
            for (call, count) in &self.done[number] {
                *self.left.entry((NotExported::NoData, *call)).or_default() += count;
            }
        }
        Ok(())
    }

    fn ended(&mut self, operation: &SyscallOperation, effects: &[FdEffect]) -> io::Result<()> {
        let call = operation.call.call();
        let (Some(ret), Some(end)) = (operation.ret, operation.end) else {
            self.leave(operation, NotExported::Replay(SkipReason::NoResult));
            return Ok(());
        };
        if operation.errno().is_some() {
            self.leave(operation, NotExported::Failed);
            return Ok(());
        }
        let done = match (call.class, treatment(call, &operation.args)) {
            (CallClass::Read | CallClass::Write, _) => self.moves(operation, ret.unsigned_abs()),
            (CallClass::Sync, Treatment::Done) => self.syncs(operation),
            (CallClass::Open | CallClass::Close | CallClass::Dup, Treatment::Done) => Ok(false),
            (CallClass::Seek, _) | (_, Treatment::ModelOnly) => Ok(false),
            (_, Treatment::Skipped(reason)) => Err(NotExported::Replay(reason)),
            (_, Treatment::Done) => Err(NotExported::NoCounterpart),
        };
        let done = match (self.effects(operation, effects), done) {
            (Ok(has_line), Ok(is_done)) => Ok(has_line || is_done),
            (Err(reason), Ok(false)) => Err(reason),
            (_, done) => done,
        };
        match done {
            Ok(true) => self.is_done(operation, end)?,
            Ok(false) => self.followed += 1,
            Err(reason) => self.leave(operation, reason),
        }
        Ok(())
    }

    fn is_done(&mut self, operation: &SyscallOperation, end: KernelTime) -> io::Result<()> {
        let first = self.first.unwrap_or(end);
        self.span = self.span.max(end.since(first).unwrap_or_default());
        let number = self.job(operation);
        *self.done[number].entry(operation.call).or_default() += 1;
        let job = &mut self.jobs[number];
        if job.lines.len() >= WAITING_BYTES {
            self.logs.append(number, &std::mem::take(&mut job.lines))?;
        }
        Ok(())
    }

    fn leave(&mut self, operation: &SyscallOperation, why: NotExported) {
        *self.left.entry((why, operation.call)).or_default() += 1;
        let moved = operation.ret.and_then(|it| u64::try_from(it).ok());
        if operation.call.call().class.moves_bytes() {
            self.left_bytes += moved.unwrap_or(0);
        }
    }

    /// Returns the number of the job of an operation's thread.
    fn job(&mut self, operation: &SyscallOperation) -> usize {
        let (jobs, done) = (&mut self.jobs, &mut self.done);
        let comms = &self.comms;
        let of_process = self.of_process.entry(operation.process).or_default();
        *self.numbers.entry(operation.thread).or_insert_with(|| {
            let comm = comms.get(&operation.thread).cloned().unwrap_or_default();
            jobs.push(Job::new(operation.pid.0, operation.tid.0, comm));
            done.push(BTreeMap::new());
            of_process.push(jobs.len() - 1);
            jobs.len() - 1
        })
    }

    /// Returns the start of an operation as time of its log.
    fn time(&mut self, operation: &SyscallOperation) -> LogTime {
        let first = *self.first.get_or_insert(operation.start);
        LogTime::of(operation.start.since(first).unwrap_or_default())
    }

    /// Exports a read or a write. Returns true if it has a line.
    fn moves(&mut self, operation: &SyscallOperation, moved: u64) -> Result<bool, NotExported> {
        let file = operation.file.as_deref().ok_or(NotExported::Replay(SkipReason::NoFile))?;
        let name = self.names.of(file)?;
        if moved == 0 {
            return Err(NotExported::Nothing);
        }
        let offset = operation.offset.ok_or(NotExported::NoOffset)?;
        let length = u32::try_from(moved).map_err(|_| NotExported::TooLong)?;
        let flags = OpenFlags(file.flags.unwrap_or(0));
        let is_direct = flags.is_direct();
        if is_direct && !(offset | moved).is_multiple_of(DIRECT_BYTES) {
            return Err(NotExported::Unaligned);
        }
        let is_write = operation.call.call().class == CallClass::Write;
        let what = if is_write { JobDirection::Write } else { JobDirection::Read };
        let (time, number) = (self.time(operation), self.job(operation));
        let job = &mut self.jobs[number];
        job.moves(time, name, &self.names.all, what, offset, length);
        job.direct += u64::from(is_direct);
        job.sync[0] += u64::from(flags.syncs_data());
        job.sync[1] += u64::from(flags.syncs_data() && !flags.syncs());
        let file = &mut self.names.all[name];
        let end = offset.saturating_add(moved);
        let reached = if is_write { &mut file.write_end } else { &mut file.read_end };
        *reached = end.max(*reached);
        file.operations[usize::from(is_write)] += 1;
        file.bytes[usize::from(is_write)] += moved;
        Ok(true)
    }

    /// Exports a call that writes out cached data of a file. Returns true if it has a line.
    fn syncs(&mut self, operation: &SyscallOperation) -> Result<bool, NotExported> {
        let what = match operation.call.call().name {
            "fsync" => JobDirection::Sync,
            "fdatasync" => JobDirection::Datasync,
            _ => return Err(NotExported::NoCounterpart),
        };
        let file = operation.file.as_deref().ok_or(NotExported::Replay(SkipReason::NoFile))?;
        let name = self.names.of(file)?;
        let (time, number) = (self.time(operation), self.job(operation));
        self.jobs[number].moves(time, name, &self.names.all, what, 0, 0);
        Ok(true)
    }

    /// Follows the descriptors that a call opens and closes. Returns true if this has a line.
    fn effects(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
    ) -> Result<bool, NotExported> {
        let mut result = Ok(false);
        for effect in effects {
            let done = match effect {
                FdEffect::Created { file, .. } => self.opened(operation, file),
                FdEffect::Duplicated { file, .. } => self.names.of(file).map(|name| {
                    *self.open.entry(operation.process).or_default().entry(name).or_default() += 1;
                    false
                }),
                FdEffect::Destroyed { file, .. } => self.closed(operation, file),
                FdEffect::Seeked { .. } | FdEffect::StatusChanged { .. } => Ok(false),
            };
            result = match (result, done) {
                (Ok(one), Ok(other)) => Ok(one || other),
                (Ok(true), Err(_)) | (Err(_), Ok(true)) => Ok(true),
                (Err(why), _) | (_, Err(why)) => Err(why),
            };
        }
        result
    }

    fn opened(
        &mut self,
        operation: &SyscallOperation,
        file: &OpenFile,
    ) -> Result<bool, NotExported> {
        let name = self.names.of(file)?;
        let it = &mut self.names.all[name];
        if it.first_size.is_none() {
            // Truncated data was not overwritten.
            let truncates = file.flags.is_some_and(|flags| OpenFlags(flags).truncates());
            it.first_size = Some(file.stat.filter(|_| !truncates).map_or(0, |it| it.size));
        }
        *self.open.entry(operation.process).or_default().entry(name).or_default() += 1;
        let (time, number) = (self.time(operation), self.job(operation));
        Ok(self.jobs[number].open(time, name, &self.names.all))
    }

    fn closed(
        &mut self,
        operation: &SyscallOperation,
        file: &OpenFile,
    ) -> Result<bool, NotExported> {
        let name = self.names.of(file)?;
        let open = self.open.entry(operation.process).or_default();
        let left = open.get(&name).map_or(0, |it| it.saturating_sub(1));
        if left > 0 {
            open.insert(name, left);
            return Ok(false);
        }
        open.remove(&name);
        let (time, number) = (self.time(operation), self.job(operation));
        for other in self.of_process.get(&operation.process).into_iter().flatten() {
            if *other != number {
                self.jobs[*other].close(None, name, &self.names.all);
            }
        }
        Ok(self.jobs[number].close(Some(time), name, &self.names.all))
    }
}

impl<L: Logs> Sink for FioExport<L> {
    type Error = io::Error;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => {
                self.comms.insert(thread.key, thread.comm.clone());
            }
            Step::Forked { parent, child } => {
                if let Some(open) = self.open.get(parent).cloned() {
                    self.open.insert(*child, open);
                }
            }
            Step::ProcessEnded(process) => {
                self.open.remove(&process.key);
                self.of_process.remove(&process.key);
            }
            Step::ThreadEnded(thread) => {
                self.comms.remove(&thread.key);
                self.numbers.remove(&thread.key);
            }
            Step::SyscallEnded(operation, effects) => return self.ended(operation, effects),
            Step::SyscallUnfinished(operation, _) => {
                self.leave(operation, NotExported::Replay(SkipReason::NoResult));
            }
            Step::AsyncEnded(..) | Step::AsyncUnfinished(..) => self.asynchronous += 1,
            _ => {}
        }
        Ok(())
    }
}
