//! Last lines of a recording: outputs and their sizes, how to open them, losses, and whether the
//! counters balance.

use std::collections::BTreeSet;

use super::audit_line::audit_line;
use super::capsule_lines;
use super::completeness;
use super::converted::{Converted, LogPaths};
use super::cost_lines::{cost, duration_share};
use super::filter_notes::{notes_of_names, unknown_users};
use super::job_lines;
use super::message::{print_error, print_line};
use super::output::Output;
use super::scope_lines;
use super::values::STACK_BYTES_MAX;
use crate::analysis::filter::Picker;
use crate::anomaly::{AnomalyKind, ByLink, Ignored, Ledger};
use crate::capture::fact::StackEnd;
use crate::operation::disk;
use crate::otf2::OtfSummary;
use crate::pipeline::{OtherRequests, Summary};
use crate::text::quantity::{count, counted, counted_as, counted_with, size, time};
use crate::text::shares;
use crate::text::table::{Report, incomplete_line};
use crate::tracer::tracepoint_plan::SourceKind;
use crate::units::{DevId, SECTOR_BYTES};

/// OTF2's readers open two files for each location.
const LOCATIONS_OF_USUAL_LIMIT: u64 = 1000;

/// Largest difference that is not a change of the clock, ns: the two clocks are not read at the
/// same moment.
const WALL_MOVED_NS: u64 = 100_000_000;

/// Prints what was made of a log, and whether the log is complete, to standard error; all counts if
/// records are missing.
pub(super) fn print(log: LogPaths<'_>, output: Option<&Output>, converted: &Converted) {
    let summary = &converted.summary;
    incomplete_line(&completeness::missing(summary)).iter().for_each(|line| print_error(line));
    if let Some(output) = output.filter(|_| converted.archive.is_some()) {
        print_line(&format!("wrote {0}; open it: vampir {0}", output.archive().display()));
    }
    let bytes = std::fs::metadata(log.path).map_or(0, |metadata| metadata.len());
    let state = match completeness::complete(summary) {
        Some(complete) => [vec![complete], warnings(summary)].concat(),
        None => lines(bytes, converted),
    };
    archive_lines(converted).iter().chain(&state).for_each(|line| print_line(line));
}

/// Returns what readers of the archive have to know.
pub(super) fn archive_lines(converted: &Converted) -> Vec<String> {
    converted.archive.as_ref().map_or_else(Vec::new, limits)
}

/// Returns the limits of an archive that its readers have to know.
pub(super) fn limits(archive: &OtfSummary) -> Vec<String> {
    let mut lines = Vec::new();
    if archive.locations > LOCATIONS_OF_USUAL_LIMIT {
        lines.push(format!(
            "the archive has {} locations: its readers need as many open files: ulimit -n {}",
            archive.locations,
            2 * archive.locations + 64
        ));
    }
    if archive.files_left_out > 0 {
        lines.push(format!(
            "the archive names {}; {} of others shown as their directory or left out",
            counted_as(archive.files, ["file or directory", "files and directories"]),
            counted_as(archive.files_left_out, ["open or removal is", "opens and removals are"])
        ));
    }
    lines
}

/// Prints warnings about missing or doubtful data for readers of operations.
pub(super) fn print_doubts(summary: &Summary) {
    imported(summary).iter().for_each(|imported| print_line(imported));
    read_until(summary).iter().for_each(|part| print_line(part));
    print_line(&state(summary));
    doubts(summary).iter().for_each(|doubt| print_line(doubt));
}

/// Adds to a report what is missing from the recording, and notes on doubtful data.
pub(super) fn add_to(report: &mut Report, converted: &Converted) {
    if let Some(job) = &converted.job {
        return job_lines::add_to(report, converted, job);
    }
    report.incomplete = completeness::missing(&converted.summary);
    report.notes.extend(notes(converted));
    if converted.filter_notes.is_empty() {
        completeness::add_stat_storm(report, &converted.summary);
    }
}

