//! Programs that cannot be run: the cause, from the file that the program's name leads to.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file_kind;
use crate::sys::error_text::plain;
use crate::sys::regular;

/// Bytes of a script that have its first line.
const LINE_BYTES: u64 = 256;

/// Units of a duration.
const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "sec", "seconds", "m", "min", "minutes", "h"];

/// Returns a hint for a missing program whose name is the unit of the duration before it, in a word
/// of its own.
pub(super) fn unit_hint(program: &str, error: &io::Error, duration: Option<Duration>) -> String {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    match duration.filter(|_| is_missing && UNITS.contains(&program)) {
        // A number without a unit is in seconds.
        Some(duration) => format!("; did you mean -D {}{program}?", duration.as_secs_f64()),
        None => String::new(),
    }
}

/// Explains why a program could not be run.
pub(super) fn explain(program: &str, error: &io::Error) -> String {
    let is_path = program.contains('/');
    let path = Path::new(program);
    // A bare name may be a file here, where a shell does not look.
    let found = if is_path { Some(path.to_owned()) } else { in_path(program) };
    let here = found.as_deref().unwrap_or(path);
    if file_kind::is_recording(here) {
        return format!(
            "{program} is a recording, not a program; try: iotrace-perf summary {program}"
        );
    }
    let raw = error.raw_os_error();
    match (error.kind(), here.metadata().ok()) {
        (_, Some(metadata)) if metadata.is_dir() => {
            format!("{program} is a directory, not a program")
        }
        (io::ErrorKind::NotFound, Some(_)) if found.is_none() => {
            format!("there is no program {program} in $PATH; the file here is run by: ./{program}")
        }
        (io::ErrorKind::NotFound, None) if is_path => format!("there is no program {program}"),
        (io::ErrorKind::NotFound, None) => format!("there is no program {program} in $PATH"),
        (io::ErrorKind::NotFound, Some(_)) => match interpreter(here) {
            Some(name) => format!("cannot run {program}: its interpreter {name} does not exist"),
            None => format!(
                "cannot run {program}: its dynamic loader does not exist here; see: readelf -l {}",
                here.display()
            ),
        },
        (io::ErrorKind::PermissionDenied, Some(metadata))
            if metadata.permissions().mode() & 0o111 == 0 =>
        {
            let shown = here.display();
            format!("cannot run {program}: it is not executable; try: chmod +x {shown}")
        }
        _ if raw == Some(libc::ENOEXEC) => {
            format!("cannot run {program}: it is neither a program of this machine nor a script")
        }
        _ => format!("cannot run {program}: {}", plain(error)),
    }
}

/// Returns the file that a shell finds for a bare name.
fn in_path(program: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&directories).map(|directory| directory.join(program));
    files.find(|file| fs::metadata(file).is_ok_and(|metadata| metadata.is_file()))
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(path: &Path) -> Option<String> {
    let file: File = regular::open_regular(path, true)?.0;
    let mut head = Vec::new();
    file.take(LINE_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let words = line.trim_ascii().split(u8::is_ascii_whitespace);
    let word = words.into_iter().next().filter(|word| !word.is_empty())?;
    Some(std::ffi::OsStr::from_bytes(word).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_in_a_word_of_its_own_gets_a_hint() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let forbidden = io::Error::from(io::ErrorKind::PermissionDenied);
        let ten = Some(Duration::from_secs(10));
        assert_eq!(unit_hint("s", &missing, ten), "; did you mean -D 10s?");
        let half = Some(Duration::from_millis(500));
        assert_eq!(unit_hint("m", &missing, half), "; did you mean -D 0.5m?");
        for (program, error, duration) in
            [("s", &missing, None), ("s", &forbidden, ten), ("sh", &missing, ten)]
        {
            assert_eq!(unit_hint(program, error, duration), "");
        }
    }

    /// Creates a file with these permissions; returns its path.
    fn make(directory: &Path, name: &str, text: &str, mode: u32) -> String {
        let path = directory.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
        path.display().to_string()
    }

    #[test]
    fn causes_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let explained = |program: &str, number: i32| {
            let text = explain(program, &io::Error::from_raw_os_error(number));
            text.replace(&dir.path().display().to_string(), "DIR")
        };
        let script = make(dir.path(), "s", "#! /nosuch/sh -e\nls\n", 0o755);
        let data = make(dir.path(), "data", "a", 0o644);
        let directory = dir.path().display().to_string();
        assert_eq!(explained(&directory, libc::EACCES), "DIR is a directory, not a program");
        assert_eq!(
            explained(&script, libc::ENOENT),
            "cannot run DIR/s: its interpreter /nosuch/sh does not exist"
        );
        assert_eq!(
            explained(&data, libc::EACCES),
            "cannot run DIR/data: it is not executable; try: chmod +x DIR/data"
        );
        assert_eq!(
            explained("no-such-program", libc::ENOENT),
            "there is no program no-such-program in $PATH"
        );
        assert_eq!(explained(&script, libc::EPERM), "cannot run DIR/s: Operation not permitted");
        make(dir.path(), "traces.iocap", "", 0o644);
        assert_eq!(
            explained(&directory, libc::EACCES),
            "DIR is a recording, not a program; try: iotrace-perf summary DIR"
        );
    }
}
