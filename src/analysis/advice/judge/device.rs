//! Rules about disks, the page cache and the kernel's writeback.

use rustc_hash::FxHashMap;

use super::super::super::pattern::class::PatternClass;
use super::super::super::pattern::{Direction, StreamFile};
use super::super::finding::AdviceAmount::{Bytes, Count, Ns};
use super::super::finding::{AdviceFinding, AdvicePlace};
use super::super::rule::RuleId;
use super::Judge;
use super::places::{AdvicePlaces, PlaceSum, of_habits};
use super::thresholds::{LONG_NS, MUCH};
use crate::capture::header::Disk;
use crate::operation::disk;
use crate::units::{DevId, SECTOR_BYTES};

/// Requests below which the depth of a queue says nothing.
const REQUESTS_MIN: u64 = 1000;

/// Length of a queue that can hold many requests.
const QUEUE_MIN: u64 = 32;

/// Smallest alignment of a partition, in bytes.
const ALIGNMENT_MIN: u64 = 4096;

impl Judge<'_> {
    fn disk_name(&self, dev: DevId) -> Vec<u8> {
        let names = disk::names(&self.input.recording.disks());
        let name = names.into_iter().find(|(known, _)| *known == dev);
        name.map_or_else(|| dev.to_string(), |(_, name)| name).into_bytes()
    }

    fn number(disk: &Disk, attribute: &str) -> Option<u64> {
        disk.attributes.get(attribute)?.trim().parse().ok()
    }

    pub(super) fn one_at_a_time(&self) -> Option<AdviceFinding> {
        let disks = self.input.recording.disks();
        let patterns = self.input.facts.patterns.as_ref()?;
        let mut places = Vec::new();
        for ((dev, direction), row) in patterns.devices.iter() {
            if *direction != Direction::Both || row.stream.count < REQUESTS_MIN {
                continue;
            }
            let disk = disks.iter().find(|disk| DevId::parse(&disk.dev) == Some(*dev));
            let queue = disk.and_then(|disk| {
                Self::number(disk, "device/queue_depth").or(Self::number(disk, "queue/nr_requests"))
            });
            if queue.is_some_and(|length| length >= QUEUE_MIN) && row.stream.found().depth.max == 1
            {
                places.push(AdvicePlace {
                    key: self.disk_name(*dev),
                    count: row.stream.count,
                    bytes: row.stream.bytes,
                    ..AdvicePlace::default()
                });
            }
        }
        let places = AdvicePlaces::new(places, false);
        let PlaceSum { count, bytes, .. } = places.sum;
        let amounts = vec![Count(count, "request"), Bytes(bytes, "moved"), Count(1, "at once")];
        (count > 0).then(|| places.finding(RuleId::OneAtATime, amounts))
    }

    pub(super) fn misaligned_partition(&self) -> Option<AdviceFinding> {
        let mut places = Vec::new();
        for disk in self.input.recording.disks() {
            let block = Self::number(&disk, "queue/physical_block_size").unwrap_or(0);
            let block = block.max(ALIGNMENT_MIN);
            for partition in &disk.partitions {
                let Some(start) = partition.start_sectors else { continue };
                if start.saturating_mul(SECTOR_BYTES) % block != 0 {
                    places.push(AdvicePlace {
                        key: partition.name.clone().into_bytes(),
                        count: 1,
                        bytes: start.saturating_mul(SECTOR_BYTES),
                        ..AdvicePlace::default()
                    });
                }
            }
        }
        let places = AdvicePlaces::new(places, false);
        let amounts = vec![Count(places.all, "partition")];
        (places.all > 0).then(|| places.finding(RuleId::MisalignedPartition, amounts))
    }

    pub(super) fn useless_readahead(&self) -> Option<AdviceFinding> {
        let patterns = self.input.facts.patterns.as_ref()?;
        let mut is_random: FxHashMap<usize, bool> = FxHashMap::default();
        for ((_, file, direction), row) in patterns.streams.iter() {
            if let (StreamFile::Named(place), Direction::Read) = (file, direction) {
                let is_this = row.stream.found().class == Some(PatternClass::Random);
                let known = is_random.entry(*place).or_insert(is_this);
                *known &= is_this;
            }
        }
        let cache = self.input.facts.cache.as_ref()?;
        let mut places = Vec::new();
        for (key, place) in patterns.files.keys() {
            let file = cache.files.get(key).and_then(|row| row.key);
            let Some(file) = file.filter(|_| is_random.get(&place) == Some(&true)) else {
                continue;
            };
            let [read, unused] = cache.of_disk(file);
            if unused >= MUCH && unused.saturating_mul(2) >= read {
                let count = cache.files.get(key).map_or(0, |row| row.used.reads);
                places.push(AdvicePlace {
                    key: key.clone(),
                    count,
                    bytes: unused,
                    time_ns: 0,
                    ..AdvicePlace::default()
                });
            }
        }
        let places = AdvicePlaces::new(places, true);
        let PlaceSum { count, bytes, .. } = places.sum;
        let amounts = vec![Bytes(bytes, "read by disks and not used"), Count(count, "random read")];
        (bytes > 0).then(|| places.finding(RuleId::UselessReadahead, amounts))
    }

    pub(super) fn cache_thrash(&self) -> Option<AdviceFinding> {
        let cache = self.input.facts.cache.as_ref()?;
        let files = &self.input.files?.files;
        let mut places = Vec::new();
        for (key, row) in cache.files.iter() {
            let (Some(file), Some(used)) = (row.key, files.get(key)) else {
                continue;
            };
            let [read, _] = cache.of_disk(file);
            let size = used.size;
            // Direct reads pass the cache.
            let is_cached = row.used.direct == 0;
            if is_cached && size > 0 && read >= size.saturating_mul(2) && read - size >= MUCH {
                places.push(AdvicePlace {
                    key: key.clone(),
                    count: row.used.reads,
                    bytes: read.saturating_sub(size),
                    ..AdvicePlace::default()
                });
            }
        }
        let places = AdvicePlaces::new(places, true);
        let amounts = vec![Bytes(places.sum.bytes, "read by disks beyond the size of the files")];
        (places.all > 0).then(|| places.finding(RuleId::CacheThrash, amounts))
    }

    pub(super) fn journal_commits(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places = AdvicePlaces::new(of_habits(&habits.commits, &habits.names, |_| true), false);
        let PlaceSum { count, time_ns, .. } = places.sum;
        let amounts = vec![
            Count(count, "sync that waited"),
            Ns(time_ns, "for commits"),
            Ns(habits.sync_ns, "in all syncs"),
        ];
        let is_long = time_ns >= LONG_NS && time_ns.saturating_mul(2) >= habits.sync_ns;
        is_long.then(|| places.finding(RuleId::JournalCommits, amounts))
    }

    pub(super) fn throttled_writers(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places =
            AdvicePlaces::new(of_habits(&habits.throttled, &habits.names, |_| true), false);
        let PlaceSum { count, time_ns, .. } = places.sum;
        let amounts = vec![Count(count, "call"), Ns(time_ns, "throttled")];
        (time_ns >= LONG_NS).then(|| places.finding(RuleId::ThrottledWriters, amounts))
    }
}
