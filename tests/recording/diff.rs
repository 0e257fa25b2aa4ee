//! `diff` of two commands: it finds what differs between them, and nothing in equal ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, default_calls};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::oracle::strace::Log;
use crate::support::{scratch_dir, text};

/// Rows of a list, as name, metric, first and second value.
fn rows(report: &Value, key: &str) -> Vec<(String, String, u64, u64)> {
    let rows = report[key].as_array().expect("rows").iter();
    let rows = rows.filter(|row| row["verdict"] == "different");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let number = |value: &Value| value.as_u64().expect("a number");
    let mut rows: Vec<_> = rows
        .map(|row| {
            let numbers = [&row["before_min"], &row["after_max"]].map(number);
            (text(&row["name"]), text(&row["metric"]), numbers[0], numbers[1])
        })
        .collect();
    rows.sort();
    rows
}

fn diff(options: &[&str], one: &[&str], other: &[&str]) -> (Option<i32>, Value) {
    let dir = scratch_dir("diff");
    let to = dir.path().join("report.json");
    let mut command = Command::new(BINARY);
    command.args(["diff", "--json", "--exit-code", "--to"]).arg(&to).args(options);
    command.arg("--").args(one).arg("--").args(other);
    let output = process::run(&mut command, TIMEOUT).expect("it ends");
    let report = serde_json::from_slice(&fs::read(&to).unwrap_or_default());
    let report = report.unwrap_or_else(|cause| panic!("{cause}: {}", output.stderr()));
    (output.status.code(), report)
}

/// Fails if one more failing open is not the only difference, or if something is left in TMPDIR.
#[test]
fn one_more_open_is_the_difference() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("diff");
    let file = dir.path().join("file");
    fs::write(&file, "abc").expect("written");
    let path = file.to_str().expect("text");
    let none = dir.path().join("none").to_str().expect("text").to_owned();
    let (status, report) = diff(
        &["--runs", "3"],
        &["cat", path],
        &["sh", "-c", "cat \"$1\" && exec cat \"$1\"", "sh", path],
    );
    assert_eq!(status, Some(1), "{report:#}");
    let opens =
        rows(&report, "files").into_iter().find(|row| row.0 == path && row.1 == "read_bytes");
    assert_eq!(opens, Some((path.to_owned(), "read_bytes".to_owned(), 3, 6)), "{report:#}");

    let copy = ["cat", path];
    let failing = ["cat", path, &none];
    let (status, report) = diff(&["--runs", "3"], &copy, &failing);
    assert_eq!(status, Some(1), "{report:#}");
    let expected =
        [(none.clone(), "failed".to_owned(), 0, 1), (none, "operations".to_owned(), 0, 1)];
    let of_none: Vec<_> =
        rows(&report, "files").into_iter().filter(|row| row.0.ends_with("none")).collect();
    assert_eq!(of_none, expected, "{report:#}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("3 runs of 3 ended with exit status: 1"), "{notes}");
}

/// Calls of a command by name, as strace counts them.
fn calls_of(command: &[&str], dir: &Path) -> BTreeMap<String, i64> {
    let log = dir.join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&log).args(command);
    process::run(&mut strace, TIMEOUT).expect("it ends").success();
    let log = Log::read(&log).expect("a log of strace");
    let recorded = default_calls();
    let mut counts = BTreeMap::new();
    for (_, call) in log.all().filter(|(_, call)| recorded.contains(&call.name.as_str())) {
        *counts.entry(call.name.clone()).or_default() += 1;
    }
    counts
}

