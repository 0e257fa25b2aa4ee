//! Audit: the recorded totals compared with the kernel's own accounting.
//!
//! `/proc/PID/io` of a launched program is read after its end and before the wait for it. It covers
//! the process and every child for which it waited, to the byte and call. Input: these numbers, the
//! [`accounting`](super::accounting) of the recorded calls, and the terms that are not recorded
//! calls, each with its own evidence. Output: the remainder. A remainder without a reason is a
//! defect.

use std::collections::BTreeMap;

use super::accounting::IoCounts;
use super::call_totals::{CopyCounts, Totals};
use crate::capture::fact::Text;
use crate::event::syscall_table::CallId;
use crate::operation::started::Execs;
use crate::pipeline::Summary;
use crate::units::KernelTime;

/// Calls of the kernel's reads for an exec of an unknown file: two reads for a static program, five
/// for one with a loader, one more for each of at most five scripts before it.
const EXEC_CALLS: [i64; 2] = [2, 5 + 5];

/// Maximum bytes of such an exec: 256 of the start of each file, 64 of the loader's header, a path,
/// and two tables of program headers of 56 bytes each, of which a program rarely has more than 16.
const EXEC_BYTES_MAX: i64 = 6 * 256 + 64 + 256 + 2 * 16 * 56;

/// Maximum bytes that the kernel reads of a file of unknown format.
const HEAD_BYTES_MAX: i64 = 256;

/// Bytes and calls that the child read in order to be released before its exec.
const LET_GO: (i64, i64) = (1, 1);

/// Maximum difference by which the stamp of a change precedes the change (a tick of the kernel, and
/// the two clocks), ns.
const STAMP_NS: i64 = 20_000_000;

/// Range of numbers, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberRange(pub i64, pub i64);

impl NumberRange {
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

/// Comparison of one side of `/proc/PID/io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSide {
    /// Kernel's bytes minus recorded bytes.
    pub bytes: i64,
    /// Kernel's calls minus recorded calls.
    pub calls: i64,
    /// Range of bytes that may remain for named reasons.
    pub bytes_expected: NumberRange,
    /// Range of calls that may remain for named reasons.
    pub calls_expected: NumberRange,
}

impl AuditSide {
    fn is_explained(&self) -> bool {
        self.bytes_expected.has(self.bytes) && self.calls_expected.has(self.calls)
    }

    fn expect(&mut self, bytes: NumberRange, calls: NumberRange) {
        self.bytes_expected = self.bytes_expected.plus(bytes);
        self.calls_expected = self.calls_expected.plus(calls);
    }
}

/// Terms of the kernel's accounting, certain and possible, that are not recorded calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditTerms {
    /// Bytes of the kernel's reads for execs of known programs.
    pub exec_bytes: i64,
    /// Calls of the kernel's reads for execs of known programs.
    pub exec_calls: i64,
    /// Execs of programs whose files could not be read, or changed meanwhile.
    pub unknown_programs: i64,
    /// Execs that failed because the kernel does not know the format.
    pub unknown_formats: i64,
    /// Execs that failed for another reason.
    pub failed_execs: i64,
    /// Failed calls whose error may occur before or after the kernel's counting.
    pub doubtful: i64,
    /// Copies inside overlayfs, which counts them a second time (`ovl_copyfile()` in
    /// `fs/overlayfs/file.c`).
    pub overlay_copies: i64,
    /// Copies between files that may or may not be on overlayfs.
    pub doubtful_copies: i64,
    /// Processes that were ended by a signal that may write a core dump.
    pub core_signals: i64,
    /// Calls of `ioctl` that write a stream inside the kernel (`btrfs send`).
    pub btrfs_sends: i64,
}

/// Audit of a launched program's accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessAudit {
    /// Reads that the kernel counted and the capture does not have, minus the child's read before
    /// its exec.
    pub read: AuditSide,
    /// Writes that the kernel counted and the capture does not have.
    pub write: AuditSide,
    /// Number of programs that were started.
    pub execs: i64,
    /// Reasons for a remainder.
    pub reasons: AuditTerms,
    /// Followed processes that are missing in the kernel's accounting of the program, because it
    /// did not wait for them.
    pub unwaited: u64,
    /// Programs whose calls are not reported: the kernel's accounting includes them.
    pub untold: u64,
    /// Children that were not followed: the kernel's accounting includes their calls.
    pub left_out: u64,
    /// Lost or missing samples: the kernel's accounting includes their calls.
    pub lost: u64,
    /// True if `ioctl` was recorded.
    pub has_ioctls: bool,
}

