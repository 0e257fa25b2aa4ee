//! Session of a program that is started as another user.
//!
//! A program with its caller's terminal could type into it (`TIOCSTI`, `ioctl_tty(2)`), and the
//! caller's shell, which is root's, would read that. The kernel allows this only for the
//! controlling terminal of the program's own session. So such a program gets a new session. The
//! tracer then receives the signals that the terminal sends to its foreground (Ctrl-C, Ctrl-\\,
//! Ctrl-Z, a new size), and forwards them to the program's process group.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

/// Process group to which signals are forwarded.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// True if this process has a terminal. `dev.tty.legacy_tiocsti` = 0 does not prevent all ways to
/// type into it: before Linux 6.7 `TIOCLINUX` on a console can paste, too.
pub(super) fn has_terminal() -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open("/dev/tty", flags, Mode::empty()).is_ok()
}

/// Ends the forwarding: the program has ended, and its number may soon be another process group's.
pub(super) fn pass_on_no_more() {
    // ORDERING: Relaxed: a handler runs in this thread or reads it at most once more.
    GROUP.store(0, Ordering::Relaxed);
}

/// Begins to forward the signals of job control to this process group as well: the one that this
/// child makes before it becomes the program, until then the child alone.
///
/// # Errors
///
/// Those of `sigaction(2)`.
pub(super) fn pass_on(group: i32) -> io::Result<()> {
    // ORDERING: Relaxed: the handlers are installed after it, by the same thread.
    GROUP.store(group, Ordering::Relaxed);
    handle(libc::SIGWINCH, size_changed)?;
    handle(libc::SIGTSTP, suspended)
}

fn handle(signal: i32, with: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid value of it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer only queries the current action; `action` is exclusively ours.
    let code = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    if code < 0 || action.sa_sigaction == libc::SIG_IGN {
        // A signal that the caller ignores stays ignored.
        return Ok(());
    }
    action.sa_sigaction = with as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the struct is complete and outlives the call; both handlers only call kill(2), which
    // every handler may.
    let code = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn size_changed(signal: libc::c_int) {
    to_group(signal);
}

/// Stops the program, then this process; when its shell continues this process, both go on.
extern "C" fn suspended(_: libc::c_int) {
    // Not SIGTSTP: the kernel does not let it stop a session without a shell.
    to_group(libc::SIGSTOP);
    // SAFETY: plain numbers; stops this process until SIGCONT.
    unsafe { libc::raise(libc::SIGSTOP) };
    to_group(libc::SIGCONT);
}

fn to_group(signal: libc::c_int) {
    // ORDERING: Relaxed: one number, written before the handlers were installed, and 0 when the
    // program has ended.
    let group = GROUP.load(Ordering::Relaxed);
    if group == 0 {
        return;
    }
    // SAFETY: plain numbers. The group may have ended; then there is no process to signal.
    let code = unsafe { libc::kill(-group, signal) };
    if code < 0 {
        // The child was released and has not made its session yet.
        // SAFETY: as above; the number is the child's until `pass_on_no_more`.
        unsafe { libc::kill(group, signal) };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Sets the group as [`pass_on`] does, without handlers.
    pub(in super::super) fn set_group(group: i32) {
        // ORDERING: one thread uses it.
        GROUP.store(group, Ordering::Relaxed);
    }

    pub(in super::super) fn group() -> i32 {
        // ORDERING: one thread uses it.
        GROUP.load(Ordering::Relaxed)
    }

    pub(in super::super) fn send(signal: i32) {
        to_group(signal);
    }
}
