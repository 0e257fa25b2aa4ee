//! `iotrace-perf ctl`: asks a recording that runs.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use super::protocol::{Asked, GREETING, Verb};
use crate::cli::args::{Action, CtlArgs};
use crate::cli::error::CliError;

/// The first line of an answer is not longer.
const HEAD_MAX: u64 = 64 << 10;

pub(in crate::cli) fn run(args: &CtlArgs) -> Result<ExitCode, CliError> {
    let asked = asked(&args.action).map_err(|it| CliError::Usage(it.to_string()))?;
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
    let answer = ask(stream, &asked).map_err(failed)?;
    answer.map_err(CliError::Usage)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks, and prints the answer; or why there is none.
fn ask(mut stream: UnixStream, asked: &Asked) -> io::Result<Result<(), String>> {
    let mut input = BufReader::new(stream.try_clone()?);
    let greeting = line(&mut input)?;
    if greeting != GREETING {
        let what = format!("it says {:?}, not {:?}", greeting.trim_end(), GREETING.trim_end());
        return Err(io::Error::other(what));
    }
    stream.write_all(&asked.line())?;
    let head = line(&mut input)?;
    let head = head.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    if let Some(why) = head.strip_prefix("error ") {
        return Ok(Err(why.to_owned()));
    }
    let count = head.strip_prefix("ok ").and_then(|it| it.parse::<u64>().ok());
    let mut left = count.ok_or_else(|| io::Error::other(format!("it says {head:?}")))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut row = Vec::new();
    while left > 0 {
        row.clear();
        input.read_until(b'\n', &mut row)?;
        if !row.ends_with(b"\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&row)?;
        left -= 1;
    }
    out.flush()?;
    Ok(Ok(()))
}

fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    input.take(HEAD_MAX).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn asked(action: &Action) -> io::Result<Asked> {
    let (verb, file) = match action {
        Action::Add { file, max } => {
            let file = absolute(file)?;
            return Ok(Asked { verb: Verb::Add, file: Some(file), max: *max });
        }
        Action::Remove { file } => (Verb::Remove, Some(file.as_path())),
        Action::List => (Verb::List, None),
        Action::Status { file } => (Verb::Status, file.as_deref()),
        Action::Stop { file } => (Verb::Stop, file.as_deref()),
        Action::Start { file } => (Verb::Start, file.as_deref()),
        Action::Reset { file } => (Verb::Reset, file.as_deref()),
        Action::Timereset { file } => (Verb::TimeReset, file.as_deref()),
        Action::Log { file } => (Verb::Log, Some(file.as_path())),
        Action::Counts { file } => (Verb::Counts, file.as_deref()),
    };
    let file = file.map(word).transpose()?;
    Ok(Asked { verb, file, max: None })
}

/// A path from the root; or `DEVICE_INODE` as it is, if there is no such file here.
fn word(file: &Path) -> io::Result<Vec<u8>> {
    let is_name = !file.as_os_str().as_bytes().contains(&b'/') && !file.exists();
    if is_name { Ok(file.as_os_str().as_bytes().to_vec()) } else { absolute(file) }
}

fn absolute(file: &Path) -> io::Result<Vec<u8>> {
    if file.as_os_str() == OsStr::new("") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file without a name"));
    }
    Ok(std::path::absolute(file)?.into_os_string().into_vec())
}
