//! Block requests, counted by the kernel itself (`/proc/diskstats`) and by us.

mod others;

use std::process::Command;

use crate::support::driver::block_jobs::{JOBS, Job, ZEROES};
use crate::support::driver::json::JsonBlock;
use crate::support::driver::process;
use crate::support::driver::recording::{Source, TIMEOUT, can_record, compile, record, wait_until};
use crate::support::machine::block_stack::{Backing, Stack};
use crate::support::machine::cpu_hog::CpuHog;
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::{Need, require, require_all};
use crate::support::machine::turns::{alone, beside_others};
use crate::support::oracle::diskstats::DiskStats;
use crate::support::oracle::diskstats_check::{Compared, Counts, compare_undisturbed};
use crate::support::scratch_dir;

for_each_source! {
    requests_equal_the_kernel_counters,
    requests_of_both_levels_equal_the_kernel_counters,
    flushes_and_zeroes_equal_those_of_the_device,
    unknown_disk_is_refused_with_a_list_of_disks,
    requests_of_other_programs_are_shown_on_demand,
    requests_in_flight_at_the_start_are_no_anomaly,
    requests_belong_to_their_program,
}

/// Does the jobs with a scheduler, if the kernel offers it, and fails if the books differ; what was
/// counted.
#[track_caller]
fn check_books(
    source: Source,
    stack: &Stack,
    scheduler: &'static str,
    jobs: &[Job],
) -> Vec<Compared> {
    if !require(Need::Scheduler(scheduler)) {
        return Vec::new();
    }
    stack.set_scheduler(scheduler);
    let mut all = Vec::new();
    for &job in jobs.iter().filter(|it| require_all(&it.needs())) {
        for device in compare_undisturbed(stack, job, &source.options()).0 {
            assert!(device.is_equal(), "{scheduler}, {}: {device}", job.name);
            check_table(&device, job.name);
            check_each(&device.requests, scheduler, job.name);
            check_operations(&device, job.name);
            all.push(device);
        }
    }
    all
}

/// Fails if a request is lost, made up, matched with the wrong one, or counted in the wrong class;
/// if a merge is not seen; if sectors differ. (The whole matrix: scripts/block-matrix.)
fn requests_equal_the_kernel_counters(source: Source) {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let stack = Stack::new(Backing::Tmpfs);
    // More requests at once change what the driver does, not how a source has its events.
    let of_source = |job: &&Job| source == Source::Tracefs || !job.name.ends_with("depth 64");
    let jobs: Vec<Job> = JOBS.iter().filter(of_source).copied().collect();
    let mut seen = check_books(source, &stack, "none", &jobs);
    let few = [
        "buffered random writes, fsync",
        "libaio in a row, depth 32",
        "four writers of the same places",
        "trims",
    ];
    // What a scheduler does is the same for both sources.
    let schedulers: &[&str] = match source {
        Source::Tracefs => &["mq-deadline", "bfq", "kyber"],
        Source::Perf => &["bfq"],
    };
    for scheduler in schedulers {
        seen.extend(check_books(source, &stack, scheduler, &few.map(Job::of)));
    }
    let count = |of: fn(&Compared) -> u64| seen.iter().map(of).sum::<u64>();
    assert!(count(|it| it.ours.reads.requests) > 2000);
    assert!(count(|it| it.ours.writes.requests) > 2000);
    assert!(count(|it| it.ours.merges()) > 1000);
    assert!(count(|it| it.ours.discards.requests) > 50);
    assert!(count(|it| it.ours.flushes) > 50);
}

