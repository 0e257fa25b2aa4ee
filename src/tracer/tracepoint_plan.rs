//! Plan of tracepoints: which ones are opened, with which filter, into which ring.

use std::borrow::Cow;

use crate::event::block_shape::BLOCK_POINTS;
use crate::event::file_io::FILE_IO_POINTS;
use crate::event::fs::FS_POINTS;
use crate::event::layer::{LAYER_POINTS, LayerPoint};
use crate::event::probe_events::{NUMBER_FIELD, NUMBERED_PREFIX};
use crate::event::syscall_table::{Call, CallClass, CallId};
use crate::event::task::{WAITS, WaitCall};
use crate::event::uring::{URING_POINTS, UringPoint};
use crate::units::DevId;

/// Source of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Perf events: available on every kernel, also in a container that may use perf.
    Perf,
    /// Instances of tracefs: cheaper for the traced program, and for other processes.
    Tracefs,
    /// Perf events of the followed threads alone, inherited by their children. They need no
    /// privilege. They are expensive and cover system calls only.
    Inherited,
}

impl SourceKind {
    /// Returns the name of the source in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Tracefs => "tracefs",
            Self::Inherited => "inherited",
        }
    }
}

/// Kind of a ring. Each CPU has at most one ring of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// A large ring with nearly all events.
    Main,
    /// A small ring with the opens: exits, which wake its reader, and with perf entries, too.
    Names,
    /// With tracefs in process mode: block requests and operations of io_uring, which may not be
    /// filtered by thread.
    Block,
    /// With tracefs: births, names and ends of tasks, recorded by perf.
    Tasks,
    /// A ring of perf, whatever the source: samples with the call chain of their thread.
    Chains,
    /// With tracefs: the entries of the calls whose exits are in the names ring. In that ring they
    /// would wake its reader inside the call, and the call's duration would contain the reader's
    /// work.
    Entries,
}

impl RingKind {
    /// All kinds, by their number in the log's header and data frames.
    pub const ALL: [Self; 6] =
        [Self::Main, Self::Names, Self::Block, Self::Tasks, Self::Chains, Self::Entries];

    /// Returns the number in the log's header and data frames.
    pub fn index(self) -> u32 {
        self as u32
    }

    /// Returns the name in the log's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Names => "names",
            Self::Block => "block",
            Self::Tasks => "tasks",
            Self::Chains => "chains",
            Self::Entries => "entries",
        }
    }
}

/// Consequence if a kernel lacks a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The recording is useless without the tracepoint.
    Must,
    /// The tracepoint is left out, with a warning.
    Wanted,
    /// The tracepoint is left out silently: kernels that lack it report the same in another way, or
    /// have nothing to report.
    Optional,
}

/// One tracepoint to open on every CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTracepoint {
    /// `raw_syscalls`, `syscalls`, `block`, `io_uring`, `task`, `sched`, or the group of the
    /// tracer's probes.
    pub system: Cow<'static, str>,
    /// Name of the tracepoint.
    pub name: String,
    /// Kernel filter; empty: none.
    pub filter: String,
    /// Ring that receives the samples.
    pub ring: RingKind,
    /// True if each sample wakes the ring's reader.
    pub wakes: bool,
    /// Consequence if a kernel lacks the tracepoint.
    pub need: Need,
}

impl UringPoint {
    /// Returns the consequence if a kernel lacks the tracepoint. Every kernel has the optional
    /// events under one name or another, or combined in one tracepoint.
    fn need(self) -> Need {
        match self {
            Self::Create | Self::FileGet | Self::Complete => Need::Wanted,
            Self::Submit | Self::Worker | Self::Failed | Self::Overflow => Need::Optional,
        }
    }
}

