//! Which calls, processes, files and devices: how often, how much, how long.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::done::{Done, Name, What};
use super::keyed::Keyed;
use super::names::ProcessNames;
use super::spread::Spread;
use super::tally::Tally;
use crate::event::block::RequestOp;
use crate::event::syscall_table::Class;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::block::{BlockRequest, BlockStep, Ending};
use crate::operation::io_class::IoClass;
use crate::operation::model::{Mounts, ProcessKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid};

/// A process.
#[derive(Clone, Debug, Default)]
pub struct OfProcess {
    /// Its number.
    pub pid: Pid,
    /// Its operations.
    pub tally: Tally,
}

/// Requests of one kind to one device.
#[derive(Clone, Debug, Default)]
pub struct OfDevice {
    /// Requests completed.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Bios and requests merged into others.
    pub merges: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Before the driver got them (Q or G to D), ns.
    pub queue: Spread,
    /// In the driver and the device (D to C), ns.
    pub device: Spread,
}

/// The key of a file: its path, and if that is not one of the tracer's mounts, a 0 and their number behind it.
pub fn file_key(name: &Name<'_>) -> Vec<u8> {
    let mut key = name.path.to_vec();
    if name.mounts != Mounts::OWN {
        key.push(0);
        key.extend(name.mounts.0.to_string().bytes());
    }
    key
}

/// Path and mounts of such a key; the tracer's own are `None`.
pub fn path_of(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match key.iter().position(|it| *it == 0) {
        Some(place) => (key.get(..place).unwrap_or_default(), key.get(place + 1..)),
        None => (key, None),
    }
}

/// Asynchronous operations without a result: they are in no other sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// How many.
    pub count: u64,
    /// Bytes that they asked for, as far as that is known.
    pub requested: u64,
    /// Those of which it is not known.
    pub unknown: u64,
}

impl Unseen {
    fn add(&mut self, operation: &AsyncOperation) {
        self.count += 1;
        self.requested = self.requested.saturating_add(operation.bytes_requested.unwrap_or(0));
        let is_unknown = operation.opcode.has_bytes() && operation.bytes_requested.is_none();
        self.unknown += u64::from(is_unknown);
    }
}

/// The fold.
#[derive(Clone, Debug, Default)]
pub struct IoSummary {
    /// By operation, and whether it was file I/O.
    pub calls: BTreeMap<(What, IoClass), Tally>,
    /// By process.
    pub processes: Keyed<ProcessKey, OfProcess>,
    /// By file.
    pub files: Keyed<Vec<u8>, Tally>,
    /// Operations on what has no known name: files, pipes and the like, descriptors of unknown type.
    pub nameless: BTreeMap<IoClass, Tally>,
    /// Asynchronous operations whose result was not seen, and the bytes that they asked for.
    pub unseen: Unseen,
    /// By device and kind.
    pub devices: BTreeMap<(DevId, RequestOp), OfDevice>,
    /// Operations by their error.
    pub errors: BTreeMap<(What, IoClass, i32), u64>,
    /// Page faults on files.
    pub faults: u64,
    /// All operations.
    pub all: Tally,
    /// Names of processes.
    pub names: ProcessNames,
}

impl IoSummary {
    fn done(&mut self, done: &Done<'_>) {
        self.all.add(done);
        self.calls.entry((done.what, done.io)).or_default().add(done);
        if let Some(errno) = done.errno {
            *self.errors.entry((done.what, done.io, errno)).or_default() += 1;
        }
        let names = &mut self.names;
        let process = self.processes.row(&done.process, || {
            names.keep(done.process);
            done.process
        });
        process.pid = done.pid;
        process.tally.add(done);
        let [read, written] = done.sides();
        match &done.name {
            Some(name) => self.on_file(name, done, read, written),
            None if done.is_nameless() || done.class == Class::Transfer => {
                self.nameless.entry(done.io).or_default().add_side(done, read, written);
            }
            None => {}
        }
        if done.class == Class::Transfer {
            match &done.target {
                Some(target) => self.on_file(target, done, 0, done.bytes),
                None => self.nameless.entry(done.io).or_default().add_side(done, 0, done.bytes),
            }
        }
    }

    fn on_file(&mut self, name: &Name<'_>, done: &Done<'_>, read: u64, written: u64) {
        let row = match name.mounts {
            Mounts::OWN => self.files.row(name.path, || name.path.to_vec()),
            _ => self.files.row(file_key(name).as_slice(), || file_key(name)),
        };
        row.add_side(done, read, written);
        row.doubtful += u64::from(name.is_doubtful);
    }

    fn request(&mut self, request: &BlockRequest) {
        if request.ending != Some(Ending::Completed) {
            return;
        }
        let row = self.devices.entry((request.dev, request.op)).or_default();
        row.requests += 1;
        row.errors += u64::from(request.error.is_some());
        row.merges += u64::from(request.merges);
        row.bytes = row.bytes.saturating_add(request.bytes_done);
        if let (Some(begin), Some(issued)) = (request.begin(), request.issued) {
            row.queue.add(issued.0.saturating_sub(begin.0));
        }
        if let (Some(issued), Some(completed)) = (request.issued, request.completed) {
            row.device.add(completed.0.saturating_sub(issued.0));
        }
    }
}

impl Sink for IoSummary {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = Done::of(step) {
                    self.done(&done);
                }
            }
            Step::AsyncUnfinished(operation, _) => self.unseen.add(operation),
            Step::Fault(_) => self.faults += 1,
            Step::Block { step: BlockStep::Ended(request), .. } => self.request(request),
            _ => self.names.look(step),
        }
        Ok(())
    }
}
