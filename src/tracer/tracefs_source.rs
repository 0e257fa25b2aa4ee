//! Tracefs instances of our own: the planned tracepoints in the kernel's trace rings.
//!
//! Cheaper than perf for the traced program, nearly free for everybody else in process mode: the kernel keeps a list of
//! threads (`set_event_pid`) that grows at forks (`event-fork`) and records nobody else. Each instance has its own
//! list and its own rings:
//!
//! - `main`: nearly everything;
//! - `block` (process mode): block requests. A completion carries the thread that was interrupted, so no list;
//! - `names`: opens. Any hit wakes the reader, so nothing else is in it.
//!
//! Births, names and ends of tasks come from perf, in small rings: those records carry process and thread, and an end
//! comes after the files of the task were closed; none of that is true of the tracepoints. Hits with chains of functions come from
//! perf, too: an instance tells each chain in an entry of its own behind the hit, and no more than eight functions of a program
//! (`events/ftrace/user_stack/format`).

use std::fs::File;
use std::io;

use super::error::TracerError;
use super::naming::Names;
use super::perf_source::{PerfSource, chains_layout, layout, open_chains, task_ring};
use super::plan::RingOf;
use super::source::{Books, Described, Opened, RingSizes, Source};
use super::stream::Stream;
use crate::capture::header::{Counts, Layout, RingCounts};
use crate::record::PageLayout;
use crate::sys::instance::Instance;
use crate::sys::limits::online_cpus;
use crate::sys::perf::Functions;
use crate::sys::tracefs::Tracefs;
use crate::units::Tid;

/// Scans in a row that must find no new thread before all are followed (threads that are born and die while one
/// looks). One scan lost up to all of a chain of forks, three lost none.
const CLEAN_SCANS: u32 = 3;

/// Scans at most: a tree that never rests is followed as far as it goes.
const SCANS_MAX: u32 = 100;

/// The kernel's own limit for `syscall_user_buf_size` (`Documentation/trace/ftrace.rst`).
const STRING_BYTES: &str = "165";

/// Index into the header's `layouts` of hits with chains.
const CHAINS_LAYOUT: u16 = 2;

#[derive(Debug)]
struct TracefsSource {
    tracepoints: Vec<Described>,
    instances: Vec<(RingOf, Instance)>,
    /// What was set of each.
    set: Vec<Vec<String>>,
    /// Those of the tracepoints that tell chains.
    chained: PerfSource,
    cpus: Vec<u32>,
    header_page: String,
    header_event: String,
}

/// Makes the instances and opens their rings, switched off.
///
/// # Errors
///
/// [`TracerError`] says what could not be opened and what would help.
pub fn open(
    described: Vec<Described>,
    tracefs: &Tracefs,
    cpus: &[u32],
    sizes: RingSizes,
    (names_from, functions): (Names, Functions),
) -> Result<Opened, TracerError> {
    let header_page = tracefs.text("header_page")?;
    let header_event = tracefs.text("header_event")?;
    let page = PageLayout::parse(&header_page).ok_or(TracerError::Pages)?;
    let mut instances = Vec::new();
    let mut ring_bytes = [0; RingOf::ALL.len()];
    ring_bytes[RingOf::Tasks as usize] = sizes.of(RingOf::Tasks);
    for ring in RingOf::ALL.into_iter().filter(|it| *it != RingOf::Chains) {
        let its: Vec<&Described> = described.iter().filter(|it| it.planned.ring == ring).collect();
        if !its.is_empty() {
            let bytes = sizes.of(ring);
            let instance =
                make(tracefs, ring, bytes, &its, names_from).map_err(TracerError::Instance)?;
            if let Some(size) = ring_bytes.get_mut(ring as usize) {
                *size = bytes;
            }
            instances.push((ring, instance));
        }
    }
    let of = |wanted: RingOf| instances.iter().find(|it| it.0 == wanted).map(|it| &it.1);
    let open_ring = |of: RingOf, instance: &Instance, cpu: u32| {
        let ring = instance.ring(cpu, page.page_bytes()).map_err(TracerError::Instance)?;
        Ok::<_, TracerError>(Stream::pages(cpu, of, ring, page))
    };
    let (chained, mut drained) = open_chains(&described, cpus, (sizes, CHAINS_LAYOUT), functions)?;
    ring_bytes[RingOf::Chains as usize] = if drained.is_empty() { 0 } else { sizes.chains };
    let mut names = Vec::new();
    for &cpu in cpus {
        drained.push(task_ring(cpu, RingOf::Tasks, sizes, functions)?);
        for ring in [RingOf::Main, RingOf::Block] {
            drained.extend(of(ring).map(|it| open_ring(ring, it, cpu)).transpose()?);
        }
        names.extend(of(RingOf::Names).map(|it| open_ring(RingOf::Names, it, cpu)).transpose()?);
    }
    let cpus = cpus.to_vec();
    let set = instances.iter().map(|it| settings(&it.1, &described)).collect::<io::Result<_>>();
    let source = Box::new(TracefsSource {
        tracepoints: described,
        set: set.map_err(TracerError::Instance)?,
        instances,
        chained,
        cpus,
        header_page,
        header_event,
    });
    Ok(Opened { source, drained, names, ring_bytes })
}

