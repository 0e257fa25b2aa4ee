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

/// Fails if operations of long lists are unread although the probes of long lists were on. Those of
/// the lists before are read by a thread that may come too late.
#[test]
fn lists_of_64_operations_are_complete_on_busy_cpus() {
    if !can_record(&[Need::Uprobes, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let _hogs = CpuHog::competing(4);
    for (length, last) in
        [("16", ["submitted4_", "completed_"]), ("64", ["submitted16_", "completed16_"])]
    {
        let dir = scratch_dir("libaio");
        let filename = format!("--filename={}", dir.path().join("data").display());
        let fixed = ["fio", "--name=job", "--rw=randrw", "--bs=4k", "--size=16m", "--direct=1"];
        let in_lists = ["iodepth", "iodepth_batch_submit", "iodepth_batch_complete_min"]
            .map(|option| format!("--{option}={length}"));
        let lists = in_lists.each_ref().map(String::as_str);
        let program = [&fixed[..], &["--ioengine=libaio", &filename], &lists].concat();
        let (finished, recording) = record(&dir.path().join("trace"), &[], &program);
        finished.success();
        recording.assert_whole();
        let samples = last.map(|prefix| {
            let points = recording.info["tracepoints"].as_array().expect("a list");
            let is_last = |point: &&Value| {
                point["name"].as_str().is_some_and(|name| {
                    name.split_once(':').is_some_and(|(_, name)| name.starts_with(prefix))
                })
            };
            points.iter().filter(is_last).filter_map(|point| point["samples"].as_u64()).sum::<u64>()
        });
        let calls = ["io_submit", "io_getevents"].map(|call| recording.calls(call));
        let before = |side: usize| calls[side].saturating_sub(samples[side]);
        let length: u64 = length.parse().expect("a number");
        let unread_max = (before(0) + before(1)) * length;
        assert!(samples.iter().all(|samples| *samples > 0), "{samples:?} of {calls:?}");
        assert!(recording.number("async_unread") <= unread_max, "{samples:?} of {calls:?}");
        assert!(recording.number("async_operations") >= 4096 - unread_max);
    }
}

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
