//! Balance of a job: how far its ranks differ, and which of them ended its I/O last. `summary` and
//! the page of a job have it from here, so that they answer alike.
//!
//! | Recording of a rank | In means and in the order of ends |
//! |---|---|
//! | read to its end | yes, also if the rank did no I/O |
//! | damaged, or without an end | only if no rank is whole; then there is no order of ends |
//! | not read | no |
//!
//! A rank that was recorded on several hosts is one.

/// Largest number of ranks that are named if one of them is the last.
pub const LAST_NAMED_MAX: usize = 4;

/// Part of the recordings of a rank that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankReading {
    /// All of them, to their ends.
    #[default]
    Whole,
    /// One is damaged, or has no end.
    Part,
    /// One was not read at all.
    None,
}

/// Amounts of a rank that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankAmounts {
    /// Number by which the caller finds the rank again.
    pub rank: u64,
    /// Time in operations on files, ns.
    pub file_ns: u64,
    /// Bytes read from and written to files.
    pub file_bytes: u64,
    /// Operations on files.
    pub file_operations: u64,
    /// End of the last operation on a file, ns; `None`: there was none.
    pub last_ns: Option<u64>,
    /// Part that was read.
    pub reading: RankReading,
}

/// Largest amount of a rank, beside those of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankExtreme {
    /// Rank with the largest amount: the first one of several.
    pub rank: u64,
    /// Amount of that rank.
    pub max: u64,
    /// Sum over all ranks.
    pub sum: u64,
    /// Number of ranks.
    pub ranks: u64,
}

impl RankExtreme {
    fn of(ranks: &[&RankAmounts], amount: fn(&RankAmounts) -> u64) -> Self {
        let mut extreme = Self { ranks: ranks.len() as u64, ..Self::default() };
        for (place, rank) in ranks.iter().enumerate() {
            let amount = amount(rank);
            extreme.sum = extreme.sum.saturating_add(amount);
            if amount > extreme.max || place == 0 {
                (extreme.max, extreme.rank) = (amount, rank.rank);
            }
        }
        extreme
    }

    /// Returns the mean, rounded down.
    pub fn mean(&self) -> u64 {
        self.sum / self.ranks.max(1)
    }

    /// Returns the largest amount as a multiple of the mean; `None`: all are 0.
    pub fn ratio(&self) -> Option<f64> {
        self.multiple(self.max)
    }

    /// Returns an amount as a multiple of the mean; `None`: all are 0.
    pub fn multiple(&self, amount: u64) -> Option<f64> {
        // Three digits are shown, so nothing is lost.
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let ratio = amount as f64 * self.ranks as f64 / self.sum as f64;
        (self.sum > 0).then_some(ratio)
    }
}

/// Differences of the ranks of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankBalance {
    /// Number of ranks that are compared.
    pub ranks: u64,
    /// Ranks that are not compared, as a recording was not read, or is damaged; in order.
    pub left_out: Vec<u64>,
    /// True if no rank is whole, so that the amounts are those of parts.
    pub is_of_parts: bool,
    /// Time in operations on files, ns.
    pub file_ns: RankExtreme,
    /// Bytes read from and written to files.
    pub file_bytes: RankExtreme,
    /// Operations on files.
    pub file_operations: RankExtreme,
    /// Latest ends; `None`: fewer than two ranks did I/O on files, or no rank is whole.
    pub last: Option<LastRanks>,
}

impl RankBalance {
    /// Compares ranks, of which each occurs once.
    pub fn of(all: &[RankAmounts]) -> Self {
        let is_of_parts = !all.iter().any(|rank| rank.reading == RankReading::Whole);
        let wanted = if is_of_parts { RankReading::Part } else { RankReading::Whole };
        let (ranks, left_out): (Vec<&RankAmounts>, Vec<&RankAmounts>) =
            all.iter().partition(|rank| rank.reading == wanted);
        let ends = ranks.iter().filter_map(|rank| Some(RankEnd::new(rank.last_ns?, rank.rank)));
        let mut left_out: Vec<u64> = left_out.iter().map(|rank| rank.rank).collect();
        left_out.sort_unstable();
        Self {
            ranks: ranks.len() as u64,
            left_out,
            is_of_parts: is_of_parts && !ranks.is_empty(),
            file_ns: RankExtreme::of(&ranks, |rank| rank.file_ns),
            file_bytes: RankExtreme::of(&ranks, |rank| rank.file_bytes),
            file_operations: RankExtreme::of(&ranks, |rank| rank.file_operations),
            last: LastRanks::of(ends.collect()).filter(|_| !is_of_parts),
        }
    }

    /// Returns true if a rank is compared with others.
    pub fn compares(&self, rank: u64) -> bool {
        self.left_out.binary_search(&rank).is_err()
    }
}

/// End of the I/O of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankEnd {
    /// Time of the end, ns.
    pub ns: u64,
    /// The rank.
    pub rank: u64,
}

impl RankEnd {
    /// Creates the end of a rank.
    pub fn new(ns: u64, rank: u64) -> Self {
        Self { ns, rank }
    }
}

/// Latest ends of several ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRanks {
    /// Latest end: of several the one of the first rank.
    pub end: RankEnd,
    /// End before that one.
    pub next: RankEnd,
    /// Median of all ends, ns: the lower one of two.
    pub median_ns: u64,
    /// Number of ranks with an end.
    pub ranks: u64,
    /// Ends before the next one, the latest first; they are as many as decide which are named.
    others: Vec<RankEnd>,
}

