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
use smallvec::SmallVec;

use super::low_watermark::Past;

/// A thread of the replay. Dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker(pub u32);

/// An operation: the worker's how manieth, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId {
    /// Whose.
    pub worker: Worker,
    /// Which of its operations.
    pub number: u32,
}

/// An operation and when it was, in ns of the capture's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedOp {
    /// Which.
    pub at: OpId,
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

/// Accesses that a thing keeps at least before those are looked for that no operation can need.
const ACCESSES_KEPT: usize = if cfg!(test) { 8 } else { 64 };

/// Accesses of one kind. Most things have two: the newest one, and the one before it, which an operation that overlaps with the newest one may need.
type Accesses = SmallVec<[Access; 2]>;

/// One operation on one thing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The operation.
    pub(super) at: OpId,
    /// The end of the operation, ns.
    pub(super) end: u64,
    /// An operation that begins at this time or later waits for another one that has waited for this.
    pub(super) until: u64,
    changes: bool,
    /// The operation found the thing as those had left it that had ended.
    pub(super) saw: bool,
    /// Another operation that has waited for this one found the thing so, too: operations that wait for that one wait for this one by it.
    is_hidden: bool,
}

impl Access {
    /// An access that all others wait for.
    pub(super) fn of(by: TimedOp) -> Self {
        let TimedOp { at, end, .. } = by;
        Self { at, end, until: u64::MAX, changes: true, saw: false, is_hidden: false }
    }

    /// True if an operation may have to wait for it that is under way, began at `start`, or comes later.
    pub(super) fn is_needed(&self, start: u64, past: &Past) -> bool {
        let from = if self.saw && !self.is_hidden { 0 } else { self.end };
        let times = from..self.until;
        // No operation that is under way, or comes later, began before the floor.
        if self.until <= past.floor() && self.until <= start {
            return false;
        }
        self.until == u64::MAX || times.contains(&start) || past.has_begun_in(times)
    }

    /// True if a later operation may still stand for it.
    fn is_live(&self, past: &Past) -> bool {
        self.until > past.floor()
    }
}

/// One thing, and the operations that have touched it.
#[derive(Clone, Debug, Default)]
pub struct AccessHistory {
    changes: Accesses,
    uses: Uses,
}

impl AccessHistory {
    /// The operation touches it. The operations that it has to wait for go into `before`; `past`: when later operations may have begun.
    pub fn touch(&mut self, by: TimedOp, touch: Touch, past: &Past, before: &mut WaitSet) {
        self.touch_seen((by, false), touch, past, before);
    }

    /// The same; `saw`: the operation found the thing as those had left it that have ended. So it comes after their changes though they overlap, and
    /// operations that change the thing then come after it. (An operation that has ended is in the plan already: no circle can come of it.)
    pub fn touch_seen(
        &mut self,
        (by, saw): (TimedOp, bool),
        touch: Touch,
        past: &Past,
        before: &mut WaitSet,
    ) {
        let changes = touch == Touch::Changes;
        let mut follow = |access: &mut Access| {
            let is_settled = saw && access.changes || changes && access.saw;
            if access.end > by.start && !is_settled {
                return;
            }
            let is_same_worker = access.at.worker == by.at.worker;
            if access.changes || changes {
                before.add(access.at);
            }
            // Operations that wait for this one wait for that one by it.
            if changes || is_same_worker && !access.changes {
                access.until = access.until.min(by.end);
            }
            access.is_hidden |= saw && (changes || is_same_worker);
        };
        self.changes.retain(|access| {
            let stays = access.is_live(past);
            if stays {
                follow(access);
            }
            stays
        });
        let access = Access { changes, saw, ..Access::of(by) };
        if changes {
            self.uses.retain(past, |access| access.is_live(past));
            self.uses.all.iter_mut().for_each(follow);
            if is_full(&self.changes) {
                let room = self.changes.capacity();
                self.changes.retain(|access| access.is_needed(by.start, past));
                grow(&mut self.changes, room);
            }
            self.changes.push(access);
        } else {
            // Uses by other workers are not in the way.
            self.uses.each_of(by.at.worker, past, follow);
            if is_full(&self.uses.all) {
                let room = self.uses.all.capacity();
                self.uses.retain(past, |access| access.is_needed(by.start, past));
                grow(&mut self.uses.all, room);
            }
            self.uses.push(access);
        }
    }

    /// True if all that was done to it was over by then.
    pub(super) fn is_over(&self, by: u64) -> bool {
        self.changes.iter().chain(&self.uses.all).all(|access| access.end <= by)
    }

    /// The accesses that are kept.
    pub(super) fn into_accesses(self) -> impl Iterator<Item = Access> {
        self.changes.into_iter().chain(self.uses.all)
    }
}

/// Accesses that leave a thing as it was. One of each thread of the capture may be kept: of a directory in which programs are.
#[derive(Clone, Debug, Default)]
struct Uses {
    /// Up to [`ACCESSES_KEPT`] of them, only live ones are kept.
    all: Accesses,
    /// With more of them: the places of the live ones of each worker. Nothing changes in the others.
    places: Option<Box<FxHashMap<Worker, Vec<u32>>>>,
}

impl Uses {
    fn push(&mut self, access: Access) {
        let place = place_number(self.all.len());
        self.all.push(access);
        match &mut self.places {
            Some(places) => places.entry(access.at.worker).or_default().push(place),
            None if self.all.len() > ACCESSES_KEPT => self.index(|_| true),
            None => {}
        }
    }

