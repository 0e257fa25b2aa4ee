//! Who has locked which file (`flock`), and who has to wait for whom by that.
//!
//! ```text
//!   description 1   ──[ EX ]───────────────[ UN ]────────
//!   description 2   ──────────[ EX|NB: no ]──────────────   behind the lock, and the unlock behind it
//!   description 3   ──────[ EX ································ ]──   behind the unlock, though it began before the lock was there
//! ```
//!
//! A lock belongs to an open file description, whoever has descriptors of it. What counts is the order of ends, which is that of the plan:
//! however long somebody had been waiting for a lock, he got it behind those who had let go of it. So each operation waits only for some
//! that are in the plan already.
//!
//! **Nobody waits for ever.** In a replay locks are only tried (`LOCK_NB`), so nobody waits inside a call; all edges of a plan, and the order
//! of each worker's operations, lead from later ones of one row to earlier ones: the first that is not done yet can always be done.

use rustc_hash::FxHashMap;

use super::dependencies::{OpId, TimedOp, WaitSet};
use super::namespace::FileId;
use crate::units::DevId;

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locked {
    /// A file.
    File(FileId),
    /// A directory.
    Directory(DevId, u64),
    /// A directory of which it is not known which it is: that of this description.
    Unknown(u64),
}

/// How it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Together with others who want no more.
    Shared,
    /// By one alone.
    Exclusive,
}

/// What an `flock` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A lock; it waits until it gets it, or does not.
    Lock(Mode, bool),
    /// It lets go.
    Unlock,
    /// Nothing that is known.
    Other,
}

/// What an `flock` with these registers asks for.
pub fn wish(args: &[u64; 6]) -> Wish {
    // The kernel looks at 32 bits.
    let Ok(flags) = i32::try_from(args[1] & u64::from(u32::MAX)) else { return Wish::Other };
    let waits = flags & libc::LOCK_NB == 0;
    match flags & !libc::LOCK_NB {
        libc::LOCK_SH => Wish::Lock(Mode::Shared, waits),
        libc::LOCK_EX => Wish::Lock(Mode::Exclusive, waits),
        libc::LOCK_UN => Wish::Unlock,
        _ => Wish::Other,
    }
}

/// Who asks, by its description, and for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) locked: Locked,
    pub(super) description: u64,
    pub(super) mode: Mode,
}

/// Operations of a crowd that grows are this many at most.
const CROWD_MAX: usize = 32;

/// Operations that somebody has to wait for. With many of them the next one that joins waits for all the others, and stands for them.
#[derive(Debug, Default)]
struct Crowd(WaitSet);

impl Crowd {
    fn join(&mut self, at: OpId, before: &mut WaitSet) {
        if self.0.all().len() >= CROWD_MAX {
            self.wait(before);
            self.0.clear();
        }
        self.0.add(at);
    }

    fn wait(&self, before: &mut WaitSet) {
        self.0.all().iter().for_each(|it| before.add(*it));
    }
}

/// A lock that somebody has.
#[derive(Debug)]
struct Hold {
    description: u64,
    mode: Mode,
    by: TimedOp,
    /// Those who were refused because of it.
    refused: Crowd,
}

/// The locks of a file.
#[derive(Debug, Default)]
struct Lock {
    holds: Vec<Hold>,
    /// Who has let go since there was an exclusive one last: of shared ones, and of exclusive ones.
    let_go: [Crowd; 2],
}

/// Those of all files.
#[derive(Debug, Default)]
pub(super) struct Locks {
    of: FxHashMap<Locked, Lock>,
    /// What a description has locked.
    holders: FxHashMap<u64, Locked>,
}

impl Locks {
    /// Those who have it in a way in which nobody else gets it: their descriptions, and when each got it.
    pub(super) fn in_the_way(&self, asked: Asked) -> impl Iterator<Item = (u64, TimedOp)> {
        let holds = self.of.get(&asked.locked).into_iter().flat_map(|it| &it.holds);
        let excludes = move |it: &&Hold| {
            it.description != asked.description
                && (it.mode == Mode::Exclusive || asked.mode == Mode::Exclusive)
        };
        holds.filter(excludes).map(|it| (it.description, it.by))
    }

    /// A description has got a lock; nobody is in the way.
    pub(super) fn got(&mut self, asked: Asked, by: TimedOp, before: &mut WaitSet) {
        if self.mode(asked.description) == Some(asked.mode) {
            return;
        }
        // Another kind of lock: the kernel takes the old one away first (flock(2)).
        self.let_go(asked.description, by.at, before);
        let lock = self.of.entry(asked.locked).or_default();
        lock.let_go[Mode::Exclusive as usize].wait(before);
        if asked.mode == Mode::Exclusive {
            lock.let_go[Mode::Shared as usize].wait(before);
            // Whoever comes next waits for this one.
            lock.let_go = Default::default();
        }
        let Asked { description, mode, .. } = asked;
        lock.holds.push(Hold { description, mode, by, refused: Crowd::default() });
        self.holders.insert(description, asked.locked);
    }

    /// It was refused, as somebody was in the way: behind his lock, before he lets go.
    pub(super) fn refused(&mut self, asked: Asked, at: OpId, before: &mut WaitSet) {
        let first = self.in_the_way(asked).next().map(|it| it.0);
        let holds = self.of.get_mut(&asked.locked).into_iter().flat_map(|it| &mut it.holds);
        for hold in holds.filter(|it| Some(it.description) == first) {
            before.add(hold.by.at);
            hold.refused.join(at, before);
        }
        // Its own one of another kind is gone for all that (flock(2)).
        if self.mode(asked.description).is_some_and(|it| it != asked.mode) {
            self.let_go(asked.description, at, before);
        }
    }

