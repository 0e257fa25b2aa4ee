//! Server thread of all lanes of a captured thread, with a ring. Operations that are due at the
//! same time are submitted to the kernel by one call.
//!
//! ```text
//!   new lanes ─► each lane advances ─► one call: submits due operations, and waits for
//!                      ▲               the first result or the next due time
//!                      │                                  │
//!                      └──── results for their lanes ─────┘
//! ```
//!
//! No thread wakes the server. While one of its lanes waits for another worker, the server polls,
//! less often the longer the wait takes.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Duration;

use super::decoder_threads::DecodeRequest;
use super::frames::Frames;
use super::lane::{Lane, LaneWait};
use super::messages::{WorkerEndNotice, WorkerFailure, WorkerMessage};
use super::shared::Shared;
use super::timestamps::{SLEEP_MAX, SPIN_TIME};
use super::worker_state::WorkerState;
use crate::sys::replay::reissue::{CallMemory, CallRing};
use crate::sys::{clock, thread};
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Shortest interval between two polls of a lane that waits for other workers. The lane is polled
/// after an eighth of the time that it has waited, within these limits.
const POLL_INTERVAL_MIN: Nanos = Nanos(20_000);

/// Longest interval between two polls of such a lane.
const POLL_INTERVAL_MAX: Nanos = Nanos(1_000_000);

/// State of the server thread.
struct UringServer<'a> {
    shared: &'a Shared,
    ring: CallRing,
    /// Lanes by their seats; `None`: the lane has ended.
    lanes: Vec<Option<Lane<'a>>>,
    /// Number of lanes that are not born yet; `born` is when the last one was.
    unborn: usize,
    born: KernelTime,
    helpers: &'a SyncSender<DecodeRequest>,
    messages: &'a Sender<WorkerMessage>,
}

/// Serves at most `lanes` lanes, until the sender of births is dropped.
pub(super) fn serve(
    shared: &Shared,
    ring: CallRing,
    lanes: usize,
    births: &Receiver<u32>,
    helpers: &SyncSender<DecodeRequest>,
    messages: &Sender<WorkerMessage>,
) {
    thread::set_exact_timers();
    let births = LaneBirths(births, messages);
    let all = Vec::with_capacity(lanes);
    let born = clock::now();
    let mut server =
        UringServer { shared, ring, lanes: all, unborn: lanes, born, helpers, messages };
    loop {
        if server.lanes.iter().all(Option::is_none) {
            let Ok(worker) = births.0.recv() else { return };
            server.add_lane(worker);
            // After the birth: an open that blocks is interrupted only in running workers.
            shared.given.open(&shared.slots);
        }
        births.0.try_iter().for_each(|worker| server.add_lane(worker));
        let next = server.go_on();
        server.wait(next);
    }
}

/// Lanes that are born. On a panic it reports the failure of all pending lanes: the thread that has
/// sent them would otherwise wait forever.
struct LaneBirths<'a>(&'a Receiver<u32>, &'a Sender<WorkerMessage>);

impl Drop for LaneBirths<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|it| drop(WorkerEndNotice(it, self.1)));
        }
    }
}

impl<'a> UringServer<'a> {
    /// Adds the lane that is this worker.
    fn add_lane(&mut self, worker: u32) {
        let ending = WorkerEndNotice(worker, self.messages);
        (self.unborn, self.born) = (self.unborn.saturating_sub(1), clock::now());
        let shared = self.shared;
        shared.at_work.begins(worker);
        match CallMemory::new(shared.source.longest, shared.contents.clone()) {
            Ok(memory) => {
                let course = WorkerState::new(shared, worker, self.messages);
                let frames = Frames::new(shared.ahead.take(worker), worker, self.helpers);
                let seat = self.ring.seat(memory);
                self.lanes.push(Some(Lane::new(course, frames, seat, ending)));
            }
            Err(it) => {
                shared.at_work.ends(worker);
                self.send(WorkerMessage::Failed(worker, WorkerFailure::Memory(it)));
            }
        }
    }

    /// Advances all lanes as far as possible, and returns the next event to wait for.
    fn go_on(&mut self) -> NextWork {
        let mut next = NextWork::default();
        if self.unborn > 0 && !self.shared.turns.is_over() {
            next.add(LaneWait::Others(self.born));
        }
        for seat in 0..self.lanes.len() {
            let Some(lane) = &mut self.lanes[seat] else { continue };
            match lane.advance(&mut self.ring) {
                Ok(LaneWait::Nothing) => self.ends(seat, None),
                Ok(it) => {
                    next.is_left = true;
                    next.add(it);
                }
                Err(failure) => self.ends(seat, Some(failure)),
            }
        }
        next
    }

    /// Submits due operations and takes results; waits for a result or the next poll.
    fn wait(&mut self, next: NextWork) {
        // ORDERING: only a flag.
        let may_spin = self.shared.may_spin.load(Ordering::Relaxed);
        let due = next.due.map(|it| it.since(self.shared.stamps.clock()));
        let waited = next.since.map(|it| clock::now().since(it).unwrap_or_default());
        let pause = if next.is_left { pause(due, waited, may_spin) } else { None };
        // Once the replay is over, in-flight operations are cancelled, as calls of threads are
        // (`InterruptibleThreads::interrupt`).
        let is_over = next.is_left && self.shared.turns.is_over();
        let cancelled = if is_over { self.ring.interrupt() } else { Ok(()) };
        if let Err(error) = cancelled.and_then(|()| self.ring.enter(pause)) {
            // All lanes fail: the results of operations in flight are lost.
            let mut failure = Some(WorkerFailure::Ring(error));
            (0..self.lanes.len()).for_each(|seat| self.ends(seat, failure.take()));
        }
        while let Some((seat, ret)) = self.ring.over() {
            if let Some(Some(lane)) = self.lanes.get_mut(seat) {
                lane.got(ret);
            }
        }
    }

