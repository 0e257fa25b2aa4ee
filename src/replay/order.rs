//! What may begin only after what: operations that touch the same thing, as far as the original kept them apart.
//!
//! ```text
//!   thread 1   ──[ mkdir /a ]─────────────────────
//!   thread 2   ───────────────[ open /a/b ]───────   begins behind the end of mkdir: an edge
//!   thread 3   ────────[ stat /a ]────────────────   overlaps it: none
//! ```
//!
//! A thing is anything that operations can be in the way of each other on: a descriptor, a position, a name, the bytes of a file.
//! Those who change it wait for all before them, the others for those who change it. Operations come in the order of their ends;
//! one that began early may still need what others have been in front of since, so that is kept until nobody can.

use rustc_hash::FxHashMap;

use super::past::Past;

/// A thread of the replay. Dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker(pub u32);

/// An operation: the worker's how manieth, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// Whose.
    pub worker: Worker,
    /// Which of its operations.
    pub number: u32,
}

/// An operation and when it was, in ns of the capture's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// Which.
    pub at: At,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// What an operation does to a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It has to be as it was.
    Uses,
    /// It may be another one behind it.
    Changes,
}

/// Accesses that a thing keeps at least before it is looked at who may still need them.
const ACCESSES_KEPT: usize = if cfg!(test) { 8 } else { 64 };

#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) by: Timed,
    changes: bool,
    /// It found the thing as those had left it that had ended.
    pub(super) saw: bool,
    /// Another one that is behind this found it so, too: who is behind this by that is behind the other one.
    is_hidden: bool,
    /// Whoever begins at this time or later is behind another one that is behind this.
    pub(super) until: u64,
}

impl Access {
    /// One that others wait for, whatever they do.
    pub(super) fn of(by: Timed) -> Self {
        Self { by, changes: true, saw: false, is_hidden: false, until: u64::MAX }
    }

    /// True if somebody may have to wait for it who is under way, began at `start`, or comes yet.
    pub(super) fn is_needed(&self, start: u64, past: &Past) -> bool {
        let from = if self.saw && !self.is_hidden { 0 } else { self.by.end };
        let times = from..self.until;
        // No operation that is under way, or comes later, began before the floor.
        if self.until <= past.floor() && self.until <= start {
            return false;
        }
        self.until == u64::MAX || times.contains(&start) || past.has_begun_in(times)
    }
}

/// One thing, and who has touched it.
#[derive(Clone, Debug, Default)]
pub struct Thing {
    changes: Vec<Access>,
    uses: Uses,
}

impl Thing {
    /// The operation touches it. Whom it has to wait for goes into `before`; `past`: when those may have begun who come later.
    pub fn touch(&mut self, by: Timed, touch: Touch, past: &Past, before: &mut Before) {
        self.touch_seen((by, false), touch, past, before);
    }

    /// The same; `saw`: it found the thing as those had left it that have ended. So it was behind their changes though they overlap, and who changes
    /// it then was behind it. (Who has ended is in the plan already: nobody waits for who waits for him.)
    pub fn touch_seen(
        &mut self,
        (by, saw): (Timed, bool),
        touch: Touch,
        past: &Past,
        before: &mut Before,
    ) {
        let changes = touch == Touch::Changes;
        let mut behind = |it: &mut Access| {
            let is_settled = saw && it.changes || changes && it.saw;
            if it.by.end > by.start && !is_settled {
                return;
            }
            let is_same_worker = it.by.at.worker == by.at.worker;
            if it.changes || changes {
                before.add(it.by.at);
            }
            // Who waits for this one waits for that one, too.
            if changes || is_same_worker && !it.changes {
                it.until = it.until.min(by.end);
            }
            it.is_hidden |= saw && (changes || is_same_worker);
        };
        self.changes.retain_mut(|it| {
            let stays = it.until > past.floor();
            if stays {
                behind(it);
            }
            stays
        });
        let access = Access { by, changes, saw, is_hidden: false, until: u64::MAX };
        if changes {
            self.uses.retain(past, |it| it.until > past.floor());
            self.uses.all.iter_mut().for_each(behind);
            if is_full(&self.changes) {
                let room = self.changes.capacity();
                self.changes.retain(|it| it.is_needed(by.start, past));
                grow(&mut self.changes, room);
            }
            self.changes.push(access);
        } else {
            // Others who use it are not in the way.
            self.uses.each_of(by.at.worker, past, behind);
            if is_full(&self.uses.all) {
                let room = self.uses.all.capacity();
                self.uses.retain(past, |it| it.is_needed(by.start, past));
                grow(&mut self.uses.all, room);
            }
            self.uses.push(access);
        }
    }

