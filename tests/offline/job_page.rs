//! The page of a job: the numbers of each rank are those of `summary --json`, it stays small with
//! many ranks, and it says what is missing.
//!
//! The recordings are logs of the corpus with another host and place in a job.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

mod browser;
mod damage;
mod many_ranks;

use iotrace_perf::capture::header::{Header, JobPlace, ProcessRank};
use serde_json::Value;

use crate::support::driver::process::Finished;
use crate::support::driver::recording::iotrace;
use crate::support::log_copy::copy_with_header;
use crate::support::page::markup::unbalanced;
use crate::support::page::{check_references, data, printed};
use crate::support::{scratch_dir, text};

/// Largest page of a job.
const JOB_PAGE_BYTES_MAX: usize = 3_000_000;

/// Number of fields of a cell in the data of the map.
const CELL: usize = 5;

/// Copies a log of the corpus with a changed header.
#[track_caller]
fn copied(log: &str, path: &Path, change: impl Fn(&mut Header)) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    let path = path.with_extension("iocap");
    copy_with_header(&corpus.join(log).with_extension("iocap"), &path, |header| {
        header.host.kernel_release = "6.18".to_owned();
        change(header);
    });
    path
}

/// Copies a log as that of a rank on a host.
#[track_caller]
fn ranked(log: &str, path: &Path, host: &str, rank: u64) -> PathBuf {
    copied(log, path, |header| {
        header.host.hostname = host.to_owned();
        header.scope.mode = "launch".to_owned();
        header.job = Some(JobPlace { rank: Some(rank), size: Some(4), ..JobPlace::default() });
    })
}

/// Makes the page of recordings.
fn merged(logs: &[&Path], page: &Path, options: &[&str]) -> Finished {
    let mut arguments = vec!["merge", "-o", text(page)];
    arguments.extend(options);
    arguments.extend(logs.iter().map(|log| text(log)));
    iotrace(&arguments)
}

/// Makes the page of whole recordings, and checks what holds for every page. Returns it.
#[track_caller]
fn page_of(logs: &[PathBuf], page: &Path) -> String {
    let logs: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    merged(&logs, page, &[]).success();
    checked(page)
}

#[track_caller]
fn checked(path: &Path) -> String {
    let page = fs::read_to_string(path).expect("a page");
    assert!(page.len() <= JOB_PAGE_BYTES_MAX, "{} bytes", page.len());
    check_references(&page, text(path));
    assert_eq!(unbalanced(&page), None);
    check_map(&page);
    page
}

/// Rows of a table of the data.
#[track_caller]
fn rows(page: &str, table: &str) -> Vec<Value> {
    data(page, "job").0[table].as_array().expect(table).clone()
}

#[track_caller]
fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Keys of the sums that a line of the map has cell by cell, with their places in a cell.
const CELL_KEYS: [(usize, &str); 4] =
    [(1, "file_read_bytes"), (2, "file_written_bytes"), (3, "other_operations"), (4, "file_ns")];

/// Checks that the cells of each line of the map add up to its sums, and the lines to the facts.
#[track_caller]
fn check_map(page: &str) {
    let ((map, _), (job, _)) = (data(page, "job-map"), data(page, "job"));
    let lines = map["lines"].as_array().expect("lines");
    for line in lines {
        let cells: Vec<u64> =
            line["cells"].as_array().expect("cells").iter().filter_map(Value::as_u64).collect();
        assert_eq!(cells.len() % CELL, 0);
        for (place, key) in CELL_KEYS {
            let sum: u64 = cells.iter().skip(place).step_by(CELL).sum();
            assert_eq!(sum, number(line, key), "{key} of {}", line["name"]);
        }
        let columns: Vec<u64> = cells.iter().step_by(CELL).copied().collect();
        assert!(columns.is_sorted_by(|one, other| one < other));
        let end = columns.last().map_or(0, |column| column * number(&map, "column_ns"));
        assert!(end <= number(&map, "to_ns"), "{}", line["name"]);
    }
    for key in ["operations", "failed", "file_operations", "file_read_bytes", "file_ns"] {
        let sum: u64 = lines.iter().map(|line| number(line, key)).sum();
        assert_eq!(sum, number(&job, key), "{key}");
        let ranks: u64 = rows(page, "ranks").iter().map(|rank| number(rank, key)).sum();
        assert_eq!(sum, ranks, "{key}");
        let hosts: u64 = rows(page, "hosts").iter().map(|host| number(host, key)).sum();
        assert_eq!(sum, hosts, "{key}");
    }
}

/// Sums of `summary --json` of a log by the keys of the page.
#[track_caller]
fn summary_sums(log: &Path) -> BTreeMap<&'static str, u64> {
    let summary = printed(&["summary", "--json", "-n", "0"], log);
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let mut sums = BTreeMap::new();
    for key in ["operations", "failed", "read_bytes", "written_bytes", "time_ns", "file_ns"] {
        sums.insert(key, number(&summary, key));
    }
    let calls = summary["calls"].as_array().expect("a table").iter();
    let on_files: Vec<&Value> = calls.filter(|call| call["class"] == "file").collect();
    for (key, of_call) in [
        ("file_operations", "count"),
        ("file_read_bytes", "read_bytes"),
        ("file_written_bytes", "written_bytes"),
    ] {
        sums.insert(key, on_files.iter().map(|call| number(call, of_call)).sum());
    }
    sums
}

