//! The log that an argument names: a log, the one beside an archive, or the newest one in a
//! directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::args::AnalyseArgs;
use super::command_line::Verb;
use super::error::CliError;
use super::job_index::JobIndex;
use super::message::print_line;
use super::output::LOG_NAME;
use super::programs_found::is_program;
use crate::sys::output_dir::Users;
use crate::units::counted;

/// Replaces the log argument of a subcommand by the path of a log. A report without an argument,
/// and with nothing to record, is about the newest recording in the working directory.
pub(super) fn settle(verb: &mut Verb) -> Result<(), CliError> {
    match verb {
        Verb::Convert(args) => args.log = log_of(&args.log)?,
        Verb::Script(args) => args.log = log_of(&args.log)?,
        Verb::Info(args) => args.log = log_of(&args.log)?,
        Verb::Files(args) => settle_report(&mut args.grouped.analyse)?,
        Verb::Slow(args) | Verb::Pattern(args) => settle_report(&mut args.analyse)?,
        Verb::Advise(args) if !args.rules => settle_report(&mut args.analyse)?,
        Verb::Summary(args) | Verb::Disk(args) | Verb::Neighbours(args) | Verb::Cache(args) => {
            settle_report(&mut args.analyse)?;
        }
        Verb::Report(args) => {
            let mut analyse = args.analyse();
            settle_report(&mut analyse)?;
            args.log = analyse.log;
        }
        Verb::Check(args) => {
            let mut analyse = args.analyse();
            settle_report(&mut analyse)?;
            args.log = analyse.log;
        }
        Verb::Latency(args) => settle_report(&mut args.grouped.analyse)?,
        Verb::WhatIf(args) => settle_report(&mut args.analyse)?,
        Verb::Stacks(args) => settle_report(&mut args.analyse)?,
        Verb::Replay(args) => args.log_argument().map_or(Ok(()), settle_report)?,
        _ => {}
    }
    Ok(())
}

fn settle_report(args: &mut AnalyseArgs) -> Result<(), CliError> {
    let log = match &args.log {
        Some(log) => log,
        None if args.capture.is_wanted() => return Ok(()),
        None => Path::new("."),
    };
    args.log = Some(log_of(log)?);
    Ok(())
}

/// Returns the path of the log that an argument names.
fn log_of(argument: &Path) -> Result<PathBuf, CliError> {
    if argument == "-" {
        let text = "a log is read from a file only, not from standard input: give its path";
        return Err(CliError::Usage(text.to_owned()));
    }
    if argument.extension().is_some_and(|name| name == "otf2" || name == "def") {
        let log = argument.with_extension("iocap");
        return Ok(if log.exists() { log } else { argument.to_owned() });
    }
    if argument.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(absent(argument));
    }
    if let Some(index) = named_index(argument) {
        return Ok(index);
    }
    if !argument.is_dir() {
        return Ok(argument.to_owned());
    }
    let own = argument.join(LOG_NAME);
    if own.is_file() {
        return Ok(own);
    }
    let failed = |source| CliError::Open { path: argument.to_owned(), source };
    let FoundLogs { logs, mut others } = FoundLogs::in_directory(argument).map_err(failed)?;
    // An index of another user.
    others.extend(JobIndex::named_by(argument));
    let (_, newest) = logs.into_iter().max().ok_or_else(|| {
        let place = shown(argument).display();
        CliError::Usage(match others.first() {
            None => format!(
                "there is no recording in {place} (*.iocap, */{LOG_NAME}); make one: iotrace-perf PROGRAM"
            ),
            Some(other) => format!(
                "there is no recording of this user in {place}; one of another user is read by its name: {}",
                other.display()
            ),
        })
    })?;
    let of_user = if others.is_empty() { "" } else { " of this user" };
    print_line(&format!("{} (the newest recording{of_user})", newest.display()));
    Ok(newest)
}

/// Returns the index that an argument names. A directory stands for its index only if that is of
/// the caller, of root or of the owner of the directory: others may put files into `/tmp`. For the
/// working directory the owner of the directory does not count: the user has not named it.
fn named_index(argument: &Path) -> Option<PathBuf> {
    let index = JobIndex::named_by(argument)?;
    if index == argument {
        return Some(index);
    }
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.uid());
    let user = owner(&index)?;
    let is_own = user == 0 || Users::caller().owns(user);
    let is_here = argument == ".";
    let is_of_directory = || fs::metadata(argument).is_ok_and(|found| found.uid() == user);
    (is_own || (!is_here && is_of_directory())).then_some(index)
}

/// Returns the logs of the runs that an argument of `diff` names, in the order of their names: a
/// recording, the index of a job, a saved summary, or all recordings in a directory.
pub(super) fn runs_of(argument: &Path) -> Result<Vec<PathBuf>, CliError> {
    let is_job = named_index(argument).is_some();
    if is_job || !argument.is_dir() || argument.join(LOG_NAME).is_file() {
        return Ok(vec![log_of(argument)?]);
    }
    let failed = |source| CliError::Open { path: argument.to_owned(), source };
    let FoundLogs { logs, others } = FoundLogs::in_directory(argument).map_err(failed)?;
    let mut logs: Vec<PathBuf> = logs.into_iter().map(|(_, log)| log).collect();
    logs.sort();
    if logs.is_empty() {
        return Ok(vec![log_of(argument)?]);
    }
    if let Some(first) = others.first() {
        print_line(&format!(
            "warning: passed over in {}, because another user owns them: {} ({}{}); name them to read them",
            argument.display(),
            counted(others.len() as u64, "recording"),
            first.display(),
            if others.len() > 1 { ", …" } else { "" }
        ));
    }
    Ok(logs)
}

