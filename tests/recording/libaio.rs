//! Operations of libaio, which probes record in the calling thread: complete however busy the CPUs
//! are.

use serde_json::Value;

use crate::support::driver::json::JsonAsync;
use crate::support::driver::recording::{can_record, record};
use crate::support::machine::cpu_hog::CpuHog;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

/// Options of fio, each with the greatest number of operations in flight.
const JOBS: [&[&str]; 3] = [
    &["--direct=1", "--iodepth=16"],
    &["--iodepth=4", "--iodepth_batch_submit=4", "--fsync=7"],
    &["--direct=1", "--iodepth=16", "--numjobs=2", "--thread"],
];

/// Fails if one of the operations has no file, no bytes, no offset or no result.
#[test]
fn operations_on_busy_cpus_are_complete() {
    if !can_record(&[Need::Uprobes, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let _hogs = CpuHog::competing(4);
    for (names, job) in
        [("reader", JOBS[0]), ("links", JOBS[0]), ("reader", JOBS[1]), ("reader", JOBS[2])]
    {
        let dir = scratch_dir("libaio");
        let file = dir.path().join("data");
        let filename = format!("--filename={}", file.display());
        let fixed =
            ["fio", "--name=job", "--rw=randrw", "--bs=4k", "--size=2m", "--ioengine=libaio"];
        let program = [&fixed[..], &["--output-format=json", &filename], job].concat();
        let options = ["--source", "tracefs", "--names", names];
        let (finished, recording) = record(&dir.path().join("trace"), &options, &program);
        let fio: Value = serde_json::from_str(&finished.success().stdout()).expect("JSON");
        recording.assert_whole();
        for key in ["async_unread", "async_unseen", "async_orphans", "async_open"] {
            assert_eq!(recording.number(key), 0, "{key}: names from {names}, {job:?}");
        }
        let operations = recording.asynchronous();
        let count_and_bytes = |name: &str| {
            let side =
                operations.iter().filter(|operation| operation.name.as_deref() == Some(name));
            let side: Vec<&JsonAsync> = side.collect();
            let bytes: u64 = side.iter().filter_map(|operation| operation.bytes).sum();
            let is_complete = |operation: &&JsonAsync| {
                operation.offset.is_some_and(|offset| offset % 4096 == 0)
                    && operation.bytes_requested == Some(4096)
                    && operation.path.as_deref() == file.to_str()
            };
            assert!(side.iter().all(is_complete), "{side:#?}");
            (side.len() as u64, bytes)
        };
        for (side, name) in [("read", "PREAD"), ("write", "PWRITE")] {
            let jobs = fio["jobs"].as_array().expect("a list");
            let sum =
                |key: &str| -> u64 { jobs.iter().filter_map(|job| job[side][key].as_u64()).sum() };
            let expected = (sum("total_ios"), sum("io_bytes"));
            assert_eq!(count_and_bytes(name), expected, "names from {names}, {job:?}: {side}");
        }
    }
}
