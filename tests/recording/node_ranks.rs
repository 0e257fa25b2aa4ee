//! `--per-node`: the ranks of a parallel job on one node are recorded together, and the launcher
//! sees each of them as without a tracer. The launcher is this test: it sets the variables.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, wait_until,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{scratch_dir, text};

/// Launcher whose variables the ranks get.
#[derive(Clone, Copy, Debug)]
enum Launcher {
    OpenMpi,
    Hydra,
    Slurm,
    /// A launcher that gives neither local ranks nor their number.
    Pmi,
}

impl Launcher {
    /// Returns the variables of a rank; the job has the name of the test.
    fn variables(self, job: &str, rank: usize, size: usize) -> Vec<(&'static str, String)> {
        let (number, count, name) = (rank.to_string(), size.to_string(), job.to_owned());
        match self {
            Self::OpenMpi => vec![
                ("OMPI_COMM_WORLD_RANK", number.clone()),
                ("OMPI_COMM_WORLD_SIZE", count.clone()),
                ("OMPI_COMM_WORLD_LOCAL_RANK", number),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", count),
                ("PMIX_NAMESPACE", name),
            ],
            Self::Hydra => vec![
                ("PMI_RANK", number.clone()),
                ("PMI_SIZE", count.clone()),
                ("MPI_LOCALRANKID", number),
                ("MPI_LOCALNRANKS", count),
                ("PBS_JOBID", name),
            ],
            Self::Slurm => vec![
                ("SLURM_PROCID", number.clone()),
                ("SLURM_NTASKS", count.clone()),
                ("SLURM_LOCALID", number),
                ("SLURM_STEP_TASKS_PER_NODE", count),
                ("SLURM_NODEID", "0".to_owned()),
                ("SLURM_STEP_ID", "0".to_owned()),
                ("SLURM_JOB_ID", name),
            ],
            Self::Pmi => {
                vec![("PMI_RANK", number), ("PMI_SIZE", count), ("PBS_JOBID", name)]
            }
        }
    }
}