    /// True if all that was done to it was over by then.
    pub(super) fn is_over(&self, by: u64) -> bool {
        self.changes.iter().chain(&self.uses.all).all(|it| it.by.end <= by)
    }

    /// Who has touched it, as far as that is kept.
    pub(super) fn into_accesses(self) -> impl Iterator<Item = Access> {
        self.changes.into_iter().chain(self.uses.all)
    }
}

/// Those who have used a thing. There may be one of each thread that there ever was: a directory in which programs are.
#[derive(Clone, Debug, Default)]
struct Uses {
    all: Vec<Access>,
    /// Where those are that a later operation may still stand for; of the others nothing changes any more. Empty if `places` is used.
    live: Vec<u32>,
    /// Where those of each worker are; empty if there are few.
    places: FxHashMap<Worker, Vec<u32>>,
}

impl Uses {
    fn push(&mut self, access: Access) {
        self.all.push(access);
        if self.all.len() == ACCESSES_KEPT + 1 {
            self.live.clear();
            (0..self.all.len()).for_each(|it| self.found(it));
        } else {
            self.found(self.all.len() - 1);
        }
    }

    /// Those of one worker that a later operation may still stand for.
    fn each_of(&mut self, worker: Worker, past: &Past, mut tell: impl FnMut(&mut Access)) {
        let all = &mut self.all;
        let is_few = all.len() <= ACCESSES_KEPT;
        let places = if is_few { Some(&mut self.live) } else { self.places.get_mut(&worker) };
        let Some(places) = places else { return };
        places.retain(|it| {
            let access = &mut all[*it as usize];
            if access.by.at.worker == worker {
                tell(access);
            }
            access.until > past.floor()
        });
    }

    fn retain(&mut self, past: &Past, is_kept: impl FnMut(&Access) -> bool) {
        let count = self.all.len();
        self.all.retain(is_kept);
        if self.all.len() < count {
            self.live.clear();
            self.places.clear();
            let is_live = |it: &Access| it.until > past.floor();
            let live: Vec<usize> =
                (0..self.all.len()).filter(|it| is_live(&self.all[*it])).collect();
            live.into_iter().for_each(|it| self.found(it));
        }
    }

    fn found(&mut self, place: usize) {
        let number = u32::try_from(place).expect("fewer than operations");
        if self.all.len() <= ACCESSES_KEPT {
            self.live.push(number);
        } else {
            self.places.entry(self.all[place].by.at.worker).or_default().push(number);
        }
    }
}

/// Whoever is under way for long holds the floor down, and few of those above it are needed by him. So it is looked at who is needed only
/// when there is no room left, and ...
fn is_full(accesses: &Vec<Access>) -> bool {
    accesses.len() >= accesses.capacity().max(ACCESSES_KEPT)
}

/// ... if more than half of them are, there is room for twice as many: so on the average nobody is looked at more than some times.
fn grow(accesses: &mut Vec<Access>, room: usize) {
    if accesses.len() > room / 2 {
        accesses.reserve(room);
    }
}

/// Operations that one waits for: of each worker the last one.
#[derive(Clone, Debug, Default)]
pub struct Before(Vec<At>);

impl Before {
    /// One more.
    pub fn add(&mut self, at: At) {
        match self.0.iter_mut().find(|it| it.worker == at.worker) {
            Some(it) => it.number = it.number.max(at.number),
            None => self.0.push(at),
        }
    }

    /// Nobody.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Those that are left.
    pub fn all(&self) -> &[At] {
        &self.0
    }
}

/// What each worker has waited for already.
#[derive(Debug, Default)]
pub struct Waited(FxHashMap<(Worker, Worker), u32>);

impl Waited {
    /// Leaves out what this worker need not wait for: its own operations, and those before some that it has waited for.
    pub fn reduce(&mut self, worker: Worker, before: &mut Before) {
        before.0.retain(|it| {
            if it.worker == worker {
                return false;
            }
            let waited = self.0.entry((worker, it.worker)).or_insert(0);
            let is_new = *waited <= it.number;
            *waited = (*waited).max(it.number + 1);
            is_new
        });
        before.0.sort_unstable();
    }
}

#[cfg(test)]
mod closure_tests;

#[cfg(test)]
mod tests {
    use super::*;

    impl Thing {
        fn len(&self) -> usize {
            self.changes.len() + self.uses.all.len()
        }
    }

    fn op(worker: u32, number: u32, start: u64, end: u64) -> Timed {
        Timed { at: At { worker: Worker(worker), number }, start, end }
    }

