//! Prefix of a line: thread and time.

use super::value::number;
use crate::import::decimal::seconds;

/// Limit on a thread's number (`PID_MAX_LIMIT`, `include/linux/threads.h`).
const TID_MAX: u64 = 4 << 20;

/// Lower limit of a time since 1970 (in 1973), in contrast to other times.
const EPOCH_MIN: u64 = 100_000_000 * SECOND;
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Time as strace prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// `-ttt`: ns since 1970.
    Epoch(u64),
    /// `-t`, `-tt`: ns since midnight.
    OfDay(u64),
    /// `-r`: ns since the previous line.
    After(u64),
}

/// Splits thread and time off a line.
pub(super) fn prefix(line: &[u8]) -> (Option<i32>, Option<Stamp>, &[u8]) {
    let line = line.trim_ascii_start();
    let (tid, rest) = match bracketed(line) {
        Some((tid, rest)) => (Some(tid), rest),
        None => plain(line).map_or((None, line), |(tid, rest)| (Some(tid), rest)),
    };
    let (stamp, rest) = match stamp(rest) {
        Some((stamp, rest)) => (Some(stamp), rest),
        None => (None, rest),
    };
    // `-r` together with another time.
    let rest = match rest.strip_prefix(b"(+") {
        Some(behind) => {
            let end = behind.iter().position(|byte| *byte == b')').map_or(0, |at| at + 1);
            behind.get(end..).unwrap_or_default().trim_ascii_start()
        }
        None => rest,
    };
    (tid, stamp, rest)
}

/// Parses `[pid  3872] `
fn bracketed(line: &[u8]) -> Option<(i32, &[u8])> {
    let rest = line.strip_prefix(b"[pid")?.trim_ascii_start();
    let end = rest.iter().position(|rest| *rest == b']')?;
    let tid = i32::try_from(number(rest.get(..end)?)?).ok()?;
    Some((tid, rest.get(end + 1..)?.trim_ascii_start()))
}

/// Parses `3872  `, as in files of `-o`.
fn plain(line: &[u8]) -> Option<(i32, &[u8])> {
    let (word, rest) = word(line)?;
    let is_number = word.iter().all(u8::is_ascii_digit);
    let tid = number(word).filter(|number| is_number && (1..=TID_MAX).contains(number))?;
    Some((i32::try_from(tid).ok()?, rest))
}

/// Splits a line at the next space.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|line| *line == b' ')?;
    Some((line.get(..end)?, line.get(end..)?.trim_ascii_start()))
}

fn stamp(line: &[u8]) -> Option<(Stamp, &[u8])> {
    let (word, rest) = word(line)?;
    let word = word.strip_prefix(b"+").unwrap_or(word);
    if !word.iter().all(|word| word.is_ascii_digit() || b".:".contains(word)) {
        return None;
    }
    let mut parts = word.split(|word| *word == b':');
    let stamp = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(hours), Some(minutes), Some(rest), None) => {
            let whole = |byte: &[u8]| seconds(byte).filter(|_| !byte.contains(&b'.'));
            let minutes = whole(hours)?.checked_mul(60)?.checked_add(whole(minutes)?)?;
            Stamp::OfDay(minutes.checked_mul(60)?.checked_add(seconds(rest)?)?)
        }
        (Some(all), None, ..) => match seconds(all)? {
            it if it >= EPOCH_MIN => Stamp::Epoch(it),
            it => Stamp::After(it),
        },
        _ => return None,
    };
    Some((stamp, rest))
}

/// Clock of the lines: each has a time later than the previous one.
#[derive(Debug, Default)]
pub(super) struct LineClock {
    last: u64,
    /// Midnights that have passed.
    days: u64,
    of_day: u64,
    /// Offset that is added to times since the clock was set.
    shift: i64,
}

/// Largest difference between the times of lines and the duration of a call, ns: a thread waits for
/// strace.
const TOLERANCE: u64 = 60 * SECOND;

/// Distance from the previous time of a line without a valid one, ns.
const STEP: u64 = 1000;

/// Result of reading a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StampReading {
    /// A valid time.
    Good,
    /// No time.
    Missing,
    /// A time earlier than the previous one.
    Back,
}