impl ProcessAudit {
    /// Returns true if all remainders have reasons; `None` if the two sides do not cover the same
    /// calls.
    pub fn agrees(&self) -> Option<bool> {
        let has_reads = self.read.is_explained() || self.failed_execs().is_some();
        let is_equal = has_reads && self.has_explained_writes();
        let is_comparable = self.unwaited == 0 && self.untold == 0 && self.left_out == 0;
        (is_comparable && (is_equal || self.lost == 0)).then_some(is_equal)
    }

    /// Returns the bytes and calls that the kernel itself read for failed execs, where a remainder
    /// may come from them. The kernel finds a missing interpreter only after the first read of a
    /// script (`load_script()` in `fs/binfmt_script.c`).
    pub fn failed_execs(&self) -> Option<(i64, i64)> {
        let mut read = self.read;
        let failed = self.reasons.failed_execs;
        let calls = NumberRange(0, EXEC_CALLS[1]).times(failed);
        read.expect(NumberRange(0, EXEC_BYTES_MAX).times(failed), calls);
        let bytes = read.bytes - self.read.bytes_expected.0;
        let calls = read.calls - self.read.calls_expected.0;
        (!self.read.is_explained() && read.is_explained()).then_some((bytes, calls))
    }

    /// Returns the bytes and calls that the kernel itself wrote into a core dump, or for `btrfs
    /// send` ([`AuditTerms`] tells which).
    pub fn kernel_writes(&self) -> Option<(i64, i64)> {
        let AuditTerms { core_signals, btrfs_sends, .. } = self.reasons;
        self.more_writes().filter(|_| core_signals > 0 || btrfs_sends > 0)
    }

    /// Returns true if an unrecorded `ioctl` may have written the remainder.
    pub fn may_be_unrecorded_ioctl(&self) -> bool {
        !self.has_ioctls && self.more_writes().is_some() && self.agrees() == Some(false)
    }

