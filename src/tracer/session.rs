//! One recording, from the first descriptor to the last frame.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use super::error::TracerError;
use super::frames::{self, About, begin_log, end_frame};
use super::gauge::Gauge;
use super::layers::Layers;
use super::log::{Log, Message};
use super::names::{NamesReaders, NamesThreads, Reads};
use super::naming::{Names, Naming};
use super::opening::open_events;
use super::options::{Follow, Options};
use super::plan::{RingOf, SourceKind};
use super::privileges;
use super::probes::Probes;
use super::programs::SeenPrograms;
use super::sieve::Sieve;
use super::snapshot::{self, Subject, What};
use super::source::{Books, Opened, Source};
use super::stream::Stream;
use super::threads::{Threads, own_name};
use super::tree::Tree;
use super::watch::{awaited, nanoseconds, time_left, wait_for};
use crate::capture::fact::Text;
use crate::capture::format::FrameKind;
use crate::capture::header::{self, Disk, End, Own};
use crate::event::decode::Decoder;
use crate::event::syscall_table::CallId;
use crate::record::{self, Layout};
use crate::sys::mounts::{self, MountWatch};
use crate::sys::patience::{Interrupts, Launched, Patience};
use crate::sys::perf::PerfEvent;
use crate::sys::spawn::{Ended, Held, Running, StartError};
use crate::sys::tracefs::Tracefs;
use crate::sys::{capabilities, clock, disks, limits, proc, thread};
use crate::units::{Pid, Tid};

/// How a recording ended.
#[derive(Debug)]
pub struct Outcome {
    /// How the launched program ended, if it has.
    pub ended: Option<Ended>,
    /// The launched program, if it runs on.
    pub running: Option<Running>,
    /// What the END frame says.
    pub end: End,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Why the log is cut short, if it is.
    pub log_error: Option<io::Error>,
    /// Why the disk may not have the log, although all of it was written.
    pub sync_error: Option<io::Error>,
    /// The signal that cut short what is worked out at the end.
    pub interrupted: Option<i32>,
    /// The thread that closes what is open in the kernel: it waits for the kernel, about 40 ms for each tracepoint.
    /// `None`: no thread was to be had, and it is closed already.
    pub closing: Option<JoinHandle<()>>,
}

