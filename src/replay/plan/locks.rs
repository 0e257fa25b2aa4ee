//! Locks: which description has locked which file (`flock`), and the waits that result.
//!
//! ```text
//!   description 1   ──[ EX ]───────────────[ UN ]────────
//!   description 2   ──────────[ EX|NB: no ]──────────────   after the lock, before the unlock
//!   description 3   ──────[ EX ····························· ]──   after the unlock, although it
//!                                                                 began before the lock
//! ```
//!
//! A lock belongs to an open file description, whichever processes have descriptors of it. The
//! order of ends counts, which is the order of the plan: however long a call waited for a lock, it
//! acquired the lock after the holders had released it. So each operation waits only for operations
//! that are in the plan already.
//!
//! **No worker waits forever.** A replay only tries locks (`LOCK_NB`), so no worker waits inside a
//! call. All edges of a plan, and the order of each worker's operations, lead from later operations
//! of one sequence to earlier ones. So the first operation that is not done yet can always be
//! executed.

use rustc_hash::FxHashMap;

use super::dependencies::{OpId, TimedOp, WaitSet};
use super::namespace::FileId;
use crate::event::registers::int;
use crate::units::DevId;

/// Object of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockTarget {
    /// Regular file.
    File(FileId),
    /// Directory, by its device and inode number.
    Directory(DevId, u64),
    /// Directory with an unknown inode, identified by the description that locks it.
    Unknown(u64),
}

/// Mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Held together with other shared locks.
    Shared,
    /// Held by one description alone.
    Exclusive,
}

/// Request of an `flock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlockRequest {
    /// Acquires a lock; true if the call waits for the lock.
    Lock(Mode, bool),
    /// Releases the lock.
    Unlock,
    /// Unknown request.
    Other,
}

/// Decodes the request of an `flock` with these registers.
pub fn wish(args: &[u64; 6]) -> FlockRequest {
    let flags = int(args[1]);
    let waits = flags & libc::LOCK_NB == 0;
    match flags & !libc::LOCK_NB {
        libc::LOCK_SH => FlockRequest::Lock(Mode::Shared, waits),
        libc::LOCK_EX => FlockRequest::Lock(Mode::Exclusive, waits),
        libc::LOCK_UN => FlockRequest::Unlock,
        _ => FlockRequest::Other,
    }
}

/// Lock request of a description.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockAttempt {
    pub(super) locked: LockTarget,
    pub(super) description: u64,
    pub(super) mode: Mode,
}

/// Number of operations up to which a crowd grows.
const CROWD_MAX: usize = 32;

/// Operations for which later ones have to wait. In a large crowd, the next operation that joins
/// waits for all the others and represents them.
#[derive(Debug, Default)]
struct WaitGroup(WaitSet);

impl WaitGroup {
    fn join(&mut self, at: OpId, before: &mut WaitSet) {
        if self.0.all().len() >= CROWD_MAX {
            self.wait(before);
            self.0.clear();
        }
        self.0.add(at);
    }

    fn wait(&self, before: &mut WaitSet) {
        self.0.all().iter().for_each(|op| before.add(*op));
    }
}

/// Lock that a description holds.
#[derive(Debug)]
struct HeldLock {
    description: u64,
    mode: Mode,
    by: TimedOp,
    /// Operations that were refused because of this lock.
    refused: WaitGroup,
}

/// Locks of one file.
#[derive(Debug, Default)]
struct Lock {
    holds: Vec<HeldLock>,
    /// Operations that have released a lock since the last exclusive one: a shared lock, or an
    /// exclusive one.
    let_go: [WaitGroup; 2],
}

/// Locks of all files.
#[derive(Debug, Default)]
pub(super) struct Locks {
    of: FxHashMap<LockTarget, Lock>,
    /// Object that each description has locked.
    holders: FxHashMap<u64, LockTarget>,
}

