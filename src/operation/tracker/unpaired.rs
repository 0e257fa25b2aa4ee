//! Exits without their entries.
//!
//! The kernel decides before the tracepoint of the entry whether it executes a call at all
//! (`syscall_trace_enter()` in `kernel/entry/common.c`): of a call that a seccomp filter refuses,
//! traps or leaves to a supervisor only the exit is traced, with any result. So where no record was
//! lost, an exit without its entry is that of such a call. Where one was lost, the entry may have
//! been lost, too.

use super::Tracker;
use super::announce::anomaly;
use crate::anomaly::{Anomaly, AnomalyKind, Ignored, Ledger};
use crate::event::syscall_table::CallClass;
use crate::event::{Event, SysExit};
use crate::operation::context::POSITION_CLASSES;
use crate::operation::model::Unfinished;
use crate::operation::step::{Sink, Step};
use crate::operation::syscall;
use crate::operation::task::TaskView;
use crate::units::KernelTime;

impl Tracker {
    /// Sets the machine's kind (`uname -m`), which determines the result of a call that a filter
    /// traps.
    pub fn runs_on(&mut self, machine: &str) {
        self.is_x86_64 = machine == "x86_64";
    }

    /// Returns true if a record was lost, or could not be used, since all tracepoints are on.
    pub(super) fn has_losses(&self) -> bool {
        self.context.losses != self.losses_when_on
    }

    /// Handles an exit that is not that of the thread's pending call.
    pub(super) fn unpaired<S: Sink>(
        &mut self,
        event: &Event,
        exit: &SysExit,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let has_losses = self.has_losses();
        let (_, thread) = self.tasks.thread(event.pid, event.tid);
        let other = thread.pending.take();
        // The entry may be from before all tracepoints were on, or from after they were switched
        // off.
        let all_were_on = self.all_on == KernelTime::MAX && event.time < self.off_from;
        let entry_was_seen = std::mem::replace(&mut thread.seen, true) && all_were_on;
        let is_refused = other.is_none() && entry_was_seen && !has_losses;
        if other.is_none() && self.has_no_entry(exit, is_refused) {
            self.ledger.ignore(Ignored::UnderWay);
            return Ok(());
        }
        if !is_refused || self.may_move(exit) {
            self.forget_positions(event);
        }
        if other.is_none() && !entry_was_seen && !has_losses {
            self.ledger.ignore(Ignored::UnderWay);
            return Ok(());
        }
        self.ledger.exits += 1;
        if is_refused {
            let refused = without_entry(event, AnomalyKind::Refused, exit);
            return self.anomaly(&refused, event.time, sink);
        }
        self.ledger.orphan_exits += 1;
        if let Some(pending) = other {
            let why = without_exit(event.time >= self.off_from, &mut self.ledger);
            let operation = syscall::abandon(pending, event.time);
            sink.step(event.time, &Step::SyscallUnfinished(&operation, why))?;
        }
        let orphan = without_entry(event, AnomalyKind::OrphanExit, exit);
        self.anomaly(&orphan, event.time, sink)
    }

    /// Returns true for an exit that has no entry of its own thread. A child leaves the call that
    /// its parent entered; so does a thread whose number has changed by an exec. Of execs only the
    /// exits may be recorded: then one that failed is counted.
    fn has_no_entry(&mut self, exit: &SysExit, is_refused: bool) -> bool {
        let has_entry = is_refused && self.context.followed.exec_entries;
        exit.call.call().class == CallClass::Process
            && (exit.ret == 0 || !has_entry && self.started.ends_failed_exec(exit))
    }

    /// Returns true if a call that the kernel did not execute may have moved a position: a
    /// supervisor may have executed it with the same open files (`pidfd_getfd`). The result of a
    /// trapped call on x86 is the call's own number (`syscall_rollback()` in
    /// `arch/x86/include/asm/syscall.h`).
    fn may_move(&self, exit: &SysExit) -> bool {
        let call = exit.call.call();
        let number = call.number("x86_64").filter(|_| self.is_x86_64);
        let is_trapped = number.is_some_and(|number| i64::from(number) == exit.ret);
        exit.ret >= 0 && !is_trapped && POSITION_CLASSES.contains(&call.class)
    }

    /// Handles a call of this thread whose arguments are not known.
    fn forget_positions(&mut self, event: &Event) {
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        TaskView::new(process, &thread.own).fds().borrow().forget_positions();
    }
}

/// Returns the anomaly of an exit without its entry.
fn without_entry(event: &Event, kind: AnomalyKind, exit: &SysExit) -> Anomaly {
    let detail = format!("{} = {} without its entry", exit.call.call().name, exit.ret);
    anomaly(event, kind, 1, detail)
}

/// Counts a call without an exit: the thread's next record shows that it must have ended.
pub(super) fn without_exit(is_off: bool, ledger: &mut Ledger) -> Unfinished {
    if is_off {
        ledger.open_at_end += 1;
        return Unfinished::CaptureEnd;
    }
    ledger.lost_exits += 1;
    Unfinished::ExitLost
}
