//! Recording session, from the first descriptor to the last frame.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use super::drain::Drained;
use super::error::TracerError;
use super::followed::{Exclusion, follow, followed, with_later};
use super::header_end::{self, HeaderFacts, begin_log, end_frame};
use super::identities::IdentityReader;
use super::joined_ranks::JoinedRanks;
use super::kernel_objects::KernelObjects;
use super::layers::Layers;
use super::log_limits::LogLimits;
use super::log_message::Message;
use super::log_thread::LogThread;
use super::name_readers::{NamesReaders, NamesThreads};
use super::name_records::NameReads;
use super::name_source::NameSource;
use super::name_source_selection::Naming;
use super::open_probes::{AllProbes, OpeningContext, open_events};
use super::options::{Follow, Options};
use super::overhead_probe::{CallCosts, OverheadMeter};
use super::probes::Probes;
use super::process_tree::Tree;
use super::programs::SeenPrograms;
use super::ring_stream::RingStream;
use super::segments::{self, SegmentRequests};
use super::sieve::Sieve;
use super::snapshot::{self, SnapshotOptions, SnapshotScope};
use super::source::{Described, KernelCounts, NamesRings, OpenedSource, Source};
use super::threads::{TracerThreads, own_name};
use super::tracepoint_plan::{RingKind, SourceKind};
use super::unprivileged;
use super::uprobes::aio::AioProbes;
use super::uprobes::code_readers::CodeReaderWatch;
use super::wait::{AwaitedEnds, Deadline, wait_for};
use crate::capture::fact::Text;
use crate::capture::format::FrameKind;
use crate::capture::header::{self, Disk, End};
use crate::event::decode::Decoder;
use crate::event::syscall_table::CallId;
use crate::record::{self, Layout};
use crate::sys::cancellation::{Cancellation, Interrupts, Launched};
use crate::sys::mounts::{self, MountWatch};
use crate::sys::perf::PerfEvent;
use crate::sys::spawn::{PausedChild, ProgramEnd, Running, StartError};
use crate::sys::tracefs::Tracefs;
use crate::sys::{capabilities, clock, disks, proc, rlimits};
use crate::units::Pid;

/// Result of a recording.
#[derive(Debug)]
pub struct RecordingOutcome {
    /// Exit of the launched program, if it has ended.
    pub ended: Option<ProgramEnd>,
    /// The launched program, if it is still running.
    pub running: Option<Running>,
    /// Content of the END frame.
    pub end: End,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Error that cut the log short, if any.
    pub log_error: Option<io::Error>,
    /// Error of the final sync, if any: the disk may not have the log, although all of it was
    /// written.
    pub sync_error: Option<io::Error>,
    /// Signal that cut short the work at the end, if any.
    pub interrupted: Option<i32>,
    /// Thread that closes the kernel objects: it waits for the kernel, about 40 ms for each
    /// tracepoint. `None`: no thread could be started, and the objects are closed already.
    pub closing: Option<JoinHandle<()>>,
}

/// Records. `held` is the program, forked before all other steps; it is released when all events
/// are on. Then `started` is called.
///
/// # Errors
///
/// [`TracerError`]; the held program has not run in that case.
pub fn record(
    options: &Options,
    log_path: &str,
    log: File,
    held: Option<PausedChild>,
    interrupts: &mut dyn Interrupts,
    started: impl FnOnce(),
) -> Result<RecordingOutcome, TracerError> {
    let mut warnings = Vec::from_iter(options.node.as_ref().and_then(JoinedRanks::warning));
    let clock = if clock::is_offset_unknown() { Err(TracerError::TimeNamespace) } else { Ok(()) };
    let narrowed = clock
        .and_then(|()| Ok(Tracefs::find_or_kept()?))
        .and_then(|it| Ok((unprivileged::narrowed(options, &it, &mut warnings)?, it)));
    let opened = narrowed.and_then(|(options, tracefs)| {
        let mut cancellation = Cancellation::before(interrupts);
        let (held, cancellation) = (held.as_ref(), &mut cancellation);
        let session =
            Session::open(&options, log_path, log, &tracefs, held, warnings, cancellation)?;
        Ok((options, session))
    });
    let (options, mut session) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            if let Some(held) = held {
                held.abandon();
            }
            return Err(error);
        }
    };
    let kept = capabilities::keep_when_open();
    session.warnings.extend(kept.err().map(|it| format!("cannot give up capabilities: {it}")));
    let options = &*options;
    let ends = match AwaitedEnds::of(options, held.as_ref()) {
        Ok(ends) => ends,
        Err(error) => {
            if let Some(held) = held {
                held.abandon();
            }
            session.abandon(interrupts);
            return Err(error);
        }
    };
    let mut cancellation = Cancellation::before(interrupts);
    match held.map(|it| it.start(&mut cancellation)).transpose() {
        Ok(program) => {
            started();
            let reason = session.watch(options, ends, program.as_ref(), interrupts);
            session.finish(reason, program, interrupts)
        }
        Err(error) => {
            let program = options.command.first().cloned().unwrap_or_default();
            session.abandon(interrupts);
            Err(match error {
                StartError::Failed(source) => TracerError::Program { program, source },
                StartError::Interrupted(signal) => TracerError::NotStarted { program, signal },
            })
        }
    }
}

