//! The command line of `iotrace-perf replay`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::super::args::AnalyseArgs;
use super::super::report_args::PrintArgs;
use super::super::values::{self, ContentArg, InitContentArg, SpeedArg};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ReplayArgs {
    #[command(subcommand)]
    pub(super) verb: ReplayVerb,
}

impl ReplayArgs {
    /// Returns the arguments that name a log, if the subcommand has some.
    pub(in crate::cli) fn log_argument(&mut self) -> Option<&mut AnalyseArgs> {
        match &mut self.verb {
            ReplayVerb::Plan(plan) => Some(&mut plan.analyse),
            ReplayVerb::Export(export) => Some(&mut export.analyse),
            _ => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ReplayVerb {
    /// Plan a replay: operations to replay, operations that cannot be replayed by reason, and
    /// initial files. With filters, the selected operations and their dependencies
    Plan(Box<PlanArgs>),
    /// Make the files that must exist before the first operation, in a directory of their own
    Init(InitArgs),
    /// Run the captured operations again, on these files, and compare
    Run(RunArgs),
    /// Compare a recording of a replay with the plan, operation by operation
    Compare(CompareArgs),
    /// Export captured I/O for fio
    Export(Box<ExportArgs>),
    /// Remove what `init` and `run` have made
    Purge(PurgeArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) analyse: AnalyseArgs,
    /// Write the plan to this file, which must not exist; without it only the report is made
    #[arg(short, long, value_name = "PLAN", help_heading = "Plan")]
    pub(super) output: Option<PathBuf>,
    /// Print the report, write no plan
    #[arg(long, help_heading = "Plan")]
    pub(super) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct InitArgs {
    /// The plan, from `replay plan LOG -o PLAN`
    pub(super) plan: PathBuf,
    /// The directory of the replay: a new one, an empty one, or one of an earlier replay, whose
    /// files are removed first
    #[arg(long, value_name = "DIR")]
    pub(super) root: PathBuf,
    /// Make the files of a captured directory in another one, for example on another disk: a new
    /// one, an empty one, or one of an earlier replay. May be repeated
    #[arg(long = "map", value_name = "CAPTURED=DIR")]
    pub(super) maps: Vec<OsString>,
    /// Content of the files: `sparse` (holes), `zero`, `random`, `random:SEED`, or
    /// `compress:PERCENT` with that percentage of zeros; or `original`: the content of the captured
    /// files that exist on this machine, shared with them (reflinks) or COPIED, for all files that
    /// the plan names
    #[arg(long, value_name = "CONTENT", default_value = "random", value_parser = values::parse_init_content)]
    pub(super) content: InitContentArg,
    /// Make the files for this user (name or number); `replay run` then runs as that user. For root
    /// only
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct RunArgs {
    /// The plan; for block requests the capture log
    pub(super) plan: PathBuf,
    /// The directory in which `replay init` has made the files
    #[arg(long, value_name = "DIR", required_unless_present_any = ["device", "in_place", "level"])]
    pub(super) root: Option<PathBuf>,
    /// Instead of --root: replay on the captured files themselves, in place. EACH FILE THAT THE
    /// CAPTURE WROTE, TRUNCATED, RENAMED OR REMOVED IS WRITTEN WITH MADE-UP BYTES, TRUNCATED,
    /// RENAMED OR REMOVED AGAIN: only where all of it may be lost (on a copy of the machine, a
    /// snapshot), and only with a plan of your own
    #[arg(long = "in-place-overwriting-originals", conflicts_with_all = ["root", "device", "from_device", "write", "discard", "trace", "rounds"])]
    pub(super) in_place: bool,
    #[command(flatten)]
    pub(super) block: BlockArgs,
    /// Speed relative to the capture: 1, 2, 0.5; or `max`: without pauses
    #[arg(long, value_name = "SPEED", default_value = "1", value_parser = values::parse_speed)]
    pub(super) speed: SpeedArg,
    /// Start times of operations
    #[arg(long, value_enum, value_name = "PACING", default_value = "open")]
    pub(super) pacing: PacingArg,
    /// Ordering constraints to enforce
    #[arg(long, value_enum, value_name = "ORDER", default_value = "deps")]
    pub(super) order: OrderArg,
    /// Method for asynchronous operations, as many at once as in the capture
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value = "calls",
        conflicts_with = "device"
    )]
    pub(super) engine: EngineArg,
    /// Bytes to write: `sparse` or `zero`, `random`, `random:SEED`, `compress:PERCENT`, as with
    /// `replay init`
    #[arg(long, value_name = "CONTENT", default_value = "random", value_parser = values::parse_content)]
    pub(super) content: ContentArg,
    /// Record the replay itself, and compare the recording with the plan: NAME.otf2, or a directory
    /// with a slash at its end
    #[arg(long, value_name = "FILE", requires = "root")]
    pub(super) trace: Option<OsString>,
    /// Repeat the replay N times, with new files each time, and report on each round
    #[arg(long = "loop", value_name = "N", value_parser = values::parse_rounds, requires = "root", conflicts_with = "trace")]
    pub(super) rounds: Option<NonZeroU32>,
    /// Run operations that had ended by then, counted from the first one (10s, 5ms), in advance, at
    /// full speed and without times
    #[arg(long, value_name = "TIME", value_parser = values::parse_duration, conflicts_with_all = ["device", "trace"])]
    pub(super) from: Option<Duration>,
    /// Skip operations that end later than this, counted from the first one (10s, 5ms)
    #[arg(long, value_name = "TIME", value_parser = values::parse_duration, conflicts_with_all = ["device", "trace"])]
    pub(super) until: Option<Duration>,
    /// Before the first call write all dirty data of this machine, and drop its caches of files:
    /// ALL PROGRAMS read from disks again
    #[arg(long, conflicts_with = "device")]
    pub(super) drop_caches: bool,
    /// The exit status is 1 if more operations than this have another result than in the capture
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::parse_number)]
    pub(super) max_mismatch: u64,
    /// All tables and notes instead of a summary that fits a screen: `replay run PLAN --root DIR
    /// --details`. -n N, --json and --csv have the same effect
    #[arg(long, help_heading = "Output")]
    pub(super) details: bool,
    #[command(flatten)]
    pub(super) print: PrintArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct CompareArgs {
    /// The plan
    pub(super) plan: PathBuf,
    /// The capture log of a recording of `replay run PLAN --root DIR`
    pub(super) log: PathBuf,
    /// The directory of that replay
    #[arg(long, value_name = "DIR")]
    pub(super) root: PathBuf,
    /// All tables and notes instead of a summary that fits a screen: `replay compare PLAN LOG
    /// --root DIR --details`. -n N, --json and --csv have the same effect
    #[arg(long, help_heading = "Output")]
    pub(super) details: bool,
    #[command(flatten)]
    pub(super) print: PrintArgs,
}

/// Options of a replay of block requests.
#[derive(Debug, ClapArgs)]
pub(super) struct BlockArgs {
    /// Level of the replay
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        default_value = "call",
        requires_if("block", "device")
    )]
    pub(super) level: LevelArg,
    /// Block device for block requests; it must not be in use. Only reads are issued unless --write
    /// or --discard is given
    #[arg(long, value_name = "DEVICE", conflicts_with = "root")]
    pub(super) device: Option<PathBuf>,
    /// The captured device, if the log has several: its name or MAJOR:MINOR
    #[arg(long, value_name = "DEVICE", requires = "device")]
    pub(super) from_device: Option<String>,
    /// Write to the device, too: ITS DATA IS LOST
    #[arg(long, requires = "device")]
    pub(super) write: bool,
    /// Discard parts of the device, too, as captured
    #[arg(long, requires = "write")]
    pub(super) discard: bool,
}

