//! Instance of tracefs: ring buffers and switches of our own, separate from those of all other
//! users (`Documentation/trace/ftrace.rst`, "Instances").
//!
//! An instance is a directory below `instances` and exists until it is removed, even after its
//! tracer's end. So each of ours is locked (`flock`) while its tracer lives. The next tracer uses
//! or removes those without a lock (`super::instance_pool`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::probe_events;
use super::ring::page_bytes;
use super::trace_ring::TraceRing;
use super::tracefs::Tracefs;
use crate::units::Tid;

/// Prefix of the names of our instances.
const PREFIX: &str = "iotrace-";

/// Purposes of our instances: the ends of their names. Those of the rings are in the log's header,
/// too.
const PURPOSES: [&str; 11] = [
    "main", "names", "entries", "block", "tasks", "chains", "probes", "layers", "aio", "doctor",
    "counter",
];

/// Purposes of the instances that show that the tracer of probes is alive.
const MARKERS: [&str; 3] = ["probes", "layers", "aio"];

/// Numbers of processes are below this one (`PID_MAX_LIMIT`, include/linux/threads.h).
const PID_MAX: u32 = 4 << 20;

/// Text of an event's filter if the event has none.
pub(super) const NO_FILTER: &str = "none";
/// Value that removes a filter.
pub(super) const CLEAR_FILTER: &str = "0";

/// List of threads of an instance, to which the kernel adds the threads that they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadList {
    /// Threads that are recorded; no others are.
    Recorded,
    /// Threads that are not recorded.
    Excluded,
}

impl ThreadList {
    fn file(self) -> &'static str {
        match self {
            Self::Recorded => "set_event_pid",
            Self::Excluded => "set_event_notrace_pid",
        }
    }
}

/// Threads as a line of a list.
fn words(threads: &[Tid]) -> String {
    let words: Vec<String> = threads.iter().map(|tid| tid.0.to_string()).collect();
    format!("{}\n", words.join(" "))
}

/// One instance; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    root: PathBuf,
    /// True if an earlier recording has used the instance.
    is_used: bool,
    /// Lock while the instance is ours.
    lock: Option<Flock<File>>,
    /// A file of the instance that stays open: the kernel does not remove an instance in use.
    in_use: Option<File>,
}

/// Counters of one CPU's ring (`per_cpu/cpuN/stats`), in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Events that are still in the ring.
    pub entries: u64,
    /// Events that were overwritten before they were read.
    pub overrun: u64,
    /// Events without room: an interrupt ran into the page that was being written, or overwriting
    /// is off.
    pub dropped: u64,
    /// Events that were read.
    pub read: u64,
}

impl RingStats {
    /// Reads the text of a `stats` file.
    pub(super) fn parse(text: &str) -> Self {
        let number = |name: &str| {
            let line = text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            entries: number("entries"),
            overrun: number("overrun"),
            dropped: number("commit overrun") + number("dropped events"),
            read: number("read events"),
        }
    }
}

impl Instance {
    /// Creates an instance, switched off.
    ///
    /// # Errors
    ///
    /// `EACCES`, `EPERM`: not root, or tracefs is mounted read-only; `ENOENT`: the kernel has no
    /// instances.
    pub fn create(tracefs: &Tracefs, purpose: &str) -> io::Result<Self> {
        // No other tracer may take a new instance for a stale one before it is locked.
        let guard = lock_all(tracefs)?;
        Self::create_guarded(&guard, tracefs, purpose)
    }

