//! Accesses: reads and writes of files, at the level of calls and of devices, one after the other,
//! as file tracers log them.
//!
//! Input: steps. Output: for a call or an asynchronous operation, the sides on which it moved bytes
//! of a file, with offset and length; for a block request, its pieces. Callers select the accesses
//! and their order.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::asynchronous::{AsyncOperation, NoResult};
use super::attribution::Piece;
use super::model::{OpenFile, SyscallOperation, ThreadInfo, ThreadKey};
use super::step::Step;
use crate::block::{BlockRequest, RequestEnd};
use crate::event::block::{BlockPoint, RequestOp};
use crate::event::syscall_table::CallClass;
use crate::units::{KernelTime, Pid, SECTOR_BYTES, Tid};

/// Level at which an access was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// At a system call, or an asynchronous operation.
    Vfs,
    /// At a device.
    Blk,
}

impl Level {
    /// `VFS` or `BLK`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vfs => "VFS",
            Self::Blk => "BLK",
        }
    }
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Begin of the call, acceptance of the operation, or queueing of the bio.
    pub begin: KernelTime,
    /// A write; otherwise a read.
    pub is_write: bool,
    /// Offset in the file, in bytes; on the disk, in sectors (of 512 bytes).
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Level at which it was seen.
    pub level: Level,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
}

/// One file of an operation that moved bytes.
#[derive(Clone, Debug)]
pub struct FileAccess<'a> {
    /// The file, if it is known.
    pub file: Option<&'a Arc<OpenFile>>,
    /// The access; its address counts only if `is_known`.
    access: Access,
    /// True if offset and length are known.
    is_known: bool,
    /// True if the result was not seen; the length is then the requested one.
    pub lacks_result: bool,
}

impl FileAccess<'_> {
    /// Returns the access, if its offset and length are known.
    pub fn access(&self) -> Option<Access> {
        self.is_known.then_some(self.access)
    }

    /// Returns the thread.
    pub fn tid(&self) -> Tid {
        self.access.tid
    }

    /// Returns the begin of the access.
    pub fn begin(&self) -> KernelTime {
        self.access.begin
    }
}

/// Returns the sides of the operation that this step ends: none if it moved no bytes, one for a
/// read or write, two for a transfer.
pub fn sides<'a>(step: &'a Step<'_>) -> impl Iterator<Item = FileAccess<'a>> {
    let [first, second] = match step {
        Step::SyscallEnded(it, _) | Step::SyscallUnfinished(it, _) => of_call(it),
        Step::AsyncEnded(it, _) => of_asynchronous(it, it.bytes()),
        // The operation is over; its result was fetched without a call, or not wanted. Most
        // operations do everything that was requested.
        Step::AsyncUnfinished(it, NoResult::ProcessEnd | NoResult::Skipped | NoResult::Unseen) => {
            let request = of_asynchronous(it, it.bytes_requested.or(Some(UNKNOWN)));
            request.map(|side| side.map(|it| FileAccess { lacks_result: true, ..it }))
        }
        Step::AsyncUnfinished(it, NoResult::CaptureEnd) => of_asynchronous(it, Some(UNKNOWN)),
        _ => [None, None],
    };
    first.into_iter().chain(second)
}

/// Length that is not known.
const UNKNOWN: u64 = u64::MAX;

fn of_call(operation: &SyscallOperation) -> [Option<FileAccess<'_>>; 2] {
    // Calls that failed or were cut off have accessed nothing that is known.
    let done = operation.ret.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0);
    let class = operation.call.call().class;
    let Some(bytes) = done.filter(|_| class.moves_bytes()) else { return [None, None] };
    let moved =
        MovedRange { begin: operation.start, bytes, pid: operation.pid, tid: operation.tid };
    let first = moved.side(operation.file.as_ref(), operation.offset, class == CallClass::Write);
    let target = operation.target.as_ref().map(|it| &it.1);
    let second = || moved.side(target, operation.target_offset, true);
    [Some(first), (class == CallClass::Transfer).then(second)]
}

fn of_asynchronous(operation: &AsyncOperation, bytes: Option<u64>) -> [Option<FileAccess<'_>>; 2] {
    let class = operation.opcode.class();
    // No event reports the offsets of a splice.
    let is_transfer = class == CallClass::Pipe;
    let bytes = bytes.filter(|it| *it > 0 && (is_transfer || class.moves_bytes()));
    let Some(bytes) = bytes else { return [None, None] };
    let moved =
        MovedRange { begin: operation.start, bytes, pid: operation.pid, tid: operation.tid };
    let offset = operation.offset.filter(|_| !is_transfer);
    let first = moved.side(operation.file.as_ref(), offset, class == CallClass::Write);
    let target = operation.target.as_ref().map(|it| &it.1);
    [Some(first), is_transfer.then(|| moved.side(target, None, true))]
}

