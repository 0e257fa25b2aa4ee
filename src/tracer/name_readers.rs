//! Names readers: file names without BPF, read at the moment of the open by threads that the
//! program cannot outrun.
//!
//! Each CPU has a small ring that holds only opens, and a thread pinned to that CPU with real-time
//! priority. Each exit of an open wakes the thread (with tracefs each entry, too). The thread runs
//! before the program returns to user mode: the argument is still in its buffer and the descriptor
//! is unchanged. The thread reads both, with the time before and after. Whether another event
//! happened in between is decided later, where all records are in order.
//!
//! Records show whether a descriptor was closed. They do not show what a program does with its
//! memory: it may put another path in the place of the argument without a call that is recorded. So
//! a path counts only if its thread could not run until the path was read ([`CpuHold`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rustc_hash::FxHashMap;

use super::fanotify_listener::FanotifyListener;
use super::log_message::Message;
use super::name_records::{NameReads, RecordReading, TakenRecords};
use super::queued_bytes::{PAUSE, QueuedBytes};
use super::reader_exclusivity::{CpuHold, too_late};
use super::ring_stream::{RingStream, Take};
use super::scm_rights::received;
use super::target_memory;
use crate::capture::fact::{Fact, NameOf};
use crate::event::decode::Decoder;
use crate::event::syscall_table::{ArgumentMemory, CallClass, CallId};
use crate::event::{EventKind, FileStat, SysEnter};
use crate::record::Layout;
use crate::sys::files::stat_behind;
use crate::sys::thread::CpuLookup;
use crate::sys::trace_ring::PagePipe;
use crate::sys::{clock, thread};
use crate::units::{self, CpuId, KernelTime, Tid};

/// Real-time priority: above every ordinary task, below the kernel's own interrupt threads (50).
pub const PRIORITY: i32 = 40;

/// Largest number of opens on one CPU that wait to be looked at: more than can be looked at in a
/// round.
const LATER_MAX: usize = 4096;
/// Number of waiting opens that are searched for the same descriptor.
const LOOKED_FOR_MAX: usize = 64;
/// Number of looks, some 20 to 50 us each, at the end of a round, while the records of calls wait.
const LAST_LOOKS: usize = 16;

/// Readers of all CPUs.
#[derive(Debug)]
pub struct NamesReaders {
    cpus: Vec<Mutex<CpuNames>>,
    /// Listener that also reports opens.
    watch: Option<Mutex<FanotifyListener>>,
    stop: AtomicBool,
    /// Bytes that the log thread has yet to process.
    queued: Arc<QueuedBytes>,
    wake: EventFd,
}

/// State of one CPU's reader.
#[derive(Debug)]
struct CpuNames {
    /// Index among the readers.
    index: usize,
    opens: TakenRecords,
    reading: RecordReading,
    pipe: PagePipe,
    /// Facts about the opens, with the process concerned.
    facts: Vec<(Option<units::Pid>, Fact)>,
    /// Opens that no thread has looked at yet, if looks are deferred.
    later: VecDeque<(Option<units::Pid>, EndedCall)>,
    whereabouts: CpuLookup,
    /// Calls that were entered on this CPU and have not ended.
    entered: FxHashMap<i32, SysEnter>,
}

