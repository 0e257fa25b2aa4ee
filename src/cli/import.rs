//! `iotrace-perf import FILE -o LOG.iocap`: a capture log from another tool's log.

use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;
use std::process::ExitCode;

use super::args::{FromArg, ImportArgs};
use super::error::CliError;
use super::say;
use crate::import::{Format, ImportError, Notes, import};
use crate::sys::files;

/// What is read at once; formats are told by what stands in it.
const READ_BYTES: usize = 256 << 10;

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let (notes, format) = if args.file.as_os_str() == "-" {
        write(args, BufReader::with_capacity(READ_BYTES, stdin().lock()))?
    } else {
        let input = File::open(&args.file)
            .map_err(|source| CliError::Open { path: args.file.clone(), source })?;
        write(args, BufReader::with_capacity(READ_BYTES, input))?
    };
    say(&format!(
        "wrote {}, imported from {}: {} {}",
        args.output.display(),
        format.tool(),
        notes.read,
        format.unit()
    ));
    notes.told(format.unit()).iter().for_each(|it| say(it));
    Ok(ExitCode::SUCCESS)
}

/// Without the log if nothing becomes of it.
fn write(args: &ImportArgs, input: impl BufRead) -> Result<(Notes, Format), CliError> {
    let output = &args.output;
    let out = files::create_new(output).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => CliError::Exists { path: output.clone() },
        _ => CliError::Create { path: output.clone(), source },
    })?;
    let imported = import(input, args.from.map(format), &name(&args.file), out);
    imported.map(|(_, notes, format)| (notes, format)).map_err(|error| {
        // It was made a moment ago, and by us.
        let _ = std::fs::remove_file(output);
        failed(&args.file, &error)
    })
}

fn failed(file: &Path, error: &ImportError) -> CliError {
    CliError::Log { path: file.into(), message: error.to_string() }
}

fn format(it: FromArg) -> Format {
    match it {
        FromArg::Strace => Format::Strace,
        FromArg::Ioriot => Format::Ioriot,
        FromArg::IoriotReplay => Format::IoriotReplay,
        FromArg::Fio => Format::FioIolog,
        FromArg::Blktrace => Format::Blktrace,
    }
}

/// What the file is called, without where it is.
fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.as_encoded_bytes().escape_ascii().to_string()
}
