//! Needs, programs with a time limit, loop devices.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::driver::process;
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::{Need, require_all, verdict};
use crate::support::oracle::diskstats::DiskStats;
use crate::support::scratch_dir;

#[test]
fn missing_need_skips_or_fails() {
    let missing = || Some("no such thing".to_owned());
    assert!(verdict(Need::Root, None, true));
    assert!(!verdict(Need::Root, missing(), false));
    assert!(!verdict(Need::KernelFile("/x"), missing(), true));
    let panics = std::panic::catch_unwind(|| verdict(Need::Strace, missing(), true));
    assert!(panics.is_err(), "CI must have it");
}

#[test]
fn programs_end_in_time_or_are_killed() {
    let second = Duration::from_secs(1);
    let mut shell = Command::new("sh");
    let done = process::run(shell.args(["-c", "echo out; echo err >&2; exit 3"]), second * 30);
    let done = done.expect("it ends");
    assert_eq!((done.stdout(), done.stderr()), ("out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(done.status.code(), Some(3));
    assert!(std::panic::catch_unwind(|| done.success()).is_err());
    let mut shell = Command::new("sh");
    let script = "sleep 1000 & echo $! >&2; wait";
    let error = process::run(shell.args(["-c", script]), second).expect_err("it does not end");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    let text = error.to_string();
    let sleeper = text.lines().last().expect("the number of its child");
    // A killed process may still be on its way out.
    let is_gone = || {
        let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        is_gone()
    });
    assert!(gone, "{text}");
    let status = Command::new("sh").args(["-c", "kill -9 $$"]).status().expect("sh runs");
    assert_eq!(status.signal(), Some(9));
}

#[test]
fn loop_device_comes_counts_and_goes() {
    if !require_all(&[Need::Root, Need::Loop]) {
        return;
    }
    let dir = scratch_dir("loop");
    let device = LoopDevice::new(dir.path(), 8 << 20).expect("a loop device");
    let backing = Path::new("/sys/block").join(device.name()).join("loop/backing_file");
    assert!(backing.exists());
    let timeout = Duration::from_secs(10);
    let before = DiskStats::wait_idle(device.name(), timeout).expect("the device is idle");
    let mut file = OpenOptions::new().write(true).open(device.path()).expect("open it");
    file.write_all(&[1; 1 << 20]).and_then(|()| file.sync_all()).expect("write to it");
    let after = DiskStats::wait_idle(device.name(), timeout).expect("the device is idle");
    assert_eq!(((after - before).written_sectors, after.in_flight), (2048, 0));
    drop(file);
    let (schedulers, used) = device.schedulers().expect("it has a scheduler");
    assert!(used.is_some_and(|it| schedulers.contains(&it)), "{schedulers:?}");
    for scheduler in &schedulers {
        device.set_scheduler(scheduler).expect("the kernel offers it");
        assert_eq!(device.schedulers().expect("it has a scheduler").1.as_ref(), Some(scheduler));
    }
    drop(device);
    assert!(!backing.exists(), "detached");
}