    /// Creates an instance while `instances` is locked.
    pub(super) fn create_guarded(
        _guard: &Flock<File>,
        tracefs: &Tracefs,
        purpose: &str,
    ) -> io::Result<Self> {
        debug_assert!(PURPOSES.contains(&purpose), "{purpose} is never removed");
        let all = tracefs.root().join("instances");
        let mut number = std::process::id();
        let root = loop {
            let root = all.join(format!("{PREFIX}{number}-{purpose}"));
            match fs::create_dir(&root) {
                // A recording uses an instance that was created by an earlier process with this
                // number. No process has the next number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.checked_add(PID_MAX).ok_or(error)?;
                }
                made => break made.map(|()| root)?,
            }
        };
        let lock = lock(&root, FlockArg::LockExclusiveNonblock);
        let mut instance = Self { root, is_used: false, lock: lock.ok(), in_use: None };
        instance.write("tracing_on", "0")?;
        instance.in_use = Some(instance.open("tracing_on")?);
        Ok(instance)
    }

    /// Takes an existing instance that is not in use; `None`: the instance is locked or gone.
    pub(super) fn take(root: PathBuf) -> Option<Self> {
        let lock = lock(&root, FlockArg::LockExclusiveNonblock).ok()?;
        let in_use = File::open(root.join("tracing_on")).ok()?;
        Some(Self { root, is_used: true, lock: Some(lock), in_use: Some(in_use) })
    }

    /// Directory of the instance.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// True if the purpose of the instance is this one.
    pub fn is_for(&self, purpose: &str) -> bool {
        self.root
            .file_name()
            .is_some_and(|name| purpose_of(&name.to_string_lossy()) == Some(purpose))
    }

    /// True if the instance shows that the tracer of probes is alive.
    pub fn is_marker(&self) -> bool {
        MARKERS.iter().any(|purpose| self.is_for(purpose))
    }

    /// Sets the clock of the records, if the instance has another one: the kernel waits 10 to 30 ms
    /// for all CPUs.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn set_clock(&self, clock: &str) -> io::Result<()> {
        let is_set = self.read("trace_clock")?.contains(&format!("[{clock}]"));
        if is_set { Ok(()) } else { self.write("trace_clock", clock) }
    }

    /// Sets the size of each CPU's ring, in bytes, if the rings have another one.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`]; `ENOMEM`.
    pub fn set_ring_bytes(&self, bytes: usize) -> io::Result<()> {
        // The kernel rounds up to whole pages, without their headers. The file has no number if the
        // CPUs have different sizes.
        let is_set =
            self.read("buffer_size_kb")?.trim().parse::<usize>().is_ok_and(|kb| {
                (kb << 10).checked_sub(bytes).is_some_and(|more| more <= page_bytes())
            });
        if is_set { Ok(()) } else { self.write("buffer_size_kb", &(bytes >> 10).to_string()) }
    }

    /// Sets the filter of an event; empty: none.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn set_filter(&self, event: &str, filter: &str) -> io::Result<()> {
        let file = format!("{event}/filter");
        let is_set = if self.is_used {
            let set = self.read(&file)?;
            set.trim_end() == if filter.is_empty() { NO_FILTER } else { filter }
        } else {
            filter.is_empty()
        };
        let value = if filter.is_empty() { CLEAR_FILTER } else { filter };
        if is_set { Ok(()) } else { self.write(&file, value) }
    }

    /// Writes a setting.
    ///
    /// # Errors
    ///
    /// Those of the kernel; the message has the file's path.
    pub fn write(&self, file: &str, value: &str) -> io::Result<()> {
        self.write_to(OpenOptions::new().write(true).truncate(true), file, value)
    }

    /// Appends to a setting that is a list.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn append(&self, file: &str, value: &str) -> io::Result<()> {
        self.write_to(OpenOptions::new().append(true), file, value)
    }

    fn write_to(&self, options: &OpenOptions, file: &str, value: &str) -> io::Result<()> {
        let path = self.root.join(file);
        let written = options.open(&path).and_then(|mut it| it.write_all(value.as_bytes()));
        written.map_err(|error| at(&path, error))
    }

    /// Opens a setting, for repeated reads.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn open(&self, file: &str) -> io::Result<File> {
        let path = self.root.join(file);
        File::open(&path).map_err(|error| at(&path, error))
    }

    /// Opens a setting, for repeated writes. The instance is not removed while the file is open.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn open_switch(&self, file: &str) -> io::Result<File> {
        let path = self.root.join(file);
        OpenOptions::new().write(true).open(&path).map_err(|error| at(&path, error))
    }

    /// Opens a stream of samples whose reads do not wait.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn open_nonblocking(&self, file: &str) -> io::Result<File> {
        let path = self.root.join(file);
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        opened.map_err(|error| at(&path, error))
    }

    /// Reads a setting or a counter.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn read(&self, file: &str) -> io::Result<String> {
        let path = self.root.join(file);
        let mut text = String::new();
        let read = File::open(&path).and_then(|mut it| it.read_to_string(&mut text));
        read.map(|_| text).map_err(|error| at(&path, error))
    }

    /// True if the kernel has this list.
    pub fn has_list(&self, list: ThreadList) -> bool {
        self.root.join(list.file()).exists()
    }

    /// Replaces a list of threads.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn set_list(&self, list: ThreadList, threads: &[Tid]) -> io::Result<()> {
        // One write: each costs a grace period of the kernel, 10 to 25 ms. (The kernel takes a list
        // longer than a page in several parts.)
        self.write(list.file(), &words(threads))
    }

    /// Adds threads to a list.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn add_to_list(&self, list: ThreadList, threads: &[Tid]) -> io::Result<()> {
        self.append(list.file(), &words(threads))
    }

    /// Threads of a list.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn list(&self, list: ThreadList) -> io::Result<Vec<Tid>> {
        let text = self.read(list.file())?;
        Ok(text.split_whitespace().filter_map(|word| word.parse().ok()).map(Tid).collect())
    }

    /// Opens one CPU's ring for reading.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn ring(&self, cpu: u32, page_bytes: usize) -> io::Result<TraceRing> {
        let path = self.root.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        TraceRing::open(&path, page_bytes).map_err(|error| at(&path, error))
    }

    /// Counters of one CPU's ring.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn stats(&self, cpu: u32) -> io::Result<RingStats> {
        Ok(RingStats::parse(&self.read(&format!("per_cpu/cpu{cpu}/stats"))?))
    }

    /// Prepares the removal by a process that inherits the lock, which this returns.
    ///
    /// # Errors
    ///
    /// `ENOLCK`: the instance is not locked.
    pub fn pass_on(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.in_use.take();
        let lock = self.lock.as_ref().ok_or(nix::errno::Errno::ENOLCK)?;
        Ok(lock.as_fd())
    }

    /// Leaves the instance and its lock to the process that has inherited the lock.
    pub fn forget(mut self) {
        self.root.clear();
        std::mem::forget(self.lock.take());
    }

    /// Leaves the instance without an owner.
    pub(super) fn set_free(mut self) {
        self.root.clear();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.in_use.take();
        if self.root.as_os_str().is_empty() {
            return;
        }
        // A drop cannot report errors; the next tracer removes a leftover instance.
        let _ = remove(&self.root);
        self.lock.take();
    }
}