impl PlannedTracepoint {
    /// True if the thread of the records does not determine the process that they concern.
    pub fn concerns_any_process(&self) -> bool {
        let mut layers = LAYER_POINTS.iter();
        let is_planned =
            |point: &&LayerPoint| (point.system, point.name) == (&*self.system, &self.name);
        if let Some(layer) = layers.find(is_planned) {
            return layer.concerns_any_process();
        }
        // File I/O belongs to the thread that is running.
        let is_file_io =
            FILE_IO_POINTS.iter().any(|point| (point.0, point.1) == (&*self.system, &self.name));
        !is_file_io && matches!(&*self.system, "block" | "io_uring" | "ext4" | "iomap" | "xfs")
    }

    /// Returns the system call, if the tracepoint is the entry or exit of a single call.
    pub fn call(&self) -> Option<CallId> {
        let sides = ["sys_enter_", "sys_exit_"];
        let name = sides.iter().find_map(|side| self.name.strip_prefix(side))?;
        CallId::by_name(name).filter(|_| self.system == "syscalls")
    }
}

/// Largest number of system calls that are opened one by one. More calls are opened as the
/// `raw_syscalls` pair with a filter.
///
/// Closing costs 43 ms for each tracepoint (two per call) and 90 ms for the pair. A call that is
/// not recorded pays 15 to 50 ns with single tracepoints and 200 to 250 ns with the pair.
pub const SINGLE_CALLS_MAX: usize = 4;

/// Events to record.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// System calls to record.
    pub calls: &'a [CallId],
    /// `uname -m`.
    pub machine: &'a str,
    /// Name of the tracer's own threads, whose opens must not wake the readers of names.
    pub own_name: &'a str,
    /// True if calls with names go to the names ring.
    pub names_ring: bool,
    /// True if the names ring receives ends of opens that made a descriptor, and no other events of
    /// opens.
    pub links: bool,
    /// True if opens, renames and removals do not go to the names ring, because a listener reports
    /// the opened files and probes show the paths.
    pub listens: bool,
    /// True if the names ring also receives calls that cannot be interpreted without the memory
    /// that their arguments point to.
    pub lists: bool,
    /// True if the names ring also receives calls that make two descriptors and store their numbers
    /// in memory.
    pub pairs: bool,
    /// True if the names ring also receives calls whose arguments point to further memory.
    pub exact_args: bool,
    /// True to record the paths of programs in the calls that start them.
    pub programs: bool,
    /// True to record the events that the audit of a launched program needs: programs, ends of
    /// waits, signals that may write core dumps.
    pub accounting: bool,
    /// True to record block requests.
    pub block: bool,
    /// True to record extents that file systems report.
    pub extents: bool,
    /// Disks of the block requests; empty: all.
    pub devices: &'a [DevId],
    /// True to record operations of io_uring.
    pub uring: bool,
    /// `Some` to record layers inside calls: true if probes see functions of file systems.
    pub layers: Option<bool>,
    /// Events that are recorded with their call chains.
    pub chains: CallChainRequest,
    /// Tracepoint of page faults, if they are wanted.
    pub faults: Option<(&'static str, &'static str)>,
    /// Source of samples.
    pub source: SourceKind,
    /// True if all processes are followed.
    pub system: bool,
    /// True if the kernel leaves out threads: then other events of any process need a ring of their
    /// own.
    pub excludes: bool,
    /// Probes of the tracer: system and name of each.
    pub probes: &'a [(String, String)],
}

/// Events that are recorded with their call chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallChainRequest {
    /// True for bios that are queued.
    pub bios: bool,
    /// True for ends of system calls, except those that go to the names ring.
    pub calls: bool,
}

/// Tracepoint at which a bio is passed to the block layer.
const BIO_QUEUE: &str = "block_bio_queue";

