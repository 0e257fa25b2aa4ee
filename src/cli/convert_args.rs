//! Arguments of `convert`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Arguments of `convert`.
#[derive(Debug, ClapArgs)]
pub(super) struct ConvertArgs {
    /// The recording: its directory or log [default: the newest one here]
    #[arg(default_value = ".", hide_default_value = true)]
    pub(super) log: PathBuf,
    /// NAME.otf2, DIR for DIR/traces.otf2, NAME.pftrace for a Perfetto trace, or NAME.parquet for a
    /// directory of Parquet tables [default: an archive beside the log]
    #[arg(short, long, value_name = "DIR|NAME.otf2|NAME.pftrace|NAME.parquet")]
    pub(super) output: Option<OsString>,
    /// Rename an output that exists to NAME.old, then to NAME.old.2, …: nothing is deleted
    #[arg(long)]
    pub(super) force: bool,
    /// Write a log whose names are pseudonyms, to give away: -o NAME.iocap
    #[arg(long)]
    pub(super) capsule: bool,
    /// Secret of the pseudonyms, at least 16 bytes: two capsules with the same one compare. It is
    /// not stored; without it each capsule has its own. A text that can be guessed reveals all
    /// names, and ps and the history of the shell show it
    #[arg(long, value_name = "TEXT", requires = "capsule")]
    pub(super) salt: Option<OsString>,
}
