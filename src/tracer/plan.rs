//! Which tracepoints are opened, with which filter, into which ring.

use std::borrow::Cow;

use crate::event::block_shape::BLOCK_POINTS;
use crate::event::file_io::FILE_IO_POINTS;
use crate::event::fs::FS_POINTS;
use crate::event::layer::LAYER_POINTS;
use crate::event::probed::{NUMBER_FIELD, NUMBERED_PREFIX};
use crate::event::syscall_table::{Call, CallId, Class};
use crate::event::task::{WAITS, WaitCall};
use crate::event::uring::{URING_POINTS, UringPoint};
use crate::units::DevId;

/// Where hits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Perf events: every kernel, also in a container that may use perf.
    Perf,
    /// Instances of tracefs: cheaper for the traced program, nearly free for others.
    Tracefs,
    /// Perf events of the followed threads alone, which their children inherit: what needs no privilege. Dear, and system calls
    /// only.
    Inherited,
}

impl SourceKind {
    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Tracefs => "tracefs",
            Self::Inherited => "inherited",
        }
    }
}

/// Which of a CPU's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingOf {
    /// The large one: nearly everything.
    Main,
    /// A small one with the opens, whose reader is woken by each exit (tracefs: by each entry, too).
    Names,
    /// With tracefs in process mode: block requests and io_uring's operations, which may not be filtered by thread.
    Block,
    /// With tracefs: perf's births, names and ends of tasks.
    Tasks,
    /// Perf's, whatever the source: hits that tell through which functions their thread came there.
    Chains,
}

impl RingOf {
    /// All, by their number in the log's header and data frames.
    pub const ALL: [Self; 5] = [Self::Main, Self::Names, Self::Block, Self::Tasks, Self::Chains];

    /// Its number in the log's header and data frames.
    pub fn index(self) -> u32 {
        self as u32
    }

    /// Its name in the log's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Names => "names",
            Self::Block => "block",
            Self::Tasks => "tasks",
            Self::Chains => "chains",
        }
    }
}

/// What it means if a kernel lacks a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The recording is worth nothing without it.
    Must,
    /// It is left out, with a warning.
    Wanted,
    /// Kernels that lack it say the same in another way, or have nothing to say there.
    Optional,
}

/// One tracepoint to open on every CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// `raw_syscalls`, `syscalls`, `block`, `io_uring`, `task`, `sched`, or the group of our probes.
    pub system: Cow<'static, str>,
    /// The tracepoint.
    pub name: String,
    /// Kernel filter; empty = none.
    pub filter: String,
    /// Where its samples go.
    pub ring: RingOf,
    /// True if each hit wakes the ring's reader.
    pub wakes: bool,
    /// What it means if a kernel lacks it.
    pub need: Need,
}

impl UringPoint {
    /// Every kernel has the others under one name or another, or in one.
    fn need(self) -> Need {
        match self {
            Self::Create | Self::FileGet | Self::Complete => Need::Wanted,
            Self::Submit | Self::Worker | Self::Failed | Self::Overflow => Need::Optional,
        }
    }
}

impl Planned {
    /// True if the thread of its records says nothing about whom they concern.
    pub fn is_of_anybody(&self) -> bool {
        let mut layers = LAYER_POINTS.iter();
        if let Some(layer) = layers.find(|it| (it.system, it.name) == (&*self.system, &self.name)) {
            return layer.is_of_anybody();
        }
        // That is of the thread that is at work.
        let is_file_io =
            FILE_IO_POINTS.iter().any(|it| (it.0, it.1) == (&*self.system, &self.name));
        !is_file_io && matches!(&*self.system, "block" | "io_uring" | "ext4" | "iomap" | "xfs")
    }

    /// The system call, if it is the entry or exit of a single one.
    pub fn call(&self) -> Option<CallId> {
        let sides = ["sys_enter_", "sys_exit_"];
        let name = sides.iter().find_map(|it| self.name.strip_prefix(it))?;
        CallId::by_name(name).filter(|_| self.system == "syscalls")
    }
}

