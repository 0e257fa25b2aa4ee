//! Format of the index of a job: one JSON object (`docs/reference/files.md`).
//!
//! The index is untrusted input: what it says is checked by [`super::job_index`] when it is read.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::clock_source::ClockSource;
use crate::capture::wall_clock::ClockLine;

/// Name of the file in the directory of an index.
pub(super) const INDEX_NAME: &str = "iotrace-job.json";

/// Value of `format`.
pub(super) const FORMAT: &str = "iotrace-perf job index";

/// Value of `version`: it changes if an older reader would misunderstand the file.
pub(super) const VERSION: u64 = 1;

/// The whole file.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct IndexDocument {
    pub(super) format: String,
    pub(super) version: u64,
    pub(super) tool_version: String,
    /// Host with whose clock messages have compared others; empty: there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) clock_reference: String,
    /// Error of the wall clock of that host, ns.
    #[serde(default)]
    pub(super) clock_reference_bound_ns: u64,
    pub(super) hosts: Vec<HostEntry>,
    pub(super) captures: Vec<CaptureEntry>,
    pub(super) left_out: Vec<OmittedEntry>,
}

/// A host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct HostEntry {
    pub(super) name: String,
    /// Correction that the user gave (`--clock-offset`), ns.
    pub(super) clock_offset_given_ns: i64,
}

/// A recording.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct CaptureEntry {
    /// Path, from the directory of the index on unless it is absolute.
    pub(super) path: String,
    /// All bytes of a path that is not UTF-8, as hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path_bytes: Option<String>,
    /// Number of its host in [`IndexDocument::hosts`].
    pub(super) host: usize,
    /// Number of its process in the job; null for several and for the whole machine.
    pub(super) rank: Option<u64>,
    /// Ranks that were recorded together.
    pub(super) node_ranks: Vec<u64>,
    /// True if the whole machine was recorded.
    pub(super) is_system: bool,
    /// Size of the job, if it is known.
    pub(super) job_size: Option<u64>,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// True if the recording ended in order.
    pub(super) has_end: bool,
    pub(super) clock: ClockEntry,
    pub(super) content: ContentPrint,
}

/// Wall clock of a recording: that of `times_ns` is larger by `offsets_ns`, linear between them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct ClockEntry {
    pub(super) times_ns: [u64; 2],
    pub(super) offsets_ns: [i64; 2],
    pub(super) moved_ns: i64,
    pub(super) error_bound_ns: Option<u64>,
    pub(super) added_ns: i64,
    /// True if the line goes on before the first time and after the last one.
    #[serde(default)]
    pub(super) is_endless: bool,
    /// Source of the clock.
    #[serde(default)]
    pub(super) source: ClockSource,
}

impl ClockEntry {
    /// Returns the clock with its source; one that was never set has no error bound.
    pub(super) fn with(self, source: ClockSource, is_dated: bool) -> Self {
        Self { source, error_bound_ns: self.error_bound_ns.filter(|_| is_dated), ..self }
    }
}

impl From<ClockLine> for ClockEntry {
    fn from(line: ClockLine) -> Self {
        let ClockLine { times_ns, offsets_ns, moved_ns, bound_ns, added_ns, is_endless } = line;
        Self {
            times_ns,
            offsets_ns,
            moved_ns,
            error_bound_ns: bound_ns,
            added_ns,
            is_endless,
            source: ClockSource::default(),
        }
    }
}

impl From<ClockEntry> for ClockLine {
    fn from(entry: ClockEntry) -> Self {
        Self {
            times_ns: entry.times_ns,
            offsets_ns: entry.offsets_ns,
            moved_ns: entry.moved_ns,
            bound_ns: entry.error_bound_ns,
            added_ns: entry.added_ns,
            is_endless: entry.is_endless,
        }
    }
}

/// Recording that the index leaves out.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct OmittedEntry {
    pub(super) path: String,
    pub(super) reason: String,
}

impl fmt::Display for OmittedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Content by which a changed or replaced recording is noticed: its header, which has the time of
/// its start to the nanosecond, is in the first part, its end in the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ContentPrint {
    pub(super) bytes: u64,
    /// Checksum (CRC-32) of the first [`PART_BYTES`].
    pub(super) head_crc32: u32,
    /// Checksum of the last [`PART_BYTES`].
    pub(super) tail_crc32: u32,
}

/// Length of the parts with a checksum.
const PART_BYTES: u64 = 64 << 10;

impl ContentPrint {
    /// Reads the parts of a file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let part = |from: u64| -> io::Result<u32> {
            let mut file = file;
            let mut part = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            file.take(PART_BYTES).read_to_end(&mut part)?;
            Ok(crc32fast::hash(&part))
        };
        let (head_crc32, tail_crc32) = (part(0)?, part(bytes.saturating_sub(PART_BYTES))?);
        (&*file).rewind()?;
        Ok(Self { bytes, head_crc32, tail_crc32 })
    }
}

impl CaptureEntry {
    /// Returns the texts that stand for a path.
    pub(super) fn texts_of(path: &Path) -> (String, Option<String>) {
        let digits = |path: &Path| {
            let bytes = path.as_os_str().as_bytes();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let shown = path.to_string_lossy().into_owned();
        (shown, path.to_str().is_none().then(|| digits(path)))
    }

    /// Returns the path; `None`: its digits are wrong.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let Some(digits) = &self.path_bytes else { return Some(PathBuf::from(&self.path)) };
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        bytes.map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn any_path_is_kept() {
        let clock = ClockEntry::from(ClockLine::default());
        let content = ContentPrint { bytes: 0, head_crc32: 0, tail_crc32: 0 };
        for bytes in [&b"../a/b.iocap"[..], b"/x/\xff\x01"] {
            let path = Path::new(OsStr::from_bytes(bytes));
            let (text, path_bytes) = CaptureEntry::texts_of(path);
            let entry = CaptureEntry {
                path: text,
                path_bytes,
                host: 0,
                rank: None,
                node_ranks: Vec::new(),
                is_system: false,
                job_size: None,
                start_ns: 0,
                end_ns: 0,
                has_end: true,
                clock,
                content,
            };
            let text = serde_json::to_string(&entry).expect("plain data");
            let read: CaptureEntry = serde_json::from_str(&text).expect("what was written");
            assert_eq!(read.path().as_deref(), Some(path));
        }
    }

    /// Fails if a change of a byte at the beginning or the end, or of the size, is not seen.
    #[test]
    fn changed_content_has_another_print() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        let print = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("space");
            ContentPrint::of(&File::open(&path).expect("a file")).expect("readable")
        };
        let mut bytes = vec![7; 200_000];
        let first = print(&bytes);
        assert_eq!(print(&bytes), first);
        for place in [0, 65_535, 199_999] {
            bytes[place] = 8;
            assert_ne!(print(&bytes), first, "{place}");
            bytes[place] = 7;
        }
        assert_ne!(print(&bytes[1..]), first);
    }
}
