//! Questions of the guide to the Parquet tables of several logs, answered by their engines where
//! the machine has them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process::run;
use crate::support::driver::recording::{Recording, TIMEOUT, iotrace};
use crate::support::machine::requirements::{Need, python, require};
use crate::support::{scratch_dir, text};

/// Logs of two hosts, of a rank, with block requests, and with files that several processes write.
const LOGS: [&str; 6] =
    ["v2/stacks", "v2/job", "v2/block-writers", "v2/block-buffered", "v2/layers", "v2/block-two"];

/// Questions of the guide, each with the number of its columns.
const QUESTIONS: [(&str, usize); 6] = [
    ("hot files", 4),
    ("stragglers", 4),
    ("bandwidth", 2),
    ("shared files", 4),
    ("p99 by host", 4),
    ("written back", 4),
];

type Rows = Vec<Vec<Value>>;

fn log(name: &str) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    corpus.join(name).with_extension("iocap")
}

/// Answers of an engine to the questions, and its calls by name; `None`: it is not there.
fn answers(engine: &'static str, directory: &Path) -> Option<Vec<Rows>> {
    if !require(Need::PythonModule(engine)) {
        return None;
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python());
    command.arg(project.join("tests/offline/engines.py")).arg(engine);
    command.arg(project.join("docs/guides/queries.md")).current_dir(directory);
    let printed = run(&mut command, TIMEOUT).expect("it ends").success().stdout();
    let last = printed.lines().last().expect("a line");
    Some(serde_json::from_str(last).expect("JSON"))
}

/// True if two values are equal, numbers to a billionth.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= one.abs() * 1e-9,
        _ => one == other,
    }
}

#[track_caller]
fn assert_same(engine: &str, question: &str, rows: &Rows, expected: &Rows) {
    let is_same_row = |(one, other): (&Vec<Value>, &Vec<Value>)| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
    };
    let is_equal = rows.len() == expected.len() && rows.iter().zip(expected).all(is_same_row);
    assert!(is_equal, "{engine}, {question}: {rows:#?}\ninstead of {expected:#?}");
}

/// Counts and bytes of all calls of the logs, by name.
fn counted_calls() -> BTreeMap<String, (u64, u64)> {
    let mut calls = BTreeMap::new();
    for name in LOGS {
        for (name, call) in Recording::open(&log(name)).info["calls"].as_object().expect("calls") {
            let number = |key: &str| call[key].as_u64().unwrap_or(0);
            let sum: &mut (u64, u64) = calls.entry(name.clone()).or_default();
            *sum = (sum.0 + number("count"), sum.1 + number("bytes"));
        }
    }
    calls
}

#[expect(clippy::cast_precision_loss, reason = "counts of small logs")]
fn call_rows(calls: &BTreeMap<String, (u64, u64)>) -> Rows {
    let row = |(name, &(count, bytes)): (&String, &(u64, u64))| {
        vec![name.clone().into(), (count as f64).into(), (bytes as f64).into()]
    };
    calls.iter().map(row).collect()
}

/// Fails if an example of the guide is wrong, if two engines answer it differently, or if an engine
/// counts other calls than the reports.
#[test]
fn engines_give_the_same_answers() {
    let dir = scratch_dir("engines");
    let tables = dir.path().join("job.parquet");
    for name in LOGS {
        iotrace(&["convert", text(&log(name)), "-o", text(&tables)]).success();
    }
    let calls = call_rows(&counted_calls());
    let mut first: Option<Vec<Rows>> = None;
    for engine in ["duckdb", "polars", "pyspark"] {
        let Some(mut answers) = answers(engine, dir.path()) else { continue };
        let mut counted = answers.pop().expect("the calls");
        counted.sort_by(|one, other| one[0].as_str().cmp(&other[0].as_str()));
        assert_same(engine, "calls", &counted, &calls);
        assert_eq!(answers.len(), QUESTIONS.len(), "{engine}");
        for ((question, columns), rows) in QUESTIONS.iter().zip(&answers) {
            assert!(!rows.is_empty(), "{engine}, {question}: no answer");
            assert!(rows.iter().all(|row| row.len() == *columns), "{engine}, {question}: {rows:?}");
        }
        let expected = first.get_or_insert_with(|| answers.clone());
        for ((question, _), (rows, expected)) in
            QUESTIONS.iter().zip(answers.iter().zip(expected.iter()))
        {
            assert_same(engine, question, rows, expected);
        }
    }
}