impl NamesReaders {
    /// Creates one reader for each of these rings, and one for the listener.
    ///
    /// # Errors
    ///
    /// Errors of `eventfd(2)` and `pipe(2)`.
    pub fn new(
        rings: Vec<RingStream>,
        decoder: Arc<Decoder>,
        layouts: Vec<Layout>,
        reads: NameReads,
        watch: Option<FanotifyListener>,
    ) -> io::Result<Self> {
        let reading = RecordReading { decoder, layouts, reads };
        let cpu = |(index, ring): (usize, RingStream)| {
            Ok(Mutex::new(CpuNames {
                index,
                opens: TakenRecords { ring, bytes: Vec::new() },
                reading: reading.clone(),
                pipe: PagePipe::new()?,
                facts: Vec::new(),
                later: VecDeque::new(),
                whereabouts: CpuLookup::default(),
                entered: FxHashMap::default(),
            }))
        };
        let cpus = rings.into_iter().enumerate().map(cpu).collect::<io::Result<_>>()?;
        let wake =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_SEMAPHORE)?;
        let (watch, stop) = (watch.map(Mutex::new), AtomicBool::new(false));
        Ok(Self { cpus, watch, stop, wake, queued: Arc::default() })
    }

    /// Returns the counter of bytes in the log thread's queue; if the queue is full, readers take
    /// nothing from the rings.
    pub fn queued(&self) -> Arc<QueuedBytes> {
        Arc::clone(&self.queued)
    }

    /// Stops the threads.
    fn stop(&self) {
        // ORDERING: nothing else is published by this flag; the eventfd wakes the threads.
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.wake.write(1);
    }

    /// Returns the records and facts collected since the last call.
    pub fn collect(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        // The next message reports that all rings were taken; the readers may not have run yet.
        let all = |it: &Mutex<CpuNames>| lock(it).absorb(Take::All, CpuHold::NONE);
        let strays = self.cpus.iter().flat_map(all).collect();
        self.settle(strays);
        for cpu in &self.cpus {
            let mut cpu = lock(cpu);
            cpu.look_at_last();
            messages.extend(cpu.opens.message());
            if !cpu.facts.is_empty() {
                messages.push(Message::Facts(std::mem::take(&mut cpu.facts)));
            }
        }
        let heard = self.watch.as_ref().map(|it| lock(it).facts()).filter(|it| !it.is_empty());
        messages.extend(heard.map(Message::Facts));
        messages
    }

    /// Takes the opens that the listener has reported until now: opens that it reports later
    /// happened later.
    pub fn look_at_opens(&self) {
        if let Some(watch) = &self.watch {
            lock(watch).absorb(true);
        }
    }

    /// Returns a warning about opens that the listener has missed.
    pub fn warning(&self) -> Option<String> {
        lock(self.watch.as_ref()?).warning()
    }

    fn watch_opens(&self) -> io::Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        // The process of an event that waits long is often no longer known. Without the right to a
        // large share the thread keeps the ordinary priority.
        let _ = thread::set_large_share();
        let bell = lock(watch).bell()?;
        // ORDERING: as in stop().
        while !self.stop.load(Ordering::Relaxed) {
            let has_mounted = bell.wait(&self.wake);
            if has_mounted {
                lock(watch).mounts_changed();
            }
            if self.queued.is_full() {
                // The kernel reports when its queue is full.
                thread::pause(PAUSE);
                continue;
            }
            lock(watch).absorb(false);
        }
        Ok(())
    }

    fn read_cpu(&self, index: usize) -> io::Result<()> {
        let Some(mine) = self.cpus.get(index) else { return Ok(()) };
        let number = lock(mine).opens.ring.cpu;
        let ready = lock(mine).opens.ring.as_fd().try_clone_to_owned();
        let placed = if lock(mine).reading.reads.at_once {
            thread::pin(number).and_then(|()| thread::set_fifo(PRIORITY))
        } else {
            // Without the right to a large share the thread keeps the ordinary priority.
            let _ = thread::set_large_share();
            Ok(())
        };
        // Without real-time priority the reader ends: the records are taken at each round and names
        // are read then, too late.
        let ready = ready.and_then(|it| placed.map(|()| it))?;
        let mut woken = thread::switches();
        // ORDERING: as in stop().
        while !self.stop.load(Ordering::Relaxed) {
            // A sample that was recorded while this thread slept elsewhere than in this poll did
            // not find it waiting.
            let waited = thread::switches() == woken;
            let mut fds = [
                PollFd::new(ready.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut fds, PollTimeout::NONE);
            woken = thread::switches();
            if self.queued.is_full() {
                // The kernel counts what it loses until the log thread has caught up; the ring may
                // stay readable all the time.
                thread::pause(PAUSE);
                continue;
            }
            let hold = if waited { CpuHold::since(woken) } else { CpuHold::NONE };
            let strays = lock(mine).absorb(Take::Page, hold);
            self.settle(strays);
            // One look takes longer than many opens: the ring must not overflow in the meantime.
            // ORDERING: as above.
            let goes_on = || !self.stop.load(Ordering::Relaxed) && !self.queued.is_full();
            while goes_on() && lock(mine).look() {
                let strays = lock(mine).absorb(Take::Page, hold);
                self.settle(strays);
            }
        }
        Ok(())
    }

    /// Reads for calls that were entered on another CPU: the entry is in that CPU's ring. Other
    /// opens found in that ring are read, too, because its reader will not see them any more.
    fn settle(&self, strays: Vec<MigratedCall>) {
        let mut waiting = VecDeque::from(strays);
        while let Some(stray) = waiting.pop_front() {
            let entered = self.cpus.iter().find_map(|cpu| {
                let mut cpu = lock(cpu);
                waiting.extend(cpu.absorb(Take::All, CpuHold::NONE));
                let tid = stray.ended.tid.0;
                let is_its = cpu.entered.get(&tid).is_some_and(|it| it.call == stray.ended.call);
                is_its.then(|| cpu.entered.remove(&tid)).flatten()
            });
            let its_cpu = self.cpus.get(stray.index);
            if let (Some(enter), Some(its_cpu)) = (entered, its_cpu) {
                let mut its_cpu = lock(its_cpu);
                its_cpu.read(stray.pid, &stray.ended, &enter, stray.hold);
            }
        }
    }
}