    /// Ends a lane, which has finished or failed.
    fn ends(&mut self, seat: usize, failure: Option<WorkerFailure>) {
        let Some(lane) = self.lanes[seat].take() else { return };
        let worker = lane.worker();
        lane.end();
        self.shared.at_work.ends(worker);
        self.shared.given.left(&self.shared.slots);
        self.send(match failure {
            Some(it) => WorkerMessage::Failed(worker, it),
            None => WorkerMessage::Ended(worker),
        });
    }

    fn send(&self, message: WorkerMessage) {
        // The thread that has started this one waits for the message.
        let _ = self.messages.send(message);
    }
}

/// Next event among all lanes.
#[derive(Debug, Default)]
struct NextWork {
    /// Some lanes have not ended.
    is_left: bool,
    /// Earliest due time of the lanes.
    due: Option<ReplayTime>,
    /// Latest time since which a lane waits for other workers.
    since: Option<KernelTime>,
}

impl NextWork {
    fn add(&mut self, awaits: LaneWait) {
        match awaits {
            LaneWait::Time(it) => self.due = Some(self.due.map_or(it, |due| due.min(it))),
            LaneWait::Others(it) => self.since = self.since.max(Some(it)),
            LaneWait::Result | LaneWait::Nothing => {}
        }
    }
}

/// Returns the time to wait for results; `None`: no wait. `due`: time until the next due time;
/// `waited`: time for which a lane has waited for other workers.
fn pause(due: Option<Nanos>, waited: Option<Nanos>, may_spin: bool) -> Option<Duration> {
    let early = if may_spin { SPIN_TIME } else { Nanos(0) };
    let due = due.map_or(SLEEP_MAX, |due| Nanos(due.0.saturating_sub(early.0)));
    let poll = match waited {
        None => SLEEP_MAX,
        Some(waited) if waited < early => Nanos(0),
        Some(waited) => Nanos(waited.0 / 8).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX),
    };
    let Nanos(pause) = due.min(poll).min(SLEEP_MAX);
    (pause > 0).then(|| Duration::from_nanos(pause))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn waiting_server_sleeps_until_the_next_check() {
        let length = |due, waited, may_spin| {
            let pause = pause(due, waited, may_spin).unwrap_or_default();
            Nanos(pause.as_nanos().try_into().expect("at most SLEEP_MAX"))
        };
        let ns = |number: u64| Some(Nanos(number));
        assert_eq!(length(None, None, true), SLEEP_MAX);
        assert_eq!(length(ns(3_000_000), None, false), Nanos(3_000_000));
        assert_eq!(length(ns(3_000_000), None, true), Nanos(3_000_000 - SPIN_TIME.0));
        assert_eq!(length(Some(SPIN_TIME), None, true), Nanos(0));
        assert_eq!(length(ns(0), None, false), Nanos(0));
        assert_eq!(length(ns(u64::MAX), None, false), SLEEP_MAX);
        assert_eq!(length(None, ns(0), false), POLL_INTERVAL_MIN);
        assert_eq!(length(None, ns(0), true), Nanos(0));
        assert_eq!(length(None, ns(800_000), true), Nanos(100_000));
        assert_eq!(length(ns(7_000), ns(800_000), false), Nanos(7_000));
        assert_eq!(length(None, ns(u64::MAX), false), POLL_INTERVAL_MAX);
    }

    /// Fails if a lane that was sent to a panicked server is waited for.
    #[test]
    fn panicking_server_reports_failure_for_all_its_lanes() {
        let ((births, born), (messages, inbox)) = (channel(), channel());
        let failed = || match inbox.recv_timeout(Duration::from_secs(60)) {
            Ok(WorkerMessage::Failed(worker, WorkerFailure::Panicked)) => worker,
            other => panic!("{other:?}"),
        };
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let _births = LaneBirths(&born, &messages);
                let _lane = WorkerEndNotice(23, &messages);
                panic!("as it has to");
            });
            assert_eq!(failed(), 23);
            for worker in [29, 31] {
                births.send(worker).expect("it is there");
                assert_eq!(failed(), worker);
            }
            drop(births);
            assert!(server.join().is_err());
        });
    }

    #[test]
    fn next_work_has_earliest_due_time_and_latest_wait() {
        let mut next = NextWork::default();
        next.add(LaneWait::Result);
        assert_eq!((next.due, next.since), (None, None));
        let since = |it| LaneWait::Others(KernelTime(it));
        let time = |it| LaneWait::Time(ReplayTime(it));
        [time(7), since(23), time(5), since(29), time(11), since(13)]
            .into_iter()
            .for_each(|it| next.add(it));
        assert_eq!((next.due, next.since), (Some(ReplayTime(5)), Some(KernelTime(29))));
    }
}
