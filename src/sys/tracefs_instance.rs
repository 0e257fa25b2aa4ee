//! Instance of tracefs: ring buffers and switches of our own, separate from those of all other
//! users (`Documentation/trace/ftrace.rst`, "Instances").
//!
//! An instance is a directory below `instances` and exists until it is removed, even after its
//! tracer's end. So each of ours is locked (`flock`) while its tracer lives, and the next tracer
//! removes those without a lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};

use super::probe_events;
use super::trace_ring::TraceRing;
use super::tracefs::Tracefs;
use crate::units::Tid;

/// Prefix of the names of our instances.
const PREFIX: &str = "iotrace-";

/// Purposes of our instances: the ends of their names. Those of the rings are in the log's header,
/// too.
const PURPOSES: [&str; 10] =
    ["main", "names", "entries", "block", "tasks", "chains", "probes", "layers", "aio", "doctor"];

/// Purposes of the instances that show that the tracer of probes is alive.
const MARKERS: [&str; 3] = ["probes", "layers", "aio"];

/// One instance; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    root: PathBuf,
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

impl Instance {
    /// Creates an instance, switched off.
    ///
    /// # Errors
    ///
    /// `EACCES`, `EPERM`: not root, or tracefs is mounted read-only; `ENOENT`: the kernel has no
    /// instances.
    pub fn create(tracefs: &Tracefs, purpose: &str) -> io::Result<Self> {
        let all = tracefs.root().join("instances");
        debug_assert!(PURPOSES.contains(&purpose), "{purpose} is never removed");
        // No other tracer may take a new instance for a stale one before it is locked.
        let guard = lock(&all, FlockArg::LockExclusive)?;
        let root = all.join(format!("{PREFIX}{}-{purpose}", std::process::id()));
        fs::create_dir(&root)?;
        let lock = lock(&root, FlockArg::LockExclusiveNonblock);
        drop(guard);
        let mut instance = Self { root, lock: lock.ok(), in_use: None };
        instance.write("tracing_on", "0")?;
        instance.in_use = Some(instance.open("tracing_on")?);
        Ok(instance)
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

    /// Records exactly these threads and the threads that they start. Replaces the previous list.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn follow(&self, threads: &[Tid]) -> io::Result<()> {
        let list: Vec<String> = threads.iter().map(|it| it.0.to_string()).collect();
        // One write: each costs a grace period of the kernel, 10 to 25 ms. (The kernel takes a list
        // longer than a page in several parts.)
        self.write("set_event_pid", &format!("{}\n", list.join(" ")))
    }

