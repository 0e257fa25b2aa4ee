//! `iotrace-perf convert LOG -o NAME.pftrace`: log → Perfetto trace.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use super::convert::{InputLog, completeness_facts, job_facts, open};
use super::convert_args::ConvertArgs;
use super::converted::{Converted, LogPaths};
use super::error::CliError;
use super::file_staging::StagedFile;
use super::message::print_line;
use super::output::substitute;
use super::signals::Signals;
use super::summary_lines;
use crate::analysis::call_totals::{Totals, WithTotals};
use crate::capture::trailing_facts;
use crate::operation::disk;
use crate::perfetto::PerfettoSink;
use crate::pipeline::{self, PipelineError};
use crate::sys::cancellation::Cancellation;
use crate::sys::output_dir::Users;
use crate::sys::{regular, spawn};

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
    let mut signals = Signals::new().map_err(CliError::Output)?;
    let mut patience = Cancellation::new(&mut signals, None);
    let converted = convert(&args.log, output, staged, &mut || !patience.is_cancelled());
    if let (Err(CliError::Interrupted), Some(signal)) = (&converted, patience.ended_by()) {
        print_line("interrupted: no trace was made");
        spawn::die_by(signal);
    }
    let converted = converted?;
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
    let InputLog { items, header, .. } = open(log, false)?;
    let unread = |source| CliError::Open { path: log.into(), source };
    let end = regular::open_named(log).and_then(trailing_facts::end).map_err(unread)?;
    let disks = disk::all(&header, end.as_ref());
    let file: File = staged.file().try_clone().map_err(failed)?;
    let buffer = BufWriter::with_capacity(BUFFER_BYTES, file);
    let sink = PerfettoSink::create(buffer, &header, &disks).map_err(failed)?;
    let mut totals = Totals::default();
    let mut sink = WithTotals { totals: &mut totals, sink };
    let summary =
        pipeline::run_threaded(items, header, &mut sink, go_on).map_err(|error| match error {
            PipelineError::Sink(error) => failed(error),
            other => CliError::pipeline(log, &other),
        })?;
    let mut facts = completeness_facts(&summary);
    facts.extend(job_facts(&summary));
    sink.sink.finish(summary.end_time(), &facts).map_err(failed)?;
    staged.finish()?;
    Ok(Converted { summary, totals, archive: None, filter_notes: Vec::new(), job: None })
}