/// Warnings about missing or doubtful data for the end of a report, and whether the kernel's
/// counters agree.
pub(super) fn notes(converted: &Converted) -> Vec<String> {
    let summary = &converted.summary;
    let mut notes = converted.filter_notes.clone();
    notes.extend(imported(summary));
    notes.extend(capsule_lines::note(summary));
    notes.push(state(summary));
    notes.extend(read_until(summary));
    notes.extend(scope_lines::lines(summary));
    notes.extend(others(summary).filter(|_| completeness::has_others(summary)));
    notes.extend(attribution(&summary.ledger));
    notes.extend(audit_line(summary, &converted.totals));
    notes.extend(doubts(summary));
    notes.extend(completeness::not_recorded(summary));
    notes
}

/// Note on a log that was not read to its end.
fn read_until(summary: &Summary) -> Option<String> {
    let until = summary.read_until?.0.saturating_sub(summary.start().0);
    Some(format!(
        "the log was read up to {} (--until): lost and missing are those of the whole recording, all other \
         counts those up to there; the rest was not looked at, also not for damage, and there is no audit",
        time(until)
    ))
}

/// Notes on a filter: that it has selected nothing, and operations that are not in the output
/// because their user is unknown.
pub(super) fn filter_notes(picker: &Picker) -> Vec<String> {
    notes_of_names(picker).into_iter().chain(unknown_users(picker.unknown_users)).collect()
}

/// Source of events, and the reason for its choice. The first logs have neither: they knew only
/// perf.
pub(super) fn source(summary: &Summary) -> (&str, &str) {
    let header = &summary.header;
    let source = if header.source.is_empty() { "perf" } else { &header.source };
    (source, &header.source_reason)
}

/// Lines on size, counts, losses and the audit.
pub(super) fn lines(bytes: u64, converted: &Converted) -> Vec<String> {
    let summary = &converted.summary;
    let ledger = &summary.ledger;
    let operations = ledger.pairs;
    let mut lines = vec![
        format!(
            "{} in the log: {operations} system calls{}, {}{} block requests",
            size(bytes),
            per_operation(bytes, operations),
            asynchronous(ledger),
            ledger.requests
        ),
        counts(converted),
        imported(summary).unwrap_or_else(|| format!("source: {}", described_source(summary))),
        format!("names: {}", described_names(summary)),
        losses(summary),
    ];
    lines.extend(others(summary));
    lines.extend(attribution(ledger));
    lines.extend(chosen_devices(summary));
    lines.extend(cost(summary));
    lines.extend(audit_line(summary, &converted.totals));
    lines.extend(doubts(summary));
    lines
}

fn described_source(summary: &Summary) -> String {
    let stacks = summary.header.chains.as_ref().map_or("", |_| "; stacks from perf");
    match source(summary) {
        (source, "") => format!("{source}{stacks}"),
        (source, reason) => format!("{source} ({reason}){stacks}"),
    }
}

/// Tool of an imported log.
pub(super) fn imported(summary: &Summary) -> Option<String> {
    let origin = summary.header.imported.as_ref()?;
    let (tool, format, file) = (&origin.tool, &origin.format, &origin.file);
    Some(format!("imported from {tool} ({format}; {file}), not recorded"))
}

/// Source of names, and the reason for its choice.
fn described_names(summary: &Summary) -> String {
    let header = &summary.header;
    match header.names_reason.as_str() {
        "" => header.names.clone(),
        reason => format!("{} ({reason})", header.names),
    }
}

