//! Bios on their way to requests: who queued them, and through which devices they came.
//!
//! ```text
//!   bio_queue dm-0 ──► remap sda ◄─ dm-0 ──► remap sda ◄─ sda3 ──► bio_queue sda ──► getrq or merge on sda
//!   (a bio, open)      (what it asks next,    (further, over a      (a bio, open)     (a part of a request)
//!                       waiting for its bio)   partition)
//! ```
//!
//! In: `block_bio_queue`, `block_split`, `block_bio_remap`, `block_bio_complete`, and what becomes of bios in requests. Out:
//! [`Part`]s of requests; and the bios of devices that have no requests (dm, md, zram), which are told as if they were
//! requests of these devices.
//!
//! A bio is queued, remapped, split, and made a request or merged into one by the same thread or, where a driver of stacked
//! devices has threads, by one of those; a remap says from which place to which, so levels are joined by place and length.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::model::{At, BlockRequest};
use crate::event::block::{BlockEvent, Comm, Place, RequestOp};
use crate::event::chain::ChainId;
use crate::units::{DevId, Tid};

/// A piece of a request that came in one bio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, over all requests.
    pub number: u64,
    /// First sector on the request's device.
    pub sector: u64,
    /// Length in sectors.
    pub nr_sector: u32,
    /// When it was handed to the block layer, at the uppermost device, and by whom.
    pub queued: At,
    /// When it, or what became of it, was handed to this device, and by whom.
    pub here: Here,
    /// The places that were asked before this device, the nearest first: a partition, a stacked device and its partition.
    /// Each is that of the part's first sector.
    pub levels: Arc<[Place]>,
}

/// How a bio came to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// When it was queued, and who was running.
    pub at: At,
    /// What that thread was called.
    pub comm: Option<Comm>,
    /// Through which functions it came there, if that was recorded.
    pub chain: Option<ChainId>,
}

impl Part {
    /// Where it was asked first: by a file system of its device, or by a program.
    pub fn top(&self, dev: DevId) -> Place {
        self.levels.last().copied().unwrap_or(Place { dev, sector: self.sector })
    }
}

/// A bio that is not done and not wholly part of requests.
#[derive(Clone, Debug)]
pub(super) struct Bio {
    pub number: u64,
    pub event: BlockEvent,
    /// Who handed in the uppermost, and when.
    pub queued: At,
    /// Who handed in this one, and when.
    pub here: At,
    /// Places above it.
    pub levels: Arc<[Place]>,
    /// Sectors that are parts of requests.
    taken: u32,
    /// The devices that it was passed on to, and up to which sector of its own.
    passed: Vec<(DevId, u64)>,
    /// What is told of it, if its device has no requests.
    pub told: Option<Box<BlockRequest>>,
}

impl Bio {
    fn end(&self) -> u64 {
        self.event.sector.saturating_add(u64::from(self.event.nr_sector))
    }

    fn holds(&self, sector: u64, nr_sector: u32) -> bool {
        let end = sector.saturating_add(u64::from(nr_sector));
        self.event.sector <= sector && end <= self.end()
    }

    /// True if these sectors of it went to that device already.
    fn has_passed(&self, to: DevId, sector: u64, nr_sector: u32) -> bool {
        self.passed.iter().any(|it| it.0 == to && (it.1 > sector || nr_sector == 0))
    }

    fn pass(&mut self, to: DevId, end: u64) {
        match self.passed.iter_mut().find(|it| it.0 == to) {
            Some(it) => it.1 = it.1.max(end),
            None => self.passed.push((to, end)),
        }
    }

    /// The places above for this sector of it.
    fn levels_at(&self, sector: u64) -> Arc<[Place]> {
        shifted(&self.levels, sector.saturating_sub(self.event.sector))
    }

    fn here(&self) -> Here {
        Here { at: self.here, comm: self.event.comm, chain: self.event.chain }
    }

