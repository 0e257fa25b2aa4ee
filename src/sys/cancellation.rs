//! Cancellation: signals of the user, and how long work goes on in spite of them.
//!
//! The work after a recording may take minutes. The first signal cancels it: the rest is skipped,
//! and counted. The second one ends this process at once, as if it had been killed.

use std::fmt;
use std::os::fd::BorrowedFd;

use super::{clock, signal};
use crate::units::KernelTime;

/// Time within which the same signal counts once, ns: shells and timeout(1) send each signal twice,
/// to the process and to its group.
const TWIN_NS: u64 = 100_000_000;

/// Source of the user's signals.
pub trait Interrupts {
    /// Readable when a signal has come.
    fn fd(&self) -> BorrowedFd<'_>;
    /// The signals that have come since the last call.
    fn take(&mut self) -> Vec<Interrupt>;
    /// The last signal that was taken, and its time.
    fn last(&self) -> Option<(i32, KernelTime)>;
    /// Sets what signals do from now on: the first one is only recorded, and the next one ends this
    /// process.
    fn die_on_second_signal(&mut self);
}

/// A signal to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Number of the signal.
    pub signal: i32,
    /// True if a terminal sent it to all processes in its foreground, and not a process to this one
    /// alone.
    pub from_terminal: bool,
}

impl Interrupt {
    /// Forwards the signal to a launched program. Ctrl-C reaches a program in our foreground group
    /// by itself. A program with a session of its own gets it as from the terminal: its whole
    /// process group.
    pub fn forward(&self, program: Launched) {
        // The program may have ended at this moment; then there is nothing to forward.
        let _ = match (self.from_terminal, program.is_apart) {
            (false, _) => signal::send(program.pid, self.signal),
            (true, true) => signal::send(-program.pid, self.signal),
            (true, false) => Ok(()),
        };
    }
}

/// A program that this process has launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Process number, and number of its process group if it has a session of its own.
    pub pid: i32,
    /// True if it has a session of its own.
    pub is_apart: bool,
}

/// Cancellation state of a piece of work: it is cancelled by the first signal.
pub struct Cancellation<'a> {
    /// Source of the signals; `None`: the work is never cancelled.
    interrupts: Option<&'a mut dyn Interrupts>,
    program: Option<Launched>,
    ended_by: Option<i32>,
}

impl fmt::Debug for Cancellation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("ended_by", &self.ended_by).finish_non_exhaustive()
    }
}

impl<'a> Cancellation<'a> {
    /// For work after a recording. A launched program that is still running gets the signals, too,
    /// and is waited for: then no signal ends this process.
    pub fn new(interrupts: &'a mut dyn Interrupts, program: Option<Launched>) -> Self {
        if program.is_none() {
            interrupts.die_on_second_signal();
        }
        Self { interrupts: Some(interrupts), program, ended_by: None }
    }

    /// For work before a recording: the first signal cancels it, and later ones have their usual
    /// effect.
    pub fn before(interrupts: &'a mut dyn Interrupts) -> Self {
        Self { interrupts: Some(interrupts), program: None, ended_by: None }
    }

    /// For work that signals end together with this process.
    pub fn endless() -> Self {
        Self { interrupts: None, program: None, ended_by: None }
    }

    /// True if a signal has come. To be called only while there is work left.
    pub fn is_cancelled(&mut self) -> bool {
        // Later signals are for the next piece of work.
        if let Some(come) = self.interrupts.as_mut().filter(|_| self.ended_by.is_none()) {
            let last = come.last();
            let now = clock::now();
            let is_twin = |interrupt: &Interrupt| {
                let same = last.filter(|last| last.0 == interrupt.signal);
                same.is_some_and(|last| now.0.saturating_sub(last.1.0) < TWIN_NS)
            };
            let mut interrupts = come.take();
            interrupts.retain(|it| !is_twin(it));
            if let Some(program) = self.program {
                interrupts.iter().for_each(|it| it.forward(program));
            }
            self.ended_by = interrupts.first().map(|it| it.signal);
        }
        self.ended_by.is_some()
    }

    /// The signal, if [`Self::is_cancelled`] has returned true because of one.
    pub fn ended_by(&self) -> Option<i32> {
        self.ended_by
    }

    /// Descriptor that is readable when a signal may have come; `None`: signals do not cancel the
    /// work.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.interrupts.as_ref().map(|it| it.fd())
    }
}

/// Cancellation for tests.
#[cfg(test)]
pub mod testing {
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;

    use super::{Cancellation, Interrupt, Interrupts};
    use crate::units::KernelTime;

    /// Signals that have come.
    struct ArrivedSignals {
        signals: Vec<i32>,
        wake: UnixStream,
        _other: UnixStream,
    }

    impl Interrupts for ArrivedSignals {
        fn fd(&self) -> BorrowedFd<'_> {
            self.wake.as_fd()
        }

        fn take(&mut self) -> Vec<Interrupt> {
            let interrupt = |signal| Interrupt { signal, from_terminal: false };
            std::mem::take(&mut self.signals).into_iter().map(interrupt).collect()
        }

        fn last(&self) -> Option<(i32, KernelTime)> {
            None
        }

        fn die_on_second_signal(&mut self) {}
    }

    /// Work that no signal cancels.
    pub fn endless() -> &'static mut Cancellation<'static> {
        cancellation(Vec::new())
    }

    /// Work that this signal has cancelled.
    pub fn ended_by(signal: i32) -> &'static mut Cancellation<'static> {
        cancellation(vec![signal])
    }

    fn cancellation(signals: Vec<i32>) -> &'static mut Cancellation<'static> {
        let (wake, mut other) = UnixStream::pair().expect("sockets");
        other.write_all(&vec![0; signals.len()]).expect("there is room");
        let come = Box::leak(Box::new(ArrivedSignals { signals, wake, _other: other }));
        Box::leak(Box::new(Cancellation::new(come, None)))
    }
}
