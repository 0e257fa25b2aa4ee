//! Target of a recording: the processes of control groups.

use std::fs;
use std::path::Path;

use super::args::CaptureArgs;
use super::container_names;
use super::error::CliError;
use super::filter_args::cgroups;
use crate::analysis::filter::Cgroups;
use crate::operation::cgroup;
use crate::sys::proc;
use crate::tracer::options::TargetGroup;
use crate::units::Pid;

/// Returns the arguments of a recording of the processes in these groups, if the arguments name no
/// other target and there are groups.
///
/// # Errors
///
/// No process is in such a group.
pub(super) fn resolved(args: &CaptureArgs, words: &[String]) -> Result<CaptureArgs, CliError> {
    let mut args = args.clone();
    if words.is_empty() || args.has_target() {
        return Ok(args);
    }
    let groups = cgroups(words)?;
    args.pid = members(&groups);
    args.of_group = Some(TargetGroup::Control(words.join(", ")));
    if args.pid.is_empty() {
        let words = words.join(", ");
        return Err(CliError::Usage(format!(
            "no process is in the control group {words}{}; groups and their processes: systemd-cgls, or ps -eo pid,cgroup",
            container_names::running_text()
        )));
    }
    Ok(args)
}

/// Returns the processes in these groups, without this one.
fn members(groups: &Cgroups) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).ok().map(Pid);
    let is_member = |pid: &Pid| {
        let path = format!("/proc/{pid}/cgroup");
        // The process may have ended.
        let text = fs::read(Path::new(&path)).unwrap_or_default();
        Some(*pid) != own && cgroup::path(&text).is_some_and(|path| groups.has(path))
    };
    proc::processes().into_iter().filter(is_member).map(|pid| pid.0).collect()
}