/// Records. `held` is the program, forked first of all; it is let go when everything is on.
///
/// # Errors
///
/// [`TracerError`]; the held program has not run then.
pub fn record(
    options: &Options,
    log_path: &str,
    log: File,
    held: Option<Held>,
    interrupts: &mut dyn Interrupts,
) -> Result<Outcome, TracerError> {
    let mut warnings = Vec::new();
    let clock = if clock::is_offset_unknown() { Err(TracerError::TimeNamespace) } else { Ok(()) };
    let narrowed = clock
        .and_then(|()| Ok(Tracefs::find_or_kept()?))
        .and_then(|it| Ok((privileges::narrowed(options, &it, &mut warnings)?, it)));
    let opened = narrowed.and_then(|(options, tracefs)| {
        let place = (log_path, log, &tracefs);
        let mut patience = Patience::before(interrupts);
        let session = Session::open(&options, place, held.as_ref(), warnings, &mut patience)?;
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
    let ends = match awaited(options, held.as_ref()) {
        Ok(ends) => ends,
        Err(error) => {
            if let Some(held) = held {
                held.abandon();
            }
            session.abandon(interrupts);
            return Err(error);
        }
    };
    let mut patience = Patience::before(interrupts);
    match held.map(|it| it.start(&mut patience)).transpose() {
        Ok(program) => {
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

/// A recording that is on.
struct Session {
    source: Box<dyn Source>,
    /// What tells names inside the kernel. They go after the source, which records them.
    probes: Option<Probes>,
    /// What tells of layers, if that is wanted; goes after the source, too.
    layers: Option<Layers>,
    threads: Threads,
    names: Arc<NamesReaders>,
    name_threads: NamesThreads,
    /// If it is to be known how large the blocks of file systems are.
    mounts: Option<MountWatch>,
    /// True if the events are those of single threads.
    is_inherited: bool,
    /// Those that were online at the start.
    cpus: Vec<u32>,
    /// Those that were there at the start.
    disks: Vec<Disk>,
    /// What it showed at the start.
    clock: header::Clock,
    /// How the records of data frames are laid out.
    layouts: Vec<Layout>,
    /// How much longer a recorded call takes.
    call_cost_ns: Option<u64>,
    warnings: Vec<String>,
}

impl Session {
    #[expect(clippy::too_many_lines, reason = "the steps of a start, in their order")]
    fn open(
        options: &Options,
        (log_path, log, tracefs): (&str, File, &Tracefs),
        held: Option<&Held>,
        mut warnings: Vec<String>,
        patience: &mut Patience<'_>,
    ) -> Result<Self, TracerError> {
        limits::raise_open_files();
        let host = proc::host();
        let is_part = matches!(options.follow, Follow::System) && proc::is_namespaced();
        warnings.extend(is_part.then(|| NAMESPACED.to_owned()));
        // Before anything is on: these many small reads are nobody's business.
        let (disks, own_name, cpus) = (disks::disks(), own_name(), host.cpus.clone());
        let sizes = options.ring_sizes(host.cpus.len());
        let before = followed(options, held)?;
        let (whose, rings) = ((&host, &before[..], own_name.as_str()), (tracefs, sizes));
        let (opened, choice, (mut naming, layers)) =
            open_events(options, whose, rings, &mut warnings, patience)?;
        let Opened { source, drained, names: names_rings, ring_bytes } = opened;
        let (names, layouts) = (naming.names, layouts(source.as_ref())?);
        let its_rings = (names_rings, layouts.as_slice());
        let names_readers =
            names_readers(options, &mut naming, its_rings, &host.machine, source.as_ref())?;
        let name_threads = NamesThreads::start(&names_readers, &own_name)
            .map_err(TracerError::system("start a thread"))?;
        let is_inherited = choice.source == SourceKind::Inherited;
        // What a thread of ours does is seen by events of everybody only.
        let gauge = (!is_inherited).then(|| Gauge::start(&options.calls, &own_name));
        let gauge = gauge.transpose()?.flatten();
        let gauge_thread = gauge.as_ref().map(|it| it.tid);
        follow(options, held, gauge_thread, source.as_ref(), &mut warnings)?;
        let start = clock::now();
        let mut threads = switch_on((drained, source.as_ref()), |rings| {
            let readers = &names_readers;
            Threads::start(rings, readers, &options.place, sizes.main, &own_name)
        })?;
        // Once before and once after: a child whose parent ended meanwhile is in one of the two. Who was born between the two
        // was there before its parent's births are told, so it is a root like the others.
        let tree = with_later(before, options, held)?;
        let about = About {
            host,
            disks: disks.clone(),
            naming: &naming,
            layers: layers.as_ref(),
            choice: &choice,
            on: (start, clock::now()),
        };
        let header = frames::header(options, about, &tree, source.as_ref(), &ring_bytes);
        let writer = begin_log(log, &header, start).map_err(|source| TracerError::Log {
            path: log_path.into(),
            source,
            help: LOG_HELP,
        })?;
        let followed = || {
            let marked = source.tracepoints().iter().filter(|_| counts_others(options));
            let marked = Vec::from_iter(marked.cloned());
            let sieve = Sieve::new(&marked, &header.host.machine, &disks);
            (Tree::followed(options, names, &tree, source.as_ref()), sieve)
        };
        let log = Log::new(writer, layouts.clone(), (!records_everybody(options)).then(followed))
            .with_chains(options.chains.map(|it| it.functions.user.is_some()))
            .with_programs(SeenPrograms::of(source.tracepoints()));
        threads.write_to(log, &own_name)?;
        let call_cost_ns = gauge.and_then(Gauge::finish);
        // Before the snapshot, which finds the program as we are.
        let user = held.and_then(|it| Some(snapshot::user(it.pid(), it.user()?)));
        let gauge_task = gauge_thread.map(snapshot::own_task);
        snapshot::send(&threads.to_log, gauge_task.into_iter().chain(user).collect());
        // The same: who mounts something meanwhile is heard.
        let mounts = options.extents.then(MountWatch::new).transpose();
        let mounts = mounts.map_err(TracerError::system("watch what is mounted"))?;
        warnings.extend(take_snapshot(options, names, tree, &threads.to_log, &own_name)?);
        names_readers.look_at_opens();
        Ok(Self {
            source,
            probes: naming.probes,
            layers,
            threads,
            names: names_readers,
            name_threads,
            mounts,
            is_inherited,
            cpus,
            disks,
            clock: header.clock,
            layouts,
            call_cost_ns,
            warnings,
        })
    }

    /// Waits for what ends the recording, and says what it was.
    fn watch(
        &self,
        options: &Options,
        mut ends: Vec<OwnedFd>,
        program: Option<&Running>,
        interrupts: &mut dyn Interrupts,
    ) -> &'static str {
        let deadline = options.duration.map(|it| clock::now().0.saturating_add(nanoseconds(it)));
        let has_end = program.is_some() || matches!(options.follow, Follow::Attached(_));
        loop {
            if has_end && ends.is_empty() {
                return "exit";
            }
            let Some(timeout) = time_left(deadline) else { return "duration" };
            let failed = &self.threads.log_failed;
            let ready = wait_for(interrupts.fd(), failed, self.mounts.as_ref(), &ends, timeout);
            if ready.log_failed {
                return "log not writable";
            }
            if ready.mounts_changed {
                snapshot::send(&self.threads.to_log, Vec::from_iter(mounts::file_systems().ok()));
            }
            // From the back, so that the places of the others stay.
            for place in ready.ended.into_iter().rev() {
                ends.remove(place);
            }
            for interrupt in interrupts.take() {
                match program {
                    Some(program) => interrupt.forward(Launched::from(program)),
                    None => return "interrupt",
                }
            }
        }
    }

    /// There is nothing to record. What is open in the kernel is gone when this returns.
    fn abandon(self, interrupts: &mut dyn Interrupts) {
        // Why there is nothing matters more than what goes wrong here.
        if let Ok(outcome) = self.finish("not started", None, interrupts) {
            let _ = outcome.closing.map(JoinHandle::join);
        }
    }

    /// No event comes after this. Why one may come all the same, if so.
    fn switch_off(&self) -> Option<String> {
        snapshot::switching_off(&self.threads.to_log);
        // ORDERING: Release: a thread that finds a ring off by this sees it.
        self.threads.is_over.store(true, Ordering::Release);
        let error = self.source.disable().err()?;
        Some(format!("cannot switch the events off: {error}"))
    }

    /// Switches everything off, takes what is left, writes the last frame.
    fn finish(
        mut self,
        reason: &'static str,
        program: Option<Running>,
        interrupts: &mut dyn Interrupts,
    ) -> Result<Outcome, TracerError> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let ended = program.as_ref().is_some_and(|it| it.has_ended().unwrap_or(false));
        let runs_on = program.as_ref().filter(|_| !ended).map(Launched::from);
        let mut patience = Patience::new(interrupts, runs_on);
        let books =
            program.as_ref().filter(|_| ended).and_then(|it| snapshot::books_of_ended(it.pid()));
        let has_books = books.is_some();
        // From here on a recording exists: what goes wrong is told with it.
        warnings.extend(self.source.disturbed());
        warnings.extend(self.switch_off());
        let end_time = clock::both();
        let wall_moved_ns = Some(frames::wall_moved_ns(&self.clock));
        let counters = proc::text("/proc/diskstats", Text::DISKSTATS_END, Pid(0)).ok();
        snapshot::send(&self.threads.to_log, books.into_iter().chain(counters).collect());
        for error in self.name_threads.stop() {
            warnings.push(format!("the names of files opened on one CPU are missing: {error}"));
        }
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
        warnings.extend(self.names.warning());
        warnings.extend(snapshot::late_cpus(&self.cpus));
        let rings = drained.iter().flat_map(|it| &it.rings);
        let on = rings.filter_map(|it| Some((it.cpu, it.owner()?.counters().ok()?.on_ns)));
        // Those of single threads are on only while these run.
        let on = on.filter(|_| !self.is_inherited).collect::<Vec<_>>();
        warnings.extend(snapshot::cpus_gone(&on));
        let counts = self.source.counts().unwrap_or_else(|error| {
            warnings.push(format!(
                "cannot read the counters, so what is missing is not known: {error}"
            ));
            Books::default()
        });
        // What is found out now is nobody's time any more.
        let own = Own { cpu_ns: limits::own_cpu_ns(), call_cost_ns: self.call_cost_ns };
        let places = self.mounts.as_ref().map(|_| counted.write_places(&mut writer, &mut patience));
        let places_not_asked = places.unwrap_or(0);
        let unread_programs = counted.write_programs(&mut writer, &mut patience);
        warnings.extend(counted.write_stacks(&mut writer, &self.layouts, &mut patience));
        let (doubt, unread) = counted.write_symbols(&mut writer, &mut patience);
        let interrupted = patience.ended_by();
        warnings.extend(doubt.into_iter().chain(interrupted.map(|_| CUT_SHORT.to_owned())));
        let disks = disks::disks().into_iter().filter(|it| !self.disks.contains(it)).collect();
        let end = end_frame(reason, (end_time.0.0, end_time.1), ended, counts, &counted, warnings);
        let end = End { own, disks, places_not_asked, wall_moved_ns, ..end };
        let others = std::mem::take(&mut counted.others);
        let end = End { unread, unread_programs, others, ..end };
        let last = writer.whole(|it| it.json(FrameKind::END, clock::now(), &end));
        let log_error = counted.error.or(last.err());
        let sync_error = writer.synced().err().filter(|_| log_error.is_none());
        let (source, names, probes) = (self.source, self.names, (self.probes, self.layers));
        let close = move || drop((drained, names, source, probes));
        // Where it cannot be started it is dropped, with all that it would close.
        let closing = std::thread::Builder::new().spawn(close).ok();
        let log_bytes = writer.written();
        Ok(Outcome { ended, running, end, log_bytes, log_error, sync_error, interrupted, closing })
    }
}

/// What the readers read.
fn reads(options: &Options, names: Names) -> Reads {
    let at_once = !names.reads_late();
    Reads { arguments: !names.links(), exact_args: exact_args(options), at_once }
}

/// True if what arguments point to is read: with less than real-time priority it would be too late, and nobody would know.
pub(super) fn exact_args(options: &Options) -> bool {
    options.exact_args && thread::fifo_allowed(super::names::PRIORITY)
}

/// Has the kernel follow those that are to be recorded, where it does that.
fn follow(
    options: &Options,
    held: Option<&Held>,
    gauge: Option<Tid>,
    source: &dyn Source,
    warnings: &mut Vec<String>,
) -> Result<(), TracerError> {
    if records_everybody(options) {
        return Ok(());
    }
    let now_there = || {
        let mut threads = proc::threads(&followed(options, held).unwrap_or_default());
        threads.extend(gauge);
        threads
    };
    if !source.follow(&now_there).map_err(TracerError::Instance)? {
        warnings.push("the processes start others too fast: some may not be recorded".to_owned());
    }
    Ok(())
}

/// Births and names first, so that each thread that is seen is known; then what takes all of it; then the rest.
fn switch_on(
    (drained, source): (Vec<Stream>, &dyn Source),
    start: impl FnOnce((Vec<Stream>, Vec<(RingOf, File)>)) -> Result<Threads, TracerError>,
) -> Result<Threads, TracerError> {
    let what = "switch the events on";
    let births = drained.iter().filter_map(Stream::owner).try_for_each(PerfEvent::enable);
    births.map_err(TracerError::system(what))?;
    let threads = start((drained, source.switches()))?;
    source.enable().map_err(TracerError::system(what))?;
    Ok(threads)
}

/// True if nothing is left out, in the kernel or here.
pub(super) fn records_everybody(options: &Options) -> bool {
    matches!(options.follow, Follow::System) || options.keep_foreign
}

/// True if block requests of others are counted and not recorded.
pub(super) fn counts_others(options: &Options) -> bool {
    let is_wanted = options.block || options.extents;
    is_wanted && !records_everybody(options) && !options.all_block
}

fn layouts(source: &dyn Source) -> Result<Vec<Layout>, TracerError> {
    let layouts = source.layouts();
    let known = |it: &header::Layout| {
        record::Layout::of(&it.source, it.sample_type, it.regs_user, &it.header_page)
    };
    layouts.iter().map(known).collect::<Option<Vec<_>>>().ok_or(TracerError::Pages)
}

/// With what tells them which calls these are: what cannot be read is found again by whoever reads the log, where it counts.
fn names_readers(
    options: &Options,
    naming: &mut Naming,
    (rings, layouts): (Vec<Stream>, &[Layout]),
    machine: &str,
    source: &dyn Source,
) -> Result<Arc<NamesReaders>, TracerError> {
    let mut decoder = Decoder::new(machine);
    for it in source.tracepoints() {
        let _ = decoder.add(&it.planned.system, &it.planned.name, it.id, &it.format);
    }
    let read = (reads(options, naming.names), naming.watch.take());
    NamesReaders::new(rings, Arc::new(decoder), layouts.to_vec(), read)
        .map(Arc::new)
        .map_err(TracerError::system("make an eventfd"))
}

/// The processes that are followed at this moment; empty for the whole system.
fn followed(options: &Options, held: Option<&Held>) -> Result<Vec<Pid>, TracerError> {
    match &options.follow {
        Follow::System | Follow::Launched => Ok(held.map(|it| Pid(it.pid())).into_iter().collect()),
        Follow::Attached(roots) => {
            let there = proc::processes();
            if let Some(gone) = roots.iter().find(|it| !there.contains(&Pid(**it))) {
                return Err(TracerError::NoProcess(*gone));
            }
            let roots: BTreeSet<Pid> = roots.iter().copied().map(Pid).collect();
            Ok(proc::with_descendants(&Vec::from_iter(roots)))
        }
    }
}

/// Those of before and those of now.
fn with_later(
    mut before: Vec<Pid>,
    options: &Options,
    held: Option<&Held>,
) -> Result<Vec<Pid>, TracerError> {
    if let Follow::Attached(_) = options.follow {
        let now = followed(options, held)?;
        before.extend(now);
        before.sort_unstable();
        before.dedup();
    }
    Ok(before)
}

/// Takes the snapshot in a thread of our own name, so that its thousand small reads are not recorded.
fn take_snapshot(
    options: &Options,
    names: Names,
    tree: Vec<Pid>,
    to_log: &Sender<Message>,
    own_name: &str,
) -> Result<Option<String>, TracerError> {
    let subject = match &options.follow {
        Follow::System => Subject::System,
        Follow::Launched => Subject::Tree { pids: tree, launched: true },
        Follow::Attached(_) => Subject::Tree { pids: tree, launched: false },
    };
    let mut mapping_calls = CallId::all().filter(|it| it.call().changes_mappings());
    let maps_files = mapping_calls.all(|it| options.calls.contains(&it));
    let what = What {
        all_tasks: records_everybody(options) || options.all_block,
        files: names != Names::Off,
        blocks: options.extents,
        maps: maps_files || options.chains.is_some_and(|it| it.functions.user.is_some()),
    };
    snapshot::take_in_thread(subject, what, to_log, own_name)
}

/// What a container's `-a` does not see.
const NAMESPACED: &str =
    "this is a pid namespace: processes outside of it are not recorded; use the host's: --pid=host";

/// What was left out is counted where the others are that could not be found out.
const CUT_SHORT: &str = "a signal came: what is found out at the end (where files lie, functions on stacks) is not complete";

const LOG_HELP: &str = "; choose another place: -o DIR/";

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
