//! Block requests, counted by the kernel itself (`/proc/diskstats`) and by us.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::diskstats::DiskStats;
use support::json::JsonBlock;
use support::loop_device::LoopDevice;
use support::need::Need;
use support::recording::{Recording, alone, can_record, record};
use support::scratch_dir;

const DEVICE_BYTES: u64 = 64 << 20;

/// What the jobs have in common: on the device, each its own part of it.
const COMMON: &str =
    "--size=8m --offset_increment=8m --randseed=23 --group_reporting --output-format=terse";

/// What is done: a name, and options of fio.
const JOBS: [(&str, &str); 6] = [
    ("psync", "--ioengine=psync --direct=1 --rw=randrw --bs=4k --numjobs=2 --number_ios=499"),
    (
        "libaio",
        "--ioengine=libaio --direct=1 --iodepth=16 --rw=randrw --bsrange=4k-128k --numjobs=2",
    ),
    // Small ones in a row: they are merged.
    ("merges", "--ioengine=libaio --direct=1 --iodepth=32 --iodepth_batch=32 --rw=write --bs=4k"),
    // Through the page cache, with flushes.
    ("buffered", "--ioengine=psync --rw=randwrite --bs=4k --fsync=61 --end_fsync=1"),
    ("readahead", "--ioengine=psync --rw=read --bs=4k --invalidate=1"),
    ("trim", "--ioengine=psync --direct=1 --rw=randtrim --bs=64k"),
];

/// What one class of requests came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    requests: u64,
    sectors: u64,
    merges: u64,
}

/// Reads, writes, discards, and the number of flushes.
type Counts = ([Class; 3], u64);

fn by_kernel(it: &DiskStats) -> Counts {
    let class = |requests, merges, sectors| Class { requests, sectors, merges };
    let classes = [
        class(it.reads, it.reads_merged, it.read_sectors),
        class(it.writes, it.writes_merged, it.written_sectors),
        class(it.discards, it.discards_merged, it.discarded_sectors),
    ];
    (classes, it.flushes)
}

fn by_us(requests: &[JsonBlock]) -> Counts {
    let class = |name: &str| {
        let of = requests.iter().filter(|it| it.diskstats.as_deref() == Some(name));
        // What a request that became part of another had merged before counts, too.
        let same_kind = requests.iter().filter(|it| it.op == name);
        Class {
            requests: of.clone().count() as u64,
            sectors: of.map(|it| it.bytes_done).sum::<u64>() / 512,
            merges: same_kind.map(|it| it.merges).sum(),
        }
    };
    let flushes = requests.iter().filter(|it| it.diskstats.as_deref() == Some("flush"));
    (["read", "write", "discard"].map(class), flushes.count() as u64)
}

/// Runs the job while the whole machine is recorded; what the kernel counted meanwhile, and the recording.
fn run_job(dir: &Path, device: &LoopDevice, options: &str) -> (DiskStats, Recording) {
    // The kernel's counters are read within the recording, when the device has nothing to do: before the job, and after
    // it has closed the device, which waits for all that is to be written.
    let script = format!(
        "cat /proc/diskstats > before; fio --name=job --filename={} {COMMON} {options} > fio; code=$?; \
         blockdev --flushbufs {0}; cat /proc/diskstats > after; exit $code",
        device.path().display()
    );
    let script = format!("cd {}; {script}", dir.display());
    let (finished, recording) = record(&dir.join("trace"), &["-a"], &["sh", "-c", &script]);
    finished.success();
    recording.assert_whole();
    let stats = |name: &str| {
        let text = fs::read_to_string(dir.join(name)).expect("the script wrote it");
        DiskStats::parse(&text, device.name()).expect("the device is there")
    };
    let (before, after) = (stats("before"), stats("after"));
    assert_eq!((before.in_flight, after.in_flight), (0, 0), "idle when the counters were read");
    (after - before, recording)
}

