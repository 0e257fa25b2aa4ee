//! `iotrace-perf ctl`: sends a command to a running recording.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use super::protocol::{ControlCommand, ControlVerb, GREETING};
use crate::cli::ctl_args::{Action, CtlArgs};
use crate::cli::error::CliError;
use crate::text::escape;

/// Limit on a line of a response.
const LINE_MAX: u64 = 64 << 10;

pub(in crate::cli) fn run(args: &CtlArgs) -> Result<ExitCode, CliError> {
    let command = command_of(&args.action).map_err(|error| CliError::Usage(error.to_string()))?;
    let path = &args.control;
    let failed = |source: io::Error| {
        let shown = path.display();
        CliError::Usage(match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
                "no recording is controlled at {shown}: start one with `iotrace-perf watch`, or `record --control`"
            ),
            _ => format!("cannot talk to the recording at {shown}: {source}"),
        })
    };
    let stream = UnixStream::connect(path).map_err(failed)?;
    let answer = send(stream, &command).map_err(failed)?;
    answer.map_err(CliError::Usage)?;
    Ok(ExitCode::SUCCESS)
}

/// Sends the command, and prints the response; or returns the recording's error.
fn send(mut stream: UnixStream, command: &ControlCommand) -> io::Result<Result<(), String>> {
    let mut input = BufReader::new(stream.try_clone()?);
    let greeting = line(&mut input)?;
    if greeting != GREETING {
        let what = format!("it responded {:?}, not {:?}", greeting.trim_end(), GREETING.trim_end());
        return Err(io::Error::other(what));
    }
    stream.write_all(&command.line())?;
    let head = line(&mut input)?;
    let head = head.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    if let Some(why) = head.strip_prefix("error ") {
        return Ok(Err(String::from_utf8_lossy(&harmless(why.as_bytes())).into_owned()));
    }
    let count = head.strip_prefix("ok ").and_then(|rest| rest.parse::<u64>().ok());
    let mut left = count.ok_or_else(|| io::Error::other(format!("it responded {head:?}")))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    while left > 0 {
        out.write_all(&row(&mut input)?)?;
        left -= 1;
    }
    out.flush()?;
    Ok(Ok(()))
}

/// Reads a line of a response with its line end; control characters are escaped and its length is
/// limited.
fn row(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    input.take(LINE_MAX).read_until(b'\n', &mut read)?;
    let Some(bare) = read.strip_suffix(b"\n") else {
        let is_long = read.len() as u64 >= LINE_MAX;
        let too_long = || io::Error::other("a line of its response does not end");
        return Err(if is_long { too_long() } else { io::ErrorKind::UnexpectedEof.into() });
    };
    let mut row = harmless(bare);
    row.push(b'\n');
    Ok(row)
}

/// Escapes control characters; bytes that are escaped already stay.
fn harmless(line: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(line.len());
    for (number, part) in line.split(|line| *line == b'\\').enumerate() {
        shown.extend_from_slice(if number > 0 { b"\\" } else { b"" });
        escape::shown(&mut shown, part, b"");
    }
    shown
}

fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    input.take(LINE_MAX).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn command_of(action: &Action) -> io::Result<ControlCommand> {
    let (verb, file) = match action {
        Action::Add { file, max } => {
            let file = absolute(file)?;
            return Ok(ControlCommand { verb: ControlVerb::Add, file: Some(file), max: *max });
        }
        Action::Remove { file } => (ControlVerb::Remove, Some(file.as_path())),
        Action::List => (ControlVerb::List, None),
        Action::Status { file } => (ControlVerb::Status, file.as_deref()),
        Action::Stop { file } => (ControlVerb::Stop, file.as_deref()),
        Action::Start { file } => (ControlVerb::Start, file.as_deref()),
        Action::Reset { file } => (ControlVerb::Reset, file.as_deref()),
        Action::Timereset { file } => (ControlVerb::TimeReset, file.as_deref()),
        Action::Log { file } => (ControlVerb::Log, Some(file.as_path())),
        Action::Counts { file } => (ControlVerb::Counts, file.as_deref()),
        Action::Dump => (ControlVerb::Dump, None),
    };
    let file = file.map(word).transpose()?;
    Ok(ControlCommand { verb, file, max: None })
}

/// Absolute path of a file; or `DEVICE_INODE` as it is, if no such file exists here.
fn word(file: &Path) -> io::Result<Vec<u8>> {
    let is_empty = file.as_os_str().is_empty();
    let is_name = !is_empty && !file.as_os_str().as_bytes().contains(&b'/') && !file.exists();
    if is_name { Ok(file.as_os_str().as_bytes().to_vec()) } else { absolute(file) }
}

fn absolute(file: &Path) -> io::Result<Vec<u8>> {
    if file.as_os_str().is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file without a name"));
    }
    Ok(std::path::absolute(file)?.into_os_string().into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_name_is_not_all_files() {
        let file = || Some("".into());
        let actions = [
            Action::Status { file: file() },
            Action::Stop { file: file() },
            Action::Reset { file: file() },
            Action::Remove { file: "".into() },
            Action::Add { file: "".into(), max: None },
        ];
        for action in &actions {
            assert!(
                command_of(action).expect_err("no name").to_string().contains("without a name")
            );
        }
        assert_eq!(command_of(&Action::Reset { file: None }).expect("all").file, None);
    }

    #[test]
    fn received_text_is_escaped_and_bounded() {
        let rows = |mut input: &[u8]| row(&mut input).map_err(|error| error.kind());
        assert_eq!(rows(b"a /b\\x0a;\\\\\n"), Ok(b"a /b\\x0a;\\\\\n".to_vec()));
        assert_eq!(rows(b"\x1b[2J\xff\n"), Ok(b"\\x1b[2J\\xff\n".to_vec()));
        assert_eq!(rows(b"half"), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(rows(&vec![b'a'; 1 << 20]), Err(io::ErrorKind::Other));
    }
}