/// Compares the differences of calls with those of strace. Returns the report.
fn check_calls(one: &[&str], other: &[&str]) -> Value {
    let dir = scratch_dir("diff-strace");
    let [before, after] = [one, other].map(|command| calls_of(command, dir.path()));
    let mut expected: BTreeMap<String, i64> = after;
    for (name, count) in before {
        *expected.entry(name).or_default() -= count;
    }
    expected.retain(|_, difference| *difference != 0);
    let (status, report) = diff(&["--runs", "3"], one, other);
    let mut found: BTreeMap<String, i64> = BTreeMap::new();
    for (name, metric, before, after) in rows(&report, "calls") {
        if metric == "operations" {
            // Calls on other objects than files have a row of their own.
            let name = name.split(' ').next().unwrap_or_default().to_owned();
            *found.entry(name).or_default() += after.cast_signed() - before.cast_signed();
        }
    }
    found.retain(|_, difference| *difference != 0);
    assert_eq!(found, expected, "{report:#}");
    let is_different = report["different_counts"] != 0;
    assert_eq!(status, Some(i32::from(is_different)), "{report:#}");
    report
}

/// The order of names changes no count: strace and `diff` agree on that.
#[test]
fn sorting_of_tar_changes_no_count() {
    if !can_record(&[Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("diff");
    for number in 0..47 {
        fs::write(dir.path().join(format!("{}", number * 31 % 47)), "abc").expect("written");
    }
    let tar = |sort: &'static str| ["tar", sort, "-C", text(dir.path()), "-cf", "/dev/null", "."];
    let report = check_calls(&tar("--sort=none"), &tar("--sort=name"));
    assert_eq!(report["different_counts"], 0, "{report:#}");
    assert!(report["equal_counts"].as_u64().is_some_and(|count| count > 50), "{report:#}");
}

/// Two journal modes of a database that is made anew: calls are those of strace, and each mode has
/// its own files.
#[test]
fn journal_modes_of_sqlite_differ_in_their_files() {
    if !can_record(&[Need::Strace, Need::Program("sqlite3")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("diff-sqlite");
    let database = dir.path().canonicalize().expect("there").join("t.db");
    // Each run removes the one before.
    fs::write(&database, "").expect("written");
    let script = |mode: &str| {
        format!(
            "rm -f $0*; exec sqlite3 $0 'pragma journal_mode={mode}; create table t(a); \
             insert into t values(1); insert into t values(2);'"
        )
    };
    let [delete, wal] = ["delete", "wal"].map(script);
    let command = |script| ["sh", "-c", script, text(&database)];
    let report = check_calls(&command(&delete), &command(&wal));
    let files = rows(&report, "files");
    let of_file = |ending: &str| {
        let path = format!("{}{ending}", database.display());
        let is_this = |row: &&(String, String, u64, u64)| row.0 == path && row.1 == "written_bytes";
        files.iter().find(is_this).map_or([0, 0], |row| [row.2, row.3])
    };
    // A new database has a journal until it is in the other mode.
    let [delete, wal] = of_file("-journal");
    assert!(delete > wal && wal > 0, "{report:#}");
    let [delete, wal] = of_file("-wal");
    assert!(delete == 0 && wal > 2 * 4096, "{report:#}");
}

/// Fails if equal commands have a difference of counts, or of times: one in fifty reports may claim
/// such a one by chance, but not two.
#[test]
fn equal_commands_have_equal_counts() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("diff");
    for number in 0..50 {
        fs::write(dir.path().join(format!("file{number}")), "abc").expect("written");
    }
    let tar = ["tar", "-C", dir.path().to_str().expect("text"), "-cf", "/dev/null", "."];
    let mut claims = 0;
    for _ in 0..2 {
        let (_, report) = diff(&["--runs", "10"], &tar, &tar);
        assert_eq!(report["different_counts"], 0, "{report:#}");
        assert_eq!((&report["before_runs"], &report["after_runs"]), (&10.into(), &10.into()));
        assert!(report["equal_counts"].as_u64().is_some_and(|count| count > 20), "{report:#}");
        let times = report["times"].as_array().expect("times").iter();
        match times.filter(|row| row["verdict"] == "different").count() {
            0 => break,
            _ => claims += 1,
        }
    }
    assert!(claims < 2, "{claims}");
}
