//! Tracefs source: the planned tracepoints in the trace rings of the tracer's own instances.
//!
//! This source is cheaper than perf for the traced program. In process mode it is cheaper for all
//! other processes, too: the kernel keeps a list of threads (`set_event_pid`) that grows at forks
//! (`event-fork`), and records no other threads. Each instance has its own list and its own rings:
//!
//! - `main`: nearly all events;
//! - `block` (process mode): block requests. A completion carries the interrupted thread, so there
//!   is no list;
//! - `names`: exits of opens. Each sample wakes the reader, so the ring has no other events;
//! - `entries`: entries of the same calls. An entry must not wake the reader: the reader would
//!   delay the program inside the call.
//!
//! Births, names and ends of tasks come from perf, in small rings. These records carry process and
//! thread, and an end is recorded after the files of the task were closed; the tracepoints have
//! neither property. Samples with call chains come from perf, too: an instance records each chain
//! in an entry of its own after the sample, and at most eight functions of a program
//! (`events/ftrace/user_stack/format`).

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::call_counter::CallCounter;
use super::error::TracerError;
use super::library_probes::{LibraryProbes, is_in_library};
use super::name_source::NameSource;
use super::perf_source::{PerfSource, chains_layout, layout, open_chains, task_ring};
use super::ring_stream::RingStream;
use super::source::{Described, KernelCounts, NamesRings, OpenedSource, RingSizes, Source};
use super::tracepoint_plan::{PlannedTracepoint, RingKind};
use crate::capture::header::{Counts, RecordLayout, RingCounts};
use crate::record::PageLayout;
use crate::sys::cpu_topology::online_cpus;
use crate::sys::instance_pool;
use crate::sys::perf::{Functions, PerfEvent};
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::{Instance, ThreadList};
use crate::units::Tid;

/// Number of consecutive scans that must find no new thread before all threads count as followed
/// (threads may be born and end during a scan). One scan lost up to all of a chain of forks, three
/// lost none.
const CLEAN_SCANS: u32 = 3;

/// Largest number of scans: a tree that keeps forking is followed as far as possible.
const SCANS_MAX: u32 = 100;

/// Limit of the kernel for `syscall_user_buf_size` (`Documentation/trace/ftrace.rst`).
const STRING_BYTES: &str = "165";

/// Index into the header's `layouts` of samples with call chains.
const CHAINS_LAYOUT: u16 = 2;

#[derive(Debug)]
struct TracefsSource {
    tracepoints: Vec<Described>,
    instances: Vec<(RingKind, Instance)>,
    /// Settings of each instance.
    set: Vec<Vec<String>>,
    /// Tracepoints with call chains.
    chained: PerfSource,
    /// Counter of calls that are not recorded.
    counter: Option<CallCounter>,
    /// Probes in libraries.
    library_probes: Arc<LibraryProbes>,
    cpus: Vec<u32>,
    header_page: String,
    header_event: String,
}