/// Logs of four ranks on two hosts.
fn four_ranks(dir: &Path) -> Vec<PathBuf> {
    ["v2/job", "v2/questions", "v2/block-xfs", "v2/asynchronous"]
        .iter()
        .zip([("beta", 0), ("beta", 1), ("alpha", 2), ("alpha", 3)])
        .map(|(log, (host, rank))| ranked(log, &dir.join(rank.to_string()), host, rank))
        .collect()
}

/// Fails if a number of a rank is not that of `summary` of its recording, or if a rank is in the
/// wrong place.
#[test]
fn numbers_of_ranks_are_those_of_their_summaries() {
    let dir = scratch_dir("job-page");
    let logs = four_ranks(dir.path());
    let page = page_of(&logs, &dir.path().join("job.html"));
    let ranks = rows(&page, "ranks");
    assert_eq!(ranks.len(), 4);
    for (rank, log) in logs.iter().enumerate() {
        let row = ranks.iter().find(|row| row["rank"] == rank).expect("a row");
        for (key, expected) in summary_sums(log) {
            assert_eq!(number(row, key), expected, "{key} of rank {rank}");
        }
        assert_eq!(row["host"], if rank < 2 { "beta" } else { "alpha" });
        // The slowest file is one of the summary, with its time.
        let summary = printed(&["summary", "--json", "-n", "0"], log);
        let summary: Value = serde_json::from_str(&summary).expect("JSON");
        let files = summary["files"].as_array().expect("files").iter();
        let same = |file: &&Value| {
            file["path"] == row["slowest_file"] && file["time_ns"] == row["slowest_file_ns"]
        };
        assert_eq!(files.filter(same).count(), 1, "{row}");
    }
    // The host of rank 0 comes first, and the table begins with the longest time.
    let (map, _) = data(&page, "job-map");
    let names: Vec<&str> = map["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| line["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["rank 0", "rank 1", "rank 2", "rank 3"]);
    let times: Vec<u64> = ranks.iter().map(|row| number(row, "file_ns")).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    let (job, _) = data(&page, "job");
    for fact in ["wall_ns", "host_count", "file_operations", "file_ns", "file_read_bytes"] {
        let shown = format!("data-fact=\"{fact}\" data-v=\"{}\"", job[fact]);
        assert!(page.contains(&shown), "no {shown}");
    }
}

/// Fails if the ranks of a log of a node do not have the sums of their processes and of the
/// children of these, or if the other processes are lost.
#[test]
fn ranks_of_a_node_have_the_sums_of_their_processes() {
    const FIRST: i32 = 27_098;
    for (name, pids, others) in
        [("ranks", [FIRST, FIRST - 1], false), ("others", [FIRST - 2, FIRST - 1], true)]
    {
        let dir = scratch_dir("job-node");
        let node = copied("v2/identity", &dir.path().join(name), |header| {
            header.scope.mode = "launch".to_owned();
            header.job = Some(JobPlace { rank: Some(7), size: Some(9), ..JobPlace::default() });
            header.scope.ranks = pids
                .into_iter()
                .zip([7, 8])
                .map(|(pid, rank)| ProcessRank { pid, rank: Some(rank), local_rank: None })
                .collect();
        });
        let printed = printed(&["summary", "--by", "process", "--json", "-n", "0"], &node);
        let processes: Value = serde_json::from_str(&printed).expect("JSON");
        let page = page_of(std::slice::from_ref(&node), &dir.path().join("job.html"));
        let ranks = rows(&page, "ranks");
        let names: Vec<&str> = ranks.iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names.contains(&"(processes without a rank)"), others, "{names:?}");
        assert!(names.contains(&"rank 7") && names.contains(&"rank 8"), "{names:?}");
        for row in &ranks {
            let own = processes["processes"].as_array().expect("processes").iter();
            let own: Vec<&Value> = own.filter(|process| process["rank"] == row["rank"]).collect();
            for (key, of_process) in [
                ("operations", "count"),
                ("failed", "errors"),
                ("read_bytes", "read_bytes"),
                ("written_bytes", "written_bytes"),
                ("time_ns", "time_ns"),
            ] {
                let expected: u64 = own.iter().map(|process| number(process, of_process)).sum();
                assert_eq!(number(row, key), expected, "{key} of {}", row["name"]);
            }
        }
        let operations: u64 = ranks.iter().map(|row| number(row, "operations")).sum();
        assert_eq!(operations, number(&processes, "operations"));
        assert!(page.contains("Ranks of 9 without a recording of their own: 0-6"));
    }
}