    /// How a description has locked something.
    fn mode(&self, description: u64) -> Option<Mode> {
        let lock = self.of.get(self.holders.get(&description)?)?;
        lock.holds.iter().find(|it| it.description == description).map(|it| it.mode)
    }

    /// True if a description has locked something.
    pub(super) fn has(&self, description: u64) -> bool {
        self.holders.contains_key(&description)
    }

    /// Files are forgotten that are not there any more.
    pub(super) fn forget(&mut self, is_there: impl Fn(FileId) -> bool) {
        self.of.retain(|it, lock| match it {
            Locked::File(file) => !lock.holds.is_empty() || is_there(*file),
            Locked::Directory(..) | Locked::Unknown(_) => true,
        });
    }

    /// A description has no lock any more, if it had one.
    pub(super) fn let_go(&mut self, description: u64, at: OpId, before: &mut WaitSet) {
        let Some(locked) = self.holders.remove(&description) else { return };
        let Some(lock) = self.of.get_mut(&locked) else { return };
        let Some(place) = lock.holds.iter().position(|it| it.description == description) else {
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
    use crate::replay::dependencies::Worker;

    fn op(worker: u32, number: u32) -> TimedOp {
        TimedOp { at: OpId { worker: Worker(worker), number }, start: 0, end: 0 }
    }

    fn asked(description: u64, mode: Mode) -> Asked {
        Asked { locked: Locked::File(FileId(7)), description, mode }
    }

    /// Whom it waits for.
    #[track_caller]
    fn check(what: impl FnOnce(&mut WaitSet), expected: &[(u32, u32)]) {
        let mut before = WaitSet::default();
        what(&mut before);
        let mut all: Vec<_> = before.all().iter().map(|it| (it.worker.0, it.number)).collect();
        all.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn who_gets_a_lock_waits_for_who_had_it() {
        use Mode::{Exclusive, Shared};
        let mut locks = Locks::default();
        check(|it| locks.got(asked(1, Exclusive), op(1, 0), it), &[]);
        check(|it| locks.refused(asked(2, Shared), op(2, 0).at, it), &[(1, 0)]);
        check(|it| locks.let_go(1, op(1, 1).at, it), &[(1, 0), (2, 0)]);
        // Those who share wait for who had it alone, not for each other.
        check(|it| locks.got(asked(2, Shared), op(2, 1), it), &[(1, 1)]);
        check(|it| locks.got(asked(3, Shared), op(3, 0), it), &[(1, 1)]);
        assert_eq!(locks.in_the_way(asked(4, Shared)).count(), 0);
        let in_the_way: Vec<u64> = locks.in_the_way(asked(4, Exclusive)).map(|it| it.0).collect();
        assert_eq!(in_the_way, [2, 3]);
        check(|it| locks.let_go(2, op(2, 2).at, it), &[(2, 1)]);
        check(|it| locks.let_go(3, op(3, 1).at, it), &[(3, 0)]);
        check(|it| locks.got(asked(4, Exclusive), op(4, 0), it), &[(1, 1), (2, 2), (3, 1)]);
        check(|it| locks.let_go(4, op(4, 1).at, it), &[(4, 0)]);
        // What was before that is behind it.
        check(|it| locks.got(asked(1, Exclusive), op(1, 2), it), &[(4, 1)]);
    }

    #[test]
    fn a_lock_of_another_kind_takes_the_place_of_the_first() {
        use Mode::{Exclusive, Shared};
        let mut locks = Locks::default();
        check(|it| locks.got(asked(1, Exclusive), op(1, 0), it), &[]);
        check(|it| locks.refused(asked(2, Exclusive), op(2, 0).at, it), &[(1, 0)]);
        check(|it| locks.got(asked(1, Shared), op(1, 1), it), &[(1, 1), (2, 0)]);
        check(|it| locks.got(asked(2, Shared), op(2, 1), it), &[(1, 1)]);
        // Who is refused a higher one has none any more.
        check(|it| locks.refused(asked(2, Exclusive), op(2, 2).at, it), &[(1, 1), (2, 1)]);
        assert!(!locks.has(2) && locks.has(1));
    }

    /// Fails if it grows with the number of those who have ever let go.
    #[test]
    fn a_crowd_stays_small() {
        let mut locks = Locks::default();
        for number in 0..1000 {
            let description = u64::from(number);
            let mut before = WaitSet::default();
            locks.got(asked(description, Mode::Shared), op(number, 0), &mut before);
            locks.let_go(description, op(number, 1).at, &mut before);
            assert!(before.all().len() <= CROWD_MAX + 1);
        }
        let mut before = WaitSet::default();
        locks.got(asked(5000, Mode::Exclusive), op(5000, 0), &mut before);
        assert!(before.all().len() <= CROWD_MAX);
    }

    #[test]
    fn only_what_is_known_is_a_lock() {
        let check = |flags: i32, expected| {
            assert_eq!(wish(&[3, flags.cast_unsigned().into(), 0, 0, 0, 0]), expected);
        };
        check(libc::LOCK_EX, Wish::Lock(Mode::Exclusive, true));
        check(libc::LOCK_SH | libc::LOCK_NB, Wish::Lock(Mode::Shared, false));
        check(libc::LOCK_UN | libc::LOCK_NB, Wish::Unlock);
        check(libc::LOCK_SH | libc::LOCK_EX, Wish::Other);
        check(32, Wish::Other);
        assert_eq!(wish(&[3, u64::MAX, 0, 0, 0, 0]), Wish::Other);
        assert_eq!(wish(&[3, 1 << 32 | 2, 0, 0, 0, 0]), Wish::Lock(Mode::Exclusive, true));
    }
}
