//! Arguments of the subcommands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs, ValueEnum};

use super::flight_args::FlightArgs;
use super::report_args::{ByArg, FilterArgs, PrintArgs};
use super::target_args::{RecordTargetArgs, TargetArgs};
use super::values::{
    Cpus, WATCHED_MAX, parse_cpus, parse_id, parse_kept, parse_limit, parse_log_size, parse_pid,
    parse_priority, parse_ring_size, parse_unwind,
};
use crate::sys::perf::Unwind;
use crate::sys::socket;
use crate::tracer::options::TargetGroup;
use crate::tracer::segments::SegmentRequests;

#[derive(Debug, ClapArgs)]
pub(super) struct RecordArgs {
    #[command(flatten)]
    pub(super) capture: CaptureArgs,
    /// Record the processes that are in this control group or below it, and their children: a path,
    /// a unit (postgresql.service), a container's name or the beginning of its identifier
    #[arg(short = 'G', long, alias = "container", value_name = "CGROUP", conflicts_with_all = ["all_cpus", "pid", "pgid", "command"])]
    pub(super) cgroup: Vec<String>,
    /// Files to write: DIR for DIR/traces.iocap (the log) and DIR/traces.otf2, NAME.otf2 for both
    /// with that name, NAME.iocap for the log alone. Made from the log: NAME.html (as by `report`),
    /// NAME.pftrace (for Perfetto). Can be given several times. Filled in are {DATE} {HOSTNAME}
    /// {PID} {RANK} {ENV=VAR} [default: iotrace_{DATE}, which `iotrace_latest` leads to]
    #[arg(short, long, value_name = "DIR|NAME.otf2|NAME.iocap|…")]
    pub(super) output: Vec<OsString>,
    /// Rename an output that exists to NAME.old, then to NAME.old.2, …: nothing is deleted
    #[arg(long)]
    pub(super) force: bool,
    /// Write only the capture log; `convert` makes the archive later, anywhere
    #[arg(long)]
    pub(super) no_archive: bool,
    /// Files can be watched meanwhile (`iotrace-perf ctl`), through this socket [default socket:
    /// /run/iotrace-perf/control]
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = socket::DEFAULT)]
    pub(super) control: Option<PathBuf>,
    #[command(flatten)]
    pub(super) flight: FlightArgs,
    #[command(flatten)]
    pub(super) messages: MessageArgs,
    #[command(flatten)]
    pub(super) target: RecordTargetArgs,
    /// Accepted as in other tracers: threads and children are recorded anyway, but for --no-follow.
    #[arg(short = 'f', hide = true, action = ArgAction::Count)]
    pub(super) follow: u8,
}

/// Messages of a recording.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub(super) struct MessageArgs {
    /// Print all counts of a recording at its end, as `info` does
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
}

/// Heading of the options of a recording, in subcommands that have others as well.
pub(super) const RECORDING: &str = "Recording (all options: iotrace-perf record --help)";