/// Creates the instances and opens their rings, switched off.
///
/// # Errors
///
/// [`TracerError`] reports what could not be opened, and a remedy.
pub fn open(
    described: Vec<Described>,
    tracefs: &Tracefs,
    cpus: &[u32],
    sizes: RingSizes,
    names_from: NameSource,
    functions: Functions,
    counter: Option<CallCounter>,
) -> Result<OpenedSource, TracerError> {
    let header_page = tracefs.text("header_page")?;
    let header_event = tracefs.text("header_event")?;
    let page = PageLayout::parse(&header_page).ok_or(TracerError::Pages)?;
    let mut instances = Vec::new();
    let mut ring_bytes = [0; RingKind::ALL.len()];
    ring_bytes[RingKind::Tasks as usize] = sizes.of(RingKind::Tasks);
    for ring in RingKind::ALL.into_iter().filter(|it| *it != RingKind::Chains) {
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
    let of = |wanted: RingKind| instances.iter().find(|it| it.0 == wanted).map(|it| &it.1);
    let open_ring = |of: RingKind, instance: &Instance, cpu: u32| {
        let ring = instance.ring(cpu, page.page_bytes()).map_err(TracerError::Instance)?;
        Ok::<_, TracerError>(RingStream::pages(cpu, of, ring, page))
    };
    let (chained, mut drained) = open_chains(&described, cpus, sizes, CHAINS_LAYOUT, functions)?;
    ring_bytes[RingKind::Chains as usize] = if drained.is_empty() { 0 } else { sizes.chains };
    let mut names = Vec::new();
    for &cpu in cpus {
        drained.push(task_ring(cpu, RingKind::Tasks, sizes, functions)?);
        for ring in [RingKind::Main, RingKind::Block] {
            drained.extend(of(ring).map(|it| open_ring(ring, it, cpu)).transpose()?);
        }
        let ring = |ring| of(ring).map(|instance| open_ring(ring, instance, cpu)).transpose();
        let entries = ring(RingKind::Entries)?;
        names.extend(ring(RingKind::Names)?.map(|waking| NamesRings { waking, entries }));
    }
    let cpus = cpus.to_vec();
    let switches = library_switches(&described, &instances).map_err(TracerError::Instance)?;
    let set = instances.iter().map(|it| settings(&it.1, &described)).collect::<io::Result<_>>();
    let source = Box::new(TracefsSource {
        tracepoints: described,
        set: set.map_err(TracerError::Instance)?,
        instances,
        chained,
        counter,
        library_probes: Arc::new(LibraryProbes::new(switches)),
        cpus,
        header_page,
        header_event,
    });
    Ok(OpenedSource { source, drained, names, ring_bytes })
}

/// Takes an instance from the pool, or creates one; all its tracepoints are configured but not on.
fn make(
    tracefs: &Tracefs,
    ring: RingKind,
    bytes: usize,
    tracepoints: &[&Described],
    names_from: NameSource,
) -> io::Result<Instance> {
    let instance = instance_pool::obtain(tracefs, ring.as_str())?;
    instance.set_clock("mono")?;
    // Options are inherited from the top instance, where other programs may have set them.
    // Each page records what was lost before it, and a ring is readable only if it has data.
    instance.write("options/overwrite", "1")?;
    let _ = instance.write("options/block", "0");
    instance.set_ring_bytes(bytes)?;
    if ring == RingKind::Names {
        // Each sample wakes the polling thread. (Kernels before 5.0 have no such file and behave
        // this way.)
        let _ = instance.write("buffer_percent", "0");
    }
    // From Linux 6.19 on, entries carry the memory that pointers of the program point to: paths,
    // but also the first bytes of written data. Written data is private and is not recorded.
    let has_paths = ring == RingKind::Entries && names_from.has_ring();
    let copied = if has_paths { STRING_BYTES } else { "0" };
    let _ = instance.write("syscall_user_buf_size", copied);
    for tracepoint in tracepoints {
        let planned = &tracepoint.planned;
        let directory = format!("events/{}/{}", planned.system, planned.name);
        instance.set_filter(&directory, &planned.filter)?;
        if !planned.is_off_at_start() {
            instance.write(&format!("{directory}/enable"), "1")?;
        }
    }
    Ok(instance)
}

/// Returns the enabled events of an instance, except those that are off at the start, its clock and
/// the filters.
fn settings(instance: &Instance, tracepoints: &[Described]) -> io::Result<Vec<String>> {
    let filter = |tracepoint: &Described| {
        let planned = &tracepoint.planned;
        instance.read(&format!("events/{}/{}/filter", planned.system, planned.name))
    };
    let filtered = tracepoints.iter().filter(|it| !it.planned.filter.is_empty());
    let events = instance.read("set_event").map(|events| {
        let is_later = |event: &&str| {
            let name = event.split_once(':').map_or(*event, |(_, name)| name);
            tracepoints
                .iter()
                .any(|point| point.planned.is_off_at_start() && point.planned.name == name)
        };
        let lines = events.lines().filter(|event| !is_later(event));
        lines.collect::<Vec<_>>().join("\n")
    });
    let set = [events, instance.read("trace_clock")];
    set.into_iter().chain(filtered.map(filter)).collect()
}

/// Returns the file that switches an event of an instance.
fn switch_of(point: &PlannedTracepoint) -> String {
    format!("events/{}/{}/enable", point.system, point.name)
}

/// Returns the instances that record an event.
fn recording<'a>(
    instances: &'a [(RingKind, Instance)],
    point: &PlannedTracepoint,
) -> impl Iterator<Item = &'a (RingKind, Instance)> {
    let ring = point.ring;
    instances.iter().filter(move |(kind, _)| *kind == ring)
}

