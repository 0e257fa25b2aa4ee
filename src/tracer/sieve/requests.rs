//! Block requests and bios whose records wait for the decision whether they are the program's.
//!
//! Input are block events in the order of their times, output are marks. The requests are the same
//! that a reader of the log finds (`block`), so omissions do not change the other requests. A
//! request is decided when it goes to the driver, because nothing can be merged into it any more.

use rustc_hash::{FxHashMap, FxHashSet};

use super::count::LeftOutRequests;
use super::marks::{Mark, RecordMarks, RecordRef};
use super::places::FilePlaces;
use crate::block::{
    BlockOptions, BlockRequest, BlockStep, BlockTracker, EventContext, FlushRole, RequestEnd,
    RequestId, RequestPart,
};
use crate::capture::header::Disk;
use crate::event::block::{BlockEvent, BlockPoint, DevicePosition, RequestOp};
use crate::units::{CpuId, DevId, KernelTime, Tid};

/// Record of a block tracepoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRecord {
    pub(super) at: EventContext,
    pub(super) record: RecordRef,
    /// True if its thread is followed.
    pub(super) by_own: bool,
}

/// Time and CPU of the record that queued a bio.
type BioKey = (KernelTime, CpuId);

/// A bio with sectors that are not part of decided requests.
#[derive(Debug)]
struct HeldBio {
    records: Vec<RecordRef>,
    top: DevicePosition,
    nr_sector: u32,
    is_own: bool,
    /// True if a part of the bio belongs to a request that is kept.
    is_kept: bool,
    /// Number of sectors that are not part of a request yet.
    left: u32,
    /// Undecided requests with a part of the bio.
    requests: Vec<RequestId>,
}

/// Request in flight.
#[derive(Debug, Default)]
struct HeldRequest {
    records: Vec<RecordRef>,
    bios: Vec<BioKey>,
    parts_seen: usize,
    /// True if the request is to be kept.
    is_own: bool,
    /// Mark of the request, if decided.
    mark: Option<Mark>,
}

/// The last bio that a thread has remapped from a partition.
#[derive(Debug)]
struct Remapped {
    records: Vec<RecordRef>,
    from: DevicePosition,
    to: DevicePosition,
    is_own: bool,
}

/// A step of a request.
#[derive(Debug)]
struct SeenStep {
    id: RequestId,
    parts: std::sync::Arc<Vec<RequestPart>>,
    /// True if the request goes to the driver.
    is_issued: bool,
    ending: Option<RequestEnd>,
    /// The request, for [`LeftOutRequests`].
    request: Option<Box<BlockRequest>>,
    /// Request that a flush serves.
    serves: Option<RequestId>,
    /// True if the beginning, and so the thread, was not seen.
    has_no_beginning: bool,
}

/// Largest number of bios and requests that are remembered.
const UNITS_MAX: usize = 1 << 16;

/// Largest number of threads whose last bio is remembered.
const THREADS_MAX: usize = 1 << 14;

/// All waiting requests and bios.
#[derive(Debug)]
pub(super) struct SievedRequests {
    tracker: BlockTracker,
    bios: FxHashMap<BioKey, HeldBio>,
    units: FxHashMap<RequestId, HeldRequest>,
    remapped: FxHashMap<Tid, Remapped>,
    last_bio: FxHashMap<Tid, BioKey>,
    /// Stacked devices and the devices below them: all their requests are kept.
    stacked: FxHashSet<DevId>,
    /// Pairs of devices of which the first passed bios to the second, which is not its disk.
    passing: FxHashSet<(DevId, DevId)>,
    /// All partitions.
    partitions: FxHashSet<DevId>,
    /// Disks and partitions.
    known: FxHashSet<DevId>,
    /// Devices that were searched for because no list of disks had them.
    sought: FxHashSet<DevId>,
    pub(super) left_out: LeftOutRequests,
    /// Number of requests of other programs that were kept because the decision took too long.
    pub(super) kept_undecided: u64,
}