    /// Whom each of them waits for, in the order in which they come.
    fn waits(operations: &[(Timed, Touch)]) -> Vec<Vec<(u32, u32)>> {
        let (mut thing, mut waited) = (Thing::default(), Waited::default());
        let past = Past::of(0, &[]);
        let wait = |(by, touch): &(Timed, Touch)| {
            let mut before = Before::default();
            thing.touch(*by, *touch, &past, &mut before);
            waited.reduce(by.at.worker, &mut before);
            before.all().iter().map(|it| (it.worker.0, it.number)).collect()
        };
        operations.iter().map(wait).collect()
    }

    #[test]
    fn who_uses_waits_for_who_has_changed() {
        use Touch::{Changes, Uses};
        let all = [
            (op(0, 0, 0, 10), Changes),
            (op(1, 0, 10, 20), Uses),
            (op(2, 0, 12, 22), Uses),
            (op(0, 1, 30, 40), Changes),
            (op(1, 1, 40, 50), Uses),
        ];
        let expected = [vec![], vec![(0, 0)], vec![(0, 0)], vec![(1, 0), (2, 0)], vec![(0, 1)]];
        assert_eq!(waits(&all), expected);
    }

    #[test]
    fn who_overlapped_does_not_wait() {
        use Touch::Changes;
        let all = [(op(0, 0, 0, 10), Changes), (op(1, 0, 9, 20), Changes)];
        assert_eq!(waits(&all), [vec![], vec![]]);
    }

    #[test]
    fn who_saw_what_an_overlapping_one_has_made_waits() {
        let (mut thing, mut before) = (Thing::default(), Before::default());
        let past = &Past::of(0, &[]);
        thing.touch(op(0, 0, 0, 10), Touch::Changes, past, &mut before);
        thing.touch_seen((op(1, 0, 9, 20), true), Touch::Uses, past, &mut before);
        assert_eq!(before.all(), [op(0, 0, 0, 10).at]);
        let mut of_third = Before::default();
        thing.touch_seen((op(2, 0, 19, 30), true), Touch::Uses, past, &mut of_third);
        assert_eq!(of_third.all(), before.all(), "who uses does not wait for who uses");
        let mut of_next = Before::default();
        thing.touch(op(3, 0, 5, 40), Touch::Changes, past, &mut of_next);
        let all = [op(1, 0, 9, 20).at, op(2, 0, 19, 30).at];
        assert_eq!(of_next.all(), all, "who changes it does for who has seen it before");
    }

    /// Fails if what a later one has changed hides what an earlier one has.
    #[test]
    fn who_began_early_waits_for_what_was_there_then() {
        use Touch::{Changes, Uses};
        let all =
            [(op(0, 0, 0, 10), Changes), (op(1, 0, 20, 30), Changes), (op(2, 0, 25, 40), Uses)];
        assert_eq!(waits(&all), [vec![], vec![(0, 0)], vec![(0, 0)]]);
    }

    #[test]
    fn what_nobody_can_need_is_forgotten() {
        let mut thing = Thing::default();
        for number in 0..1000 {
            let start = u64::from(number) * 10;
            let touch = if number % 3 == 0 { Touch::Changes } else { Touch::Uses };
            thing.touch(
                op(number % 4, number / 4, start, start + 5),
                touch,
                &Past::of(start, &[]),
                &mut Before::default(),
            );
        }
        assert!(thing.len() <= 4 * ACCESSES_KEPT, "{}", thing.len());
    }

    /// Fails if a call that stays under way makes others remember all that was done meanwhile.
    #[test]
    fn who_is_under_way_for_long_needs_only_what_was_before() {
        let (mut thing, past) = (Thing::default(), Past::of(17, &[17, 5003]));
        for number in 0..10_000 {
            let start = u64::from(number) * 10;
            let touch = if number % 3 == 0 { Touch::Changes } else { Touch::Uses };
            let by = op(number % 4, number / 4, start, start + 5);
            thing.touch_seen((by, number % 2 == 0), touch, &past, &mut Before::default());
            assert!(thing.len() <= 4 * ACCESSES_KEPT, "{}", thing.len());
        }
        let mut before = Before::default();
        thing.touch(op(9, 0, 17, 100_000), Touch::Uses, &past, &mut before);
        assert_eq!(before.all(), [op(0, 0, 0, 5).at]);
        thing.touch(op(9, 1, 5003, 100_000), Touch::Uses, &past, &mut before);
        // The 498th was the last that changed it.
        assert!(before.all().contains(&op(2, 124, 4980, 4985).at), "{before:?}");
    }

    #[test]
    fn one_has_to_be_waited_for_only_once() {
        let mut waited = Waited::default();
        let mut again = |number| {
            let mut before = Before::default();
            before.add(At { worker: Worker(1), number });
            waited.reduce(Worker(0), &mut before);
            before.all().len()
        };
        assert_eq!([again(5), again(3), again(5), again(6)], [1, 0, 0, 1]);
    }
}