/// Shares of the devices' work that are attributed to a file, and to a program.
fn attribution(ledger: &Ledger) -> Option<String> {
    let counts = &ledger.attribution;
    let all = counts.files.sum();
    if all == 0 {
        return None;
    }
    let percents = |by_link: &ByLink, kernel: u64| {
        let shares =
            shares::tenths(&[by_link.exact, by_link.inferred, by_link.unknown, kernel], all);
        shares.into_iter().map(shares::percent).collect::<Vec<_>>()
    };
    let words = |text: &[String]| {
        let words = ["exact", "inferred", "unknown", "the kernel's own"];
        let all = words.iter().zip(text).map(|(word, share)| format!("{word} {share}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let (files, programs) = (percents(&counts.files, 0), percents(&counts.programs, counts.kernel));
    Some(format!(
        "attribution of {} of block requests: files {}; programs {}",
        size(all.saturating_mul(SECTOR_BYTES)),
        words(files.get(..3).unwrap_or_default()),
        words(&programs)
    ))
}

/// Limit on the devices that are named.
const OTHERS_SHOWN: usize = 4;

/// Block requests of other programs during a recording of some processes: devices with the most
/// bytes first.
fn others(summary: &Summary) -> Option<String> {
    if summary.read_until.is_some() {
        return None;
    }
    if summary.others_are_unknown() {
        return Some(
            "block requests of others were counted and not recorded, and the counts are missing"
                .into(),
        );
    }
    let names = disk::names(&summary.disks());
    let mut all: Vec<(DevId, OtherRequests)> = summary.others().into_iter().collect();
    let not_counted: u64 = all.iter().map(|row| row.1.not_counted).sum();
    all.retain(|row| row.1.all().0 > 0);
    all.sort_by_key(|row| std::cmp::Reverse((row.1.all().1, row.1.all().0)));
    let device = |(dev, others): &(DevId, OtherRequests)| {
        let name = names.iter().find(|name| name.0 == *dev);
        let name = name.map_or_else(|| dev.to_string(), |name| name.1.clone());
        let (requests, bytes) = others.all();
        format!("{}, {} on {name}", counted(requests, "request"), size(bytes))
    };
    let mut parts: Vec<String> = all.iter().take(OTHERS_SHOWN).map(device).collect();
    let more = all.len().saturating_sub(parts.len());
    if more > 0 {
        parts.push(format!("requests on {more} more devices"));
    }
    let requests: u64 = all.iter().map(|row| row.1.all().0).sum();
    let recorded: u64 = all.iter().map(|row| row.1.recorded).sum();
    let recorded = match recorded {
        _ if requests == 0 => String::new(),
        0 => ", not recorded individually".to_owned(),
        some if some < requests => format!(", of which {} recorded individually", count(some)),
        _ => ", recorded and not shown".to_owned(),
    };
    let not_counted = (not_counted > 0).then(|| {
        let requests = counted(not_counted, "request");
        format!("{requests} not ended, or not counted by /proc/diskstats")
    });
    let given_up = summary.end.as_ref().map_or(0, |end| end.others.places_given_up);
    let given_up = match given_up {
        0 => String::new(),
        some => format!("; {} of files dropped for lack of room", counted(some, "extent")),
    };
    let counted_ones = (!parts.is_empty()).then(|| parts.join("; ") + &recorded);
    let parts: Vec<String> = counted_ones.into_iter().chain(not_counted).collect();
    (!parts.is_empty()).then(|| {
        let parts = parts.join("; ");
        format!("other programs and the kernel's own threads: {parts}{given_up}")
    })
}

/// Disks that `-d` selected.
fn chosen_devices(summary: &Summary) -> Option<String> {
    let names = disk::names(&summary.disks());
    let named = |number: &String| {
        let found = names.iter().find(|name| name.0.to_string() == *number);
        found.map_or_else(|| number.clone(), |(_, name)| format!("{name} ({number})"))
    };
    let chosen: Vec<String> = summary.header.device_filter.iter().map(named).collect();
    (!chosen.is_empty()).then(|| format!("block requests: only of {}", chosen.join(", ")))
}

/// Counts of the most frequent calls.
fn counts(converted: &Converted) -> String {
    let mut calls: Vec<_> = converted.totals.calls().collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.1.count));
    let shown: Vec<String> =
        calls.iter().take(5).map(|(id, it)| format!("{} {}", id.call().name, it.count)).collect();
    let more = calls.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    format!("calls: {}{more}", if shown.is_empty() { "none".into() } else { shown.join(", ") })
}

/// Returns whether the recording is complete, and what is not known; all counts if records are
/// missing.
fn state(summary: &Summary) -> String {
    completeness::complete(summary).unwrap_or_else(|| losses(summary))
}

/// Counts of all irregularities, zeros included.
fn losses(summary: &Summary) -> String {
    let ledger = &summary.ledger;
    let missing = match summary.missing() {
        None => "unknown (the recording did not end in order)".to_owned(),
        Some(missing) if missing.is_empty() => "0".to_owned(),
        Some(missing) => missing
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect::<Vec<_>>()
            .join(" + "),
    };
    format!(
        "lost {}, missing {missing}, unmatched {}, unpaired exits {}, cut off {}, open {} {} calls {} requests, \
         unnamed {}, unverified names {}, of unknown type {}",
        summary.lost(),
        ledger.unmatched,
        ledger.orphan_exits,
        ledger.cut_off + ledger.lost_exits,
        if summary.read_until.is_some() { "then" } else { "at the end" },
        ledger.open_at_end,
        ledger.requests_open,
        ledger.unnamed,
        ledger.unverified,
        ledger.untyped
    )
}

/// Records for which a reader had no room, if there were any.
fn beyond_bounds(summary: &Summary) -> Option<String> {
    let events = summary.ledger.anomalous.get(&AnomalyKind::BeyondBounds).copied().unwrap_or(0);
    let facts = summary.beyond_bounds;
    (events + facts > 0).then(|| {
        format!(
            "{} and {} are skipped: the log has more tasks, descriptors or names alive at once than a reader \
             keeps; what belongs to them is missing (docs/limitations.md#lim-log)",
            counted(events, "record"),
            counted(facts, "fact")
        )
    })
}

/// Count of asynchronous operations, if there are any.
fn asynchronous(ledger: &Ledger) -> String {
    match ledger.asynchronous {
        0 => String::new(),
        _ => format!("{}, ", counted(ledger.async_ended, "asynchronous operation")),
    }
}

/// Asynchronous operations of which a part is not known.
fn asynchronous_doubts(ledger: &Ledger) -> Option<String> {
    let counts = [
        (ledger.async_open, "open at the end"),
        (ledger.async_unseen, "without a recorded result"),
        (
            ledger.async_nameless,
            "on files whose names are not known (registered with a ring, or opened by it)",
        ),
        (ledger.async_orphans, "not in the log, but with a result in it"),
        (
            ledger.async_unread,
            "of io_submit and io_getevents that could not be read, in whole or in part",
        ),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|count| count.0 > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| {
        format!("asynchronous operations: {} (docs/limitations.md#lim-async)", parts.join("; "))
    })
}

/// Extents, and their writers, that could not be kept; or queried, if they were needed.
fn extents_doubts(summary: &Summary) -> Option<String> {
    let ledger = &summary.ledger;
    let is_missed = ledger.attribution.files.unknown > 0;
    let unqueried =
        summary.end.as_ref().filter(|_| is_missed).map_or(0, |end| end.places_not_asked);
    let counts = [
        (
            ledger.attribution.unsized_extents,
            "extent",
            "in blocks of a size that is not known (a file system that this mount namespace does not show)",
        ),
        (ledger.attribution.given_up, "extent", "(or its name or writer) dropped for lack of room"),
        (unqueried, "file", "gone at the end, or with extents that could not be queried"),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|count| count.0 > 0)
        .map(|(count, noun, what)| format!("{} {what}", counted(*count, noun)))
        .collect();
    (!parts.is_empty()).then(|| {
        format!("extents of files: {} (docs/limitations.md#lim-extents)", parts.join("; "))
    })
}

/// Functions of programs without names, because the files with those could not be read.
fn unread(summary: &Summary) -> Option<String> {
    let unread = &summary.end.as_ref().filter(|end| !end.unread.is_nothing())?.unread;
    let first = &unread.first;
    let mut shown: Vec<String> =
        first.iter().map(|file| format!("{} ({})", file.path, file.reason)).collect();
    let paths: BTreeSet<&str> = first.iter().map(|file| file.path.as_str()).collect();
    if unread.files > paths.len() as u64 {
        shown.push(format!("{} more", unread.files - paths.len() as u64));
    }
    Some(format!(
        "{} in programs without a name: {} could not be read: {}",
        counted(unread.addresses, "address"),
        counted(unread.files, "file"),
        shown.join(", ")
    ))
}

/// Copied stacks of programs whose functions are not all known, or not for sure.
fn unwound(summary: &Summary) -> Option<String> {
    let ways = &summary.ways;
    let copied = summary.header.chains.as_ref().map_or(0, |chain| chain.stack_bytes);
    let counts = [
        (
            ways.ended(StackEnd::Short),
            format!(
                "longer than that: the outermost functions are missing: --call-graph dwarf,{}",
                copied.saturating_mul(2).min(STACK_BYTES_MAX)
            ),
        ),
        (ways.ended(StackEnd::Unreadable), "that led to memory that was not copied".into()),
        (
            ways.ended(StackEnd::Broken),
            "that led to invalid addresses: the outermost functions are missing".into(),
        ),
        (
            ways.guessed,
            "through functions without unwind tables: unwound by frame pointers, if those exist"
                .into(),
        ),
        (ways.unknown, "not unwound".into()),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|count| count.0 > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "of {} of programs, each copied up to {copied} bytes, {}",
            counted(ways.all(), "stack"),
            parts.join("; ")
        )
    })
}

