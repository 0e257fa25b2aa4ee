//! Stream: one ring of one CPU, from any source, read in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::tracepoint_plan::RingKind;
use crate::record::PageLayout;
use crate::sys::perf::PerfEvent;
use crate::sys::ring::Ring;
use crate::sys::trace_ring::{PagePipe, TraceRing};

/// Index of perf's records in the header's `layouts`.
pub const PERF_LAYOUT: u16 = 0;
/// Index of tracefs pages in the header's `layouts`.
pub const PAGES_LAYOUT: u16 = 1;

/// One ring of one CPU.
#[derive(Debug)]
pub struct RingStream {
    /// The CPU.
    pub cpu: u32,
    /// Kind of the ring.
    pub ring: RingKind,
    from: BytesOrigin,
}

/// Storage of the bytes.
#[derive(Debug)]
enum BytesOrigin {
    /// Memory that the kernel shares with the tracer. The ring is unmapped before its owner is
    /// closed: an event stays enabled while its ring is mapped.
    Perf { ring: Ring, owner: PerfEvent, layout: u16 },
    /// A file that returns pages.
    Pages { ring: TraceRing, layout: PageLayout },
}

/// Amount of data that one read takes from a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Data that costs the writer nothing to take.
    Cheap,
    /// One page, or the part of one that is filled so far; of a perf ring, all data.
    Page,
    /// All data that was in the ring when the read began.
    All,
}

impl RingStream {
    /// Returns a stream of a perf ring and the event that owns the ring, with records of this
    /// layout.
    pub fn perf(cpu: u32, ring: RingKind, layout: u16, mapped: Ring, owner: PerfEvent) -> Self {
        Self { cpu, ring, from: BytesOrigin::Perf { ring: mapped, owner, layout } }
    }

    /// Returns a stream of a ring of a tracefs instance.
    pub fn pages(cpu: u32, ring: RingKind, from: TraceRing, layout: PageLayout) -> Self {
        Self { cpu, ring, from: BytesOrigin::Pages { ring: from, layout } }
    }

    /// Returns the event that owns a perf ring.
    pub fn owner(&self) -> Option<&PerfEvent> {
        match &self.from {
            BytesOrigin::Perf { owner, .. } => Some(owner),
            BytesOrigin::Pages { .. } => None,
        }
    }

    /// Returns the index into the header's `layouts`.
    pub fn layout(&self) -> u16 {
        match self.from {
            BytesOrigin::Perf { layout, .. } => layout,
            BytesOrigin::Pages { .. } => PAGES_LAYOUT,
        }
    }

    /// True if the ring has records. With tracefs only for rings whose readers are woken by each
    /// sample.
    pub fn has_records(&self) -> bool {
        match &self.from {
            BytesOrigin::Perf { ring, .. } => ring.has_records(),
            BytesOrigin::Pages { ring, .. } => ring.has_records(),
        }
    }

    /// Appends the content of the ring: whole records, and pages cut after their data.
    ///
    /// # Errors
    ///
    /// Errors of reading a tracefs ring.
    pub fn take(&mut self, how: Take, pipe: &mut PagePipe, out: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.from {
            BytesOrigin::Perf { ring, .. } => {
                ring.take(out);
                Ok(())
            }
            BytesOrigin::Pages { ring, layout } => {
                let start = out.len();
                let taken = match how {
                    Take::Cheap => ring.take_pages(pipe, out),
                    Take::Page => ring.take_page(out),
                    Take::All => ring.take_pages(pipe, out).and_then(|()| ring.take_rest(out)),
                };
                layout.cut(out, start);
                taken
            }
        }
    }
}

impl AsFd for RingStream {
    /// Returns the descriptor that is readable when there is data to take. Perf: at the watermark;
    /// tracefs, with `buffer_percent` 0: after each sample.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.from {
            BytesOrigin::Perf { owner, .. } => owner.as_fd(),
            BytesOrigin::Pages { ring, .. } => ring.as_fd(),
        }
    }
}
