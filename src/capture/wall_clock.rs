//! Wall clock of a log at any of its times: from readings at the starts and ends of recordings.
//!
//! ```text
//!   wall − kernel                   ● reading at a start or an end
//!      │        ●───────●───────●   all agree: the offset is constant
//!      │                ___---●     they differ a little: a line from the first to the last
//!      │        ●---‾‾‾‾
//!      │                      ●     they differ by more than a clock drifts: a step; the offset is
//!      │        ●─────────────      that of the first reading
//!      └────────────────────────►
//! ```
//!
//! The bound has the whole difference: a step at any time between them has the same readings. A
//! line through a step would stretch durations, or let times go back.
//!
//! Linux slews both clocks alike, so on one machine they differ by steps only: the wall clock was
//! set, or the machine slept. Logs of other tools may have a clock that drifts.
//!
//! What readings cannot show is a wall clock that is wrong, and one that was set and set back
//! between two of them.

use super::header::{End, Header};
use crate::units::KernelTime;

/// Limit on the error of one reading, ns: the tracer reads both clocks five times and keeps the
/// pair that was closest together, some tenths of a microsecond. The log has no error of its own.
pub const READING_ERROR_NS: u64 = 10_000;

/// Largest difference of two offsets of the same boot, ns. The kernel's clock begins with the boot,
/// so its offset is the time of the boot.
const SAME_BOOT_NS: u128 = 1_000_000_000;

/// Largest change of an offset that is taken for a drift, as one part in this number of the time
/// between the readings: clocks of machines drift by less than 500 parts in a million.
const DRIFT_PART: i128 = 1_000;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Clock of the capture.
    pub time: KernelTime,
    /// `CLOCK_REALTIME`, ns since 1970.
    pub wall_ns: u64,
}

impl ClockReading {
    /// Returns the wall clock less the clock of the capture, ns.
    fn offset_ns(self) -> i128 {
        i128::from(self.wall_ns) - i128::from(self.time.0)
    }
}

/// Returns the readings of a log: at its start, and at its end if both clocks were read there at
/// the same moment; empty: the log has no dates.
pub fn readings(header: &Header, end: Option<&End>) -> Vec<ClockReading> {
    let clock = &header.clock;
    if clock.start_realtime_ns == 0 {
        return Vec::new();
    }
    let start = ClockReading { time: KernelTime(clock.start_ns), wall_ns: clock.start_realtime_ns };
    let last = end.filter(|end| end.end_ns > clock.start_ns).and_then(|end| {
        // `end_realtime_ns` is read at some time around the end.
        let elapsed = end.end_ns - clock.start_ns;
        let unmoved = clock.start_realtime_ns.saturating_add(elapsed);
        let wall_ns = unmoved.saturating_add_signed(end.wall_moved_ns?);
        Some(ClockReading { time: KernelTime(end.end_ns), wall_ns })
    });
    std::iter::once(start).chain(last).collect()
}

/// Returns true if two readings can be of the same boot of a machine.
pub fn is_same_boot(one: ClockReading, other: ClockReading) -> bool {
    one.offset_ns().abs_diff(other.offset_ns()) < SAME_BOOT_NS
}

/// Numbers of a [`WallClock`], for storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClockLine {
    /// Times of the capture between which the offset changes, ns.
    pub times_ns: [u64; 2],
    /// Offsets at these times, ns.
    pub offsets_ns: [i64; 2],
    /// Change of the offset from the first reading to the last, ns.
    pub moved_ns: i64,
    /// Largest error, ns; `None`: the capture has no dates.
    pub bound_ns: Option<u64>,
    /// Known correction, ns.
    pub added_ns: i64,
    /// True if the offset changes on before the first time and after the last one.
    pub is_endless: bool,
}