/// Limits of what the numbers say.
fn doubts(summary: &Summary) -> Vec<String> {
    let mut lines: Vec<String> = duration_share(summary).into_iter().collect();
    lines.extend(warnings(summary));
    lines
}

/// Warnings that must not be overlooked.
pub(super) fn warnings(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if summary.lost() > 0 {
        let largest = summary.header.rings.iter().map(|ring| ring.bytes).max().unwrap_or(0);
        let larger = (largest.saturating_mul(2) >> 20).clamp(64, 1024);
        lines.push(format!(
            "records were lost because the rings were full: record again with larger ones: --buffer-size {larger}M \
             (docs/limitations.md#lim-lost)"
        ));
    }
    if summary.missing().is_some_and(|missing| missing.iter().any(|missing| missing.1 < 0)) {
        lines.push("another process reset the trace buffers: the count of missing events is negative because the kernel's counters were reset; the records in the buffers are lost and not counted".into());
    }
    lines.extend(outlived(summary));
    lines.extend(beyond_bounds(summary));
    for kind in [AnomalyKind::Late, AnomalyKind::Undecodable, AnomalyKind::NoProcess] {
        if let Some(count) = summary.ledger.anomalous.get(&kind) {
            lines.push(format!("{} not used: {}", counted(*count, "record"), kind.as_str()));
        }
    }
    if summary.header.imported.is_some() {
        lines.extend(summary.end.iter().flat_map(|end| end.warnings.iter().cloned()));
    }
    lines.extend(asynchronous_doubts(&summary.ledger));
    lines.extend(extents_doubts(summary));
    lines.extend(unread(summary));
    lines.extend(unwound(summary));
    lines.extend(other_programs(summary));
    lines.extend(wall_clock(summary));
    if summary.reused_numbers > 0 {
        lines.push(format!(
            "the recording may lack {}, which reused the number of one that had just ended; use --source perf, which follows \
             these, too (docs/limitations.md#lim-reused-numbers)",
            counted(summary.reused_numbers, "task")
        ));
    }
    match summary.ledger.unfollowed {
        0 => {}
        count => lines.push(format!(
            "{} not followed, because the paths were not read: after a rename the names of \
             open files are unverified, after a removal they are kept. Use --names kprobe or uprobe with --source tracefs, \
             which read the paths of system calls; renames by io_uring are never followed (docs/limitations.md#lim-perf-names)",
            counted_as(count, ["rename or removal was", "renames and removals were"])
        )),
    }
    for imbalance in summary.ledger.imbalances() {
        lines.push(format!(
            "error: the counters do not balance: {imbalance}; please report this with the log"
        ));
    }
    if summary.torn {
        lines.push("the log ends in the middle of a frame: the tracer was killed or the disk was full; the rest is complete".into());
    } else if summary.damaged_bytes > 0 {
        lines.push(format!(
            "{} damaged and skipped",
            counted_with(summary.damaged_bytes, "byte", ["of the log was", "of the log were"])
        ));
    }
    if summary.end.is_none() {
        lines.push(
            "the recording did not end in order: events after the last round are not in the log"
                .into(),
        );
    }
    lines
}

