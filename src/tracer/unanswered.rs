//! Memory that did not answer: a read of it waits in the kernel for the server of a file system, for as long as that likes.
//!
//! A reader that waits so long is given up, and another one takes its place. What belongs to whoever made it wait is not read any more:
//! first of that process, then of that user, and at last of all, since each reader that waits is a process of ours more.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::units::{Pid, Tid};

/// How long one read may take, ns: a page that the kernel itself has just read is there, unless memory is short.
pub(super) const READ_NS_MAX: u64 = 1_000_000_000;

/// How long all reads together that are left at the end of a recording may take, ns.
pub(super) const END_NS_MAX: u64 = 4_000_000_000;

/// So often it must have been seen to wait: the machine may have stood still, and both with it.
pub(super) const LOOKS: u32 = 3;

/// Processes of one user that may make a reader wait; then no memory of this user's processes is read any more.
const OF_USER_MAX: usize = 4;

/// Readers that may wait at a time; then no memory is read any more.
pub(super) const ALL_MAX: usize = 32;

/// Processes that are named.
const NAMED_MAX: usize = 3;

/// What is not read any more.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// True if there is something.
    any: AtomicBool,
    table: Mutex<UnansweredTable>,
}

#[derive(Debug, Default)]
struct UnansweredTable {
    processes: FxHashSet<Pid>,
    users: FxHashMap<u32, usize>,
    /// The first ones.
    named: Vec<(MemoryOwner, Vec<u8>)>,
    /// Readers that were given up.
    readers: usize,
    /// Calls of which nothing was read for that reason.
    calls: u64,
}

/// Whose a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryOwner {
    pid: Pid,
    /// The real one: what it runs with another user's rights it has started.
    user: u32,
}

impl Unanswered {
    /// A reader waits for memory of this thread and is given up. True if another one may take its place.
    pub(super) fn give_up(&self, tid: Tid) -> bool {
        let mut table = self.table();
        table.readers += 1;
        table.calls += 1;
        if let Some((owner, comm)) = owner_of(tid)
            && table.processes.insert(owner.pid)
        {
            *table.users.entry(owner.user).or_default() += 1;
            if table.named.len() < NAMED_MAX {
                table.named.push((owner, comm));
            }
        }
        // ORDERING: only a hint; what matters is in the table.
        self.any.store(true, Ordering::Relaxed);
        // With no memory read any more something else makes them wait.
        table.readers <= ALL_MAX
    }

    /// So many calls more of which nothing is read.
    pub(super) fn miss(&self, calls: usize) {
        if calls > 0 {
            let mut table = self.table();
            table.calls = table.calls.saturating_add(calls as u64);
            // ORDERING: as in `give_up`.
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// True if the memory of this thread is not read any more; the call is counted then.
    pub(super) fn refuses(&self, tid: Tid) -> bool {
        // ORDERING: as in `give_up`.
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let mut table = self.table();
        let refuses = table.readers >= ALL_MAX
            || owner_of(tid).is_some_and(|(owner, _)| {
                let of_user = table.users.get(&owner.user).copied().unwrap_or(0);
                table.processes.contains(&owner.pid) || of_user >= OF_USER_MAX
            });
        table.calls += u64::from(refuses);
        refuses
    }

    /// How many readers were given up.
    pub(super) fn readers(&self) -> usize {
        self.table().readers
    }

    /// What was not read, for people.
    pub(super) fn warning(&self) -> Option<String> {
        let table = self.table();
        let mut whose: Vec<String> = table.named.iter().map(named_owner).collect();
        let others = table.processes.len() - whose.len();
        whose.extend((others > 0).then(|| format!("{others} more")));
        let scope = if table.readers >= ALL_MAX {
            ", then of all processes"
        } else if table.users.values().any(|it| *it >= OF_USER_MAX) {
            ", then of all processes of such a user"
        } else {
            ""
        };
        let (seconds, calls) = (READ_NS_MAX / 1_000_000_000, table.calls);
        (calls > 0).then(|| {
            format!(
                "memory did not answer within {seconds} s, of {}: it maps a file system that does not answer, and was not read any \
                 more{scope}; what {calls} calls were given (paths, lists, descriptors) is not known",
                if whose.is_empty() { "processes that have ended".to_owned() } else { whose.join(", ") }
            )
        })
    }

    fn table(&self) -> MutexGuard<'_, UnansweredTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named_owner((owner, comm): &(MemoryOwner, Vec<u8>)) -> String {
    let comm = comm.escape_ascii();
    format!("{comm} {} of user {}", owner.pid, owner.user)
}

/// The process of a thread, its user, and its name.
fn owner_of(tid: Tid) -> Option<(MemoryOwner, Vec<u8>)> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let value = |key: &[u8]| status.split(|it| *it == b'\n').find_map(|it| it.strip_prefix(key));
    let number = |key: &[u8]| std::str::from_utf8(value(key)?).ok()?.split_whitespace().next();
    let (pid, user) = (number(b"Tgid:")?.parse().ok()?, number(b"Uid:")?.parse().ok()?);
    Some((MemoryOwner { pid: Pid(pid), user }, value(b"Name:\t").unwrap_or_default().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_made_a_reader_wait_is_not_read_again() {
        let unanswered = Unanswered::default();
        let own = Tid(nix::unistd::gettid().as_raw());
        assert!(!unanswered.refuses(own) && unanswered.warning().is_none());
        assert!(unanswered.give_up(own));
        // All threads of the process; not of others.
        assert!(unanswered.refuses(Tid(std::process::id().cast_signed())));
        assert!(!unanswered.refuses(Tid(1)));
        let told = unanswered.warning().expect("there is something");
        let named = format!(" {} of user {}", std::process::id(), nix::unistd::getuid());
        assert!(told.contains(&named) && told.contains("; what 2 calls were given"), "{told}");
    }

    #[test]
    fn processes_of_one_user_have_a_bound() {
        let unanswered = Unanswered::default();
        let mut children: Vec<_> = (0..=OF_USER_MAX)
            .map(|_| std::process::Command::new("sleep").arg("60").spawn().expect("it starts"))
            .collect();
        let tids: Vec<Tid> = children.iter().map(|it| Tid(it.id().cast_signed())).collect();
        let (last, first) = tids.split_last().expect("some");
        let before = unanswered.refuses(*last);
        first.iter().for_each(|it| assert!(unanswered.give_up(*it)));
        let after = unanswered.refuses(*last);
        for child in &mut children {
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
        }
        assert_eq!((before, after), (false, true));
    }

    #[test]
    fn readers_that_wait_have_a_bound() {
        let unanswered = Unanswered::default();
        // No process has such a number.
        let all: Vec<bool> = (0..=ALL_MAX).map(|_| unanswered.give_up(Tid(i32::MAX))).collect();
        assert_eq!(all.iter().filter(|it| **it).count(), ALL_MAX);
        assert!(unanswered.refuses(Tid(1)));
    }
}
