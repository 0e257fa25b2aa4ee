//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::args::{AnalyseArgs, CaptureArgs, RECORDING};
use super::report_args::{FilterArgs, PrintArgs};

/// Arguments of `report`.
#[derive(Debug, ClapArgs)]
pub(super) struct PageArgs {
    /// The recording: its directory, log or archive [default: the newest one here]; or one is made
    /// for the page (-a, -p, -- COMMAND), and not kept. Of a log, -p, -d and -e select a part
    #[arg(conflicts_with_all = ["all_cpus", "command", "duration", "max_log", "pgid", "no_follow", "max_operations", "keep_foreign", "all_block", "stacks", "buffer_size", "realtime", "tracer_cpus"])]
    pub(super) log: Option<PathBuf>,
    /// The page, a file that must not exist [default: NAME.html beside the recording, report.html
    /// for a recording that is not kept]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Rename an output that exists to NAME.old, then to NAME.old.2, …: nothing is deleted
    #[arg(long, help_heading = "Output")]
    pub(super) force: bool,
    /// Draw the charts over time into this file, which must not exist, for a paper; with -o a page,
    /// too. --from and --until choose a part, whose steps are shorter
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    #[command(flatten, next_help_heading = RECORDING)]
    pub(super) capture: CaptureArgs,
}

impl PageArgs {
    /// Returns the arguments that it shares with the other reports.
    pub(super) fn analyse(&self) -> AnalyseArgs {
        AnalyseArgs {
            log: self.log.clone(),
            shown: None,
            all_files: true,
            print: PrintArgs::default(),
            filter: self.filter.clone(),
            capture: self.capture.clone(),
        }
    }
}
