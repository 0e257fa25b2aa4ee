//! Opened files beside probes in libraries: the kernel's fanotify queue reports which thread opened
//! which file, by a handle that keeps nothing in use.
//!
//! The probes have the path of each open; the queue has the file. It is read by the clock: an event
//! that wakes a thread delays its open by more than the event costs.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use rustc_hash::FxHashMap;

use super::open_listener::{ForeignThreads, OpenListener, Waker};
use crate::capture::fact::Fact;
use crate::sys::clock;
use crate::sys::handle_events::{HandleEvent, HandleEvents, OpenedHandle};
use crate::sys::mounts::MountWatch;
use crate::units::{KernelTime, Pid, Tid, counted};

/// Time between two reads of the queue: the more opens of a thread come between them, the more of
/// them may belong to an event.
const PAUSE: Duration = Duration::from_micros(250);

/// Least time between two searches for a mount that was not found, ns.
const SEARCH_NS: u64 = 100_000_000;

/// Listener to opens by handle, with the collected facts.
#[derive(Debug)]
pub(super) struct HandleListener {
    events: HandleEvents,
    mounts: MountWatch,
    /// Mount namespace of the tracer, as `/proc/self/ns/mnt` shows it.
    namespace: PathBuf,
    others: ForeignThreads,
    /// Threads whose events were taken last; true if these identify files.
    threads: FxHashMap<Tid, bool>,
    /// The queue was empty at this time or later, and all unread events happened after it.
    empty: KernelTime,
    facts: Vec<(Option<Pid>, Fact)>,
    /// Time of the last search for a mount that was not found.
    searched: KernelTime,
    /// Number of times the queue was full.
    overflows: u64,
}

impl HandleListener {
    /// Listens to all file systems that are visible from here and have handles.
    ///
    /// # Errors
    ///
    /// Cause of the failure, as text.
    pub(super) fn new() -> Result<Self, String> {
        let mounts = MountWatch::new();
        let mounts = mounts.map_err(|error| format!("cannot read the list of mounts: {error}"))?;
        let namespace = std::fs::read_link("/proc/self/ns/mnt");
        let namespace = namespace.map_err(|error| format!("/proc/self/ns/mnt: {error}"))?;
        let events = HandleEvents::new()?;
        if events.marked() == 0 {
            return Err("no file system here has handles that lead back to files".to_owned());
        }
        Ok(Self {
            events,
            mounts,
            namespace,
            others: ForeignThreads::default(),
            threads: FxHashMap::default(),
            empty: clock::now(),
            facts: Vec::new(),
            searched: KernelTime::MIN,
            overflows: 0,
        })
    }

    /// Describes the coverage of the listener.
    pub(super) fn reason(&self) -> String {
        let unmarked = match self.events.unmarked().as_slice() {
            [] => String::new(),
            types => format!("; not on all of {}", types.join(", ")),
        };
        format!("the opened files on {} file systems{unmarked}", self.events.marked())
    }

    fn take(&mut self, event: HandleEvent, until: KernelTime) -> bool {
        match event {
            // The tracepoint of the exec reports the path.
            HandleEvent::Program => false,
            HandleEvent::Overflow => {
                self.overflows += 1;
                let fact = self.fact(Tid(-1), until, Errno::EOVERFLOW);
                self.facts.push((None, fact));
                false
            }
            HandleEvent::Opened(opened) if !self.others.has(opened.tid) => false,
            HandleEvent::Opened(opened) => {
                let fact = self.opened(&opened, until);
                self.facts.push((None, fact));
                true
            }
        }
    }

    fn opened(&mut self, opened: &OpenedHandle, until: KernelTime) -> Fact {
        let tid = opened.tid;
        if !self.identifies_files(opened) {
            return self.fact(tid, until, Errno::EMULTIHOP);
        }
        let seen = self.events.look(opened);
        let (errno, bytes) = match seen.link {
            Ok(bytes) if seen.has_other_names => (libc::EMLINK, bytes),
            Ok(bytes) => (0, bytes),
            Err(errno) => (errno as i32, Vec::new()),
        };
        let (since, stat) = (self.empty, seen.stat);
        Fact::Opened { tid, since, until, end: clock::now(), errno, stat, bytes }
    }

    /// True if mounts have changed, or one was not found: the rename of a directory above a mount
    /// is not notified.
    fn have_mounts_changed(&mut self, now: KernelTime) -> bool {
        let is_due = now.0.saturating_sub(self.searched.0) >= SEARCH_NS;
        let is_lost = is_due && self.events.take_lost_mount();
        if is_lost {
            self.searched = now;
        }
        self.mounts.has_changed() || is_lost
    }

    /// Returns a fact without a file.
    fn fact(&self, tid: Tid, until: KernelTime, errno: Errno) -> Fact {
        let (since, errno, bytes) = (self.empty, errno as i32, Vec::new());
        Fact::Opened { tid, since, until, end: until, errno, stat: None, bytes }
    }

    /// True if an event of this thread is about the file that the thread has opened. A stacked file
    /// system (overlay) opens files of its own; in another mount namespace there may be one that is
    /// not listened to.
    fn identifies_files(&mut self, opened: &OpenedHandle) -> bool {
        let namespace = &self.namespace;
        let is_here = |tid: Tid| {
            let link = std::fs::read_link(format!("/proc/{tid}/ns/mnt"));
            // Of a thread that has ended the calls show the namespace (`operation`).
            link.map_or(true, |link| link == *namespace)
        };
        let identifies = self.threads.entry(opened.tid).or_insert_with(|| is_here(opened.tid));
        *identifies &= self.events.identifies_files(opened);
        *identifies
    }
}

impl OpenListener for HandleListener {
    fn bell(&self) -> io::Result<Waker> {
        Waker::of(self.events.as_fd(), self.mounts.as_fd())
    }

    fn mounts_changed(&mut self) {
        // Mounts that cannot be read now are not listened to.
        let _ = self.events.listen();
    }

    fn absorb(&mut self, all: bool) -> bool {
        let (mut taken, mut has_found) = (0, false);
        // Events beyond the capacity of the queue have arrived in the meantime.
        let most = if all { self.events.capacity() } else { 1 };
        while taken < most {
            let before = clock::now();
            match self.events.take() {
                Ok(events) => {
                    let until = clock::now();
                    taken += events.len();
                    // The queue is checked before the slower work.
                    let empty = self.events.is_empty().then_some(until);
                    // The other threads may not listen to file systems, and must not take the
                    // notification: the listener's own thread takes one read at a time.
                    if !all && self.have_mounts_changed(until) {
                        self.mounts_changed();
                    }
                    for event in events {
                        has_found |= self.take(event, until);
                    }
                    self.empty = empty.unwrap_or(self.empty);
                }
                Err(Errno::EINTR) => {}
                Err(_) => {
                    self.empty = before;
                    break;
                }
            }
        }
        // A thread may enter another mount namespace at any time.
        self.threads.clear();
        has_found
    }

    fn facts(&mut self) -> Vec<(Option<Pid>, Fact)> {
        self.absorb(true);
        std::mem::take(&mut self.facts)
    }

    fn end(&mut self) {
        self.events.end();
    }

    fn warning(&self) -> Option<String> {
        (self.overflows > 0).then(|| {
            format!(
                "fanotify's queue was full {}: type, inode and size of files that were opened then are not known",
                counted(self.overflows, "time")
            )
        })
    }

    fn pause(&self) -> Option<Duration> {
        Some(PAUSE)
    }
}
