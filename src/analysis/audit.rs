//! Our totals against the kernel's own accounting.
//!
//! `/proc/PID/io` of a launched program, read when it had ended and was not yet waited for, holds the process and every
//! child that it waited for, to the byte and call. In: these numbers, what [`accounting`](super::accounting) makes of the recorded
//! calls, and the terms that are no recorded call, each by its own evidence. Out: what remains. A remainder without a
//! reason is a defect.

use std::collections::BTreeMap;

use super::accounting::Side;
use super::totals::{Copies, Totals};
use crate::capture::fact::Text;
use crate::event::syscall_table::CallId;
use crate::operation::started::Execs;
use crate::pipeline::Summary;
use crate::units::KernelTime;

/// Calls and bytes of the kernel's reads for an exec whose file is not known: two reads of a static program, five of one with a loader, one
/// more for each of at most five scripts before it.
const EXEC_CALLS: [i64; 2] = [2, 5 + 5];

/// Most bytes of such an exec: 256 of the start of each file, 64 of the loader's header, a path, and two tables of
/// program headers of 56 bytes each, of which a program rarely has more than 16.
const EXEC_BYTES_MAX: i64 = 6 * 256 + 64 + 256 + 2 * 16 * 56;

/// Most bytes that the kernel reads of a file whose format it does not know.
const HEAD_BYTES_MAX: i64 = 256;

/// What the child read to be let go.
const LET_GO: (i64, i64) = (1, 1);

/// The stamp of a change may be so much earlier than the change (a tick of the kernel, and the two clocks), ns.
const STAMP_NS: i64 = 20_000_000;

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between(pub i64, pub i64);

impl Between {
    fn has(self, number: i64) -> bool {
        (self.0..=self.1).contains(&number)
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0), self.1.saturating_add(other.1))
    }

    fn times(self, count: i64) -> Self {
        Self(self.0.saturating_mul(count), self.1.saturating_mul(count))
    }
}

/// One side of `/proc/PID/io` against ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kernel's bytes less ours.
    pub bytes: i64,
    /// The kernel's calls less ours.
    pub calls: i64,
    /// What may remain of the bytes, for reasons that are named.
    pub bytes_expected: Between,
    /// The same of the calls.
    pub calls_expected: Between,
}

impl Difference {
    fn is_explained(&self) -> bool {
        self.bytes_expected.has(self.bytes) && self.calls_expected.has(self.calls)
    }

    fn expect(&mut self, bytes: Between, calls: Between) {
        self.bytes_expected = self.bytes_expected.plus(bytes);
        self.calls_expected = self.calls_expected.plus(calls);
    }
}

/// What stands in the kernel's accounting and is no recorded call, or may stand there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Bytes and calls of the kernel's reads for execs of known programs.
    pub exec_bytes: i64,
    /// The calls.
    pub exec_calls: i64,
    /// Execs of programs whose files could not be read, or were changed meanwhile.
    pub unknown_programs: i64,
    /// Execs that failed for a format that the kernel does not know.
    pub unknown_formats: i64,
    /// Execs that failed for another reason.
    pub failed_execs: i64,
    /// Calls that failed with an error that comes before the kernel counts them, or after.
    pub doubtful: i64,
    /// Copies inside overlayfs, which counts them a second time (`ovl_copyfile()` in `fs/overlayfs/file.c`).
    pub overlay_copies: i64,
    /// Copies between files of which it is not known whether they are on overlayfs.
    pub doubtful_copies: i64,
    /// Processes that were ended by a signal that may write a core dump.
    pub core_signals: i64,
    /// Calls of `ioctl` that write a stream inside the kernel (`btrfs send`).
    pub btrfs_sends: i64,
}

/// The comparison of a launched program's accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessAudit {
    /// What the kernel counted as read and we did not see, less what the child read to be let go.
    pub read: Difference,
    /// The same of writes.
    pub write: Difference,
    /// Programs that were started.
    pub execs: i64,
    /// Why something may remain.
    pub reasons: Reasons,
    /// Followed processes that are not in the kernel's accounting of the program, because it has not waited for them.
    pub unwaited: u64,
    /// Programs whose calls are not told: these are in the kernel's accounting.
    pub untold: u64,
    /// Hits that were lost or are missing: what they stood for is in the kernel's accounting.
    pub lost: u64,
    /// True if `ioctl` was recorded.
    pub has_ioctls: bool,
}

impl ProcessAudit {
    /// True if nothing remains but what has a reason; `None` if the two are not about the same calls.
    pub fn agrees(&self) -> Option<bool> {
        let has_reads = self.read.is_explained() || self.failed_execs().is_some();
        let is_equal = has_reads && self.has_explained_writes();
        let is_comparable = self.unwaited == 0 && self.untold == 0;
        (is_comparable && (is_equal || self.lost == 0)).then_some(is_equal)
    }

