//! The command line of `iotrace-perf replay`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::super::args::{AnalyseArgs, PrintArgs};
use super::super::values::{self, ContentArg, InitContentArg, SpeedArg};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ReplayArgs {
    #[command(subcommand)]
    pub(super) verb: ReplayVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum ReplayVerb {
    /// Plan a replay: operations to replay, operations that cannot be replayed by reason, and
    /// initial files. With filters, the selected operations and their dependencies
    Plan(Box<PlanArgs>),
    /// Make the files that have to be there before the first operation, in a directory of their own
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
    /// Write the plan to this file, which must not be there; without it only the report is made
    #[arg(short, long, value_name = "PLAN")]
    pub(super) output: Option<PathBuf>,
    /// Print the report, write no plan
    #[arg(long)]
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
    /// Make what the capture had below a directory in another one, on another disk perhaps: a new
    /// one, an empty one, or one of an earlier replay. Several times for several
    #[arg(long = "map", value_name = "CAPTURED=DIR")]
    pub(super) maps: Vec<OsString>,
    /// Content of the files: `sparse` (holes), `zero`, `random`, `random:SEED`, or
    /// `compress:PERCENT` of which so much is zeros; or `original`: what the captured files contain
    /// that are on this machine, shared with them (reflinks) or COPIED, whatever files the plan
    /// names
    #[arg(long, value_name = "CONTENT", default_value = "random", value_parser = values::parse_init_content)]
    pub(super) content: InitContentArg,
    /// Make the files for this user (name or number); `replay run` then runs as that user. For root
    /// only
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct RunArgs {
    /// The plan; of block requests the capture log
    pub(super) plan: PathBuf,
    /// The directory in which `replay init` has made its files
    #[arg(long, value_name = "DIR", required_unless_present_any = ["device", "in_place", "level"])]
    pub(super) root: Option<PathBuf>,
    /// Instead of --root: on the captured files themselves, where they are. WHAT THE CAPTURE WROTE,
    /// CUT OFF, RENAMED AND REMOVED IS WRITTEN WITH MADE-UP BYTES, CUT OFF, RENAMED AND REMOVED
    /// AGAIN: only where all of it may be lost (on a copy of the machine, a snapshot), and only
    /// with a plan of your own
    #[arg(long = "in-place-overwriting-originals", conflicts_with_all = ["root", "device", "from_device", "write", "discard", "trace", "rounds"])]
    pub(super) in_place: bool,
    #[command(flatten)]
    pub(super) block: BlockArgs,
    /// How often faster than in the capture: 1, 2, 0.5; or `max`: as fast as it goes
    #[arg(long, value_name = "SPEED", default_value = "1", value_parser = values::parse_speed)]
    pub(super) speed: SpeedArg,
    /// When operations begin
    #[arg(long, value_enum, value_name = "PACING", default_value = "open")]
    pub(super) pacing: PacingArg,
    /// Ordering constraints to enforce
    #[arg(long, value_enum, value_name = "ORDER", default_value = "deps")]
    pub(super) order: OrderArg,
    /// How asynchronous operations are done, as many at once as in the capture
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
    /// Record the replay itself, and compare what was recorded with the plan: NAME.otf2, or a
    /// directory with a slash at its end
    #[arg(long, value_name = "FILE", requires = "root")]
    pub(super) trace: Option<OsString>,
    /// Do all of it so many times, with new files for each, and tell what became of each
    #[arg(long = "loop", value_name = "N", requires = "root", conflicts_with = "trace")]
    pub(super) rounds: Option<NonZeroU32>,
    /// Operations that had ended by then, counted from the first one (10s, 5ms), are done before,
    /// as fast as it goes and without times
    #[arg(long, value_name = "TIME", value_parser = values::parse_duration, conflicts_with_all = ["device", "trace"])]
    pub(super) from: Option<Duration>,
    /// Operations that end later than this, counted from the first one (10s, 5ms), are not done
    #[arg(long, value_name = "TIME", value_parser = values::parse_duration, conflicts_with_all = ["device", "trace"])]
    pub(super) until: Option<Duration>,
    /// Before the first call write everything that this machine has to write, and forget what it
    /// keeps of files: ALL PROGRAMS read from disks again
    #[arg(long, conflicts_with = "device")]
    pub(super) drop_caches: bool,
    /// The exit status is 1 if more operations than this have another result than in the capture
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) max_mismatch: u64,
    /// All tables and notes instead of what fits a screen: `replay run PLAN --root DIR --details`.
    /// So do -n N, --json and --csv
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
    /// That directory
    #[arg(long, value_name = "DIR")]
    pub(super) root: PathBuf,
    /// All tables and notes instead of what fits a screen: `replay compare PLAN LOG --root DIR
    /// --details`. So do -n N, --json and --csv
    #[arg(long, help_heading = "Output")]
    pub(super) details: bool,
    #[command(flatten)]
    pub(super) print: PrintArgs,
}

/// What of a log is done again on a device.
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
    /// Write on the device, too: WHAT IS ON IT IS LOST
    #[arg(long, requires = "device")]
    pub(super) write: bool,
    /// Give up parts of what is on the device, too, where that was captured
    #[arg(long, requires = "write")]
    pub(super) discard: bool,
}

/// What is done again.
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
    /// Make this directory, which must not be there, with a log for each thread and the jobs with
    /// which fio replays them
    #[arg(long, value_name = "DIR")]
    pub(super) fio: PathBuf,
    /// Give numbers to files whose paths fio cannot read: longer than 250 bytes, with spaces and
    /// the like
    #[arg(long)]
    pub(super) flatten_names: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct PurgeArgs {
    /// The directory of the replay
    #[arg(long, value_name = "DIR")]
    pub(super) root: PathBuf,
}

/// When operations begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PacingArg {
    /// At their times in the capture, however long those before them take
    Open,
    /// As long after the end of the thread's one before as in the capture
    Closed,
    /// At once
    Max,
}

/// What keeps operations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OrderArg {
    /// Each begins when the one that ended before it in the capture has ended
    Total,
    /// Each waits for those that it depends on, as far as the capture kept them apart
    Deps,
    /// Threads begin when their parents have come so far, and do not wait for each other
    Thread,
    /// All threads begin at once
    None,
}

/// Who does asynchronous operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineArg {
    /// A thread for each of those that are under way at once, which makes a call
    Calls,
    /// One thread for all of a thread of the capture, with an io_uring: operations begin as close
    /// to each other as they were submitted
    #[value(name = "io_uring")]
    IoUring,
}
