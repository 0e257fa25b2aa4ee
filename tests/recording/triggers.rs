//! Triggers of `record --ring` that need a window, a device, or losses: each fires for its cause,
//! with its value, and is silent just below.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{scratch_dir, text};

/// Records a script with a trigger. Returns its incident; `None`: it did not fire.
fn incident(dir: &Path, trigger: &str, options: &[&str], script: &str) -> Option<Recording> {
    let _ = fs::remove_dir_all(dir.join("inc-1"));
    let mut command = Command::new(BINARY);
    command.args(["record", "--ring", "30s", "--after", "0s", "--trigger", trigger]);
    command.args(options).arg("-o").arg(dir.join("inc-{N}/")).args(["--", "sh", "-c", script]);
    command.current_dir(dir);
    let said = process::run(&mut command, TIMEOUT).expect("it ends").success().stderr();
    let log = dir.join("inc-1/traces.iocap");
    assert_eq!(log.exists(), !said.contains(": 0 incidents written"), "{said}");
    log.exists().then(|| Recording::open(&log))
}

/// The first trigger of an incident: its condition, and its row.
fn fired(recording: &Recording, trigger: &str) -> (Value, u64) {
    let first = recording.info["excerpt"]["triggers"][0].clone();
    assert_eq!(first["trigger"], trigger, "{first}");
    let value = first["value"].as_u64().expect("a value");
    (first, value)
}

/// The window has more than a second after the reads, in which it is compared.
fn reads(count: u64) -> String {
    format!("dd if=file of=/dev/null bs=64K count={count} status=none; sleep 1.5")
}

#[test]
fn percentile_of_a_window_fires_with_its_value() {
    if !can_record(&[]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("trigger-window");
    fs::write(dir.path().join("file"), vec![7_u8; 211 << 16]).expect("written");
    let trigger = "p99(read,10s)>1us";
    let recording = incident(dir.path(), trigger, &[], &reads(211)).expect("it fires");
    let (first, value) = fired(&recording, trigger);
    assert_eq!((&first["subject"], &first["unit"]), (&"read".into(), &"ns".into()), "{first}");
    let operations = recording.operations();
    let reads_of_log = operations.iter().filter(|call| call.name == "read");
    let mut durations: Vec<u64> = reads_of_log.filter_map(|call| call.duration_ns).collect();
    durations.sort_unstable();
    assert!(durations.len() >= 211, "{}", durations.len());
    // Of some 213 reads the third longest one: values that are as good as equal are one.
    let third = durations[durations.len() - 3];
    let nearest = durations.iter().rev().take(5).map(|longest| longest.abs_diff(value)).min();
    assert!(nearest.is_some_and(|ns| ns <= value / 256), "{value} {third} {durations:?}");
    // One percent of them is less than one.
    assert!(incident(dir.path(), trigger, &[], &reads(89)).is_none());
}

#[test]
fn slow_device_fires_with_the_time_of_its_requests() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("trigger-device");
    let device = LoopDevice::new(dir.path(), 64 << 20).expect("a loop device");
    let read = format!(
        "dd if={} of=/dev/null bs=4096 count=1 iflag=direct status=none; sleep 2",
        text(device.path())
    );
    let trigger = "device.await>1us";
    let recording = incident(dir.path(), trigger, &[], &read).expect("it fires");
    let (first, value) = fired(&recording, trigger);
    assert_eq!(first["subject"], device.name(), "{first}");
    assert!(value > 1000, "{first}");
    let one = recording.requests();
    let [one] = one.as_slice() else { panic!("{one:?}") };
    let issued = one.issued_ns.zip(one.completed_ns).map(|(issued, completed)| completed - issued);
    assert_eq!(issued, i64::try_from(value).ok(), "{one:?}");
    assert!(incident(dir.path(), "device.await>10s", &[], &read).is_none());
}

/// The tracer is stopped while the program makes more calls than a ring holds.
#[test]
fn lost_records_fire_with_their_number() {
    if !can_record(&[]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("trigger-lost");
    let dd = "dd if=/dev/zero of=/dev/null bs=1 count=300000 status=none";
    let stopped = format!("kill -STOP $PPID; {dd}; kill -CONT $PPID; sleep 1");
    let options = ["--buffer-size", "16K"];
    let trigger = "lost>0";
    let recording = incident(dir.path(), trigger, &options, &stopped).expect("it fires");
    let (first, value) = fired(&recording, trigger);
    assert_eq!(first["unit"], "records", "{first}");
    let anomalies = recording.anomalies();
    let lost: Vec<u64> =
        anomalies.iter().filter(|one| one.what == "lost").map(|one| one.count).collect();
    assert!(lost.contains(&value), "{first} {lost:?}");
    let quiet = "dd if=/dev/zero of=/dev/null bs=1 count=101 status=none";
    assert!(incident(dir.path(), trigger, &[], quiet).is_none());
}
