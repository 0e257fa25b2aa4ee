//! Snapshot: state of the tasks and files as read from `/proc`.

use super::Tracker;
use crate::capture::fact::Text;
use crate::capture::header::Disk;
use crate::event::{OpenFlags, SeenFd};
use crate::operation::context::Observability;
use crate::operation::fd_table::SeenPosition;
use crate::operation::model::{FilePath, MountNamespace, PathSource};
use crate::operation::mount_namespaces::namespace_inode;
use crate::operation::process::KTHREADD;
use crate::units::{DevId, KernelTime, Pid, Tid};

impl Tracker {
    /// Adds a task of the snapshot.
    pub fn seen_task(&mut self, pid: Pid, tid: Tid, ppid: Pid, comm: &[u8]) {
        if ppid == KTHREADD || pid == KTHREADD {
            self.tasks.process(pid).info.is_kernel = true;
        }
        // The stream and the snapshot disagree about this number: the stream decides later.
        if self.tasks.is_other(pid, tid) {
            return;
        }
        let (process, thread) = self.tasks.thread(pid, tid);
        if thread.info.comm.is_empty() || !thread.announced {
            thread.info.comm = comm.to_vec();
        }
        if pid.0 == tid.0 && !process.announced {
            process.info.comm = comm.to_vec();
        }
        if ppid.0 > 0 {
            process.info.parent_pid.get_or_insert(ppid);
        }
    }

    /// Sets the user of a process from the snapshot. A user that is known already comes from the
    /// start of its program, and stays. Later changes are seen in its calls.
    pub fn seen_user(&mut self, pid: Pid, user: u32) {
        self.tasks.process(pid).info.user.get_or_insert(user);
    }

    /// Sets the place of a process from the snapshot. The place stays unknown if its changes are
    /// not recorded.
    pub fn seen_place(&mut self, pid: Pid, which: Text, path: &[u8]) {
        let Observability { directories, roots, .. } = self.context.followed;
        let mut place = self.tasks.process(pid).place.borrow_mut();
        self.context.names.note_directory(path, place.mounts);
        if which == Text::CWD && directories {
            place.seen_directory(path);
        } else if which == Text::ROOT && roots {
            place.seen_root(path);
        }
    }

    /// Sets the mount namespace of a process from `/proc/PID/ns/mnt`; process 0: that of the
    /// tracer, which comes first.
    pub fn seen_mounts(&mut self, pid: Pid, link: &[u8]) {
        let Some(inode) = namespace_inode(link) else { return };
        if pid.0 == 0 {
            self.tasks.spaces.is_own(inode);
        } else {
            let mounts = self.tasks.spaces.of(inode);
            self.tasks.process(pid).place.borrow_mut().mounts = mounts;
        }
    }

    /// Forgets the place of a process: it moved during the snapshot.
    pub fn lose_place(&mut self, pid: Pid) {
        let mut place = self.tasks.process(pid).place.borrow_mut();
        place.lose();
        place.mounts = MountNamespace::UNKNOWN;
    }

    /// Notes that this program makes calls of another table.
    pub fn seen_other_table(&mut self, pid: Pid) {
        let process = self.tasks.process(pid);
        process.abi.seen_other();
        if process.followed {
            self.ledger.other.add(pid, &process.info.comm);
        }
    }

    /// Adds a descriptor of the snapshot, at the time in the stream after its reading.
    pub fn seen_fd(&mut self, seen: &SeenFd, now: KernelTime) {
        self.advance_to(seen.begin);
        if !self.has_room_for_descriptor(seen) {
            return;
        }
        if seen.shared {
            self.context.names.share(&seen.link);
        }
        let losses = self.context.losses;
        let process = self.tasks.process(seen.pid);
        let mounts = process.place.borrow().mounts;
        let mut table = process.fds.borrow_mut();
        if !table.same_since(seen.fd, seen.begin) {
            return;
        }
        let known = table.get(seen.fd, losses);
        let description = known.unwrap_or_else(|| self.context.synthesize(&mut table, seen.fd));
        if description.file().pre_created {
            table.set_cloexec(seen.fd, OpenFlags(seen.flags).is_cloexec());
        }
        let path = FilePath::new(seen.link.clone(), PathSource::Snapshot);
        let at = SeenPosition { begin: seen.begin, position: seen.position, losses };
        if description.learn(path.within(mounts), seen.stat, seen.flags, seen.shared, at) {
            if self.context.names.changed_since(seen.begin) {
                description.doubt_name();
            }
            self.context.names.note(&description, now);
            self.files.opened(&description.file(), now);
        }
    }

    /// Sets the disks that were present at the start.
    pub fn has_disks(&mut self, disks: &[Disk], later: &[Disk]) {
        let all = disks.iter().chain(later);
        let unzoned = all.clone().filter(|it| it.has_no_zones());
        self.block.has_unzoned(unzoned.filter_map(|it| DevId::parse(&it.dev)));
        self.files.has_disks(all);
    }

    /// Adds the final extents of a file.
    pub fn seen_extents(&mut self, text: &[u8]) {
        self.files.load_final_extents(text);
    }

    /// Sets the time from which on events are switched off, one tracepoint after the other.
    pub fn switching_off(&mut self, time: KernelTime) {
        self.off_from = time;
    }

    /// Sets the mounted devices, each with its block size if its events count in blocks.
    pub fn seen_file_systems(&mut self, all: &[(DevId, Option<u64>)]) {
        self.files.file_systems(all);
    }

    /// Notes that file systems that use iomap report the targets of their writeback.
    pub fn reports_writeback(&mut self) {
        self.files.reports_writeback();
    }

    /// Sets the descriptors that have been the same since all tracepoints were switched on; they
    /// are added before the events.
    pub fn same_from_start(&mut self, seen: Vec<SeenFd>) {
        self.from_start = seen;
    }
}
