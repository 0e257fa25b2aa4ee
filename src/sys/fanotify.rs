//! Opened files, and the threads that opened them, as the kernel reports them to a listener
//! (fanotify(7)).
//!
//! Each event comes with a descriptor of the file in our process, made when the event is read: its
//! name is that of this moment, and the kernel has opened the file once more for it. So file
//! systems are left out where an open has side effects or queries a server ([`LEFT_OUT`]). An event
//! of a thread is queued inside the call that opens. The same file opened again by the same thread
//! while that event waits has no event of its own (`fanotify_merge()` in
//! `fs/notify/fanotify/fanotify.c`). No events at all: `O_PATH`, devices, FIFOs, sockets, memory
//! files.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, readlinkat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags};
use procfs::process::MountInfo;
use rustc_hash::FxHashSet;

use super::files::{stat_and_mount_behind, stat_and_mount_of};
use super::mounts::mounts_of;
use crate::event::FileStat;
use crate::units::Tid;

/// File systems without a device that are listened to. All others without one may query a server
/// each time, which may not answer; or an open has side effects (`tracefs`, `debugfs`, `autofs`),
/// or is not an open of a path (`mqueue`).
const LISTENED: [&str; 12] = [
    "tmpfs",
    "ramfs",
    "rootfs",
    "overlay",
    "btrfs",
    "zfs",
    "proc",
    "sysfs",
    "devtmpfs",
    "hugetlbfs",
    "cgroup2",
    "securityfs",
];

/// File systems on devices that query other machines, or a program, too.
const LEFT_OUT: [&str; 4] = ["fuseblk", "ocfs2", "gfs2", "gfs"];

/// Setting with the number of events that may wait.
const MAX_QUEUED: &str = "/proc/sys/fs/fanotify/max_queued_events";

/// Number of events that may wait where no administrator has set it
/// (`FANOTIFY_DEFAULT_MAX_EVENTS`).
const DEFAULT_QUEUED: usize = 16_384;

/// True if opens of files of this file system have no side effects, and no other machine or program
/// is asked for anything.
pub(super) fn is_listened(mount: &MountInfo) -> bool {
    let kind = mount.fs_type.as_str();
    let is_on_device = !mount.majmin.starts_with("0:");
    if is_on_device { !LEFT_OUT.contains(&kind) } else { LISTENED.contains(&kind) }
}

/// Removes the file systems that a queue listens to, as the end of the queue does.
pub(super) fn unmark(group: &Fanotify) {
    let how = MarkFlags::FAN_MARK_FLUSH | MarkFlags::FAN_MARK_FILESYSTEM;
    let _ = group.mark(how, MaskFlags::empty(), AT_FDCWD, Some("/"));
}

/// Number of events that may wait (`max_queued_events`, which kernels before 5.13 do not show), and
/// one more for the overflow event.
pub(super) fn queue_capacity() -> usize {
    let set = std::fs::read_to_string(MAX_QUEUED).unwrap_or_default();
    set.trim().parse().unwrap_or(DEFAULT_QUEUED).saturating_add(1)
}

/// A queue of opens, and the file systems whose opens go there.
#[derive(Debug)]
pub struct OpenEvents {
    group: Fanotify,
    capacity: usize,
    /// Listened to: file systems by their numbers, `MAJOR:MINOR`.
    marked: FxHashSet<String>,
    /// Not listened to: types of file systems.
    unmarked: FxHashSet<String>,
    /// `/proc/self/fd`: links of the files of events.
    links: OwnedFd,
}

/// Event that was taken out of the queue.
#[derive(Debug)]
pub enum OpenEvent {
    /// A thread opened a file or a directory.
    Opened(OpenedFile),
    /// An exec opened a program or its loader.
    Program,
    /// The queue was full: events were lost.
    Overflow,
}

/// Opened file; holds a descriptor of the file.
#[derive(Debug)]
pub struct OpenedFile(FanotifyEvent);

/// State of an opened file at the moment when it is read.
#[derive(Debug)]
pub struct FileSeen {
    /// Name, as `/proc/PID/fd` shows it.
    pub link: nix::Result<Vec<u8>>,
    /// Type, identity and size.
    pub stat: Option<FileStat>,
    /// Mount that the file was opened through, where the kernel reports it (from Linux 5.8 on).
    pub mount: Option<u64>,
}

