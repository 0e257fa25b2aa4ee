//! Requests of one device are issued to another: the same ones, in the order and depth of the
//! capture, and none on a device in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::driver::json::JsonBlock;
use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record, compile, record};
use crate::support::machine::cpu_hog::CpuHog;
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::{Turn, alone};
use crate::support::oracle::diskstats::DiskStats;
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

fn memory() -> TempDir {
    tempfile::Builder::new().prefix("block").tempdir_in("/dev/shm").expect("a directory in memory")
}

/// A loop device in memory whose requests stay what they are.
#[track_caller]
fn device(bytes: u64) -> (LoopDevice, TempDir) {
    let memory = memory();
    let mut device = LoopDevice::new(memory.path(), bytes).expect("a loop device");
    device.set("scheduler", "none").expect("it is always there");
    device.set("nomerges", "2").expect("it can be set");
    (device, memory)
}

/// A log.
struct Captured {
    log: PathBuf,
    recording: Recording,
}

/// Records a device while fio runs these jobs on it.
#[track_caller]
fn capture(dir: &Path, device: &LoopDevice, jobs: &str) -> Captured {
    let file = dir.join("jobs.fio");
    let global = format!("[global]\nfilename={}\ndirect=1\n", device.path().display());
    fs::write(&file, global + jobs).expect("written");
    let options = ["-a", "-e", "block", "-d", device.name()];
    let program = ["fio", "--output=/dev/null", file.to_str().expect("text")];
    let (finished, recording) = record(&dir.join("trace"), &options, &program);
    finished.success();
    recording.assert_whole();
    Captured { log: dir.join("trace/traces.iocap"), recording }
}

/// Two devices on a machine that is never idle, and what is recorded of one of them.
struct Two {
    captured: Captured,
    other: LoopDevice,
    dir: TempDir,
    /// Values that must live until the end.
    _held: (LoopDevice, [TempDir; 2], CpuHog, Turn),
}

impl Two {
    /// While fio does these jobs on it.
    #[track_caller]
    fn new(jobs: &str) -> Self {
        let alone = alone();
        let busy = CpuHog::all_cpus();
        let ((one, memory_of_one), (other, memory_of_other)) = (device(32 * MIB), device(32 * MIB));
        let dir = memory();
        let captured = capture(dir.path(), &one, jobs);
        let _held = (one, [memory_of_one, memory_of_other], busy, alone);
        Self { captured, other, dir, _held }
    }
}

fn replay(captured: &Captured, device: &Path, options: &[&str]) -> Finished {
    let mut command = Command::new(BINARY);
    command.args(["replay", "run", "--level", "block", "--json", "--device"]).arg(device);
    run(command.arg(&captured.log).args(options), TIMEOUT).expect("it ends")
}

/// The report of a replay, and its numbers in `/proc/diskstats`.
#[track_caller]
fn replayed(captured: &Captured, device: &LoopDevice, options: &[&str]) -> (Value, DiskStats) {
    let look =
        || DiskStats::wait_idle(device.name(), Duration::from_secs(10)).expect("it comes to rest");
    let before = look();
    let finished = replay(captured, device.path(), options).success();
    (serde_json::from_str(&finished.stdout()).expect("JSON"), look() - before)
}

/// Requests, in the order of their issue.
fn asked(recording: &Recording, wanted: &[&str]) -> Vec<JsonBlock> {
    let of_driver = |block: &JsonBlock| {
        let is_done = block.ending.as_deref() == Some("completed") && block.issued_ns.is_some();
        is_done && block.flush.as_deref() != Some("demand") && wanted.contains(&block.op.as_str())
    };
    let mut found: Vec<JsonBlock> = recording.requests().into_iter().filter(of_driver).collect();
    found.sort_by_key(|it| it.issued_ns);
    found
}

fn place(request: &JsonBlock) -> (String, u64, u64) {
    let sector = if request.op == "flush" { 0 } else { request.sector };
    (request.op.clone(), sector, request.bytes)
}

fn sorted(all: &[JsonBlock]) -> Vec<(String, u64, u64)> {
    let mut places: Vec<_> = all.iter().map(place).collect();
    places.sort();
    places
}

fn checksum(device: &LoopDevice) -> String {
    let finished = run(Command::new("sha256sum").arg(device.path()), TIMEOUT).expect("it ends");
    finished.success().stdout()
}

