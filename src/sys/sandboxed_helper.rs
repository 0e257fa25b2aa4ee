//! Sandboxed helper: a process of ours that parses untrusted files, so that a crash does not end
//! the tracer.
//!
//! It is this program once more, in a process group of its own (a terminal's signals do not reach
//! it). It has a socket as standard input and no other descriptor of ours. It gets one question,
//! writes its answer and ends; the answer is no more trustworthy than its input. A helper that does
//! not end within a stated time is killed, and the tracer waits only a moment longer.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

use super::cancellation::Cancellation;
use super::{capabilities, clock, seccomp, spawn};

/// Number of the unprivileged user and group, wherever users have the usual numbers.
const UNPRIVILEGED: u32 = 65534;

/// Time that the kernel may take to end a killed process, ns. A process that waits for a file
/// server may never end.
const END_NS: u64 = 1_000_000_000;

/// Bytes of an answer that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Limits on the resources of a helper.
#[derive(Clone, Copy, Debug)]
pub struct ResourceLimits {
    /// Time from the question to the helper's end.
    pub time: Duration,
    /// Processor time, in whole seconds.
    pub cpu: Duration,
    /// Allocated memory, in bytes (`RLIMIT_DATA`).
    pub memory_bytes: u64,
    /// Address space, mapped files included, in bytes (`RLIMIT_AS`).
    pub address_bytes: u64,
    /// Length of the answer, in bytes.
    pub answer_bytes: usize,
}

/// Output of a helper until its end.
#[derive(Debug)]
pub struct HelperReply {
    /// Answer: untrusted, and incomplete after a failure.
    pub answer: Vec<u8>,
    /// Failure, if there was one.
    pub failure: Option<HelperFailure>,
}

/// Reason for which a helper has not done its work.
#[derive(Debug)]
pub enum HelperFailure {
    /// The process could not be started.
    NotStarted(io::Error),
    /// The socket could not be written or read.
    NotHeard(io::Error),
    /// The helper exceeded its time.
    TooSlow(Duration),
    /// The helper exceeded its processor time.
    TooMuchCpu(Duration),
    /// The answer was longer than this, in bytes.
    AnswerTooLong(usize),
    /// The helper was killed by this signal.
    Killed(i32),
    /// The helper ended with this status.
    Exited(i32),
    /// The wait was cancelled by a signal to this process.
    NotWaitedFor,
}

impl fmt::Display for HelperFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "the process for it cannot be started: {error}"),
            Self::NotHeard(error) => write!(f, "cannot talk to the process for it: {error}"),
            Self::TooSlow(time) => write!(f, "it took more than {} s", time.as_secs()),
            Self::TooMuchCpu(time) => {
                write!(f, "it took more than {} s of processor time", time.as_secs())
            }
            Self::AnswerTooLong(bytes) => write!(f, "the answer has more than {bytes} bytes"),
            Self::Killed(libc::SIGBUS) => f.write_str("it was cut off meanwhile (SIGBUS)"),
            Self::Killed(libc::SIGABRT) => {
                f.write_str("it took too much memory, or is damaged (SIGABRT)")
            }
            Self::Killed(signal) => match Signal::try_from(*signal) {
                Ok(name) => write!(f, "the process for it was killed by {name}"),
                Err(_) => write!(f, "the process for it was killed by signal {signal}"),
            },
            Self::NotWaitedFor => f.write_str("cancelled by a signal"),
            Self::Exited(status) => write!(f, "the process for it ended with status {status}"),
        }
    }
}

impl HelperFailure {
    /// True for failures that all the helper's work together has caused, not only the last part of
    /// it.
    pub fn is_of_all(&self) -> bool {
        matches!(self, Self::TooSlow(_) | Self::TooMuchCpu(_) | Self::AnswerTooLong(_))
    }
}

/// Starts a helper with these arguments, sends the question, and ends the process. `cancellation`
/// cancels the wait.
pub fn run_helper(
    arguments: &[&str],
    question: &[u8],
    bounds: &ResourceLimits,
    cancellation: &mut Cancellation<'_>,
) -> HelperReply {
    let until = clock::now().0.saturating_add(nanoseconds(bounds.time));
    let mut answer = Vec::new();
    let (mut child, socket) = match start(arguments) {
        Ok(started) => started,
        Err(error) => {
            return HelperReply { answer, failure: Some(HelperFailure::NotStarted(error)) };
        }
    };
    // A helper that has closed its side is about to end.
    let heard = talk(&socket, question, &mut answer, until, bounds, cancellation);
    let failure = heard.and_then(|()| ended(&mut child, until, bounds)).err();
    if failure.is_some() {
        // The helper may have ended at this moment. If the signal does not end it, init reaps it
        // after us.
        let _ = child.kill();
        let _ = ended(&mut child, clock::now().0.saturating_add(END_NS), bounds);
    }
    HelperReply { answer, failure }
}

