//! Balance of a job: how far the rank with most is from the mean.

use super::fold::{JobFold, RankRow};
use super::phases::counted_rows;

/// Distribution of an amount over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankBalance {
    /// Sum over all ranks.
    pub sum: u64,
    /// Number of ranks.
    pub ranks: u64,
    /// Largest amount of a rank.
    pub max: u64,
    /// Row of the first rank with it.
    pub row: usize,
}

impl RankBalance {
    /// Returns the balance of an amount; `None`: there is no rank.
    pub fn of(fold: &JobFold, amount: impl Fn(&RankRow) -> u64) -> Option<Self> {
        let mut balance = Self::default();
        for (number, row) in counted_rows(fold) {
            let amount = amount(row);
            balance.sum = balance.sum.saturating_add(amount);
            balance.ranks += 1;
            if amount > balance.max || balance.ranks == 1 {
                (balance.max, balance.row) = (amount, number);
            }
        }
        (balance.ranks > 0).then_some(balance)
    }

    /// Returns the mean, rounded down.
    pub fn mean(&self) -> u64 {
        self.sum / self.ranks.max(1)
    }

    /// Returns the largest amount as a multiple of the mean; `None`: all are 0.
    pub fn ratio(&self) -> Option<f64> {
        multiple(self.max, self.sum, self.ranks)
    }
}

/// Returns an amount as a multiple of the mean of a sum over ranks; `None`: the sum is 0.
pub fn multiple(amount: u64, sum: u64, ranks: u64) -> Option<f64> {
    // Three digits are shown, so nothing is lost.
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let ratio = amount as f64 * ranks as f64 / sum as f64;
    (sum > 0).then_some(ratio)
}
