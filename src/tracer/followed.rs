//! Processes that a recording follows, or leaves out, at its start.

use super::error::TracerError;
use super::options::{Follow, Options};
use super::source::Source;
use super::targets;
use crate::sys::proc;
use crate::sys::spawn::PausedChild;
use crate::units::{Pid, Tid};

/// Makes the kernel follow the processes to record, if the source supports that.
pub(super) fn follow(
    options: &Options,
    held: Option<&PausedChild>,
    gauge: Option<Tid>,
    source: &dyn Source,
    warnings: &mut Vec<String>,
) -> Result<(), TracerError> {
    if options.records_all_processes() {
        return Ok(());
    }
    let now_there = || {
        let mut threads = proc::threads(&followed(options, held).unwrap_or_default());
        threads.extend(gauge);
        threads
    };
    if !source.follow(&now_there).map_err(TracerError::Instance)? {
        warnings.push(
            "processes are created faster than they can be followed: some may not be recorded"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the processes that are followed at this moment; empty for the whole system.
pub(super) fn followed(
    options: &Options,
    held: Option<&PausedChild>,
) -> Result<Vec<Pid>, TracerError> {
    match &options.follow {
        Follow::System | Follow::Launched => {
            // The launched program is the first one.
            let launched = held.map(|held| Pid(held.pid()));
            Ok(launched.into_iter().chain(options.joined()).collect())
        }
        Follow::Attached(roots) => {
            targets::attached(roots, options.group.as_ref(), options.follows_children)
        }
    }
}

/// Returns the processes of before, together with the current ones.
pub(super) fn with_later(
    mut before: Vec<Pid>,
    options: &Options,
    held: Option<&PausedChild>,
) -> Result<Vec<Pid>, TracerError> {
    if let Follow::Attached(_) = options.follow {
        let now = followed(options, held)?;
        before.extend(now);
        before.sort_unstable();
        before.dedup();
    }
    Ok(before)
}

/// Processes that a recording of the whole system leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exclusion {
    /// Processes that were named, and their descendants.
    pub(super) processes: Vec<Pid>,
    /// True if the kernel records nothing of the processes.
    pub(super) is_in_kernel: bool,
}

impl Exclusion {
    /// Begins to leave out the processes, in the kernel if the source supports that.
    pub(super) fn begin(options: &Options, source: &dyn Source) -> Result<Self, TracerError> {
        let processes = excluded(options);
        if processes.is_empty() {
            return Ok(Self::default());
        }
        let now_there = || proc::threads(&excluded(options));
        let is_in_kernel = source.exclude(&now_there).map_err(TracerError::Instance)?;
        Ok(Self { processes, is_in_kernel })
    }

    /// Adds the descendants of this moment, when births are recorded and other events are not:
    /// earlier descendants are found now, and births show the later ones.
    pub(super) fn add_later(&mut self, options: &Options) {
        self.processes.extend(excluded(options));
        self.processes.sort_unstable();
        self.processes.dedup();
    }
}

/// Returns the processes to leave out at this moment.
fn excluded(options: &Options) -> Vec<Pid> {
    let named = Vec::from_iter(options.excluded.iter().copied().map(Pid));
    if named.is_empty() { named } else { proc::with_descendants(&named) }
}
