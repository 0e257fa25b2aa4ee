//! `advise`: programs with one flaw each have exactly that finding, and databases that are careful
//! have none.

mod kernel_work;
mod own_disk;

use std::fs;
use std::path::Path;
use std::process::Command;

use own_disk::OwnDisk;
use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, compile};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::mount::Mounted;
use crate::support::machine::postgres::Server;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;

/// Rules of durability.
const DURABILITY: [&str; 5] =
    ["write-after-sync", "rename-unsynced", "directory-unsynced", "sync-failed", "mmap-unsynced"];

/// Judged recording of a command: exit status and report.
fn advise(options: &[&str], command: &[&str]) -> (Option<i32>, Value) {
    let dir = scratch_dir("advise-report");
    let to = dir.path().join("report.json");
    let mut line = Command::new(BINARY);
    line.args(["advise", "--json", "--to"]).arg(&to).args(options).arg("--").args(command);
    let output = process::run(&mut line, TIMEOUT).expect("it ends");
    let report = serde_json::from_slice(&fs::read(&to).unwrap_or_default());
    let report = report.unwrap_or_else(|cause| panic!("{cause}: {}", output.stderr()));
    (output.status.code(), report)
}

fn program(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn rows<'a>(report: &'a Value, table: &str) -> Vec<&'a Value> {
    report[table].as_array().expect("a table").iter().collect()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

/// Places of a rule in a directory, as severity, name and count.
fn places(report: &Value, rule: &str, directory: &Path) -> Vec<(String, String, u64)> {
    let inside = |row: &&Value| {
        text(row, "finding") == rule && Path::new(text(row, "path")).starts_with(directory)
    };
    let place = |row: &Value| {
        let path = Path::new(text(row, "path")).strip_prefix(directory).expect("inside");
        let severity = text(row, "severity").to_owned();
        (severity, path.display().to_string(), row["count"].as_u64().expect("a count"))
    };
    rows(report, "places").into_iter().filter(inside).map(place).collect()
}

/// Calls of the first proof of a rule.
fn order(report: &Value, rule: &str) -> Vec<String> {
    let events = rows(report, "events").into_iter();
    let first = events.filter(|row| text(row, "finding") == rule && row["proof"] == 1);
    first.map(|row| text(row, "operation").to_owned()).collect()
}

/// Findings about durability in a directory, and cases that are not judged.
fn durable(report: &Value, directory: &Path) -> Vec<(String, String, String, u64)> {
    let mut all = Vec::new();
    for rule in DURABILITY {
        let of_rule = places(report, rule, directory).into_iter();
        all.extend(of_rule.map(|(severity, name, count)| (rule.to_owned(), severity, name, count)));
    }
    all
}

/// Runs a flaw until all of its names were read in time, which a busy machine may need.
#[track_caller]
fn check_flaw(flaw: &str, status: i32, rule: &str, severity: &str, name: &str, calls: &[&str]) {
    let dir = scratch_dir("advise");
    let place = dir.path().canonicalize().expect("there");
    let python =
        ["/usr/bin/python3", "-I", &program("durability.py"), flaw, place.to_str().expect("text")];
    let ignored: Vec<&str> = ["missing-lookups", "metadata-heavy", "small-writes"]
        .iter()
        .flat_map(|rule| ["--ignore", rule])
        .collect();
    let (found, report) = advise(&ignored, &python);
    let expected = [(rule.to_owned(), severity.to_owned(), name.to_owned(), 1)];
    let expected = if rule.is_empty() { &[][..] } else { &expected[..] };
    assert_eq!(durable(&report, &place), expected, "{flaw}: {report:#}");
    assert_eq!(found, Some(status), "{flaw}: {report:#}");
    assert_eq!(order(&report, rule), calls, "{flaw}: {report:#}");
}

