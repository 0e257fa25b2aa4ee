//! Directories of a replay on the command line: `--root`, `--map`, and the other options of `replay
//! init`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::super::error::CliError;
use super::super::values::{ContentArg, InitContentArg};
use super::args::InitArgs;
use crate::replay::execute::replay_dirs::ReplayDirs;
use crate::replay::execute::settings::Settings;
use crate::replay::plan::plan_file::{FileBefore, Fingerprint};
use crate::sys::identity::Identity;

/// Creates the directories, or empties those of an earlier replay.
pub(super) fn make(
    args: &InitArgs,
    user: Option<&Identity>,
    plan: Fingerprint,
    before: &[FileBefore],
) -> Result<ReplayDirs, CliError> {
    let maps = args.maps.iter().map(|arg| map(arg)).collect::<Result<Vec<_>, _>>()?;
    let is_usual = args.content == InitContentArg::MadeUp(ContentArg::RANDOM);
    let content = (!is_usual).then(|| args.content.to_string());
    let wanted = Settings { maps, part_of: None, user: user.map(Identity::user), content };
    ReplayDirs::make(&args.root, plan, before, &wanted)
        .map_err(|error| CliError::Usage(error.to_string()))
}

/// Parses `CAPTURED=DIR`, at the first `=`.
fn map(text: &OsStr) -> Result<(Vec<u8>, PathBuf), CliError> {
    let bytes = text.as_bytes();
    let parts =
        bytes.iter().position(|byte| *byte == b'=').map(|at| (&bytes[..at], &bytes[at + 1..]));
    match parts {
        Some((captured, directory)) if !directory.is_empty() => {
            Ok((captured.to_vec(), PathBuf::from(OsStr::from_bytes(directory))))
        }
        _ => Err(CliError::Usage(format!(
            "--map {}: it is a captured directory, = and a directory; try: --map /data=/mnt/disk/replay",
            text.display()
        ))),
    }
}

/// Refuses a directory that `replay init` has not made yet.
pub(super) fn check_made(plan: &Path, root: &Path) -> Result<(), CliError> {
    if root.symlink_metadata().is_ok() {
        return Ok(());
    }
    let (plan, root) = (plan.display(), root.display());
    Err(CliError::Usage(format!(
        "there is no directory {root}; make it, and the files of the replay: iotrace-perf replay init {plan} --root {root}"
    )))
}

/// Options of `init`, apart from the directories themselves.
fn options(places: &ReplayDirs) -> Vec<OsString> {
    let map = |(captured, directory): &(Vec<u8>, PathBuf)| {
        let bytes = [b"--map=", &captured[..], b"=", directory.as_os_str().as_bytes()].concat();
        OsString::from_vec(bytes)
    };
    let Settings { maps, user, content, .. } = places.settings();
    let user = user.iter().map(|user| OsString::from(format!("--user={user}")));
    let content = content.iter().map(|content| OsString::from(format!("--content={content}")));
    maps.iter().map(map).chain(user).chain(content).collect()
}

/// User of the replay, if it is another one.
pub(super) fn user(
    places: &ReplayDirs,
    plan: &Path,
    root: &Path,
) -> Result<Option<Identity>, CliError> {
    let Some(number) = places.settings().user else { return Ok(None) };
    let wrong = |why: String| {
        CliError::Usage(format!(
            "the replay's files are for user {number}: {why}; make them again for another one: iotrace-perf replay init {} --root {} --user USER",
            plan.display(),
            root.display()
        ))
    };
    match Identity::of_number(number) {
        Ok(None) => Err(wrong("the user does not exist any more".to_owned())),
        found => found.map_err(|error| wrong(error.to_string())),
    }
}

/// Options of `init` of the replay in this directory.
pub(super) fn init_options(root: &Path) -> Result<Vec<OsString>, CliError> {
    let places = ReplayDirs::open(root).map_err(|error| CliError::Usage(error.to_string()))?;
    Ok(options(&places))
}

/// Command that makes these files again.
pub(super) fn init_command(plan: &Path, root: &Path, places: &ReplayDirs) -> String {
    let mut command =
        format!("iotrace-perf replay init {} --root {}", plan.display(), root.display());
    for it in options(places) {
        command.push(' ');
        command.push_str(&it.to_string_lossy());
    }
    command
}

/// Notes of the report on the directories and the user.
pub(super) fn notes(places: &ReplayDirs, user: Option<&Identity>) -> Vec<String> {
    let map = |(captured, directory): &(Vec<u8>, PathBuf)| {
        let captured = String::from_utf8_lossy(captured);
        format!("{captured} of the capture was in {}", directory.display())
    };
    let user =
        user.map(|user| format!("the replay ran as user {}, the owner of its files", user.name()));
    places.settings().maps.iter().map(map).chain(user).collect()
}
