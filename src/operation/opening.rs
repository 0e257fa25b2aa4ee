//! The first moments of a capture, when the events are on and the snapshot is not over.
//!
//! A snapshot says what a descriptor was when it was looked at. The events of before are held back until it is over:
//! a descriptor that nobody closed or made between the start and the look was the same from the start on.

use rustc_hash::{FxHashMap, FxHashSet};

use super::file_names::{has_part, last};
use crate::event::syscall_table::{CallId, Class, Role};
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, ReadNames, SeenFd};
use crate::units::{Fd, KernelTime, Pid, Tid};

/// Events that are held at most; if a snapshot takes longer than this many, names begin where it saw them.
const HELD_MAX: usize = 1 << 19;

/// Nor more bytes of names of descriptors.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Holds the first events until the snapshot is over.
#[derive(Debug, Default)]
pub struct Opening {
    held: Vec<Event>,
    /// Of the names of descriptors among them.
    held_bytes: usize,
    /// When the snapshot was over.
    over: Option<KernelTime>,
}

/// What is told when the opening is over.
#[derive(Debug, Default)]
pub struct Opened {
    /// Descriptors that were the same from the start on.
    pub from_start: Vec<SeenFd>,
    /// Processes that went elsewhere before the snapshot was over: it may have seen them there.
    pub moved: FxHashSet<Pid>,
    /// The events that were held.
    pub events: Vec<Event>,
}

impl Opening {
    /// The snapshot was over at this time.
    pub fn snapshot_over(&mut self, at: KernelTime) {
        self.over = Some(at);
    }

    /// Takes an event. True if the opening is over now.
    pub fn hold(&mut self, event: Event) -> bool {
        let over = self.over.is_some_and(|it| event.time > it);
        if let EventKind::SeenFd(seen) = &event.kind {
            self.held_bytes += seen.link.len();
        }
        self.held.push(event);
        over || self.held.len() >= HELD_MAX || self.held_bytes >= HELD_BYTES_MAX
    }

    /// What is known of the first moments.
    pub fn finish(self) -> Opened {
        let changes = Changes::of(&self.held);
        let seen = self.held.iter().filter_map(|it| {
            if let EventKind::SeenFd(seen) = &it.kind { Some((it.time, seen)) } else { None }
        });
        let from_start = seen
            .filter(|(at, it)| !changes.before(it) && !changes.renamed(&it.link, *at))
            .map(|it| it.1)
            // It has moved since.
            .map(|it| SeenFd { position: None, ..SeenFd::clone(it) })
            .collect();
        let is_before = |it: &&Event| self.over.is_none_or(|over| it.time <= over);
        let moves = |it: &&Event| {
            let EventKind::SysExit(exit) = &it.kind else { return false };
            use Class::{Mount, Place, Root, Unshare};
            exit.ret == 0 && matches!(exit.call.call().class, Place | Root | Mount | Unshare)
        };
        let moved = self.held.iter().filter(is_before).filter(moves).map(|it| it.pid).collect();
        Opened { from_start, moved, events: self.held }
    }
}

/// The calls that threads are inside, and since when.
type Inside = FxHashMap<Tid, (KernelTime, CallId)>;

/// When descriptors were first made or closed.
#[derive(Debug, Default)]
struct Changes {
    of_fd: FxHashMap<(Pid, Fd), KernelTime>,
    /// Of any descriptor of a process, or of one that is not known.
    of_process: FxHashMap<Pid, KernelTime>,
    /// Calls that changed names of files: when they began, and the last parts of those names; `None`: not known.
    of_names: Vec<(KernelTime, Option<[Vec<u8>; 2]>)>,
    /// What was lost may have been anything of anybody.
    lost: Option<KernelTime>,
}

impl Changes {
    fn of(events: &[Event]) -> Self {
        let mut changes = Self::default();
        let mut inside = Inside::default();
        for event in events {
            changes.look_at(event, &mut inside);
        }
        // What these do is not told here.
        let open = inside.into_values().filter(|it| it.1.call().changes_names());
        changes.of_names.extend(open.map(|it| (it.0, None)));
        changes
    }

    /// True if the descriptor may have been another one before it was looked at.
    fn before(&self, seen: &SeenFd) -> bool {
        let is_before = |it: Option<&KernelTime>| it.is_some_and(|&it| it <= seen.begin);
        is_before(self.of_fd.get(&(seen.pid, seen.fd)))
            || is_before(self.of_process.get(&seen.pid))
            || is_before(self.lost.as_ref())
    }

    /// True if the file may have had another name before it was looked at, which was over at `at`.
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

    fn look_at(&mut self, event: &Event, inside: &mut Inside) {
        match &event.kind {
            EventKind::SysEnter(enter) => {
                inside.insert(event.tid, (event.time, enter.call));
                let call = enter.call.call();
                let argument = |role| call.arg(role).and_then(|it| enter.args.get(it)).copied();
                let closed = match call.class {
                    Class::Close => argument(Role::Fd),
                    Class::Dup => argument(Role::Fd2),
                    Class::CloseRange => return self.process(event.pid, event.time),
                    _ => None,
                };
                if let Some(fd) = closed {
                    self.fd(event, (fd & 0xffff_ffff).cast_signed());
                }
            }
            EventKind::SysExit(exit) => {
                let entered = inside.remove(&event.tid);
                if exit.call.call().changes_names() && exit.ret == 0 {
                    let began = entered.map_or(KernelTime::MIN, |it| it.0);
                    self.of_names.push((began, last_parts(exit.names.as_deref())));
                }
                match exit.call.call().class {
                    // A result is a descriptor, or not: fcntl returns both.
                    Class::Open | Class::Dup | Class::Control | Class::Make(_) => {
                        self.fd(event, exit.ret)
                    }
                    // Which two it does not say.
                    Class::MakePair => self.process(event.pid, event.time),
                    Class::Close | Class::CloseRange if entered.is_none() => {
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
            // Which descriptor it makes or closes is told later, or never.
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
            | EventKind::Probed(_)
            | EventKind::Chain(_) => {}
        }
    }
}

/// The last parts of the paths that a call was given, if they were read in time; of a call with one path twice the same.
fn last_parts(names: Option<&ReadNames>) -> Option<[Vec<u8>; 2]> {
    let first = names?.argument.as_ref()?;
    let second = names?.second.as_ref().unwrap_or(first);
    let all_good = first.verified && second.verified;
    all_good.then(|| [first, second].map(|it| last(&it.bytes).to_vec()))
}