    /// Bytes and calls that the kernel itself read for execs that failed, where something remains that they may have read: a missing
    /// interpreter is found behind the first read of a script (`load_script()` in `fs/binfmt_script.c`).
    pub fn failed_execs(&self) -> Option<(i64, i64)> {
        let mut read = self.read;
        let failed = self.reasons.failed_execs;
        let calls = Between(0, EXEC_CALLS[1]).times(failed);
        read.expect(Between(0, EXEC_BYTES_MAX).times(failed), calls);
        let bytes = read.bytes - self.read.bytes_expected.0;
        let calls = read.calls - self.read.calls_expected.0;
        (!self.read.is_explained() && read.is_explained()).then_some((bytes, calls))
    }

    /// Bytes and calls that the kernel itself wrote into a core dump, or for `btrfs send` ([`Reasons`] has which).
    pub fn kernel_writes(&self) -> Option<(i64, i64)> {
        let Reasons { core_signals, btrfs_sends, .. } = self.reasons;
        self.more_writes().filter(|_| core_signals > 0 || btrfs_sends > 0)
    }

    /// True if an `ioctl` that was not recorded may be what wrote the rest.
    pub fn may_be_unrecorded_ioctl(&self) -> bool {
        !self.has_ioctls && self.more_writes().is_some() && self.agrees() == Some(false)
    }

    /// Bytes and calls that the kernel counted above all that is expected.
    fn more_writes(&self) -> Option<(i64, i64)> {
        let write = &self.write;
        let bytes = write.bytes - write.bytes_expected.1;
        let calls = write.calls - write.calls_expected.1;
        (bytes > 0 && calls > 0).then_some((bytes, calls))
    }

    fn has_explained_writes(&self) -> bool {
        self.write.is_explained() || self.kernel_writes().is_some()
    }
}

