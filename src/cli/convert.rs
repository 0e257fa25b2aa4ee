//! `iotrace-perf convert LOG`: log → OTF2.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::iter::Chain;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressBarIter, ProgressFinish, ProgressStyle};

use super::archive_staging::StagedArchive;
use super::convert_args::ConvertArgs;
use super::converted::{Converted, LogPaths};
use super::error::CliError;
use super::interruptible::until_signal;
use super::message::{is_quiet, print_line};
use super::output::{OpenOutput, Output, substitute};
use super::summary_lines;
use crate::analysis::call_totals::{Totals, WithTotals};
use crate::capture::fact::Text;
use crate::capture::header::{End, Header, JobPlace};
use crate::capture::prefetch::Prefetch;
use crate::capture::trailing_facts::{self, TrailingFacts};
use crate::operation::{Sink, Step};
use crate::otf2::{EndFacts, OtfError, OtfOptions, OtfSink};
use crate::pipeline::{self, PipelineError, Summary};
use crate::sys::output_dir::Users;
use crate::sys::{regular, rlimits};
use crate::units::KernelTime;

pub(super) fn run(args: &ConvertArgs) -> Result<ExitCode, CliError> {
    let output = match &args.output {
        Some(text) => archive_output(&substitute(text)?)?,
        None => Output::beside(&args.log)?,
    };
    if !output.has_archive {
        let name = output.log().with_extension("otf2");
        return Err(CliError::Usage(format!(
            "convert makes an OTF2 archive or a Perfetto trace; try: -o {} or -o {}",
            name.display(),
            name.with_extension("pftrace").display()
        )));
    }
    let output = output.open(&Users::caller(), args.force)?;
    let log = LogPaths { path: &args.log, shown: &args.log, is_kept: true };
    let work = |go_on: &mut dyn FnMut() -> bool| convert(log, Some(&output), go_on);
    let converted = until_signal("no archive was made", work)?;
    summary_lines::print(log, Some(&output.output), &converted);
    Ok(ExitCode::SUCCESS)
}

/// Parses `-o` of an archive.
fn archive_output(text: &OsStr) -> Result<Output, CliError> {
    let path = Path::new(text);
    let ending = path.extension().filter(|_| !path.is_dir() && !text.as_bytes().ends_with(b"/"));
    let ending = ending.map(OsStr::as_bytes).unwrap_or_default();
    let form = match ending {
        b"csv" | b"json" => Some(String::from_utf8_lossy(ending)),
        b"" | b"otf2" | b"iocap" => return Output::parse(text),
        _ => None,
    };
    let shown = path.display();
    let other = form.map_or_else(String::new, |form| {
        format!(
            "; operations as {}: iotrace-perf script --format {form} > {shown}",
            form.to_uppercase()
        )
    });
    Err(CliError::Usage(format!(
        "-o {shown}: an OTF2 archive is written to a directory or NAME.otf2, a Perfetto trace to NAME.pftrace{other}"
    )))
}

/// Reads the log, and writes an archive if there is an output. `go_on` is called now and then.
pub(super) fn convert(
    log: LogPaths<'_>,
    output: Option<&OpenOutput>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Converted, CliError> {
    let input = open(log.path, false)?;
    match output {
        None => input.count(log.shown, go_on),
        Some(output) => write_archive(log.shown, input, output, go_on),
    }
}

/// Frames of a log: those that are valid for all of it come twice, at the beginning and in their
/// turn.
pub(super) type Items = Chain<TrailingFacts<File>, Prefetch<ProgressBarIter<File>>>;

/// An open log.
pub(super) struct InputLog {
    pub(super) items: Items,
    pub(super) header: Header,
    /// Major and minor version of its format.
    pub(super) version: (u16, u16),
}

/// Progress bar of reading a log, on a terminal; it disappears at the end.
const PROGRESS: &str = "{wide_bar} {percent} % of {total_bytes}, {bytes_per_sec}, {eta} left";

/// Opens a log and reads its header. From then on a terminal shows the progress, unless lines of
/// output go there meanwhile.
pub(super) fn open(log: &Path, has_lines: bool) -> Result<InputLog, CliError> {
    let failed = |source| CliError::Open { path: log.into(), source };
    let file = regular::open_named(log).map_err(failed)?;
    // A descriptor of its own: both are read by turns.
    let later = trailing_facts::look(regular::open_named(log).map_err(failed)?).map_err(failed)?;
    let progress = if has_lines { ProgressBar::hidden() } else { progress(&file) };
    let (reader, header) = pipeline::open::<_, Infallible>(progress.wrap_read(file))
        .map_err(|error| CliError::pipeline(log, &error))?;
    let version = reader.version();
    if reader.is_newer() {
        let (major, minor) = version;
        print_line(&format!(
            "{} has format version {major}.{minor}, newer than this program's: unknown records are skipped",
            log.display()
        ));
    }
    Ok(InputLog { items: later.chain(Prefetch::new(reader)), header, version })
}

/// Progress bar on standard error, if that is a terminal.
fn progress(log: &File) -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(log.metadata().map_or(0, |metadata| metadata.len()));
    let style = ProgressStyle::with_template(PROGRESS);
    let bar = style.map_or(ProgressBar::hidden(), |style| bar.with_style(style));
    bar.with_finish(ProgressFinish::AndClear)
}