    /// The whole of it as a part of what is told of it.
    pub(super) fn as_part(&self) -> Part {
        Part {
            number: self.number,
            sector: self.event.sector,
            nr_sector: self.event.nr_sector,
            queued: self.queued,
            here: self.here(),
            levels: Arc::clone(&self.levels),
        }
    }
}

fn shifted(levels: &Arc<[Place]>, by: u64) -> Arc<[Place]> {
    if by == 0 {
        return Arc::clone(levels);
    }
    levels.iter().map(|it| Place { dev: it.dev, sector: it.sector.saturating_add(by) }).collect()
}

/// What a device makes of bios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not known yet.
    #[default]
    Unknown,
    /// Requests.
    Requests,
    /// It passes them on to other devices: dm, md.
    Passes,
    /// It does itself what they ask: zram, pmem.
    Does,
}

/// The bios of one device.
#[derive(Debug, Default)]
struct Bios {
    kind: Kind,
    /// By first sector and number.
    open: BTreeMap<(u64, u64), Bio>,
    /// First sector by number: the oldest first.
    ages: BTreeMap<u64, u64>,
    /// No bio that was open since there last was none is longer.
    longest: u32,
}

impl Bios {
    fn add(&mut self, bio: Bio) {
        self.longest = self.longest.max(bio.event.nr_sector);
        self.ages.insert(bio.number, bio.event.sector);
        self.open.insert((bio.event.sector, bio.number), bio);
    }

    fn remove(&mut self, key: (u64, u64)) -> Option<Bio> {
        self.ages.remove(&key.1);
        let bio = self.open.remove(&key);
        if self.open.is_empty() {
            self.longest = 0;
        }
        bio
    }

    /// Those that hold these sectors, or begin there if there are none.
    fn holding(&self, sector: u64, nr_sector: u32) -> impl Iterator<Item = &Bio> {
        let from = sector.saturating_sub(u64::from(self.longest));
        let range = (from, 0)..=(sector, u64::MAX);
        self.open.range(range).map(|it| it.1).filter(move |it| match nr_sector {
            0 => it.event.sector == sector,
            _ => it.holds(sector, nr_sector),
        })
    }
}

/// What is asked of a place and is no bio of its device yet.
#[derive(Clone, Debug)]
struct Asked {
    by: Tid,
    nr_sector: u32,
    queued: At,
    levels: Arc<[Place]>,
}

/// Bios and remaps of all devices.
#[derive(Debug, Default)]
pub(super) struct BioLayer {
    next_number: u64,
    devices: FxHashMap<DevId, Bios>,
    asked: FxHashMap<Place, Vec<Asked>>,
    /// How many these are.
    asked_count: usize,
}

/// Remaps whose bios were not seen. More than any stack has between a remap and its bio.
const ASKED_MAX: usize = 1 << 16;

/// Devices that may stand on one another; the kernel's own stacks are some five high.
const LEVELS_MAX: usize = 32;

