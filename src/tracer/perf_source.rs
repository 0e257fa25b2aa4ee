//! Perf source: the planned tracepoints on every CPU, sent into shared rings.
//!
//! The ring of chains belongs to perf, whatever the source of the other samples. It has no other
//! records, because its samples have one more field.

use std::ffi::CString;
use std::io;

use super::error::TracerError;
use super::ring_stream::{PERF_LAYOUT, RingStream};
use super::source::{Described, KernelCounts, NamesRings, OpenedSource, RingSizes, Source};
use super::tracepoint_plan::RingKind;
use crate::capture::header::{Counts, RecordLayout};
use crate::sys::perf::{self, Functions, PerfEvent, PerfTarget, SAMPLE_TYPE, Wake};
use crate::sys::ring::Ring;
use crate::sys::tracefs_instance::Instance;
use crate::units::Tid;

/// Index into the header's `layouts` of samples with call chains, if perf is the source.
const CHAINS_LAYOUT: u16 = 1;

/// Open perf events.
#[derive(Debug)]
pub(super) struct PerfSource {
    tracepoints: Vec<Described>,
    /// For each tracepoint, its event on each CPU.
    events: Vec<Vec<PerfEvent>>,
    functions: Functions,
}

/// Opens all tracepoints on all CPUs, switched off. `functions` are the functions that call chains
/// record.
///
/// # Errors
///
/// [`TracerError`] reports what could not be opened, and a remedy.
pub fn open(
    described: Vec<Described>,
    cpus: &[u32],
    sizes: RingSizes,
    functions: Functions,
    warnings: &mut Vec<String>,
) -> Result<OpenedSource, TracerError> {
    let has = |ring: RingKind| described.iter().any(|it| it.planned.ring == ring);
    let of_all = |has: bool, ring: &dyn Fn(u32) -> Result<RingStream, TracerError>| {
        let cpus = cpus.iter().filter(|_| has);
        cpus.map(|&cpu| ring(cpu)).collect::<Result<Vec<_>, _>>()
    };
    let rings = |sizes| {
        let plain = |cpu, ring, layout| plain_ring(cpu, ring, layout, sizes);
        Ok([
            of_all(true, &|cpu| task_ring(cpu, RingKind::Main, sizes, functions))?,
            of_all(has(RingKind::Names), &|cpu| plain(cpu, RingKind::Names, PERF_LAYOUT))?,
            of_all(has(RingKind::Chains), &|cpu| plain(cpu, RingKind::Chains, CHAINS_LAYOUT))?,
        ])
    };
    let ([mut drained, names, chains], sizes) = as_large_as_allowed(sizes, rings, warnings)?;
    let is_chained = |it: &Described| it.planned.ring == RingKind::Chains;
    let open = |tracepoint: &Described| {
        let rings = match tracepoint.planned.ring {
            RingKind::Names => &names,
            RingKind::Chains => &chains,
            _ => &drained,
        };
        let chained = is_chained(tracepoint).then_some(functions);
        rings.iter().map(|ring| open_one(tracepoint, ring, sizes, chained)).collect()
    };
    let events = described.iter().map(open).collect::<Result<Vec<Vec<_>>, _>>()?;
    let mut ring_bytes = [0; RingKind::ALL.len()];
    ring_bytes[RingKind::Main as usize] = sizes.main;
    ring_bytes[RingKind::Names as usize] = if names.is_empty() { 0 } else { sizes.small };
    ring_bytes[RingKind::Chains as usize] = if chains.is_empty() { 0 } else { sizes.chains };
    drained.extend(chains);
    let source = Box::new(PerfSource { tracepoints: described, events, functions });
    Ok(OpenedSource { source, drained, names: NamesRings::combined(names), ring_bytes })
}

