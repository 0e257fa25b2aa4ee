//! Records and pages of a ring on their way into data frames.

use crate::capture::format::Codec;
use crate::capture::writer::DataFrame;
use crate::record::abi::record_type;
use crate::record::page::{self, PageEntry};
use crate::record::parse::RecordBody;
use crate::record::{Layout, PageLayout, RecordKind, SampleLayout, records};
use crate::units::{KernelTime, Pid};

pub(super) fn empty_frame(cpu: u32, stream: u32, number: u16, layout: Layout) -> DataFrame {
    let codec = match layout {
        Layout::Perf(_) => Codec::ZSTD_DELTA,
        // Times of pages are differences already.
        Layout::Pages(_) => Codec::ZSTD,
    };
    let (first_time, last_time) = (KernelTime::MAX, KernelTime::MIN);
    DataFrame { cpu, stream, layout: number, codec, first_time, last_time, records: 0 }
}

pub(super) fn note_record(frame: &mut DataFrame, time: Option<KernelTime>) {
    frame.records += 1;
    if let Some(time) = time {
        frame.first_time = frame.first_time.min(time);
        frame.last_time = frame.last_time.max(time);
    }
}

/// Change of a process that a record reports.
pub(super) enum ProcessChange {
    Exec(Pid),
    Born(Pid),
    Ended(Pid),
}

impl ProcessChange {
    /// True if the record may report a change: nearly all are others.
    #[inline]
    pub(super) fn is_in(record: &RecordKind<'_>) -> bool {
        matches!(record.kind, record_type::COMM | record_type::EXIT | record_type::FORK)
    }

    /// Returns the change that this record reports, if any.
    pub(super) fn of(record: &RecordKind<'_>, layout: &SampleLayout) -> Option<Self> {
        if !Self::is_in(record) {
            return None;
        }
        match record.parse(layout).ok()?.body {
            RecordBody::Comm { pid, exec: true, .. } => Some(Self::Exec(pid)),
            RecordBody::Fork { pid, ppid, .. } if pid != ppid => Some(Self::Born(pid)),
            RecordBody::Exit { pid, tid, .. } if pid.0 == tid.0 => Some(Self::Ended(pid)),
            _ => None,
        }
    }
}

/// Returns the length of the whole records or pages at the front of `bytes` that fit into `limit`;
/// at least one, or all if they cannot be parsed.
pub(super) fn whole_front(bytes: &[u8], limit: usize, layout: Layout) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let fits = |it: &usize| *it <= limit;
    let last = match layout {
        Layout::Perf(_) => records(bytes).flatten().map(|it| it.0).take_while(fits).last(),
        Layout::Pages(layout) => page_starts(bytes, layout).take_while(fits).last(),
    };
    last.filter(|&it| it > 0).unwrap_or(bytes.len())
}

fn page_starts(bytes: &[u8], layout: PageLayout) -> impl Iterator<Item = usize> + '_ {
    std::iter::successors(Some(0), move |&start| {
        Some(start + layout.used_bytes(bytes.get(start..)?)?)
    })
}

/// Returns the frame header of these records of the same ring.
pub(super) fn summary(of: DataFrame, bytes: &[u8], layout: Layout) -> DataFrame {
    let mut frame = empty_frame(of.cpu, of.stream, of.layout, layout);
    match layout {
        Layout::Perf(layout) => {
            let times = records(bytes).flatten().map(|(_, it)| it.time(&layout));
            times.for_each(|it| note_record(&mut frame, it));
        }
        Layout::Pages(layout) => {
            let times = page::entries(bytes, layout).map(|entry| match entry {
                Ok(PageEntry::Hit(_, time) | PageEntry::Lost(time, _)) => Some(time),
                Err(_) => None,
            });
            times.for_each(|it| note_record(&mut frame, it));
        }
    }
    frame
}

/// Keeps only these ranges of the bytes, given as start and length in ascending order.
pub(super) fn compact(bytes: &mut Vec<u8>, kept: &[(usize, usize)]) {
    let mut end = 0;
    for &(start, length) in kept {
        bytes.copy_within(start..start + length, end);
        end += length;
    }
    bytes.truncate(end);
}
