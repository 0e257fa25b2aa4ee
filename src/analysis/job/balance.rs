//! Ranks of a job that are compared, and their balance.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::fold::{JobFold, RankRow};
use super::row_plan::RowSubject;
use crate::analysis::rank_balance::{RankAmounts, RankBalance};

/// Ranks that are compared, each with its rows on all hosts, the one with most operations first. A
/// job without ranks has its rows in their place, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedRanks(pub BTreeMap<u64, Vec<usize>>);

impl ComparedRanks {
    /// Returns those of a job.
    pub fn of(fold: &JobFold) -> Self {
        let mut ranks: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (number, row) in fold.rows.iter().enumerate() {
            if let Some(rank) = Self::number(fold, number, row) {
                ranks.entry(rank).or_default().push(number);
            }
        }
        let operations = |row: &usize| fold.rows.get(*row).map(|row| row.sums.operations);
        ranks.values_mut().for_each(|rows| rows.sort_by_key(|row| Reverse(operations(row))));
        Self(ranks)
    }

    /// Returns the number by which a row is compared; `None`: it is not.
    pub fn number(fold: &JobFold, number: usize, row: &RankRow) -> Option<u64> {
        match row.key.subject {
            RowSubject::Rank(rank) => Some(rank),
            RowSubject::Others => None,
            RowSubject::Machine | RowSubject::Recording(_) => {
                (!fold.plan.has_ranks()).then_some(number as u64)
            }
        }
    }

    /// Returns the number of ranks.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the row of a rank, that with most operations if there are several.
    pub fn row(&self, rank: u64) -> Option<usize> {
        self.0.get(&rank)?.first().copied()
    }

    /// Returns all rows of a rank.
    pub fn rows<'a>(&self, fold: &'a JobFold, rank: u64) -> Vec<&'a RankRow> {
        let rows = self.0.get(&rank).into_iter().flatten();
        rows.filter_map(|row| fold.rows.get(*row)).collect()
    }

    /// Returns the amounts of a rank.
    pub fn amounts(&self, fold: &JobFold, rank: u64) -> RankAmounts {
        let mut amounts = RankAmounts { rank, ..RankAmounts::default() };
        for row in self.rows(fold, rank) {
            amounts.file_ns = amounts.file_ns.saturating_add(row.sums.file_ns);
            amounts.file_bytes = amounts.file_bytes.saturating_add(row.sums.file_bytes());
            amounts.file_operations += row.sums.file_operations;
            amounts.last_ns = amounts.last_ns.max(row.last.map(|time| time.0));
            amounts.reading = amounts.reading.max(row.reading);
        }
        amounts
    }

    /// Returns the balance.
    pub fn balance(&self, fold: &JobFold) -> RankBalance {
        let amounts = self.0.keys().map(|rank| self.amounts(fold, *rank));
        RankBalance::of(&amounts.collect::<Vec<RankAmounts>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::job::row_plan::{RecordedRanks, RecordingScope, RowPlan};
    use crate::analysis::rank_balance::RankReading;
    use crate::units::KernelTime;

    /// Fails if a rank on two hosts is two ranks, or processes without a rank are compared.
    #[test]
    fn parts_of_a_rank_are_one() {
        let scopes = [(0, RecordedRanks::Several(vec![0, 1])), (1, RecordedRanks::One(1))]
            .map(|(host, ranks)| RecordingScope { host, ranks });
        let mut fold = JobFold::new(RowPlan::new(&scopes), 0, KernelTime(0), KernelTime(9));
        for (row, file_ns) in fold.rows.iter_mut().zip([10, 20, 900, 30]) {
            row.sums.file_ns = file_ns;
            row.sums.operations = file_ns;
            row.last = Some(KernelTime(file_ns));
        }
        let ranks = ComparedRanks::of(&fold);
        assert_eq!((ranks.count(), ranks.row(1)), (2, Some(3)));
        let balance = ranks.balance(&fold);
        assert_eq!((balance.file_ns.max, balance.file_ns.mean()), (50, 30));
        assert_eq!(balance.last.expect("two ends").end.ns, 30);
        fold.rows[1].reading = RankReading::None;
        assert_eq!(ranks.balance(&fold).left_out, [1]);
    }
}
