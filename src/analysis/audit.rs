//! Our totals against the kernel's own books.
//!
//! `/proc/PID/io` of a launched program, read when it had ended and was not yet waited for, holds the process and every
//! child that it waited for, to the byte and call (`add_rchar()` and `inc_syscr()` in `fs/read_write.c`). Two terms
//! stand in it that are no system calls of ours: what the kernel itself reads at an exec, and the one byte by which the
//! tracer let the program go.

use super::totals::Totals;
use crate::capture::fact::Text;
use crate::event::syscall_table::{CallId, Class};
use crate::pipeline::Summary;

/// Reads of the kernel itself at an exec (`load_elf_binary()` in `fs/binfmt_elf.c`): the start of the program, its
/// program headers, the loader's path, the loader's header and its program headers. A static program needs two. Each
/// `#!` line before it one more, of which the kernel follows five (`exec_binprm()` in `fs/exec.c`).
const EXEC_CALLS_MAX: i64 = 5 + 5;

/// Most bytes of such an exec: 256 of the start of each file, 64 of the loader's header, a path, and two tables of
/// program headers of 56 bytes each, of which a program rarely has more than 16.
const EXEC_BYTES_MAX: i64 = 6 * 256 + 64 + 256 + 2 * 16 * 56;

/// What the child read to be let go.
const LET_GO: (i64, i64) = (1, 1);

/// One side of `/proc/PID/io` against ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kernel's bytes less ours.
    pub bytes: i64,
    /// The kernel's calls less ours.
    pub calls: i64,
    /// So many of ours failed in a way that the kernel may not have counted.
    pub doubtful_calls: i64,
}

impl Difference {
    /// True if nothing remains but what may be.
    fn is_none(&self) -> bool {
        self.bytes == 0 && (-self.doubtful_calls..=0).contains(&self.calls)
    }
}

/// The comparison of a launched program's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessAudit {
    /// What the kernel counted as read and we did not see, less what the child read to be let go.
    pub read: Difference,
    /// The same of writes.
    pub write: Difference,
    /// Programs that were started.
    pub execs: i64,
    /// Followed processes that are not in the kernel's books of the program, because it has not waited for them.
    pub unwaited: u64,
    /// Programs whose calls are not told: these are in the kernel's books.
    pub untold: u64,
}

impl ProcessAudit {
    /// True if nothing remains but what the kernel itself read to start the programs; `None` if the two are not about
    /// the same processes.
    pub fn agrees(&self) -> Option<bool> {
        if self.unwaited > 0 || self.untold > 0 {
            return None;
        }
        let calls = 2 * self.execs - self.read.doubtful_calls..=EXEC_CALLS_MAX * self.execs;
        let bytes = 0..=EXEC_BYTES_MAX * self.execs;
        let read = calls.contains(&self.read.calls) && bytes.contains(&self.read.bytes);
        Some(read && self.write.is_none())
    }
}

/// True if every call was recorded that counts in the kernel's books of a process.
fn is_whole(summary: &Summary) -> bool {
    let header = &summary.header;
    CallId::all()
        .map(CallId::call)
        .filter(|it| it.number(&header.host.machine).is_some())
        .filter(|it| it.class.moves_bytes())
        .all(|it| header.calls.iter().any(|recorded| recorded == it.name))
}

/// The books of the launched program against ours; `None` if there are none, if not all calls were recorded that count
/// in them, or if others were recorded, too.
pub fn process(summary: &Summary, totals: &Totals) -> Option<ProcessAudit> {
    // The totals of a whole machine are of others, too.
    if !is_whole(summary) || summary.header.scope.mode == "system" {
        return None;
    }
    let text = std::str::from_utf8(summary.text(Text::PROCESS_IO)?).ok()?;
    let field =
        |name: &str| text.lines().find_map(|it| it.strip_prefix(name)?.trim().parse::<i64>().ok());
    let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    // These count as a read and as a write; splice counts as neither.
    let both = ["sendfile64", "copy_file_range"].map(|it| totals.call(it));
    let both_bytes: i64 = both.iter().map(|it| number(it.bytes)).sum();
    let both_calls: i64 = both.iter().map(|it| number(it.count - it.refused)).sum();
    let both_doubtful: i64 = both.iter().map(|it| number(it.doubtful)).sum();
    let side = |class: Class, bytes: &str, calls: &str| {
        let ours = totals.class(class);
        Some(Difference {
            bytes: field(bytes)? - number(ours.bytes) - both_bytes,
            calls: field(calls)? - number(ours.count - ours.refused) - both_calls,
            doubtful_calls: number(ours.doubtful) + both_doubtful,
        })
    };
    let read = side(Class::Read, "rchar:", "syscr:")?;
    Some(ProcessAudit {
        read: Difference { bytes: read.bytes - LET_GO.0, calls: read.calls - LET_GO.1, ..read },
        write: side(Class::Write, "wchar:", "syscw:")?,
        execs: number(summary.ledger.execs),
        unwaited: summary.ledger.unwaited,
        untold: summary.ledger.other.count,
    })
}