impl SievedRequests {
    pub(super) fn new(options: BlockOptions) -> Self {
        Self {
            tracker: BlockTracker::new(BlockOptions { in_flight_limit: UNITS_MAX, ..options }),
            bios: FxHashMap::default(),
            units: FxHashMap::default(),
            remapped: FxHashMap::default(),
            last_bio: FxHashMap::default(),
            stacked: FxHashSet::default(),
            passing: FxHashSet::default(),
            partitions: FxHashSet::default(),
            known: FxHashSet::default(),
            sought: FxHashSet::default(),
            left_out: LeftOutRequests::default(),
            kept_undecided: 0,
        }
    }

    /// Adds these disks to the known ones.
    pub(super) fn add_disks(&mut self, all: &[Disk]) {
        let partitions = all.iter().flat_map(|it| &it.partitions);
        self.partitions.extend(partitions.filter_map(|it| DevId::parse(&it.dev)));
        let disks = all.iter().filter_map(|it| DevId::parse(&it.dev));
        self.known.extend(disks.chain(self.partitions.iter().copied()));
        let in_stack = |it: &&Disk| !it.holders.is_empty() || !it.slaves.is_empty();
        let stacked = all.iter().filter(in_stack).filter_map(|it| DevId::parse(&it.dev));
        self.stacked.extend(stacked);
        let Self { partitions, passing, stacked, .. } = self;
        passing.retain(|it| !partitions.contains(&it.0));
        stacked.extend(passing.iter().flat_map(|it| [it.0, it.1]));
        let unzoned = all.iter().filter(|it| it.has_no_zones());
        self.tracker.has_unzoned(unzoned.filter_map(|it| DevId::parse(&it.dev)));
    }

    /// Replaces the known disks by these.
    pub(super) fn has_only_disks(&mut self, all: &[Disk]) {
        self.stacked.clear();
        self.partitions.clear();
        self.known.clear();
        let is_there = |dev: DevId| all.iter().any(|it| DevId::parse(&it.dev) == Some(dev));
        self.passing.retain(|it| is_there(it.0));
        self.add_disks(all);
    }

    /// True if the event's device is in no list of disks, the first time.
    pub(super) fn is_of_unknown(&mut self, event: &BlockEvent) -> bool {
        event.from.is_some_and(|it| !self.known.contains(&it.dev) && self.sought.insert(it.dev))
    }

    /// Handles lost records: records of undecided requests are kept, and so are records that waited
    /// for them. Decided requests of other programs in the driver keep their marks: from now on the
    /// tracker prefers newer requests.
    pub(super) fn records_lost(&mut self, marks: &mut RecordMarks) {
        self.tracker.records_lost();
        for unit in self.units.values_mut().filter(|it| it.mark.is_none()) {
            unit.keep(marks);
        }
        let bios = self.bios.drain().flat_map(|it| it.1.records);
        let remapped = self.remapped.drain().flat_map(|it| it.1.records);
        bios.chain(remapped).for_each(|it| marks.set(it, Mark::Kept));
        self.last_bio.clear();
    }

    /// Takes the next event.
    pub(super) fn push(
        &mut self,
        hit: &BlockRecord,
        event: &BlockEvent,
        places: &mut FilePlaces,
        marks: &mut RecordMarks,
    ) {
        // Bios pass from one device to another in threads of drivers.
        let is_stacked = self.is_stacked(event);
        let hit = &BlockRecord { by_own: hit.by_own || is_stacked, ..*hit };
        match event.point {
            BlockPoint::BioQueue => self.queued(hit, is_stacked, event, places, marks),
            BlockPoint::Remap => self.remap(hit, event, marks),
            BlockPoint::Split => self.split(hit, event, marks),
            _ => {}
        }
        let (mut seen, has_anomaly) = self.steps(&hit.at, event);
        if matches!(event.point, BlockPoint::Remap | BlockPoint::Split) {
            return;
        }
        let is_queued = event.point == BlockPoint::BioQueue;
        if seen.is_empty() && !is_queued {
            let mark = if has_anomaly || hit.by_own { Mark::Kept } else { Mark::Dropped };
            return marks.set(hit.record, mark);
        }
        // A request that was absorbed belongs to its host when the host is decided.
        seen.sort_by_key(|it| !matches!(it.ending, Some(RequestEnd::Absorbed { .. })));
        let is_request = matches!(event.point, BlockPoint::GetRq | BlockPoint::Insert);
        for step in seen {
            let by_own = is_stacked || is_request && hit.by_own;
            self.note(&step, hit, is_queued, by_own, marks);
            self.follow(step, places, marks);
        }
    }

