//! Block requests of other programs beside a recording of one: counted, and not recorded
//! individually.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::stat::Mode;

use crate::support::driver::json::JsonBlock;
use crate::support::driver::process;
use crate::support::driver::recording::{Recording, Source, TIMEOUT, can_record, wait_until};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::oracle::diskstats::DiskStats;
use crate::support::oracle::diskstats_check::Counts;
use crate::support::{scratch_dir, text};

for_each_source! {
    log_of_an_idle_program_does_not_grow_with_requests_of_others,
}

/// Bytes that the recorded program writes past the page cache, and through it.
const DIRECT: u64 = 23;
const LATE: u64 = 37;
const BLOCK: u64 = 4096;

/// Time that a device may take to come to rest.
const REST: Duration = Duration::from_secs(20);

/// A recording of a quiet program beside others.
struct Beside {
    recording: Recording,
    /// Requests of the device meanwhile.
    kernel: Counts,
    log_bytes: u64,
    /// The device.
    name: String,
    /// Directory of the log.
    _dir: tempfile::TempDir,
}

/// Records a program that writes two small files, while others write and read on the same file
/// system, so many times.
#[track_caller]
fn beside(source: Source, file_system: &str, rounds: u32) -> Beside {
    let memory = tempfile::Builder::new().prefix("others").tempdir_in("/dev/shm");
    let memory = memory.expect("a directory in memory");
    let mounted = Mounted::new(memory.path(), file_system, 320 << 20);
    let (dir, place) = (scratch_dir("others"), mounted.path().to_owned());
    let (go, done) = (dir.path().join("go"), dir.path().join("done"));
    nix::unistd::mkfifo(&done, Mode::S_IRWXU).expect("a FIFO");
    // On the disk before the recording: what is written back of it later could be written by any
    // thread.
    let mut old = fs::File::create(place.join("old")).expect("space");
    old.write_all(&[1; 64 << 10]).and_then(|()| old.sync_all()).expect("space");
    let script = format!(
        "set -e; cd {}
         dd if=/dev/zero of=direct bs={BLOCK} count={DIRECT} oflag=direct
         dd if=/dev/zero of=late bs={BLOCK} count={LATE}
         : > {}
         read line < {}
         dd if=/dev/zero of=direct bs={BLOCK} count={DIRECT} oflag=direct conv=notrunc
         sync -f .",
        place.display(),
        go.display(),
        done.display(),
    );
    let name = mounted.device().name().to_owned();
    let before = DiskStats::wait_idle(&name, REST).expect("no other process uses it");
    let output = dir.path().join("trace");
    let options = ["-d", name.as_str()];
    let mut command = source.recorder(&output, &options, &["sh", "-c", &script]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the program waits", || go.exists());
            let mut others = Command::new("sh");
            process::run(others.arg("-c").arg(others_script(&place, rounds)), TIMEOUT)
                .expect("it ends")
                .success();
            fs::write(&done, "on\n").expect("the program reads it");
        });
        process::run(&mut command, TIMEOUT).expect("it ends").success();
    });
    let after = DiskStats::wait_idle(&name, REST).expect("no other process uses it");
    let log = output.join("traces.iocap");
    Beside {
        recording: Recording::open(&log),
        kernel: Counts::by_kernel(&(after - before)),
        log_bytes: fs::metadata(&log).expect("it is there").len(),
        name,
        _dir: dir,
    }
}

/// I/O of the other programs: past the page cache, through it, with flushes, new files, and what is
/// overwritten and read again.
fn others_script(place: &Path, rounds: u32) -> String {
    format!(
        "set -e; cd {}
         for i in $(seq {rounds}); do
             dd if=/dev/zero of=a bs=4k count=211 oflag=direct conv=notrunc
             dd if=/dev/zero of=b$((i % 3)) bs=64k count=13 conv=fsync
             dd if=a of=/dev/null bs=4k iflag=direct
             rm -f b$(((i + 1) % 3))
         done
         sync -f .",
        text(place)
    )
}

/// Bytes of the program's own requests, by file, direction, program and writers, with the origin of
/// each attribution.
fn own(beside: &Beside) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let on_device = |it: &&JsonBlock| it.disk.as_deref() == Some(&beside.name);
    for request in beside.recording.requests().iter().filter(on_device) {
        for piece in request.pieces.iter().filter(|it| it.behind == "file") {
            let path = piece.path.as_deref().and_then(|it| it.rsplit('/').next()).unwrap_or("?");
            let writers: Vec<_> =
                piece.writers.iter().map(|it| it.comm.clone().unwrap_or_default()).collect();
            let how = format!(
                "{path} {} {} {} {writers:?}",
                request.op,
                piece.link,
                piece.program.as_deref().unwrap_or("-")
            );
            *all.entry(how).or_default() += piece.bytes;
        }
    }
    all
}

