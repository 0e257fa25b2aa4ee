//! Instances of tracefs that a recording leaves to the next one: their use, their time, and changes
//! of other programs that a recording must find.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use iotrace_perf::sys::clock;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, record, wait_until};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::{Need, make_cgroup};
use crate::support::machine::turns::{
    alone, free_instances, remove_free_instances, tracer_instances,
};
use crate::support::scratch_dir;

/// Purposes of the instances of a recording of a program with the default events.
const PURPOSES: [&str; 5] = ["block", "counter", "entries", "main", "names"];

fn can_test() -> bool {
    can_record(&[Need::KernelFile("/sys/kernel/tracing/instances"), Need::FirstMounts])
}

/// Fails if a recording keeps a file system in use that is mounted in a namespace of its caller, or
/// the caller's control group.
#[test]
fn mounts_and_groups_of_the_caller_are_free_after_the_recording() {
    if !can_test() || !can_record(&[Need::Cgroup, Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("caller");
    let group = make_cgroup("iotrace-perf-caller").expect("a control group");
    let record = format!(
        "echo 0 > {}/cgroup.procs; {BINARY} -o {}/trace/ -- true",
        group.display(),
        dir.path().display()
    );
    run_shell(&record);
    wait_until("the control group is free", || fs::remove_dir(&group).is_ok());
    let device = LoopDevice::new(dir.path(), 16 << 20).expect("a loop device");
    let device = device.path().display();
    let own = format!(
        "mkfs.ext4 -q -F {device} && unshare -m sh -c 'mount {device} /mnt && {BINARY} -o {}/own/ -- true'",
        dir.path().display()
    );
    run_shell(&own);
    run_shell(&format!("mkfs.ext4 -q -F {device}"));
}

#[track_caller]
fn run_shell(script: &str) {
    process::run(Command::new("sh").args(["-c", script]), TIMEOUT).expect("it ends").success();
}

/// Processes that look after free instances.
fn keepers() -> Vec<Pid> {
    let is_keeper = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with("iotrace-perf\0release-kernel-objects\0")
    };
    let all = fs::read_dir("/proc").expect("proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_keeper).map(Pid::from_raw).collect()
}

/// Ends those processes, and waits for their end.
fn end_keepers(signal: Signal) {
    for keeper in keepers() {
        // The process may have ended.
        let _ = kill(keeper, signal);
    }
    wait_until("no process looks after instances", || keepers().is_empty());
}

/// Waits until each instance has been given back.
#[track_caller]
fn given_back() -> BTreeSet<PathBuf> {
    wait_until("all instances are given back", || tracer_instances().is_empty());
    free_instances().into_iter().collect()
}

fn purposes(instances: &BTreeSet<PathBuf>) -> Vec<String> {
    let purpose = |path: &PathBuf| path.to_string_lossy().rsplit('-').next().map(str::to_owned);
    let mut purposes: Vec<String> = instances.iter().filter_map(purpose).collect();
    purposes.sort();
    purposes
}

fn of_purpose(instances: &BTreeSet<PathBuf>, purpose: &str) -> PathBuf {
    let end = format!("-{purpose}");
    let found = instances.iter().find(|path| path.to_string_lossy().ends_with(&end));
    found.expect("there is one").clone()
}

/// Records a program with this number of reads of a byte, and checks that exactly these are in the
/// log, and nothing was lost or disturbed.
#[track_caller]
fn record_reads(place: &Path, options: &[&str], reads: u64) {
    let options = [&["--source", "tracefs"], options].concat();
    let count = format!("count={reads}");
    let program = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none", count.as_str()];
    let (finished, recording) = record(place, &options, &program);
    finished.success();
    recording.assert_books_balance();
    assert_eq!(recording.number("lost"), 0);
    // The loader reads, too.
    let found = recording.calls("read");
    assert!((reads..reads + 20).contains(&found), "{found} of {reads}");
    assert_eq!(recording.info["warnings"].as_array().map_or(0, Vec::len), 0, "{}", recording.info);
}

/// Fails if the caller of a recording with perf events waits until the kernel has closed them, or
/// if the process that closes them keeps other files open.
#[test]
fn perf_events_are_closed_by_a_process_of_its_own() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    end_keepers(Signal::SIGKILL);
    let dir = scratch_dir("events");
    let (finished, _) = record(dir.path(), &["--source", "perf"], &["true"]);
    finished.success();
    let [keeper] = keepers()[..] else { panic!("one process closes the events: {:?}", keepers()) };
    let files = fs::read_dir(format!("/proc/{keeper}/fd")).expect("it runs").flatten();
    let open = files.filter_map(|file| fs::read_link(file.path()).ok());
    let is_expected = |file: &PathBuf| {
        let file = file.to_string_lossy();
        let is_instance = file.contains("/instances/");
        // The directory `events` is locked until the events are closed.
        let known = ["anon_inode:[perf_event]", "/dev/null", "/sys/kernel/tracing/events"];
        is_instance || known.contains(&&*file)
    };
    let others: Vec<PathBuf> = open.filter(|file| !is_expected(file)).collect();
    assert_eq!(others, Vec::<PathBuf>::new());
    wait_until("the events are closed", || {
        let files = fs::read_dir(format!("/proc/{keeper}/fd")).into_iter().flatten().flatten();
        let mut open = files.filter_map(|file| fs::read_link(file.path()).ok());
        open.all(|file| !file.to_string_lossy().contains("perf_event"))
    });
}

/// Fails if a recording measures the time of calls while the events of another one are open.
#[test]
fn cost_is_unknown_beside_events_that_are_being_closed() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("closing");
    let lock = || File::open("/sys/kernel/tracing/events").expect("there");
    let cost = |name: &str| {
        let (finished, recording) = record(&dir.path().join(name), &[], &["true"]);
        let stderr = finished.success().stderr().to_owned();
        let is_unknown = stderr.contains("were still being closed at the start");
        assert!(!is_unknown || recording.info["cost"]["call_cost_ns"].is_null(), "{stderr}");
        (recording.info["cost"]["disturbed"] == true, is_unknown)
    };
    wait_until("all events are closed", || lock().try_lock().is_ok());
    assert_eq!(cost("quiet"), (false, false));
    // The process that closes the events holds the lock.
    wait_until("all events are closed", || lock().try_lock().is_ok());
    let (finished, _) = record(&dir.path().join("perf"), &["--source", "perf"], &["true"]);
    finished.success();
    assert!(lock().try_lock().is_err());
    let held = lock();
    held.try_lock_shared().expect("it is shared");
    assert_eq!(cost("disturbed"), (true, true));
    drop(held);
}