/// Up to so many system calls are opened one by one, more of them as the `raw_syscalls` pair with a filter.
///
/// Closing costs 43 ms for each tracepoint (two to a call) and 90 ms for the pair; a call that is not recorded pays 15
/// to 50 ns with single tracepoints and 200 to 250 ns with the pair.
pub const SINGLE_CALLS_MAX: usize = 4;

/// What to record.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// System calls.
    pub calls: &'a [CallId],
    /// `uname -m`.
    pub machine: &'a str,
    /// Name of our own threads, whose opens must not wake the names readers.
    pub own_name: &'a str,
    /// True if calls with names go to the names ring.
    pub names_ring: bool,
    /// True if the ends of opens go there that made a descriptor, and nothing else of them.
    pub links: bool,
    /// True if calls go there, too, of which nothing is known without what stands in memory.
    pub lists: bool,
    /// True if calls go there, too, that make two descriptors and tell their numbers in memory.
    pub pairs: bool,
    /// True if calls with memory that tells more go there, too.
    pub exact_args: bool,
    /// True if the paths of programs are wanted of calls that start them.
    pub programs: bool,
    /// True for what the audit of a launched program needs: programs, ends of waits, signals that may write core dumps.
    pub accounting: bool,
    /// True for block requests.
    pub block: bool,
    /// True for what file systems say about where files lie.
    pub extents: bool,
    /// Of which disks; empty: of all.
    pub devices: &'a [DevId],
    /// True for the operations of io_uring.
    pub uring: bool,
    /// If what is at work inside calls is wanted: true if probes see functions of file systems.
    pub layers: Option<bool>,
    /// What is recorded with the functions that led there.
    pub chains: Chained,
    /// The tracepoint of page faults, if they are wanted.
    pub faults: Option<(&'static str, &'static str)>,
    /// Where from.
    pub source: SourceKind,
    /// True if everybody is followed.
    pub system: bool,
    /// Our probes: system and name of each.
    pub probes: &'a [(String, String)],
}

/// What is recorded with the functions that led there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chained {
    /// Bios that are queued.
    pub bios: bool,
    /// Ends of system calls, but of those that go to the names ring.
    pub calls: bool,
}

/// The tracepoint where a bio is handed to the block layer.
const BIO_QUEUE: &str = "block_bio_queue";

/// The tracepoints for it.
pub fn plan(wanted: &Wanted<'_>) -> Vec<Planned> {
    if wanted.source == SourceKind::Inherited {
        return inherited(wanted);
    }
    let is_perf = wanted.source == SourceKind::Perf;
    let (named, plain): (Vec<CallId>, Vec<CallId>) =
        there(wanted).partition(|it| is_named(wanted, it.call()));
    let mut planned = vec![unfiltered("task", "task_newtask", RingOf::Main, Need::Wanted)];
    planned.extend(plain_calls(wanted, &plain));
    if wanted.chains.calls {
        with_chains(&mut planned, wanted.machine);
    }
    planned.extend(programs(wanted));
    // With tracefs a list of threads keeps us out, but for the whole system.
    let not_ours = format!("COMM!=\"{}\"", wanted.own_name);
    let filter = if is_perf || wanted.system { not_ours.as_str() } else { "" };
    planned.extend(named.iter().flat_map(|&it| single(it, RingOf::Names, filter)));
    let global = if is_perf || wanted.system { RingOf::Main } else { RingOf::Block };
    planned.extend(of_devices(wanted, global));
    if let Some((system, name)) = wanted.faults {
        planned.push(unfiltered(system, name, RingOf::Main, Need::Wanted));
    }
    planned.extend(beside_calls(wanted, global));
    planned.extend(probes(wanted));
    planned
}

/// The calls that the machine has.
fn there<'a>(wanted: &Wanted<'a>) -> impl Iterator<Item = CallId> + use<'a> {
    let (calls, machine) = (wanted.calls, wanted.machine);
    calls.iter().copied().filter(move |it| it.call().number(machine).is_some())
}

