//! File names without BPF: read at the moment of the open, by a reader that the program cannot outrun.
//!
//! Each CPU has a small ring that holds only opens, and a thread pinned to that CPU with real-time priority, woken by
//! each exit of an open. It runs before the program gets back to user mode: the argument is still in its buffer and the
//! descriptor still is what it was. It reads both, with the time before and after; whether nothing came in between is
//! decided later, where all records are in order.

use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustc_hash::FxHashMap;

use super::log::{Data, Message};
use super::plan::RingOf;
use super::rings::CpuRing;
use crate::capture::fact::{Fact, NameOf};
use crate::event::decode::Decoder;
use crate::event::syscall_table::Role;
use crate::event::{EventKind, FileStat};
use crate::record::parse::Body;
use crate::record::{SampleLayout, records};
use crate::sys::files::stat_behind;
use crate::sys::{clock, thread};
use crate::units::{self, CpuId, KernelTime, Tid};

/// Above every ordinary task, below the kernel's own interrupt threads (50).
pub const PRIORITY: i32 = 40;

/// The longest path that the kernel takes, with its NUL (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// Bytes at a time when the argument is read: short names need one call, and no read crosses a page that may not be
/// there.
const ARGUMENT_CHUNK_BYTES: usize = 256;

/// All readers.
#[derive(Debug)]
pub struct NamesReaders {
    cpus: Vec<Mutex<CpuNames>>,
    stop: AtomicBool,
    wake: EventFd,
}

/// What one CPU's reader has.
#[derive(Debug)]
struct CpuNames {
    ring: CpuRing,
    reading: Reading,
    /// Records taken from the ring since the last round.
    bytes: Vec<u8>,
    /// Facts about them, with the process concerned.
    facts: Vec<(Option<units::Pid>, Fact)>,
    /// Its reader could not begin: its records are kept, without names.
    has_no_reader: bool,
    /// Path argument of the opens that were entered on this CPU.
    arguments: FxHashMap<i32, u64>,
}

/// How records are read, the same on every CPU.
#[derive(Clone, Debug)]
struct Reading {
    decoder: Arc<Decoder>,
    layout: SampleLayout,
}

impl NamesReaders {
    /// Readers for these rings; none for none.
    ///
    /// # Errors
    ///
    /// Those of `eventfd(2)`.
    pub fn new(
        rings: Vec<CpuRing>,
        decoder: Arc<Decoder>,
        layout: SampleLayout,
    ) -> io::Result<Self> {
        let reading = Reading { decoder, layout };
        let cpus = rings
            .into_iter()
            .map(|ring| {
                Mutex::new(CpuNames {
                    ring,
                    reading: reading.clone(),
                    bytes: Vec::new(),
                    facts: Vec::new(),
                    has_no_reader: false,
                    arguments: FxHashMap::default(),
                })
            })
            .collect();
        let wake =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_SEMAPHORE)?;
        Ok(Self { cpus, stop: AtomicBool::new(false), wake })
    }

    /// Starts a thread on each CPU, called `name`.
    ///
    /// # Errors
    ///
    /// Those of starting a thread.
    pub fn start(self: &Arc<Self>, name: &str) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
        let start = |index: usize| {
            let readers = Arc::clone(self);
            std::thread::Builder::new().name(name.to_owned()).spawn(move || readers.read_cpu(index))
        };
        (0..self.cpus.len()).map(start).collect()
    }

    /// Ends the threads.
    pub fn stop(&self) {
        // ORDERING: nothing else is published by this flag; the eventfd wakes the threads.
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.wake.write(self.cpus.len() as u64);
    }

    /// What was taken and read since the last call.
    pub fn collect(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        for cpu in &self.cpus {
            let mut cpu = lock(cpu);
            // ORDERING: as in stop().
            if cpu.has_no_reader || self.stop.load(Ordering::Relaxed) {
                // Nobody else takes it.
                cpu.absorb(|_| None);
            }
            let data = Data {
                cpu: cpu.ring.cpu,
                stream: RingOf::Names.index(),
                bytes: std::mem::take(&mut cpu.bytes),
            };
            if !data.bytes.is_empty() {
                messages.push(Message::Data(data));
            }
            if !cpu.facts.is_empty() {
                messages.push(Message::Facts(std::mem::take(&mut cpu.facts)));
            }
        }
        messages
    }

    fn read_cpu(&self, index: usize) -> io::Result<()> {
        let Some(mine) = self.cpus.get(index) else { return Ok(()) };
        let (number, ready) = {
            let cpu = lock(mine);
            (cpu.ring.cpu, cpu.ring.owner.as_fd().try_clone_to_owned()?)
        };
        if let Err(error) = thread::pin(number).and_then(|()| thread::set_fifo(PRIORITY)) {
            lock(mine).has_no_reader = true;
            return Err(error);
        }
        // ORDERING: as in stop().
        while !self.stop.load(Ordering::Relaxed) {
            let mut fds = [
                PollFd::new(ready.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut fds, PollTimeout::NONE);
            lock(mine).absorb(|tid| self.argument_elsewhere(index, tid));
        }
        Ok(())
    }

    /// An open that was entered on another CPU: its entry is in that CPU's ring, whose reader was not woken by it.
    fn argument_elsewhere(&self, mine: usize, tid: Tid) -> Option<u64> {
        let others = self.cpus.iter().enumerate().filter(|it| it.0 != mine);
        others.filter_map(|(_, cpu)| cpu.try_lock().ok()).find_map(|mut cpu| {
            cpu.absorb(|_| None);
            cpu.arguments.remove(&tid.0)
        })
    }
}

