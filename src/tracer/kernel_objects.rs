//! Instances, probes and perf events of a recording, and their release by a process of its own.
//!
//! For the removal of each the kernel waits for all CPUs, 20 to 120 ms; for perf events it waits at
//! the last close of each tracepoint. The program has ended by then, and its caller need not wait.
//! The new process inherits the locks of the instances, so at no moment another tracer takes them
//! for those of a dead one, and the perf events, which are off. That process removes the probes,
//! and keeps the instances for the next recording (`sys::instance_pool`). Until the events are
//! closed, a lock says that calls take longer (`sys::closing_lock`).

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use procfs::process::MountInfo;

use crate::sys::closing_lock::{self, ClosingLock};
use crate::sys::perf::{self, PerfEvent};
use crate::sys::probe_events::{self, ProbeGroup};
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::{self, Instance};
use crate::sys::{inheritance, instance_pool, mounts, proc, sandboxed_helper};

/// Hidden verb of the process that releases the objects of another one.
pub const VERB: &str = "release-kernel-objects";

/// Objects that exist in the kernel until they are removed. Dropping the value removes them, in
/// this order.
#[derive(Debug, Default)]
pub(super) struct KernelObjects {
    /// Perf events. A tracepoint of a probe is in use as long as it has an event.
    pub(super) events: Vec<PerfEvent>,
    /// Instances that record.
    pub(super) recording: Vec<Instance>,
    /// Probes, which those instances have recorded.
    pub(super) probes: Vec<ProbeGroup>,
    /// Instances that show that the tracer of the probes is alive.
    pub(super) markers: Vec<Instance>,
}

impl KernelObjects {
    /// Releases the objects in a process that outlives this one; removes them here, if that is not
    /// possible. The end of a container or of a service would end that process, too, and it would
    /// keep mounts of the caller's own in use.
    pub(super) fn release_in_background(mut self) {
        let closing = ClosingLock::take();
        let stays = proc::is_namespaced() || proc::is_service() || proc::has_own_mounts();
        if stays || self.hand_over(closing.as_ref()).is_err() {
            drop(self);
            return;
        }
        self.recording.drain(..).chain(self.markers.drain(..)).for_each(Instance::forget);
        self.probes.drain(..).for_each(ProbeGroup::forget);
    }

    /// Removes the objects here.
    pub(super) fn remove(self) {
        let _closing = ClosingLock::take();
        drop(self);
    }

    fn hand_over(&mut self, closing: Option<&ClosingLock>) -> io::Result<()> {
        let instances = self.recording.iter_mut().chain(&mut self.markers);
        let mut inherited =
            instances.map(Instance::pass_on).collect::<io::Result<Vec<BorrowedFd<'_>>>>()?;
        inherited.extend(self.events.iter().map(AsFd::as_fd));
        inherited.extend(closing.map(AsFd::as_fd));
        let mut command = Command::new("/proc/self/exe");
        command.arg0("iotrace-perf").arg(VERB).arg(std::process::id().to_string());
        // The process lives for a minute: it keeps no secrets of the caller.
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of a terminal do not reach it, and it keeps no file system busy.
        command.process_group(0).current_dir("/");
        inheritance::spawn_with(&mut command, &inherited).map(drop)
    }
}

/// Removes the probes of the process that has started this one, and its instances, except those
/// that the next recording may use.
///
/// # Errors
///
/// `ENOLCK`: that process has passed on no lock; those of reading tracefs.
pub fn release(owner: u32) -> io::Result<()> {
    leave_control_groups();
    let lock = closing_lock::path();
    let is_lock = |file: &Path| lock.as_deref() == Some(file);
    let is_in_instances =
        |file: &Path| file.parent().is_some_and(|parent| parent.ends_with("instances"));
    // A pipe of the user stays open as long as any process has it, and the close of an event takes
    // its time.
    let is_early = |file: &Path| perf::is_event(file) || is_lock(file);
    sandboxed_helper::close_all_but(|file| is_in_instances(file) || is_early(file));
    sandboxed_helper::close_all_but(|file| is_in_instances(file) || is_lock(file));
    let tracefs = Tracefs::find().map_err(io::Error::other)?;
    // Any file of the caller may be in a directory of that name.
    let instances = tracefs.root().join("instances");
    let is_instance = |file: &Path| file.parent() == Some(&*instances);
    sandboxed_helper::close_all_but(|file| is_instance(file) || is_lock(file));
    let inherited = tracefs_instance::inherited(&tracefs)?;
    if inherited.is_empty() {
        return Err(nix::errno::Errno::ENOLCK.into());
    }
    let (markers, recording) = inherited.into_iter().partition(Instance::is_marker);
    let cleared = instance_pool::clear_all(recording);
    // Now all events are off and closed. The instances that are left are in this directory.
    sandboxed_helper::close_all_but(is_instance);
    // The kernel empties all instances that have recorded a probe when the probe is removed: none
    // of these instances may have another owner by then.
    let are_removed = probe_events::remove_stale(&tracefs, |other| other != owner);
    drop::<Vec<Instance>>(markers);
    instance_pool::keep(&tracefs, if are_removed { cleared } else { Vec::new() })
}

/// Enters the first control group of each hierarchy, so that those of the caller can be removed.
/// One that does not allow it stays in use until the end of this process.
fn leave_control_groups() {
    let mounts = mounts::mounts_of("/proc/self").unwrap_or_default();
    // Only root can change the directories there.
    let is_whole = |mount: &MountInfo| {
        let is_cgroup = mount.fs_type.starts_with("cgroup") && mount.root == "/";
        is_cgroup && mount.mount_point.starts_with("/sys/fs/cgroup")
    };
    for mount in mounts.into_iter().filter(is_whole) {
        // No file is made or cut where there is no such list.
        let list = OpenOptions::new().write(true).open(mount.mount_point.join("cgroup.procs"));
        let _ = list.and_then(|mut list| list.write_all(b"0"));
    }
}
