//! Parquet tables: the rows, bytes and names of the other outputs, read by the format's own crate.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use crate::support::driver::recording::iotrace;
use crate::support::{scratch_dir, text};

fn log(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs").join(name)
}

/// The only file of a table.
fn file_of(tables: &Path, table: &str) -> PathBuf {
    let mut path = tables.join(table);
    while path.is_dir() {
        let mut entries = fs::read_dir(&path).expect("a directory");
        path = entries.next().expect("an entry").expect("readable").path();
    }
    path
}

fn rows(tables: &Path, table: &str) -> Vec<Row> {
    let file = File::open(file_of(tables, table)).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect()
}

/// Value of a column: a text, a number, or nothing.
fn value(row: &Row, column: &str) -> Value {
    let field = row.get_column_iter().find(|found| found.0 == column).expect(column).1;
    match field {
        Field::Null => Value::Null,
        Field::Str(text) => text.clone().into(),
        Field::Long(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        other => panic!("{column}: {other:?}"),
    }
}

/// Keys of lines and the columns with the same values.
const SAME: [&str; 16] = [
    "name",
    "start_ns",
    "duration_ns",
    "pid",
    "tid",
    "comm",
    "cpu",
    "path",
    "path_source",
    "offset",
    "bytes_requested",
    "result",
    "errno",
    "ino",
    "fs_dev",
    "unfinished",
];

/// Fails if a row or a value of a log is another one than in JSON.
#[track_caller]
fn check(name: &str) {
    let dir = scratch_dir("parquet");
    let tables = dir.path().join("t.parquet");
    let log = log(name);
    let said = iotrace(&["convert", text(&log), "-o", text(&tables)]).success().stderr();
    assert!(said.contains("wrote the tables operations, requests"), "{said}");
    let printed = iotrace(&["script", "--json", text(&log)]).success().stdout();
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of_kind = |kinds: &[&str]| {
        let wanted = |line: &&Value| kinds.contains(&line["kind"].as_str().unwrap_or_default());
        lines.iter().filter(wanted).collect::<Vec<_>>()
    };
    let (wanted, found) = (of_kind(&["syscall", "async", "fault"]), rows(&tables, "operations"));
    assert_eq!(found.len(), wanted.len(), "{name}");
    for (line, row) in wanted.iter().zip(&found).filter(|pair| pair.0["kind"] == "syscall") {
        for key in SAME {
            let expected = line.get(key).cloned().unwrap_or_default();
            assert_eq!(value(row, key), expected, "{name}: {key} of {line}");
        }
    }
    let (wanted, found) = (of_kind(&["block"]), rows(&tables, "requests"));
    assert_eq!(found.len(), wanted.len(), "{name}");
    let mut pieces = 0;
    for (line, row) in wanted.iter().zip(&found) {
        let keys = ["request", "dev", "disk", "op", "sector", "bytes", "bytes_done", "issued_ns"];
        for key in keys.iter().chain(&["completed_ns", "pid", "comm", "ending", "diskstats"]) {
            assert_eq!(value(row, key), line[*key], "{name}: {key} of {line}");
        }
        pieces += line["pieces"].as_array().expect("a list").len();
    }
    assert_eq!(rows(&tables, "pieces").len(), pieces, "{name}");
    assert_eq!(rows(&tables, "anomalies").len(), of_kind(&["anomaly"]).len(), "{name}");
    let of_process = |row: &Row| value(row, "process");
    let processes: Vec<Value> = rows(&tables, "processes").iter().map(of_process).collect();
    let files: Vec<Value> = rows(&tables, "files").iter().map(|row| value(row, "file")).collect();
    for row in rows(&tables, "operations") {
        assert!(processes.contains(&of_process(&row)), "{name}: {row}");
        let file = value(&row, "file");
        assert!(file.is_null() || files.contains(&file), "{name}: {row}");
    }
}

#[test]
fn tables_have_the_rows_of_json() {
    for entry in fs::read_dir(log("v2")).expect("logs") {
        let path = entry.expect("a log").path();
        let small = path.metadata().is_ok_and(|found| found.len() < 400_000);
        if small && path.extension().is_some_and(|end| end == "iocap") {
            let name = path.file_name().expect("a name").to_str().expect("text");
            check(&format!("v2/{name}"));
        }
    }
}

/// Fails if a log is added twice, or two hosts are not beside each other.
#[test]
fn log_is_added_once() {
    let dir = scratch_dir("parquet");
    let tables = dir.path().join("job.parquet");
    let log = log("v2/stacks.iocap");
    iotrace(&["convert", text(&log), "-o", text(&tables)]).success();
    let again = iotrace(&["convert", text(&log), "-o", text(&tables)]);
    assert!(again.stderr().contains("is there already"), "{}", again.stderr());
    iotrace(&["convert", text(&log), "-o", text(&tables), "--force"]).success();
    let first = file_of(&tables, "operations");
    let shown = first.to_str().expect("text");
    assert!(shown.contains("/operations/host="), "{shown}");
    assert!(shown.contains("/rank=__HIVE_DEFAULT_PARTITION__/"), "{shown}");
}
