//! Profile of a run from the output of `summary --json`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::error::CliError;
use crate::analysis::comparison::profile::{
    Dimension, RunAmounts, RunProfile, call_key, device_key,
};
use crate::sys::regular;

/// Largest file that is read.
const BYTES_MAX: u64 = 1 << 30;

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
    #[serde(flatten)]
    names: BTreeMap<String, serde_json::Value>,
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

    fn name(&self, key: &str) -> &str {
        self.names.get(key).and_then(serde_json::Value::as_str).unwrap_or("(unknown)")
    }
}

/// Reads a saved summary; returns its profile, and what is missing from its recording.
pub(super) fn read(path: &Path) -> Result<(RunProfile, Vec<String>), CliError> {
    let failed = |source| CliError::Open { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = regular::open_named(path).map_err(failed)?;
    file.take(BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
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
        let key = call_key(row.name("operation"), row.name("class"));
        profile.add(Dimension::Call, key, &row.amounts());
    }
    for (dimension, rows, key) in [
        (Dimension::Program, &document.processes, "comm"),
        (Dimension::File, &document.files, "path"),
    ] {
        // A row that is not about one program or file has words in parentheses.
        let is_sum = |name: &str| name == "(further ones)" || name.ends_with(" others)");
        profile.has_further |= rows.iter().any(|row| is_sum(row.name(key)));
        for row in rows.iter().filter(|row| !row.name(key).starts_with('(')) {
            profile.add(dimension, row.name(key), &row.amounts());
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
