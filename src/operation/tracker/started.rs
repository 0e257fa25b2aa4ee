//! Started programs, and processes that were not waited for.

use super::super::fs_context::{Base, CallInterval};
use super::super::process::Process;
use super::super::started::StartedPrograms;
use super::super::task::TaskId;
use super::Tracker;
use crate::event::{Event, ProbeObservation};
use crate::units::Pid;

impl Tracker {
    /// Takes an event of a probe that was joined to a call.
    pub(super) fn probed(&mut self, event: &Event, probed: &ProbeObservation) {
        if let Some(reason) = self.ignore_reason(event.pid) {
            return self.ledger.ignore(reason);
        }
        self.ledger.events += 1;
        match probed {
            ProbeObservation::Program(path) => {
                let task = self.tasks.task(TaskId { pid: event.pid, tid: event.tid });
                let absolute = task.and_then(|task| {
                    let place = task.place().borrow();
                    let is_kept = place.is_at_own_root() && !path.starts_with(b"/dev/fd/");
                    let call = CallInterval { by: event.tid, since: event.time };
                    place.absolute(Base::Working, path, call).filter(|_| is_kept)
                });
                self.started.program(absolute, event.time);
            }
            ProbeObservation::Waited(Some(child)) if self.waits_for_doubted(event.pid, *child) => {}
            ProbeObservation::Waited(child) => {
                let is_alive = child.is_some_and(|it| self.tasks.known_process(it).is_some());
                self.zombies.waited(event.pid, *child, is_alive);
            }
            ProbeObservation::CoreSignal => self.started.core_signals += 1,
            ProbeObservation::Path { .. }
            | ProbeObservation::Given { .. }
            | ProbeObservation::Submitted { .. }
            | ProbeObservation::Completed { .. }
            | ProbeObservation::File { .. } => {}
        }
    }

    /// Handles a wait. Returns true if it is that of the expected waiter for a process whose end is
    /// doubted.
    fn waits_for_doubted(&mut self, waiter: Pid, child: Pid) -> bool {
        let process = self.tasks.known_process_mut(child);
        let of_waiter =
            |process: &&mut Process| process.waiter.is_some_and(|own| own.pid == waiter);
        process.filter(of_waiter).is_some_and(|process| process.abi.waited())
    }

    /// Returns the programs that were started.
    pub fn started(&self) -> &StartedPrograms {
        &self.started
    }

    /// Handles the end of a process; `orphan`: its waiter had ended before. Returns the number of
    /// processes that are thereby known to be never waited for.
    pub(super) fn zombie(&mut self, pid: Pid, process: &Process, orphan: bool) -> u64 {
        let waiter = process.waiter.filter(|_| process.followed && !orphan);
        let was_there = waiter.is_some_and(|it| self.zombies.ended(pid, it));
        u64::from(orphan) + u64::from(was_there && self.context.followed.waits)
    }

    /// Returns the number of followed processes whose end was not seen.
    pub fn alive(&self) -> u64 {
        self.tasks.processes().filter(|it| it.followed).count() as u64
    }

    /// Returns the number of ended processes that no wait has taken, if waits are recorded.
    pub(super) fn zombies_left(&self) -> u64 {
        if self.context.followed.waits { self.zombies.left() } else { 0 }
    }
}
