//! Test recording of `doctor`: records a program whose calls are known, and compares.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;

use super::analyse::private_log;
use super::args::CaptureArgs;
use super::check::Check;
use super::command_line::{Args, SELF_TEST, SELF_TEST_WORK, Verb};
use super::convert::{InputLog, open};
use super::error::CliError;
use super::recording;
use crate::operation::block::BlockStep;
use crate::operation::model::SyscallOperation;
use crate::operation::{Sink, Step};
use crate::pipeline::{self, Summary};
use crate::sys::clock;
use crate::units::KernelTime;

/// Name of the check in `doctor`.
const NAME: &str = "self-test";

/// Work of the program on its file: a call, its number, and the bytes of each. Primes: no other
/// calls add up to the same.
const WORK: [(&str, u64, u64); 3] = [("write", 101, 4099), ("pread64", 97, 1009), ("fsync", 7, 0)];

/// Runs the program.
pub(super) fn work(file: &Path) -> Result<ExitCode, CliError> {
    let failed = |source| CliError::Create { path: file.into(), source };
    do_work(file).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn do_work(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    // A file without a name leaves nothing after a crash.
    fs::remove_file(path)?;
    for (call, count, bytes) in WORK {
        let mut buffer = vec![b'x'; usize::try_from(bytes).unwrap_or(0)];
        for number in 0..count {
            match call {
                "write" => file.write_all(&buffer)?,
                "pread64" => file.read_exact_at(&mut buffer, number * bytes)?,
                _ => file.sync_all()?,
            }
        }
    }
    Ok(())
}

/// The call whose time is compared, in [`WORK`].
const TIMED: &str = "pread64";

/// Returns the median time of the work's [`TIMED`] without a recording, by this thread's own clock,
/// ns, without the time of the clock.
fn untraced_time(path: &Path) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    fs::remove_file(path)?;
    let Some((_, count, bytes)) = WORK.into_iter().find(|work| work.0 == TIMED) else {
        return Ok(0);
    };
    let mut buffer = vec![b'x'; usize::try_from(bytes).unwrap_or(0)];
    (0..count).try_for_each(|_| file.write_all(&buffer))?;
    let (mut calls, mut clocks) = (Vec::new(), Vec::new());
    for number in 0..count {
        let begin = clock::now();
        file.read_exact_at(&mut buffer, number * bytes)?;
        let end = clock::now();
        calls.push(end.0.saturating_sub(begin.0));
        clocks.push(clock::now().0.saturating_sub(end.0));
    }
    Ok(median(calls).saturating_sub(median(clocks)))
}

/// Returns the upper median; 0 if there are no values.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Operations of the recording on the file.
#[derive(Debug, Default)]
struct RecordedOps {
    path: Vec<u8>,
    /// Number and bytes, by call.
    calls: BTreeMap<&'static str, (u64, u64)>,
    requests: u64,
    /// Durations of [`TIMED`], ns.
    times: Vec<u64>,
    /// Median time of the same call before the recording, by the thread's own clock, ns.
    untraced_ns: u64,
}

impl RecordedOps {
    /// True for operations on the file, which loses its name before the first of the work.
    fn is_of_file(&self, operation: &SyscallOperation) -> bool {
        let path = operation.file.as_ref().and_then(|file| file.first_path());
        path.is_some_and(|path| path.bytes == self.path)
    }
}

impl Sink for RecordedOps {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(it, _) if self.is_of_file(it) => {
                let (count, bytes) = self.calls.entry(it.call.call().name).or_default();
                *count += 1;
                *bytes += it.ret.and_then(|ret| u64::try_from(ret).ok()).unwrap_or(0);
                if let Some(end) = it.end.filter(|_| it.call.call().name == TIMED) {
                    self.times.push(end.0.saturating_sub(it.start.0));
                }
            }
            Step::Block { step: BlockStep::Ended(_), .. } => self.requests += 1,
            _ => {}
        }
        Ok(())
    }
}

/// Runs the check in a process of its own: a recorder must have one thread, and keeps its signal
/// handlers.
pub(super) fn check() -> Check {
    if !nix::unistd::geteuid().is_root() {
        return Check::bad(NAME, "not tried without root", "sudo iotrace-perf doctor");
    }
    let output = Command::new("/proc/self/exe").arg(SELF_TEST).stderr(Stdio::inherit()).output();
    let found = output.map_err(|error| error.to_string()).and_then(|output| {
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        if found.is_empty() {
            Err(output.status.to_string())
        } else {
            Ok((output.status.success(), found))
        }
    });
    let why = "if the machine is idle, please report this output";
    match found {
        Ok((true, found)) => Check::ok(NAME, found),
        Ok((false, found)) => Check::bad(NAME, found, why),
        Err(end) => Check::bad(NAME, format!("it did not finish: {end}"), why),
    }
}

