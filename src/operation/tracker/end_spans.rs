//! Spans at the end of their call.

use crate::anomaly::Ledger;
use crate::operation::process::Thread;
use crate::operation::spans::JournalCommits;
use crate::units::KernelTime;

/// Completes the spans of the thread's call at its end.
pub(super) fn end_spans(
    thread: &mut Thread,
    commits: &mut JournalCommits,
    ledger: &mut Ledger,
    now: KernelTime,
) {
    // A request of the call that goes on without it, or an end that was lost.
    ledger.spans.without_end += thread.spans.clear() as u64;
    let Some(pending) = &mut thread.pending else { return };
    let operation = &mut pending.operation;
    let has_room = commits.put_with(operation, now);
    ledger.spans.left_out += u64::from(!has_room);
    for span in &mut operation.spans {
        span.end = span.end.min(now);
    }
}
