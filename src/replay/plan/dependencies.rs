//! Dependencies between operations: an operation waits for earlier ones that access the same
//! resource, if the capture kept the two apart.
//!
//! ```text
//!   thread 1   ──[ mkdir /a ]─────────────────────
//!   thread 2   ───────────────[ open /a/b ]───────   begins after the end of mkdir: an edge
//!   thread 3   ────────[ stat /a ]────────────────   overlaps mkdir: no edge
//! ```
//!
//! A resource is anything on which operations conflict: a descriptor, a position, a name, the bytes
//! of a file. Operations that change a resource wait for all earlier accesses; operations that use
//! the resource wait for the changes. Operations arrive in the order of their ends. An operation
//! that began early may need an access that later accesses have superseded, so superseded accesses
//! are kept until no operation can need them.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::low_watermark::LowWatermark;
use crate::units::ReplayTime;

/// Thread of the replay, numbered densely from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker(pub u32);

/// Operation, identified by its worker and its index there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId {
    /// Worker that executes the operation.
    pub worker: Worker,
    /// Index among that worker's operations, from 0.
    pub number: u32,
}

/// Operation with its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedOp {
    /// Identity of the operation.
    pub at: OpId,
    /// Begin of the operation.
    pub start: ReplayTime,
    /// End of the operation.
    pub end: ReplayTime,
}

/// Kind of an access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictMode {
    /// Needs the resource as earlier operations left it.
    Shared,
    /// May leave the resource different.
    Exclusive,
}

/// Minimum number of accesses that a resource keeps before those are searched that no operation can
/// need.
const ACCESSES_KEPT: usize = if cfg!(test) { 8 } else { 64 };

/// Accesses of one kind. Most resources have two: the newest one, and the previous one, which an
/// operation that overlaps the newest one may need.
type Accesses = SmallVec<[ResourceAccess; 2]>;

/// Access of one operation to one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceAccess {
    /// Operation that made the access.
    pub(super) at: OpId,
    /// End of the operation.
    pub(super) end: ReplayTime,
    /// Time from which this access is superseded: an operation that begins then or later waits for
    /// another operation that has waited for this one.
    pub(super) until: ReplayTime,
    changes: bool,
    /// The operation found the resource as the ended operations had left it.
    pub(super) saw: bool,
    /// Another operation that also found the resource in that state has waited for this one.
    /// Operations that wait for the other one wait for this one through it.
    is_hidden: bool,
}

impl ResourceAccess {
    /// Returns an access for which all later operations wait.
    pub(super) fn of(by: TimedOp) -> Self {
        let TimedOp { at, end, .. } = by;
        Self { at, end, until: ReplayTime::MAX, changes: true, saw: false, is_hidden: false }
    }

    /// Returns true if an operation may have to wait for this access: one that began at `start`,
    /// one that is in flight, or a later one.
    pub(super) fn is_needed(&self, start: ReplayTime, past: &LowWatermark) -> bool {
        let from = if self.saw && !self.is_hidden { ReplayTime::MIN } else { self.end };
        let times = from..self.until;
        // No in-flight or later operation began before the floor.
        if self.until <= past.floor() && self.until <= start {
            return false;
        }
        self.until == ReplayTime::MAX || times.contains(&start) || past.has_begun_in(times)
    }

    /// Returns true if a later operation may still supersede this access.
    fn is_live(&self, past: &LowWatermark) -> bool {
        self.until > past.floor()
    }
}

/// Accesses to one resource that later operations may have to wait for.
#[derive(Clone, Debug, Default)]
pub struct AccessHistory {
    changes: Accesses,
    uses: SharedAccesses,
}

impl AccessHistory {
    /// Records an access by an operation. Operations for which `by` has to wait are added to
    /// `before`; `past` bounds the begins of later operations.
    pub fn touch(
        &mut self,
        by: TimedOp,
        touch: ConflictMode,
        past: &LowWatermark,
        before: &mut WaitSet,
    ) {
        self.touch_seen(by, false, touch, past, before);
    }

    /// Records an access like [`Self::touch`]. `saw` means that the operation found the resource as
    /// the ended operations had left it. Then the operation comes after their changes although they
    /// overlap, and operations that change the resource later come after this one. (An ended
    /// operation is in the plan already, so no cycle can result.)
    pub fn touch_seen(
        &mut self,
        by: TimedOp,
        saw: bool,
        touch: ConflictMode,
        past: &LowWatermark,
        before: &mut WaitSet,
    ) {
        let changes = touch == ConflictMode::Exclusive;
        let mut follow = |access: &mut ResourceAccess| {
            let is_settled = saw && access.changes || changes && access.saw;
            if access.end > by.start && !is_settled {
                return;
            }
            let is_same_worker = access.at.worker == by.at.worker;
            if access.changes || changes {
                before.add(access.at);
            }
            // Operations that wait for `by` wait for this access through it.
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
        let access = ResourceAccess { changes, saw, ..ResourceAccess::of(by) };
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
            // Uses by other workers do not conflict.
            self.uses.each_of(by.at.worker, past, follow);
            if is_full(&self.uses.all) {
                let room = self.uses.all.capacity();
                self.uses.retain(past, |access| access.is_needed(by.start, past));
                grow(&mut self.uses.all, room);
            }
            self.uses.push(access);
        }
    }

