//! Totals of operations: counts and bytes.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::accounting::{self, Accounted, IoCounts};
use super::completed_op::{CompletedOp, OpKind};
use crate::event::async_table::Opcode;
use crate::event::syscall_table::{CALLS, CallClass, CallId};
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass};
use crate::operation::io_class::IoClass;
use crate::operation::model::{SyscallOperation, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime};

/// Counted copies by `copy_file_range`, by the device of the written file; `None` if it is unknown.
pub type CopyCounts = BTreeMap<Option<DevId>, IoCounts>;

/// Mask of type and number of an ioctl request: the length of the argument differs between 64 and
/// 32 bits (`_IOC()`).
const IOCTL_KIND: u64 = 0xffff;

/// Request `BTRFS_IOC_SEND` (`include/uapi/linux/btrfs.h`).
const BTRFS_IOC_SEND: u64 = 0x9426;

/// Totals of one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Operations that ended.
    pub count: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Sum of the results of the data calls that did not fail, in bytes.
    pub bytes: u64,
    /// Sum of the times between entry and exit, ns.
    pub time_ns: u64,
    /// Operations among these that are I/O on files.
    pub on_files: OnFiles,
}

/// I/O on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnFiles {
    /// Operations that ended.
    pub count: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Sum of their times, ns.
    pub time_ns: u64,
}

impl OnFiles {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
            time_ns: self.time_ns.saturating_add(other.time_ns),
        }
    }

    /// Adds an operation of this duration that has moved bytes, read and written.
    fn add(&mut self, ns: u64, [read, written]: [u64; 2]) {
        self.count += 1;
        self.read = self.read.saturating_add(read);
        self.written = self.written.saturating_add(written);
        self.time_ns = self.time_ns.saturating_add(ns);
    }
}

/// Totals of one class of block requests on one device, as `/proc/diskstats` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTotals {
    /// Requests that completed.
    pub requests: u64,
    /// Sectors (512 bytes each).
    pub sectors: u64,
    /// Number of merges.
    pub merges: u64,
}

/// Fold of the totals.
#[derive(Clone, Debug)]
pub struct Totals {
    calls: Vec<CallTotals>,
    /// Kernel accounting of the calls.
    pub accounted: Accounted,
    /// Copies that the kernel may have counted twice.
    pub copies: CopyCounts,
    /// Calls of `ioctl` with `BTRFS_IOC_SEND`, inside which the kernel writes the stream
    /// (`write_buf()` in `fs/btrfs/send.c`).
    pub btrfs_sends: u64,
    /// True if several threads, or asynchronous operations, did I/O on files: their times overlap.
    pub is_concurrent: bool,
    /// The first thread that did I/O on files.
    first_thread: Option<ThreadKey>,
    /// Page faults on files.
    pub faults: u64,
    /// Asynchronous operations that ended, by opcode.
    pub asynchronous: BTreeMap<Opcode, CallTotals>,
    /// Totals of block requests by device and class.
    pub blocks: BTreeMap<(DevId, DiskstatsClass), BlockTotals>,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            is_concurrent: false,
            first_thread: None,
            faults: 0,
            accounted: Accounted::default(),
            copies: CopyCounts::new(),
            btrfs_sends: 0,
            calls: vec![CallTotals::default(); CALLS.len()],
            asynchronous: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }
}

