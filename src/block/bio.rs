//! Bios on their way to requests: the tasks that queued them, and the devices that they passed.
//!
//! ```text
//!   bio_queue dm-0 ─► remap sda ◄─ dm-0 ─► remap sda ◄─ sda3 ─► bio_queue sda ─► getrq or merge
//!   (bio, open)       (waits for the       (again, over a       (bio, open)      (part of a
//!                      bio of sda)          partition)                            request)
//! ```
//!
//! Input: `block_bio_queue`, `block_split`, `block_bio_remap`, `block_bio_complete`, and the events
//! with which bios enter requests. Output: [`RequestPart`]s of requests, and the bios of devices
//! that have no requests (dm, md, zram). Such bios are reported as if they were requests of these
//! devices.
//!
//! One thread queues, remaps and splits a bio and makes it a request or merges it into one. Where a
//! driver of stacked devices has threads, this may be one of those. A remap names the source and
//! the target place, so levels are joined by place and length.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::event_context::EventContext;
use super::model::BlockRequest;
use super::request_part::{BioArrival, RequestPart};
use crate::event::block::{BlockEvent, DevicePosition, RequestOp};
use crate::units::{DevId, Tid};

/// Bio that is not completed and not wholly part of requests.
#[derive(Clone, Debug)]
pub(super) struct Bio {
    pub number: u64,
    pub event: BlockEvent,
    /// Time and task at which the uppermost bio was queued.
    pub queued: EventContext,
    /// Time and task at which this bio was queued.
    pub here: EventContext,
    /// Places above this bio.
    pub levels: Arc<[DevicePosition]>,
    /// Number of sectors that are parts of requests.
    taken: u32,
    /// Devices to which the bio was passed on, each with the end sector (of this bio's own) up to
    /// which it was.
    passed: Vec<(DevId, u64)>,
    /// Request that reports the bio, if its device has no requests.
    pub reported: Option<Box<BlockRequest>>,
}

impl Bio {
    fn key(&self) -> OpenBioKey {
        OpenBioKey { sector: self.event.sector, number: self.number }
    }

    fn end(&self) -> u64 {
        self.event.sector.saturating_add(u64::from(self.event.nr_sector))
    }

    fn holds(&self, sector: u64, nr_sector: u32) -> bool {
        let end = sector.saturating_add(u64::from(nr_sector));
        self.event.sector <= sector && end <= self.end()
    }

    /// Returns true if these sectors of the bio already went to that device.
    fn has_passed(&self, to: DevId, sector: u64, nr_sector: u32) -> bool {
        self.passed.iter().any(|it| it.0 == to && (it.1 > sector || nr_sector == 0))
    }

    fn pass(&mut self, to: DevId, end: u64) {
        match self.passed.iter_mut().find(|it| it.0 == to) {
            Some(it) => it.1 = it.1.max(end),
            None => self.passed.push((to, end)),
        }
    }

    /// Returns the places above this sector of the bio.
    fn levels_at(&self, sector: u64) -> Arc<[DevicePosition]> {
        shifted(&self.levels, sector.saturating_sub(self.event.sector))
    }

    fn here(&self) -> BioArrival {
        BioArrival { at: self.here, comm: self.event.comm, chain: self.event.chain }
    }

    /// Returns the whole bio as a part of the request that reports it.
    pub(super) fn as_part(&self) -> RequestPart {
        RequestPart {
            number: self.number,
            sector: self.event.sector,
            nr_sector: self.event.nr_sector,
            queued: self.queued,
            here: self.here(),
            levels: Arc::clone(&self.levels),
        }
    }
}

fn shifted(levels: &Arc<[DevicePosition]>, by: u64) -> Arc<[DevicePosition]> {
    if by == 0 {
        return Arc::clone(levels);
    }
    levels
        .iter()
        .map(|it| DevicePosition { dev: it.dev, sector: it.sector.saturating_add(by) })
        .collect()
}

/// Treatment of bios by a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BioDeviceKind {
    /// Treatment that is not known yet.
    #[default]
    Unknown,
    /// The device turns bios into requests.
    Requests,
    /// The device passes bios on to other devices: dm, md.
    Passes,
    /// The device executes bios itself: zram, pmem.
    Does,
}

/// Key of an open bio. The fields are in the order by which the bios are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OpenBioKey {
    /// First sector of the bio.
    sector: u64,
    number: u64,
}