impl Locks {
    /// Returns the holders that exclude a request: their descriptions, and the operations that
    /// acquired the locks.
    pub(super) fn in_the_way(&self, attempt: LockAttempt) -> impl Iterator<Item = (u64, TimedOp)> {
        let holds = self.of.get(&attempt.locked).into_iter().flat_map(|lock| &lock.holds);
        let excludes = move |hold: &&HeldLock| {
            hold.description != attempt.description
                && (hold.mode == Mode::Exclusive || attempt.mode == Mode::Exclusive)
        };
        holds.filter(excludes).map(|hold| (hold.description, hold.by))
    }

    /// Records that a description has acquired a lock. No other holder excludes the request.
    pub(super) fn got(&mut self, attempt: LockAttempt, by: TimedOp, before: &mut WaitSet) {
        if self.mode(attempt.description) == Some(attempt.mode) {
            return;
        }
        // The kernel releases a lock of another kind first (flock(2)).
        self.let_go(attempt.description, by.at, before);
        let lock = self.of.entry(attempt.locked).or_default();
        lock.let_go[Mode::Exclusive as usize].wait(before);
        if attempt.mode == Mode::Exclusive {
            lock.let_go[Mode::Shared as usize].wait(before);
            // Later operations wait for this one.
            lock.let_go = Default::default();
        }
        let LockAttempt { description, mode, .. } = attempt;
        lock.holds.push(HeldLock { description, mode, by, refused: WaitGroup::default() });
        self.holders.insert(description, attempt.locked);
    }

    /// Records a refusal because of another holder: the operation comes after the holder's lock and
    /// before its release.
    pub(super) fn refused(&mut self, attempt: LockAttempt, at: OpId, before: &mut WaitSet) {
        let first = self.in_the_way(attempt).next().map(|(description, _)| description);
        let holds = self.of.get_mut(&attempt.locked).into_iter().flat_map(|lock| &mut lock.holds);
        for hold in holds.filter(|hold| Some(hold.description) == first) {
            before.add(hold.by.at);
            hold.refused.join(at, before);
        }
        // The description's own lock of another kind is lost nevertheless (flock(2)).
        if self.mode(attempt.description).is_some_and(|mode| mode != attempt.mode) {
            self.let_go(attempt.description, at, before);
        }
    }

    /// Returns the mode in which a description has locked its object.
    fn mode(&self, description: u64) -> Option<Mode> {
        let lock = self.of.get(self.holders.get(&description)?)?;
        lock.holds.iter().find(|hold| hold.description == description).map(|hold| hold.mode)
    }

    /// Returns true if a description holds a lock.
    pub(super) fn has(&self, description: u64) -> bool {
        self.holders.contains_key(&description)
    }

    /// Forgets files that no longer exist.
    pub(super) fn forget(&mut self, is_there: impl Fn(FileId) -> bool) {
        self.of.retain(|locked, lock| match locked {
            LockTarget::File(file) => !lock.holds.is_empty() || is_there(*file),
            LockTarget::Directory(..) | LockTarget::Unknown(_) => true,
        });
    }

