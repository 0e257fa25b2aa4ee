//! docs/json.md and docs/json/ against what the verbs print of the recorded logs: a key that is
//! not documented, that has another type than its row, or that is documented and never
//! written, is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

mod schema;
use crate::merge::{DD, Made};
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::{Need, require};
use crate::support::{scratch_dir, text};
use schema::{Schema, quoted, rows, section};

const REPORTS: &str = "## Reports";

/// All logs of the corpus.
fn logs() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    let folders =
        std::fs::read_dir(corpus).expect("the corpus").map(|it| it.expect("readable").path());
    let files =
        folders.filter(|it| it.is_dir()).flat_map(|it| std::fs::read_dir(it).expect("a folder"));
    let paths = files.map(|it| it.expect("readable").path());
    let mut logs: Vec<PathBuf> =
        paths.filter(|it| it.extension().is_some_and(|it| it == "iocap")).collect();
    logs.sort();
    assert!(logs.len() >= 30, "{logs:?}");
    logs
}

fn printed(arguments: &[&str], log: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg(log);
    process::run(&mut command, TIMEOUT).expect("it ends").success().stdout()
}

/// The keys of an object as they come.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadKeys)
    }
}

struct ReadKeys;

impl<'de> Visitor<'de> for ReadKeys {
    type Value = Keys;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, IgnoredAny)) = map.next_entry()? {
            keys.push(key);
        }
        Ok(Keys(keys))
    }
}

/// Of two values under one key readers see one, and not the same.
#[track_caller]
fn expect_no_key_twice(text: &str, what: &str) {
    let Keys(keys) = serde_json::from_str(text).expect(text);
    let different: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "{what}: {keys:?}");
}

/// Checks the output of the verb with each of these options, for each log.
fn check_report(verb: &str, options: &[&[&str]], schema: Schema, never: &[&str]) {
    let mut schema = schema;
    for log in logs() {
        for options in options {
            let words: Vec<&str> = verb.split(' ').collect();
            let text = printed(&[&words[..], &["--json"], *options].concat(), &log);
            let what = format!("{verb} {options:?} {}", log.display());
            expect_no_key_twice(&text, &what);
            let value: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(schema.check(&value), Vec::<String>::new(), "{what}");
        }
    }
    assert_eq!(schema.unwritten(), never, "{verb}: documented, and in no log of the corpus");
}

fn of_report(verb: &str) -> Schema {
    // `replay run --loop` is a part of the page of `replay run`.
    let of_verb = match verb.split_once(" --") {
        None => {
            section(&format!("# `{verb} --json`")).split("\n## ").next().expect("its beginning")
        }
        Some(_) => section(&format!("## `{verb}`")),
    };
    Schema::default().with(section(REPORTS)).with(of_verb)
}

/// Options of a report that can have a table of groups, and others.
fn grouped(others: &[&'static [&'static str]]) -> Vec<&'static [&'static str]> {
    places(&[&["--by", "thread"], &["--by", "process"]])
        .into_iter()
        .chain(others.iter().copied())
        .collect()
}

/// Options of a report with tables of places, and others.
fn places(others: &[&'static [&'static str]]) -> Vec<&'static [&'static str]> {
    let by: [&[&str]; 4] = [&[], &["--by", "directory"], &["--by", "mount"], &["--by", "device"]];
    by.into_iter().chain(others.iter().copied()).collect()
}

#[test]
fn keys_of_summary_are_documented() {
    check_report(
        "summary",
        &places(&[&["-n", "1"], &["--by", "thread"], &["--by", "rank"], &["--by", "host"]]),
        of_report("summary"),
        &[],
    );
}

