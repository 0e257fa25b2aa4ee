//! Replay logs of ioriot: `23|1|1|0|0|30|11|/mnt/.ioriot/test0/x|438|0|open@31|` is the time,
//! number of the path, process, two zeros, the operation's number, its values, its name and the
//! line of the capture log that it comes from.

use super::fields::{MS, meta, number};
use super::{operation, table};
use crate::import::import_report::ImportReport;
use crate::import::imported_event::{ImportedEvent, ImportedTask};
use crate::import::parser::Parser;

/// Directories that ioriot puts between mount point and path, by the tool's name at that time.
const PLACES: [&[u8]; 2] = [b"/.ioriot/", b"/.ioreplay/"];

/// Number of values before those of the operation.
const HEAD: usize = 6;

/// Limit on times in ms: a recording of ioriot ends after an hour.
const MS_MAX: u64 = 2 * 3_600_000;

/// Parser of replay logs.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    version: i64,
    /// Name of the test, such as `test0`.
    name: Vec<u8>,
    is_ns: bool,
    /// True if the first times of the log cannot be ms.
    begins_in_ns: bool,
    last: u64,
    is_init: bool,
}

impl Parser for Replay {
    fn line(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        if let Some(version) = meta(line, b"replay_version").and_then(number) {
            self.version = version;
            self.is_ns = version >= 3 || version == 2 && self.begins_in_ns;
            self.name = meta(line, b"name").unwrap_or_default().to_vec();
            return true;
        }
        if self.is_init {
            notes.count(
                "files and directories of #INIT: a replay plan infers the initial files itself",
            );
            return true;
        }
        self.is_init = line.starts_with(b"#INIT");
        // Other comments are operations that its generator skipped.
        if line.starts_with(b"#FILTERED") {
            notes.count("operations that ioriot has skipped");
            return true;
        }
        line.is_empty() || line.starts_with(b"#") || self.operation(line, out, notes).is_some()
    }

    fn finish(&mut self, _: &mut Vec<ImportedEvent>, notes: &mut ImportReport) -> bool {
        if self.version == 2 {
            let unit = if self.is_ns { "ns" } else { "ms" };
            notes.count(match unit {
                "ns" => "log without a unit of its times: taken for ns",
                _ => "log without a unit of its times: taken for ms",
            });
        }
        false
    }
}

impl Replay {
    /// Creates a parser for a log that begins like this.
    pub(crate) fn new(head: &[u8]) -> Self {
        let times = head.split(|head| *head == b'\n').filter_map(|line| {
            let first = line.split(|line| *line == b'|').next()?;
            number(first).and_then(|number| u64::try_from(number).ok())
        });
        Self { begins_in_ns: times.max().is_some_and(|time| time > MS_MAX), ..Self::default() }
    }

    fn operation(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        let values: Vec<&[u8]> = line.strip_suffix(b"|")?.split(|rest| *rest == b'|').collect();
        let time = u64::try_from(number(values.first()?)?).ok()?;
        let pid = i32::try_from(number(values.get(2)?)?).ok().filter(|number| *number > 0)?;
        let (label, values) = values.get(HEAD..)?.split_last()?;
        let name = label.get(..label.iter().position(|label| *label == b'@')?)?;
        let Some(row) = table::find(name) else {
            notes.unknown_call(name);
            return Some(());
        };
        if values.len() != row.order.len() {
            return None;
        }
        let paths: Vec<Vec<u8>> = values.iter().map(|value| self.original(value)).collect();
        let value = |letter| {
            let place = row.order.iter().position(|order| *order == letter)?;
            paths.get(place).map(Vec::as_slice)
        };
        let end = self.ns(time);
        self.last = end.max(self.last);
        notes.count("operations without a duration");
        operation::push(row, value, ImportedTask::leader(pid), self.last, self.last, out)
            .then_some(())
    }

    /// Captured path.
    fn original(&self, value: &[u8]) -> Vec<u8> {
        for place in PLACES {
            let moved = [place, &self.name].concat();
            let found = value.windows(moved.len()).position(|window| window == moved);
            let parts =
                found.and_then(|at| Some((value.get(..at)?, value.get(at + moved.len()..)?)));
            if let Some((before, behind)) =
                parts.filter(|part| part.1.is_empty() || part.1.starts_with(b"/"))
            {
                return [before, behind].concat();
            }
        }
        value.to_vec()
    }

    /// Converts a time to ns.
    fn ns(&self, time: u64) -> u64 {
        if self.is_ns { time } else { time.saturating_mul(MS) }
    }
}