/// Opens the switches of all probes in libraries.
fn library_switches(
    tracepoints: &[Described],
    instances: &[(RingKind, Instance)],
) -> io::Result<Vec<File>> {
    let points = tracepoints.iter().map(|point| &point.planned);
    let points = points.filter(|point| point.is_in_library());
    let switches = points.flat_map(|point| {
        recording(instances, point).map(|(_, instance)| instance.open_switch(&switch_of(point)))
    });
    switches.collect()
}

/// Removes the probes in libraries from the events of these settings.
fn without_library_probes(mut settings: Vec<String>) -> Vec<String> {
    if let Some(events) = settings.first_mut() {
        let others = events.lines().filter(|event| {
            !event.split_once(':').is_some_and(|(system, name)| is_in_library(system, name))
        });
        *events = others.collect::<Vec<_>>().join("\n");
    }
    settings
}

impl TracefsSource {
    /// Returns the instances that record only followed threads.
    fn following(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|it| it.0 != RingKind::Block).map(|it| &it.1)
    }

    /// Fills a list of threads, which grows at forks from then on. Returns false if threads keep
    /// appearing that are not in the list.
    fn list(&self, list: ThreadList, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        let first = now_there();
        for instance in self.following() {
            instance.write("options/event-fork", "1")?;
            instance.set_list(list, &first)?;
        }
        let mut all = true;
        for instance in self.following() {
            all &= complete_list(instance, list, now_there)?;
        }
        if let Some(counter) = &self.counter {
            counter.follow(|instance| {
                instance.write("options/event-fork", "1")?;
                instance.set_list(list, &now_there())?;
                complete_list(instance, list, now_there)
            });
        }
        Ok(all)
    }

    fn switch(&self, order: impl IntoIterator<Item = RingKind>, on: &str) -> io::Result<()> {
        for wanted in order {
            let found = self.instances.iter().find(|it| it.0 == wanted);
            found.map_or(Ok(()), |it| it.1.write("tracing_on", on))?;
        }
        Ok(())
    }
}

/// Instances in the order of switching on: those that other records depend on first. Exits are on
/// before their entries.
const ORDER_ON: [RingKind; 4] =
    [RingKind::Block, RingKind::Names, RingKind::Entries, RingKind::Main];

impl Source for TracefsSource {
    fn enable(&self) -> io::Result<()> {
        // The chained tracepoints include ends of calls.
        self.chained.enable()?;
        self.counter.iter().for_each(|counter| counter.switch("1"));
        self.switch(ORDER_ON, "1")
    }

    fn disable(&self) -> io::Result<()> {
        self.switch(ORDER_ON.into_iter().rev(), "0")?;
        self.counter.iter().for_each(|counter| counter.switch("0"));
        self.chained.disable()
    }

    fn switch_on(&self, is_wanted: &dyn Fn(&PlannedTracepoint) -> bool) -> io::Result<()> {
        self.library_probes.unless_out(|| {
            let points = self.tracepoints.iter().map(|point| &point.planned);
            for point in points.filter(|point| is_wanted(point)) {
                for (_, instance) in recording(&self.instances, point) {
                    instance.write(&switch_of(point), "1")?;
                }
            }
            Ok(())
        })
    }

    fn library_probes(&self) -> Arc<LibraryProbes> {
        Arc::clone(&self.library_probes)
    }

