//! ABI of a process: this machine's own system calls, or those of another table (32-bit programs on
//! a 64-bit kernel).
//!
//! Such calls have other numbers. `syscalls:*` does not report them; `raw_syscalls:*` reports their
//! numbers, which mean other calls in our table. No record contains its table. But a program begins
//! with the end of the call that started it, and that end goes through the table of the *new*
//! program (the kernel uses the registers, which the exec has set): `execve` is 59 on x86-64 and 11
//! on i386. So, after an exec that was seen:
//!
//! ```text
//!   exec ──► unknown ─┬─ the end of an exec by its own number ──► native
//!                     ├─ any other record, or the end ──────────► other: left out
//!                     └─ records were lost in between ──────────► as before
//! ```
//!
//! An exec of a program with other credentials (set-user-ID) reports an end of the process that
//! lives on: the kernel ends the events of unprivileged tracers (`begin_new_exec()` in `fs/exec.c`)
//! and writes the record that a real end writes. So an end inside the exec is doubted: the next
//! record of the process shows that the process lives, and a second end is real. Without such a
//! record the end was that of a program of another table that ran very briefly, of a process that
//! was killed inside its exec, or of one that an unprivileged tracer does not see any more. Its end
//! counts when its number is used again, or at the end of the capture.
//!
//! Children have their parent's ABI. Programs that the kernel starts by itself do not return from a
//! call, so nothing is concluded for a process that has not run a user's program before.

use std::rc::Rc;

use super::fd_table::{Description, FdTable};
use crate::units::KernelTime;

/// ABI state of a process.
#[derive(Debug, Default)]
pub struct Abi {
    state: AbiState,
    /// True if it runs a program, or descends from a process that does.
    is_user: bool,
    /// Open files whose positions it may move unseen.
    held: Vec<Rc<Description>>,
    /// End of the process that was reported inside its last exec.
    doubted_end: Option<DoubtedEnd>,
}

/// Report of an end inside an exec: that of the process, or one that the exec writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubtedEnd {
    /// Time of the record.
    pub at: KernelTime,
    /// True if the expected waiter of the process had ended before.
    pub is_orphan: bool,
    /// True if the expected waiter has waited for the process since.
    pub is_waited: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AbiState {
    #[default]
    Native,
    Unknown {
        /// True if the process had another table before.
        was_other: bool,
        /// Begin of the program.
        since: KernelTime,
        /// Number of losses at that time.
        losses: u32,
    },
    Other,
}

/// Result for a record of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbiDecision {
    /// The record is a native call.
    Native,
    /// The record is a native call, after a program of another table: the known state of the
    /// process is useless, because its calls were not seen until now.
    NativeAgain,
    /// The record is a call of another table; the first one of this program.
    OtherNow,
    /// The record is a call of another table.
    Other,
}

/// Time in which a program that has just been started may still be inside the call that started it.
const BEGINNING_NS: u64 = 100_000_000;

/// Time between an exec and the end of the process that it reports, ns: some microseconds, unless a
/// hypervisor deschedules the CPU.
const END_IN_EXEC_NS: u64 = 1_000_000;

impl Abi {
    /// Notes that the process runs a program.
    pub fn is_user(&mut self) {
        self.is_user = true;
    }

    /// Notes that the process has run a program of another table since before the capture.
    pub fn seen_other(&mut self) {
        if self.state == AbiState::Native {
            self.state = AbiState::Other;
        }
    }

    /// Returns the state of a child.
    pub fn of_child(&self) -> Self {
        Self { state: self.state, is_user: self.is_user, ..Self::default() }
    }

    /// Returns true, and keeps the report, if this end of the process may be that of an exec of
    /// which the end has not been seen. From `off_from` on the ends of calls were no longer
    /// recorded. A second report is true.
    pub fn doubts_end(&mut self, end: DoubtedEnd, off_from: KernelTime, now_losses: u32) -> bool {
        let AbiState::Unknown { since, losses, .. } = self.state else { return false };
        let is_early = end.at.since(since).is_some_and(|age| age.0 < END_IN_EXEC_NS);
        let is_possible = is_early && end.at < off_from && losses == now_losses;
        is_possible && self.doubted_end.replace(end).is_none()
    }

