//! Start of the program to trace: as our child, with the caller's environment, and only when the
//! recording is on.
//!
//! The child is forked first of all, before this process has threads, signal handlers or raised
//! limits, so that it inherits what our caller gave us. It waits on a pipe; when the recording is
//! on, it is released and becomes the program.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus};
use nix::unistd::{ForkResult, Pid, fork, pipe2};

use super::cancellation::{Cancellation, Launched};
use super::identity::Identity;
use super::{clock, rlimits, session, signal};
use crate::units::{self, Fd};

/// Time that the kernel may take to end a killed child, ns. A child whose file system does not
/// respond is not waited for any longer.
const END_NS: u64 = 1_000_000_000;

/// The program, forked but not yet started.
#[derive(Debug)]
pub struct PausedChild {
    pid: Pid,
    user: Option<u32>,
    is_apart: bool,
    go: File,
    failure: File,
}

/// The program, running.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    is_apart: bool,
}

/// Reason for which the program does not run.
#[derive(Debug)]
pub enum StartError {
    /// Error of `execve(2)`.
    Failed(io::Error),
    /// Signal that reached the tracer before the exec had ended; the child was killed.
    Interrupted(i32),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// End of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// Exit status.
    Exited(i32),
    /// Signal that killed the program.
    Killed(i32),
}

/// True if SIGPIPE was ignored when this process was started. The Rust runtime ignores it before
/// `main`, so this is recorded earlier.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// True if SIGCHLD was ignored when this process was started. The kernel then discards how children
/// end, and reuses their numbers while we still send them signals. So the signal is not ignored
/// while the tracer works.
static SIGCHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls the functions of this section, with the C calling convention, once,
// before main.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_SURROUNDINGS: extern "C" fn() = note_surroundings;

/// Bits of those of standard input, output and error that were closed when this process was
/// started. The Rust runtime opens `/dev/null` in their place.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Standard input, output, error.
const STANDARD: [libc::c_int; 3] = [0, 1, 2];

extern "C" fn note_surroundings() {
    // ORDERING: written once before any thread exists.
    SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    if is_ignored(libc::SIGCHLD) {
        // ORDERING: as above.
        SIGCHLD_WAS_IGNORED.store(true, Ordering::Relaxed);
        // SAFETY: no thread exists yet, and the signal has no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    // ORDERING: as above.
    rlimits::SIGXFSZ_WAS_IGNORED.store(is_ignored(libc::SIGXFSZ), Ordering::Relaxed);
    for fd in STANDARD {
        // SAFETY: plain numbers; the call changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            // ORDERING: written once before any thread exists.
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer only queries the current action; `action` is exclusively ours.
    let code = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    code == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Forks the child, which becomes the program as `user`, or as the current user. To be called while
/// this process has one thread.
///
/// # Errors
///
/// Those of `fork(2)` and `pipe(2)`; `InvalidInput` for an argument with a NUL inside.
pub fn hold(command: &[OsString], user: Option<&Identity>) -> io::Result<PausedChild> {
    let argv = arguments(command)?;
    let pointers = pointers(&argv);
    let is_apart = user.is_some() && session::has_terminal();
    let (wait, go) = pipe2(OFlag::O_CLOEXEC)?;
    let (failure, report) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: this process has one thread (this function's contract), so the child may do anything
    // that it may.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop((go, failure));
            become_program(&wait, &report, user, is_apart, &pointers)
        }
        ForkResult::Parent { child } => {
            let user = user.map(Identity::user);
            Ok(PausedChild { pid: child, user, is_apart, go: go.into(), failure: failure.into() })
        }
    }
}

/// Waits, in the child, until it is released, then becomes the program. Reports the error if that
/// fails.
fn become_program(
    wait: &OwnedFd,
    report: &OwnedFd,
    user: Option<&Identity>,
    is_apart: bool,
    argv: &[*const libc::c_char],
) -> ! {
    let mut word = [0];
    if nix::unistd::read(wait.as_fd(), &mut word) != Ok(1) {
        // The tracer has given up, or ended.
        exit_now(125);
    }
    restore_surroundings();
    let apart = if is_apart { nix::unistd::setsid().map(drop) } else { Ok(()) };
    let taken = apart.and_then(|()| user.map_or(Ok(()), Identity::take));
    let errno = match taken {
        Ok(()) => execute(argv),
        Err(errno) => errno,
    } as i32;
    let _ = nix::unistd::write(report.as_fd(), &errno.to_le_bytes());
    exit_now(127)
}

/// Returns the arguments as the kernel takes them.
fn arguments(command: &[OsString]) -> io::Result<Vec<CString>> {
    let argument = |word: &OsString| CString::new(word.clone().into_vec());
    command.iter().map(argument).collect::<Result<Vec<_>, _>>().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "an argument has a NUL byte inside")
    })
}