/// Without privileges. No other tracepoint is for all threads, and each costs every fork. Programs go out of sight by an exec, so its
/// end is to be seen.
fn inherited(wanted: &Wanted<'_>) -> Vec<Planned> {
    let is_named = |it: &CallId| {
        let call = it.call();
        wanted.links && call.class == Class::Open || wanted.pairs && call.makes_pair()
    };
    let ring = |it: &CallId| if is_named(it) { RingOf::Names } else { RingOf::Main };
    let calls = there(wanted).flat_map(|it| single(it, ring(&it), ""));
    calls.chain(exec_exits(wanted.calls)).collect()
}

/// True if the call goes to the names ring. Each of perf's tracepoints costs 40 ms at the end, so there only the opens have some of
/// their own, and what receives descriptors.
fn is_named(wanted: &Wanted<'_>, call: &Call) -> bool {
    let is_perf = wanted.source == SourceKind::Perf;
    let is_needed = call.class == Class::Open || call.receives_descriptors();
    let has_names = if is_perf || wanted.links { is_needed } else { call.has_names() };
    wanted.names_ring && has_names
        || wanted.links && call.receives_descriptors()
        || wanted.lists && call.is_list()
        || wanted.pairs && call.makes_pair()
        || wanted.exact_args && call.has_memory()
}

