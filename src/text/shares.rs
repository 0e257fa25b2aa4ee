//! Percentages that add up: the largest remainders are rounded up, the others down.

/// Tenths of a percent of each part. Their sum is the share of all parts in the whole, rounded; so
/// parts that add up to the whole result in 1000.
pub fn tenths(parts: &[u64], whole: u64) -> Vec<u64> {
    let whole = u128::from(whole);
    if whole == 0 {
        return vec![0; parts.len()];
    }
    let sum: u128 = parts.iter().copied().map(u128::from).sum();
    let mut shares: Vec<u128> = parts.iter().map(|part| u128::from(*part) * 1000 / whole).collect();
    let all = (sum * 1000 + whole / 2) / whole;
    let left = all.saturating_sub(shares.iter().sum());
    let remainder =
        |number: &usize| parts.get(*number).map_or(0, |part| u128::from(*part) * 1000 % whole);
    let mut order: Vec<usize> = (0..parts.len()).collect();
    // Of equal remainders the first is rounded up: the sort is stable.
    order.sort_by_key(|order| std::cmp::Reverse(remainder(order)));
    for index in order.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares.into_iter().map(|share| u64::try_from(share).unwrap_or(u64::MAX)).collect()
}

/// Formats the share of a part in a whole as `99.8 %`.
pub fn of(part: u64, whole: u64) -> String {
    percent(tenths(&[part], whole).into_iter().sum())
}

/// Formats tenths as `99.8 %`.
pub fn percent(tenths: u64) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_of_a_whole_make_all_of_it() {
        assert_eq!(tenths(&[1, 1, 1], 3), [334, 333, 333]);
        assert_eq!(tenths(&[2, 4, 1], 7), [286, 571, 143]);
        assert_eq!(tenths(&[1, 1], 3), [334, 333]);
        assert_eq!(tenths(&[5, 0], 5), [1000, 0]);
        // A transfer counts for both of its files.
        assert_eq!(tenths(&[3, 3], 3), [1000, 1000]);
        assert_eq!(tenths(&[1], 0), [0]);
        assert_eq!(percent(998), "99.8 %");
        assert_eq!((of(1, 3), of(1, 0)), ("33.3 %".to_owned(), "0.0 %".to_owned()));
        assert_eq!(percent(1000), "100.0 %");
    }

    proptest! {
        #[test]
        fn none_is_off_by_a_tenth(parts in prop::collection::vec(0..u64::MAX / 64, 1..40), more in 0..u64::MAX / 64) {
            let sum: u64 = parts.iter().sum();
            let whole = sum + more;
            prop_assume!(whole > 0);
            let shares = tenths(&parts, whole);
            for (part, share) in parts.iter().zip(&shares) {
                let exact = u128::from(*part) * 1000;
                let product = u128::from(*share) * u128::from(whole);
                prop_assert!(product.abs_diff(exact) < u128::from(whole));
            }
            if more == 0 {
                prop_assert_eq!(shares.iter().sum::<u64>(), 1000);
            }
        }
    }
}