/// A running recording.
struct Session {
    source: Box<dyn Source>,
    /// Probes that report names inside the kernel. They are removed after the source that records
    /// them.
    probes: Option<Probes>,
    /// Probes that report layers, if wanted; removed after the source, too.
    layers: Option<Layers>,
    /// Probes that record asynchronous operations; removed after the source, too.
    aio: AioProbes,
    threads: TracerThreads,
    names: Arc<NamesReaders>,
    name_threads: NamesThreads,
    /// Watch on mounts, if the block sizes of file systems are needed.
    mounts: Option<MountWatch>,
    /// Watch on programs that read the code of others.
    code_readers: CodeReaderWatch,
    /// True if the events belong to single threads.
    is_inherited: bool,
    /// True if no instance is kept for the next recording.
    leaves_nothing: bool,
    /// True if other processes have joined the launched program.
    has_joined: bool,
    /// CPUs that were online at the start.
    cpus: Vec<u32>,
    /// Disks that existed at the start.
    disks: Vec<Disk>,
    /// Clock readings of the start.
    clock: header::Clock,
    /// Layouts of the records in data frames.
    layouts: Vec<Layout>,
    /// Source of names.
    name_source: NameSource,
    /// Name of the tracer's own threads.
    own_name: String,
    /// Additional time of a recorded call.
    call_costs: CallCosts,
    warnings: Vec<String>,
}