impl CpuNames {
    /// Takes what is in the ring and reads the name of each open that has ended.
    fn absorb(&mut self, elsewhere: impl Fn(Tid) -> Option<u64>) {
        let start = self.bytes.len();
        self.ring.ring.take(&mut self.bytes);
        let fresh = self.bytes.get(start..).unwrap_or_default();
        let cpu = CpuId(self.ring.cpu);
        for (_, record) in records(fresh).flatten() {
            let Ok(record) = record.parse(&self.reading.layout) else { continue };
            let Body::Sample(payload) = record.body else { continue };
            match self.reading.decoder.decode(payload) {
                Ok(EventKind::SysEnter(enter)) => {
                    if let Some(&pointer) =
                        enter.call.call().arg(Role::Path).and_then(|it| enter.args.get(it))
                    {
                        self.arguments.insert(record.tid.0, pointer);
                    }
                }
                Ok(EventKind::SysExit(exit)) => {
                    let argument =
                        self.arguments.remove(&record.tid.0).or_else(|| elsewhere(record.tid));
                    let ended =
                        Ended { cpu, tid: record.tid, record_time: record.time, ret: exit.ret };
                    let read =
                        ended.link().into_iter().chain(argument.map(|it| ended.argument(it)));
                    self.facts.extend(read.map(|it| (Some(record.pid), it)));
                }
                _ => {}
            }
        }
    }
}

/// An open that has ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    cpu: CpuId,
    tid: Tid,
    record_time: KernelTime,
    ret: i64,
}

impl Ended {
    /// Where its descriptor points and what that is, if it succeeded.
    fn link(&self) -> Option<Fact> {
        let path = (self.ret >= 0).then(|| format!("/proc/{}/fd/{}", self.tid, self.ret))?;
        let begin = clock::now();
        let link = nix::fcntl::readlink(path.as_str()).map(OsStringExt::into_vec);
        let stat = stat_behind(&path);
        Some(self.fact(NameOf::Link, 0, begin, link, stat))
    }

    /// The string that its argument points to.
    fn argument(&self, pointer: u64) -> Fact {
        let begin = clock::now();
        self.fact(NameOf::Argument, pointer, begin, string_at(self.tid, pointer), None)
    }

    fn fact(
        &self,
        of: NameOf,
        address: u64,
        begin: KernelTime,
        read: nix::Result<Vec<u8>>,
        stat: Option<FileStat>,
    ) -> Fact {
        let end = clock::now();
        let Self { cpu, tid, record_time, .. } = *self;
        let (errno, bytes) = match read {
            Ok(bytes) => (0, bytes),
            Err(errno) => (errno as i32, Vec::new()),
        };
        Fact::Name { tid, cpu, record_time, of, begin, end, errno, address, stat, bytes }
    }
}

/// The string at this address of the thread's memory, without its NUL.
fn string_at(tid: Tid, pointer: u64) -> nix::Result<Vec<u8>> {
    let mut string = Vec::new();
    let mut address = usize::try_from(pointer).map_err(|_| nix::errno::Errno::EFAULT)?;
    while string.len() < PATH_BYTES_MAX {
        // Aligned chunks: one never crosses into a page that the string does not reach.
        let length = ARGUMENT_CHUNK_BYTES - address % ARGUMENT_CHUNK_BYTES;
        let mut chunk = [0; ARGUMENT_CHUNK_BYTES];
        let Some(part) = chunk.get_mut(..length) else { break };
        let read = process_vm_readv(
            Pid::from_raw(tid.0),
            &mut [IoSliceMut::new(part)],
            &[RemoteIoVec { base: address, len: length }],
        )?;
        let part = part.get(..read).unwrap_or_default();
        if let Some(end) = part.iter().position(|&it| it == 0) {
            string.extend_from_slice(part.get(..end).unwrap_or_default());
            return Ok(string);
        }
        string.extend_from_slice(part);
        address += read;
    }
    Err(nix::errno::Errno::ENAMETOOLONG)
}

/// A reader that panicked has lost its own names, not those of others.
fn lock(cpu: &Mutex<CpuNames>) -> MutexGuard<'_, CpuNames> {
    cpu.lock().unwrap_or_else(PoisonError::into_inner)
}
