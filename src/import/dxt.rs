//! Text of `darshan-dxt-parser`: the reads and writes of an MPI job, file by file.
//!
//! ```text
//!   # DXT, file_id: 945779, file_name: /scratch/out
//!   # DXT, rank: 0, hostname: node7
//!    X_POSIX       0  write        0               0       262144      0.0029      0.0032
//! ```
//!
//! A rank is imported as a process. Darshan has times of a tenth of a millisecond, no opens and no
//! failed calls. Segments of one rank that overlap are those of several threads. The text is sorted
//! by files, so all segments are kept, up to [`SEGMENTS_MAX`], and sorted by time.

use rustc_hash::FxHashMap;

use super::block_text::word;
use super::decimal::{integer, seconds};
use super::import_report::ImportReport;
use super::imported_event::{ImportedEvent, ImportedKind, ImportedTask};
use super::parser::Parser;
use crate::event::syscall_table::CallId;
use crate::units::{Fd, Pid, Tid};

/// Limit on the segments of a text: 200 MB of memory.
const SEGMENTS_MAX: usize = 1 << 22;

/// Limit on the files of a text.
const FILES_MAX: usize = 1 << 20;

/// Limit on the bytes of a path (`PATH_MAX`).
const PATH_BYTES: usize = 4096;

/// Resolution of the times, ns: segments that overlap by less may have followed each other.
const TIME_UNIT: u64 = 100_000;

/// Segments that are converted at once.
const BATCH: usize = 1 << 14;

/// Lowest number of a descriptor: lower ones are standard input and outputs.
const FIRST_FD: usize = 3;

/// Limit on the threads of a rank, and the distance of their numbers.
const LANES_MAX: usize = 128;
const LANE_STEP: i32 = 1 << 23;

/// One read or write.
#[derive(Clone, Copy, Debug)]
struct DxtSegment {
    start: u64,
    end: u64,
    offset: u64,
    length: u64,
    rank: u32,
    file: u32,
    is_write: bool,
}

/// Threads and descriptors of a rank.
#[derive(Debug, Default)]
struct Rank {
    /// End of the last segment of each thread.
    lanes: Vec<u64>,
    descriptors: FxHashMap<u32, Fd>,
}

/// Parser of the text.
#[derive(Debug, Default)]
pub(super) struct Dxt {
    /// Begin of the job, ns since 1970, or 0.
    start: u64,
    files: Vec<Vec<u8>>,
    /// Number of the file whose records follow; `None`: it is beyond the limit.
    current: Option<u32>,
    segments: Vec<DxtSegment>,
    is_sorted: bool,
    /// Segments that were converted.
    done: usize,
    ranks: FxHashMap<u32, Rank>,
}

/// Returns true for a line that begins the records of a file.
pub(super) fn is_heading(line: &[u8]) -> bool {
    line.starts_with(b"# DXT, file_id:")
}

/// Returns what follows `KEY: ` in a comment, to its end.
fn value<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = line.windows(key.len()).position(|window| window == key)?;
    Some(line.get(at + key.len()..)?.trim_ascii())
}

impl Parser for Dxt {
    fn line(&mut self, line: &[u8], _: &mut Vec<ImportedEvent>, notes: &mut ImportReport) -> bool {
        let text = line.trim_ascii();
        if text.starts_with(b"#") {
            if let Some(name) = value(text, b", file_name: ") {
                self.current = u32::try_from(self.files.len()).ok();
                if self.files.len() >= FILES_MAX {
                    self.current = None;
                    return false;
                }
                self.files.push(name.get(..PATH_BYTES).unwrap_or(name).to_vec());
            } else if let Some(start) = text.strip_prefix(b"# start_time: ") {
                self.start = seconds(start.trim_ascii()).unwrap_or(0);
            }
            return true;
        }
        text.is_empty() || self.segment(text, notes).is_some()
    }

    fn finish(&mut self, out: &mut Vec<ImportedEvent>, notes: &mut ImportReport) -> bool {
        if !self.is_sorted {
            self.segments.sort_by_key(|segment| (segment.start, segment.end));
            self.is_sorted = true;
        }
        let end = self.segments.len().min(self.done + BATCH);
        for at in self.done..end {
            if let Some(segment) = self.segments.get(at).copied() {
                self.convert(&segment, out, notes);
            }
        }
        self.done = end;
        end < self.segments.len()
    }
}

