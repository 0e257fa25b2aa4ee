//! Profile of a run from the output of `summary --json`.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::error::CliError;
use crate::analysis::comparison::profile::{
    Dimension, RunAmounts, RunProfile, call_key, device_key,
};
use crate::sys::regular;

/// Largest file that is read.
const BYTES_MAX: u64 = 256 << 20;

/// Document of `summary --json`, as far as a comparison uses it.
#[derive(Debug, Deserialize)]
struct SummaryDocument {
    kind: String,
    incomplete: Vec<String>,
    operations: u64,
    failed: u64,
    read_bytes: u64,
    written_bytes: u64,
    time_ns: u64,
    waited_ns: u64,
    calls: Vec<SummaryRow>,
    processes: Vec<SummaryRow>,
    files: Vec<SummaryRow>,
    devices: Vec<DeviceRow>,
}

/// Row of a table of operations.
#[derive(Debug, Deserialize)]
struct SummaryRow {
    count: u64,
    errors: u64,
    read_bytes: u64,
    written_bytes: u64,
    time_ns: u64,
    waited_ns: u64,
    operation: Option<String>,
    class: Option<String>,
    comm: Option<String>,
    pid: Option<i64>,
    path: Option<String>,
    path_bytes: Option<String>,
}

/// Row of the table of disks.
#[derive(Debug, Deserialize)]
struct DeviceRow {
    requests: u64,
    errors: u64,
    bytes: u64,
    device_ns: u64,
    operation: String,
    device: String,
}

impl SummaryRow {
    fn amounts(&self) -> RunAmounts {
        RunAmounts {
            operations: self.count,
            failed: self.errors,
            read: self.read_bytes,
            written: self.written_bytes,
            time_ns: self.time_ns.saturating_sub(self.waited_ns),
        }
    }

    /// True for a row that sums up others.
    fn is_sum(&self) -> bool {
        let name = self.path.as_deref().or(self.comm.as_deref()).unwrap_or_default();
        let number = name.strip_prefix('(').and_then(|rest| rest.strip_suffix(" others)"));
        let is_others =
            number.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        self.pid.is_none() && (name == "(further ones)" || is_others)
    }

    /// Path of a file, with all bytes.
    fn path(&self) -> Option<Vec<u8>> {
        if let Some(digits) = &self.path_bytes {
            return bytes_of(digits);
        }
        let path = self.path.as_deref()?;
        (!NAMELESS.contains(&path)).then(|| path.as_bytes().to_vec())
    }
}

/// Names of rows of files without a name.
const NAMELESS: [&str; 3] =
    ["(pipes, sockets and the like without a name)", "(descriptors of unknown type)", "(no I/O)"];

/// Bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Reads a saved summary; returns its profile, and what is missing from its recording.
pub(super) fn read(path: &Path) -> Result<(RunProfile, Vec<String>), CliError> {
    let failed = |source| CliError::Open { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = regular::open_named(path).map_err(failed)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES_MAX {
        let shown = path.display();
        return Err(CliError::Usage(format!("{shown} is too large: 256 MiB are read at most")));
    }
    let wrong = |cause: String| {
        CliError::Usage(format!(
            "{} is not the output of summary --json: {cause}; make one: iotrace-perf summary LOG --json --to {0}",
            path.display()
        ))
    };
    let document: SummaryDocument =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if document.kind != "summary" {
        return Err(wrong(format!("its kind is {:?}", document.kind)));
    }
    Ok((profile(&document), document.incomplete))
}

fn profile(document: &SummaryDocument) -> RunProfile {
    let mut profile = RunProfile::default();
    profile.total = RunAmounts {
        operations: document.operations,
        failed: document.failed,
        read: document.read_bytes,
        written: document.written_bytes,
        time_ns: document.time_ns.saturating_sub(document.waited_ns),
    };
    for row in &document.calls {
        let word = |word: &Option<String>| word.clone().unwrap_or_default();
        let key = call_key(&word(&row.operation), &word(&row.class));
        profile.add(Dimension::Call, key, &row.amounts());
    }
    let is_sum = |row: &&SummaryRow| row.is_sum();
    let mut rows = document.processes.iter().chain(&document.files);
    profile.has_further = rows.any(SummaryRow::is_sum);
    for row in document.processes.iter().filter(|row| !is_sum(row)) {
        let name = row.comm.as_deref().unwrap_or("(unknown)");
        profile.add(Dimension::Program, name, &row.amounts());
    }
    for row in document.files.iter().filter(|row| !is_sum(row)) {
        if let Some(path) = row.path() {
            profile.add(Dimension::File, path, &row.amounts());
        }
    }
    for row in &document.devices {
        let [read, written] = if row.operation == "read" { [row.bytes, 0] } else { [0, row.bytes] };
        let (operations, failed) = (row.requests, row.errors);
        let amounts = RunAmounts { operations, failed, read, written, time_ns: row.device_ns };
        profile.add(Dimension::Device, device_key(&row.device, &row.operation), &amounts);
    }
    profile
}
