//! Occupancy of a device: the request that the device worked on at each time.
//!
//! A device does not report on which of the requests in service it works. The model is that of a
//! single server: the time until the next completion belongs to the request that completes. It is
//! exact for a device that serves one request after the other, whatever the number of requests that
//! it holds; for a device that serves several at once it divides the time by completions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::analysis::request_owners::DiskCause;
use crate::anomaly::Link;
use crate::operation::block::RequestId;
use crate::units::KernelTime;

/// Largest number of segments of a device; the oldest are forgotten.
const SEGMENTS_MAX: usize = 1 << 16;

/// Part of a request that has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnedPart {
    pub(super) cause: DiskCause,
    /// Weight of the part in the request: its bytes.
    pub(super) weight: u64,
    pub(super) link: Link,
    /// True if the owner queued a part of the request, and waits for it.
    pub(super) is_submitter: bool,
}

/// Time in which nothing changes, up to the next segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    /// Owners of the request that the device worked on; `None`: there was none, or it is not known
    /// yet.
    pub(super) occupant: Option<Rc<[OwnedPart]>>,
    /// Request of these owners.
    pub(super) request: Option<RequestId>,
    /// Number of requests in service that have ended since.
    pub(super) depth: u32,
    /// First owner of a request in service.
    first: Option<DiskCause>,
    /// True if requests of another owner were in service, too.
    is_mixed: bool,
}

impl Segment {
    /// Returns true if another request, of another owner, was in service.
    pub(super) fn has_others(&self, owner: DiskCause, request: RequestId) -> bool {
        if self.depth == 1 && self.request == Some(request) {
            return false;
        }
        self.is_mixed || self.first.is_some_and(|first| first != owner)
    }

    fn serve(&mut self, request: RequestId, owners: &Rc<[OwnedPart]>) {
        self.depth = self.depth.saturating_add(1);
        self.request.get_or_insert(request);
        self.occupant.get_or_insert_with(|| Rc::clone(owners));
        for part in owners.iter() {
            let first = *self.first.get_or_insert(part.cause);
            self.is_mixed |= first != part.cause;
        }
    }
}

/// Occupancy of one device.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    /// Segments by their begin. The last one has no end.
    segments: BTreeMap<KernelTime, Segment>,
    /// Largest number of requests that were in service at a time.
    pub(super) depth_max: u32,
}

impl Default for Occupancy {
    fn default() -> Self {
        let segments = BTreeMap::from([(KernelTime::MIN, Segment::default())]);
        Self { segments, depth_max: 0 }
    }
}

impl Occupancy {
    /// Returns the begin of what is remembered.
    pub(super) fn floor(&self) -> KernelTime {
        self.segments.keys().next().copied().unwrap_or(KernelTime::MAX)
    }

    /// Adds a request that was in service in this time, in the order of completions.
    pub(super) fn serve(
        &mut self,
        time: Range<KernelTime>,
        request: RequestId,
        owners: &Rc<[OwnedPart]>,
    ) {
        let begin = time.start.max(self.floor());
        if begin >= time.end {
            return;
        }
        self.split(begin);
        self.split(time.end);
        for (_, segment) in self.segments.range_mut(begin..time.end) {
            segment.serve(request, owners);
            self.depth_max = self.depth_max.max(segment.depth);
        }
        while self.segments.len() > SEGMENTS_MAX {
            self.segments.pop_first();
        }
    }

    /// Returns the segments of a time, each with its part of it.
    pub(super) fn segments(
        &self,
        time: Range<KernelTime>,
    ) -> impl Iterator<Item = (Range<KernelTime>, &Segment)> {
        let before = self.segments.range(..=time.start).next_back();
        let begin = before.map_or(time.start, |(begin, _)| *begin);
        let mut from = self.segments.range(begin..time.end.max(begin)).peekable();
        std::iter::from_fn(move || {
            let (begin, segment) = from.next()?;
            let end = from.peek().map_or(time.end, |(next, _)| **next);
            Some(((*begin).max(time.start)..end, segment))
        })
    }

    fn split(&mut self, at: KernelTime) {
        let before = self.segments.range(..=at).next_back();
        if let Some((begin, segment)) = before
            && *begin < at
        {
            let segment = segment.clone();
            self.segments.insert(at, segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::ProcessKey;

    fn owner(number: u32) -> Rc<[OwnedPart]> {
        let cause = DiskCause::Process(ProcessKey(number));
        Rc::from([OwnedPart { cause, weight: 1, link: Link::Exact, is_submitter: true }])
    }

    /// Serves requests (owner, begin, end), and checks the occupants from time 0 on: owner or 99,
    /// end, depth.
    #[track_caller]
    fn check(requests: &[(u32, u64, u64)], expected: &[(u32, u64, u32)]) {
        let mut occupancy = Occupancy::default();
        for (number, begin, end) in requests {
            let time = KernelTime(*begin)..KernelTime(*end);
            occupancy.serve(time, RequestId(u64::from(*number)), &owner(*number));
        }
        let all = occupancy.segments(KernelTime(0)..KernelTime(100));
        let found: Vec<(u32, u64, u32)> = all
            .map(|(time, segment)| {
                let cause = segment.occupant.as_ref().map(|owners| owners[0].cause);
                let number = match cause {
                    Some(DiskCause::Process(process)) => process.0,
                    _ => 99,
                };
                (number, time.end.0, segment.depth)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn time_until_a_completion_is_of_the_request_that_completes() {
        check(&[(1, 10, 20)], &[(99, 10, 0), (1, 20, 1), (99, 100, 0)]);
        // A queue inside the device: both are issued at once, and served one after the other.
        check(&[(1, 0, 10), (2, 0, 30)], &[(1, 10, 2), (2, 30, 1), (99, 100, 0)]);
        // A long request that another one overtakes.
        check(&[(2, 5, 10), (1, 0, 30)], &[(1, 5, 1), (2, 10, 2), (1, 30, 1), (99, 100, 0)]);
    }

    #[test]
    fn oldest_segments_are_forgotten() {
        let mut occupancy = Occupancy::default();
        let count = SEGMENTS_MAX as u64 + 3;
        for number in 0..count {
            let time = KernelTime(number * 10)..KernelTime(number * 10 + 5);
            occupancy.serve(time, RequestId(number), &owner(1));
        }
        assert_eq!(occupancy.segments.len(), SEGMENTS_MAX);
        assert!(occupancy.floor() > KernelTime(count));
        // A request from before that changes only what is remembered.
        let time = KernelTime(0)..KernelTime(count * 10);
        occupancy.serve(time, RequestId(count), &owner(2));
        assert_eq!(occupancy.depth_max, 2);
    }
}
