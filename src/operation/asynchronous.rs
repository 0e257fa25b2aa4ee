//! Asynchronous operations: those of io_uring and of `io_submit`, which are requested first and
//! executed later.
//!
//! ```text
//!             taken by the kernel         file known        result
//!  (nothing) ─────────────────────► begun ──────────► begun ──────► ended
//!                                     │                 │
//!                                     └─ no result, or none that was seen ─► unfinished
//! ```
//!
//! Operations of io_uring are found by the address of the kernel's request. Kernels before 5.17 do
//! not report the address; there, requests of one ring with the same `user_data` are assumed to end
//! in the order in which they began. Operations of `io_submit` are found by the address of their
//! `struct iocb`.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::fd_table::Description;
use super::model::{OpenFile, ProcessKey, ThreadKey};
use crate::event::async_table::{Interface, Opcode};
use crate::event::syscall_table::CallClass;
use crate::units::{CpuId, Fd, KernelTime, Pid, Tid};

/// One asynchronous operation.
#[derive(Clone, Debug)]
pub struct AsyncOperation {
    /// Dense number, never reused.
    pub id: u64,
    /// Requested operation.
    pub opcode: Opcode,
    /// Thread from which the kernel took it: with `IORING_SETUP_SQPOLL` the kernel thread of that
    /// process.
    pub thread: ThreadKey,
    /// Incarnation of its process.
    pub process: ProcessKey,
    /// Number of its process (tgid).
    pub pid: Pid,
    /// Number of the thread.
    pub tid: Tid,
    /// CPU on which it was taken.
    pub cpu: CpuId,
    /// Time at which the kernel took it; for `io_submit`, the begin of that call.
    pub start: KernelTime,
    /// Time at which its result was available; for `io_submit`, the return of `io_getevents` with
    /// it.
    pub end: Option<KernelTime>,
    /// The ring of io_uring, or the context of `io_submit`: unique only within the process.
    pub ring: u64,
    /// Identifier by the program: `user_data`, or the address of its `struct iocb`.
    pub user_data: u64,
    /// Descriptor; `None`: it has none, or a file that is registered with the ring.
    pub fd: Option<Fd>,
    /// File of the descriptor.
    pub file: Option<Arc<OpenFile>>,
    /// A second descriptor and its file.
    pub target: Option<(Fd, Arc<OpenFile>)>,
    /// True if it works on a file that is registered with the ring; the file is not reported.
    pub fixed_file: bool,
    /// Position of the first byte, in bytes; `None`: none, or not known.
    pub offset: Option<u64>,
    /// Requested bytes; `None`: none, or not known.
    pub bytes_requested: Option<u64>,
    /// The (last) result; -4095 to -1 is a negative errno.
    pub result: Option<i64>,
    /// Number of results so far.
    pub results: u32,
    /// Bytes of all results before the last one.
    pub bytes_before: u64,
    /// True if a kernel worker thread executed it.
    pub by_worker: bool,
    /// `IOSQE_*` and the kernel's own flags.
    pub flags: u64,
    /// `RWF_*` of `io_submit`.
    pub rw_flags: u32,
}

impl AsyncOperation {
    /// Returns the error number (positive), if the operation failed.
    pub fn errno(&self) -> Option<i32> {
        match self.result {
            Some(result @ -4095..=-1) => i32::try_from(-result).ok(),
            _ => None,
        }
    }

    /// Returns true if another thread than the requesting one may write its bytes to a file.
    /// (`io_submit` submits them in its own thread.)
    fn hands_over(&self) -> bool {
        let is_write = matches!(self.opcode.class(), CallClass::Write | CallClass::Pipe);
        is_write && self.opcode.interface == Interface::IoUring
    }

    /// Returns the moved bytes; `None` if it moves none.
    pub fn bytes(&self) -> Option<u64> {
        let last = self.result.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
        let is_over = self.result.is_some() && self.opcode.has_bytes();
        is_over.then(|| self.bytes_before.saturating_add(last))
    }
}

/// Decrements a count, and removes it at 0.
fn one_less(counts: &mut FxHashMap<ProcessKey, usize>, process: ProcessKey) {
    if let Some(count) = counts.get_mut(&process) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&process);
        }
    }
}

/// Reason for an asynchronous operation without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoResult {
    /// The capture ended first.
    CaptureEnd,
    /// The process of the operation ended first.
    ProcessEnd,
    /// A result was requested only for a failure (`IOSQE_CQE_SKIP_SUCCESS`): the operation
    /// succeeded.
    Skipped,
    /// The key of the operation was reused: the result was lost, or fetched by the program without
    /// a call.
    Unseen,
}

impl NoResult {
    /// Returns the word for the reason in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CaptureEnd => "capture-end",
            Self::ProcessEnd => "process-end",
            Self::Skipped => "result-skipped",
            Self::Unseen => "result-unseen",
        }
    }
}