/// Opens the tracepoints with call chains next to another source, and their rings. `layout` is the
/// index of their records.
pub(super) fn open_chains(
    described: &[Described],
    cpus: &[u32],
    sizes: RingSizes,
    layout: u16,
    functions: Functions,
) -> Result<(PerfSource, Vec<RingStream>), TracerError> {
    let chained = described.iter().filter(|it| it.planned.ring == RingKind::Chains);
    let tracepoints: Vec<Described> = chained.cloned().collect();
    if tracepoints.is_empty() {
        return Ok((PerfSource { tracepoints, events: Vec::new(), functions }, Vec::new()));
    }
    let rings = chain_rings(cpus, layout, sizes)?;
    let open = |tracepoint: &Described| {
        rings.iter().map(|ring| open_one(tracepoint, ring, sizes, Some(functions))).collect()
    };
    let events = tracepoints.iter().map(open).collect::<Result<Vec<Vec<_>>, _>>()?;
    Ok((PerfSource { tracepoints, events, functions }, rings))
}

fn chain_rings(
    cpus: &[u32],
    layout: u16,
    sizes: RingSizes,
) -> Result<Vec<RingStream>, TracerError> {
    cpus.iter().map(|&cpu| plain_ring(cpu, RingKind::Chains, layout, sizes)).collect()
}

/// Opens rings that together are no larger than this user is allowed, and returns their sizes.
/// Smaller sizes than wanted are reported in `warnings`.
pub(super) fn as_large_as_allowed<T>(
    wanted: RingSizes,
    rings: impl Fn(RingSizes) -> Result<T, TracerError>,
    warnings: &mut Vec<String>,
) -> Result<(T, RingSizes), TracerError> {
    let mut sizes = wanted;
    let rings = loop {
        match (rings(sizes), sizes.halved()) {
            (Err(TracerError::Ring { source, .. }), Some(halved))
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                sizes = halved;
            }
            (made, _) => break made?,
        }
    };
    if sizes.main < wanted.main {
        warnings.push(format!(
            "the rings have {} KiB each, not {}: the limit without privileges (kernel.perf_event_mlock_kb, ulimit -l); \
             records that do not fit are counted as lost",
            sizes.main >> 10,
            wanted.main >> 10
        ));
    }
    Ok((rings, sizes))
}

/// Opens a ring whose owner records births, names and ends of tasks, and new executable mappings if
/// user functions are recorded.
pub(super) fn task_ring(
    cpu: u32,
    ring: RingKind,
    sizes: RingSizes,
    functions: Functions,
) -> Result<RingStream, TracerError> {
    let code = functions.user.is_some();
    let owner = PerfEvent::tasks(cpu, watermark(ring, sizes), code, PerfTarget::AllProcesses);
    map(cpu, ring, PERF_LAYOUT, owner, sizes)
}

fn plain_ring(
    cpu: u32,
    ring: RingKind,
    layout: u16,
    sizes: RingSizes,
) -> Result<RingStream, TracerError> {
    let owner = PerfEvent::ring_owner(cpu, watermark(ring, sizes), PerfTarget::AllProcesses);
    map(cpu, ring, layout, owner, sizes)
}

/// Returns the layout of perf's records.
pub(super) fn layout() -> RecordLayout {
    RecordLayout { source: "perf".into(), sample_type: SAMPLE_TYPE, ..RecordLayout::default() }
}

/// Returns the layout of perf's records with call chains of these functions.
pub(super) fn chains_layout(functions: Functions) -> RecordLayout {
    let (bits, regs_user) = functions.sample();
    RecordLayout { sample_type: SAMPLE_TYPE | bits, regs_user, ..layout() }
}

/// Returns the watermark of a ring. The drain thread normally looks in time; it is woken only when
/// it is late.
pub(super) fn watermark(ring: RingKind, sizes: RingSizes) -> Wake {
    Wake::Watermark(u32::try_from(sizes.of(ring) / 2).unwrap_or(u32::MAX))
}

pub(super) fn map(
    cpu: u32,
    of: RingKind,
    layout: u16,
    owner: io::Result<PerfEvent>,
    sizes: RingSizes,
) -> Result<RingStream, TracerError> {
    let owner = owner
        .map_err(|source| TracerError::open("the event that owns the ring".into(), cpu, source))?;
    let bytes = sizes.of(of);
    let ring =
        Ring::map(&owner, bytes).map_err(|source| TracerError::Ring { cpu, bytes, source })?;
    Ok(RingStream::perf(cpu, of, layout, ring, owner))
}

