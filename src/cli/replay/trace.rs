//! Recording of a replay, and its comparison with the plan: `replay run --trace`, `replay compare`.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::super::error::CliError;
use super::super::exit_code::FAILURE;
use super::super::exit_code::MISMATCH;
use super::super::filter_args::FilterSpec;
use super::super::output::Output;
use super::super::{analyse, log_pass, report_output, signals, summary_lines};
use super::args::{CompareArgs, RunArgs};
use super::common::{damaged, open};
use crate::replay::execute::manifest::TREE;
use crate::replay::plan::plan_file::{PlanReader, PlanWriter, finish};
use crate::replay::plan::planner::Planner;
use crate::replay::verify_recording::{self, PlanSide};
use crate::report;
use crate::sys::tracefs::Tracefs;
use crate::sys::{files, proc};
use crate::text::table::{Report, TableFormat};
use crate::tracer::uprobes;

/// `replay compare`.
pub(super) fn compare(args: &CompareArgs) -> Result<ExitCode, CliError> {
    let to = report_output::output(args.print.to.as_deref(), false)?;
    let limit = analyse::limit(&args.print);
    let is_brief = analyse::is_brief(&args.print, args.details);
    let (report, is_same) = compared(&args.plan, &args.log, &args.root, limit, is_brief)?;
    analyse::print(report, &args.print, to)?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(MISMATCH) })
}

fn compared(
    plan: &Path,
    log: &Path,
    root: &Path,
    limit: usize,
    is_brief: bool,
) -> Result<(Report, bool), CliError> {
    let (reader, index) = open(plan)?;
    let plan = PlanSide::new(reader, index).map_err(|error| damaged(plan, &error))?;
    let directory = std::env::temp_dir();
    let failed = |source| CliError::Create { path: directory.join("(unnamed)"), source };
    let mut file = files::create_unnamed(&directory).map_err(failed)?;
    let writer = file.try_clone().map(BufWriter::new).and_then(PlanWriter::new).map_err(failed)?;
    let planner = || Planner::new(writer);
    let (planner, converted) =
        log_pass::fold_log(log, |_| planner(), FilterSpec::of_all(), &mut || true)?;
    finish(planner, &converted.summary.header.host.machine).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let recording = PlanReader::new(file).and_then(|(reader, index)| PlanSide::new(reader, index));
    let recording = recording.map_err(|error| damaged(log, &error))?;
    let root = std::fs::canonicalize(root)
        .map_err(|source| CliError::Open { path: root.to_owned(), source })?;
    let inside = root.join(TREE);
    let traced = verify_recording::compare(&plan, &recording, inside.as_os_str().as_bytes());
    let traced = traced.map_err(|error| damaged(log, &error))?;
    let mut report = report::replay_trace::report(&traced, converted.summary.lost(), limit);
    summary_lines::add_to(&mut report, &converted);
    if is_brief {
        report = report::replay_trace::brief(&traced, &report);
    }
    Ok((report, traced.is_same()))
}

/// Records this very command, without `--trace`, and compares the recording with the plan.
pub(super) fn run(args: &RunArgs, trace: &OsStr, root: &Path) -> Result<ExitCode, CliError> {
    let mut to = report_output::output(args.print.to.as_deref(), false)?;
    let output = Output::parse_as(trace, "--trace")?;
    refuse_existing(&output)?;
    let (_, index) = open(&args.plan)?;
    let mut report_file = files::create_unnamed(&std::env::temp_dir()).map_err(CliError::Output)?;
    let child_stdout = report_file.try_clone().map_err(CliError::Output)?;
    let calls: Vec<&str> = index.calls.iter().map(|call| call.name.as_str()).collect();
    // A signal stops the replay only: its recording is finished and written.
    let _stop = signals::flag().map_err(CliError::Output)?;
    let program = std::env::current_exe().map_err(CliError::Output)?;
    let status = Command::new(&program)
        .arg("-o")
        .arg(trace)
        .arg("-e")
        .arg([EVENTS, &calls.join(",")].join(","))
        .args(naming())
        .arg("--")
        .arg(&program)
        .args(without(std::env::args_os().skip(1), &["--trace", "--to"]))
        .stdout(Stdio::from(child_stdout))
        .status()
        .map_err(CliError::Output)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE);
    let mut first = Vec::new();
    report_file
        .rewind()
        .and_then(|()| report_file.read_to_end(&mut first))
        .map_err(CliError::Output)?;
    if code > MISMATCH {
        to.write_all(&first).map_err(CliError::output)?;
        return Ok(ExitCode::from(code));
    }
    let limit = analyse::limit(&args.print);
    let is_brief = analyse::is_brief(&args.print, args.details);
    let (report, is_same) = compared(&args.plan, &output.log(), root, limit, is_brief)?;
    let form = analyse::form(&args.print);
    let mut second = Vec::new();
    report.print(form, to.style(&args.print), &mut second).map_err(CliError::output)?;
    join(form, &first, &second, &mut to).map_err(CliError::output)?;
    Ok(ExitCode::from(if is_same { code } else { MISMATCH }))
}

