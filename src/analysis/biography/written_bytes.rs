//! Written bytes of a file: those that reached the disk, and those that never did.
//!
//! A write puts bytes into memory; a block request takes them to the disk later. Each written byte
//! ends in one class: it reached the disk, was overwritten, cut off or removed before, is in memory
//! at the end, or its fate is not known. A request carries what was written before its bio was
//! queued.

use std::collections::VecDeque;
use std::ops::Range;

use rangemap::RangeMap;

use crate::anomaly::Link;
use crate::units::KernelTime;

/// Largest number of ranges of a file that are remembered; the fate of further bytes is not known.
const RANGES_MAX: usize = 4096;

/// Largest number of remembered requests whose bytes may be of a call that has not ended.
const CARRIED_MAX: usize = 256;

/// Reason why bytes in memory never reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacement {
    Overwritten,
    CutOff,
}

/// Bytes that were replaced in memory.
#[derive(Clone, Debug)]
struct Replaced {
    range: Range<u64>,
    /// Begin of the call that wrote them.
    since: KernelTime,
    /// End of the call that replaced them.
    until: KernelTime,
    by: Replacement,
}

/// Bytes that a request has carried to the disk.
#[derive(Clone, Debug)]
struct Carried {
    range: Range<u64>,
    queued: KernelTime,
    link: Link,
}

/// Fates of the bytes that were written to a file, a sum for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteFates {
    /// Bytes that reached the disk, by the certainty of the file: exact, inferred, unknown.
    pub reached: [u64; 3],
    /// Bytes that were written past the page cache.
    pub direct: u64,
    /// Bytes that other bytes replaced in memory.
    pub overwritten: u64,
    /// Bytes that a truncation has cut off in memory.
    pub cut_off: u64,
    /// Bytes that were in memory when the file was removed.
    pub removed: u64,
    /// Bytes that were in memory at the end of the recording.
    pub in_memory: u64,
    /// Bytes whose fate is not known: their offset is not known, or there are too many ranges.
    pub unknown: u64,
}

impl ByteFates {
    /// Returns the bytes that never reached the disk.
    pub fn never_reached(&self) -> u64 {
        self.overwritten.saturating_add(self.cut_off).saturating_add(self.removed)
    }

    /// Returns the bytes that reached the disk.
    pub fn reached_bytes(&self) -> u64 {
        self.reached.iter().fold(self.direct, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// A write as the file sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteSpan {
    pub(super) start: KernelTime,
    pub(super) end: KernelTime,
    pub(super) offset: Option<u64>,
    pub(super) bytes: u64,
    pub(super) is_direct: bool,
}

/// Written bytes of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenBytes {
    fates: ByteFates,
    /// Bytes in memory, and the begin of the call that wrote them.
    dirty: RangeMap<u64, KernelTime>,
    replaced: VecDeque<Replaced>,
    carried: VecDeque<Carried>,
}

impl WrittenBytes {
    /// Adds a write that has ended.
    pub(super) fn wrote(&mut self, write: WriteSpan) {
        let WriteSpan { start, end, offset, bytes, is_direct } = write;
        if is_direct {
            self.fates.direct = self.fates.direct.saturating_add(bytes);
            return;
        }
        let place = offset.and_then(|offset| Some(offset..offset.checked_add(bytes)?));
        let Some(range) = place.filter(|range| !range.is_empty()) else {
            self.fates.unknown = self.fates.unknown.saturating_add(bytes);
            return;
        };
        self.replace(&range, end, Replacement::Overwritten);
        if self.dirty.len() >= RANGES_MAX {
            self.fates.unknown = self.fates.unknown.saturating_add(bytes);
            return;
        }
        self.dirty.insert(range, start);
        // Requests of a synchronous write come before the end of the call.
        let of_call: Vec<Carried> =
            self.carried.iter().filter(|carried| carried.queued >= start).cloned().collect();
        of_call.iter().for_each(|carried| self.take(carried));
    }

    /// Cuts the file off.
    pub(super) fn truncated(&mut self, length: u64, end: KernelTime) {
        self.replace(&(length..u64::MAX), end, Replacement::CutOff);
    }

    /// Adds bytes that a request has carried to the disk.
    pub(super) fn carried(&mut self, range: Range<u64>, queued: KernelTime, link: Link) {
        if range.is_empty() {
            return;
        }
        let carried = Carried { range, queued, link };
        self.take(&carried);
        if self.carried.len() >= CARRIED_MAX {
            self.carried.pop_front();
        }
        self.carried.push_back(carried);
    }

    /// Returns the fates at the end of the recording; `is_gone`: the file was removed.
    pub(super) fn fates(&self, is_gone: bool) -> ByteFates {
        let mut fates = self.fates;
        self.replaced.iter().for_each(|replaced| count(&mut fates, replaced));
        let left: u64 = self.dirty.iter().map(|(range, _)| range.end - range.start).sum();
        let sum = if is_gone { &mut fates.removed } else { &mut fates.in_memory };
        *sum = sum.saturating_add(left);
        fates
    }