impl InputLog {
    /// Passes all steps of the log at a path to a sink, and counts the operations. `failed` turns
    /// errors of the sink into those of its output.
    pub(super) fn pass_to<S: Sink<Error: Display>>(
        self,
        log: &Path,
        sink: S,
        failed: impl FnOnce(S::Error) -> CliError,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(S, Converted), CliError> {
        let mut totals = Totals::default();
        let mut sink = WithTotals { totals: &mut totals, sink };
        let read = pipeline::run_threaded(self.items, self.header, &mut sink, go_on);
        let summary = read.map_err(|error| match error {
            PipelineError::Sink(error) => failed(error),
            other => CliError::pipeline(log, &other),
        })?;
        Ok((sink.sink, Converted::new(summary, totals)))
    }

    /// Reads the log at a path only to count.
    pub(super) fn count(
        self,
        log: &Path,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Converted, CliError> {
        Ok(self.pass_to(log, NullSink, |never| match never {}, go_on)?.1)
    }
}

/// Reads the end of a log; `None`: it has none.
pub(super) fn end_of(log: &Path) -> Result<Option<End>, CliError> {
    let end = regular::open_named(log).and_then(trailing_facts::end);
    end.map_err(|source| CliError::Open { path: log.into(), source })
}

fn write_archive(
    log: &Path,
    input: InputLog,
    output: &OpenOutput,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Converted, CliError> {
    let options = OtfOptions {
        // The other half is for other files of the library, and for us.
        open_files_max: rlimits::raise_open_files() / 2,
        block_on_threads: input.header.scope.mode != "system",
        ..OtfOptions::default()
    };
    // A file of that name that was created since the check is not ours and stays.
    let failed = |error: CliError| archive_error(log, output, &error);
    output.refuse_existing().map_err(failed)?;
    let unfinished = StagedArchive::new(output).map_err(failed)?;
    let converted = {
        let _as = unfinished.enter().map_err(failed)?;
        let sink = OtfSink::create(&unfinished.path(), &output.output.name, &input.header, options)
            .map_err(|error| archive_error(log, output, &error))?;
        fill_archive(log, input, sink, output, go_on)?
    };
    unfinished.finish().map_err(failed)?;
    Ok(converted)
}

fn archive_error(log: &Path, output: &OpenOutput, error: &dyn Error) -> CliError {
    CliError::Archive { path: output.output.archive(), log: log.into(), message: error.to_string() }
}

/// Reads the log into an archive that was begun.
fn fill_archive(
    log: &Path,
    input: InputLog,
    sink: OtfSink,
    output: &OpenOutput,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Converted, CliError> {
    let failed = |error: OtfError| archive_error(log, output, &error);
    let (mut sink, converted) = input.pass_to(log, sink, failed, go_on)?;
    if let Some(mounts) = converted.summary.text(Text::MOUNTINFO) {
        sink.set_mounts(mounts);
    }
    let archive = sink.finish(&end_facts(&converted.summary)).map_err(failed)?;
    Ok(Converted { archive: Some(archive), ..converted })
}

/// Facts for the end of the archive.
pub(super) fn end_facts(summary: &Summary) -> EndFacts {
    EndFacts {
        end_time: summary.end_time(),
        properties: recording_facts(summary),
        disks: summary.disks(),
    }
}

/// Facts about a recording for readers of an output, by name.
pub(super) fn recording_facts(summary: &Summary) -> Vec<(String, String)> {
    completeness_facts(summary).into_iter().chain(job_facts(summary)).collect()
}

/// Place of the program in a parallel job, by name.
fn job_facts(summary: &Summary) -> Vec<(String, String)> {
    let Some(job) = &summary.header.job else { return Vec::new() };
    let JobPlace { rank, size, local_rank, local_size, manager, id, step } = job;
    let number = |number: &Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let facts = [
        ("rank", number(rank)),
        ("size", number(size)),
        ("local_rank", number(local_rank)),
        ("local_size", number(local_size)),
        ("job_manager", manager.clone()),
        ("job_id", id.clone()),
        ("job_step", step.clone()),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Facts about the completeness of a capture, for readers of an output, by name.
pub(super) fn completeness_facts(summary: &Summary) -> Vec<(String, String)> {
    let ledger = &summary.ledger;
    let missing = summary
        .missing()
        .map(|missing| missing.iter().map(|missing| missing.1).sum::<i64>().to_string());
    let properties = [
        ("lost", summary.lost().to_string()),
        ("missing", missing.unwrap_or_else(|| "unknown".into())),
        ("unmatched", ledger.unmatched.to_string()),
        ("async_unseen", ledger.async_unseen.to_string()),
        ("async_orphans", ledger.async_orphans.to_string()),
        ("async_unread", ledger.async_unread.to_string()),
        ("async_nameless", ledger.async_nameless.to_string()),
        ("orphan_exits", ledger.orphan_exits.to_string()),
        ("lost_exits", ledger.lost_exits.to_string()),
        ("unnamed", ledger.unnamed.to_string()),
        ("untyped", ledger.untyped.to_string()),
        ("unverified_names", ledger.unverified.to_string()),
        ("damaged_bytes", summary.damaged_bytes.to_string()),
    ];
    properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Sink that ignores all steps.
struct NullSink;

impl Sink for NullSink {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, _: &Step<'_>) -> Result<(), Infallible> {
        Ok(())
    }
}