/// Two levels, where a write becomes another one below: fails if what one device did counts for the
/// other.
fn requests_of_both_levels_equal_the_kernel_counters(source: Source) {
    if !can_record(&[Need::Loop, Need::Fio, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let stack = Stack::new(Backing::Ext4);
    let _busy = CpuHog::all_cpus();
    let jobs = ["buffered random writes, fsync", "requests of 4 MiB", "ext4"];
    let seen = check_books(source, &stack, "mq-deadline", &jobs.map(Job::of));
    let below: Vec<&str> = stack.devices().into_iter().map(LoopDevice::name).collect();
    for device in below {
        let of = seen.iter().filter(|it| it.device == device);
        assert!(of.map(|it| it.ours.writes.requests).sum::<u64>() > 100, "{device}");
    }
}

/// Requests, sectors and merges of the table of `summary` are the kernel's.
#[track_caller]
fn check_table(device: &Compared, job: &str) {
    let mut counts = Counts::default();
    for line in device.summary.lines().skip(1) {
        let words: Vec<&str> = line.split(',').collect();
        let &[requests, _, merges, bytes, .., operation, name] = words.as_slice() else {
            panic!("{line}")
        };
        let [requests, merges, bytes] =
            [requests, merges, bytes].map(|it| it.parse::<u64>().expect("a number"));
        if name != device.device {
            continue;
        }
        let class = match operation {
            "read" => &mut counts.reads,
            "discard" => &mut counts.discards,
            "flush" => {
                counts.flushes += requests;
                continue;
            }
            _ => &mut counts.writes,
        };
        class.requests += requests;
        class.sectors += bytes / 512;
        class.merges += merges;
    }
    assert_eq!(counts, device.kernel, "{job}: {}\n{}", device.device, device.summary);
}

/// Flushes and discards by `op` are the kernel's: the empty write that asks for a flush is a write,
/// linked to the flush.
#[track_caller]
fn check_operations(device: &Compared, job: &str) {
    let counted = |op: &str| {
        let of = device.requests.iter().filter(|it| it.diskstats.is_some() && it.op == op);
        of.count() as u64
    };
    assert_eq!(counted("flush"), device.kernel.flushes, "{job}: {}", device.device);
    assert_eq!(counted("discard"), device.kernel.discards.requests, "{job}: {}", device.device);
    assert_eq!(counted("read"), device.kernel.reads.requests, "{job}: {}", device.device);
    assert_eq!(counted("other"), 0, "{job}: {:?}", device.requests);
    let by_number = |number: u64| device.requests.iter().find(|it| it.request == number);
    for request in &device.requests {
        let is_demand = request.flush.as_deref() == Some("demand");
        assert!(!is_demand || request.op == "write" && request.preflush, "{job}: {request:?}");
        assert!(!is_demand || request.bytes == 0, "{job}: {request:?}");
        let served = request.serves.and_then(by_number);
        let waits = |it: &JsonBlock| matches!(it.flush.as_deref(), Some("demand" | "sequence"));
        assert!(served.is_none_or(waits), "{job}: {request:?} serves {served:?}");
        assert!(request.serves.is_none() || request.op == "flush", "{job}: {request:?}");
    }
}

/// Fails if a flush counts twice, or one is counted that the device did not get: a device that
/// writes through gets none; or if zeroes that are written have no name of their own.
fn flushes_and_zeroes_equal_those_of_the_device(source: Source) {
    if !can_record(&[Need::Loop, Need::Fio, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let names = ["buffered random writes, fsync", "ext4", "xfs", "btrfs"];
    // Zeroes first: once a kind of them was refused, the device is asked for none any more.
    let jobs = Vec::from_iter([ZEROES].into_iter().chain(names.map(Job::of)));
    for (cache, has_flushes) in [("write back", true), ("write through", false)] {
        let mut stack = Stack::new(Backing::Tmpfs);
        stack.set_top("write_cache", cache);
        let seen = check_books(source, &stack, "none", &jobs);
        let flushes: u64 = seen.iter().map(|it| it.ours.flushes).sum();
        assert_eq!(flushes > 0, has_flushes, "{cache}: {flushes} flushes");
        assert!(seen.iter().map(|it| it.ours.writes.requests).sum::<u64>() > 100, "{cache}");
        let zeroes = seen.iter().flat_map(|it| &it.requests).filter(|it| it.op == "write-zeroes");
        let done = zeroes.filter(|it| it.error.is_none()).map(|it| it.bytes_done).sum::<u64>();
        assert!(!require_all(&ZEROES.needs()) || done >= 3 << 20, "{cache}: {done}");
    }
}

/// Each request has its times in order, and a submitter.
#[track_caller]
fn check_each(requests: &[JsonBlock], scheduler: &str, job: &str) {
    for request in requests {
        let ended = request.ending.as_deref();
        assert!(matches!(ended, Some("completed" | "absorbed")), "{scheduler} {job}: {request:?}");
        // A loop device refuses to write zeroes where its file cannot have holes, and mkfs asks for
        // it.
        let is_refused = request.error.as_deref() == Some("EOPNOTSUPP");
        // One that may not wait finds no room, before it is a request: it is asked again.
        let is_early = request.error.as_deref() == Some("EAGAIN") && request.diskstats.is_none();
        assert!(
            request.error.is_none() || is_refused || is_early,
            "{scheduler} {job}: {request:?}"
        );
        let times =
            [request.queued_ns, request.inserted_ns, request.issued_ns, request.completed_ns];
        let known: Vec<i64> = times.into_iter().flatten().collect();
        assert!(known.is_sorted() && !known.is_empty(), "{scheduler} {job}: {request:?}");
        assert!(ended != Some("completed") || request.completed_ns.is_some());
        let internal = request.flush.as_deref() == Some("device");
        assert!(internal || request.pid.is_some(), "{scheduler} {job}: {request:?}");
    }
}

/// A loop device in memory, and what holds its file.
#[track_caller]
fn small_device() -> (LoopDevice, tempfile::TempDir) {
    let memory =
        tempfile::Builder::new().prefix("block").tempdir_in("/dev/shm").expect("a directory");
    (LoopDevice::new(memory.path(), 8 << 20).expect("a loop device"), memory)
}

/// Fails if requests of a disk that was not asked for are recorded, or some of the one that was are
/// not; if the log does not state it.
#[test]
fn only_selected_disks_are_recorded() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _turn = beside_others();
    let ((wanted, _one), (other, _two)) = (small_device(), small_device());
    let copies = [&other, &wanted, &other].map(|it| {
        format!("dd if=/dev/zero of={} bs=4096 count=101 oflag=direct", it.path().display())
    });
    let dir = scratch_dir("block");
    let (number, path) = (wanted.number(), wanted.path().to_str().expect("text"));
    let names = [("tracefs", wanted.name()), ("perf", &number), ("perf", path)];
    for (run, (source, name)) in names.into_iter().enumerate() {
        let output = dir.path().join(run.to_string());
        let options = ["-a", "--source", source, "-d", name];
        let (finished, recording) = record(&output, &options, &["sh", "-c", &copies.join("; ")]);
        finished.success();
        recording.assert_whole();
        assert_eq!(recording.info["device_filter"], serde_json::json!([wanted.number()]));
        let disks = recording.info["disks"].as_array().expect("a list");
        let disk = disks.iter().find(|it| it["dev"] == number.as_str()).expect("it is there");
        assert_eq!(disk["name"], wanted.name());
        assert_eq!(disk["attributes"]["size"], "16384", "sectors: {disk:#}");
        let file = disk["attributes"]["loop/backing_file"].as_str().expect("a loop device");
        assert!(file.ends_with("/disk.img"), "{file}");
        let requests = recording.requests();
        assert!(requests.iter().all(|it| it.dev == wanted.number()), "{source}");
        // Perf misses completions on idle CPUs: a request whose end was not seen is one all the
        // same.
        assert_eq!(requests.iter().filter(|it| it.op == "write").count(), 101, "{source}");
        let said = format!("block requests: only of {} ({})", wanted.name(), wanted.number());
        assert!(recording.text_info().lines().any(|it| it == said), "{said}");
    }
}

/// Fails if what cannot be recorded by itself is taken for a disk, or the error does not help.
fn unknown_disk_is_refused_with_a_list_of_disks(source: Source) {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _turn = beside_others();
    let (device, _memory) = small_device();
    let refuse = |name: &str, more: &[&str]| {
        let dir = scratch_dir("block");
        let options = [&["-d", name], more].concat();
        let mut recorder = source.recorder(&dir.path().join("trace"), &options, &["true"]);
        let finished = process::run(&mut recorder, TIMEOUT).expect("it ends");
        assert_eq!(finished.status.code(), Some(125), "{name}");
        finished.stderr()
    };
    let said = refuse("no-such-disk", &[]);
    assert!(
        said.contains("no block device no-such-disk") && said.contains(device.name()),
        "{said}"
    );
    assert!(refuse(device.name(), &["-e", "read"]).contains("add `block` to -e"));
    let programs = scratch_dir("partition");
    let mut partition = Command::new(compile("partition.c", programs.path()));
    partition.arg(device.path()).args(["1", "2048", "2048"]);
    process::run(&mut partition, TIMEOUT).expect("it ends").success();
    let said = refuse(&format!("{}p1", device.name()), &[]);
    assert!(said.contains(&format!("its disk {0}; use -d {0}", device.name())), "{said}");
}

/// Fails if a recording of one program shows requests of others unasked; if, asked for, the
/// kernel's writeback is not shown, or without the thread that did it.
fn requests_of_other_programs_are_shown_on_demand(source: Source) {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let stack = Stack::new(Backing::Ext4);
    let devices = stack.devices();
    let [_, lower] = devices.as_slice() else { panic!("two devices") };
    let dir = scratch_dir("block");
    let written = |options: &[&str], output: &str| {
        let options = [&["-d", lower.name()], options].concat();
        // A new file, which no thread writes out before `sync` has the kernel's threads do so.
        let file = stack.place().join(output);
        let script = format!("dd if=/dev/zero of={} bs=64k count=37; sync", file.display());
        let output = dir.path().join(output);
        let (finished, recording) = source.record(&output, &options, &["sh", "-c", &script]);
        finished.success();
        recording.assert_whole();
        let requests = recording.requests();
        requests.into_iter().filter(|it| it.op == "write").collect::<Vec<_>>()
    };
    let of_kernel = |it: &JsonBlock| it.comm.as_deref().is_some_and(|it| it.starts_with("kworker"));
    let own = written(&[], "own");
    assert!(!own.iter().any(of_kernel), "{own:?}");
    let all = written(&["--all-block"], "all");
    // Perf misses completions on idle CPUs.
    let bytes = all.iter().filter(|it| of_kernel(it)).map(|it| it.bytes).sum::<u64>();
    assert!(bytes >= 37 << 16, "{all:?}");
    assert!(all.iter().all(|it| it.pid.is_some() || it.flush.as_deref() == Some("device")));
}

/// Fails if requests that were in flight when the recording began count as defects.
fn requests_in_flight_at_the_start_are_no_anomaly(source: Source) {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let _busy = CpuHog::all_cpus();
    let (device, _memory) = small_device();
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--rw=randrw", "--bs=64k", "--ioengine=libaio", "--direct=1"]);
    fio.args(["--iodepth=64", "--time_based", "--runtime=100", "--output=/dev/null"]);
    let mut fio = fio.arg("--filename").arg(device.path()).spawn().expect("it is there");
    let in_flight = || DiskStats::read(device.name()).is_some_and(|it| it.in_flight > 0);
    wait_until("fio works", in_flight);
    let dir = scratch_dir("block");
    let mut older = 0;
    // On busy CPUs fio may have nothing in flight for a while.
    for run in 0..25 {
        if run >= 5 && older > 0 {
            break;
        }
        let options = ["-a", "-d", device.name(), "--duration", "200ms"];
        let (finished, recording) = source.record(&dir.path().join(run.to_string()), &options, &[]);
        finished.success();
        recording.assert_whole();
        assert!(recording.number("requests") > 0, "{:#}", recording.info);
        assert_eq!(recording.number("unmatched"), 0, "{:?}", recording.anomalies());
        older += recording.info["ignored"]["older-request"].as_u64().unwrap_or(0);
    }
    // fio runs until it is interrupted.
    fio.kill().and_then(|()| fio.wait()).expect("it was still there");
    assert!(older > 0, "there was always something in flight");
}

/// Fails if a request is not shown with the thread that asked for it, or another's is shown in a
/// recording of one program.
fn requests_belong_to_their_program(source: Source) {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _turn = beside_others();
    let (device, _memory) = small_device();
    let dir = scratch_dir("block");
    let to = format!("of={}", device.path().display());
    let program = ["dd", "if=/dev/zero", &to, "bs=4096", "count=101", "oflag=direct"];
    let (finished, recording) = source.record(&dir.path().join("trace"), &[], &program);
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
