//! `iotrace-perf script DIR/`: operations of all recordings of a job, one recording after the
//! other.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use super::args::{ScriptArgs, ScriptFormat};
use super::completeness;
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::job_index::JobIndex;
use super::message::{print_error, print_line};
use super::script::{BUFFER_BYTES, ScriptShape, print_log};
use crate::text::escape;
use crate::text::labelled_lines::{LabelledForm, LabelledLines};
use crate::text::table::Separator;

/// Prints the operations.
pub(super) fn run(args: &ScriptArgs, path: &Path) -> Result<ExitCode, CliError> {
    let form = form(args)?;
    let index = JobIndex::read(path)?;
    print_line(
        "one recording after the other; times since the start of each (iotrace-perf info has the \
         clocks)",
    );
    let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let mut lines = LabelledLines::new(form, out);
    let mut is_whole = index.left_out.is_empty();
    for left_out in &index.left_out {
        print_error(&format!("LEFT OUT: {left_out}"));
    }
    for capture in &index.captures {
        let label = index.label(capture);
        let opened = match index.open(capture) {
            Ok(opened) => opened,
            Err(reason) => {
                print_error(&format!("NOT READ: {label}: {}: {reason}", capture.shown.display()));
                is_whole = false;
                continue;
            }
        };
        lines.begin(index.host(capture), capture.rank);
        if form == LabelledForm::Text {
            writeln!(lines, "{}:", escape::harmless(&label)).map_err(CliError::output)?;
        }
        match print_log(args, &opened.path, &mut lines) {
            Ok(summary) => {
                let missing = completeness::missing(&summary);
                if !missing.is_empty() {
                    print_error(&format!("INCOMPLETE: {label}: {}", missing.join("; ")));
                }
                is_whole &= !summary.torn && summary.damaged_bytes == 0 && summary.end.is_some();
            }
            Err(CliError::Log { message, .. }) => {
                print_error(&format!("NOT READ: {label}: {message}"));
                is_whole = false;
            }
            Err(other) => return Err(other),
        }
    }
    lines.flush().map_err(CliError::output)?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

fn form(args: &ScriptArgs) -> Result<LabelledForm, CliError> {
    Ok(match ScriptShape::of(&args.shape)?.form {
        ScriptFormat::Text => LabelledForm::Text,
        ScriptFormat::Json => LabelledForm::Json,
        ScriptFormat::Csv => LabelledForm::Separated(Separator::Comma),
        ScriptFormat::Tsv => LabelledForm::Separated(Separator::Tab),
        ScriptFormat::Iotracer | ScriptFormat::Ioreplay => {
            return Err(CliError::Usage(
                "this format has no hosts and ranks: print one recording of the job".into(),
            ));
        }
    })
}