impl Session {
    #[expect(clippy::too_many_lines, reason = "the steps of a start, in their order")]
    fn open(
        options: &Options,
        log_path: &str,
        log: File,
        tracefs: &Tracefs,
        held: Option<&PausedChild>,
        mut warnings: Vec<String>,
        cancellation: &mut Cancellation<'_>,
    ) -> Result<Self, TracerError> {
        rlimits::raise_open_files();
        let host = proc::host();
        let is_part = matches!(options.follow, Follow::System) && proc::is_namespaced();
        warnings.extend(is_part.then(|| NAMESPACED.to_owned()));
        // Before any event is on: these many small reads would only add noise.
        let (disks, own_name, cpus) = (disks::disks(), own_name(), host.cpus.clone());
        let sizes = options.ring_sizes(host.cpus.len());
        let before = followed(options, held)?;
        let (followed, own) = (before.as_slice(), own_name.as_str());
        // Before any probe, listener or event: each of them costs calls time, even before it is on.
        let gauge = OverheadMeter::start(&options.calls)?;
        let context = OpeningContext { host: &host, followed, own_name: own, tracefs, sizes };
        let (opened, choice, AllProbes { mut naming, layers, aio }) =
            open_events(options, context, &mut warnings, cancellation)?;
        let OpenedSource { source, drained, names: names_rings, ring_bytes } = opened;
        let marker = naming.probes.as_ref().map(Probes::marker).or_else(|| aio.marker());
        let (probes, has_lists) = (source.library_probes(), aio.marker().is_some());
        let code_readers =
            CodeReaderWatch::begin(marker, probes, naming.names, has_lists, &own_name);
        let (names, layouts) = (naming.names, layouts(source.as_ref())?);
        let (machine, source_ref) = (host.machine.as_str(), source.as_ref());
        let names_readers =
            names_readers(options, &mut naming, names_rings, &layouts, machine, source_ref)?;
        let name_threads = NamesThreads::start(&names_readers, &own_name)
            .map_err(TracerError::system("start a thread"))?;
        let is_inherited = choice.source == SourceKind::Inherited;
        // Calls of the tracer's own threads are recorded only by events that cover all threads.
        let gauge = gauge.filter(|_| !is_inherited);
        let gauge_thread = gauge.as_ref().map(|it| it.tid);
        follow(options, held, gauge_thread, source.as_ref(), &mut warnings)?;
        let mut exclusion = Exclusion::begin(options, source.as_ref())?;
        let start = clock::now();
        let mut threads = switch_on(drained, source.as_ref(), |rings, switches| {
            let readers = &names_readers;
            exclusion.add_later(options);
            TracerThreads::start(rings, switches, readers, &options.place, sizes.main, &own_name)
        })?;
        // The processes are read once before and once after: a child whose parent ended in between
        // is in one of the two. A process born between the two existed before its parent's births
        // were recorded, so it is a root like the others.
        let tree = with_later(before, options, held)?;
        let about = HeaderFacts {
            host,
            disks: disks.clone(),
            naming: &naming,
            layers: layers.as_ref(),
            aio: &aio,
            choice: &choice,
            exclusion,
            on: (start, clock::now()),
        };
        let header = header_end::header(options, about, &tree, source.as_ref(), &ring_bytes);
        let writer = begin_log(log, &header, start).map_err(|source| TracerError::Log {
            path: log_path.into(),
            source,
            help: LOG_HELP,
        })?;
        let followed = || {
            let marked = source.tracepoints().iter().filter(|_| options.counts_others());
            let marked = Vec::from_iter(marked.cloned());
            let sieve = Sieve::new(&marked, &header.host.machine, &disks);
            let tree = Tree::followed(options, names, &tree, source.as_ref());
            (tree.with_meter(gauge_thread), sieve)
        };
        let is_system = options.records_all_processes();
        let identities = IdentityReader::of(&tree, is_system, &options.place, &own_name)?;
        let log = LogThread::new(writer, layouts.clone(), (!is_system).then(followed))
            .with_chains(options.chains.map(|it| it.functions.user.is_some()))
            .with_programs(SeenPrograms::of(source.tracepoints()))
            .with_identities(identities)
            .with_limits(LogLimits::of(options, source.tracepoints()));
        threads.write_to(log, &own_name)?;
        let call_costs = gauge.map(OverheadMeter::finish).unwrap_or_default();
        // Before the snapshot, which stores the program under the tracer's user.
        let user = held.and_then(|it| Some(snapshot::user(it.pid(), it.user()?)));
        let gauge_task = gauge_thread.map(snapshot::own_task);
        snapshot::send(&threads.to_log, gauge_task.into_iter().chain(user).collect());
        // Before the snapshot: file systems mounted in the meantime are reported.
        let mounts = options.extents.then(MountWatch::new).transpose();
        let mounts = mounts.map_err(TracerError::system("watch what is mounted"))?;
        let subject = match options.follow {
            Follow::System => SnapshotScope::System,
            Follow::Launched => SnapshotScope::Tree { pids: tree, launched: true },
            Follow::Attached(_) => SnapshotScope::Tree { pids: tree, launched: false },
        };
        warnings.extend(take_snapshot(options, names, subject, &threads.to_log, &own_name)?);
        names_readers.look_at_opens();
        Ok(Self {
            source,
            code_readers,
            probes: naming.probes,
            layers,
            aio,
            threads,
            names: names_readers,
            name_threads,
            mounts,
            is_inherited,
            leaves_nothing: options.leaves_nothing,
            has_joined: options.joined().next().is_some(),
            cpus,
            disks,
            clock: header.clock,
            layouts,
            name_source: names,
            own_name,
            call_costs,
            warnings,
        })
    }

