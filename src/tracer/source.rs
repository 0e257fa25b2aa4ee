//! Interface of the sources of samples: tracepoints are looked up, opened on every CPU, switched on
//! and off, and counted.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;

use super::error::TracerError;
use super::library_probes::LibraryProbes;
use super::ring_stream::RingStream;
use super::tracepoint_plan::{Need, PlannedTracepoint, RingKind};
use crate::capture::header::{Counts, RecordLayout, RingCounts, Tracepoint};
use crate::event::fault::FAULT_POINTS;
use crate::event::syscall_table::CallId;
use crate::sys::perf::PerfEvent;
use crate::sys::ring::page_bytes;
use crate::sys::tracefs::{Tracefs, TracefsError};
use crate::sys::tracefs_instance::Instance;
use crate::tracefs::EventFormat;
use crate::units::Tid;

/// Tracepoints that are open in the kernel. Dropping the source closes them.
pub trait Source: Send + std::fmt::Debug {
    /// Switches all tracepoints on, exits of system calls before their entries: no entry is
    /// recorded without its exit.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    fn enable(&self) -> io::Result<()>;

    /// Switches all tracepoints off, entries before exits.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    fn disable(&self) -> io::Result<()>;

    /// Switches on those of the tracepoints that are off at the start for which this is true.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    fn switch_on(&self, _is_wanted: &dyn Fn(&PlannedTracepoint) -> bool) -> io::Result<()> {
        Ok(())
    }

    /// Returns the switches of the recorded probes in libraries.
    fn library_probes(&self) -> Arc<LibraryProbes> {
        Arc::default()
    }

    /// Follows the threads that `now_there` returns, and their children, if the kernel supports
    /// that for this source. Returns false if the threads forked so fast that some children may be
    /// missing.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    fn follow(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool>;

    /// Leaves out the threads that `now_there` returns, and their children, if the kernel supports
    /// that for this source. Returns true if it does.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    fn exclude(&self, _now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        Ok(false)
    }

    /// Describes settings of the tracer that another process has changed: samples may be missing
    /// without being counted.
    fn disturbed(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the switches of rings that other processes can switch off, open for reading.
    /// [`Self::disturbed`] checks at the end only and does not detect rings that were switched on
    /// again.
    fn switches(&self) -> Vec<(RingKind, File)> {
        Vec::new()
    }

    /// Returns the tracepoints, in the order of the plan.
    fn tracepoints(&self) -> &[Described];

    /// Returns the layouts of the records in the rings.
    fn layouts(&self) -> Vec<RecordLayout>;

    /// Returns the instances of tracefs, and the perf events.
    fn into_parts(self: Box<Self>) -> (Vec<Instance>, Vec<PerfEvent>) {
        Default::default()
    }

    /// Returns the number of calls of `%stat` that were counted and not recorded; `None`: they were
    /// not counted.
    fn stat_calls(&self) -> Option<u64> {
        None
    }

    /// Returns the kernel's counters for each tracepoint and each kind of ring. Counts of recorded
    /// samples are left at 0: the log thread counts them.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    fn counts(&self) -> io::Result<KernelCounts>;
}

/// Counters of the kernel.
#[derive(Clone, Debug, Default)]
pub struct KernelCounts {
    /// Counters of each tracepoint, with its `common_type`.
    pub tracepoints: Vec<(u16, Counts)>,
    /// Counters of each kind of tracefs ring.
    pub rings: Vec<RingCounts>,
}

/// Result of opening a source.
#[derive(Debug)]
pub struct OpenedSource {
    /// The open tracepoints.
    pub source: Box<dyn Source>,
    /// Rings that the drain thread empties.
    pub drained: Vec<RingStream>,
    /// Rings that the readers of names empty, for each CPU.
    pub names: Vec<NamesRings>,
    /// Bytes of each ring, by [`RingKind::index`]; 0: no such ring.
    pub ring_bytes: [usize; RingKind::ALL.len()],
}

/// Rings of one CPU that a reader of names empties.
#[derive(Debug)]
pub struct NamesRings {
    /// Ring that wakes the reader: exits of calls, and with perf their entries.
    pub waking: RingStream,
    /// Ring of the entries, with tracefs.
    pub entries: Option<RingStream>,
}

impl NamesRings {
    /// Returns the rings of each CPU for a source that has entries and exits in one ring.
    pub(super) fn combined(rings: Vec<RingStream>) -> Vec<Self> {
        rings.into_iter().map(|waking| Self { waking, entries: None }).collect()
    }
}

/// A tracepoint that this kernel has, with its description.
#[derive(Clone, Debug)]
pub struct Described {
    /// The planned tracepoint.
    pub planned: PlannedTracepoint,
    /// The tracepoint's `common_type`.
    pub id: u16,
    /// Text of the `format` file.
    pub format: String,
}

