//! Opened files by handle, and the threads that opened them, as the kernel reports them to a
//! listener (fanotify(7), `FAN_REPORT_FID`, with threads from Linux 5.1 on, with directory entries
//! from 5.9 on).
//!
//! An event has the file, its directory, and its name in that directory at the moment of the open:
//! a later rename or removal of the file, or another hard link, does not change the name. The path
//! of the directory is looked up afterwards.
//!
//! An event with a handle keeps nothing in use, unlike one with a descriptor of the file
//! (`sys::fanotify`): the file system can be unmounted while events wait, no lease is broken, and
//! devices have events, too. Only while an event is looked up (`sys::listened_file_system`) its
//! file system is in use. File systems without handles (proc, sysfs) have no events.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::readlinkat;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use procfs::process::MountInfo;
use rustc_hash::{FxHashMap, FxHashSet};

use super::fanotify::{is_listened, queue_capacity, unmark};
use super::file_handles::FileHandle;
use super::files::stat_and_mount_of;
use super::listened_file_system::{FileSystemId, ListenedFileSystem, open_for_handles};
use super::mounts::mounts_of;
use crate::event::FileStat;
use crate::units::Tid;

/// End of the link of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// Room for the events of one read, in bytes: some 500.
const READ_BYTES: usize = 64 << 10;

/// A queue of opens, and the file systems whose opens go there.
#[derive(Debug)]
pub struct HandleEvents {
    group: Fanotify,
    /// Listened to.
    file_systems: FxHashMap<FileSystemId, ListenedFileSystem>,
    /// Not listened to: types of file systems.
    unmarked: BTreeSet<String>,
    /// Types of file systems whose handles lead back to files.
    types: FxHashSet<String>,
    /// `/proc/self/fd`: links of files that were found by their handles.
    links: OwnedFd,
    /// Content of the last read.
    read: Vec<u8>,
    /// Paths of directories that were looked up since the last read of the queue.
    directories: FxHashMap<(FileSystemId, FileHandle), nix::Result<Vec<u8>>>,
    /// True if a mount was not found where it was: its path has changed.
    has_lost_mount: bool,
}

/// Event that was taken out of the queue.
#[derive(Debug)]
pub enum HandleEvent {
    /// A thread opened a file, a directory or a device.
    Opened(OpenedHandle),
    /// An exec opened a program or its loader.
    Program,
    /// The queue was full: events were lost.
    Overflow,
}

/// A file that a thread has opened.
#[derive(Debug)]
pub struct OpenedHandle {
    /// The thread that opened.
    pub tid: Tid,
    file_system: FileSystemId,
    handle: FileHandle,
    /// Directory and name by which the file was opened; `None` for a directory, and the root of a
    /// file system.
    entry: Option<Box<DirectoryEntry>>,
}

/// Entry of a directory at the moment of an open.
#[derive(Debug)]
struct DirectoryEntry {
    directory: FileHandle,
    name: Vec<u8>,
}

/// State of an opened file at the moment when it is looked up.
#[derive(Debug)]
pub struct HandleSeen {
    /// Name by which the file was opened, below the path of its directory at the moment of the
    /// look.
    pub link: nix::Result<Vec<u8>>,
    /// Type, identity and size.
    pub stat: Option<FileStat>,
    /// True if the file may have been opened by another name: through another mount.
    pub has_other_names: bool,
}

impl HandleEvents {
    /// Creates a queue, and listens to the file systems that are mounted here.
    ///
    /// # Errors
    ///
    /// The reason, in words.
    pub fn new() -> Result<Self, String> {
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_REPORT_TID
            | InitFlags::from_bits_retain(libc::FAN_REPORT_FID | libc::FAN_REPORT_DFID_NAME)
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_NONBLOCK;
        let group = Fanotify::init(flags, EventFFlags::O_CLOEXEC).map_err(|errno| match errno {
            Errno::EPERM => {
                "fanotify needs CAP_SYS_ADMIN, outside of any user namespace".to_owned()
            }
            Errno::ENOSYS | Errno::EINVAL => {
                "this kernel's fanotify reports no handles of files and directories (Linux 5.9 does)".to_owned()
            }
            errno => format!("fanotify cannot be opened: {}", io::Error::from(errno)),
        })?;
        let links = File::open("/proc/self/fd").map_err(|error| error.to_string())?.into();
        let mut events = Self {
            group,
            file_systems: FxHashMap::default(),
            unmarked: BTreeSet::new(),
            types: FxHashSet::default(),
            links,
            read: Vec::new(),
            directories: FxHashMap::default(),
            has_lost_mount: false,
        };
        events.listen().map_err(|error| format!("cannot read the list of mounts: {error}"))?;
        Ok(events)
    }

