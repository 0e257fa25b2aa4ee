//! Place of the recorded program in a parallel job, as launchers and workload managers put it into
//! the environment.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use super::options::{Follow, Options};
use crate::capture::header::JobPlace;
use crate::sys::proc;
use crate::units::Pid;

/// Largest part of an environment that is read, in bytes.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// Longest identifier, in characters: longer ones are left out.
const IDENTIFIER_MAX: usize = 64;

/// Launcher of the processes of a job, with its variables.
struct Launcher {
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    /// Variable without which the rank is not that of a process of a job.
    needs: Option<&'static str>,
    /// Name of the launcher as a workload manager, if it is one.
    manager: Option<&'static str>,
}

const fn mpi(
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
) -> Launcher {
    Launcher { rank, size, local_rank, local_size, needs: None, manager: None }
}

/// Variable with the number of tasks of each node, of which [`tasks_of_node`] takes one.
const SLURM_TASKS: &str = "SLURM_STEP_TASKS_PER_NODE";

/// Launchers, the innermost first: those of MPI run within jobs of a workload manager, and jobs of
/// Flux within those of another one. A script of `sbatch` has a `SLURM_PROCID` and no step: it is
/// no process of a parallel job.
const LAUNCHERS: [Launcher; 7] = [
    mpi(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    mpi(
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    // Hydra, within a job of a workload manager that may set `PMI_RANK`, too.
    Launcher {
        needs: Some("MPI_LOCALRANKID"),
        ..mpi("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    },
    Launcher {
        rank: "FLUX_TASK_RANK",
        size: "FLUX_JOB_SIZE",
        local_rank: "FLUX_TASK_LOCAL_ID",
        local_size: "",
        needs: None,
        manager: Some("flux"),
    },
    Launcher {
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        local_size: SLURM_TASKS,
        needs: Some("SLURM_STEP_ID"),
        manager: Some("slurm"),
    },
    mpi("PMI_RANK", "PMI_SIZE", "", ""),
    mpi("PMIX_RANK", "", "", ""),
];

/// Workload managers, with the variables of the job and of its step, the innermost first.
const MANAGERS: [(&str, &[&str], Option<&str>); 4] = [
    ("flux", &["FLUX_JOB_ID"], None),
    ("slurm", &["SLURM_JOB_ID", "SLURM_JOBID"], Some("SLURM_STEP_ID")),
    ("pbs", &["PBS_JOBID"], None),
    ("lsf", &["LSB_JOBID"], None),
];

/// Returns the place in a job of the recorded process, if one process is followed whose environment
/// can be read, otherwise of the tracer: a launched program inherits the tracer's environment.
pub(super) fn job(options: &Options) -> Option<JobPlace> {
    match &options.follow {
        Follow::Attached(pids) => match pids.as_slice() {
            [pid] => place_of(Pid(*pid)),
            _ => None,
        },
        Follow::System | Follow::Launched => of_environment(&|name| std::env::var(name).ok()),
    }
}

/// Returns the rank of this process in its parallel job, if it has one.
pub fn own_rank() -> Option<u64> {
    of_environment(&|name| std::env::var(name).ok())?.rank
}

/// Returns the place of this process in its parallel job, if it has one.
pub fn own_place() -> Option<JobPlace> {
    of_environment(&|name| std::env::var(name).ok())
}

/// Returns a number that is the same for all processes which one command of a launcher has started
/// on any node, as far as the launcher tells its commands from each other.
pub fn own_job_number() -> u64 {
    let mut hasher = DefaultHasher::new();
    command_name(&|name| std::env::var(name).ok()).hash(&mut hasher);
    hasher.finish()
}

/// Returns the name of the launcher's command that started the process with these variables: one
/// identifier, since the nodes of a job may have different ones of the others. Processes on the
/// node of `mpirun` have what its own process has, and those on other nodes what its agents have.
fn command_name(variable: &dyn Fn(&str) -> Option<String>) -> [String; 3] {
    if let Some(namespace) = variable("PMIX_NAMESPACE") {
        return ["pmix".to_owned(), namespace, String::new()];
    }
    let place = of_environment(variable).unwrap_or_default();
    let is_step = launcher(variable).is_some_and(|launcher| launcher.manager.is_some());
    // Agents of another launcher run in a step of their own.
    let step = if is_step { place.step } else { String::new() };
    [place.manager, place.id, step]
}

/// Returns the number of this process among those of its job on this node, if a launcher gave it
/// one.
pub fn own_local_rank() -> Option<u64> {
    of_environment(&|name| std::env::var(name).ok())?.local_rank
}

/// Returns the place in a job of a running process, if it has one and its environment can be read.
pub(super) fn place_of(pid: Pid) -> Option<JobPlace> {
    let text = environment_of(pid)?;
    of_environment(&|name| value_in(&text, name))
}

/// Returns the environment with which the program of a process was started, if it can be read.
fn environment_of(pid: Pid) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Place where the ranks of a job on one node meet.
#[derive(Debug)]
pub(super) struct Meeting {
    /// Name of the place: the same for all of these ranks, and for no other job. Recordings of one
    /// job that are given different outputs have different ones.
    pub(super) name: String,
    /// Place of this process in the job.
    pub(super) place: JobPlace,
}

/// Largest number of wrappers between a rank and its launcher.
const WRAPPERS_MAX: usize = 16;

/// Variables that tell the jobs of one launcher's process from each other.
const JOB_NAMES: [&str; 5] =
    ["PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "FLUX_JOB_ID", "PBS_JOBID"];

/// Returns the place where this process meets the other ranks of its node, if it is a rank. Its
/// name has the launcher's process: the nearest ancestor that is no rank itself, as a shell or
/// another wrapper is that the launcher has started. Hydra has no other name for a job. `outputs`
/// are the names of outputs as they were given.
pub(super) fn meeting(outputs: &[OsString]) -> Option<Meeting> {
    let variable = |name: &str| std::env::var(name).ok();
    let place = of_environment(&variable).filter(|place| place.rank.is_some())?;
    let launcher = launcher(&variable)?;
    let mut ancestor = Pid(nix::unistd::getppid().as_raw());
    for _ in 0..WRAPPERS_MAX {
        let is_rank = |text: &Vec<u8>| value_in(text, launcher.rank).is_some();
        if !environment_of(ancestor).as_ref().is_some_and(is_rank) {
            break;
        }
        ancestor = proc::parent(ancestor)?;
    }
    let started = proc::start_ticks(ancestor).unwrap_or(0);
    let mut hasher = DefaultHasher::new();
    (JOB_NAMES.map(variable), outputs).hash(&mut hasher);
    let name = format!("{ancestor}.{started}/{:016x}", hasher.finish());
    Some(Meeting { name, place })
}

/// Returns the number of tasks of this node in a list such as `2(x3),1`.
fn tasks_of_node(list: &str, node: u64) -> Option<u64> {
    let mut nodes = 0_u64;
    for part in list.split(',') {
        let (tasks, repeated) = match part.split_once("(x") {
            Some((tasks, rest)) => (tasks, rest.strip_suffix(')')?.parse().ok()?),
            None => (part, 1_u64),
        };
        nodes = nodes.saturating_add(repeated);
        if node < nodes {
            return tasks.trim().parse().ok();
        }
    }
    None
}

/// Returns the value of a variable in the text of `/proc/PID/environ`.
fn value_in(text: &[u8], name: &str) -> Option<String> {
    let mut entries = text.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Returns the launcher of the process with these variables.
fn launcher(variable: &dyn Fn(&str) -> Option<String>) -> Option<&'static Launcher> {
    let is_number =
        |name: &str| variable(name).is_some_and(|text| text.trim().parse::<u64>().is_ok());
    LAUNCHERS.iter().find(|launcher| {
        let is_running =
            launcher.needs.is_none_or(|name| variable(name).is_some_and(|text| is_plain(&text)));
        is_running && is_number(launcher.rank)
    })
}

/// True for an identifier that can be shown.
fn is_plain(text: &str) -> bool {
    (1..=IDENTIFIER_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

/// Returns the number of processes of the job on this node.
fn local_size(launcher: &Launcher, variable: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    match launcher.manager {
        Some("slurm") => tasks_of_node(&variable(launcher.local_size)?, number("SLURM_NODEID")?),
        // Flux gives the number of a node's tasks only if there is one node.
        Some("flux") => number(launcher.size).filter(|_| number("FLUX_JOB_NNODES") == Some(1)),
        _ => number(launcher.local_size),
    }
}

/// Returns the place that these variables name, if they name one: the numbers are those of one
/// launcher, and the job is that in which this launcher runs.
fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Option<JobPlace> {
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let identifier = |name: &str| variable(name).filter(|text| is_plain(text));
    let launcher = launcher(variable);
    let of_launcher = launcher.and_then(|launcher| launcher.manager);
    let mut managers =
        MANAGERS.iter().filter(|(manager, ..)| of_launcher.is_none_or(|of| of == *manager));
    let managed = managers.find_map(|(manager, names, step)| {
        let id = names.iter().find_map(|name| identifier(name))?;
        Some((*manager, id, step.and_then(identifier)))
    });
    let (manager, id, step) = managed.unwrap_or_default();
    let job = JobPlace {
        rank: launcher.and_then(|launcher| number(launcher.rank)),
        size: launcher.and_then(|launcher| number(launcher.size)),
        local_rank: launcher.and_then(|launcher| number(launcher.local_rank)),
        local_size: launcher.and_then(|launcher| local_size(launcher, variable)),
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
            local_size: None,
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

    /// Fails if a recorder waits for ranks of other nodes, or does not know how many there are.
    #[test]
    fn number_of_ranks_on_the_node_is_known() {
        #[track_caller]
        fn check_size(environment: &[&str], expected: Option<u64>) {
            let text = environment.join("\0");
            let place = of_environment(&|name| value_in(text.as_bytes(), name)).expect("a rank");
            assert_eq!(place.local_size, expected, "{text}");
        }
        check_size(&["OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_LOCAL_SIZE=4"], Some(4));
        check_size(&["PMI_RANK=5", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=3"], Some(3));
        check_size(&["PMI_RANK=5", "MPI_LOCALNRANKS=3"], None);
        let step = ["SLURM_PROCID=5", "SLURM_STEP_ID=0", "SLURM_STEP_TASKS_PER_NODE=2(x3),7,1"];
        for (node, size) in [(0, Some(2)), (2, Some(2)), (3, Some(7)), (4, Some(1)), (5, None)] {
            check_size(&[&step[..], &[format!("SLURM_NODEID={node}").as_str()]].concat(), size);
        }
        let flux = ["FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_JOB_NNODES=1"];
        check_size(&flux, Some(2));
        check_size(&flux[..2], None);
        assert_eq!(tasks_of_node("2(x", 0), None);
    }

    #[test]
    fn values_of_several_launchers_are_not_mixed() {
        let of_slurm =
            ["SLURM_PROCID=0", "SLURM_NTASKS=64", "SLURM_LOCALID=3", "SLURM_JOB_ID=4711"];
        let slurm = JobPlace { manager: "slurm".into(), id: "4711".into(), ..JobPlace::default() };
        // A batch script.
        check(&of_slurm, Some(slurm.clone()));
        let [rank, size, local_rank] = [Some(0), Some(64), Some(3)];
        let step = JobPlace { rank, size, local_rank, step: "0".into(), ..slurm.clone() };
        check(&[&of_slurm[..], &["SLURM_STEP_ID=0", "PMIX_RANK=0"]].concat(), Some(step));
        let of_mpi = JobPlace { rank: Some(5), ..slurm };
        check(&[&of_slurm[..], &["OMPI_COMM_WORLD_RANK=5"]].concat(), Some(of_mpi));
        let flux = JobPlace {
            rank: Some(1),
            size: Some(2),
            manager: "flux".into(),
            id: "f1".into(),
            ..JobPlace::default()
        };
        let of_flux = ["FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_JOB_ID=f1", "SLURM_STEP_ID=0"];
        check(&[of_slurm, of_flux].concat(), Some(flux));
    }

    /// Fails if processes of one command look for each other under different names, or those of
    /// two commands under the same.
    #[test]
    fn command_has_one_name_on_all_nodes() {
        let name = |parts: &[&[&str]]| {
            let text = parts.concat().join("\0");
            command_name(&|name| value_in(text.as_bytes(), name))
        };
        let step: &[&str] = &["SLURM_STEP_ID=4", "SLURM_PROCID=1", "FLUX_JOB_ID=f1"];
        let pbs: &[&str] = &["PBS_JOBID=7.server"];
        let slurm: &[&str] = &["SLURM_JOB_ID=4711"];
        // Open MPI sets the name space on all nodes.
        let open_mpi: &[&str] = &["OMPI_COMM_WORLD_RANK=1", "PMIX_NAMESPACE=868810753"];
        for one_side in [step, pbs, slurm] {
            assert_eq!(name(&[open_mpi]), name(&[open_mpi, one_side]), "{one_side:?}");
        }
        let other: &[&str] = &["OMPI_COMM_WORLD_RANK=1", "PMIX_NAMESPACE=868810754"];
        assert_ne!(name(&[open_mpi]), name(&[other]));
        // Agents of Hydra that srun starts have a step; the one on the first node has none.
        let hydra: &[&str] = &["PMI_RANK=1", "MPI_LOCALRANKID=0"];
        let agent: &[&str] = &["SLURM_STEP_ID=4", "SLURM_PROCID=1"];
        assert_eq!(name(&[hydra, slurm]), name(&[hydra, slurm, agent]));
        assert_ne!(name(&[hydra, slurm]), name(&[hydra]));
        let steps = ["SLURM_STEP_ID=0", "SLURM_STEP_ID=1"];
        let [first, second] = steps.map(|step| name(&[slurm, &["SLURM_PROCID=0", step]]));
        assert_ne!(first, second);
    }

    #[test]
    fn hostile_values_are_left_out() {
        let long = format!("PBS_JOBID={}", "9".repeat(65));
        check(&["PMI_RANK=-1", "PMI_SIZE=many", "SLURM_JOB_ID=1\x1b[31m", &long], None);
    }
}