/// Processes of the launched program's tree that have not ended with it (daemons): the recording
/// ends with the program.
fn outlived(summary: &Summary) -> Option<String> {
    let end = summary.end.as_ref()?;
    let has_ended = end.exit_code.is_some() || end.exit_signal.is_some();
    let alive = summary.alive_at_end;
    let scope = &summary.header.scope;
    // Other ranks of a node are no processes that the program has started.
    let is_launched =
        scope.mode == "launch" && scope.ranks.len() < 2 && summary.read_until.is_none();
    (is_launched && has_ended && alive > 0).then(|| {
        let processes = if alive == 1 { "process" } else { "processes" };
        format!(
            "still alive when the program ended, and with it the recording: {alive} {processes} that it started; their later operations are \
             not in the log (docs/limitations.md#lim-daemons)"
        )
    })
}

/// Change of the wall clock that is not the passage of time.
fn wall_clock(summary: &Summary) -> Option<String> {
    let moved = summary.end.as_ref()?.wall_moved_ns?;
    let (sign, ms) = (if moved < 0 { '-' } else { '+' }, moved.unsigned_abs() / 1_000_000);
    (moved.unsigned_abs() >= WALL_MOVED_NS).then(|| {
        format!(
            "the wall clock was set meanwhile, or the machine slept: it moved by {sign}{}.{:03} s; all times are of another clock, and \
             wall clock times are exact only at the beginning",
            ms / 1000,
            ms % 1000
        )
    })
}