    /// Records that a description has released its lock, if it had one.
    pub(super) fn let_go(&mut self, description: u64, at: OpId, before: &mut WaitSet) {
        let Some(locked) = self.holders.remove(&description) else { return };
        let Some(lock) = self.of.get_mut(&locked) else { return };
        let Some(place) = lock.holds.iter().position(|hold| hold.description == description) else {
            return;
        };
        let hold = lock.holds.remove(place);
        before.add(hold.by.at);
        hold.refused.wait(before);
        lock.let_go[hold.mode as usize].join(at, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::plan::dependencies::Worker;

    fn op(worker: u32, number: u32) -> TimedOp {
        TimedOp { at: OpId { worker: Worker(worker), number }, ..TimedOp::default() }
    }

    fn attempt(description: u64, mode: Mode) -> LockAttempt {
        LockAttempt { locked: LockTarget::File(FileId(7)), description, mode }
    }

    /// Checks the operations for which a step waits.
    #[track_caller]
    fn check(what: impl FnOnce(&mut WaitSet), expected: &[(u32, u32)]) {
        let mut before = WaitSet::default();
        what(&mut before);
        let mut all: Vec<_> = before.all().iter().map(|op| (op.worker.0, op.number)).collect();
        all.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn lock_waits_for_its_previous_holder() {
        use Mode::{Exclusive, Shared};
        let mut locks = Locks::default();
        check(|before| locks.got(attempt(1, Exclusive), op(1, 0), before), &[]);
        check(|before| locks.refused(attempt(2, Shared), op(2, 0).at, before), &[(1, 0)]);
        check(|before| locks.let_go(1, op(1, 1).at, before), &[(1, 0), (2, 0)]);
        // Shared holders wait for the exclusive one, not for each other.
        check(|before| locks.got(attempt(2, Shared), op(2, 1), before), &[(1, 1)]);
        check(|before| locks.got(attempt(3, Shared), op(3, 0), before), &[(1, 1)]);
        assert_eq!(locks.in_the_way(attempt(4, Shared)).count(), 0);
        let in_the_way: Vec<u64> =
            locks.in_the_way(attempt(4, Exclusive)).map(|(by, _)| by).collect();
        assert_eq!(in_the_way, [2, 3]);
        check(|before| locks.let_go(2, op(2, 2).at, before), &[(2, 1)]);
        check(|before| locks.let_go(3, op(3, 1).at, before), &[(3, 0)]);
        check(
            |before| locks.got(attempt(4, Exclusive), op(4, 0), before),
            &[(1, 1), (2, 2), (3, 1)],
        );
        check(|before| locks.let_go(4, op(4, 1).at, before), &[(4, 0)]);
        // Earlier operations are covered by the exclusive lock.
        check(|before| locks.got(attempt(1, Exclusive), op(1, 2), before), &[(4, 1)]);
    }

    #[test]
    fn lock_of_another_kind_replaces_the_first() {
        use Mode::{Exclusive, Shared};
        let mut locks = Locks::default();
        check(|before| locks.got(attempt(1, Exclusive), op(1, 0), before), &[]);
        check(|before| locks.refused(attempt(2, Exclusive), op(2, 0).at, before), &[(1, 0)]);
        check(|before| locks.got(attempt(1, Shared), op(1, 1), before), &[(1, 1), (2, 0)]);
        check(|before| locks.got(attempt(2, Shared), op(2, 1), before), &[(1, 1)]);
        // A refused upgrade loses the shared lock.
        check(
            |before| locks.refused(attempt(2, Exclusive), op(2, 2).at, before),
            &[(1, 1), (2, 1)],
        );
        assert!(!locks.has(2) && locks.has(1));
    }

    /// Fails if a crowd grows with the number of releases.
    #[test]
    fn lock_history_of_many_holders_stays_small() {
        let mut locks = Locks::default();
        for number in 0..1000 {
            let description = u64::from(number);
            let mut before = WaitSet::default();
            locks.got(attempt(description, Mode::Shared), op(number, 0), &mut before);
            locks.let_go(description, op(number, 1).at, &mut before);
            assert!(before.all().len() <= CROWD_MAX + 1);
        }
        let mut before = WaitSet::default();
        locks.got(attempt(5000, Mode::Exclusive), op(5000, 0), &mut before);
        assert!(before.all().len() <= CROWD_MAX);
    }

    #[test]
    fn unknown_lock_is_ignored() {
        let check = |flags: i32, expected| {
            assert_eq!(wish(&[3, flags.cast_unsigned().into(), 0, 0, 0, 0]), expected);
        };
        check(libc::LOCK_EX, FlockRequest::Lock(Mode::Exclusive, true));
        check(libc::LOCK_SH | libc::LOCK_NB, FlockRequest::Lock(Mode::Shared, false));
        check(libc::LOCK_UN | libc::LOCK_NB, FlockRequest::Unlock);
        check(libc::LOCK_SH | libc::LOCK_EX, FlockRequest::Other);
        check(32, FlockRequest::Other);
        assert_eq!(wish(&[3, u64::MAX, 0, 0, 0, 0]), FlockRequest::Other);
        assert_eq!(wish(&[3, 1 << 32 | 2, 0, 0, 0, 0]), FlockRequest::Lock(Mode::Exclusive, true));
    }
}
