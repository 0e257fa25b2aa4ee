//! The command line: verbs and their arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::args::{
    AnalyseArgs, ConvertArgs, CtlArgs, DoctorArgs, ImportArgs, InfoArgs, LatencyArgs, LiveArgs,
    RecordArgs, ScriptArgs, StacksArgs, WatchArgs,
};
use super::replay::args::ReplayArgs;
use crate::tracer::{kernel_objects, programs, symbols, unwinding, uprobes};

/// Subcommand with which `doctor` makes a test recording.
pub(super) const SELF_TEST: &str = "self-test";
/// Subcommand that is the program of this recording.
pub(super) const SELF_TEST_WORK: &str = "self-test-work";

const EXAMPLES: &str = "\
Examples:
  iotrace-perf -- ./app                  ./app with all its threads and children
  iotrace-perf -a -- ./app               the whole machine while ./app runs
  iotrace-perf -p PID -o trace.otf2      a running process, until it exits or Ctrl-C
  iotrace-perf script iotrace_*/traces.iocap | less
  vampir trace.otf2";

/// Records I/O with the kernel's tracepoints; writes a capture log and an OTF2 trace.
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
    /// Record (the default without a subcommand)
    Record(RecordArgs),
    /// Make an OTF2 archive from a capture log
    Convert(ConvertArgs),
    /// Print a capture log, one line per operation
    Script(ScriptArgs),
    /// Print operations while they happen, one line each
    Live(LiveArgs),
    /// Monitor accesses to files, and the device I/O that they cause, live; see also ctl
    Watch(WatchArgs),
    /// Control a running recording: watch files, print their counters
    Ctl(CtlArgs),
    /// Report count, bytes and time of calls, processes, files and devices, with findings
    Summary(AnalyseArgs),
    /// Report durations of operations by layer, with histograms
    Latency(LatencyArgs),
    /// Report accesses of files and directories: opened, read, written, repeated, written and then
    /// removed, by process
    Files(AnalyseArgs),
    /// Report access patterns of files and devices: order, sizes, queue depth
    Pattern(AnalyseArgs),
    /// Report call chains of block requests or system calls by bytes, count or time; flame graphs
    Stacks(StacksArgs),
    /// Replay captured I/O
    Replay(ReplayArgs),
    /// Convert a log of strace, ioriot, fio or blktrace into a capture log
    Import(ImportArgs),
    /// Show a capture log's header, totals and accounting
    Info(InfoArgs),
    /// Check what can be recorded on this machine, and what would enable more
    Doctor(DoctorArgs),
    /// List the events that can be recorded, and the default set
    List,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if two options of a subcommand have the same name.
    #[test]
    fn the_options_of_all_verbs_go_together() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn the_promised_lines_parse() {
        for line in [
            "-a -- ./app -x",
            "-- ./app",
            "-p 12,13 -o trace.otf2",
            "convert a.iocap",
            "record -- ./app",
            "--tracer-cpus 0-1 -a",
            // The former name.
            "--own-cpus 0-1 -a",
        ] {
            let words = std::iter::once("iotrace-perf").chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_ok(), "{line}");
        }
        for line in ["-a -p 1", "-p 1 -- ./app", "--tracer-cpus 0 --own-cpus 1 -a"] {
            let words = std::iter::once("iotrace-perf").chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }
}
