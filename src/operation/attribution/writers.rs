//! Last writers of the bytes of files, by the calls that wrote: kernel threads write them to the
//! device later.

use std::collections::VecDeque;
use std::sync::Arc;

use rangemap::RangeMap;
use rustc_hash::FxHashMap;

use super::extents::{FileKey, device_file};
use crate::operation::model::ProcessKey;
use crate::units::{DevId, Pid};

/// Process that wrote to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWriter {
    /// Incarnation of the process.
    pub process: ProcessKey,
    /// Number of the process.
    pub pid: Pid,
    /// Name of the process at the time of the write.
    pub comm: Arc<[u8]>,
}

/// A writer whose name is borrowed: most writes are by a writer that is known already.
#[derive(Clone, Copy, Debug)]
pub struct WriterRef<'a> {
    /// Incarnation of the process.
    pub process: ProcessKey,
    /// Number of the process.
    pub pid: Pid,
    /// Name of the process at the time of the write.
    pub comm: &'a [u8],
}

impl WriterRef<'_> {
    fn is(&self, known: &LastWriter) -> bool {
        self.process == known.process && self.pid == known.pid && *self.comm == *known.comm
    }

    fn to_writer(self) -> LastWriter {
        let Self { process, pid, comm } = self;
        LastWriter { process, pid, comm: comm.into() }
    }
}

/// Writers of one file.
#[derive(Debug, Default)]
struct Ranges {
    known: RangeMap<u64, LastWriter>,
    /// Last writers whose offset is not known (an append).
    anywhere: VecDeque<LastWriter>,
}

/// Writers of all files.
#[derive(Debug, Default)]
pub(super) struct Writers {
    files: FxHashMap<FileKey, Ranges>,
    /// Files, plus the ranges of all files.
    count: usize,
    /// Entries that were evicted for want of room.
    pub given_up: u64,
}

/// Limit of remembered files and ranges. Beyond it all are evicted: nothing is inferred from a part
/// of them.
const RANGES_MAX: usize = 1 << 20;

/// Limit of reported writers of one piece, and of remembered writers that appended.
const WRITERS_MAX: usize = 8;

impl Writers {
    /// Records a write of `bytes` bytes at `offset`; `None`: the offset is not known.
    pub(super) fn wrote(
        &mut self,
        key: FileKey,
        by: WriterRef<'_>,
        offset: Option<u64>,
        bytes: u64,
    ) {
        if bytes == 0 {
            return;
        }
        if self.count >= RANGES_MAX {
            self.given_up += self.count as u64;
            self.forget();
        }
        let ranges = self.files.entry(key).or_insert_with(|| {
            self.count += 1;
            Ranges::default()
        });
        let Some(begin) = offset else { return ranges.appended(by) };
        let end = begin.saturating_add(bytes).max(1);
        let known = ranges.known.get_key_value(&begin);
        if known.is_some_and(|(range, writer)| range.end >= end && by.is(writer)) {
            return;
        }
        let before = ranges.known.len();
        ranges.known.insert(begin..end, by.to_writer());
        self.count = self.count + ranges.known.len() - before;
    }

    /// Returns the writers of these bytes.
    pub(super) fn of(&self, key: FileKey, begin: u64, end: u64) -> Vec<LastWriter> {
        let Some(ranges) = self.files.get(&key) else { return Vec::new() };
        let mut found: Vec<LastWriter> = Vec::new();
        let overlapping = (begin < end).then(|| ranges.known.overlapping(begin..end));
        let overlapping = overlapping.into_iter().flatten().map(|it| it.1);
        for writer in overlapping.chain(&ranges.anywhere) {
            if found.len() == WRITERS_MAX {
                break;
            }
            if !found.iter().any(|it| it.process == writer.process) {
                found.push(writer.clone());
            }
        }
        found
    }

    /// Forgets a file: its inode number may be reused for another file.
    pub(super) fn forget_file(&mut self, key: FileKey) {
        self.count -= self.files.remove(&key).map_or(0, |it| it.known.len() + 1);
    }

    /// Forgets a device: it has another file system now, or none.
    pub(super) fn forget_device(&mut self, dev: DevId) {
        let gone: Vec<FileKey> = self.files.keys().copied().filter(|it| it.0 == dev).collect();
        gone.into_iter().for_each(|it| self.forget_file(it));
        self.forget_file(device_file(dev));
    }

    /// Forgets everything: any bytes may have been written unseen.
    pub(super) fn forget(&mut self) {
        self.files.clear();
        self.count = 0;
    }
}

impl Ranges {
    fn appended(&mut self, by: WriterRef<'_>) {
        if !self.anywhere.iter().any(|known| by.is(known)) {
            if self.anywhere.len() == WRITERS_MAX {
                self.anywhere.pop_front();
            }
            self.anywhere.push_back(by.to_writer());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const KEY: FileKey = (DevId(1), 2);

    fn writers(list: &[(u32, Option<u64>, u64)]) -> Writers {
        let mut writers = Writers::default();
        for &(process, offset, bytes) in list {
            let by = WriterRef { process: ProcessKey(process), pid: Pid(1), comm: b"w" };
            writers.wrote(KEY, by, offset, bytes);
        }
        writers
    }

    #[track_caller]
    fn check(list: &[(u32, Option<u64>, u64)], bytes: Range<u64>, expected: &[u32]) {
        let found = writers(list).of(KEY, bytes.start, bytes.end);
        assert_eq!(found.iter().map(|it| it.process.0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn last_writer_is_reported() {
        let twice = [(1, Some(0), 100), (2, Some(40), 20)];
        check(&twice, 0..40, &[1]);
        check(&twice, 45..50, &[2]);
        check(&twice, 30..70, &[1, 2]);
        check(&twice, 60..61, &[1]);
        check(&twice, 100..200, &[]);
        check(&[(1, Some(0), 100), (2, Some(0), 100)], 0..100, &[2]);
    }

    #[test]
    fn contiguous_writes_are_one_range() {
        let all = writers(&[(1, Some(0), 10), (1, Some(10), 10), (1, Some(5), 100)]);
        assert_eq!(all.count, 2, "the file and one range");
        check(&[(2, Some(15), 5), (1, Some(0), 10), (1, Some(10), 10)], 0..20, &[1]);
    }

    #[test]
    fn an_append_may_be_anywhere() {
        check(&[(1, Some(0), 10), (2, None, 10)], 0..10, &[1, 2]);
        let many: Vec<_> = (0..100).map(|it| (it, None, 1)).collect();
        check(&many, 0..10, &[92, 93, 94, 95, 96, 97, 98, 99]);
    }

    #[test]
    fn another_file_of_the_same_number_has_no_writers() {
        let mut all = writers(&[(1, Some(0), 10), (1, Some(20), 10)]);
        all.forget_file(KEY);
        assert_eq!((all.of(KEY, 0, 30), all.count), (vec![], 0));
        let mut all = writers(&[(1, Some(0), 10)]);
        all.forget_device(KEY.0);
        assert_eq!((all.of(KEY, 0, 30), all.count), (vec![], 0));
    }
}
