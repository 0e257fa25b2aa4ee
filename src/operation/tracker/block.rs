//! Block events: whose requests they are, and which of them are told.

use super::{Tracker, announce, anomaly};
use crate::anomaly::{AnomalyKind, Ignored};
use crate::event::Event;
use crate::event::block::{BlockEvent, BlockPoint};
use crate::operation::block::{At, BlockRequest, BlockStep, Ending, FlushRole};
use crate::operation::{Sink, Step};
use crate::units::{KernelTime, Pid, Tid};

impl Tracker {
    /// The kernel's counters of all devices, read at this time.
    pub fn seen_counters(&mut self, time: KernelTime, diskstats: &[u8]) {
        self.older.counters(time, diskstats);
    }

    pub(super) fn block<S: Sink>(
        &mut self,
        event: &Event,
        block: &BlockEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let at = At { time: event.time, cpu: event.cpu, pid: event.pid, tid: event.tid };
        self.older.come_to(event.time, |dev| self.block.in_flight(dev));
        let mut steps = Vec::new();
        let mut reasons = Vec::new();
        self.block.push(&at, block, &mut |step| {
            if let BlockStep::Anomaly(it) = step {
                reasons.push(it.reason);
            }
            steps.extend(owned(&step));
        });
        let mut used = steps.is_empty() && reasons.is_empty();
        for (step, request) in steps {
            if step == StepKind::Queued && is_older(&request) {
                self.older.seen(request.dev);
            }
            used |= self.block_step(event.time, step, &request, sink)?;
        }
        if !reasons.is_empty() && reasons.iter().all(|it| self.older.explains(block.dev, *it)) {
            reasons.clear();
            if !used {
                self.ledger.ignore(Ignored::OlderRequest);
                return Ok(());
            }
        }
        if reasons.is_empty() {
            if used {
                self.ledger.events += 1;
            } else {
                self.ledger.ignore(Ignored::Foreign);
            }
            return Ok(());
        }
        self.ledger.unmatched += 1;
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        let detail = format!(
            "{:?} {} {} {} + {}: {}",
            block.point,
            block.dev,
            block.rwbs,
            block.sector,
            block.nr_sector,
            reasons.join("; ")
        );
        self.anomaly(&anomaly(event, AnomalyKind::UnmatchedBlock, 1, detail), sink)
    }

    /// Passes a step on if its request is wanted. True if it is.
    pub(super) fn block_step<S: Sink>(
        &mut self,
        at: KernelTime,
        step: StepKind,
        request: &BlockRequest,
        sink: &mut S,
    ) -> Result<bool, S::Error> {
        if step == StepKind::Queued {
            self.note_submitter(at, request, sink)?;
        }
        let submitter = self.submitters.get(&request.id).cloned();
        let wanted = self.all_requests || matches!(submitter, Some(Some(_)));
        if step == StepKind::Ended {
            self.submitters.remove(&request.id);
            match (wanted, request.ending) {
                (false, _) => self.ledger.requests_foreign += 1,
                (true, Some(Ending::Unfinished(_))) => self.ledger.requests_open += 1,
                (true, _) => self.ledger.requests += 1,
            }
        }
        if wanted {
            let step = step.of(request);
            let thread = submitter.flatten();
            sink.step(at, &Step::Block { step: &step, thread: thread.as_ref() })?;
        }
        Ok(wanted)
    }

    /// Remembers who asked for a request, as they are called now.
    fn note_submitter<S: Sink>(
        &mut self,
        at: KernelTime,
        request: &BlockRequest,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let submitter = request.submitter.map(|it| (it.pid, it.tid));
        let is_wanted = |it: &(Pid, Tid)| match self.unwanted(it.0) {
            None => true,
            Some(reason) => self.all_requests && reason == Ignored::Foreign,
        };
        let wanted = submitter.filter(is_wanted);
        let info = match wanted {
            Some((pid, tid)) => {
                self.end_stale(at, pid, tid, sink)?;
                let (process, thread) = self.tasks.thread(pid, tid);
                announce(at, process, thread, sink)?;
                Some(thread.info.clone())
            }
            None => None,
        };
        self.submitters.insert(request.id, info);
        Ok(())
    }
}

/// True for a request that began before the recording; the kernel's own flushes have no beginning that is told.
fn is_older(request: &BlockRequest) -> bool {
    let is_flush = matches!(request.flush, FlushRole::Device { .. });
    request.first_seen != BlockPoint::GetRq && !is_flush
}

/// A [`BlockStep`] without its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Queued,
    Merged,
    Inserted,
    Issued,
    Requeued,
    Progressed,
    Ended,
}

impl StepKind {
    fn of(self, request: &BlockRequest) -> BlockStep<'_> {
        match self {
            Self::Queued => BlockStep::Queued(request),
            Self::Merged => BlockStep::Merged(request),
            Self::Inserted => BlockStep::Inserted(request),
            Self::Issued => BlockStep::Issued(request),
            Self::Requeued => BlockStep::Requeued(request),
            Self::Progressed => BlockStep::Progressed(request),
            Self::Ended => BlockStep::Ended(request),
        }
    }
}

/// A step that outlives the call that told it; anomalies are told apart from the others.
pub(super) fn owned(step: &BlockStep<'_>) -> Option<(StepKind, BlockRequest)> {
    Some(match *step {
        BlockStep::Queued(it) => (StepKind::Queued, *it),
        BlockStep::Merged(it) => (StepKind::Merged, *it),
        BlockStep::Inserted(it) => (StepKind::Inserted, *it),
        BlockStep::Issued(it) => (StepKind::Issued, *it),
        BlockStep::Requeued(it) => (StepKind::Requeued, *it),
        BlockStep::Progressed(it) => (StepKind::Progressed, *it),
        BlockStep::Ended(it) => (StepKind::Ended, *it),
        BlockStep::Anomaly(_) => return None,
    })
}
