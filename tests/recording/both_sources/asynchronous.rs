//! Asynchronous I/O, against what the program itself says that it asked for and got, and against
//! fio's own sums.

use std::path::Path;

use crate::support::driver::json::JsonAsync;
use crate::support::driver::recording::{Recording, Source, can_record, compile};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::oracle::otf2_check::Mode;
use crate::support::scratch_dir;
use serde_json::Value;

for_each_source! {
    operations_match_the_requests_of_the_program,
    unfetched_results_are_unknown,
    bytes_equal_the_count_of_fio,
}

/// Largest number of runs until one reads everything in time.
const RUNS_MAX: u32 = 8;

/// Keys of io_uring operations that tracepoints lack: they are in memory shared by program and
/// kernel.
const ABSENT: [&str; 2] = ["offset", "bytes_requested"];

/// Fails if an operation is missing, or if any reported value differs from what the program prints.
fn operations_match_the_requests_of_the_program(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    for options in [&[][..], &["-a"]] {
        let dir = scratch_dir("asynchronous");
        let program = compile("asynchronous.c", dir.path());
        let place = dir.path().to_str().expect("text");
        let program = [program.as_str(), place];
        let trace = dir.path().join("trace");
        let Some((said, recording)) = recorded_in_time(source, &trace, options, &program) else {
            panic!("{options:?}: what io_submit was given was read too late in every run")
        };
        recording.assert_archive(&dir.path().join("archive"));
        let pids = recording.operations();
        let program = pids.iter().find(|it| it.name == "io_submit").expect("it submits").pid;
        let ours: Vec<JsonAsync> =
            recording.asynchronous().into_iter().filter(|it| it.pid == program).collect();
        assert_eq!(ours.len(), said.lines().count(), "{ours:#?}");
        for line in said.lines() {
            compare(line, &ours, dir.path());
        }
        assert!(ours.iter().any(|it| it.done_by.as_deref() == Some("worker")));
        let polled = ours.iter().filter(|it| it.interface == "io_uring" && it.tid != it.pid);
        assert_eq!(polled.count(), 18, "those that the kernel's own thread took");
        for key in ["async_open", "async_unseen", "async_orphans", "async_unread"] {
            assert!(options == ["-a"] || recording.number(key) == 0, "{key}");
        }
    }
}

/// One line: interface, name, `user_data`, descriptor, offset, bytes, result.
#[track_caller]
fn compare(line: &str, ours: &[JsonAsync], place: &Path) {
    let words: Vec<&str> = line.split(' ').collect();
    let &[interface, name, data, fd, offset, bytes, result] = words.as_slice() else {
        panic!("{line}")
    };
    let is_it = |it: &&JsonAsync| it.interface == interface && it.user_data.to_string() == data;
    let mut found = ours.iter().filter(is_it);
    let (Some(our), None) = (found.next(), found.next()) else { panic!("{line}") };
    assert_eq!(our.name.as_deref(), Some(name), "{line}");
    assert_eq!(our.result.map(|it| it.to_string()).as_deref(), Some(result), "{line} {our:?}");
    let said = |it: &str| it.parse::<u64>().ok();
    assert_eq!(our.fd.map(i64::from), said(fd).map(u64::cast_signed), "{line} {our:?}");
    for (key, ours, theirs) in [
        ("offset", our.offset, said(offset)),
        ("bytes_requested", our.bytes_requested, said(bytes)),
    ] {
        let is_unread = our.unread.iter().any(|it| it == key);
        assert!(ours == theirs && !is_unread || ours.is_none() && is_unread, "{line} {our:?}");
        assert!(!is_unread || interface == "io_uring" && ABSENT.contains(&key), "{line} {our:?}");
    }
    let has_file = our.fd.is_some() || our.file.is_some();
    let has_name = has_file && name != "OPENAT" && result != "-9";
    let file = our.path.as_deref().map(Path::new);
    assert_eq!(file.is_some_and(|it| it.starts_with(place)), has_name, "{line} {our:?}");
    assert!(our.unfinished.is_none() && our.duration_ns.is_some(), "{line} {our:?}");
}

