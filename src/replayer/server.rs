//! One thread that serves all lanes of a thread of the original, with a ring: what is due at the same time goes to the kernel by one call.
//!
//! ```text
//!   born lanes ─► each goes on as far as it can ─► one call: hands over what is due, and waits for the first result or the next time
//!                        ▲                                         │
//!                        └──── results: what waited for them ──────┘
//! ```
//!
//! Nobody wakes it: while one of its lanes waits for another worker it looks again and again, less often the longer that takes.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Duration;

use super::course::Course;
use super::frames::Frames;
use super::helper::Request;
use super::lane::{Awaits, Lane};
use super::stamps::{SLEEP_NS, SPIN_NS};
use super::worker::{Ending, Failure, Shared, Told};
use crate::sys::again::{Memory, Ring};
use crate::sys::{clock, thread};
use crate::units::KernelTime;

/// Who waits for others looks whether they are through after an eighth of the time that it has waited, and after so many ns at least, and at
/// most.
const LOOK_NS: [u64; 2] = [20_000, 1_000_000];

/// The thread.
struct Server<'a> {
    shared: &'a Shared,
    ring: Ring,
    /// By their seats; `None`: one that is through.
    lanes: Vec<Option<Lane<'a>>>,
    /// Lanes that are not born yet, and when the last one was.
    unborn: usize,
    born: KernelTime,
    helpers: &'a SyncSender<Request>,
    tell: &'a Sender<Told>,
}

/// Serves lanes, of which there will be so many at most, until nobody is there any more who tells of one that is born.
pub(super) fn serve(
    shared: &Shared,
    (ring, lanes): (Ring, usize),
    births: &Receiver<u32>,
    helpers: &SyncSender<Request>,
    tell: &Sender<Told>,
) {
    thread::set_exact_timers();
    let births = Births(births, tell);
    let all = Vec::with_capacity(lanes);
    let born = clock::now();
    let mut server = Server { shared, ring, lanes: all, unborn: lanes, born, helpers, tell };
    loop {
        if server.lanes.iter().all(Option::is_none) {
            let Ok(worker) = births.0.recv() else { return };
            server.bear(worker);
            // Behind it, as an open that waits is brought back from whoever is at work.
            shared.given.open(&shared.slots);
        }
        births.0.try_iter().for_each(|it| server.bear(it));
        let next = server.go_on();
        server.wait(next);
    }
}

/// Lanes that are born. Also if we panic: whoever has started us would wait for ever for those that we have not looked at.
struct Births<'a>(&'a Receiver<u32>, &'a Sender<Told>);

impl Drop for Births<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|it| drop(Ending(it, self.1)));
        }
    }
}

impl<'a> Server<'a> {
    fn bear(&mut self, worker: u32) {
        let ending = Ending(worker, self.tell);
        (self.unborn, self.born) = (self.unborn.saturating_sub(1), clock::now());
        let shared = self.shared;
        shared.at_work.begins(worker);
        match Memory::new(shared.source.longest, shared.contents.clone()) {
            Ok(memory) => {
                let course = Course::new(shared, worker, self.tell);
                let frames = Frames::new(shared.ahead.take(worker), worker, self.helpers);
                let seat = self.ring.seat(memory);
                self.lanes.push(Some(Lane::new(course, frames, seat, ending)));
            }
            Err(it) => {
                shared.at_work.ends(worker);
                self.tell(Told::Failed(worker, Failure::Memory(it)));
            }
        }
    }

    /// All lanes go on as far as they can: what is next then.
    fn go_on(&mut self) -> Next {
        let mut next = Next::default();
        if self.unborn > 0 && !self.shared.turns.is_over() {
            next.add(Awaits::Others(self.born));
        }
        for seat in 0..self.lanes.len() {
            let Some(lane) = &mut self.lanes[seat] else { continue };
            match lane.goes_on(&mut self.ring) {
                Ok(Awaits::Nothing) => self.ends(seat, None),
                Ok(it) => {
                    next.is_left = true;
                    next.add(it);
                }
                Err(failure) => self.ends(seat, Some(failure)),
            }
        }
        next
    }

