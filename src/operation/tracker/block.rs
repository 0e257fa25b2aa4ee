//! Block events: their submitters, and the requests that are reported.

use super::Tracker;
use super::announce::{announce, anomaly};
use super::request_state::InFlightRequest;
use crate::anomaly::{AnomalyKind, Ignored, Link};
use crate::block::{
    BlockRequest, BlockStep, EventContext, RequestEnd, RequestPart, SubmitterSource,
};
use crate::event::Event;
use crate::event::block::{BlockEvent, BlockPoint, Comm, RequestOp};
use crate::event::fs::FsEvent;
use crate::event::syscall_table::CallClass;
use crate::operation::asynchronous::InFlight;
use crate::operation::attribution::{Piece, SubmitContext};
use crate::operation::block_step_kind::{StepKind, owned};
use crate::operation::process::KTHREADD;
use crate::operation::step::{Sink, Step};
use crate::operation::tasks::Tasks;
use crate::units::{KernelTime, Pid, SECTOR_BYTES, Tid};

impl Tracker {
    /// Takes the kernel's counters of all devices, read at this time.
    pub fn seen_counters(&mut self, time: KernelTime, diskstats: &[u8]) {
        self.older.counters(time, diskstats);
    }

    pub(super) fn block<S: Sink>(
        &mut self,
        event: &Event,
        block: &BlockEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if let Some(comm) = &block.comm {
            self.name_kernel_thread(event, comm, sink)?;
        }
        let at = EventContext { time: event.time, cpu: event.cpu, pid: event.pid, tid: event.tid };
        let mut steps = Vec::new();
        let mut reasons = Vec::new();
        self.block.push(&at, block, &mut |step| {
            if let BlockStep::Anomaly(it) = step {
                reasons.push(it.reason);
            }
            steps.extend(owned(&step));
        });
        let mut used =
            steps.is_empty() && reasons.is_empty() && self.ignore_reason(event.pid).is_none();
        for (step, request) in steps {
            used |= self.block_step(event.time, step, &request, sink)?;
        }
        let mut explains = |it: &_| self.older.explains(event.time, block.dev, *it);
        if !reasons.is_empty() && reasons.iter().all(&mut explains) {
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
        self.anomaly(&anomaly(event, AnomalyKind::UnmatchedBlock, 1, detail), event.time, sink)
    }

    /// Names a kernel thread that was born during the recording, by the record of a bio that it has
    /// queued. Nothing else may report the name: its parent (`kthreadd`) sets it at the thread's
    /// birth (`copy_process()` in `kernel/fork.c`, from Linux 6.14 on without a rename), which is
    /// recorded only system-wide.
    fn name_kernel_thread<S: Sink>(
        &mut self,
        event: &Event,
        comm: &Comm,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if event.pid == KTHREADD || !self.tasks.is_kernel(event.pid) {
            return Ok(());
        }
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        if !thread.info.comm.is_empty() && thread.info.comm != INHERITED {
            return Ok(());
        }
        thread.info.comm = comm.as_bytes().to_vec();
        process.info.comm = comm.as_bytes().to_vec();
        let step = thread.announced.then_some(Step::ThreadRenamed(&thread.info));
        step.map_or(Ok(()), |it| sink.step(event.time, &it))
    }

    /// Takes a report of a file system.
    pub(super) fn file_system(&mut self, report: &FsEvent) {
        self.ledger.events += 1;
        self.files.learn(report);
    }

    /// Passes a step on if its request is wanted. Returns true if it is.
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
        let mut known = self.requests.remove(&request.id).unwrap_or_default();
        for part in request.parts.iter().skip(known.looked_at) {
            let doing = doing(&self.tasks, &self.asynchronous.in_flight, part);
            known.has_writers |= self.files.look(part, request, doing);
        }
        known.looked_at = request.parts.len();
        let pieces = match step {
            StepKind::Ended => self.files.pieces(request),
            _ => Vec::new(),
        };
        // In process mode only followed writers are known.
        let takes_all = self.all_requests && !self.is_of_excluded(request);
        let is_wanted = takes_all || known.thread.is_some() || known.has_writers;
        if is_wanted {
            let mut pass = |step: StepKind, pieces: &[Piece]| {
                let step = step.of(request);
                let thread = known.thread.as_ref();
                sink.step(at, &Step::Block { step: &step, thread, pieces })
            };
            // The request may have become wanted only by a merge.
            if !known.has_steps && step != StepKind::Queued {
                pass(StepKind::Queued, &[])?;
            }
            pass(step, &pieces)?;
            known.has_steps = true;
        }
        if step == StepKind::Ended {
            if request.ending == Some(RequestEnd::Completed) {
                self.time_request(request);
            }
            self.book_request(request, &pieces, is_wanted);
            if !matches!(request.ending, Some(RequestEnd::Absorbed { into: Some(_), .. })) {
                self.files.forget(request);
            }
        } else {
            self.requests.insert(request.id, known);
        }
        Ok(is_wanted)
    }

