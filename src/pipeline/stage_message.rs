//! Messages of the decode stage to the track stage; they own their values, so the stages may run in
//! different threads.

use std::io;

use super::error::PipelineError;
use crate::anomaly::Anomaly;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::Disk;
use crate::event::{Event, SeenFd};
use crate::naming::startup_buffer::StartupFacts;
use crate::units::{DevId, KernelTime};

/// A message. Rare ones are boxed: most messages are events, about one for each record.
#[derive(Debug)]
pub(super) enum StageMessage {
    /// The next event.
    Event(Event),
    /// A record could not be used.
    Anomaly(Box<Anomaly>),
    /// Bytes of the log could not be used.
    Damage(Box<Anomaly>),
    /// Number of records that were found.
    Records(u64),
    /// One of them is a bookkeeping record of perf.
    Bookkeeping,
    /// Number of those that are later than the time to which the log is read.
    Later(u64),
    /// A snapshot has a task, its user, or one of [`FOR_TRACKER`] and [`ALSO_KEPT`].
    Fact(Box<Fact>),
    /// A snapshot has a descriptor; later events come first.
    SeenFd(Box<SeenFd>, KernelTime),
    /// Mounts at the start, or mounts that are known too late for their place in time.
    FileSystems(Box<[(DevId, Option<u64>)]>),
    /// The startup buffer has ended; its events follow.
    Opened(Box<StartupFacts>),
    /// Disks that existed at the end.
    Disks(Vec<Disk>),
    /// All events before this time have been passed on.
    CompleteUntil(KernelTime),
    /// A round has ended.
    Round,
}

/// Texts that only the tracker reads.
pub(super) const FOR_TRACKER: [Text; 8] = [
    Text::CWD,
    Text::ROOT,
    Text::MOUNTS,
    Text::EXE,
    Text::MAPS,
    Text::BITS,
    Text::EXTENTS,
    Text::SWITCHING_OFF,
];

/// Texts that the next stage reads, and the summary keeps.
pub(super) const ALSO_KEPT: [Text; 2] = [Text::DISKSTATS_START, Text::MOUNTINFO];

/// Reason for which the decode stage cannot continue.
#[derive(Debug)]
pub(super) enum StageFailure {
    /// A kind of record that this version does not read.
    Layout(usize),
    /// The log cannot be read on.
    Read(io::Error),
}

impl<E> From<StageFailure> for PipelineError<E> {
    fn from(failure: StageFailure) -> Self {
        match failure {
            StageFailure::Layout(number) => Self::Layout(number),
            StageFailure::Read(error) => Self::Read(error),
        }
    }
}

/// Destination of the decode stage's messages.
pub(super) trait StageOutput {
    /// Reason for which no more messages are accepted, or come.
    type Error: From<StageFailure>;

    /// Takes the next message.
    fn take(&mut self, passed: StageMessage) -> Result<(), Self::Error>;
}
