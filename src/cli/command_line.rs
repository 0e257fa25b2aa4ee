//! The command line: verbs and their arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::advise::AdviseArgs;
use super::args::{
    DoctorArgs, GroupedArgs, InfoArgs, LatencyArgs, LiveArgs, RecordArgs, ScriptArgs, StacksArgs,
    WatchArgs,
};
use super::budget::BudgetArgs;
use super::clocks_args::ClocksArgs;
use super::convert_args::ConvertArgs;
use super::ctl_args::CtlArgs;
use super::diff_args::DiffArgs;
use super::files_args::FilesArgs;
use super::import_args::ImportArgs;
use super::merge_args::MergeArgs;
use super::page_args::PageArgs;
use super::replay::args::ReplayArgs;
use super::shell_args::{CompletionsArgs, ManArgs};
use super::top_args::TopArgs;
use super::what_if::WhatIfArgs;
use crate::tracer::{kernel_objects, programs, symbols, unwinding, uprobes};

/// Subcommand with which `doctor` makes a test recording.
pub(super) const SELF_TEST: &str = "self-test";
/// Subcommand that is the program of this recording.
pub(super) const SELF_TEST_WORK: &str = "self-test-work";

const EXAMPLES: &str = "\
Examples:
  iotrace-perf ./app                  ./app with all its threads and children
  iotrace-perf summary                what took the time in the newest recording
  iotrace-perf summary -- ./app       both at once; no file is kept
  iotrace-perf -a ./app               the whole machine while ./app runs
  iotrace-perf -p PID -o trace.otf2   a running process, until its end or Ctrl-C
  vampir trace.otf2                   the archive, operation by operation";

/// Records I/O with the kernel's tracepoints; writes a log and an OTF2 trace.
#[derive(Debug, Parser)]
#[command(name = "iotrace-perf", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
    #[command(flatten)]
    pub(super) record: RecordArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Record a program, processes or the machine: the default
    Record(RecordArgs),
    /// Make an OTF2 archive, a Perfetto trace or an anonymised log
    Convert(ConvertArgs),
    /// Print a capture log, one line per operation
    Script(ScriptArgs),
    /// Print operations while they happen, one line each
    Live(LiveArgs),
    /// Rates by process, file, device, call and cgroup, while they happen
    Top(TopArgs),
    /// Monitor accesses to files, and their I/O on devices; see ctl
    Watch(WatchArgs),
    /// Control a running recording: watch files, print their counters
    Ctl(CtlArgs),
    /// Findings; count, bytes and time by call, process, file and device
    Summary(GroupedArgs),
    /// A page with charts and tables for a browser, in one file
    Report(PageArgs),
    /// Differences between two recordings, or two commands
    Diff(DiffArgs),
    /// Findings with advice: wasted I/O, and data that a crash may lose
    Advise(AdviseArgs),
    /// Fail if a run opens, reads or writes more than a budget allows
    Check(BudgetArgs),
    /// Bytes of each disk by program and file, with later writeback
    Disk(GroupedArgs),
    /// Noisy neighbours: requests that a disk served while others waited
    #[command(alias = "neighbors")]
    Neighbours(GroupedArgs),
    /// Durations of operations by layer, with histograms
    Latency(LatencyArgs),
    /// Accesses of files and directories by process; repeated ones
    Files(FilesArgs),
    /// Reads from memory and from disks: the page cache, reading ahead
    Cache(GroupedArgs),
    /// Hit rates with other memory, queues of another device
    WhatIf(WhatIfArgs),
    /// The slowest operations, with the requests that they waited for
    Slow(GroupedArgs),
    /// Access patterns of files and devices: order, sizes, queue depth
    Pattern(GroupedArgs),
    /// Call chains of block requests or system calls; flame graphs
    Stacks(StacksArgs),
    /// Replay captured I/O
    Replay(ReplayArgs),
    /// Make an archive, a page or an index of a parallel job's recordings
    Merge(MergeArgs),
    /// Compare the clocks of a job's nodes by messages, for merge
    Clocks(ClocksArgs),
    /// Make a capture log from one of strace, ioriot, fio or blktrace
    Import(ImportArgs),
    /// Show a capture log's header, totals and accounting
    Info(InfoArgs),
    /// Check what this machine can record, and what would enable more
    Doctor(DoctorArgs),
    /// List the events that can be recorded, and the default set
    List,
    /// Print the completions of a shell: bash, zsh, fish, elvish
    Completions(CompletionsArgs),
    /// Print a page of the manual, or write all of them
    Man(ManArgs),
    /// Helper of a recording: finds functions in files of other users
    #[command(hide = true, name = symbols::VERB)]
    NameFunctions,
    /// Helper of a recording: unwinds stacks
    #[command(hide = true, name = unwinding::VERB)]
    UnwindStacks,
    /// Helper of a recording: finds probe sites
    #[command(hide = true, name = uprobes::VERB)]
    FindSites,
    /// Helper of a recording: reads headers of programs
    #[command(hide = true, name = programs::VERB)]
    ReadHeaders,
    /// Helper of a recording: removes its probes, and keeps its instances for a minute
    #[command(hide = true, name = kernel_objects::VERB)]
    ReleaseKernelObjects {
        /// Process number of the recording
        owner: u32,
    },
    /// Test recording of doctor
    #[command(hide = true, name = SELF_TEST)]
    SelfTest,
    /// Program of the test recording
    #[command(hide = true, name = SELF_TEST_WORK)]
    SelfTestWork {
        /// File of the recording, which does not exist yet
        file: PathBuf,
    },
}