/// Fails if a report on a job has a key that is not documented.
#[test]
fn keys_of_jobs_are_documented() {
    let dir = scratch_dir("job-keys");
    for (rank, host) in ["alpha", "beta"].iter().enumerate() {
        let rank = Some(rank as u64);
        Made { host, rank, ..DD }.write(dir.path(), host);
    }
    let job = dir.path().join("job");
    let output = format!("{}/", text(&job));
    let mut command = Command::new(BINARY);
    command.args(["merge", "-o", &output]).arg(dir.path());
    process::run(&mut command, TIMEOUT).expect("it ends").success();
    let of_job = || section("## A job");
    for (verb, options) in [
        ("summary", &["--by", "process"][..]),
        ("summary", &["--by", "rank"]),
        ("summary", &["--by", "host"]),
        ("files", &[]),
        ("slow", &[]),
        ("latency", &[]),
    ] {
        let text = printed(&[&[verb, "--json"], options].concat(), &job);
        expect_no_key_twice(&text, verb);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let mut schema = of_report(verb).with(of_job());
        assert_eq!(schema.check(&value), Vec::<String>::new(), "{verb} {options:?}");
    }
    let text = printed(&["info", "--json"], &job);
    expect_no_key_twice(&text, "info");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let mut schema = of_report("summary").with(of_job());
    assert_eq!(schema.check(&value), Vec::<String>::new(), "info");
}

#[test]
fn keys_of_files_are_documented() {
    check_report("files", &grouped(&[&["-n", "1"]]), of_report("files"), &[]);
}

#[test]
fn keys_of_disk_are_documented() {
    let options = places(&[&["-n", "1"], &["--by", "cgroup"]]);
    check_report("disk", &options, of_report("disk"), &[]);
}

#[test]
fn keys_of_neighbours_are_documented() {
    let options: [&[&str]; 3] = [&[], &["-n", "1"], &["--by", "cgroup"]];
    check_report("neighbours", &options, of_report("neighbours"), &[]);
}

/// The lives are those of all files of the logs of the corpus that have certain names.
#[test]
fn keys_of_lives_are_documented() {
    let page = section("## `files --life --json`");
    let schema = Schema::default().with(section(REPORTS)).with(page);
    let files = ["/tmp/iotrace-corpus/inner/zeroes", "/tmp/iotrace-corpus/inner/a copy"];
    let options: Vec<Vec<&str>> = files.iter().map(|file| vec!["--life", *file]).collect();
    let options: Vec<&[&str]> = options.iter().map(Vec::as_slice).collect();
    check_report("files", &options, schema, &[]);
}

#[test]
fn keys_of_cache_are_documented() {
    let options = places(&[&["-n", "1"], &["--by", "user"]]);
    check_report("cache", &options, of_report("cache"), &[]);
}

#[test]
fn keys_of_what_if_are_documented() {
    let options: [&[&str]; 4] = [
        &[],
        &["--memory", "64K,1G"],
        &["--read-ahead", "0,128K"],
        &["--device-latency", "100us", "--device-depth", "2"],
    ];
    check_report("what-if", &options, of_report("what-if"), &[]);
}

#[test]
fn keys_of_slow_are_documented() {
    check_report("slow", &grouped(&[&["-n", "1"]]), of_report("slow"), &[]);
}