    /// Keeps undecided records that can wait no longer: those of this chunk and of earlier ones.
    pub(super) fn keep_undecided(&mut self, until: u64, is_end: bool, marks: &mut RecordMarks) {
        let is_old = |it: &[RecordRef]| it.iter().any(|it| it.chunk <= until);
        for unit in self.units.values_mut().filter(|it| it.mark.is_none()) {
            if is_old(&unit.records) {
                self.kept_undecided += u64::from(!is_end && !unit.is_own);
                unit.keep(marks);
            }
        }
        let mut with_them = Vec::new();
        for bio in self.bios.values_mut().filter(|it| is_old(&it.records)) {
            bio.is_kept = true;
            bio.records.drain(..).for_each(|it| marks.set(it, Mark::Kept));
            with_them.extend_from_slice(&bio.requests);
        }
        // A bio in the log without its requests would be taken for a part of later requests.
        for id in with_them {
            let unit = self.units.get_mut(&id).filter(|it| it.mark.is_none() && !it.is_own);
            self.kept_undecided += u64::from(!is_end && unit.is_some());
            unit.into_iter().for_each(|it| it.keep(marks));
        }
        if self.bios.len() > UNITS_MAX {
            self.forget_lone_bios();
        }
    }

    /// Drops decided bios without a request in flight.
    fn forget_lone_bios(&mut self) {
        self.bios.retain(|_, it| !it.records.is_empty() || !it.requests.is_empty());
    }

    /// Counts the requests that were left out and have not ended when the recording ends.
    pub(super) fn finish(&mut self) {
        let Self { tracker, units, left_out, .. } = self;
        tracker.finish(&mut |step| {
            if let BlockStep::Ended(request) = step
                && units.get(&request.id).and_then(|it| it.mark) == Some(Mark::Dropped)
            {
                left_out.add(request);
            }
        });
    }

    /// True for a device that passes bios to another device that is not its disk, and for that
    /// other device.
    fn is_stacked(&mut self, event: &BlockEvent) -> bool {
        if let Some(from) = event.from.filter(|it| !self.partitions.contains(&it.dev))
            && from.dev != event.dev
            && self.passing.insert((from.dev, event.dev))
        {
            self.stacked.extend([from.dev, event.dev]);
        }
        self.stacked.contains(&event.dev)
    }

    fn queued(
        &mut self,
        hit: &BlockRecord,
        is_stacked: bool,
        event: &BlockEvent,
        places: &mut FilePlaces,
        marks: &mut RecordMarks,
    ) {
        let here = DevicePosition { dev: event.dev, sector: event.sector };
        let mut records = vec![hit.record];
        let mut top = here;
        if let Some(remapped) = self.remapped.remove(&hit.at.tid) {
            if remapped.to == here {
                top = remapped.from;
                records.extend(remapped.records);
            } else {
                remapped.decide(marks);
            }
        }
        let is_data = event.rwbs.op() == RequestOp::Write && event.nr_sector > 0;
        let writes = is_data && !event.rwbs.is_meta();
        let is_own = hit.by_own || writes && places.hold_own(top, event.nr_sector.into());
        let mut bio = HeldBio {
            records,
            top,
            nr_sector: event.nr_sector,
            is_own,
            is_kept: false,
            left: event.nr_sector.max(1),
            requests: Vec::new(),
        };
        if is_own && !is_stacked {
            places.write_extents(hit.at.time, top, event.nr_sector.into());
        }
        if is_own {
            bio.records.drain(..).for_each(|it| marks.set(it, Mark::Kept));
        }
        let key = (hit.at.time, hit.at.cpu);
        if self.last_bio.len() >= THREADS_MAX {
            self.last_bio.clear();
        }
        self.last_bio.insert(hit.at.tid, key);
        if self.bios.len() >= UNITS_MAX && self.bios.len().is_power_of_two() {
            self.forget_lone_bios();
        }
        self.bios.insert(key, bio);
    }

