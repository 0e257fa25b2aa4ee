//! Names readers: file names without BPF, read at the moment of the open by threads that the
//! program cannot outrun.
//!
//! Each CPU has a small ring that holds only opens, and a thread pinned to that CPU with real-time
//! priority. Each exit of an open wakes the thread. The thread runs before the program returns to
//! user mode: the argument is still in its buffer and the descriptor is unchanged. The thread reads
//! both, with the time before and after. Whether another event happened in between is decided
//! later, where all records are in order.
//!
//! With `links`, opened files are looked at while the program goes on (`late_looks`).
//!
//! Records show whether a descriptor was closed. They do not show what a program does with its
//! memory: it may put another path in the place of the argument without a call that is recorded. So
//! a path counts only if its thread could not run until the path was read ([`CpuHold`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::ended_call::EndedCall;
use super::entered_calls::EnteredCalls;
use super::late_looks::LateLooks;
use super::log_message::Message;
use super::long_lists::LongLists;
use super::name_records::{NameReads, RecordReading, TakenRecords};
use super::open_listener::{OpenListener, Waker};
use super::queued_bytes::{PAUSE, QueuedBytes};
use super::reader_exclusivity::{CpuHold, too_late};
use super::ring_stream::Take;
use super::scm_rights::received;
use super::source::NamesRings;
use crate::capture::fact::Fact;
use crate::event::decode::Decoder;
use crate::event::syscall_table::CallClass;
use crate::event::{EventKind, SysEnter};
use crate::record::Layout;
use crate::sys::thread;
use crate::sys::thread::CpuLookup;
use crate::sys::trace_ring::PagePipe;
use crate::units::{self, CpuId};

/// Real-time priority: above every ordinary task, below the kernel's own interrupt threads (50).
pub const PRIORITY: i32 = 40;

/// Time between two reads of a ring of opens: files that a program closes sooner are not looked at.
const LATE_PAUSE: Duration = Duration::from_micros(200);
/// Number of reads without a record after which the reader waits for the ring.
const SILENT_READS: u32 = 25;
/// Time after which rings that were not empty are looked at again, before they are taken from their
/// readers.
const READER_PAUSE: Duration = Duration::from_micros(20);
/// Largest number of these pauses in a round.
const READER_PAUSES_MAX: u32 = 20;
/// Largest number of looks between two reads of the ring.
const LOOKS_IN_A_ROW: u32 = 16;

/// Readers of all CPUs.
#[derive(Debug)]
pub struct NamesReaders {
    cpus: Vec<Mutex<CpuNames>>,
    /// Listener that also reports opens.
    watch: Option<Mutex<Box<dyn OpenListener>>>,
    stop: AtomicBool,
    /// Bytes that the log thread has yet to process.
    queued: Arc<QueuedBytes>,
    wake: EventFd,
    long_lists: Arc<LongLists>,
}

/// State of one CPU's reader.
#[derive(Debug)]
struct CpuNames {
    /// Index among the readers.
    index: usize,
    opens: TakenRecords,
    /// Ring of the entries of the calls, with tracefs.
    entries: Option<TakenRecords>,
    reading: RecordReading,
    pipe: PagePipe,
    /// Facts about the opens, with the process concerned.
    facts: Vec<(Option<units::Pid>, Fact)>,
    /// Opens that no thread has looked at yet, if looks are deferred.
    late: LateLooks,
    /// True if the last read of the ring found records.
    has_found: bool,
    /// True while the reader reads names before the program continues.
    reads_at_once: bool,
    whereabouts: CpuLookup,
    /// Calls that were entered on this CPU and have not ended.
    entered: EnteredCalls,
}

