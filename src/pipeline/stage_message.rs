//! Messages of the decode stage to the track stage; they own their values, so a thread may lie
//! between.

use std::io;

use super::error::PipelineError;
use crate::anomaly::Anomaly;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::Disk;
use crate::event::{Event, SeenFd};
use crate::operation::startup_buffer::StartupFacts;
use crate::units::{DevId, KernelTime};

/// A message. Rare ones are boxed: most messages are events, about one for each record.
#[derive(Debug)]
pub(super) enum StageMessage {
    /// The next event.
    Event(Event),
    /// A record could not be used.
    Anomaly(Box<Anomaly>),
    /// Bytes of the log could not.
    Damage(Box<Anomaly>),
    /// So many records were found.
    Records(u64),
    /// One of them is perf's own.
    Bookkeeping,
    /// A snapshot saw a task, whose it is, or one of [`FOR_TRACKER`].
    Fact(Box<Fact>),
    /// It saw a descriptor; that comes after what happened since.
    SeenFd(Box<SeenFd>, KernelTime),
    /// Mounts at the start, or mounts that are known too late for their place in time.
    FileSystems(Box<[(DevId, Option<u64>)]>),
    /// The opening is over; its events follow.
    Opened(Box<StartupFacts>),
    /// The disks that there were at the end.
    Disks(Vec<Disk>),
    /// All that happened before this time has been passed on.
    ToldUntil(KernelTime),
    /// A round is over.
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

/// Why the front cannot go on.
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

/// Where the front passes things on to.
pub(super) trait StageOutput {
    /// Why no more is taken, or why there is no more.
    type Error: From<StageFailure>;

    /// Takes the next one.
    fn take(&mut self, passed: StageMessage) -> Result<(), Self::Error>;
}