/// An instance with these tracepoints, all set but not on.
fn make(
    tracefs: &Tracefs,
    ring: RingOf,
    bytes: usize,
    tracepoints: &[&Described],
    names_from: Names,
) -> io::Result<Instance> {
    let instance = Instance::create(tracefs, ring.as_str())?;
    instance.write("trace_clock", "mono")?;
    // Inherited from the top instance, where somebody may have set them: each page says what was lost before it, and a ring
    // is readable only if something is in it.
    instance.write("options/overwrite", "1")?;
    let _ = instance.write("options/block", "0");
    instance.write("buffer_size_kb", &(bytes >> 10).to_string())?;
    if ring == RingOf::Names {
        // Each hit wakes who polls. (Before 5.0 there is no such file, and it is so.)
        let _ = instance.write("buffer_percent", "0");
    }
    // From Linux 6.19 on entries carry what pointers of the program point to: paths, but also the first bytes of what is
    // written. That is nobody's business.
    let copied = if ring == RingOf::Names && names_from.has_ring() { STRING_BYTES } else { "0" };
    let _ = instance.write("syscall_user_buf_size", copied);
    for tracepoint in tracepoints {
        let planned = &tracepoint.planned;
        let directory = format!("events/{}/{}", planned.system, planned.name);
        if !planned.filter.is_empty() {
            instance.write(&format!("{directory}/filter"), &planned.filter)?;
        }
        instance.write(&format!("{directory}/enable"), "1")?;
    }
    Ok(instance)
}

/// Which events are on, by which clock, and with which filters.
fn settings(instance: &Instance, tracepoints: &[Described]) -> io::Result<Vec<String>> {
    let filter = |it: &Described| {
        let planned = &it.planned;
        instance.read(&format!("events/{}/{}/filter", planned.system, planned.name))
    };
    let filtered = tracepoints.iter().filter(|it| !it.planned.filter.is_empty());
    let set = [instance.read("set_event"), instance.read("trace_clock")];
    set.into_iter().chain(filtered.map(filter)).collect()
}

impl TracefsSource {
    /// Those that record only who is followed.
    fn following(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|it| it.0 != RingOf::Block).map(|it| &it.1)
    }

    fn switch(&self, order: impl IntoIterator<Item = RingOf>, on: &str) -> io::Result<()> {
        for wanted in order {
            let found = self.instances.iter().find(|it| it.0 == wanted);
            found.map_or(Ok(()), |it| it.1.write("tracing_on", on))?;
        }
        Ok(())
    }
}

/// What is asked for by others last.
const ORDER_ON: [RingOf; 3] = [RingOf::Block, RingOf::Names, RingOf::Main];

