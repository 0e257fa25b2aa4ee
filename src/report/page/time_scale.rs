//! Scale of the time axis that all charts share.

use std::ops::Range;

use super::input::PageInput;
use crate::analysis::timeline::TimeBin;
use crate::text::quantity;

/// Times of the left and the right end of a chart, ns since the begin of the first bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeScale {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// Width of a bin, ns.
    pub(super) bin_ns: u64,
    /// Begin of the first bin, ns since the beginning of the recording.
    pub(super) origin_ns: u64,
}

impl TimeScale {
    /// Scale of a whole recording, or of the bins that a filter has left.
    pub(super) fn of(input: &PageInput<'_>) -> Self {
        let fold = &input.fold.timeline;
        let bin_ns = fold.axis.width_ns();
        let end_ns = fold.bins.len() as u64 * bin_ns;
        let wall_ns = input.summary.end_time().0.saturating_sub(input.summary.start().0);
        // The depth is that of all requests, also of those that a filter leaves out.
        let is_used = |bin: &TimeBin| TimeBin { depth: 0, ..*bin } != TimeBin::default();
        let first = fold.bins.iter().position(is_used).unwrap_or(0) as u64;
        let last = fold.bins.iter().rposition(is_used).unwrap_or(0) as u64;
        let origin_ns = fold.axis.origin().0.saturating_sub(input.summary.start().0);
        let (from_ns, to_ns) = match (input.is_whole, fold.until) {
            // The last bin may begin before the end of the recording and end after it.
            (true, _) => (0, wall_ns.max(end_ns.saturating_sub(bin_ns))),
            (false, Some(until)) => {
                let until = until.min(input.summary.end_time());
                (0, until.0.saturating_sub(fold.axis.origin().0))
            }
            (false, None) => (first * bin_ns, (last + 1) * bin_ns),
        };
        Self { from_ns, to_ns: to_ns.max(from_ns + 1), bin_ns, origin_ns }
    }

    /// Returns the places of the bins that the scale shows.
    pub(super) fn bins(&self, bins: &[TimeBin]) -> Range<usize> {
        let place = |bin: u64| usize::try_from(bin).map_or(bins.len(), |bin| bin.min(bins.len()));
        place(self.from_ns / self.bin_ns)..place(self.to_ns.div_ceil(self.bin_ns))
    }

    /// Returns the duration of the scale, ns.
    pub(super) fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Returns the place of a time between the ends, from 0 to `width`.
    pub(super) fn x(&self, ns: u64, width: u32) -> f64 {
        let since = ns.clamp(self.from_ns, self.to_ns) - self.from_ns;
        ratio(since, self.ns()) * f64::from(width)
    }

    /// Returns times with their labels, at round distances.
    pub(super) fn ticks(&self, most: u64) -> Vec<(u64, String)> {
        let step = round_up(self.ns() / most.max(1));
        let first = (self.origin_ns + self.from_ns).div_ceil(step) * step;
        let times = (0..=most * 2).map(|number| first + number * step);
        let label = |ns: u64| match ns {
            0 => "0".to_owned(),
            _ => trimmed(&quantity::time(ns)),
        };
        let last = self.origin_ns + self.to_ns;
        times.take_while(|ns| *ns <= last).map(|ns| (ns - self.origin_ns, label(ns))).collect()
    }
}

/// Smallest number of 1, 2 or 5 times a power of ten that is not below this one.
pub(super) fn round_up(number: u64) -> u64 {
    let mut power = 1_u64;
    while power.saturating_mul(10) <= number {
        power *= 10;
    }
    let steps = [1, 2, 5, 10].map(|factor| power.saturating_mul(factor));
    steps.into_iter().find(|step| *step >= number).unwrap_or(number).max(1)
}

/// Upper end of an axis: a round number that is not below this one, and not far above.
pub(super) fn axis_end(number: u64) -> u64 {
    let tenth = round_up(number).div_ceil(10).max(1);
    let fits = |steps: &u64| tenth.saturating_mul(*steps) >= number;
    let steps = [2, 3, 4, 5, 6, 8, 10].into_iter().find(fits).unwrap_or(10);
    tenth.saturating_mul(steps)
}

/// Quantity without zeros at the end of its decimals: `2 s` for `2.00 s`.
pub(super) fn trimmed(quantity: &str) -> String {
    let Some((number, unit)) = quantity.split_once(' ') else { return quantity.to_owned() };
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}")
}

/// Quotient of two numbers, for places on the screen; 0 if the second is 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    // Nothing is lost that a screen could show.
    #[expect(clippy::cast_precision_loss, reason = "a place on the screen")]
    let quotient = part as f64 / whole.max(1) as f64;
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_scale() {
        let scale = TimeScale { from_ns: 0, to_ns: 2_345_000_000, bin_ns: 1 << 22, origin_ns: 0 };
        let labels: Vec<String> = scale.ticks(8).into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["0", "500 ms", "1 s", "1.5 s", "2 s"]);
        let scale = TimeScale { origin_ns: 1_300_000_000, ..scale };
        let ticks = scale.ticks(8);
        assert_eq!(ticks.first(), Some(&(200_000_000, "1.5 s".to_owned())));
        assert_eq!(ticks.last(), Some(&(2_200_000_000, "3.5 s".to_owned())));
        assert_eq!([1, 3, 7, 10, 11, 5000].map(round_up), [1, 5, 10, 10, 20, 5000]);
        assert_eq!([0, 1, 11, 23, 107, 5000].map(axis_end), [2, 2, 12, 25, 120, 5000]);
    }
}
