//! Sums of a job by rank and host, and how far the ranks differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::group_stats::GroupStats;
use super::job_keys::CaptureKeys;
use super::rank_activity::{ActiveSpan, FileActivity, RankActivity};
use super::rank_balance::{RankAmounts, RankBalance, RankReading};
use super::summary::IoSummary;
use crate::capture::header::Header;
use crate::operation::model::ProcessKey;

/// Place in a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankPlace {
    /// Rank; `None`: processes of no rank, or of one that is not known.
    pub rank: Option<u64>,
    /// Number of the host.
    pub host: usize,
}

/// Operations of a rank on a host.
#[derive(Clone, Debug, Default)]
pub struct RankSum {
    /// Sum of its operations.
    pub stats: GroupStats,
    /// Beginning of its first operation on a file and end of its last one, since the start of the
    /// job.
    pub span: ActiveSpan,
    /// Bytes read from and written to files.
    pub file_bytes: u64,
    /// Key of the file with most time, and that time, ns; of several captures of one rank that of
    /// the capture in which it is longest.
    pub busiest: Option<(Vec<u8>, u64)>,
}

impl RankSum {
    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.stats.merge(&other.stats);
        self.span.add(other.span);
        self.file_bytes = self.file_bytes.saturating_add(other.file_bytes);
        self.keep_busiest(other.busiest.clone());
    }

    fn keep_busiest(&mut self, other: Option<(Vec<u8>, u64)>) {
        let longest = self.busiest.as_ref().map_or(0, |(_, ns)| *ns);
        if other.as_ref().is_some_and(|(_, ns)| *ns > longest || self.busiest.is_none()) {
            self.busiest = other;
        }
    }
}

/// Ranks of a recording, and whether it could be read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedRanks {
    /// Ranks that were recorded.
    pub ranks: Vec<u64>,
    /// True if the recording is damaged, or has no end.
    pub is_damaged: bool,
}

impl CapturedRanks {
    /// Returns those that the header of a recording has.
    pub fn of(header: &Header) -> Self {
        let of_node = header.scope.ranks.iter().filter_map(|process| process.rank);
        let ranks = header.rank().into_iter().chain(of_node).collect();
        Self { ranks, is_damaged: false }
    }
}

/// Sums by rank and host.
#[derive(Clone, Debug, Default)]
pub struct RankRows {
    /// Sums by place.
    pub rows: BTreeMap<RankPlace, RankSum>,
    /// Names of hosts by number.
    pub hosts: BTreeMap<usize, Arc<str>>,
    /// Ranks that were not read to the end of each recording.
    incomplete: BTreeMap<u64, RankReading>,
    /// Recordings that were added, by host and ranks, with their number.
    added: BTreeMap<(usize, Vec<u64>), u64>,
}

impl RankRows {
    /// Adds the operations of one more capture of these ranks: those of each process to its rank,
    /// the others to that of the capture.
    pub fn add(
        &mut self,
        sums: &IoSummary,
        activity: Option<&RankActivity>,
        captured: &CapturedRanks,
        keys: &mut CaptureKeys<'_>,
    ) {
        let (host, of_capture) = (keys.place.host, keys.place.rank);
        self.hosts.entry(host).or_insert_with(|| Arc::clone(&keys.place.host_name));
        self.note(host, captured);
        let rank_of = |process: ProcessKey| {
            sums.names.info(process).and_then(|info| info.rank).or(of_capture)
        };
        for (process, sum) in sums.processes.iter() {
            self.row(rank_of(*process), host).stats.merge(&sum.tally);
        }
        if let Some(sum) = sums.processes.others() {
            self.row(of_capture, host).stats.merge(&sum.tally);
        }
        let Some(activity) = activity else { return };
        for (process, on_files) in activity.processes.iter() {
            self.add_activity(rank_of(*process), on_files, keys);
        }
        if let Some(on_files) = activity.processes.others() {
            self.add_activity(of_capture, on_files, keys);
        }
        let names: BTreeMap<usize, &Vec<u8>> =
            activity.files.keys().map(|(key, row)| (row, key)).collect();
        for (rank, (file, ns)) in activity.busiest_files(rank_of) {
            let name = names.get(&file).map(|key| (keys.file(key), ns));
            self.row(rank, host).keep_busiest(name);
        }
    }

    /// Notes a recording that is added. A rank without an operation has a row, too.
    fn note(&mut self, host: usize, captured: &CapturedRanks) {
        for rank in &captured.ranks {
            self.row(Some(*rank), host);
            if captured.is_damaged {
                self.note_incomplete(*rank, RankReading::Part);
            }
        }
        *self.added.entry((host, captured.ranks.clone())).or_default() += 1;
    }

    fn note_incomplete(&mut self, rank: u64, reading: RankReading) {
        let known = self.incomplete.entry(rank).or_default();
        *known = reading.max(*known);
    }

