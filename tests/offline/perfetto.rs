//! Perfetto traces of all logs of the corpus, decoded by the whole schema: each operation is there
//! once, slices are closed and nested, flows lead from slices to slices, and sums are those of
//! `summary --json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrace_perf::text::escape::shown;
use serde_json::Value;

mod decoded;
mod trace_processor;

use crate::scale::synthetic::{self, Shape};
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace};
use crate::support::text;
use decoded::{DecodedEvent, DecodedTrace, EventKind};

/// Count and bytes of operations.
type CountAndBytes = (u64, u64);

/// All logs of the corpus.
fn logs() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    let paths_of = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).expect("the corpus");
        entries.map(|entry| entry.expect("readable").path()).collect()
    };
    let folders = paths_of(&corpus).into_iter().filter(|path| path.is_dir());
    let mut logs: Vec<PathBuf> = folders.flat_map(|folder| paths_of(&folder)).collect();
    logs.retain(|path| path.extension().is_some_and(|ending| ending == "iocap"));
    logs.sort();
    assert!(logs.len() >= 30, "{logs:?}");
    logs
}

/// The trace of a log.
fn trace_of(log: &Path, dir: &Path) -> DecodedTrace {
    let name = log.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("a log of the corpus");
    let name = name.to_string_lossy().replace('/', "_");
    let trace = dir.join(name).with_extension("pftrace");
    iotrace(&["convert", text(log), "-o", text(&trace)]).success();
    DecodedTrace::read(&fs::read(trace).expect("a trace"))
}

fn printed(arguments: &[&str], log: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg(log);
    process::run(&mut command, TIMEOUT).expect("it ends").success().stdout()
}

/// A path as traces have it, like lines for people: without characters that a terminal obeys.
fn escaped(path: &Value) -> Value {
    let Some(path) = path.as_str() else { return Value::Null };
    let mut text = Vec::new();
    shown(&mut text, path.as_bytes(), b"");
    Value::from(String::from_utf8(text).expect("UTF-8"))
}

/// Begins of slices, and instants, of a category.
fn of_category<'a>(
    trace: &'a DecodedTrace,
    category: &'a str,
) -> impl Iterator<Item = &'a DecodedEvent> {
    let is_first =
        |event: &&DecodedEvent| matches!(event.kind, EventKind::SliceBegin | EventKind::Instant);
    trace.events.iter().filter(is_first).filter(move |event| event.category == category)
}

fn number(object: &Value, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key}: {object}"))
}

fn word<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("{key}: {object}"))
}

fn rows<'a>(summary: &'a Value, key: &str) -> &'a [Value] {
    summary.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[test]
fn each_operation_is_in_the_trace_once() {
    let dir = tempfile::tempdir().expect("a directory");
    for log in logs() {
        let trace = trace_of(&log, dir.path());
        let mut lines: BTreeMap<(String, String, Option<i64>), i64> = BTreeMap::new();
        for line in printed(&["script", "--format", "json"], &log).lines() {
            let line: Value = serde_json::from_str(line).expect("an object");
            let kind = word(&line, "kind").to_owned();
            // Numbers and words that tell operations of one kind from each other.
            let what = match kind.as_str() {
                "syscall" => format!("{} {}", line["name"], escaped(&line["path"])),
                "async" => format!("{} {}", line["name"], line["user_data"]),
                "block" => format!("{} {}", line["op"], line["request"]),
                "fault" => format!("{} {}", escaped(&line["path"]), line["offset"]),
                _ => format!("{} {}", line["what"], line["count"]),
            };
            let result = line.get("result").and_then(Value::as_i64);
            *lines.entry((kind, what, result)).or_default() += 1;
        }
        for category in ["syscall", "async", "block", "fault", "anomaly"] {
            for event in of_category(&trace, category) {
                let (name, value) = (Value::from(event.name.as_str()), |key| event.value(key));
                let what = match category {
                    "syscall" => format!("{name} {}", value("path")),
                    "async" => format!("{name} {}", value("user_data")),
                    "block" => format!("{name} {}", value("request")),
                    "fault" => format!("{} {}", value("path"), value("offset")),
                    _ => format!("{name} {}", value("count")),
                };
                let result = value("result").as_i64();
                *lines.entry((category.to_owned(), what, result)).or_default() -= 1;
            }
        }
        lines.retain(|_, difference| *difference != 0);
        assert!(lines.is_empty(), "{}: {lines:?}", log.display());
    }
}

