//! `slow`: the slowest operations, with the requests that they waited for.

use serde_json::Value;

use crate::support::driver::recording::{can_record, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

/// Written before the fsync, in blocks of 4 KiB.
const BLOCKS: u64 = 499;

#[test]
fn fsync_has_the_requests_that_it_waited_for() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _alone = alone();
    let memory = tempfile::Builder::new().prefix("slow").tempdir_in("/dev/shm");
    let memory = memory.expect("a directory");
    let disk = Mounted::new(memory.path(), "ext4", 64 << 20);
    let file = std::fs::canonicalize(disk.path()).expect("it is there").join("file");
    let script = format!(
        "dd if=/dev/urandom of={} bs=4k count={BLOCKS} conv=fsync status=none",
        file.display()
    );
    let trace = scratch_dir("slow");
    let (finished, recording) = record(&trace.path().join("trace"), &[], &["sh", "-c", &script]);
    finished.success();
    let report = recording.report("slow");
    let slowest = report["slowest"].as_array().expect("slowest");
    let durations: Vec<u64> =
        slowest.iter().map(|row| row["duration_ns"].as_u64().expect("ns")).collect();
    assert!(durations.is_sorted_by(|a, b| a >= b), "{durations:?}");
    let total: u64 =
        recording.operations().iter().filter_map(|it| it.duration_ns).max().expect("one");
    assert!(durations[0] <= total, "{durations:?} {total}");
    let is_fsync = |row: &&Value| row["operation"] == "fsync";
    let fsync = slowest.iter().find(is_fsync).expect("a slow fsync");
    assert_eq!(fsync["path"], file.to_str().expect("text"), "{fsync:#}");
    let count = fsync["requests"].as_u64().expect("requests");
    let requests = report["requests"].as_array().expect("requests").iter();
    let of_fsync: Vec<&Value> = requests.filter(|row| row["rank"] == fsync["rank"]).collect();
    assert!(count > 0 && of_fsync.len() as u64 == count.min(16), "{fsync:#}");
    let data = of_fsync.iter().filter(|row| row["contents"] == fsync["path"]);
    let bytes: u64 = data.map(|row| row["moved_bytes"].as_u64().expect("bytes")).sum();
    assert!(count > 16 || bytes == BLOCKS * 4096, "{of_fsync:#?}");
    let duration = fsync["duration_ns"].as_u64().expect("ns");
    for request in of_fsync {
        assert_eq!(request["disk"], disk.device().name(), "{request}");
        let device = request["device_ns"].as_u64().expect("ns");
        assert!(device <= duration && request["ahead"].is_u64(), "{request} {duration}");
    }
}
