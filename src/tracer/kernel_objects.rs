//! Instances and probes of a recording, and their removal by a process of its own.
//!
//! For each of them the kernel waits for all CPUs, 20 to 120 ms. The program has ended by then, and
//! its caller need not wait. The new process inherits the locks of the instances, so at no moment
//! another tracer takes them for those of a dead one.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::sys::probe_events::ProbeGroup;
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::{self, Instance};
use crate::sys::{proc, sandboxed_helper};

/// Hidden verb of the process that removes the objects of another one.
pub const VERB: &str = "remove-kernel-objects";

/// Objects that exist in the kernel until they are removed. Dropping the value removes them, in
/// this order.
#[derive(Debug, Default)]
pub(super) struct KernelObjects {
    /// Instances that record.
    pub(super) recording: Vec<Instance>,
    /// Probes, which those instances have recorded.
    pub(super) probes: Vec<ProbeGroup>,
    /// Instances that show that the tracer of the probes is alive.
    pub(super) markers: Vec<Instance>,
}

impl KernelObjects {
    /// Removes the objects in a process that outlives this one; here, if that is not possible. The
    /// end of a container or of a service would end that process, too.
    pub(super) fn remove_in_background(mut self) {
        if proc::is_namespaced() || proc::is_service() || self.hand_over().is_err() {
            return;
        }
        self.recording.drain(..).chain(self.markers.drain(..)).for_each(Instance::forget);
        self.probes.drain(..).for_each(ProbeGroup::forget);
    }

    fn hand_over(&mut self) -> io::Result<()> {
        for instance in self.recording.iter_mut().chain(&mut self.markers) {
            instance.pass_on()?;
        }
        let mut command = Command::new("/proc/self/exe");
        command.arg0("iotrace-perf").arg(VERB).arg(std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of a terminal do not reach it, and it keeps no file system busy.
        command.process_group(0).current_dir("/").spawn().map(drop)
    }
}

/// Removes the objects of the process that has started this one.
///
/// # Errors
///
/// `ENOLCK`: that process has passed on no lock; those of reading tracefs.
pub fn remove(owner: u32) -> io::Result<()> {
    let tracefs = Tracefs::find().map_err(io::Error::other)?;
    // A pipe of the user stays open as long as any process has it.
    sandboxed_helper::close_all_but(&tracefs.root().join("instances"));
    tracefs_instance::remove_inherited(&tracefs, owner)
}
