//! Handling of bio events, and reports of bios whose device has no requests.

use std::sync::Arc;

use super::anomaly::{AnomalyReason, BlockAnomaly};
use super::bio::{Bio, BioDeviceKind};
use super::event_context::EventContext;
use super::model::{
    BlockRequest, FlushRole, Inferred, RequestEnd, Submitter, SubmitterSource, UnfinishedRequest,
};
use super::request_id::RequestId;
use super::step::BlockStep;
use super::tracker::BlockTracker;
use crate::event::block::{BlockEvent, BlockPoint};
use crate::units::{KernelTime, SECTOR_BYTES};

impl BlockTracker {
    pub(super) fn push_bio(
        &mut self,
        at: &EventContext,
        event: &BlockEvent,
        out: &mut impl FnMut(BlockStep<'_>),
    ) {
        match event.point {
            BlockPoint::BioQueue => {
                let (kind, number) = self.bios.queue(at, event);
                // A bio that is passed on is reported at that time: until then it may be split.
                if kind == BioDeviceKind::Does {
                    self.report_begin(event, number, None, out);
                }
                self.enforce_bio_limit(at, event, out);
            }
            BlockPoint::Split => self.bios.split(event),
            BlockPoint::Remap => {
                let passed = self.bios.remap(at, event).filter(|it| it.reported.is_none());
                if let Some((passed, number)) = passed.map(|it| (it.event, it.number)) {
                    self.report_begin(&passed, number, Some(at.time), out);
                }
            }
            _ => match self.bios.complete(event) {
                Some((kind, bio)) => self.bio_done(kind, bio, at.time, event, out),
                None if self.bios.has_no_requests(event.dev) => {
                    anomaly(at, event, AnomalyReason::UnmatchedBio, out);
                }
                // The bio belongs to a request of an older kernel, or is older than the recording.
                None => {}
            },
        }
    }

    /// Reports the beginning of a bio.
    fn report_begin(
        &mut self,
        event: &BlockEvent,
        number: u64,
        passed_on: Option<KernelTime>,
        out: &mut impl FnMut(BlockStep<'_>),
    ) {
        let id = RequestId(self.next_id);
        let op = self.operation(event);
        let Some(bio) = self.bios.bio_mut(event.dev, number) else { return };
        self.next_id += 1;
        let mut request = BlockRequest { op, ..request_of(bio, id) };
        out(BlockStep::Queued(&request));
        if passed_on.is_some() {
            request.issued = passed_on;
            out(BlockStep::Issued(&request));
        }
        bio.reported = Some(Box::new(request));
    }

    fn bio_done(
        &mut self,
        kind: BioDeviceKind,
        mut bio: Bio,
        time: KernelTime,
        event: &BlockEvent,
        out: &mut impl FnMut(BlockStep<'_>),
    ) {
        let mut request = self.take_request(&mut bio, out);
        request.completed = Some(time);
        request.error = (event.error != 0).then_some(event.error.saturating_neg());
        request.is_stillborn = kind == BioDeviceKind::Requests;
        if !request.is_stillborn {
            request.bytes_done = u64::from(request.nr_sector) * SECTOR_BYTES;
        }
        request.ending = Some(RequestEnd::Completed);
        out(BlockStep::Ended(&request));
    }

    /// Returns the request that reports the bio; its beginning is reported now if it was not yet.
    fn take_request(&mut self, bio: &mut Bio, out: &mut impl FnMut(BlockStep<'_>)) -> BlockRequest {
        if let Some(reported) = bio.reported.take() {
            return *reported;
        }
        let op = self.operation(&bio.event);
        let request = BlockRequest { op, ..request_of(bio, RequestId(self.next_id)) };
        self.next_id += 1;
        out(BlockStep::Queued(&request));
        request
    }

    fn enforce_bio_limit(
        &mut self,
        at: &EventContext,
        event: &BlockEvent,
        out: &mut impl FnMut(BlockStep<'_>),
    ) {
        let Some(bio) = self.bios.too_many(event.dev, self.options.in_flight_limit) else { return };
        anomaly(at, event, AnomalyReason::TooManyBios, out);
        if let Some(mut reported) = bio.reported {
            reported.ending = Some(RequestEnd::Unfinished(UnfinishedRequest::GivenUp));
            out(BlockStep::Ended(&reported));
        }
    }

    /// Ends the capture: reports the end of reported bios, and reports the bios that wait for a
    /// request.
    pub(super) fn finish_bios(&mut self, out: &mut impl FnMut(BlockStep<'_>)) {
        for (kind, mut bio) in self.bios.drain() {
            let mut request = self.take_request(&mut bio, out);
            request.is_stillborn = kind == BioDeviceKind::Requests;
            request.ending = Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd));
            out(BlockStep::Ended(&request));
        }
    }
}

fn anomaly(
    at: &EventContext,
    event: &BlockEvent,
    reason: AnomalyReason,
    out: &mut impl FnMut(BlockStep<'_>),
) {
    out(BlockStep::Anomaly(&BlockAnomaly { at: *at, event: *event, reason }));
}

fn request_of(bio: &Bio, id: RequestId) -> BlockRequest {
    let BlockEvent { dev, sector, nr_sector, rwbs, .. } = bio.event;
    let is_demand = rwbs.is_preflush() && nr_sector == 0;
    let EventContext { pid, tid, .. } = bio.queued;
    BlockRequest {
        id,
        dev,
        op: rwbs.op(),
        rwbs,
        sector,
        nr_sector,
        bytes_done: 0,
        first_seen: BlockPoint::BioQueue,
        queued: None,
        inserted: None,
        issued: None,
        reissued: None,
        data_completed: None,
        completed: None,
        submitter: Some(Submitter { pid, tid, source: SubmitterSource::Bio }),
        error: None,
        merges: 0,
        requeues: 0,
        flush: if is_demand { FlushRole::Demand } else { FlushRole::None },
        inferred: Inferred::default(),
        is_stillborn: false,
        ending: None,
        parts: Arc::new(vec![bio.as_part()]),
    }
}
