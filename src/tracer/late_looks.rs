//! Opens whose files are looked at while the program goes on: through the new descriptor, and at
//! the path of the call. A descriptor may be closed before the look, a path may lead elsewhere;
//! both are judged later, where all records are in order.

use std::collections::VecDeque;

use nix::fcntl::AT_FDCWD;
use rustc_hash::FxHashMap;
use std::os::fd::AsRawFd;

use super::ended_call::EndedCall;
use crate::capture::fact::{Fact, NameOf};
use crate::event::registers::{argument, fd_argument};
use crate::event::syscall_table::Role;
use crate::event::{ProbeObservation, SysEnter};
use crate::sys::clock;
use crate::sys::path_lookup::{PathBase, PathLookup};
use crate::units::{KernelTime, Pid, Tid};

/// Largest number of opens on one CPU that wait to be looked at: more than can be looked at in a
/// round.
const WAITING_MAX: usize = 4096;
/// Number of waiting opens that are searched for the same descriptor.
const SEARCHED_MAX: usize = 64;
/// Number of looks, some 10 to 50 us each, at the end of a round, while the records of calls wait.
const LAST_LOOKS: usize = 64;
/// Largest numbers of threads with paths, and of paths of one thread: a call has two at most.
const THREADS_MAX: usize = 4096;
const PATHS_MAX: usize = 4;

/// Opens on one CPU that wait to be looked at.
#[derive(Debug, Default)]
pub(super) struct LateLooks {
    lookup: PathLookup,
    /// Paths that threads have recorded before their calls, oldest first.
    paths: FxHashMap<Tid, VecDeque<RecordedPath>>,
    /// Opens whose descriptor may still be open, oldest first.
    open: VecDeque<LateOpen>,
    /// Opens whose descriptor is closed: the file can be found at the path alone.
    closed: VecDeque<LateOpen>,
}

/// A path that a thread was about to pass to a call.
#[derive(Debug)]
struct RecordedPath {
    time: KernelTime,
    address: u64,
    bytes: Vec<u8>,
}

/// An open that waits to be looked at.
#[derive(Debug)]
struct LateOpen {
    pid: Option<Pid>,
    call: EndedCall,
    path: Option<OpenPath>,
}

/// Path argument of an open.
#[derive(Debug)]
struct OpenPath {
    address: u64,
    base: PathBase,
    bytes: Vec<u8>,
    follows_last: bool,
}

impl LateLooks {
    /// Takes a path that a probe has recorded.
    pub(super) fn add_path(&mut self, tid: Tid, time: KernelTime, probed: &ProbeObservation) {
        let ProbeObservation::Given { address, bytes: Some(bytes) } = probed else { return };
        if self.paths.len() >= THREADS_MAX {
            self.paths.clear();
        }
        let paths = self.paths.entry(tid).or_default();
        if paths.len() >= PATHS_MAX {
            paths.pop_front();
        }
        paths.push_back(RecordedPath { time, address: *address, bytes: bytes.clone() });
    }

    /// Defers the look at an open. The descriptor of an earlier open with the same number is
    /// closed.
    pub(super) fn put_off(&mut self, pid: Option<Pid>, call: EndedCall, enter: Option<&SysEnter>) {
        let path = enter.and_then(|enter| self.path_of(&call, enter));
        let same = |earlier: &LateOpen| {
            let is_its = pid.is_some() && earlier.pid == pid || earlier.call.tid == call.tid;
            is_its && earlier.call.ret == call.ret
        };
        if let Some(back) = self.open.iter().rev().take(SEARCHED_MAX).position(same) {
            let earlier = self.open.remove(self.open.len() - 1 - back);
            push(&mut self.closed, earlier.filter(|open| open.path.is_some()));
        }
        push(&mut self.open, Some(LateOpen { pid, call, path }));
    }

    /// Returns the path argument of an open, if a probe has recorded the path.
    fn path_of(&mut self, ended: &EndedCall, enter: &SysEnter) -> Option<OpenPath> {
        let call = enter.call.call();
        let [address, _] = call.paths(&enter.args);
        let address = address?;
        let paths = self.paths.get_mut(&ended.tid)?;
        let mut found = None;
        while paths.front().is_some_and(|path| path.time <= ended.record_time) {
            found = paths.pop_front().filter(|path| path.address == address).or(found);
        }
        if paths.is_empty() {
            self.paths.remove(&ended.tid);
        }
        let base = match fd_argument(call, Role::DirFd, &enter.args) {
            Some(fd) if fd.0 != AT_FDCWD.as_raw_fd() => PathBase::Descriptor(fd),
            _ => PathBase::WorkingDirectory,
        };
        let flags = argument(call, Role::OpenFlags, &enter.args).unwrap_or(0);
        let follows_last = flags & u64::from(libc::O_NOFOLLOW.cast_unsigned()) == 0;
        Some(OpenPath { address, base, bytes: found?.bytes, follows_last })
    }

    /// Looks at one of the waiting opens: the most recent one whose descriptor may be open, or else
    /// the most recent one. Returns false if none waits.
    pub(super) fn look(&mut self, facts: &mut Vec<(Option<Pid>, Fact)>) -> bool {
        if let Some(open) = self.open.pop_back() {
            let looked = open.look(&self.lookup);
            facts.extend(looked.into_iter().flatten().map(|fact| (open.pid, fact)));
            return true;
        }
        let Some(open) = self.closed.pop_back() else { return false };
        facts.extend(open.look_at_path(&self.lookup).map(|fact| (open.pid, fact)));
        true
    }

    /// Looks at the most recent waiting opens and drops all others: the records of all of them are
    /// written now, so no later event needs their names.
    pub(super) fn look_at_last(&mut self, facts: &mut Vec<(Option<Pid>, Fact)>) {
        for _ in 0..LAST_LOOKS {
            if !self.look(facts) {
                break;
            }
        }
        self.open.clear();
        self.closed.clear();
    }
}

/// Adds an open; the oldest one is dropped if there is no room.
fn push(waiting: &mut VecDeque<LateOpen>, open: Option<LateOpen>) {
    if waiting.len() >= WAITING_MAX {
        waiting.pop_front();
    }
    waiting.extend(open);
}

impl LateOpen {
    /// Looks at the descriptor, and then at the path. Two facts about the same file are one.
    fn look(&self, lookup: &PathLookup) -> [Option<Fact>; 2] {
        let mut link = self.call.link();
        let found = self.look_at_path(lookup);
        if let (
            Some(Fact::Name { stat: Some(of_link), bytes: target, errno: 0, end, address, .. }),
            Some(Fact::Name {
                stat: Some(of_path),
                bytes: path,
                end: path_end,
                address: argument,
                ..
            }),
        ) = (&mut link, &found)
            && of_link.inode() == of_path.inode()
            && target == path
        {
            (*end, *address) = (*path_end, *argument);
            return [link, None];
        }
        [link, found]
    }

    fn look_at_path(&self, lookup: &PathLookup) -> Option<Fact> {
        let OpenPath { address, base, bytes, follows_last } = self.path.as_ref()?;
        let begin = clock::now();
        let (name, stat) = lookup.find(self.call.tid, *base, bytes, *follows_last).ok()?;
        Some(self.call.fact(NameOf::Lookup, *address, begin, Ok(name), Some(stat)))
    }
}
