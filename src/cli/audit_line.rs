//! Line that compares our totals with those of `/proc/PID/io`.

use crate::analysis::audit::{self, AuditTerms, ProcessAudit};
use crate::analysis::call_totals::Totals;
use crate::pipeline::Summary;
use crate::text::quantity::{counted, counted_as, counted_with};

/// Result of the comparison.
pub(super) struct AuditVerdict {
    /// Whether the totals are equal, but for the kernel's own reads and writes; `None`: they cannot
    /// be compared.
    pub(super) is_equal: Option<bool>,
    /// The line.
    pub(super) text: String,
}

/// Compares the totals; `None`: there is no accounting to compare with.
pub(super) fn audit(summary: &Summary, totals: &Totals) -> Option<AuditVerdict> {
    if summary.read_until.is_some() {
        return None;
    }
    let audit = audit::process(summary, totals)?;
    let is_unread = audit.reasons.unknown_programs > 0;
    let text = compared(&audit) + &unread(summary).filter(|_| is_unread).unwrap_or_default();
    let is_comparable = audit.untold == 0 && audit.unwaited == 0 && audit.left_out == 0;
    Some(AuditVerdict { is_equal: audit.agrees().filter(|_| is_comparable), text })
}

/// The line; `None`: there is no accounting to compare with.
pub(super) fn audit_line(summary: &Summary, totals: &Totals) -> Option<String> {
    audit(summary, totals).map(|verdict| verdict.text)
}

/// Programs whose file could not be read, with the reasons.
fn unread(summary: &Summary) -> Option<String> {
    let unread = &summary.end.as_ref()?.unread_programs;
    let first: Vec<String> =
        unread.first.iter().map(|unread| format!("{} ({})", unread.path, unread.reason)).collect();
    let more = unread.programs.saturating_sub(first.len() as u64);
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    (!first.is_empty()).then(|| format!("; not read: {}{more}", first.join(", ")))
}

fn compared(audit: &ProcessAudit) -> String {
    let ProcessAudit { read, write, unwaited, untold, left_out, lost, .. } = audit;
    let incomparable = |why: String| format!("audit: not comparable with /proc/PID/io: {why}");
    if *untold > 0 {
        return incomparable(format!(
            "the calls of {} were not interpreted, and are in it",
            counted(*untold, "program")
        ));
    }
    if *left_out > 0 {
        return incomparable(format!(
            "the calls of {} are in it, not followed (--no-follow)",
            counted_as(*left_out, ["child", "children"])
        ));
    }
    if *unwaited > 0 {
        return incomparable(format!(
            "{} not in it: not waited for, or the kernel threw the accounting away (SIGCHLD ignored)",
            counted_with(*unwaited, "process", ["is", "are"])
        ));
    }
    match audit.agrees() {
        None => {
            incomparable(format!("{} lost or missing, which are in it", counted(*lost, "event")))
        }
        Some(true) => {
            format!(
                "audit: equal to /proc/PID/io to the byte and call, {}",
                terms(audit).join("; ")
            )
        }
        Some(false) => format!(
            "audit: unexplained against /proc/PID/io: read {:+} bytes {:+} calls, write {:+} bytes {:+} calls ({}){}",
            read.bytes - read.bytes_expected.0,
            read.calls - read.calls_expected.0,
            write.bytes - write.bytes_expected.0,
            write.calls - write.calls_expected.0,
            terms(audit).join("; "),
            if audit.may_be_unrecorded_ioctl() { UNRECORDED_IOCTL } else { "" }
        ),
    }
}

/// Note on bytes that may have been written without a recorded call.
const UNRECORDED_IOCTL: &str =
    "; ioctl was not recorded: btrfs send writes inside it (see it with -e %default,ioctl)";

/// Returns a number with its noun, which is in the singular.
fn number_of(number: i64, noun: &str) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", counted(number.unsigned_abs(), noun))
}

/// Parts of the kernel's numbers that are not of recorded calls, with their reasons.
fn terms(audit: &ProcessAudit) -> Vec<String> {
    let AuditTerms { exec_bytes, exec_calls, unknown_programs, unknown_formats, .. } =
        audit.reasons;
    let AuditTerms { doubtful, overlay_copies, doubtful_copies, .. } = audit.reasons;
    let AuditTerms { core_signals, btrfs_sends, .. } = audit.reasons;
    let known = audit.execs - unknown_programs;
    let (bytes, calls) = (exec_bytes, exec_calls);
    let mut terms = Vec::new();
    if known > 0 || unknown_programs == 0 {
        terms.push(format!(
            "but for {} in {} by the kernel itself to start {}",
            number_of(bytes, "byte"),
            number_of(calls, "read"),
            number_of(known, "program")
        ));
    }
    let counted = [
        (
            unknown_programs,
            "program",
            "that could not be looked at, or changed: two to ten reads each",
        ),
        (unknown_formats, "exec", "that failed for an unknown format: one read each"),
        (doubtful, "call", "that failed with an error before or after the kernel's count"),
        (overlay_copies, "copy", "inside overlayfs, which counts twice"),
        (doubtful_copies, "copy", "perhaps inside overlayfs, which counts twice"),
    ];
    let counted = counted.iter().filter(|row| row.0 > 0);
    terms.extend(counted.map(|(number, noun, why)| format!("{} {why}", number_of(*number, noun))));
    terms.extend(audit.failed_execs().map(|(bytes, calls)| {
        let failed = number_of(audit.reasons.failed_execs, "exec");
        let (bytes, reads) = (number_of(bytes, "byte"), number_of(calls, "read"));
        format!("{bytes} in {reads} by the kernel itself for {failed} that failed")
    }));
    let writers = [
        (core_signals, "into a core dump"),
        (btrfs_sends, "inside ioctl for btrfs send (BTRFS_IOC_SEND)"),
    ];
    let writers: Vec<&str> =
        writers.iter().filter(|writer| writer.0 > 0).map(|writer| writer.1).collect();
    terms.extend(audit.kernel_writes().map(|(bytes, calls)| {
        let writers = writers.join(" or ");
        let (bytes, writes) = (number_of(bytes, "byte"), number_of(calls, "write"));
        format!("{bytes} in {writes} by the kernel itself {writers}")
    }));
    terms
}