#[test]
fn each_flaw_of_durability_is_found_with_its_order() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    check_flaw(
        "rename_unsynced",
        102,
        "rename-unsynced",
        "warning",
        "b",
        &["openat", "write", "write", "rename"],
    );
    check_flaw(
        "write_after_sync",
        103,
        "write-after-sync",
        "problem",
        "b",
        &["openat", "write", "fsync", "write", "write", "rename"],
    );
    check_flaw(
        "directory_unsynced",
        102,
        "directory-unsynced",
        "warning",
        "b",
        &["openat", "write", "fsync", "rename"],
    );
    check_flaw(
        "unnamed",
        102,
        "rename-unsynced",
        "warning",
        "f",
        &["openat", "write", "write", "linkat"],
    );
    check_flaw(
        "never_syncs",
        0,
        "rename-unsynced",
        "note",
        "b",
        &["openat", "write", "write", "rename"],
    );
    check_flaw("right", 0, "", "", "", &[]);
}

/// A device whose backing file has no room: the fsync fails, and the program closes the file.
#[test]
fn failed_sync_that_is_ignored_is_found() {
    if !can_record(&[Need::Program("python3"), Need::Loop, Need::Program("mkfs.ext2")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("advise-full");
    let memory = Mounted::of_kernel(dir.path(), "tmpfs", "size=12M");
    let mounted = Mounted::new(memory.path(), "ext2", 64 << 20);
    let place = mounted.path().canonicalize().expect("there");
    let program = program("durability.py");
    let line = ["/usr/bin/python3", "-I", &program, "sync_failed", place.to_str().expect("text")];
    let (status, report) = advise(&[], &line);
    let expected = ["sync-failed", "warning", "a"].map(str::to_owned);
    let found: Vec<_> = durable(&report, &place)
        .into_iter()
        .map(|(rule, severity, name, _)| [rule, severity, name])
        .collect();
    assert_eq!(found, [expected], "{report:#}");
    assert_eq!(order(&report, "sync-failed"), ["fsync", "close"], "{report:#}");
    assert_eq!(status, Some(102));
}

/// Files in memory are no business of fsync.
#[test]
fn files_on_tmpfs_have_no_finding() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let place = dir.path().to_str().expect("text");
    let program = program("durability.py");
    let (_, report) = advise(&[], &["/usr/bin/python3", "-I", &program, "rename_unsynced", place]);
    assert_eq!(durable(&report, dir.path()), [], "{report:#}");
}

/// Recordings of a program, one of which must have all names. The path of a query is read from the
/// memory of the process by a thread of the recorder, now and then too late.
const RECORDINGS_MAX: u32 = 5;

/// Text of the note about calls without a name.
const WITHOUT_NAMES: &str = " without a name";

/// Row of a rule: name, count, and bytes if it is about bytes.
type HabitRow = (String, u64, Value);

/// Runs a habit in a directory, and returns the rows of a rule there.
fn habit_in(place: &Path, options: &[&str], habit: &str, rule: &str) -> (Vec<HabitRow>, Value) {
    let program = program("habits.py");
    let line = ["/usr/bin/python3", "-I", &program, habit, place.to_str().expect("text")];
    let (_, report) = advise(options, &line);
    let mut found = Vec::new();
    for row in rows(&report, "places") {
        let path = Path::new(text(row, "path"));
        let is_inside = path.starts_with(place) || !path.is_absolute();
        if text(row, "finding") == rule && is_inside {
            let name = path.strip_prefix(place).unwrap_or(path).display().to_string();
            found.push((name, row["count"].as_u64().expect("a count"), row["bytes"].clone()));
        }
    }
    (found, report)
}

#[track_caller]
fn check_habit(name: &str, rule: &str, expected: &[(&str, u64, Option<u64>)]) {
    let dir = scratch_dir("advise-habit");
    let place = dir.path().canonicalize().expect("there");
    check_habit_in(&place, &[], name, rule, expected);
}

#[track_caller]
fn check_habit_in(
    place: &Path,
    options: &[&str],
    name: &str,
    rule: &str,
    expected: &[(&str, u64, Option<u64>)],
) {
    let expected: Vec<HabitRow> = expected
        .iter()
        .map(|(path, count, bytes)| ((*path).to_owned(), *count, Value::from(*bytes)))
        .collect();
    for _ in 0..RECORDINGS_MAX {
        let (found, report) = habit_in(place, options, name, rule);
        if found == expected {
            return;
        }
        let lacks_names = rows(&report, "notes")
            .iter()
            .any(|note| note.as_str().is_some_and(|note| note.contains(WITHOUT_NAMES)));
        let is_part = |row: &HabitRow| {
            expected.iter().any(|(path, count, _)| *path == row.0 && row.1 <= *count)
        };
        let may_lack_names = lacks_names && !expected.is_empty() && found.iter().all(is_part);
        assert!(may_lack_names, "{name}: {found:?} instead of {expected:?}: {report:#}");
        fs::remove_file(place.join("a")).ok();
    }
    panic!("{name}: a name may be read too late now and then, but not each time");
}

#[test]
fn each_habit_is_found_with_its_numbers() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    check_habit("small_reads", "small-reads", &[("a", 101, Some(101 * 13))]);
    check_habit("small_writes", "small-writes", &[("a", 103, Some(103 * 7))]);
    check_habit("large_accesses", "small-reads", &[]);
    check_habit("large_accesses", "small-writes", &[]);
    check_habit("reread", "reread", &[("a", 3, Some(2 << 20))]);
    check_habit("small_reads", "reread", &[]);
    check_habit("missing_lookups", "missing-lookups", &[("", 1009, None)]);
    check_habit("small_reads", "missing-lookups", &[]);
    check_habit("stat_storm", "stat-storm", &[("a", 107, None)]);
    check_habit("small_reads", "stat-storm", &[]);
    check_habit("opened_unused", "opened-unused", &[("a", 109, None)]);
    check_habit("small_reads", "opened-unused", &[]);
    check_habit("written_removed", "written-removed", &[("a", 1, Some((1 << 20) + 1))]);
    check_habit("reread", "written-removed", &[]);
    check_habit("overwritten", "overwritten", &[("a", 1, Some(1 << 20))]);
    check_habit("overwritten_after_sync", "overwritten", &[]);
    check_habit("fsync_storm", "fsync-storm", &[("a", 113, Some(113 * 11))]);
    check_habit("sync_twice", "fsync-storm", &[]);
    check_habit("sync_all", "sync-all", &[("sync", 1, None)]);
    check_habit("fsync_storm", "sync-all", &[]);
    check_habit("sync_twice", "sync-twice", &[("a", 13, None)]);
    check_habit("fsync_storm", "sync-twice", &[]);
}

