//! Completeness of a log: records that are missing from it, and facts that are not known.

use crate::anomaly::AnomalyKind;
use crate::event::syscall_table::{CallId, GROUPS};
use crate::pipeline::Summary;
use crate::text::quantity;
use crate::text::shares;
use crate::text::table::{Cell, Column, Report};

/// Returns the parts that are missing from the log, the most important first; empty if it has all
/// records.
pub(super) fn missing(summary: &Summary) -> Vec<String> {
    let ledger = &summary.ledger;
    let mut missing = Vec::new();
    missing.extend(lost(summary));
    if let Some(counts) = summary.missing().filter(|counts| !counts.is_empty()) {
        // Saturating, as the log may be damaged.
        let all = counts.iter().fold(0_i64, |sum, (_, count)| sum.saturating_add(*count));
        let of: Vec<&str> = counts.iter().map(|(name, _)| name.as_str()).collect();
        missing.push(format!(
            "{} missing without a report of the kernel ({})",
            quantity::counted_with(all.unsigned_abs(), "record", ["is", "are"]),
            of.join(", ")
        ));
    }
    if summary.end.is_none() {
        missing.push("the recording did not end in order".to_owned());
    }
    if summary.torn || summary.damaged_bytes > 0 {
        missing.push(format!("{} of the log are damaged", quantity::size(summary.damaged_bytes)));
    }
    // The tracer has seen that samples are missing whose number it does not know.
    let warnings = summary.end.iter().flat_map(|end| &end.warnings);
    missing.extend(warnings.filter(|warning| warning.contains("missing")).cloned());
    if summary.reused_numbers > 0 {
        let processes = quantity::counted(summary.reused_numbers, "process or thread number");
        missing.push(format!("{processes} used again, whose calls may be missing"));
    }
    let unwritten = summary.end.as_ref().map_or(0, |end| end.unwritten);
    let beyond = ledger.anomalous.get(&AnomalyKind::BeyondBounds).copied().unwrap_or(0);
    let unused: u64 = [AnomalyKind::Late, AnomalyKind::Undecodable]
        .iter()
        .filter_map(|kind| ledger.anomalous.get(kind))
        .sum();
    let counts = [
        (unwritten, "record", "could not be written"),
        (unused, "record", "could not be used"),
        (beyond + summary.beyond_bounds, "record", "had no room in the reader"),
        (ledger.other.count, "program", "whose calls are skipped"),
        (ledger.lost_exits, "call", "without an end"),
        (ledger.orphan_exits, "call", "without a beginning"),
        (ledger.unmatched, "block event", "without a request"),
    ];
    let present = counts.iter().filter(|(count, _, _)| *count > 0);
    missing.extend(
        present.map(|(count, noun, what)| format!("{} {what}", quantity::counted(*count, noun))),
    );
    if !ledger.imbalances().is_empty() {
        missing.push("the counters do not balance".to_owned());
    }
    missing
}

/// Returns the line that no record is missing, with what is not known all the same; `None`: records
/// are missing.
pub(super) fn complete(summary: &Summary) -> Option<String> {
    if !missing(summary).is_empty() {
        return None;
    }
    let ledger = &summary.ledger;
    let open = [(ledger.open_at_end, "call"), (ledger.requests_open, "request")];
    // A log that was read to a time has all later ends, too: its note says so.
    let open = open.iter().filter(|(count, _)| *count > 0 && summary.read_until.is_none());
    let open: Vec<String> = open.map(|(count, noun)| quantity::counted(*count, noun)).collect();
    let cut_off = (ledger.cut_off > 0).then(|| quantity::counted(ledger.cut_off, "call"));
    let parts = [
        ("not known", unknown(summary)),
        ("in progress at the end", open),
        ("without an end, for their thread ended", cut_off.into_iter().collect()),
    ];
    let parts = parts.iter().filter(|(_, values)| !values.is_empty());
    let parts = parts.map(|(what, values)| format!("; {what}: {}", values.join(", ")));
    Some(format!("complete: nothing lost{}", parts.collect::<String>()))
}

/// True if block requests of other programs were counted, or their counts are missing.
pub(super) fn has_others(summary: &Summary) -> bool {
    let others = summary.others();
    summary.others_are_unknown() || others.values().any(|requests| requests.all().0 > 0)
}

/// Returns the records that the kernel lost, with their share and time.
fn lost(summary: &Summary) -> Option<String> {
    let lost = summary.lost();
    if lost == 0 {
        return None;
    }
    let all = lost.saturating_add(summary.ledger.records);
    // Records are counted up to `--until` only.
    let share = match summary.read_until {
        Some(_) => String::new(),
        None => format!(" ({})", shares::of(lost, all)),
    };
    let since_start = |ns: u64| quantity::time(ns.saturating_sub(summary.start().0));
    let range = summary.ledger.lost_between.map_or_else(String::new, |[first, last]| {
        format!(
            ", found between {} and {} after the start",
            since_start(first.0),
            since_start(last.0)
        )
    });
    Some(format!("{} lost{share}{range}", quantity::counted(lost, "record")))
}

