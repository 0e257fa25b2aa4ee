//! Judges what an OTF2 archive means, from the text of `otf2-print`. OTF2 and its readers check
//! only the form of records: operations that complete twice, handles that were never opened and
//! wrong counts go through them unnoticed.
//!
//! ```text
//!   otf2-print --silent -Werror ──► exit status     (well-formed at all)
//!   otf2-print -G ──► Definitions ──┐
//!   otf2-print    ──► Event … ──────┴──► Rules ──► Summary, or what is wrong
//! ```
//!
//! Only ids are taken from the text of a record, and from its right end: names are quoted but not
//! escaped there, so a file name may hold anything but a line break (the writer escapes those).

mod definitions;
mod event;
mod rules;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use definitions::Definitions;
pub(crate) use event::Mode;

/// More problems than these are only counted: the first few are enough.
const PROBLEMS_MAX: usize = 50;

/// Operations of one paradigm and mode that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Completed or cancelled operations.
    pub count: u64,
    /// Sum of the results that are defined, in bytes.
    pub bytes: u64,
    /// Completed without a defined result: failed calls, flushes.
    pub without_result: u64,
    /// Cancelled ones.
    pub cancelled: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.without_result += other.without_result;
        self.cancelled += other.cancelled;
    }
}

/// Content of a valid archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Enter events by region name.
    pub enters: BTreeMap<String, u64>,
    /// Ended operations by name of the paradigm ("POSIX I/O") and mode.
    pub operations: BTreeMap<(String, Mode), Totals>,
    /// Names of the locations, by id.
    pub locations: BTreeMap<u64, String>,
    /// Events of each location, by id.
    pub events_of: BTreeMap<u64, u64>,
    /// Names of the location groups (processes, queues), by id.
    pub groups: BTreeMap<u64, String>,
    /// Names of the files and directories, by id.
    pub files: BTreeMap<u64, String>,
    /// File name of each handle that has a file, by the handle's id.
    pub handle_files: BTreeMap<u64, String>,
    /// Events of all locations.
    pub events: u64,
    /// Operations that ended after another thread had closed their handle: programs may do that.
    pub ended_after_destroy: u64,
    /// Handles that were opened and are still open at the end, over all location groups.
    pub handles_left: u64,
}

impl Summary {
    /// The operations of a mode, over all paradigms.
    pub(crate) fn of_mode(&self, mode: Mode) -> Totals {
        let mut sum = Totals::default();
        for (_, totals) in self.operations.iter().filter(|((_, it), _)| *it == mode) {
            sum.add(*totals);
        }
        sum
    }
}

/// Problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    texts: Vec<String>,
    more: u64,
}

impl Problems {
    pub(crate) fn add(&mut self, text: impl Into<String>) {
        if self.texts.len() < PROBLEMS_MAX {
            self.texts.push(text.into());
        } else {
            self.more += 1;
        }
    }

    fn into_result(mut self, summary: Summary) -> Result<Summary, Vec<String>> {
        if self.more > 0 {
            self.texts.push(format!("and {} more problems", self.more));
        }
        if self.texts.is_empty() { Ok(summary) } else { Err(self.texts) }
    }
}

/// Checks an archive, given its anchor file (`….otf2`).
///
/// Needs `otf2-print` in the path. Reads its output line by line: memory does not grow with the
/// number of events.
pub(crate) fn check(anchor: &Path) -> Result<Summary, Vec<String>> {
    let silent = [OsStr::new("--silent"), OsStr::new("-Werror"), anchor.as_os_str()];
    read_print(&silent, |text| io::copy(text, &mut io::sink()).map(drop))?;
    let mut problems = Problems::default();
    let definitions = read_print(&[OsStr::new("-G"), anchor.as_os_str()], |text| {
        Definitions::read(text, &mut problems)
    })?;
    let summary =
        read_print(&[anchor.as_os_str()], |text| rules::judge(&definitions, text, &mut problems))?;
    problems.into_result(summary)
}

/// Checks the two texts of an archive: of `otf2-print -G` and of `otf2-print`.
pub(crate) fn check_text(definitions: &str, events: &str) -> Result<Summary, Vec<String>> {
    let mut problems = Problems::default();
    let definitions = Definitions::read(&mut definitions.as_bytes(), &mut problems)
        .expect("reading from memory does not fail");
    let summary = rules::judge(&definitions, &mut events.as_bytes(), &mut problems)
        .expect("reading from memory does not fail");
    problems.into_result(summary)
}

/// Runs `otf2-print`, gives its output to `read`, and wants it to exit with 0 and no complaint.
fn read_print<T>(
    arguments: &[&OsStr],
    read: impl FnOnce(&mut dyn BufRead) -> io::Result<T>,
) -> Result<T, Vec<String>> {
    let failed = |what: String| vec![format!("otf2-print {arguments:?}: {what}")];
    let mut child = Command::new("otf2-print")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut errors = child.stderr.take().expect("the pipe was asked for");
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        // Unreadable output is missing from the message only: the exit status decides.
        let _ = errors.read_to_end(&mut text);
        text
    });
    let output = child.stdout.take().expect("the pipe was asked for");
    let value = read(&mut BufReader::with_capacity(1 << 18, output));
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    let errors = errors.join().unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    if !status.success() || !errors.is_empty() {
        let few: String = errors.chars().take(1000).collect();
        return Err(failed(format!("{status}: {few}")));
    }
    value.map_err(|error| failed(error.to_string()))
}

/// Calls `each` with every line after the table's head, without its line break.
fn for_lines(text: &mut dyn BufRead, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut line = Vec::new();
    let mut in_table = false;
    while text.read_until(b'\n', &mut line)? != 0 {
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        if content.starts_with(b"-----") {
            in_table = true;
        } else if content.starts_with(b"===") {
            in_table = false;
        } else if in_table && !content.is_empty() {
            each(&String::from_utf8_lossy(content));
        }
        line.clear();
    }
    Ok(())
}
