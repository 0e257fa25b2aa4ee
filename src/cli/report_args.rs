//! Arguments of reports: what they select, and how they are printed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::values::{parse_bytes, parse_count, parse_duration, parse_id};
use crate::analysis::op_groups::OpDimension;
use crate::report::grouping::Grouping;
use crate::report::ranks::PlaceDimension;

/// Property that the operations of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ByArg {
    /// Name of the program
    Program,
    /// Each process has a row
    Process,
    /// Real user
    User,
    /// Control group: the container or unit
    #[value(alias = "container")]
    Cgroup,
    /// Each thread has a row, in a table of its own
    Thread,
    /// Directory of the file, in a table of its own
    Directory,
    /// Mount of the file, in a table of its own
    Mount,
    /// Device of the file, in a table of its own
    Device,
    /// Rank in a parallel job, in a table of its own (summary)
    Rank,
    /// Host of a parallel job, in a table of its own (summary)
    Host,
}

impl ByArg {
    /// Returns the place in a job; `None`: another property.
    pub(super) fn place(self) -> Option<PlaceDimension> {
        match self {
            Self::Rank => Some(PlaceDimension::Rank),
            Self::Host => Some(PlaceDimension::Host),
            _ => None,
        }
    }

    /// Returns the property of processes; `None`: another one.
    pub(super) fn grouping(self) -> Option<Grouping> {
        Some(match self {
            Self::Program => Grouping::Program,
            Self::Process => Grouping::Process,
            Self::User => Grouping::User,
            Self::Cgroup => Grouping::Cgroup,
            Self::Thread | Self::Directory | Self::Mount | Self::Device => return None,
            Self::Rank | Self::Host => return None,
        })
    }

    /// Returns the dimension with a table of its own; `None`: a property of processes.
    pub(super) fn dimension(self) -> Option<OpDimension> {
        Some(match self {
            Self::Thread => OpDimension::Thread,
            Self::Directory => OpDimension::Directory,
            Self::Mount => OpDimension::Mount,
            Self::Device => OpDimension::Device,
            Self::Program | Self::Process | Self::User | Self::Cgroup => return None,
            Self::Rank | Self::Host => return None,
        })
    }
}

/// Options that filter operations.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(super) struct FilterArgs {
    /// Only operations of threads with these names (*, ?, […], {a,b}; `!` excludes)
    #[arg(long, value_name = "NAME", help_heading = "Filter")]
    pub(super) comm: Vec<String>,
    /// Only operations of these threads
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = parse_id, help_heading = "Filter")]
    pub(super) tid: Vec<i32>,
    /// No operations of these processes
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = parse_id, help_heading = "Filter")]
    pub(super) exclude_pid: Vec<i32>,
    /// Only operations of processes in this control group or below it: a path, a unit
    /// (postgresql.service), a container's name or the beginning of its identifier
    #[arg(short = 'G', long, alias = "container", value_name = "CGROUP", help_heading = "Filter")]
    pub(super) cgroup: Vec<String>,
    /// Only operations of these users' processes (real user, by name or number)
    #[arg(short, long, value_name = "USER", value_delimiter = ',', help_heading = "Filter")]
    pub(super) user: Vec<String>,
    /// Only operations on these files: `DIR/` is all below a directory, a pattern without a slash
    /// is for the last part of a path, `**` matches across slashes, `!` excludes
    #[arg(short = 'F', long = "file", value_name = "GLOB", help_heading = "Filter")]
    pub(super) files: Vec<String>,
    /// Only operations on files of these mounts, given by their mount points; files of mounts below
    /// them are not included
    #[arg(long, value_name = "PATH", help_heading = "Filter")]
    pub(super) mount: Vec<String>,
    /// Only operations on files of these types of file systems (`ext4,xfs`, `fuse.*`; `!proc`
    /// excludes)
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "Filter")]
    pub(super) fs_type: Vec<String>,
    /// Only operations that failed
    #[arg(long, help_heading = "Filter")]
    pub(super) failed: bool,
    /// Only operations that did not fail
    #[arg(long, conflicts_with = "failed", help_heading = "Filter")]
    pub(super) succeeded: bool,
    /// Only reads, writes, or both
    #[arg(long, value_name = "r|w|rw", help_heading = "Filter")]
    pub(super) io: Option<SideArg>,
    /// Only operations that took at least this time (100us, 5ms)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Filter")]
    pub(super) min_latency: Option<Duration>,
    /// Only operations that moved at least this number of bytes (4K, 1M); others without bytes have
    /// no size
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Filter")]
    pub(super) min_size: Option<u64>,
    /// Only operations that moved at most this number of bytes; others without bytes have no size
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Filter")]
    pub(super) max_size: Option<u64>,
    /// Only operations that had not ended by then, counted from the beginning of the recording as
    /// `script` shows it (10s, 5ms)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Filter")]
    pub(super) from: Option<Duration>,
    /// Only operations that had ended by then, counted in the same way
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Filter")]
    pub(super) until: Option<Duration>,
}

/// Format of a report.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(super) struct PrintArgs {
    /// One JSON object (docs/json.md)
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Comma-separated values; the first field of each line is the name of its table
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) csv: bool,
    /// Tables as --csv has them, separated by tabs
    #[arg(long, conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    pub(super) tsv: bool,
    /// Rows of each table that are shown, the others are summed up; 0 for all [default: 20; with
    /// --json and --csv all]
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count, help_heading = "Output")]
    pub(super) rows: Option<usize>,
    /// Sort the tables that have this column by it (time, read, p99, path, …), largest first
    #[arg(long, value_name = "COLUMN", help_heading = "Output")]
    pub(super) sort: Option<String>,
    /// Print this table only, with --csv or --tsv as data without other lines (files, processes, …)
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(super) table: Option<String>,
    /// Colours: on a terminal, unless `NO_COLOR` is set; or always, or never
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(super) color: ColorArg,
    /// Print a report that is longer than the terminal without a pager ($PAGER, less)
    #[arg(long, help_heading = "Output")]
    pub(super) no_pager: bool,
    /// All columns of each table, and whole names, whatever the width of the terminal
    #[arg(long, help_heading = "Output")]
    pub(super) wide: bool,
    /// Write the report to this file, which must not exist [default: standard output; with a traced
    /// program standard error]
    #[arg(long = "to", value_name = "FILE", help_heading = "Output")]
    pub(super) to: Option<PathBuf>,
}

/// Direction of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SideArg {
    /// Reads only
    R,
    /// Writes only
    W,
    /// Reads and writes
    Rw,
}

/// Use of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorArg {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Also in a file or pipe
    Always,
    /// No colours
    Never,
}