/// Returns the line about groups of calls, and block requests, that were not recorded.
pub(super) fn not_recorded(summary: &Summary) -> Option<String> {
    let header = &summary.header;
    // Logs of other tools do not say what was recorded.
    if header.imported.is_some() {
        return None;
    }
    let recorded: Vec<CallId> =
        header.calls.iter().filter_map(|name| CallId::by_name(name)).collect();
    let is_recorded = |group: &str| recorded.iter().any(|call| call.call().class.group() == group);
    let groups = GROUPS.iter().map(|(group, _)| *group).filter(|group| !is_recorded(group));
    let mut missing: Vec<String> = groups.map(|group| format!("%{group}")).collect();
    if !header.tracepoints.iter().any(|tracepoint| tracepoint.system == "block") {
        missing.push("block".to_owned());
    }
    let first = missing.first()?.clone();
    let stat_calls = summary.end.as_ref().and_then(|end| end.stat_calls);
    if let (Some(count), Some(stat)) =
        (stat_calls, missing.iter_mut().find(|group| *group == "%stat"))
    {
        stat.push_str(&format!(" ({})", quantity::counted(count, "call")));
    }
    let all = missing.join(" ");
    Some(format!("not recorded: {all}; add some: -e %default,{first} (iotrace-perf list)"))
}

/// Smallest number of calls that ask about files at which a report begins with them.
const STAT_STORM: u64 = 1000;

/// Returns the sentence about calls that ask about files, if there were many, and more of them than
/// recorded calls.
pub(super) fn stat_storm(summary: &Summary) -> Option<String> {
    let count = summary.end.as_ref().and_then(|end| end.stat_calls)?;
    // That count is of the whole recording.
    if summary.read_until.is_some() {
        return None;
    }
    let recorded = summary.ledger.pairs;
    (count >= STAT_STORM && count > recorded).then(|| {
        format!(
            "{} that ask about files (%stat) were not recorded, beside {} that \
             were; record both: -e %default,%stat",
            quantity::counted(count, "call"),
            quantity::count(recorded),
        )
    })
}

/// Puts the sentence about calls that ask about files before the other findings of a report on
/// calls.
pub(super) fn add_stat_storm(report: &mut Report, summary: &Summary) {
    let is_on_calls = ["summary", "files"].contains(&report.kind);
    let Some(sentence) = stat_storm(summary).filter(|_| is_on_calls) else { return };
    if let Some(table) = report.tables.iter_mut().find(|table| table.key == "findings") {
        let cell = |column: &Column| match column.key {
            "finding" => Cell::Word("not-recorded".to_owned()),
            "text" => Cell::Word(sentence.clone()),
            _ => Cell::None,
        };
        table.rows.insert(0, table.columns.iter().map(cell).collect());
    }
}

/// Returns the reason why the recording has not all of a launched program, although it ended in
/// order.
pub(super) fn cut_short(summary: &Summary) -> Option<String> {
    let reason = summary.end.as_ref().map(|end| end.reason.as_str())?;
    let is_launched = !summary.header.scope.command.is_empty();
    let is_cut = match reason {
        "log size" | "operations" => true,
        "duration" | "interrupt" | "failed rank" => is_launched,
        _ => false,
    };
    is_cut.then(|| format!("the recording ended before the program ({reason})"))
}

/// Returns the operations that are in no sum of operations, because their result, file or process
/// is not known.
pub(super) fn uncounted(summary: &Summary) -> Vec<String> {
    let ledger = &summary.ledger;
    let no_process = ledger.anomalous.get(&AnomalyKind::NoProcess).copied().unwrap_or(0);
    let counts = [
        (no_process, "record", "of unknown processes"),
        (ledger.async_unread, "asynchronous operation", "not read"),
        (ledger.async_unseen, "asynchronous operation", "without a result"),
        (ledger.async_orphans, "asynchronous result", "of operations not in the log"),
    ];
    let present = counts.iter().filter(|(count, _, _)| *count > 0);
    present
        .map(|(count, noun, what)| format!("{} {what}", quantity::counted(*count, noun)))
        .collect()
}

/// Returns the calls that seccomp has refused or answered: they are in no sum of operations.
pub(super) fn refused(summary: &Summary) -> Option<String> {
    let count = summary.ledger.refused();
    (count > 0)
        .then(|| format!("{} refused or answered by seccomp", quantity::counted(count, "call")))
}

/// Returns the facts that are not known although all records are there; empty if there are none.
pub(super) fn unknown(summary: &Summary) -> Vec<String> {
    let ledger = &summary.ledger;
    let no_process = ledger.anomalous.get(&AnomalyKind::NoProcess).copied().unwrap_or(0);
    let counts = [
        (no_process, "record", "of unknown processes"),
        (ledger.refused(), "call", "refused or answered by seccomp, without arguments"),
        (ledger.unnamed, "operation", "without a name"),
        (ledger.unverified, "unverified name", ""),
        (ledger.untyped, "operation", "on descriptors of unknown type"),
        (ledger.async_unread, "asynchronous operation", "not read"),
        (ledger.async_unseen, "asynchronous operation", "without a result"),
        (ledger.async_orphans, "asynchronous result", "of operations not in the log"),
        (ledger.async_nameless, "asynchronous operation", "on files without a name"),
        (ledger.unfollowed, "rename or removal", "of unknown paths"),
    ];
    let present = counts.iter().filter(|(count, _, _)| *count > 0);
    let text = present.map(|(count, noun, what)| {
        format!("{} {what}", quantity::counted(*count, noun)).trim_end().to_owned()
    });
    text.collect()
}