impl BioLayer {
    /// A bio was queued. Its device and number.
    pub(super) fn queue(&mut self, at: &At, event: &BlockEvent) -> (Kind, u64) {
        let place = Place { dev: event.dev, sector: event.sector };
        let asked = self.take_asked(place, event.nr_sector, at.tid);
        let (queued, levels) = match asked {
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
            told: None,
        });
        (device.kind, number)
    }

    /// The part in front becomes a bio of its own. (Of a bio that dm cuts only the rest is told, which stays the same bio.)
    pub(super) fn split(&mut self, event: &BlockEvent) {
        if event.nr_sector == 0 {
            return;
        }
        let number = self.number();
        let Some(device) = self.devices.get_mut(&event.dev) else { return };
        let is_longer = |it: &&Bio| it.event.nr_sector > event.nr_sector && it.told.is_none();
        let whole = device.holding(event.sector, event.nr_sector).filter(is_longer);
        let Some(key) = whole.map(|it| (it.event.sector, it.number)).max_by_key(|it| it.1) else {
            return;
        };
        let Some(mut rest) = device.remove(key) else { return };
        // What is in front of both has gone its way.
        let gone = u32::try_from(event.sector.saturating_sub(rest.event.sector)).unwrap_or(0);
        let mut front = Bio { number, taken: 0, ..rest.clone() };
        front.levels = rest.levels_at(event.sector);
        (front.event.sector, front.event.nr_sector) = (event.sector, event.nr_sector);
        let behind = event.sector.saturating_add(u64::from(event.nr_sector));
        rest.levels = rest.levels_at(behind);
        rest.event.sector = behind;
        rest.event.nr_sector =
            rest.event.nr_sector.saturating_sub(gone).saturating_sub(event.nr_sector);
        rest.taken = rest.taken.saturating_sub(gone);
        device.add(front);
        if rest.event.nr_sector > 0 {
            device.add(rest);
        }
    }

    /// What was asked of one place is asked of another. The bio that is passed on, if the first place had one.
    pub(super) fn remap(&mut self, at: &At, event: &BlockEvent) -> Option<&mut Bio> {
        let from = event.from?;
        let nr_sector = event.nr_sector;
        let before = self
            .take_asked(from, nr_sector, at.tid)
            .or_else(|| self.take_asked_of_partition(at, event));
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
        let asked = Asked { by: at.tid, nr_sector, queued, levels };
        let place = Place { dev: event.dev, sector: event.sector };
        if self.asked_count >= ASKED_MAX {
            self.forget_asked();
        }
        self.asked_count += 1;
        self.asked.entry(place).or_default().push(asked);
        let device = self.devices.get_mut(&from.dev)?;
        device.kind = Kind::Passes;
        let bio = device.open.get_mut(&passed?)?;
        bio.pass(event.dev, from.sector.saturating_add(u64::from(nr_sector)));
        Some(bio)
    }

    /// These sectors of a bio have become a part of a request.
    pub(super) fn take(&mut self, at: &At, event: &BlockEvent) -> Option<Part> {
        let number = self.number();
        let device = self.devices.get_mut(&event.dev)?;
        let op = event.rwbs.op();
        let is_meant = |it: &&Bio| it.event.rwbs.op() == op && it.told.is_none();
        let of_all = device.holding(event.sector, event.nr_sector).filter(is_meant);
        let is_others = |it: &Bio| it.event.sector != event.sector || it.queued.tid != at.tid;
        let best = of_all.min_by_key(|it| (is_others(it), it.number))?;
        let key = (best.event.sector, best.number);
        device.kind = Kind::Requests;
        let bio = device.open.get_mut(&key)?;
        let part = Part {
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

    /// The oldest discards that this thread has queued on a device, as many as make so many sectors.
    pub(super) fn take_discards(&mut self, dev: DevId, by: Tid, nr_sector: u32) -> Vec<Part> {
        let Some(device) = self.devices.get_mut(&dev) else { return Vec::new() };
        let is_meant = |it: &&Bio| {
            it.event.rwbs.op() == RequestOp::Discard
                && it.queued.tid == by
                && it.taken == 0
                && it.told.is_none()
        };
        let mut waiting: Vec<&Bio> = device.open.values().filter(is_meant).collect();
        waiting.sort_unstable_by_key(|it| it.number);
        let mut left = nr_sector;
        let fits = |it: &&Bio| match left.checked_sub(it.event.nr_sector) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let keys: Vec<(u64, u64)> =
            waiting.into_iter().take_while(fits).map(|it| (it.event.sector, it.number)).collect();
        let bios = keys.into_iter().filter_map(|it| device.remove(it));
        bios.map(|it| it.as_part()).collect()
    }

    /// A bio is done without having been part of a request. It, and what its device makes of bios.
    pub(super) fn complete(&mut self, event: &BlockEvent) -> Option<(Kind, Bio)> {
        let device = self.devices.get_mut(&event.dev)?;
        let misfit = |it: &Bio| {
            (it.event.sector != event.sector, it.event.nr_sector != event.nr_sector, it.number)
        };
        // Who has gone through all of it stands behind its end.
        let candidates = device.holding(event.sector, event.nr_sector);
        let best = candidates.filter(|it| it.taken == 0).min_by_key(|it| misfit(it))?;
        let key = (best.event.sector, best.number);
        let bio = device.remove(key)?;
        if device.kind == Kind::Unknown && event.error == 0 {
            device.kind = Kind::Does;
        }
        Some((device.kind, bio))
    }

    /// True if bios of this device do not become requests.
    pub(super) fn has_no_requests(&self, dev: DevId) -> bool {
        let kind = self.devices.get(&dev).map(|it| it.kind);
        matches!(kind, Some(Kind::Passes | Kind::Does))
    }

    /// Records were lost: bios and remaps that wait for something may have had it.
    pub(super) fn records_lost(&mut self) {
        self.forget_asked();
        for device in self.devices.values_mut() {
            let waiting = device.open.iter().filter(|it| it.1.told.is_none()).map(|it| *it.0);
            for key in waiting.collect::<Vec<_>>() {
                device.remove(key);
            }
        }
    }

    /// One bio.
    pub(super) fn bio_mut(&mut self, dev: DevId, number: u64) -> Option<&mut Bio> {
        let device = self.devices.get_mut(&dev)?;
        let sector = *device.ages.get(&number)?;
        device.open.get_mut(&(sector, number))
    }

    /// Takes out the oldest bio of a device that has more than `limit`.
    pub(super) fn too_many(&mut self, dev: DevId, limit: usize) -> Option<Bio> {
        let device = self.devices.get_mut(&dev).filter(|it| it.open.len() > limit)?;
        let (&number, &sector) = device.ages.first_key_value()?;
        device.remove((sector, number))
    }

    /// All that are open, in the order of their numbers; with what their devices make of bios.
    pub(super) fn drain(&mut self) -> Vec<(Kind, Bio)> {
        let devices = self.devices.drain();
        let mut all: Vec<(Kind, Bio)> = devices
            .flat_map(|(_, device)| {
                let kind = device.kind;
                device.open.into_values().map(move |it| (kind, it))
            })
            .collect();
        all.sort_unstable_by_key(|it| it.1.number);
        all
    }

    fn bio(&self, dev: DevId, key: (u64, u64)) -> Option<&Bio> {
        self.devices.get(&dev)?.open.get(&key)
    }

    /// The oldest bio that holds this place and did not go to that device yet: a mirror passes each on to several. (Of some
    /// bios old kernels tell no end; they do not stand in the way of younger ones.)
    fn open_at(&self, place: Place, nr_sector: u32, to: DevId) -> Option<(u64, u64)> {
        let device = self.devices.get(&place.dev)?;
        let found = device.holding(place.sector, nr_sector);
        let best =
            found.min_by_key(|it| (it.has_passed(to, place.sector, nr_sector), it.number))?;
        Some((best.event.sector, best.number))
    }

    /// What was asked of this place, by the same thread if there is a choice.
    fn take_asked(&mut self, place: Place, nr_sector: u32, by: Tid) -> Option<Asked> {
        let waiting = self.asked.get_mut(&place)?;
        let suits = |it: &Asked| it.nr_sector == nr_sector;
        let index = waiting
            .iter()
            .position(|it| suits(it) && it.by == by)
            .or_else(|| waiting.iter().position(suits))?;
        let asked = waiting.remove(index);
        if waiting.is_empty() {
            self.asked.remove(&place);
        }
        self.asked_count -= 1;
        Some(asked)
    }

    /// A stacked device has asked a partition: the kernel called it by its disk then, with a sector of the partition. Nothing
    /// is queued at a partition, so what has bios is none.
    fn take_asked_of_partition(&mut self, at: &At, event: &BlockEvent) -> Option<Asked> {
        let from = event.from.filter(|it| !self.devices.contains_key(&it.dev))?;
        let by_disk = Place { dev: event.dev, sector: from.sector };
        self.take_asked(by_disk, event.nr_sector, at.tid)
    }

    fn forget_asked(&mut self) {
        self.asked.clear();
        self.asked_count = 0;
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
