//! `iotrace-perf script LOG`: log → text.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use super::anomaly_digest::AnomalyDigest;
use super::args::{ScriptArgs, ScriptFormat, ShapeArgs};
use super::convert::{InputLog, open};
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::message::print_line;
use crate::analysis::filter::{Filter, Filtered, Picker};
use crate::capture::header::Header;
use crate::capture::reader::Item;
use crate::operation::model::OpenFile;
use crate::operation::{Sink, Step, disk};
use crate::pipeline::{self, PipelineError, Summary};
use crate::text::fields::{FieldLines, FieldSelection, RowForm};
use crate::text::ioreplay::IoreplayLines;
use crate::text::iotracer::{AccessFilter, IotracerLines, LineCaveats};
use crate::text::json::JsonLines;
use crate::text::line_format::LineWriter;
use crate::text::quantity::counted_with;
use crate::text::table::Separator;
use crate::units::KernelTime;

/// Bytes that are collected before a write.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

pub(super) fn run(args: &ScriptArgs) -> Result<ExitCode, CliError> {
    let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    super::summary_lines::print_doubts(&print_log(args, &args.log, out)?);
    Ok(ExitCode::SUCCESS)
}

/// Prints the selected operations of a log.
pub(super) fn print_log(
    args: &ScriptArgs,
    path: &Path,
    out: impl Write,
) -> Result<Summary, CliError> {
    let wish = FilterSpec::of_script(args)?;
    let shape = ScriptShape::of(&args.shape)?;
    let InputLog { items, header, .. } = open(path, io::stdout().is_terminal())?;
    let filter = wish.filter(&header)?;
    let go_on = &mut || true;
    let log = ScriptLog { path, items, header, filter, grows: false, go_on };
    log.print(shape, out)
}

/// Format of operations.
pub(super) struct ScriptShape {
    pub(super) form: ScriptFormat,
    /// Selected fields, if not all.
    fields: Option<FieldSelection>,
}

impl ScriptShape {
    pub(super) fn of(args: &ShapeArgs) -> Result<Self, CliError> {
        let fields = FieldSelection::of(&args.fields).map_err(CliError::Usage)?;
        let form = if args.json { ScriptFormat::Json } else { args.format };
        let is_chosen = !args.fields.is_empty();
        let is_separated = matches!(form, ScriptFormat::Csv | ScriptFormat::Tsv);
        if is_chosen && form != ScriptFormat::Json && !is_separated {
            return Err(CliError::Usage("--fields goes with --format csv, tsv or json".into()));
        }
        let fields = (is_chosen || is_separated).then_some(fields);
        Ok(Self { form, fields })
    }
}

/// An open log.
pub(super) struct ScriptLog<'a, I> {
    pub(super) path: &'a Path,
    pub(super) items: I,
    pub(super) header: Header,
    pub(super) filter: Filter,
    /// True if each step is written at once.
    pub(super) grows: bool,
    /// Called in each round; false ends the reading.
    pub(super) go_on: &'a mut dyn FnMut() -> bool,
}

