//! Noisy neighbours: whose requests a device worked on while the requests of a process waited.
//!
//! A process waits for a device from the moment in which it hands the first of its requests to the
//! block layer until the last of them has ended. Each part of that time belongs to the request that
//! the device worked on ([`occupancy`]): one of its own, another one, or none. Requests belong to
//! the processes that caused them: data that the kernel writes back belongs to its last writers.
//!
//! The time is that of a clock: two requests of a process that wait at once wait once. Rows of
//! several processes are sums.

mod occupancy;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ops::Range;
use std::rc::Rc;

use rangemap::RangeSet;
use rustc_hash::FxHashMap;

use self::occupancy::{Occupancy, OwnedPart, Segment};
use super::bounded_map::BoundedMap;
use super::filter::{Filter, Picker};
use super::request_owners::{CausedBytes, DiskCause, RequestOwners};
use crate::anomaly::Link;
use crate::event::block::BlockPoint;
use crate::operation::attribution::Piece;
use crate::operation::block::{
    BlockRequest, BlockStep, DiskstatsClass, FlushLink, FlushRole, RequestEnd, RequestId,
    UnfinishedRequest,
};
use crate::operation::model::{ProcessKey, ThreadInfo};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// Time in which a process waited while the device worked on requests of another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// Time in which it was the only request in service, and the waiting one was not in service.
    pub caused_ns: u64,
    /// Time in which several requests were in service: the device may have served them at once.
    pub shared_ns: u64,
    /// Time by the certainty of the owner of the request: exact, inferred, unknown.
    pub by_link: [u64; 3],
}

impl Blame {
    /// Returns all of the time.
    pub fn waited_ns(&self) -> u64 {
        self.caused_ns.saturating_add(self.shared_ns)
    }

    /// Adds another time.
    pub fn merge(&mut self, other: &Self) {
        self.caused_ns = self.caused_ns.saturating_add(other.caused_ns);
        self.shared_ns = self.shared_ns.saturating_add(other.shared_ns);
        for (sum, more) in self.by_link.iter_mut().zip(other.by_link) {
            *sum = sum.saturating_add(more);
        }
    }

    fn add(&mut self, duration_ns: u64, is_caused: bool, link: Link) {
        let sum = if is_caused { &mut self.caused_ns } else { &mut self.shared_ns };
        *sum = sum.saturating_add(duration_ns);
        let [exact, inferred, unknown] = &mut self.by_link;
        let sum = match link {
            Link::Exact => exact,
            Link::Inferred => inferred,
            Link::Unknown => unknown,
        };
        *sum = sum.saturating_add(duration_ns);
    }
}

/// Requests and the sum of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedRequests {
    /// Number of requests.
    pub requests: u64,
    /// Sum of their times, from the block layer to the completion.
    pub total_ns: u64,
}

impl TimedRequests {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// Returns the mean of the times; `None`: there is no request.
    pub fn mean_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.requests)
    }
}

/// Time in which a process waited for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskWaiting {
    /// All of it.
    pub waited_ns: u64,
    /// Time in which the device worked on requests of the process itself.
    pub own_ns: u64,
    /// Time in which the device worked on requests of others.
    pub others_ns: u64,
    /// Time in which no recorded request was in service.
    pub idle_ns: u64,
    /// Time of which the occupant is not known any more.
    pub unknown_ns: u64,
    /// Requests in whose time no request of another process was in service.
    pub alone: TimedRequests,
    /// The other ones.
    pub beside: TimedRequests,
}

impl DiskWaiting {
    /// Adds another waiting.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.waited_ns, other.waited_ns),
            (&mut self.own_ns, other.own_ns),
            (&mut self.others_ns, other.others_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.unknown_ns, other.unknown_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.alone.merge(&other.alone);
        self.beside.merge(&other.beside);
    }
}

/// Key of a cell of the matrix: the device, the process that waited, the owner of the request that
/// the device worked on.
pub type CellKey = (DevId, DiskCause, DiskCause);

/// Fold of the matrix.
#[derive(Debug)]
pub struct Neighbours {
    picker: Picker,
    /// Processes that waited, by device.
    pub victims: BoundedMap<(DevId, DiskCause), DiskWaiting>,
    /// Waiting by victim and aggressor.
    pub cells: BoundedMap<CellKey, Blame>,
    /// Processes that wait for disks or own requests.
    pub owners: RequestOwners,
    /// Requests that ended and were never seen to go to the driver: recorded in part.
    pub without_issue: u64,
    /// Requests whose end was lost.
    pub lost_ends: u64,
    /// Largest number of requests in service at a time, by device.
    devices: BTreeMap<DevId, Device>,
    /// Processes that wait for flushes.
    flushed_for: FxHashMap<RequestId, DiskCause>,
}

