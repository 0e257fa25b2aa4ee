//! Clock of a reference at any time of another host's clock: from comparisons by messages before
//! and after a job.
//!
//! ```text
//!   reference − host            ╱  one comparison: constant; the drift is not known, and the
//!      │    ┊      ┬────────●──╱   bound grows to both sides
//!      │  ┬ ┊ ╱────●
//!      │  ●───────────────●────    two: a line; the bound has those of both ends, and what clocks
//!      │  ┴               ┴        may deviate from a line between them
//!      └─────────────────────────►
//! ```
//!
//! Two assumptions: the rates of two clocks differ by at most [`RATE_PPB`], and between two
//! comparisons by at most [`RATE_CHANGE_PPB`] from their mean. A daemon that corrects a clock
//! faster, and corrects it back before the next comparison, is not seen.

use super::clock_exchange::{OffsetReading, RATE_PPB};
use crate::units::KernelTime;

/// Largest deviation of the rate of two clocks from its mean between two comparisons, in parts of
/// 1,000,000,000: an assumption about quartz in a machine room, and about a clock daemon that has
/// settled.
pub const RATE_CHANGE_PPB: u64 = 1_000;

/// Parts of the rates.
const PARTS: u64 = 1_000_000_000;

/// Clock of the reference as a function of the clock of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageClock {
    /// Comparisons that the line goes through, in the order of time; equal if there is no line.
    ends: [OffsetReading; 2],
    /// Difference of the rates from that of the line, in parts of 1,000,000,000: between its ends,
    /// and outside.
    rates_ppb: [u64; 2],
    /// Largest difference of a comparison from the line, and the error of both, ns, if that is more
    /// than the bound allows.
    excess_ns: u64,
}

impl MessageClock {
    /// Returns the clock that these comparisons of one boot show; `None`: there are none.
    pub fn of(readings: &[OffsetReading]) -> Option<Self> {
        let first = *readings.iter().min_by_key(|reading| (reading.time, reading.bound_ns))?;
        let last =
            *readings.iter().max_by_key(|reading| (reading.time, u64::MAX - reading.bound_ns))?;
        let best = *readings.iter().min_by_key(|reading| reading.bound_ns)?;
        let found = rate_ppb(&first, &last).zip(rate_error_ppb(&first, &last));
        let clock = match found {
            // A clock with another rate was slewed or stood still, at a time that is not known.
            Some((rate, error)) if error < RATE_PPB && rate <= RATE_PPB + error => Self {
                ends: [first, last],
                rates_ppb: [RATE_CHANGE_PPB, RATE_PPB + rate],
                excess_ns: 0,
            },
            _ => Self { ends: [best; 2], rates_ppb: [RATE_PPB; 2], excess_ns: 0 },
        };
        let excess = |reading: &OffsetReading| {
            let difference = clock.offset_ns(reading.time).abs_diff(reading.offset_ns);
            let allowed = u128::from(clock.bound_ns(reading.time)) + u128::from(reading.bound_ns);
            // It may have become so at any time, and have drifted before or since.
            let whole = difference.saturating_add(allowed);
            (difference > allowed).then(|| u64::try_from(whole).unwrap_or(u64::MAX))
        };
        let excess_ns = readings.iter().filter_map(excess).max().unwrap_or(0);
        Some(Self { excess_ns, ..clock })
    }

    /// Returns the clock for a span of time: that of the nearest comparison before it, of the
    /// nearest one after it, and of those between.
    pub fn around(readings: &[OffsetReading], span: [KernelTime; 2]) -> Option<Self> {
        let [start, end] = span;
        let times = || readings.iter().map(|reading| reading.time);
        let first = times().filter(|time| *time <= start).max().or_else(|| times().min())?;
        let last = times().filter(|time| *time >= end).min().or_else(|| times().max())?;
        let is_near = |reading: &&OffsetReading| (first..=last).contains(&reading.time);
        let near: Vec<OffsetReading> = readings.iter().filter(is_near).copied().collect();
        Self::of(&near)
    }

