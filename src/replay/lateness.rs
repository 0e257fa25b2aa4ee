//! Lateness of a replay.

use crate::analysis::histogram::Histogram;
use crate::units::Nanos;

/// Lateness above which an operation is very late.
const VERY_LATE: Nanos = Nanos(1_000_000);

/// Lateness, at their start, of operations or requests with a due time.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    /// Distribution in ns.
    spread: Histogram,
    /// Number of operations that began more than 1 ms late.
    pub very_late: u64,
}

impl Lateness {
    /// Adds an operation with its lateness.
    pub fn add(&mut self, late: Nanos) {
        self.spread.add(late.0);
        self.very_late += u64::from(late > VERY_LATE);
    }

    /// Adds all operations of another statistic.
    pub fn merge(&mut self, other: &Self) {
        self.spread.merge(&other.spread);
        self.very_late += other.very_late;
    }

    /// Returns the lateness that `per_mille` of 1000 operations did not exceed; `None`: no
    /// operation had a due time.
    pub fn percentile(&self, per_mille: u64) -> Option<Nanos> {
        self.spread.percentile(per_mille).map(Nanos)
    }

    /// Returns the highest lateness; `None`: no operation had a due time.
    pub fn max(&self) -> Option<Nanos> {
        Some(Nanos(self.spread.max())).filter(|_| self.spread.count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_without_slack_was_not_late() {
        let mut late = Lateness::default();
        assert_eq!((late.percentile(990), late.max(), late.very_late), (None, None, 0));
        late.add(Nanos(0));
        let none = Some(Nanos(0));
        assert_eq!((late.percentile(990), late.max(), late.very_late), (none, none, 0));
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let fold = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut late = Lateness::default();
            numbers.for_each(|it| late.add(Nanos(it * 1000)));
            late
        };
        let whole = fold(&mut (0..2003));
        let mut parts = fold(&mut (0..1009));
        parts.merge(&fold(&mut (1009..2003)));
        assert_eq!((whole.max(), whole.very_late), (Some(Nanos(2_002_000)), 1002));
        assert_eq!((parts.max(), parts.very_late), (whole.max(), whole.very_late));
        assert_eq!(parts.percentile(500), whole.percentile(500));
    }
}
