//! Sentences on the ranks of a job that `summary` and the page of a job have in common.

use super::rank_ranges::ranges;
use crate::analysis::rank_balance::{LastRank, LastRanks, RankBalance};
use crate::text::quantity::{count, counted_with, time};

/// Returns the sentence on the rank whose I/O ended last. What the clocks do not show is not
/// claimed: `bound_ns` is the error of the order of two hosts, `None` if a recording has no dates.
/// The zero of the times is at `zero_ns`.
pub fn last_io(
    last: &LastRanks,
    bound_ns: Option<u64>,
    zero_ns: u64,
    noun: &str,
    name: &dyn Fn(u64) -> String,
) -> String {
    let Some(bound) = bound_ns else {
        return format!("which {noun} ended its I/O last is not known: a recording has no dates");
    };
    let end = time(last.end.ns.saturating_sub(zero_ns));
    match last.decide(bound) {
        LastRank::One(one) => {
            let median = match last.ranks {
                2 => String::new(),
                _ => format!(" and {} after the median", time(one.ns - last.median_ns)),
            };
            format!(
                "{} ended its I/O last: {end} after the start, {} after {}{median}",
                name(one.rank),
                time(one.ns - last.next.ns),
                name(last.next.rank)
            )
        }
        LastRank::OneOf(ranks) if bound == 0 => {
            format!(
                "{} ended their I/O last, together, {end} after the start",
                listed(&ranks, name)
            )
        }
        LastRank::OneOf(ranks) => format!(
            "{} are the last to end their I/O, which of them is not known: the clocks agree to {}",
            listed(&ranks, name),
            time(bound)
        ),
        LastRank::Unknown if bound == 0 => {
            format!("several {noun}s ended their I/O last, together, {end} after the start")
        }
        LastRank::Unknown => format!(
            "which {noun} ended its I/O last is not known: the two latest ends are {} apart, and \
             the clocks agree to {}",
            time(last.end.ns - last.next.ns),
            time(bound)
        ),
    }
}

/// Names with commas and a last "and".
fn listed(ranks: &[u64], name: &dyn Fn(u64) -> String) -> String {
    let names: Vec<String> = ranks.iter().map(|rank| name(*rank)).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Returns the sentence on ranks that are not compared; `None`: all are.
pub fn left_out(balance: &RankBalance, noun: &str) -> Option<String> {
    let all = balance.left_out.iter().copied().collect();
    let which = if noun == "rank" { format!(" ({})", ranges(&all)) } else { String::new() };
    let number = all.len() as u64;
    let cause = match (balance.is_of_parts, number) {
        (true, 1) => "its recording was not read",
        (true, _) => "their recordings were not read",
        (false, 1) => "its recording was not read, or is damaged",
        (false, _) => "their recordings were not read, or are damaged",
    };
    (number > 0).then(|| {
        let left_out = counted_with(number, noun, ["is", "are"]);
        format!("{left_out} in no mean and not compared{which}: {cause}")
    })
}

/// Returns the sentence on a comparison of parts; `None`: the ranks are whole.
pub fn of_parts(balance: &RankBalance, noun: &str) -> Option<String> {
    balance.is_of_parts.then(|| {
        format!(
            "the recordings of all {} {noun}s that were read are damaged, or have no end: what is \
             compared are their readable parts, and which {noun} ended last is not known",
            count(balance.ranks)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rank_balance::RankEnd;

    fn text(ends: &[u64], bound_ns: Option<u64>) -> String {
        let ends = ends.iter().zip(0..).map(|(ns, rank)| RankEnd::new(*ns, rank)).collect();
        let last = LastRanks::of(ends).expect("two ends");
        last_io(&last, bound_ns, 0, "rank", &|rank| format!("rank {rank}"))
    }

    #[test]
    fn last_rank_is_claimed_only_beyond_the_bound_of_the_clocks() {
        let ends = [1_000_000, 1_000_000, 4_000_000, 5_000_000];
        let claim = "rank 3 ended its I/O last: 5.00 ms after the start, 1.00 ms after rank 2 and \
                     4.00 ms after the median";
        for bound in [0, 999_999] {
            assert_eq!(text(&ends, Some(bound)), claim);
        }
        let several = "rank 2 and rank 3 are the last to end their I/O, which of them is not known";
        for bound in [1_000_000, 3_999_999] {
            assert!(text(&ends, Some(bound)).starts_with(several), "{}", text(&ends, Some(bound)));
        }
        for bound in [Some(4_000_000), None] {
            let text = text(&ends, bound);
            assert!(text.starts_with("which rank ended its I/O last is not known: "), "{text}");
        }
        let near = [1_000_000, 1_000_000, 4_999_900, 5_000_000];
        assert!(text(&near, Some(1_000_000)).starts_with(several));
    }

    #[test]
    fn ends_at_one_time_on_one_clock_are_together() {
        let two = text(&[1, 1, 7_000_000, 7_000_000], Some(0));
        assert_eq!(
            two,
            "rank 2 and rank 3 ended their I/O last, together, 7.00 ms after the start"
        );
        let all = text(&[7_000_000; 3], Some(0));
        assert_eq!(all, "several ranks ended their I/O last, together, 7.00 ms after the start");
    }

    #[test]
    fn ranks_that_are_left_out_are_named() {
        let balance = RankBalance { left_out: vec![1, 2, 7], ..RankBalance::default() };
        let expected = "3 ranks are in no mean and not compared (1-2, 7): their recordings were \
                        not read, or are damaged";
        assert_eq!(left_out(&balance, "rank").as_deref(), Some(expected));
        assert_eq!(left_out(&RankBalance::default(), "rank"), None);
        assert_eq!(of_parts(&RankBalance::default(), "rank"), None);
    }
}
