//! Records of a frame: found, and queued until their time.

use crate::anomaly::{Anomaly, AnomalyKind};
use crate::event::SeenFd;
use crate::event::fs::Extent;
use crate::event::identity::SeenIdentity;
use crate::merge::Merger;
use crate::record::page::{self, PageEntry};
use crate::record::{Layout, records};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Item that is sorted by time. Kept small: sorting moves as many of these as there are records.
#[derive(Debug)]
pub(super) enum PendingItem {
    /// A record: number of its buffer and place in it.
    Record(u32, u32),
    /// Number of records of the CPU's ring that were dropped before.
    Lost(CpuId, u64),
    /// A descriptor from a snapshot.
    Seen(Box<SeenFd>),
    /// Part of the identity of a process.
    Identity(Box<SeenIdentity>),
    /// Mounted file systems.
    FileSystems(Box<[(DevId, Option<u64>)]>),
    /// Extents of file systems from earlier records that were not kept.
    Places(Box<[Extent]>),
}

/// Records of one frame on their way to the queue.
pub(super) struct Arrivals<'a> {
    merger: &'a mut Merger<PendingItem>,
    /// Number of the frame's buffer.
    number: u32,
    cpu: CpuId,
    /// Number of all records.
    pub(super) found: u64,
    /// Number of those that wait in the buffer.
    pub(super) left: usize,
    /// Anomalies of those that could not be used.
    pub(super) refused: Vec<Anomaly>,
}

impl<'a> Arrivals<'a> {
    /// Creates it for the buffer with this number.
    pub(super) fn new(merger: &'a mut Merger<PendingItem>, number: u32, cpu: CpuId) -> Self {
        Self { merger, number, cpu, found: 0, left: 0, refused: Vec::new() }
    }

    /// Takes all records of a frame; `frame_time` is the time of those that have none.
    pub(super) fn take(&mut self, bytes: &[u8], layout: Layout, frame_time: KernelTime) {
        match layout {
            Layout::Perf(layout) => {
                for found in records(bytes) {
                    match found.map(|(start, it)| (start, it.time(&layout))) {
                        Ok((start, Some(time))) => self.record(time, start),
                        Ok((_, None)) => self.refuse(frame_time, "a record without a time"),
                        Err(error) => self.refuse(frame_time, &error.to_string()),
                    }
                }
            }
            Layout::Pages(layout) => {
                for found in page::entries(bytes, layout) {
                    match found {
                        Ok(PageEntry::Hit(start, time)) => self.record(time, start),
                        // The kernel had no room for the number: at least one.
                        Ok(PageEntry::Lost(time, count)) => self.lost(time, count.unwrap_or(1)),
                        Err(error) => self.refuse(frame_time, &error.to_string()),
                    }
                }
            }
        }
    }

    fn record(&mut self, time: KernelTime, start: usize) {
        self.found += 1;
        // A payload has at most 64 MiB.
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        match self.merger.push(time, PendingItem::Record(self.number, start)) {
            Ok(()) => self.left += 1,
            Err(_) => self.late(time),
        }
    }

    fn lost(&mut self, time: KernelTime, count: u64) {
        self.found += 1;
        if self.merger.push(time, PendingItem::Lost(self.cpu, count)).is_err() {
            self.late(time);
        }
    }

    fn refuse(&mut self, time: KernelTime, why: &str) {
        self.found += 1;
        self.anomaly(time, AnomalyKind::Undecodable, why);
    }

    fn late(&mut self, time: KernelTime) {
        self.anomaly(time, AnomalyKind::Late, "came after later records had been passed on");
    }

    fn anomaly(&mut self, time: KernelTime, kind: AnomalyKind, detail: &str) {
        let (cpu, detail) = (self.cpu, detail.to_owned());
        self.refused.push(Anomaly {
            kind,
            time,
            cpu,
            pid: Pid(-1),
            tid: Tid(-1),
            count: 1,
            detail,
        });
    }
}