/// Reads, writes, flushes and discards at random places, eight at once.
const MIXED: &str = "ioengine=libaio\niodepth=8\nsize=8m\nbsrange=4k-64k\n\
    [mixed]\nrw=randrw\nfdatasync=20\n[trims]\nrw=randtrim\nbs=16k\nsize=1m\n";

#[test]
fn requests_are_reissued_on_another_device() {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let Two { _held, captured, other, dir } = Two::new(MIXED);
    let fill = format!(
        "dd if=/dev/urandom of={} bs=1M count=32 oflag=direct status=none",
        other.path().display()
    );
    run(Command::new("sh").args(["-c", &fill]), TIMEOUT).expect("it ends").success();
    let before = checksum(&other);

    // Only reads, if nothing else is allowed.
    let reads = asked(&captured.recording, &["read"]);
    let bytes = |all: &[JsonBlock]| all.iter().map(|it| it.bytes).sum::<u64>();
    let (report, did) = replayed(&captured, &other, &["--pacing", "closed"]);
    assert!(reads.len() > 100);
    assert_eq!(report["requests"], reads.len());
    assert_eq!((did.reads, did.read_sectors * 512), (reads.len() as u64, bytes(&reads)));
    assert_eq!((did.writes, did.discards, did.flushes), (0, 0, 0));
    assert_eq!(report["read_bytes"], bytes(&reads));
    assert_eq!(checksum(&other), before);

    // All of it: what the kernel counts, and what a recording of the replay has.
    let all = asked(&captured.recording, &["read", "write", "flush", "discard"]);
    let count = |op: &str| all.iter().filter(|it| it.op == op).count() as u64;
    assert!(["read", "write", "flush", "discard"].iter().all(|it| count(it) > 0), "{all:?}");
    for pacing in [["--pacing", "closed"], ["--pacing", "open"], ["--speed", "max"]] {
        let (report, did) =
            replayed(&captured, &other, &[&["--write", "--discard"][..], &pacing].concat());
        assert_eq!(
            (&report["mismatches"], &report["is_whole"]),
            (&0.into(), &true.into()),
            "{report:#}"
        );
        assert_eq!(report["requests"], all.len());
        assert_eq!(did.reads, count("read"));
        // A demand for a flush counts as a write without bytes.
        assert_eq!(did.writes, count("write") + count("flush"));
        assert_eq!(did.discards, count("discard"));
        // Flushes that are asked for at the same time the kernel sends as one; in the capture none
        // were.
        let may_meet = pacing == ["--pacing", "open"];
        assert!(
            did.flushes == count("flush") || may_meet && (1..count("flush")).contains(&did.flushes)
        );
        assert_eq!((did.reads_merged, did.writes_merged), (0, 0));
        let moved = [did.read_sectors, did.written_sectors].map(|it| it * 512);
        assert_eq!(
            moved,
            ["read_bytes", "written_bytes"].map(|it| report[it].as_u64().expect("a number"))
        );
        if !may_meet {
            assert_eq!(report["early"], 0);
            assert!(report["depth"].as_u64() <= report["captured_depth"].as_u64());
        }
    }
    assert!(checksum(&other) != before);
    let (again, recorded) = record_replay(
        dir.path(),
        &captured,
        &other,
        &["--write", "--discard", "--pacing", "closed"],
    );
    assert_eq!(again["early"], 0);
    assert_eq!(sorted(&asked(&recorded, &["read", "write", "flush", "discard"])), sorted(&all));
}

/// Records a device while a log is replayed on it; returns the report, too.
#[track_caller]
fn record_replay(
    dir: &Path,
    captured: &Captured,
    device: &LoopDevice,
    options: &[&str],
) -> (Value, Recording) {
    let report = dir.join("report.json");
    let _ = fs::remove_file(&report);
    let (log, node) = (captured.log.to_str().expect("text"), device.path().to_str().expect("text"));
    let to = report.to_str().expect("text");
    let first =
        [BINARY, "replay", "run", log, "--level", "block", "--json", "--to", to, "--device", node];
    let recorded = ["-a", "-e", "block", "-d", device.name()];
    let program = [&first, options].concat();
    let (finished, recording) = record(&dir.join("again"), &recorded, &program);
    finished.success();
    recording.assert_whole();
    (serde_json::from_str(&fs::read_to_string(&report).expect("there")).expect("JSON"), recording)
}

