//! `iotrace-perf convert DIR/`, `report DIR/`: all recordings of a job → one OTF2 archive, Parquet
//! tables, or one page.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::convert_args::ConvertArgs;
use super::convert_parquet;
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::filter_args::FilterSpec;
use super::job_index::JobIndex;
use super::merge;
use super::merge_args::MergeArgs;
use super::message::{print_error, print_line};
use super::page_args::PageArgs;
use super::signals::Signals;
use crate::sys::cancellation::Cancellation;
use crate::sys::spawn;
use crate::text::quantity::counted;

/// Returns true if a job can be converted so: to an archive or to tables.
pub(super) fn is_possible(args: &ConvertArgs) -> bool {
    let name = args.output.as_deref().map(Path::new).and_then(Path::extension);
    let is_archive = name.is_some_and(|name| name == "otf2");
    !args.capsule && (is_archive || convert_parquet::is_wanted(args))
}

/// Converts the recordings.
pub(super) fn run(args: &ConvertArgs, path: &Path) -> Result<ExitCode, CliError> {
    let index = JobIndex::read(path)?;
    if convert_parquet::is_wanted(args) {
        return tables(args, &index);
    }
    let output = args.output.clone().unwrap_or_default();
    merge::run(&merge_args(path, output, args.force))
}

/// Returns true if the page of a job is wanted: without a selection, and without a picture.
pub(super) fn is_page_possible(args: &PageArgs) -> bool {
    let analyse = args.analyse();
    let is_all = FilterSpec::of(&args.filter).is_ok_and(|filter| filter.on(&analyse).is_all());
    args.svg.is_none() && is_all
}

/// Makes the page of a job.
pub(super) fn page(args: &PageArgs, path: &Path) -> Result<ExitCode, CliError> {
    // An index that cannot be read is an error of its own.
    JobIndex::read(path)?;
    let output = args.output.clone();
    let output = output.unwrap_or_else(|| JobIndex::named(path).with_extension("html"));
    merge::run(&merge_args(path, output.into(), args.force))
}

/// Returns the arguments of a merge of the recordings: their clocks are those of the index.
fn merge_args(path: &Path, output: OsString, force: bool) -> MergeArgs {
    let (clock_offset, clocks) = (Vec::new(), Vec::new());
    MergeArgs { logs: vec![path.to_owned()], output, force, clock_offset, clocks }
}

/// Writes the tables of all recordings into one directory.
fn tables(args: &ConvertArgs, index: &JobIndex) -> Result<ExitCode, CliError> {
    let output: PathBuf = convert_parquet::output(args)?;
    let mut signals = Signals::new().map_err(CliError::Output)?;
    let mut patience = Cancellation::new(&mut signals, None);
    let mut is_whole = index.left_out.is_empty();
    for left_out in &index.left_out {
        print_error(&format!("LEFT OUT: {left_out}"));
    }
    let mut written = 0_u64;
    for capture in &index.captures {
        let label = index.label(capture);
        let mut not_read = |reason: &str| {
            print_error(&format!("NOT READ: {label}: {}: {reason}", capture.shown.display()));
            is_whole = false;
        };
        let opened = match index.open(capture) {
            Ok(opened) => opened,
            Err(reason) => {
                not_read(&reason);
                continue;
            }
        };
        let go_on = &mut || !patience.is_cancelled();
        let made = convert_parquet::convert(&opened.path, &output, args.force, go_on);
        match made.map_err(|error| error.shown_as(&opened.path, &capture.shown)) {
            Ok(converted) => {
                written += 1;
                let missing = super::completeness::missing(&converted.summary);
                if !missing.is_empty() {
                    print_error(&format!("INCOMPLETE: {label}: {}", missing.join("; ")));
                }
                let summary = &converted.summary;
                is_whole &= !summary.torn && summary.damaged_bytes == 0 && summary.end.is_some();
            }
            Err(CliError::Interrupted) => {
                print_line(&format!(
                    "interrupted: the tables of {} are there",
                    counted(written, "recording")
                ));
                if let Some(signal) = patience.ended_by() {
                    spawn::die_by(signal);
                }
                return Err(CliError::Interrupted);
            }
            Err(CliError::Log { message, .. }) => not_read(&message),
            Err(other) => return Err(other),
        }
    }
    convert_parquet::tell(&output);
    print_line(&format!(
        "{} of {} are in the tables, partitioned by host and rank",
        counted(written, "recording"),
        index.captures.len()
    ));
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}