/// Returns the tracepoints that record the wanted events.
pub fn plan(wanted: &PlanRequest<'_>) -> Vec<PlannedTracepoint> {
    if wanted.source == SourceKind::Inherited {
        return inherited(wanted);
    }
    let is_perf = wanted.source == SourceKind::Perf;
    let (named, plain): (Vec<CallId>, Vec<CallId>) =
        there(wanted).partition(|call| is_named(wanted, call.call()));
    let mut planned = vec![unfiltered("task", "task_newtask", RingKind::Main, Need::Wanted)];
    planned.extend(plain_calls(wanted, &plain));
    if wanted.chains.calls {
        with_chains(&mut planned, wanted.machine);
    }
    planned.extend(programs(wanted));
    // With tracefs a list of threads excludes the tracer itself, except when the whole system is
    // followed.
    let not_ours = format!("COMM!=\"{}\"", wanted.own_name);
    let filter = if is_perf || wanted.system { not_ours.as_str() } else { "" };
    let entries = if is_perf { RingKind::Names } else { RingKind::Entries };
    planned.extend(named.iter().flat_map(|&call| {
        let [enter, exit] = single(call, RingKind::Names, filter);
        [PlannedTracepoint { ring: entries, ..enter }, exit]
    }));
    let has_list = !wanted.system || wanted.excludes;
    let global = if is_perf || !has_list { RingKind::Main } else { RingKind::Block };
    planned.extend(of_devices(wanted, global));
    if let Some((system, name)) = wanted.faults {
        planned.push(unfiltered(system, name, RingKind::Main, Need::Wanted));
    }
    planned.extend(beside_calls(wanted, global));
    planned.extend(probes(wanted));
    planned
}

/// Returns the wanted calls that the machine has.
fn there<'a>(wanted: &PlanRequest<'a>) -> impl Iterator<Item = CallId> + use<'a> {
    let (calls, machine) = (wanted.calls, wanted.machine);
    calls.iter().copied().filter(move |it| it.call().number(machine).is_some())
}

/// Returns the tracepoints of a recording without privileges. No other tracepoint is available for
/// all threads, and each one costs time at every fork. The end of an exec must be recorded, because
/// it may hide the program from the tracer.
fn inherited(wanted: &PlanRequest<'_>) -> Vec<PlannedTracepoint> {
    let is_named = |id: &CallId| {
        let call = id.call();
        wanted.links && call.class == CallClass::Open || wanted.pairs && call.makes_pair()
    };
    let ring = |id: &CallId| if is_named(id) { RingKind::Names } else { RingKind::Main };
    let calls = there(wanted).flat_map(|id| single(id, ring(&id), ""));
    calls.chain(exec_exits(wanted.calls)).collect()
}

/// True if the call goes to the names ring. Each tracepoint of perf costs 40 ms at the end. With
/// perf, therefore, only opens and calls that receive descriptors have tracepoints of their own.
fn is_named(wanted: &PlanRequest<'_>, call: &Call) -> bool {
    let is_perf = wanted.source == SourceKind::Perf;
    let is_needed = call.class == CallClass::Open || call.receives_descriptors();
    let has_names = match () {
        () if wanted.listens && call.bears_on_opens() => false,
        () if is_perf || wanted.links => is_needed,
        () => call.has_names(),
    };
    wanted.names_ring && has_names
        || wanted.links && call.receives_descriptors()
        || wanted.lists && call.is_list()
        || wanted.pairs && call.makes_pair()
        || wanted.exact_args && call.has_memory()
}

/// Returns the tracepoints of the main ring: one pair per call, or with perf one pair for many
/// calls.
fn plain_calls(wanted: &PlanRequest<'_>, plain: &[CallId]) -> Vec<PlannedTracepoint> {
    let is_perf = wanted.source == SourceKind::Perf;
    if is_perf && plain.len() > SINGLE_CALLS_MAX {
        return raw_pair(plain, wanted.machine, wanted.accounting).into();
    }
    let is_split = |it: &CallId| wanted.links && it.call().class == CallClass::Open;
    let (split, plain): (Vec<CallId>, Vec<CallId>) = plain.iter().partition(|call| is_split(call));
    let mut planned: Vec<PlannedTracepoint> =
        plain.iter().flat_map(|&it| single(it, RingKind::Main, "")).collect();
    let own = wanted.system.then_some(wanted.own_name);
    planned.extend(split.iter().flat_map(|&it| by_result(it, own)));
    if !is_perf {
        planned.extend(exec_exits(wanted.calls));
    }
    if wanted.accounting {
        planned.extend(wait_exits());
    }
    planned
}