    /// Hands over what is due, and takes what is through, when something is or the next look has come.
    fn wait(&mut self, next: Next) {
        // ORDERING: only a flag.
        let may_spin = self.shared.may_spin.load(Ordering::Relaxed);
        let due = next.due.map(|it| it.saturating_sub(self.shared.stamps.clock()));
        let waited = next.since.map(|it| clock::now().0.saturating_sub(it.0));
        let pause = if next.is_left { pause(due, waited, may_spin) } else { None };
        // What the kernel has is not waited for when all is over, no more than calls of threads are (`AtWork::interrupt`).
        let is_over = next.is_left && self.shared.turns.is_over();
        let told = if is_over { self.ring.interrupt() } else { Ok(()) };
        if let Err(error) = told.and_then(|()| self.ring.enter(pause)) {
            // Of all of them: what became of what is under way nobody will know.
            let mut failure = Some(Failure::Ring(error));
            (0..self.lanes.len()).for_each(|seat| self.ends(seat, failure.take()));
        }
        while let Some((seat, ret)) = self.ring.over() {
            if let Some(Some(lane)) = self.lanes.get_mut(seat) {
                lane.got(ret);
            }
        }
    }

    /// A lane is through, or cannot go on.
    fn ends(&mut self, seat: usize, failure: Option<Failure>) {
        let Some(lane) = self.lanes[seat].take() else { return };
        let worker = lane.worker();
        lane.end();
        self.shared.at_work.ends(worker);
        self.shared.given.left(&self.shared.slots);
        self.tell(match failure {
            Some(it) => Told::Failed(worker, it),
            None => Told::Ended(worker),
        });
    }

    fn tell(&self, told: Told) {
        // Who has started us waits for it.
        let _ = self.tell.send(told);
    }
}

/// What comes next of all lanes.
#[derive(Debug, Default)]
struct Next {
    /// Some lanes are not through.
    is_left: bool,
    /// The earliest time of those that have one, ns since the replay began.
    due: Option<u64>,
    /// Since when that one waits for others which has waited least.
    since: Option<KernelTime>,
}

impl Next {
    fn add(&mut self, awaits: Awaits) {
        match awaits {
            Awaits::Time(it) => self.due = Some(self.due.map_or(it, |due| due.min(it))),
            Awaits::Others(it) => self.since = self.since.max(Some(it)),
            Awaits::Result | Awaits::Nothing => {}
        }
    }
}

/// How long to wait for results; `None`: not at all. `due`: until the next time; `waited`: how long others have been waited for.
fn pause(due: Option<u64>, waited: Option<u64>, may_spin: bool) -> Option<Duration> {
    let early = if may_spin { SPIN_NS } else { 0 };
    let [least, most] = LOOK_NS;
    let due = due.map_or(SLEEP_NS, |it| it.saturating_sub(early));
    let look = match waited {
        None => SLEEP_NS,
        Some(it) if it < early => 0,
        Some(it) => (it / 8).clamp(least, most),
    };
    Some(due.min(look).min(SLEEP_NS)).filter(|it| *it > 0).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_waits_sleeps_until_the_next_look() {
        let ns = |due, waited, may_spin| {
            pause(due, waited, may_spin).map_or(0, |it| it.as_nanos().try_into().unwrap_or(0))
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

    /// Fails if somebody is waited for who was given to a thread that is no longer there.
    #[test]
    fn who_panics_tells_so_for_all_that_are_born() {
        let ((births, born), (tell, told)) = (channel(), channel());
        let failed = || match told.recv_timeout(Duration::from_secs(60)) {
            Ok(Told::Failed(worker, Failure::Panicked)) => worker,
            other => panic!("{other:?}"),
        };
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let _births = Births(&born, &tell);
                let _lane = Ending(23, &tell);
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
        let mut next = Next::default();
        next.add(Awaits::Result);
        assert_eq!((next.due, next.since), (None, None));
        let since = |it| Awaits::Others(KernelTime(it));
        [Awaits::Time(7), since(23), Awaits::Time(5), since(29), Awaits::Time(11), since(13)]
            .into_iter()
            .for_each(|it| next.add(it));
        assert_eq!((next.due, next.since), (Some(5), Some(KernelTime(29))));
    }
}
