//! Why a recording cannot be made, and what would help.

use std::io;

use thiserror::Error;

use crate::sys::tracefs::TracefsError;
use crate::tracefs::FormatError;

/// Why a recording cannot be made. Each says what failed on which object, and one thing that helps.
#[derive(Debug, Error)]
pub enum TracerError {
    /// Tracefs or a tracepoint is not there.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// A `format` file is not understood.
    #[error(
        "the format of {tracepoint} is not understood: {source}; please report it with the output of `uname -r`"
    )]
    Format {
        /// `system:name`.
        tracepoint: String,
        /// Where and why.
        source: FormatError,
    },
    /// A `format` file without an id.
    #[error("the format of {tracepoint} has no id that fits a record")]
    NoId {
        /// `system:name`.
        tracepoint: String,
    },
    /// `perf_event_open` refused.
    #[error("cannot open {what} on CPU {cpu}: {source}; {help}")]
    Open {
        /// What was to be opened.
        what: String,
        /// Where.
        cpu: u32,
        /// The kernel's answer.
        source: io::Error,
        /// The measured cause and what to do.
        help: String,
    },
    /// The ring could not be mapped.
    #[error(
        "cannot map a ring of {bytes} bytes on CPU {cpu}: {source}; use a smaller one: --buffer-size 512K"
    )]
    Ring {
        /// Where.
        cpu: u32,
        /// How large.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The wanted source cannot be had.
    #[error("--source tracefs is not possible: {0}; use --source perf")]
    Source(String),
    /// It needs privileges, of which there are none.
    #[error("{what}: not without privileges ({why}): sudo iotrace-perf …; {instead}")]
    Privileges {
        /// What was asked for.
        what: &'static str,
        /// What forbids it, measured.
        why: String,
        /// What is possible.
        instead: &'static str,
    },
    /// The wanted names cannot be had.
    #[error("the names of files cannot be had in this way: {0}; use --names auto")]
    Names(String),
    /// Tracefs gives pages that are laid out in another way than we know.
    #[error(
        "this kernel's trace pages are laid out in an unknown way (events/header_page): use --source perf"
    )]
    Pages,
    /// An instance of tracefs could not be made or set.
    #[error("cannot set up a tracefs instance: {0}; use --source perf")]
    Instance(io::Error),
    /// The filter was refused.
    #[error("the kernel refuses the filter of {tracepoint}: {source} (filter: {filter})")]
    Filter {
        /// `system:name`.
        tracepoint: String,
        /// The filter.
        filter: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's clock is not known.
    #[error(
        "this is a time namespace that was entered without a new process, so the kernel's clock is not known: start it by \
         unshare --time --fork, or outside"
    )]
    TimeNamespace,
    /// A signal came first.
    #[error("signal {0} came before the recording had begun: nothing was recorded")]
    Interrupted(i32),
    /// The process to attach to is not there.
    #[error("there is no process {0}; list processes: ps -e")]
    NoProcess(i32),
    /// The program could not be started.
    #[error("cannot run {program}: {source}")]
    Program {
        /// The program.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A signal came while the program was being started.
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
    #[error("cannot write {path}: {source}{help}")]
    Log {
        /// The log.
        path: String,
        /// The kernel's answer.
        source: io::Error,
        /// What to do about it.
        help: &'static str,
    },
    /// The thread that writes the log failed; what it has written stays.
    #[error("the thread that writes the log failed: the log ends early; please report this")]
    LogThread,
    /// Anything else that the system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl TracerError {
    /// `perf_event_open` refused: with the cause as far as it can be measured.
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

    /// Something else that the system refused.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Why perf events are not for us, measured.
fn permission_help(why: &io::Error) -> String {
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let root = nix::unistd::geteuid().is_root();
    match (root, paranoid.trim()) {
        // What the kernel's own rules do not allow is EACCES.
        (false, _) if why.raw_os_error() == Some(libc::EPERM) => {
            "a container or security module forbids it: run it on the host, or give the container a seccomp profile that \
             allows perf_event_open"
                .to_owned()
        }
        // Debian and Ubuntu have a third level, at which nothing is for users.
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
