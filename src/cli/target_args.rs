//! Arguments that say which processes are recorded, and for how long.

use clap::Args as ClapArgs;

use super::values::{parse_id, parse_log_size, parse_pid};

/// Processes of any recording, and its end by number.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(super) struct TargetArgs {
    /// Record the processes that are in these process groups, and their children
    #[arg(long, value_name = "PGID", value_delimiter = ',', value_parser = parse_pid, conflicts_with_all = ["all_cpus", "pid", "command"])]
    pub(super) pgid: Vec<i32>,
    /// Record no children of the program or of the processes; their threads are recorded
    #[arg(long, conflicts_with = "all_cpus")]
    pub(super) no_follow: bool,
    /// Stop after about this number of system calls; those of some tenths of a second more follow
    #[arg(long, value_name = "N", value_parser = parse_operations)]
    pub(super) max_operations: Option<u64>,
}

/// Processes of `record`; reports have filters with these names.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct RecordTargetArgs {
    /// Record these running threads only, and nothing that they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = parse_id, conflicts_with_all = ["all_cpus", "pid", "pgid", "cgroup", "command"])]
    pub(super) tid: Vec<i32>,
    /// With -a, record nothing of these processes and their children
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = parse_pid, requires = "all_cpus")]
    pub(super) exclude_pid: Vec<i32>,
    /// Under mpirun or srun: the first rank of each node records all ranks there; the others only
    /// become the program
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "pgid", "cgroup", "tid", "as_user", "ring", "rotate"])]
    pub(super) per_node: bool,
    /// Synonym of `--max-operations`, which `watch` has for something else.
    #[arg(long, hide = true, value_name = "N", value_parser = parse_operations, conflicts_with = "max_operations")]
    pub(super) max_events: Option<u64>,
    /// Synonym of `--max-log`, which reports have for something else.
    #[arg(long, hide = true, value_name = "SIZE", value_parser = parse_log_size, conflicts_with = "max_log")]
    pub(super) max_size: Option<u64>,
}

/// Parses a number of operations: at least one.
fn parse_operations(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text} is not a number of operations; give one: 1000000"))
}
