//! Sums of a job by rank and host, and how far the ranks differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::group_stats::GroupStats;
use super::job_keys::CaptureKeys;
use super::rank_activity::{ActiveSpan, RankActivity};
use super::summary::IoSummary;
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
    /// Key of the file with most time, and that time, ns; of several captures of one rank that of
    /// the capture in which it is longest.
    pub busiest: Option<(Vec<u8>, u64)>,
}

impl RankSum {
    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.stats.merge(&other.stats);
        self.span.add(other.span);
        self.keep_busiest(other.busiest.clone());
    }

    fn keep_busiest(&mut self, other: Option<(Vec<u8>, u64)>) {
        let longest = self.busiest.as_ref().map_or(0, |(_, ns)| *ns);
        if other.as_ref().is_some_and(|(_, ns)| *ns > longest || self.busiest.is_none()) {
            self.busiest = other;
        }
    }

    /// Returns the bytes that were moved.
    pub fn bytes(&self) -> u64 {
        self.stats.read.saturating_add(self.stats.written)
    }
}

/// Sums by rank and host.
#[derive(Clone, Debug, Default)]
pub struct RankRows {
    /// Sums by place.
    pub rows: BTreeMap<RankPlace, RankSum>,
    /// Names of hosts by number.
    pub hosts: BTreeMap<usize, Arc<str>>,
}

impl RankRows {
    /// Adds the operations of one more capture: those of each process to its rank, the others to
    /// that of the capture.
    pub fn add(
        &mut self,
        sums: &IoSummary,
        activity: Option<&RankActivity>,
        keys: &mut CaptureKeys<'_>,
    ) {
        let (host, of_capture) = (keys.place.host, keys.place.rank);
        self.hosts.entry(host).or_insert_with(|| Arc::clone(&keys.place.host_name));
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
        for (process, span) in activity.spans.iter() {
            let time = |time| keys.time(time);
            let span = ActiveSpan { first: span.first.map(time), last: span.last.map(time) };
            self.row(rank_of(*process), host).span.add(span);
        }
        if let Some(span) = activity.spans.others() {
            let time = |time| keys.time(time);
            let span = ActiveSpan { first: span.first.map(time), last: span.last.map(time) };
            self.row(of_capture, host).span.add(span);
        }
        let names: BTreeMap<usize, &Vec<u8>> =
            activity.files.keys().map(|(key, row)| (row, key)).collect();
        for (rank, (file, ns)) in activity.busiest_files(rank_of) {
            let name = names.get(&file).map(|key| (keys.file(key), ns));
            self.row(rank, host).keep_busiest(name);
        }
    }

    fn row(&mut self, rank: Option<u64>, host: usize) -> &mut RankSum {
        self.rows.entry(RankPlace { rank, host }).or_default()
    }

    /// Returns the sums of all ranks that did something, each with the number of its host: that of
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

    /// Returns how far the ranks differ; `None`: there are fewer than two.
    pub fn imbalance(&self) -> Option<Imbalance> {
        let ranks = self.ranks();
        let count = ranks.len() as u64;
        if count < 2 {
            return None;
        }
        let amount = |of: fn(&RankSum) -> u64| {
            let all = ranks.iter().map(|(rank, (_, sum))| (of(sum), std::cmp::Reverse(*rank)));
            let (max, std::cmp::Reverse(rank)) = all.max().unwrap_or_default();
            let sum = ranks.values().map(|(_, sum)| u128::from(of(sum))).sum::<u128>();
            let mean = u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX);
            RankExtreme { rank, max, mean }
        };
        let mut ends: Vec<(u64, u64)> =
            ranks.iter().filter_map(|(rank, (_, sum))| Some((sum.span.last?.0, *rank))).collect();
        ends.sort_unstable();
        let last = ends.last().filter(|_| ends.len() > 1).map(|&(end_ns, rank)| {
            let median_ns = ends.get((ends.len() - 1) / 2).map_or(end_ns, |end| end.0);
            LastRank { rank, end_ns, median_ns }
        });
        Some(Imbalance {
            ranks: count,
            file_ns: amount(|sum| sum.stats.own_time()),
            bytes: amount(RankSum::bytes),
            last,
        })
    }
}

/// Difference between the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// Number of ranks with operations.
    pub ranks: u64,
    /// Time on files, ns.
    pub file_ns: RankExtreme,
    /// Bytes that were moved.
    pub bytes: RankExtreme,
    /// Rank whose I/O ended last; `None`: fewer than two did I/O on files.
    pub last: Option<LastRank>,
}

/// Largest amount of a rank, and the mean of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankExtreme {
    /// Rank with the largest amount: the first one of several.
    pub rank: u64,
    /// Amount of that rank.
    pub max: u64,
    /// Mean of all ranks with operations, rounded down.
    pub mean: u64,
}

/// Rank whose I/O on files ended last, with times since the start of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRank {
    /// The rank.
    pub rank: u64,
    /// End of its last operation, ns.
    pub end_ns: u64,
    /// Median of these ends of all ranks, ns: the lower one of two.
    pub median_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::KernelTime;

    fn rows(all: &[(Option<u64>, usize, u64, u64)]) -> RankRows {
        let mut rows = RankRows::default();
        for &(rank, host, written, last) in all {
            let stats = GroupStats { count: 1, written, ..GroupStats::default() };
            let span = ActiveSpan { first: Some(KernelTime(1)), last: Some(KernelTime(last)) };
            let busiest = Some((format!("/f{host}").into_bytes(), written));
            rows.row(rank, host).merge(&RankSum { stats, span, busiest });
        }
        rows
    }

    #[test]
    fn imbalance_is_between_ranks_only() {
        let rows = rows(&[
            (Some(0), 0, 10, 50),
            (Some(1), 0, 20, 60),
            (Some(2), 1, 90, 400),
            (None, 1, 999, 999),
        ]);
        let found = rows.imbalance().expect("three ranks");
        assert_eq!(found.ranks, 3);
        assert_eq!(found.bytes, RankExtreme { rank: 2, max: 90, mean: 40 });
        assert_eq!(found.last, Some(LastRank { rank: 2, end_ns: 400, median_ns: 60 }));
        assert_eq!(rows.of_hosts()[&1].0, 1);
        assert_eq!(rows.of_hosts()[&1].1.bytes(), 1089);
    }

    #[test]
    fn one_rank_has_no_imbalance() {
        assert_eq!(rows(&[(Some(0), 0, 10, 50), (None, 0, 1, 1)]).imbalance(), None);
        assert_eq!(RankRows::default().imbalance(), None);
    }

    /// Fails if a rank that was recorded on two hosts is two ranks.
    #[test]
    fn parts_of_a_rank_are_one() {
        let rows = rows(&[(Some(0), 0, 10, 50), (Some(0), 1, 30, 70), (Some(1), 1, 5, 9)]);
        let ranks = rows.ranks();
        assert_eq!(ranks.len(), 2);
        assert_eq!(ranks[&0].1.bytes(), 40);
        assert_eq!(ranks[&0].1.busiest, Some((b"/f1".to_vec(), 30)));
        assert_eq!(rows.imbalance().expect("two").bytes.max, 40);
    }
}