/// True if every call was recorded that counts in the kernel's accounting of a process.
fn is_whole(summary: &Summary) -> bool {
    let header = &summary.header;
    CallId::all()
        .map(CallId::call)
        .filter(|it| it.number(&header.host.machine).is_some())
        .filter(|it| it.class.moves_bytes())
        .all(|it| header.calls.iter().any(|recorded| recorded == it.name))
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The kernel's accounting of the launched program against ours; `None` if there is none, if not all calls were recorded that count
/// in it, or if others were recorded, too.
pub fn process(summary: &Summary, totals: &Totals) -> Option<ProcessAudit> {
    // The totals of a whole machine are of others, too.
    if !is_whole(summary) || summary.header.scope.mode == "system" {
        return None;
    }
    let text = std::str::from_utf8(summary.text(Text::PROCESS_IO)?).ok()?;
    let field =
        |name: &str| text.lines().find_map(|it| it.strip_prefix(name)?.trim().parse::<i64>().ok());
    let reasons = reasons(summary, totals);
    let side = |ours: Side, bytes: &str, calls: &str| {
        let mut side = Difference {
            bytes: field(bytes)? - number(ours.bytes),
            calls: field(calls)? - number(ours.calls),
            bytes_expected: Between::default(),
            calls_expected: Between::default(),
        };
        side.expect(Between::default(), Between(0, number(ours.doubtful)));
        expect_copies(&mut side, summary, &totals.copies);
        Some(side)
    };
    let mut read = side(totals.accounted.read, "rchar:", "syscr:")?;
    read.bytes -= LET_GO.0;
    read.calls -= LET_GO.1;
    let (bytes, calls) = (reasons.exec_bytes, reasons.exec_calls);
    read.expect(Between(bytes, bytes), Between(calls, calls));
    let unknown = reasons.unknown_programs;
    let calls = Between(EXEC_CALLS[0], EXEC_CALLS[1]).times(unknown);
    read.expect(Between(0, EXEC_BYTES_MAX).times(unknown), calls);
    let formats = reasons.unknown_formats;
    read.expect(Between(0, HEAD_BYTES_MAX).times(formats), Between(1, 1).times(formats));
    let missing = summary.missing().unwrap_or_default();
    let missing = missing.iter().map(|it| u64::try_from(it.1).unwrap_or(0)).sum::<u64>();
    Some(ProcessAudit {
        read,
        write: side(totals.accounted.write, "wchar:", "syscw:")?,
        execs: number(summary.ledger.execs),
        reasons,
        unwaited: summary.ledger.unwaited,
        untold: summary.ledger.other.count,
        lost: summary.lost().saturating_add(missing),
        has_ioctls: summary.header.calls.iter().any(|it| it == "ioctl"),
    })
}

fn reasons(summary: &Summary, totals: &Totals) -> Reasons {
    let started = &summary.started;
    let files = programs(summary);
    let (mut bytes, mut calls, mut known) = (0_i64, 0_i64, 0_i64);
    for (path, execs) in &started.programs {
        let Some(file) = files.get(path.as_slice()).filter(|it| it.is_of(*execs, summary)) else {
            continue;
        };
        let count = number(execs.count);
        bytes += count.saturating_mul(file.bytes);
        calls += count.saturating_mul(file.calls);
        known += count;
    }
    let (overlay, unknown) = overlay_copies(summary, &totals.copies);
    let accounted = &totals.accounted;
    Reasons {
        exec_bytes: bytes,
        exec_calls: calls,
        unknown_programs: (number(summary.ledger.execs) - known).max(0),
        unknown_formats: number(started.unknown_format),
        failed_execs: number(started.failed),
        doubtful: number(accounted.read.doubtful.max(accounted.write.doubtful)),
        overlay_copies: number(overlay.calls),
        doubtful_copies: number(unknown.calls),
        core_signals: number(started.core_signals),
        btrfs_sends: number(totals.btrfs_sends),
    }
}

/// What the kernel reads of a program's files.
struct ProgramFile {
    changed_ns: i64,
    bytes: i64,
    calls: i64,
}

impl ProgramFile {
    /// True if the files were the same at the first of these execs.
    fn is_of(&self, execs: Execs, summary: &Summary) -> bool {
        let start = KernelTime(summary.header.clock.start_ns);
        let since = execs.first.signed_since(start);
        let wall = number(summary.header.clock.start_realtime_ns);
        self.changed_ns.saturating_add(STAMP_NS) < wall.saturating_add(since)
    }
}

/// By path.
fn programs(summary: &Summary) -> BTreeMap<&[u8], ProgramFile> {
    let texts = summary.texts.iter().filter(|it| it.0 == Text::PROGRAM);
    texts.filter_map(|it| program(&it.2)).collect()
}

fn program(text: &[u8]) -> Option<(&[u8], ProgramFile)> {
    let mut parts = text.splitn(3, |it| *it == b'\n');
    let changed_ns = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let reads = std::str::from_utf8(parts.next()?).ok()?;
    let reads: Vec<u32> = reads.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let bytes = reads.iter().map(|it| i64::from(*it)).sum();
    let calls = i64::try_from(reads.len()).ok()?;
    Some((parts.next()?, ProgramFile { changed_ns, bytes, calls }))
}

/// Copies whose target is on overlayfs, and those of which that is not known.
fn overlay_copies(summary: &Summary, copies: &Copies) -> (Side, Side) {
    let mounts = summary.text(Text::MOUNTINFO).unwrap_or_default();
    let mounts = String::from_utf8_lossy(mounts);
    let is_overlay = |it: &&str| it.contains(" - overlay ");
    let overlays: Vec<&str> =
        mounts.lines().filter(is_overlay).filter_map(|it| it.split(' ').nth(2)).collect();
    let (mut inside, mut unknown) = (Side::default(), Side::default());
    if overlays.is_empty() {
        return (inside, unknown);
    }
    for (dev, copied) in copies {
        match dev.map(|it| it.to_string()) {
            Some(dev) if overlays.contains(&dev.as_str()) => inside += *copied,
            // Layers on several file systems have numbers of their own.
            Some(dev) if !dev.starts_with("0:") => {}
            _ => unknown += *copied,
        }
    }
    (inside, unknown)
}

fn expect_copies(side: &mut Difference, summary: &Summary, copies: &Copies) {
    let (inside, unknown) = overlay_copies(summary, copies);
    let (bytes, calls) = (number(inside.bytes), number(inside.calls));
    side.expect(Between(bytes, bytes), Between(calls, calls));
    side.expect(Between(0, number(unknown.bytes)), Between(0, number(unknown.calls)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reads_of_a_program_are_told_line_by_line() {
        let (path, file) = program(b"17\n256 784 28\n/a\nb").expect("it is one");
        assert_eq!((path, file.changed_ns), (b"/a\nb".as_slice(), 17));
        assert_eq!((file.bytes, file.calls), (1068, 3));
        for text in [b"".as_slice(), b"17", b"17\n256", b"x\n256\n/a", b"17\n256 x\n/a"] {
            assert!(program(text).is_none());
        }
    }

    #[test]
    fn a_remainder_is_explained_within_what_is_expected() {
        let none = Between::default();
        let mut side =
            Difference { bytes: 5, calls: 2, bytes_expected: none, calls_expected: none };
        assert!(!side.is_explained());
        side.expect(Between(5, 5), Between(1, 1).times(2));
        assert!(side.is_explained());
        for (bytes, calls) in [(4, 2), (6, 2), (5, 1), (5, 3)] {
            assert!(!Difference { bytes, calls, ..side }.is_explained());
        }
    }
}
