//! Arguments of `diff`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::report_args::{FilterArgs, PrintArgs};
use super::values::parse_count;

/// Arguments of `diff`.
#[derive(Debug, ClapArgs)]
pub(super) struct DiffArgs {
    /// Recording before the change: a log, a directory of a recording, a directory with several
    /// recordings, or the output of summary --json
    #[arg(conflicts_with = "commands")]
    pub(super) before: Option<PathBuf>,
    /// Recording after the change, in the same forms
    pub(super) after: Option<PathBuf>,
    /// Two commands, with -- between them: both are recorded, in turns
    #[arg(last = true, value_name = "COMMAND -- COMMAND")]
    pub(super) commands: Vec<OsString>,
    /// Runs of each command
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "5", help_heading = "Commands")]
    pub(super) runs: usize,
    /// Runs of each command that are not compared, before the others
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "0", help_heading = "Commands")]
    pub(super) warmup: usize,
    /// Events to record, as in a recording
    #[arg(short, long, value_name = "EVENT,…", help_heading = "Commands")]
    pub(super) events: Vec<String>,
    /// Run the commands as this user, by name or number
    #[arg(long, value_name = "USER", help_heading = "Commands")]
    pub(super) as_user: Option<String>,
    /// End with status 1 if counts differ
    #[arg(long, help_heading = "Output")]
    pub(super) exit_code: bool,
    /// Tables in Markdown, for a comment on a change
    #[arg(long, conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    pub(super) markdown: bool,
    /// Write a page for a browser into this file, which must not exist: NAME.html
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "csv", "tsv", "markdown", "to"], help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Rename an output that exists to NAME.old, then to NAME.old.2, …: nothing is deleted
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) print: PrintArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
}