#[test]
fn direct_reads_of_parts_of_blocks_are_found() {
    if !can_record(&[Need::Program("python3"), Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _turn = beside_others();
    let disk = OwnDisk::new("advise-direct", 64 << 20);
    let check = |habit: &str, expected: &[(&str, u64, Option<u64>)]| {
        check_habit_in(&disk.place, &[], habit, "direct-unaligned", expected);
    };
    check("direct_unaligned", &[("a", 101, Some(101 * 512))]);
    check("direct_vectored", &[("a", 101, Some(101 * 512))]);
    check("direct_refused", &[("a", 11, None)]);
    check("direct_aligned", &[]);
}

/// The disk is a loop device, of whose requests all files are known.
#[test]
fn file_that_a_disk_reads_again_is_found() {
    if !can_record(&[Need::Program("python3"), Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _turn = beside_others();
    let disk = OwnDisk::new("advise-thrash", 64 << 20);
    let bytes = 2 * 521 * 4096;
    let expected = [("a", 3, Some(bytes))];
    check_habit_in(&disk.place, &[], "cache_thrash", "cache-thrash", &expected);
    check_habit_in(&disk.place, &[], "cache_kept", "cache-thrash", &[]);
}

#[test]
fn store_through_a_mapping_needs_a_sync() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("advise-mapped");
    let place = dir.path().canonicalize().expect("there");
    let options = ["-e", "%default,%map,fault"];
    let expected = [("a", 1, None)];
    check_habit_in(&place, &options, "mmap_unsynced", "mmap-unsynced", &expected);
    check_habit_in(&place, &options, "mmap_synced", "mmap-unsynced", &[]);
}

/// Sentences of the findings of a rule.
fn sentences(report: &Value, rule: &str) -> Vec<String> {
    let found = rows(report, "findings").into_iter().filter(|row| text(row, "finding") == rule);
    found.map(|row| text(row, "text").to_owned()).collect()
}

/// The interpreter's own calls are left out by the filter.
#[test]
fn opens_that_outweigh_data_are_counted() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("advise-metadata");
    let place = dir.path().canonicalize().expect("there");
    let pattern = format!("{}/", place.display());
    let found = |habit: &str| {
        let (_, report) = habit_in(&place, &["-F", &pattern], habit, "metadata-heavy");
        sentences(&report, "metadata-heavy")
    };
    let [sentence] = &found("metadata_heavy")[..] else { panic!("one finding") };
    // Opens and closes of the file, once to make it.
    assert!(sentence.contains(": 1,008 calls for names"), "{sentence}");
    assert!(sentence.contains("1 call for data"), "{sentence}");
    assert_eq!(found("opened_unused"), [""; 0]);
}

/// Rows of a rule about a disk and its partitions.
fn of_disk(report: &Value, rule: &str, name: &str) -> Vec<(String, u64, Value)> {
    let all = rows(report, "places").into_iter();
    let of_rule =
        all.filter(|row| text(row, "finding") == rule && text(row, "path").starts_with(name));
    let row = |row: &Value| {
        (text(row, "path").to_owned(), row["count"].as_u64().unwrap_or(0), row["bytes"].clone())
    };
    of_rule.map(row).collect()
}

#[test]
fn device_that_gets_one_request_at_a_time_is_found() {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("advise-depth");
    let device = LoopDevice::new(dir.path(), 64 << 20).expect("a loop device");
    let disk = device.path().display().to_string();
    let found = |script: &str| {
        let (_, report) = advise(&[], &["sh", "-c", script, &disk]);
        of_disk(&report, "one-at-a-time", device.name())
    };
    let read = |count: u64| {
        format!("dd if=$0 of=/dev/null bs=4096 count={count} iflag=direct status=none")
    };
    let expected = (device.name().to_owned(), 1009, Value::from(1009 * 4096));
    assert_eq!(found(&read(1009)), [expected]);
    assert_eq!(found(&read(997)), []);
    // Requests are submitted by eights.
    let many = "fio --name=many --filename=$0 --rw=randread --bs=4k --direct=1 --ioengine=libaio \
                --iodepth=8 --iodepth_batch_submit=8 --number_ios=1009 --output=/dev/null";
    assert_eq!(found(many), []);
}

/// The partitions are announced to the kernel, which need not understand a table.
#[test]
fn partition_beside_a_physical_block_is_found() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("advise-partitions");
    let device = LoopDevice::new(dir.path(), 64 << 20).expect("a loop device");
    let partition = compile("partition.c", dir.path());
    let run = |words: &[&str]| {
        let mut command = Command::new(&partition);
        process::run(command.arg(device.path()).args(words), TIMEOUT).expect("it ends").success();
    };
    let partitions = |starts: [&str; 2]| {
        for (number, start) in ["1", "2"].into_iter().zip(starts) {
            run(&[number, start, "1021"]);
        }
        let (_, report) = advise(&[], &["true"]);
        ["1", "2"].iter().for_each(|number| run(&[number]));
        of_disk(&report, "misaligned-partition", device.name())
    };
    let name = format!("{}p1", device.name());
    assert_eq!(partitions(["2053", "4096"]), [(name, 1, Value::from(2053 * 512))]);
    assert_eq!(partitions(["2048", "4096"]), []);
}

/// Fails if a renamed file is found by its old name only.
#[test]
fn renamed_file_is_selected_by_its_new_name() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    let program = program("durability.py");
    for (flaw, rule) in
        [("rename_unsynced", "rename-unsynced"), ("directory_unsynced", "directory-unsynced")]
    {
        for (name, is_found) in [("b", true), ("a.tmp", true), ("c", false)] {
            let dir = scratch_dir("advise-renamed");
            let place = dir.path().canonicalize().expect("there");
            let pattern = place.join(name).display().to_string();
            let directory = place.to_str().expect("text");
            let line = ["/usr/bin/python3", "-I", &program, flaw, directory];
            let (_, report) = advise(&["-F", &pattern], &line);
            let found: Vec<_> = durable(&report, &place)
                .into_iter()
                .map(|(rule, _, name, count)| (rule, name, count))
                .collect();
            let expected = (rule.to_owned(), "b".to_owned(), 1);
            let expected = if is_found { &[expected][..] } else { &[] };
            assert_eq!(found, expected, "{flaw} {name}: {report:#}");
        }
    }
}

