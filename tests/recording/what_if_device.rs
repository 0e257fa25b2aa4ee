//! `what-if --device-latency`: predicted times of requests against those on a loop device whose
//! file system takes a known time for each.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::mount::{MntFlags, umount2};
use serde_json::Value;

use crate::support::driver::recording::{Recording, can_record, compile, record};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

const BYTES: u64 = 64 << 20;

/// Time of each request on the delayed device. The delays of a busy machine are small beside it.
const LATENCY_MS: u64 = 40;

/// Requests that the delayed device serves at once.
const DEPTH: u64 = 4;

/// Loop device on a file system whose server needs a known time for each request.
struct DelayedDisk {
    /// Detached before its file system.
    device: Option<LoopDevice>,
    directory: PathBuf,
    server: Child,
}

impl DelayedDisk {
    fn new(dir: &Path) -> Self {
        let directory = dir.join("delayed");
        fs::create_dir(&directory).expect("a directory");
        let mut server = Command::new(compile("delayed_disk.c", dir));
        let numbers = [BYTES, LATENCY_MS * 1000, DEPTH].map(|number| number.to_string());
        let server = server.arg(&directory).args(numbers).stdout(Stdio::piped());
        let server = server.spawn().expect("it starts");
        let mut disk = Self { device: None, directory, server };
        let mut ready = [0; 6];
        let stdout = disk.server.stdout.as_mut().expect("piped");
        stdout.read_exact(&mut ready).expect("it is mounted");
        let device = LoopDevice::over(&disk.directory.join("disk"), &["--direct-io=on"]);
        disk.device = Some(device.expect("a loop device"));
        disk
    }

    fn device(&self) -> &LoopDevice {
        self.device.as_ref().expect("until the end")
    }
}

impl Drop for DelayedDisk {
    fn drop(&mut self) {
        self.device = None;
        let _ = umount2(&self.directory, MntFlags::MNT_DETACH);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A program of fio, and the model for it.
struct ModelledJob {
    options: &'static [&'static str],
    /// Prefix of the keys of the model.
    model: &'static str,
}

/// Programs that wait for their requests, and one that sends by the clock.
const JOBS: [ModelledJob; 6] = [
    ModelledJob { options: &["--iodepth=1", "--number_ios=50"], model: "closed" },
    ModelledJob { options: &["--iodepth=8", "--number_ios=160"], model: "closed" },
    ModelledJob { options: &["--iodepth=32", "--number_ios=240"], model: "closed" },
    ModelledJob {
        options: &["--iodepth=1", "--thinktime=12000", "--number_ios=50"],
        model: "closed",
    },
    ModelledJob { options: &["--iodepth=1", "--numjobs=2", "--number_ios=50"], model: "closed" },
    ModelledJob {
        options: &["--iodepth=32", "--rate_iops=50", "--number_ios=100"],
        model: "predicted",
    },
];

/// Records a program on a device.
fn recorded(job: &ModelledJob, device: &LoopDevice, into: &Path) -> Recording {
    let filename = format!("--filename={}", device.path().display());
    let size = format!("--size={BYTES}");
    // The program has a CPU as soon as its request is complete: its think times depend on others
    // as little as the delays of the device.
    let fixed = ["chrt", "--fifo", "1", "fio", "--name=job", "--ioengine=libaio", "--direct=1"];
    let reads = ["--rw=randread", "--bs=4k", "--randseed=3", &filename, &size];
    let (finished, recording) = record(into, &[], &[&fixed[..], &reads, job.options].concat());
    finished.success();
    recording.assert_whole();
    recording
}

/// Prediction for a device.
#[track_caller]
fn of_device(recording: &Recording, device: &LoopDevice) -> Value {
    let (latency, depth) = (format!("{LATENCY_MS}ms"), DEPTH.to_string());
    let options = ["what-if", "--device-latency", &latency, "--device-depth", &depth];
    let report = recording.report_with(&options);
    let rows = report["devices"].as_array().expect("rows");
    rows.iter().find(|row| row["disk"] == device.name()).expect("it was used").clone()
}

/// Fails if the times on a device with a known latency and depth are not those that a recording on
/// a fast one predicts: in the model of the program, and between the two models.
#[test]
fn predicted_times_are_those_on_a_delayed_device() {
    let needs = [Need::Loop, Need::Fio, Need::Program("cc"), Need::Program("chrt")];
    if !can_record(&needs) || !can_record(&[Need::KernelFile("/dev/fuse")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("what-if-device");
    let memory = tempfile::Builder::new().prefix("what-if").tempdir_in("/dev/shm");
    let memory = memory.expect("a directory in memory");
    let fast = LoopDevice::new(memory.path(), BYTES).expect("a loop device");
    let slow = DelayedDisk::new(dir.path());
    for (number, job) in JOBS.iter().enumerate() {
        let logs = ["fast", "slow"].map(|name| dir.path().join(format!("{name}{number}")));
        let predicted = of_device(&recorded(job, &fast, &logs[0]), &fast);
        let real = of_device(&recorded(job, slow.device(), &logs[1]), slow.device());
        expect_near(job, &predicted, &real);
    }
}

/// Compares a prediction with what was measured.
#[track_caller]
fn expect_near(job: &ModelledJob, predicted: &Value, real: &Value) {
    let said = || format!("{:?}: {predicted:#} {real:#}", job.options);
    let time = |row: &Value, key: &str| row[key].as_f64().expect(key);
    assert_eq!(predicted["requests"], real["requests"], "{}", said());
    // The real device needs its time and what the kernel and the server need; on a busy machine a
    // hundredth of the requests wait for a CPU.
    for (figure, longest) in [("span", 1.2), ("median", 1.15), ("p99", 3.0)] {
        let real_key =
            if figure == "span" { "span_ns".into() } else { format!("recorded_{figure}_ns") };
        let ratio = time(real, &real_key) / time(predicted, &format!("{}_{figure}_ns", job.model));
        assert!((0.95..longest).contains(&ratio), "{figure} {ratio}: {}", said());
    }
    let span = time(real, "span_ns");
    let [open, closed] = ["predicted_span_ns", "closed_span_ns"].map(|key| time(predicted, key));
    // Delays of the fast device on a busy machine are in the arrivals.
    assert!(open <= span * 1.25 && span <= closed * 1.25, "{open} {span} {closed}: {}", said());
}
