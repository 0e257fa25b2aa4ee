//! `iotrace-perf import FILE -o LOG.iocap`: a capture log from another tool's log.

use std::io::{BufRead, BufReader, stdin};
use std::path::Path;
use std::process::ExitCode;

use super::args::{FromArg, ImportArgs};
use super::error::CliError;
use super::existing_outputs::WITH_FORCE;
use super::message::print_line;
use super::replaced_outputs::ReplacedOutputs;
use super::{file_kind, report_output};
use crate::import::{ImportError, ImportFormat, ImportReport, import};
use crate::sys::output_dir::{NewFile, Users};
use crate::sys::regular;

/// Bytes read at once; formats are detected in them.
const READ_BYTES: usize = 256 << 10;

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let (notes, format) = if args.file.as_os_str() == "-" {
        write(args, BufReader::with_capacity(READ_BYTES, stdin().lock()))?
    } else {
        if let Some(text) = file_kind::no_import(&args.file) {
            return Err(CliError::Usage(text));
        }
        let input = regular::open_named(&args.file)
            .map_err(|source| CliError::Open { path: args.file.clone(), source })?;
        write(args, BufReader::with_capacity(READ_BYTES, input))?
    };
    print_line(&format!(
        "wrote {}, imported from {}: {} {}",
        args.output.display(),
        format.tool(),
        notes.read,
        format.unit()
    ));
    notes.messages(format.unit()).iter().for_each(|line| print_line(line));
    Ok(ExitCode::SUCCESS)
}

/// Imports a log; an incomplete capture log is removed.
fn write(args: &ImportArgs, input: impl BufRead) -> Result<(ImportReport, ImportFormat), CliError> {
    let mut replaced = ReplacedOutputs::default();
    if args.force {
        replaced.replace_file(&args.output, &Users::caller())?;
    }
    let imported = write_new(args, input);
    if imported.is_ok() {
        replaced.tell()
    } else {
        replaced.restore()
    }
    imported
}

fn write_new(
    args: &ImportArgs,
    input: impl BufRead,
) -> Result<(ImportReport, ImportFormat), CliError> {
    let mut made: NewFile = report_output::new_file(&args.output, WITH_FORCE)?;
    let out = made.file().try_clone().map_err(CliError::Output)?;
    let imported = import(input, args.from.map(format), &name(&args.file), out);
    let (_, notes, format) = imported.map_err(|error| failed(&args.file, &error))?;
    made.keep();
    Ok((notes, format))
}

fn failed(file: &Path, error: &ImportError) -> CliError {
    CliError::Log { path: file.into(), message: error.to_string() }
}

fn format(from: FromArg) -> ImportFormat {
    match from {
        FromArg::Strace => ImportFormat::Strace,
        FromArg::Ioriot => ImportFormat::Ioriot,
        FromArg::IoriotReplay => ImportFormat::IoriotReplay,
        FromArg::Fio => ImportFormat::FioIolog,
        FromArg::Blktrace => ImportFormat::Blktrace,
    }
}

/// Name of the file, without its directory.
fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.as_encoded_bytes().escape_ascii().to_string()
}
