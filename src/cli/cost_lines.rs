//! Lines about what a recording has cost the programs.

use std::time::Duration;

use crate::capture::header::TracerCost;
use crate::event::probe_events::GROUP_PREFIX;
use crate::pipeline::{DurationShare, Summary};
use crate::text::quantity::{counted, time};

/// Returns the words for a cost of calls that was not measured.
fn unmeasured(own: &TracerCost) -> &'static str {
    if own.is_disturbed {
        return "an unknown time (the events of another recording were still being closed at the start)";
    }
    "an unknown time"
}

/// Overhead of the recording; `None` if the log has no such numbers, or is imported.
pub(super) fn cost(summary: &Summary) -> Option<String> {
    if summary.header.imported.is_some() {
        return None;
    }
    let own = &summary.end.as_ref()?.own;
    let operations = summary.ledger.pairs;
    let calls = own.call_cost_ns.map_or_else(
        || unmeasured(own).to_owned(),
        |each| {
            let (all, calls) = (each.saturating_mul(operations), counted(operations, "call"));
            format!("about {} for {calls} ({each} ns each, measured at the start)", time(all))
        },
    );
    let names = &summary.names_wait;
    Some(format!(
        "cost: the tracer used {} of CPU; the programs were held up by {calls}; reading the names of {} kept CPUs from \
         them for {} at most",
        time(own.cpu_ns),
        counted(names.calls, "call"),
        time(names.ns)
    ))
}

/// System calls whose durations contain the start of a program, at which the kernel copies the
/// pages with probes, and reports the opened program.
const PROGRAM_STARTS: [&str; 6] = ["clone", "clone3", "execve", "execveat", "fork", "vfork"];

/// Recorded kinds of operations whose durations contain more of the tracer's own than is measured:
/// what other threads and the disk do for them is recorded, too.
pub(super) fn kinds_with_more(summary: &Summary) -> Vec<&'static str> {
    let header = &summary.header;
    if header.imported.is_some() || summary.duration_share().is_none() {
        return Vec::new();
    }
    let has_call = |wanted: &[&str]| header.calls.iter().any(|call| wanted.contains(&&**call));
    let has_event =
        |system: &str| header.tracepoints.iter().any(|point| point.system.starts_with(system));
    let is_heard = header.names.ends_with("fanotify");
    let slows_starts = has_event(GROUP_PREFIX) || is_heard;
    let kinds = [
        (has_event("block"), "calls that wait for a disk"),
        (summary.ledger.asynchronous > 0, "asynchronous operations"),
        (has_call(&PROGRAM_STARTS) && slows_starts, "calls that start a program"),
        (header.names == "fanotify", "opens"),
    ];
    kinds.into_iter().filter(|(is_recorded, _)| *is_recorded).map(|(_, kind)| kind).collect()
}

/// Part of the durations that is the tracer's own.
pub(super) fn duration_share(summary: &Summary) -> Option<String> {
    if summary.header.imported.is_some() || summary.end.is_none() {
        return None;
    }
    let Some(DurationShare { call_ns, open_ns, inner_event_ns }) = summary.duration_share() else {
        return Some("the tracer's own part of durations was not measured".to_owned());
    };
    let micros = |ns: u64| format!("{:.1} µs", Duration::from_nanos(ns).as_secs_f64() * 1e6);
    let opens = open_ns.map_or_else(String::new, |ns| format!(", up to {} in an open", micros(ns)));
    let inner = inner_event_ns.map_or_else(
        || ", and more where events are recorded inside a call".to_owned(),
        |ns| {
            format!(", and about {} more for each event that is recorded inside a call", micros(ns))
        },
    );
    let more = match kinds_with_more(summary).as_slice() {
        [] => String::new(),
        kinds => format!("; {} include more, which was not measured", kinds.join(", ")),
    };
    Some(format!(
        "durations include about {} of the tracer's own in each call{opens}{inner}{more}",
        micros(call_ns)
    ))
}