    /// Returns the end that is doubted.
    pub fn doubted_end(&self) -> Option<DoubtedEnd> {
        self.doubted_end
    }

    /// Handles a successful wait for the process, which may also be that of a tracer that has
    /// stopped it inside the exec. Returns true if its end is doubted.
    pub fn waited(&mut self) -> bool {
        self.doubted_end.iter_mut().for_each(|end| end.is_waited = true);
        self.doubted_end.is_some()
    }

    /// Handles a record of the process, which shows that the process lives.
    pub fn lives(&mut self) {
        self.doubted_end = None;
    }

    /// Handles the end of the capture, or of the recording of ends of calls. Returns the doubted
    /// end if it was an end: the exec had time for a further record, or the process was waited for.
    pub fn settled_end(&self, now: KernelTime, now_losses: u32) -> Option<DoubtedEnd> {
        let AbiState::Unknown { since, losses, .. } = self.state else { return None };
        let had_time = now.since(since).is_some_and(|age| age.0 > END_IN_EXEC_NS);
        self.doubted_end.filter(|end| losses == now_losses && (had_time || end.is_waited))
    }

    /// Handles an exec. Returns true if the previous program must be of another table, because not
    /// even the end of the call that started it was seen.
    pub fn exec_again(&self, now_losses: u32) -> bool {
        matches!(self.state, AbiState::Unknown { losses, .. } if losses == now_losses)
    }

    /// Handles the start of another program with these descriptors.
    pub fn exec(&mut self, fds: &FdTable, since: KernelTime, losses: u32) {
        if self.is_user {
            let was_other = self.state != AbiState::Native;
            self.state = AbiState::Unknown { was_other, since, losses };
            let fds = fds.descriptions();
            fds.iter().for_each(|it| it.hold());
            self.held.extend(fds);
        }
    }

    /// Judges a record; `ends_exec` if it is the end of an exec by its own number.
    pub fn judge(&mut self, ends_exec: bool, now_losses: u32) -> AbiDecision {
        self.lives();
        match self.state {
            AbiState::Native => {
                self.is_user = true;
                AbiDecision::Native
            }
            AbiState::Other => AbiDecision::Other,
            AbiState::Unknown { was_other, losses, .. } => {
                let is_native = if losses == now_losses { ends_exec } else { !was_other };
                self.state = if is_native { AbiState::Native } else { AbiState::Other };
                match (is_native, was_other) {
                    (true, false) => {
                        self.held.drain(..).for_each(|it| it.release());
                        AbiDecision::Native
                    }
                    // The process may share its open files with others, under unknown numbers.
                    (true, true) => AbiDecision::NativeAgain,
                    (false, _) => {
                        self.held.iter().for_each(|it| it.forget_position());
                        AbiDecision::OtherNow
                    }
                }
            }
        }
    }

    /// Handles the end of the capture. Returns true if the program must be of another table.
    pub fn is_silent(&self, now: KernelTime, now_losses: u32) -> bool {
        let AbiState::Unknown { since, losses, .. } = self.state else { return false };
        losses == now_losses && now.since(since).is_some_and(|age| age.0 > BEGINNING_NS)
    }

    /// Handles the end of the process. Returns true if its program was of another table and had not
    /// been reported. From `off_from` on the ends of calls were no longer recorded: then the rule
    /// for a program that runs on applies.
    pub fn end(&self, now: KernelTime, off_from: KernelTime, now_losses: u32) -> bool {
        let is_other = match self.state {
            AbiState::Unknown { .. } if now >= off_from => self.is_silent(off_from, now_losses),
            AbiState::Unknown { losses, .. } => losses == now_losses,
            _ => false,
        };
        if is_other {
            self.held.iter().for_each(|it| it.forget_position());
        }
        is_other
    }
}
