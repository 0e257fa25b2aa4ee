//! Which files are opened, and by whom, as the kernel tells it to a listener (fanotify(7)).
//!
//! A file is told with a descriptor of its own, in our process, made when it is read: its name is that of this moment, and
//! the kernel has opened the file once more for it. So file systems are left out where opening does something or asks
//! somebody ([`LEFT_OUT`]). An event of a thread is put into the queue inside the call that opened; the same file opened
//! again by the same thread while that waits has none of its own (`fanotify_merge()` in
//! `fs/notify/fanotify/fanotify.c`). What has no events at all: `O_PATH`, devices, FIFOs, sockets, memory files.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, readlink};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags};
use rustc_hash::FxHashSet;

use super::files::stat_and_mount_behind;
use super::mounts::mounts_of;
use crate::event::FileStat;
use crate::units::Tid;

/// File systems without a device that are listened to. Of all others without one a server may be asked each time, and may not
/// answer; or to open a file there does something (`tracefs`, `debugfs`, `autofs`), or is no open of a path (`mqueue`).
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

/// File systems on devices that ask other machines, or a program, too.
const LEFT_OUT: [&str; 4] = ["fuseblk", "ocfs2", "gfs2", "gfs"];

/// How many events may wait.
const MAX_QUEUED: &str = "/proc/sys/fs/fanotify/max_queued_events";

/// The same where nobody has set it (`FANOTIFY_DEFAULT_MAX_EVENTS`).
const DEFAULT_QUEUED: usize = 16_384;

/// A queue of opens, and the file systems whose opens go there.
#[derive(Debug)]
pub struct OpenEvents {
    group: Fanotify,
    capacity: usize,
    /// By their numbers, `MAJOR:MINOR`.
    marked: FxHashSet<String>,
    /// Types of those that are not.
    unmarked: FxHashSet<String>,
}

/// One that was taken out of the queue.
#[derive(Debug)]
pub enum OpenEvent {
    /// A thread opened a file or a directory.
    Opened(OpenedFile),
    /// A program or its loader was opened to be run: by an exec.
    Program,
    /// The queue was full: there were others.
    Overflow,
}

/// What was opened; holds a descriptor of it.
#[derive(Debug)]
pub struct OpenedFile(FanotifyEvent);

/// A file that was opened, as it is now.
#[derive(Debug)]
pub struct FileSeen {
    /// Its name, as `/proc/PID/fd` shows it.
    pub link: nix::Result<Vec<u8>>,
    /// What it is.
    pub stat: Option<FileStat>,
    /// The mount that it was opened through, where the kernel says (from Linux 5.8 on).
    pub mount: Option<u64>,
}

impl OpenEvents {
    /// A queue that nothing goes to. It has room for `max_queued_events` (16,384 unless set): what
    /// waits holds memory of the kernel, and keeps file systems from being unmounted.
    ///
    /// # Errors
    ///
    /// What stands in the way, in words.
    pub fn new() -> Result<Self, String> {
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_REPORT_TID
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_NONBLOCK;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC;
        match Fanotify::init(flags, files) {
            Ok(group) => {
                let (marked, unmarked) = Default::default();
                let set = std::fs::read_to_string(MAX_QUEUED).unwrap_or_default();
                let capacity = set.trim().parse().unwrap_or(DEFAULT_QUEUED).saturating_add(1);
                Ok(Self { group, capacity, marked, unmarked })
            }
            Err(Errno::EPERM) => {
                Err("fanotify needs CAP_SYS_ADMIN, outside of any user namespace".into())
            }
            Err(Errno::ENOSYS) => {
                Err("this kernel has no fanotify (it is built without CONFIG_FANOTIFY)".into())
            }
            Err(Errno::EINVAL) => {
                Err("this kernel's fanotify does not tell threads (from Linux 4.20 on it does)"
                    .into())
            }
            Err(errno) => Err(format!("fanotify cannot be had: {}", io::Error::from(errno))),
        }
    }

    /// Listens to the file systems, too, that are mounted where the process is that this directory of `/proc` is about. Those
    /// of the network and a few others are left out.
    ///
    /// # Errors
    ///
    /// Those of reading its `mountinfo`.
    pub fn listen_to_mounts_of(&mut self, process: &str) -> io::Result<()> {
        // Its own root is where its mounts begin.
        let root = if process == "/proc/self" { String::new() } else { format!("{process}/root") };
        for mount in mounts_of(process)? {
            // Marks go with their file system, and its number to the next one: each is marked again.
            let mut place = root.clone().into_bytes();
            place.extend(mount.mount_point.into_os_string().into_vec());
            let place = std::ffi::OsString::from_vec(place);
            let is_on_device = !mount.majmin.starts_with("0:");
            let kind = mount.fs_type.as_str();
            let is_listened =
                if is_on_device { !LEFT_OUT.contains(&kind) } else { LISTENED.contains(&kind) };
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

    /// How many file systems are listened to.
    pub fn marked(&self) -> usize {
        self.marked.len()
    }

    /// Types of file systems that are not listened to, or not all, sorted.
    pub fn unmarked(&self) -> Vec<&str> {
        let mut types: Vec<&str> = self.unmarked.iter().map(String::as_str).collect();
        types.sort_unstable();
        types
    }

    /// How many events may wait (`max_queued_events`, which kernels before 5.13 do not show), and the one that says that there are
    /// too many.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    /// Takes out what waits, oldest first, so many at most as fit into a page.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the queue is empty. Any other: the oldest event is gone, for its file could not be opened once more. (If others
    /// were taken out before it in the same call, there is no error, and nobody says so: `fanotify_read()`.)
    pub fn read(&self) -> nix::Result<Vec<OpenEvent>> {
        let event = |it: FanotifyEvent| match it.mask() {
            mask if mask.contains(MaskFlags::FAN_Q_OVERFLOW) => OpenEvent::Overflow,
            mask if mask.contains(MaskFlags::FAN_OPEN_EXEC) => OpenEvent::Program,
            _ => OpenEvent::Opened(OpenedFile(it)),
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

    /// What it opened.
    pub fn look(&self) -> FileSeen {
        let Some(fd) = self.0.fd() else {
            return FileSeen { link: Err(Errno::EBADF), stat: None, mount: None };
        };
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let link = readlink(path.as_str()).map(OsStringExt::into_vec);
        let (stat, mount) = stat_and_mount_behind(OsStr::new(&path)).unzip();
        FileSeen { link, stat, mount: mount.flatten() }
    }
}