/// The calls of the main ring: each by itself, or with perf many as one pair.
fn plain_calls(wanted: &Wanted<'_>, plain: &[CallId]) -> Vec<Planned> {
    let is_perf = wanted.source == SourceKind::Perf;
    if is_perf && plain.len() > SINGLE_CALLS_MAX {
        return raw_pair(plain, wanted.machine, wanted.accounting).into();
    }
    let is_split = |it: &CallId| wanted.links && it.call().class == Class::Open;
    let (split, plain): (Vec<CallId>, Vec<CallId>) = plain.iter().partition(|it| is_split(it));
    let mut planned: Vec<Planned> =
        plain.iter().flat_map(|&it| single(it, RingOf::Main, "")).collect();
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

/// Which programs are started, and what ends them with a core dump.
fn programs(wanted: &Wanted<'_>) -> Vec<Planned> {
    let mut planned = Vec::new();
    let has_exec = wanted.calls.iter().any(|it| it.call().is_exec());
    if wanted.accounting || wanted.programs && has_exec {
        planned.push(unfiltered("sched", "sched_process_exec", RingOf::Main, Need::Wanted));
    }
    if wanted.accounting {
        let point = unfiltered("signal", "signal_deliver", RingOf::Main, Need::Optional);
        planned.push(Planned { filter: core_signals(), ..point });
    }
    planned
}

/// Our probes, in the ring of the calls: what they see lies between entry and exit of a thread's call.
fn probes<'a>(wanted: &'a Wanted<'_>) -> impl Iterator<Item = Planned> + 'a {
    wanted.probes.iter().map(|(system, name)| Planned {
        system: system.clone().into(),
        name: name.clone(),
        filter: probe_filter(name, wanted),
        ring: RingOf::Main,
        wakes: false,
        need: Need::Must,
    })
}

/// Programs make calls without a path, too, where a probe sees all of them: locks, hundreds of thousands of times in a second.
fn probe_filter(name: &str, wanted: &Wanted<'_>) -> String {
    if !name.starts_with(NUMBERED_PREFIX) {
        return String::new();
    }
    let calls = wanted.calls.iter().map(|it| it.call()).filter(|it| it.has_path());
    number_filter(NUMBER_FIELD, calls.filter_map(|it| it.number(wanted.machine)).collect())
}

/// What io_uring does, and what is at work inside calls. `global`: the ring of what is of anybody.
fn beside_calls(wanted: &Wanted<'_>, global: RingOf) -> Vec<Planned> {
    let mut planned = Vec::new();
    if wanted.uring {
        let rings = URING_POINTS.iter();
        planned.extend(rings.map(|it| unfiltered("io_uring", it.0, global, it.1.need())));
    }
    if wanted.uring || wanted.layers.is_some() {
        let inside = FILE_IO_POINTS.iter();
        planned.extend(inside.map(|it| unfiltered(it.0, it.1, RingOf::Main, Need::Optional)));
    }
    if let Some(has_probes) = wanted.layers {
        let points = LAYER_POINTS.iter().filter(|it| !(has_probes && it.is_stand_in()));
        planned.extend(points.map(|it| {
            let ring = if it.is_of_anybody() { global } else { RingOf::Main };
            unfiltered(it.system, it.name, ring, Need::Optional)
        }));
    }
    planned
}

/// What devices are asked, and where files lie.
fn of_devices(wanted: &Wanted<'_>, global: RingOf) -> Vec<Planned> {
    let mut planned = Vec::new();
    if wanted.block {
        let blocks = BLOCK_POINTS.iter();
        planned.extend(blocks.map(|it| Planned {
            filter: device_filter(it.0, wanted.devices),
            ring: if wanted.chains.bios && it.0 == BIO_QUEUE { RingOf::Chains } else { global },
            ..unfiltered("block", it.0, global, Need::Wanted)
        }));
    }
    if wanted.extents {
        // Where a file lies is said by whoever asks first, often one of the kernel's threads.
        let said = FS_POINTS.iter();
        planned.extend(said.map(|it| unfiltered(it.0, it.1, global, Need::Optional)));
    }
    planned
}

/// Moves the ends of calls into the ring of chains: those of many as one tracepoint, for each of perf's costs 40 ms at the end.
fn with_chains(planned: &mut Vec<Planned>, machine: &str) {
    let is_end = |it: &&mut Planned| {
        let is_plain = it.system == "syscalls" && it.filter.is_empty();
        it.ring == RingOf::Main && is_plain && it.name.starts_with("sys_exit_")
    };
    if planned.iter_mut().filter(is_end).count() > SINGLE_CALLS_MAX {
        let is_end = |it: &mut Planned| is_end(&it);
        let ends: Vec<Planned> = planned.extract_if(.., is_end).collect();
        let calls: Vec<CallId> = ends.iter().filter_map(Planned::call).collect();
        let [_, exits] = raw_pair(&calls, machine, false);
        let filter =
            number_filter("id", calls.iter().filter_map(|it| it.call().number(machine)).collect());
        planned.push(Planned { filter, ring: RingOf::Chains, ..exits });
    }
    let is_raw_end = |it: &Planned| it.system == "raw_syscalls" && it.name == "sys_exit";
    let ends = planned.iter_mut().filter(|it| is_end(it) || is_raw_end(it));
    ends.for_each(|it| it.ring = RingOf::Chains);
}

fn raw_pair(calls: &[CallId], machine: &str, accounting: bool) -> [Planned; 2] {
    let filter =
        number_filter("id", calls.iter().filter_map(|it| it.call().number(machine)).collect());
    let waits = if accounting { wait_exits_terms(machine) } else { Default::default() };
    let exits = [vec![filter.clone(), exec_exits_term(machine)], waits].concat().join("||");
    [("sys_enter", filter), ("sys_exit", exits)].map(|(name, filter)| Planned {
        system: "raw_syscalls".into(),
        name: name.into(),
        filter,
        ring: RingOf::Main,
        wakes: false,
        need: Need::Must,
    })
}

/// The calls that start programs. Their ends are recorded whatever is wanted: they tell which table of calls the new program
/// uses (`operation::abi`).
fn execs() -> impl Iterator<Item = CallId> {
    CallId::all().filter(|it| it.call().is_exec())
}

/// What lets them pass the filter of all exits; also those that failed: the kernel may have read the beginning
/// of the file.
fn exec_exits_term(machine: &str) -> String {
    let numbers = execs().filter_map(|it| it.call().number(machine)).collect();
    format!("{EXEC_EXITS}({}))", number_filter("id", numbers))
}

/// Those that are not wanted anyway, with tracefs and without privileges. (A tracepoint of perf costs 40 ms at the end; where it has few calls,
/// `syscalls:*` is silent about those of other tables, so nothing is misread.)
fn exec_exits(wanted: &[CallId]) -> impl Iterator<Item = Planned> {
    execs().filter(|it| !wanted.contains(it)).filter_map(|it| {
        let [_, exit] = single(it, RingOf::Main, "ret<=0");
        exit.into()
    })
}

/// How the term begins by which ends of execs pass the filter of all exits.
const EXEC_EXITS: &str = "(ret<=0&&";

/// The ends of waits that took a child.
fn wait_exits() -> impl Iterator<Item = Planned> {
    WAITS.iter().map(|it| Planned {
        filter: it.taken.into(),
        ..unfiltered("syscalls", &format!("sys_exit_{}", it.name), RingOf::Main, Need::Wanted)
    })
}

/// The same among all exits.
fn wait_exits_terms(machine: &str) -> Vec<String> {
    let term = |it: &WaitCall| Some(format!("({}&&id=={})", it.taken, it.number(machine)?));
    WAITS.iter().filter_map(term).collect()
}

/// Signals whose default action is a core dump (`SIG_KERNEL_COREDUMP_MASK` in `include/linux/signal.h`), where a process has no handler.
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
pub fn has_exec_exits<'a>(planned: impl Iterator<Item = &'a Planned> + Clone) -> bool {
    execs().all(|call| {
        let name = format!("sys_exit_{}", call.call().name);
        planned.clone().any(|it| it.name == name || it.filter.contains(EXEC_EXITS))
    })
}

