//! Pages of recordings: tar, `SQLite`, and fio beside `PostgreSQL` in a browser; the page of a
//! recording that is not kept, which the traced program does not see.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, record};
use crate::support::machine::postgres::Server;
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::{alone, beside_others};
use crate::support::page::browser::check_page;
use crate::support::page::markup::{element, unbalanced};
use crate::support::page::tables::check_tables;
use crate::support::page::{PAGE_BYTES_MAX, check_numbers, check_references, data, page};
use crate::support::{scratch_dir, text};

/// Finding of `advise` that a page has or has not.
#[derive(Clone, Copy, Debug)]
struct PageFinding {
    id: &'static str,
    is_found: bool,
}

const fn found(id: &'static str) -> PageFinding {
    PageFinding { id, is_found: true }
}

const fn absent(id: &'static str) -> PageFinding {
    PageFinding { id, is_found: false }
}

/// Records a command, and checks its page: its size, its numbers against `summary --json`, its
/// findings, and its work in a browser where there is one. Returns the summary.
#[track_caller]
fn recorded_page(
    dir: &Path,
    options: &[&str],
    command: &[&str],
    findings: &[PageFinding],
) -> Value {
    let (finished, _) = record(&dir.join("trace"), options, command);
    finished.success();
    let log = dir.join("trace/traces.iocap");
    let (_, html) = page(&log, dir, &[]);
    assert!(html.len() <= PAGE_BYTES_MAX, "{} bytes", html.len());
    check_references(&html, text(&log));
    assert_eq!(unbalanced(&html), None);
    check_numbers(&html, &log);
    assert!(check_tables(&html, &log) > 10);
    let (_, list) = element(&html, "section", "id=\"findings\"");
    for finding in findings {
        let is_found = list.contains(&format!("data-kind=\"{}\"", finding.id));
        assert_eq!(is_found, finding.is_found, "{}: {list}", finding.id);
    }
    if require(Need::Browser) {
        check_page(&log);
    }
    data(&html, "summary").0
}

/// Fails if the page of an archive is not right, or if it advises what does no harm.
#[test]
fn page_of_tar_works_in_a_browser() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("page-tar");
    let (tree, archive) = (dir.path().join("tree"), dir.path().join("archive.tar"));
    std::fs::create_dir(&tree).expect("make it");
    for number in 0..60 {
        std::fs::write(tree.join(format!("file-{number}")), vec![7; 20_011]).expect("write it");
    }
    let command = ["tar", "-C", text(&tree), "-cf", text(&archive), "."];
    let findings = ["small-reads", "small-writes", "fsync-storm", "re-read"].map(absent);
    let summary = recorded_page(dir.path(), &[], &command, &findings);
    let written = std::fs::metadata(&archive).expect("it was made").len();
    assert_eq!(summary["written_bytes"], written);
}

/// Fails if the page of a database that commits each row does not advise to commit less often.
#[test]
fn page_of_sqlite_works_in_a_browser() {
    if !can_record(&[Need::Program("sqlite3")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("page-sqlite");
    let rows: String = (0..80).map(|row| format!("insert into t values({row});\n")).collect();
    let (script, database) = (dir.path().join("rows.sql"), dir.path().join("rows.db"));
    std::fs::write(&script, format!("create table t(a);\n{rows}")).expect("write it");
    let read = format!(".read {}", script.display());
    let findings = [found("fsync-storm"), found("small-writes"), absent("small-reads")];
    let summary = recorded_page(dir.path(), &[], &["sqlite3", text(&database), &read], &findings);
    let syncs = summary["calls"].as_array().expect("a table").iter();
    let syncs = syncs.filter(|row| row["operation"] == "fdatasync" || row["operation"] == "fsync");
    let count: u64 = syncs.filter_map(|row| row["count"].as_u64()).sum();
    assert!(count >= 81, "{count} syncs");
}

/// Fails if the page of two programs that share a disk lacks one of them, or its requests.
#[test]
fn page_of_fio_beside_postgres_works_in_a_browser() {
    if !can_record(&[Need::Fio, Need::Postgres]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("page-fio");
    let mut server = Server::create();
    server.start();
    server.run("pgbench", &["-i", "-q", "-s", "1"]);
    let data = dir.path().join("data");
    let fio = format!(
        "fio --name=job --rw=randwrite --bs=16k --size=32m --direct=1 --ioengine=libaio \
         --iodepth=8 --output=/dev/null --filename={}",
        data.display()
    );
    let script = server.shell("pgbench -n -c 2 -t 100").join("\u{1}");
    let words: Vec<&str> = script.split('\u{1}').collect();
    let both = ["sh", "-c", "eval \"$1 &\"; shift; \"$@\"; code=$?; wait; exit $code", "sh", &fio];
    let command = [&both[..], &words].concat();
    // Other programs of the machine have findings of their own.
    let summary = recorded_page(dir.path(), &["-a"], &command, &[]);
    let has = |table: &str, key: &str, value: &str| {
        let rows = summary[table].as_array().expect(table);
        rows.iter().any(|row| row[key].as_str().is_some_and(|text| text.contains(value)))
    };
    assert!(has("processes", "comm", "fio") && has("processes", "comm", "postgres"));
    assert!(has("calls", "operation", "fdatasync") && has("devices", "operation", "write"));
}

#[test]
fn traced_program_sees_no_page() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("page");
    let mut command = Command::new(BINARY);
    command.args(["report", "--", "ls", "-a"]).current_dir(dir.path());
    let finished = process::run(&mut command, TIMEOUT).expect("it ends").success();
    assert_eq!(finished.stdout(), ".\n..\n");
    let page = std::fs::read_to_string(dir.path().join("report.html")).expect("a page");
    assert!(page.contains("<code>ls -a</code>"));
    let entries = std::fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(entries, 1);
    // The name is taken now: the next program does not start.
    let mut command = Command::new(BINARY);
    command.args(["report", "--", "touch", "ran"]).current_dir(dir.path());
    let refused = process::run(&mut command, TIMEOUT).expect("it ends");
    assert!(refused.stderr().contains("report.html is there already"), "{}", refused.stderr());
    assert!(!dir.path().join("ran").exists());
}
