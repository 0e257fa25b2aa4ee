//! What a recording can be without the right to trace the machine.
//!
//! Anybody may trace the system calls of programs of their own, with perf events that children inherit. The rest is left out, and
//! said to be.

use std::borrow::Cow;
use std::io;

use super::choice::{SourceWish, hindrance};
use super::error::TracerError;
use super::options::{Follow, Options};
use super::plan::SourceKind;
use crate::event::syscall_table::CallId;
use crate::sys::capabilities;
use crate::sys::limits::online_cpus;
use crate::sys::perf::{PerfEvent, Wake, Whose};
use crate::sys::tracefs::Tracefs;
use crate::tracefs::EventFormat;

/// What is recorded if nothing is asked for: each call costs every fork twice 8 us on each CPU. All that moves bytes, and all that is
/// needed to know of which file and where, but for mappings: also what changes names and where paths begin; and executions, by which
/// programs can go out of sight.
const CALLS: &[&str] = &[
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "lseek",
    "fcntl",
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "sendfile64",
    "splice",
    "tee",
    "vmsplice",
    "copy_file_range",
    "fsync",
    "fdatasync",
    "execve",
    "execveat",
    "chdir",
    "fchdir",
    "chroot",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
];

/// What only a tracepoint tells that is not for everybody.
const NO_FLAGS: &str = "which processes share descriptors";

/// What copying an event costs a fork, ns, for each CPU. (Measured with 2 and with 40 events on 2 CPUs.)
const COPY_NS: u64 = 8_000;

/// The recording as it is possible: without privileges a smaller one. What is left out goes into `warnings`.
///
/// # Errors
///
/// If nothing of it is possible without them.
pub(super) fn narrowed<'a>(
    options: &'a Options,
    tracefs: &Tracefs,
    warnings: &mut Vec<String>,
) -> Result<Cow<'a, Options>, TracerError> {
    let wanted = match options.source {
        SourceWish::Only(SourceKind::Inherited) => Some("as wanted".to_owned()),
        SourceWish::Only(SourceKind::Tracefs) => None,
        SourceWish::Only(SourceKind::Perf) => lack(tracefs)?,
        SourceWish::Auto if capabilities::may_trace() && hindrance(tracefs).is_none() => None,
        SourceWish::Auto => lack(tracefs)?,
    };
    let Some(why) = wanted else { return Ok(Cow::Borrowed(options)) };
    let refused = |what, instead| {
        let why = why.clone();
        Err(TracerError::Privileges { what, why, instead })
    };
    let own = "possible is a program of yours: iotrace-perf -- ./app";
    if matches!(options.follow, Follow::System) {
        return refused("the whole machine (-a)", own);
    }
    if options.keep_foreign || options.all_block {
        return refused("what others do (--keep-foreign, --all-block)", own);
    }
    if options.chains.is_some() {
        return refused("stacks", own);
    }
    if options.calls.is_empty() {
        return refused("what was asked for with -e", "possible are system calls");
    }
    let mut narrowed = options.clone();
    narrowed.source = SourceWish::Only(SourceKind::Inherited);
    if options.is_default {
        narrowed.calls = CALLS.iter().filter_map(|it| CallId::by_name(it)).collect();
    }
    let left_out = [
        (options.block, "block requests"),
        (options.extents, "where files lie"),
        (options.uring, "operations of io_uring"),
        (options.layers, "layers"),
        (options.faults, "page faults"),
        (options.exact_args, "what arguments point to"),
    ];
    let left_out = left_out.iter().filter(|it| it.0).map(|it| it.1);
    let left_out: Vec<&str> = left_out.chain([NO_FLAGS]).collect();
    (narrowed.block, narrowed.extents, narrowed.uring) = (false, false, false);
    (narrowed.layers, narrowed.faults, narrowed.exact_args) = (false, false, false);
    let calls = narrowed.calls.len() as u64;
    let cpus = online_cpus().len() as u64;
    let fork_us = 2 * calls * cpus * COPY_NS / 1000;
    warnings.push(format!(
        "without privileges ({why}): {calls} system calls are recorded; not recorded: {}; a fork takes about {fork_us} us longer; \
         choose calls with -e, or see all: sudo iotrace-perf …",
        left_out.join(", ")
    ));
    Ok(Cow::Owned(narrowed))
}

/// Why perf events of everybody are not for us, tried; `None`: they are.
fn lack(tracefs: &Tracefs) -> Result<Option<String>, TracerError> {
    let format = tracefs.format("syscalls", "sys_enter_read")?;
    let id = EventFormat::parse(&format).ok().and_then(|it| u16::try_from(it.id?).ok());
    // What is wrong with it is said by whoever needs it.
    let Some(id) = id else { return Ok(None) };
    let cpu = online_cpus().first().copied().unwrap_or(0);
    match PerfEvent::tracepoint(id, cpu, Wake::Watermark(4096), Whose::Everybody) {
        Err(error) if is_forbidden(&error) => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let level = level.unwrap_or_default();
            Ok(Some(format!("kernel.perf_event_paranoid is {}", level.trim())))
        }
        _ => Ok(None),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_in_the_table() {
        for name in CALLS {
            assert!(CallId::by_name(name).is_some(), "{name}");
        }
    }
}