/// Bios of one device.
#[derive(Debug, Default)]
struct Bios {
    kind: BioDeviceKind,
    /// Open bios by first sector and number.
    open: BTreeMap<OpenBioKey, Bio>,
    /// First sectors by number: the oldest first.
    ages: BTreeMap<u64, u64>,
    /// Upper bound of the length of the open bios, since the last time when none was open.
    longest: u32,
}

impl Bios {
    fn add(&mut self, bio: Bio) {
        self.longest = self.longest.max(bio.event.nr_sector);
        self.ages.insert(bio.number, bio.event.sector);
        self.open.insert(bio.key(), bio);
    }

    fn remove(&mut self, key: OpenBioKey) -> Option<Bio> {
        self.ages.remove(&key.number);
        let bio = self.open.remove(&key);
        if self.open.is_empty() {
            self.longest = 0;
        }
        bio
    }

    /// Returns the bios that hold these sectors, or that begin there if there are no sectors.
    fn holding(&self, sector: u64, nr_sector: u32) -> impl Iterator<Item = &Bio> {
        let from = sector.saturating_sub(u64::from(self.longest));
        let first = OpenBioKey { sector: from, number: 0 };
        let range = first..=OpenBioKey { sector, number: u64::MAX };
        self.open.range(range).map(|bio| bio.1).filter(move |bio| match nr_sector {
            0 => bio.event.sector == sector,
            _ => bio.holds(sector, nr_sector),
        })
    }
}

/// Remapped sectors of a place, for which no bio of that device was seen yet.
#[derive(Clone, Debug)]
struct SubmittedRange {
    by: Tid,
    nr_sector: u32,
    queued: EventContext,
    levels: Arc<[DevicePosition]>,
}

/// Bios and remaps of all devices.
#[derive(Debug, Default)]
pub(super) struct BioLayer {
    next_number: u64,
    devices: FxHashMap<DevId, Bios>,
    remaps: FxHashMap<DevicePosition, Vec<SubmittedRange>>,
    /// Number of entries in `remaps`.
    remap_count: usize,
}

/// Limit of remaps whose bios were not seen: more than any stack has between a remap and its bio.
const REMAPS_MAX: usize = 1 << 16;

/// Limit of stacked devices; the kernel's own stacks have about five levels.
const LEVELS_MAX: usize = 32;

impl BioLayer {
    /// Registers a queued bio. Returns the treatment of bios by its device, and its number.
    pub(super) fn queue(&mut self, at: &EventContext, event: &BlockEvent) -> (BioDeviceKind, u64) {
        let place = DevicePosition { dev: event.dev, sector: event.sector };
        let remap = self.take_remap(place, event.nr_sector, at.tid);
        let (queued, levels) = match remap {
            Some(it) => (it.queued, it.levels),
            None => (*at, Arc::from([])),
        };
        let number = self.number();
        let device = self.devices.entry(event.dev).or_default();
        let here = *at;
        device.add(Bio {
            number,
            event: *event,
            queued,
            here,
            levels,
            taken: 0,
            passed: Vec::new(),
            reported: None,
        });
        (device.kind, number)
    }

    /// Splits a bio: its front part becomes a bio of its own. (Of a bio that dm cuts, the kernel
    /// reports only the rest, which stays the same bio.)
    pub(super) fn split(&mut self, event: &BlockEvent) {
        if event.nr_sector == 0 {
            return;
        }
        let number = self.number();
        let Some(device) = self.devices.get_mut(&event.dev) else { return };
        let is_longer = |it: &&Bio| it.event.nr_sector > event.nr_sector && it.reported.is_none();
        let whole = device.holding(event.sector, event.nr_sector).filter(is_longer);
        let Some(key) = whole.map(Bio::key).max_by_key(|key| key.number) else { return };
        let Some(mut rest) = device.remove(key) else { return };
        // The sectors before both parts have already left.
        let gone = u32::try_from(event.sector.saturating_sub(rest.event.sector)).unwrap_or(0);
        let mut front = Bio { number, taken: 0, ..rest.clone() };
        front.levels = rest.levels_at(event.sector);
        (front.event.sector, front.event.nr_sector) = (event.sector, event.nr_sector);
        let after = event.sector.saturating_add(u64::from(event.nr_sector));
        rest.levels = rest.levels_at(after);
        rest.event.sector = after;
        rest.event.nr_sector =
            rest.event.nr_sector.saturating_sub(gone).saturating_sub(event.nr_sector);
        rest.taken = rest.taken.saturating_sub(gone);
        device.add(front);
        if rest.event.nr_sector > 0 {
            device.add(rest);
        }
    }

