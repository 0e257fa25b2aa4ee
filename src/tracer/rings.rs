//! Opens the planned tracepoints on every CPU and maps the rings.

use std::ffi::CString;
use std::io;

use super::error::TracerError;
use super::plan::{Planned, RingOf};
use crate::capture::header::{Counts, Tracepoint};
use crate::sys::perf::{PerfEvent, Wake};
use crate::sys::ring::{Ring, page_bytes};
use crate::sys::tracefs::{Tracefs, TracefsError};
use crate::tracefs::EventFormat;

/// A tracepoint that this kernel has, with its description.
#[derive(Clone, Debug)]
pub struct Described {
    /// What was planned.
    pub planned: Planned,
    /// Its `common_type`.
    pub id: u16,
    /// The text of its `format` file.
    pub format: String,
}

impl Described {
    /// As the log's header keeps it.
    pub fn header(&self) -> Tracepoint {
        Tracepoint {
            system: self.planned.system.into(),
            name: self.planned.name.clone(),
            id: self.id,
            format: self.format.clone(),
            filter: self.planned.filter.clone(),
            ring: self.planned.ring.index(),
        }
    }
}

/// Looks up the planned tracepoints. Those that are not needed and not there go into `warnings`.
///
/// # Errors
///
/// If a needed one is not there or tracefs cannot be read.
pub fn describe(
    planned: Vec<Planned>,
    tracefs: &Tracefs,
    warnings: &mut Vec<String>,
) -> Result<Vec<Described>, TracerError> {
    let mut described = Vec::new();
    for planned in planned {
        let format = match tracefs.format(planned.system, &planned.name) {
            Ok(format) => format,
            Err(error @ TracefsError::Missing { .. }) if !planned.needed => {
                warnings.push(format!("{error}: its events are not recorded"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let tracepoint = || format!("{}:{}", planned.system, planned.name);
        let parsed = EventFormat::parse(&format)
            .map_err(|source| TracerError::Format { tracepoint: tracepoint(), source })?;
        let id = parsed.id.and_then(|it| u16::try_from(it).ok());
        let id = id.ok_or_else(|| TracerError::NoId { tracepoint: tracepoint() })?;
        described.push(Described { planned, id, format });
    }
    Ok(described)
}

/// How large the rings are.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Data bytes of each main ring, a power of two.
    pub main: usize,
    /// Data bytes of each names ring, a power of two.
    pub names: usize,
}

/// All main rings together are at most this large.
const MAIN_RINGS_BYTES_MAX: usize = 512 << 20;
/// A main ring by default: 90 ms of the highest rate that one CPU can produce.
const MAIN_RING_BYTES: usize = 8 << 20;
/// A names ring holds the few opens that happen before their reader runs.
const NAMES_RING_BYTES: usize = 256 << 10;
/// The drain thread is woken when so much is in a ring, or a quarter of it.
const WATERMARK_BYTES: usize = 512 << 10;

impl RingSizes {
    /// The default for so many CPUs.
    pub fn for_cpus(cpus: usize) -> Self {
        let share = MAIN_RINGS_BYTES_MAX / cpus.max(1);
        let largest = 1usize << share.max(page_bytes()).ilog2();
        Self { main: MAIN_RING_BYTES.min(largest), names: NAMES_RING_BYTES.max(page_bytes()) }
    }

    /// With main rings of at least so many bytes each.
    pub fn with_main(self, bytes: usize) -> Self {
        Self { main: bytes.max(page_bytes()).next_power_of_two(), ..self }
    }

    fn watermark(self, ring: RingOf) -> u32 {
        let size = match ring {
            RingOf::Main => self.main,
            RingOf::Names => self.names,
        };
        u32::try_from((size / 4).min(WATERMARK_BYTES)).unwrap_or(u32::MAX)
    }
}

/// One ring of one CPU and the event that owns it. The ring is unmapped before its owner is closed: an event stays
/// enabled while its ring is mapped.
#[derive(Debug)]
pub struct CpuRing {
    /// The CPU.
    pub cpu: u32,
    /// The ring.
    pub ring: Ring,
    /// The event that owns it; readable when there is something to take.
    pub owner: PerfEvent,
}

/// Everything that is open in the kernel.
#[derive(Debug)]
pub struct OpenEvents {
    /// For each described tracepoint, its event on each CPU.
    events: Vec<(Described, Vec<PerfEvent>)>,
}

/// What was opened: the events, the main rings, the names rings.
#[derive(Debug)]
pub struct Opened {
    /// The tracepoints.
    pub events: OpenEvents,
    /// One per CPU.
    pub main: Vec<CpuRing>,
    /// One per CPU, or none.
    pub names: Vec<CpuRing>,
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
    let mut main = Vec::new();
    let mut names = Vec::new();
    for &cpu in cpus {
        let owner = PerfEvent::tasks(cpu, Wake::Watermark(sizes.watermark(RingOf::Main)));
        main.push(map(cpu, owner, sizes.main)?);
        if has_names {
            let owner = PerfEvent::ring_owner(cpu, Wake::Watermark(sizes.watermark(RingOf::Names)));
            names.push(map(cpu, owner, sizes.names)?);
        }
    }
    let mut events = Vec::new();
    for tracepoint in described {
        let rings = match tracepoint.planned.ring {
            RingOf::Main => &main,
            RingOf::Names => &names,
        };
        let watermark = sizes.watermark(tracepoint.planned.ring);
        let per_cpu = rings
            .iter()
            .map(|ring| open_one(&tracepoint, ring, watermark))
            .collect::<Result<_, _>>()?;
        events.push((tracepoint, per_cpu));
    }
    Ok(Opened { events: OpenEvents { events }, main, names })
}

fn map(cpu: u32, owner: io::Result<PerfEvent>, bytes: usize) -> Result<CpuRing, TracerError> {
    let owner = owner
        .map_err(|source| TracerError::open("the event that owns the ring".into(), cpu, source))?;
    let ring =
        Ring::map(&owner, bytes).map_err(|source| TracerError::Ring { cpu, bytes, source })?;
    Ok(CpuRing { cpu, ring, owner })
}

fn open_one(
    tracepoint: &Described,
    ring: &CpuRing,
    watermark: u32,
) -> Result<PerfEvent, TracerError> {
    let planned = &tracepoint.planned;
    let name = || format!("{}:{}", planned.system, planned.name);
    let failed = |source| TracerError::open(name(), ring.cpu, source);
    let event =
        PerfEvent::tracepoint(tracepoint.id, ring.cpu, planned.wake(watermark)).map_err(failed)?;
    event.redirect(&ring.owner).map_err(failed)?;
    if !planned.filter.is_empty() {
        let filter =
            CString::new(planned.filter.as_str()).map_err(io::Error::other).map_err(failed)?;
        event.set_filter(&filter).map_err(|source| TracerError::Filter {
            tracepoint: name(),
            filter: planned.filter.clone(),
            source,
        })?;
    }
    Ok(event)
}

impl OpenEvents {
    /// Switches everything on, exits of system calls before their entries: no entry is seen whose exit is not.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`.
    pub fn enable(&self) -> io::Result<()> {
        self.all().rev().try_for_each(PerfEvent::enable)
    }

    /// Switches everything off, entries before exits.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`.
    pub fn disable(&self) -> io::Result<()> {
        self.all().try_for_each(PerfEvent::disable)
    }

    /// The kernel's counters, summed over the CPUs; `samples` is 0: others count them.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    pub fn counts(&self) -> io::Result<Vec<(u16, Counts)>> {
        self.events
            .iter()
            .map(|(tracepoint, per_cpu)| Ok((tracepoint.id, sum(tracepoint, per_cpu)?)))
            .collect()
    }

    /// The tracepoints as the log's header keeps them.
    pub fn header(&self) -> Vec<Tracepoint> {
        self.events.iter().map(|it| it.0.header()).collect()
    }

    /// In the order of the plan: the entry of a call before its exit.
    fn all(&self) -> impl DoubleEndedIterator<Item = &PerfEvent> {
        self.events.iter().flat_map(|it| &it.1)
    }
}

fn sum(tracepoint: &Described, per_cpu: &[PerfEvent]) -> io::Result<Counts> {
    let mut counts = Counts {
        name: format!("{}:{}", tracepoint.planned.system, tracepoint.planned.name),
        ring: tracepoint.planned.ring.index(),
        lost: Some(0),
        ..Counts::default()
    };
    for event in per_cpu {
        let counters = event.counters()?;
        counts.hits += counters.hits;
        counts.lost = counts.lost.zip(counters.lost).map(|(sum, it)| sum + it);
    }
    Ok(counts)
}