    /// The live accesses of one worker.
    fn each_of(&mut self, worker: Worker, past: &Past, mut visit: impl FnMut(&mut Access)) {
        let all = &mut self.all;
        let Some(places) = &mut self.places else {
            all.retain(|access| {
                if access.at.worker == worker {
                    visit(access);
                }
                access.is_live(past)
            });
            return;
        };
        let Some(places) = places.get_mut(&worker) else { return };
        places.retain(|place| {
            let access = &mut all[*place as usize];
            visit(access);
            access.is_live(past)
        });
    }

    fn retain(&mut self, past: &Past, is_kept: impl Fn(&Access) -> bool) {
        let count = self.all.len();
        self.all.retain(|access| is_kept(access));
        if self.all.len() < count {
            self.places = None;
            if self.all.len() > ACCESSES_KEPT {
                self.index(|access| access.is_live(past));
            }
        }
    }

    /// Finds the places of each worker's accesses.
    fn index(&mut self, is_live: impl Fn(&Access) -> bool) {
        let mut places: FxHashMap<Worker, Vec<u32>> = FxHashMap::default();
        for (place, access) in self.all.iter().enumerate().filter(|(_, access)| is_live(access)) {
            places.entry(access.at.worker).or_default().push(place_number(place));
        }
        self.places = Some(Box::new(places));
    }
}

fn place_number(place: usize) -> u32 {
    u32::try_from(place).expect("fewer than operations")
}

/// An operation that is under way for long holds the floor down, and needs few of the accesses above it. So those that no operation needs are
/// looked for only when there is no room left, and ...
fn is_full(accesses: &Accesses) -> bool {
    accesses.len() >= accesses.capacity().max(ACCESSES_KEPT)
}

/// ... if more than half of them are needed, there is room for twice as many afterwards: on the average each access is looked at a few times.
fn grow(accesses: &mut Accesses, room: usize) {
    if accesses.len() > room / 2 {
        accesses.reserve(room);
    }
}

/// Operations that one waits for: of each worker the last one.
#[derive(Clone, Debug, Default)]
pub struct WaitSet(Vec<OpId>);

impl WaitSet {
    /// One more.
    pub fn add(&mut self, at: OpId) {
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
    pub fn all(&self) -> &[OpId] {
        &self.0
    }
}

/// What each worker has waited for already.
#[derive(Debug, Default)]
pub struct VectorClock(FxHashMap<(Worker, Worker), u32>);

impl VectorClock {
    /// Leaves out what this worker need not wait for: its own operations, and those before some that it has waited for.
    pub fn reduce(&mut self, worker: Worker, before: &mut WaitSet) {
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

    impl AccessHistory {
        fn len(&self) -> usize {
            self.changes.len() + self.uses.all.len()
        }
    }

    fn op(worker: u32, number: u32, start: u64, end: u64) -> TimedOp {
        TimedOp { at: OpId { worker: Worker(worker), number }, start, end }
    }

    /// Whom each of them waits for, in the order in which they come.
    fn waits(operations: &[(TimedOp, Touch)]) -> Vec<Vec<(u32, u32)>> {
        let (mut thing, mut waited) = (AccessHistory::default(), VectorClock::default());
        let past = Past::of(0, &[]);
        let wait = |(by, touch): &(TimedOp, Touch)| {
            let mut before = WaitSet::default();
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
        let (mut thing, mut before) = (AccessHistory::default(), WaitSet::default());
        let past = &Past::of(0, &[]);
        thing.touch(op(0, 0, 0, 10), Touch::Changes, past, &mut before);
        thing.touch_seen((op(1, 0, 9, 20), true), Touch::Uses, past, &mut before);
        assert_eq!(before.all(), [op(0, 0, 0, 10).at]);
        let mut of_third = WaitSet::default();
        thing.touch_seen((op(2, 0, 19, 30), true), Touch::Uses, past, &mut of_third);
        assert_eq!(of_third.all(), before.all(), "who uses does not wait for who uses");
        let mut of_next = WaitSet::default();
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
        let mut thing = AccessHistory::default();
        for number in 0..1000 {
            let start = u64::from(number) * 10;
            let touch = if number % 3 == 0 { Touch::Changes } else { Touch::Uses };
            thing.touch(
                op(number % 4, number / 4, start, start + 5),
                touch,
                &Past::of(start, &[]),
                &mut WaitSet::default(),
            );
        }
        assert!(thing.len() <= 4 * ACCESSES_KEPT, "{}", thing.len());
    }

    /// Fails if a call that stays under way makes others remember all that was done meanwhile.
    #[test]
    fn who_is_under_way_for_long_needs_only_what_was_before() {
        let (mut thing, past) = (AccessHistory::default(), Past::of(17, &[17, 5003]));
        for number in 0..10_000 {
            let start = u64::from(number) * 10;
            let touch = if number % 3 == 0 { Touch::Changes } else { Touch::Uses };
            let by = op(number % 4, number / 4, start, start + 5);
            thing.touch_seen((by, number % 2 == 0), touch, &past, &mut WaitSet::default());
            assert!(thing.len() <= 4 * ACCESSES_KEPT, "{}", thing.len());
        }
        let mut before = WaitSet::default();
        thing.touch(op(9, 0, 17, 100_000), Touch::Uses, &past, &mut before);
        assert_eq!(before.all(), [op(0, 0, 0, 5).at]);
        thing.touch(op(9, 1, 5003, 100_000), Touch::Uses, &past, &mut before);
        // The 498th was the last that changed it.
        assert!(before.all().contains(&op(2, 124, 4980, 4985).at), "{before:?}");
    }

    #[test]
    fn one_has_to_be_waited_for_only_once() {
        let mut waited = VectorClock::default();
        let mut again = |number| {
            let mut before = WaitSet::default();
            before.add(OpId { worker: Worker(1), number });
            waited.reduce(Worker(0), &mut before);
            before.all().len()
        };
        assert_eq!([again(5), again(3), again(5), again(6)], [1, 0, 0, 1]);
    }
}