/// Scope and method of a recording.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(super) struct CaptureArgs {
    /// Record the whole machine, not only one process tree
    #[arg(short = 'a', long)]
    pub(super) all_cpus: bool,
    /// Record these running processes, all their threads and children
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = parse_pid, conflicts_with_all = ["all_cpus", "command"])]
    pub(super) pid: Vec<i32>,
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Events to record: system calls, `block` for block requests, %GROUPs of calls, and `!` to
    /// exclude: `-e %data,%sync,!splice`; `iotrace-perf list` has them all [default: %default]
    #[arg(short = 'e', long, value_name = "EVENT,…", value_delimiter = ',')]
    pub(super) events: Vec<String>,
    /// Record the block requests of these disks only: names (sda, /dev/nvme0n1) or numbers (8:0)
    #[arg(short, long, value_name = "DISK,…", value_delimiter = ',')]
    pub(super) device: Vec<String>,
    /// Source of file names
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    pub(super) names: NamesArg,
    /// Source of the arguments of calls
    #[arg(long, value_name = "HOW", default_value = "registers")]
    pub(super) args: ArgsArg,
    /// Source of events
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    pub(super) source: SourceArg,
    /// Size of each CPU's ring (K, M, G) [default: 8M, all together at most 512M]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = parse_ring_size)]
    pub(super) buffer_size: Option<usize>,
    /// Run the tracer's threads with real-time priority (`SCHED_FIFO`, 1 to 38), so that they keep
    /// up with programs that use all CPUs
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "1", value_parser = parse_priority)]
    pub(super) realtime: Option<u8>,
    /// Run the tracer's threads on these CPUs only (such as 0-3,8); names are still read on the CPU
    /// of the open
    #[arg(long, alias = "own-cpus", value_name = "CPUS", value_parser = parse_cpus)]
    pub(super) tracer_cpus: Option<Cpus>,
    /// Start the program as this user (name or number), with the user's groups, or with this group
    /// first; the environment does not change
    #[arg(long, value_name = "USER[:GROUP]", requires = "command")]
    pub(super) as_user: Option<String>,
    /// Stop after this time (10s, 500ms, 2m)
    #[arg(short = 'D', long, value_name = "TIME", value_parser = parse_limit)]
    pub(super) duration: Option<Duration>,
    /// Stop when the log has this size (500M, 10G); records of some tenths of a second more follow
    #[arg(long, value_name = "SIZE", value_parser = parse_log_size)]
    pub(super) max_log: Option<u64>,
    /// Show the block requests of all processes and of the kernel's writeback, not only of the
    /// recorded processes
    #[arg(long)]
    pub(super) all_block: bool,
    /// Record the call chain of each bio that is queued: functions of the `kernel`, of the program
    /// (`user`); `calls`: also at the ends of system calls, of the program only
    #[arg(long, value_name = "WHOSE,…", value_delimiter = ',')]
    pub(super) stacks: Vec<StacksArg>,
    /// Method to unwind programs: `fp`, by frame pointers, or `dwarf[,BYTES]`, by their unwind
    /// tables, from a copy of this much of the stack (8192; the copy goes into the log with all
    /// data in it)
    #[arg(long, value_name = "HOW", default_value = "fp", value_parser = parse_unwind)]
    pub(super) call_graph: Unwind,
    /// Keep the records of other processes in the log
    #[arg(long)]
    pub(super) keep_foreign: bool,
    /// True to keep nothing in the kernel for the next recording; no argument sets it.
    #[arg(skip)]
    pub(super) leaves_nothing: bool,
    /// True if no message says that the recording has begun; no argument sets it.
    #[arg(skip)]
    pub(super) is_silent: bool,
    /// Control groups or process groups that the processes were in; no argument of its own sets it.
    #[arg(skip)]
    pub(super) of_group: Option<TargetGroup>,
    /// Requests to begin a segment of the log; no argument of its own sets it.
    #[arg(skip)]
    pub(super) segments: Option<SegmentRequests>,
    /// Threads of the processes that are shown; no argument of its own sets it.
    #[arg(skip)]
    pub(super) threads: Vec<i32>,
    /// Processes that `-a` leaves out; no argument of its own sets it.
    #[arg(skip)]
    pub(super) excluded: Vec<i32>,
    /// The program to run and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

impl CaptureArgs {
    /// True if the arguments say what is recorded.
    pub(super) fn has_target(&self) -> bool {
        let has_pids = !self.pid.is_empty() || !self.target.pgid.is_empty();
        self.all_cpus || has_pids || !self.command.is_empty()
    }

    /// True if the arguments say what is recorded, or how: a report without them is about a log.
    pub(super) fn is_wanted(&self) -> bool {
        let places = self.realtime.is_some() || self.tracer_cpus.is_some();
        let ends = self.max_log.is_some() || self.target.max_operations.is_some();
        let sizes = self.buffer_size.is_some() || ends || self.duration.is_some();
        let kinds = self.keep_foreign || self.all_block || !self.stacks.is_empty();
        let sources = self.source != SourceArg::Auto || self.names != NamesArg::Auto;
        let methods = self.args != ArgsArg::Registers || self.call_graph != Unwind::FramePointers;
        self.has_target() || places || sizes || kinds || sources || methods
    }
}

/// Input of a report: a log, or a recording that is made for it.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct AnalyseArgs {
    /// The recording: its directory, log or archive [default: the newest one here]; or one is made
    /// for the report (-a, -p, -- COMMAND), and not kept. Of a log, -p, -d and -e select a part
    #[arg(conflicts_with_all = ["all_cpus", "command", "duration", "max_log", "pgid", "no_follow", "max_operations", "keep_foreign", "all_block", "stacks", "buffer_size", "realtime", "tracer_cpus"])]
    pub(super) log: Option<PathBuf>,
    /// Log as messages and commands name it, if it is opened by another path.
    #[arg(skip)]
    pub(super) shown: Option<PathBuf>,
    /// Show each file of /proc, /sys and other pseudo file systems in tables of files; by default
    /// they share a row for each file system, except in data
    #[arg(long, help_heading = "Output")]
    pub(super) all_files: bool,
    #[command(flatten)]
    pub(super) print: PrintArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    #[command(flatten, next_help_heading = RECORDING)]
    pub(super) capture: CaptureArgs,
}

