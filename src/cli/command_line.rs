//! The command line: verbs and their arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::args::{
    AnalyseArgs, ConvertArgs, CtlArgs, DoctorArgs, ImportArgs, InfoArgs, LatencyArgs, LiveArgs,
    RecordArgs, ScriptArgs, StacksArgs, WatchArgs,
};
use super::replay::args::ReplayArgs;
use crate::tracer::{programs, symbols, unwinding, uprobes};

/// Verb with which `doctor` tries a recording.
pub(super) const SELF_TEST: &str = "self-test";
/// Verb of the program that this recording traces.
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
    /// Record (this is what happens without a verb)
    Record(RecordArgs),
    /// Make an OTF2 archive from a capture log
    Convert(ConvertArgs),
    /// Print a capture log, one line per operation
    Script(ScriptArgs),
    /// Print operations while they happen, one line each
    Live(LiveArgs),
    /// Print who reads and writes these files, and what of it comes to their devices, while it happens; see also ctl
    Watch(WatchArgs),
    /// Control a recording that runs: which files are watched, and what was seen of them
    Ctl(CtlArgs),
    /// Which calls, processes, files and devices: how often, how much, how long; and what matters most
    Summary(AnalyseArgs),
    /// How long operations take, by layer, with histograms
    Latency(LatencyArgs),
    /// Which files and directories: opened, read, written, read or written again, written and then removed, and by whom
    Files(AnalyseArgs),
    /// In which order, how large, how many at once: accesses of files by processes, and of devices
    Pattern(AnalyseArgs),
    /// Through which functions block requests, or system calls, came about: bytes, number, time of each stack; flame graphs
    Stacks(StacksArgs),
    /// What was captured, once more: what that takes
    Replay(ReplayArgs),
    /// Make a capture log of a log of strace, ioriot, fio or blktrace, for all other verbs
    Import(ImportArgs),
    /// What a capture log holds: header, totals, books
    Info(InfoArgs),
    /// What this machine allows, and what would allow more
    Doctor(DoctorArgs),
    /// The events that can be recorded, and which are by default
    List,
    /// How a recording calls itself to read files that others have made: a question stands at standard input
    #[command(hide = true, name = symbols::VERB)]
    NameFunctions,
    /// The same, to go back through the stacks of programs
    #[command(hide = true, name = unwinding::VERB)]
    UnwindStacks,
    /// The same, to find where the code of programs hands paths to the kernel
    #[command(hide = true, name = uprobes::VERB)]
    FindSites,
    /// The same, to find what the kernel reads of programs to start them
    #[command(hide = true, name = programs::VERB)]
    ReadHeaders,
    /// What doctor tries last
    #[command(hide = true, name = SELF_TEST)]
    SelfTest,
    /// The program that it records
    #[command(hide = true, name = SELF_TEST_WORK)]
    SelfTestWork {
        /// Its file, which is not there yet
        file: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if two options of a verb have the same name.
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
        ] {
            let words = std::iter::once("iotrace-perf").chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_ok(), "{line}");
        }
        for line in ["-a -p 1", "-p 1 -- ./app"] {
            let words = std::iter::once("iotrace-perf").chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }
}
