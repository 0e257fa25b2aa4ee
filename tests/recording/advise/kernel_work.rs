//! Rules about work of the kernel for a program: what it reads ahead, commits of a journal, writers
//! that it slows down or lets wait for each other.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use nix::unistd::{SysconfVar, sysconf};
use serde_json::Value;

use super::own_disk::OwnDisk;
use super::{check_habit_in, habit_in, program, rows, text};
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, record};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;

/// Bytes of the file systems.
const DISK_BYTES: u64 = 256 << 20;

/// Writes that both threads do at once: in order of their ends, those that began before the last
/// write of the other thread to the file ended.
fn overlapping_writes(log: &Path) -> u64 {
    let mut script = Command::new(BINARY);
    script.args(["script", "--json", "-e", "pwrite64"]).arg(log);
    let lines = process::run(&mut script, TIMEOUT).expect("it ends").success().stdout();
    let mut writes: Vec<(u64, u64, u64, String)> = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| line[key].as_u64().unwrap_or(0);
        if line["kind"] == "syscall" && line["path"].is_string() {
            let (start, path) = (number("start_ns"), text(&line, "path").to_owned());
            writes.push((start + number("duration_ns"), start, number("tid"), path));
        }
    }
    writes.sort();
    let mut last: HashMap<String, (u64, u64)> = HashMap::new();
    let mut count = 0;
    for (end, start, tid, path) in writes {
        let before = last.insert(path, (end, tid));
        count += u64::from(before.is_some_and(|(end, thread)| thread != tid && start < end));
    }
    count
}

/// The writes wait for the disk: they overlap on one processor, too.
#[test]
fn threads_that_write_one_file_are_counted() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    for (habit, is_found) in [("shared_file", true), ("own_files", false)] {
        let dir = scratch_dir("advise-shared");
        let place = dir.path().canonicalize().expect("there");
        let program = program("habits.py");
        let line = ["/usr/bin/python3", "-I", &program, habit, place.to_str().expect("text")];
        let (finished, recording) = record(&dir.path().join("trace"), &[], &line);
        finished.success();
        recording.assert_whole();
        let log = dir.path().join("trace/traces.iocap");
        let mut advise = Command::new(BINARY);
        let advised = process::run(advise.args(["advise", "--json"]).arg(&log), TIMEOUT);
        let report: Value =
            serde_json::from_str(&advised.expect("it ends").stdout()).expect("JSON");
        let places = rows(&report, "places").into_iter();
        let found: Vec<(&str, u64)> = places
            .filter(|row| text(row, "finding") == "shared-file")
            .map(|row| (text(row, "path"), row["count"].as_u64().expect("a count")))
            .collect();
        let (overlapping, file) = (overlapping_writes(&log), place.join("a"));
        assert_eq!(overlapping >= 100, is_found, "{habit}: {overlapping}");
        let expected = is_found.then(|| (file.to_str().expect("text"), overlapping));
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{habit}: {report:#}");
    }
}

/// All of a file is read by the disk, and 131 of its 1,024 pages by the program.
#[test]
fn bytes_that_are_read_ahead_in_vain_are_counted() {
    if !can_record(&OwnDisk::NEEDS) {
        return;
    }
    let _turn = beside_others();
    let disk = OwnDisk::new("advise-ahead", DISK_BYTES);
    let page = sysconf(SysconfVar::PAGE_SIZE).expect("it is known").expect("a number");
    let page = u64::try_from(page).expect("not negative");
    let expected = [("a", 131, Some((1024 - 131) * page))];
    check_habit_in(&disk.place, &[], "useless_readahead", "useless-readahead", &expected);
    check_habit_in(&disk.place, &[], "no_readahead", "useless-readahead", &[]);
}

/// Rows of a rule for a habit whose layers are recorded.
fn with_layers(place: &Path, habit: &str, rule: &str) -> (Vec<(String, u64)>, Value) {
    let (found, report) = habit_in(place, &["-e", "%default,layers"], habit, rule);
    (found.into_iter().map(|(path, count, _)| (path, count)).collect(), report)
}

#[test]
fn syncs_that_wait_for_the_journal_are_counted() {
    let events = Need::KernelFile("/sys/kernel/tracing/events/jbd2");
    if !can_record(&[&OwnDisk::NEEDS[..], &[events]].concat()) {
        return;
    }
    let _alone = alone();
    let disk = OwnDisk::new("advise-commits", DISK_BYTES);
    let (found, report) = with_layers(&disk.place, "journal_commits", "journal-commits");
    // The kernel's own commit, every five seconds, may come before that of a sync.
    let is_found = matches!(&found[..], [(path, 300..=401)] if path == "a");
    assert!(is_found, "{found:?}: {report:#}");
    fs::remove_file(disk.place.join("a")).expect("it is there");
    let (found, report) = with_layers(&disk.place, "no_commits", "journal-commits");
    assert_eq!(found, [], "{report:#}");
}

/// Limit of the bytes that may wait for a disk. A loop device would keep it for its next user.
struct StrictLimit<'a> {
    limits: &'a Path,
}

impl<'a> StrictLimit<'a> {
    fn new(limits: &'a Path) -> Self {
        let limit = Self { limits };
        fs::write(limits.join("strict_limit"), "1").expect("set it");
        fs::write(limits.join("max_bytes"), "4194304").expect("set it");
        limit
    }
}

impl Drop for StrictLimit<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.limits.join("max_ratio"), "100");
        let _ = fs::write(self.limits.join("strict_limit"), "0");
    }
}

/// The limit is that of the disk alone (`strict_limit`, Linux 6.2): 4 MiB may wait for it.
#[test]
fn writers_that_the_kernel_slows_down_are_found() {
    let limits = [
        Need::KernelFile("/sys/kernel/tracing/events/writeback/balance_dirty_pages"),
        Need::KernelFile("/sys/class/bdi/7:0/strict_limit"),
    ];
    if !can_record(&[&OwnDisk::NEEDS[..], &limits].concat()) {
        return;
    }
    let _alone = alone();
    let disk = OwnDisk::new("advise-throttled", DISK_BYTES);
    let (found, report) = with_layers(&disk.place, "large_accesses", "throttled-writers");
    assert_eq!(found, [], "{report:#}");
    let limits = Path::new("/sys/class/bdi").join(disk.mounted.device().number());
    let _limit = StrictLimit::new(&limits);
    let (found, report) = with_layers(&disk.place, "writes_much", "throttled-writers");
    let is_found = matches!(&found[..], [(path, 1..)] if path == "a");
    assert!(is_found, "{found:?}: {report:#}");
}