/// Threads of the readers; dropping the value stops them.
#[derive(Debug)]
pub struct NamesThreads {
    readers: Arc<NamesReaders>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl NamesThreads {
    /// Starts a thread called `name` for each CPU, and one for the listener.
    ///
    /// # Errors
    ///
    /// Errors of starting a thread; no thread runs then.
    pub fn start(readers: &Arc<NamesReaders>, name: &str) -> io::Result<Self> {
        let mut started = Self { readers: Arc::clone(readers), threads: Vec::new() };
        for index in 0..readers.cpus.len() {
            let readers = Arc::clone(readers);
            let builder = std::thread::Builder::new().name(name.to_owned());
            started.threads.push(builder.spawn(move || readers.read_cpu(index))?);
        }
        if readers.watch.is_some() {
            let readers = Arc::clone(readers);
            let builder = std::thread::Builder::new().name(name.to_owned());
            started.threads.push(builder.spawn(move || readers.watch_opens())?);
        }
        Ok(started)
    }

    /// Stops the threads. Returns their errors.
    pub fn stop(mut self) -> Vec<io::Error> {
        self.end()
    }

    fn end(&mut self) -> Vec<io::Error> {
        self.readers.stop();
        let ended = std::mem::take(&mut self.threads).into_iter().map(JoinHandle::join);
        ended.filter_map(|it| it.ok()?.err()).collect()
    }
}

impl Drop for NamesThreads {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end();
        }
    }
}

impl CpuNames {
    /// Takes the content of the ring and reads the name of each open that has ended. Returns the
    /// calls that were entered on another CPU.
    fn absorb(&mut self, how: Take, hold: CpuHold) -> Vec<MigratedCall> {
        let Self { opens, reading, pipe, facts, later, entered, index, .. } = self;
        let cpu = CpuId(opens.ring.cpu);
        let mut ended = Vec::new();
        let layout = opens.ring.layout();
        let mut hits = 0;
        reading.each_hit(layout, opens.more(how, pipe), |hit| {
            hits += 1;
            match reading.decoder.decode(hit.payload) {
                Ok(EventKind::SysEnter(enter)) => {
                    entered.insert(hit.tid.0, enter);
                }
                Ok(EventKind::SysExit(exit)) => {
                    let is_open = exit.call.call().class == CallClass::Open;
                    let (tid, record_time, ret) = (hit.tid, hit.time, exit.ret);
                    let call = EndedCall { cpu, tid, record_time, call: exit.call, is_open, ret };
                    // The link is read first: with every moment it becomes more likely that another
                    // CPU runs the thread.
                    if reading.reads.at_once {
                        facts.extend(call.link().map(|it| (hit.pid, it)));
                    } else if call.is_open && ret >= 0 {
                        put_off(later, (hit.pid, call));
                    }
                    // The address distinguishes the entry from that of a later open of the same
                    // thread.
                    let enter = entered.remove(&hit.tid.0).filter(|it| it.call == exit.call);
                    ended.push((hit.pid, call, enter, hits));
                }
                _ => {}
            }
        });
        let (index, reads) = (*index, reading.reads);
        let mut strays = Vec::new();
        for (pid, ended, enter, number) in ended {
            // Records after this one were written while the CPU was running: this record did not
            // wake the reader.
            let hold = if number == hits { hold } else { CpuHold::NONE };
            match enter {
                Some(enter) => self.read(pid, &ended, &enter, hold),
                // The link is the only data that is wanted.
                None if !reads.arguments && !reads.exact_args && ended.is_open => {}
                None => strays.push(MigratedCall { index, pid, ended, hold }),
            }
        }
        strays
    }

    /// Looks at the most recent of all waiting opens. Returns false if none waits.
    fn look(&mut self) -> bool {
        let Some((pid, call)) = self.later.pop_back() else { return false };
        self.facts.extend(call.link().map(|it| (pid, it)));
        true
    }

    /// Looks at the most recent waiting opens and drops all others: the records of all of them are
    /// written now, so no later event needs the names of the others.
    fn look_at_last(&mut self) {
        for _ in 0..LAST_LOOKS {
            if !self.look() {
                break;
            }
        }
        self.later.clear();
    }

