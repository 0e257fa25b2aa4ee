//! `clocks` as launchers start it: which processes find each other, and which of them compare.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clocks::{ended, files, rendezvous, start};
use crate::support::driver::process::run;
use crate::support::driver::recording::{BINARY, TIMEOUT, wait_until};
use crate::support::machine::requirements::{Need, require_all};
use crate::support::{scratch_dir, text};

/// Returns `iotrace-perf clocks` with these variables alone.
fn clocks(dir: &Path, timeout: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["clocks", "-o", text(dir), "--timeout", timeout]).env_clear();
    command.envs(variables.iter().copied());
    command
}

/// Fails if a rank 0 takes the place of another one that still answers, or if a process of the job
/// that has more variables does not find it.
#[test]
fn rank_0_that_answers_is_not_replaced() {
    let scratch = scratch_dir("clock-ranks");
    let dir = scratch.path().join("clocks");
    let size = ("OMPI_COMM_WORLD_SIZE", "2");
    let namespace = ("PMIX_NAMESPACE", "868810753");
    let first = [("OMPI_COMM_WORLD_RANK", "0"), size, namespace];
    let reference = start(clocks(&dir, "60s", &first));
    wait_until("rank 0 has left its address", || rendezvous(&dir).is_some());
    let other = run(&mut clocks(&dir, "60s", &first), TIMEOUT).expect("it ends");
    assert_eq!(other.status.code(), Some(125), "{}", other.stderr());
    assert!(other.stderr().contains("another comparison is under way"), "{}", other.stderr());
    let of_node = [("SLURM_STEP_ID", "0"), ("SLURM_JOB_ID", "7"), ("PBS_JOBID", "7.server")];
    let second = [&[("OMPI_COMM_WORLD_RANK", "1"), size, namespace][..], &of_node].concat();
    let second = run(&mut clocks(&dir, "60s", &second), TIMEOUT).expect("it ends");
    assert_eq!(second.status.code(), Some(0), "{}", second.stderr());
    let (status, said) = ended(reference);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!((files(&dir).len(), rendezvous(&dir)), (1, None));
}

/// Fails if processes of one node, which do not know how many they are, take each other's files for
/// errors.
#[test]
fn processes_of_a_node_without_local_ranks_have_one_file() {
    if !require_all(&[Need::Root, Need::Program("unshare")]) {
        return;
    }
    let scratch = scratch_dir("clock-ranks");
    let dir = scratch.path().join("clocks");
    let named = "echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"";
    let rank = |host: &str, rank: &str| {
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", named, host, BINARY, "clocks", "-o", text(&dir)]);
        command.args(["--timeout", "60s"]);
        command.env("PMI_RANK", rank).env("PMI_SIZE", "4");
        start(command)
    };
    let ranks = [("node1", "0"), ("node2", "1"), ("node2", "2"), ("node2", "3")];
    for child in ranks.map(|(host, number)| rank(host, number)) {
        let (status, said) = ended(child);
        assert_eq!(status, Some(0), "{said}");
    }
    let files = files(&dir);
    let hosts: Vec<&str> = files.iter().map(|file| file.host.hostname.as_str()).collect();
    assert_eq!(hosts, ["node1", "node2"]);
    assert_eq!(files[1].shortest.len(), 16);
    let names = fs::read_dir(&dir).expect("a directory").map(|entry| entry.expect("one").path());
    let names: Vec<PathBuf> = names.collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