fn start(arguments: &[&str]) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("iotrace-perf").args(arguments).stdin(OwnedFd::from(theirs));
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    Ok((command.spawn()?, ours))
}

/// Sends the question and reads the answer, until the other side is closed.
fn talk(
    mut socket: &UnixStream,
    mut question: &[u8],
    answer: &mut Vec<u8>,
    until: u64,
    bounds: &ResourceLimits,
    cancellation: &mut Cancellation<'_>,
) -> Result<(), HelperFailure> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut is_sent = false;
    loop {
        let wanted = if is_sent { PollFlags::empty() } else { PollFlags::POLLOUT };
        let Some(milliseconds) = left(until) else {
            return Err(HelperFailure::TooSlow(bounds.time));
        };
        let mut fds = vec![PollFd::new(socket.as_fd(), PollFlags::POLLIN | wanted)];
        fds.extend(cancellation.fd().map(|it| PollFd::new(it, PollFlags::POLLIN)));
        // An interrupted wait counts as a wait.
        let _ = poll(&mut fds, PollTimeout::from(milliseconds));
        let has_signal = fds.iter().skip(1).any(|it| it.any().unwrap_or(false));
        drop(fds);
        if has_signal && cancellation.is_cancelled() {
            return Err(HelperFailure::NotWaitedFor);
        }
        if !is_sent {
            let sent = if question.is_empty() { Ok(0) } else { socket.write(question) };
            question = match sent {
                Ok(bytes) => question.get(bytes..).unwrap_or_default(),
                Err(error) if is_later(&error) => question,
                // The helper has ended: its answer until then is read.
                Err(_) => &[],
            };
            is_sent = question.is_empty();
            if is_sent {
                // An error means the same: the helper has ended.
                let _ = socket.shutdown(std::net::Shutdown::Write);
            }
        }
        match socket.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(bytes) => answer.extend_from_slice(piece.get(..bytes).unwrap_or_default()),
            Err(error) if is_later(&error) => {}
            // The helper has ended without having read everything.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(HelperFailure::NotHeard(error)),
        }
        if answer.len() > bounds.answer_bytes {
            return Err(HelperFailure::AnswerTooLong(bounds.answer_bytes));
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Waits until this time for the helper's end, and takes its status.
fn ended(child: &mut Child, until: u64, bounds: &ResourceLimits) -> Result<(), HelperFailure> {
    let mut wait = || -> io::Result<Option<ExitStatus>> {
        let end = spawn::process_fd(i32::try_from(child.id()).map_err(io::Error::other)?)?;
        loop {
            let status = child.try_wait()?;
            let Some(milliseconds) = left(until).filter(|_| status.is_none()) else {
                return Ok(status);
            };
            spawn::wait_readable(end.as_fd(), milliseconds);
        }
    };
    match wait() {
        Ok(None) => Err(HelperFailure::TooSlow(bounds.time)),
        Ok(Some(status)) => match (status.signal(), status.code()) {
            (Some(libc::SIGXCPU), _) => Err(HelperFailure::TooMuchCpu(bounds.cpu)),
            (Some(signal), _) => Err(HelperFailure::Killed(signal)),
            (None, Some(0)) => Ok(()),
            (None, status) => Err(HelperFailure::Exited(status.unwrap_or(-1))),
        },
        // If our caller ignores its children's ends (SIGCHLD), the kernel reports no status.
        Err(_) => Ok(()),
    }
}

/// Milliseconds until this time: at least one, at most what one wait can take; `None`: the time is
/// over.
fn left(until: u64) -> Option<u16> {
    let ns = until.checked_sub(clock::now().0).filter(|it| *it > 0)?;
    Some(u16::try_from(ns / 1_000_000).unwrap_or(u16::MAX).max(1))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

// --- In the helper ---

/// Reads the question, and returns it with the socket for the answer.
///
/// # Errors
///
/// Those of `read(2)`; standard input is not a socket.
pub fn received_question() -> io::Result<(Vec<u8>, UnixStream)> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut question = Vec::new();
    socket.read_to_end(&mut question)?;
    Ok((question, socket))
}

/// Closes inherited descriptors, except for the standard three. No descriptor of ours may be open.
pub fn close_others() {
    close_those(|_| false);
}

/// Closes inherited descriptors, except for the standard three and those whose files are kept
/// (`is_kept` gets the text of a link in `/proc/self/fd`). No other descriptor of ours may be open.
pub fn close_all_but(is_kept: impl Fn(&Path) -> bool) {
    close_those(|link| std::fs::read_link(link).is_ok_and(|target| is_kept(&target)));
}

fn close_those(is_kept: impl Fn(&Path) -> bool) {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed
        .filter(|entry| !is_kept(&entry.path()))
        .filter_map(|it| it.file_name().to_str()?.parse().ok())
        .filter(|it| *it > 2)
        .collect();
    for fd in numbers {
        // SAFETY: no descriptor of ours is open except for the standard three and the kept ones
        // (the callers' contract); the list was closed.
        unsafe { libc::close(fd) };
    }
}

/// Sets these limits; if memory is short, the kernel kills this process first.
///
/// # Errors
///
/// Those of `setrlimit(2)` and `prctl(2)`.
pub fn limit(bounds: &ResourceLimits) -> io::Result<()> {
    // The helper ends with its caller; a change of the user resets this.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let seconds = bounds.cpu.as_secs();
    // The soft limit sends a signal of its own (SIGXCPU), the hard one kills.
    setrlimit(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
    setrlimit(Resource::RLIMIT_DATA, bounds.memory_bytes, bounds.memory_bytes)?;
    setrlimit(Resource::RLIMIT_AS, bounds.address_bytes, bounds.address_bytes)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // Best effort.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

/// Drops all rights. Afterwards open files and world-readable ones can be read. No file can be
/// written, no process started, and only the system calls for reading are allowed. The helper ends
/// with its caller.
///
/// # Errors
///
/// Those of `setresuid(2)`, `setrlimit(2)`, `prctl(2)` and `seccomp(2)`: untrusted files must not
/// be read then.
pub fn give_up_rights() -> io::Result<()> {
    prctl::set_no_new_privs()?;
    if geteuid().is_root() {
        setgroups(&[])?;
        let (user, group) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
    }
    // Users other than root may have capabilities, too.
    capabilities::keep_none()?;
    setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?;
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    // No core, and no other process of that user can read our memory.
    prctl::set_dumpable(false)?;
    // After the change of the user, which resets it (`commit_creds()`).
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    seccomp::keep_reading_calls()
}

/// Maps a file. If another process truncates it, this process is killed (SIGBUS): only a helper may
/// call this.
///
/// # Errors
///
/// Those of `mmap(2)`.
pub fn map(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: the mapping is private and only read. A process that can write to the file may change
    // the mapped bytes: the code that reads them takes any bytes, and its results are not trusted
    // (this module's contract).
    unsafe { memmap2::Mmap::map(file) }
}

/// Copies a file into memory, so that any user may open the copy; with the number of bytes. `None`
/// if they are more than this.
///
/// # Errors
///
/// Those of `memfd_create(2)`, `read(2)` and `write(2)`.
pub fn copy_in_memory(file: &mut File, bytes_max: u64) -> io::Result<Option<(File, u64)>> {
    let mut copy = File::from(memfd_create(c"iotrace-perf", MFdFlags::MFD_CLOEXEC)?);
    file.rewind()?;
    let copied = io::copy(&mut file.take(bytes_max.saturating_add(1)), &mut copy)?;
    Ok((copied <= bytes_max).then_some((copy, copied)))
}

#[cfg(test)]
mod tests {
    use super::super::cancellation::testing::{ended_by, endless};
    use super::super::need;
    use super::*;

    /// Arguments that start this test program as a helper.
    const ARGUMENTS: [&str; 3] = ["--exact", "sys::sandboxed_helper::tests::helper", "--ignored"];

    const BOUNDS: ResourceLimits = ResourceLimits {
        time: Duration::from_secs(60),
        cpu: Duration::from_secs(30),
        memory_bytes: 256 << 20,
        address_bytes: 4 << 30,
        answer_bytes: 1 << 20,
    };

    /// Helpers that behave and misbehave, by the question.
    #[test]
    #[ignore = "run by outcome"]
    fn helper() {
        let (question, mut socket) = super::received_question().expect("a question");
        let seconds = |it| Duration::from_secs(it);
        match question.as_slice() {
            b"hang" => crate::sys::thread::pause(seconds(3600)),
            b"spin" => {
                limit(&ResourceLimits { cpu: seconds(1), ..BOUNDS }).expect("we may");
                while std::hint::black_box(true) {}
            }
            b"eat" => {
                limit(&BOUNDS).expect("we may");
                drop(std::hint::black_box(vec![1_u8; 512 << 20]));
            }
            b"babble" => while socket.write_all(&[0; 4096]).is_ok() {},
            b"bus" => {
                socket.write_all(b"half").expect("a reader");
                touch_past_the_end();
            }
            b"write" => {
                let mut file =
                    File::from(memfd_create(c"test", MFdFlags::empty()).expect("a file"));
                limit(&BOUNDS).expect("we may");
                give_up_rights().expect("we may");
                file.write_all(b"x").expect("the signal comes first");
            }
            b"panic" => panic!("on purpose"),
            b"rights" => {
                let file = File::open("/etc/shadow").expect("we are root");
                let can = rights(file);
                socket.write_all(can.as_bytes()).expect("a reader");
            }
            other => socket.write_all(other).expect("a reader"),
        }
    }

    fn touch_past_the_end() {
        let file = File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).expect("a file"));
        file.set_len(1 << 16).expect("it is ours");
        // SAFETY: truncation is what this tests; it ends this process.
        let map = unsafe { memmap2::Mmap::map(&file) }.expect("it is mapped");
        file.set_len(0).expect("it is ours");
        std::hint::black_box(map[1 << 12]);
    }

    /// Lists which actions still succeed without rights.
    fn rights(mut file: File) -> String {
        let copy = copy_in_memory(&mut file, 1 << 20).expect("memory").expect("it is short").0;
        give_up_rights().expect("we may");
        let again = |file: &File| {
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
            File::open(path).is_ok()
        };
        let can = [
            again(&copy),
            again(&file),
            File::open("/etc/shadow").is_ok(),
            File::options().write(true).open("/etc/passwd").is_ok(),
            Command::new("/bin/true").status().is_ok(),
            UnixStream::pair().is_ok(),
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(1), None) != Err(nix::Error::EPERM),
        ];
        // Not even the own user id may be queried any more.
        let status = std::fs::read_to_string("/proc/self/status").expect("all users may read it");
        let user = status.lines().find(|it| it.starts_with("Uid:")).expect("a user");
        format!("{user} {can:?}")
    }

    #[track_caller]
    fn outcome(question: &[u8], bounds: &ResourceLimits) -> (Vec<u8>, Option<String>) {
        let HelperReply { answer, failure } = run_helper(&ARGUMENTS, question, bounds, endless());
        (answer, failure.map(|it| it.to_string()))
    }

    /// Fails, or takes an hour, if a cancelled wait goes on.
    #[test]
    fn a_signal_ends_it() {
        let cancellation = ended_by(libc::SIGTERM);
        let long = ResourceLimits { time: Duration::from_secs(3600), ..BOUNDS };
        let failure = run_helper(&ARGUMENTS, b"hang", &long, cancellation).failure;
        assert!(matches!(failure, Some(HelperFailure::NotWaitedFor)), "{failure:?}");
        assert_eq!(cancellation.ended_by(), Some(libc::SIGTERM));
    }

    #[test]
    fn helper_answers_a_query() {
        let long: Vec<u8> = (0..1_000_003_u32).flat_map(u32::to_le_bytes).take(1 << 20).collect();
        for question in [&b""[..], b"what", &long] {
            assert_eq!(outcome(question, &BOUNDS), (question.to_vec(), None));
        }
    }

    /// Fails, or does not end, if a helper is waited for forever, or takes more resources than its
    /// limits.
    #[test]
    fn helper_always_ends_with_a_reported_cause() {
        let short = ResourceLimits { time: Duration::from_secs(1), ..BOUNDS };
        let cases = [
            ("hang", &short, "it took more than 1 s"),
            ("spin", &BOUNDS, "it took more than 30 s of processor time"),
            ("eat", &BOUNDS, "it took too much memory, or is damaged (SIGABRT)"),
            ("babble", &BOUNDS, "the answer has more than 1048576 bytes"),
            ("bus", &BOUNDS, "it was cut off meanwhile (SIGBUS)"),
            ("write", &BOUNDS, "the process for it was killed by SIGXFSZ"),
            ("panic", &BOUNDS, "the process for it ended with status 101"),
        ];
        for (question, bounds, expected) in cases {
            let (answer, failure) = outcome(question.as_bytes(), bounds);
            assert_eq!(failure.as_deref(), Some(expected), "{question}");
            // The answer until then is kept.
            assert_eq!(question == "bus", answer == b"half", "{question}");
        }
    }

    #[test]
    fn helper_has_no_privileges() {
        if !need::root() {
            return;
        }
        let can = [true, false, false, false, false, false, false];
        let expected =
            format!("Uid:\t{UNPRIVILEGED}\t{UNPRIVILEGED}\t{UNPRIVILEGED}\t{UNPRIVILEGED} {can:?}");
        let (answer, failure) = outcome(b"rights", &BOUNDS);
        assert_eq!((String::from_utf8_lossy(&answer).into_owned(), failure), (expected, None));
    }

    #[test]
    fn only_what_is_short_is_copied() {
        let mut file = File::from(memfd_create(c"test", MFdFlags::empty()).expect("a file"));
        file.write_all(b"seven b").expect("memory");
        let copied = |file: &mut File, max| {
            let (mut copy, bytes) = copy_in_memory(file, max).expect("memory")?;
            copy.rewind().expect("a file");
            Some((io::read_to_string(copy).expect("text"), bytes))
        };
        assert_eq!(copied(&mut file, 7), Some(("seven b".to_owned(), 7)));
        assert_eq!(copied(&mut file, 6), None);
    }
}
