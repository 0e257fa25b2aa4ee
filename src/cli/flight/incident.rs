//! Incidents: triggers that have fired, and the log that is written for them.

use std::fs::File;
use std::thread::JoinHandle;

use super::part_file::{PartFile, WrittenPart};
use super::part_names::PartNames;
use crate::analysis::trigger::{Firing, Trigger};
use crate::capture::frame_ring::RingFrame;
use crate::capture::header::{FiredTrigger, Header};
use crate::cli::error::CliError;
use crate::operation::disk;
use crate::sys::output_dir::Users;
use crate::units::KernelTime;

/// Triggers that are listed in one incident; those beyond are counted.
const LISTED_MAX: usize = 64;

/// Incident whose log is not written yet.
#[derive(Debug, Default)]
pub(super) struct Incident {
    pub(super) triggers: Vec<FiredTrigger>,
    pub(super) left_out: u64,
    /// Time until which is recorded.
    pub(super) due: KernelTime,
    /// True if the ring keeps what it held at the first trigger until the log is written.
    pub(super) is_pinned: bool,
}

impl Incident {
    /// Adds a trigger.
    pub(super) fn add(&mut self, trigger: FiredTrigger) {
        if self.triggers.len() < LISTED_MAX {
            self.triggers.push(trigger);
        } else {
            self.left_out += 1;
        }
    }

    /// Returns true if the ring keeps what it held at the first trigger.
    pub(super) fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// Returns the number of its triggers.
    pub(super) fn count(&self) -> u64 {
        self.triggers.len() as u64 + self.left_out
    }
}

/// Work of the thread that writes a log: the disk may be what is slow.
pub(super) struct IncidentWriter {
    pub(super) log: File,
    pub(super) header: Header,
    pub(super) frames: Vec<RingFrame>,
    pub(super) end: KernelTime,
    pub(super) cpu_ns: u64,
    pub(super) users: Users,
    pub(super) names: PartNames,
}

/// Result of that thread, and the names for the next one.
pub(super) type IncidentResult = (Result<WrittenPart, CliError>, PartNames);

impl IncidentWriter {
    /// Starts the thread.
    pub(super) fn start(self) -> std::io::Result<JoinHandle<IncidentResult>> {
        std::thread::Builder::new().name("iotrace-dump".into()).spawn(move || self.write())
    }

    fn write(mut self) -> IncidentResult {
        let begun = PartFile::begin(&mut self.names, &self.users, self.header);
        let written = begun.and_then(|mut part| match part.copy(&self.log, &self.frames) {
            Ok(()) => part.finish("incident", self.end, self.cpu_ns),
            Err(error) => Err(part.abandoned(error)),
        });
        (written, self.names)
    }
}

/// Returns the trigger as a log has it.
pub(super) fn fired(firing: &Firing, triggers: &[Trigger], header: &Header) -> FiredTrigger {
    let trigger = triggers.get(firing.trigger);
    let subject = &firing.subject;
    let names = disk::names(&header.disks);
    let device = subject.dev.map(|dev| {
        let name = names.iter().find(|name| name.0 == dev).map(|name| name.1.clone());
        name.map_or_else(|| dev.to_string(), |name| name.to_string())
    });
    FiredTrigger {
        trigger: trigger.map(|trigger| trigger.text.clone()).unwrap_or_default(),
        time_ns: firing.time.0,
        value: firing.value,
        unit: trigger.map(|trigger| trigger.unit().to_owned()).unwrap_or_default(),
        subject: subject.call.clone().or(device).unwrap_or_default(),
        pid: subject.task.map(|(pid, _)| pid.0),
        tid: subject.task.map(|(_, tid)| tid.0),
        comm: subject.comm.escape_ascii().to_string(),
        path: subject.path.as_ref().map(|path| path.escape_ascii().to_string()),
        is_running: firing.is_running,
    }
}

/// Returns a trigger by hand.
pub(super) fn by_hand(name: &str, time: KernelTime) -> FiredTrigger {
    FiredTrigger { trigger: name.to_owned(), time_ns: time.0, ..FiredTrigger::default() }
}