/// Returns the tracepoints of program starts and of signals that end programs with a core dump.
fn programs(wanted: &PlanRequest<'_>) -> Vec<PlannedTracepoint> {
    let mut planned = Vec::new();
    let has_exec = wanted.calls.iter().any(|call| call.call().is_exec());
    if wanted.accounting || wanted.programs && has_exec {
        planned.push(unfiltered("sched", "sched_process_exec", RingKind::Main, Need::Wanted));
    }
    if wanted.accounting {
        let point = unfiltered("signal", "signal_deliver", RingKind::Main, Need::Optional);
        planned.push(PlannedTracepoint { filter: core_signals(), ..point });
    }
    planned
}

/// Returns the tracer's probes. They share the ring of the calls, because they fire between entry
/// and exit of a thread's call.
fn probes<'a>(wanted: &'a PlanRequest<'_>) -> impl Iterator<Item = PlannedTracepoint> + 'a {
    wanted.probes.iter().map(|(system, name)| PlannedTracepoint {
        system: system.clone().into(),
        name: name.clone(),
        filter: probe_filter(name, wanted),
        ring: RingKind::Main,
        wakes: false,
        need: Need::Must,
    })
}

/// Returns the filter of a probe. A probe that sees all calls also sees calls without a path:
/// locks, for example, hundreds of thousands of times a second.
fn probe_filter(name: &str, wanted: &PlanRequest<'_>) -> String {
    if !name.starts_with(NUMBERED_PREFIX) {
        return String::new();
    }
    let calls = wanted.calls.iter().map(|it| it.call()).filter(|it| it.has_path());
    number_filter(NUMBER_FIELD, calls.filter_map(|it| it.number(wanted.machine)).collect())
}

/// Returns the tracepoints of io_uring and of layers inside calls. `global` is the ring of events
/// that belong to no particular thread.
fn beside_calls(wanted: &PlanRequest<'_>, global: RingKind) -> Vec<PlannedTracepoint> {
    let mut planned = Vec::new();
    if wanted.uring {
        let rings = URING_POINTS.iter();
        planned.extend(rings.map(|it| unfiltered("io_uring", it.0, global, it.1.need())));
    }
    if wanted.uring || wanted.layers.is_some() {
        let inside = FILE_IO_POINTS.iter();
        planned.extend(
            inside.map(|point| unfiltered(point.0, point.1, RingKind::Main, Need::Optional)),
        );
    }
    if let Some(has_probes) = wanted.layers {
        let points = LAYER_POINTS.iter().filter(|it| !(has_probes && it.is_stand_in()));
        planned.extend(points.map(|point| {
            let ring = if point.concerns_any_process() { global } else { RingKind::Main };
            unfiltered(point.system, point.name, ring, Need::Optional)
        }));
    }
    planned
}

/// Returns the tracepoints of block requests and of extents.
fn of_devices(wanted: &PlanRequest<'_>, global: RingKind) -> Vec<PlannedTracepoint> {
    let mut planned = Vec::new();
    if wanted.block {
        let blocks = BLOCK_POINTS.iter().map(|point| point.0);
        planned.extend(blocks.map(|name| PlannedTracepoint {
            filter: device_filter(name, wanted.devices),
            ring: if wanted.chains.bios && name == BIO_QUEUE { RingKind::Chains } else { global },
            ..unfiltered("block", name, global, Need::Wanted)
        }));
    }
    if wanted.extents {
        // The thread that queries an extent first reports it. Often this is a kernel thread.
        let points = FS_POINTS.iter();
        planned.extend(points.map(|it| unfiltered(it.0, it.1, global, Need::Optional)));
    }
    planned
}