/// Operations whose results no call fetches: their bytes are reported as requested, and in the
/// archive they are cancelled before their handle is destroyed.
fn unfetched_results_are_unknown(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("asynchronous");
    let program = compile("unseen.c", dir.path());
    let file = dir.path().join("written");
    let program = [program.as_str(), file.to_str().expect("text")];
    let Some((_, recording)) = recorded_in_time(source, &dir.path().join("trace"), &[], &program)
    else {
        panic!("what io_submit was given was read too late in every run")
    };
    let ours = recording.asynchronous();
    let reported = ours.iter().map(|it| (it.unfinished.as_deref(), it.bytes_requested));
    let expected = [(Some("result-unseen"), Some(4099)), (Some("result-unseen"), Some(1013))];
    assert_eq!(reported.take(2).collect::<Vec<_>>(), expected);
    assert!(ours.len() == 6 && ours.iter().all(|it| it.unfinished.is_some()), "{ours:#?}");
    let summary = recording.report("summary");
    assert_eq!(summary["unseen_results"], 6);
    assert_eq!(summary["unseen_requested_bytes"], 4099 + 5 * 1013);
    let archive = recording.assert_archive(&dir.path().join("archive"));
    if let Some(archive) = archive {
        let totals = archive.of_mode(Mode::Write);
        assert_eq!((totals.cancelled, archive.ended_after_destroy), (6, 0), "{archive:#?}");
    }
}

/// Fails if bytes and operations of a file are not those that fio counts.
fn bytes_equal_the_count_of_fio(source: Source) {
    if !can_record(&[Need::Fio]) {
        return;
    }
    let _alone = alone();
    for options in [
        &["--ioengine=libaio", "--direct=1", "--iodepth=16"][..],
        &["--ioengine=libaio", "--iodepth=4", "--fsync=8"],
        &["--ioengine=io_uring", "--direct=1", "--iodepth=16"],
        &["--ioengine=io_uring", "--iodepth=8", "--force_async=1"],
        &["--ioengine=io_uring", "--iodepth=8", "--sqthread_poll=1"],
    ] {
        let dir = scratch_dir("asynchronous");
        let file = dir.path().join("data");
        let job = format!("--filename={}", file.display());
        let first =
            ["fio", "--name=job", "--rw=randrw", "--bs=4k", "--size=512k", "--output-format=json"];
        let program = [&first, options, &[job.as_str()]].concat();
        let trace = dir.path().join("trace");
        let Some((report, recording)) = recorded_in_time(source, &trace, &[], &program) else {
            panic!("{options:?}: what io_submit was given was read too late in every run")
        };
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let path = file.to_str();
        let ours: Vec<JsonAsync> =
            recording.asynchronous().into_iter().filter(|it| it.path.as_deref() == path).collect();
        for (side, word) in [("read", "READ"), ("write", "WRITE")] {
            let theirs = &report["jobs"][0][side];
            let is_side = |it: &&JsonAsync| {
                it.name.as_deref().is_some_and(|it| it.trim_start_matches('P').starts_with(word))
            };
            let sum: u64 = ours.iter().filter(is_side).filter_map(|it| it.bytes).sum();
            assert_eq!(Some(sum), theirs["io_bytes"].as_u64(), "{options:?} {side}");
            let count = ours.iter().filter(is_side).count() as u64;
            assert_eq!(Some(count), theirs["total_ios"].as_u64(), "{options:?} {side}");
        }
        assert!(ours.iter().filter_map(|it| it.offset).all(|it| it % 4096 == 0 && it < 512 << 10));
        let is_reported = options.contains(&"--ioengine=libaio")
            || options.contains(&"--direct=1") && tells_direct_io(dir.path());
        let reported =
            ours.iter().filter(|it| it.name.as_deref() != Some("FSYNC") && it.offset.is_some());
        assert!(!is_reported || reported.count() == 128, "{options:?}: {ours:#?}");
    }
}

/// True if the file system of this place reports where direct I/O goes.
fn tells_direct_io(place: &Path) -> bool {
    let event = Path::new("/sys/kernel/tracing/events/iomap/iomap_dio_rw_begin");
    let kind = nix::sys::statfs::statfs(place).expect("it is there").filesystem_type();
    event.exists() && kind == nix::sys::statfs::EXT4_SUPER_MAGIC
}

/// Returns the program's output and the recording. On a busy machine a reader may come too late,
/// which is counted: then again.
fn recorded_in_time(
    source: Source,
    output: &Path,
    options: &[&str],
    program: &[&str],
) -> Option<(String, Recording)> {
    (0..RUNS_MAX).find_map(|run| {
        let output = output.with_extension(run.to_string());
        let (finished, recording) = source.record(&output, options, program);
        let printed = finished.success().stdout();
        recording.assert_whole();
        // Files registered with a ring are read beside a call, too.
        let lacks_path = |it: &JsonAsync| it.unread.iter().any(|key| key == "path");
        let is_late =
            recording.number("async_unread") > 0 || recording.asynchronous().iter().any(lacks_path);
        (!is_late).then_some((printed, recording))
    })
}
