//! Index of a job in place of a log: sums of all recordings, ranks and hosts, moved and replaced
//! recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;

mod clocks;
mod notes;
mod places;

use crate::merge::{DD, Made};
use crate::support::driver::process::{Finished, is_own_process, run};
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace};
use crate::support::machine::requirements::{Need, require};
use crate::support::{scratch_dir, text};

const MS: i64 = 1_000_000;

/// Name of the file of an index.
const NAME: &str = "iotrace-job.json";

/// Writes the recordings of a job of two hosts with two ranks each, and of the disks of one.
fn recordings(dir: &Path) -> Vec<PathBuf> {
    let logs = dir.join("logs");
    fs::create_dir(&logs).expect("a directory");
    let rank = |rank, host, later_ns| Made { host, rank: Some(rank), later_ns, ..DD };
    vec![
        rank(0, "alpha", 0).write(&logs, "r0"),
        rank(1, "alpha", 0).write(&logs, "r1"),
        rank(2, "beta", 50 * MS).write(&logs, "r2"),
        rank(3, "beta", 50 * MS).write(&logs, "r3"),
        Made { log: "v2/block-two.iocap", host: "beta", ..DD }.write(&logs, "disk"),
    ]
}

/// Makes the index `job` beside the recordings.
#[track_caller]
fn index(dir: &Path, logs: &[PathBuf]) -> PathBuf {
    let job = dir.join("job");
    let output = format!("{}/", text(&job));
    let mut arguments = vec!["merge", "-o", &output];
    arguments.extend(logs.iter().map(|log| text(log)));
    iotrace(&arguments).success();
    job
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    json_of(&iotrace(arguments).success())
}

#[track_caller]
fn json_of(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout()).expect("JSON")
}

/// Sums of the rows of a table by the words of a row.
fn sums(report: &Value, table: &str, words: &[&str]) -> BTreeMap<String, [u64; 4]> {
    let mut sums = BTreeMap::new();
    for row in report[table].as_array().expect("a table") {
        let key = words.iter().map(|word| row[*word].to_string()).collect::<Vec<_>>().join(" ");
        let sum: &mut [u64; 4] = sums.entry(key).or_default();
        for (sum, key) in sum.iter_mut().zip(["count", "read_bytes", "written_bytes", "time_ns"]) {
            *sum += row[key].as_u64().unwrap_or(0);
        }
    }
    sums
}

/// Keys of a summary that add up.
const ADDED: [&str; 11] = [
    "operations",
    "failed",
    "read_bytes",
    "written_bytes",
    "time_ns",
    "file_ns",
    "waited_ns",
    "unknown_type_ns",
    "no_io_ns",
    "faults",
    "unseen_results",
];

