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
use super::timestamps::{SLEEP_NS, SPIN_NS};
use super::worker_state::WorkerState;
use crate::sys::replay::reissue::{CallMemory, CallRing};
use crate::sys::{clock, thread};
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Limits of the poll interval in ns. A lane that waits for other workers is polled after an eighth
/// of the time that it has waited, within these limits.
const LOOK_NS: [u64; 2] = [20_000, 1_000_000];

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
            server.bear(worker);
            // After the birth: an open that blocks is interrupted only in running workers.
            shared.given.open(&shared.slots);
        }
        births.0.try_iter().for_each(|it| server.bear(it));
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
    fn bear(&mut self, worker: u32) {
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

/// Returns how long to wait for results; `None`: not at all. `due`: time until the next due time;
/// `waited`: how long a lane has waited for other workers.
fn pause(due: Option<Nanos>, waited: Option<Nanos>, may_spin: bool) -> Option<Duration> {
    let early = if may_spin { SPIN_NS } else { 0 };
    let [least, most] = LOOK_NS;
    let due = due.map_or(SLEEP_NS, |it| it.0.saturating_sub(early));
    let look = match waited {
        None => SLEEP_NS,
        Some(Nanos(it)) if it < early => 0,
        Some(Nanos(it)) => (it / 8).clamp(least, most),
    };
    Some(due.min(look).min(SLEEP_NS)).filter(|it| *it > 0).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn waiting_server_sleeps_until_the_next_check() {
        let ns = |due_ns: Option<u64>, waited_ns: Option<u64>, may_spin| {
            pause(due_ns.map(Nanos), waited_ns.map(Nanos), may_spin)
                .map_or(0, |it| it.as_nanos().try_into().unwrap_or(0))
        };
        assert_eq!(ns(None, None, true), SLEEP_NS);
        assert_eq!(ns(Some(3_000_000), None, false), 3_000_000);
        assert_eq!(ns(Some(3_000_000), None, true), 3_000_000 - SPIN_NS);
        assert_eq!(ns(Some(SPIN_NS), None, true), 0);
        assert_eq!(ns(Some(0), None, false), 0);
        assert_eq!(ns(Some(u64::MAX), None, false), SLEEP_NS);
        assert_eq!(ns(None, Some(0), false), LOOK_NS[0]);
        assert_eq!(ns(None, Some(0), true), 0);
        assert_eq!(ns(None, Some(800_000), true), 100_000);
        assert_eq!(ns(Some(7_000), Some(800_000), false), 7_000);
        assert_eq!(ns(None, Some(u64::MAX), false), LOOK_NS[1]);
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
    fn the_next_one_counts() {
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
