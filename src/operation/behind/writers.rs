//! Who wrote which bytes of a file last, by the calls that wrote: the kernel's threads bring them to the device later.

use std::rc::Rc;

use rangemap::RangeMap;
use rustc_hash::FxHashMap;

use super::extents::FileKey;
use crate::operation::model::{ProcessKey, ThreadInfo};
use crate::units::Pid;

/// Somebody who wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its incarnation.
    pub process: ProcessKey,
    /// The process.
    pub pid: Pid,
    /// Its name when it wrote.
    pub comm: Rc<[u8]>,
}

/// Who wrote one file.
#[derive(Debug, Default)]
struct Ranges {
    known: RangeMap<u64, Writer>,
    /// Those who wrote nobody knows where: an append.
    anywhere: Vec<Writer>,
}

/// All files.
#[derive(Debug, Default)]
pub(super) struct Writers {
    files: FxHashMap<FileKey, Ranges>,
    /// Ranges of all of them.
    count: usize,
}

/// Ranges that are remembered, over all files; then all are forgotten: nothing is inferred from a part of them.
const RANGES_MAX: usize = 1 << 20;

/// So many writers of one piece are told.
const TOLD_MAX: usize = 8;

impl Writers {
    /// Somebody wrote there.
    pub(super) fn wrote(
        &mut self,
        key: FileKey,
        by: &ThreadInfo,
        pid: Pid,
        offset: Option<u64>,
        bytes: u64,
    ) {
        if self.count >= RANGES_MAX {
            self.files.clear();
            self.count = 0;
        }
        let writer = Writer { process: by.process, pid, comm: by.comm.as_slice().into() };
        let ranges = self.files.entry(key).or_default();
        match offset.map(|begin| begin..begin.saturating_add(bytes)) {
            None if !ranges.anywhere.contains(&writer) => ranges.anywhere.push(writer),
            Some(range) if !range.is_empty() => {
                self.count -= ranges.known.len();
                ranges.known.insert(range, writer);
                self.count += ranges.known.len();
            }
            None | Some(_) => {}
        }
    }

    /// Who wrote these bytes.
    pub(super) fn of(&self, key: FileKey, begin: u64, end: u64) -> Vec<Writer> {
        let Some(ranges) = self.files.get(&key) else { return Vec::new() };
        let mut found: Vec<Writer> = Vec::new();
        let overlapping = (begin < end).then(|| ranges.known.overlapping(begin..end));
        let overlapping = overlapping.into_iter().flatten().map(|it| it.1);
        for writer in overlapping.chain(&ranges.anywhere) {
            if found.len() < TOLD_MAX && !found.iter().any(|it| it.process == writer.process) {
                found.push(writer.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::ThreadKey;
    use crate::units::{DevId, Tid};

    const KEY: FileKey = (DevId(1), 2);

    fn writers(list: &[(u32, Option<u64>, u64)]) -> Writers {
        let mut writers = Writers::default();
        for &(process, offset, bytes) in list {
            let (key, process) = (ThreadKey(process), ProcessKey(process));
            let by = ThreadInfo { key, process, tid: Tid(1), comm: b"w".to_vec() };
            writers.wrote(KEY, &by, Pid(1), offset, bytes);
        }
        writers
    }

    #[track_caller]
    fn check(list: &[(u32, Option<u64>, u64)], (begin, end): (u64, u64), expected: &[u32]) {
        let found = writers(list).of(KEY, begin, end);
        assert_eq!(found.iter().map(|it| it.process.0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn who_wrote_last_is_told() {
        let twice = [(1, Some(0), 100), (2, Some(40), 20)];
        check(&twice, (0, 40), &[1]);
        check(&twice, (45, 50), &[2]);
        check(&twice, (30, 70), &[1, 2]);
        check(&twice, (60, 61), &[1]);
        check(&twice, (100, 200), &[]);
        check(&[(1, Some(0), 100), (2, Some(0), 100)], (0, 100), &[2]);
    }

    #[test]
    fn one_that_goes_on_is_one_range() {
        let all = writers(&[(1, Some(0), 10), (1, Some(10), 10), (1, Some(5), 100)]);
        assert_eq!(all.count, 1);
        check(&[(2, Some(15), 5), (1, Some(0), 10), (1, Some(10), 10)], (0, 20), &[1]);
    }

    #[test]
    fn an_append_may_be_anywhere() {
        check(&[(1, Some(0), 10), (2, None, 10)], (0, 10), &[1, 2]);
    }
}