/// Fails if an operation of a recording is in no sum of the job, or in two: as a whole, by call, by
/// rank, by host and by process.
#[test]
fn sums_of_a_job_are_those_of_its_recordings() {
    let dir = scratch_dir("job-sums");
    let logs = recordings(dir.path());
    let job = index(dir.path(), &logs);
    let job = text(&job);
    let whole = json(&["summary", "--json", "--by", "rank", job]);
    let singles: Vec<Value> =
        logs.iter().map(|log| json(&["summary", "--json", text(log)])).collect();
    for key in ADDED {
        let sum: u64 = singles.iter().map(|single| single[key].as_u64().expect(key)).sum();
        assert_eq!(whole[key].as_u64(), Some(sum), "{key}");
    }
    let calls = ["operation", "class"];
    let mut expected = BTreeMap::new();
    for single in &singles {
        for (key, part) in sums(single, "calls", &calls) {
            let sum: &mut [u64; 4] = expected.entry(key).or_default();
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
    assert_eq!(sums(&whole, "calls", &calls), expected);
    // Each of the four ranks has the operations of the same log.
    let ranks = sums(&whole, "ranks", &["host", "rank"]);
    let of_one = sums(&singles[0], "processes", &[])[""];
    for key in ["\"alpha\" 0", "\"alpha\" 1", "\"beta\" 2", "\"beta\" 3"] {
        assert_eq!(ranks.get(key), Some(&of_one), "{key}: {ranks:?}");
    }
    let of_disk = sums(&singles[4], "processes", &[])[""];
    assert_eq!(ranks.get("\"beta\" null"), Some(&of_disk), "{ranks:?}");
    let hosts = sums(&json(&["summary", "--json", "--by", "host", job]), "hosts", &["host"]);
    assert_eq!(hosts["\"alpha\""][0], 2 * of_one[0]);
    assert_eq!(hosts["\"beta\""][0], 2 * of_one[0] + of_disk[0]);
    // Equal numbers of two recordings are different processes.
    let processes = json(&["summary", "--json", "--by", "process", job]);
    let of_job = processes["processes"].as_array().expect("a table").len();
    let of_logs =
        singles.iter().map(|single| single["processes"].as_array().expect("a table").len());
    assert_eq!(of_job, of_logs.sum::<usize>());
    let places = sums(&processes, "processes", &["host", "rank", "pid", "comm"]);
    assert_eq!(places.len(), of_job, "{places:?}");
    assert_eq!(whole["recordings_read"], 5);
}

/// Fails if two hosts share a local file or a disk, or have a shared file twice.
#[test]
fn files_and_disks_of_hosts_are_apart() {
    let dir = scratch_dir("job-files");
    let shared = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                  30 22 0:40 / /tmp/iotrace-corpus rw - nfs4 server:/export rw\n";
    let mounts = Some(shared);
    let made = [
        Made { mounts, ..DD }.write(dir.path(), "a"),
        Made { mounts, host: "beta", ..DD }.write(dir.path(), "b"),
        Made { log: "v2/block-two.iocap", ..DD }.write(dir.path(), "c"),
        Made { log: "v2/block-two.iocap", host: "beta", ..DD }.write(dir.path(), "d"),
    ];
    let job = index(dir.path(), &made);
    let report = json(&["files", "--json", text(&job)]);
    let files = sums(&report, "files", &["path"]);
    let one = sums(&json(&["files", "--json", text(&made[0])]), "files", &["path"]);
    let part = "\"/tmp/iotrace-corpus/part.3\"";
    assert_eq!(files[part][0], 2 * one[part][0]);
    let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    assert!(!files.contains_key(&format!("\"{libc}\"")), "{:?}", files.keys());
    for host in ["alpha", "beta"] {
        assert!(files.contains_key(&format!("\"{host}:{libc}\"")), "{host}");
    }
    let summary = json(&["summary", "--json", text(&job)]);
    let devices = summary["devices"].as_array().expect("a table");
    let names: BTreeSet<&str> = devices.iter().filter_map(|row| row["device"].as_str()).collect();
    assert!(names.iter().any(|name| name.starts_with("alpha:")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("beta:")), "{names:?}");
    let slow = json(&["slow", "--json", text(&job)]);
    let hosts: BTreeSet<String> = slow["slowest"]
        .as_array()
        .expect("a table")
        .iter()
        .map(|row| row["host"].to_string())
        .collect();
    assert_eq!(hosts.len(), 2, "{hosts:?}");
}

/// Fails if the latest rank is not named, or is named although the clocks do not show it.
#[test]
fn last_rank_is_named_only_beyond_the_bound_of_the_clocks() {
    for (name, later_ns, moved_ns, is_claimed) in
        [("far", 900 * MS, 0, true), ("near", 5_000, 0, false), ("moved", 40 * MS, 90 * MS, false)]
    {
        let dir = scratch_dir(name);
        let rank = |rank, host, later_ns| Made { host, rank: Some(rank), later_ns, ..DD };
        let logs = [
            rank(0, "alpha", 0).write(dir.path(), "r0"),
            rank(1, "alpha", 0).write(dir.path(), "r1"),
            Made { moved_ns, ..rank(2, "beta", later_ns) }.write(dir.path(), "r2"),
        ];
        let job = index(dir.path(), &logs);
        let report = json(&["summary", "--json", text(&job)]);
        let found = report["findings"].as_array().expect("a table");
        let straggler = found.iter().find(|row| row["finding"] == "straggler").expect("a finding");
        let sentence = straggler["text"].as_str().expect("a sentence");
        assert_eq!(sentence.starts_with("rank 2 (beta) ended"), is_claimed, "{name}: {sentence}");
        assert_eq!(sentence.contains("is not known"), !is_claimed, "{name}: {sentence}");
        assert_eq!(report["last_io_rank"], 2, "{name}");
        let late = report["last_io_ns"].as_i64().zip(report["last_io_median_ns"].as_i64());
        let late = late.expect("numbers");
        let range = later_ns - 200_000..=later_ns + moved_ns + 200_000;
        assert!(range.contains(&(late.0 - late.1)), "{name}: {late:?}");
    }
}

/// Fails if a recording that is not the one of the index is read, or costs the others.
#[test]
fn missing_and_replaced_recordings_are_reported_and_the_rest_is_summed_up() {
    let dir = scratch_dir("job-bad");
    let logs = recordings(dir.path());
    let job = index(dir.path(), &logs);
    let operations = |report: &Value| report["operations"].as_u64().expect("a number");
    let one = operations(&json(&["summary", "--json", text(&logs[1])]));
    fs::remove_file(&logs[0]).expect("ours");
    let mut bytes = fs::read(&logs[2]).expect("a log");
    bytes[200] ^= 1;
    fs::write(&logs[2], &bytes).expect("space");
    let bytes = fs::read(&logs[3]).expect("a log");
    fs::write(&logs[3], &bytes[..bytes.len() - 9]).expect("space");
    let disk = operations(&json(&["summary", "--json", text(&logs[4])]));
    let finished = iotrace(&["summary", "--json", text(&job)]);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    let report = json_of(&finished);
    assert_eq!(operations(&report), one + disk);
    let incomplete = report["incomplete"].to_string();
    for part in ["rank 0", "it is not there", "another recording", "another length"] {
        assert!(incomplete.contains(part), "{part}: {incomplete}");
    }
    let info = iotrace(&["info", text(&job)]);
    assert_eq!(info.status.code(), Some(1));
    assert!(info.stdout().contains("not usable"), "{}", info.stdout());
    let each = iotrace(&["disk", text(&job)]);
    assert_eq!(each.status.code(), Some(1));
    assert_eq!(each.stderr().matches("NOT READ:").count(), 3, "{}", each.stderr());
    assert!(each.stdout().contains("alpha, rank 1:\n"), "{}", each.stdout());
    let lines = iotrace(&["script", "--json", text(&job)]);
    assert_eq!(lines.status.code(), Some(1));
    let first: Value =
        serde_json::from_str(lines.stdout().lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["host"], &first["rank"]), (&"alpha".into(), &1.into()));
}

/// Fails if an index and its recordings cannot be moved together, or if an index that was moved
/// alone reads other files.
#[test]
fn index_moves_with_its_recordings() {
    let dir = scratch_dir("job-move");
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    fs::create_dir(&old).expect("a directory");
    index(&old, &recordings(&old));
    fs::rename(&old, &new).expect("one file system");
    iotrace(&["summary", text(&new.join("job"))]).success();
    let alone = dir.path().join("alone").join("job");
    fs::create_dir_all(&alone).expect("a directory");
    fs::copy(new.join("job").join(NAME), alone.join(NAME)).expect("space");
    let finished = iotrace(&["summary", "--json", text(&alone)]);
    assert_eq!(finished.status.code(), Some(1));
    let report = json_of(&finished);
    assert_eq!((&report["operations"], &report["recordings_read"]), (&0.into(), &0.into()));
    // An index that exists is not overwritten, and the directory of an archive gets none.
    let archive = new.join("other.otf2");
    fs::write(&archive, "").expect("space");
    let other = format!("{}/", text(&new.join("other")));
    let refused = iotrace(&["merge", text(&new.join("logs")), "-o", &other]);
    assert!(refused.stderr().contains("directory of the archive"), "{}", refused.stderr());
    let output = format!("{}/", text(&alone));
    let again = iotrace(&["merge", text(&new.join("logs")), "-o", &output]);
    assert_eq!(again.status.code(), Some(125));
    iotrace(&["merge", text(&new.join("logs")), "-o", &output, "--force"]).success();
    iotrace(&["summary", text(&alone)]).success();
}

/// Writes recordings of four ranks a host, and their index; returns the index.
fn many(dir: &Path, recordings: u64) -> String {
    let logs = dir.join("logs");
    fs::create_dir(&logs).expect("a directory");
    for number in 0..recordings {
        let host = format!("node{:03}", number / 4);
        let rank = Some(number);
        Made { host: &host, rank, ..DD }.write(&logs, &format!("r{number:03}"));
    }
    let job = format!("{}/", text(&dir.join("job")));
    let said = with_few_files(&["merge", text(&logs), "-o", &job]).stderr();
    let counts = format!("{recordings} recordings of {} hosts", recordings / 4);
    assert!(said.contains(&counts), "{said}");
    job
}

/// Runs the program with 64 open files at most.
#[track_caller]
fn with_few_files(arguments: &[&str]) -> Finished {
    let limit = "ulimit -n 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limit, BINARY]).args(arguments);
    run(&mut command, TIMEOUT).expect("it ends").success()
}

/// Asks the index of that many recordings; returns the most memory that any child has had so far,
/// KiB.
fn peak_of(recordings: u64) -> i64 {
    let dir = scratch_dir("job-many");
    let job = many(dir.path(), recordings);
    let report = json_of(&with_few_files(&["summary", "--json", "--by", "rank", &job]));
    assert_eq!(report["ranks"].as_array().map(|rows| rows.len() as u64), Some(recordings));
    assert_eq!(report["recordings_read"], recordings);
    with_few_files(&["info", &job]);
    with_few_files(&["merge", &job, "-o", text(&dir.path().join("page.html"))]);
    getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is always there").max_rss()
}

/// Growth of memory with 448 more recordings, KiB: 512 recordings themselves have 13 MB, and their
/// rows of ranks and hosts are small.
const GROWTH_KIB: i64 = 40 << 10;

/// Fails if open files or memory grow with the number of recordings.
#[test]
fn many_recordings_need_few_files_and_little_memory() {
    // The peak is that of all children of a process, and never falls.
    if !is_own_process("job_index::many_recordings_need_few_files_and_little_memory") {
        return;
    }
    let [few, many] = [64, 512].map(peak_of);
    assert!(many < few + GROWTH_KIB, "{few} KiB, {many} KiB");
}

/// Fails if a recording of one rank, or of several ones, has no rows of ranks and hosts.
#[test]
fn one_recording_has_ranks_and_hosts_too() {
    let dir = scratch_dir("job-one");
    let log = Made { rank: Some(3), ..DD }.write(dir.path(), "a");
    let ranks = json(&["summary", "--json", "--by", "rank", text(&log)]);
    let whole = sums(&ranks, "processes", &[])[""];
    assert_eq!(sums(&ranks, "ranks", &["host", "rank"])["\"alpha\" 3"], whole);
    let hosts = json(&["summary", "--json", "--by", "host", text(&log)]);
    assert_eq!(sums(&hosts, "hosts", &["host", "ranks"])["\"alpha\" 1"], whole);
    let refused = iotrace(&["files", "--by", "rank", text(&log)]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stderr().contains("summary --by rank"), "{}", refused.stderr());
}

/// Fails if a subcommand takes the index for a log.
#[test]
fn each_subcommand_answers_for_a_job_or_names_one_recording() {
    let dir = scratch_dir("job-verbs");
    let job = index(dir.path(), &recordings(dir.path()));
    let job = text(&job);
    for verb in ["summary", "files", "latency", "slow", "info", "script"] {
        iotrace(&[verb, job]).success();
    }
    let page = dir.path().join("job.html");
    iotrace(&["report", job]).success();
    let page = fs::read_to_string(page).expect("a page beside the index");
    for part in ["<html", "alpha", "beta", "rank 3"] {
        assert!(page.contains(part), "{part}");
    }
    for verb in ["disk", "neighbours", "cache", "what-if", "pattern", "stacks", "advise"] {
        let said = iotrace(&[verb, job]).success().stdout();
        assert_eq!(said.matches(", rank ").count(), 4, "{verb}: {said}");
    }
    for arguments in [&["report", "--failed", job][..], &["replay", "plan", job], &["convert", job]]
    {
        let refused = iotrace(arguments);
        assert_eq!(refused.status.code(), Some(125), "{arguments:?}");
        assert!(refused.stderr().contains("takes one recording of a job"), "{arguments:?}");
    }
    iotrace(&["diff", "--exit-code", job, job]).success();
    let tables = dir.path().join("job.parquet");
    iotrace(&["convert", job, "-o", text(&tables)]).success();
    for place in ["host=alpha/rank=0", "host=alpha/rank=1", "host=beta/rank=2", "host=beta/rank=3"]
    {
        assert!(tables.join("operations").join(place).is_dir(), "{place}");
    }
    if require(Need::Otf2Print) {
        let archive = dir.path().join("all.otf2");
        let said = iotrace(&["convert", job, "-o", text(&archive)]).success().stderr();
        assert!(said.contains("merged 5 recordings of 2 hosts"), "{said}");
    }
}