/// Moves the ends of calls into the ring of chains. Ends of many calls become one tracepoint,
/// because each tracepoint of perf costs 40 ms at the end.
fn with_chains(planned: &mut Vec<PlannedTracepoint>, machine: &str) {
    let is_end = |end: &&mut PlannedTracepoint| {
        let is_plain = end.system == "syscalls" && end.filter.is_empty();
        end.ring == RingKind::Main && is_plain && end.name.starts_with("sys_exit_")
    };
    if planned.iter_mut().filter(is_end).count() > SINGLE_CALLS_MAX {
        let is_end = |it: &mut PlannedTracepoint| is_end(&it);
        let ends: Vec<PlannedTracepoint> = planned.extract_if(.., is_end).collect();
        let calls: Vec<CallId> = ends.iter().filter_map(PlannedTracepoint::call).collect();
        let [_, exits] = raw_pair(&calls, machine, false);
        let filter =
            number_filter("id", calls.iter().filter_map(|it| it.call().number(machine)).collect());
        planned.push(PlannedTracepoint { filter, ring: RingKind::Chains, ..exits });
    }
    let is_raw_end = |it: &PlannedTracepoint| it.system == "raw_syscalls" && it.name == "sys_exit";
    for end in planned.iter_mut().filter(|it| is_end(it) || is_raw_end(it)) {
        end.ring = RingKind::Chains;
    }
}

fn raw_pair(calls: &[CallId], machine: &str, accounting: bool) -> [PlannedTracepoint; 2] {
    let filter =
        number_filter("id", calls.iter().filter_map(|it| it.call().number(machine)).collect());
    let waits = if accounting { wait_exits_terms(machine) } else { Default::default() };
    let exits = [vec![filter.clone(), exec_exits_term(machine)], waits].concat().join("||");
    [("sys_enter", filter), ("sys_exit", exits)].map(|(name, filter)| PlannedTracepoint {
        system: "raw_syscalls".into(),
        name: name.into(),
        filter,
        ring: RingKind::Main,
        wakes: false,
        need: Need::Must,
    })
}

/// Returns the calls that start programs. Their ends are always recorded: they determine which
/// table of calls the new program uses (`operation::abi`).
fn execs() -> impl Iterator<Item = CallId> {
    CallId::all().filter(|it| it.call().is_exec())
}

/// Returns the filter term by which ends of execs pass the filter of all exits. Failed execs pass,
/// too: the kernel may have read the beginning of the file.
fn exec_exits_term(machine: &str) -> String {
    let numbers = execs().filter_map(|it| it.call().number(machine)).collect();
    format!("{EXEC_EXITS}({}))", number_filter("id", numbers))
}

/// Returns the exits of execs that are not wanted anyway, with tracefs and without privileges. (A
/// tracepoint of perf costs 40 ms at the end. If perf records few calls, `syscalls:*` reports
/// nothing about calls of other tables, so nothing is misread.)
fn exec_exits(wanted: &[CallId]) -> impl Iterator<Item = PlannedTracepoint> {
    execs().filter(|id| !wanted.contains(id)).filter_map(|id| {
        let [_, exit] = single(id, RingKind::Main, "ret<=0");
        exit.into()
    })
}

/// Beginning of the term by which ends of execs pass the filter of all exits.
const EXEC_EXITS: &str = "(ret<=0&&";

/// Returns the exits of waits that reaped a child.
fn wait_exits() -> impl Iterator<Item = PlannedTracepoint> {
    WAITS.iter().map(|wait| PlannedTracepoint {
        filter: wait.taken.into(),
        ..unfiltered("syscalls", &format!("sys_exit_{}", wait.name), RingKind::Main, Need::Wanted)
    })
}

/// Returns the filter terms by which ends of waits that reaped a child pass the filter of all
/// exits.
fn wait_exits_terms(machine: &str) -> Vec<String> {
    let term = |it: &WaitCall| Some(format!("({}&&id=={})", it.taken, it.number(machine)?));
    WAITS.iter().filter_map(term).collect()
}

