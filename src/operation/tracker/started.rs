//! Which programs were started, and which processes were not waited for.

use super::super::place::{Base, During};
use super::super::process::Process;
use super::super::started::Started;
use super::Tracker;
use crate::event::{Event, Probed};
use crate::units::Pid;

impl Tracker {
    /// What a probe says of a call has been joined to it.
    pub(super) fn probed(&mut self, event: &Event, probed: &Probed) {
        if let Some(reason) = self.unwanted(event.pid) {
            return self.ledger.ignore(reason);
        }
        self.ledger.events += 1;
        match probed {
            Probed::Program(path) => {
                let task = self.tasks.task((event.pid, event.tid));
                let absolute = task.and_then(|it| {
                    let place = it.place().borrow();
                    let is_kept = place.is_at_own_root() && !path.starts_with(b"/dev/fd/");
                    let call = During { by: event.tid, since: event.time };
                    place.absolute(Base::Working, path, call).filter(|_| is_kept)
                });
                self.started.program(absolute, event.time);
            }
            Probed::Waited(child) => {
                let is_alive = child.is_some_and(|it| self.tasks.known_process(it).is_some());
                self.zombies.waited(event.pid, *child, is_alive);
            }
            Probed::CoreSignal => self.started.core_signals += 1,
            Probed::Path { .. } | Probed::Given { .. } | Probed::File { .. } => {}
        }
    }

    /// Programs that were started.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// A process has ended; `orphan`: its waiter had ended before. How many are known not to be waited for because of that.
    pub(super) fn zombie(&mut self, pid: Pid, process: &Process, orphan: bool) -> u64 {
        let waiter = process.waiter.filter(|_| process.followed && !orphan);
        let was_there = waiter.is_some_and(|it| self.zombies.ended(pid, it));
        u64::from(orphan) + u64::from(was_there && self.context.followed.waits)
    }

    /// Followed processes of which no end was seen.
    pub fn alive(&self) -> u64 {
        self.tasks.processes().filter(|it| it.followed).count() as u64
    }

    /// Those that have ended and that no wait has taken, if waits are recorded.
    pub(super) fn zombies_left(&self) -> u64 {
        if self.context.followed.waits { self.zombies.left() } else { 0 }
    }
}
