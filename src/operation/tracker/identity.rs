//! Identities of processes: program, arguments and control group.

use std::sync::Arc;

use super::Tracker;
use crate::event::Event;
use crate::event::identity::{IdentityPart, SeenIdentity};
use crate::operation::cgroup;
use crate::operation::process::Process;
use crate::operation::step::{Sink, Step};
use crate::units::{KernelTime, Pid};

impl Tracker {
    /// Takes a part of an identity that was read at this time.
    pub(super) fn identified<S: Sink>(
        &mut self,
        at: KernelTime,
        seen: &SeenIdentity,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Some(process) = self.tasks.known_process_mut(seen.pid) else { return Ok(()) };
        match &seen.part {
            // Until its exec a launched process runs the tracer.
            IdentityPart::Command(_) | IdentityPart::Executable(_) if process.before_exec => {}
            IdentityPart::Executable(path) => {
                process.info.program = Some(Arc::from(path.as_slice()))
            }
            IdentityPart::Command(arguments) => {
                process.info.command = Some(Arc::from(arguments.as_slice()));
            }
            IdentityPart::Cgroup(text) => process.info.cgroup = cgroup::path(text).map(Arc::from),
        }
        announce(at, process, sink)
    }

    /// Handles the moment from which a process runs the program of this path.
    pub(super) fn runs_program<S: Sink>(
        &mut self,
        event: &Event,
        path: &[u8],
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Some(process) = self.tasks.known_process_mut(event.pid) else { return Ok(()) };
        process.info.program = Some(Arc::from(path));
        announce(event.time, process, sink)
    }

    /// Sets the program that a process runs, as the snapshot has shown.
    pub fn seen_program(&mut self, pid: Pid, path: &[u8]) {
        let process = self.tasks.process(pid);
        process.abi.is_user();
        if !process.before_exec {
            process.info.program = Some(Arc::from(path));
        }
    }

    /// Sets the rank of a process in a parallel job.
    pub fn is_rank(&mut self, pid: Pid, rank: u64) {
        self.tasks.process(pid).info.rank = Some(rank);
    }

    /// Sets the arguments with which the recording launches its program.
    pub fn launches(&mut self, root: Pid, arguments: &[String]) {
        let bytes: Vec<u8> =
            arguments.iter().flat_map(|word| word.bytes().chain(std::iter::once(0))).collect();
        self.launched = Some((root, Arc::from(bytes)));
    }
}

/// Reports a new identity, if the process was reported.
pub(super) fn announce<S: Sink>(
    at: KernelTime,
    process: &Process,
    sink: &mut S,
) -> Result<(), S::Error> {
    if process.announced { sink.step(at, &Step::Identified(&process.info)) } else { Ok(()) }
}
