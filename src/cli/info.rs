//! `iotrace-perf info LOG`: header, totals, accounting.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::args::InfoArgs;
use super::completeness;
use super::convert::open;
use super::converted::Converted;
use super::cost_lines::kinds_with_more;
use super::error::CliError;
use super::info_mounts;
use super::report_output::print_text;
use super::summary_lines::{self, source};
use super::{capsule_lines, scope_lines};
use crate::analysis::audit::{self, ProcessAudit};
use crate::analysis::call_totals::{BlockTotals, CallTotals, Totals};
use crate::capture::fact::StackEnd;
use crate::capture::header::{Counts, Disk, End, Header, RingCounts, TracerCost};
use crate::operation::block::DiskstatsClass;
use crate::operation::disk;
use crate::operation::user_stacks::UnwindStats;
use crate::pipeline::{OtherRequests, Summary};
use crate::report::recorded_scope::attached;
use crate::report::recording_end::recording_end;
use crate::text::{escape, quantity};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

pub(super) fn run(args: &InfoArgs) -> Result<ExitCode, CliError> {
    let input = open(&args.log, false)?;
    let version = input.version;
    let info = input.count(&args.log, &mut || true)?;
    let bytes = std::fs::metadata(&args.log).map_or(0, |metadata| metadata.len());
    let file = LogFile { version, bytes };
    if args.json {
        let text = escape::json_lines(&format!("{:#}\n", as_json(&info, file)));
        io::stdout().lock().write_all(text.as_bytes()).map_err(CliError::output)?;
    } else {
        print_text(&as_text(&info, file.bytes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Properties of the log as a file.
#[derive(Clone, Copy)]
struct LogFile {
    version: (u16, u16),
    bytes: u64,
}

/// Documented object (docs/json.md).
fn as_json(info: &Converted, file: LogFile) -> Value {
    let parts =
        [about(&info.summary, file), counts(&info.summary), doubts(&info.summary), details(info)];
    Value::Object(parts.into_iter().flatten().collect())
}

/// Object of keys and values.
fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Scope, host and times of the recording, and how it ended.
fn about(summary: &Summary, file: LogFile) -> Map<String, Value> {
    let LogFile { version: (major, minor), bytes } = file;
    let header = &summary.header;
    let end = summary.end.as_ref();
    object([
        ("format_version", json!(format!("{major}.{minor}"))),
        ("tool_version", json!(header.tool_version)),
        ("hostname", json!(header.host.hostname)),
        ("kernel_release", json!(header.host.kernel_release)),
        ("machine", json!(header.host.machine)),
        ("cpus", json!(header.host.cpus.len())),
        ("mode", json!(header.scope.mode)),
        ("command", json!(header.scope.command)),
        ("roots", json!(header.scope.roots)),
        ("group", json!(header.scope.group)),
        ("source", json!(source(summary).0)),
        ("source_reason", json!(header.source_reason)),
        ("names", json!(header.names)),
        ("names_reason", json!(header.names_reason)),
        ("layers", json!(header.layers)),
        ("layers_reason", json!(header.layers_reason)),
        ("aio_reason", json!(header.aio_reason)),
        ("clock", json!(header.clock.name)),
        ("start_ns", json!(header.clock.start_ns)),
        ("start_realtime_ns", json!(header.clock.start_realtime_ns)),
        ("imported", json!(header.imported)),
        ("capsule", json!(header.capsule)),
        ("excerpt", json!(header.excerpt)),
        ("wall_moved_ns", json!(end.and_then(|end| end.wall_moved_ns))),
        ("duration_ns", json!(summary.end_time().0 - summary.start().0)),
        ("bytes_on_disk", json!(bytes)),
        ("complete", json!(completeness::missing(summary).is_empty())),
        ("end_reason", json!(end.map(|end| &end.reason))),
        ("exit_code", json!(end.and_then(|end| end.exit_code))),
        ("exit_signal", json!(end.and_then(|end| end.exit_signal))),
        ("warnings", json!(end.map(|end| &end.warnings))),
        ("device_filter", json!(header.device_filter)),
        ("all_block", json!(header.scope.all_block)),
        ("children_left_out", children_left_out(summary)),
        ("threads", json!(header.scope.threads)),
        ("excluded", json!(header.scope.excluded)),
        ("excluded_in_kernel", json!(header.scope.excluded_in_kernel)),
        ("job", json!(header.job)),
        ("ranks", json!(header.scope.ranks)),
        ("stacks", json!(header.chains)),
        ("disks", json!(summary.disks())),
        ("mounts", info_mounts::as_json(summary)),
    ])
}

/// Number of children that were not followed; null if children were followed.
fn children_left_out(summary: &Summary) -> Value {
    let is_on = summary.header.scope.children_left_out;
    json!(is_on.then_some(summary.ledger.children_left_out))
}

/// Counts of records and operations.
fn counts(summary: &Summary) -> Map<String, Value> {
    let ledger = &summary.ledger;
    let left_out = summary.end.as_ref().map(|end| &end.others);
    object([
        ("records", json!(ledger.records)),
        ("events", json!(ledger.events)),
        ("operations", json!(ledger.pairs)),
        ("async_operations", json!(ledger.async_ended)),
        ("requests", json!(ledger.requests)),
        ("open_at_end", json!(ledger.open_at_end)),
        ("processes_alive_at_end", json!(summary.alive_at_end)),
        ("async_open", json!(ledger.async_open)),
        ("requests_open", json!(ledger.requests_open)),
        ("requests_foreign", json!(ledger.requests_foreign)),
        ("stat_calls", json!(summary.end.as_ref().and_then(|end| end.stat_calls))),
        ("others", others(summary)),
        ("others_unknown", json!(summary.others_are_unknown())),
        ("others_kept_undecided", json!(left_out.map(|others| others.kept_undecided))),
        ("others_places_given_up", json!(left_out.map(|others| others.places_given_up))),
    ])
}

/// Block requests of other programs, by device.
fn others(summary: &Summary) -> Value {
    let names = disk::names(&summary.disks());
    let device = |(dev, others): (&DevId, &OtherRequests)| {
        let count = |number: (u64, u64)| json!({"requests": number.0, "bytes": number.1});
        let operations =
            others.operations.iter().map(|(word, number)| (word.clone(), count(*number)));
        let disk = names.iter().find(|name| name.0 == *dev).map(|name| &name.1);
        json!({
            "dev": dev.to_string(),
            "disk": disk,
            "operations": operations.collect::<Map<String, Value>>(),
            "requests": others.all().0,
            "bytes": others.all().1,
            "recorded": others.recorded,
            "not_counted": others.not_counted,
        })
    };
    summary.others().iter().map(device).collect()
}

/// Counts of missing and uncertain data.
fn doubts(summary: &Summary) -> Map<String, Value> {
    let ledger = &summary.ledger;
    let end = summary.end.as_ref();
    let missing: Option<Map<String, Value>> = summary
        .missing()
        .map(|missing| missing.into_iter().map(|(name, count)| (name, count.into())).collect());
    object([
        ("lost", json!(summary.lost())),
        ("missing", json!(missing)),
        ("unmatched", json!(ledger.unmatched)),
        ("async_unseen", json!(ledger.async_unseen)),
        ("async_nameless", json!(ledger.async_nameless)),
        ("async_orphans", json!(ledger.async_orphans)),
        ("async_unread", json!(ledger.async_unread)),
        ("unnamed", json!(ledger.unnamed)),
        ("untyped", json!(ledger.untyped)),
        ("unverified", json!(ledger.unverified)),
        ("unfollowed", json!(ledger.unfollowed)),
        ("other_programs", json!(ledger.other.count)),
        ("orphan_exits", json!(ledger.orphan_exits)),
        ("refused", json!(ledger.refused())),
        ("lost_exits", json!(ledger.lost_exits)),
        ("cut_off", json!(ledger.cut_off)),
        ("damaged_bytes", json!(summary.damaged_bytes)),
        ("reused_numbers", json!(summary.reused_numbers)),
        ("foreign_dropped", json!(end.map(|end| end.foreign_dropped))),
        ("unwritten", json!(end.map(|end| end.unwritten))),
        ("unread", json!(end.map(|end| &end.unread))),
        ("unread_programs", json!(end.map(|end| &end.unread_programs))),
        ("user_stacks", user_stacks(&summary.ways)),
        ("imbalances", json!(ledger.imbalances())),
    ])
}

/// Copied stacks of programs: their number, and the number of those whose functions are not all
/// known, or not for sure.
fn user_stacks(ways: &UnwindStats) -> Value {
    json!({
        "copied": ways.all(),
        "too_short": ways.ended(StackEnd::Short),
        "unreadable": ways.ended(StackEnd::Unreadable),
        "broken": ways.ended(StackEnd::Broken),
        "guessed": ways.guessed,
        "not_unwound": ways.unknown,
    })
}

/// Totals by name, and the audit.
fn details(info: &Converted) -> Map<String, Value> {
    let ledger = &info.summary.ledger;
    let calls: Map<String, Value> =
        info.totals.calls().map(|(id, it)| (id.call().name.to_owned(), call(it))).collect();
    let asynchronous: Map<String, Value> = info
        .totals
        .asynchronous
        .iter()
        .map(|(opcode, it)| (opcode.to_string(), call(it)))
        .collect();
    let anomalies: Map<String, Value> = ledger
        .anomalous
        .iter()
        .map(|(kind, count)| (kind.as_str().to_owned(), (*count).into()))
        .collect();
    let ignored: Map<String, Value> = ledger
        .ignored
        .iter()
        .map(|(reason, count)| (reason.as_str().to_owned(), (*count).into()))
        .collect();
    let tracepoints: Option<Vec<Value>> =
        info.summary.end.as_ref().map(|end| end.tracepoints.iter().map(tracepoint).collect());
    object([
        ("anomalies", json!(anomalies)),
        ("ignored", json!(ignored)),
        ("calls", json!(calls)),
        ("faults", json!(info.totals.faults)),
        ("async", json!(asynchronous)),
        ("audit", json!(audit::process(&info.summary, &info.totals).as_ref().map(audited))),
        ("tracepoints", json!(tracepoints)),
        ("names_unheard", unheard(&info.summary)),
        ("cost", json!(info.summary.end.as_ref().map(|end| cost(&info.summary, &end.own)))),
        ("rings", json!(info.summary.end.as_ref().map(|end| rings(&info.summary, end)))),
    ])
}

/// Totals of calls, opcodes and block requests for people; JSON has the exact numbers.
fn totals_lines(totals: &Totals) -> Vec<String> {
    use quantity::{count, size, time};
    let row = |name: &str, cells: [String; 4]| {
        let cells = cells.map(|cell| format!("{cell:>12}"));
        format!("  {name:<24}{}", cells.concat()).trim_end().to_owned()
    };
    let call = |name: &str, call: &CallTotals| {
        row(name, [count(call.count), count(call.errors), size(call.bytes), time(call.time_ns)])
    };
    let block = |(dev, class): &(DevId, DiskstatsClass), block: &BlockTotals| {
        let name = format!("{dev} {}", format!("{class:?}").to_lowercase());
        let bytes = size(block.sectors.saturating_mul(SECTOR_BYTES));
        row(&name, [count(block.requests), count(block.merges), bytes, String::new()])
    };
    let heading = |name: &str, columns: [&str; 4]| row(name, columns.map(str::to_owned));
    let calls = totals.calls().map(|(id, totals)| call(id.call().name, totals));
    let opcodes = totals.asynchronous.iter().map(|(code, totals)| call(&code.to_string(), totals));
    let mut lines = vec![heading("operations", ["count", "failed", "bytes", "time"])];
    lines.extend(calls.chain(opcodes));
    if !totals.blocks.is_empty() {
        lines.push(heading("block requests", ["count", "merges", "bytes", ""]));
    }
    lines.extend(totals.blocks.iter().map(|(key, totals)| block(key, totals)));
    lines
}

fn call(totals: &CallTotals) -> Value {
    let CallTotals { count, errors, bytes, time_ns, .. } = totals;
    json!({"count": count, "errors": errors, "bytes": bytes, "time_ns": time_ns})
}

fn tracepoint(counts: &Counts) -> Value {
    let Counts { name, hits, samples, lost, .. } = counts;
    json!({"name": name, "hits": hits, "samples": samples, "lost": lost})
}

/// Times in which fanotify did not report all opens.
fn unheard(summary: &Summary) -> Value {
    let at = |time: KernelTime| time.signed_since(summary.start());
    let all = summary.unheard.iter();
    all.map(|(since, until, errno)| {
        json!({"since_ns": at(*since), "until_ns": at(*until), "errno": errno})
    })
    .collect()
}

/// Overhead of the recording.
fn cost(summary: &Summary, own: &TracerCost) -> Value {
    let share = summary.duration_share();
    json!({
        "tracer_cpu_ns": own.cpu_ns,
        "call_cost_ns": own.call_cost_ns,
        "call_share_ns": share.map(|share| share.call_ns),
        "open_share_ns": share.and_then(|share| share.open_ns),
        "inner_event_share_ns": share.and_then(|share| share.inner_event_ns),
        "more_in": kinds_with_more(summary),
        "disturbed": own.is_disturbed,
        "names_wait_ns": summary.names_wait.ns,
        "names_read": summary.names_wait.calls,
    })
}

/// Counters of tracefs rings; perf's rings have none.
fn rings(summary: &Summary, end: &End) -> Vec<Value> {
    let ring = |counts: &RingCounts| {
        let place = usize::try_from(counts.ring).unwrap_or(usize::MAX);
        let name = summary.header.rings.get(place).map(|ring| ring.name.as_str());
        json!({"name": name, "read": counts.read, "found": counts.found, "overrun": counts.overrun, "dropped": counts.dropped,
            "left": counts.left})
    };
    end.rings.iter().map(ring).collect()
}

fn audited(audit: &ProcessAudit) -> Value {
    let core_dump = audit.kernel_writes().filter(|_| audit.reasons.core_signals > 0);
    json!({
        "agrees": audit.agrees(),
        "programs_started": audit.execs,
        "unwaited": audit.unwaited,
        "read_bytes_difference": audit.read.bytes,
        "read_calls_difference": audit.read.calls,
        "write_bytes_difference": audit.write.bytes,
        "write_calls_difference": audit.write.calls,
        "exec_read_bytes": audit.reasons.exec_bytes,
        "exec_read_calls": audit.reasons.exec_calls,
        "programs_unknown": audit.reasons.unknown_programs,
        "formats_unknown": audit.reasons.unknown_formats,
        "execs_failed": audit.reasons.failed_execs,
        "doubtful_calls": audit.reasons.doubtful,
        "overlay_copies": audit.reasons.overlay_copies,
        "overlay_copies_doubtful": audit.reasons.doubtful_copies,
        "core_dump_bytes": core_dump.map(|core_dump| core_dump.0),
        "core_dump_calls": core_dump.map(|core_dump| core_dump.1),
        "btrfs_sends": audit.reasons.btrfs_sends,
        "kernel_write_bytes": audit.kernel_writes().map(|kernel_write| kernel_write.0),
        "kernel_write_calls": audit.kernel_writes().map(|kernel_write| kernel_write.1),
        "lost": audit.lost,
    })
}

/// Description of a disk; `None` for one without a medium.
fn described(drive: &Disk) -> Option<String> {
    disk::size_bytes(drive)?;
    let scheduler =
        (!drive.scheduler.is_empty()).then(|| format!("I/O scheduler {}", drive.scheduler));
    let properties =
        disk::properties(drive).into_iter().map(|(name, value)| format!("{name} {value}"));
    let all: Vec<String> = scheduler.into_iter().chain(properties).collect();
    Some(format!("disk      {} ({}): {}", drive.name, drive.dev, all.join("; ")))
}

/// Returns what was recorded: a command, processes that ran already, or the machine.
fn traced(header: &Header) -> String {
    let scope = &header.scope;
    match (&header.imported, scope.command.as_slice(), scope.mode.as_str()) {
        (Some(origin), [], _) => format!("traced    what {} recorded", origin.tool),
        (None, [], "system") => "traced    the whole machine".to_owned(),
        (None, [], _) => format!("traced    {}", attached(scope)),
        (_, command, _) => format!("command   {}", command.join(" ")),
    }
}

fn as_text(info: &Converted, bytes: u64) -> String {
    let summary = &info.summary;
    let header = &summary.header;
    let duration_ms = (summary.end_time().0 - summary.start().0) / 1_000_000;
    let started =
        jiff::Timestamp::from_nanosecond(header.clock.start_realtime_ns.into()).unwrap_or_default();
    let mut lines = vec![
        format!(
            "host      {} ({}, {}, {} CPUs)",
            header.host.hostname,
            header.host.kernel_release,
            header.host.machine,
            header.host.cpus.len()
        ),
        format!(
            "recorded  {started} for {}.{:03} s, {} mode",
            duration_ms / 1000,
            duration_ms % 1000,
            header.scope.mode,
        ),
        traced(header),
        format!("ended     {}", recording_end(summary.end.as_ref())),
        format!("counters  {}", summary.ledger),
    ];
    lines.extend(header.job.as_ref().map(|job| format!("job       {}", scope_lines::job(job))));
    lines.extend(capsule_lines::note(summary).map(|note| format!("scope     {note}")));
    lines.extend(scope_lines::lines(summary).iter().map(|line| format!("scope     {line}")));
    lines.extend(summary.disks().iter().filter_map(described));
    lines.extend(info_mounts::lines(summary));
    lines.extend(summary_lines::lines(bytes, info));
    lines.extend(totals_lines(&info.totals));
    // Names of hosts, disks and programs are untrusted.
    lines.iter().map(|line| escape::harmless(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped() {
        let mut summary = Summary::default();
        summary.header.host.hostname = "a\x1b[2J\nended     exit".into();
        summary.header.scope.command = vec!["\u{9b}1m".into()];
        let info = Converted {
            summary,
            totals: Totals::default(),
            archive: None,
            filter_notes: Vec::new(),
            job: None,
        };
        let text = as_text(&info, 0);
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text}");
        assert!(text.starts_with("host      a\\x1b[2J\\x0aended     exit ("), "{text}");
        assert!(text.contains("command   \\xc2\\x9b1m\n"), "{text}");
    }
}
