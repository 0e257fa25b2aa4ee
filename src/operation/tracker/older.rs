//! Block requests that are older than the recording: what the kernel had in flight when its counters were read, just after
//! everything was on, and the recording had not seen begin.
//!
//! An event that fits no request is explained by one of these while there are any; before the counters were read nobody says how
//! many there were. The kernel counts a request a moment after the event that begins it and until a moment after the one that
//! ends it, and kernels before 6.10 only those at the driver: so the number may be wrong by what happened in that moment. (Requests
//! that were only queued then are seen at their issue, and need no explanation.)

use rustc_hash::FxHashMap;

use crate::operation::block::AnomalyReason;
use crate::units::{DevId, KernelTime};

/// How many there are.
#[derive(Debug, Default)]
pub(super) struct Older {
    /// When the counters were read, and what was in flight; `None`: nobody has read them, or their time has come.
    counters: Option<(KernelTime, Vec<(DevId, u64)>)>,
    /// Those whose end is still to come.
    left: FxHashMap<DevId, u64>,
}

impl Older {
    /// The text of `/proc/diskstats`, read at this time.
    pub(super) fn counters(&mut self, time: KernelTime, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.counters = Some((time, text.lines().filter_map(in_flight).collect()));
    }

    /// It is this time now; `open` are the requests in flight whose beginning, or what came behind it, was seen.
    pub(super) fn come_to(&mut self, time: KernelTime, open: impl Fn(DevId) -> u64) {
        if let Some((_, counters)) = self.counters.take_if(|it| it.0 <= time) {
            let older = |(dev, all): (DevId, u64)| (dev, all.saturating_sub(open(dev)));
            self.left = counters.into_iter().map(older).filter(|it| it.1 > 0).collect();
        }
    }

    /// One of them was seen on its way: it has become a request like the others.
    pub(super) fn seen(&mut self, dev: DevId) {
        if self.counters.is_none()
            && let Some(left) = self.left.get_mut(&dev)
        {
            *left = left.saturating_sub(1);
        }
    }

    /// True if what does not fit may be about one of them; if that was its end, it is one less.
    pub(super) fn explains(&mut self, dev: DevId, reason: AnomalyReason) -> bool {
        let is_end = match reason {
            AnomalyReason::UnmatchedCompletion
            | AnomalyReason::UnmatchedSequenceEnd
            | AnomalyReason::UnmatchedMerge
            | AnomalyReason::UnmatchedBio => true,
            AnomalyReason::UnmatchedFlush
            | AnomalyReason::UnmatchedRequeue
            | AnomalyReason::MergeWithoutHost => false,
            AnomalyReason::WrongState { .. }
            | AnomalyReason::NotIssued(_)
            | AnomalyReason::TooManyBios
            | AnomalyReason::TooMany(_) => return false,
        };
        let explains = self.counters.is_some() || self.left.get(&dev).is_some_and(|it| *it > 0);
        if explains && is_end {
            self.seen(dev);
        }
        explains
    }
}

/// Number of a device, and how many of its requests are in flight: the first two and the twelfth field of a line
/// (`Documentation/admin-guide/iostats.rst`).
fn in_flight(line: &str) -> Option<(DevId, u64)> {
    let mut fields = line.split_whitespace();
    let dev = DevId::parse(&format!("{}:{}", fields.next()?, fields.next()?))?;
    Some((dev, fields.nth(9)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DevId = DevId(8 << 20);
    const OTHER: DevId = DevId(7 << 20);
    const TEXT: &[u8] =
        b"   7       0 loop0 1 2 3 4 5 6 7 8 0 10 11 12\n   8 0 sda 1 2 3 4 5 6 7 8 5 10\nodd\n";
    const END: AnomalyReason = AnomalyReason::UnmatchedCompletion;

    fn at(time: u64, open: u64) -> Older {
        let mut older = Older::default();
        older.counters(KernelTime(50), TEXT);
        older.come_to(KernelTime(time), |_| open);
        older
    }

    #[test]
    fn so_many_ends_are_explained_as_were_in_flight_and_not_seen() {
        let mut older = at(50, 2);
        older.come_to(KernelTime(60), |_| 0);
        assert!(!older.explains(OTHER, END), "nothing was in flight there");
        assert!(older.explains(DISK, AnomalyReason::MergeWithoutHost), "its host may be older");
        assert!(older.explains(DISK, END));
        older.seen(DISK);
        assert!(older.explains(DISK, AnomalyReason::UnmatchedFlush));
        assert!(older.explains(DISK, AnomalyReason::UnmatchedSequenceEnd));
        assert!(!older.explains(DISK, END) && !older.explains(DISK, AnomalyReason::UnmatchedFlush));
    }

    #[test]
    fn before_the_look_nobody_knows_and_without_one_nothing_is_explained() {
        let mut older = at(49, 0);
        assert!(older.explains(DISK, END) && older.explains(OTHER, END));
        assert!(
            !older.explains(DISK, AnomalyReason::TooMany(crate::operation::block::RequestId(1)))
        );
        assert!(!Older::default().explains(DISK, END));
    }
}