/// Fails if requests that came one after the other do not come in that order, or two of them at
/// once.
#[test]
fn dependent_request_is_issued_after_its_predecessor() {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let jobs = "ioengine=psync\nsize=2m\nbs=4k\n[one]\nrw=randrw\nfdatasync=9\n";
    let Two { _held, captured, other, dir } = Two::new(jobs);
    let all = asked(&captured.recording, &["read", "write", "flush"]);
    assert!(all.len() > 400);
    let (report, recorded) =
        record_replay(dir.path(), &captured, &other, &["--write", "--speed", "max"]);
    assert_eq!(
        (&report["captured_depth"], &report["depth"], &report["early"]),
        (&1.into(), &1.into(), &0.into())
    );
    let again = asked(&recorded, &["read", "write", "flush"]);
    let places = |all: &[JsonBlock]| all.iter().map(place).collect::<Vec<_>>();
    assert_eq!(places(&again), places(&all));
    assert!(again.windows(2).all(|it| it[0].completed_ns <= it[1].issued_ns));
}

/// Fails with another status, or if the sentence is another one.
#[track_caller]
fn refused(captured: &Captured, device: &Path, options: &[&str], sentence: &str) {
    let finished = replay(captured, device, options);
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stdout());
    assert!(finished.stderr().contains(sentence), "{}", finished.stderr());
}

fn shell(line: &str) -> Finished {
    run(Command::new("sh").args(["-c", line]), TIMEOUT).expect("it ends")
}

/// A device on top of another file or device; it goes when this is dropped.
struct Upper(PathBuf);

impl Upper {
    #[track_caller]
    fn new(options: &str, below: &Path) -> Self {
        let made = shell(&format!("losetup -f --show {options} {}", below.display())).success();
        Self(PathBuf::from(made.stdout().trim()))
    }
}

impl Drop for Upper {
    fn drop(&mut self) {
        shell(&format!("losetup -d {}", self.0.display()));
    }
}

