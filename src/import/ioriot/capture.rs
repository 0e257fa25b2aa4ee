//! Capture logs of ioriot: `t=1511381122062;:,i=7764:8093;:,o=open;:,d=162;:,p=/x;:,f=0;:,m=438;:,`

use rustc_hash::FxHashMap;

use super::fields::{MS, meta, number};
use super::{operation, table};
use crate::import::import_report::ImportReport;
use crate::import::imported_event::{ImportedEvent, ImportedKind, ImportedTask};
use crate::import::parser::Parser;
use crate::units::{Pid, Tid};

/// Separator of values.
const SEPARATOR: &[u8] = b";:,";

/// First version with times in ns.
const NS_VERSION: i64 = 3;

/// Limit between times since 1970 in ms, which are smaller until the year 5138, and in ns, which
/// are larger since 1973.
const MS_MAX: u64 = 100_000_000_000_000;

/// Limit on the values of a line.
const VALUES_MAX: usize = 16;

/// Parser of capture logs.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    version: Option<i64>,
    /// End of each thread's last call.
    last: FxHashMap<i32, u64>,
    /// Threads of each process.
    threads: FxHashMap<i32, Vec<i32>>,
}

/// Values of a line, by letter.
struct Values<'a>(Vec<(u8, &'a [u8])>);

impl<'a> Values<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut found = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
            let (part, behind) = match end {
                Some(end) => (rest.get(..end)?, rest.get(end + SEPARATOR.len()..)?),
                None => (rest, &[][..]),
            };
            rest = behind;
            let [letter, b'=', value @ ..] = part else { return None };
            found.push((*letter, value));
            if found.len() > VALUES_MAX {
                return None;
            }
        }
        Some(Self(found))
    }

    fn get(&self, letter: u8) -> Option<&'a [u8]> {
        self.0.iter().find(|field| field.0 == letter).map(|field| field.1)
    }

    fn task(&self) -> Option<ImportedTask> {
        let at = |byte: &[u8]| i32::try_from(number(byte)?).ok().filter(|number| *number > 0);
        let mut parts = self.get(b'i')?.split(|byte| *byte == b':');
        let (pid, tid) = (at(parts.next()?)?, at(parts.next()?)?);
        Some(ImportedTask { pid: Pid(pid), tid: Tid(tid) })
    }
}

impl Parser for Capture {
    fn line(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        if line.starts_with(b"#") {
            self.version = meta(line, b"capture_version").and_then(number).or(self.version);
            return true;
        }
        line.is_empty() || self.call(line, out, notes).is_some()
    }
}

impl Capture {
    fn call(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        let values = Values::of(line)?;
        let (task, name) = (values.task()?, values.get(b'o')?);
        let time = |letter| {
            values.get(letter).and_then(number).and_then(|value| u64::try_from(value).ok())
        };
        let took = time(b'D');
        let end = self.ns(time(b't')?, took.is_some());
        let last = self.last.get(&task.tid.0).copied().unwrap_or(0);
        self.knows(task);
        if name == b"exit_group" {
            let threads = self.threads.remove(&task.pid.0).unwrap_or_default();
            for tid in threads {
                self.last.remove(&tid);
                let task = ImportedTask { tid: Tid(tid), ..task };
                out.push(ImportedEvent { time: end, task, what: ImportedKind::Ended });
            }
            return Some(());
        }
        let Some(row) = table::find(name) else {
            notes.unknown_call(name);
            return Some(());
        };
        let start = end.saturating_sub(took.unwrap_or(0)).max(last).min(end);
        if !operation::push(row, |operation| values.get(operation), task, start, end, out) {
            return None;
        }
        if took.is_none() {
            notes.count("calls with an end but no duration");
        }
        self.last.insert(task.tid.0, end);
        Some(())
    }

    fn knows(&mut self, task: ImportedTask) {
        let threads = self.threads.entry(task.pid.0).or_default();
        if !threads.contains(&task.tid.0) {
            threads.push(task.tid.0);
        }
    }

    /// Converts a time to ns.
    fn ns(&self, time: u64, has_duration: bool) -> u64 {
        let is_ns = match self.version {
            Some(version) => version >= NS_VERSION,
            None => has_duration || time > MS_MAX,
        };
        if is_ns { time } else { time.saturating_mul(MS) }
    }
}
