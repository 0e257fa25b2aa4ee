//! Beginning of a capture: the events are on, and the snapshot is not complete.
//!
//! A snapshot reports the file of a descriptor at the time of its reading. Earlier events are held
//! back until the snapshot is complete. A descriptor that was neither closed nor made between the
//! start and the reading was the same from the start on.

use rustc_hash::{FxHashMap, FxHashSet};

use super::paths::{has_part, last};
use crate::event::registers::low_half;
use crate::event::syscall_table::{CallClass, CallId, Role};
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, ReadNames, SeenFd};
use crate::units::{Fd, KernelTime, Pid, Tid};

/// Limit of held events. If a snapshot takes longer, names begin at the time when the snapshot read
/// them.
const HELD_MAX: usize = 1 << 19;

/// Limit of held bytes of names of descriptors.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Holder of the first events until the snapshot is complete.
#[derive(Debug, Default)]
pub struct StartupBuffer {
    held: Vec<Event>,
    /// Bytes of the names of descriptors in `held`.
    held_bytes: usize,
    /// Time at which the snapshot was complete.
    over: Option<KernelTime>,
}

/// Result of the opening.
#[derive(Debug, Default)]
pub struct StartupFacts {
    /// Descriptors that were the same from the start on.
    pub from_start: Vec<SeenFd>,
    /// Processes that changed their directory, root or mounts before the snapshot was complete,
    /// which may have read the new ones.
    pub moved: FxHashSet<Pid>,
    /// The events that were held.
    pub events: Vec<Event>,
}

impl StartupBuffer {
    /// Sets the time at which the snapshot was complete.
    pub fn snapshot_over(&mut self, at: KernelTime) {
        self.over = Some(at);
    }

    /// True if the snapshot was complete before this time. With all events until then, the opening
    /// is over.
    pub fn is_over(&self, time: KernelTime) -> bool {
        self.over.is_some_and(|over| time > over)
    }

    /// Takes an event. Returns true if the opening is over now.
    pub fn hold(&mut self, event: Event) -> bool {
        let over = self.is_over(event.time);
        if let EventKind::SeenFd(seen) = &event.kind {
            self.held_bytes += seen.link.len();
        }
        self.held.push(event);
        over || self.held.len() >= HELD_MAX || self.held_bytes >= HELD_BYTES_MAX
    }

    /// Returns what is known of the first moments.
    pub fn finish(self) -> StartupFacts {
        let changes = Changes::of(&self.held);
        let seen = self.held.iter().filter_map(|event| match &event.kind {
            EventKind::SeenFd(seen) => Some((event.time, seen)),
            _ => None,
        });
        let from_start = seen
            .filter(|(at, it)| !changes.before(it) && !changes.renamed(&it.link, *at))
            .map(|it| it.1)
            // The position has moved since.
            .map(|it| SeenFd { position: None, ..SeenFd::clone(it) })
            .collect();
        let is_before = |it: &&Event| self.over.is_none_or(|over| it.time <= over);
        let moves = |event: &&Event| {
            let EventKind::SysExit(exit) = &event.kind else { return false };
            use CallClass::{Mount, Place, Root, Unshare};
            exit.ret == 0 && matches!(exit.call.call().class, Place | Root | Mount | Unshare)
        };
        let moved = self.held.iter().filter(is_before).filter(moves).map(|it| it.pid).collect();
        StartupFacts { from_start, moved, events: self.held }
    }
}

/// Calls that threads are inside, and the times of their entries.
type Inside = FxHashMap<Tid, (KernelTime, CallId)>;

/// Times of the first changes of descriptors and names.
#[derive(Debug, Default)]
struct Changes {
    of_fd: FxHashMap<(Pid, Fd), KernelTime>,
    /// First change of any descriptor of a process, or of one that is not known.
    of_process: FxHashMap<Pid, KernelTime>,
    /// Calls that changed names of files: times of their entries, and the last parts of the names;
    /// `None`: not known.
    of_names: Vec<(KernelTime, Option<[Vec<u8>; 2]>)>,
    /// Time of the first loss: lost records may have concerned any process.
    lost: Option<KernelTime>,
}

impl Changes {
    fn of(events: &[Event]) -> Self {
        let mut changes = Self::default();
        let mut inside = Inside::default();
        for event in events {
            changes.observe(event, &mut inside);
        }
        // The effects of unfinished calls are not reported here.
        let open = inside.into_values().filter(|it| it.1.call().changes_names());
        changes.of_names.extend(open.map(|it| (it.0, None)));
        changes
    }