    /// Waits for the event that ends the recording, and returns its name.
    fn watch(
        &self,
        options: &Options,
        mut ends: AwaitedEnds,
        program: Option<&Running>,
        interrupts: &mut dyn Interrupts,
    ) -> &'static str {
        let mut deadline = Deadline::of(options);
        loop {
            if ends.are_over() {
                return "exit";
            }
            deadline.check(program);
            let timeout = match deadline.left() {
                Ok(timeout) => timeout,
                Err(reason) => return reason,
            };
            let log = &self.threads.log_signals;
            let (lists, mounts) = (self.names.long_lists(), self.mounts.as_ref());
            let segments = options.segments.as_ref();
            let (grown, signals) = (lists.grown(), interrupts.fd());
            let ready = wait_for(signals, log, grown, mounts, segments, &ends, timeout);
            if let Some(reason) = ready.ended_by_log {
                return reason;
            }
            if ready.lists_grown {
                lists.follow(self.source.as_ref());
            }
            if ready.mounts_changed {
                snapshot::send(&self.threads.to_log, Vec::from_iter(mounts::file_systems().ok()));
            }
            if ready.segment_wanted && segments.is_some_and(SegmentRequests::take) {
                self.begin_segment(options);
            }
            ends.remove(ready.ended);
            for interrupt in interrupts.take() {
                // A program that has ended leaves the processes that have joined it.
                let has_ended = |program: &Running| program.has_ended().unwrap_or(false);
                match program.filter(|program| !self.has_joined || !has_ended(program)) {
                    Some(program) => interrupt.forward(Launched::from(program)),
                    None => return "interrupt",
                }
            }
        }
    }

    /// Begins a segment of the log, with a snapshot of its own.
    fn begin_segment(&self, options: &Options) {
        let (log, names) = (&self.threads.to_log, self.name_source);
        let Some(tree) = segments::begin(log) else { return };
        let subject = match options.follow {
            Follow::System => SnapshotScope::System,
            _ => SnapshotScope::Tree { pids: tree, launched: false },
        };
        // Descriptors that are left out have no names, as at the start.
        let _ = take_snapshot(options, names, subject, log, &self.own_name);
    }

    /// Ends a session that recorded nothing. The kernel objects are closed when this returns.
    fn abandon(self, interrupts: &mut dyn Interrupts) {
        // The cause of the abandonment matters more than an error of closing.
        if let Ok(outcome) = self.finish("not started", None, interrupts) {
            let _ = outcome.closing.map(JoinHandle::join);
        }
    }

    /// Switches all events off: no event is recorded after this call. Returns the error of the
    /// kernel, if it refuses.
    fn switch_off(&self) -> Option<String> {
        snapshot::switching_off(&self.threads.to_log);
        // ORDERING: Release: a thread that finds a ring off by this sees it.
        self.threads.is_over.store(true, Ordering::Release);
        let error = self.source.disable().err()?;
        Some(format!("cannot switch the events off: {error}"))
    }

    /// Switches all events off, takes the remaining data, writes the last frame.
    fn finish(
        mut self,
        reason: &'static str,
        program: Option<Running>,
        interrupts: &mut dyn Interrupts,
    ) -> Result<RecordingOutcome, TracerError> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let ended = program.as_ref().is_some_and(|it| it.has_ended().unwrap_or(false));
        let runs_on = program.as_ref().filter(|_| !ended).map(Launched::from);
        let mut cancellation = Cancellation::new(interrupts, runs_on);
        // Those of one rank are not those of all.
        let has_own_books = program.as_ref().filter(|_| ended && !self.has_joined);
        let books = has_own_books.and_then(|it| snapshot::books_of_ended(it.pid()));
        let has_books = books.is_some() || self.has_joined;
        // From here on a recording exists: its warnings carry later errors.
        warnings.extend(self.source.disturbed().into_iter().chain(self.switch_off()));
        let end_time = clock::both();
        let wall_moved_ns = Some(header_end::wall_moved_ns(&self.clock));
        let counters = proc::text("/proc/diskstats", Text::DISKSTATS_END, Pid(0)).ok();
        snapshot::send(&self.threads.to_log, books.into_iter().chain(counters).collect());
        let errors = self.name_threads.stop();
        warnings.extend(errors.iter().map(|error| format!("{NAMES_MISSING}: {error}")));
        let (drained, written) = self.threads.finish();
        for error in drained.iter().filter_map(|it| it.error.as_ref()) {
            warnings.push(format!("cannot read a ring, so records are missing: {error}"));
        }
        warnings.extend(drained.iter().find_map(|it| it.switched.clone()));
        let Some((mut writer, mut counted)) = written else {
            return Err(TracerError::LogThread);
        };
        let (ended, running) = match program {
            Some(program) if ended => {
                let (ended, books) = snapshot::reap(program, has_books);
                counted.write_last(books.as_slice(), &mut writer);
                (ended, None)
            }
            other => (None, other),
        };
        warnings.extend(self.probes.as_ref().and_then(Probes::missed_names));
        warnings.extend(self.layers.as_ref().and_then(Layers::missed));
        warnings.extend(self.code_readers.warning());
        warnings.extend(self.names.end_reading());
        warnings.extend(snapshot::late_cpus(&self.cpus));
        warnings.extend(cpus_gone(&drained, self.is_inherited));
        let counts = kernel_counts(self.source.as_ref(), &mut warnings);
        // Work from here on is not accounted as overhead of the recording.
        let own = self.call_costs.with_cpu_time(rlimits::own_cpu_ns());
        let places =
            self.mounts.as_ref().map(|_| counted.write_places(&mut writer, &mut cancellation));
        let places_not_asked = places.unwrap_or(0);
        let unread_programs = counted.write_programs(&mut writer, &mut cancellation);
        warnings.extend(counted.write_stacks(&mut writer, &self.layouts, &mut cancellation));
        let (doubt, unread) = counted.write_symbols(&mut writer, &mut cancellation);
        let interrupted = cancellation.ended_by();
        let cut = interrupted.map(|_| CUT_SHORT.to_owned());
        warnings.extend([doubt, counted.warning.take(), cut].into_iter().flatten());
        let disks = disks::disks().into_iter().filter(|it| !self.disks.contains(it)).collect();
        let end = end_frame(reason, end_time.0.0, end_time.1, ended, counts, &counted, warnings);
        let stat_calls = self.source.stat_calls();
        let end = End { own, disks, places_not_asked, wall_moved_ns, stat_calls, ..end };
        let end = End { unread, unread_programs, others: counted.others, ..end };
        let last = writer.write_atomically(|it| it.json(FrameKind::END, clock::now(), &end));
        let log_error = counted.error.or(last.err());
        let sync_error = writer.synced().err().filter(|_| log_error.is_none());
        let (source, readers) = (self.source, (self.names, self.code_readers));
        let objects = of_probes(self.probes, self.layers, self.aio);
        let close = move || close_all((drained, readers), source, objects, self.leaves_nothing);
        // If the thread cannot be started the closure is dropped, and closes everything.
        let closing = std::thread::Builder::new().spawn(close).ok();
        let log_bytes = writer.written();
        Ok(RecordingOutcome {
            ended,
            running,
            end,
            log_bytes,
            log_error,
            sync_error,
            interrupted,
            closing,
        })
    }
}

