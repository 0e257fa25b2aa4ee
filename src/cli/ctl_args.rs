//! Arguments of `ctl`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::values::parse_count;
use crate::sys::socket;

/// Command to a recording.
#[derive(Debug, ClapArgs)]
pub(super) struct CtlArgs {
    /// Socket of the recording
    #[arg(long, value_name = "SOCKET", default_value = socket::DEFAULT, global = true)]
    pub(super) control: PathBuf,
    #[command(subcommand)]
    pub(super) action: Action,
}

/// A file is given by its path, or by the name that `list` shows.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Watch a file
    Add {
        file: PathBuf,
        /// Keep this number of accesses, the first ones [default: 10000]
        #[arg(value_parser = parse_count)]
        max: Option<usize>,
    },
    /// Stop watching a file
    Remove { file: PathBuf },
    /// The watched files: device and inode, path
    List,
    /// `STATUS T0 MAX_EVENTS NB_EVENTS`; the first is 1 while accesses are logged. Without a file,
    /// of all files, with their names
    Status { file: Option<PathBuf> },
    /// Log no accesses that begin from now on
    Stop { file: Option<PathBuf> },
    /// Log accesses again
    Start { file: Option<PathBuf> },
    /// Delete the logged accesses
    Reset { file: Option<PathBuf> },
    /// Delete the logged accesses, and count times from now on
    Timereset { file: Option<PathBuf> },
    /// Print the logged accesses: `TIME;R|W;ADDRESS;BYTES;VFS|BLK;COMM;PID`
    Log { file: PathBuf },
    /// Print the number of accesses by how they are known, and of those that are not known
    Counts { file: Option<PathBuf> },
    /// Write what the ring of the recording holds (`record --ring`) to a log
    Dump,
}
