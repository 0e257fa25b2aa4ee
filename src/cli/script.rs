//! `iotrace-perf script LOG`: log → text.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use super::args::{ScriptArgs, ScriptFormat};
use super::convert::{Items, open};
use super::error::CliError;
use super::pick::Wish;
use crate::analysis::filter::{Filter, Filtered, Picker};
use crate::capture::header::Header;
use crate::operation::{Sink, Step, disk};
use crate::pipeline::{self, PipelineError, Summary};
use crate::text::fields::{FieldLines, Fields, RowForm};
use crate::text::iotracer::IotracerLines;
use crate::text::json::JsonLines;
use crate::text::lines::Lines;
use crate::units::KernelTime;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) fn run(args: &ScriptArgs) -> Result<ExitCode, CliError> {
    let wish = Wish::of_script(args)?;
    let fields = Fields::of(&args.fields).map_err(CliError::Usage)?;
    let form = if args.json { ScriptFormat::Json } else { args.format };
    if !args.fields.is_empty() && !matches!(form, ScriptFormat::Json | ScriptFormat::Csv) {
        return Err(CliError::Usage("--fields goes with --format csv or json".into()));
    }
    let (items, header) = open(&args.log)?;
    let filter = wish.filter(&header)?;
    let log = Log { path: &args.log, items, header, filter };
    let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let start = KernelTime(log.header.clock.start_ns);
    let disks = disk::names(&log.header.disks);
    let summary = match form {
        ScriptFormat::Json if args.fields.is_empty() => {
            let (summary, sink) = log.print(JsonLines::new(start, disks, out))?;
            sink.finish().map_err(CliError::output)?;
            summary
        }
        ScriptFormat::Json | ScriptFormat::Csv => {
            let form = if form == ScriptFormat::Csv { RowForm::Csv } else { RowForm::Json };
            let sink = FieldLines::new((start, disks), (form, fields), out);
            let (summary, sink) = log.print(sink.map_err(CliError::output)?)?;
            sink.finish().map_err(CliError::output)?;
            summary
        }
        ScriptFormat::Text => {
            let sink = Lines::new(start, disks, out).machine(&log.header.host.machine.clone());
            let (summary, sink) = log.print(sink)?;
            sink.finish().map_err(CliError::output)?;
            summary
        }
        ScriptFormat::Iotracer => log.accesses(start, out)?,
    };
    super::exit_lines::print_doubts(&summary);
    Ok(ExitCode::SUCCESS)
}

/// A log that was opened.
struct Log<'a> {
    path: &'a Path,
    items: Items,
    header: Header,
    filter: Filter,
}

impl Log<'_> {
    /// What is wanted of it.
    fn print<S: Sink<Error = io::Error>>(self, sink: S) -> Result<(Summary, S), CliError> {
        let mut sink = Filtered::new(self.filter, sink);
        let summary = run_log(self.path, self.items, self.header, &mut sink)?;
        Ok((summary, sink.sink))
    }

    /// This form must see the beginnings, too.
    fn accesses(self, start: KernelTime, out: impl Write) -> Result<Summary, CliError> {
        let mut picker = Picker::new(self.filter);
        let mut sink = IotracerLines::new(start, |step: &Step<'_>| picker.wants(step), out);
        let summary = run_log(self.path, self.items, self.header, &mut sink)?;
        let (_, left_out) = sink.finish().map_err(CliError::output)?;
        if left_out > 0 {
            super::say(&format!(
                "{left_out} accesses are left out: their offset is not known, or they are neither a read nor a write"
            ));
        }
        Ok(summary)
    }
}

fn run_log<S: Sink<Error = io::Error>>(
    path: &Path,
    items: Items,
    header: Header,
    sink: &mut S,
) -> Result<Summary, CliError> {
    pipeline::run(items, header, sink, &mut || true).map_err(|error| {
        if let PipelineError::Sink(error) = error {
            CliError::output(error)
        } else {
            CliError::pipeline(path, &error)
        }
    })
}
