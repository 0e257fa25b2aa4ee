//! `perf record` on this machine: what is imported of its recording is what `perf script` prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{Recording, TIMEOUT, iotrace};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

#[track_caller]
fn perf(arguments: &[&str]) -> Finished {
    run(Command::new("perf").args(arguments), TIMEOUT).expect("it ends").success()
}

/// Records a shell script with perf; returns its text and the import.
#[track_caller]
fn recorded(dir: &Path, events: &str, script: &str) -> (String, Recording) {
    let (data, log) = (dir.join("perf.data"), dir.join("perf.iocap"));
    let mode: &[&str] = if events.contains("block") { &["-a"] } else { &[] };
    let end = ["-e", events, "-o", text(&data), "sh", "-c", script];
    perf(&[&["record", "-q", "-m", "1024"], mode, &end].concat());
    let printed = perf(&["script", "-i", text(&data), "-F", "event,trace"]).stdout();
    iotrace(&["import", text(&data), "-o", text(&log)]).success();
    (printed, Recording::open(&log))
}

fn needs() -> bool {
    require_all(&[Need::Root, Need::PerfTracepoints, Need::Program("perf")])
}

/// Fails if a call is lost, doubled, or counted as another one.
#[test]
fn calls_are_counted_as_perf_prints_them() {
    // The numbers below are those of this architecture.
    if std::env::consts::ARCH != "x86_64" || !needs() {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("perf-calls");
    let file = dir.path().join("written");
    let script =
        format!("for n in 1 2 3; do dd if=/dev/zero of={} bs=4099 count=23; done", text(&file));
    let events = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
    let (printed, recording) = recorded(dir.path(), events, &script);
    for (name, number) in [("read", 0), ("write", 1), ("close", 3), ("openat", 257)] {
        let end = format!("NR {number} = ");
        let results = printed.lines().filter_map(|line| line.split_once(&end));
        let results: Vec<i64> =
            results.map(|(_, result)| result.trim().parse().expect("a number")).collect();
        assert_eq!(recording.calls(name), results.len() as u64, "{name}");
        if matches!(name, "read" | "write") {
            let bytes: i64 = results.iter().filter(|result| **result > 0).sum();
            let found = &recording.info["calls"][name]["bytes"];
            assert_eq!(found.as_i64(), Some(bytes), "{name}");
        }
    }
    assert!(recording.calls("write") >= 3 * 23);
}

/// Fails if a request is lost, doubled, or has another length.
#[test]
fn requests_are_counted_as_perf_prints_them() {
    if !needs() || !require_all(&[Need::Loop]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("perf-requests");
    let device = LoopDevice::new(dir.path(), 64 << 20).expect("a loop device");
    let disk = text(device.path());
    let script = format!(
        "dd if=/dev/zero of={disk} bs=64k count=37 oflag=direct; \
         dd if={disk} of=/dev/null bs=8k count=101 iflag=direct"
    );
    let events = "block:block_rq_issue,block:block_rq_complete";
    let (printed, recording) = recorded(dir.path(), events, &script);
    let number = device.number();
    let begin = format!("block_rq_issue: {} ", number.replace(':', ","));
    // Bytes of the requests by their kind: `7,0 WS 65536 () 128 + 128 …`.
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (_, rest) in printed.lines().filter_map(|line| line.split_once(&begin)) {
        let mut words = rest.split(' ');
        let kind = words.next().expect("a kind").to_owned();
        let bytes = words.next().expect("bytes").parse().expect("a number");
        expected.entry(kind).or_default().push(bytes);
    }
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for request in recording.requests().iter().filter(|request| request.dev == number) {
        found.entry(request.rwbs.clone().expect("a kind")).or_default().push(request.bytes);
    }
    assert_eq!(found, expected);
    let count = expected.values().map(Vec::len).sum::<usize>();
    assert!(count >= 37 + 101, "{count}");
}