/// Bytes that an operation has moved.
#[derive(Clone, Copy)]
struct MovedRange {
    begin: KernelTime,
    bytes: u64,
    pid: Pid,
    tid: Tid,
}

impl MovedRange {
    fn side(
        self,
        file: Option<&Arc<OpenFile>>,
        offset: Option<u64>,
        is_write: bool,
    ) -> FileAccess<'_> {
        let Self { begin, bytes, pid, tid } = self;
        let (address, level) = (offset.unwrap_or(0), Level::Vfs);
        let access = Access { begin, is_write, address, bytes, level, pid, tid };
        let is_known = offset.is_some() && bytes != UNKNOWN;
        FileAccess { file, access, is_known, lacks_result: false }
    }
}

/// Returns the pieces of a request, each with its access. `None` if the request neither reads nor
/// writes, or reached no device. A request that became part of another has no pieces: they are with
/// the other request.
pub fn pieces<'a>(
    request: &BlockRequest,
    pieces: &'a [Piece],
) -> Option<impl Iterator<Item = (&'a Piece, Access)>> {
    let is_write = match request.op {
        RequestOp::Read => false,
        RequestOp::ZoneAppend => true,
        RequestOp::Write if request.writes_data() => true,
        _ => return None,
    };
    if request.is_stillborn {
        return None;
    }
    let is_absorbed = matches!(request.ending, Some(RequestEnd::Absorbed { into: Some(_), .. }));
    let access = move |piece: &'a Piece| {
        let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES);
        let (begin, address, level) = (piece.queued.time, piece.sector, Level::Blk);
        let (pid, tid) = (piece.queued.pid, piece.queued.tid);
        (piece, Access { begin, is_write, address, bytes, level, pid, tid })
    };
    let all = if is_absorbed { &[] } else { pieces };
    Some(all.iter().map(access))
}

/// Returns true for a bio of a device without requests that was passed on to another device: the
/// same bytes are reported there.
pub fn is_passed_on(request: &BlockRequest) -> bool {
    request.first_seen == BlockPoint::BioQueue && request.issued.is_some()
}

/// Names of threads. Threads that ended a moment ago are included: their device requests may end
/// later.
#[derive(Debug, Default)]
pub struct RecentNames {
    names: FxHashMap<Tid, (ThreadKey, Arc<[u8]>)>,
    ended: VecDeque<(Tid, ThreadKey)>,
}

/// Limit of ended threads whose names are remembered.
const ENDED_MAX: usize = 4096;

impl RecentNames {
    /// Updates the names by a step.
    pub fn look(&mut self, step: &Step<'_>) {
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => {
                self.names.insert(thread.tid, (thread.key, thread.comm.as_slice().into()));
            }
            Step::ThreadEnded(thread) => self.ended(thread),
            _ => {}
        }
    }

    fn ended(&mut self, thread: &ThreadInfo) {
        self.ended.push_back((thread.tid, thread.key));
        if self.ended.len() > ENDED_MAX
            && let Some((tid, key)) = self.ended.pop_front()
            && self.names.get(&tid).is_some_and(|it| it.0 == key)
        {
            self.names.remove(&tid);
        }
    }

    /// Returns the current name of a thread, or its last one.
    pub fn of(&self, tid: Tid) -> Option<&Arc<[u8]>> {
        self.names.get(&tid).map(|it| &it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::ProcessKey;

    #[test]
    fn names_of_threads_that_ended_are_kept_for_a_while() {
        let thread = |number: u32, tid: i32, comm: &str| ThreadInfo {
            key: ThreadKey(number),
            process: ProcessKey(0),
            tid: Tid(tid),
            comm: comm.into(),
        };
        let mut comms = RecentNames::default();
        let name = |comms: &RecentNames, tid| comms.of(Tid(tid)).map(|it| it.to_vec());
        let (first, again) = (thread(0, 7, "a"), thread(1, 8, "b"));
        comms.look(&Step::ThreadSeen(&first));
        comms.look(&Step::ThreadSeen(&again));
        comms.look(&Step::ThreadEnded(&first));
        comms.look(&Step::ThreadEnded(&again));
        // The number is used again.
        let next = thread(2, 8, "c");
        comms.look(&Step::ThreadSeen(&next));
        assert_eq!(name(&comms, 7), Some(b"a".to_vec()));
        for number in 0..4096 {
            comms.look(&Step::ThreadEnded(&thread(10 + number, 1000, "d")));
        }
        assert_eq!((name(&comms, 7), name(&comms, 8)), (None, Some(b"c".to_vec())));
    }
}
