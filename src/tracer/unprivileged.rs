//! Recordings without the right to trace the machine.
//!
//! Every user may trace the system calls of their own programs, with perf events that children
//! inherit. Other events are left out, and a warning lists them.

use std::borrow::Cow;
use std::io;

use super::error::TracerError;
use super::options::{Follow, Options};
use super::source_selection::{SourceOption, hindrance};
use super::tracepoint_plan::SourceKind;
use crate::event::syscall_table::CallId;
use crate::sys::capabilities;
use crate::sys::cpu_topology::online_cpus;
use crate::sys::perf::{PerfEvent, PerfTarget, Wake};
use crate::sys::tracefs::Tracefs;
use crate::tracefs::EventFormat;

/// Default system calls of such a recording: each one costs every fork twice 8 us on each CPU. The
/// list has all calls that move bytes, and all calls needed to determine file and position, except
/// mappings. It also has the calls that change names and the starting points of paths, and
/// executions, by which programs can become invisible.
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

/// Information that only a privileged tracepoint reports.
const NO_FLAGS: &str = "which processes share descriptors";

/// Time that copying one event costs a fork on each CPU, ns. (Measured with 2 and with 40 events on
/// 2 CPUs.)
const COPY_NS: u64 = 8_000;

/// Returns the options of the recording that is possible: a smaller one without privileges.
/// Omissions are listed in `warnings`.
///
/// # Errors
///
/// If no part of the recording is possible without privileges.
pub(super) fn narrowed<'a>(
    options: &'a Options,
    tracefs: &Tracefs,
    warnings: &mut Vec<String>,
) -> Result<Cow<'a, Options>, TracerError> {
    let wanted = match options.source {
        SourceOption::Only(SourceKind::Inherited) => Some("as wanted".to_owned()),
        SourceOption::Only(SourceKind::Tracefs) => None,
        SourceOption::Only(SourceKind::Perf) => lack(tracefs)?,
        SourceOption::Auto if capabilities::may_trace() && hindrance(tracefs).is_none() => None,
        SourceOption::Auto => lack(tracefs)?,
    };
    let Some(why) = wanted else { return Ok(Cow::Borrowed(options)) };
    let refused = |what, instead| {
        let why = why.clone();
        Err(TracerError::Privileges { what, why, instead })
    };
    let own = "a program of your own can be traced: iotrace-perf -- ./app";
    if matches!(options.follow, Follow::System) {
        return refused("the whole machine (-a)", own);
    }
    if options.keep_foreign || options.all_block {
        return refused("events of other processes (--keep-foreign, --all-block)", own);
    }
    if options.chains.is_some() {
        return refused("stacks", own);
    }
    if options.calls.is_empty() {
        return refused("the selection of -e", "system calls can be traced");
    }
    let mut narrowed = options.clone();
    narrowed.source = SourceOption::Only(SourceKind::Inherited);
    if options.is_default {
        narrowed.calls = CALLS.iter().filter_map(|it| CallId::by_name(it)).collect();
    }
    let left_out = [
        (options.block, "block requests"),
        (options.extents, "extents of files"),
        (options.uring, "operations of io_uring"),
        (options.layers, "layers"),
        (options.faults, "page faults"),
        (options.exact_args, "memory that arguments point to"),
    ];
    let left_out = left_out.iter().filter(|it| it.0).map(|it| it.1);
    let left_out: Vec<&str> = left_out.chain([NO_FLAGS]).collect();
    (narrowed.block, narrowed.extents, narrowed.uring) = (false, false, false);
    (narrowed.layers, narrowed.faults, narrowed.exact_args) = (false, false, false);
    let calls = narrowed.calls.len() as u64;
    let cpus = online_cpus().len() as u64;
    let fork_us = 2 * calls * cpus * COPY_NS / 1000;
    warnings.push(format!(
        "without privileges ({why}): {calls} system calls are recorded; not recorded: {}; a fork takes about {fork_us} µs longer; \
         choose fewer calls with -e, or record everything: sudo iotrace-perf …",
        left_out.join(", ")
    ));
    Ok(Cow::Owned(narrowed))
}

/// Returns the reason why perf events of other users' processes are refused, by trying; `None`:
/// they are allowed.
fn lack(tracefs: &Tracefs) -> Result<Option<String>, TracerError> {
    let format = tracefs.format("syscalls", "sys_enter_read")?;
    let id = EventFormat::parse(&format).ok().and_then(|it| u16::try_from(it.id?).ok());
    // The code that needs the id reports what is wrong with it.
    let Some(id) = id else { return Ok(None) };
    let cpu = online_cpus().first().copied().unwrap_or(0);
    match PerfEvent::tracepoint(id, cpu, Wake::Watermark(4096), PerfTarget::AllProcesses) {
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