/// Largest number of waits of a device that are not booked yet.
const PENDING_MAX: usize = 1 << 16;

/// Largest number of remembered times of a process in which its waiting is booked.
const BOOKED_MAX: usize = 256;

/// Largest number of ended processes of a device whose booked times are kept.
const ENDED_MAX: usize = 1 << 12;

#[derive(Debug, Default)]
struct Device {
    occupancy: Occupancy,
    /// Requests in service, and the begin of their service.
    in_service: FxHashMap<RequestId, KernelTime>,
    /// Waits until their occupants are known, in the order of their ends.
    pending: VecDeque<Wait>,
    /// Times of each process that are booked, or will be.
    booked: FxHashMap<DiskCause, BookedTimes>,
    /// Ended processes whose times are still kept, as their requests may end later.
    ended: VecDeque<DiskCause>,
}

#[derive(Debug, Default)]
struct BookedTimes {
    known: RangeSet<KernelTime>,
    /// Everything before is booked.
    floor: KernelTime,
}

impl BookedTimes {
    /// Returns the parts of a time that are not booked yet, and books them.
    fn book(&mut self, time: Range<KernelTime>) -> Vec<Range<KernelTime>> {
        let begin = time.start.max(self.floor);
        if begin >= time.end {
            return Vec::new();
        }
        let time = begin..time.end;
        let new = self.known.gaps(&time).collect();
        self.known.insert(time);
        while self.known.len() > BOOKED_MAX {
            let Some(first) = self.known.iter().next().cloned() else { break };
            self.floor = first.end;
            self.known.remove(first);
        }
        new
    }
}

/// Wait of one request.
#[derive(Debug)]
struct Wait {
    request: RequestId,
    victim: DiskCause,
    /// From the block layer to the completion.
    time: Range<KernelTime>,
    /// Begin of the request's service; `None`: it was never in service.
    served: Option<KernelTime>,
    /// Parts of the time that no other request of the victim has booked.
    parts: Vec<Range<KernelTime>>,
}

impl Neighbours {
    /// Creates the fold; the filter selects the requests that wait.
    pub fn new(filter: Filter) -> Self {
        Self {
            picker: Picker::new(filter),
            victims: BoundedMap::default(),
            cells: BoundedMap::default(),
            owners: RequestOwners::default(),
            without_issue: 0,
            lost_ends: 0,
            devices: BTreeMap::new(),
            flushed_for: FxHashMap::default(),
        }
    }

    /// Returns the picker of the requests that wait.
    pub fn picker(&self) -> &Picker {
        &self.picker
    }

    /// Returns the largest number of requests that a device had in service at a time.
    pub fn depth_max(&self, dev: DevId) -> u32 {
        self.devices.get(&dev).map_or(0, |device| device.occupancy.depth_max)
    }

    fn begun(&mut self, request: &BlockRequest, thread: Option<&ThreadInfo>) {
        if matches!(request.flush, FlushRole::Demand | FlushRole::Sequence)
            && let Some(thread) = thread
        {
            let cause = self.cause_of_thread(thread);
            self.flushed_for.insert(request.id, cause);
        }
        // A bio of a device without requests is in service from its begin on.
        if request.first_seen == BlockPoint::BioQueue {
            self.in_service(request, request.begin());
        }
    }

    fn in_service(&mut self, request: &BlockRequest, begin: Option<KernelTime>) {
        let device = self.devices.entry(request.dev).or_default();
        match begin {
            Some(begin) => drop(device.in_service.insert(request.id, begin)),
            None => drop(device.in_service.remove(&request.id)),
        }
    }

