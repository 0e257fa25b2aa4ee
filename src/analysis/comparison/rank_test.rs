//! Rank test of Mann and Whitney: whether values of one sample tend to be larger than those of
//! another. Exact for the sizes of samples here, and without an assumption on their distribution.

/// Largest number of runs of a side.
pub const RUNS_MAX: usize = 100;

/// Test for samples of two sizes.
#[derive(Clone, Debug)]
pub struct RankTest {
    /// Number of pairs of values.
    pairs: usize,
    /// Probabilities that at most this number of pairs have the larger value in the first sample.
    tails: Vec<f64>,
}

impl RankTest {
    /// Creates the test for samples of these sizes; beyond [`RUNS_MAX`] it shows nothing.
    pub fn new(one: usize, other: usize) -> Self {
        let pairs = if one.max(other) > RUNS_MAX { 0 } else { one * other };
        let ways = if pairs == 0 { Vec::new() } else { ways(one, other) };
        let all: f64 = ways.iter().sum();
        let mut tail = 0.0;
        let tails = ways.into_iter().map(|number| {
            tail += number / all;
            tail
        });
        Self { pairs, tails: tails.collect() }
    }

    /// Returns the probability, from 0 to 1, that two samples of one distribution differ at least
    /// as much in their ranks as these (two-sided). Equal values of both samples count half, which
    /// makes the result larger, never smaller. 1 for samples of other sizes.
    pub fn probability(&self, one: &[u64], other: &[u64]) -> f64 {
        if one.len() * other.len() != self.pairs {
            return 1.0;
        }
        let doubled: usize = one
            .iter()
            .flat_map(|value| other.iter().map(move |of_other| value.cmp(of_other)))
            .map(|order| match order {
                std::cmp::Ordering::Greater => 2,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Less => 0,
            })
            .sum();
        let smaller = doubled.min((2 * self.pairs).saturating_sub(doubled)).div_ceil(2);
        self.tails.get(smaller).map_or(1.0, |tail| (2.0 * tail).min(1.0))
    }
}

/// Numbers of the orders of `n` and `m` different values, by the number of pairs whose first value
/// is the larger one.
fn ways(n: usize, m: usize) -> Vec<f64> {
    // By the number of values chosen for the first sample, and by the pairs that they make. The
    // values come in their order, the smallest first.
    let mut table = vec![vec![0.0; n * m + 1]; n + 1];
    if let Some(first) = table.first_mut().and_then(|row| row.first_mut()) {
        *first = 1.0;
    }
    for place in 0..n + m {
        // From the back: each value is chosen once.
        for chosen in (1..=n.min(place + 1)).rev() {
            // A chosen value is larger than those of the other sample that came before it.
            let below = place + 1 - chosen;
            if below > m {
                continue;
            }
            for pairs in (below..=n * m).rev() {
                let before = table[chosen - 1][pairs - below];
                table[chosen][pairs] += before;
            }
        }
    }
    table.pop().unwrap_or_default()
}

/// Returns for each probability whether it shows a difference, if the chance that any of them shows
/// one without cause is at most `level` (Holm).
pub fn significant(probabilities: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let value = |place: &usize| probabilities.get(*place).copied().unwrap_or(1.0);
    order.sort_by(|one, other| value(one).total_cmp(&value(other)));
    let mut shown = vec![false; probabilities.len()];
    let mut left = probabilities.len();
    for place in order {
        #[expect(clippy::cast_precision_loss, reason = "a number of rows")]
        let limit = level / left as f64;
        if value(&place) > limit {
            break;
        }
        if let Some(flag) = shown.get_mut(place) {
            *flag = true;
        }
        left -= 1;
    }
    shown
}

/// Median of values; the mean of the two in the middle, rounded down; 0 without any.
pub fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0);
    if sorted.len() % 2 == 1 {
        at(middle)
    } else {
        at(middle.saturating_sub(1)).midpoint(at(middle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &[u64], other: &[u64], expected: f64) {
        for [one, other] in [[one, other], [other, one]] {
            let found = RankTest::new(one.len(), other.len()).probability(one, other);
            assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
        }
    }

    /// Expected values: all orders counted by hand, or `scipy.stats.mannwhitneyu(method="exact")`.
    #[test]
    fn probabilities_are_exact() {
        check(&[1], &[2], 1.0);
        check(&[1, 2, 3], &[4, 5, 6], 2.0 / 20.0);
        check(&[1, 2, 3, 4, 5], &[6, 7, 8, 9, 10], 2.0 / 252.0);
        check(&[1, 2, 3, 5], &[4, 6, 7, 8], 4.0 / 70.0);
        check(&[1, 3, 5, 7], &[2, 4, 6, 8], 0.685_714_285_714_285_7);
        check(&[1, 2], &[1, 2], 1.0);
    }

    #[test]
    fn every_order_is_counted() {
        for (n, m, orders) in [(1, 1, 2.0), (3, 2, 10.0), (5, 5, 252.0), (10, 10, 184_756.0)] {
            let sum: f64 = ways(n, m).iter().sum();
            assert!((sum - orders).abs() < 1e-6, "{n} {m}: {sum}");
        }
    }

    #[test]
    fn empty_and_huge_samples_show_nothing() {
        for (one, other) in [(0, 1), (200, 2)] {
            let test = RankTest::new(one, other);
            assert!(test.probability(&vec![1; one], &vec![2; other]) >= 1.0);
        }
    }

    #[test]
    fn many_rows_need_a_smaller_probability() {
        assert_eq!(significant(&[0.008], 0.01), [true]);
        assert_eq!(significant(&[0.008, 0.9], 0.01), [false, false]);
        assert_eq!(significant(&[0.9, 0.004, 0.0005, 0.006], 0.01), [false, false, true, false]);
    }

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!([median(&[]), median(&[7]), median(&[9, 1]), median(&[3, 1, 2])], [0, 7, 5, 2]);
    }
}
