//! The tracer is killed (`kill -9`), at any moment, however it records: the program goes on, the
//! log is readable up to there, and nothing remains.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::wait::WaitStatus;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, now_ns, recorder, size, wait_until,
};
use crate::support::machine::subreaper::Subreaper;
use crate::support::machine::turns::{alone, tracer_instances};
use crate::support::scratch_dir;

/// Number of kills: `scripts/faults` asks for more.
const KILLS: &str = "IOTRACE_KILLS";
const KILLS_DEFAULT: u64 = 12;

/// Latest time of a kill, counted from the start: the program works for a second.
const LATEST_NS: u64 = 1_400_000_000;

/// Least working time of a program that has worked to its end.
const WORKED_NS: u64 = 500_000_000;

/// Default path of the control socket.
const CONTROL: &str = "/run/iotrace-perf";

/// Ways to record that leave different things in the kernel and on the disk.
const WAYS: [&[&str]; 6] = [
    &[],
    &["--source", "perf"],
    &["--source", "tracefs", "--names", "uprobe"],
    &["--control"],
    &["--stacks", "kernel,user"],
    &["-a"],
];

/// Numbers that look random: the same again from the same seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Working time before a kill of which the log has nothing: more than is lost on a machine with
/// idle processors.
const SILENT_NS: u64 = 700_000_000;

/// One recording that is killed.
struct Killed {
    /// Description for the messages of failed assertions.
    what: String,
    log: PathBuf,
    /// File that the program wrote.
    written: PathBuf,
    /// Time of the kill.
    at: u64,
    /// Exit statuses of the children that were left.
    ends: Vec<WaitStatus>,
}

/// Records the program in this way, and kills the tracer after this time.
#[track_caller]
fn kill_after(
    dir: &Path,
    program: &str,
    way: &[&str],
    after: Duration,
    orphans: &Subreaper,
) -> Killed {
    let (written, trace) = (dir.join("written"), dir.join("trace"));
    let mut command = recorder(&trace, way, &[program, written.to_str().expect("text"), "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracer = command.spawn().expect("it starts");
    std::thread::sleep(after);
    let at = now_ns();
    tracer.kill().and_then(|()| tracer.wait()).expect("it can be killed");
    // The program, and helpers of the tracer.
    let ends = orphans.reap_all();
    let what = format!("{way:?} killed after {after:?}, {ends:?}");
    Killed { what, log: trace.join("traces.iocap"), written, at, ends }
}

impl Killed {
    /// When the program began to work, if it was started. It went on as if it were not traced.
    #[track_caller]
    fn assert_program_unharmed(&self) -> Option<u64> {
        let is_its = |it: &WaitStatus| matches!(it, WaitStatus::Exited(_, 7));
        let has_ended = self.ends.iter().any(is_its);
        let Ok(stamps) = fs::read(&self.written) else {
            assert!(!has_ended, "{}", self.what);
            return None;
        };
        let stamp = |it: &[u8]| it.try_into().map_or(0, u64::from_ne_bytes);
        let first_and_last = stamps.first_chunk::<8>().zip(stamps.last_chunk::<8>());
        let (first, last) = first_and_last.map_or((self.at, 0), |it| (stamp(it.0), stamp(it.1)));
        let worked = last.saturating_sub(first);
        // If it was over before, the tracer has waited for it.
        assert!(has_ended || worked > WORKED_NS, "{}: {worked} ns", self.what);
        Some(first)
    }

    /// Checks that the log is a prefix of what was done, to the byte; returns the number of writes.
    #[track_caller]
    fn assert_log_is_readable(&self) -> usize {
        let recording = Recording::open(&self.log);
        recording.assert_books_balance();
        let path = self.written.to_str().expect("text");
        let operations = recording.operations();
        let is_its = |it: &&JsonOperation| it.name == "write" && it.result == Some(8);
        let count = operations.iter().filter(is_its).count();
        let its = operations.iter().filter(is_its);
        let offsets: Vec<Option<u64>> =
            its.filter(|it| it.path.as_deref() == Some(path)).map(|it| it.offset).collect();
        let lost = recording.number("lost");
        // A name that was read too late is counted; the file has none then.
        let is_known = lost == 0 && (!offsets.is_empty() || recording.number("unnamed") == 0);
        let expected: Vec<Option<u64>> = (0..offsets.len() as u64).map(|it| Some(it * 8)).collect();
        assert!(!is_known || offsets == expected, "{}: {offsets:?}", self.what);
        assert!(offsets.len() as u64 * 8 <= size(&self.written), "{}", self.what);
        // The same prefix gives the same output each time.
        assert_eq!(recording.script(&["--json"]), recording.script(&["--json"]), "{}", self.what);
        count
    }
}

/// Remains of tracers in the kernel's tracing, and in `/run`.
fn left() -> Vec<String> {
    let tracing = Path::new("/sys/kernel/tracing");
    let mut left: Vec<String> = ["uprobe_events", "kprobe_events"]
        .iter()
        .filter_map(|it| fs::read_to_string(tracing.join(it)).ok())
        .flat_map(|it| it.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|it| it.contains("iotrace"))
        .collect();
    left.extend(tracer_instances().iter().map(|instance| instance.display().to_string()));
    left.extend(fs::exists(CONTROL).expect("looked at").then(|| CONTROL.to_owned()));
    left
}

/// Fails if a kill takes the program with it or changes how it ends, leaves a log that cannot be
/// read, or that has other operations than the program's, or if something of the recording is still
/// there after the next verb.
#[test]
#[expect(clippy::print_stdout, reason = "for who repeats a run, or counts them")]
fn tracer_killed_at_any_moment_leaves_a_readable_log() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    // The program becomes a child of the test when its parent is gone.
    let orphans = Subreaper::new();
    let kills: u64 = std::env::var(KILLS).map_or(KILLS_DEFAULT, |it| it.parse().expect("a number"));
    let seed = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let programs = scratch_dir("kills");
    let program = compile("clock_appender.c", programs.path());
    let clean = || {
        let mut next = Command::new(BINARY);
        process::run(next.arg("doctor"), TIMEOUT).expect("it ends");
    };
    clean();
    wait_until("nothing is left of earlier recordings", || left().is_empty());
    let mut reported = Vec::new();
    for way in WAYS.iter().cycle().take(usize::try_from(kills).expect("a number")) {
        let dir = scratch_dir("kills");
        let after = Duration::from_nanos(random.below(LATEST_NS));
        let killed = kill_after(dir.path(), &program, way, after, &orphans);
        // The log has its header before the program starts.
        if let Some(began) = killed.assert_program_unharmed() {
            let writes = killed.assert_log_is_readable();
            let worked = killed.at.saturating_sub(began);
            reported.push((writes > 0, worked > SILENT_NS, killed.what.clone()));
        }
        clean();
        let is_removed = || left().is_empty();
        wait_until(&format!("nothing is left: {}", killed.what), is_removed);
    }
    let started = reported.len();
    println!("{kills} kills: {started} programs ran on, and their logs were read");
    // On a machine that is busy with other things a log may come late to its turn, but not each
    // time.
    let late: Vec<_> = reported.iter().filter(|it| it.1).collect();
    let silent: Vec<_> = late.iter().filter(|it| !it.0).map(|it| &it.2).collect();
    assert!(silent.len() * 4 <= late.len(), "nothing is in the logs of {silent:#?}");
    let is_enough = reported.iter().any(|it| it.0) || kills < KILLS_DEFAULT;
    assert!(is_enough, "no kill met a program at work");
}
