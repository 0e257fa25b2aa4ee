//! Signals that a user sends us, and how long we work on in spite of them.
//!
//! What is worked out when a recording is over may take minutes. The first signal then says that nobody wants to wait: what is left is
//! left out, and counted. The second one ends this process at once, as if it had been killed.

use std::fmt;
use std::os::fd::BorrowedFd;

use super::{clock, spawn};
use crate::units::KernelTime;

/// Shells and timeout(1) send a signal twice, to the process and to its group, ns: the second is the same wish.
const TWIN_NS: u64 = 100_000_000;

/// What the user does meanwhile.
pub trait Interrupts {
    /// Readable when a signal has come.
    fn fd(&self) -> BorrowedFd<'_>;
    /// The signals that have come since the last call.
    fn take(&mut self) -> Vec<Interrupt>;
    /// The last one of those that were taken, and when.
    fn last(&self) -> Option<(i32, KernelTime)>;
    /// From now on the first signal is only noted, as before, and the next one ends this process.
    fn end_by_the_second(&mut self);
}

/// A signal that has come to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub signal: i32,
    /// A terminal sent it, to everybody in its foreground; not a process to us.
    pub from_terminal: bool,
}

impl Interrupt {
    /// Passes it on to a program that we have launched. Ctrl-C reaches one in the foreground with us by itself; one with a session of its
    /// own gets it as the terminal would send it, with its process group.
    pub fn forward(&self, program: Launched) {
        // It may have ended at this moment; then there is nothing to forward.
        let _ = match (self.from_terminal, program.is_apart) {
            (false, _) => spawn::send_signal(program.pid, self.signal),
            (true, true) => spawn::send_signal(-program.pid, self.signal),
            (true, false) => Ok(()),
        };
    }
}

/// A program that we have launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its number, which is that of its process group if it is apart.
    pub pid: i32,
    /// It has a session of its own.
    pub is_apart: bool,
}

impl From<&spawn::Running> for Launched {
    fn from(program: &spawn::Running) -> Self {
        Self { pid: program.pid(), is_apart: program.is_apart() }
    }
}

/// It lasts until a signal comes.
pub struct Patience<'a> {
    /// `None`: it lasts for ever.
    interrupts: Option<&'a mut dyn Interrupts>,
    program: Option<Launched>,
    ended_by: Option<i32>,
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("ended_by", &self.ended_by).finish_non_exhaustive()
    }
}

impl<'a> Patience<'a> {
    /// For work after a recording. A launched program that runs on gets the signals, too, and is still waited for: then no signal ends us.
    pub fn new(interrupts: &'a mut dyn Interrupts, program: Option<Launched>) -> Self {
        if program.is_none() {
            interrupts.end_by_the_second();
        }
        Self { interrupts: Some(interrupts), program, ended_by: None }
    }

    /// For work before a recording: the first signal ends it, and what comes later is dealt with as always.
    pub fn before(interrupts: &'a mut dyn Interrupts) -> Self {
        Self { interrupts: Some(interrupts), program: None, ended_by: None }
    }

    /// For work that signals end in their own way, with us.
    pub fn endless() -> Self {
        Self { interrupts: None, program: None, ended_by: None }
    }

    /// True if a signal has come. To be asked only while there is something left to be done.
    pub fn is_over(&mut self) -> bool {
        // What comes later is for whoever asks next.
        if let Some(come) = self.interrupts.as_mut().filter(|_| self.ended_by.is_none()) {
            let last = come.last();
            let now = clock::now();
            let is_twin = |it: &Interrupt| {
                let same = last.filter(|last| last.0 == it.signal);
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

    /// The signal, if somebody who asked was told that one had come.
    pub fn ended_by(&self) -> Option<i32> {
        self.ended_by
    }

    /// Readable when a signal may have come; `None`: none is waited for.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.interrupts.as_ref().map(|it| it.fd())
    }
}

/// Patience for tests.
#[cfg(test)]
pub mod testing {
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;

    use super::{Interrupt, Interrupts, Patience};
    use crate::units::KernelTime;

    /// Signals that have come.
    struct Come {
        signals: Vec<i32>,
        wake: UnixStream,
        _other: UnixStream,
    }

    impl Interrupts for Come {
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

        fn end_by_the_second(&mut self) {}
    }

    /// Nobody sends a signal.
    pub fn endless() -> &'static mut Patience<'static> {
        patience(Vec::new())
    }

    /// This signal has come.
    pub fn ended_by(signal: i32) -> &'static mut Patience<'static> {
        patience(vec![signal])
    }

    fn patience(signals: Vec<i32>) -> &'static mut Patience<'static> {
        let (wake, mut other) = UnixStream::pair().expect("sockets");
        other.write_all(&vec![0; signals.len()]).expect("there is room");
        let come = Box::leak(Box::new(Come { signals, wake, _other: other }));
        Box::leak(Box::new(Patience::new(come, None)))
    }
}