/// The status of `advise` tells the severity of its findings.
#[test]
fn keys_of_advise_are_documented() {
    let mut schema = of_report("advise");
    let run = |arguments: &[&str], log: Option<&Path>| {
        let mut command = Command::new(BINARY);
        command.args(["advise", "--json"]).args(arguments).args(log);
        let finished = process::run(&mut command, TIMEOUT).expect("it ends");
        let text = finished.stdout();
        assert!(matches!(finished.status.code(), Some(0 | 102 | 103)), "{}", finished.stderr());
        expect_no_key_twice(&text, "advise");
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    for log in logs() {
        let value = run(&["--ignore", "sync-all"], Some(&log));
        assert_eq!(schema.check(&value), Vec::<String>::new(), "{}", log.display());
    }
    assert_eq!(schema.check(&run(&["--rules"], None)), Vec::<String>::new());
    // No program of the corpus is careless and recorded with all calls; `recording advise::` has
    // some.
    assert!(schema.unwritten().iter().all(|key| key.starts_with("events[].")));
}

#[test]
fn keys_of_latency_are_documented() {
    check_report("latency", &grouped(&[&["--ms", "-Q"]]), of_report("latency"), &[]);
}

#[test]
fn keys_of_pattern_are_documented() {
    check_report("pattern", &grouped(&[&["-n", "1"]]), of_report("pattern"), &[]);
}

#[test]
fn keys_of_stacks_are_documented() {
    check_report("stacks", &[&[], &["-n", "1", "-P"], &["--calls"]], of_report("stacks"), &[]);
}

#[test]
fn replay_plan() {
    check_report("replay plan", &[&[], &["-n", "1"]], of_report("replay plan"), &[]);
}

/// Every log of the corpus is done again, whatever is in it; and one where too few files may be
/// open, so that calls have other results. The reports match `schema`, and each of its keys appears
/// in one of them.
fn check_runs(mut schema: Schema, options: &[&str]) {
    if !require(Need::Root) {
        return;
    }
    let limited = logs().into_iter().find(|it| it.ends_with("v2/kprobe-new.iocap"));
    let limited = limited.expect("a log of the corpus");
    for (log, limit) in logs().into_iter().map(|it| (it, "1024")).chain([(limited, "64")]) {
        let dir = tempfile::tempdir().expect("a directory");
        let [plan, root] = ["plan", "root"].map(|it| dir.path().join(it).display().to_string());
        let run = |limit: &str, arguments: &[&str]| {
            let line = format!("ulimit -n {limit}; exec \"$@\"");
            let mut command = Command::new("sh");
            command.args(["-c", &line, "sh", BINARY, "replay"]).args(arguments);
            process::run(&mut command, TIMEOUT).expect("it ends")
        };
        run("1024", &["plan", &log.display().to_string(), "-o", &plan]).success();
        run("1024", &["init", &plan, "--root", &root, "--content", "sparse"]).success();
        let finished = run(limit, &[&["run", &plan, "--root", &root, "--json"], options].concat());
        let what = format!("{}: {}", log.display(), finished.stderr());
        assert!(matches!(finished.status.code(), Some(0 | 1)), "{what}");
        let text = finished.stdout();
        expect_no_key_twice(&text, &what);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(schema.check(&value), Vec::<String>::new(), "{what}");
        run("1024", &["purge", "--root", &root]).success();
    }
    assert_eq!(schema.unwritten(), Vec::<String>::new());
}

#[test]
fn replay_run() {
    check_runs(of_report("replay run"), &["--speed", "1000", "--content", "zero"]);
}

/// One round each: the files of a second one could not be made where so few files may be open.
#[test]
fn replay_run_loop() {
    let once = ["--loop", "1", "--speed", "1000", "--content", "sparse"];
    check_runs(of_report("replay run --loop"), &once);
}

/// All requests of the corpus, on a device of 4 TiB with holes.
#[test]
fn replay_run_block() {
    const BYTES: u64 = 4 << 40;
    if !require(Need::Loop) {
        return;
    }
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let device = LoopDevice::new(memory.path(), BYTES).expect("a loop device");
    let mut schema = of_report("replay run --level block");
    let node = device.path().display().to_string();
    let image = memory.path().join("disk.img");
    let image = fs::File::options().write(true).open(image).expect("the device's file");
    let mut reports = 0;
    for log in logs() {
        let info: Value = serde_json::from_str(&printed(&["info", "--json"], &log)).expect("JSON");
        for disk in info["disks"].as_array().into_iter().flatten() {
            let name = disk["name"].as_str().expect("text");
            // Options, and how long the device's file is: reads past its end fail.
            for (allowed, bytes) in [
                (&["--speed", "max"][..], 0),
                (&["--write", "--speed", "1000"], BYTES),
                (&["--write", "--discard", "--speed", "max"], BYTES),
            ] {
                image.set_len(bytes).expect("ours");
                let mut command = Command::new(BINARY);
                command.args(["replay", "run", "--level", "block", "--json", "--device", &node]);
                command.args(["--from-device", name]).args(allowed).arg(&log);
                let finished = process::run(&mut command, TIMEOUT).expect("it ends");
                if finished.status.code() == Some(125) {
                    let why = finished.stderr();
                    let is_empty = why.contains("has no requests of")
                        || why.contains("no requests to replay")
                        || why.contains("has no block requests");
                    assert!(is_empty, "{}: {why}", log.display());
                    continue;
                }
                let text = finished.stdout();
                let what = format!("{} {name} {allowed:?}", log.display());
                expect_no_key_twice(&text, &what);
                let value: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(schema.check(&value), Vec::<String>::new(), "{what}");
                reports += 1;
            }
        }
    }
    assert!(reports > 10, "{reports}");
    assert_eq!(schema.unwritten(), Vec::<String>::new());
}

/// The corpus has no recording of a replay, so nothing is beside anything; `tests/replay` has some.
#[test]
fn replay_compare() {
    let never = [
        "differences[].count",
        "differences[].difference",
        "first_differences[].call",
        "first_differences[].difference",
        "first_differences[].number",
        "first_differences[].path",
        "first_differences[].recorded_call",
        "first_differences[].recorded_path",
        "first_differences[].recorded_result",
        "first_differences[].result",
        "first_differences[].worker",
    ];
    let mut schema = of_report("replay compare");
    let dir = tempfile::tempdir().expect("a directory");
    let plan = dir.path().join("plan").display().to_string();
    for log in logs() {
        let _ = fs::remove_file(&plan);
        printed(&["replay", "plan", "-o", &plan], &log);
        let mut command = Command::new(BINARY);
        command.args(["replay", "compare", "--json", "--root", "/", &plan]).arg(&log);
        let finished = process::run(&mut command, TIMEOUT).expect("it ends");
        let value: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
        assert_eq!(schema.check(&value), Vec::<String>::new(), "{}", log.display());
        let nothing_to_do = value["missing"] == 0;
        assert_eq!(finished.status.code(), Some(i32::from(!nothing_to_do)), "{}", log.display());
    }
    assert_eq!(schema.unwritten(), never);
}

#[test]
fn replay_export() {
    let mut schema = of_report("replay export");
    for (log, rows) in logs().into_iter().flat_map(|it| [(it.clone(), "0"), (it, "1")]) {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("fio").display().to_string();
        let reported = ["replay", "export", "--json", "--flatten-names", "-n", rows, "--fio", &to];
        let value: Value = serde_json::from_str(&printed(&reported, &log)).expect("JSON");
        assert_eq!(schema.check(&value), Vec::<String>::new(), "{}", log.display());
    }
    assert_eq!(schema.unwritten(), Vec::<String>::new());
}

#[test]
fn keys_of_info_are_documented() {
    // Kinds that no recording of the corpus has; other tests make them.
    let never = [
        // `capsule` has tests of its own.
        "capsule.chain_words",
        "capsule.command_lines",
        "capsule.facts",
        "capsule.frames",
        "capsule.payload_parts",
        "capsule.payloads",
        "capsule.records",
        "capsule.shared_pseudonyms",
        "capsule.texts",
        "capsule.user_stacks",
        "imported.file",
        "imported.format",
        "imported.tool",
        // A recording with `--per-node` has them.
        "job.local_size",
        "names_unheard[].errno",
        "names_unheard[].since_ns",
        "names_unheard[].until_ns",
        "ranks[].local_rank",
        "ranks[].pid",
        "ranks[].rank",
        "unread.first[].addresses",
        "unread.first[].path",
        "unread.first[].reason",
        "unread_programs.first[].path",
        "unread_programs.first[].reason",
    ];
    check_report("info", &[&[]], Schema::default().with(section("# `info --json`")), &never);
}

/// Every key of these is written in a test beside the code (`every_key_is_documented`); here their
/// types count.
#[test]
fn lines_of_script() {
    let kinds = ["syscall", "async", "fault", "block", "anomaly"];
    let heading = |kind: &str| {
        let text = include_str!("../../docs/json/script.md");
        let start = format!("## `\"kind\":\"{kind}\"`");
        text.lines().find(|it| it.starts_with(&start)).expect(kind)
    };
    let mut schemas =
        kinds.map(|kind| (kind, Schema::default().with(section(heading(kind))).flat(), 0));
    let mut wrong = BTreeMap::new();
    for log in logs() {
        for line in printed(&["script", "--json"], &log).lines() {
            expect_no_key_twice(line, "script --json");
            let value: Value = serde_json::from_str(line).expect(line);
            let of_kind = schemas.iter_mut().find(|it| value["kind"] == it.0);
            let (_, schema, count) = of_kind.unwrap_or_else(|| panic!("of no kind: {line}"));
            wrong.extend(schema.check_flat(&value).into_iter().map(|it| (it, line.to_owned())));
            *count += 1;
        }
    }
    assert_eq!(wrong, BTreeMap::new(), "what is wrong, and a line with it");
    let seen: Vec<&str> = schemas.iter().filter(|it| it.2 > 0).map(|it| it.0).collect();
    assert_eq!(seen, kinds);
}

#[test]
fn fields_of_script() {
    let text = section("## `script --fields`, CSV and TSV").replace("| Field |", "| Key |");
    let mut schema = Schema::default().with(&text.replace("| Unit, type | Meaning |", "| | |"));
    let documented = schema.documented();
    for log in logs() {
        let csv = printed(&["script", "--format", "csv"], &log);
        let fields = csv.lines().next().expect("names of fields");
        assert_eq!(fields.split(',').map(str::to_owned).collect::<BTreeSet<_>>(), documented);
        for line in printed(&["script", "--json", "--fields", fields], &log).lines() {
            let value: Value = serde_json::from_str(line).expect(line);
            // A value that a row does not have is null: of each field.
            let has = value.as_object().expect("an object").iter().filter(|it| !it.1.is_null());
            let has: Value = has.map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(schema.check(&has), Vec::<String>::new(), "{}: {line}", log.display());
        }
    }
    assert_eq!(schema.unwritten(), Vec::<&str>::new());
}

/// Of any machine: what is tried does not depend on the outcome.
#[test]
fn keys_of_doctor_are_documented() {
    let text = section("# `doctor --json`");
    let mut command = Command::new(BINARY);
    command.args(["doctor", "--json"]);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    let value: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
    let mut schema = Schema::default().with(text);
    assert_eq!(schema.check(&value), Vec::<String>::new());
    assert_eq!(schema.unwritten(), Vec::<&str>::new());
    let row = rows(text).find(|it| it[0] == "`checks[].name`").expect("a row");
    let documented: Vec<&str> = quoted(row[2]).filter(|it| !it.starts_with("--")).collect();
    let checks = value["checks"].as_array().expect("a list");
    let names: Vec<&str> = checks.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, documented);
}

#[test]
fn schema_finds_wrong_documents() {
    let text = "\n\n| Key | Type | Meaning |\n|---|---|---|\n| `a` | number | `null`: none. |\n| `l` | list of objects | |\n\
                | `m.*` | text | |\n| `m` | object | |\n\nIn each of `l`:\n\n| Key | Type | Meaning |\n|---|---|---|\n| `b`, `c` | word | |\n";
    let schema = || Schema::default().with(text);
    let right = json!({"a": null, "l": [{"b": "x", "c": "y", "c_bytes": "ff"}], "m": {"any": "z"}});
    let mut all = schema();
    assert_eq!((all.check(&right), all.unwritten()), (vec![], vec![]));
    for wrong in [
        json!({"a": "text"}),
        json!({"a": 1.5}),
        json!({"d": 1}),
        json!({"a_bytes": "ff"}),
        json!({"l": [{"b": null}]}),
        json!({"l": [{"a": 1}]}),
        json!({"l": ["b"]}),
        json!({"m": {"any": 1}}),
    ] {
        assert_eq!(schema().check(&wrong).len(), 1, "{wrong}");
    }
    assert_eq!(schema().unwritten(), ["a", "l", "l[].b", "l[].c", "m", "m.*"]);
}