/// Returns the filter of signals whose default action is a core dump (`SIG_KERNEL_COREDUMP_MASK` in
/// `include/linux/signal.h`), where a process has no handler.
fn core_signals() -> String {
    use libc::{
        SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ,
    };
    let signals =
        [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV, SIGBUS, SIGSYS, SIGXCPU, SIGXFSZ];
    let numbers = signals.map(i32::unsigned_abs).to_vec();
    format!("sa_handler==0&&({})", number_filter("sig", numbers))
}

/// True if the ends of all calls that start programs are recorded by their own numbers.
pub fn has_exec_exits<'a>(planned: impl Iterator<Item = &'a PlannedTracepoint> + Clone) -> bool {
    execs().all(|call| {
        let name = format!("sys_exit_{}", call.call().name);
        planned.clone().any(|it| it.name == name || it.filter.contains(EXEC_EXITS))
    })
}

/// Returns a filter on a field that these numbers pass. Every call of the machine pays for the
/// terms, so consecutive numbers share two.
fn number_filter(field: &str, mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let terms = runs.filter_map(|run| match run {
        [one] => Some(format!("{field}=={one}")),
        [first, .., last] => Some(format!("({field}>={first}&&{field}<={last})")),
        [] => None,
    });
    terms.collect::<Vec<_>>().join("||")
}

/// Returns the tracepoints of one call, entry and exit. An exit on the names ring wakes the ring's
/// reader. The reader reads the name before the program continues; the entry is already in the
/// ring.
fn single(call: CallId, ring: RingKind, filter: &str) -> [PlannedTracepoint; 2] {
    let one = |side: &str, wakes: bool| PlannedTracepoint {
        system: "syscalls".into(),
        name: format!("{side}_{}", call.call().name),
        filter: filter.into(),
        ring,
        wakes,
        need: Need::Wanted,
    };
    [one("sys_enter", false), one("sys_exit", ring == RingKind::Names)]
}

/// Returns the filter that events of these disks pass. A remapped bio also belongs to the disk that
/// it comes from. (`dev` is the kernel's own number, whose major part has 12 bits.)
fn device_filter(point: &str, devices: &[DevId]) -> String {
    let fields: &[&str] = if point.ends_with("_remap") { &["dev", "old_dev"] } else { &["dev"] };
    let of_device = |it: &DevId| fields.iter().map(|field| format!("{field}=={}", it.0)).collect();
    devices.iter().flat_map::<Vec<String>, _>(of_device).collect::<Vec<_>>().join("||")
}

/// Returns entry and exit of an open. Exits that made a descriptor go to the names ring. `own` is
/// the name of threads that both exclude.
fn by_result(call: CallId, own: Option<&str>) -> Vec<PlannedTracepoint> {
    let not_ours = own.map(|it| format!("COMM!=\"{it}\""));
    let filter = |term: &str| {
        let terms = [term, not_ours.as_deref().unwrap_or_default()];
        terms.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("&&")
    };
    let [enter, failed] = single(call, RingKind::Main, "");
    let [_, opened] = single(call, RingKind::Names, &filter("ret>=0"));
    vec![
        PlannedTracepoint { filter: filter(""), ..enter },
        PlannedTracepoint { filter: filter("ret<0"), ..failed },
        opened,
    ]
}

/// Returns a tracepoint without a filter. A filter by thread would be wrong: a completion carries
/// the name and pid of the interrupted thread, and kernel threads that work for a ring are not born
/// as threads of a program are.
fn unfiltered(system: &'static str, name: &str, ring: RingKind, need: Need) -> PlannedTracepoint {
    PlannedTracepoint {
        system: system.into(),
        name: name.into(),
        filter: String::new(),
        ring,
        wakes: false,
        need,
    }
}

#[cfg(test)]
mod tests;
