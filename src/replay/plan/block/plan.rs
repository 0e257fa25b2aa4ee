//! Dependencies among the requests of a device.
//!
//! ```text
//!   issued     1  2     3        4           replayed in this order
//!              ├──┼──b  │        │
//!              ├──┼─────┼──a     ├──d
//!              │        ├─────c           3 waits for b; 4 waits for b, a and c:
//!                                         prefixes of the completion order
//! ```
//!
//! All requests that had completed before another was issued form a prefix of the completion order.
//! So a single number describes the dependencies of a request. As many requests are in flight as in
//! the capture, and no more.

use std::collections::BTreeMap;

use super::captured_requests::{
    CapturedRequest, CapturedRequestKind, CapturedRequests, RequestSkipReason,
};
use crate::event::block::RequestOp;
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Operations that the user allows on the device besides reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Writes and flushes.
    pub writes: bool,
    /// Discards of ranges.
    pub discards: bool,
}

impl Allowed {
    fn refuses(self, kind: CapturedRequestKind) -> Option<(RequestSkipReason, RequestOp)> {
        let writes = (!self.writes).then_some(RequestSkipReason::Writes);
        let discards = (!self.discards).then_some(RequestSkipReason::Discards);
        match kind {
            CapturedRequestKind::Read => None,
            CapturedRequestKind::Write => writes.map(|it| (it, RequestOp::Write)),
            CapturedRequestKind::Flush => writes.map(|it| (it, RequestOp::Flush)),
            CapturedRequestKind::WriteZeroes => writes.map(|it| (it, RequestOp::WriteZeroes)),
            CapturedRequestKind::Discard => discards.map(|it| (it, RequestOp::Discard)),
        }
    }
}

/// Plan of a block replay.
#[derive(Clone, Debug, Default)]
pub struct BlockPlan {
    /// Requests in the order of their issue. Times count from the first issue.
    pub all: Vec<CapturedRequest>,
    /// Number of first completions that each request waits for.
    pub waits: Vec<u32>,
    /// Rank of each request in the completion order.
    pub rank: Vec<u32>,
    /// Completion times, in this order.
    pub completed: Vec<ReplayTime>,
    /// Highest number of requests in flight.
    pub depth: u32,
    /// Time from the first issue to the last completion.
    pub span: Nanos,
    /// Number of requests that are not replayed, by reason and operation.
    pub left: BTreeMap<(RequestSkipReason, RequestOp), u64>,
    /// Number of requests that are contained in others.
    pub followed: u64,
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Lengths of the longest read and write, in bytes.
    pub longest: [u64; 2],
    /// Number of writes that were durable on completion (FUA).
    pub fua: u64,
}

impl BlockPlan {
    /// Plans the allowed requests of a device.
    ///
    /// # Errors
    ///
    /// The number of requests, if it exceeds `u32`.
    pub fn new(requests: CapturedRequests, allowed: Allowed) -> Result<Self, usize> {
        let mut plan = Self { left: requests.left, followed: requests.followed, ..Self::default() };
        let mut all = requests.all;
        all.retain(|request| {
            let refused = allowed.refuses(request.kind);
            if let Some(key) = refused {
                *plan.left.entry(key).or_default() += 1;
            }
            refused.is_none()
        });
        if u32::try_from(all.len()).is_err() {
            return Err(all.len());
        }
        // Requests issued at the same time stay in the order of their ends.
        all.sort_by_key(|it| it.issued);
        let first = all.first().map_or(KernelTime::MIN, |it| it.issued);
        plan.all = all.into_iter().map(|it| it.since(first)).collect();
        for it in &plan.all {
            let place = usize::from(it.kind == CapturedRequestKind::Write);
            if it.kind.moves_bytes() {
                plan.bytes[place] += it.bytes;
                plan.longest[place] = plan.longest[place].max(it.bytes);
            }
            plan.fua += u64::from(it.is_fua);
            plan.span = plan.span.max(it.completed.since(ReplayTime::MIN));
        }
        plan.number();
        Ok(plan)
    }

    fn number(&mut self) {
        let numbers = 0..u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let mut done: Vec<u32> = numbers.clone().collect();
        done.sort_by_key(|it| self.all[*it as usize].completed);
        self.rank = vec![0; done.len()];
        for (rank, it) in numbers.clone().zip(&done) {
            self.rank[*it as usize] = rank;
        }
        self.completed = done.iter().map(|it| self.all[*it as usize].completed).collect();
        // Only a request that completed strictly before the issue is certain to precede it. So no
        // request waits for itself or for a later one.
        let mut before = 0;
        for (number, it) in numbers.zip(&self.all) {
            while self.completed.get(before as usize).is_some_and(|done| *done < it.issued) {
                before += 1;
            }
            self.waits.push(before);
            self.depth = self.depth.max(number + 1 - before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(times: &[(u64, u64)]) -> BlockPlan {
        let request = |&(issued, completed): &(u64, u64)| CapturedRequest {
            kind: CapturedRequestKind::Read,
            offset: 0,
            bytes: 512,
            issued: KernelTime(issued),
            completed: KernelTime(completed),
            error: None,
            is_fua: false,
        };
        let all = times.iter().map(request).collect();
        let requests = CapturedRequests { all, ..CapturedRequests::default() };
        BlockPlan::new(requests, Allowed::default()).expect("few")
    }

    #[test]
    fn request_waits_for_earlier_completions() {
        // The drawing above.
        let plan = plan(&[(10, 60), (20, 30), (40, 75), (70, 80)]);
        assert_eq!(plan.waits, [0, 0, 1, 2]);
        assert_eq!(plan.rank, [1, 0, 2, 3]);
        assert_eq!((plan.depth, plan.span), (2, Nanos(70)));
    }

    #[test]
    fn requests_do_not_depend_on_later_ones() {
        let plan = plan(&[(5, 5), (5, 5), (5, 9), (9, 9)]);
        assert_eq!(plan.waits, [0, 0, 0, 2]);
        assert_eq!(plan.depth, 3);
    }

    #[test]
    fn forbidden_requests_are_counted() {
        let write = CapturedRequest {
            kind: CapturedRequestKind::Write,
            offset: 0,
            bytes: 512,
            issued: KernelTime(1),
            completed: KernelTime(2),
            error: None,
            is_fua: true,
        };
        let discard = CapturedRequest { kind: CapturedRequestKind::Discard, ..write };
        let requests =
            || CapturedRequests { all: vec![write, discard], ..CapturedRequests::default() };
        let plan = |writes, discards| {
            BlockPlan::new(requests(), Allowed { writes, discards }).expect("few")
        };
        assert_eq!((plan(false, false).all.len(), plan(false, false).left.len()), (0, 2));
        assert_eq!((plan(true, false).all.len(), plan(true, false).fua), (1, 1));
        assert_eq!(plan(true, true).left.len(), 0);
    }
}