    /// Takes the bytes of a range out of memory: others are there now.
    fn replace(&mut self, range: &Range<u64>, until: KernelTime, by: Replacement) {
        let of = self.dirty.overlapping(range.clone());
        let replaced: Vec<Replaced> = of
            .map(|(known, since)| Replaced {
                range: overlap(known, range),
                since: *since,
                until,
                by,
            })
            .collect();
        self.dirty.remove(range.clone());
        for bytes in replaced {
            if self.replaced.len() >= RANGES_MAX
                && let Some(oldest) = self.replaced.pop_front()
            {
                count(&mut self.fates, &oldest);
            }
            self.replaced.push_back(bytes);
        }
    }

    fn take(&mut self, carried: &Carried) {
        let Carried { range, queued, link } = carried;
        let of = self.dirty.overlapping(range.clone());
        let older = of.filter(|(_, since)| *since <= queued);
        let taken: Vec<Range<u64>> = older.map(|(known, _)| overlap(known, range)).collect();
        let mut bytes: u64 = taken.iter().map(|taken| taken.end - taken.start).sum();
        taken.into_iter().for_each(|taken| self.dirty.remove(taken));
        // Bytes that were replaced while the request was on its way.
        let mut rest: VecDeque<Replaced> = VecDeque::new();
        for replaced in std::mem::take(&mut self.replaced) {
            let in_time = replaced.since <= *queued && *queued < replaced.until;
            let common = overlap(&replaced.range, range);
            if !in_time || common.is_empty() {
                rest.push_back(replaced);
                continue;
            }
            bytes += common.end - common.start;
            let parts = [replaced.range.start..common.start, common.end..replaced.range.end];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            rest.extend(parts.map(|range| Replaced { range, ..replaced.clone() }));
        }
        self.replaced = rest;
        let [exact, inferred, unknown] = &mut self.fates.reached;
        let sum = match link {
            Link::Exact => exact,
            Link::Inferred => inferred,
            Link::Unknown => unknown,
        };
        *sum = sum.saturating_add(bytes);
    }
}

fn overlap(first: &Range<u64>, second: &Range<u64>) -> Range<u64> {
    first.start.max(second.start)..first.end.min(second.end)
}

fn count(fates: &mut ByteFates, replaced: &Replaced) {
    let sum = match replaced.by {
        Replacement::Overwritten => &mut fates.overwritten,
        Replacement::CutOff => &mut fates.cut_off,
    };
    *sum = sum.saturating_add(replaced.range.end.saturating_sub(replaced.range.start));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: u64, offset: u64, bytes: u64) -> WriteSpan {
        let (start, end) = (KernelTime(at), KernelTime(at + 5));
        WriteSpan { start, end, offset: Some(offset), bytes, is_direct: false }
    }

    fn carry(file: &mut WrittenBytes, range: Range<u64>, queued: u64) {
        file.carried(range, KernelTime(queued), Link::Inferred);
    }

    #[test]
    fn each_byte_has_one_fate() {
        let mut file = WrittenBytes::default();
        file.wrote(write(10, 0, 100));
        file.wrote(write(20, 50, 100));
        carry(&mut file, 0..70, 30);
        file.truncated(120, KernelTime(40));
        file.wrote(WriteSpan { offset: None, ..write(50, 0, 7) });
        file.wrote(WriteSpan { is_direct: true, ..write(60, 0, 11) });
        let expected = ByteFates {
            reached: [0, 70, 0],
            direct: 11,
            overwritten: 50,
            cut_off: 30,
            removed: 0,
            in_memory: 50,
            unknown: 7,
        };
        assert_eq!(file.fates(false), expected);
        let removed = ByteFates { removed: 50, in_memory: 0, ..expected };
        assert_eq!(file.fates(true), removed);
        assert_eq!(removed.never_reached() + removed.reached_bytes() + 7, 100 + 100 + 7 + 11);
    }

    #[test]
    fn bytes_on_their_way_reach_the_disk_though_they_are_overwritten() {
        let mut file = WrittenBytes::default();
        file.wrote(write(10, 0, 100));
        // The bio is queued at 30; the overwriting call ends at 45; the request ends later.
        file.wrote(write(40, 0, 100));
        carry(&mut file, 0..100, 30);
        let fates = file.fates(true);
        assert_eq!((fates.reached, fates.removed), ([0, 100, 0], 100));
        // The second write is younger than the bio.
        carry(&mut file, 0..100, 39);
        assert_eq!(file.fates(true).removed, 100);
    }

    #[test]
    fn requests_of_a_synchronous_write_end_before_the_call() {
        let mut file = WrittenBytes::default();
        carry(&mut file, 0..100, 12);
        file.wrote(write(10, 0, 100));
        assert_eq!(file.fates(true), ByteFates { reached: [0, 100, 0], ..ByteFates::default() });
        // A request of an earlier time carried other bytes.
        let mut file = WrittenBytes::default();
        carry(&mut file, 0..100, 9);
        file.wrote(write(10, 0, 100));
        assert_eq!(file.fates(true).removed, 100);
    }

    #[test]
    fn bytes_beyond_the_limit_of_ranges_are_unknown() {
        let mut file = WrittenBytes::default();
        for number in 0..RANGES_MAX as u64 + 3 {
            file.wrote(write(10 + number, number * 10, 1));
        }
        let fates = file.fates(false);
        assert_eq!((fates.in_memory, fates.unknown), (RANGES_MAX as u64, 3));
    }
}
