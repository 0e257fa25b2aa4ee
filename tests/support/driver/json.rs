//! Output of `iotrace-perf script --json`, one value in a line.

use serde::Deserialize;

/// One line.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum JsonLine {
    Syscall(JsonOperation),
    Async(JsonAsync),
    Fault(JsonFault),
    Block(JsonBlock),
    Anomaly(JsonAnomaly),
}

/// A system call. `docs/json.md` explains the keys.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonOperation {
    /// The kernel's name (`sendfile64`).
    pub name: String,
    pub pid: i32,
    pub tid: i32,
    pub comm: Option<String>,
    #[serde(default)]
    pub cpu: u32,
    pub start_ns: i64,
    pub duration_ns: Option<u64>,
    #[serde(default, deserialize_with = "descriptor")]
    pub fd: Option<i32>,
    pub path: Option<String>,
    /// In hexadecimal; only if the path is not UTF-8.
    pub path_bytes: Option<String>,
    /// "fd-link", "argument", "snapshot", "unverified".
    pub path_source: Option<String>,
    pub path_absolute: Option<String>,
    /// Left out for the tracer's own.
    pub path_mounts: Option<u64>,
    pub offset: Option<u64>,
    pub bytes_requested: Option<u64>,
    /// As the kernel returned it: minus the error's number if the call failed.
    pub result: Option<i64>,
    pub errno: Option<String>,
    /// Target of a transfer, new descriptor of a duplication.
    #[serde(default, deserialize_with = "descriptor")]
    pub fd2: Option<i32>,
    pub path2: Option<String>,
    /// As `path_bytes`.
    pub path2_bytes: Option<String>,
    pub path2_source: Option<String>,
    pub offset2: Option<u64>,
    /// Keys of values in memory that were not read.
    #[serde(default)]
    pub unread: Vec<String>,
    #[serde(default, deserialize_with = "descriptor")]
    pub dirfd: Option<i32>,
    /// Why there is no exit: "capture-end", "thread-end", "exit-lost".
    pub unfinished: Option<String>,
}

impl JsonOperation {
    /// The bytes of the path.
    pub(crate) fn path(&self) -> Option<Vec<u8>> {
        bytes(self.path.as_ref(), self.path_bytes.as_ref())
    }

    /// The bytes of the second path.
    pub(crate) fn path2(&self) -> Option<Vec<u8>> {
        bytes(self.path2.as_ref(), self.path2_bytes.as_ref())
    }
}

/// Bytes of a value: those that are not text are written in hexadecimal.
fn bytes(text: Option<&String>, digits: Option<&String>) -> Option<Vec<u8>> {
    let Some(digits) = digits else { return text.map(|it| it.clone().into_bytes()) };
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A descriptor is a number, or the word for the working directory.
fn descriptor<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Descriptor {
        Number(i32),
        Word(String),
    }
    match Option::<Descriptor>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Descriptor::Number(number)) => Ok(Some(number)),
        Some(Descriptor::Word(word)) if word == "AT_FDCWD" => Ok(Some(nix::libc::AT_FDCWD)),
        Some(Descriptor::Word(word)) => {
            Err(serde::de::Error::custom(format!("`{word}` is no descriptor")))
        }
    }
}

/// An asynchronous operation.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonAsync {
    /// "io_uring" or "aio".
    pub interface: String,
    pub name: Option<String>,
    pub pid: i32,
    pub tid: i32,
    pub start_ns: i64,
    pub duration_ns: Option<u64>,
    pub user_data: u64,
    pub fd: Option<i32>,
    pub path: Option<String>,
    pub offset: Option<u64>,
    pub bytes_requested: Option<u64>,
    pub result: Option<i64>,
    pub bytes: Option<u64>,
    /// Keys of what was not read.
    #[serde(default)]
    pub unread: Vec<String>,
    /// Origin of the file, as "registered".
    pub file: Option<String>,
    /// Thread that did it, as "worker".
    pub done_by: Option<String>,
    pub unfinished: Option<String>,
}

/// A page fault on a file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonFault {
    pub pid: i32,
    pub comm: Option<String>,
    pub time_ns: i64,
    pub address: Option<u64>,
    /// "read", "write".
    pub access: Option<String>,
    pub path: Option<String>,
    pub path_source: Option<String>,
    pub offset: u64,
}

/// The page faults among the lines.
pub(crate) fn faults(lines: &[JsonLine]) -> Vec<JsonFault> {
    let fault = |it: &JsonLine| match it {
        JsonLine::Fault(fault) => Some(fault.clone()),
        _ => None,
    };
    lines.iter().filter_map(fault).collect()
}