    /// Reads the memory that the arguments of an ended call point to.
    fn read(
        &mut self,
        pid: Option<units::Pid>,
        ended: &EndedCall,
        enter: &SysEnter,
        hold: CpuHold,
    ) {
        let arguments = Some(enter).filter(|_| self.reading.reads.arguments);
        let mut read: Vec<Fact> = arguments
            .map(paths)
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .map(|it| ended.argument(it))
            .collect();
        let call = enter.call.call();
        if self.reading.reads.exact_args || call.is_list() || call.makes_pair() {
            read.extend(
                call.memory(&enter.args, ended.ret)
                    .map(|(address, memory)| ended.memory(address, memory)),
            );
        }
        let stood_still =
            read.is_empty() || hold.keeps(ended.tid, ended.cpu, &mut self.whereabouts);
        if call.makes_pair() && !stood_still && ended.ret == 0 {
            let links = read.iter().flat_map(|it| ended.links_of_pair(it));
            self.facts.extend(links.collect::<Vec<_>>().into_iter().map(|it| (pid, it)));
        }
        let read = read.into_iter().map(|it| if stood_still { it } else { too_late(it) });
        self.facts.extend(read.map(|it| (pid, it)));
        if call.receives_descriptors() {
            let received = received(ended.tid, enter, ended.ret).into_iter();
            self.facts.extend(received.map(|it| (pid, it)));
        }
    }
}

/// Defers the look at an open. An earlier open with the same descriptor number is dropped: that
/// descriptor is closed.
fn put_off(
    later: &mut VecDeque<(Option<units::Pid>, EndedCall)>,
    new: (Option<units::Pid>, EndedCall),
) {
    let same = |(pid, call): &(Option<units::Pid>, EndedCall)| {
        let is_its = pid.is_some() && *pid == new.0 || call.tid == new.1.tid;
        is_its && call.ret == new.1.ret
    };
    if let Some(back) = later.iter().rev().take(LOOKED_FOR_MAX).position(same) {
        later.remove(later.len() - 1 - back);
    }
    if later.len() >= LATER_MAX {
        later.pop_front();
    }
    later.push_back(new);
}

/// A call that has ended on one CPU and was entered on another one.
#[derive(Debug)]
struct MigratedCall {
    /// Index of the reader that stores the facts.
    index: usize,
    pid: Option<units::Pid>,
    ended: EndedCall,
    /// Hold of the reader that found the call.
    hold: CpuHold,
}

/// Returns the addresses of the paths of a call; equal addresses are returned once.
fn paths(enter: &SysEnter) -> [Option<u64>; 2] {
    let [first, second] = enter.call.call().paths(&enter.args);
    [first, second.filter(|_| second != first)]
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
struct EndedCall {
    cpu: CpuId,
    tid: Tid,
    record_time: KernelTime,
    call: CallId,
    /// True if the return value is a descriptor.
    is_open: bool,
    ret: i64,
}

impl EndedCall {
    /// Reads the target and metadata of the call's new descriptor, if it made one.
    fn link(&self) -> Option<Fact> {
        (self.is_open && self.ret >= 0).then(|| self.link_of(self.ret, 0))
    }

    /// Reads the target and metadata of a descriptor; `address` is stored in the fact.
    fn link_of(&self, fd: i64, address: u64) -> Fact {
        let path = format!("/proc/{}/fd/{fd}", self.tid);
        let begin = clock::now();
        let link = nix::fcntl::readlink(path.as_str()).map(OsStringExt::into_vec);
        let stat = stat_behind(&path);
        self.fact(NameOf::Link, address, begin, link, stat)
    }

    /// Reads the targets of the two descriptors whose numbers this memory may hold. The numbers may
    /// have been overwritten by now. The target of a descriptor with such a number shows whether
    /// the number can be right.
    fn links_of_pair(&self, memory: &Fact) -> Vec<Fact> {
        let Fact::Name { of: NameOf::Memory, errno: 0, bytes, .. } = memory else {
            return Vec::new();
        };
        let (numbers, _) = bytes.as_chunks::<4>();
        let numbers = numbers.iter().map(|it| u32::from_le_bytes(*it));
        numbers.map(|it| self.link_of(i64::from(it), u64::from(it))).collect()
    }

    /// Reads the string that an argument points to.
    fn argument(&self, pointer: u64) -> Fact {
        let begin = clock::now();
        self.fact(
            NameOf::Argument,
            pointer,
            begin,
            target_memory::string_at(self.tid, pointer),
            None,
        )
    }

    /// Reads the bytes that another argument points to.
    fn memory(&self, address: u64, memory: ArgumentMemory) -> Fact {
        let begin = clock::now();
        let read = match memory {
            ArgumentMemory::Bytes(bytes) => target_memory::bytes_at(self.tid, address, bytes),
            ArgumentMemory::Iocbs(count) => target_memory::iocbs_at(self.tid, address, count),
        };
        self.fact(NameOf::Memory, address, begin, read, None)
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

/// Locks a reader. A reader that panicked has lost its own names, not those of other readers.
fn lock<T>(its: &Mutex<T>) -> MutexGuard<'_, T> {
    its.lock().unwrap_or_else(PoisonError::into_inner)
}