/// Key that distinguishes an operation from all others that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A request of a ring: addresses of both.
    Request(u64, u64),
    /// A request without an address, by its operation's number.
    Nameless(u64),
    /// The `struct iocb` at this address of the process.
    Iocb(ProcessKey, u64),
}

/// An operation that has not ended.
#[derive(Debug)]
pub struct AsyncFlight {
    /// The operation, as far as it is known.
    pub operation: AsyncOperation,
    /// File whose position it may move.
    pub moves: Option<Rc<Description>>,
}

/// All operations that have not ended.
#[derive(Debug, Default)]
pub struct InFlight {
    flights: FxHashMap<Key, AsyncFlight>,
    /// Keys by ring and `user_data`, oldest first.
    by_data: FxHashMap<(u64, u64), VecDeque<Key>>,
    /// Number of operations of each process that has some.
    of_process: FxHashMap<ProcessKey, usize>,
    /// Number of operations of each process that workers may execute, and that write to a file.
    writes: FxHashMap<ProcessKey, usize>,
}

impl InFlight {
    /// Returns the operation.
    pub fn get(&mut self, key: Key) -> Option<&mut AsyncFlight> {
        self.flights.get_mut(&key)
    }

    /// Returns the oldest operation of a ring with this `user_data`.
    pub fn oldest(&self, ring: u64, user_data: u64) -> Option<Key> {
        self.by_data.get(&(ring, user_data))?.front().copied()
    }

    /// Adds an operation. Returns the previous one with this key.
    pub fn begin(&mut self, key: Key, flight: AsyncFlight) -> Option<AsyncFlight> {
        let replaced = self.end(key);
        self.by_data
            .entry((flight.operation.ring, flight.operation.user_data))
            .or_default()
            .push_back(key);
        *self.of_process.entry(flight.operation.process).or_default() += 1;
        if flight.operation.hands_over() {
            *self.writes.entry(flight.operation.process).or_default() += 1;
        }
        self.flights.insert(key, flight);
        replaced
    }

    /// Removes and returns an operation.
    pub fn end(&mut self, key: Key) -> Option<AsyncFlight> {
        let flight = self.flights.remove(&key)?;
        let data = (flight.operation.ring, flight.operation.user_data);
        if let Some(keys) = self.by_data.get_mut(&data) {
            // Mostly the key is the oldest or the newest; only other keys need a search.
            if keys.front() == Some(&key) {
                keys.pop_front();
            } else if keys.back() == Some(&key) {
                keys.pop_back();
            } else {
                keys.retain(|it| *it != key);
            }
            if keys.is_empty() {
                self.by_data.remove(&data);
            }
        }
        one_less(&mut self.of_process, flight.operation.process);
        if flight.operation.hands_over() {
            one_less(&mut self.writes, flight.operation.process);
        }
        Some(flight)
    }

    /// Returns true if a worker of io_uring may write data of the process.
    pub fn has_writes(&self, process: ProcessKey) -> bool {
        self.writes.contains_key(&process)
    }

    /// Removes and returns all operations of a process, oldest first.
    pub fn end_process(&mut self, process: ProcessKey) -> Vec<AsyncFlight> {
        if !self.of_process.contains_key(&process) {
            return Vec::new();
        }
        self.end_those(|it| it.operation.process == process)
    }

    /// Removes and returns all operations from `io_submit` of a process, oldest first.
    pub fn end_submitted(&mut self, process: ProcessKey) -> Vec<AsyncFlight> {
        let keys = self.flights.keys().copied();
        let its = keys.filter(|it| matches!(it, Key::Iocb(of, _) if *of == process)).collect();
        self.end_keys(its)
    }

    /// Removes and returns all operations from `io_submit` of a process in a context, oldest first.
    pub fn end_context(&mut self, process: ProcessKey, context: u64) -> Vec<AsyncFlight> {
        let is_its = |(key, flight): &(&Key, &AsyncFlight)| {
            matches!(key, Key::Iocb(of, _) if *of == process) && flight.operation.ring == context
        };
        self.end_keys(self.flights.iter().filter(is_its).map(|it| *it.0).collect())
    }

    /// Removes and returns all operations, oldest first.
    pub fn end_all(&mut self) -> Vec<AsyncFlight> {
        self.end_those(|_| true)
    }

    fn end_those(&mut self, is_meant: impl Fn(&AsyncFlight) -> bool) -> Vec<AsyncFlight> {
        self.end_keys(self.flights.iter().filter(|it| is_meant(it.1)).map(|it| *it.0).collect())
    }

    fn end_keys(&mut self, keys: Vec<Key>) -> Vec<AsyncFlight> {
        let mut ended: Vec<AsyncFlight> = keys.into_iter().filter_map(|it| self.end(it)).collect();
        ended.sort_unstable_by_key(|it| it.operation.id);
        ended
    }
}
