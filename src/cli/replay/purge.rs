//! `iotrace-perf replay purge`.

use std::process::ExitCode;

use super::super::error::CliError;
use super::super::exit_code::MISMATCH;
use super::super::message::print_line;
use super::args::PurgeArgs;
use super::common::usage;
use crate::replay::execute::replay_dirs::{AllPurged, purge_all};
use crate::text::quantity::counted_as;

/// Removes the files of a replay.
pub(super) fn run(args: &PurgeArgs) -> Result<ExitCode, CliError> {
    let AllPurged { purged, absent } = purge_all(&args.root).map_err(usage)?;
    print_line(&format!(
        "removed {}",
        counted_as(purged.removed, ["file or directory", "files and directories"])
    ));
    for it in &absent {
        print_line(&format!(
            "{0} has no files of this replay; if it is on a disk that is not mounted: iotrace-perf replay purge --root {0}",
            it.display()
        ));
    }
    for (path, source) in &purged.left {
        print_line(&format!("left {}: {source}", path.display()));
    }
    Ok(if purged.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISMATCH) })
}
