//! File names without real-time priority: the kernel's fanotify queue reports opened files and the
//! thread of each open.
//!
//! No thread is stopped, and there is no hurry: an event waits until it is read. The exact time of
//! its insertion into the queue is not reported. It is known to be between two times: later than a
//! moment at which the queue was empty, and earlier than the read. Its call is determined where all
//! records are in order (`operation::opened`).

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use rustc_hash::FxHashSet;

use super::open_listener::{ForeignThreads, OpenListener, Waker};
use crate::capture::fact::Fact;
use crate::sys::clock;
use crate::sys::fanotify::{FileSeen, OpenEvent, OpenEvents, OpenedFile};
use crate::sys::mounts::{MountWatch, mounts_of};
use crate::units::{KernelTime, Pid, Tid, counted};

/// Listener to opens, with the collected facts.
#[derive(Debug)]
pub struct FanotifyListener {
    events: OpenEvents,
    mounts: MountWatch,
    /// Watch on mounts that is checked after a name was read.
    since_then: MountWatch,
    /// Numbers of the tracer's own mounts.
    own: FxHashSet<u64>,
    /// Mount namespaces whose mounts were added, without the tracer's own, by their links in
    /// `/proc/PID/ns`.
    elsewhere: FxHashSet<PathBuf>,
    others: ForeignThreads,
    /// The queue was empty at this time or later, and all unread events happened after it.
    empty: KernelTime,
    facts: Vec<(Option<Pid>, Fact)>,
    /// Facts of the events that were taken last, by index, with the tracer's mount of each: the
    /// mount may be gone.
    unchecked: Vec<(usize, u64)>,
    /// Number of times the queue was full, and number of events that could not be read.
    missed: (u64, u64),
    /// Number of times a mount namespace had more mounts than are read.
    unlistened: u64,
}

impl FanotifyListener {
    /// Listens to all file systems that are visible from here, and to those of these processes.
    ///
    /// # Errors
    ///
    /// Cause of the failure, as text.
    pub fn new(processes: &[Pid]) -> Result<Self, String> {
        let mut events = OpenEvents::new()?;
        let unreadable = |it: io::Error| format!("cannot read the list of mounts: {it}");
        let mounts = MountWatch::new().map_err(unreadable)?;
        let since_then = MountWatch::new().map_err(unreadable)?;
        events.listen_to_mounts_of("/proc/self").map_err(unreadable)?;
        for pid in processes {
            // The process may have ended.
            let _ = events.listen_to_mounts_of(&format!("/proc/{pid}"));
        }
        let mut watch = Self {
            events,
            mounts,
            since_then,
            own: own_mounts(),
            elsewhere: FxHashSet::default(),
            others: ForeignThreads::default(),
            empty: clock::now(),
            facts: Vec::new(),
            unchecked: Vec::new(),
            missed: (0, 0),
            unlistened: 0,
        };
        watch.try_out()?;
        Ok(watch)
    }

    /// Opens a file and checks that the open is reported.
    fn try_out(&mut self) -> Result<(), String> {
        let opened = MountWatch::new().map_err(|it| it.to_string())?;
        let own = Tid(nix::unistd::gettid().as_raw());
        let mut is_reported = false;
        let fd = opened.as_fd();
        let expected = nix::sys::stat::fstat(fd).map_err(|it| it.to_string())?.st_ino;
        let is_expected =
            |file: &OpenedFile| file.look(&self.events).stat.is_some_and(|it| it.ino == expected);
        while !is_reported && let Ok(events) = self.events.read() {
            is_reported = events.iter().any(|event| match event {
                OpenEvent::Opened(file) if file.tid() == own => is_expected(file),
                _ => false,
            });
        }
        is_reported.then_some(()).ok_or_else(|| {
            "fanotify did not report a file that was opened as a test (a pid namespace, or /proc is not listened to)".into()
        })
    }

    /// Describes the coverage of the listener.
    pub fn reason(&self) -> String {
        let files = self.files();
        format!(
            "the resolved paths of {files}; no path of any other call, of a failed one, or of a device"
        )
    }

    /// Describes the files whose opens are reported.
    pub fn files(&self) -> String {
        let unmarked = match self.events.unmarked().as_slice() {
            [] => String::new(),
            types => format!("; not on all of {}", types.join(", ")),
        };
        let marked = self.events.marked();
        format!("files and directories that were opened, on {marked} file systems{unmarked}")
    }

    fn take(&mut self, event: OpenEvent, until: KernelTime) {
        match event {
            // The tracepoint of the exec reports the path.
            OpenEvent::Program => {}
            OpenEvent::Overflow => {
                self.missed.0 += 1;
                self.miss(Errno::EOVERFLOW);
            }
            OpenEvent::Opened(file) if !self.others.has(file.tid()) => {}
            OpenEvent::Opened(file) => {
                let fact = self.opened(&file, until);
                self.facts.push((None, fact));
            }
        }
    }