impl NamesReaders {
    /// Creates one reader for each of these rings, and one for the listener.
    ///
    /// # Errors
    ///
    /// Errors of `eventfd(2)` and `pipe(2)`.
    pub fn new(
        rings: Vec<NamesRings>,
        decoder: Arc<Decoder>,
        layouts: Vec<Layout>,
        reads: NameReads,
        watch: Option<Box<dyn OpenListener>>,
    ) -> io::Result<Self> {
        let long_lists = Arc::new(LongLists::new()?);
        let lists = Arc::clone(&long_lists);
        let reading = RecordReading { decoder, layouts, reads, long_lists: lists };
        let taken = |ring| TakenRecords { ring, bytes: Vec::new() };
        let cpu = |(index, rings): (usize, NamesRings)| {
            Ok(Mutex::new(CpuNames {
                index,
                opens: taken(rings.waking),
                entries: rings.entries.map(taken),
                reading: reading.clone(),
                pipe: PagePipe::new()?,
                facts: Vec::new(),
                late: LateLooks::default(),
                has_found: false,
                reads_at_once: false,
                whereabouts: CpuLookup::default(),
                entered: EnteredCalls::default(),
            }))
        };
        let cpus = rings.into_iter().enumerate().map(cpu).collect::<io::Result<_>>()?;
        let wake =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_SEMAPHORE)?;
        let (watch, stop) = (watch.map(Mutex::new), AtomicBool::new(false));
        Ok(Self { cpus, watch, stop, wake, queued: Arc::default(), long_lists })
    }

    /// Returns the counter of bytes in the log thread's queue; if the queue is full, readers take
    /// nothing from the rings.
    pub fn queued(&self) -> Arc<QueuedBytes> {
        Arc::clone(&self.queued)
    }

    /// Returns the longest lists of asynchronous operations so far.
    pub fn long_lists(&self) -> &LongLists {
        &self.long_lists
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
        self.await_readers();
        let strays = self.cpus.iter().flat_map(|cpu| lock(cpu).take_rest()).collect();
        self.settle(strays);
        for cpu in &self.cpus {
            let mut cpu = lock(cpu);
            let CpuNames { late, facts, .. } = &mut *cpu;
            late.look_at_last(facts);
            messages.extend(cpu.opens.message());
            messages.extend(cpu.entries.as_mut().and_then(TakenRecords::message));
            if !cpu.facts.is_empty() {
                messages.push(Message::Facts(std::mem::take(&mut cpu.facts)));
            }
        }
        let heard = self.watch.as_ref().map(|it| lock(it).facts()).filter(|it| !it.is_empty());
        messages.extend(heard.map(Message::Facts));
        messages
    }

    /// Gives the readers a short time to empty their rings. Names of calls that this thread takes
    /// are read too late, and a call that ends in the meantime does not find its reader waiting.
    fn await_readers(&self) {
        for _ in 0..READER_PAUSES_MAX {
            // ORDERING: as in stop().
            let has_readers = !self.stop.load(Ordering::Relaxed) && !self.queued.is_full();
            if !has_readers || !self.cpus.iter().any(is_about_to_read) {
                break;
            }
            thread::pause(READER_PAUSE);
        }
    }

    /// Takes the opens that the listener has reported until now: opens that it reports later
    /// happened later.
    pub fn look_at_opens(&self) {
        if let Some(watch) = &self.watch {
            lock(watch).absorb(true);
        }
    }

    /// Ends the listening to opens: the tracer's own opens at the end are not reported. Returns
    /// warnings about what was missed.
    pub fn end_reading(&self) -> Vec<String> {
        let heard = self.watch.as_ref().and_then(|watch| {
            let mut watch = lock(watch);
            watch.end();
            watch.warning()
        });
        heard.into_iter().chain(self.long_lists.warning()).collect()
    }

    fn watch_opens(&self) -> io::Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        // The process of an event that waits long is often no longer known. Without the right to a
        // large share the thread keeps the ordinary priority.
        let _ = thread::set_large_share();
        let bell = lock(watch).bell()?;
        // ORDERING: as in stop().
        let goes_on = || !self.stop.load(Ordering::Relaxed);
        let mut has_mounted = false;
        while goes_on() {
            has_mounted |= bell.wait(&self.wake);
            self.watch_until_silent(watch, &bell, &mut has_mounted);
        }
        Ok(())
    }

    /// Takes events until there are none. With a pause, the queue is read by the clock as long as
    /// files are opened: an event that wakes the listener delays the open.
    fn watch_until_silent(
        &self,
        watch: &Mutex<Box<dyn OpenListener>>,
        bell: &Waker,
        has_mounted: &mut bool,
    ) {
        let mut silent = 0;
        // ORDERING: as in stop().
        while !self.stop.load(Ordering::Relaxed) && (silent < SILENT_READS || *has_mounted) {
            if std::mem::take(has_mounted) {
                lock(watch).mounts_changed();
            }
            if self.queued.is_full() {
                // The kernel reports when its queue is full.
                thread::pause(PAUSE);
                continue;
            }
            let has_found = lock(watch).absorb(false);
            let Some(pause) = lock(watch).pause() else { return };
            silent = if has_found { 0 } else { silent + 1 };
            *has_mounted = bell.pause(&self.wake, pause);
        }
    }

    fn read_cpu(&self, index: usize) -> io::Result<()> {
        let Some(mine) = self.cpus.get(index) else { return Ok(()) };
        let ready = lock(mine).opens.ring.as_fd().try_clone_to_owned()?;
        if lock(mine).reading.reads.at_once {
            self.read_at_once(mine, &ready)
        } else {
            self.read_late(mine, &ready);
            Ok(())
        }
    }

    /// Waits until the ring has data, or the threads have to stop.
    fn wait_for(&self, ready: &OwnedFd) {
        let mut fds = [
            PollFd::new(ready.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut fds, PollTimeout::NONE);
    }

    /// Reads the names of a CPU's calls before the program continues.
    fn read_at_once(&self, mine: &Mutex<CpuNames>, ready: &OwnedFd) -> io::Result<()> {
        // Without real-time priority the reader ends: the records are taken at each round and names
        // are read then, too late.
        let number = lock(mine).opens.ring.cpu;
        thread::pin(number).and_then(|()| thread::set_fifo(PRIORITY))?;
        lock(mine).reads_at_once = true;
        let mut woken = thread::switches();
        // ORDERING: as in stop().
        while !self.stop.load(Ordering::Relaxed) {
            // A sample that was recorded while this thread slept elsewhere than in this poll did
            // not find it waiting.
            let waited = thread::switches() == woken;
            self.wait_for(ready);
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
        }
        lock(mine).reads_at_once = false;
        Ok(())
    }

    /// Looks at the files that a CPU's calls have opened, while the program goes on. As long as
    /// there are opens, the ring is read by the clock: a reader that waits for the ring is woken by
    /// a call, and the program pays for that.
    fn read_late(&self, mine: &Mutex<CpuNames>, ready: &OwnedFd) {
        // Without the right to a large share the thread keeps the ordinary priority.
        let _ = thread::set_large_share();
        // ORDERING: as in stop().
        let goes_on = || !self.stop.load(Ordering::Relaxed);
        while goes_on() {
            self.wait_for(ready);
            let mut silent = 0;
            while goes_on() && silent < SILENT_READS {
                if self.queued.is_full() {
                    thread::pause(PAUSE);
                    continue;
                }
                let strays = lock(mine).absorb(Take::All, CpuHold::NONE);
                self.settle(strays);
                let has_found = lock(mine).has_found;
                // One look takes longer than many opens: the ring must not overflow in the
                // meantime.
                let mut looks = 0;
                while goes_on() && looks < LOOKS_IN_A_ROW && lock(mine).look() {
                    looks += 1;
                }
                silent = if has_found || looks > 0 { 0 } else { silent + 1 };
                if looks < LOOKS_IN_A_ROW {
                    thread::pause(LATE_PAUSE);
                }
            }
        }
    }

    /// Reads for calls that were entered on another CPU: the entry is in that CPU's ring. Other
    /// opens found in that ring are read, too, because its reader will not see them any more.
    fn settle(&self, strays: Vec<MigratedCall>) {
        let mut waiting = VecDeque::from(strays);
        while let Some(stray) = waiting.pop_front() {
            let entered = self.cpus.iter().find_map(|cpu| {
                let mut cpu = lock(cpu);
                waiting.extend(cpu.absorb(Take::All, CpuHold::NONE));
                let EndedCall { tid, record_time, call, .. } = stray.ended;
                cpu.entered.take(tid, record_time, call)
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
    /// Looks at one of the waiting opens. Returns false if none waits.
    fn look(&mut self) -> bool {
        self.late.look(&mut self.facts)
    }

    /// Takes what the reader has left in the rings. An empty ring of opens is left alone.
    fn take_rest(&mut self) -> Vec<MigratedCall> {
        if self.opens.ring.has_records() {
            return self.absorb(Take::All, CpuHold::NONE);
        }
        self.take_entries(Take::All);
        Vec::new()
    }

    /// Takes the entries of calls.
    fn take_entries(&mut self, how: Take) {
        let Self { entries, reading, pipe, entered, .. } = self;
        let Some(entries) = entries else { return };
        let layout = entries.ring.layout();
        reading.each_hit(layout, entries.more(how, pipe), |hit| {
            if let Ok(EventKind::SysEnter(enter)) = reading.decoder.decode(hit.payload) {
                entered.add(hit.tid, hit.time, enter);
            }
        });
    }

    /// Takes the content of the ring and reads the name of each open that has ended. Returns the
    /// calls that were entered on another CPU.
    fn absorb(&mut self, how: Take, hold: CpuHold) -> Vec<MigratedCall> {
        let Self { opens, reading, pipe, facts, entered, .. } = self;
        let cpu = CpuId(opens.ring.cpu);
        let mut ended = Vec::new();
        let layout = opens.ring.layout();
        let mut hits = 0;
        reading.each_hit(layout, opens.more(how, pipe), |hit| {
            hits += 1;
            match reading.decoder.decode(hit.payload) {
                Ok(EventKind::SysEnter(enter)) => {
                    entered.add(hit.tid, hit.time, enter);
                }
                Ok(EventKind::SysExit(exit)) => {
                    let is_open = exit.call.call().class == CallClass::Open;
                    let (tid, record_time, ret) = (hit.tid, hit.time, exit.ret);
                    let call = EndedCall { cpu, tid, record_time, call: exit.call, is_open, ret };
                    // The link is read first: with every moment it becomes more likely that another
                    // CPU runs the thread.
                    if reading.reads.at_once {
                        facts.extend(call.link().map(|it| (hit.pid, it)));
                    }
                    ended.push((hit.pid, call, hits));
                }
                _ => {}
            }
        });
        // After the exits: the entry of each of them is in its ring by now.
        self.take_entries(how);
        let (index, reads) = (self.index, self.reading.reads);
        self.has_found = hits > 0;
        let mut strays = Vec::new();
        for (pid, ended, number) in ended {
            let enter = self.entered.take(ended.tid, ended.record_time, ended.call);
            if !reads.at_once && ended.is_open && ended.ret >= 0 {
                self.late.put_off(pid, ended);
            }
            // Records after this one were written while the CPU was running: this record did not
            // wake the reader.
            let hold = if number == hits { hold } else { CpuHold::NONE };
            match enter {
                Some(enter) => self.read(pid, &ended, &enter, hold),
                // The link is the only data that is wanted.
                None if ended.is_open && (!reads.at_once || !reads.needs_entry()) => {}
                None => strays.push(MigratedCall { index, pid, ended, hold }),
            }
        }
        strays
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
        self.reading.long_lists.note(call, ended.ret);
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

/// True if a reader is to empty its ring, which has records, or reads at this moment. The lock is
/// not waited for: it is the reader's then.
fn is_about_to_read(its: &Mutex<CpuNames>) -> bool {
    its.try_lock().map_or(true, |cpu| cpu.reads_at_once && cpu.opens.ring.has_records())
}

/// Locks a reader. A reader that panicked has lost its own names, not those of other readers.
fn lock<T>(its: &Mutex<T>) -> MutexGuard<'_, T> {
    its.lock().unwrap_or_else(PoisonError::into_inner)
}
