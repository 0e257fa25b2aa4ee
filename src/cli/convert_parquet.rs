//! `iotrace-perf convert LOG -o NAME.parquet`: log → tables for query engines.
//!
//! ```text
//!   NAME.parquet/TABLE/host=HOST/rank=RANK/RECORDING.parquet
//! ```
//!
//! Logs of other nodes and ranks are added to the same directory: engines read all of them as one
//! table, with the columns `host` and `rank` from the paths (Hive partitions).

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
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
use crate::capture::header::{End, Header};
use crate::columnar::{LogFacts, ParquetSink, table_names};
use crate::operation::disk;
use crate::sys::output_dir::{OutputDirectory, Users};
use crate::units::KernelTime;

/// Value of a partition without one, as Hive spells it.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns true if the output is to be a directory of tables.
pub(super) fn is_wanted(args: &ConvertArgs) -> bool {
    let extension = args.output.as_deref().and_then(|text| Path::new(text).extension());
    extension == Some(OsStr::new("parquet"))
}

pub(super) fn run(args: &ConvertArgs) -> Result<ExitCode, CliError> {
    let output = output(args)?;
    let work = |go_on: &mut dyn FnMut() -> bool| convert(&args.log, &output, args.force, go_on);
    let converted = until_signal("no tables were made", work)?;
    tell(&output);
    let log = LogPaths { path: &args.log, shown: &args.log, is_kept: true };
    summary_lines::print(log, None, &converted);
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory of the tables.
pub(super) fn output(args: &ConvertArgs) -> Result<PathBuf, CliError> {
    let output: OsString = args.output.clone().unwrap_or_default();
    Ok(PathBuf::from(substitute(&output)?))
}

/// Prints what was written, and how to query it.
pub(super) fn tell(output: &Path) {
    let shown = output.display();
    print_line(&format!("wrote the tables {} below {shown}", words(table_names())));
    print_line(&format!(
        "query them: duckdb -c \"select name, count(*) from \
         read_parquet('{shown}/operations/**/*.parquet') group by all order by 2 desc\""
    ));
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// Writes the tables of a log. `go_on` is called now and then.
pub(super) fn convert(
    log: &Path,
    output: &Path,
    replaces: bool,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Converted, CliError> {
    let failed = |source: io::Error| CliError::Create { path: output.into(), source };
    let input = open(log, false)?;
    let (header, end) = (&input.header, end_of(log)?);
    let recording = number(header, end.as_ref());
    let staged = stage(output, header, recording, replaces)?;
    let files: io::Result<Vec<File>> =
        staged.iter().map(|staged| staged.file().try_clone()).collect();
    let facts = LogFacts {
        start: KernelTime(header.clock.start_ns),
        start_wall: header.clock.start_realtime_ns,
        disks: disk::names(&disk::all(header, end.as_ref())),
        recording,
    };
    let sink = files.and_then(|files| ParquetSink::create(files, facts)).map_err(failed)?;
    let (sink, converted) = input.pass_to(log, sink, failed, go_on)?;
    sink.finish(&recording_facts(&converted.summary)).map_err(failed)?;
    staged.into_iter().try_for_each(StagedFile::finish)?;
    Ok(converted)
}

/// Begins the file of each table, and makes the directories above.
fn stage(
    output: &Path,
    header: &Header,
    recording: u64,
    replaces: bool,
) -> Result<Vec<StagedFile>, CliError> {
    let users = Users::caller();
    // The job's place in a log of several ranks is that of the recorder's own.
    let place = header.job.as_ref().filter(|_| header.scope.ranks.len() < 2);
    let rank = place.and_then(|job| job.rank).map(|rank| rank.to_string());
    let steps =
        [partition("host", &header.host.hostname), partition("rank", &rank.unwrap_or_default())];
    make(output, &users)?;
    let mut staged = Vec::new();
    for table in table_names() {
        let mut directory = output.join(table);
        make(&directory, &users)?;
        for step in &steps {
            directory.push(step);
            make(&directory, &users)?;
        }
        let file = directory.join(format!("{recording}.parquet"));
        staged.push(StagedFile::create(&file, &users, replaces)?);
    }
    Ok(staged)
}

/// Number that no other recording of the same host and rank has: its start, or of a log without
/// dates a checksum of its header and end.
fn number(header: &Header, end: Option<&End>) -> u64 {
    match header.clock.start_realtime_ns {
        0 => {
            // Both are plain data, which can be written.
            let parts = [serde_json::to_vec(header), serde_json::to_vec(&end)];
            crc32fast::hash(&parts.map(Result::unwrap_or_default).concat()).into()
        }
        wall => wall,
    }
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

/// Returns `KEY=VALUE` for a path. Letters with a meaning in paths are escaped as Hive does, with
/// `%` and two digits.
fn partition(key: &str, value: &str) -> String {
    let mut text = format!("{key}=");
    if value.is_empty() {
        text.push_str(NO_VALUE);
    }
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_in_their_directory() {
        assert_eq!(partition("host", "node-7.hpc"), "host=node-7.hpc");
        assert_eq!(partition("host", "../a=b"), "host=..%2Fa%3Db");
        assert_eq!(partition("rank", ""), "rank=__HIVE_DEFAULT_PARTITION__");
    }
}
