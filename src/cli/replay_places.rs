//! The directories of a replay on the command line: `--root`, and `--map` for what is elsewhere.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::replay_args::InitArgs;
use crate::replay::file::{FileBefore, Fingerprint};
use crate::replayer::places::Places;

/// New directories, or those of an earlier replay, which are emptied first.
pub(super) fn make(
    args: &InitArgs,
    plan: Fingerprint,
    before: &[FileBefore],
) -> Result<Places, CliError> {
    let maps = args.maps.iter().map(|it| map(it)).collect::<Result<Vec<_>, _>>()?;
    Places::make(&args.root, (plan, before), &maps).map_err(|it| CliError::Usage(it.to_string()))
}

/// `CAPTURED=DIR`: the first `=` stands between them.
fn map(text: &OsStr) -> Result<(Vec<u8>, PathBuf), CliError> {
    let bytes = text.as_bytes();
    let parts = bytes.iter().position(|it| *it == b'=').map(|at| (&bytes[..at], &bytes[at + 1..]));
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

/// What else `init` was told, as its options.
fn options(places: &Places) -> Vec<OsString> {
    let map = |(captured, directory): &(Vec<u8>, PathBuf)| {
        let bytes = [b"--map=", &captured[..], b"=", directory.as_os_str().as_bytes()].concat();
        OsString::from_vec(bytes)
    };
    places.elsewhere().iter().map(map).collect()
}

/// The same of the replay in this directory.
pub(super) fn init_options(root: &Path) -> Result<Vec<OsString>, CliError> {
    let places = Places::open(root).map_err(|it| CliError::Usage(it.to_string()))?;
    Ok(options(&places))
}

/// What makes these files again.
pub(super) fn init_command(plan: &Path, root: &Path, places: &Places) -> String {
    let mut command =
        format!("iotrace-perf replay init {} --root {}", plan.display(), root.display());
    for it in options(places) {
        command.push(' ');
        command.push_str(&it.to_string_lossy());
    }
    command
}

/// What the report says of them.
pub(super) fn notes(places: &Places) -> Vec<String> {
    let map = |(captured, directory): &(Vec<u8>, PathBuf)| {
        let captured = String::from_utf8_lossy(captured);
        format!("{captured} of the capture was in {}", directory.display())
    };
    places.elsewhere().iter().map(map).collect()
}