/// Level of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LevelArg {
    /// System calls, in a directory
    Call,
    /// Block requests, on a device
    Block,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) analyse: AnalyseArgs,
    /// Make this directory, which must not exist, with a log for each thread and the jobs with
    /// which fio replays them
    #[arg(long, value_name = "DIR", help_heading = "Export")]
    pub(super) fio: PathBuf,
    /// Give numbers to files whose paths fio cannot read: longer than 250 bytes, with spaces or
    /// other special characters
    #[arg(long, help_heading = "Export")]
    pub(super) flatten_names: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct PurgeArgs {
    /// The directory of the replay
    #[arg(long, value_name = "DIR")]
    pub(super) root: PathBuf,
}

/// Start times of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PacingArg {
    /// At their times in the capture, even if earlier operations take longer
    Open,
    /// After the thread's previous operation has ended, with the captured pause
    Closed,
    /// Immediately, without pauses
    Max,
}

/// Ordering constraints of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OrderArg {
    /// Each operation begins after the captured previous one has ended
    Total,
    /// Each operation waits for its dependencies, as far as the capture separated them
    Deps,
    /// Threads begin at the captured point of their parents, and do not wait for each other
    Thread,
    /// All threads begin at once
    None,
}

/// Method for asynchronous operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineArg {
    /// A thread for each concurrent operation, which makes a call
    Calls,
    /// One thread with an io_uring for each captured thread: operations begin as close to each
    /// other as they were submitted
    #[value(name = "io_uring")]
    IoUring,
}