/// Decision on the rank that ended last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastRank {
    /// One rank ended later than every other.
    One(RankEnd),
    /// One of these ranks ended last, and which one is not known.
    OneOf(Vec<u64>),
    /// Nothing is known: too many ranks may be the last.
    Unknown,
}

impl LastRanks {
    /// Returns the latest ends; `None`: there are fewer than two.
    pub fn of(mut ends: Vec<RankEnd>) -> Option<Self> {
        ends.sort_unstable_by_key(|end| (std::cmp::Reverse(end.ns), end.rank));
        let [end, next, others @ ..] = ends.as_slice() else { return None };
        Some(Self {
            end: *end,
            next: *next,
            median_ns: ends.get(ends.len() / 2).map_or(end.ns, |end| end.ns),
            ranks: ends.len() as u64,
            others: others.iter().take(LAST_NAMED_MAX - 1).copied().collect(),
        })
    }

    /// Decides which rank ended last, if the distance of two ends is known but for `error_ns`. A
    /// rank is the last one only if every other ended earlier by more than that. Ranks of which one
    /// is the last are named if they are few, and at most half of all.
    pub fn decide(&self, error_ns: u64) -> LastRank {
        let ends = || [&self.end, &self.next].into_iter().chain(&self.others);
        let may_be_last = |end: &&RankEnd| self.end.ns - end.ns <= error_ns;
        let mut ranks: Vec<u64> = ends().filter(may_be_last).map(|end| end.rank).collect();
        ranks.sort_unstable();
        match ranks.len() {
            0 | 1 => LastRank::One(self.end),
            few if few <= LAST_NAMED_MAX && few as u64 * 2 <= self.ranks => LastRank::OneOf(ranks),
            _ => LastRank::Unknown,
        }
    }

    /// Returns the shortest time by which the last rank ended after the next one, ns; `None`: it is
    /// not known which rank is the last.
    pub fn lead(&self, error_ns: u64) -> Option<u64> {
        let lead = (self.end.ns - self.next.ns).saturating_sub(error_ns);
        Some(lead).filter(|ns| *ns > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(ends: &[u64]) -> LastRanks {
        let ends = ends.iter().zip(0..).map(|(ns, rank)| RankEnd::new(*ns, rank));
        LastRanks::of(ends.collect()).expect("two ends")
    }

    #[test]
    fn last_rank_is_later_than_every_other_by_more_than_the_error() {
        let ends = last(&[1_000_000, 1_000_000, 4_999_900, 5_000_000]);
        assert_eq!(ends.decide(99), LastRank::One(RankEnd::new(5_000_000, 3)));
        assert_eq!(ends.lead(99), Some(1));
        for error_ns in [100, 1_000_000, 3_999_899] {
            assert_eq!(ends.decide(error_ns), LastRank::OneOf(vec![2, 3]), "{error_ns}");
            assert_eq!(ends.lead(error_ns), None);
        }
        assert_eq!(ends.decide(4_000_000), LastRank::Unknown);
        assert_eq!((ends.median_ns, ends.ranks), (1_000_000, 4));
    }

    #[test]
    fn one_of_two_ranks_can_be_the_last() {
        assert_eq!(last(&[50, 10]).decide(39), LastRank::One(RankEnd::new(50, 0)));
        assert_eq!(last(&[50, 10]).decide(40), LastRank::Unknown);
        assert_eq!(last(&[50, 10]).median_ns, 10);
        assert_eq!(LastRanks::of(vec![RankEnd::new(7, 0)]), None);
    }

    /// Fails if ranks are named of which none may be the last, or if one is not named that may be.
    #[test]
    fn ranks_that_may_be_the_last_are_named_if_they_are_few() {
        for together in 2..=LAST_NAMED_MAX + 2 {
            let ends: Vec<u64> = (0..20).map(|rank| if rank < together { 90 } else { 5 }).collect();
            let expected = match together <= LAST_NAMED_MAX {
                true => LastRank::OneOf((0..together as u64).collect()),
                false => LastRank::Unknown,
            };
            assert_eq!(last(&ends).decide(0), expected, "{together}");
        }
    }

    fn rank(rank: u64, file_ns: u64, reading: RankReading) -> RankAmounts {
        RankAmounts { rank, file_ns, last_ns: Some(file_ns), reading, ..RankAmounts::default() }
    }

    #[test]
    fn ranks_that_were_not_read_to_their_ends_are_in_no_mean() {
        let ranks = [
            rank(0, 10, RankReading::Whole),
            rank(1, 0, RankReading::None),
            rank(2, 30, RankReading::Whole),
            rank(3, 90, RankReading::Part),
            RankAmounts { rank: 4, ..RankAmounts::default() },
        ];
        let balance = RankBalance::of(&ranks);
        assert_eq!((balance.ranks, balance.left_out.as_slice()), (3, [1, 3].as_slice()));
        assert_eq!(balance.file_ns, RankExtreme { rank: 2, max: 30, sum: 40, ranks: 3 });
        assert_eq!(balance.file_ns.mean(), 13);
        assert_eq!(balance.last.expect("two ends").ranks, 2);
        assert!(!balance.is_of_parts);
    }

    #[test]
    fn parts_are_compared_if_no_rank_is_whole_but_their_ends_are_not() {
        let ranks = [
            rank(0, 10, RankReading::Part),
            rank(1, 0, RankReading::None),
            rank(2, 30, RankReading::Part),
        ];
        let balance = RankBalance::of(&ranks);
        assert!(balance.is_of_parts);
        assert_eq!((balance.file_ns.max, balance.file_ns.mean()), (30, 20));
        assert_eq!((balance.left_out.as_slice(), balance.last), ([1].as_slice(), None));
        assert_eq!(RankBalance::of(&[]), RankBalance::default());
    }
}
