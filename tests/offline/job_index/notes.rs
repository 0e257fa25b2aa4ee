//! Notes and limits of an answer for a job: overlaps, recordings that were left out, times.

use std::fs;

use super::{index, json, json_of};
use crate::merge::{DD, Made};
use crate::support::driver::recording::iotrace;
use crate::support::{scratch_dir, text};

/// Fails if operations count twice without a word.
#[test]
fn overlaps_are_reported() {
    for is_system in [true, false] {
        let dir = scratch_dir("job-overlap");
        let logs = [
            Made { is_system, ..DD }.write(dir.path(), "a"),
            Made { rank: Some(1), ..DD }.write(dir.path(), "b"),
            Made { rank: Some(2), host: "beta", ..DD }.write(dir.path(), "c"),
        ];
        let job = index(dir.path(), &logs);
        for verb in ["summary", "info"] {
            let report = json(&[verb, "--json", text(&job)]);
            assert_eq!(report["overlapping_hosts"], u64::from(is_system), "{verb}");
            let said = iotrace(&[verb, text(&job)]).success().stdout();
            let note = "recordings of the whole machine overlap with others of alpha";
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(said.contains(note), is_system, "{verb}: {said}");
        }
    }
}

/// Fails if a recording that the index leaves out is not missing in the page and the archive.
#[test]
fn recordings_that_the_index_leaves_out_are_reported() {
    let dir = scratch_dir("job-left");
    let bad = dir.path().join("bad.iocap");
    fs::write(&bad, "no log").expect("space");
    let log = DD.write(dir.path(), "a");
    let job = dir.path().join("job");
    let output = format!("{}/", text(&job));
    let made = iotrace(&["merge", "-o", &output, text(&log), text(&bad)]);
    assert_eq!(made.status.code(), Some(1), "{}", made.stderr());
    for (verb, name) in [("report", "p.html"), ("convert", "a.otf2"), ("convert", "t.parquet")] {
        let output = dir.path().join(name);
        let finished = iotrace(&[verb, text(&job), "-o", text(&output)]);
        assert_eq!(finished.status.code(), Some(1), "{name}: {}", finished.stderr());
        let said = finished.stderr();
        assert!(said.contains("LEFT OUT: ") && said.contains("bad.iocap"), "{name}: {said}");
        assert!(output.exists(), "{name}");
    }
}

/// Fails if `--from` and `--until` count from the boot of a host that has booted after the job
/// began.
#[test]
fn times_count_from_the_start_of_the_job() {
    let dir = scratch_dir("job-times");
    // The recordings begin 35,378 s after the boot.
    let later_ns = 40_000_000_000_000;
    let logs = [
        Made { rank: Some(0), ..DD }.write(dir.path(), "a"),
        Made { rank: Some(1), host: "beta", later_ns, ..DD }.write(dir.path(), "b"),
    ];
    let job = index(dir.path(), &logs);
    let operations = |arguments: &[&str]| {
        let report = json(&[&["summary", "--json"], arguments, &[text(&job)]].concat());
        report["operations"].as_u64().expect("a number")
    };
    let one = json(&["summary", "--json", text(&logs[0])])["operations"].as_u64();
    let one = one.expect("a number");
    assert_eq!(operations(&[]), 2 * one);
    assert_eq!(operations(&["--from", "39999s"]), one);
    assert_eq!(operations(&["--until", "39999s"]), one);
    assert_eq!(operations(&["--from", "40001s"]), 0);
}

/// Fails if a filter that is wrong makes each recording one that was not read.
#[test]
fn wrong_filters_are_usage_errors() {
    let dir = scratch_dir("job-filter");
    let logs = [
        Made { rank: Some(0), ..DD }.write(dir.path(), "a"),
        Made { rank: Some(1), ..DD }.write(dir.path(), "b"),
    ];
    let job = index(dir.path(), &logs);
    for (filter, part) in
        [(["-e", "nonsense"], "unknown event"), (["-d", "nosuch"], "no disk nosuch")]
    {
        for verb in ["summary", "files", "latency", "slow"] {
            let refused = iotrace(&[&[verb], &filter[..], &[text(&job)]].concat());
            assert_eq!(refused.status.code(), Some(125), "{verb} {filter:?}");
            let said = refused.stderr();
            assert!(said.contains(part) && !said.contains("not read"), "{verb}: {said}");
        }
    }
    let whole = json_of(&iotrace(&["summary", "--json", "-d", "vda", text(&job)]).success());
    assert_eq!(whole["recordings_read"], 2);
}
