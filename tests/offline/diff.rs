//! `diff`: logs of the corpus, and the summaries saved from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT};
use crate::support::scratch_dir;

fn log(name: &str) -> PathBuf {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2");
    logs.join(name).with_extension("iocap")
}

/// Exit status and output of a subcommand.
fn run(arguments: &[&str], paths: &[&Path]) -> (Option<i32>, String, String) {
    let mut command = Command::new(BINARY);
    command.args(arguments).args(paths);
    let output = process::run(&mut command, TIMEOUT).expect("it ends");
    (output.status.code(), output.stdout(), output.stderr())
}

fn json(arguments: &[&str], paths: &[&Path]) -> Value {
    let (_, text, error) = run(arguments, paths);
    serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text} {error}"))
}

/// Names of the logs of the corpus.
fn names() -> Vec<String> {
    let logs = fs::read_dir(log("x").parent().expect("a folder")).expect("a folder");
    let paths = logs.map(|entry| entry.expect("readable").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|ending| ending == "iocap"));
    let names =
        logs.map(|path| path.file_stem().expect("a name").to_str().expect("text").to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    names
}

/// Fails if a saved summary has other counts than the log that it is from.
#[test]
fn saved_summary_equals_its_log() {
    let dir = scratch_dir("diff");
    for name in names() {
        let (log, saved) = (log(&name), dir.path().join(&name).with_extension("json"));
        let (_, text, error) = run(&["summary", "--json"], &[&log]);
        assert!(!text.is_empty(), "{name}: {error}");
        fs::write(&saved, text).expect("written");
        let report = json(&["diff", "--json"], &[&log, &saved]);
        assert_eq!(report["different_counts"], 0, "{name}: {report:#}");
        assert_eq!(report["varying_counts"], 0, "{name}: {report:#}");
        let (status, _, error) = run(&["diff", "--exit-code"], &[&saved, &saved]);
        assert_eq!(status, Some(0), "{name}: {error}");
    }
}

/// Fails if the counts that differ are not those of the summaries.
#[test]
fn differences_are_those_of_the_summaries() {
    let names = names();
    let sum = |report: &Value, key: &str| -> i64 {
        let rows = report[key].as_array().expect("rows").iter();
        let rows = rows.filter(|row| row["metric"] == "operations");
        let change = |row: &Value| {
            let [before, after] = ["before_min", "after_min"].map(|key| row[key].as_i64());
            after.expect("a count") - before.expect("a count")
        };
        rows.map(change).sum()
    };
    for pair in names.windows(2) {
        let [one, other] = [&pair[0], &pair[1]].map(|name| log(name));
        let of_summary = |log: &Path| {
            let summary = json(&["summary", "--json"], &[log]);
            summary["operations"].as_i64().expect("a count")
        };
        let report = json(&["diff", "--json"], &[&one, &other]);
        let expected = of_summary(&other) - of_summary(&one);
        assert_eq!(sum(&report, "calls"), expected, "{pair:?}: {report:#}");
        assert_eq!(sum(&report, "programs"), expected, "{pair:?}: {report:#}");
        let different = report["different_counts"].as_u64().expect("a count");
        let (status, _, error) = run(&["diff", "--exit-code"], &[&one, &other]);
        assert_eq!(status, Some(i32::from(different > 0)), "{pair:?}: {error}");
    }
}

#[test]
fn wrong_inputs_are_named() {
    let dir = scratch_dir("diff");
    let file = dir.path().join("wrong.json");
    let log = log(&names()[0]);
    for (text, cause) in [("{", "EOF"), ("{\"kind\": 1}", "invalid type"), ("[]", "invalid")] {
        fs::write(&file, text).expect("written");
        let (status, _, error) = run(&["diff"], &[&file, &log]);
        assert_eq!(status, Some(125), "{error}");
        assert!(error.contains("wrong.json") && error.contains(cause), "{error}");
        assert!(error.contains("summary LOG --json"), "{error}");
    }
    let (status, _, error) = run(&["diff", "-F", "/etc/"], &[&file, &log]);
    assert!(status == Some(125) && error.contains("saved summary"), "{error}");
    let (status, _, error) = run(&["diff"], &[&dir.path().join("none"), &log]);
    assert!(status == Some(125) && error.contains("there is no file"), "{error}");
}