/// Fails if a request is lost, made up, matched with the wrong one, or counted in the wrong class; if a merge is not seen;
/// if sectors differ; with a scheduler that sorts and one that passes on.
#[test]
fn fio_on_a_loop_device_is_what_the_kernel_counts() {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let _alone = alone();
    // In memory: the log, on a disk, makes no requests on it.
    let memory =
        tempfile::Builder::new().prefix("block").tempdir_in("/dev/shm").expect("a directory");
    let device = LoopDevice::new(memory.path(), DEVICE_BYTES).expect("a loop device");
    let (offered, _) = device.schedulers().expect("it has schedulers");
    let mut seen = Class::default();
    let mut flushes = 0;
    for scheduler in
        ["none", "mq-deadline"].into_iter().filter(|it| offered.iter().any(|offer| offer == it))
    {
        device.set_scheduler(scheduler).expect("it is offered");
        for (name, options) in JOBS {
            let dir = scratch_dir("block");
            DiskStats::wait_idle(device.name(), Duration::from_secs(20)).expect("nobody uses it");
            let (kernel, recording) = run_job(dir.path(), &device, options);
            assert_eq!(unmatched(&recording, &device), [] as [String; 0], "{scheduler} {name}");
            let requests = recording.requests();
            let on_device = |it: &JsonBlock| it.disk.as_deref() == Some(device.name());
            let ours: Vec<JsonBlock> = requests.into_iter().filter(on_device).collect();
            assert_eq!(by_us(&ours), by_kernel(&kernel), "{scheduler} {name}");
            check_each(&ours, scheduler, name);
            let (classes, some) = by_us(&ours);
            flushes += some;
            for class in classes {
                seen.requests += class.requests;
                seen.merges += class.merges;
            }
        }
    }
    assert!(seen.requests > 2000 && seen.merges > 100 && flushes > 10, "{seen:?} {flushes}");
}

/// Events of the device that fit no request. Other disks of the machine may have been in the middle of something.
fn unmatched(recording: &Recording, device: &LoopDevice) -> Vec<String> {
    let number =
        fs::read_to_string(format!("/sys/block/{}/dev", device.name())).expect("it is there");
    let number = format!(" {} ", number.trim());
    let anomalies = recording.anomalies().into_iter().filter(|it| it.what == "unmatched-block");
    anomalies.map(|it| it.detail).filter(|it| it.contains(&number)).collect()
}

/// Each request has its times in order, and a submitter.
#[track_caller]
fn check_each(requests: &[JsonBlock], scheduler: &str, job: &str) {
    for request in requests {
        let ended = request.ending.as_deref();
        assert!(matches!(ended, Some("completed" | "absorbed")), "{scheduler} {job}: {request:?}");
        assert_eq!(request.error, None, "{scheduler} {job}: {request:?}");
        let times =
            [request.queued_ns, request.inserted_ns, request.issued_ns, request.completed_ns];
        let known: Vec<i64> = times.into_iter().flatten().collect();
        assert!(known.is_sorted() && !known.is_empty(), "{scheduler} {job}: {request:?}");
        assert!(ended != Some("completed") || request.completed_ns.is_some());
        let internal = request.flush.as_deref() == Some("device");
        assert!(internal || request.pid.is_some(), "{scheduler} {job}: {request:?}");
    }
}

/// Fails if a request is not shown with the thread that asked for it, or another's is shown in a recording of one program.
#[test]
fn requests_belong_to_their_program() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let memory =
        tempfile::Builder::new().prefix("block").tempdir_in("/dev/shm").expect("a directory");
    let device = LoopDevice::new(memory.path(), 8 << 20).expect("a loop device");
    let dir = scratch_dir("block");
    let to = format!("of={}", device.path().display());
    let program = ["dd", "if=/dev/zero", &to, "bs=4096", "count=101", "oflag=direct"];
    let (finished, recording) = record(&dir.path().join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    let requests = recording.requests();
    let writes = requests.iter().filter(|it| {
        it.disk.as_deref() == Some(device.name()) && it.diskstats.as_deref() == Some("write")
    });
    let writes: Vec<_> = writes.collect();
    assert_eq!(writes.len(), 101);
    let pid = recording.info["roots"][0].as_i64();
    for (request, number) in writes.iter().zip(0_u64..) {
        assert_eq!((request.bytes, request.bytes_done, request.sector), (4096, 4096, number * 8));
        assert_eq!((request.pid.map(i64::from), request.comm.as_deref()), (pid, Some("dd")));
    }
}