/// A rank that has ended.
#[derive(Debug)]
struct EndedRank {
    pid: u32,
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl EndedRank {
    /// Numbers that the program has printed: rank, process, bytes written and read.
    #[track_caller]
    fn printed(&self) -> [u64; 4] {
        let numbers = self.stdout.split_whitespace().map(|word| word.parse().expect("a number"));
        let numbers: Vec<u64> = numbers.collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// Starts `iotrace-perf OPTIONS -- PROGRAM` as a rank.
fn start(variables: &[(&str, String)], options: &[&str], program: &[&str]) -> Child {
    rank_command(BINARY, variables, options, program).spawn().expect("it starts")
}

fn rank_command(
    binary: &str,
    variables: &[(&str, String)],
    options: &[&str],
    program: &[&str],
) -> Command {
    let mut command = Command::new(binary);
    command.args(["record", "--per-node", "--no-archive"]).args(options).arg("--").args(program);
    command.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the ends of all ranks.
fn ended(ranks: Vec<Child>) -> Vec<EndedRank> {
    let end = |mut child: Child| {
        let status = process::wait(&mut child, TIMEOUT).expect("it ends");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
        EndedRank { pid: child.id(), status, stdout, stderr }
    };
    ranks.into_iter().map(end).collect()
}

/// Runs four ranks of `rank_io`, the last one first.
fn run_ranks(launcher: Launcher, dir: &Path, options: &[&str], end: &str) -> Vec<EndedRank> {
    let program = compile("rank_io.c", dir);
    let job = format!("{}.{end}", dir.file_name().expect("a name").to_string_lossy());
    let output = dir.join("job_{HOSTNAME}.iocap");
    let options = [options, &["-o", text(&output)]].concat();
    let mut ranks: Vec<Child> = Vec::new();
    for rank in (0..4).rev() {
        let variables = launcher.variables(&job, rank, 4);
        ranks.insert(0, start(&variables, &options, &[&program, text(dir), end]));
    }
    ended(ranks)
}

/// Opens the one log of a directory.
#[track_caller]
fn one_log(dir: &Path) -> Recording {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("one").path());
    let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "iocap");
    let logs: Vec<_> = entries.filter(is_log).collect();
    let [log] = logs.as_slice() else { panic!("{logs:?}") };
    Recording::open(log)
}

/// Row of a process in `summary --by process`.
#[track_caller]
fn row(report: &Value, pid: u64) -> Value {
    let rows = report["processes"].as_array().expect("a table");
    rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("{pid}: {rows:#?}")).clone()
}

/// Compares the bytes of each rank with those that its program has counted.
#[track_caller]
fn check_bytes(recording: &Recording, ranks: &[EndedRank]) {
    let report = recording.report_with(&["summary", "--by", "process", "-n", "0"]);
    let operations = recording.operations();
    for ended in ranks {
        let [rank, pid, written, read] = ended.printed();
        let row = row(&report, pid);
        assert_eq!(row["rank"], rank, "{row}");
        assert_eq!(row["written_bytes"], written + ended.stdout.len() as u64, "{row}");
        // The loader makes such calls, too, of other lengths.
        let its = operations.iter().filter(|operation| {
            let is_own = u64::from(operation.pid.cast_unsigned()) == pid;
            is_own && operation.name == "pread64" && operation.result == Some(127)
        });
        let bytes: i64 = its.filter_map(|operation| operation.result).sum();
        assert_eq!(bytes.cast_unsigned(), read, "rank {rank}");
    }
}

/// Fails if a rank is not recorded, if a byte of it is missing, or if its program is not the
/// process that the launcher has started.
#[track_caller]
fn check_launcher(launcher: Launcher) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("ranks");
    let ranks = run_ranks(launcher, dir.path(), &[], "ok");
    for rank in &ranks {
        assert!(rank.status.success(), "{rank:?}");
    }
    let recording = one_log(dir.path());
    recording.assert_whole();
    check_bytes(&recording, &ranks);
    let known = recording.info["ranks"].as_array().expect("ranks");
    let known: Vec<_> = known.iter().map(|known| [&known["rank"], &known["pid"]]).collect();
    let printed: Vec<_> = ranks.iter().map(EndedRank::printed).collect();
    for (known, [rank, pid, ..]) in known.iter().zip(&printed) {
        assert_eq!([known[0].as_u64(), known[1].as_u64()], [Some(*rank), Some(*pid)]);
    }
    assert_eq!(known.len(), 4, "{known:?}");
    // One of them has the recorder as its parent, the first one if the launcher names it.
    let is_started = |rank: &EndedRank| rank.printed()[1] == u64::from(rank.pid);
    assert_eq!(ranks.iter().filter(|rank| is_started(rank)).count(), 3, "{ranks:?}");
    let has_local_ranks = !matches!(launcher, Launcher::Pmi);
    assert!(!has_local_ranks || !is_started(&ranks[0]), "{ranks:?}");
    let told = ranks.iter().filter(|rank| !rank.stderr.is_empty()).count();
    assert_eq!(told, 1, "{ranks:?}");
}

#[test]
fn ranks_of_open_mpi_are_recorded_together() {
    check_launcher(Launcher::OpenMpi);
}

#[test]
fn ranks_of_hydra_are_recorded_together() {
    check_launcher(Launcher::Hydra);
}

#[test]
fn ranks_of_slurm_are_recorded_together() {
    check_launcher(Launcher::Slurm);
}

#[test]
fn ranks_without_local_numbers_are_recorded_together() {
    check_launcher(Launcher::Pmi);
}

/// Fails if the launcher does not see how a rank ends.
#[test]
fn status_and_signal_of_each_rank_reach_the_launcher() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for (end, failing, code, signal) in [("exit", 1, Some(7), None), ("signal", 2, None, Some(11))]
    {
        let dir = scratch_dir("ranks");
        let ranks = run_ranks(Launcher::OpenMpi, dir.path(), &[], end);
        for (place, rank) in ranks.iter().enumerate() {
            let expected = if place == failing { (code, signal) } else { (Some(0), None) };
            assert_eq!((rank.status.code(), rank.status.signal()), expected, "{rank:?}");
        }
        check_bytes(&one_log(dir.path()), &ranks);
    }
}