    /// Returns true if a process that is left out of a recording of all processes has submitted the
    /// request.
    fn is_of_excluded(&mut self, request: &BlockRequest) -> bool {
        let submitter = request.submitter.filter(|_| self.tasks.has_excluded());
        submitter.is_some_and(|by| self.ignore_reason(by.pid) == Some(Ignored::Foreign))
    }

    fn book_request(&mut self, request: &BlockRequest, pieces: &[Piece], is_wanted: bool) {
        match (is_wanted, request.ending) {
            (false, _) => {
                self.ledger.requests_foreign += 1;
                if request.diskstats_class().is_some() {
                    let key = (request.dev, request.op.as_str());
                    let (count, bytes) = self.ledger.requests_others.entry(key).or_default();
                    *count += 1;
                    let done = request.diskstats_sectors().saturating_mul(SECTOR_BYTES);
                    *bytes = bytes.saturating_add(done);
                }
                return;
            }
            (true, Some(RequestEnd::Unfinished(_))) => self.ledger.requests_open += 1,
            (true, _) => self.ledger.requests += 1,
        }
        // A request that consists of requests to another device is counted once, at the bottom.
        let is_passed_on = request.first_seen == BlockPoint::BioQueue && request.issued.is_some();
        if request.ending != Some(RequestEnd::Completed) || is_passed_on || request.is_stillborn {
            return;
        }
        if matches!(request.op, RequestOp::Discard | RequestOp::SecureErase) {
            return;
        }
        let mut left = request.diskstats_sectors();
        for piece in pieces {
            let sectors = piece.nr_sector.min(left);
            left -= sectors;
            self.book_piece(piece, sectors);
        }
        // Sectors of bios that were not seen.
        let submitter = request.submitter.filter(|it| it.source == SubmitterSource::GetRq);
        let by_program = submitter.is_some_and(|it| !self.tasks.is_kernel(it.pid));
        let program = if by_program { Link::Exact } else { Link::Unknown };
        let counts = &mut self.ledger.attribution;
        *counts.files.of(Link::Unknown) += left;
        *counts.programs.of(program) += left;
    }

    fn book_piece(&mut self, piece: &Piece, sectors: u64) {
        let counts = &mut self.ledger.attribution;
        *counts.files.of(piece.contents.link()) += sectors;
        match piece.program() {
            Some(link) => *counts.programs.of(link) += sectors,
            None => counts.kernel += sectors,
        }
    }

    /// Remembers the submitter of a request, with its current name.
    fn note_submitter<S: Sink>(
        &mut self,
        at: KernelTime,
        request: &BlockRequest,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let submitter = request.submitter.map(|it| (it.pid, it.tid));
        let is_wanted = |submitter: &(Pid, Tid)| match self.ignore_reason(submitter.0) {
            None => true,
            Some(reason) => {
                self.all_requests && reason == Ignored::Foreign && !self.tasks.has_excluded()
            }
        };
        let wanted = submitter.filter(is_wanted);
        let thread = match wanted {
            Some((pid, tid)) => {
                self.reap_reused_tid(at, pid, tid, sink)?;
                let (process, thread) = self.tasks.thread(pid, tid);
                announce(at, process, thread, sink)?;
                Some(thread.info.clone())
            }
            None => None,
        };
        self.requests.insert(request.id, InFlightRequest { thread, ..InFlightRequest::default() });
        Ok(())
    }
}