/// Arguments of a report whose operations can be grouped.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct GroupedArgs {
    #[command(flatten)]
    pub(super) analyse: AnalyseArgs,
    /// Group operations by this property: rows of processes share it, other reports have one more
    /// table [default for rows of processes: program; in data for programs process]
    #[arg(long, value_name = "WHAT", help_heading = "Output")]
    pub(super) by: Option<ByArg>,
}

/// Arguments of `latency`.
#[derive(Debug, ClapArgs)]
pub(super) struct LatencyArgs {
    #[command(flatten)]
    pub(super) grouped: GroupedArgs,
    /// Layer to report
    #[arg(
        short = 'T',
        long = "type",
        value_name = "LAYER",
        default_value = "all",
        help_heading = "Layers"
    )]
    pub(super) layer: LayerArg,
    /// Also report the time of block requests before the driver gets them
    #[arg(short = 'Q', long, help_heading = "Layers")]
    pub(super) queued: bool,
    /// Histograms in milliseconds instead of nanoseconds
    #[arg(long, help_heading = "Layers")]
    pub(super) ms: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LayerArg {
    /// System calls and asynchronous operations
    Syscall,
    /// The VFS, the page cache, throttled writers
    Vfs,
    /// File systems and their journals
    Fs,
    /// Block requests
    Blk,
    /// All of these
    All,
}

/// Arguments of `stacks`.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct StacksArgs {
    #[command(flatten)]
    pub(super) analyse: AnalyseArgs,
    /// The kernel's functions [default, unless -U or --calls is given]
    #[arg(short = 'K', long, help_heading = "Stacks")]
    pub(super) kernel_stack: bool,
    /// The program's functions (see --call-graph)
    #[arg(short = 'U', long, help_heading = "Stacks")]
    pub(super) user_stack: bool,
    /// Separate processes of the same name
    #[arg(short = 'P', long, help_heading = "Stacks")]
    pub(super) per_process: bool,
    /// Stacks of system calls instead of those of block requests
    #[arg(long, help_heading = "Stacks")]
    pub(super) calls: bool,
    /// Weight of a stack
    #[arg(long, value_enum, default_value_t = WeightArg::Bytes, value_name = "WHAT", help_heading = "Stacks")]
    pub(super) by: WeightArg,
    /// Folded lines as flamegraph.pl and inferno read them: DEVICE;THREAD;FUNCTION;… WEIGHT
    #[arg(short, long, conflicts_with_all = ["json", "csv", "tsv", "rows"], help_heading = "Output")]
    pub(super) folded: bool,
    /// Draw a flame graph into this file, which must not exist
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) svg: Option<PathBuf>,
    /// Draw the flame graph from the innermost function on
    #[arg(long, requires = "svg", help_heading = "Output")]
    pub(super) reversed: bool,
}

/// Weight of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WeightArg {
    /// Bytes of the bios or calls
    Bytes,
    /// Number of bios or calls
    Count,
    /// Duration of operations
    Time,
}