    /// Returns the bytes and calls that the kernel counted above the expected range.
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

/// Returns true if the capture has every call that counts in the kernel's accounting of a process.
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

/// Compares the kernel's accounting of the launched program with the totals. Returns `None` if
/// there is no accounting, if calls that count in it were not recorded, or if other processes were
/// recorded too.
pub fn process(summary: &Summary, totals: &Totals) -> Option<ProcessAudit> {
    // The totals of a whole machine include other processes.
    if !is_whole(summary) || summary.header.scope.mode == "system" {
        return None;
    }
    let text = std::str::from_utf8(summary.text(Text::PROCESS_IO)?).ok()?;
    let field =
        |name: &str| text.lines().find_map(|it| it.strip_prefix(name)?.trim().parse::<i64>().ok());
    let reasons = reasons(summary, totals);
    let side = |ours: IoCounts, bytes: &str, calls: &str| {
        let mut side = AuditSide {
            bytes: field(bytes)? - number(ours.bytes),
            calls: field(calls)? - number(ours.calls),
            bytes_expected: NumberRange::default(),
            calls_expected: NumberRange::default(),
        };
        side.expect(NumberRange::default(), NumberRange(0, number(ours.doubtful)));
        expect_copies(&mut side, summary, &totals.copies);
        Some(side)
    };
    let mut read = side(totals.accounted.read, "rchar:", "syscr:")?;
    read.bytes -= LET_GO.0;
    read.calls -= LET_GO.1;
    let (bytes, calls) = (reasons.exec_bytes, reasons.exec_calls);
    read.expect(NumberRange(bytes, bytes), NumberRange(calls, calls));
    let unknown = reasons.unknown_programs;
    let calls = NumberRange(EXEC_CALLS[0], EXEC_CALLS[1]).times(unknown);
    read.expect(NumberRange(0, EXEC_BYTES_MAX).times(unknown), calls);
    let formats = reasons.unknown_formats;
    read.expect(NumberRange(0, HEAD_BYTES_MAX).times(formats), NumberRange(1, 1).times(formats));
    let missing = summary.missing().unwrap_or_default();
    let missing = missing.iter().map(|it| u64::try_from(it.1).unwrap_or(0)).sum::<u64>();
    Some(ProcessAudit {
        read,
        write: side(totals.accounted.write, "wchar:", "syscw:")?,
        execs: number(summary.ledger.execs),
        reasons,
        unwaited: summary.ledger.unwaited,
        untold: summary.ledger.other.count,
        left_out: summary.ledger.children_left_out,
        lost: summary.lost().saturating_add(missing),
        has_ioctls: summary.header.calls.iter().any(|it| it == "ioctl"),
    })
}

fn reasons(summary: &Summary, totals: &Totals) -> AuditTerms {
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
    AuditTerms {
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

/// Kernel's reads of a program's files.
struct ProgramFile {
    changed_ns: i64,
    bytes: i64,
    calls: i64,
}

impl ProgramFile {
    /// Returns true if the files were the same at the first of these execs.
    fn is_of(&self, execs: Execs, summary: &Summary) -> bool {
        let start = KernelTime(summary.header.clock.start_ns);
        let since = execs.first.signed_since(start);
        let wall = number(summary.header.clock.start_realtime_ns);
        self.changed_ns.saturating_add(STAMP_NS) < wall.saturating_add(since)
    }
}

/// Returns the programs' files by path.
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

/// Returns the copies whose target is on overlayfs, and those with an unknown target.
fn overlay_copies(summary: &Summary, copies: &CopyCounts) -> (IoCounts, IoCounts) {
    let mounts = summary.text(Text::MOUNTINFO).unwrap_or_default();
    let mounts = String::from_utf8_lossy(mounts);
    let is_overlay = |it: &&str| it.contains(" - overlay ");
    let overlays: Vec<&str> =
        mounts.lines().filter(is_overlay).filter_map(|it| it.split(' ').nth(2)).collect();
    let (mut inside, mut unknown) = (IoCounts::default(), IoCounts::default());
    if overlays.is_empty() {
        return (inside, unknown);
    }
    for (dev, copied) in copies {
        match dev.map(|it| it.to_string()) {
            Some(dev) if overlays.contains(&dev.as_str()) => inside += *copied,
            // Layers on several file systems have device numbers of their own.
            Some(dev) if !dev.starts_with("0:") => {}
            _ => unknown += *copied,
        }
    }
    (inside, unknown)
}

fn expect_copies(side: &mut AuditSide, summary: &Summary, copies: &CopyCounts) {
    let (inside, unknown) = overlay_copies(summary, copies);
    let (bytes, calls) = (number(inside.bytes), number(inside.calls));
    side.expect(NumberRange(bytes, bytes), NumberRange(calls, calls));
    side.expect(NumberRange(0, number(unknown.bytes)), NumberRange(0, number(unknown.calls)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_program_are_listed_line_by_line() {
        let (path, file) = program(b"17\n256 784 28\n/a\nb").expect("it is one");
        assert_eq!((path, file.changed_ns), (b"/a\nb".as_slice(), 17));
        assert_eq!((file.bytes, file.calls), (1068, 3));
        for text in [b"".as_slice(), b"17", b"17\n256", b"x\n256\n/a", b"17\n256 x\n/a"] {
            assert!(program(text).is_none());
        }
    }

    #[test]
    fn remainder_is_explained_within_its_bounds() {
        let none = NumberRange::default();
        let mut side = AuditSide { bytes: 5, calls: 2, bytes_expected: none, calls_expected: none };
        assert!(!side.is_explained());
        side.expect(NumberRange(5, 5), NumberRange(1, 1).times(2));
        assert!(side.is_explained());
        for (bytes, calls) in [(4, 2), (6, 2), (5, 1), (5, 3)] {
            assert!(!AuditSide { bytes, calls, ..side }.is_explained());
        }
    }
}