    /// Listens to the file systems that are mounted here, and lets go of those that are not mounted
    /// any more.
    ///
    /// # Errors
    ///
    /// Those of reading `mountinfo`.
    pub fn listen(&mut self) -> io::Result<()> {
        let mut mounts = mounts_of("/proc/self")?;
        // A mount of the whole file system has all names.
        mounts.sort_by_key(|mount| mount.root != "/");
        let by_id: FxHashMap<i32, &MountInfo> =
            mounts.iter().map(|mount| (mount.mnt_id, mount)).collect();
        self.file_systems.retain(|_, known| {
            known.has_double = false;
            by_id.get(&known.mount_id()).is_some_and(|mount| known.is_by(mount))
        });
        let mut known: FxHashSet<String> =
            self.file_systems.values().map(|known| known.majmin().to_owned()).collect();
        for mount in &mounts {
            if known.contains(&mount.majmin) {
                continue;
            }
            if is_listened(mount) && self.add(mount).is_ok() {
                known.insert(mount.majmin.clone());
                self.unmarked.remove(&mount.fs_type);
            } else {
                self.unmarked.insert(mount.fs_type.clone());
            }
        }
        let mut by_device: FxHashMap<&str, Vec<&MountInfo>> = FxHashMap::default();
        for mount in &mounts {
            by_device.entry(&mount.majmin).or_default().push(mount);
        }
        for known in self.file_systems.values_mut() {
            known.note_others(by_device.get(known.majmin()).map_or(&[], Vec::as_slice));
        }
        Ok(())
    }

    /// Listens to the file system that is mounted here, if its handles lead back to files.
    fn add(&mut self, mount: &MountInfo) -> io::Result<()> {
        let (id, listened, place) = ListenedFileSystem::find(mount)?;
        if !self.types.contains(&mount.fs_type) {
            handles_lead_back(&place)?;
            self.types.insert(mount.fs_type.clone());
        }
        let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_OPEN_EXEC | MaskFlags::FAN_ONDIR;
        let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
        self.group.mark(how, what, &place, Some(Path::new(".")))?;
        match self.file_systems.get_mut(&id) {
            Some(double) => double.has_double = true,
            None => drop(self.file_systems.insert(id, listened)),
        }
        Ok(())
    }

    /// Ends the listening.
    pub fn end(&mut self) {
        unmark(&self.group);
    }

    /// Number of file systems that are listened to.
    pub fn marked(&self) -> usize {
        self.file_systems.len()
    }

    /// Types of file systems of which some or all are not listened to, sorted.
    pub fn unmarked(&self) -> Vec<&str> {
        self.unmarked.iter().map(String::as_str).collect()
    }

    /// Number of events that may wait, and one more for the overflow event.
    pub fn capacity(&self) -> usize {
        queue_capacity()
    }

    /// True if no event waits.
    pub fn is_empty(&self) -> bool {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    /// Takes events that wait in the queue, oldest first.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: there are none.
    pub fn take(&mut self) -> nix::Result<Vec<HandleEvent>> {
        self.directories.clear();
        self.read()
    }

    fn read(&mut self) -> nix::Result<Vec<HandleEvent>> {
        self.read.resize(READ_BYTES, 0);
        let length = nix::unistd::read(&self.group, &mut self.read)?;
        Ok(self.read.get(..length).map(events).unwrap_or_default())
    }

    /// True if events of this file system identify the files that threads have opened: it opens no
    /// files of others for each of its own, and no other one has its number.
    pub fn identifies_files(&self, opened: &OpenedHandle) -> bool {
        let known = self.file_systems.get(&opened.file_system);
        known.is_none_or(ListenedFileSystem::identifies_files)
    }

    /// Reads the state of the file. Its file system is in use for these microseconds.
    pub fn look(&mut self, opened: &OpenedHandle) -> HandleSeen {
        self.look_through_mount(opened).unwrap_or_else(|errno| HandleSeen {
            link: Err(errno),
            stat: None,
            has_other_names: true,
        })
    }

    fn look_through_mount(&mut self, opened: &OpenedHandle) -> nix::Result<HandleSeen> {
        let known = self.file_systems.get(&opened.file_system).ok_or(Errno::ENODEV)?;
        let Ok(directory) = known.directory() else {
            self.has_lost_mount = true;
            return Err(Errno::ENODEV);
        };
        let mount = directory.as_fd();
        let file = opened.handle.find(mount);
        let stat = file.as_ref().ok().and_then(|file| stat_and_mount_of(file.as_fd()));
        let stat = stat.map(|(stat, _)| stat);
        let links = &self.links;
        let path = match &opened.entry {
            Some(entry) if !is_nameless(entry, stat) => {
                let key = (opened.file_system, entry.directory);
                let path = self.directories.entry(key).or_insert_with(|| {
                    let directory = entry.directory.find(mount)?;
                    // A removed directory has no path.
                    link(links, &directory).and_then(|path| match path.ends_with(DELETED) {
                        true => Err(Errno::ENOENT),
                        false => Ok(path),
                    })
                });
                path.as_ref().map(|path| below(path, &entry.name)).map_err(|errno| *errno)
            }
            _ => file.and_then(|file| link(links, &file)),
        };
        let has_other_names = path.as_ref().map_or(true, |path| known.has_other_names(path));
        Ok(HandleSeen { link: path, stat, has_other_names })
    }

    /// Returns true once after a mount was not found where it was: [`Self::listen`] finds it.
    pub fn take_lost_mount(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_mount)
    }
}