/// Fails if the launcher learns of the end of the recorder's rank only when all others have ended:
/// they may wait for that one.
#[test]
fn failure_of_the_recorders_rank_is_not_held_back() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("ranks");
    let program = compile("rank_io.c", dir.path());
    let output = dir.path().join("job.iocap");
    let start_rank = |rank| {
        let variables = Launcher::Slurm.variables(text(dir.path()), rank, 2);
        start(&variables, &["-o", text(&output)], &[&program, text(dir.path()), "first"])
    };
    let (mut other, first) = (start_rank(1), start_rank(0));
    let first = ended(vec![first]).remove(0);
    assert_eq!(first.status.signal(), Some(9), "{first:?}");
    assert!(other.try_wait().expect("ours").is_none(), "it runs for 30 s");
    other.kill().and_then(|()| other.wait()).expect("ours");
    let recording = one_log(dir.path());
    recording.assert_whole();
    assert_eq!(recording.info["end_reason"], "failed rank");
    assert!(recording.text_info().contains("after the program of rank 0 had failed"));
}

/// Fails if ranks do not run because their recorder cannot record.
#[test]
fn ranks_run_without_their_recorder() {
    let _turn = beside_others();
    let dir = scratch_dir("ranks");
    let program = compile("rank_io.c", dir.path());
    let output = dir.path().join("job.iocap");
    fs::write(&output, "another file").expect("space");
    let start_rank = |rank| {
        let variables = Launcher::Hydra.variables(text(dir.path()), rank, 2);
        start(&variables, &["-o", text(&output)], &[&program, text(dir.path()), "ok"])
    };
    let ranks = ended(vec![start_rank(0), start_rank(1)]);
    assert_eq!(ranks[0].status.code(), Some(125), "{ranks:?}");
    assert!(ranks[1].status.success(), "{ranks:?}");
    let said = "rank 1 runs and may not be recorded: the recorder of this node ended";
    assert!(ranks[1].stderr.contains(said), "{ranks:?}");
}

/// Fails if the whole machine is recorded by each rank.
#[test]
fn machine_is_recorded_once() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("ranks");
    let ranks = run_ranks(Launcher::OpenMpi, dir.path(), &["-a"], "ok");
    let recording = one_log(dir.path());
    assert_eq!(recording.info["mode"], "system");
    check_bytes(&recording, &ranks);
}

/// Fails if two recordings in one task of a launcher take each other's ranks.
#[test]
fn recordings_of_one_task_do_not_mix() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("ranks");
    let program = compile("rank_io.c", dir.path());
    let logs = ["a.iocap", "b.iocap"].map(|name| dir.path().join(name));
    let mut ranks = Vec::new();
    for log in &logs {
        for rank in [0, 1] {
            let variables = Launcher::OpenMpi.variables(text(dir.path()), rank, 2);
            let program = [program.as_str(), text(dir.path()), "ok"];
            ranks.push(start(&variables, &["-o", text(log)], &program));
        }
    }
    for (log, ranks) in logs.iter().zip(ended(ranks).chunks(2)) {
        let recording = Recording::open(log);
        recording.assert_whole();
        let known = recording.info["ranks"].as_array().expect("ranks");
        let known: Vec<_> = known.iter().map(|known| known["pid"].as_u64()).collect();
        let printed: Vec<_> = ranks.iter().map(|rank| Some(rank.printed()[1])).collect();
        assert_eq!(known, printed, "{ranks:?}");
        check_bytes(&recording, ranks);
    }
}