/// Refuses to overwrite the files of a recording.
fn refuse_existing(output: &Output) -> Result<(), CliError> {
    let mut files = std::iter::once(output.log()).chain(output.archive_parts());
    match files.find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(CliError::Exists { path, option: "--trace" }),
        None => Ok(()),
    }
}

/// Sources of names. All calls of a replay go through the C library: without kernel probes, probes
/// in libraries see every path, and real-time readers nearly every one.
fn naming() -> &'static [&'static str] {
    let host = proc::host();
    let is_possible = uprobes::hindrance(&host.machine, &host.kernel_release).is_none();
    let tracefs = Tracefs::find().ok().filter(Tracefs::is_readable);
    let has = |file| tracefs.as_ref().is_some_and(|tracefs| tracefs.root().join(file).exists());
    if is_possible && has("uprobe_events") && !has("kprobe_events") {
        &["--source", "tracefs", "--names", "uprobe"]
    } else {
        &[]
    }
}

/// Events that are recorded besides the replayed calls.
const EVENTS: &str = super::super::events::DEFAULT;

/// Writes both reports; as JSON the second one is a member of the first.
fn join(form: TableFormat, first: &[u8], second: &[u8], to: &mut impl Write) -> io::Result<()> {
    let end = first.trim_ascii_end();
    match (form, end.strip_suffix(b"}")) {
        (TableFormat::Json, Some(open)) => {
            to.write_all(open)?;
            to.write_all(b",\n\"trace\":")?;
            to.write_all(second.trim_ascii_end())?;
            to.write_all(b"}\n")?;
        }
        (TableFormat::Text, _) => {
            to.write_all(first)?;
            to.write_all(b"\nRecorded, beside the plan\n")?;
            to.write_all(second)?;
        }
        _ => {
            to.write_all(first)?;
            to.write_all(second)?;
        }
    }
    to.flush()
}

/// Removes these options and their values from the arguments.
pub(super) fn without(
    arguments: impl Iterator<Item = OsString>,
    options: &[&str],
) -> impl Iterator<Item = OsString> {
    let mut is_value = false;
    arguments.filter(move |argument| {
        let with_value = |option: &&str| {
            argument
                .as_bytes()
                .strip_prefix(option.as_bytes())
                .is_some_and(|rest| rest.starts_with(b"="))
        };
        let is_option = !is_value && options.iter().any(|option| argument == *option);
        let is_dropped = is_value || is_option || options.iter().any(with_value);
        is_value = is_option;
        !is_dropped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_replay_is_not_recorded_again() {
        let check = |line: &str, expected: &str| {
            let words = line.split(' ').map(OsString::from);
            let left: Vec<OsString> = without(words, &["--trace", "--to"]).collect();
            assert_eq!(left.join(OsStr::new(" ")), expected, "{line}");
        };
        check("replay run P --trace --to --root R", "replay run P --root R");
        check("replay run --trace=T/ P --to x --root R --to=y", "replay run P --root R");
        check("replay run --tracer --to2", "replay run --tracer --to2");
    }

    #[test]
    fn two_objects_become_one() {
        let mut out = Vec::new();
        join(TableFormat::Json, b"{\"a\":{}}\n", b"{\"b\":1}\n", &mut out).expect("memory");
        let value: serde_json::Value = serde_json::from_slice(&out).expect("an object");
        assert_eq!(value["trace"]["b"], 1);
    }
}
