//! Signals to processes.

use std::io;

use nix::unistd::Pid;

/// Sends a signal to a process.
///
/// # Errors
///
/// Those of `kill(2)`.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    let signal = nix::sys::signal::Signal::try_from(signal)?;
    nix::sys::signal::kill(Pid::from_raw(pid), signal)?;
    Ok(())
}