    /// Drops the names that begin at a mount which was gone after they were read.
    fn check_mounts(&mut self) {
        let unchecked = std::mem::take(&mut self.unchecked);
        if !self.since_then.has_changed() {
            return;
        }
        self.mounts_changed();
        for (index, mount) in unchecked {
            if !self.own.contains(&mount)
                && let Some((_, Fact::Opened { errno, .. })) = self.facts.get_mut(index)
            {
                *errno = Errno::EXDEV as i32;
            }
        }
    }

    fn opened(&mut self, file: &OpenedFile, until: KernelTime) -> Fact {
        let tid = file.tid();
        let seen = file.look(&self.events);
        let is_its = self.leads_there(&seen, tid);
        let (errno, bytes) = match seen.link {
            Ok(bytes) if is_its => (0, bytes),
            // A file system has opened a file of its own (overlay does), through a mount that no
            // other process has. Or the mount is gone, and the name begins at the place where it
            // was.
            Ok(bytes) => (Errno::EXDEV as i32, bytes),
            Err(errno) => (errno as i32, Vec::new()),
        };
        let stat = seen.stat;
        Fact::Opened { tid, since: self.empty, until, end: clock::now(), errno, stat, bytes }
    }

    /// Records that events of this time are missing.
    fn miss(&mut self, errno: Errno) {
        let until = clock::now();
        let (since, errno) = (self.empty, errno as i32);
        let (tid, stat, bytes) = (Tid(-1), None, Vec::new());
        self.facts.push((None, Fact::Opened { tid, since, until, end: until, errno, stat, bytes }));
    }

    /// True if the name leads to the file, for the tracer or for the thread.
    fn leads_there(&mut self, seen: &FileSeen, tid: Tid) -> bool {
        let Some(mount) = seen.mount else { return false };
        if self.own.contains(&mount) {
            self.unchecked.push((self.facts.len(), mount));
            return true;
        }
        let process = format!("/proc/{tid}");
        // The process may have ended.
        let Ok(namespace) = std::fs::read_link(format!("{process}/ns/mnt")) else { return false };
        if self.elsewhere.insert(namespace) {
            // File systems mounted there are listened to from now on.
            let listens = self.events.listen_to_mounts_of(&process);
            let too_many = |it: &io::Error| it.kind() == io::ErrorKind::FileTooLarge;
            self.unlistened += u64::from(listens.is_err_and(|it| too_many(&it)));
        }
        seen.is_found_below(&format!("{process}/root"))
    }
}

impl OpenListener for FanotifyListener {
    fn bell(&self) -> io::Result<Waker> {
        Waker::of(self.events.as_fd(), self.mounts.as_fd())
    }

    fn mounts_changed(&mut self) {
        self.own = own_mounts();
        // Mounts that cannot be read now are not listened to.
        let _ = self.events.listen_to_mounts_of("/proc/self");
    }

    fn absorb(&mut self, all: bool) -> bool {
        let (mut taken, mut has_found) = (0, false);
        // Events beyond the capacity of the queue have arrived in the meantime.
        let most = if all { self.events.capacity() } else { 1 };
        while taken < most {
            let before = clock::now();
            match self.events.read() {
                Ok(events) => {
                    let until = clock::now();
                    taken += events.len();
                    // The queue is checked before the slower work.
                    let empty = self.events.is_empty().then_some(until);
                    has_found |= !events.is_empty();
                    events.into_iter().for_each(|event| self.take(event, until));
                    self.check_mounts();
                    self.empty = empty.unwrap_or(self.empty);
                }
                Err(Errno::EAGAIN) => {
                    self.empty = before;
                    break;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    self.missed.1 += 1;
                    self.miss(errno);
                    taken += 1;
                }
            }
        }
        has_found
    }

    fn facts(&mut self) -> Vec<(Option<Pid>, Fact)> {
        self.absorb(true);
        // Changes of mounts in other namespaces are not reported.
        self.elsewhere.clear();
        std::mem::take(&mut self.facts)
    }

    fn end(&mut self) {
        self.events.end();
    }

    fn warning(&self) -> Option<String> {
        let (full, unread) = self.missed;
        let mut missed = Vec::new();
        if self.missed != (0, 0) {
            missed.push(format!(
                "fanotify's queue was full {}, and at least {} could not be read: files that were opened then have no names",
                counted(full, "time"),
                counted(unread, "event")
            ));
        }
        if self.unlistened > 0 {
            missed.push(format!(
                "{} a mount namespace had more mounts than are read: files on file systems that are mounted only there may have \
                 no names",
                counted(self.unlistened, "time")
            ));
        }
        (!missed.is_empty()).then(|| missed.join("; "))
    }

    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// Returns the numbers of the tracer's own mounts.
fn own_mounts() -> FxHashSet<u64> {
    let mounts = mounts_of("/proc/self").unwrap_or_default();
    mounts.iter().filter_map(|it| u64::try_from(it.mnt_id).ok()).collect()
}