/// Wall clock as a function of the clock of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Times between which the offset changes.
    times: [KernelTime; 2],
    /// Offsets at these times, ns.
    offsets_ns: [i128; 2],
    /// Change of the offset from the first reading to the last, ns.
    moved_ns: i128,
    /// Largest error, as far as the readings show; `None`: there are none.
    bound_ns: Option<u64>,
    /// Known correction of the wall clock, ns.
    added_ns: i64,
    /// True if the line goes on before and after these times.
    is_endless: bool,
}

impl WallClock {
    /// Returns the clock of these readings of one boot; `None`: there are none.
    pub fn of(readings: &[ClockReading]) -> Option<Self> {
        let first = readings.iter().min_by_key(|reading| reading.time)?;
        let last = readings.iter().max_by_key(|reading| reading.time)?;
        let offsets = readings.iter().map(|reading| reading.offset_ns());
        let (low, high) = (offsets.clone().min()?, offsets.max()?);
        let spread = u64::try_from(high - low).unwrap_or(u64::MAX);
        let times = [first.time, last.time];
        if spread <= 2 * READING_ERROR_NS {
            let middle = low + (high - low) / 2;
            let bound_ns = Some(READING_ERROR_NS + spread.div_ceil(2));
            return Some(Self {
                times,
                offsets_ns: [middle; 2],
                moved_ns: 0,
                bound_ns,
                added_ns: 0,
                is_endless: false,
            });
        }
        let bound_ns = Some(READING_ERROR_NS.saturating_add(spread));
        let length = i128::from(last.time.0) - i128::from(first.time.0);
        let is_drift = i128::from(spread).saturating_mul(DRIFT_PART) <= length;
        let end = if is_drift { last.offset_ns() } else { first.offset_ns() };
        let offsets_ns = [first.offset_ns(), end];
        let moved_ns = last.offset_ns() - first.offset_ns();
        Some(Self { times, offsets_ns, moved_ns, bound_ns, added_ns: 0, is_endless: false })
    }

    /// Returns the clock of a capture without dates, which shows `wall_ns` at a time.
    pub fn without_dates(time: KernelTime, wall_ns: u64) -> Self {
        let offset = ClockReading { time, wall_ns }.offset_ns();
        Self {
            times: [time; 2],
            offsets_ns: [offset; 2],
            moved_ns: 0,
            bound_ns: None,
            added_ns: 0,
            is_endless: false,
        }
    }

    /// Returns the clock with another offset, which is known better: a line through the offsets at
    /// two times, with this bound.
    #[must_use]
    pub fn replaced_by(self, times: [KernelTime; 2], offsets_ns: [i128; 2], bound_ns: u64) -> Self {
        Self { times, offsets_ns, bound_ns: Some(bound_ns), is_endless: true, ..self }
    }

    /// Returns the clock with a larger bound, if it has one.
    #[must_use]
    pub fn widened_by(self, ns: u64) -> Self {
        Self { bound_ns: self.bound_ns.map(|bound| bound.saturating_add(ns)), ..self }
    }