    fn ended(
        &mut self,
        at: KernelTime,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
        is_selected: bool,
    ) {
        let flushed_for = self.flushed_for.remove(&request.id);
        self.in_service(request, None);
        let (end, is_whole) = match request.ending {
            Some(RequestEnd::Completed) => (request.completed, true),
            Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd)) => (Some(at), false),
            Some(RequestEnd::Unfinished(UnfinishedRequest::GivenUp)) => {
                self.lost_ends += 1;
                (None, false)
            }
            _ => (None, false),
        };
        let is_bio = request.first_seen == BlockPoint::BioQueue;
        // Bios that a stacked device has passed on wait and are served below.
        let is_passed_on = is_bio && request.issued.is_some();
        if let Some(end) = end.filter(|_| !is_passed_on && !request.is_stillborn) {
            let issued = if is_bio { request.begin() } else { request.reissued.or(request.issued) };
            if let Some(begin) = issued {
                let owners = self.owners_of(request, thread, pieces, is_whole);
                let served = begin..request.data_completed.unwrap_or(end);
                self.devices
                    .entry(request.dev)
                    .or_default()
                    .occupancy
                    .serve(served, request.id, &owners);
            } else if request.flush != FlushRole::Demand && is_whole {
                self.without_issue += 1;
            }
            if is_selected {
                let is_flush = matches!(request.flush, FlushRole::Device { .. });
                let submitter = thread.map(|thread| self.cause_of_thread(thread));
                let submitter = flushed_for.or(submitter);
                // The request that demanded the flush waits.
                let victims = match is_flush {
                    true => Vec::new(),
                    false => self.victims_of(request, submitter, pieces),
                };
                self.wait(request, victims, issued, end);
            }
        }
        self.settle(request.dev, at);
    }

    /// Returns the owners of a request.
    fn owners_of(
        &mut self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
        is_whole: bool,
    ) -> Rc<[OwnedPart]> {
        if let FlushRole::Device { serves: Some(FlushLink { request, waiting }) } = request.flush
            && let Some(cause) = self.flushed_for.get(&request)
        {
            let link = if waiting == 1 { Link::Exact } else { Link::Inferred };
            return Rc::from([OwnedPart { cause: *cause, weight: 1, link, is_submitter: false }]);
        }
        let class = request.diskstats_class_of_kind().unwrap_or(DiskstatsClass::Write);
        // A request without an end has moved no bytes, but has its length.
        let bytes_done = if is_whole { request.bytes_done } else { request.bytes() };
        let sectors_bytes = bytes_done / SECTOR_BYTES * SECTOR_BYTES;
        let causes = self.owners.causes(sectors_bytes, class, thread, pieces);
        let submitters = pieces.iter().map(|piece| self.cause_of_pid(piece.queued.pid));
        let submitters: Vec<DiskCause> = submitters.collect();
        let certain = |link| if is_whole { link } else { Link::Unknown };
        let part = |caused: &CausedBytes<'_>| OwnedPart {
            cause: caused.cause,
            weight: caused.bytes.max(1),
            link: certain(caused.link),
            is_submitter: submitters.contains(&caused.cause),
        };
        let parts: Vec<OwnedPart> = causes.iter().map(part).collect();
        causes.iter().for_each(|caused| self.owners.keep(caused));
        parts.into()
    }

    /// Returns the processes that wait for a request, and since when: those that have queued it.
    fn victims_of(
        &self,
        request: &BlockRequest,
        thread: Option<DiskCause>,
        pieces: &[Piece],
    ) -> Vec<(DiskCause, KernelTime)> {
        let mut victims: Vec<(DiskCause, KernelTime)> = Vec::new();
        for piece in pieces {
            let cause = self.cause_of_pid(piece.queued.pid);
            match victims.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, since)) => *since = (*since).min(piece.queued.time),
                None => victims.push((cause, piece.queued.time)),
            }
        }
        if let (true, Some(begin)) = (victims.is_empty(), request.begin()) {
            victims.push((thread.unwrap_or(DiskCause::Unknown), begin));
        }
        victims
    }

    fn wait(
        &mut self,
        request: &BlockRequest,
        victims: Vec<(DiskCause, KernelTime)>,
        served: Option<KernelTime>,
        end: KernelTime,
    ) {
        let device = self.devices.entry(request.dev).or_default();
        for (victim, begin) in victims {
            let parts = device.booked.entry(victim).or_default().book(begin..end);
            let (request, time) = (request.id, begin..end);
            device.pending.push_back(Wait { request, victim, time, served, parts });
            if let DiskCause::Process(process) = victim {
                self.owners.keep_process(process);
            }
        }
    }

    /// Books the waits whose occupants are all known.
    fn settle(&mut self, dev: DevId, now: KernelTime) {
        let Some(device) = self.devices.get_mut(&dev) else { return };
        let oldest = device.in_service.values().min().copied();
        let known_until = oldest.unwrap_or(now);
        while let Some(wait) = device.pending.front() {
            if wait.time.end > known_until && device.pending.len() <= PENDING_MAX {
                break;
            }
            let row = self.victims.row(&(dev, wait.victim), || (dev, wait.victim));
            let booking = Booking { dev, wait, known_until, occupancy: &device.occupancy };
            booking.book(row, &mut self.cells);
            device.pending.pop_front();
        }
    }

    /// Drops the booked times of processes that ended long ago.
    fn forget(&mut self, process: ProcessKey) {
        let cause = DiskCause::Process(process);
        for device in self.devices.values_mut() {
            if device.booked.contains_key(&cause) {
                device.ended.push_back(cause);
            }
            if device.ended.len() > ENDED_MAX
                && let Some(oldest) = device.ended.pop_front()
            {
                device.booked.remove(&oldest);
            }
        }
    }

    fn cause_of_thread(&self, thread: &ThreadInfo) -> DiskCause {
        match self.owners.names.info(thread.process) {
            Some(info) if info.is_kernel => DiskCause::Kernel,
            _ => DiskCause::Process(thread.process),
        }
    }

    fn cause_of_pid(&self, pid: Pid) -> DiskCause {
        let Some(process) = self.owners.process(pid) else { return DiskCause::Unseen(pid) };
        match self.owners.names.info(process) {
            Some(info) if info.is_kernel => DiskCause::Kernel,
            _ => DiskCause::Process(process),
        }
    }
}

