//! `iotrace-perf convert LOG -o NAME.pftrace`: log → Perfetto trace.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use super::convert::{end_of, open, recording_facts};
use super::convert_args::ConvertArgs;
use super::converted::{Converted, LogPaths};
use super::error::CliError;
use super::file_staging::StagedFile;
use super::interruptible::until_signal;
use super::message::print_line;
use super::output::substitute;
use super::summary_lines;
use crate::operation::disk;
use crate::perfetto::PerfettoSink;
use crate::sys::output_dir::Users;

/// Bytes of the buffer before the file: packets are small.
const BUFFER_BYTES: usize = 1 << 20;

/// Returns true if the output is to be a Perfetto trace.
pub(super) fn is_wanted(args: &ConvertArgs) -> bool {
    args.output.as_deref().is_some_and(|text| {
        let path = Path::new(text);
        let is_directory = text.as_bytes().ends_with(b"/") || path.is_dir();
        path.extension() == Some(OsStr::new("pftrace")) && !is_directory
    })
}

pub(super) fn run(args: &ConvertArgs) -> Result<ExitCode, CliError> {
    let output: OsString = args.output.clone().unwrap_or_default();
    let output = substitute(&output)?;
    let output = Path::new(&output);
    let staged = StagedFile::create(output, &Users::caller(), args.force)?;
    let work = |go_on: &mut dyn FnMut() -> bool| convert(&args.log, output, staged, go_on);
    let converted = until_signal("no trace was made", work)?;
    print_line(&format!("wrote {}; open it: https://ui.perfetto.dev", output.display()));
    let log = LogPaths { path: &args.log, shown: &args.log, is_kept: true };
    summary_lines::print(log, None, &converted);
    Ok(ExitCode::SUCCESS)
}

/// Writes the trace of a log. `go_on` is called now and then.
pub(super) fn convert(
    log: &Path,
    output: &Path,
    staged: StagedFile,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Converted, CliError> {
    let failed = |source: io::Error| CliError::Create { path: output.into(), source };
    let input = open(log, false)?;
    let disks = disk::all(&input.header, end_of(log)?.as_ref());
    let file: File = staged.file().try_clone().map_err(failed)?;
    let buffer = BufWriter::with_capacity(BUFFER_BYTES, file);
    let sink = PerfettoSink::create(buffer, &input.header, &disks).map_err(failed)?;
    let (sink, converted) = input.pass_to(log, sink, failed, go_on)?;
    let summary = &converted.summary;
    sink.finish(summary.end_time(), &recording_facts(summary)).map_err(failed)?;
    staged.finish()?;
    Ok(converted)
}
