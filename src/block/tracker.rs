//! Block tracker: hands each event to its rule, begins requests, and ends those whose end was not
//! seen.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::anomaly::{AnomalyReason, BlockAnomaly};
use super::bio::BioLayer;
use super::device::{DeviceRequests, TrackedRequest};
use super::event_context::EventContext;
use super::model::{
    BlockRequest, FlushRole, Inferred, RequestEnd, Submitter, SubmitterSource, UnfinishedRequest,
};
use super::request_id::RequestId;
use super::request_part::RequestPart;
use super::states::{BlockTransition, State, TransitionMatch, fit};
use super::step::BlockStep;
use crate::event::block::{BlockEvent, BlockPoint, RequestOp};
use crate::units::DevId;

/// Event kinds of the capture, and the limit of the tracker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// True if merge events are recorded. Without them a request that grew is recognized at insert
    /// and issue, and the requests over which it grew count as absorbed.
    pub merges_recorded: bool,
    /// True if requeue events are recorded. Without them a second insert or issue of a request
    /// implies a requeue.
    pub requeues_recorded: bool,
    /// Requests in flight per device; beyond this number the oldest is dropped.
    pub in_flight_limit: usize,
}

/// Default limit, above the capacity of any device: queues hold at most about ten thousand requests
/// (`nr_requests`). Requests that accumulate up to this number are those whose end was lost.
const IN_FLIGHT_LIMIT: usize = 1 << 20;

impl Default for BlockOptions {
    fn default() -> Self {
        Self { merges_recorded: true, requeues_recorded: true, in_flight_limit: IN_FLIGHT_LIMIT }
    }
}

/// Tracker of block requests: takes block events and emits the steps of requests.
#[derive(Debug, Default)]
pub struct BlockTracker {
    pub(super) options: BlockOptions,
    devices: FxHashMap<DevId, DeviceRequests>,
    /// Devices without zones.
    unzoned: FxHashSet<DevId>,
    pub(super) bios: BioLayer,
    pub(super) next_id: u64,
    losses: u32,
}

impl BlockTracker {
    /// Creates a tracker without state.
    pub fn new(options: BlockOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Registers devices that have no zones.
    pub fn has_unzoned(&mut self, devices: impl Iterator<Item = DevId>) {
        self.unzoned.extend(devices);
    }

    /// Returns the operation that a bio requested. `N` denotes writes of zeroes, operations on
    /// zones, and driver commands (`blk_fill_rwbs()` in kernel/trace/blktrace.c; zone operations
    /// have letters from Linux 6.18 on). A driver command has no bio, and all operations on zones
    /// but an append have no length (`blkdev_zone_mgmt()` in block/blk-zoned.c).
    pub(super) fn operation(&self, event: &BlockEvent) -> RequestOp {
        match event.rwbs.op() {
            RequestOp::Other if event.nr_sector > 0 && self.unzoned.contains(&event.dev) => {
                RequestOp::WriteZeroes
            }
            op => op,
        }
    }

    /// Takes the next event; events of all devices come in time order. Emits at least one step for
    /// each event of a request.
    pub fn push(
        &mut self,
        at: &EventContext,
        event: &BlockEvent,
        out: &mut impl FnMut(BlockStep<'_>),
    ) {
        if event.point.is_of_bio() {
            return self.push_bio(at, event, out);
        }
        let operation = self.operation(event);
        let device = self.devices.entry(event.dev).or_default();
        let mut push = EventInput {
            options: self.options,
            bios: &mut self.bios,
            next_id: &mut self.next_id,
            losses: self.losses,
            device,
            at: *at,
            event: *event,
            class: event.rwbs.op(),
            operation,
            out,
        };
        push.dispatch();
        push.enforce_limit();
    }

    /// Registers a loss of records: from now on, requests in flight match only where newer ones do
    /// not.
    pub fn records_lost(&mut self) {
        self.losses = self.losses.saturating_add(1);
        self.bios.records_lost();
    }

    /// Ends the capture: emits every request in flight as unfinished, in the order of their
    /// beginnings.
    pub fn finish(&mut self, out: &mut impl FnMut(BlockStep<'_>)) {
        let mut open: Vec<TrackedRequest> =
            self.devices.drain().flat_map(|(_, device)| device.drain()).collect();
        open.sort_unstable_by_key(|it| it.request.id);
        self.finish_bios(out);
        for mut it in open {
            it.request.ending = Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd));
            out(BlockStep::Ended(&it.request));
        }
    }
}

/// One event together with the state that it changes. The rules are in `dispatch`, `complete`,
/// `merge` and `flush`.
pub(super) struct EventInput<'a> {
    pub options: BlockOptions,
    pub bios: &'a mut BioLayer,
    pub next_id: &'a mut u64,
    pub losses: u32,
    pub device: &'a mut DeviceRequests,
    pub at: EventContext,
    pub event: BlockEvent,
    /// Operation by the letters alone, by which requests are recognized.
    pub class: RequestOp,
    /// Operation if the request came from a bio.
    pub operation: RequestOp,
    pub out: &'a mut dyn FnMut(BlockStep<'_>),
}

