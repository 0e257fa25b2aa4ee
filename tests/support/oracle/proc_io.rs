//! Byte and call counts of processes: those of the kernel in `/proc/PID/io`, and those of recorded
//! operations.

use std::collections::BTreeMap;
use std::fs;

use iotrace_perf::event::syscall_table::{CALLS, CallClass};

use crate::support::driver::json::{JsonAsync, JsonOperation};

/// Bytes and calls as the kernel counts them (`rchar`, `syscr`, `wchar`, `syscw`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcIo {
    pub read_bytes: i64,
    pub read_calls: i64,
    pub write_bytes: i64,
    pub write_calls: i64,
}

impl ProcIo {
    fn plus(self, other: Self, sign: i64) -> Self {
        Self {
            read_bytes: self.read_bytes + sign * other.read_bytes,
            read_calls: self.read_calls + sign * other.read_calls,
            write_bytes: self.write_bytes + sign * other.write_bytes,
            write_calls: self.write_calls + sign * other.write_calls,
        }
    }

    /// Returns the difference to an earlier count.
    pub(crate) fn since(self, before: Self) -> Self {
        self.plus(before, -1)
    }

    /// Counters of a process and its children. A process's own hold those of the children that it
    /// has waited for.
    #[track_caller]
    pub(crate) fn of_tree(pid: u32) -> Self {
        let whole = children(pid).into_iter().filter_map(Self::of_process);
        let own = Self::of_process(pid).expect("the process is there");
        whole.fold(own, |sum, it| sum.plus(it, 1))
    }

    /// `None`: it is gone.
    fn of_process(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let field =
            |name: &str| text.lines().find_map(|it| it.strip_prefix(name)?.trim().parse().ok());
        Some(Self {
            read_bytes: field("rchar:")?,
            read_calls: field("syscr:")?,
            write_bytes: field("wchar:")?,
            write_calls: field("syscw:")?,
        })
    }

    /// Returns the kernel's count of these operations (`vfs_read()` and its like in
    /// `fs/read_write.c`): what fails before the file is looked at is not counted, and a transfer
    /// on both sides.
    pub(crate) fn of_operations(operations: &[JsonOperation]) -> Self {
        let mut books = Self::default();
        for operation in operations {
            let (Some(class), Some(result)) = (class(operation), operation.result) else {
                continue;
            };
            let errno = operation.errno.as_deref();
            let nothing_copied = operation.name == "copy_file_range" && result == 0;
            // Vectored calls count whatever comes of them (`do_readv()`).
            let is_vectored = operation.name.contains("readv") || operation.name.contains("writev");
            if matches!(errno, Some("EBADF" | "ESPIPE")) && !is_vectored || nothing_copied {
                continue;
            }
            let both = matches!(operation.name.as_str(), "sendfile64" | "copy_file_range");
            if class == CallClass::Read || both {
                books.read_bytes += result.max(0);
                books.read_calls += 1;
            }
            if class == CallClass::Write || both {
                books.write_bytes += result.max(0);
                books.write_calls += 1;
            }
        }
        books
    }
}

/// Bytes that were read from and written to each file. What has no certain name is not in it.
pub(crate) fn by_file(operations: &[JsonOperation]) -> BTreeMap<String, [u64; 2]> {
    let mut files: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for operation in operations {
        let side = match class(operation) {
            Some(CallClass::Read) => 0,
            Some(CallClass::Write) => 1,
            _ => continue,
        };
        let bytes = operation.result.and_then(|it| u64::try_from(it).ok());
        let is_certain = operation.path_source.as_deref() != Some("unverified");
        if let (Some(path), Some(bytes)) = (operation.path.clone().filter(|_| is_certain), bytes) {
            files.entry(path).or_default()[side] += bytes;
        }
    }
    files
}

/// Adds what asynchronous operations moved: the kernel does not count it in `/proc/PID/io`.
pub(crate) fn add_asynchronous(files: &mut BTreeMap<String, [u64; 2]>, operations: &[JsonAsync]) {
    for operation in operations {
        let name = operation.name.as_deref().unwrap_or_default();
        let kind = name.strip_prefix('P').unwrap_or(name);
        let side = usize::from(kind.starts_with("WRITE"));
        let moves = kind.starts_with("READ") || kind.starts_with("WRITE");
        if let (true, Some(path), Some(bytes)) = (moves, &operation.path, operation.bytes) {
            files.entry(path.clone()).or_default()[side] += bytes;
        }
    }
}

/// Class of a call in the table.
pub(crate) fn class(operation: &JsonOperation) -> Option<CallClass> {
    CALLS.iter().find(|it| it.name == operation.name).map(|it| it.class)
}

fn children(of: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name in parentheses: the state, then the parent.
        let parent = stat.rsplit_once(") ").and_then(|it| it.1.split(' ').nth(1)?.parse().ok());
        parent == Some(of)
    };
    pids.filter(is_child).collect()
}
