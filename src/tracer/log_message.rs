//! Messages to the log thread: records, facts, and the ends of rounds.

use std::sync::mpsc::SyncSender;

use super::tracepoint_plan::RingKind;
use crate::capture::fact::Fact;
use crate::units::{KernelTime, Pid};

/// Message to the log thread.
#[derive(Debug)]
pub enum Message {
    /// Records of one ring.
    Data(Data),
    /// Facts. Facts with a process are kept only if the process is followed.
    Facts(Vec<(Option<Pid>, Fact)>),
    /// All rings of this group of CPUs were taken after this time.
    Round(usize, KernelTime),
    /// A segment begins: its snapshot follows. The log thread returns the followed processes.
    Segment(KernelTime, SyncSender<Vec<Pid>>),
}

impl Message {
    /// Returns the memory that the message takes until it is written, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Data(data) => data.bytes.len(),
            Self::Facts(facts) => facts.iter().map(|it| size_of_val(it) + it.1.heap_bytes()).sum(),
            Self::Round(..) | Self::Segment(..) => 0,
        }
    }
}

/// Whole records of one ring.
#[derive(Debug)]
pub struct Data {
    /// The ring's CPU.
    pub cpu: u32,
    /// Kind of the ring.
    pub ring: RingKind,
    /// Index into the header's `layouts`.
    pub layout: u16,
    /// The records.
    pub bytes: Vec<u8>,
}