    fn remap(&mut self, hit: &BlockRecord, event: &BlockEvent, marks: &mut RecordMarks) {
        let Some(from) = event.from else { return marks.set(hit.record, Mark::Kept) };
        let to = DevicePosition { dev: event.dev, sector: event.sector };
        if self.remapped.len() >= THREADS_MAX {
            self.remapped.drain().for_each(|it| it.1.decide(marks));
        }
        if hit.by_own {
            marks.set(hit.record, Mark::Kept);
        }
        let now = Remapped { records: vec![hit.record], from, to, is_own: hit.by_own };
        if let Some(before) = self.remapped.insert(hit.at.tid, now) {
            before.decide(marks);
        }
    }

    /// Handles a split of the bio that the thread has queued last.
    fn split(&mut self, hit: &BlockRecord, event: &BlockEvent, marks: &mut RecordMarks) {
        let last = self.last_bio.get(&hit.at.tid).and_then(|it| self.bios.get_mut(it));
        match last.filter(|it| it.top.dev == event.dev || it.left > 0) {
            Some(bio) if !bio.is_own => bio.records.push(hit.record),
            _ => marks.set(hit.record, Mark::Kept),
        }
    }

    /// Returns the steps that the event makes in requests, and true if it fits no request.
    fn steps(&mut self, at: &EventContext, event: &BlockEvent) -> (Vec<SeenStep>, bool) {
        let (mut seen, mut has_anomaly) = (Vec::new(), false);
        self.tracker.push(at, event, &mut |step| {
            let (request, is_issued) = match step {
                BlockStep::Anomaly(_) => return has_anomaly = true,
                BlockStep::Issued(it) => (it, true),
                BlockStep::Queued(it)
                | BlockStep::Merged(it)
                | BlockStep::Inserted(it)
                | BlockStep::Requeued(it)
                | BlockStep::Progressed(it)
                | BlockStep::Ended(it) => (it, false),
            };
            let serves = match request.flush {
                FlushRole::Device { serves } => serves.map(|it| it.request),
                _ => None,
            };
            seen.push(SeenStep {
                id: request.id,
                parts: std::sync::Arc::clone(&request.parts),
                is_issued,
                ending: request.ending,
                request: request.ending.is_some().then(|| Box::new(request.clone())),
                serves,
                has_no_beginning: has_no_beginning(request),
            });
        });
        (seen, has_anomaly)
    }

    /// Assigns the record, and newly added bios, to the request.
    fn note(
        &mut self,
        seen: &SeenStep,
        hit: &BlockRecord,
        is_queued: bool,
        by_own: bool,
        marks: &mut RecordMarks,
    ) {
        let serves_own = seen.serves.and_then(|it| self.units.get(&it)).is_some_and(|it| it.is_own);
        let unit = self.units.entry(seen.id).or_default();
        if !is_queued && unit.records.last() != Some(&hit.record) {
            unit.records.push(hit.record);
        }
        // Kept records have waited too long already.
        let was_forced = !is_queued && marks.get(hit.record) == Mark::Kept;
        unit.is_own |= by_own || serves_own || seen.has_no_beginning;
        unit.is_own |= was_forced && unit.mark.is_none();
        for part in seen.parts.iter().skip(unit.parts_seen) {
            let key = (part.here.at.time, part.here.at.cpu);
            let Some(bio) = self.bios.get_mut(&key) else { continue };
            bio.left = bio.left.saturating_sub(part.nr_sector.max(1));
            unit.is_own |= bio.is_own || bio.is_kept;
            if !unit.bios.contains(&key) {
                bio.requests.push(seen.id);
                unit.bios.push(key);
            }
        }
        unit.parts_seen = unit.parts_seen.max(seen.parts.len());
        match unit.mark {
            Some(mark) => unit.records.drain(..).for_each(|it| marks.set(it, mark)),
            None if unit.is_own => unit.records.drain(..).for_each(|it| marks.set(it, Mark::Kept)),
            None => {}
        }
    }

