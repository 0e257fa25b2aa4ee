//! Signals to this process, such as SIGINT and SIGTERM.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Origin;

use super::second_signal;
use crate::sys::cancellation::{Interrupt, Interrupts};
use crate::sys::clock;
use crate::units::KernelTime;

/// Signals that are handled.
const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Signals that end a recording. They count even where they are ignored, if a process sends them.
/// (Shells start background processes with SIGINT ignored, so that the terminal's does not reach
/// them.)
const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// Signals that have arrived and were not yet taken.
pub(super) struct Signals {
    arrived: SignalsInfo<WithOrigin>,
    /// Readable when a signal has arrived.
    wake: UnixStream,
    /// Signals that our caller ignores.
    ignored: Vec<i32>,
    ends_by_the_second: bool,
    last: Option<(i32, KernelTime)>,
}

impl Signals {
    /// Begins to handle these signals. Those that our caller ignores stay ignored, except for the
    /// two that end a recording, if a process sends them.
    pub(super) fn new() -> io::Result<Self> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let ignored: Vec<i32> = SIGNALS.into_iter().filter(|signal| is_ignored(*signal)).collect();
        let is_wanted = |number: &i32| ENDING.contains(number) || !ignored.contains(number);
        let wanted: Vec<i32> = SIGNALS.into_iter().filter(is_wanted).collect();
        // In this order a signal is recorded before it wakes us.
        let arrived = SignalsInfo::new(&wanted)?;
        for signal in &wanted {
            signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
        }
        Ok(Self { arrived, wake, ignored, ends_by_the_second: false, last: None })
    }
}

impl Interrupts for Signals {
    fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn take(&mut self) -> Vec<Interrupt> {
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(1..)) {}
        // A signal that no process sent is the terminal's.
        let interrupt = |origin: Origin| Interrupt {
            signal: origin.signal,
            from_terminal: origin.process.is_none(),
        };
        let ignored = &self.ignored;
        let counts = |interrupt: &Interrupt| {
            !(interrupt.from_terminal && ignored.contains(&interrupt.signal))
        };
        let all: Vec<Interrupt> = self.arrived.pending().map(interrupt).filter(counts).collect();
        self.last = all.last().map(|last| (last.signal, clock::now())).or(self.last);
        all
    }

    fn last(&self) -> Option<(i32, KernelTime)> {
        self.last
    }

    fn die_on_second_signal(&mut self) {
        if std::mem::replace(&mut self.ends_by_the_second, true) {
            return;
        }
        let handled: Vec<i32> =
            SIGNALS.into_iter().filter(|signal| !self.ignored.contains(signal)).collect();
        // Without the thread each signal is handled as the first one.
        let _ = second_signal::end_at_the_second(&handled);
    }
}

/// Flag that a signal to end sets; the second one ends this process.
pub(super) fn flag() -> io::Result<Arc<AtomicBool>> {
    let handled: Vec<i32> = SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)).collect();
    second_signal::end_at_the_second(&handled)
}

/// True if this process was started with the signal ignored, as by `nohup` and by shells in the
/// background.
pub(super) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 == 1)
}
