//! Owners of block requests: the processes that caused their bytes.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::process_names::ProcessNames;
use crate::anomaly::Link;
use crate::operation::Step;
use crate::operation::attribution::{LastWriter, Piece};
use crate::operation::block::DiskstatsClass;
use crate::operation::model::{ProcessInfo, ProcessKey, ThreadInfo};
use crate::units::{Pid, SECTOR_BYTES};

/// Cause of bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskCause {
    /// A process: it queued the bio, or wrote the bytes last that a kernel thread wrote back.
    Process(ProcessKey),
    /// A process without other records.
    Unseen(Pid),
    /// The kernel's own: journals and metadata of file systems, flushes.
    Kernel,
    /// Another process, or not known.
    Unknown,
}

/// Largest number of ended processes that are remembered.
const ENDED_MAX: usize = 8192;

/// The last processes that have ended.
#[derive(Clone, Debug, Default)]
struct EndedProcesses {
    known: FxHashMap<ProcessKey, ProcessInfo>,
    order: VecDeque<ProcessKey>,
}

impl EndedProcesses {
    fn add(&mut self, info: &ProcessInfo) {
        if self.order.len() >= ENDED_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.known.remove(&first);
        }
        self.order.push_back(info.key);
        self.known.insert(info.key, info.clone());
    }
}

/// A number of bytes of a request.
#[derive(Clone, Copy, Debug)]
pub struct CausedBytes<'a> {
    /// Owner of the bytes.
    pub cause: DiskCause,
    /// The number.
    pub bytes: u64,
    /// Certainty of the owner.
    pub link: Link,
    /// True if another process wrote them than the one that had put them into memory.
    pub is_written_back: bool,
    /// Last writer of the bytes, if that is the cause.
    writer: Option<&'a LastWriter>,
}

impl CausedBytes<'_> {
    fn new(cause: DiskCause, bytes: u64, link: Link) -> Self {
        Self { cause, bytes, link, is_written_back: false, writer: None }
    }
}

/// Processes that may own requests.
#[derive(Clone, Debug, Default)]
pub struct RequestOwners {
    /// Names of processes.
    pub names: ProcessNames,
    /// Last process of each number.
    processes: FxHashMap<Pid, ProcessKey>,
    /// Processes that ended a while ago: their requests and written-back data come later.
    ended: EndedProcesses,
}

impl RequestOwners {
    /// Takes the processes in a step.
    pub fn look(&mut self, step: &Step<'_>) {
        if let Step::ProcessSeen(process) = step {
            self.processes.insert(process.pid, process.key);
        }
        if let Step::ProcessEnded(process) = step {
            self.ended.add(process);
        }
        self.names.look(step);
    }

    /// Returns the last process of a number, if one was seen.
    pub fn process(&self, pid: Pid) -> Option<ProcessKey> {
        self.processes.get(&pid).copied()
    }

    /// Keeps the name of the cause after its end, because a table has a row about it.
    pub fn keep(&mut self, caused: &CausedBytes<'_>) {
        if let DiskCause::Process(process) = caused.cause {
            let ended = self.ended.known.get(&process).cloned();
            let of_writer = caused.writer.map(|writer| ProcessInfo {
                comm: writer.comm.to_vec(),
                ..ProcessInfo::new(process, writer.pid)
            });
            self.names.keep_info(process, ended.or(of_writer));
        }
    }

    /// Keeps what is known of a process, also if it has ended a while ago.
    pub fn keep_process(&mut self, process: ProcessKey) {
        let ended = self.ended.known.get(&process).cloned();
        self.names.keep_info(process, ended);
    }

    /// Returns the causes of the bytes of a request; their sum is `bytes`.
    pub fn causes<'a>(
        &self,
        bytes: u64,
        class: DiskstatsClass,
        thread: Option<&ThreadInfo>,
        pieces: &'a [Piece],
    ) -> Vec<CausedBytes<'a>> {
        let mut left = bytes;
        let mut causes: Vec<CausedBytes<'a>> = Vec::new();
        for piece in pieces {
            let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES).min(left);
            left -= bytes;
            causes.extend(self.causes_of(piece, bytes));
        }
        if left > 0 || pieces.is_empty() {
            causes.push(match class {
                // The block layer issues it when a request demands one.
                DiskstatsClass::Flush => CausedBytes::new(DiskCause::Kernel, 0, Link::Exact),
                _ => self.cause_without_piece(thread, left),
            });
        }
        causes
    }

    /// Returns the causes of a piece; their bytes add up to `bytes`.
    fn causes_of<'a>(&self, piece: &'a Piece, bytes: u64) -> Vec<CausedBytes<'a>> {
        let pid = piece.queued.pid;
        let queued_by = self.processes.get(&pid).copied();
        match (piece.program(), piece.writers.as_slice()) {
            (Some(_), writers @ [_, ..]) => {
                let count = writers.len() as u64;
                let (each, rest) = (bytes / count, bytes % count);
                let shares = (0..count).map(|place| each + u64::from(place < rest));
                let written = |(writer, bytes): (&'a LastWriter, u64)| CausedBytes {
                    is_written_back: queued_by != Some(writer.process),
                    writer: Some(writer),
                    ..CausedBytes::new(DiskCause::Process(writer.process), bytes, Link::Inferred)
                };
                writers.iter().zip(shares).map(written).collect()
            }
            (Some(Link::Exact), []) => {
                let cause = queued_by.map_or(DiskCause::Unseen(pid), DiskCause::Process);
                vec![CausedBytes::new(cause, bytes, Link::Exact)]
            }
            (Some(_), []) => vec![CausedBytes::new(DiskCause::Unknown, bytes, Link::Unknown)],
            (None, _) => vec![CausedBytes::new(DiskCause::Kernel, bytes, Link::Exact)],
        }
    }

    /// Returns the cause of bytes whose bios were not seen; of a request without bytes, the thread
    /// that queued it.
    fn cause_without_piece(&self, thread: Option<&ThreadInfo>, bytes: u64) -> CausedBytes<'static> {
        let info = thread.and_then(|thread| self.names.info(thread.process));
        let (cause, link) = match info {
            Some(info) if info.is_kernel => (DiskCause::Kernel, Link::Exact),
            Some(info) if bytes == 0 => (DiskCause::Process(info.key), Link::Exact),
            _ => (DiskCause::Unknown, Link::Unknown),
        };
        CausedBytes::new(cause, bytes, link)
    }
}