#[test]
fn slices_are_closed_and_nested_and_tracks_described() {
    let dir = tempfile::tempdir().expect("a directory");
    for log in logs() {
        let trace = trace_of(&log, dir.path());
        let mut open: BTreeMap<u64, Vec<&DecodedEvent>> = BTreeMap::new();
        for event in trace.in_order() {
            assert!(trace.tracks.contains_key(&event.track), "{}: {event:?}", log.display());
            let stack = open.entry(event.track).or_default();
            match event.kind {
                EventKind::SliceBegin => stack.push(event),
                EventKind::SliceEnd => {
                    let begun = stack.pop();
                    assert!(begun.is_some(), "{}: {event:?}", log.display());
                }
                EventKind::Instant | EventKind::Counter => {}
            }
            let categories: Vec<&str> = stack.iter().map(|event| event.category.as_str()).collect();
            let is_nested = match categories.as_slice() {
                [] | ["syscall" | "async"] => true,
                ["block", parts @ ..] => matches!(parts, [] | ["block.part"]),
                ["syscall" | "layer", inside @ ..] => inside.iter().all(|word| *word == "layer"),
                _ => false,
            };
            assert!(is_nested, "{}: {categories:?}", log.display());
        }
        assert!(open.values().all(Vec::is_empty), "{}: {open:?}", log.display());
        for (uuid, parent) in &trace.parents {
            assert!(trace.tracks.contains_key(parent), "{}: {uuid}", log.display());
        }
    }
}

#[test]
fn flows_lead_from_calls_to_what_they_caused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut flows = 0;
    for log in logs() {
        let trace = trace_of(&log, dir.path());
        let mut begun: BTreeMap<u64, &DecodedEvent> = BTreeMap::new();
        for event in trace.in_order() {
            for flow in &event.flows {
                assert_eq!(event.category, "syscall");
                assert!(begun.insert(*flow, event).is_none(), "{}: {flow}", log.display());
            }
            for flow in &event.ended_flows {
                let call = begun.remove(flow);
                let call = call.unwrap_or_else(|| panic!("{}: {event:?}", log.display()));
                assert!(["block", "async"].contains(&event.category.as_str()), "{event:?}");
                if event.category == "block" && event.value("tid").is_i64() {
                    let tid = trace.threads.get(&call.track).copied();
                    assert_eq!(event.value("tid").as_i64(), tid, "{}: {event:?}", log.display());
                }
                flows += 1;
            }
        }
        assert!(begun.is_empty(), "{}: {begun:?}", log.display());
    }
    assert!(flows > 300, "{flows}");
}

