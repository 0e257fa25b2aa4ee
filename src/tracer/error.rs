//! Errors that prevent a recording, each with a remedy.

use std::io;

use thiserror::Error;

use crate::sys::error_text::plain;
use crate::sys::tracefs::TracefsError;
use crate::tracefs::FormatError;

/// Error that prevents a recording. Each message reports what failed, on which object, and one
/// remedy.
#[derive(Debug, Error)]
pub enum TracerError {
    /// Tracefs or a tracepoint does not exist.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// A `format` file cannot be parsed.
    #[error(
        "the format of {tracepoint} is not understood: {source}; please report it with the output of `uname -r`"
    )]
    Format {
        /// Tracepoint, as `system:name`.
        tracepoint: String,
        /// Position and cause in the file.
        source: FormatError,
    },
    /// A `format` file has no id.
    #[error("the format of {tracepoint} has no id that fits a record")]
    NoId {
        /// Tracepoint, as `system:name`.
        tracepoint: String,
    },
    /// The kernel refused `perf_event_open`.
    #[error("cannot open {what} on CPU {cpu}: {}; {help}", plain(source))]
    Open {
        /// Event that was to be opened.
        what: String,
        /// CPU of the event.
        cpu: u32,
        /// Error of the kernel.
        source: io::Error,
        /// The measured cause and a remedy.
        help: String,
    },
    /// A ring could not be mapped.
    #[error(
        "cannot map a ring of {bytes} bytes on CPU {cpu}: {}; use a smaller one: --buffer-size 512K",
        plain(source)
    )]
    Ring {
        /// CPU of the ring.
        cpu: u32,
        /// Bytes of the ring.
        bytes: usize,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The requested source is not available.
    #[error("--source tracefs is not possible: {0}; use --source perf")]
    Source(String),
    /// A requested feature needs privileges that this process does not have.
    #[error("{what}: not without privileges ({why}): sudo iotrace-perf …; {instead}")]
    Privileges {
        /// Requested feature.
        what: &'static str,
        /// Cause of the refusal, measured.
        why: String,
        /// Alternative without privileges.
        instead: &'static str,
    },
    /// The requested source of file names is not available.
    #[error("this source of file names is not available: {0}; use --names auto")]
    Names(String),
    /// Tracefs returns pages of an unknown layout.
    #[error(
        "this kernel's trace pages are laid out in an unknown way (events/header_page): use --source perf"
    )]
    Pages,
    /// An instance of tracefs could not be created or configured.
    #[error("cannot set up a tracefs instance: {}; use --source perf", plain(.0))]
    Instance(io::Error),
    /// The kernel refused a filter.
    #[error("the kernel refuses the filter of {tracepoint}: {} (filter: {filter})", plain(source))]
    Filter {
        /// Tracepoint, as `system:name`.
        tracepoint: String,
        /// The filter.
        filter: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel's clock is unknown.
    #[error(
        "this is a time namespace that was entered without a new process, so the kernel's clock is not known: start it by \
         unshare --time --fork, or outside"
    )]
    TimeNamespace,
    /// A signal arrived before the recording had begun.
    #[error("signal {0} came before the recording had begun: nothing was recorded")]
    Interrupted(i32),
    /// The process to attach to does not exist.
    #[error("there is no process {0}; list processes: ps -e")]
    NoProcess(i32),
    /// The program could not be started.
    #[error("cannot run {program}: {}", plain(source))]
    Program {
        /// The program.
        program: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A signal arrived while the program was being started.
    #[error(
        "signal {signal} came before {program} had begun: its exec had not ended (does its file system answer?); nothing was recorded"
    )]
    NotStarted {
        /// The program.
        program: String,
        /// The signal.
        signal: i32,
    },
    /// The log could not be written.
    #[error("cannot write {path}: {}{help}", plain(source))]
    Log {
        /// The log.
        path: String,
        /// Error of the kernel.
        source: io::Error,
        /// Remedy, appended to the message.
        help: &'static str,
    },
    /// The thread that writes the log failed; frames that it has written are kept.
    #[error("the thread that writes the log failed: the log ends early; please report this")]
    LogThread,
    /// The system refused another operation.
    #[error("cannot {what}: {}", plain(source))]
    System {
        /// Operation that was tried.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

impl TracerError {
    /// Returns the error of a refused `perf_event_open`, with its cause as far as it can be
    /// measured.
    pub fn open(what: String, cpu: u32, source: io::Error) -> Self {
        let help = match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => permission_help(&source),
            Some(libc::EMFILE) => {
                let text =
                    "too many open files for this many CPUs; raise the limit: ulimit -n 1048576";
                text.to_owned()
            }
            Some(libc::ENOSYS) => {
                "this kernel is built without perf events (CONFIG_PERF_EVENTS)".to_owned()
            }
            _ => "see iotrace-perf doctor".to_owned(),
        };
        Self::Open { what, cpu, source, help }
    }

    /// Returns a function that makes an error of another operation that the system refused.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Returns the measured cause why perf events are refused, and a remedy.
fn permission_help(why: &io::Error) -> String {
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let root = nix::unistd::geteuid().is_root();
    match (root, paranoid.trim()) {
        // The kernel's own rules refuse with EACCES.
        (false, _) if why.raw_os_error() == Some(libc::EPERM) => {
            "a container or security module forbids it: run it on the host, or give the container a seccomp profile that \
             allows perf_event_open"
                .to_owned()
        }
        // Debian and Ubuntu have a third level, which allows users no events at all.
        (false, level) if level.parse().is_ok_and(|it: i32| it > 2) => format!(
            "kernel.perf_event_paranoid is {level}: run it with sudo, or allow users to trace programs of their own: \
             sudo sysctl kernel.perf_event_paranoid=2"
        ),
        (false, level) => format!(
            "kernel.perf_event_paranoid is {level} and this is not root, so only programs of this user can be traced: for others \
             run it with sudo"
        ),
        (true, _) => "this is root, so a container or security module forbids it: run it on the host, or give the \
                      container CAP_PERFMON and a seccomp profile that allows perf_event_open"
            .to_owned(),
    }
}