impl Totals {
    /// Returns the totals of the calls that occurred, in the order of the table.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &CallTotals)> {
        CallId::all().zip(&self.calls).filter(|it| it.1.count > 0)
    }

    /// Returns the sum over the calls of a class.
    pub fn class(&self, class: CallClass) -> CallTotals {
        self.calls().filter(|it| it.0.call().class == class).fold(
            CallTotals::default(),
            |sum, (_, totals)| CallTotals {
                count: sum.count + totals.count,
                errors: sum.errors + totals.errors,
                bytes: sum.bytes + totals.bytes,
                time_ns: sum.time_ns + totals.time_ns,
                ..sum
            },
        )
    }

    /// Returns the totals of one call by name.
    pub fn call(&self, name: &str) -> CallTotals {
        self.calls().find(|it| it.0.call().name == name).map(|it| *it.1).unwrap_or_default()
    }

    /// Returns all I/O on files.
    pub fn on_files(&self) -> OnFiles {
        let all = self.calls.iter().chain(self.asynchronous.values());
        all.fold(OnFiles::default(), |sum, totals| sum.plus(totals.on_files))
    }

    /// Returns the kind of operation that took the most time on files.
    pub fn longest_on_files(&self) -> Option<(OpKind, OnFiles)> {
        let calls = self.calls().map(|(call, totals)| (OpKind::Call(call), totals.on_files));
        let asynchronous = self.asynchronous.iter();
        let asynchronous = asynchronous.map(|(op, totals)| (OpKind::Async(*op), totals.on_files));
        calls.chain(asynchronous).max_by_key(|(_, on_files)| on_files.time_ns)
    }

    fn syscall(&mut self, operation: &SyscallOperation) {
        let Some(totals) = self.calls.get_mut(usize::from(operation.call.0)) else { return };
        let ns = operation.end.map_or(0, |it| it.0.saturating_sub(operation.start.0));
        totals.count += 1;
        totals.time_ns += ns;
        let call = operation.call.call();
        let bytes = match operation.errno() {
            Some(_) => {
                totals.errors += 1;
                0
            }
            None if call.returns_bytes() => {
                operation.ret.and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
            }
            None => 0,
        };
        totals.bytes += bytes;
        if operation.io_class() == IoClass::File {
            let moved = call.ways().map(|is_way| if is_way { bytes } else { 0 });
            totals.on_files.add(ns, moved);
            self.is_concurrent |=
                *self.first_thread.get_or_insert(operation.thread) != operation.thread;
        }
        self.btrfs_sends +=
            u64::from(call.name == "ioctl" && operation.args[1] & IOCTL_KIND == BTRFS_IOC_SEND);
        self.account(operation);
    }

    fn account(&mut self, operation: &SyscallOperation) {
        let accounted = accounting::of(operation);
        self.accounted.read += accounted.read;
        self.accounted.write += accounted.write;
        if operation.call.call().name == "copy_file_range" && accounted.write.calls > 0 {
            let stat = operation.target.as_ref().and_then(|it| it.1.stat.as_ref());
            *self.copies.entry(stat.map(|it| it.dev)).or_default() += accounted.write;
        }
    }

    fn asynchronous(&mut self, operation: &AsyncOperation) {
        let totals = self.asynchronous.entry(operation.opcode).or_default();
        totals.count += 1;
        totals.time_ns += operation.end.map_or(0, |it| it.0.saturating_sub(operation.start.0));
        totals.errors += u64::from(operation.errno().is_some());
        totals.bytes = totals.bytes.saturating_add(operation.bytes().unwrap_or(0));
        let done = CompletedOp::asynchronous(operation);
        if done.io == IoClass::File {
            // Its time may overlap that of other operations of its thread.
            self.is_concurrent = true;
            totals.on_files.add(done.ns(), done.moved());
        }
    }

    fn request(&mut self, request: &BlockRequest) {
        let Some(class) = request.diskstats_class() else { return };
        let totals = self.blocks.entry((request.dev, class)).or_default();
        totals.requests += 1;
        totals.sectors += request.diskstats_sectors();
        totals.merges += u64::from(request.merges);
    }
}

impl Sink for Totals {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::SyscallEnded(operation, _) = step {
            self.syscall(operation);
        } else if let Step::Fault(_) = step {
            self.faults += 1;
        } else if let Step::AsyncEnded(operation, _) = step {
            self.asynchronous(operation);
        } else if let Step::Block { step: BlockStep::Ended(request), .. } = step {
            self.request(request);
        }
        Ok(())
    }
}

/// Sink that adds to the totals and passes on to another sink.
#[derive(Debug)]
pub struct WithTotals<'a, S> {
    /// Totals of all steps.
    pub totals: &'a mut Totals,
    /// Next sink.
    pub sink: S,
}

impl<S: Sink> Sink for WithTotals<'_, S> {
    type Error = S::Error;
    const USES_BEGINS: bool = S::USES_BEGINS;
    const IS_COSTLY: bool = S::IS_COSTLY;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), S::Error> {
        match self.totals.step(time, step) {
            Ok(()) => self.sink.step(time, step),
            Err(never) => match never {},
        }
    }

    fn damaged(&mut self) {
        self.sink.damaged();
    }
}