/// Closes the rings and the source, and has the objects released that remain, or removes them.
fn close_all<R>(rings: R, source: Box<dyn Source>, objects: KernelObjects, leaves_nothing: bool) {
    drop(rings);
    let (recording, events) = source.into_parts();
    let objects = KernelObjects { recording, events, ..objects };
    if leaves_nothing { objects.remove() } else { objects.release_in_background() }
}

/// Returns the objects of all probes.
fn of_probes(names: Option<Probes>, layers: Option<Layers>, aio: AioProbes) -> KernelObjects {
    let names = names.map(Probes::into_parts).into_iter();
    let others = layers.and_then(Layers::into_parts).into_iter().chain(aio.into_parts());
    let (probes, markers) = names.chain(others).unzip();
    KernelObjects { probes, markers, ..KernelObjects::default() }
}

/// Returns the data that the names readers read.
fn reads(options: &Options, names: NameSource) -> NameReads {
    let at_once = !names.reads_late();
    NameReads { arguments: names.reads_paths(), exact_args: options.reads_exact_args(), at_once }
}

/// Switches the events on. Births and names come first, so that each recorded thread is known; then
/// the threads that take the records start; the other events follow.
fn switch_on(
    drained: Vec<RingStream>,
    source: &dyn Source,
    start: impl FnOnce(Vec<RingStream>, Vec<(RingKind, File)>) -> Result<TracerThreads, TracerError>,
) -> Result<TracerThreads, TracerError> {
    let what = "switch the events on";
    let births = drained.iter().filter_map(RingStream::owner).try_for_each(PerfEvent::enable);
    births.map_err(TracerError::system(what))?;
    let threads = start(drained, source.switches())?;
    source.enable().map_err(TracerError::system(what))?;
    Ok(threads)
}

