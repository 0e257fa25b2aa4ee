//! What each device was asked.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::event::block::{BlockPoint, RequestOp};
use crate::operation::block::{BlockRequest, BlockStep, Ending, FlushRole};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// What can be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What the device has cached is made durable.
    Flush,
    /// What is there is no longer needed.
    Discard,
    /// Zeros are written.
    WriteZeroes,
}

/// All, and what they are in the capture.
const KINDS: [(Kind, RequestOp); 5] = [
    (Kind::Read, RequestOp::Read),
    (Kind::Write, RequestOp::Write),
    (Kind::Flush, RequestOp::Flush),
    (Kind::Discard, RequestOp::Discard),
    (Kind::WriteZeroes, RequestOp::WriteZeroes),
];

impl Kind {
    fn of(op: RequestOp) -> Option<Self> {
        KINDS.iter().find(|it| it.1 == op).map(|it| it.0)
    }

    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        KINDS.iter().find(|it| it.0 == self).map_or("", |it| it.1.as_str())
    }

    /// It moves bytes between memory and the device.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// A request of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What.
    pub kind: Kind,
    /// Its first byte; nothing that counts for a flush.
    pub offset: u64,
    /// Its length; 0 for a flush.
    pub bytes: u64,
    /// When the driver got it.
    pub issued: u64,
    /// When it was done; not before `issued`.
    pub completed: u64,
    /// The error number (positive) that it failed with.
    pub error: Option<i32>,
    /// It was durable when it was done.
    pub is_fua: bool,
}

/// Why a request is not asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotAsked {
    /// It changes what is on the device, and nobody has allowed that.
    Writes,
    /// It gives up what is on the device, and nobody has allowed that.
    Discards,
    /// It was issued before the capture, or done behind it.
    NotWhole,
    /// Drivers are asked for it by themselves.
    OtherKind,
    /// It failed before it was a request.
    Stillborn,
}

impl NotAsked {
    /// The word for it in outputs for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Writes => "not-allowed",
            Self::Discards => "discard-not-allowed",
            Self::NotWhole => "not-whole",
            Self::OtherKind => "other-kind",
            Self::Stillborn => "stillborn",
        }
    }

    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Writes => "only with --write: they change what is on the device",
            Self::Discards => "only with --discard: they give up what is on the device",
            Self::NotWhole => "issued before the capture, or done behind it",
            Self::OtherKind => "of a kind that only drivers ask for",
            Self::Stillborn => "failed before they were requests",
        }
    }
}

/// What one device was asked.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// In the order of their ends.
    pub all: Vec<Asked>,
    /// What cannot be asked again, by operation.
    pub left: BTreeMap<(NotAsked, RequestOp), u64>,
    /// Requests that became a part of others, and demands for flushes that the device got as its own.
    pub followed: u64,
}

/// What all devices were asked: a fold.
#[derive(Debug, Default)]
pub struct BlockRequests {
    /// By device.
    pub devices: BTreeMap<DevId, Requests>,
}

impl BlockRequests {
    fn ended(&mut self, request: &BlockRequest) {
        let requests = self.devices.entry(request.dev).or_default();
        if matches!(request.ending, Some(Ending::Absorbed { .. }))
            || request.flush == FlushRole::Demand
        {
            requests.followed += 1;
            return;
        }
        match asked(request) {
            Ok(asked) => requests.all.push(asked),
            Err(why) => *requests.left.entry((why, request.op)).or_default() += 1,
        }
    }
}

fn asked(request: &BlockRequest) -> Result<Asked, NotAsked> {
    if request.is_stillborn {
        return Err(NotAsked::Stillborn);
    }
    let kind = Kind::of(request.op).ok_or(NotAsked::OtherKind)?;
    // Devices without requests are asked with bios.
    let is_bio = request.first_seen == BlockPoint::BioQueue;
    let issued = request.issued.or_else(|| request.begin().filter(|_| is_bio));
    // Of a flush sequence the flushes are requests of their own.
    let completed = request.data_completed.or(request.completed);
    let is_completed = request.ending == Some(Ending::Completed);
    let (Some(issued), Some(completed), true) = (issued, completed, is_completed) else {
        return Err(NotAsked::NotWhole);
    };
    Ok(Asked {
        kind,
        offset: request.sector.saturating_mul(SECTOR_BYTES),
        bytes: if kind == Kind::Flush { 0 } else { request.bytes() },
        issued: issued.0,
        completed: completed.0.max(issued.0),
        error: request.error,
        is_fua: request.rwbs.is_fua(),
    })
}

impl Sink for BlockRequests {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Block { step: BlockStep::Ended(request), .. } = step {
            self.ended(request);
        }
        Ok(())
    }
}