    /// Follows up on a step: absorbs, decides or counts the request.
    fn follow(&mut self, seen: SeenStep, places: &mut FilePlaces, marks: &mut RecordMarks) {
        if let Some(RequestEnd::Absorbed { into: Some(host), .. }) = seen.ending {
            if let Some(unit) = self.units.remove(&seen.id) {
                self.absorb(seen.id, unit, host, marks);
            }
            return;
        }
        if seen.is_issued || seen.ending.is_some() {
            self.decide(seen.id, places, marks);
        }
        let Some(request) = seen.request else { return };
        let unit = self.units.remove(&seen.id);
        if unit.and_then(|it| it.mark) == Some(Mark::Dropped) {
            self.left_out.add(&request);
        }
    }

    fn absorb(
        &mut self,
        id: RequestId,
        unit: HeldRequest,
        host: RequestId,
        marks: &mut RecordMarks,
    ) {
        let into = self.units.entry(host).or_default();
        into.is_own |= unit.is_own && into.mark.is_none();
        for key in unit.bios {
            let is_new = !into.bios.contains(&key) && into.mark.is_none();
            if let Some(bio) = self.bios.get_mut(&key) {
                bio.requests.retain(|it| *it != id);
                bio.requests.extend(is_new.then_some(host));
                bio.is_kept |= into.mark == Some(Mark::Kept);
            }
            if is_new {
                into.bios.push(key);
            }
        }
        let mark = into.mark.or(into.is_own.then_some(Mark::Kept));
        match mark {
            Some(mark) => unit.records.into_iter().for_each(|it| marks.set(it, mark)),
            None => into.records.extend(unit.records),
        }
    }

    fn decide(&mut self, id: RequestId, places: &mut FilePlaces, marks: &mut RecordMarks) {
        let Some(unit) = self.units.get_mut(&id).filter(|it| it.mark.is_none()) else { return };
        let mark = if unit.is_own { Mark::Kept } else { Mark::Dropped };
        unit.mark = Some(mark);
        unit.records.drain(..).for_each(|it| marks.set(it, mark));
        for key in std::mem::take(&mut unit.bios) {
            let Some(bio) = self.bios.get_mut(&key) else { continue };
            bio.requests.retain(|it| *it != id);
            if mark == Mark::Kept && !bio.is_own {
                places.write_extents(key.0, bio.top, bio.nr_sector.into());
            }
            bio.is_kept |= mark == Mark::Kept;
            if bio.is_kept {
                for other in &bio.requests {
                    let other = self.units.get_mut(other).filter(|it| it.mark.is_none());
                    other.into_iter().for_each(|it| it.keep(marks));
                }
            }
            if bio.left == 0 && bio.requests.is_empty() {
                let mark = if bio.is_own || bio.is_kept { Mark::Kept } else { Mark::Dropped };
                bio.records.drain(..).for_each(|it| marks.set(it, mark));
                self.bios.remove(&key);
            }
        }
    }
}

impl HeldRequest {
    /// Keeps the records of the request, whatever follows.
    fn keep(&mut self, marks: &mut RecordMarks) {
        self.is_own = true;
        self.records.drain(..).for_each(|it| marks.set(it, Mark::Kept));
    }
}

/// True for a request that had begun before the recording, or of which records were lost. A flush
/// that a device executes for other requests has no beginning of its own, and a driver command has
/// no bio.
fn has_no_beginning(request: &BlockRequest) -> bool {
    let is_seen = matches!(request.first_seen, BlockPoint::GetRq | BlockPoint::BioQueue);
    let is_command = request.op == RequestOp::Other;
    !is_seen && !is_command && !matches!(request.flush, FlushRole::Device { .. })
}

impl Remapped {
    /// Decides the records of a remapped bio that was never queued.
    fn decide(self, marks: &mut RecordMarks) {
        let mark = if self.is_own { Mark::Kept } else { Mark::Dropped };
        self.records.into_iter().for_each(|it| marks.set(it, mark));
    }
}