/// A block request.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonBlock {
    pub disk: Option<String>,
    /// "MAJOR:MINOR" of the whole disk.
    pub dev: String,
    pub op: String,
    pub sector: u64,
    pub bytes: u64,
    pub queued_ns: Option<i64>,
    pub inserted_ns: Option<i64>,
    pub issued_ns: Option<i64>,
    pub completed_ns: Option<i64>,
    pub pid: Option<i32>,
    pub comm: Option<String>,
    pub error: Option<String>,
    pub tid: Option<i32>,
    pub rwbs: Option<String>,
    pub merges: u64,
    pub requeues: Option<u64>,
    /// "completed", "absorbed", "unfinished".
    pub ending: Option<String>,
    /// "none", "sequence", "demand", "device".
    pub flush: Option<String>,
    /// "read", "write", "discard", "flush".
    pub diskstats: Option<String>,
    pub bytes_done: u64,
    pub bio_queued_ns: Option<i64>,
    #[serde(default)]
    pub request: u64,
    #[serde(default)]
    pub preflush: bool,
    pub serves: Option<u64>,
    #[serde(default)]
    pub pieces: Vec<JsonPiece>,
}

/// A piece of a block request.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonPiece {
    /// "file", "journal", "metadata", "nothing", "unknown".
    pub behind: String,
    /// "exact", "inferred", "unknown".
    pub link: String,
    pub program: Option<String>,
    pub sector: u64,
    pub bytes: u64,
    pub pid: i32,
    pub path: Option<String>,
    pub path_source: Option<String>,
    pub fs_dev: Option<String>,
    pub ino: Option<u64>,
    pub offset: Option<u64>,
    #[serde(default)]
    pub levels: Vec<JsonLevel>,
    #[serde(default)]
    pub writers: Vec<JsonWriter>,
}

/// A device above.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonLevel {
    pub dev: String,
    pub disk: Option<String>,
    pub sector: u64,
}

/// Last writer of a piece.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JsonWriter {
    pub pid: i32,
    pub comm: Option<String>,
}

/// Something that does not add up in a recording.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct JsonAnomaly {
    pub what: String,
    pub time_ns: i64,
    pub cpu: u32,
    pub pid: i32,
    pub tid: i32,
    pub count: u64,
    pub detail: String,
}

/// Reads all lines; the error names the line.
pub(crate) fn parse(text: &str) -> Result<Vec<JsonLine>, String> {
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    numbered
        .map(|(index, line)| {
            serde_json::from_str(line)
                .map_err(|error| format!("line {}: {error}: {line}", index + 1))
        })
        .collect()
}

/// The system calls among the lines.
pub(crate) fn operations(lines: &[JsonLine]) -> Vec<JsonOperation> {
    let of_line = |line: &JsonLine| match line {
        JsonLine::Syscall(operation) => Some(operation.clone()),
        JsonLine::Async(_) | JsonLine::Fault(_) | JsonLine::Block(_) | JsonLine::Anomaly(_) => None,
    };
    lines.iter().filter_map(of_line).collect()
}

/// The asynchronous operations among the lines.
pub(crate) fn asynchronous(lines: &[JsonLine]) -> Vec<JsonAsync> {
    let of_line = |line: &JsonLine| match line {
        JsonLine::Async(operation) => Some(operation.clone()),
        JsonLine::Syscall(_) | JsonLine::Fault(_) | JsonLine::Block(_) | JsonLine::Anomaly(_) => {
            None
        }
    };
    lines.iter().filter_map(of_line).collect()
}

/// The block requests among the lines.
pub(crate) fn requests(lines: &[JsonLine]) -> Vec<JsonBlock> {
    let of_line = |line: &JsonLine| match line {
        JsonLine::Block(request) => Some(request.clone()),
        JsonLine::Syscall(_) | JsonLine::Async(_) | JsonLine::Fault(_) | JsonLine::Anomaly(_) => {
            None
        }
    };
    lines.iter().filter_map(of_line).collect()
}

/// The anomalies among the lines.
pub(crate) fn anomalies(lines: &[JsonLine]) -> Vec<JsonAnomaly> {
    let of_line = |line: &JsonLine| match line {
        JsonLine::Anomaly(anomaly) => Some(anomaly.clone()),
        JsonLine::Syscall(_) | JsonLine::Async(_) | JsonLine::Fault(_) | JsonLine::Block(_) => None,
    };
    lines.iter().filter_map(of_line).collect()
}
