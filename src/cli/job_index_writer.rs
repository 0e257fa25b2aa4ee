//! `iotrace-perf merge LOG… -o DIR/`: logs of a job → an index that other subcommands accept in
//! place of a log.
//!
//! Only the header and the end of each log are read, one log after the other.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::file_staging::StagedFile;
use super::job_index_format::{
    CaptureEntry, ClockEntry, ContentPrint, FORMAT, HostEntry, INDEX_NAME, IndexDocument,
    OmittedEntry, VERSION,
};
use super::merge::correct;
use super::merge_args::MergeArgs;
use super::merge_clocks;
use super::merge_lines;
use super::merge_survey::{JobSurvey, OmittedLog, SurveyedLog};
use super::message::print_line;
use super::output::substitute;
use super::version;
use crate::sys::output_dir::{OutputDirectory, Users};
use crate::sys::regular;
use crate::text::quantity::counted;

/// Returns true if the output is a directory for an index.
pub(super) fn is_wanted(args: &MergeArgs) -> bool {
    args.output.as_bytes().ends_with(b"/")
}

/// Writes the index.
pub(super) fn run(args: &MergeArgs) -> Result<ExitCode, CliError> {
    let directory = PathBuf::from(substitute(&args.output)?);
    let mut survey = JobSurvey::of(&args.logs, args.clocks.is_empty());
    if survey.logs.is_empty() {
        merge_lines::left_out(&survey.left_out);
        let text = "none of the recordings can be read: there is nothing to index";
        return Err(CliError::Usage(text.into()));
    }
    merge_clocks::apply(&mut survey, &args.clocks);
    correct(&mut survey, &args.clock_offset)?;
    let archive = directory.with_extension("otf2");
    if archive.exists() {
        let (shown, archive) = (directory.display(), archive.display());
        return Err(CliError::Usage(format!(
            "-o {shown}: this is the directory of the archive {archive}; choose another name"
        )));
    }
    let users = Users::caller();
    make(&directory, &users)?;
    let path = directory.join(INDEX_NAME);
    let file = StagedFile::create(&path, &users, args.force)?;
    let root = fs::canonicalize(&directory)
        .map_err(|source| CliError::Create { path: directory.clone(), source })?;
    let document = document_of(&mut survey, &root);
    write(&document, file.file()).map_err(|source| CliError::Create { path, source })?;
    file.finish()?;
    print(&survey, &directory);
    let is_whole = survey.has_all() && survey.logs.iter().all(|log| log.has_end);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// Makes a directory that may exist.
fn make(path: &Path, users: &Users) -> Result<(), CliError> {
    match OutputDirectory::make(path, users) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(CliError::Create { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

/// Returns the index of these recordings in a directory. A recording that cannot be read any more
/// is left out.
fn document_of(survey: &mut JobSurvey, root: &Path) -> IndexDocument {
    let mut captures = Vec::new();
    let (mut left_out, logs) = (Vec::new(), std::mem::take(&mut survey.logs));
    for log in logs {
        match entry(&log, root) {
            Ok(entry) => {
                captures.push(entry);
                survey.logs.push(log);
            }
            Err(error) => {
                left_out.push(OmittedLog { path: log.path, reason: error.to_string() });
            }
        }
    }
    survey.left_out.extend(left_out);
    let given = |host: usize| {
        let log = survey.logs.iter().find(|log| log.host == host);
        log.map_or(0, |log| log.clock.added_ns())
    };
    let host = |(number, name): (usize, &String)| HostEntry {
        name: name.clone(),
        clock_offset_given_ns: given(number),
    };
    let names: Vec<String> = survey.hosts.iter().map(|host| host.name.clone()).collect();
    let omitted = |log: &OmittedLog| OmittedEntry {
        path: log.path.display().to_string(),
        reason: log.reason.clone(),
    };
    IndexDocument {
        format: FORMAT.to_owned(),
        version: VERSION,
        tool_version: version::VERSION.to_owned(),
        clock_reference: survey.clock_reference.clone(),
        clock_reference_bound_ns: survey.reference_bound_ns,
        hosts: names.iter().enumerate().map(host).collect(),
        captures,
        left_out: survey.left_out.iter().map(omitted).collect(),
    }
}

fn entry(log: &SurveyedLog, root: &Path) -> Result<CaptureEntry, CliError> {
    let opened = log.open()?;
    let failed = |source| CliError::Open { path: log.path.clone(), source };
    let file = regular::open_named(&opened.path).map_err(failed)?;
    let content = ContentPrint::of(&file).map_err(failed)?;
    let place = from_directory(&fs::canonicalize(&opened.path).map_err(failed)?, root);
    let (path, path_bytes) = CaptureEntry::texts_of(&place);
    Ok(CaptureEntry {
        path,
        path_bytes,
        host: log.host,
        rank: log.rank(),
        node_ranks: log.node_ranks.clone(),
        is_system: log.is_system,
        job_size: log.job.as_ref().and_then(|job| job.size),
        start_ns: log.start.0,
        end_ns: log.end.0,
        has_end: log.has_end,
        clock: ClockEntry::from(log.clock.line()).with(log.clock_source, log.is_dated()),
        content,
    })
}

/// Returns the path of a recording from the directory of the index on, if it is below that or
/// beside it: both can be moved together then. Other recordings have absolute paths.
fn from_directory(log: &Path, root: &Path) -> PathBuf {
    if let Ok(below) = log.strip_prefix(root) {
        return below.to_owned();
    }
    let parent = root.parent().filter(|parent| *parent != Path::new("/"));
    match parent.map(|parent| log.strip_prefix(parent)) {
        Some(Ok(beside)) => Path::new("..").join(beside),
        _ => log.to_owned(),
    }
}

fn write(document: &IndexDocument, file: &File) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints what the index has, and what is missing, to standard error.
fn print(survey: &JobSurvey, directory: &Path) {
    merge_lines::left_out(&survey.left_out);
    merge_lines::left_out_clocks(survey);
    let shown = directory.display();
    print_line(&format!(
        "wrote {}: {} of {}; ask them all: iotrace-perf summary --by rank {shown}",
        directory.join(OsStr::new(INDEX_NAME)).display(),
        counted(survey.logs.len() as u64, "recording"),
        counted(survey.hosts.len() as u64, "host"),
    ));
    let without_end = survey.logs.iter().filter(|log| !log.has_end).count() as u64;
    if without_end > 0 {
        print_line(&format!("{} did not end in order", counted(without_end, "recording")));
    }
    merge_lines::of_survey(survey).iter().for_each(|line| print_line(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_if_both_can_be_moved() {
        let of = |log: &str| from_directory(Path::new(log), Path::new("/srv/u/job"));
        assert_eq!(of("/srv/u/job/r0/traces.iocap"), Path::new("r0/traces.iocap"));
        assert_eq!(of("/srv/u/t_0/traces.iocap"), Path::new("../t_0/traces.iocap"));
        assert_eq!(of("/tmp/a.iocap"), Path::new("/tmp/a.iocap"));
        assert_eq!(of("/srv/v/a.iocap"), Path::new("/srv/v/a.iocap"));
        let of_root = from_directory(Path::new("/tmp/a.iocap"), Path::new("/job"));
        assert_eq!(of_root, Path::new("/tmp/a.iocap"));
    }
}