/// Fails if the process that looks after the instances keeps a file of the caller, and the lock on
/// it, because the file is in a directory of that name.
#[test]
fn files_of_the_caller_are_not_kept() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    end_keepers(Signal::SIGKILL);
    let dir = scratch_dir("callers-lock");
    let place = dir.path().join("instances");
    fs::create_dir(&place).expect("a directory");
    let path = place.join("db.lock");
    let line = format!(
        "exec 9>{}; flock 9; exec {BINARY} --source tracefs -q --no-archive -o {}/log/ -- true",
        path.display(),
        dir.path().display()
    );
    let finished = process::run(Command::new("sh").args(["-c", &line]), TIMEOUT);
    finished.expect("it ends").success();
    let ended = clock::now();
    wait_until("the caller's lock is free", || {
        let file = File::open(&path).expect("there");
        Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
    });
    // The process that looks after the instances lives for a minute.
    let seconds = Duration::from_nanos(clock::now().0 - ended.0).as_secs();
    assert!(seconds < 45, "{seconds} s");
}

/// Fails if the next recording creates instances of its own, or has records of the previous one.
#[test]
fn instances_are_used_again_without_their_records() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("pool");
    record_reads(&dir.path().join("first"), &[], 20_011);
    let first = given_back();
    assert_eq!(purposes(&first), PURPOSES);
    for (number, reads) in [2003, 5003].into_iter().enumerate() {
        record_reads(&dir.path().join(number.to_string()), &[], reads);
        assert_eq!(given_back(), first);
    }
    assert_eq!(keepers().len(), 1);
    // With larger rings than are kept, and without records of other threads.
    record_reads(&dir.path().join("large"), &["--buffer-size", "64M"], 2011);
    let main = of_purpose(&given_back(), "main");
    let kb = fs::read_to_string(main.join("buffer_total_size_kb")).expect("it is there");
    assert!(kb.trim().parse::<u64>().is_ok_and(|kb| kb < 1024), "{kb}");
    record_reads(&dir.path().join("all"), &["-a"], 2017);
    assert!(given_back().is_superset(&[main].into()));
}