/// Transactions in each journal mode: `SQLite` is careful in all of them.
#[test]
fn sqlite_is_durable() {
    if !can_record(&[Need::Program("sqlite3")]) {
        return;
    }
    let _turn = beside_others();
    for mode in ["delete", "truncate", "persist", "wal"] {
        let dir = scratch_dir("advise-sqlite");
        let place = dir.path().canonicalize().expect("there");
        let database = place.join("t.db").display().to_string();
        let script = format!(
            "sqlite3 $0 'pragma journal_mode={mode}; create table t(a); insert into t values(1);'
             for i in 1 2 3; do sqlite3 $0 'insert into t values(2);'; done"
        );
        let (_, report) = advise(&[], &["sh", "-c", &script, &database]);
        assert_eq!(durable(&report, &place), [], "{mode}: {report:#}");
    }
}

/// git syncs what `core.fsync` selects, and no directory.
#[test]
fn git_is_reported_for_what_it_does_not_sync() {
    if !can_record(&[Need::Program("git")]) {
        return;
    }
    let _turn = beside_others();
    for (setting, may_be_unsynced) in [("default", true), ("all", false)] {
        let dir = scratch_dir("advise-git");
        let place = dir.path().canonicalize().expect("there");
        let script = format!(
            "cd $0 && git init -q . && git config user.name a && git config user.email a@b &&
             git config core.fsync {setting} && echo 1 > f && git add f && git commit -q -m 1"
        );
        let (_, report) = advise(&[], &["sh", "-c", &script, place.to_str().expect("text")]);
        for (rule, severity, name, _) in durable(&report, &place) {
            let is_index = name == ".git/index";
            match rule.as_str() {
                // The configuration is written before anything may be synced.
                "rename-unsynced" => {
                    assert!(
                        severity == "note" || is_index && may_be_unsynced,
                        "{name}: {report:#}"
                    );
                    assert!(!is_index || may_be_unsynced, "{name}: {report:#}");
                }
                "directory-unsynced" => assert!(name.starts_with(".git/"), "{report:#}"),
                _ => panic!("{rule} {name}: {report:#}"),
            }
        }
    }
}

