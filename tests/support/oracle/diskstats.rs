//! `/proc/diskstats`: the kernel's own count of what a device did.

use std::ops::Sub;
use std::thread::sleep;
use std::time::Duration;

/// The counters of one device (Documentation/admin-guide/iostats.rst). Sectors have 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskStats {
    pub reads: u64,
    pub reads_merged: u64,
    pub read_sectors: u64,
    pub read_ms: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub written_sectors: u64,
    pub write_ms: u64,
    /// Requests at the device now: not a counter.
    pub in_flight: u64,
    pub busy_ms: u64,
    pub weighted_ms: u64,
    pub discards: u64,
    pub discards_merged: u64,
    pub discarded_sectors: u64,
    pub discard_ms: u64,
    pub flushes: u64,
    pub flush_ms: u64,
}

/// Time between two looks at a device.
const PAUSE: Duration = Duration::from_millis(50);

impl DiskStats {
    /// Finds a device ("loop3") in the text of `/proc/diskstats`.
    pub(crate) fn parse(text: &str, device: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(device))?;
        let mut fields = line.split_whitespace().skip(3).map(|it| it.parse().ok());
        // Discards came with Linux 4.18, flushes with 5.5: not there is none.
        let mut next = || fields.next().unwrap_or(Some(0));
        Some(Self {
            reads: next()?,
            reads_merged: next()?,
            read_sectors: next()?,
            read_ms: next()?,
            writes: next()?,
            writes_merged: next()?,
            written_sectors: next()?,
            write_ms: next()?,
            in_flight: next()?,
            busy_ms: next()?,
            weighted_ms: next()?,
            discards: next()?,
            discards_merged: next()?,
            discarded_sectors: next()?,
            discard_ms: next()?,
            flushes: next()?,
            flush_ms: next()?,
        })
    }

    /// The counters of a device now.
    pub(crate) fn read(device: &str) -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/diskstats").ok()?, device)
    }

    /// Waits until nothing is in flight and two looks in a row find the same; the counters then.
    /// `None` if that does not happen in time, or there is no such device.
    pub(crate) fn wait_idle(device: &str, timeout: Duration) -> Option<Self> {
        let mut last = Self::read(device)?;
        let mut unchanged = 0;
        for _ in 0..=timeout.as_millis() / PAUSE.as_millis() {
            sleep(PAUSE);
            let now = Self::read(device)?;
            unchanged = if now == last && now.in_flight == 0 { unchanged + 1 } else { 0 };
            if unchanged == 2 {
                return Some(now);
            }
            last = now;
        }
        None
    }
}

/// Difference of two looks. `in_flight` is that of the later one.
impl Sub for DiskStats {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            reads_merged: self.reads_merged - before.reads_merged,
            read_sectors: self.read_sectors - before.read_sectors,
            read_ms: self.read_ms - before.read_ms,
            writes: self.writes - before.writes,
            writes_merged: self.writes_merged - before.writes_merged,
            written_sectors: self.written_sectors - before.written_sectors,
            write_ms: self.write_ms - before.write_ms,
            in_flight: self.in_flight,
            busy_ms: self.busy_ms - before.busy_ms,
            weighted_ms: self.weighted_ms - before.weighted_ms,
            discards: self.discards - before.discards,
            discards_merged: self.discards_merged - before.discards_merged,
            discarded_sectors: self.discarded_sectors - before.discarded_sectors,
            discard_ms: self.discard_ms - before.discard_ms,
            flushes: self.flushes - before.flushes,
            flush_ms: self.flush_ms - before.flush_ms,
        }
    }
}
