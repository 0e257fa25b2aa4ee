//! Place of the recorded program in a parallel job, as launchers and workload managers put it into
//! the environment.

use std::fs::File;
use std::io::Read;

use super::options::{Follow, Options};
use crate::capture::header::JobPlace;

/// Largest part of an environment that is read, in bytes.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// Longest identifier, in characters: longer ones are left out.
const IDENTIFIER_MAX: usize = 64;

/// Variables of each number, the most specific launcher first.
const RANK: [&str; 6] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
    "FLUX_TASK_RANK",
];
const SIZE: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS", "FLUX_JOB_SIZE"];
const LOCAL_RANK: [&str; 5] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "FLUX_TASK_LOCAL_ID",
];

/// Workload managers, with the variables of the job and of its step.
const MANAGERS: [(&str, &[&str], Option<&str>); 4] = [
    ("slurm", &["SLURM_JOB_ID", "SLURM_JOBID"], Some("SLURM_STEP_ID")),
    ("flux", &["FLUX_JOB_ID"], None),
    ("pbs", &["PBS_JOBID"], None),
    ("lsf", &["LSB_JOBID"], None),
];

/// Returns the place in a job of the recorded process, if one process is followed whose environment
/// can be read, otherwise of the tracer: a launched program inherits the tracer's environment.
pub(super) fn job(options: &Options) -> Option<JobPlace> {
    match &options.follow {
        Follow::Attached(pids) => match pids.as_slice() {
            [pid] => {
                let mut text = Vec::new();
                let file = File::open(format!("/proc/{pid}/environ")).ok()?;
                file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut text).ok()?;
                of_environment(&|name| value_in(&text, name))
            }
            _ => None,
        },
        Follow::System | Follow::Launched => of_environment(&|name| std::env::var(name).ok()),
    }
}

/// Returns the value of a variable in the text of `/proc/PID/environ`.
fn value_in(text: &[u8], name: &str) -> Option<String> {
    let mut entries = text.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Returns the place that these variables name, if they name one.
fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Option<JobPlace> {
    let number =
        |names: &[&str]| names.iter().find_map(|name| variable(name)?.trim().parse::<u64>().ok());
    let is_plain = |text: &String| {
        let mut characters = text.chars();
        (1..=IDENTIFIER_MAX).contains(&text.len()) && characters.all(|c| c.is_ascii_graphic())
    };
    let identifier = |name: &str| variable(name).filter(is_plain);
    let managed = MANAGERS.iter().find_map(|(manager, names, step)| {
        let id = names.iter().find_map(|name| identifier(name))?;
        Some((*manager, id, step.and_then(identifier)))
    });
    let (manager, id, step) = managed.unwrap_or_default();
    let job = JobPlace {
        rank: number(&RANK),
        size: number(&SIZE),
        local_rank: number(&LOCAL_RANK),
        manager: manager.to_owned(),
        id,
        step: step.unwrap_or_default(),
    };
    (job != JobPlace::default()).then_some(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(environment: &[&str], expected: Option<JobPlace>) {
        let text = environment.join("\0");
        assert_eq!(of_environment(&|name| value_in(text.as_bytes(), name)), expected, "{text}");
    }

    #[test]
    fn launchers_name_ranks_and_managers_name_jobs() {
        check(&["HOME=/root", "PMIX_RANKS=3", "X=PMIX_RANK=4"], None);
        let rank = JobPlace { rank: Some(3), ..JobPlace::default() };
        check(&["HOME=/", "PMIX_RANK=3"], Some(rank));
        let of_mpi = ["OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=7", "SLURM_PROCID=0"];
        let slurm = ["OMPI_COMM_WORLD_LOCAL_RANK=1", "SLURM_JOB_ID=4711", "SLURM_STEP_ID=2"];
        let job = JobPlace {
            rank: Some(5),
            size: Some(7),
            local_rank: Some(1),
            manager: "slurm".into(),
            id: "4711".into(),
            step: "2".into(),
        };
        check(&[of_mpi, slurm].concat(), Some(job));
        let flux = JobPlace {
            rank: Some(2),
            manager: "flux".into(),
            id: "f2B3x".into(),
            ..JobPlace::default()
        };
        check(&["FLUX_TASK_RANK=2", "FLUX_JOB_ID=f2B3x"], Some(flux));
    }

    #[test]
    fn hostile_values_are_left_out() {
        let long = format!("PBS_JOBID={}", "9".repeat(65));
        check(&["PMI_RANK=-1", "PMI_SIZE=many", "SLURM_JOB_ID=1\x1b[31m", &long], None);
    }
}