    /// Returns the numbers of the clock.
    pub fn line(&self) -> ClockLine {
        let offset =
            |ns: i128| i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX });
        ClockLine {
            times_ns: self.times.map(|time| time.0),
            offsets_ns: self.offsets_ns.map(offset),
            moved_ns: self.moved_ns(),
            bound_ns: self.bound_ns,
            added_ns: self.added_ns,
            is_endless: self.is_endless,
        }
    }

    /// Returns the clock of stored numbers; `None`: its times go back.
    pub fn of_line(line: &ClockLine) -> Option<Self> {
        let [start, end] = line.times_ns;
        (start <= end).then(|| Self {
            times: line.times_ns.map(KernelTime),
            offsets_ns: line.offsets_ns.map(i128::from),
            moved_ns: line.moved_ns.into(),
            bound_ns: line.bound_ns,
            added_ns: line.added_ns,
            is_endless: line.is_endless,
        })
    }

    /// Returns the one of two clocks whose error may be larger.
    #[must_use]
    pub fn or_less_known(self, other: Self) -> Self {
        let bound = |clock: &Self| clock.bound_ns.unwrap_or(u64::MAX);
        if bound(&other) > bound(&self) { other } else { self }
    }

    /// Adds a correction, ns, that is known from elsewhere.
    #[must_use]
    pub fn corrected_by(self, ns: i64) -> Self {
        Self { added_ns: self.added_ns.saturating_add(ns), ..self }
    }

    /// Returns the clock without a correction.
    #[must_use]
    pub fn uncorrected(self) -> Self {
        Self { added_ns: 0, ..self }
    }

    /// Returns the wall clock at a time of the capture, ns since 1970.
    pub fn at(&self, time: KernelTime) -> i128 {
        let [start, end] = self.times;
        let length = i128::from(end.0) - i128::from(start.0);
        let past = i128::from(time.0) - i128::from(start.0);
        let past = if self.is_endless { past } else { past.clamp(0, length) };
        let change = self.offsets_ns[1] - self.offsets_ns[0];
        let part = if length > 0 { change.saturating_mul(past) / length } else { 0 };
        i128::from(time.0) + self.offsets_ns[0] + part + i128::from(self.added_ns)
    }

    /// Returns the largest error, ns, as far as the readings show; `None`: the log has no dates.
    pub fn bound_ns(&self) -> Option<u64> {
        self.bound_ns
    }

    /// Returns the change of the offset from the first reading to the last, ns.
    pub fn moved_ns(&self) -> i64 {
        i64::try_from(self.moved_ns).unwrap_or(i64::MAX)
    }

    /// Returns the correction that was known from elsewhere, ns.
    pub fn added_ns(&self) -> i64 {
        self.added_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::header::Clock;

    const S: u64 = 1_000_000_000;
    /// Wall clock at the boot of the machine of the tests.
    const BOOT: u64 = 1_800_000_000 * S;

    fn reading(time: u64, wall_ns: u64) -> ClockReading {
        ClockReading { time: KernelTime(time), wall_ns }
    }

    /// Fails if the clock is off by more than it states.
    #[track_caller]
    fn check(readings: &[ClockReading], truth: impl Fn(u64) -> i128) -> u64 {
        let clock = WallClock::of(readings).expect("readings");
        let bound = clock.bound_ns().expect("readings");
        for time in (0..=100).map(|step| 7 * S + step * S / 10) {
            let error = clock.at(KernelTime(time)).abs_diff(truth(time));
            assert!(error <= bound.into(), "{time}: {error} ns, bound {bound} ns");
        }
        bound
    }

    #[test]
    fn steps_neither_stretch_durations_nor_let_times_go_back() {
        for step in [-5, 3600_i64] {
            let offset = step * 1_000_000_000;
            let wall = |time: u64| match time {
                0..12_000_000_000 => i128::from(BOOT + time),
                _ => i128::from(BOOT + time) + i128::from(offset),
            };
            let at = |time: u64| reading(time, u64::try_from(wall(time)).expect("after 1970"));
            check(&[at(7 * S), at(17 * S)], wall);
            let clock = WallClock::of(&[at(7 * S), at(17 * S)]).expect("readings");
            let length = clock.at(KernelTime(16 * S)) - clock.at(KernelTime(8 * S));
            assert_eq!(length, i128::from(8 * S));
            assert_eq!(clock.moved_ns(), offset);
        }
    }

    #[test]
    fn constant_offsets_are_found_within_the_error_of_a_reading() {
        for injected in [0, 50_000_000, -50_000_000_i64] {
            let wall = |time: u64| (BOOT + time).saturating_add_signed(injected);
            let readings = [
                reading(7 * S, wall(7 * S) + 9_000),
                reading(17 * S, wall(17 * S) - 9_000),
                reading(12 * S, wall(12 * S) + 100),
            ];
            let bound = check(&readings, |time| wall(time).into());
            assert!(bound <= 2 * READING_ERROR_NS, "{bound}");
        }
    }

    #[test]
    fn drifts_are_found_within_the_bound() {
        for ppm in [20, -20, 500_i128] {
            let wall = |time: u64| i128::from(BOOT + time) + i128::from(time) * ppm / 1_000_000;
            let at = |time: u64, error: i128| {
                reading(time, u64::try_from(wall(time) + error).expect("a date"))
            };
            check(&[at(7 * S, 5_000), at(17 * S, -5_000)], wall);
        }
    }

    /// Fails if a step at any time between the readings is not within the bound.
    #[test]
    fn steps_are_within_the_bound() {
        for step_at in [7 * S + 1, 11 * S, 17 * S - 1] {
            let wall = |time: u64| BOOT + time + if time >= step_at { 40_000_000 } else { 0 };
            let readings = [reading(7 * S, wall(7 * S)), reading(17 * S, wall(17 * S))];
            assert_eq!(check(&readings, |time| wall(time).into()), 40_010_000);
        }
    }

    #[test]
    fn logs_have_a_reading_at_each_end_if_they_have_dates() {
        let clock = Clock { start_ns: 5, start_realtime_ns: 1000, ..Clock::default() };
        let header = Header { clock, ..Header::default() };
        let end = |moved| End {
            end_ns: 25,
            end_realtime_ns: 1090,
            wall_moved_ns: moved,
            ..End::default()
        };
        let start = reading(5, 1000);
        assert_eq!(readings(&header, None), [start]);
        assert_eq!(readings(&header, Some(&End::default())), [start]);
        assert_eq!(readings(&header, Some(&end(Some(-7)))), [start, reading(25, 1013)]);
        assert_eq!(readings(&header, Some(&end(None))), [start]);
        assert_eq!(readings(&Header::default(), Some(&end(None))), []);
    }

    #[test]
    fn better_offsets_are_a_line_without_ends() {
        let wall = WallClock::of(&[reading(0, BOOT), reading(S, BOOT + 2 * S)]).expect("readings");
        let times = [KernelTime(10), KernelTime(110)];
        let clock = wall.replaced_by(times, [1000, 1001], 7);
        assert_eq!([10, 110, 1010].map(|time| clock.at(KernelTime(time))), [1010, 1111, 2020]);
        assert_eq!((clock.bound_ns(), clock.moved_ns()), (Some(7), wall.moved_ns()));
        assert_eq!(clock.widened_by(3).bound_ns(), Some(10));
        assert_eq!(clock.or_less_known(wall), wall);
        assert_eq!(wall.or_less_known(clock), wall);
        assert_eq!(WallClock::without_dates(times[0], 5).widened_by(3).bound_ns(), None);
    }

    #[test]
    fn stored_clock_shows_the_same_times() {
        let drift = [reading(7 * S, BOOT + 7 * S), reading(17 * S, BOOT + 17 * S + 90_000)];
        let clocks = [
            WallClock::of(&drift).expect("readings").corrected_by(-7),
            WallClock::without_dates(KernelTime(5), 1000),
            WallClock::of(&drift).expect("readings").replaced_by([KernelTime(1); 2], [9, 9], 3),
        ];
        for clock in clocks {
            assert_eq!(WallClock::of_line(&clock.line()), Some(clock));
        }
        let backwards = ClockLine { times_ns: [5, 4], ..ClockLine::default() };
        assert_eq!(WallClock::of_line(&backwards), None);
    }

    #[test]
    fn corrections_are_added() {
        let clock = WallClock::without_dates(KernelTime(5), 1000).corrected_by(-7);
        assert_eq!((clock.at(KernelTime(0)), clock.at(KernelTime(15))), (988, 1003));
        assert_eq!((clock.bound_ns(), clock.added_ns()), (None, -7));
        assert_eq!(clock.uncorrected(), WallClock::without_dates(KernelTime(5), 1000));
    }
}