/// Distribution of a wait over the occupants of its time.
struct Booking<'a> {
    dev: DevId,
    wait: &'a Wait,
    /// All occupants before this time are known.
    known_until: KernelTime,
    occupancy: &'a Occupancy,
}

impl Booking<'_> {
    fn book(&self, row: &mut DiskWaiting, cells: &mut BoundedMap<CellKey, Blame>) {
        let Wait { request, victim, time, parts, .. } = self.wait;
        let mut all = self.occupancy.segments(time.clone());
        let is_beside = all.any(|(_, segment)| segment.has_others(*victim, *request));
        let timed = if is_beside { &mut row.beside } else { &mut row.alone };
        timed.merge(&TimedRequests { requests: 1, total_ns: length_ns(time) });
        let floor = self.occupancy.floor();
        for part in parts {
            row.waited_ns += length_ns(part);
            row.unknown_ns += length_ns(&(part.start..part.end.min(floor)));
            for (time, segment) in self.occupancy.segments(part.clone()) {
                self.book_segment(&time, segment, row, cells);
            }
        }
    }

    fn book_segment(
        &self,
        time: &Range<KernelTime>,
        segment: &Segment,
        row: &mut DiskWaiting,
        cells: &mut BoundedMap<CellKey, Blame>,
    ) {
        let victim = self.wait.victim;
        let Some(owners) = &segment.occupant else {
            let is_known = time.start < self.known_until;
            let sum = if is_known { &mut row.idle_ns } else { &mut row.unknown_ns };
            *sum += length_ns(time);
            return;
        };
        let is_own = segment.request == Some(self.wait.request);
        let is_queued = self.wait.served.is_none_or(|served| time.start < served);
        let is_caused = is_queued && segment.depth == 1;
        let mut left_ns = length_ns(time);
        let mut left_weight: u64 = owners.iter().map(|part| part.weight).sum();
        for part in owners.iter() {
            let share_ns = share_of(left_ns, part.weight, left_weight);
            left_ns -= share_ns;
            left_weight -= part.weight;
            // A process waits for its own request, also with data of others; one that was merged
            // with the bios of another process is of both.
            if part.cause == victim || is_own && !part.is_submitter {
                row.own_ns += share_ns;
                continue;
            }
            row.others_ns += share_ns;
            let key = (self.dev, victim, part.cause);
            cells.row(&key, || key).add(share_ns, is_caused, part.link);
        }
    }
}

/// Returns the length of a time, ns; 0 if it ends before it begins.
fn length_ns(time: &Range<KernelTime>) -> u64 {
    time.end.0.saturating_sub(time.start.0)
}

/// Returns `weight` parts of `weights` of a time.
fn share_of(duration_ns: u64, weight: u64, weights: u64) -> u64 {
    let share = u128::from(duration_ns) * u128::from(weight) / u128::from(weights.max(1));
    u64::try_from(share).unwrap_or(duration_ns).min(duration_ns)
}

impl Sink for Neighbours {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let is_selected = self.picker.wants(step);
        let Step::Block { step, thread, pieces } = step else {
            self.owners.look(step);
            if let Step::ProcessEnded(info) = step {
                self.forget(info.key);
            }
            return Ok(());
        };
        match step {
            BlockStep::Queued(request) => self.begun(request, *thread),
            BlockStep::Issued(request) if request.first_seen != BlockPoint::BioQueue => {
                self.in_service(request, Some(time));
            }
            BlockStep::Requeued(request) => self.in_service(request, None),
            BlockStep::Ended(request) => self.ended(time, request, *thread, pieces, is_selected),
            _ => {}
        }
        Ok(())
    }
}