/// Returns the state of the thread that has queued this part.
fn doing<'a>(tasks: &'a Tasks, in_flight: &InFlight, part: &RequestPart) -> SubmitContext<'a> {
    let EventContext { pid, tid, .. } = part.queued;
    let pending = tasks.known_thread(tid).and_then(|it| it.pending.as_ref());
    let pending = pending.map(|it| &it.operation);
    let process = tasks.known_process(pid).filter(|it| it.followed && !it.info.is_kernel);
    let brings = match pending {
        Some(it) => !hands_over(it.call.call().class),
        // A worker of io_uring makes no calls, and writes the data of its requests.
        None => !process.is_some_and(|it| in_flight.has_writes(it.info.key)),
    };
    SubmitContext {
        file: pending.and_then(|it| it.file.as_ref()),
        for_others: process.is_none(),
        brings: process.filter(|_| brings).map(|it| it.info.key),
    }
}

/// Returns true if such a call writes to a device only its own data.
fn hands_over(class: CallClass) -> bool {
    matches!(class, CallClass::Write | CallClass::Transfer | CallClass::Pipe | CallClass::Async)
}

/// Name of a kernel thread that still has only its parent's name.
const INHERITED: &[u8] = b"kthreadd";

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::block::BlockOptions;
    use crate::event::EventKind;
    use crate::event::block::{BlockPoint, Rwbs};
    use crate::event::task::TaskEvent;
    use crate::operation::context::Observability;
    use crate::operation::process::Scope;
    use crate::units::{CpuId, DevId, Pid, Tid};

    struct BlockNullSink;

    impl Sink for BlockNullSink {
        type Error = Infallible;

        fn step(&mut self, _: KernelTime, _: &Step<'_>) -> Result<(), Infallible> {
            Ok(())
        }
    }

    /// Fails if a journal's thread that was born during the recording has the name of its parent.
    #[test]
    fn a_thread_of_the_kernel_is_named_by_its_bios() {
        let scope = Scope {
            system: false,
            all_requests: true,
            roots: vec![Pid(9)],
            launched: false,
            own: Pid(8),
            children: true,
            excluded: Vec::new(),
        };
        let on = KernelTime(1);
        let mut tracker = Tracker::new(scope, BlockOptions::default(), Observability::ALL, on);
        tracker.seen_task(KTHREADD, Tid(2), Pid(0), b"kthreadd");
        let mut push = |time, pid, kind| {
            let (time, tid) = (KernelTime(time), Tid(pid));
            let event = Event { time, cpu: CpuId(0), pid: Pid(pid), tid, kind };
            let Ok(()) = tracker.push(event, &mut BlockNullSink);
            let thread = tracker.tasks.known_thread(Tid(50));
            thread.map(|it| String::from_utf8_lossy(&it.info.comm).into_owned())
        };
        let (pid, tid, ppid, ptid) = (Pid(50), Tid(50), KTHREADD, Tid(2));
        let fork = EventKind::Task(TaskEvent::Fork { pid, tid, ppid, ptid });
        assert_eq!(push(10, 2, fork).as_deref(), Some("kthreadd"));
        let bio = |comm: &[u8]| {
            EventKind::Block(BlockEvent {
                point: BlockPoint::BioQueue,
                dev: DevId::new(7, 0),
                sector: 8,
                nr_sector: 8,
                error: 0,
                rwbs: Rwbs::new(b"WS"),
                from: None,
                comm: Some(Comm::new(comm)),
                chain: None,
            })
        };
        assert_eq!(push(20, 50, bio(b"jbd2/loop0-8")).as_deref(), Some("jbd2/loop0-8"));
        // The thread has a name now.
        assert_eq!(push(30, 50, bio(b"other")).as_deref(), Some("jbd2/loop0-8"));
    }
}