impl Dxt {
    /// Parses `MODULE RANK write|read SEGMENT OFFSET LENGTH START END`, and words of other systems.
    fn segment(&mut self, line: &[u8], notes: &mut ImportReport) -> Option<()> {
        let mut rest = line;
        match word(&mut rest)? {
            b"X_POSIX" => {}
            b"X_MPIIO" => {
                notes.count("calls of MPI-IO: skipped, their POSIX calls are imported");
                return Some(());
            }
            _ => return None,
        }
        let rank = integer(word(&mut rest)?)?;
        let is_write = match word(&mut rest)? {
            b"write" => true,
            b"read" => false,
            _ => return None,
        };
        let _number: u64 = integer(word(&mut rest)?)?;
        let (offset, length) = (integer(word(&mut rest)?)?, integer(word(&mut rest)?)?);
        let (start, end) = (seconds(word(&mut rest)?)?, seconds(word(&mut rest)?)?);
        let file = self.current?;
        if self.segments.len() >= SEGMENTS_MAX {
            notes.count("segments beyond 4,194,304: left out");
            return Some(());
        }
        let [start, end] = [start, end.max(start)].map(|time| self.start.saturating_add(time));
        self.segments.push(DxtSegment { start, end, offset, length, rank, file, is_write });
        Some(())
    }

    fn convert(
        &mut self,
        segment: &DxtSegment,
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) {
        let DxtSegment { start, end, offset, length, rank, file, is_write } = *segment;
        let Some(pid) = i32::try_from(rank).ok().and_then(|rank| rank.checked_add(1)) else {
            return notes.count("segments of ranks beyond 2,147,483,646: left out");
        };
        let is_new = !self.ranks.contains_key(&rank);
        let known = self.ranks.entry(rank).or_default();
        // A thread that is free, or whose last segment ends within the resolution of the times.
        let free = known.lanes.iter().position(|last| *last <= start);
        let nearly = || known.lanes.iter().position(|last| *last < start.saturating_add(TIME_UNIT));
        let lane = free.or_else(nearly).unwrap_or(known.lanes.len());
        let start = known.lanes.get(lane).map_or(start, |last| start.max(*last));
        if lane >= LANES_MAX || pid >= LANE_STEP {
            return notes.count("segments of more than 128 threads of a rank: left out");
        }
        // Darshan rounds times: a call takes at least one nanosecond here.
        let end = end.max(start.saturating_add(1));
        match known.lanes.get_mut(lane) {
            Some(last) => *last = end,
            None => known.lanes.push(end),
        }
        let tid = pid + i32::try_from(lane).unwrap_or(0) * LANE_STEP;
        let task = ImportedTask { pid: Pid(pid), tid: Tid(tid) };
        let event = |time, what| ImportedEvent { time, task, what };
        if is_new {
            let name = format!("rank {rank}").into_bytes();
            out.push(event(start, ImportedKind::Named(name, false)));
        }
        let next = Fd(i32::try_from(FIRST_FD + known.descriptors.len()).unwrap_or(i32::MAX));
        let fd = *known.descriptors.entry(file).or_insert(next);
        if fd == next {
            let path = self.files.get(file as usize).cloned().unwrap_or_default();
            let flags = libc::O_RDWR.cast_unsigned();
            out.push(event(start, ImportedKind::Open(fd, path, flags)));
        }
        let name = if is_write { "pwrite64" } else { "pread64" };
        let Some(call) = CallId::by_name(name) else { return };
        let number = u64::from(fd.0.cast_unsigned());
        let result = i64::try_from(length).unwrap_or(i64::MAX);
        let args = [number, 0, length, offset, 0, 0];
        out.push(event(start, ImportedKind::Enter(call, args)));
        out.push(event(end, ImportedKind::Exit(call, result, Vec::new())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::decimal::SECOND;
    use super::super::parser::parse_lines;
    use super::*;

    const TEXT: &str = "# darshan log version: 3.21
# start_time: 1700000000
# DXT, file_id: 7, file_name: /scratch/a b
# DXT, rank: 0, hostname: node7
# Module    Rank  Wt/Rd  DxtSegment          Offset       Length    Start(s)      End(s)
 X_MPIIO       0  write        0               0           23      0.0028      0.0033
 X_POSIX       0  write        0               0           23      0.0029      0.0032
 X_POSIX       0  write        1              23           23      0.0030      0.0031  [OST: 14]
# DXT, file_id: 8, file_name: /scratch/c
# DXT, rank: 1, hostname: node8
 X_POSIX       1   read        0             101         4099      0.0001      0.0001
what
";

    #[test]
    fn segments_are_sorted_and_overlaps_are_threads() {
        let (events, notes) = parse_lines(&mut Dxt::default(), TEXT);
        let enters: Vec<(u64, i32, i32, u64)> = events
            .iter()
            .filter_map(|event| match &event.what {
                ImportedKind::Enter(_, args) => {
                    let ImportedTask { pid, tid } = event.task;
                    Some((event.time - 1_700_000_000 * SECOND, pid.0, tid.0, args[3]))
                }
                _ => None,
            })
            .collect();
        let found = [(100_000, 2, 2, 101), (2_900_000, 1, 1, 0), (3_000_000, 1, 1 + LANE_STEP, 23)];
        assert_eq!(enters, found);
        let opened = events.iter().filter(|event| matches!(event.what, ImportedKind::Open(..)));
        assert_eq!((opened.count(), notes.unparsed()), (2, 1));
        assert_eq!(notes.messages("lines").len(), 2);
    }
}
