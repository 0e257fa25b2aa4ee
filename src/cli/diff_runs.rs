//! Recordings of two commands in turns, for `diff -- COMMAND -- COMMAND`. Each run is a recording
//! by a process of its own, so that the commands get the caller's limits, rights and signals.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGTERM;

use super::diff_args::DiffArgs;
use super::error::CliError;
use super::message::print_line;
use super::signals;
use crate::analysis::comparison::rank_test::RUNS_MAX;
use crate::sys::signal;
use crate::text::quantity::counted;

/// Time between two looks at a recording.
const POLL: Duration = Duration::from_millis(20);

/// Directory of the recordings, which is removed at the end.
pub(super) struct RunDirectory(PathBuf);

impl RunDirectory {
    fn create() -> Result<Self, CliError> {
        let template = std::env::temp_dir().join("iotrace-perf-diff-XXXXXX");
        let made = nix::unistd::mkdtemp(&template);
        made.map(Self).map_err(|error| CliError::Create { path: template, source: error.into() })
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // A directory that cannot be removed is no reason to fail; its place is TMPDIR.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Recordings of both commands.
pub(super) struct RecordedRuns {
    /// Logs of the first command and of the second one.
    pub(super) logs: [Vec<PathBuf>; 2],
    /// The commands, as a shell would show them.
    pub(super) names: [String; 2],
    /// Sentences about runs that failed.
    pub(super) failures: Vec<String>,
    /// Set by a signal to end.
    pub(super) is_over: Arc<AtomicBool>,
    directory: RunDirectory,
}

/// Splits the words after the options into two commands.
pub(super) fn commands(words: &[OsString]) -> Result<[Vec<OsString>; 2], CliError> {
    let parts: Vec<&[OsString]> = words.split(|word| word == "--").collect();
    match parts.as_slice() {
        [one @ [_, ..], other @ [_, ..]] => Ok([one.to_vec(), other.to_vec()]),
        [_] => Err(CliError::Usage(
            "diff needs two commands, with -- between them: iotrace-perf diff -- COMMAND -- COMMAND"
                .into(),
        )),
        [_, _] => Err(CliError::Usage(
            "one of the two commands of diff is empty: iotrace-perf diff -- COMMAND -- COMMAND".into(),
        )),
        _ => Err(CliError::Usage(
            "diff compares two commands, and -- is there more than twice; a command with -- of its \
             own goes into a shell: sh -c 'COMMAND'"
                .into(),
        )),
    }
}

/// Records both commands, in turns.
pub(super) fn record(args: &DiffArgs) -> Result<RecordedRuns, CliError> {
    let commands = commands(&args.commands)?;
    if !(1..=RUNS_MAX).contains(&args.runs) {
        return Err(CliError::Usage(format!("--runs takes a number from 1 to {RUNS_MAX}")));
    }
    let is_over = signals::flag().map_err(CliError::Output)?;
    let directory = RunDirectory::create()?;
    let mut runs = RecordedRuns {
        logs: [Vec::new(), Vec::new()],
        names: commands.each_ref().map(|words| command_line(words)),
        failures: Vec::new(),
        is_over,
        directory,
    };
    let mut failed: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    let rounds = args.warmup.saturating_add(args.runs);
    for round in 0..rounds {
        for (side, command) in commands.iter().enumerate() {
            let log = runs.directory.0.join(format!("{side}-{round}.iocap"));
            let status = record_one(args, command, &log, &runs.is_over)?;
            if round < args.warmup {
                let _ = fs::remove_file(&log);
                continue;
            }
            if let (Some(status), Some(all)) = (status, failed.get_mut(side)) {
                all.push(status);
            }
            if let Some(logs) = runs.logs.get_mut(side) {
                logs.push(log);
            }
        }
    }
    for (name, failed) in runs.names.iter().zip(&failed) {
        if let Some(first) = failed.first() {
            let count = counted(failed.len() as u64, "run");
            runs.failures.push(format!("{name}: {count} of {} ended with {first}", args.runs));
        }
    }
    Ok(runs)
}

/// Records one run. Returns how the command ended, if that was not with success.
fn record_one(
    args: &DiffArgs,
    command: &[OsString],
    log: &Path,
    is_over: &Arc<AtomicBool>,
) -> Result<Option<String>, CliError> {
    let own = std::env::current_exe().map_err(CliError::Output)?;
    let mut recording = Command::new(own);
    recording.args([OsStr::new("record"), "-q".as_ref(), "--no-archive".as_ref(), "-o".as_ref()]);
    recording.arg(log);
    args.events.iter().for_each(|events| {
        recording.arg("-e").arg(events);
    });
    if let Some(user) = &args.as_user {
        recording.arg("--as-user").arg(user);
    }
    recording.arg("--").args(command);
    let mut recording = recording.spawn().map_err(CliError::Output)?;
    let mut has_passed_on = false;
    let status = loop {
        if let Some(status) = recording.try_wait().map_err(CliError::Output)? {
            break status;
        }
        // ORDERING: the flag publishes nothing else.
        if is_over.load(Ordering::Relaxed) && !std::mem::replace(&mut has_passed_on, true) {
            // A terminal's signal has reached the recording as well; its program ends by either.
            let _ = signal::send(recording.id().cast_signed(), SIGTERM);
        }
        std::thread::sleep(POLL);
    };
    // ORDERING: as above.
    if is_over.load(Ordering::Relaxed) {
        return Err(CliError::Interrupted);
    }
    if !log.exists() {
        // The recording has printed the cause.
        print_line("no comparison was made: a recording failed");
        return Err(CliError::Usage(format!("{} was not recorded", command_line(command))));
    }
    Ok((!status.success()).then(|| status.to_string()))
}

/// Words of a command, as they are shown.
fn command_line(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_two_commands() {
        let split = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            commands(&words).map(|both| both.map(|words| command_line(&words)))
        };
        assert_eq!(
            split("tar c x -- tar c y").ok(),
            Some(["tar c x", "tar c y"].map(str::to_owned))
        );
        for wrong in ["true", "true --", "-- true", "a -- b -- c"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
