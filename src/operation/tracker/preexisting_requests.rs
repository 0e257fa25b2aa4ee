//! Block requests that are older than the recording: at most as many as the kernel had in flight
//! when its counters were read, just after all tracepoints were on.
//!
//! An end that fits no request is explained by one of these while there are any left; before the
//! counters were read, their number is not known. The begin of some requests in flight was seen.
//! The number of such requests at the exact moment of the kernel's count is not known, so none is
//! subtracted: the count is an upper bound. (Kernels before 6.10 count only requests at the driver.
//! Requests that were queued then are seen at their issue, and need no explanation.)

use rustc_hash::FxHashMap;

use crate::block::AnomalyReason;
use crate::units::{DevId, KernelTime};

/// Number of older requests.
#[derive(Debug, Default)]
pub(super) struct PreexistingRequests {
    /// Time at which the counters were read; `None`: they were not read.
    counted: Option<KernelTime>,
    /// Requests in flight then whose end may still come.
    left: FxHashMap<DevId, u64>,
}

impl PreexistingRequests {
    /// Takes the text of `/proc/diskstats`, read at this time.
    pub(super) fn counters(&mut self, time: KernelTime, text: &[u8]) {
        self.counted = Some(time);
        self.left = String::from_utf8_lossy(text).lines().filter_map(in_flight).collect();
    }

    /// Returns true if an unmatched event at this time may concern one of them; its end removes
    /// that one.
    pub(super) fn explains(&mut self, time: KernelTime, dev: DevId, reason: AnomalyReason) -> bool {
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
        match self.counted {
            None => false,
            Some(counted) if time < counted => true,
            Some(_) => {
                let Some(left) = self.left.get_mut(&dev).filter(|it| **it > 0) else {
                    return false;
                };
                *left -= u64::from(is_end);
                true
            }
        }
    }
}

/// Returns the number of a device, and the number of its requests in flight: the first two and the
/// twelfth field of a line (`Documentation/admin-guide/iostats.rst`).
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
        b"   7       0 loop0 1 2 3 4 5 6 7 8 0 10 11 12\n   8 0 sda 1 2 3 4 5 6 7 8 2 10\nodd\n";
    const END: AnomalyReason = AnomalyReason::UnmatchedCompletion;
    const LATER: KernelTime = KernelTime(50);

    #[test]
    fn exits_are_explained_up_to_the_number_in_flight() {
        let mut older = PreexistingRequests::default();
        older.counters(LATER, TEXT);
        assert!(!older.explains(LATER, OTHER, END), "nothing was in flight there");
        assert!(
            older.explains(LATER, DISK, AnomalyReason::MergeWithoutHost),
            "its host may be older"
        );
        assert!(older.explains(LATER, DISK, END));
        assert!(older.explains(LATER, DISK, AnomalyReason::UnmatchedFlush));
        assert!(older.explains(LATER, DISK, AnomalyReason::UnmatchedSequenceEnd));
        assert!(!older.explains(LATER, DISK, END));
        assert!(!older.explains(LATER, DISK, AnomalyReason::UnmatchedFlush));
    }

    #[test]
    fn exits_before_the_snapshot_or_without_one_are_unexplained() {
        let mut older = PreexistingRequests::default();
        assert!(!older.explains(KernelTime(49), DISK, END));
        older.counters(LATER, TEXT);
        assert!((0..9).all(|_| older.explains(KernelTime(49), OTHER, END)));
        let too_many = AnomalyReason::TooMany(crate::block::RequestId(1));
        assert!(!older.explains(KernelTime(49), DISK, too_many));
    }
}
