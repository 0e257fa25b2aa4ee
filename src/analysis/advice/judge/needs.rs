//! Facts that a recording lacks.

use super::super::rule::{AdviceRule, RuleNeed};
use crate::event::syscall_table::CallId;
use crate::pipeline::Summary;

/// Sources of names that report no name of an open during the recording.
const WITHOUT_NAMES: [&str; 2] = ["off", "snapshot"];

/// Returns the reason why a rule cannot be judged; `None`: it can.
pub(super) fn unmet(rule: &AdviceRule, summary: &Summary) -> Option<String> {
    rule.needs.iter().find_map(|need| lacks(*need, summary))
}

fn lacks(need: RuleNeed, summary: &Summary) -> Option<String> {
    let header = &summary.header;
    let is_imported = header.imported.is_some();
    let is_recorded = |name: &str| header.calls.iter().any(|call| call == name);
    let has_system = |system: &str| header.tracepoints.iter().any(|point| point.system == system);
    let reason = match need {
        RuleNeed::Names if WITHOUT_NAMES.contains(&header.names.as_str()) => {
            format!("no names of files in this log (--names {})", header.names)
        }
        RuleNeed::Group(group) if !is_imported => {
            let of_group = header.calls.iter().filter_map(|name| CallId::by_name(name));
            let mut of_group = of_group.filter(|call| call.call().class.group() == group);
            return of_group.next().is_none().then(|| no_events(&format!("%{group}")));
        }
        RuleNeed::Calls(_) if is_imported => {
            "an imported log does not tell which calls were recorded".to_owned()
        }
        RuleNeed::Calls(names) => {
            let is_of_machine = |name: &&&str| {
                let call = CallId::by_name(name).map(CallId::call);
                call.is_some_and(|call| call.number(&header.host.machine).is_some())
            };
            let missing = names.iter().filter(is_of_machine).find(|name| !is_recorded(name))?;
            no_events(missing)
        }
        RuleNeed::Uring if !is_imported && !has_system("io_uring") => no_events("io_uring"),
        RuleNeed::Block if !has_system("block") => no_events("block"),
        RuleNeed::Layers if header.layers.is_none() => no_events("layers"),
        RuleNeed::Faults if !has_system("exceptions") => no_events("fault"),
        RuleNeed::Whole => return incomplete(summary),
        _ => return None,
    };
    Some(reason)
}

fn no_events(word: &str) -> String {
    format!("no {word} in this log (record -e %default,{word})")
}

/// Returns what is missing from the log, one of which may be the sync that a rule looks for.
fn incomplete(summary: &Summary) -> Option<String> {
    if summary.read_until.is_some() {
        return Some("the log was read only up to --until: a sync may come later".to_owned());
    }
    let ledger = &summary.ledger;
    let missing = summary.missing().unwrap_or_default();
    let missing =
        missing.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(count.unsigned_abs()));
    let counts = [
        (summary.lost(), "records were lost"),
        (missing, "records are missing"),
        (ledger.lost_exits, "calls have no end"),
        (ledger.other.count, "programs were not followed"),
        (ledger.async_unread, "asynchronous operations were not read"),
        (ledger.async_unseen, "asynchronous operations have no result"),
        (summary.beyond_bounds, "records had no room in the reader"),
    ];
    if let Some((count, what)) = counts.iter().find(|(count, _)| *count > 0) {
        return Some(format!("{count} {what}: one of them may be the sync"));
    }
    let is_cut = summary.end.is_none() || summary.torn || summary.damaged_bytes > 0;
    is_cut.then(|| "the log is damaged, or did not end in order".to_owned())
}