    /// Returns the clock of the reference itself.
    pub fn of_reference() -> Self {
        let none = OffsetReading { time: KernelTime(0), offset_ns: 0, bound_ns: 0 };
        Self { ends: [none; 2], rates_ppb: [0; 2], excess_ns: 0 }
    }

    /// Returns the clock of the reference less that of the host at a time of the host, ns.
    pub fn offset_ns(&self, time: KernelTime) -> i128 {
        let [first, last] = self.ends;
        let length = i128::from(last.time.0) - i128::from(first.time.0);
        if length == 0 {
            return first.offset_ns;
        }
        let past = i128::from(time.0) - i128::from(first.time.0);
        first.offset_ns + ((last.offset_ns - first.offset_ns).saturating_mul(past)) / length
    }

    /// Returns the largest error at a time of the host, ns.
    pub fn bound_ns(&self, time: KernelTime) -> u64 {
        let [first, last] = self.ends;
        let [inside, outside] = self.rates_ppb;
        let (before, after) = (time.0.abs_diff(first.time.0), time.0.abs_diff(last.time.0));
        let bound = if time < first.time {
            first.bound_ns.saturating_add(share(before, outside))
        } else if time > last.time {
            last.bound_ns.saturating_add(share(after, outside))
        } else {
            // The error of the line is between those of its ends.
            let ends = first.bound_ns.max(last.bound_ns);
            ends.saturating_add(share(before.min(after), inside))
        };
        bound.saturating_add(self.excess_ns)
    }

    /// Returns the largest error between two times of the host, ns.
    pub fn largest_bound_ns(&self, start: KernelTime, end: KernelTime) -> u64 {
        let end = end.max(start);
        let [first, last] = self.ends.map(|reading| reading.time.0);
        let corners = [start.0, end.0, first, last, first.midpoint(last)];
        let inside = corners.map(|time| KernelTime(time).clamp(start, end));
        inside.into_iter().map(|time| self.bound_ns(time)).max().unwrap_or(u64::MAX)
    }

    /// Returns the rate of the reference's clock less that of the host, in parts of 1,000,000,000;
    /// `None`: it is not known.
    pub fn drift_ppb(&self) -> Option<i64> {
        let [first, last] = self.ends;
        let length = i128::from(last.time.0) - i128::from(first.time.0);
        let change = (last.offset_ns - first.offset_ns).saturating_mul(PARTS.into());
        i64::try_from(change.checked_div(length)?).ok()
    }

    /// True if comparisons contradict the line by more than its bound, which has the difference.
    pub fn has_excess(&self) -> bool {
        self.excess_ns > 0
    }
}