    /// Returns true if all kept accesses had ended by this time.
    pub(super) fn is_over(&self, by: ReplayTime) -> bool {
        self.changes.iter().chain(&self.uses.all).all(|access| access.end <= by)
    }

    /// Returns the accesses that are kept.
    pub(super) fn into_accesses(self) -> impl Iterator<Item = ResourceAccess> {
        self.changes.into_iter().chain(self.uses.all)
    }
}

/// Accesses that leave the resource unchanged. Every thread of the capture may have one, for
/// example on a directory that contains programs.
#[derive(Clone, Debug, Default)]
struct SharedAccesses {
    /// All accesses. Up to [`ACCESSES_KEPT`] of them, only live ones are kept.
    all: Accesses,
    /// Index of the live accesses by worker, if there are more than that. Superseding changes only
    /// live accesses.
    places: Option<Box<FxHashMap<Worker, Vec<u32>>>>,
}

impl SharedAccesses {
    fn push(&mut self, access: ResourceAccess) {
        let place = place_number(self.all.len());
        self.all.push(access);
        match &mut self.places {
            Some(places) => places.entry(access.at.worker).or_default().push(place),
            None if self.all.len() > ACCESSES_KEPT => self.index(|_| true),
            None => {}
        }
    }

    /// Calls `visit` with the live accesses of one worker.
    fn each_of(
        &mut self,
        worker: Worker,
        past: &LowWatermark,
        mut visit: impl FnMut(&mut ResourceAccess),
    ) {
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

    fn retain(&mut self, past: &LowWatermark, is_kept: impl Fn(&ResourceAccess) -> bool) {
        let count = self.all.len();
        self.all.retain(|access| is_kept(access));
        if self.all.len() < count {
            self.places = None;
            if self.all.len() > ACCESSES_KEPT {
                self.index(|access| access.is_live(past));
            }
        }
    }

    /// Builds the index of each worker's accesses.
    fn index(&mut self, is_live: impl Fn(&ResourceAccess) -> bool) {
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

/// Returns true if no room is left. An operation that stays in flight for long holds the floor
/// down, and needs few of the accesses above the floor. So accesses that no operation needs are
/// searched only when the room is used up.
fn is_full(accesses: &Accesses) -> bool {
    accesses.len() >= accesses.capacity().max(ACCESSES_KEPT)
}

/// Doubles the room if more than half of the accesses are needed. So each access is examined only a
/// few times on average.
fn grow(accesses: &mut Accesses, room: usize) {
    if accesses.len() > room / 2 {
        accesses.reserve(room);
    }
}

/// Operations for which one operation waits: the last one of each worker.
#[derive(Clone, Debug, Default)]
pub struct WaitSet(Vec<OpId>);

impl WaitSet {
    /// Adds an operation; only the latest one of each worker is kept.
    pub fn add(&mut self, at: OpId) {
        match self.0.iter_mut().find(|known| known.worker == at.worker) {
            Some(known) => known.number = known.number.max(at.number),
            None => self.0.push(at),
        }
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the operations.
    pub fn all(&self) -> &[OpId] {
        &self.0
    }
}

/// Vector clock: the operations of every other worker for which each worker has already waited.
#[derive(Debug, Default)]
pub struct VectorClock(FxHashMap<(Worker, Worker), u32>);

impl VectorClock {
    /// Removes operations for which this worker need not wait: its own, and those covered by
    /// operations for which it has waited already.
    pub fn reduce(&mut self, worker: Worker, before: &mut WaitSet) {
        before.0.retain(|op| {
            if op.worker == worker {
                return false;
            }
            let waited = self.0.entry((worker, op.worker)).or_insert(0);
            let is_new = *waited <= op.number;
            *waited = (*waited).max(op.number + 1);
            is_new
        });
        before.0.sort_unstable();
    }
}

#[cfg(test)]
mod closure_tests;

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    impl AccessHistory {
        fn len(&self) -> usize {
            self.changes.len() + self.uses.all.len()
        }
    }

    /// Returns an operation with these times of the plan.
    fn op(worker: u32, number: u32, times: Range<u64>) -> TimedOp {
        let [start, end] = [times.start, times.end].map(ReplayTime);
        TimedOp { at: OpId { worker: Worker(worker), number }, start, end }
    }

    /// Returns the operations for which each one waits, in the order of arrival.
    fn waits(operations: &[(TimedOp, ConflictMode)]) -> Vec<Vec<(u32, u32)>> {
        let (mut thing, mut waited) = (AccessHistory::default(), VectorClock::default());
        let past = LowWatermark::of(ReplayTime::MIN, &[]);
        let wait = |(by, touch): &(TimedOp, ConflictMode)| {
            let mut before = WaitSet::default();
            thing.touch(*by, *touch, &past, &mut before);
            waited.reduce(by.at.worker, &mut before);
            before.all().iter().map(|op| (op.worker.0, op.number)).collect()
        };
        operations.iter().map(wait).collect()
    }

    #[test]
    fn user_waits_for_the_last_change() {
        use ConflictMode::{Exclusive, Shared};
        let all = [
            (op(0, 0, 0..10), Exclusive),
            (op(1, 0, 10..20), Shared),
            (op(2, 0, 12..22), Shared),
            (op(0, 1, 30..40), Exclusive),
            (op(1, 1, 40..50), Shared),
        ];
        let expected = [vec![], vec![(0, 0)], vec![(0, 0)], vec![(1, 0), (2, 0)], vec![(0, 1)]];
        assert_eq!(waits(&all), expected);
    }

    #[test]
    fn overlapping_operation_does_not_wait() {
        use ConflictMode::Exclusive;
        let all = [(op(0, 0, 0..10), Exclusive), (op(1, 0, 9..20), Exclusive)];
        assert_eq!(waits(&all), [vec![], vec![]]);
    }

    #[test]
    fn observer_of_an_overlapping_change_waits() {
        let (mut thing, mut before) = (AccessHistory::default(), WaitSet::default());
        let past = &LowWatermark::of(ReplayTime::MIN, &[]);
        thing.touch(op(0, 0, 0..10), ConflictMode::Exclusive, past, &mut before);
        thing.touch_seen(op(1, 0, 9..20), true, ConflictMode::Shared, past, &mut before);
        assert_eq!(before.all(), [op(0, 0, 0..10).at]);
        let mut of_third = WaitSet::default();
        thing.touch_seen(op(2, 0, 19..30), true, ConflictMode::Shared, past, &mut of_third);
        assert_eq!(of_third.all(), before.all(), "uses do not wait for uses");
        let mut of_next = WaitSet::default();
        thing.touch(op(3, 0, 5..40), ConflictMode::Exclusive, past, &mut of_next);
        let all = [op(1, 0, 9..20).at, op(2, 0, 19..30).at];
        assert_eq!(of_next.all(), all, "a change waits for earlier uses that saw the resource");
    }

    /// Fails if a later change hides an earlier one.
    #[test]
    fn long_running_operation_waits_for_accesses_at_its_start() {
        use ConflictMode::{Exclusive, Shared};
        let all = [
            (op(0, 0, 0..10), Exclusive),
            (op(1, 0, 20..30), Exclusive),
            (op(2, 0, 25..40), Shared),
        ];
        assert_eq!(waits(&all), [vec![], vec![(0, 0)], vec![(0, 0)]]);
    }

    #[test]
    fn unneeded_accesses_are_evicted() {
        let mut thing = AccessHistory::default();
        for number in 0..1000 {
            let start = u64::from(number) * 10;
            let touch =
                if number % 3 == 0 { ConflictMode::Exclusive } else { ConflictMode::Shared };
            thing.touch(
                op(number % 4, number / 4, start..start + 5),
                touch,
                &LowWatermark::of(ReplayTime(start), &[]),
                &mut WaitSet::default(),
            );
        }
        assert!(thing.len() <= 4 * ACCESSES_KEPT, "{}", thing.len());
    }

    /// Fails if a call that stays in flight keeps all accesses made meanwhile.
    #[test]
    fn long_running_operation_keeps_only_earlier_accesses() {
        let (mut thing, past) = (
            AccessHistory::default(),
            LowWatermark::of(ReplayTime(17), &[17, 5003].map(ReplayTime)),
        );
        for number in 0..10_000 {
            let start = u64::from(number) * 10;
            let touch =
                if number % 3 == 0 { ConflictMode::Exclusive } else { ConflictMode::Shared };
            let by = op(number % 4, number / 4, start..start + 5);
            thing.touch_seen(by, number % 2 == 0, touch, &past, &mut WaitSet::default());
            assert!(thing.len() <= 4 * ACCESSES_KEPT, "{}", thing.len());
        }
        let mut before = WaitSet::default();
        thing.touch(op(9, 0, 17..100_000), ConflictMode::Shared, &past, &mut before);
        assert_eq!(before.all(), [op(0, 0, 0..5).at]);
        thing.touch(op(9, 1, 5003..100_000), ConflictMode::Shared, &past, &mut before);
        // The 498th operation is the last one that changed the resource before.
        assert!(before.all().contains(&op(2, 124, 4980..4985).at), "{before:?}");
    }

    #[test]
    fn dependency_is_listed_once() {
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
