//! Signals to processes, and requests to this one to end.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction,
};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Sends a signal to a process.
///
/// # Errors
///
/// Those of `kill(2)`.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    let signal = Signal::try_from(signal)?;
    nix::sys::signal::kill(Pid::from_raw(pid), signal)?;
    Ok(())
}

/// Does to this process what SIGTSTP does by default: stops it, unless no shell could continue it
/// (its process group is orphaned, `signal(7)`). Returns when it goes on.
///
/// # Errors
///
/// Those of `sigaction(2)`, `pthread_sigmask(3)` and `raise(3)`.
pub fn suspend() -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTSTP);
    let mask = signals.thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process.
    let before = unsafe { sigaction(Signal::SIGTSTP, &default) }?;
    let raised = raise(Signal::SIGTSTP);
    // SAFETY: this was the action of the signal.
    unsafe { sigaction(Signal::SIGTSTP, &before) }?;
    mask.thread_set_mask()?;
    Ok(raised?)
}

/// Leaves Ctrl-C to other processes of the terminal from now on.
///
/// # Errors
///
/// Those of `pthread_sigmask(3)`.
pub fn block_interrupts() -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(())
}

/// Requests to this process to end: SIGTERM and SIGINT, which do not end it any more.
#[derive(Debug)]
pub struct Termination(SignalFd);

impl Termination {
    /// Begins to wait. To be called while this process has one thread.
    ///
    /// # Errors
    ///
    /// Those of `signalfd(2)`.
    pub fn new() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        signals.add(Signal::SIGINT);
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?))
    }

    /// True if a request has come or comes within this time.
    ///
    /// # Errors
    ///
    /// Those of `poll(2)`.
    pub fn arrives_within(&self, time: Duration) -> io::Result<bool> {
        let mut readable = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // Rounded up: a wait of less than a millisecond is one, too.
        let ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX).saturating_add(1);
        let timeout = PollTimeout::try_from(ms).map_err(io::Error::other)?;
        Ok(poll(&mut readable, timeout)? > 0)
    }
}