/// Part of a time, ns, rounded up.
fn share(ns: u64, ppb: u64) -> u64 {
    let part = (u128::from(ns) * u128::from(ppb)).div_ceil(PARTS.into());
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Largest error of the rate that a line through two comparisons shows; `None`: both are of one
/// time.
fn rate_error_ppb(first: &OffsetReading, last: &OffsetReading) -> Option<u64> {
    let length = u128::from(last.time.0.checked_sub(first.time.0)?);
    let bounds = u128::from(first.bound_ns) + u128::from(last.bound_ns);
    let error = (bounds * u128::from(PARTS)).checked_div(length)?;
    Some(u64::try_from(error).unwrap_or(u64::MAX).saturating_add(1))
}

/// Rate of a line through two comparisons, without its sign; `None`: both are of one time, or no
/// clock runs like this.
fn rate_ppb(first: &OffsetReading, last: &OffsetReading) -> Option<u64> {
    let length = u128::from(last.time.0.checked_sub(first.time.0)?);
    let change = last.offset_ns.abs_diff(first.offset_ns).checked_mul(PARTS.into())?;
    u64::try_from(change.checked_div(length)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capture::clock_exchange::{Exchange, shortest};

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    fn reading(time: u64, offset_ns: i128, bound_ns: u64) -> OffsetReading {
        OffsetReading { time: KernelTime(time), offset_ns, bound_ns }
    }

    /// Clock of the reference at a time of the host.
    #[derive(Clone, Copy, Debug)]
    struct Truth {
        offset_ns: i64,
        drift_ppb: i64,
    }

    impl Truth {
        fn offset_at(self, time: u64) -> i128 {
            let drifted = i128::from(time) * i128::from(self.drift_ppb) / 1_000_000_000;
            i128::from(self.offset_ns) + drifted
        }

        fn exchange(self, sent: u64, ways: [u64; 2]) -> Exchange {
            let reference = |time: u64| {
                u64::try_from(i128::from(time) + self.offset_at(time)).expect("after the boot")
            };
            Exchange {
                sent_ns: sent,
                received_ns: reference(sent + ways[0]),
                answered_ns: reference(sent + ways[0] + 900),
                returned_ns: sent + ways[0] + 900 + ways[1],
            }
        }
    }

    fn comparison(truth: Truth, begin: u64, delays: &[[u64; 2]]) -> OffsetReading {
        let mut sent = begin;
        let mut exchanges = Vec::new();
        for ways in delays {
            exchanges.push(truth.exchange(sent, *ways));
            sent += ways[0] + ways[1] + 100_000;
        }
        let kept = shortest(exchanges, 8);
        let readings = kept.iter().filter_map(Exchange::reading);
        readings.min_by_key(|reading| reading.bound_ns).expect("an exchange")
    }

    /// Fails if the clock is off by more than it states.
    #[track_caller]
    fn check(clock: &MessageClock, truth: impl Fn(u64) -> i128, times: &[u64]) {
        for &time in times {
            let (at, bound) = (KernelTime(time), clock.bound_ns(KernelTime(time)));
            let error = clock.offset_ns(at).abs_diff(truth(time));
            // A nanosecond is lost where a quotient is rounded.
            assert!(error <= u128::from(bound) + 1, "{time}: {error} ns, bound {bound} ns");
        }
    }

    #[test]
    fn offsets_and_drifts_of_the_requirement_are_found_within_the_bound() {
        for (offset_ns, drift_ppb) in
            [(50_000_000, 20_000), (-50_000_000, -20_000), (50_000_000, 0), (0, 20_000)]
        {
            let truth = Truth { offset_ns, drift_ppb };
            // An asymmetric path: one way takes ten times as long.
            let delays = [[30_000, 3_000], [33_000, 2_900], [90_000, 5_000]];
            let before = comparison(truth, 100 * S, &delays);
            let after = comparison(truth, 700 * S, &delays);
            let clock = MessageClock::of(&[after, before]).expect("readings");
            let times: Vec<u64> = (90..=710).step_by(5).map(|second| second * S).collect();
            check(&clock, |time| truth.offset_at(time), &times);
            let drift = clock.drift_ppb().expect("a line");
            assert!(drift.abs_diff(drift_ppb) < 100, "{drift}");
            assert!(clock.bound_ns(KernelTime(100 * S)) < 20_000, "{clock:?}");
            let largest = clock.largest_bound_ns(KernelTime(100 * S), KernelTime(700 * S));
            assert!((300_000..330_000).contains(&largest), "{largest}");
            assert!(!clock.has_excess());
        }
    }

    #[test]
    fn one_comparison_has_a_bound_that_grows() {
        let truth = Truth { offset_ns: 50_000_000, drift_ppb: -20_000 };
        let only = comparison(truth, 100 * S, &[[4_000, 4_000]]);
        let clock = MessageClock::of(&[only]).expect("a reading");
        check(&clock, |time| truth.offset_at(time), &[S, 99 * S, 100 * S, 101 * S, 3_600 * S]);
        assert_eq!(clock.drift_ppb(), None);
        assert_eq!(clock.bound_ns(only.time), 4_002);
        let later = KernelTime(only.time.0 + 10 * S);
        assert_eq!(clock.bound_ns(later), 4_002 + 10 * 200_000);
        // Two that are close together show no drift: the better one counts.
        let again = comparison(truth, 100 * S + 5 * MS, &[[9_000, 9_000]]);
        let both = MessageClock::of(&[only, again]).expect("readings");
        assert_eq!(both, clock);
    }

    /// Fails if a comparison that does not fit is not in the bound.
    #[test]
    fn comparisons_off_the_line_are_in_the_bound() {
        let [first, last] = [reading(100 * S, 0, 5_000), reading(700 * S, 6_000, 5_000)];
        let middle = reading(400 * S, 2_000_000, 5_000);
        let clock = MessageClock::of(&[first, middle, last]).expect("readings");
        assert!(clock.has_excess());
        let own = 5_000 + 300_000;
        assert_eq!(clock.bound_ns(KernelTime(400 * S)), own + 2_000_000 - 3_000 + own + 5_000);
        // A virtual machine that stood still for an hour.
        let stopped = reading(700 * S, i128::from(3_600 * S), 5_000);
        let clock = MessageClock::of(&[first, stopped]).expect("readings");
        assert!(clock.bound_ns(KernelTime(400 * S)) > 3_599 * S, "{clock:?}");
    }

    /// Fails if a rate that no two clocks have is taken for a drift: a clock was slewed, or stood
    /// still, at some time between the comparisons.
    #[test]
    fn rates_that_clocks_do_not_have_are_in_the_bound() {
        let times: Vec<u64> = (100..=700).map(|second| second * S).collect();
        for moved_at in [101, 250, 399, 699] {
            for drift in [0, 200, -200] {
                let truth = |time: u64| {
                    let past = i128::from(time) - i128::from(100 * S);
                    let moved = if time < moved_at * S { 0 } else { 300 * MS };
                    i128::from(moved) + past * drift / 1_000_000
                };
                let ends = [100 * S, 700 * S].map(|time| reading(time, truth(time), 5_000));
                let clock = MessageClock::of(&ends).expect("readings");
                assert!(clock.has_excess(), "{clock:?}");
                check(&clock, truth, &times);
            }
        }
        // 200 parts in a million, and something more.
        let drift_of = |offset_ns: u64| {
            let ends = [reading(100 * S, 0, 5_000), reading(700 * S, offset_ns.into(), 5_000)];
            MessageClock::of(&ends).expect("readings").drift_ppb()
        };
        assert_eq!((drift_of(120 * MS), drift_of(121 * MS)), (Some(200_000), None));
    }

    /// Fails if a comparison long before a recording moves its events or widens their bound, or
    /// if one that surrounds it is not used.
    #[test]
    fn comparisons_that_surround_a_span_count() {
        // The temperature, and with it the rate, was another one until 1,000 s.
        let truth = |time: u64| i128::from(time.saturating_sub(1_000 * S)) * 50 / 1_000_000;
        let all = [0, 500, 1_000, 2_000, 3_000].map(|second| {
            let time = second * S;
            reading(time, truth(time), 5_000)
        });
        let span = [1_100 * S, 1_900 * S].map(KernelTime);
        let clock = MessageClock::around(&all, span).expect("readings");
        assert_eq!((clock.has_excess(), clock.drift_ppb()), (false, Some(50_000)));
        let times: Vec<u64> = (1_100..=1_900).map(|second| second * S).collect();
        check(&clock, truth, &times);
        let largest = clock.largest_bound_ns(span[0], span[1]);
        assert_eq!(largest, 5_000 + 500_000);
        assert!(MessageClock::of(&all).expect("readings").has_excess());
        // Comparisons within the span are checked.
        let wide = MessageClock::around(&all, [500 * S, 1_900 * S].map(KernelTime));
        assert!(wide.expect("readings").has_excess());
        // Without one after it, or before it, the nearest one is constant.
        for (span, nearest) in [([3_100, 3_200], 3_000), ([0, 0], 0)] {
            let clock = MessageClock::around(&all, span.map(|second| KernelTime(second * S)));
            let clock = clock.expect("readings");
            assert_eq!(clock.drift_ppb(), None);
            assert_eq!(clock.bound_ns(KernelTime(nearest * S)), 5_000);
        }
        assert_eq!(MessageClock::around(&[], span), None);
    }

    /// Fails if a line is trusted beyond its ends: the rate may be another one there.
    #[test]
    fn other_rates_beyond_the_comparisons_are_in_the_bound() {
        for rate in [-200, 200] {
            let truth = |time: u64| {
                let after = i128::from(time.saturating_sub(700 * S));
                i128::from(time) * 20 / 1_000_000 + after * (rate - 20) / 1_000_000
            };
            let ends = [100 * S, 700 * S].map(|time| reading(time, truth(time), 10));
            let clock = MessageClock::of(&ends).expect("readings");
            check(&clock, truth, &[700 * S, 701 * S, 3_600 * S]);
        }
    }

    #[test]
    fn extreme_readings_have_no_overflow() {
        let ends = [reading(0, i128::from(u64::MAX), u64::MAX), reading(u64::MAX, 0, u64::MAX)];
        for readings in [&ends[..1], &ends[1..], &ends[..]] {
            let clock = MessageClock::of(readings).expect("readings");
            for time in [0, 1, u64::MAX / 2, u64::MAX] {
                let _ = (clock.offset_ns(KernelTime(time)), clock.bound_ns(KernelTime(time)));
            }
            let _ = clock.largest_bound_ns(KernelTime(u64::MAX), KernelTime(0));
        }
        assert_eq!(MessageClock::of(&[]), None);
        let own = MessageClock::of_reference();
        assert_eq!(own.offset_ns(KernelTime(u64::MAX)), 0);
        assert_eq!(own.largest_bound_ns(KernelTime(0), KernelTime(u64::MAX)), 0);
    }

    proptest! {
        #[test]
        fn true_offset_is_always_within_the_bound(
            offset_ns in -50_000_000..50_000_000_i64,
            drift_ppb in -20_000..20_000_i64,
            delays in prop::collection::vec([0..900_000_u64, 0..900_000_u64], 1..40),
            later in prop::collection::vec([0..900_000_u64, 0..900_000_u64], 1..40),
            seconds in 1..4_000_u64,
        ) {
            let truth = Truth { offset_ns, drift_ppb };
            let before = comparison(truth, 100 * S, &delays);
            let after = comparison(truth, (100 + seconds) * S, &later);
            let times: Vec<u64> = (0..40).map(|part| 50 * S + part * (seconds + 100) * S / 39).collect();
            for readings in [&[before, after][..], &[before], &[after]] {
                let clock = MessageClock::of(readings).expect("readings");
                check(&clock, |time| truth.offset_at(time), &times);
            }
        }

        /// Fails if the bound does not hold for clocks whose rate changes within the stated limit.
        #[test]
        fn rates_that_change_within_the_limit_are_in_the_bound(
            switch in 1..599_u64,
            change_ppb in -1_000..1_000_i64,
        ) {
            // The rate is the mean less something, and then the mean and something.
            let [first, second] = [change_ppb, -change_ppb * i64::try_from(switch).expect("small")
                / i64::try_from(600 - switch).expect("small")];
            prop_assume!(second.abs() <= 1_000);
            let truth = |time: u64| {
                let past = i128::from(time) - i128::from(100 * S);
                let until = past.min(i128::from(switch * S));
                (until * i128::from(first) + (past - until) * i128::from(second)) / 1_000_000_000
            };
            let clock = MessageClock::of(&[
                reading(100 * S, truth(100 * S), 10),
                reading(700 * S, truth(700 * S), 10),
            ]).expect("readings");
            let times: Vec<u64> = (100..=700).map(|second| second * S).collect();
            check(&clock, truth, &times);
        }
    }
}
