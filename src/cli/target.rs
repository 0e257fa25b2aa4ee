//! Target of a recording: the processes that the arguments mean.

use std::path::Path;

use nix::unistd::{Pid as UnixPid, getpgid};

use super::args::{CaptureArgs, RecordArgs};
use super::cgroup_target;
use super::error::CliError;
use super::report_args::FilterArgs;
use crate::sys::proc;
use crate::tracer::error::TracerError;
use crate::tracer::options::TargetGroup;
use crate::units::Tid;

/// Words of a recording that are filters where a log is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetWords<'a> {
    cgroups: &'a [String],
    threads: &'a [i32],
    excluded: &'a [i32],
}

impl<'a> TargetWords<'a> {
    /// No words.
    pub(super) const NONE: Self = Self { cgroups: &[], threads: &[], excluded: &[] };

    /// Words of `record`.
    pub(super) fn of_record(args: &'a RecordArgs) -> Self {
        let target = &args.target;
        Self { cgroups: &args.cgroup, threads: &target.tid, excluded: &target.exclude_pid }
    }

    /// Words of a report, or of `live`.
    pub(super) fn of_filter(args: &'a FilterArgs) -> Self {
        Self { cgroups: &args.cgroup, threads: &args.tid, excluded: &args.exclude_pid }
    }
}

/// Returns the arguments of a recording with the processes that they and these words mean.
///
/// # Errors
///
/// A process, thread or group that does not exist.
pub(super) fn resolved(
    args: &CaptureArgs,
    words: TargetWords<'_>,
) -> Result<CaptureArgs, CliError> {
    let mut args = cgroup_target::resolved(args, words.cgroups)?;
    if !args.has_target() && !words.threads.is_empty() {
        args.threads = words.threads.to_vec();
        args.pid = processes_of(words.threads)?;
    }
    resolve_groups(&mut args)?;
    if args.all_cpus {
        args.excluded = words.excluded.to_vec();
        let is_gone = |pid: &&i32| !Path::new(&format!("/proc/{pid}")).exists();
        if let Some(gone) = args.excluded.iter().find(is_gone) {
            return Err(TracerError::NoProcess(*gone).into());
        }
    }
    Ok(args)
}

/// Returns the processes of these threads, each once.
fn processes_of(threads: &[i32]) -> Result<Vec<i32>, CliError> {
    let process = |tid: &i32| {
        proc::process_of(Tid(*tid)).map(|pid| pid.0).ok_or_else(|| {
            let text = format!("there is no thread {tid}; list threads: ps -eLo pid,tid,comm");
            CliError::Usage(text)
        })
    };
    let mut processes = threads.iter().map(process).collect::<Result<Vec<i32>, _>>()?;
    processes.sort_unstable();
    processes.dedup();
    Ok(processes)
}

/// Puts the processes of process groups into the arguments.
fn resolve_groups(args: &mut CaptureArgs) -> Result<(), CliError> {
    let groups = std::mem::take(&mut args.target.pgid);
    if groups.is_empty() {
        return Ok(());
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let there: Vec<(i32, i32)> = proc::processes()
        .into_iter()
        // The process may have ended.
        .filter_map(|pid| Some((pid.0, getpgid(Some(UnixPid::from_raw(pid.0))).ok()?.as_raw())))
        .filter(|(pid, _)| *pid != own)
        .collect();
    for group in &groups {
        if !there.iter().any(|(_, its)| its == group) {
            return Err(CliError::Usage(format!(
                "no process is in the process group {group}; list groups: ps -eo pgid,pid,comm"
            )));
        }
    }
    args.pid = there.iter().filter(|(_, its)| groups.contains(its)).map(|(pid, _)| *pid).collect();
    let names: Vec<String> = groups.iter().map(i32::to_string).collect();
    args.of_group = Some(TargetGroup::Process(names.join(", ")));
    Ok(())
}
