//! Layers at work inside system calls, for work whose counts are known.

use crate::support::driver::recording::{Recording, can_record, compile, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;
use serde_json::Value;

const DEVICE_BYTES: u64 = 64 << 20;

/// Direct reads and writes of `tests/programs/layers.c`.
const DIRECT: u64 = 7 + 3;
const CACHED_WRITES: u64 = 11;
const CACHED_READS: u64 = 13;
const SYNCS: u64 = 5;

#[track_caller]
fn count(report: &Value, layer: &str, operation: &str) -> u64 {
    let rows = report["layers"].as_array().expect("a table").iter();
    let row = rows.filter(|it| it["layer"] == layer && it["operation"] == operation);
    row.map(|it| it["count"].as_u64().expect("a number")).sum()
}

fn is_recorded(recording: &Recording, tracepoint: &str) -> bool {
    let all = recording.info["tracepoints"].as_array().expect("a table");
    all.iter().any(|it| it["name"] == tracepoint)
}

#[test]
fn calls_are_seen_in_each_layer() {
    if !can_record(&[Need::Program("cc"), Need::Loop]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("layers");
    let mounted = Mounted::new(dir.path(), "ext4", DEVICE_BYTES);
    let program = compile("layers.c", dir.path());
    let file = mounted.path().join("known");
    let trace = dir.path().join("trace");
    let program = [program.as_str(), file.to_str().expect("text")];
    let (finished, recording) = record(&trace, &["-e", "%default,layers"], &program);
    finished.success();
    recording.assert_whole();
    let report = recording.report("latency");
    let mut expected = vec![("syscall", "fsync", SYNCS)];
    if recording.info["layers"] == "kprobe" {
        expected.push(("fs", "ext4_file_read_iter", CACHED_READS + 3));
        expected.push(("fs", "ext4_file_write_iter", CACHED_WRITES + 7));
        expected.push(("fs", "ext4_sync_file", SYNCS));
        let by_name = ["do_fsync", "vfs_fsync_range"].map(|it| count(&report, "vfs", it));
        assert_eq!(by_name.into_iter().max(), Some(SYNCS), "{report:#}");
    } else {
        assert_eq!(recording.info["layers"], "tracepoint");
        assert!(!recording.info["layers_reason"].as_str().expect("text").is_empty());
        expected.push(("fs", "ext4_sync_file", SYNCS));
        expected.push(("fs", "ext4_da_write", CACHED_WRITES));
        // Kernels before 6.6 do not report its end.
        if is_recorded(&recording, "iomap:iomap_dio_complete") {
            expected.push(("fs", "iomap_dio_rw", DIRECT));
        }
    }
    for (layer, operation, expected) in expected {
        assert_eq!(count(&report, layer, operation), expected, "{operation}: {report:#}");
    }
    // The loader reads, too.
    if is_recorded(&recording, "filemap:mm_filemap_get_pages") {
        assert!(count(&report, "cache", "get_pages") >= CACHED_READS, "{report:#}");
    }
    check_splits(&report, DIRECT);
}

#[track_caller]
fn check_splits(report: &Value, direct: u64) {
    let mut devices = 0;
    for row in report["split"].as_array().expect("a table") {
        let keys = row.as_object().expect("an object");
        let parts = keys.iter().filter(|it| it.0.ends_with("_ns") && *it.0 != "time_ns");
        let sum: u64 = parts.filter_map(|it| it.1.as_u64()).sum();
        assert_eq!(Some(sum), row["time_ns"].as_u64(), "{row}");
        if ["pread64", "pwrite64"].contains(&row["operation"].as_str().expect("text")) {
            devices += row["device_ns"].as_u64().expect("recorded");
            assert!(row["fs_ns"].as_u64().expect("recorded") > 0, "{row}");
        }
    }
    let requests = report["layers"].as_array().expect("a table").iter();
    let seen: u64 =
        requests.filter(|it| it["layer"] == "blk").filter_map(|it| it["count"].as_u64()).sum();
    // With perf completions are missing on an idle CPU, and that is counted.
    assert!(seen < direct || devices > 0, "{report:#}");
}

/// Layers that were not asked for are not there, and the report states it.
#[test]
fn unrecorded_layers_are_absent() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("layers-none");
    let (finished, recording) = record(&dir.path().join("trace"), &[], &["cat", "/dev/null"]);
    finished.success();
    let report = recording.report("latency");
    for row in report["split"].as_array().expect("a table") {
        for key in ["vfs_ns", "fs_ns", "cache_ns", "journal_ns", "throttle_ns"] {
            assert_eq!(row[key], Value::Null, "{row}");
        }
        assert!(row["device_ns"].is_u64() && row["rest_ns"].is_u64(), "{row}");
    }
    let notes = report["notes"].to_string();
    assert!(notes.contains("were not recorded"), "{notes}");
}