    /// Returns true if the descriptor may have been another one before it was read.
    fn before(&self, seen: &SeenFd) -> bool {
        let is_before = |it: Option<&KernelTime>| it.is_some_and(|&it| it <= seen.begin);
        is_before(self.of_fd.get(&(seen.pid, seen.fd)))
            || is_before(self.of_process.get(&seen.pid))
            || is_before(self.lost.as_ref())
    }

    /// Returns true if the file may have had another name before it was read, which ended at `at`.
    fn renamed(&self, link: &[u8], at: KernelTime) -> bool {
        let link = link.strip_suffix(b" (deleted)").unwrap_or(link);
        self.of_names.iter().filter(|it| it.0 <= at).any(|(_, parts)| {
            parts.as_ref().is_none_or(|it| it.iter().any(|it| has_part(link, it)))
        })
    }

    fn fd(&mut self, event: &Event, fd: i64) {
        if let Ok(fd) = i32::try_from(fd) {
            self.of_fd.entry((event.pid, Fd(fd))).or_insert(event.time);
        }
    }

    fn process(&mut self, pid: Pid, time: KernelTime) {
        self.of_process.entry(pid).or_insert(time);
    }

    fn observe(&mut self, event: &Event, inside: &mut Inside) {
        match &event.kind {
            EventKind::SysEnter(enter) => {
                inside.insert(event.tid, (event.time, enter.call));
                let call = enter.call.call();
                let argument = |role| call.arg(role).and_then(|it| enter.args.get(it)).copied();
                let closed = match call.class {
                    CallClass::Close => argument(Role::Fd),
                    CallClass::Dup => argument(Role::Fd2),
                    CallClass::CloseRange => return self.process(event.pid, event.time),
                    _ => None,
                };
                if let Some(fd) = closed {
                    self.fd(event, low_half(fd).into());
                }
            }
            EventKind::SysExit(exit) => {
                let entered = inside.remove(&event.tid);
                if exit.call.call().changes_names() && exit.ret == 0 {
                    let began = entered.map_or(KernelTime::MIN, |it| it.0);
                    self.of_names.push((began, last_parts(exit.names.as_deref())));
                }
                match exit.call.call().class {
                    // The result is a descriptor or another number: fcntl returns both.
                    CallClass::Open | CallClass::Dup | CallClass::Control | CallClass::Make(_) => {
                        self.fd(event, exit.ret)
                    }
                    // The exit does not report the two descriptors.
                    CallClass::MakePair => self.process(event.pid, event.time),
                    CallClass::Close | CallClass::CloseRange if entered.is_none() => {
                        self.process(event.pid, event.time)
                    }
                    _ => {}
                }
            }
            EventKind::Task(TaskEvent::Comm { pid, exec: true, .. }) => {
                self.process(*pid, event.time)
            }
            EventKind::Task(TaskEvent::Fork { pid, ppid, .. }) if pid != ppid => {
                self.process(*pid, event.time)
            }
            EventKind::Lost(_) => self.lost = self.lost.or(Some(event.time)),
            // The descriptor that it makes or closes is reported later, or never.
            EventKind::Uring(it) if it.opcode().class().changes_descriptors() => {
                self.process(event.pid, event.time);
            }
            EventKind::Uring(_)
            | EventKind::Fs(_)
            | EventKind::FileIo(_)
            | EventKind::Task(_)
            | EventKind::Block(_)
            | EventKind::Fault(_)
            | EventKind::Layer(_)
            | EventKind::SeenFd(_)
            | EventKind::FileSystems(_)
            | EventKind::Places(_)
            | EventKind::Identity(_)
            | EventKind::Probed(_)
            | EventKind::Chain(_) => {}
        }
    }
}

/// Returns the last parts of the paths of a call, if they were read in time; for a call with one
/// path, that part twice.
fn last_parts(names: Option<&ReadNames>) -> Option<[Vec<u8>; 2]> {
    let first = names?.argument.as_ref()?;
    let second = names?.second.as_ref().unwrap_or(first);
    let all_good = first.verified && second.verified;
    all_good.then(|| [first, second].map(|it| last(&it.bytes).to_vec()))
}