/// Instances whose locks the calling process has inherited.
///
/// # Errors
///
/// Those of reading `instances` and the list of open files.
pub fn inherited(tracefs: &Tracefs) -> io::Result<Vec<Instance>> {
    let ours = ours(tracefs)?;
    let mut open: Vec<(RawFd, PathBuf)> = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
        open.extend(number.zip(fs::read_link(entry.path()).ok()));
    }
    let is_ours = |path: &Path| ours.iter().any(|(_, instance)| instance == path);
    let instances = open.into_iter().filter(|(_, path)| is_ours(path)).filter_map(|(fd, root)| {
        // SAFETY: the descriptor was inherited, so nothing else in this process owns it; each
        // number is in the list once.
        let directory = unsafe { File::from_raw_fd(fd) };
        // The inherited descriptor has the lock already.
        let lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock).ok()?;
        Some(Instance { root, is_used: true, lock: Some(lock), in_use: None })
    });
    Ok(instances.collect())
}

/// Instances with names of ours that belong to this user, and their purposes.
pub(super) fn ours(tracefs: &Tracefs) -> io::Result<Vec<(&'static str, PathBuf)>> {
    let own = nix::unistd::geteuid().as_raw();
    let all = fs::read_dir(tracefs.root().join("instances"))?.flatten();
    let ours = all.filter_map(|entry| {
        let purpose = purpose_of(&entry.file_name().to_string_lossy())?;
        // Another user who may create instances may have created it.
        let is_theirs = entry.metadata().is_ok_and(|instance| instance.uid() != own);
        (!is_theirs).then(|| (purpose, entry.path()))
    });
    Ok(ours.collect())
}

/// Number and purpose of an instance of this name; `None`: the name is not one of ours. The number
/// is that of the process that has created the instance.
fn parse_name(name: &str) -> Option<(u32, &'static str)> {
    let (pid, purpose) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let purpose = PURPOSES.into_iter().find(|known| *known == purpose)?;
    Some((probe_events::process_number(pid)?, purpose))
}

fn purpose_of(name: &str) -> Option<&'static str> {
    parse_name(name).map(|(_, purpose)| purpose)
}

/// Process numbers of the tracers with an instance that shows that the tracer of probes is alive.
pub(super) fn tracers_with_markers(tracefs: &Tracefs) -> Vec<u32> {
    let left = fs::read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten();
    let left = left.filter_map(|entry| parse_name(&entry.file_name().to_string_lossy()));
    left.filter(|(_, purpose)| MARKERS.contains(purpose)).map(|(pid, _)| pid).collect()
}

/// Removes an instance. Switches its events off first: a ring without writers is removed at once.
pub(super) fn remove(instance: &Path) -> io::Result<()> {
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::write(instance.join("events/enable"), "0");
    fs::remove_dir(instance)
}

/// Locks `instances`: no other tracer creates, takes or removes instances meanwhile.
pub(super) fn lock_all(tracefs: &Tracefs) -> io::Result<Flock<File>> {
    lock(&tracefs.root().join("instances"), FlockArg::LockExclusive)
}

pub(super) fn lock(directory: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    let file = File::open(directory).map_err(|error| at(directory, error))?;
    Flock::lock(file, how).map_err(|(_, errno)| at(directory, errno.into()))
}

/// Adds the path to an error of the kernel, which does not name the file.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_instance_names_match() {
        assert_eq!(parse_name("iotrace-42-main"), Some((42, "main")));
        assert_eq!(parse_name("iotrace-42-probes"), Some((42, "probes")));
        let others =
            ["iotrace-mine", "iotrace-42", "iotrace-42-mine", "iotrace-x-main", "iotrace--main"];
        let spelled =
            ["iotrace-042-main", "iotrace-+42-main", "iotrace-0-main", "iotrace-42-main-2"];
        for name in others
            .into_iter()
            .chain(spelled)
            .chain(["my-iotrace-42-main", "iotrace-4294967296-main"])
        {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