#[test]
fn devices_in_use_are_refused() {
    if !can_record(&[Need::Loop, Need::Fio, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let _busy = CpuHog::all_cpus();
    let (one, _one) = device(16 * MIB);
    let dir = memory();
    let captured = capture(
        dir.path(),
        &one,
        "ioengine=psync\n[one]\nrw=rw\nsize=16m\nbs=4k\nnumber_ios=512\n[end]\nrw=read\noffset=15m\nbs=4k\nnumber_ios=16\n",
    );
    refused(&captured, Path::new("/etc/passwd"), &[], "not a block device");
    refused(&captured, Path::new("/dev/null"), &[], "not a block device");
    refused(&captured, dir.path(), &[], "not a block device");
    refused(&captured, Path::new("/dev/nothing-of-this-name"), &[], "cannot open");
    refused(&captured, one.path(), &["--from-device", "sdz"], "it has loop");

    let (small, _small) = device(8 * MIB);
    refused(&captured, small.path(), &[], "is too small");

    let (idle, memory_of_idle) = device(16 * MIB);
    let image = memory_of_idle.path().join("disk.img");
    let coarse = Upper::new("-b 4096", &image);
    refused(&captured, idle.path(), &["--write"], "is backed by the same bytes");
    drop(coarse);
    let upper = Upper::new("", idle.path());
    refused(&captured, idle.path(), &[], "is backed by the same bytes");
    replay(&captured, &upper.0, &[]).success();
    drop(upper);

    // A program has it open: only a write disturbs it.
    let held = fs::File::open(idle.path()).expect("it opens");
    refused(&captured, idle.path(), &["--write"], "has it open");
    replay(&captured, idle.path(), &[]).success();
    drop(held);
    // Opened for one alone, as file systems and device-mapper do.
    let alone = Command::new("python3").args(["-c", "import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL); print(flush=True); sys.stdin.read()"])
        .arg(idle.path()).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn();
    let mut alone = alone.expect("python3");
    std::io::Read::read_exact(alone.stdout.as_mut().expect("piped"), &mut [0]).expect("it says so");
    refused(&captured, idle.path(), &[], "has it open exclusively");
    drop(alone.stdin.take());
    alone.wait().expect("it ends");

    // A part of it is mounted. (Its number is passed to the kernel: not every one reads partition
    // tables.)
    let node = idle.path().display();
    let place = dir.path().join("mounted-part");
    fs::create_dir(&place).expect("a directory");
    let (part, place) = (format!("{node}p1"), place.display());
    let partition = compile("partition.c", dir.path());
    shell(&format!(
        "set -e; {partition} {node} 1 2048 20480; mkfs.ext4 -q {part}; mount {part} {place}"
    ))
    .success();
    refused(&captured, idle.path(), &["--write"], "is mounted at");
    shell(&format!("set -e; umount {place}; {partition} {node} 1")).success();

    shell(&format!("mkswap -q {node} >/dev/null; swapon {node}")).success();
    refused(&captured, idle.path(), &[], "swaps to");
    shell(&format!("swapoff {node}")).success();

    let mounted = Mounted::new(memory().path(), "ext4", 32 * MIB);
    let sum = checksum(mounted.device());
    refused(&captured, mounted.device().path(), &["--write", "--discard"], "is mounted at");
    let name = Path::new(mounted.device().name());
    refused(&captured, name, &["--write"], "is mounted at");
    assert_eq!(checksum(mounted.device()), sum);
}

/// A device that device-mapper holds.
#[test]
fn member_devices_are_refused() {
    let mapper = Need::KernelFile("/sys/class/misc/device-mapper");
    if !can_record(&[Need::Loop, Need::Fio, mapper, Need::Program("dmsetup")]) {
        return;
    }
    let _alone = alone();
    let _busy = CpuHog::all_cpus();
    let (one, _one) = device(16 * MIB);
    let dir = memory();
    let captured = capture(dir.path(), &one, "ioengine=psync\n[one]\nrw=read\nsize=1m\nbs=4k\n");
    let name = format!("iotrace-test-{}", std::process::id());
    let table = format!("0 {} linear {} 0", 16 * MIB / 512, one.path().display());
    shell(&format!("echo '{table}' | dmsetup create {name}")).success();
    let finished = replay(&captured, one.path(), &[]);
    shell(&format!("dmsetup remove {name}")).success();
    assert!(finished.stderr().contains("is a part of dm-"), "{}", finished.stderr());
}

#[test]
fn one_device_of_several_is_chosen() {
    if !can_record(&[Need::Loop]) || !require(Need::Root) {
        return;
    }
    let _alone = alone();
    let _busy = CpuHog::all_cpus();
    let ((one, _one), (other, _other)) = (device(16 * MIB), device(16 * MIB));
    let dir = memory();
    let lines = [&one, &other].map(|device| {
        format!(
            "dd if={} of=/dev/null bs=4k count=23 iflag=direct status=none",
            device.path().display()
        )
    });
    let options = ["-a", "-e", "block", "-d", one.name(), "-d", other.name()];
    let (finished, captured) =
        record(&dir.path().join("trace"), &options, &["sh", "-c", &lines.join("; ")]);
    finished.success();
    let captured = Captured { log: dir.path().join("trace/traces.iocap"), recording: captured };
    refused(&captured, one.path(), &[], "--from-device");
    for word in [other.name(), &other.number(), other.path().to_str().expect("text")] {
        let (report, did) = replayed(&captured, &one, &["--from-device", word]);
        assert_eq!(
            (&report["requests"], &report["from_device"]),
            (&23.into(), &other.name().into())
        );
        assert_eq!(did.reads, 23);
    }
    let plan = dir.path().join("plan");
    let mut command = Command::new(BINARY);
    command.args(["replay", "plan", "-o"]).arg(&plan).arg(&captured.log);
    run(&mut command, TIMEOUT).expect("it ends").success();
    let as_plan = Captured { log: plan, ..captured };
    refused(&as_plan, one.path(), &[], "which has system calls only");
}

/// Fails if the requests of another tool's trace are not those that the device receives.
#[test]
fn imported_trace_is_reissued() {
    if !require(Need::Root) || !require(Need::Loop) {
        return;
    }
    let _alone = alone();
    let (one, _one) = device(16 * MIB);
    let dir = memory();
    let (trace, log) = (dir.path().join("hm.csv"), dir.path().join("hm.iocap"));
    let lines = "128166372003061629,hm,1,Read,8192,32768,413
128166372003382155,hm,1,Write,1048576,65536,1302
128166372003482245,hm,1,Read,0,4096,88
";
    fs::write(&trace, lines).expect("written");
    let mut command = Command::new(BINARY);
    command.arg("import").arg(&trace).arg("-o").arg(&log);
    run(&mut command, TIMEOUT).expect("it ends").success();
    let captured = Captured { recording: Recording::open(&log), log };
    let (report, did) = replayed(&captured, &one, &["--write", "--pacing", "closed"]);
    assert_eq!((&report["requests"], &report["from_device"]), (&3.into(), &"hm.1".into()));
    assert_eq!((did.reads, did.writes), (2, 1));
    assert_eq!((did.read_sectors, did.written_sectors), (72, 128));
}