impl EventInput<'_> {
    fn dispatch(&mut self) {
        match (self.event.point, self.class) {
            (BlockPoint::GetRq, _) => {
                self.begin();
            }
            (BlockPoint::Insert, RequestOp::Flush) => self.flush_inserted(),
            (BlockPoint::Issue, RequestOp::Flush) => self.flush_issued(),
            (BlockPoint::Requeue, RequestOp::Flush) => self.flush_requeued(),
            (BlockPoint::Complete, RequestOp::Flush) => self.flush_completed(),
            (BlockPoint::Insert, _) => self.inserted(),
            (BlockPoint::Issue, _) => self.issued(),
            (BlockPoint::Requeue, _) => self.requeued(),
            (BlockPoint::Complete, _) => self.completed(),
            (BlockPoint::BackMerge, _) => self.back_merged(),
            (BlockPoint::FrontMerge, _) => self.front_merged(),
            (BlockPoint::RqMerge, _) => self.absorbed(),
            // Events of bios are handled in `bios.rs`.
            (
                BlockPoint::BioQueue
                | BlockPoint::Split
                | BlockPoint::Remap
                | BlockPoint::BioComplete,
                _,
            ) => {}
        }
    }

    /// Returns the first sector of the event. Driver commands have none: 0 at issue, -1 at
    /// completion (`blk_rq_trace_sector()`).
    pub(super) fn sector(&self) -> u64 {
        if self.class == RequestOp::Other && self.event.sector == u64::MAX {
            0
        } else {
            self.event.sector
        }
    }

    /// Begins a request with this event.
    pub(super) fn begin(&mut self) -> RequestId {
        let id = RequestId(*self.next_id);
        *self.next_id += 1;
        let it = self.newborn(id);
        (self.out)(BlockStep::Queued(&it.request));
        self.device.add(it);
        id
    }

    fn newborn(&mut self, id: RequestId) -> TrackedRequest {
        let BlockEvent { point, dev, nr_sector, rwbs, .. } = self.event;
        let is_getrq = point == BlockPoint::GetRq;
        let (state, flush, op) = match (self.class, is_getrq && rwbs.is_preflush(), nr_sector) {
            (RequestOp::Flush, _, _) => {
                (State::Queued, FlushRole::Device { serves: self.flush_link() }, RequestOp::Flush)
            }
            (RequestOp::Other, false, _) if is_getrq => {
                (State::Queued, FlushRole::None, self.operation)
            }
            (op, true, 0) => (State::Demand, FlushRole::Demand, op),
            (op, true, _) => (State::FlushWait, FlushRole::Sequence, op),
            (op, false, _) => (State::Queued, FlushRole::None, op),
        };
        let parts: Vec<RequestPart> = match is_getrq {
            true => Vec::from_iter(self.bios.take(&self.at, &self.event)),
            false => Vec::new(),
        };
        let request = BlockRequest {
            id,
            dev,
            op,
            rwbs,
            sector: self.sector(),
            nr_sector,
            bytes_done: 0,
            first_seen: point,
            queued: is_getrq.then_some(self.at.time),
            inserted: None,
            issued: None,
            reissued: None,
            data_completed: None,
            completed: None,
            submitter: self.submitter(parts.first()),
            error: None,
            merges: 0,
            requeues: 0,
            flush,
            inferred: Inferred::default(),
            is_stillborn: false,
            ending: None,
            parts: Arc::new(parts),
        };
        TrackedRequest {
            position: request.sector,
            request,
            state,
            class: self.class,
            left: nr_sector,
            losses_before: self.losses,
        }
    }

    /// Returns the submitter of the request. Flushes, and requests at their issue, are sent by any
    /// task that runs the queue: such a task is not the submitter.
    fn submitter(&self, part: Option<&RequestPart>) -> Option<Submitter> {
        if let Some(EventContext { pid, tid, .. }) = part.map(|it| it.queued) {
            return Some(Submitter { pid, tid, source: SubmitterSource::Bio });
        }
        let source = match (self.event.point, self.class) {
            (BlockPoint::GetRq, _) => SubmitterSource::GetRq,
            (BlockPoint::Insert, op) if op != RequestOp::Flush => SubmitterSource::Insert,
            _ => return None,
        };
        Some(Submitter { pid: self.at.pid, tid: self.at.tid, source })
    }

    /// Returns the request to which this event refers: by the table, the length, losses in between,
    /// and age, in this order.
    pub(super) fn find(&self, deed: BlockTransition) -> Option<(RequestId, TransitionMatch)> {
        self.device
            .starting_at(self.class, self.sector())
            .filter_map(|tracked| {
                let fit = self.suits(tracked, deed)?;
                let is_stale = tracked.losses_before != self.losses;
                Some((fit, self.misfit(tracked, deed), is_stale, tracked.request.id))
            })
            .min()
            .map(|(fit, _, _, id)| (id, fit))
    }

    fn suits(&self, tracked: &TrackedRequest, deed: BlockTransition) -> Option<TransitionMatch> {
        let is_stale = tracked.losses_before != self.losses;
        match fit(tracked.state, deed) {
            TransitionMatch::Expected => Some(TransitionMatch::Expected),
            // A request that has sectors left cannot end with an empty completion before it went to
            // the driver.
            TransitionMatch::Unissued => (deed != BlockTransition::CompleteNothing
                || tracked.left == 0)
                .then_some(TransitionMatch::Unissued),
            // A returned request comes back unchanged; another length is another request at the
            // same place.
            TransitionMatch::ImpliesRequeue => ((!self.options.requeues_recorded || is_stale)
                && tracked.left == self.event.nr_sector)
                .then_some(TransitionMatch::ImpliesRequeue),
            TransitionMatch::Never => None,
        }
    }

    /// Returns the disagreement of the lengths: 0 none, 1 in a way that the kernel has, 2 only if
    /// events were missed.
    fn misfit(&self, tracked: &TrackedRequest, deed: BlockTransition) -> u8 {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match (tracked.left.cmp(&self.event.nr_sector), deed) {
            (Equal, _) => 0,
            (Greater, BlockTransition::Complete | BlockTransition::CompleteNothing) => 1, // done in parts
            (Less, BlockTransition::Insert | BlockTransition::Issue | BlockTransition::Absorb) => 1, // discards grow without a merge event
            (Greater | Less, _) => 2,
        }
    }

    /// Reports an event without a suitable request, and whether there was a request at all.
    pub(super) fn unmatched(&mut self, reason: AnomalyReason) {
        let found = self.device.starting_at(self.class, self.sector()).next();
        let reason = match found {
            Some(it) => AnomalyReason::WrongState { id: it.request.id, state: it.state },
            None => reason,
        };
        self.anomaly(reason);
    }

    pub(super) fn anomaly(&mut self, reason: AnomalyReason) {
        let anomaly = BlockAnomaly { at: self.at, event: self.event, reason };
        (self.out)(BlockStep::Anomaly(&anomaly));
    }

    /// Removes a request and reports how it ended.
    pub(super) fn end(&mut self, id: RequestId, ending: RequestEnd) {
        if let Some(mut it) = self.device.remove(id) {
            it.request.ending = Some(ending);
            (self.out)(BlockStep::Ended(&it.request));
        }
    }

    fn enforce_limit(&mut self) {
        while self.device.len() > self.options.in_flight_limit {
            let Some(oldest) = self.device.oldest() else { return };
            self.anomaly(AnomalyReason::TooMany(oldest));
            self.end(oldest, RequestEnd::Unfinished(UnfinishedRequest::GivenUp));
        }
    }
}