    fn disturbed(&self) -> Vec<String> {
        let are_out = self.library_probes.are_out();
        let compared = |set: Vec<String>| if are_out { without_library_probes(set) } else { set };
        let warnings = self.instances.iter().zip(&self.set).filter_map(|((ring, instance), set)| {
            let is_on = instance.read("tracing_on").is_ok_and(|it| it.trim() == "1");
            let now = settings(instance, &self.tracepoints);
            let is_as_set = now.is_ok_and(|now| compared(now) == compared(set.clone()));
            (!(is_on && is_as_set)).then(|| {
                format!(
                    "another process has switched off or changed the tracefs instance of the ring {}: samples are missing \
                     and were not counted",
                    ring.as_str()
                )
            })
        });
        warnings.collect()
    }

    fn switches(&self) -> Vec<(RingKind, File)> {
        // A switch that cannot be opened is not watched during the recording; it is still read at
        // the end.
        let open = |(ring, it): &(RingKind, Instance)| Some((*ring, it.open("tracing_on").ok()?));
        self.instances.iter().filter_map(open).collect()
    }

    fn follow(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        self.list(ThreadList::Recorded, now_there)
    }

    fn exclude(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        // Kernels before 5.7 have no such list.
        if !self.following().all(|instance| instance.has_list(ThreadList::Excluded)) {
            return Ok(false);
        }
        self.list(ThreadList::Excluded, now_there)?;
        Ok(true)
    }

    fn into_parts(self: Box<Self>) -> (Vec<Instance>, Vec<PerfEvent>) {
        let recording = self.instances.into_iter().map(|(_, instance)| instance);
        let counting = self.counter.map(CallCounter::into_instance);
        (recording.chain(counting).collect(), self.chained.into_events())
    }

    fn tracepoints(&self) -> &[Described] {
        &self.tracepoints
    }

    fn layouts(&self) -> Vec<RecordLayout> {
        let pages = RecordLayout {
            source: "tracefs".into(),
            header_page: self.header_page.clone(),
            header_event: self.header_event.clone(),
            pages_continue: true,
            ..RecordLayout::default()
        };
        let has_chains = !self.chained.tracepoints().is_empty();
        let chains = has_chains.then(|| chains_layout(self.chained.functions()));
        [layout(), pages].into_iter().chain(chains).collect()
    }

    fn stat_calls(&self) -> Option<u64> {
        self.counter.as_ref()?.count(&self.cpus)
    }

    fn counts(&self) -> io::Result<KernelCounts> {
        let tracepoint = |described: &Described| {
            let (name, ring) = (described.name(), described.planned.ring.index());
            // The rings count losses; 0 here keeps the sum right.
            (described.id, Counts { name, ring, lost: Some(0), ..Counts::default() })
        };
        let mut rings = Vec::new();
        for (ring, instance) in &self.instances {
            let mut sum = RingCounts { ring: ring.index(), ..RingCounts::default() };
            // CPUs that came online later are included: their rings were not read, so their samples
            // are missing.
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
        let of_rings = self.tracepoints.iter().filter(|it| it.planned.ring != RingKind::Chains);
        Ok(KernelCounts { tracepoints: of_rings.map(tracepoint).chain(chained).collect(), rings })
    }
}

/// Adds the threads that were born before the list contained their parent. Returns false if new
/// ones keep appearing.
fn complete_list(
    instance: &Instance,
    list: ThreadList,
    now_there: &dyn Fn() -> Vec<Tid>,
) -> io::Result<bool> {
    let mut clean = 0;
    for _ in 0..SCANS_MAX {
        let there = now_there();
        let listed = instance.list(list)?;
        let missing: Vec<Tid> = there.into_iter().filter(|tid| !listed.contains(tid)).collect();
        if missing.is_empty() {
            clean += 1;
            if clean == CLEAN_SCANS {
                return Ok(true);
            }
        } else {
            clean = 0;
            instance.add_to_list(list, &missing)?;
        }
    }
    Ok(false)
}