fn open_one(
    tracepoint: &Described,
    ring: &RingStream,
    sizes: RingSizes,
    chained: Option<Functions>,
) -> Result<PerfEvent, TracerError> {
    let planned = &tracepoint.planned;
    let failed = |source| TracerError::open(tracepoint.name(), ring.cpu, source);
    let (id, cpu) = (tracepoint.id, ring.cpu);
    let wake = if planned.wakes { Wake::Each } else { watermark(planned.ring, sizes) };
    let event = match chained {
        Some(functions) => PerfEvent::chained(id, cpu, wake, functions),
        None => PerfEvent::tracepoint(id, cpu, wake, PerfTarget::AllProcesses),
    };
    let event = event.map_err(failed)?;
    ring.owner().map_or(Ok(()), |it| event.redirect(it)).map_err(failed)?;
    filter(&event, tracepoint, cpu)?;
    Ok(event)
}

/// Sets the filter that keeps unwanted samples out of the ring.
pub(super) fn filter(
    event: &PerfEvent,
    tracepoint: &Described,
    cpu: u32,
) -> Result<(), TracerError> {
    let filter = tracepoint.planned.filter.as_str();
    if filter.is_empty() {
        return Ok(());
    }
    let failed = |source| TracerError::open(tracepoint.name(), cpu, source);
    let text = CString::new(filter).map_err(io::Error::other).map_err(failed)?;
    event.set_filter(&text).map_err(|source| TracerError::Filter {
        tracepoint: tracepoint.name(),
        filter: filter.to_owned(),
        source,
    })
}

impl PerfSource {
    /// Returns the functions that call chains record.
    pub(super) fn functions(&self) -> Functions {
        self.functions
    }

    /// Returns the events of all tracepoints.
    pub(super) fn into_events(self) -> Vec<PerfEvent> {
        self.events.into_iter().flatten().collect()
    }
}

impl Source for PerfSource {
    fn enable(&self) -> io::Result<()> {
        self.events.iter().flatten().rev().try_for_each(PerfEvent::enable)
    }

    fn disable(&self) -> io::Result<()> {
        self.events.iter().flatten().try_for_each(PerfEvent::disable)?;
        perf::wait_for_hits();
        Ok(())
    }

    /// Does nothing: the events cover all threads, and the log thread drops records of other trees.
    fn follow(&self, _: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        Ok(true)
    }

    fn into_parts(self: Box<Self>) -> (Vec<Instance>, Vec<PerfEvent>) {
        (Vec::new(), self.into_events())
    }

    fn tracepoints(&self) -> &[Described] {
        &self.tracepoints
    }

    fn layouts(&self) -> Vec<RecordLayout> {
        let chains = self.tracepoints.iter().any(|it| it.planned.ring == RingKind::Chains);
        let chains = chains.then(|| chains_layout(self.functions));
        std::iter::once(layout()).chain(chains).collect()
    }

    fn counts(&self) -> io::Result<KernelCounts> {
        let counts = self
            .tracepoints
            .iter()
            .zip(&self.events)
            .map(|(tracepoint, per_cpu)| Ok((tracepoint.id, sum(tracepoint, per_cpu)?)));
        Ok(KernelCounts { tracepoints: counts.collect::<io::Result<_>>()?, rings: Vec::new() })
    }
}

/// Returns the kernel's counters of a tracepoint's events, summed.
pub(super) fn sum(tracepoint: &Described, per_cpu: &[PerfEvent]) -> io::Result<Counts> {
    let (mut hits, mut lost) = (0, Some(0));
    for event in per_cpu {
        let counters = event.counters()?;
        hits += counters.hits;
        lost = lost.zip(counters.lost).map(|(sum, it)| sum + it);
    }
    let ring = tracepoint.planned.ring.index();
    Ok(Counts { name: tracepoint.name(), ring, hits: Some(hits), samples: 0, lost })
}