/// Call chains that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StacksArg {
    /// The kernel's functions
    Kernel,
    /// The program's functions
    User,
    /// Also at the ends of system calls
    Calls,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum SourceArg {
    /// The cheaper one that this machine allows
    #[default]
    Auto,
    /// Perf events
    Perf,
    /// Instances of tracefs: half the cost, and next to none for other processes
    Tracefs,
    /// Perf events of the followed threads alone, which children inherit: they need no privilege
    Inherited,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ArgsArg {
    /// From the registers
    #[default]
    Registers,
    /// Also from memory: lengths of vectors, positions, the flags of openat2, the descriptors of a
    /// pipe; each such call costs as much as an open
    Exact,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum NamesArg {
    /// The best that this machine allows
    #[default]
    Auto,
    /// The kernel's own copy of each path, by probes inside the kernel (with --source tracefs)
    Kprobe,
    /// Each path as the program passes it, by probes in libraries (with --source tracefs, from
    /// Linux 6.12 on, x86-64); 2 to 11 µs for each call, of any program, while it is recorded
    Uprobe,
    /// Both uprobe and fanotify: paths from probes in libraries, opened files from fanotify; no
    /// thread of the tracer is woken by an open
    #[value(name = "uprobe+fanotify")]
    UprobeFanotify,
    /// Read at each open by real-time threads (20 µs per open in a virtual machine, 3 to 5 µs on
    /// hardware)
    Reader,
    /// Of opened files, from fanotify: needs no real-time priority; no paths of failed opens and
    /// other calls. Every open on the machine takes 2 µs longer meanwhile
    Fanotify,
    /// The beginning of each path as the entry of the call shows it (from Linux 6.19 on): at most
    /// 165 bytes, with perf 63
    Event,
    /// Of opened files, from the links of new descriptors in /proc soon after the open: needs no
    /// real-time priority; no paths of files that are closed at once, of failed opens and other
    /// calls
    Links,
    /// Only of files that were open before the recording
    Snapshot,
    /// No names
    Off,
    /// A source that lets no call wait; no word of the command line.
    #[value(skip)]
    Cheap,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ScriptArgs {
    /// The recording: its directory, log or archive [default: the newest one here]
    #[arg(default_value = ".", hide_default_value = true)]
    pub(super) log: PathBuf,
    #[command(flatten)]
    pub(super) shape: ShapeArgs,
    /// Only operations of these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = parse_id, help_heading = "Filter")]
    pub(super) pid: Vec<i32>,
    /// Only these events: system calls, %GROUPs of them, `block`
    #[arg(
        short = 'e',
        long,
        value_name = "EVENT,…",
        value_delimiter = ',',
        help_heading = "Filter"
    )]
    pub(super) events: Vec<String>,
    /// Only block requests of these disks, by name or number
    #[arg(short, long, value_name = "DISK,…", value_delimiter = ',', help_heading = "Filter")]
    pub(super) device: Vec<String>,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
}

/// Arguments of `live`.
#[derive(Debug, ClapArgs)]
pub(super) struct LiveArgs {
    #[command(flatten)]
    pub(super) capture: CaptureArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    #[command(flatten)]
    pub(super) shape: ShapeArgs,
    /// Write to this file, which must not exist [default: standard output; with a traced program
    /// standard error]
    #[arg(long = "to", value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
    /// Accepted as in other tracers: threads and children are always printed, too.
    #[arg(short = 'f', hide = true, action = ArgAction::Count)]
    pub(super) follow: u8,
}

/// Arguments of `watch`.
#[derive(Debug, ClapArgs)]
pub(super) struct WatchArgs {
    /// Regular files; more are added with `iotrace-perf ctl add FILE`
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Keep the first N accesses of each file for `iotrace-perf ctl log FILE`; the others are only
    /// printed and counted
    #[arg(short = 'n', long, value_name = "N", default_value_t = WATCHED_MAX, value_parser = parse_kept)]
    pub(super) max_events: usize,
    /// Socket for `iotrace-perf ctl`
    #[arg(long, value_name = "SOCKET", default_value = socket::DEFAULT)]
    pub(super) control: PathBuf,
    #[command(flatten)]
    pub(super) capture: CaptureArgs,
    /// Write to this file, which must not exist [default: standard output; with a traced program
    /// standard error]
    #[arg(long = "to", value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
}

/// Format of operations.
#[derive(Debug, ClapArgs)]
pub(super) struct ShapeArgs {
    /// Format of the output
    #[arg(long, value_enum, default_value_t = ScriptFormat::Text, value_name = "FORM")]
    pub(super) format: ScriptFormat,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    /// Only these fields of each, with --format csv, tsv and json (docs/json.md); with csv and tsv
    /// all by default
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub(super) fields: Vec<String>,
}

/// Formats of `script`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ScriptFormat {
    /// Lines for people
    Text,
    /// JSON Lines: one object per operation (docs/json.md)
    Json,
    /// Comma-separated values, the names of the fields first
    Csv,
    /// Values separated by tabs, the names of the fields first
    Tsv,
    /// Accesses of files and disks as b-com's I/O tracer writes them:
    /// TIME;R|W;ADDRESS;BYTES;VFS|BLK;COMM;PID
    Iotracer,
    /// System calls as I/O Riot (ioreplay) captures them, version 3
    Ioreplay,
}

#[derive(Debug, ClapArgs)]
pub(super) struct InfoArgs {
    /// The recording: its directory, log or archive [default: the newest one here]
    #[arg(default_value = ".", hide_default_value = true)]
    pub(super) log: PathBuf,
    /// One JSON object (docs/json.md)
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DoctorArgs {
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Cache the tracefs formats of this kernel for all users, once, as root: then users can record
    /// programs of their own
    #[arg(long)]
    pub(super) cache: bool,
}