impl<I: Iterator<Item = io::Result<Item>> + Send> ScriptLog<'_, I> {
    /// Writes the selected operations.
    pub(super) fn print(self, shape: ScriptShape, out: impl Write) -> Result<Summary, CliError> {
        let start = KernelTime(self.header.clock.start_ns);
        let disks = disk::names(&self.header.disks);
        let machine = self.header.host.machine.clone();
        match (shape.form, shape.fields) {
            (ScriptFormat::Text, _) => {
                let is_live = self.grows;
                let sink = LineWriter::new(start, disks, out).machine(&machine);
                if !is_live {
                    let (summary, sink) = self.fill(sink)?;
                    sink.finish().map_err(CliError::output)?;
                    return Ok(summary);
                }
                let (summary, digest) = self.fill(AnomalyDigest::new(sink))?;
                let (more, sink) = digest.finish();
                sink.finish().map_err(CliError::output)?;
                more.iter().for_each(|line| print_line(line));
                Ok(summary)
            }
            (ScriptFormat::Iotracer, _) => self.accesses(start, out),
            (ScriptFormat::Ioreplay, _) => {
                let realtime = self.header.clock.start_realtime_ns;
                let sink = IoreplayLines::new(start, realtime, out).map_err(CliError::output)?;
                let (summary, sink) = self.fill(sink)?;
                let (_, left_out) = sink.finish().map_err(CliError::output)?;
                if left_out > 0 {
                    print_line(&format!(
                        "{} not in the output: the format has no such call, or the path is doubtful or not absolute",
                        counted_with(left_out, "operation", ["is", "are"])
                    ));
                }
                Ok(summary)
            }
            (ScriptFormat::Json, None) => {
                let sink = JsonLines::new(start, disks, out).machine(&machine);
                let (summary, sink) = self.fill(sink)?;
                sink.finish().map_err(CliError::output)?;
                Ok(summary)
            }
            (form, fields) => {
                let form = match form {
                    ScriptFormat::Csv => RowForm::Separated(Separator::Comma),
                    ScriptFormat::Tsv => RowForm::Separated(Separator::Tab),
                    _ => RowForm::Json,
                };
                let fields = fields.unwrap_or_default();
                let sink = FieldLines::new(start, disks, form, fields, out);
                let start_wall = self.header.clock.start_realtime_ns;
                let sink = sink.map_err(CliError::output)?.recorded(&machine, start_wall);
                let (summary, sink) = self.fill(sink)?;
                sink.finish().map_err(CliError::output)?;
                Ok(summary)
            }
        }
    }

    fn fill<S: Sink<Error = io::Error>>(self, sink: S) -> Result<(Summary, S), CliError> {
        let mut sink = Filtered::new(self.filter.clone(), sink);
        let summary = self.feed(&mut sink)?;
        print_filter_notes(&sink.picker);
        Ok((summary, sink.sink))
    }

    fn feed<S: Sink<Error = io::Error>>(self, sink: &mut S) -> Result<Summary, CliError> {
        let Self { path, items, header, filter, go_on, .. } = self;
        let summary = if self.grows {
            pipeline::run(items, header, sink, go_on)
        } else {
            pipeline::run_until(items, header, filter.last_time(), sink, go_on)
        };
        summary.map_err(|error| printing_error(path, error))
    }

    /// Writes accesses; this form needs the beginnings of operations, too.
    fn accesses(self, start: KernelTime, out: impl Write) -> Result<Summary, CliError> {
        let mut sink =
            IotracerLines::new(start, PickedSteps(Picker::new(self.filter.clone())), out);
        let summary = self.feed(&mut sink)?;
        print_filter_notes(&sink.choice().0);
        let (_, LineCaveats { left_out, without_result, out_of_order }) =
            sink.finish().map_err(CliError::output)?;
        if left_out > 0 {
            print_line(&format!(
                "{} not in the output: without a known offset, or neither a read nor a write",
                counted_with(left_out, "access", ["is", "are"])
            ));
        }
        if without_result > 0 {
            print_line(&format!(
                "{} the requested bytes, not those of the result, which was not seen",
                counted_with(
                    without_result,
                    "line",
                    ["of an asynchronous operation has", "of asynchronous operations have"]
                )
            ));
        }
        if out_of_order > 0 {
            print_line(&format!(
                "{} out of order: too many waited for an operation that had begun earlier",
                counted_with(out_of_order, "line", ["is", "are"])
            ));
        }
        Ok(summary)
    }
}

fn print_filter_notes(picker: &Picker) {
    super::summary_lines::filter_notes(picker).iter().for_each(|note| print_line(note));
}

/// Steps that the filter selects, down to the pieces of a request.
struct PickedSteps(Picker);

impl AccessFilter for PickedSteps {
    fn wants(&mut self, step: &Step<'_>) -> bool {
        self.0.wants(step)
    }

    fn wants_file(&self, file: Option<&OpenFile>) -> bool {
        self.0.wants_file(file)
    }
}

fn printing_error(path: &Path, error: PipelineError<io::Error>) -> CliError {
    if let PipelineError::Sink(error) = error {
        CliError::output(error)
    } else {
        CliError::pipeline(path, &error)
    }
}
