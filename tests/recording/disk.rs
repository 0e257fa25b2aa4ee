//! `disk`: the bytes of each disk under the program that wrote them, with sums that equal those of
//! the kernel.

use std::path::Path;

use serde_json::Value;

use super::attribution::file_systems;
use crate::support::driver::recording::{Recording, can_record, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::oracle::diskstats::DiskStats;
use crate::support::scratch_dir;

/// Sizes of what is written: primes, in blocks of 4 KiB.
const BLOCKS: [u64; 2] = [499, 491];

/// Time that a device may take to come to rest.
const REST: std::time::Duration = std::time::Duration::from_secs(20);

/// Number of attempts: threads of the kernel use the file systems, too, also before and after.
const ATTEMPTS: u32 = 5;

#[track_caller]
fn rows(report: &Value, table: &str, disk: &str) -> Vec<Value> {
    let rows = report[table].as_array().expect(table).iter();
    rows.filter(|row| row["disk"] == disk).cloned().collect()
}

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| row[key].as_u64().expect(key)).sum()
}

/// Two programs that leave their data in memory; then the kernel writes the data back.
fn script(dirs: [&Path; 2]) -> String {
    let [first, second] = dirs.map(Path::display);
    let [one, two] = BLOCKS;
    format!(
        "dd if=/dev/urandom of={first}/one bs=4k count={one} status=none &
         dd if=/dev/urandom of={second}/two bs=4k count={two} status=none &
         wait; sleep 0.3; sync"
    )
}

/// Checks the rows of a disk; returns false if the kernel's counters include more.
#[track_caller]
fn check_disk(report: &Value, disk: &str, kernel: DiskStats, blocks: u64) -> bool {
    let totals = rows(report, "disks", disk);
    let counted = [
        (kernel.written_sectors * 512, "written_bytes"),
        (kernel.read_sectors * 512, "read_bytes"),
        (kernel.writes, "writes"),
        (kernel.reads, "reads"),
        (kernel.flushes, "flushes"),
    ];
    if counted.iter().any(|(count, key)| sum(&totals, key) != *count) {
        return false;
    }
    for table in ["causes", "files"] {
        let rows = rows(report, table, disk);
        for (count, key) in counted {
            assert_eq!(sum(&rows, key), count, "{table} {key}: {rows:#?}");
        }
        let certain = ["exact_bytes", "inferred_bytes", "unknown_bytes"].map(|key| sum(&rows, key));
        let moved = ["read_bytes", "written_bytes", "discarded_bytes"].map(|key| sum(&rows, key));
        assert_eq!(certain.iter().sum::<u64>(), moved.iter().sum::<u64>(), "{table}");
    }
    let by = rows(report, "causes", disk);
    let writers: Vec<&Value> = by.iter().filter(|row| row["comm"] == "dd").collect();
    let [writer] = writers.as_slice() else { panic!("one writer of {disk}: {by:#?}") };
    for key in ["written_bytes", "written_back_bytes", "inferred_bytes"] {
        assert_eq!(writer[key], blocks * 4096, "{key}: {writer:#?}");
    }
    assert!(writer["pid"].as_i64().is_some_and(|pid| pid > 1), "{writer}");
    true
}

#[test]
fn bytes_belong_to_their_writers_and_equal_the_kernel_counters() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.xfs")]) {
        return;
    }
    let _alone = alone();
    for _ in 0..ATTEMPTS {
        let ((disks, _memory), trace) = (file_systems(), scratch_dir("disk"));
        let names = disks.each_ref().map(|disk| disk.device().name().to_owned());
        let counters =
            || names.each_ref().map(|name| DiskStats::wait_idle(name, REST).expect(name));
        let before = counters();
        let dirs = disks.each_ref().map(Mounted::path);
        let output = trace.path().join("trace");
        let (finished, recording) = record(&output, &["-a"], &["sh", "-c", &script(dirs)]);
        finished.success();
        recording.assert_whole();
        let after = counters();
        let report = recording.report("disk");
        let equal = [0, 1].map(|place| {
            let kernel = after[place] - before[place];
            check_disk(&report, &names[place], kernel, BLOCKS[place])
        });
        if equal == [true; 2] {
            return check_text(&recording, &names);
        }
    }
    panic!("the kernel's counters include more in all attempts");
}

/// The first lines for people name the disks and their writers.
#[track_caller]
fn check_text(recording: &Recording, names: &[String; 2]) {
    let text = recording.text_report("disk");
    for name in names {
        let line = text.lines().find(|line| line.starts_with(&format!("- {name}: ")));
        assert!(line.is_some_and(|line| line.contains("% by dd")), "{text}");
    }
}