impl Source for TracefsSource {
    fn enable(&self) -> io::Result<()> {
        // Ends of calls are among them.
        self.chained.enable()?;
        self.switch(ORDER_ON, "1")
    }

    fn disable(&self) -> io::Result<()> {
        self.switch(ORDER_ON.into_iter().rev(), "0")?;
        self.chained.disable()
    }

    fn disturbed(&self) -> Vec<String> {
        let told = self.instances.iter().zip(&self.set).filter_map(|((ring, instance), set)| {
            let is_on = instance.read("tracing_on").is_ok_and(|it| it.trim() == "1");
            let is_as_set = is_on && settings(instance, &self.tracepoints).is_ok_and(|it| it == *set);
            (!is_as_set).then(|| {
                format!(
                    "somebody has switched off, or changed, the tracefs instance of the ring {}: hits are missing that \
                     nobody has counted",
                    ring.as_str()
                )
            })
        });
        told.collect()
    }

    fn switches(&self) -> Vec<(RingOf, File)> {
        // One that cannot be opened is not watched meanwhile; at the end it is read all the same.
        let open = |(ring, it): &(RingOf, Instance)| Some((*ring, it.open("tracing_on").ok()?));
        self.instances.iter().filter_map(open).collect()
    }

    fn follow(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        let first = now_there();
        for instance in self.following() {
            instance.write("options/event-fork", "1")?;
            instance.follow(&first)?;
        }
        let mut all = true;
        for instance in self.following() {
            all &= follow_all(instance, now_there)?;
        }
        Ok(all)
    }

    fn tracepoints(&self) -> &[Described] {
        &self.tracepoints
    }

    fn layouts(&self) -> Vec<Layout> {
        let pages = Layout {
            source: "tracefs".into(),
            header_page: self.header_page.clone(),
            header_event: self.header_event.clone(),
            pages_continue: true,
            ..Layout::default()
        };
        let has_chains = !self.chained.tracepoints().is_empty();
        let chains = has_chains.then(|| chains_layout(self.chained.functions()));
        [layout(), pages].into_iter().chain(chains).collect()
    }

    fn counts(&self) -> io::Result<Books> {
        let tracepoint = |it: &Described| {
            let ring = it.planned.ring.index();
            // The rings count losses; 0 here keeps the sum right.
            (it.id, Counts { name: it.name(), ring, lost: Some(0), ..Counts::default() })
        };
        let mut rings = Vec::new();
        for (ring, instance) in &self.instances {
            let mut sum = RingCounts { ring: ring.index(), ..RingCounts::default() };
            // Also of CPUs that came later: nobody read those, so it is missing.
            let later = online_cpus().into_iter().filter(|it| !self.cpus.contains(it));
            for cpu in self.cpus.iter().copied().chain(later) {
                let stats = instance.stats(cpu)?;
                sum.read += stats.read;
                sum.overrun += stats.overrun;
                sum.dropped += stats.dropped;
                sum.left += stats.entries;
            }
            rings.push(sum);
        }
        let chained = self.chained.counts()?.tracepoints;
        let of_rings = self.tracepoints.iter().filter(|it| it.planned.ring != RingOf::Chains);
        Ok(Books { tracepoints: of_rings.map(tracepoint).chain(chained).collect(), rings })
    }
}

/// Adds who was born before the list followed its parent. False if there is no end of them.
fn follow_all(instance: &Instance, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
    let mut clean = 0;
    for _ in 0..SCANS_MAX {
        let there = now_there();
        let followed = instance.followed()?;
        let missing: Vec<Tid> = there.into_iter().filter(|it| !followed.contains(it)).collect();
        if missing.is_empty() {
            clean += 1;
            if clean == CLEAN_SCANS {
                return Ok(true);
            }
        } else {
            clean = 0;
            instance.follow_too(&missing)?;
        }
    }
    Ok(false)
}