/// Programs whose calls could not be interpreted.
fn other_programs(summary: &Summary) -> Option<String> {
    let other = &summary.ledger.other;
    if other.count == 0 {
        return None;
    }
    let records = summary.ledger.ignored.get(&Ignored::Compat32).copied().unwrap_or(0);
    let names = other.first.iter();
    let mut shown: Vec<String> =
        names.map(|(pid, comm)| format!("{pid} ({})", comm.escape_ascii())).collect();
    if other.count > shown.len() as u64 {
        shown.push(format!("{} more", other.count - shown.len() as u64));
    }
    if summary.header.source == SourceKind::Inherited.as_str() {
        return Some(format!(
            "not recorded: {}: without privileges the kernel shows nothing of programs that change their user (setuid) or have capabilities, \
             that this user may not read, or that have 32 bits; what they and their children did is missing (docs/limitations.md#lim-root)",
            shown.join(", ")
        ));
    }
    Some(format!(
        "32-bit programs: {}: their calls have other numbers than those of this kernel's own programs and are skipped, \
         {} of them (docs/limitations.md#lim-32bit)",
        shown.join(", "),
        counted(records, "record")
    ))
}

fn per_operation(bytes: u64, operations: u64) -> String {
    let tenths = bytes.saturating_mul(10).checked_div(operations);
    let shown = |tenths: u64| format!(" ({}.{} bytes each)", tenths / 10, tenths % 10);
    tenths.map(shown).unwrap_or_default()
}