/// PostgreSQL replaces its own files with synced ones, but for a cache and statistics that it makes
/// again after a crash.
#[test]
fn postgres_is_reported_for_its_caches_only() {
    if !can_record(&[Need::Postgres]) {
        return;
    }
    let _turn = beside_others();
    let server = Server::create();
    let lines = "pg_ctl -D $DATA -w -l $PLACE/log -o \"-k $PLACE -c listen_addresses=\" start; \
                 psql -q -c 'create table t(a int); insert into t select generate_series(1, 1000); checkpoint;'; \
                 psql -q -c \"alter system set work_mem='8MB'\"; pg_ctl -D $DATA -w -m fast stop";
    let command = server.shell(lines);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let (_, report) = advise(&[], &command);
    let place = server.data().canonicalize().expect("there");
    for (rule, severity, name, _) in durable(&report, &place) {
        let is_made_again = name.ends_with("pg_internal.init") || name.starts_with("pg_stat/");
        let is_known = rule == "rename-unsynced" && is_made_again;
        assert!(is_known || severity == "note", "{rule} {severity} {name}: {report:#}");
    }
}

/// Unknown rules are refused with the near name; the table of rules needs no recording.
#[test]
fn rules_are_listed_and_unknown_ones_refused() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        process::run(command.arg("advise").args(arguments), TIMEOUT).expect("it ends")
    };
    let listed = run(&["--rules", "--json"]);
    let report: Value = serde_json::from_str(&listed.stdout()).expect("JSON");
    assert_eq!(rows(&report, "rules").len(), 25, "{report:#}");
    let refused = run(&["--ignore", "smal-reads", "x.iocap"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stderr().contains("the nearest is small-reads"), "{}", refused.stderr());
}
