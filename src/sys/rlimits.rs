//! Resource limits and resource usage of this process.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;

/// Raises the soft limit of open files to the hard one and returns it. The traced program is
/// started before and keeps its own limit.
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// Stack that the tracer needs, in bytes.
const STACK_BYTES_MIN: u64 = 1 << 20;
/// Stack limit that it sets if it has less, in bytes.
const STACK_BYTES: u64 = 8 << 20;

/// Open files without which no recording is possible; each CPU needs some more.
const OPEN_FILES_MIN: u64 = 64;

/// Limits that were changed, with their original values: soft and hard. The recorded program gets
/// them back.
static CHANGED: [OnceLock<(u64, u64)>; 2] = [OnceLock::new(), OnceLock::new()];
const CHANGEABLE: [(Resource, u64, u64); 2] = [
    (Resource::RLIMIT_STACK, STACK_BYTES_MIN, STACK_BYTES),
    (Resource::RLIMIT_NOFILE, OPEN_FILES_MIN, 1024),
];

/// Raises limits that are too low for this process, and ignores SIGXFSZ, so that a file at its size
/// limit does not end it. To be called before all else.
///
/// # Errors
///
/// A limit is too low and cannot be raised: its name, and how the caller can raise it.
pub fn raise_low_limits() -> Result<(), String> {
    // SAFETY: plain numbers; the signal is ignored, so no handler runs.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    for ((resource, least, wanted), changed) in CHANGEABLE.into_iter().zip(&CHANGED) {
        let Ok((soft, hard)) = getrlimit(resource) else { continue };
        if soft >= least {
            continue;
        }
        // Only root may raise the hard limit.
        let tried = setrlimit(resource, wanted.min(hard), hard).is_ok() && hard >= least
            || setrlimit(resource, wanted, wanted.max(hard)).is_ok();
        if !tried {
            let _ = setrlimit(resource, soft, hard);
            return Err(match resource {
                Resource::RLIMIT_STACK => format!(
                    "the stack may have {hard} bytes at most, and {least} are needed; raise the limit: ulimit -s 8192"
                ),
                _ => format!(
                    "{hard} files may be open at most, and {least} are needed; raise the limit: ulimit -n 1024"
                ),
            });
        }
        let _ = changed.set((soft, hard));
    }
    Ok(())
}

/// Restores the caller's limits and disposition of SIGXFSZ, in the child that becomes the recorded
/// program.
pub(super) fn restore() {
    // ORDERING: it is written once, before any thread exists.
    if !SIGXFSZ_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: this process has one thread and no handler for the signal.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
    for ((resource, ..), changed) in CHANGEABLE.into_iter().zip(&CHANGED) {
        if let Some(&(soft, hard)) = changed.get() {
            // The limits were higher a moment ago; lowering them is always allowed.
            let _ = setrlimit(resource, soft, hard);
        }
    }
}

/// True if SIGXFSZ was ignored when this process was started: recorded before `main`.
pub(super) static SIGXFSZ_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Advice if a file cannot be written because of a limit.
pub fn of_write(error: &io::Error) -> Option<String> {
    let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(0, |it| it.0);
    (error.raw_os_error() == Some(libc::EFBIG)).then(|| {
        format!("files may have {limit} bytes at most; raise the limit: ulimit -f unlimited")
    })
}

/// CPU time of all threads of this process, ns.
pub fn own_cpu_ns() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0 };
    let time = usage.user_time() + usage.system_time();
    u64::try_from(time.num_microseconds()).unwrap_or(0) * 1000
}