impl LineClock {
    /// Time of a line.
    pub(super) fn read(&mut self, stamp: Option<Stamp>) -> (u64, StampReading) {
        let time = match stamp {
            None => return (self.after(self.last.saturating_add(STEP)), StampReading::Missing),
            Some(Stamp::Epoch(it)) => it.saturating_add_signed(self.shift),
            Some(Stamp::After(it)) => self.last.saturating_add(it),
            Some(Stamp::OfDay(it)) => {
                self.days += u64::from(it.saturating_add(DAY / 2) < self.of_day);
                self.of_day = it;
                self.days.saturating_mul(DAY).saturating_add(it).saturating_add_signed(self.shift)
            }
        };
        // Times are printed in microseconds, and calls may be shorter.
        let is_back = time.saturating_add(1_000_000) < self.last;
        (self.after(time), if is_back { StampReading::Back } else { StampReading::Good })
    }

    /// End of a call that began at `start`, whose last line has the time `end`, and that took this
    /// long by strace's own measure. True if the clock was set meanwhile: later times continue from
    /// the previous ones.
    pub(super) fn end(&mut self, start: u64, end: u64, took: u64) -> (u64, bool) {
        let expected = start.saturating_add(took);
        if end.abs_diff(expected) <= TOLERANCE {
            return (end, false);
        }
        let shift = i128::from(expected) - i128::from(end);
        self.shift = self.shift.saturating_add(i64::try_from(shift).unwrap_or(0));
        self.last = self.last.min(expected.max(start.saturating_add(1)));
        (self.last, true)
    }

    /// Returns this time, or the next free one.
    pub(super) fn after(&mut self, time: u64) -> u64 {
        self.last = time.max(self.last.saturating_add(1));
        self.last
    }
}

/// Splits `read(0, …` into name and arguments.
pub(super) fn name_of(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|text| !text.is_ascii_alphanumeric() && *text != b'_')?;
    let (name, rest) = text.split_at_checked(end)?;
    rest.strip_prefix(b"(").filter(|_| !name.is_empty()).map(|rest| (name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, tid: Option<i32>, stamp: Option<Stamp>) {
        assert_eq!(prefix(line.as_bytes()), (tid, stamp, &b"close(3)"[..]), "{line}");
    }

    #[test]
    fn any_prefix_before_a_call_is_read() {
        let epoch = Some(Stamp::Epoch(1_795_477_841_004_471_000));
        check("close(3)", None, None);
        check("1795477841.004471 close(3)", None, epoch);
        check("3867  1795477841.004471 close(3)", Some(3867), epoch);
        check("[pid    67] 1795477841.004471 close(3)", Some(67), epoch);
        check("[pid 4194304] close(3)", Some(4_194_304), None);
        check("3867 00:01:02.5 close(3)", Some(3867), Some(Stamp::OfDay(62_500_000_000)));
        check("     0.000123 close(3)", None, Some(Stamp::After(123_000)));
        check("1795477841.004471 (+     0.000005) close(3)", None, epoch);
    }

    #[test]
    fn times_go_on() {
        let mut clock = LineClock::default();
        assert_eq!(
            clock.read(Some(Stamp::Epoch(7_000_000_000))),
            (7_000_000_000, StampReading::Good)
        );
        assert_eq!(
            clock.read(Some(Stamp::Epoch(7_000_000_000))),
            (7_000_000_001, StampReading::Good)
        );
        assert_eq!(
            clock.read(Some(Stamp::Epoch(6_000_000_000))),
            (7_000_000_002, StampReading::Back)
        );
        assert_eq!(clock.read(None), (7_000_001_002, StampReading::Missing));
        assert_eq!(clock.read(Some(Stamp::After(5000))), (7_000_006_002, StampReading::Good));
        // The clock was set 400 days ahead inside a call of 2.5 ms.
        let mut clock = LineClock::default();
        let (start, set) = (EPOCH_MIN, EPOCH_MIN + 400 * DAY);
        assert_eq!(clock.read(Some(Stamp::Epoch(start))).0, start);
        let end = clock.read(Some(Stamp::Epoch(set))).0;
        assert_eq!(clock.end(start, end, 2_500_000), (start + 2_500_000, true));
        let next = clock.read(Some(Stamp::Epoch(set + 7_000))).0;
        assert_eq!(next, start + 2_507_000);
        assert_eq!(clock.end(start, next, 2_500_000), (next, false));
        let mut clock = LineClock::default();
        assert_eq!(clock.read(Some(Stamp::OfDay(DAY - 1))).0, DAY - 1);
        assert_eq!(clock.read(Some(Stamp::OfDay(1))), (DAY + 1, StampReading::Good));
    }
}
