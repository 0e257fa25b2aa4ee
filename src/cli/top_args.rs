//! Arguments of `top`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::args::{CaptureArgs, RECORDING};
use super::values::{parse_count, parse_interval, parse_rounds};
use crate::analysis::top::TopView;

/// Arguments of `top`.
#[derive(Debug, ClapArgs)]
pub(super) struct TopArgs {
    /// Length of an interval (500ms, 10s). Alone it prints a table for each, without a screen
    /// [default of the screen: 1s]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = parse_interval, help_heading = "Output")]
    pub(super) interval: Option<Duration>,
    /// Print the table of one interval, and end
    #[arg(long, conflicts_with = "count", help_heading = "Output")]
    pub(super) once: bool,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_rounds, help_heading = "Output")]
    pub(super) count: Option<NonZeroU32>,
    /// Draw on the terminal, although -I is given
    #[arg(long, conflicts_with_all = ["once", "json", "csv", "to"], overrides_with = "screen", help_heading = "Output")]
    pub(super) screen: bool,
    /// View to begin with, or table to print [default: processes; with --json all]
    #[arg(long, value_name = "VIEW", overrides_with = "view", help_heading = "Output")]
    pub(super) view: Option<ViewArg>,
    /// JSON Lines: one object for each interval (docs/json/top.md)
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Comma-separated values: the names of the columns, then the rows of each interval
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) csv: bool,
    /// Rows of each table, the others are summed up; 0 for all [default: 20; with --json and --csv
    /// all]
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Output")]
    pub(super) rows: Option<usize>,
    /// Write to this file, which must not exist [default: standard output; with a traced program
    /// standard error]
    #[arg(long = "to", value_name = "FILE", help_heading = "Output")]
    pub(super) to: Option<PathBuf>,
    /// Names of all files, from the best source, although calls may wait for them (key n); without
    /// it, --names auto takes only sources for which no call waits
    #[arg(long, overrides_with = "all_names", help_heading = "Output")]
    pub(super) all_names: bool,
    /// Record the processes that are in this control group or below it, and their children: a path,
    /// a unit (postgresql.service), or the beginning of a container's identifier
    #[arg(short = 'G', long, alias = "container", value_name = "CGROUP", conflicts_with_all = ["all_cpus", "pid", "command"], help_heading = RECORDING)]
    pub(super) cgroup: Vec<String>,
    #[command(flatten, next_help_heading = RECORDING)]
    pub(super) capture: CaptureArgs,
}

/// View of `top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ViewArg {
    /// Each process
    Processes,
    /// Files of all processes
    Files,
    /// Block devices
    Devices,
    /// Kinds of operations
    Calls,
    /// Control groups: containers and units
    Cgroups,
}

impl From<ViewArg> for TopView {
    fn from(view: ViewArg) -> Self {
        match view {
            ViewArg::Processes => Self::Processes,
            ViewArg::Files => Self::Files,
            ViewArg::Devices => Self::Devices,
            ViewArg::Calls => Self::Calls,
            ViewArg::Cgroups => Self::Cgroups,
        }
    }
}
