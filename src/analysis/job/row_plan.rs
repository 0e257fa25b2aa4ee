//! Rows of a job: which recording has which ranks, their order, and the lines of the map that they
//! share. It is made of the headers, before a recording is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::FxHashMap;

/// Largest number of lines of the map.
pub const LINES_MAX: usize = 200;

/// Ranks of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedRanks {
    /// One rank, with all of its processes.
    One(u64),
    /// The ranks of a node, and maybe other processes.
    Several(Vec<u64>),
    /// The whole machine.
    Machine,
    /// A program that has no rank.
    None,
}

/// Host and ranks of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingScope {
    /// Number of the host.
    pub host: usize,
    /// Ranks that it has.
    pub ranks: RecordedRanks,
}

/// Subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowSubject {
    /// Rank of the job.
    Rank(u64),
    /// Recording of a program without a rank, by its number.
    Recording(usize),
    /// All processes of a machine.
    Machine,
    /// Processes that belong to no rank.
    Others,
}

/// Host and subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRowKey {
    /// Number of the host.
    pub host: usize,
    /// Subject on that host.
    pub subject: RowSubject,
}

/// Rows of the operations of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingRows {
    /// All operations have one row.
    One(usize),
    /// Each rank has a row, and the processes without a rank have another one.
    ByRank {
        /// Rows of the ranks.
        ranks: FxHashMap<u64, usize>,
        /// Row of the other processes.
        others: usize,
    },
}

/// Rows of a job.
#[derive(Clone, Debug, Default)]
pub struct RowPlan {
    /// Rows, those of a host together.
    pub rows: Vec<JobRowKey>,
    /// Rows of each line of the map.
    pub lines: Vec<Range<usize>>,
    /// Rows of each recording.
    pub recordings: Vec<RecordingRows>,
}

impl RowPlan {
    /// Plans the rows of recordings. Hosts are in the order of their first ranks.
    pub fn new(recordings: &[RecordingScope]) -> Self {
        let mut of_host: BTreeMap<usize, BTreeSet<RowSubject>> = BTreeMap::new();
        for (number, scope) in recordings.iter().enumerate() {
            of_host.entry(scope.host).or_default().extend(subjects(number, &scope.ranks));
        }
        let mut hosts: Vec<(usize, BTreeSet<RowSubject>)> = of_host.into_iter().collect();
        // Ranks are before all other subjects.
        hosts.sort_by_key(|(host, subjects)| (subjects.first().copied(), *host));
        let mut rows = Vec::new();
        for (host, subjects) in hosts {
            rows.extend(subjects.into_iter().map(|subject| JobRowKey { host, subject }));
        }
        let places: BTreeMap<JobRowKey, usize> =
            rows.iter().enumerate().map(|(row, key)| (*key, row)).collect();
        let recordings = recordings.iter().enumerate().map(|(number, scope)| {
            let host = scope.host;
            let row = |subject| places.get(&JobRowKey { host, subject }).copied().unwrap_or(0);
            match &scope.ranks {
                RecordedRanks::Several(ranks) => RecordingRows::ByRank {
                    ranks: ranks.iter().map(|rank| (*rank, row(RowSubject::Rank(*rank)))).collect(),
                    others: row(RowSubject::Others),
                },
                single => {
                    let subject = subjects(number, single).next();
                    RecordingRows::One(row(subject.unwrap_or(RowSubject::Machine)))
                }
            }
        });
        let recordings = recordings.collect();
        Self { lines: lines(&rows, LINES_MAX), rows, recordings }
    }

    /// Returns true if a row is of a rank.
    pub fn has_ranks(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.subject, RowSubject::Rank(_)))
    }
}