/// Returns pointers to the arguments, with a null at the end.
fn pointers(argv: &[CString]) -> Vec<*const libc::c_char> {
    let pointers = argv.iter().map(|argument| argument.as_ptr());
    pointers.chain([std::ptr::null()]).collect()
}

/// Becomes the program, with the number, descriptors, limits and signals with which this process
/// was started. To be called while this process has one thread. Returns only if that fails.
pub fn become_command(command: &[OsString]) -> io::Error {
    let argv = match arguments(command) {
        Ok(argv) => argv,
        Err(error) => return error,
    };
    let pointers = pointers(&argv);
    restore_surroundings();
    execute(&pointers).into()
}

/// Executes the program of a null-terminated array of pointers to strings that the caller keeps
/// alive. Returns only if that fails.
fn execute(argv: &[*const libc::c_char]) -> Errno {
    let Some(&program) = argv.first().filter(|program| !program.is_null()) else {
        return Errno::ENOENT;
    };
    // SAFETY: `argv` is such an array (this function's contract).
    unsafe { libc::execvp(program, argv.as_ptr()) };
    Errno::last()
}

/// Restores the signals, descriptors and limits with which this process was started.
fn restore_surroundings() {
    // ORDERING: written once before any thread existed.
    if !SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: this process has one thread and no handler for the signal.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    // ORDERING: written once before any thread existed.
    if SIGCHLD_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    for fd in STANDARD {
        // ORDERING: written once before any thread existed.
        if CLOSED.load(Ordering::Relaxed) & 1 << fd != 0 {
            // SAFETY: this process is about to become another program; no code of ours uses the
            // descriptor.
            unsafe { libc::close(fd) };
        }
    }
    rlimits::restore();
}

fn exit_now(code: i32) -> ! {
    // SAFETY: ends the child without running the exit handlers that belong to the parent.
    unsafe { libc::_exit(code) }
}

