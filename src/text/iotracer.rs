//! Accesses in the line format of b-com's I/O tracer: `TIME;R|W;ADDRESS;BYTES;VFS|BLK;COMM;PID`, in the order of their beginning.
//!
//! `VFS` is a read or write of a regular file by a system call, its address the offset in the file in bytes; `BLK` a piece of a
//! block request, when its bio was queued, its address the sector (of 512 bytes) on the disk. What has no place in this format is
//! counted: accesses whose offset or size is not known, asynchronous ones, transfers inside the kernel, and requests that are neither
//! read nor write.

use std::collections::BTreeMap;
use std::io;

use rustc_hash::FxHashMap;

use super::{digits, escape};
use crate::event::FileStat;
use crate::event::block::RequestOp;
use crate::event::syscall_table::Class;
use crate::operation::behind::Piece;
use crate::operation::block::{BlockRequest, BlockStep, Ending, RequestId};
use crate::operation::model::{SyscallOperation, ThreadInfo};
use crate::operation::{Sink, Step};
use crate::units::{KernelTime, Pid, SECTOR_BYTES, Tid};

/// Writes a line for each access.
#[derive(Debug)]
pub struct IotracerLines<W, P> {
    start: KernelTime,
    /// Names of threads, escaped.
    names: FxHashMap<Tid, Vec<u8>>,
    /// Accesses that have begun and not ended, by their beginning: how many.
    open: BTreeMap<KernelTime, usize>,
    /// When the first bio of each request was queued, as far as it was known when the request began.
    requests: FxHashMap<RequestId, KernelTime>,
    /// Lines of those that have ended, by their beginning and by number.
    ended: BTreeMap<(KernelTime, u64), Vec<u8>>,
    number: u64,
    /// Accesses that have no line.
    left_out: u64,
    /// Whether that which ends with a step gets a line.
    wants: P,
    out: W,
}

impl<W: io::Write, P: FnMut(&Step<'_>) -> bool> IotracerLines<W, P> {
    /// Times count from `start`; what ends with a step that `wants` does not want has no line.
    pub fn new(start: KernelTime, wants: P, out: W) -> Self {
        Self {
            start,
            names: FxHashMap::default(),
            open: BTreeMap::new(),
            requests: FxHashMap::default(),
            ended: BTreeMap::new(),
            number: 0,
            left_out: 0,
            wants,
            out,
        }
    }

    /// Writes what waits and flushes the writer; gives it back, with the number of accesses that have no line.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.open.clear();
        self.write_ready()?;
        self.out.flush()?;
        Ok((self.out, self.left_out))
    }

    fn begun(&mut self, at: KernelTime) {
        *self.open.entry(at).or_default() += 1;
    }

    fn over(&mut self, at: KernelTime) {
        if let Some(count) = self.open.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&at);
            }
        }
    }

    /// Writes what nothing can come before any more.
    fn write_ready(&mut self) -> io::Result<()> {
        let first_open = self.open.first_key_value().map(|it| *it.0);
        while let Some(entry) = self.ended.first_entry()
            && first_open.is_none_or(|it| entry.key().0 < it)
        {
            self.out.write_all(&entry.remove())?;
        }
        Ok(())
    }

    fn line(&mut self, access: &Access<'_>, (pid, tid): (Pid, Tid)) {
        let mut line = Vec::with_capacity(64);
        digits::seconds(&mut line, access.begin.signed_since(self.start), 0);
        let letter = if access.is_write { 'W' } else { 'R' };
        let Access { address, bytes, level, .. } = access;
        line.extend_from_slice(format!(";{letter};{address};{bytes};{level};").as_bytes());
        match self.names.get(&tid) {
            Some(name) => line.extend_from_slice(name),
            None => line.push(b'?'),
        }
        line.extend_from_slice(format!(";{pid}\n").as_bytes());
        self.ended.insert((access.begin, self.number), line);
        self.number += 1;
    }

    fn syscall(&mut self, operation: &SyscallOperation) {
        let done = operation.ret.and_then(|it| u64::try_from(it).ok());
        // What has failed or was cut off has accessed nothing that is known.
        let Some(bytes) = done.filter(|it| *it > 0) else { return };
        let Some(address) = operation.offset else {
            self.left_out += 1;
            return;
        };
        let is_write = operation.call.call().class == Class::Write;
        let begin = operation.start;
        let access = Access { begin, is_write, address, bytes, level: "VFS" };
        self.line(&access, (operation.pid, operation.tid));
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        let is_write = match request.op {
            RequestOp::Read => false,
            RequestOp::Write | RequestOp::ZoneAppend => true,
            _ => {
                self.left_out += 1;
                return;
            }
        };
        // The one that it became part of has its pieces.
        if matches!(request.ending, Some(Ending::Absorbed { into: Some(_), .. })) {
            return;
        }
        self.left_out += u64::from(pieces.is_empty());
        for piece in pieces {
            let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES);
            let (begin, address) = (piece.queued.time, piece.sector);
            let access = Access { begin, is_write, address, bytes, level: "BLK" };
            self.line(&access, (piece.queued.pid, piece.queued.tid));
        }
    }

    fn name(&mut self, thread: &ThreadInfo) {
        let mut name = Vec::new();
        escape::shown(&mut name, &thread.comm, b";");
        self.names.insert(thread.tid, name);
    }
}

struct Access<'a> {
    begin: KernelTime,
    is_write: bool,
    address: u64,
    bytes: u64,
    level: &'a str,
}

/// A read or write of a regular file.
fn is_access(operation: &SyscallOperation) -> bool {
    let stat = operation.file.as_ref().and_then(|it| it.stat);
    let is_regular = |it: FileStat| it.mode & libc::S_IFMT == libc::S_IFREG;
    let class = operation.call.call().class;
    matches!(class, Class::Read | Class::Write) && stat.is_some_and(is_regular)
}

impl<W: io::Write, P: FnMut(&Step<'_>) -> bool> Sink for IotracerLines<W, P> {
    type Error = io::Error;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        let is_wanted = (self.wants)(step);
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => self.name(thread),
            Step::SyscallBegun(it) if is_access(it) => self.begun(it.start),
            Step::SyscallEnded(it, _) | Step::SyscallUnfinished(it, _) if is_access(it) => {
                self.over(it.start);
                if is_wanted {
                    self.syscall(it);
                }
                self.write_ready()?;
            }
            Step::SyscallEnded(it, _) if it.call.call().class == Class::Transfer => {
                self.left_out += u64::from(is_wanted && it.ret > Some(0));
            }
            Step::AsyncEnded(it, _) => {
                self.left_out += u64::from(is_wanted && it.bytes() > Some(0));
            }
            Step::Block { step: BlockStep::Queued(it), .. } => {
                let begin = it.begin().unwrap_or(KernelTime::MIN);
                self.requests.insert(it.id, begin);
                self.begun(begin);
            }
            Step::Block { step: BlockStep::Ended(it), pieces, .. } => {
                if let Some(begin) = self.requests.remove(&it.id) {
                    self.over(begin);
                }
                if is_wanted {
                    self.request(it, pieces);
                }
                self.write_ready()?;
            }
            _ => {}
        }
        Ok(())
    }
}
