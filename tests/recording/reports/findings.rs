//! The first finding of a summary is true: waiting for other processes is not file I/O, whatever
//! the program is.

use std::process::Command;

use iotrace_perf::event::syscall_table::CallId;
use serde_json::Value;

use super::{ask, numbers, row};
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record, compile};
use crate::support::machine::postgres::Server;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;
use crate::support::text;

/// First finding of a summary, as kind and text.
fn first_finding(report: &Value) -> (&str, &str) {
    let first = &report["findings"][0];
    (first["finding"].as_str().expect("a word"), first["text"].as_str().expect("text"))
}

/// The time of the operations of this class and name, ns.
fn time_of(report: &Value, class: &str, operation: &str) -> u64 {
    let rows = report["calls"].as_array().expect("a table").iter();
    let its = rows.filter(|it| it["class"] == class && it["operation"] == operation);
    its.map(|it| it["time_ns"].as_u64().expect("a number")).sum()
}

/// Half a second of waiting at a pipe, a socket, an eventfd and a timerfd, and 300 ms in a pipeline
/// of a shell, beside 211 syncs.
#[test]
fn waiting_is_not_file_io() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let sources: &[(&[&str], bool)] = &[
        (&["--source", "tracefs", "--names", "reader"], true),
        (&["--source", "tracefs", "--names", "uprobe"], true),
        (&["--source", "tracefs", "--names", "fanotify"], true),
        (&["--source", "perf"], true),
        // Without privileges the calls that make pipes are not recorded.
        (&["--source", "inherited"], false),
        (&["--source", "tracefs", "--names", "snapshot"], false),
        (&["--source", "tracefs", "--names", "off"], false),
    ];
    let dir = scratch_dir("reports-waits");
    let program = compile("waits.c", dir.path());
    let script = format!("sleep 0.3 | cat; {program} {}", dir.path().join("synced").display());
    for (options, knows_types) in sources {
        let arguments = [options, &["--", "sh", "-c", &script][..]].concat();
        let report = ask("summary", &arguments, dir.path()).report;
        let waited = time_of(&report, "waiting", "read");
        let unknown = time_of(&report, "unknown", "read");
        let as_files = time_of(&report, "file", "read");
        let all = format!("{options:?}: {report:#}");
        assert!(as_files < 50_000_000, "{all}");
        assert!(waited + unknown > 600_000_000, "{all}");
        let (kind, text) = first_finding(&report);
        // The process that syncs, the file, or the call: each of them is true.
        let is_known = ["fsync: ", "(waits): ", "/synced: "].iter().any(|it| text.contains(it));
        if *knows_types {
            let call =
                row(&report, "findings", "finding", "operation").unwrap_or_else(|| panic!("{all}"));
            let text = call["text"].as_str().expect("text");
            assert!(text.starts_with("fsync: ") && text.contains(" in 211 calls"), "{all}");
            assert!(is_known, "{all}");
            assert!(waited > 600_000_000, "{all}");
        } else {
            // The types of the pipes are unknown, as the report states. That may be the first of
            // three findings; the process, the file or the call that syncs stays among them.
            let findings = report["findings"].as_array().expect("a table").iter();
            let mut texts = findings.map(|it| it["text"].as_str().expect("text"));
            let is_sync = |text: &str| {
                ["fsync: ", "(waits): ", "/synced: "].iter().any(|it| text.contains(it))
            };
            assert!(texts.any(is_sync), "{all}");
            assert!(is_known || kind == "unknown-type", "{all}");
            let notes = report["notes"].as_array().expect("notes");
            let is_said = |it: &Value| it.as_str().is_some_and(|it| it.contains("of unknown type"));
            assert!(unknown > 0 && notes.iter().any(is_said), "{all}");
        }
        let syncs =
            numbers(row(&report, "calls", "operation", "fsync").expect("syncs"), &["count"]);
        assert_eq!(syncs, [211]);
    }
}

/// Records the summary of a command, and fails if its first finding begins with none of these. A
/// disk that writes of earlier programs keep busy may come before. `@DIR` is a directory of the
/// test.
#[track_caller]
fn assert_first_finding(command: &[&str], expected: &[&str]) -> Value {
    let (report, texts) = findings_of(command);
    let first = texts.iter().find(|text| !text.contains(" requests wait "));
    let is_first = |start: &&str| first.is_some_and(|text| text.starts_with(start));
    assert!(expected.iter().any(is_first), "{texts:?}: {report:#}");
    report
}

/// Reports like [`assert_first_finding`], for a finding that need not be the first: the main cost
/// may be that of one process.
#[track_caller]
fn assert_finding(command: &[&str], expected: &[&str]) -> Value {
    let (report, texts) = findings_of(command);
    let is_expected = |text: &String| expected.iter().any(|start| text.starts_with(start));
    assert!(texts.iter().any(is_expected), "{texts:?}: {report:#}");
    report
}

