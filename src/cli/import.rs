//! `iotrace-perf import FILE… -o LOG.iocap`: a capture log from another tool's log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::error::CliError;
use super::existing_outputs::WITH_FORCE;
use super::file_kind::{self, InputKind};
use super::import_args::{FromArg, ImportArgs};
use super::message::print_line;
use super::replaced_outputs::ReplacedOutputs;
use super::report_output;
use crate::import::{
    ImportError, ImportFormat, ImportReport, ImportRequest, detect, import, import_perf_data,
};
use crate::sys::output_dir::{NewFile, Users};
use crate::sys::regular;

/// Bytes read at once; formats are detected in them.
const READ_BYTES: usize = 256 << 10;

/// Part of the names of blktrace's files between the device and the number of the CPU.
const BLKTRACE_SUFFIX: &str = ".blktrace.";

/// Result of an import.
type ImportResult = Result<(File, ImportReport, ImportFormat), ImportError>;

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let files = trace_files(&args.files);
    let request = ImportRequest {
        format: args.from.map(format),
        file: args.files.first().map(|file| name(file)).unwrap_or_default(),
        columns: args.columns.clone(),
    };
    let (notes, format) = match files.as_slice() {
        [only] if only.as_os_str() == "-" => write(args, |out| {
            import(vec![BufReader::with_capacity(READ_BYTES, stdin().lock())], &request, out)
        })?,
        _ => {
            let inputs = opened(&files)?;
            write(args, |out| import_files(inputs, &request, out))?
        }
    };
    print_line(&format!(
        "wrote {}, imported from {}: {} {}",
        args.output.display(),
        format.tool(),
        notes.read,
        format.unit()
    ));
    notes.messages(format.unit()).iter().for_each(|line| print_line(line));
    Ok(ExitCode::SUCCESS)
}

/// Opens the files. One that is empty is refused if it is the only one: a CPU may have no events.
fn opened(files: &[PathBuf]) -> Result<Vec<BufReader<File>>, CliError> {
    let mut inputs = Vec::new();
    for file in files {
        let is_part = files.len() > 1 && file_kind::of(file) == InputKind::Empty;
        if let Some(text) = file_kind::no_import(file).filter(|_| !is_part) {
            return Err(CliError::Usage(text));
        }
        let input = regular::open_named(file)
            .map_err(|source| CliError::Open { path: file.clone(), source })?;
        inputs.push(BufReader::with_capacity(READ_BYTES, input));
    }
    Ok(inputs)
}

fn import_files(
    mut inputs: Vec<BufReader<File>>,
    request: &ImportRequest,
    out: File,
) -> ImportResult {
    if let [only] = inputs.as_mut_slice() {
        let found = request.format.or_else(|| only.fill_buf().ok().and_then(detect));
        if found == Some(ImportFormat::PerfData) {
            return import_perf_data(only, request, out);
        }
    }
    import(inputs, request, out)
}

/// Replaces a name that is no file by the files of blktrace whose names begin with it, in the order
/// of their CPUs.
fn trace_files(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for file in files {
        let parts = if file.exists() { Vec::new() } else { blktrace_files(file) };
        if parts.is_empty() {
            found.push(file.clone());
        }
        found.extend(parts);
    }
    found
}

fn blktrace_files(file: &Path) -> Vec<PathBuf> {
    let Some(name) = file.file_name() else { return Vec::new() };
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let start = [name.as_bytes(), BLKTRACE_SUFFIX.as_bytes()].concat();
    let cpu = |name: OsString| -> Option<u32> {
        std::str::from_utf8(name.as_bytes().strip_prefix(start.as_slice())?).ok()?.parse().ok()
    };
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let mut cpus: Vec<u32> = entries.flatten().filter_map(|entry| cpu(entry.file_name())).collect();
    cpus.sort_unstable();
    let path = |cpu: &u32| {
        let name = [start.as_slice(), cpu.to_string().as_bytes()].concat();
        file.with_file_name(OsString::from_vec(name))
    };
    cpus.iter().map(path).collect()
}

/// Imports a log; an incomplete capture log is removed.
fn write(
    args: &ImportArgs,
    import: impl FnOnce(File) -> ImportResult,
) -> Result<(ImportReport, ImportFormat), CliError> {
    let mut replaced = ReplacedOutputs::default();
    if args.force {
        replaced.replace_file(&args.output, &Users::caller())?;
    }
    let imported = write_new(args, import);
    if imported.is_ok() {
        replaced.tell()
    } else {
        replaced.restore()
    }
    imported
}

fn write_new(
    args: &ImportArgs,
    import: impl FnOnce(File) -> ImportResult,
) -> Result<(ImportReport, ImportFormat), CliError> {
    let mut made: NewFile = report_output::new_file(&args.output, WITH_FORCE)?;
    let out = made.file().try_clone().map_err(CliError::Output)?;
    let first = args.files.first().map(PathBuf::as_path).unwrap_or(Path::new("-"));
    let (_, notes, format) = import(out).map_err(|error| failed(first, &error))?;
    made.keep();
    Ok((notes, format))
}

fn failed(file: &Path, error: &ImportError) -> CliError {
    CliError::Log { path: file.into(), message: error.to_string() }
}

fn format(from: FromArg) -> ImportFormat {
    match from {
        FromArg::Strace => ImportFormat::Strace,
        FromArg::Ioriot => ImportFormat::Ioriot,
        FromArg::IoriotReplay => ImportFormat::IoriotReplay,
        FromArg::Fio => ImportFormat::FioIolog,
        FromArg::Blktrace => ImportFormat::Blktrace,
        FromArg::Blkparse => ImportFormat::Blkparse,
        FromArg::PerfScript => ImportFormat::PerfScript,
        FromArg::PerfData => ImportFormat::PerfData,
        FromArg::Msr => ImportFormat::MsrCsv,
        FromArg::Spc => ImportFormat::SpcCsv,
        FromArg::Csv => ImportFormat::Csv,
        FromArg::Dxt => ImportFormat::DarshanDxt,
    }
}

/// Name of the file, without its directory.
fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.as_encoded_bytes().escape_ascii().to_string()
}