impl PausedChild {
    /// Process id of the child.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Number of the user that the child becomes when it is released, if it is another one.
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Releases the child, and waits until its exec has ended or a signal has come: an exec takes
    /// as long as the program's file system takes to respond.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(mut self, cancellation: &mut Cancellation<'_>) -> Result<Running, StartError> {
        // Before the release: a key may be pressed as soon as the program runs.
        if self.is_apart {
            session::pass_on(self.pid.as_raw())?;
        }
        let started = self.release(cancellation);
        if started.is_err() {
            session::pass_on_no_more();
        }
        started
    }

    fn release(&mut self, cancellation: &mut Cancellation<'_>) -> Result<Running, StartError> {
        self.go.write_all(b"g")?;
        while !self.has_answered(cancellation.fd()) {
            if cancellation.is_cancelled() {
                self.kill();
                return Err(StartError::Interrupted(cancellation.ended_by().unwrap_or(0)));
            }
        }
        let mut answer = [0; 4];
        // The pipe closes by itself when the exec succeeds.
        match self.failure.read_exact(&mut answer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(Running { pid: self.pid, is_apart: self.is_apart })
            }
            Err(error) => Err(error.into()),
            Ok(()) => {
                // No other process gets the number before the wait.
                session::pass_on_no_more();
                let _ = nix::sys::wait::waitpid(self.pid, None);
                Err(io::Error::from_raw_os_error(i32::from_le_bytes(answer)).into())
            }
        }
    }

    /// Waits until the child has reported an error or closed its pipe, or the other descriptor is
    /// readable. Returns true if the child has.
    fn has_answered(&self, other: Option<BorrowedFd<'_>>) -> bool {
        let mut fds = vec![PollFd::new(self.failure.as_fd(), PollFlags::POLLIN)];
        fds.extend(other.map(|it| PollFd::new(it, PollFlags::POLLIN)));
        // An interrupted wait counts as a wait: the caller checks again.
        let _ = poll(&mut fds, PollTimeout::NONE);
        fds.first().is_some_and(|it| it.any().unwrap_or(false))
    }

    /// Kills the child. A child that waits for an unresponsive file system ends when that responds,
    /// and is not waited for.
    fn kill(&self) {
        let end = process_fd(self.pid.as_raw());
        // The child may have ended at this moment.
        let _ = signal::send(self.pid.as_raw(), libc::SIGKILL);
        let until = clock::now().0.saturating_add(END_NS);
        while let Ok(end) = &end {
            let has_ended = nix::sys::wait::waitpid(self.pid, Some(WaitPidFlag::WNOHANG));
            let left = until.saturating_sub(clock::now().0) / 1_000_000;
            if left == 0 || !matches!(has_ended, Ok(WaitStatus::StillAlive)) {
                return;
            }
            wait_readable(end.as_fd(), u16::try_from(left).unwrap_or(u16::MAX));
        }
    }

    /// Ends the child before it becomes the program.
    pub fn abandon(self) {
        drop(self.go);
        let _ = nix::sys::wait::waitpid(self.pid, None);
    }
}

impl Running {
    /// Process id of the program.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// True if the program has a session of its own, so that the terminal's signals do not reach
    /// it.
    pub fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// True if the program has ended and still has its `/proc` entry, so that its counters can be
    /// read.
    ///
    /// # Errors
    ///
    /// Those of `waitid(2)`.
    pub fn has_ended(&self) -> io::Result<bool> {
        let pid = libc::id_t::try_from(self.pid.as_raw()).map_err(io::Error::other)?;
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: an all-zero siginfo is a valid value of it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is exclusively ours.
        if unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, flags) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: waitid sets this field, or leaves the 0.
        Ok(unsafe { info.si_pid() } != 0)
    }

    /// True if the program was ended by a signal, or has ended with another status than 0.
    pub fn has_failed(&self) -> bool {
        let Ok(pid) = libc::id_t::try_from(self.pid.as_raw()) else { return false };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: an all-zero siginfo is a valid value of it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is exclusively ours.
        let code = unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, flags) };
        // SAFETY: waitid sets this field, or leaves the 0.
        let ended = unsafe { info.si_pid() };
        // SAFETY: as above.
        let status = unsafe { info.si_status() };
        code == 0 && ended != 0 && (info.si_code != libc::CLD_EXITED || status != 0)
    }

    /// Waits for the program's end, without taking its status.
    fn wait_for_end(&self) -> io::Result<()> {
        let pid = libc::id_t::try_from(self.pid.as_raw()).map_err(io::Error::other)?;
        loop {
            // SAFETY: with a null pointer no information is returned.
            let code = unsafe {
                libc::waitid(libc::P_PID, pid, std::ptr::null_mut(), libc::WEXITED | libc::WNOWAIT)
            };
            let error = io::Error::last_os_error();
            if code == 0 {
                return Ok(());
            }
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Waits for the program's end and takes its status.
    ///
    /// # Errors
    ///
    /// Those of `waitpid(2)`.
    pub fn reap(self) -> io::Result<ProgramEnd> {
        // No other process gets the number of a zombie.
        self.wait_for_end()?;
        session::pass_on_no_more();
        loop {
            // nix has no names for real-time signals, which may end a program as well.
            let mut status = 0;
            // SAFETY: `status` is exclusively ours.
            if unsafe { libc::waitpid(self.pid.as_raw(), &raw mut status, 0) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            } else if libc::WIFEXITED(status) {
                return Ok(ProgramEnd::Exited(libc::WEXITSTATUS(status)));
            } else if libc::WIFSIGNALED(status) {
                return Ok(ProgramEnd::Killed(libc::WTERMSIG(status)));
            }
        }
    }
}

/// Opens a descriptor that becomes readable when the process ends.
///
/// # Errors
///
/// `ESRCH`: the process does not exist.
pub fn process_fd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the call changes nothing in our memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|&it| it >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just created this descriptor for us; no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Ends this process by the signal that ended the traced program, so that our caller gets the same
/// status.
pub fn die_by(signal: i32) -> ! {
    // The core file is the program's, not ours.
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    // SAFETY: plain numbers; the default action replaces ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: plain numbers; ends this process.
    unsafe { libc::raise(signal) };
    exit_now(128 + signal)
}

/// Waits until the descriptor is readable, or for this number of milliseconds.
pub fn wait_readable<'a>(fd: impl Into<Option<BorrowedFd<'a>>>, milliseconds: u16) {
    let mut fds = Vec::from_iter(fd.into().map(|it| PollFd::new(it, PollFlags::POLLIN)));
    // An interrupted wait counts as a wait: the caller checks again.
    let _ = poll(&mut fds, PollTimeout::from(milliseconds));
}