    /// Adds threads to the list.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn follow_too(&self, threads: &[Tid]) -> io::Result<()> {
        let list: Vec<String> = threads.iter().map(|it| it.0.to_string()).collect();
        self.append("set_event_pid", &format!("{}\n", list.join(" ")))
    }

    /// Threads of the list.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn followed(&self) -> io::Result<Vec<Tid>> {
        let text = self.read("set_event_pid")?;
        Ok(text.split_whitespace().filter_map(|it| it.parse().ok()).map(Tid).collect())
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
        let text = self.read(&format!("per_cpu/cpu{cpu}/stats"))?;
        let number = |name: &str| {
            let line = text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
        };
        Ok(RingStats {
            entries: number("entries"),
            overrun: number("overrun"),
            dropped: number("commit overrun") + number("dropped events"),
            read: number("read events"),
        })
    }

    /// Prepares the removal by a process that this one starts: it inherits the lock.
    ///
    /// # Errors
    ///
    /// `ENOLCK`: the instance is not locked; those of `fcntl(2)`.
    pub fn pass_on(&mut self) -> io::Result<()> {
        let lock = self.lock.as_ref().ok_or(nix::errno::Errno::ENOLCK)?;
        fcntl(&**lock, FcntlArg::F_SETFD(FdFlag::empty()))?;
        self.in_use.take();
        Ok(())
    }

    /// Leaves the instance and its lock to the process that has inherited the lock.
    pub fn forget(mut self) {
        self.root.clear();
        std::mem::forget(self.lock.take());
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

/// Removes the instances of tracers that have ended, and their probes. Returns the number of
/// removed instances.
///
/// # Errors
///
/// Those of reading `instances`.
pub fn remove_stale(tracefs: &Tracefs) -> io::Result<usize> {
    let all = tracefs.root().join("instances");
    let _guard = lock(&all, FlockArg::LockExclusive)?;
    let mut removed = 0;
    for entry in fs::read_dir(all)?.flatten() {
        let is_ours = owner(&entry.file_name().to_string_lossy()).is_some();
        // Another user who may create instances has created it.
        let is_theirs =
            entry.metadata().is_ok_and(|it| it.uid() != nix::unistd::geteuid().as_raw());
        // An instance is locked as long as its tracer lives.
        if is_ours && !is_theirs && lock(&entry.path(), FlockArg::LockExclusiveNonblock).is_ok() {
            removed += usize::from(remove(&entry.path()).is_ok());
        }
    }
    // A tracer with probes has an instance, too, which was created before them and is removed after
    // them.
    let has_instance = |pid: u32| {
        let left = fs::read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten();
        left.into_iter().any(|it| owner(&it.file_name().to_string_lossy()) == Some(pid))
    };
    probe_events::remove_stale(tracefs, has_instance);
    Ok(removed)
}

/// Removes the instances whose locks the calling process has inherited from the tracer with this
/// process number, and the tracer's probes.
///
/// # Errors
///
/// `ENOLCK`: no such lock was inherited; those of reading `instances`.
pub fn remove_inherited(tracefs: &Tracefs, tracer: u32) -> io::Result<()> {
    let all = tracefs.root().join("instances");
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let inherited: Vec<PathBuf> =
        open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let mut paths = Vec::new();
    for entry in fs::read_dir(all)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if owner(&name) == Some(tracer) && inherited.contains(&entry.path()) {
            let is_marker = MARKERS.iter().any(|purpose| name.ends_with(&format!("-{purpose}")));
            paths.push((is_marker, entry.path()));
        }
    }
    if paths.is_empty() {
        return Err(nix::errno::Errno::ENOLCK.into());
    }
    // The next tracer removes a leftover instance.
    let remove_those = |markers: bool| {
        let those = paths.iter().filter(|path| path.0 == markers);
        those.for_each(|path| drop(remove(&path.1)));
    };
    remove_those(false);
    probe_events::remove_stale(tracefs, |other| other != tracer);
    remove_those(true);
    Ok(())
}

/// Process number of the tracer that has created an instance of this name; `None`: the name is not
/// one of ours.
fn owner(name: &str) -> Option<u32> {
    let (pid, purpose) = name.strip_prefix(PREFIX)?.split_once('-')?;
    PURPOSES.contains(&purpose).then(|| super::probe_events::process_number(pid))?
}

/// Removes an instance. Switches its events off first: a ring without writers is removed at once.
fn remove(instance: &Path) -> io::Result<()> {
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::write(instance.join("events/enable"), "0");
    fs::remove_dir(instance)
}

fn lock(directory: &Path, how: FlockArg) -> io::Result<Flock<File>> {
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
        assert_eq!(owner("iotrace-42-main"), Some(42));
        assert_eq!(owner("iotrace-42-probes"), Some(42));
        let others =
            ["iotrace-mine", "iotrace-42", "iotrace-42-mine", "iotrace-x-main", "iotrace--main"];
        let spelled =
            ["iotrace-042-main", "iotrace-+42-main", "iotrace-0-main", "iotrace-42-main-2"];
        for name in others
            .into_iter()
            .chain(spelled)
            .chain(["my-iotrace-42-main", "iotrace-4294967296-main"])
        {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