#[test]
fn sums_are_those_of_the_summary() {
    let dir = tempfile::tempdir().expect("a directory");
    for log in logs() {
        let trace = trace_of(&log, dir.path());
        let summary: Value =
            serde_json::from_str(&printed(&["summary", "--json"], &log)).expect("an object");
        let mut expected: BTreeMap<String, CountAndBytes> = BTreeMap::new();
        for row in rows(&summary, "calls") {
            let sum = expected.entry(word(row, "operation").to_owned()).or_default();
            sum.0 += number(row, "count");
            // A transfer has both.
            sum.1 += number(row, "read_bytes").max(number(row, "written_bytes"));
        }
        let mut found: BTreeMap<String, CountAndBytes> = BTreeMap::new();
        for event in of_category(&trace, "syscall").chain(of_category(&trace, "async")) {
            if event.value("unfinished").is_null() {
                let interface = event.value("interface");
                let name = match interface.as_str() {
                    Some(interface) => format!("{interface}:{}", event.name),
                    None => event.name.clone(),
                };
                let sum = found.entry(name).or_default();
                sum.0 += 1;
                sum.1 += event.value("bytes").as_u64().unwrap_or(0);
            }
        }
        assert_eq!(found, expected, "{}", log.display());
        let mut devices: BTreeMap<String, CountAndBytes> = BTreeMap::new();
        for row in rows(&summary, "devices") {
            let name = format!("{} {}", word(row, "device"), word(row, "operation"));
            devices.insert(name, (number(row, "requests"), number(row, "bytes")));
        }
        let mut requests: BTreeMap<String, CountAndBytes> = BTreeMap::new();
        for event in of_category(&trace, "block") {
            if event.value("ending") == "completed" {
                let device = event.value("device");
                let name = format!("{} {}", device.as_str().unwrap_or("?"), event.name);
                let sum = requests.entry(name).or_default();
                sum.0 += 1;
                sum.1 += event.value("bytes_done").as_u64().unwrap_or(0);
            }
        }
        assert_eq!(requests, devices, "{}", log.display());
    }
}

#[test]
fn times_are_those_of_the_log_and_the_wall_clock_is_known() {
    let dir = tempfile::tempdir().expect("a directory");
    for log in logs() {
        let trace = trace_of(&log, dir.path());
        assert_eq!((trace.clock, trace.primary_clock), (3, 3), "{}", log.display());
        assert!(trace.clocks.contains_key(&1), "{}: {:?}", log.display(), trace.clocks);
        let start = trace.clocks.get(&3).copied().expect("a start");
        let names: BTreeSet<&str> =
            of_category(&trace, "capture").map(|event| event.name.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["begin of the capture", "end of the capture"]));
        let begin = trace.events.iter().find(|event| event.category == "capture");
        assert_eq!(begin.map(|event| event.time), Some(start), "{}", log.display());
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_of_a_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = &logs()[0];
    let trace = dir.path().join("a.pftrace");
    fs::write(&trace, "mine").expect("space");
    let refused = iotrace(&["convert", text(log), "-o", text(&trace)]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(fs::read(&trace).expect("a file"), b"mine");
    let other = dir.path().join("b.pftrace");
    let missing = dir.path().join("missing.iocap");
    let failed = iotrace(&["convert", text(&missing), "-o", text(&other)]);
    assert!(!failed.status.success(), "{failed:?}");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

/// Fails if a disk that appeared during the recording has only a number.
#[test]
fn disks_that_came_later_have_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("late.iocap");
    let shape = Shape { records: 20_011, late_disks: true, ..Shape::default() };
    let truth = synthetic::write(&shape, fs::File::create_new(&log).expect("a new file"));
    assert!(truth.expect("the disk has room").requests > 0);
    let trace = dir.path().join("late.pftrace");
    iotrace(&["convert", text(&log), "-o", text(&trace)]).success();
    let trace = DecodedTrace::read(&fs::read(trace).expect("a trace"));
    let names: BTreeSet<&str> = trace.tracks.values().map(String::as_str).collect();
    for name in ["disk0", "disk3", "disk0 bytes read"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("dev ")), "{names:?}");
    let devices = of_category(&trace, "block").map(|event| event.value("device"));
    let devices: BTreeSet<String> =
        devices.filter_map(|device| device.as_str().map(str::to_owned)).collect();
    assert_eq!(devices, ["disk0", "disk1", "disk2", "disk3"].map(str::to_owned).into());
}

#[test]
fn unknown_suffix_is_answered_with_both_formats() {
    let finished = iotrace(&["convert", text(&logs()[0]), "-o", "/tmp/none.perfetto"]);
    assert!(!finished.status.success(), "{finished:?}");
    let said = finished.stderr();
    assert!(said.contains("NAME.otf2") && said.contains("NAME.pftrace"), "{said}");
}