/// Logs in a directory and its subdirectories.
#[derive(Debug, Default)]
struct FoundLogs {
    /// Logs of this user, each after the time of its last change.
    logs: Vec<(SystemTime, PathBuf)>,
    /// Logs of other users, which are opened only if they are named.
    others: Vec<PathBuf>,
}

impl FoundLogs {
    fn in_directory(directory: &Path) -> io::Result<Self> {
        let users = Users::caller();
        let mut found = Self::default();
        for entry in fs::read_dir(directory)?.flatten() {
            let Some((log, metadata)) = candidate(entry.path()) else { continue };
            let log = shown(&log).to_owned();
            if !users.owns(metadata.uid()) {
                found.others.push(log);
            } else if let Ok(modified) = metadata.modified() {
                found.logs.push((modified, log));
            }
        }
        found.others.sort();
        Ok(found)
    }
}

/// Number of recordings that the error of a missing one names.
const NAMED_MAX: usize = 3;

/// Error of a recording that does not exist; names the newest ones in the working directory.
fn absent(argument: &Path) -> CliError {
    let shown = argument.display();
    if argument.components().count() == 1 && is_program(argument.as_os_str()) {
        return CliError::Usage(format!(
            "there is no recording {shown}; record the program: iotrace-perf summary -- {shown}"
        ));
    }
    let mut logs = FoundLogs::in_directory(Path::new(".")).unwrap_or_default().logs;
    logs.sort_unstable_by(|one, other| other.cmp(one));
    let name = |path: &PathBuf| match path.file_name() {
        Some(name) if name == LOG_NAME => path.parent().unwrap_or(path).display().to_string(),
        _ => path.display().to_string(),
    };
    let names: Vec<String> = logs.iter().take(NAMED_MAX).map(|(_, path)| name(path)).collect();
    let more = if logs.len() > names.len() { ", …" } else { "" };
    let here = match names.as_slice() {
        [] => "; make a recording: iotrace-perf PROGRAM".to_owned(),
        names => format!("; recordings here: {}{more}", names.join(", ")),
    };
    CliError::Usage(format!("there is no file {shown}{here}"))
}

/// Returns the log that an entry of a directory is or has; links are left out.
fn candidate(entry: PathBuf) -> Option<(PathBuf, fs::Metadata)> {
    let log = match entry.extension() {
        Some(extension) if extension == "iocap" => entry,
        // The link to the newest recording has the same log.
        _ if entry.is_symlink() => return None,
        _ => entry.join(LOG_NAME),
    };
    let metadata = fs::symlink_metadata(&log).ok().filter(fs::Metadata::is_file)?;
    Some((log, metadata))
}

/// Returns a path as a user would type it.
fn shown(path: &Path) -> &Path {
    path.strip_prefix("./").ok().filter(|path| !path.as_os_str().is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::time::Duration;

    use super::super::invocation::parse;
    use super::*;

    /// Creates a file that was changed some seconds after the epoch.
    fn make(path: &Path, seconds: u64) {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("a directory");
        }
        let file = fs::File::create(path).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
    }

    #[test]
    fn directory_stands_for_its_log_or_the_newest_one_below() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let log = |name: &str| log_of(&path(name)).map_err(|error| error.to_string());
        assert!(
            log_of(dir.path()).is_err_and(|error| error.to_string().contains("no recording in"))
        );
        make(&path("a/traces.iocap"), 10);
        make(&path("b/traces.iocap"), 30);
        make(&path("c.iocap"), 20);
        make(&path("b/other.iocap"), 40);
        assert_eq!(log_of(dir.path()).ok(), Some(path("b/traces.iocap")));
        assert_eq!(log("a"), Ok(path("a/traces.iocap")));
        make(&path("d.iocap"), 50);
        assert_eq!(log_of(dir.path()).ok(), Some(path("d.iocap")));
    }

    /// Fails if `advise` takes a directory for a log, or nothing at all.
    #[test]
    fn advise_has_a_recording_of_a_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        make(&dir.path().join("a/traces.iocap"), 10);
        let settled = |words: &[&OsStr]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut verb = parse(&words).expect("a command").verb.expect("a verb");
            settle(&mut verb).map(|()| match verb {
                Verb::Advise(args) => args.analyse.log,
                _ => None,
            })
        };
        let words = ["iotrace-perf", "advise"].map(OsStr::new);
        let log = settled(&[&words[..], &[dir.path().as_os_str()]].concat());
        assert_eq!(log.ok().flatten(), Some(dir.path().join("a/traces.iocap")));
        // The package has no recordings.
        let error = settled(&words).expect_err("no recording").to_string();
        assert!(error.contains("there is no recording in ."), "{error}");
        let rules = settled(&[&words[..], &[OsStr::new("--rules")]].concat());
        assert!(rules.is_ok_and(|log| log.is_none()));
    }

    #[test]
    fn archive_stands_for_the_log_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        make(&path("a.iocap"), 10);
        assert_eq!(log_of(&path("a.otf2")).ok(), Some(path("a.iocap")));
        assert_eq!(log_of(&path("b.otf2")).ok(), Some(path("b.otf2")));
        let absent = log_of(&path("none.iocap")).expect_err("no file").to_string();
        assert!(absent.starts_with(&format!("there is no file {}", path("none.iocap").display())));
    }
}