fn layouts(source: &dyn Source) -> Result<Vec<Layout>, TracerError> {
    let layouts = source.layouts();
    let known = |layout: &header::RecordLayout| {
        let header::RecordLayout { source, sample_type, regs_user, header_page, .. } = layout;
        record::Layout::of(source, *sample_type, *regs_user, header_page)
    };
    layouts.iter().map(known).collect::<Option<Vec<_>>>().ok_or(TracerError::Pages)
}

/// Creates the readers of names, with a decoder of the calls. A format that cannot be parsed is
/// found again by the reader of the log, and counted there.
fn names_readers(
    options: &Options,
    naming: &mut Naming,
    rings: Vec<NamesRings>,
    layouts: &[Layout],
    machine: &str,
    source: &dyn Source,
) -> Result<Arc<NamesReaders>, TracerError> {
    let mut decoder = Decoder::new(machine);
    for tracepoint in source.tracepoints() {
        let Described { planned, id, format } = tracepoint;
        let _ = decoder.add(&planned.system, &planned.name, *id, format);
    }
    let (reads, watch) = (reads(options, naming.names), naming.watch.take());
    NamesReaders::new(rings, Arc::new(decoder), layouts.to_vec(), reads, watch)
        .map(Arc::new)
        .map_err(TracerError::system("make an eventfd"))
}

/// Takes the snapshot in a thread with the tracer's own name, so that its thousand small reads are
/// not recorded.
fn take_snapshot(
    options: &Options,
    names: NameSource,
    subject: SnapshotScope,
    to_log: &Sender<Message>,
    own_name: &str,
) -> Result<Option<String>, TracerError> {
    let mut mapping_calls = CallId::all().filter(|it| it.call().changes_mappings());
    let maps_files = mapping_calls.all(|it| options.calls.contains(&it));
    let what = SnapshotOptions {
        all_tasks: options.records_all_processes() || options.all_block,
        files: names != NameSource::Off,
        blocks: options.extents,
        maps: maps_files || options.chains.is_some_and(|it| it.functions.user.is_some()),
    };
    snapshot::take_in_thread(subject, what, to_log, own_name)
}

/// Warning about processes that `-a` in a container does not see.
const NAMESPACED: &str =
    "this is a pid namespace: processes outside of it are not recorded; use the host's: --pid=host";

/// Warning about a thread that read names and failed.
const NAMES_MISSING: &str = "the names of files opened on one CPU are missing";

/// Warning about work at the end that a signal cut short. The skipped files and symbols are counted
/// with those that could not be found.
const CUT_SHORT: &str = "interrupted by a signal: extents of files and functions on stacks, which are found at the end, are incomplete";

const LOG_HELP: &str = "; choose another place: -o DIR/";

/// Reads the kernel's counters; a warning says why they are missing.
fn kernel_counts(source: &dyn Source, warnings: &mut Vec<String>) -> KernelCounts {
    source.counts().unwrap_or_else(|error| {
        warnings.push(format!("cannot read the kernel's counters, so losses are unknown: {error}"));
        KernelCounts::default()
    })
}

/// Returns a warning for CPUs that went off during the recording. Events of single threads
/// (`is_inherited`) are on only while these threads run, so they show nothing.
fn cpus_gone(drained: &[Drained], is_inherited: bool) -> Option<String> {
    let rings = drained.iter().flat_map(|drained| &drained.rings);
    let on = rings.filter_map(|ring| Some((ring.cpu, ring.owner()?.counters().ok()?.on_ns)));
    snapshot::cpus_gone(&on.filter(|_| !is_inherited).collect::<Vec<_>>())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