/// Runs that process: records the program, compares, and reports the result.
pub(super) fn run() -> Result<ExitCode, CliError> {
    let (is_good, found) = match try_recording() {
        Ok((ops, summary)) => judge(&ops, &summary),
        Err(why) => (false, format!("nothing was recorded: {why}")),
    };
    io::stdout().lock().write_all(found.as_bytes()).map_err(CliError::output)?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn try_recording() -> Result<(RecordedOps, Summary), String> {
    // Canonical, as the kernel's paths are.
    let place = fs::canonicalize(std::env::temp_dir()).map_err(|error| error.to_string())?;
    let file = place.join(format!("iotrace-self-test-{}", std::process::id()));
    let untraced_ns =
        untraced_time(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (log, log_place) = private_log().map_err(|error| error.to_string())?;
    let args = capture_args(&file)?;
    let recorded = recording::capture(&args, |_| Ok(log_place), |_| log.try_clone());
    let mut recorded = recorded.map_err(|error| error.to_string())?;
    let fold = |log: &Path, go_on: &mut dyn FnMut() -> bool| {
        let InputLog { items, header, .. } = open(log, true)?;
        let path = file.as_os_str().as_bytes().to_vec();
        let mut ops = RecordedOps { path, untraced_ns, ..RecordedOps::default() };
        let summary = pipeline::run(items, header, &mut ops, go_on)
            .map_err(|error| CliError::pipeline(log, &error))?;
        Ok((ops, summary))
    };
    let found = recorded.work(fold, "the self-test has no result");
    if recorded.end().map_err(|error| error.to_string())? != ExitCode::SUCCESS {
        return Err(format!("the program for it failed; it writes a file to {}", place.display()));
    }
    found.ok_or_else(|| "the log cannot be read".to_owned())
}

/// Arguments of an ordinary recording.
fn capture_args(file: &Path) -> Result<CaptureArgs, String> {
    let words =
        ["iotrace-perf", "record", "--", "/proc/self/exe", SELF_TEST_WORK].map(OsString::from);
    let words = words.into_iter().chain([file.as_os_str().to_owned()]);
    match Args::try_parse_from(words).map(|args| args.verb) {
        // `doctor` has removed what earlier recordings have left.
        Ok(Some(Verb::Record(record))) => {
            Ok(CaptureArgs { leaves_nothing: true, ..record.capture })
        }
        Ok(_) => Err("the command line was not parsed as a recording".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn judge(ops: &RecordedOps, summary: &Summary) -> (bool, String) {
    let is_found = |&(call, count, bytes): &(&str, u64, u64)| {
        ops.calls.get(call) == Some(&(count, count * bytes))
    };
    let lost = summary.lost();
    if WORK.iter().all(is_found) && lost == 0 {
        let work = WORK.map(|(call, count, bytes)| match bytes {
            0 => format!("{count} {call}"),
            _ => format!("{count} {call} of {bytes} bytes"),
        });
        let requests = ops.requests;
        let found = format!(
            "{}: all recorded, with their file, and {requests} block requests{}",
            work.join(", "),
            durations(ops, summary.duration_share().map(|share| share.call_ns))
        );
        return (true, found);
    }
    let counts: Vec<String> = WORK
        .iter()
        .map(|(call, count, bytes)| {
            let (found, sum) = ops.calls.get(call).copied().unwrap_or_default();
            format!("{found} of {count} {call} ({sum} of {} bytes)", count * bytes)
        })
        .collect();
    let unnamed = summary.ledger.unnamed + summary.ledger.untyped + summary.ledger.unverified;
    let recorded = counts.join(", ");
    let doubts = format!("{lost} records lost, {unnamed} operations without a sure name");
    (false, format!("recorded operations of a test program: {recorded}; {doubts}"))
}

/// Compares the durations in the log with the thread's own clock, as text.
fn durations(ops: &RecordedOps, share_ns: Option<u64>) -> String {
    let (untraced, logged) = (ops.untraced_ns, median(ops.times.clone()));
    let share = match share_ns {
        None => "the tracer's part was not measured".to_owned(),
        // As scripts/benchmarks/durations.py judges.
        Some(share) if logged <= untraced + share + (untraced / 10).max(200) => {
            format!("{share} ns of it the tracer's")
        }
        Some(share) => format!("more than the {share} ns that reports state as the tracer's"),
    };
    format!("; a {TIMED} takes {untraced} ns without a recording, {logged} ns in the log ({share})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_test_does_its_documented_work() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        do_work(&path).expect("it works");
        assert!(!path.exists(), "nothing stays");
        fs::write(&path, "mine").expect("written");
        assert!(do_work(&path).is_err(), "what is there is not written over");
        assert_eq!(fs::read(&path).expect("it is there"), b"mine");
        assert!(untraced_time(&path).is_err(), "what is there is not written over");
        let other = dir.path().join("other");
        untraced_time(&other).expect("it works");
        assert!(!other.exists(), "nothing stays");
        let args = capture_args(&path).expect("it is understood");
        assert_eq!(args.command.last().map(OsString::as_os_str), Some(path.as_os_str()));
    }

    #[track_caller]
    fn verdict(calls: &[(&'static str, (u64, u64))]) -> String {
        let ops = RecordedOps { calls: calls.iter().copied().collect(), ..RecordedOps::default() };
        format!("ok: {:?}", judge(&ops, &Summary::default()))
    }

    #[test]
    fn durations_are_judged_by_the_stated_share() {
        let text = |logged: u64, share| {
            let times = vec![1, logged, 9_000];
            durations(&RecordedOps { times, untraced_ns: 300, ..RecordedOps::default() }, share)
        };
        assert!(text(800, Some(300)).contains("300 ns without a recording, 800 ns in the log"));
        assert!(text(800, Some(300)).contains("(300 ns of it the tracer's)"));
        assert!(text(801, Some(300)).contains("more than the 300 ns"));
        assert!(text(801, None).contains("not measured"));
    }

    #[test]
    fn partial_self_test_fails() {
        let all = [("write", (101, 413_999)), ("pread64", (97, 97_873)), ("fsync", (7, 0))];
        assert!(verdict(&all).starts_with("ok: (true"));
        assert!(verdict(&all).contains("was not measured"), "{}", verdict(&all));
        for (place, wrong) in
            [("write", (100, 413_999)), ("write", (101, 413_998)), ("fsync", (8, 0))]
        {
            let changed = all.map(|row| if row.0 == place { (place, wrong) } else { row });
            assert!(verdict(&changed).starts_with("ok: (false"), "{changed:?}");
        }
        assert!(verdict(&all[..2]).contains("0 of 7 fsync"));
    }
}