/// Fails if a recording of the whole machine, or of a program without a rank, has no row.
#[test]
fn recordings_without_ranks_have_rows() {
    let dir = scratch_dir("job-rankless");
    let on = |host: &'static str, mode: &'static str| {
        move |header: &mut Header| {
            header.host.hostname = host.to_owned();
            header.scope.mode = mode.to_owned();
            header.job = None;
        }
    };
    let logs = [
        copied("v2/job", &dir.path().join("program"), on("alpha", "launch")),
        copied("v2/questions", &dir.path().join("machine"), on("beta", "system")),
    ];
    let page = page_of(&logs, &dir.path().join("job.html"));
    let ranks = rows(&page, "ranks");
    for (name, host, log) in [("program.iocap", "alpha", 0), ("(whole machine)", "beta", 1)] {
        let is_of = |row: &&Value| row["name"].as_str().is_some_and(|text| text.ends_with(name));
        let row = ranks.iter().find(is_of).unwrap_or_else(|| panic!("{name}: {ranks:?}"));
        assert_eq!(row["host"], host);
        assert_eq!(number(row, "operations"), summary_sums(&logs[log])["operations"]);
    }
}

/// Fails if a file of several ranks lacks one of them, or its bytes.
#[test]
fn files_of_several_ranks_are_found() {
    let dir = scratch_dir("job-files");
    let logs: Vec<PathBuf> = [("alpha", 0), ("alpha", 1), ("beta", 2)]
        .map(|(host, rank)| ranked("v2/job", &dir.path().join(rank.to_string()), host, rank))
        .into();
    let page = page_of(&logs, &dir.path().join("job.html"));
    let files = rows(&page, "files");
    let part = |host: &str| {
        let is_part =
            |file: &&Value| file["path"] == "/tmp/iotrace-corpus/part.3" && file["host"] == host;
        files.iter().find(is_part).cloned()
    };
    let file = part("alpha").expect("a file of two ranks");
    assert_eq!((&file["rank_count"], &file["ranks"]), (&2.into(), &"0-1".into()));
    let summary = printed(&["summary", "--json", "-n", "0"], &logs[0]);
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let of_one = summary["files"].as_array().expect("files").iter();
    let of_one = of_one.filter(|one| one["path"] == file["path"]).collect::<Vec<_>>();
    for key in ["read_bytes", "written_bytes", "time_ns"] {
        assert_eq!(number(&file, key), 2 * number(of_one[0], key), "{key}");
    }
    // The local file of another host is another one.
    assert_eq!(part("beta"), None, "{files:?}");
}

/// Fails if names of hosts, files or recordings become markup.
#[test]
fn names_are_text() {
    let dir = scratch_dir("job-names");
    let host = "</script><script>alert(1)</script><img src=x>";
    let odd = dir.path().join("<b>&\" onmouseover=x");
    let log = copied("v2/job", &odd, |header| {
        header.host.hostname = host.to_owned();
        header.job = None;
        header.scope.mode = "launch".to_owned();
    });
    let other = ranked("v2/job", &dir.path().join("other"), host, 3);
    let output = dir.path().join("job.html");
    merged(&[&log, &other], &output, &[]).success();
    let page = fs::read_to_string(&output).expect("a page");
    assert_eq!(unbalanced(&page), None);
    for part in ["<script>alert", "<img", "<b>"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert_eq!(rows(&page, "hosts")[0]["host"], host);
}

/// Fails if the page claims an order that clocks do not show.
#[test]
fn clocks_are_stated_where_times_are() {
    let dir = scratch_dir("job-clocks");
    let one = ranked("v2/job", &dir.path().join("one"), "alpha", 0);
    let page = page_of(std::slice::from_ref(&one), &dir.path().join("one.html"));
    assert!(page.contains("All recordings are of one clock."));
    let later = |by: u64| {
        move |header: &mut Header| {
            header.host.hostname = "beta".to_owned();
            header.scope.mode = "launch".to_owned();
            header.job = Some(JobPlace { rank: Some(1), ..JobPlace::default() });
            header.clock.start_realtime_ns += by;
        }
    };
    let two = copied("v2/job", &dir.path().join("two"), later(50_000_000));
    let page = page_of(&[one.clone(), two], &dir.path().join("two.html"));
    let (job, _) = data(&page, "job");
    assert!(number(&job, "clock_error_bound_ns") >= 20_000, "{job}");
    assert!(page.contains("are in no known order"));
    // The second host begins when its wall clock says so.
    let (map, _) = data(&page, "job-map");
    let cells = |line: usize| map["lines"][line]["cells"][0].as_u64().expect("a column");
    let distance = (cells(1) - cells(0)) * number(&map, "column_ns");
    assert!(distance.abs_diff(50_000_000) <= number(&map, "column_ns"), "{distance}");

    let undated = copied("v2/job", &dir.path().join("undated"), |header| {
        later(0)(header);
        header.clock.start_realtime_ns = 0;
    });
    let page = page_of(&[one, undated], &dir.path().join("undated.html"));
    assert!(page.contains("A recording has no dates"));
    assert!(data(&page, "job").0["clock_error_bound_ns"].is_null());
    let phases = rows(&page, "phases");
    assert!(phases.iter().all(|phase| phase["begin_spread_ns"].is_null()), "{phases:?}");
}