/// The summary of a command, and the texts of its findings (at least one), with `@DIR` for the
/// directory of the test.
#[track_caller]
fn findings_of(command: &[&str]) -> (Value, Vec<String>) {
    let dir = scratch_dir("reports-first");
    let place = dir.path().to_str().expect("text");
    let replaced: Vec<String> = command.iter().map(|word| word.replace("@DIR", place)).collect();
    let words: Vec<&str> = replaced.iter().map(String::as_str).collect();
    let answer = ask("summary", &[&["--"], words.as_slice()].concat(), dir.path());
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let findings = answer.report["findings"].as_array().expect("findings").iter();
    let texts = findings.filter_map(|finding| finding["text"].as_str());
    let texts: Vec<String> = texts.map(|text| text.replace(place, "@DIR")).collect();
    assert!(!texts.is_empty(), "no finding: {:#}", answer.report);
    (answer.report, texts)
}

/// Two jobs of make that sync what they make; make waits for its children, and they for the pipe of
/// a slow writer.
#[test]
fn make_is_found_to_sync() {
    if !can_record(&[Need::Program("make")]) {
        return;
    }
    let _alone = alone();
    let rule = "%.out:\n\tsleep 0.1 | cat; dd if=/dev/zero of=$@ bs=1000 count=30 oflag=sync status=none\n";
    let script = format!(
        "cd @DIR; printf '{}' > Makefile; make -s -j2 1.out 2.out 3.out 4.out",
        rule.replace('%', "%%")
    );
    let report = assert_first_finding(&["sh", "-c", &script], &["write: ", "@DIR/", "dd"]);
    assert!(time_of(&report, "waiting", "read") > 300_000_000, "{report:#}");
}

/// A server that reads a file of 300 kB for each of 40 requests, and waits for them.
#[test]
fn web_server_is_found_to_read_its_file() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let program = r#"
import http.server, socketserver, threading, urllib.request, os, time
os.chdir("@DIR")
open("page", "wb").write(bytes(300_000))
class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
threading.Thread(target=server.serve_forever, daemon=True).start()
for _ in range(40):
    time.sleep(0.02)
    page = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/page").read()
    assert len(page) == 300_000
"#;
    let report = assert_finding(
        &["python3", "-c", program],
        &["@DIR/page: ", "read: ", "openat: ", "newfstatat: "],
    );
    let page = report["files"].as_array().expect("files").iter();
    let mut page = page.filter(|it| it["path"].as_str().is_some_and(|it| it.ends_with("/page")));
    assert_eq!(numbers(page.next().expect("the page"), &["read_bytes"]), [40 * 300_000]);
}

/// Transactions of two clients: what costs is that they are durable.
#[test]
fn postgres_is_found_to_sync_its_log() {
    if !can_record(&[Need::Postgres]) {
        return;
    }
    let _alone = alone();
    let server = Server::create();
    let lines = "pg_ctl -D $DATA -w -l $PLACE/log -o \"-k $PLACE -c listen_addresses=\" start; pgbench -i -q -s 1; \
                 pgbench -n -c 2 -t 200; pg_ctl -D $DATA -w -m fast stop";
    let command = server.shell(lines);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    assert_finding(&command, &["fdatasync: ", "fsync: "]);
}

/// Fails if calls that were not recorded are not counted, or if a report does not begin with them.
#[test]
fn calls_that_ask_about_files_are_counted() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("stat");
    let script = "import os\nfor _ in range(4001): os.path.exists('/no/such/file')";
    let path = |name: &str| dir.path().join(name);
    let record = |name: &str, events: &str| {
        let log = path(name);
        let arguments = ["--source", "tracefs", "-e", events, "--", "python3", "-c", script];
        let mut command = Command::new(BINARY);
        command.arg("-o").arg(&log).args(arguments);
        process::run(&mut command, TIMEOUT).expect("it ends").success();
        Recording::open(&log)
    };
    let counted = record("counted.iocap", "%default");
    let recorded = record("recorded.iocap", "%default,%stat");
    // The same program makes the same calls.
    let group = |name: &str| CallId::by_name(name).map(|id| id.call().class.group());
    let operations = recorded.operations();
    let expected = operations.iter().filter(|call| group(&call.name) == Some("stat")).count();
    assert!(expected >= 4001, "{expected}");
    assert_eq!(counted.info["stat_calls"], expected);
    assert_eq!(recorded.info["stat_calls"], Value::Null);
    let report = ask("summary", &[text(&path("counted.iocap"))], dir.path()).report;
    let (kind, sentence) = first_finding(&report);
    assert_eq!(kind, "not-recorded");
    assert!(sentence.contains("record both: -e %default,%stat"), "{sentence}");
}
