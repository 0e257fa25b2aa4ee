//! Cache of tracepoint formats: stores what tracefs reports of this kernel's tracepoints, for users
//! without the right to read tracefs.

use std::path::PathBuf;

use super::error::TracerError;
use crate::event::block_shape::BLOCK_POINTS;
use crate::event::fault::FAULT_POINTS;
use crate::event::file_io::FILE_IO_POINTS;
use crate::event::fs::FS_POINTS;
use crate::event::layer::LAYER_POINTS;
use crate::event::syscall_table::CallId;
use crate::event::uring::URING_POINTS;
use crate::sys::format_cache::{self, Formats};
use crate::sys::tracefs::Tracefs;

/// Tracepoints that are not in a table.
const OTHERS: &[(&str, &str)] = &[
    ("task", "task_newtask"),
    ("sched", "sched_process_exec"),
    ("signal", "signal_deliver"),
    ("syscalls", "sys_exit_wait4"),
    ("syscalls", "sys_exit_waitid"),
    ("raw_syscalls", "sys_enter"),
    ("raw_syscalls", "sys_exit"),
];

/// Groups that may come as modules. A module gets its ids when it is loaded, so they do not belong
/// to the build.
const MODULES: &[&str] = &["ext4", "jbd2", "xfs", "btrfs", "iomap", "fuse", "nfs"];

/// Stores the formats of all tracepoints that a recording may open and that are part of this kernel
/// itself. Returns the file and the number of formats.
///
/// # Errors
///
/// If tracefs cannot be read, or the file cannot be written.
pub fn keep() -> Result<(PathBuf, usize), TracerError> {
    let tracefs = Tracefs::find()?;
    // Without the first format there is nothing to store.
    tracefs.format("raw_syscalls", "sys_enter")?;
    let with_format = |(system, name): (&str, String)| {
        let format = tracefs.format(system, &name).ok()?;
        Some((format!("{system}:{name}"), format))
    };
    let built_in = all().filter(|it| !MODULES.contains(&it.0));
    let formats: Formats = built_in.filter_map(with_format).collect();
    let count = formats.len();
    let kept = format_cache::keep(formats);
    kept.map(|it| (it, count)).map_err(TracerError::system("store the formats of tracepoints"))
}

fn all() -> impl Iterator<Item = (&'static str, String)> {
    let calls = CallId::all().map(|it| it.call().name);
    let calls = calls.flat_map(|it| ["enter", "exit"].map(|side| format!("sys_{side}_{it}")));
    let plain = |it: &(&'static str, &'static str)| (it.0, it.1.to_owned());
    calls
        .map(|it| ("syscalls", it))
        .chain(BLOCK_POINTS.iter().map(|it| ("block", it.0.to_owned())))
        .chain(FS_POINTS.iter().map(|it| (it.0, it.1.to_owned())))
        .chain(URING_POINTS.iter().map(|it| ("io_uring", it.0.to_owned())))
        .chain(FILE_IO_POINTS.iter().map(|it| (it.0, it.1.to_owned())))
        .chain(LAYER_POINTS.iter().map(|it| (it.system, it.name.to_owned())))
        .chain(FAULT_POINTS.iter().map(plain))
        .chain(OTHERS.iter().map(plain))
}