/// Returns the path of the file.
fn link(links: &OwnedFd, file: &OwnedFd) -> nix::Result<Vec<u8>> {
    let number = file.as_raw_fd().to_string();
    readlinkat(links, number.as_str()).map(OsStringExt::into_vec)
}

/// Checks that the handle of a directory leads back to it.
fn handles_lead_back(place: &File) -> io::Result<()> {
    let directory = open_for_handles(place)?;
    let found = FileHandle::of(directory.as_fd())?.find(directory.as_fd())?;
    let inode = |file: BorrowedFd<'_>| stat_and_mount_of(file).and_then(|(stat, _)| stat.inode());
    let is_same = inode(found.as_fd()).is_some_and(|found| Some(found) == inode(directory.as_fd()));
    is_same.then_some(()).ok_or_else(|| Errno::EOPNOTSUPP.into())
}

impl AsFd for HandleEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

/// True if the file was made without a name (`O_TMPFILE`): the kernel calls it by its number.
fn is_nameless(entry: &DirectoryEntry, stat: Option<FileStat>) -> bool {
    stat.is_some_and(|stat| entry.name == format!("#{}", stat.ino).as_bytes())
}

/// Returns the path of what has this name in a directory.
fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if directory == b"/" { b"" } else { b"/" };
    [directory, separator, name].concat()
}

/// Returns the events of a read; what is not understood ends them.
fn events(mut bytes: &[u8]) -> Vec<HandleEvent> {
    let mut events = Vec::new();
    while let Some(length) = u32_at(bytes, 0).and_then(|length| usize::try_from(length).ok())
        && let Some((event, rest)) = bytes.split_at_checked(length)
        && let Some(event) = event_of(event)
    {
        events.push(event);
        bytes = rest;
    }
    events
}

/// Returns an event: a `struct fanotify_event_metadata`, followed by a `struct
/// fanotify_event_info_fid` each for the directory, with the name after the handle, and the file. A
/// directory has only the first, with the name `.`.
fn event_of(bytes: &[u8]) -> Option<HandleEvent> {
    let mask = MaskFlags::from_bits_retain(u64::from_ne_bytes(part(bytes, 8)?));
    if mask.contains(MaskFlags::FAN_Q_OVERFLOW) {
        return Some(HandleEvent::Overflow);
    }
    if mask.contains(MaskFlags::FAN_OPEN_EXEC) {
        return Some(HandleEvent::Program);
    }
    let tid = Tid(i32::from_ne_bytes(part(bytes, 20)?));
    let mut rest = bytes.get(usize::from(u16::from_ne_bytes(part(bytes, 6)?))..)?;
    let (mut file, mut entry) = (None, None);
    while let Some(length) = part(rest, 2).map(u16::from_ne_bytes)
        && let Some((info, next)) = rest.split_at_checked(length.into())
    {
        let file_system = part(info, 4)?;
        let length = usize::try_from(u32_at(info, 12)?).ok()?;
        let kind = i32::from_ne_bytes(part(info, 16)?);
        let (handle, name) = info.get(20..)?.split_at_checked(length)?;
        let handle = FileHandle::new(kind, handle)?;
        match *info.first()? {
            libc::FAN_EVENT_INFO_TYPE_FID | libc::FAN_EVENT_INFO_TYPE_DFID => {
                file = Some((file_system, handle));
            }
            libc::FAN_EVENT_INFO_TYPE_DFID_NAME => {
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                match name {
                    b"." => file = Some((file_system, handle)),
                    _ => {
                        entry = Some(Box::new(DirectoryEntry {
                            directory: handle,
                            name: name.to_vec(),
                        }))
                    }
                }
            }
            _ => {}
        }
        rest = next;
    }
    let (file_system, handle) = file?;
    Some(HandleEvent::Opened(OpenedHandle { tid, file_system, handle, entry }))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    part(bytes, place).map(u32::from_ne_bytes)
}

