//! `iotrace-perf script LOG`: log → text.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use super::args::{ScriptArgs, ScriptFormat};
use super::convert::{Items, open};
use super::error::CliError;
use crate::capture::header::Header;
use crate::operation::{Sink, disk};
use crate::pipeline::{self, PipelineError, Summary};
use crate::text::iotracer::IotracerLines;
use crate::text::json::JsonLines;
use crate::text::lines::Lines;
use crate::units::KernelTime;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) fn run(args: &ScriptArgs) -> Result<ExitCode, CliError> {
    let (items, header) = open(&args.log)?;
    let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let start = KernelTime(header.clock.start_ns);
    let disks = disk::names(&header.disks);
    let form = if args.json { ScriptFormat::Json } else { args.format };
    let summary = match form {
        ScriptFormat::Json => {
            let mut sink = JsonLines::new(start, disks, out);
            let summary = print(args, items, header, &mut sink)?;
            sink.finish().and_then(|mut it| it.flush()).map_err(CliError::output)?;
            summary
        }
        ScriptFormat::Text => {
            let mut sink = Lines::new(start, disks, out).machine(&header.host.machine.clone());
            let summary = print(args, items, header, &mut sink)?;
            sink.finish().and_then(|mut it| it.flush()).map_err(CliError::output)?;
            summary
        }
        ScriptFormat::Iotracer => {
            let mut sink = IotracerLines::new(start, out);
            let summary = print(args, items, header, &mut sink)?;
            let (_, left_out) = sink.finish().map_err(CliError::output)?;
            if left_out > 0 {
                super::say(&format!(
                    "{left_out} accesses are left out: their offset is not known, or they are neither a read nor a write"
                ));
            }
            summary
        }
    };
    super::exit_lines::print_doubts(&summary);
    Ok(ExitCode::SUCCESS)
}

fn print<S: Sink<Error = io::Error>>(
    args: &ScriptArgs,
    items: Items,
    header: Header,
    sink: &mut S,
) -> Result<Summary, CliError> {
    pipeline::run(items, header, sink, &mut || true).map_err(|error| {
        if let PipelineError::Sink(error) = error {
            CliError::output(error)
        } else {
            CliError::pipeline(&args.log, &error)
        }
    })
}