/// The requests of others that `info --json` tells of the device: requests and sectors by class of
/// `/proc/diskstats`.
fn others(beside: &Beside) -> Counts {
    let mut counts = Counts::default();
    let all = beside.recording.info["others"].as_array().expect("a list").clone();
    for device in all.iter().filter(|it| it["disk"] == beside.name.as_str()) {
        for (operation, it) in device["operations"].as_object().expect("an object") {
            let number = |key: &str| it[key].as_u64().expect("a number");
            let class = match operation.as_str() {
                "read" => &mut counts.reads,
                "discard" => &mut counts.discards,
                "flush" => {
                    counts.flushes += number("requests");
                    continue;
                }
                _ => &mut counts.writes,
            };
            class.requests += number("requests");
            class.sectors += number("bytes") / 512;
        }
    }
    counts
}

/// Fails if the log of a quiet program grows with what others do, if one of its own requests or
/// what is known of it is not there, or if a request is neither recorded nor counted.
#[track_caller]
fn check(source: Source, file_system: &str) {
    let few = beside(source, file_system, 1);
    let many = beside(source, file_system, 40);
    let missing = many.recording.info["missing"].as_object().expect("it ended in order");
    for it in [&few, &many] {
        it.recording.assert_whole();
        let own_bytes = own(it);
        let of = |file: &str| -> u64 {
            own_bytes.iter().filter(|it| it.0.starts_with(file)).map(|it| it.1).sum()
        };
        assert_eq!(of("direct write exact exact"), 2 * DIRECT * BLOCK, "{own_bytes:?}");
        assert_eq!(of("late write exact"), LATE * BLOCK, "{own_bytes:?}");
        assert_eq!(own_bytes.keys().filter(|it| it.starts_with(['a', 'b'])).count(), 0);
    }
    assert_eq!(own(&few), own(&many), "{file_system} {source:?}");
    // Perf misses completions that interrupt an idle CPU: such requests are not known to have
    // ended.
    if missing.keys().any(|it| it.starts_with("block:")) {
        return;
    }
    let reported = Counts::by_us(&many.recording.requests()) + others(&many);
    let plain = |it: Counts| {
        let class = |it: crate::support::oracle::diskstats_check::Class| (it.requests, it.sectors);
        (class(it.reads), class(it.writes), class(it.discards), it.flushes)
    };
    assert_eq!(
        plain(reported),
        plain(many.kernel),
        "{file_system} {source:?}: {:#}",
        many.recording.info["others"]
    );
    assert!(others(&many).requests() > 40 * 2 * 200, "{:?}", others(&many));
    let grown = many.log_bytes.saturating_sub(few.log_bytes);
    assert!(grown < 64 << 10, "{file_system} {source:?}: {} {}", few.log_bytes, many.log_bytes);
    let said = many.recording.text_info();
    check_shares(&said);
    assert!(said.contains(&format!(" on {}", many.name)) && said.contains("recorded individually"));
}

/// Fails if the shares of the requests' attribution do not add up to all of them.
#[track_caller]
fn check_shares(text: &str) {
    let line =
        text.lines().find(|it| it.starts_with("attribution of ")).expect("there are requests");
    let (_, shares) = line.split_once(": files ").expect("both");
    let (files, programs) = shares.split_once("; programs ").expect("both");
    for part in [files, programs] {
        let tenths = |word: &str| word.replace('.', "").parse::<u64>().ok();
        let words: Vec<&str> = part.split_whitespace().collect();
        let shares = words.windows(2).filter(|it| it[1].starts_with('%'));
        assert_eq!(shares.filter_map(|it| tenths(it[0])).sum::<u64>(), 1000, "{line}");
    }
}

fn log_of_an_idle_program_does_not_grow_with_requests_of_others(source: Source) {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    check(source, "ext4");
}

/// With tracefs only: file system and source are independent, and each check takes two recordings.
#[test]
fn requests_of_other_programs_on_xfs_are_counted() {
    if !can_record(&[Need::Loop, Need::KernelFile("/sys/fs/xfs"), Need::Program("mkfs.xfs")]) {
        return;
    }
    let _alone = alone();
    check(Source::Tracefs, "xfs");
}