fn part<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Information of an event as the kernel writes it: type and length, file system, handle, and
    /// for an entry of a directory its name.
    fn info(kind: u8, handle: &[u8], name: &[u8]) -> Vec<u8> {
        let length = 20 + handle.len() + name.len();
        let mut info = vec![kind, 0];
        info.extend(u16::try_from(length).expect("short").to_ne_bytes());
        info.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        info.extend(u32::try_from(handle.len()).expect("short").to_ne_bytes());
        info.extend(1_i32.to_ne_bytes());
        info.extend(handle);
        info.extend(name);
        info
    }

    /// An event as the kernel writes it: length, version, length of the head, mask, no descriptor,
    /// thread; then the information.
    fn with_infos(mask: MaskFlags, tid: i32, infos: &[Vec<u8>]) -> Vec<u8> {
        let infos = infos.concat();
        let mut event = u32::try_from(24 + infos.len()).expect("short").to_ne_bytes().to_vec();
        event.extend([3, 0]);
        event.extend(24_u16.to_ne_bytes());
        event.extend(mask.bits().to_ne_bytes());
        event.extend((-1_i32).to_ne_bytes());
        event.extend(tid.to_ne_bytes());
        event.extend(infos);
        event
    }

    /// An event of the root of a file system, which has no entry.
    fn written(mask: MaskFlags, tid: i32, handle: &[u8]) -> Vec<u8> {
        with_infos(mask, tid, &[info(libc::FAN_EVENT_INFO_TYPE_FID, handle, b"")])
    }

    #[track_caller]
    fn opened(bytes: &[u8]) -> OpenedHandle {
        match events(bytes).pop() {
            Some(HandleEvent::Opened(opened)) => opened,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn file_has_its_directory_and_its_name_there() {
        let handle = |bytes: &[u8]| FileHandle::new(1, bytes).expect("short");
        let entry = info(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &[1; 8], b"name\0\0\0\0");
        let file = info(libc::FAN_EVENT_INFO_TYPE_FID, &[2; 8], b"");
        let of_file = opened(&with_infos(MaskFlags::FAN_OPEN, 7, &[entry, file]));
        assert_eq!(of_file.handle, handle(&[2; 8]));
        let entry = of_file.entry.expect("a file is in a directory");
        assert_eq!((entry.directory, entry.name.as_slice()), (handle(&[1; 8]), &b"name"[..]));
        let own = info(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &[3; 8], b".\0\0\0");
        let mask = MaskFlags::FAN_OPEN | MaskFlags::FAN_ONDIR;
        let of_directory = opened(&with_infos(mask, 7, &[own]));
        assert_eq!(of_directory.handle, handle(&[3; 8]));
        assert!(of_directory.entry.is_none());
    }

    #[test]
    fn one_read_has_several_events() {
        let open = MaskFlags::FAN_OPEN;
        let mut bytes = written(open, 7, &[9; 8]);
        bytes.extend(written(open | MaskFlags::FAN_OPEN_EXEC, 7, &[9; 8]));
        bytes.extend(written(open | MaskFlags::FAN_ONDIR, 8, &[1; 12]));
        let events = events(&bytes);
        let threads = events.iter().map(|event| match event {
            HandleEvent::Opened(opened) => opened.tid.0,
            HandleEvent::Program => -1,
            HandleEvent::Overflow => -2,
        });
        assert_eq!(threads.collect::<Vec<_>>(), [7, -1, 8]);
    }

    #[test]
    fn cut_event_ends_the_events() {
        let bytes = written(MaskFlags::FAN_OPEN, 7, &[9; 8]);
        for length in 0..bytes.len() {
            assert!(events(&bytes[..length]).is_empty(), "{length}");
        }
        let mut long = written(MaskFlags::FAN_OPEN, 7, &[9; 8]);
        long[36..40].copy_from_slice(&1000_u32.to_ne_bytes());
        assert!(events(&long).is_empty());
    }
}