    /// Moves a pending remap or a bio from one place to another. Returns the bio that is passed on,
    /// if the first place had one.
    pub(super) fn remap(&mut self, at: &EventContext, event: &BlockEvent) -> Option<&mut Bio> {
        let from = event.from?;
        let nr_sector = event.nr_sector;
        let before = self
            .take_remap(from, nr_sector, at.tid)
            .or_else(|| self.take_remap_of_partition(at, event));
        let passed = match before {
            Some(_) => None,
            None => self.open_at(from, nr_sector, event.dev),
        };
        let (queued, above) = match (&before, passed.and_then(|it| self.bio(from.dev, it))) {
            (Some(it), _) => (it.queued, Arc::clone(&it.levels)),
            (None, Some(bio)) => (bio.queued, bio.levels_at(from.sector)),
            (None, None) => (*at, Arc::from([])),
        };
        let levels = std::iter::once(from).chain(above.iter().copied()).take(LEVELS_MAX).collect();
        let range = SubmittedRange { by: at.tid, nr_sector, queued, levels };
        let place = DevicePosition { dev: event.dev, sector: event.sector };
        if self.remap_count >= REMAPS_MAX {
            self.forget_remaps();
        }
        self.remap_count += 1;
        self.remaps.entry(place).or_default().push(range);
        let device = self.devices.get_mut(&from.dev)?;
        device.kind = BioDeviceKind::Passes;
        let bio = device.open.get_mut(&passed?)?;
        bio.pass(event.dev, from.sector.saturating_add(u64::from(nr_sector)));
        Some(bio)
    }

    /// Makes these sectors of a bio a part of a request.
    pub(super) fn take(&mut self, at: &EventContext, event: &BlockEvent) -> Option<RequestPart> {
        let number = self.number();
        let device = self.devices.get_mut(&event.dev)?;
        let op = event.rwbs.op();
        let is_meant = |it: &&Bio| it.event.rwbs.op() == op && it.reported.is_none();
        let of_all = device.holding(event.sector, event.nr_sector).filter(is_meant);
        let is_others = |it: &Bio| it.event.sector != event.sector || it.queued.tid != at.tid;
        let best = of_all.min_by_key(|it| (is_others(it), it.number))?;
        let key = best.key();
        device.kind = BioDeviceKind::Requests;
        let bio = device.open.get_mut(&key)?;
        let part = RequestPart {
            number,
            sector: event.sector,
            nr_sector: event.nr_sector,
            queued: bio.queued,
            here: bio.here(),
            levels: bio.levels_at(event.sector),
        };
        bio.taken = bio.taken.saturating_add(event.nr_sector);
        if bio.taken >= bio.event.nr_sector {
            device.remove(key);
        }
        Some(part)
    }

    /// Takes the oldest discards that this thread queued on a device, as many as fit into
    /// `nr_sector` sectors.
    pub(super) fn take_discards(
        &mut self,
        dev: DevId,
        by: Tid,
        nr_sector: u32,
    ) -> Vec<RequestPart> {
        let Some(device) = self.devices.get_mut(&dev) else { return Vec::new() };
        let is_meant = |bio: &&Bio| {
            bio.event.rwbs.op() == RequestOp::Discard
                && bio.queued.tid == by
                && bio.taken == 0
                && bio.reported.is_none()
        };
        let mut waiting: Vec<&Bio> = device.open.values().filter(is_meant).collect();
        waiting.sort_unstable_by_key(|it| it.number);
        let mut left = nr_sector;
        let fits = |bio: &&Bio| match left.checked_sub(bio.event.nr_sector) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let keys: Vec<OpenBioKey> = waiting.into_iter().take_while(fits).map(Bio::key).collect();
        let bios = keys.into_iter().filter_map(|it| device.remove(it));
        bios.map(|it| it.as_part()).collect()
    }

    /// Completes a bio that was not part of a request. Returns the bio and the treatment of bios by
    /// its device.
    pub(super) fn complete(&mut self, event: &BlockEvent) -> Option<(BioDeviceKind, Bio)> {
        let device = self.devices.get_mut(&event.dev)?;
        let misfit = |bio: &Bio| {
            (bio.event.sector != event.sector, bio.event.nr_sector != event.nr_sector, bio.number)
        };
        // The event of a bio whose sectors were all processed names the sector after its end.
        let candidates = device.holding(event.sector, event.nr_sector);
        let best = candidates.filter(|it| it.taken == 0).min_by_key(|it| misfit(it))?;
        let key = best.key();
        let bio = device.remove(key)?;
        if device.kind == BioDeviceKind::Unknown && event.error == 0 {
            device.kind = BioDeviceKind::Does;
        }
        Some((device.kind, bio))
    }