/// A filter on a field that these numbers pass. Every call of the machine pays for its terms, so neighbours share two.
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

/// The tracepoints of one call, entry and exit. An exit on the names ring wakes its reader: the name is read then, before
/// the program goes on; the entry is there already.
fn single(call: CallId, ring: RingOf, filter: &str) -> [Planned; 2] {
    let one = |side: &str, wakes: bool| Planned {
        system: "syscalls".into(),
        name: format!("{side}_{}", call.call().name),
        filter: filter.into(),
        ring,
        wakes,
        need: Need::Wanted,
    };
    [one("sys_enter", false), one("sys_exit", ring == RingOf::Names)]
}

/// What lets the events of these disks pass; a remapped bio is of the disk that it comes from, too. (`dev` is the kernel's own
/// number, in which the major one has 12 bits.)
fn device_filter(point: &str, devices: &[DevId]) -> String {
    let fields: &[&str] = if point.ends_with("_remap") { &["dev", "old_dev"] } else { &["dev"] };
    let of_device = |it: &DevId| fields.iter().map(|field| format!("{field}=={}", it.0)).collect();
    devices.iter().flat_map::<Vec<String>, _>(of_device).collect::<Vec<_>>().join("||")
}

/// Entry and exit of an open, whose end is in the names ring if it made a descriptor. `own`: whose are left out in both.
fn by_result(call: CallId, own: Option<&str>) -> Vec<Planned> {
    let not_ours = own.map(|it| format!("COMM!=\"{it}\""));
    let filter = |term: &str| {
        let terms = [term, not_ours.as_deref().unwrap_or_default()];
        terms.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("&&")
    };
    let [enter, failed] = single(call, RingOf::Main, "");
    let [_, opened] = single(call, RingOf::Names, &filter("ret>=0"));
    vec![
        Planned { filter: filter(""), ..enter },
        Planned { filter: filter("ret<0"), ..failed },
        opened,
    ]
}

/// Never with a filter by thread: a completion carries the name and pid of whoever was interrupted, and the kernel's own threads, which
/// work for a ring, are not born as a program's are.
fn unfiltered(system: &'static str, name: &str, ring: RingOf, need: Need) -> Planned {
    Planned {
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
