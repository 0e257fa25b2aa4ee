//! `diff` of two commands: it finds what differs between them, and nothing in equal ones.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record};
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;

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

/// Fails if equal commands have a difference of counts.
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
    let (status, report) = diff(&["--runs", "5"], &tar, &tar);
    assert_eq!((status, &report["different_counts"]), (Some(0), &0.into()), "{report:#}");
    assert_eq!((&report["before_runs"], &report["after_runs"]), (&5.into(), &5.into()));
    assert!(report["equal_counts"].as_u64().is_some_and(|count| count > 20), "{report:#}");
}