impl Described {
    /// Returns `system:name`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.planned.system, self.planned.name)
    }

    /// Returns the tracepoint as the log's header stores it.
    pub fn header(&self) -> Tracepoint {
        Tracepoint {
            system: self.planned.system.to_string(),
            name: self.planned.name.clone(),
            id: self.id,
            format: self.format.clone(),
            filter: self.planned.filter.clone(),
            ring: self.planned.ring.index(),
        }
    }
}

/// Looks up the planned tracepoints. Missing tracepoints that are not required go into `warnings`.
///
/// # Errors
///
/// If a required tracepoint is missing or tracefs cannot be read.
pub fn describe(
    planned: Vec<PlannedTracepoint>,
    tracefs: &Tracefs,
    is_default: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Described>, TracerError> {
    let mut described = Vec::new();
    let mut absent = BTreeSet::new();
    for planned in planned {
        let format = match tracefs.format(&planned.system, &planned.name) {
            Ok(format) => format,
            Err(TracefsError::Missing { .. }) if planned.need == Need::Optional => continue,
            Err(error @ TracefsError::Missing { .. }) if planned.need == Need::Wanted => {
                match planned.call() {
                    Some(call) => drop(absent.insert(call)),
                    None => warnings.push(format!("{error}: its events are not recorded")),
                }
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
    warnings.extend(absent_calls_warning(absent, is_default));
    Ok(described)
}

/// First call number of those that were added one by one since Linux 5.1, with the same number on
/// all machines.
const LATER_CALLS: u32 = 424;

/// Returns a warning about system calls without tracepoints. The kernel creates tracepoints with
/// the calls (`SYSCALL_METADATA`, include/linux/syscalls.h). A newer call without a tracepoint
/// therefore does not exist and no program can make it, so the warning names it only if the user
/// has requested it.
fn absent_calls_warning(calls: BTreeSet<CallId>, is_default: bool) -> Option<String> {
    let is_named = |it: &CallId| !is_default || it.call().x86_64 < LATER_CALLS;
    let names: Vec<&str> =
        calls.iter().filter(|it| is_named(it)).map(|it| it.call().name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "this kernel has no tracepoints of these system calls, so they are not recorded: {}",
            names.join(", ")
        )
    })
}

/// Returns the tracepoint of this kernel that carries the most information about page faults.
pub fn fault_point(tracefs: &Tracefs) -> (&'static str, &'static str) {
    let [best, other] = FAULT_POINTS;
    if tracefs.format(best.0, best.1).is_ok() { best } else { other }
}

/// Sizes of the rings.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Data bytes of each main ring, a power of two.
    pub main: usize,
    /// Data bytes of each small ring, a power of two.
    pub small: usize,
    /// Data bytes of each ring of chains, a power of two.
    pub chains: usize,
}

/// Largest size of all main rings together, and of all rings of chains together.
const MAIN_RINGS_BYTES_MAX: usize = 512 << 20;
/// Default size of a main ring: holds at least 30 ms of the highest rate that one CPU can produce.
const MAIN_RING_BYTES: usize = 8 << 20;
/// Default size of a ring of chains with copies of stacks: 8,000 copies of the usual size.
const STACKS_RING_BYTES: usize = 64 << 20;
/// Size of a small ring. A names ring holds the few opens that happen before its reader runs;
/// births and ends of tasks are as rare.
const SMALL_RING_BYTES: usize = 256 << 10;

/// Returns the largest size of a ring, if there is one on each of this number of CPUs.
fn largest_ring(cpus: usize) -> usize {
    let share = MAIN_RINGS_BYTES_MAX / cpus.max(1);
    1 << share.max(page_bytes()).ilog2()
}

impl RingSizes {
    /// Returns the default sizes for this number of CPUs.
    pub fn for_cpus(cpus: usize) -> Self {
        let main = MAIN_RING_BYTES.min(largest_ring(cpus));
        Self { main, small: SMALL_RING_BYTES.max(page_bytes()), chains: main }
    }

    /// Returns the sizes with rings for copies of stacks, which are some hundred times as large as
    /// other records.
    pub fn with_stacks(self, cpus: usize) -> Self {
        Self { chains: STACKS_RING_BYTES.min(largest_ring(cpus)).max(self.chains), ..self }
    }

    /// Returns the sizes with main rings of at least this many bytes each.
    pub fn with_main(self, bytes: usize) -> Self {
        let main = bytes.max(page_bytes()).next_power_of_two();
        Self { main, chains: main.max(self.chains), ..self }
    }

    /// Returns the sizes with the main ring halved; `None` if the kernel cannot map smaller rings.
    pub fn halved(self) -> Option<Self> {
        let main = (self.main / 2).max(page_bytes());
        let halved =
            Self { main, small: self.small.min(main), chains: (self.chains / 2).max(page_bytes()) };
        (self.main > page_bytes()).then_some(halved)
    }

    /// Returns the size of one ring.
    pub fn of(self, ring: RingKind) -> usize {
        match ring {
            RingKind::Main | RingKind::Block => self.main,
            RingKind::Chains => self.chains,
            RingKind::Names | RingKind::Entries | RingKind::Tasks => self.small,
        }
    }
}
