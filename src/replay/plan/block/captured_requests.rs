//! Captured requests of each device.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::event::block::{BlockPoint, RequestOp};
use crate::operation::block::{BlockRequest, BlockStep, FlushRole, RequestEnd};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, ReplayTime, SECTOR_BYTES};

/// Kind of a replayable request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapturedRequestKind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes the device's cache durable.
    Flush,
    /// Marks bytes as no longer needed.
    Discard,
    /// Writes zeros.
    WriteZeroes,
}

/// All kinds with their captured operations.
const KINDS: [(CapturedRequestKind, RequestOp); 5] = [
    (CapturedRequestKind::Read, RequestOp::Read),
    (CapturedRequestKind::Write, RequestOp::Write),
    (CapturedRequestKind::Flush, RequestOp::Flush),
    (CapturedRequestKind::Discard, RequestOp::Discard),
    (CapturedRequestKind::WriteZeroes, RequestOp::WriteZeroes),
];

impl CapturedRequestKind {
    fn of(op: RequestOp) -> Option<Self> {
        KINDS.iter().find(|it| it.1 == op).map(|it| it.0)
    }

    /// Returns the word for the kind in every output.
    pub fn as_str(self) -> &'static str {
        KINDS.iter().find(|it| it.0 == self).map_or("", |it| it.1.as_str())
    }

    /// Returns true if the kind moves bytes between memory and the device.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// Captured request, with times of type `T`: [`KernelTime`] until it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedRequest<T = ReplayTime> {
    /// Kind of the request.
    pub kind: CapturedRequestKind,
    /// Offset of its first byte; meaningless for a flush.
    pub offset: u64,
    /// Length in bytes; 0 for a flush.
    pub bytes: u64,
    /// Time of issue to the driver.
    pub issued: T,
    /// Time of completion; not before `issued`.
    pub completed: T,
    /// Error number (positive) of a failed request.
    pub error: Option<i32>,
    /// Request was durable on completion (FUA).
    pub is_fua: bool,
}

impl CapturedRequest<KernelTime> {
    /// Returns the request with times since `first`, the first issue.
    pub(super) fn since(self, first: KernelTime) -> CapturedRequest {
        let Self { kind, offset, bytes, issued, completed, error, is_fua } = self;
        let [issued, completed] = [issued, completed].map(|time| ReplayTime::of(time, first));
        CapturedRequest { kind, offset, bytes, issued, completed, error, is_fua }
    }
}

/// Reason why a request is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestSkipReason {
    /// Changes data on the device, which is not allowed by default.
    Writes,
    /// Discards data on the device, which is not allowed by default.
    Discards,
    /// Issued before the capture, or completed after it.
    NotWhole,
    /// Kind that only drivers issue.
    OtherKind,
    /// Failed before a request was allocated.
    Stillborn,
}

impl RequestSkipReason {
    /// Returns the word for the reason in machine-readable outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Writes => "not-allowed",
            Self::Discards => "discard-not-allowed",
            Self::NotWhole => "not-whole",
            Self::OtherKind => "other-kind",
            Self::Stillborn => "stillborn",
        }
    }

    /// Returns a sentence for the report.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Writes => "only with --write: they change what is on the device",
            Self::Discards => "only with --discard: they give up what is on the device",
            Self::NotWhole => "issued before the capture, or completed after it",
            Self::OtherKind => "of a kind that only drivers issue",
            Self::Stillborn => "failed before they were requests",
        }
    }
}

/// Captured requests of one device.
#[derive(Clone, Debug, Default)]
pub struct CapturedRequests {
    /// Replayable requests, in the order of their ends.
    pub all: Vec<CapturedRequest<KernelTime>>,
    /// Number of requests that cannot be replayed, by reason and operation.
    pub left: BTreeMap<(RequestSkipReason, RequestOp), u64>,
    /// Number of requests that were merged into others, and of demands for flushes, which the
    /// device received as requests of their own.
    pub followed: u64,
}

/// Captured requests of all devices: a fold over steps.
#[derive(Debug, Default)]
pub struct BlockRequests {
    /// Requests by device.
    pub devices: BTreeMap<DevId, CapturedRequests>,
}

impl BlockRequests {
    fn ended(&mut self, request: &BlockRequest) {
        let requests = self.devices.entry(request.dev).or_default();
        if matches!(request.ending, Some(RequestEnd::Absorbed { .. }))
            || request.flush == FlushRole::Demand
        {
            requests.followed += 1;
            return;
        }
        match captured_request(request) {
            Ok(captured) => requests.all.push(captured),
            Err(why) => *requests.left.entry((why, request.op)).or_default() += 1,
        }
    }
}

fn captured_request(
    request: &BlockRequest,
) -> Result<CapturedRequest<KernelTime>, RequestSkipReason> {
    if request.is_stillborn {
        return Err(RequestSkipReason::Stillborn);
    }
    let kind = CapturedRequestKind::of(request.op).ok_or(RequestSkipReason::OtherKind)?;
    // Devices without requests (bio-based drivers) are issued bios.
    let is_bio = request.first_seen == BlockPoint::BioQueue;
    let issued = request.issued.or_else(|| request.begin().filter(|_| is_bio));
    // The flushes of a flush sequence are requests of their own.
    let completed = request.data_completed.or(request.completed);
    let is_completed = request.ending == Some(RequestEnd::Completed);
    let (Some(issued), Some(completed), true) = (issued, completed, is_completed) else {
        return Err(RequestSkipReason::NotWhole);
    };
    Ok(CapturedRequest {
        kind,
        offset: request.sector.saturating_mul(SECTOR_BYTES),
        bytes: if kind == CapturedRequestKind::Flush { 0 } else { request.bytes() },
        issued,
        completed: completed.max(issued),
        error: request.error,
        is_fua: request.rwbs.is_fua(),
    })
}

impl Sink for BlockRequests {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Block { step: BlockStep::Ended(request), .. } = step {
            self.ended(request);
        }
        Ok(())
    }
}
