//! Whether a process makes this machine's own calls, or those of another table (32-bit programs on a 64-bit kernel).
//!
//! Such calls have other numbers. `syscalls:*` is silent about them; `raw_syscalls:*` tells their numbers, which mean
//! something else in our table. Nothing in a record says which table it is. But a program begins with the end of the call
//! that started it, and that end goes through the table of the *new* program (the kernel asks the registers, which the
//! exec has set): `execve` is 59 on x86-64 and 11 on i386. So, after an exec that was seen:
//!
//! ```text
//!   exec ──► unknown ─┬─ the end of an exec by its own number ──► native
//!                     ├─ any other record, or the end ──────────► other: left out
//!                     └─ records were lost in between ──────────► as before
//! ```
//!
//! Children have their parent's. Programs that the kernel starts by itself come out of no call, so nothing is concluded
//! for a process without a user's program before.

use std::rc::Rc;

use super::fd_table::{Description, FdTable};
use crate::units::KernelTime;

/// Which calls a process makes.
#[derive(Debug, Default)]
pub struct Abi {
    state: State,
    /// It runs a program, or descends from one that does.
    is_user: bool,
    /// What it may move unseen.
    held: Vec<Rc<Description>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Native,
    Unknown {
        /// It was another one before.
        was_other: bool,
        /// When the program began.
        since: KernelTime,
        /// How many losses there had been.
        losses: u32,
    },
    Other,
}

/// What a record of a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What it seems.
    Native,
    /// The same; and what was known of the process is of no use, for nobody saw what it did until now.
    NativeAgain,
    /// A call of another table; it is the first that is known of this program.
    OtherNow,
    /// A call of another table.
    Other,
}

/// A program that has just been started may still be inside the call that did it.
const BEGINNING_NS: u64 = 100_000_000;

impl Abi {
    /// It runs a program.
    pub fn is_user(&mut self) {
        self.is_user = true;
    }

    /// It runs a program of the other kind since before the capture.
    pub fn seen_other(&mut self) {
        if self.state == State::Native {
            self.state = State::Other;
        }
    }

    /// That of a child.
    pub fn of_child(&self) -> Self {
        Self { state: self.state, is_user: self.is_user, held: Vec::new() }
    }

    /// It is about to become another program. True if that makes the one before one of the others: not even the end of the call that
    /// started it was seen.
    pub fn exec_again(&self, now_losses: u32) -> bool {
        matches!(self.state, State::Unknown { losses, .. } if losses == now_losses)
    }

    /// It has become another program, and has these descriptors.
    pub fn exec(&mut self, fds: &FdTable, since: KernelTime, losses: u32) {
        if self.is_user {
            let was_other = self.state != State::Native;
            self.state = State::Unknown { was_other, since, losses };
            let fds = fds.descriptions();
            fds.iter().for_each(|it| it.hold());
            self.held.extend(fds);
        }
    }

    /// Judges a record; `ends_exec` if it is the end of an exec by its own number.
    pub fn judge(&mut self, ends_exec: bool, now_losses: u32) -> Verdict {
        match self.state {
            State::Native => {
                self.is_user = true;
                Verdict::Native
            }
            State::Other => Verdict::Other,
            State::Unknown { was_other, losses, .. } => {
                let is_native = if losses == now_losses { ends_exec } else { !was_other };
                self.state = if is_native { State::Native } else { State::Other };
                match (is_native, was_other) {
                    (true, false) => {
                        self.held.drain(..).for_each(|it| it.release());
                        Verdict::Native
                    }
                    // What it has open it may share with others: nobody knows any more under which numbers.
                    (true, true) => Verdict::NativeAgain,
                    (false, _) => {
                        self.held.iter().for_each(|it| it.forget_position());
                        Verdict::OtherNow
                    }
                }
            }
        }
    }

    /// Nothing follows. True if that makes it one of the others.
    pub fn is_silent(&self, now: KernelTime, now_losses: u32) -> bool {
        let State::Unknown { since, losses, .. } = self.state else { return false };
        losses == now_losses && now.since(since).is_some_and(|it| it.0 > BEGINNING_NS)
    }

    /// The process has ended. True if it was one of the others and had not been reported. From `off_from` on the ends of calls were no longer
    /// recorded: then as of a program that runs on.
    pub fn end(&self, now: KernelTime, off_from: KernelTime, now_losses: u32) -> bool {
        let is_other = match self.state {
            State::Unknown { .. } if now >= off_from => self.is_silent(off_from, now_losses),
            State::Unknown { losses, .. } => losses == now_losses,
            _ => false,
        };
        if is_other {
            self.held.iter().for_each(|it| it.forget_position());
        }
        is_other
    }
}