    /// Compares the recordings that were added with all of the job, by host and ranks: ranks of
    /// those that are missing are not compared with others.
    pub fn expect(&mut self, recordings: impl Iterator<Item = (usize, Vec<u64>)>) {
        for recording in recordings {
            match self.added.get_mut(&recording).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => {
                    for rank in recording.1 {
                        self.note_incomplete(rank, RankReading::None);
                    }
                }
            }
        }
    }

    fn add_activity(&mut self, rank: Option<u64>, on_files: &FileActivity, keys: &CaptureKeys<'_>) {
        let time = |time| keys.time(time);
        let FileActivity { span, bytes } = on_files;
        let span = ActiveSpan { first: span.first.map(time), last: span.last.map(time) };
        let row = self.row(rank, keys.place.host);
        row.span.add(span);
        row.file_bytes = row.file_bytes.saturating_add(*bytes);
    }

    fn row(&mut self, rank: Option<u64>, host: usize) -> &mut RankSum {
        self.rows.entry(RankPlace { rank, host }).or_default()
    }

    /// Returns the sums of all ranks, each with the number of its host: that of
    /// its largest part, if it was recorded on several.
    pub fn ranks(&self) -> BTreeMap<u64, (usize, RankSum)> {
        let mut ranks: BTreeMap<u64, (usize, RankSum)> = BTreeMap::new();
        let mut largest: BTreeMap<u64, u64> = BTreeMap::new();
        for (place, sum) in &self.rows {
            let Some(rank) = place.rank else { continue };
            let row = ranks.entry(rank).or_insert_with(|| (place.host, RankSum::default()));
            row.1.merge(sum);
            let most = largest.entry(rank).or_default();
            if sum.stats.count > *most {
                (*most, row.0) = (sum.stats.count, place.host);
            }
        }
        ranks
    }

    /// Returns the sums of all hosts, with the number of ranks of each.
    pub fn of_hosts(&self) -> BTreeMap<usize, (u64, RankSum)> {
        let mut ranks: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        let mut hosts: BTreeMap<usize, (u64, RankSum)> = BTreeMap::new();
        for (place, sum) in &self.rows {
            hosts.entry(place.host).or_default().1.merge(sum);
            ranks.entry(place.host).or_default().extend(place.rank);
        }
        for (host, row) in &mut hosts {
            row.0 = ranks.get(host).map_or(0, |ranks| ranks.len() as u64);
        }
        hosts
    }

    /// Returns how far the ranks differ.
    pub fn balance(&self) -> RankBalance {
        let ranks = self.ranks();
        let all: BTreeSet<u64> = ranks.keys().chain(self.incomplete.keys()).copied().collect();
        let amounts = all.into_iter().map(|rank| {
            let sum = ranks.get(&rank).map(|(_, sum)| sum);
            let amount = |of: fn(&RankSum) -> u64| sum.map_or(0, of);
            RankAmounts {
                rank,
                file_ns: amount(|sum| sum.stats.own_time()),
                file_bytes: amount(|sum| sum.file_bytes),
                file_operations: amount(|sum| sum.stats.own),
                last_ns: sum.and_then(|sum| sum.span.last).map(|time| time.0),
                reading: self.incomplete.get(&rank).copied().unwrap_or_default(),
            }
        });
        RankBalance::of(&amounts.collect::<Vec<RankAmounts>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rank_balance::{RankEnd, RankExtreme};
    use crate::units::KernelTime;

    fn rows(all: &[(Option<u64>, usize, u64, u64)]) -> RankRows {
        let mut rows = RankRows::default();
        for &(rank, host, written, last) in all {
            let stats = GroupStats { count: 1, ..GroupStats::default() };
            let span = ActiveSpan { first: Some(KernelTime(1)), last: Some(KernelTime(last)) };
            let busiest = Some((format!("/f{host}").into_bytes(), written));
            let file_bytes = written;
            rows.row(rank, host).merge(&RankSum { stats, span, file_bytes, busiest });
        }
        rows
    }

    #[test]
    fn ranks_are_compared_with_ranks_only() {
        let rows = rows(&[
            (Some(0), 0, 10, 50),
            (Some(1), 0, 20, 60),
            (Some(2), 1, 90, 400),
            (None, 1, 999, 999),
        ]);
        let found = rows.balance();
        assert_eq!(found.ranks, 3);
        assert_eq!(found.file_bytes, RankExtreme { rank: 2, max: 90, sum: 120, ranks: 3 });
        let last = found.last.expect("three ends");
        assert_eq!((last.end, last.next.ns, last.median_ns), (RankEnd::new(400, 2), 60, 60));
        assert_eq!(rows.of_hosts()[&1].0, 1);
        assert_eq!(rows.of_hosts()[&1].1.file_bytes, 1089);
    }

    /// Fails if a rank that was recorded on two hosts is two ranks.
    #[test]
    fn parts_of_a_rank_are_one() {
        let rows = rows(&[(Some(0), 0, 10, 50), (Some(0), 1, 30, 70), (Some(1), 1, 5, 9)]);
        let ranks = rows.ranks();
        assert_eq!(ranks.len(), 2);
        assert_eq!(ranks[&0].1.file_bytes, 40);
        assert_eq!(ranks[&0].1.busiest, Some((b"/f1".to_vec(), 30)));
        assert_eq!(rows.balance().file_bytes.max, 40);
    }

    /// Fails if a rank whose recording is missing or damaged is compared, or one without an
    /// operation is not.
    #[test]
    fn ranks_of_missing_and_damaged_recordings_are_left_out() {
        let mut rows = rows(&[(Some(0), 0, 10, 50), (Some(1), 0, 20, 60), (Some(2), 1, 90, 400)]);
        let captured =
            |ranks: &[u64], is_damaged| CapturedRanks { ranks: ranks.to_vec(), is_damaged };
        for ranks in [captured(&[0], false), captured(&[1], true), captured(&[6, 7], false)] {
            rows.note(0, &ranks);
        }
        rows.note(1, &captured(&[2], false));
        let all = [(0, vec![0]), (0, vec![1]), (1, vec![2]), (1, vec![2]), (1, vec![4, 5])];
        rows.expect(all.into_iter().chain([(0, vec![6, 7]), (1, Vec::new())]));
        let found = rows.balance();
        assert_eq!((found.ranks, found.left_out.as_slice()), (3, [1, 2, 4, 5].as_slice()));
        assert_eq!(found.file_bytes, RankExtreme { rank: 0, max: 10, sum: 10, ranks: 3 });
    }
}