impl OpenEvents {
    /// Creates a queue without file systems. It has room for `max_queued_events` (16,384 unless
    /// set): waiting events hold memory of the kernel, and keep file systems from being unmounted.
    ///
    /// # Errors
    ///
    /// The reason, in words.
    pub fn new() -> Result<Self, String> {
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_REPORT_TID
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_NONBLOCK;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC;
        match Fanotify::init(flags, files) {
            Ok(group) => {
                let (marked, unmarked) = Default::default();
                let capacity = queue_capacity();
                let links =
                    std::fs::File::open("/proc/self/fd").map_err(|error| error.to_string())?;
                Ok(Self { group, capacity, marked, unmarked, links: links.into() })
            }
            Err(Errno::EPERM) => {
                Err("fanotify needs CAP_SYS_ADMIN, outside of any user namespace".into())
            }
            Err(Errno::ENOSYS) => {
                Err("this kernel has no fanotify (it is built without CONFIG_FANOTIFY)".into())
            }
            Err(Errno::EINVAL) => {
                Err("this kernel's fanotify does not report threads (Linux 4.20 does)".into())
            }
            Err(errno) => Err(format!("fanotify cannot be opened: {}", io::Error::from(errno))),
        }
    }

    /// Adds the file systems that are mounted for the process of this directory of `/proc`. Those
    /// of the network and a few others are left out.
    ///
    /// # Errors
    ///
    /// Those of reading its `mountinfo`.
    pub fn listen_to_mounts_of(&mut self, process: &str) -> io::Result<()> {
        // The mount points are relative to the root of that process.
        let root = if process == "/proc/self" { String::new() } else { format!("{process}/root") };
        for mount in mounts_of(process)? {
            let is_listened = is_listened(&mount);
            // A mark goes with its file system, and its number to the next one: each is marked
            // again.
            let mut place = root.clone().into_bytes();
            place.extend(mount.mount_point.into_os_string().into_vec());
            let place = std::ffi::OsString::from_vec(place);
            if is_listened && self.mark(Path::new(&place)).is_ok() {
                self.unmarked.remove(&mount.fs_type);
                self.marked.insert(mount.majmin);
            } else {
                self.unmarked.insert(mount.fs_type);
            }
        }
        Ok(())
    }

    fn mark(&self, place: &Path) -> nix::Result<()> {
        let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
        let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_OPEN_EXEC | MaskFlags::FAN_ONDIR;
        self.group.mark(how, what, AT_FDCWD, Some(place))
    }

    /// Ends the listening.
    pub fn end(&mut self) {
        unmark(&self.group);
    }

    /// Number of file systems that are listened to.
    pub fn marked(&self) -> usize {
        self.marked.len()
    }

    /// Types of file systems of which some or all are not listened to, sorted.
    pub fn unmarked(&self) -> Vec<&str> {
        let mut types: Vec<&str> = self.unmarked.iter().map(String::as_str).collect();
        types.sort_unstable();
        types
    }

    /// Number of events that may wait (`max_queued_events`, which kernels before 5.13 do not show),
    /// and one more for the overflow event.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// True if no event waits.
    pub fn is_empty(&self) -> bool {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    /// Takes waiting events out, oldest first, at most as many as fit into a page.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the queue is empty. Any other: the oldest event is lost, as its file could not be
    /// opened once more. (If other events were taken out before it in the same call, there is no
    /// error and no report: `fanotify_read()`.)
    pub fn read(&self) -> nix::Result<Vec<OpenEvent>> {
        let event = |event: FanotifyEvent| match event.mask() {
            mask if mask.contains(MaskFlags::FAN_Q_OVERFLOW) => OpenEvent::Overflow,
            mask if mask.contains(MaskFlags::FAN_OPEN_EXEC) => OpenEvent::Program,
            _ => OpenEvent::Opened(OpenedFile(event)),
        };
        Ok(self.group.read_events()?.into_iter().map(event).collect())
    }
}

impl FileSeen {
    /// True if the name leads to this very file, through the same mount, from the directory `root`.
    pub fn is_found_below(&self, root: &str) -> bool {
        let Ok(link) = &self.link else { return false };
        let path = [root.as_bytes(), link].concat();
        let found = stat_and_mount_behind(OsStr::from_bytes(&path));
        found.zip(self.stat).is_some_and(|((found, mount), stat)| {
            (found.dev, found.ino, mount) == (stat.dev, stat.ino, self.mount)
        })
    }
}

impl AsFd for OpenEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

impl OpenedFile {
    /// The thread that opened.
    pub fn tid(&self) -> Tid {
        Tid(self.0.pid())
    }

    /// Reads the state of the file, from the queue that reported it.
    pub fn look(&self, queue: &OpenEvents) -> FileSeen {
        let Some(fd) = self.0.fd() else {
            return FileSeen { link: Err(Errno::EBADF), stat: None, mount: None };
        };
        let number = fd.as_raw_fd().to_string();
        let link = readlinkat(&queue.links, number.as_str()).map(OsStringExt::into_vec);
        let (stat, mount) = stat_and_mount_of(fd).unzip();
        FileSeen { link, stat, mount: mount.flatten() }
    }
}
