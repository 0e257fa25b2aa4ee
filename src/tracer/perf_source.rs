//! Perf events: the planned tracepoints on every CPU, sent into shared rings.

use std::ffi::CString;
use std::io;

use super::error::TracerError;
use super::plan::RingOf;
use super::source::{Books, Described, Opened, RingSizes, Source};
use super::stream::Stream;
use crate::capture::header::{Counts, Layout};
use crate::sys::perf::{PerfEvent, SAMPLE_TYPE, Wake};
use crate::sys::ring::Ring;
use crate::units::Tid;

/// Everything that is open in the kernel.
#[derive(Debug)]
struct PerfSource {
    tracepoints: Vec<Described>,
    /// For each of them, its event on each CPU.
    events: Vec<Vec<PerfEvent>>,
}

/// Opens all on all CPUs, switched off.
///
/// # Errors
///
/// [`TracerError`] says what could not be opened and what would help.
pub fn open(
    described: Vec<Described>,
    cpus: &[u32],
    sizes: RingSizes,
) -> Result<Opened, TracerError> {
    let has_names = described.iter().any(|it| it.planned.ring == RingOf::Names);
    let mut drained = Vec::new();
    let mut names = Vec::new();
    for &cpu in cpus {
        drained.push(task_ring(cpu, RingOf::Main, sizes)?);
        if has_names {
            let wake = Wake::Watermark(watermark(sizes.of(RingOf::Names)));
            let opens = map(cpu, RingOf::Names, PerfEvent::ring_owner(cpu, wake), sizes)?;
            names.push(opens);
        }
    }
    let mut events = Vec::new();
    for tracepoint in &described {
        let rings: Vec<&Stream> = if tracepoint.planned.ring == RingOf::Names {
            names.iter().collect()
        } else {
            drained.iter().collect()
        };
        let wake = tracepoint.planned.wake(watermark(sizes.of(tracepoint.planned.ring)));
        let per_cpu =
            rings.iter().map(|ring| open_one(tracepoint, ring, wake)).collect::<Result<_, _>>()?;
        events.push(per_cpu);
    }
    let mut ring_bytes = [0; RingOf::ALL.len()];
    ring_bytes[RingOf::Main as usize] = sizes.main;
    ring_bytes[RingOf::Names as usize] = if has_names { sizes.small } else { 0 };
    let source = Box::new(PerfSource { tracepoints: described, events });
    Ok(Opened { source, drained, names, ring_bytes })
}

/// A ring whose owner writes births, names and ends of tasks into it.
pub(super) fn task_ring(cpu: u32, ring: RingOf, sizes: RingSizes) -> Result<Stream, TracerError> {
    let wake = Wake::Watermark(watermark(sizes.of(ring)));
    map(cpu, ring, PerfEvent::tasks(cpu, wake), sizes)
}

/// How perf's records are laid out.
pub(super) fn layout() -> Layout {
    Layout { source: "perf".into(), sample_type: SAMPLE_TYPE, ..Layout::default() }
}

/// The drain thread looks by itself often enough; it is woken only when it is late.
fn watermark(ring_bytes: usize) -> u32 {
    u32::try_from(ring_bytes / 2).unwrap_or(u32::MAX)
}

fn map(
    cpu: u32,
    of: RingOf,
    owner: io::Result<PerfEvent>,
    sizes: RingSizes,
) -> Result<Stream, TracerError> {
    let owner = owner
        .map_err(|source| TracerError::open("the event that owns the ring".into(), cpu, source))?;
    let bytes = sizes.of(of);
    let ring =
        Ring::map(&owner, bytes).map_err(|source| TracerError::Ring { cpu, bytes, source })?;
    Ok(Stream::perf(cpu, of, ring, owner))
}

fn open_one(tracepoint: &Described, ring: &Stream, wake: Wake) -> Result<PerfEvent, TracerError> {
    let planned = &tracepoint.planned;
    let failed = |source| TracerError::open(tracepoint.name(), ring.cpu, source);
    let event = PerfEvent::tracepoint(tracepoint.id, ring.cpu, wake).map_err(failed)?;
    ring.owner().map_or(Ok(()), |it| event.redirect(it)).map_err(failed)?;
    if !planned.filter.is_empty() {
        let filter =
            CString::new(planned.filter.as_str()).map_err(io::Error::other).map_err(failed)?;
        event.set_filter(&filter).map_err(|source| TracerError::Filter {
            tracepoint: tracepoint.name(),
            filter: planned.filter.clone(),
            source,
        })?;
    }
    Ok(event)
}

impl Source for PerfSource {
    fn enable(&self) -> io::Result<()> {
        self.events.iter().flatten().rev().try_for_each(PerfEvent::enable)
    }

    fn disable(&self) -> io::Result<()> {
        self.events.iter().flatten().try_for_each(PerfEvent::disable)
    }

    /// The events are of everybody; the log thread drops what is not of the tree.
    fn follow(&self, _: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        Ok(true)
    }

    fn tracepoints(&self) -> &[Described] {
        &self.tracepoints
    }

    fn layouts(&self) -> Vec<Layout> {
        vec![layout()]
    }

    fn counts(&self) -> io::Result<Books> {
        let counts = self
            .tracepoints
            .iter()
            .zip(&self.events)
            .map(|(tracepoint, per_cpu)| Ok((tracepoint.id, sum(tracepoint, per_cpu)?)));
        Ok(Books { tracepoints: counts.collect::<io::Result<_>>()?, rings: Vec::new() })
    }
}

fn sum(tracepoint: &Described, per_cpu: &[PerfEvent]) -> io::Result<Counts> {
    let (mut hits, mut lost) = (0, Some(0));
    for event in per_cpu {
        let counters = event.counters()?;
        hits += counters.hits;
        lost = lost.zip(counters.lost).map(|(sum, it)| sum + it);
    }
    let ring = tracepoint.planned.ring.index();
    Ok(Counts { name: tracepoint.name(), ring, hits: Some(hits), samples: 0, lost })
}
