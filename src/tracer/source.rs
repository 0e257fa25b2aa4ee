//! What both sources have in common: tracepoints are looked up, opened on every CPU, switched on and off, and counted.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use super::error::TracerError;
use super::plan::{Need, Planned, RingOf};
use super::stream::Stream;
use crate::capture::header::{Counts, Layout, RingCounts, Tracepoint};
use crate::event::fault::FAULT_POINTS;
use crate::event::syscall_table::CallId;
use crate::sys::ring::page_bytes;
use crate::sys::tracefs::{Tracefs, TracefsError};
use crate::tracefs::EventFormat;
use crate::units::Tid;

/// Tracepoints that are open in the kernel. Dropping it closes them.
pub trait Source: Send + std::fmt::Debug {
    /// Switches everything on, exits of system calls before their entries: no entry is seen whose exit is not.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn enable(&self) -> io::Result<()>;

    /// Switches everything off, entries before exits.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn disable(&self) -> io::Result<()>;

    /// Follows the threads that `now_there` gives, and their children, if the kernel does that for this source. False if
    /// they gave birth so fast that some may be missing.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn follow(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool>;

    /// What somebody else has changed of what we have set, in words: hits may be missing that nobody has counted.
    fn disturbed(&self) -> Vec<String> {
        Vec::new()
    }

    /// The switches of rings that others can switch off, to be read; [`Self::disturbed`] looks at the end, and does not see what was
    /// switched on again.
    fn switches(&self) -> Vec<(RingOf, File)> {
        Vec::new()
    }

    /// The tracepoints, in the order of the plan.
    fn tracepoints(&self) -> &[Described];

    /// How the records of its rings are laid out.
    fn layouts(&self) -> Vec<Layout>;

    /// What the kernel counted of each tracepoint and of each kind of ring; what was found is left at 0: others count it.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn counts(&self) -> io::Result<Books>;
}

/// What the kernel counted.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// Of each tracepoint, with its `common_type`.
    pub tracepoints: Vec<(u16, Counts)>,
    /// Of each kind of tracefs ring.
    pub rings: Vec<RingCounts>,
}

/// What was opened.
#[derive(Debug)]
pub struct Opened {
    /// The tracepoints.
    pub source: Box<dyn Source>,
    /// What the drain thread takes.
    pub drained: Vec<Stream>,
    /// What the names readers take: the opens, a ring for each CPU.
    pub names: Vec<Stream>,
    /// How large the rings are, by [`RingOf::index`]; 0: not there.
    pub ring_bytes: [usize; RingOf::ALL.len()],
}

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
    /// `system:name`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.planned.system, self.planned.name)
    }

    /// As the log's header keeps it.
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

/// Looks up the planned tracepoints. Those that are not needed and not there go into `warnings`.
///
/// # Errors
///
/// If a needed one is not there or tracefs cannot be read.
pub fn describe(
    planned: Vec<Planned>,
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
    warnings.extend(told_absent(absent, is_default));
    Ok(described)
}

/// The calls from this number on came one by one with Linux 5.1 and later, on all machines with the same number.
const LATER_CALLS: u32 = 424;

/// System calls without tracepoints. The kernel makes these with the calls (`SYSCALL_METADATA`, include/linux/syscalls.h), so a
/// newer call that has none is not there, and nobody can make it: that is told to whoever asked for it.
fn told_absent(calls: BTreeSet<CallId>, is_default: bool) -> Option<String> {
    let is_told = |it: &CallId| !is_default || it.call().x86_64 < LATER_CALLS;
    let names: Vec<&str> = calls.iter().filter(|it| is_told(it)).map(|it| it.call().name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "this kernel has no tracepoints of these system calls, so they are not recorded: {}",
            names.join(", ")
        )
    })
}

/// The tracepoint of this kernel that tells most of page faults.
pub fn fault_point(tracefs: &Tracefs) -> (&'static str, &'static str) {
    let [best, other] = FAULT_POINTS;
    if tracefs.format(best.0, best.1).is_ok() { best } else { other }
}

/// How large the rings are.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Data bytes of each main ring, a power of two.
    pub main: usize,
    /// Data bytes of each small ring, a power of two.
    pub small: usize,
    /// Data bytes of each ring of chains, a power of two.
    pub chains: usize,
}

/// All main rings together are at most this large, and so are all of chains.
const MAIN_RINGS_BYTES_MAX: usize = 512 << 20;
/// A main ring by default: at least 30 ms of the highest rate that one CPU can produce.
const MAIN_RING_BYTES: usize = 8 << 20;
/// A ring of chains with copies of stacks by default: 8,000 of the usual size.
const STACKS_RING_BYTES: usize = 64 << 20;
/// A names ring holds the few opens that happen before their reader runs; births and ends of tasks are as few.
const SMALL_RING_BYTES: usize = 256 << 10;

/// Data bytes of each, if there is one on each of so many CPUs.
fn largest_ring(cpus: usize) -> usize {
    let share = MAIN_RINGS_BYTES_MAX / cpus.max(1);
    1 << share.max(page_bytes()).ilog2()
}

impl RingSizes {
    /// The default for so many CPUs.
    pub fn for_cpus(cpus: usize) -> Self {
        let main = MAIN_RING_BYTES.min(largest_ring(cpus));
        Self { main, small: SMALL_RING_BYTES.max(page_bytes()), chains: main }
    }

    /// With rings for copies of stacks, which are some hundred times as large as other records.
    pub fn with_stacks(self, cpus: usize) -> Self {
        Self { chains: STACKS_RING_BYTES.min(largest_ring(cpus)).max(self.chains), ..self }
    }

    /// With main rings of at least so many bytes each.
    pub fn with_main(self, bytes: usize) -> Self {
        let main = bytes.max(page_bytes()).next_power_of_two();
        Self { main, chains: main.max(self.chains), ..self }
    }

    /// Half of the largest; `None`: that would be less than the kernel can map.
    pub fn halved(self) -> Option<Self> {
        let main = (self.main / 2).max(page_bytes());
        let halved =
            Self { main, small: self.small.min(main), chains: (self.chains / 2).max(page_bytes()) };
        (self.main > page_bytes()).then_some(halved)
    }

    /// Of one ring.
    pub fn of(self, ring: RingOf) -> usize {
        match ring {
            RingOf::Main | RingOf::Block => self.main,
            RingOf::Chains => self.chains,
            RingOf::Names | RingOf::Tasks => self.small,
        }
    }
}