    /// Returns true if bios of this device do not become requests.
    pub(super) fn has_no_requests(&self, dev: DevId) -> bool {
        let kind = self.devices.get(&dev).map(|it| it.kind);
        matches!(kind, Some(BioDeviceKind::Passes | BioDeviceKind::Does))
    }

    /// Forgets, after a loss of records, the bios and remaps that wait for another event: that
    /// event may be lost.
    pub(super) fn records_lost(&mut self) {
        self.forget_remaps();
        for device in self.devices.values_mut() {
            let waiting = device.open.iter().filter(|it| it.1.reported.is_none()).map(|it| *it.0);
            for key in waiting.collect::<Vec<_>>() {
                device.remove(key);
            }
        }
    }

    /// Returns one bio.
    pub(super) fn bio_mut(&mut self, dev: DevId, number: u64) -> Option<&mut Bio> {
        let device = self.devices.get_mut(&dev)?;
        let sector = *device.ages.get(&number)?;
        device.open.get_mut(&OpenBioKey { sector, number })
    }

    /// Removes the oldest bio of a device that has more than `limit`.
    pub(super) fn too_many(&mut self, dev: DevId, limit: usize) -> Option<Bio> {
        let device = self.devices.get_mut(&dev).filter(|it| it.open.len() > limit)?;
        let (&number, &sector) = device.ages.first_key_value()?;
        device.remove(OpenBioKey { sector, number })
    }

    /// Removes all open bios, in the order of their numbers, each with the treatment of bios by its
    /// device.
    pub(super) fn drain(&mut self) -> Vec<(BioDeviceKind, Bio)> {
        let devices = self.devices.drain();
        let mut all: Vec<(BioDeviceKind, Bio)> = devices
            .flat_map(|(_, device)| {
                let kind = device.kind;
                device.open.into_values().map(move |it| (kind, it))
            })
            .collect();
        all.sort_unstable_by_key(|it| it.1.number);
        all
    }

    fn bio(&self, dev: DevId, key: OpenBioKey) -> Option<&Bio> {
        self.devices.get(&dev)?.open.get(&key)
    }

    /// Returns the oldest bio that holds this place and was not passed on to that device yet: a
    /// mirror passes each bio on to several. (Old kernels do not report the end of some bios; those
    /// do not hide younger ones.)
    fn open_at(&self, place: DevicePosition, nr_sector: u32, to: DevId) -> Option<OpenBioKey> {
        let device = self.devices.get(&place.dev)?;
        let found = device.holding(place.sector, nr_sector);
        let best =
            found.min_by_key(|it| (it.has_passed(to, place.sector, nr_sector), it.number))?;
        Some(best.key())
    }

    /// Takes the pending remap to this place, by the same thread if there is a choice.
    fn take_remap(
        &mut self,
        place: DevicePosition,
        nr_sector: u32,
        by: Tid,
    ) -> Option<SubmittedRange> {
        let waiting = self.remaps.get_mut(&place)?;
        let suits = |it: &SubmittedRange| it.nr_sector == nr_sector;
        let index = waiting
            .iter()
            .position(|it| suits(it) && it.by == by)
            .or_else(|| waiting.iter().position(suits))?;
        let remap = waiting.remove(index);
        if waiting.is_empty() {
            self.remaps.remove(&place);
        }
        self.remap_count -= 1;
        Some(remap)
    }

    /// Takes the pending remap of a stacked device to a partition: in its event the kernel names
    /// the disk, with a sector of the partition. Bios are never queued at a partition, so a device
    /// that has bios is not one.
    fn take_remap_of_partition(
        &mut self,
        at: &EventContext,
        event: &BlockEvent,
    ) -> Option<SubmittedRange> {
        let from = event.from.filter(|it| !self.devices.contains_key(&it.dev))?;
        let by_disk = DevicePosition { dev: event.dev, sector: from.sector };
        self.take_remap(by_disk, event.nr_sector, at.tid)
    }

    fn forget_remaps(&mut self) {
        self.remaps.clear();
        self.remap_count = 0;
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