/// Fails if two recordings get the same instance, or if more than one of a purpose stays.
#[test]
fn recordings_at_once_have_different_instances() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("pool");
    record_reads(&dir.path().join("first"), &[], 2003);
    given_back();
    std::thread::scope(|scope| {
        for number in 0..3_u32 {
            let place = dir.path().join(number.to_string());
            scope.spawn(move || record_reads(&place, &[], 20_000 + 1009 * u64::from(number)));
        }
    });
    wait_until("one of each purpose stays", || purposes(&given_back()) == PURPOSES);
    wait_until("one process looks after them", || keepers().len() == 1);
}

/// Records, and kills the process that looks after the instances. Returns the free instances.
fn left_by_killed_keeper(dir: &Path) -> BTreeSet<PathBuf> {
    record_reads(&dir.join("first"), &[], 2003);
    let first = given_back();
    end_keepers(Signal::SIGKILL);
    first
}

/// Fails if instances stay for ever, or are lost, when the process that looks after them is killed.
#[test]
fn killed_keeper_leaves_instances_to_the_next_recording() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("pool");
    let first = left_by_killed_keeper(dir.path());
    assert_eq!(given_back(), first);
    record_reads(&dir.path().join("second"), &[], 5003);
    assert_eq!(given_back(), first);
    assert_eq!(keepers().len(), 1);
    end_keepers(Signal::SIGTERM);
    assert_eq!(given_back(), BTreeSet::new(), "a request to end removes them");
    record_reads(&dir.path().join("third"), &[], 2003);
    assert_eq!(purposes(&given_back()), PURPOSES);
    let mut doctor = Command::new(BINARY);
    let said = process::run(doctor.arg("doctor"), TIMEOUT).expect("it ends").stdout();
    assert_eq!(free_instances(), Vec::<PathBuf>::new(), "{said}");
    // These were kept on purpose: nothing was left.
    assert!(!said.contains("instances of ended recordings"), "{said}");
    end_keepers(Signal::SIGTERM);
}

/// Fails if an instance that was not used for more than a minute stays, or a used one goes.
#[test]
fn unused_instances_are_removed_after_their_time() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("pool");
    let first = left_by_killed_keeper(dir.path());
    let old = UNIX_EPOCH + Duration::from_nanos(clock::realtime_ns()) - Duration::from_secs(61);
    let main = of_purpose(&first, "main");
    for instance in first.iter().filter(|instance| **instance != main) {
        File::open(instance).and_then(|it| it.set_modified(old)).expect("we may");
    }
    // Without names and block requests there is one ring.
    record_reads(&dir.path().join("second"), &["-e", "read", "--names", "off"], 2003);
    wait_until("the others are removed", || given_back() == [main.clone()].into());
    assert_eq!(keepers().len(), 1);
}

/// Fails if a recording uses an instance as another program has left it.
#[test]
fn changed_instances_are_repaired_or_removed() {
    if !can_test() {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("pool");
    for (number, (changes, is_repaired)) in [
        (&[("trace_clock", "local")][..], true),
        (&[("buffer_size_kb", "64")], true),
        (&[("per_cpu/cpu0/buffer_size_kb", "64")], true),
        (&[("events/syscalls/sys_exit_read/filter", "ret < 0")], true),
        (&[("options/overwrite", "0")], true),
        (&[("options/stacktrace", "1")], false),
        (&[("tracing_cpumask", "1")], false),
        (&[("set_event_pid", "1")], false),
        (&[("events/syscalls/sys_exit_read/trigger", "traceoff")], false),
        (&[("events/syscalls/sys_enter_read/enable", "1")], false),
        (&[("tracing_on", "1"), ("trace_marker", "stale"), ("tracing_on", "0")], false),
        (&[("tracing_on", "1")], false),
    ]
    .into_iter()
    .enumerate()
    {
        // One instance for each case, so that a repaired one does not hide what is wrong.
        end_keepers(Signal::SIGTERM);
        remove_free_instances();
        record_reads(&dir.path().join(format!("{number}-first")), &[], 2003);
        let main = of_purpose(&given_back(), "main");
        for (file, value) in changes {
            fs::write(main.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
        record_reads(&dir.path().join(format!("{number}-second")), &[], 5003);
        let after = given_back();
        assert_eq!(after.contains(&main), is_repaired, "{changes:?}");
        assert_eq!(purposes(&after), PURPOSES);
    }
}