/// Fails if a recorder takes two processes for one rank, because two recordings of a task have the
/// same name.
#[test]
fn rank_is_recorded_once_by_a_recorder() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("ranks");
    let program = compile("rank_io.c", dir.path());
    let output = dir.path().join("same.iocap");
    let start_rank = |rank| {
        let variables = Launcher::OpenMpi.variables(text(dir.path()), rank, 2);
        start(&variables, &["-o", text(&output)], &[&program, text(dir.path()), "ok"])
    };
    let firsts = [start_rank(0), start_rank(0)];
    let own = dir.path().join("same_rank0.iocap");
    wait_until("one of them records itself", || own.exists());
    let ranks = ended(firsts.into_iter().chain([start_rank(1)]).collect());
    let is_refused = |rank: &&EndedRank| rank.stderr.contains("is in another recording");
    assert_eq!(ranks.iter().filter(is_refused).count(), 1, "{ranks:?}");
    let recording = Recording::open(&output);
    let known = recording.info["ranks"].as_array().expect("ranks");
    let known: Vec<_> = known.iter().map(|known| known["rank"].as_u64()).collect();
    assert_eq!(known, [Some(0), Some(1)], "{ranks:?}");
}

/// Fails if a process that no launcher has started waits for others, or records.
#[test]
fn launcher_is_needed() {
    let refused = ended(vec![start(&[], &[], &["true"])]).remove(0);
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stderr.contains("no launcher of a parallel job"), "{refused:?}");
}

/// Takes the abstract name of its argument, and never accepts a connection.
const SQUATTER: &str = "import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(chr(0) + sys.argv[1])
s.listen(8)
time.sleep(60)";

/// Returns the abstract name of a waiting recorder.
fn name_of_recorder() -> Option<String> {
    let sockets = fs::read_to_string("/proc/net/unix").expect("a table");
    let name = sockets.lines().find_map(|line| line.split_once(" @iotrace-perf/"))?.1;
    Some(format!("iotrace-perf/{name}"))
}

/// Fails if another user can keep ranks from running or from being recorded, by taking the name of
/// their recorder.
#[test]
fn name_of_another_user_is_not_trusted() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("ranks");
    let program = compile("rank_io.c", dir.path());
    let output = dir.path().join("job.iocap");
    let start_rank = |rank| {
        let variables = Launcher::Hydra.variables(text(dir.path()), rank, 2);
        start(&variables, &["-o", text(&output)], &[&program, text(dir.path()), "ok"])
    };
    let mut waiting = start_rank(0);
    wait_until("a recorder waits", || name_of_recorder().is_some());
    let name = name_of_recorder().expect("it waits");
    waiting.kill().and_then(|()| waiting.wait()).expect("ours");
    let mut squatter = Command::new("python3");
    let mut squatter =
        squatter.args(["-c", SQUATTER, &name]).uid(65534).spawn().expect("it starts");
    wait_until("the name is taken", || name_of_recorder().is_some());
    let ranks = ended(vec![start_rank(0), start_rank(1)]);
    squatter.kill().and_then(|()| squatter.wait()).expect("ours");
    for (rank, ended) in ranks.iter().enumerate() {
        assert!(ended.status.success(), "{ended:?}");
        assert!(ended.stderr.contains("belongs to user 65534"), "{ended:?}");
        let log = dir.path().join(format!("job_rank{rank}.iocap"));
        Recording::open(&log).assert_whole();
    }
}

/// Fails if users without privileges cannot record the ranks of a node together.
#[test]
fn ranks_of_a_user_are_recorded_together() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that all users can reach");
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("ours");
    let binary = dir.path().join("iotrace-perf");
    crate::support::copy_program(BINARY, &binary);
    fs::set_permissions(&binary, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("ours");
    let cached = process::run(Command::new(BINARY).args(["doctor", "--cache"]), TIMEOUT);
    cached.expect("it ends");
    let program = compile("rank_io.c", dir.path());
    let output = dir.path().join("job.iocap");
    let start_rank = |rank| {
        let variables = Launcher::OpenMpi.variables(text(dir.path()), rank, 2);
        let program = [program.as_str(), text(dir.path()), "ok"];
        let mut command = rank_command(text(&binary), &variables, &["-o", text(&output)], &program);
        command.uid(65534).gid(65534).env("HOME", dir.path());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").current_dir(dir.path());
        command.spawn().expect("it starts")
    };
    let ranks = ended(vec![start_rank(1), start_rank(0)]);
    for rank in &ranks {
        assert!(rank.status.success(), "{rank:?}");
    }
    let recording = one_log(dir.path());
    assert_eq!(recording.info["source"], "inherited");
    check_bytes(&recording, &ranks);
}