impl From<&Running> for Launched {
    fn from(program: &Running) -> Self {
        Self { pid: program.pid(), is_apart: program.is_apart() }
    }
}

/// Descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFd {
    /// The process.
    pub pid: units::Pid,
    /// The descriptor.
    pub fd: Fd,
}

/// True if the two descriptors of the two processes are the same open file (`kcmp(2)`); `None` if
/// the kernel does not report that.
pub fn same_open_file(first: ProcessFd, second: ProcessFd) -> Option<bool> {
    const KCMP_FILE: libc::c_int = 0;
    let (pids, fds) = ((first.pid.0, second.pid.0), (first.fd.0, second.fd.0));
    // SAFETY: plain numbers; the call changes nothing in our memory.
    let code = unsafe { libc::syscall(libc::SYS_kcmp, pids.0, pids.1, KCMP_FILE, fds.0, fds.1) };
    match code {
        0 => Some(true),
        1..=3 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    /// Fails if a signal is forwarded to the process group of a program that has ended: its number
    /// may be another group's; or if a child that has not made its group yet misses a signal, as
    /// Ctrl-Z at its exec. (One test: the group is a variable of the process.)
    #[test]
    fn signals_are_forwarded_while_the_program_runs() {
        let sleep = || Command::new("sleep").arg("600").process_group(0).spawn().expect("it runs");
        let pid = |it: &std::process::Child| Pid::from_raw(it.id().cast_signed());
        let (first, mut second) = (sleep(), sleep());
        let running = Running { pid: pid(&first), is_apart: true };
        session::tests::set_group(pid(&first).as_raw());
        session::tests::send(libc::SIGTERM);
        assert_eq!(running.reap().expect("it is a child"), ProgramEnd::Killed(libc::SIGTERM));
        assert_eq!(session::tests::group(), 0);
        session::tests::send(libc::SIGTERM);
        // The signal would have arrived before the next call.
        assert!(second.try_wait().expect("it is a child").is_none());
        second.kill().expect("it is a child");
        second.wait().expect("it ends");

        #[expect(clippy::zombie_processes, reason = "`Running::reap` waits for it")]
        let third = Command::new("sleep").arg("600").spawn().expect("it runs");
        session::tests::set_group(pid(&third).as_raw());
        session::tests::send(libc::SIGTERM);
        let running = Running { pid: pid(&third), is_apart: true };
        assert_eq!(running.reap().expect("it is a child"), ProgramEnd::Killed(libc::SIGTERM));
    }
}
