//! A machine with 256 CPUs and 9,900 threads: every record is accounted for, and memory does not
//! grow with the length of the capture.

#[path = "../support/synthetic/mod.rs"]
pub(crate) mod synthetic;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::driver::process::{Finished, iotrace_perf, is_own_process, run};
use crate::support::machine::requirements::{Need, require_all};
use crate::support::{scratch_dir, text};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;
use synthetic::{Shape, Truth};

const TIMEOUT: Duration = Duration::from_secs(120);
/// As many threads as a reader may have files for where the hard limit is 20,000: two for each.
const LARGE: Shape = Shape {
    cpus: 256,
    threads: 9_900,
    processes: 101,
    records: 200_003,
    records_per_second: 400_000,
    files: 4,
    opens: false,
    late_disks: false,
    seed: 7,
};
/// Factor between the lengths of the two captures.
const TIMES: u64 = 5;
/// Memory that a longer capture may add, KiB: buffers that double, a round that is a little fuller.
const NOISE_KIB: i64 = 16 << 10;
/// Limit of `convert`'s memory with so many locations, KiB. One of OTF2's chunks for each would be
/// 2.5 GiB.
const CONVERT_KIB: i64 = 200 << 10;

/// A capture, and what is in it.
struct Capture {
    log: PathBuf,
    truth: Truth,
}

fn capture(dir: &Path, name: &str, shape: &Shape) -> Capture {
    let log = dir.join(name).with_extension("iocap");
    let truth = synthetic::write(shape, File::create_new(&log).expect("a new file"));
    Capture { log, truth: truth.expect("the disk has room") }
}

/// Runs `iotrace-perf` as most users would have to: with 1,024 open files.
fn with_few_files(arguments: &[&str]) -> Finished {
    let limited = "ulimit -n 1024; exec \"$0\" \"$@\"";
    let binary = iotrace_perf(env!("CARGO_BIN_EXE_iotrace-perf"), arguments);
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(binary.get_program()).args(binary.get_args());
    run(&mut command, TIMEOUT).expect("it ends").success()
}

/// The most memory that any child has had so far, KiB. It never falls, so what needs more must run
/// later. (The kernel counts what a child had before its exec, too: ours, while captures are made.)
fn peak_kib() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is always there").max_rss()
}

#[track_caller]
fn assert_all_is_there(capture: &Capture) {
    let output = with_few_files(&["info", "--json", text(&capture.log)]);
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let truth = &capture.truth;
    let said = |key: &str| info[key].as_u64().unwrap_or_else(|| panic!("{key}: {}", info[key]));
    for (key, expected) in [
        ("records", truth.records),
        ("events", truth.records - truth.own),
        ("operations", truth.operations),
        ("requests", truth.requests),
        ("unnamed", truth.unnamed),
        ("cpus", LARGE.cpus.into()),
        ("duration_ns", truth.duration_ns),
    ] {
        assert_eq!(said(key), expected, "{key}");
    }
    for key in ["lost", "unmatched", "orphan_exits", "lost_exits", "cut_off"] {
        assert_eq!(said(key), 0, "{key}");
    }
    for key in ["open_at_end", "requests_open", "requests_foreign", "damaged_bytes"] {
        assert_eq!(said(key), 0, "{key}");
    }
    assert_eq!(info["ignored"], serde_json::json!({"own": truth.own}));
    for key in ["anomalies", "missing"] {
        assert_eq!(info[key], serde_json::json!({}), "{key}");
    }
    assert_eq!(info["imbalances"], serde_json::json!([]));
    assert_eq!(info["complete"], true);
    for (call, (count, bytes)) in &truth.calls {
        let reported = &info["calls"][call];
        assert_eq!(
            (reported["count"].as_u64(), reported["bytes"].as_u64()),
            (Some(*count), Some(*bytes))
        );
    }
}

fn convert(capture: &Capture) -> PathBuf {
    let anchor = capture.log.with_extension("otf2");
    let output = with_few_files(&["convert", text(&capture.log), "-o", text(&anchor)]);
    let locations = format!("the archive has {} locations", capture.truth.locations);
    assert!(output.stderr().contains(&locations), "{}", output.stderr());
    anchor
}

/// `otf2-print` opens two files for each location, if it may.
fn assert_readable(anchor: &Path, locations: u64) {
    let files = 2 * locations + 64;
    if !require_all(&[Need::Otf2Print, Need::OpenFiles(files)]) {
        return;
    }
    let check = format!("ulimit -n {files} && exec otf2-print --silent -Werror \"$0\"");
    let judged = run(Command::new("sh").args(["-c", &check, text(anchor)]), TIMEOUT);
    assert_eq!(judged.expect("it ends").success().stderr(), "");
}

#[test]
fn large_machine_needs_no_more_memory_for_a_longer_capture() {
    // The peak is that of all children of a process.
    if !is_own_process("scale::large_machine_needs_no_more_memory_for_a_longer_capture") {
        return;
    }
    let dir = scratch_dir("large");
    let short = capture(dir.path(), "short", &LARGE);
    let long = capture(dir.path(), "long", &Shape { records: TIMES * LARGE.records, ..LARGE });
    assert_eq!(long.truth.locations, 9_904, "all threads, and four disks");

    assert_all_is_there(&short);
    let short_kib = peak_kib();
    assert_all_is_there(&long);
    let long_kib = peak_kib();
    assert!(long_kib < short_kib * 13 / 10 + NOISE_KIB, "info: {short_kib} KiB, {long_kib} KiB");

    convert(&short);
    let short_kib = peak_kib();
    let anchor = convert(&long);
    let long_kib = peak_kib();
    assert!(long_kib < short_kib * 13 / 10 + NOISE_KIB, "convert: {short_kib} KiB, {long_kib} KiB");
    assert!(long_kib < CONVERT_KIB, "convert: {long_kib} KiB");
    assert_readable(&anchor, long.truth.locations);
}