/// Subjects of a recording.
fn subjects(number: usize, ranks: &RecordedRanks) -> impl Iterator<Item = RowSubject> {
    let (one, several) = match ranks {
        RecordedRanks::One(rank) => (RowSubject::Rank(*rank), [].as_slice()),
        RecordedRanks::Several(ranks) => (RowSubject::Others, ranks.as_slice()),
        RecordedRanks::Machine => (RowSubject::Machine, [].as_slice()),
        RecordedRanks::None => (RowSubject::Recording(number), [].as_slice()),
    };
    std::iter::once(one).chain(several.iter().map(|rank| RowSubject::Rank(*rank)))
}

/// Divides rows among at most `most` lines: equal numbers of rows of one host each, or of
/// neighbouring hosts if there are too many.
fn lines(rows: &[JobRowKey], most: usize) -> Vec<Range<usize>> {
    let hosts: Vec<usize> =
        rows.chunk_by(|one, other| one.host == other.host).map(<[JobRowKey]>::len).collect();
    let needed = |size: usize| hosts.iter().map(|rows| rows.div_ceil(size)).sum::<usize>();
    if hosts.len() > most {
        return parts(0..rows.len(), rows.len().div_ceil(most));
    }
    let size = (1..=rows.len()).find(|size| needed(*size) <= most).unwrap_or(1);
    let mut lines = Vec::new();
    let mut first = 0;
    for count in hosts {
        lines.extend(parts(first..first + count, size));
        first += count;
    }
    lines
}

/// Parts of a range, all but the last one of this size.
fn parts(range: Range<usize>, size: usize) -> Vec<Range<usize>> {
    let end = range.end;
    range.step_by(size.max(1)).map(|first| first..(first + size).min(end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(host: usize, rank: u64) -> JobRowKey {
        JobRowKey { host, subject: RowSubject::Rank(rank) }
    }

    #[test]
    fn rows_are_in_the_order_of_hosts_and_ranks() {
        let scope = |host, ranks| RecordingScope { host, ranks };
        let plan = RowPlan::new(&[
            scope(0, RecordedRanks::One(5)),
            scope(1, RecordedRanks::Several(vec![1, 0])),
            scope(0, RecordedRanks::One(4)),
            scope(0, RecordedRanks::One(5)),
            scope(2, RecordedRanks::Machine),
            scope(2, RecordedRanks::None),
        ]);
        let on = |host, subject| JobRowKey { host, subject };
        let expected = [
            rank(1, 0),
            rank(1, 1),
            on(1, RowSubject::Others),
            rank(0, 4),
            rank(0, 5),
            on(2, RowSubject::Recording(5)),
            on(2, RowSubject::Machine),
        ];
        assert_eq!(plan.rows, expected);
        let [first, node, .., machine, program] = plan.recordings.as_slice() else { panic!() };
        assert_eq!((first, machine), (&RecordingRows::One(4), &RecordingRows::One(6)));
        assert_eq!(program, &RecordingRows::One(5));
        let RecordingRows::ByRank { ranks, others } = node else { panic!() };
        assert_eq!((ranks[&0], ranks[&1], *others), (0, 1, 2));
        assert_eq!(plan.lines.len(), 7);
        assert!(plan.has_ranks());
    }

    #[test]
    fn lines_have_rows_of_one_host_if_there_is_room() {
        let rows = |hosts: usize, each: u64| -> Vec<JobRowKey> {
            (0..hosts).flat_map(|host| (0..each).map(move |number| rank(host, number))).collect()
        };
        for (hosts, each, most) in [
            (1, 1, 4),
            (2, 3, 4),
            (4, 3, 4),
            (3, 7, 8),
            (78, 128, 200),
            (10_000, 1, 200),
            (1, 0, 4),
        ] {
            let rows = rows(hosts, each);
            let lines = lines(&rows, most);
            assert!(lines.len() <= most, "{hosts} {each}: {}", lines.len());
            let all: Vec<usize> = lines.iter().cloned().flatten().collect();
            assert_eq!(all, (0..rows.len()).collect::<Vec<_>>());
            let is_mixed = |line: &Range<usize>| rows[line.start].host != rows[line.end - 1].host;
            assert_eq!(lines.iter().any(is_mixed), hosts > most);
        }
    }
}
