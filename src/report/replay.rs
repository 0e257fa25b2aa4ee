//! Report of `replay plan`: operations that a replay would execute, and those that it would not.

use rustc_hash::FxHashSet;

use super::rows::{column, first_rows, key_column, others};
use crate::analysis::completed_op::OpKind;
use crate::replay::plan::hole_map::hole_bytes;
use crate::replay::plan::namespace::{EntryKind, FsModel, Gap, ListedEntry};
use crate::replay::plan::planner::{PlanOutput, Planner};
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::{Nanos, ReplayTime};

const DONE: [Column; 2] = [key_column(0, "call", "call"), column("count", "operations")];

const LEFT: [Column; 4] = [
    column("reason", ""),
    key_column(0, "call", "call"),
    column("count", "operations"),
    column("", "because"),
];

const FILES: [Column; 7] = [
    column("type", "type"),
    column("size_bytes", "size"),
    column("size_is_exact", "exact"),
    column("hole_bytes", "in holes"),
    column("mode", "mode"),
    column("has_more", ""),
    key_column(0, "path", "path"),
];

/// Files and operations of a plan.
pub fn report<O: PlanOutput>(plan: &Planner<O>, limit: usize) -> Report {
    let entries = plan.world.entries();
    let sum = |iterator: &mut dyn Iterator<Item = u64>| Cell::Count(iterator.sum());
    let of_kind = |wanted: &str| {
        Cell::Count(entries.iter().filter(|entry| kind(entry.thing) == wanted).count() as u64)
    };
    let gaps =
        |wanted: Gap| entries.iter().filter(|entry| entry.gap == Some(wanted)).count() as u64;
    let mut files_seen = FxHashSet::default();
    let mut is_first = |entry: &&ListedEntry| match entry.thing {
        EntryKind::File(file) => files_seen.insert(file),
        _ => true,
    };
    let firsts: Vec<&ListedEntry> = entries.iter().filter(|entry| is_first(entry)).collect();
    let hard_links = (entries.len() - firsts.len()) as u64;
    let first_bytes = sum(&mut firsts.iter().filter_map(|first| size(&plan.world, first)));
    let first_holes = sum(&mut firsts.iter().filter_map(|first| holes(&plan.world, first)));
    let is_asynchronous = |what: &OpKind| matches!(what, OpKind::Async(_));
    let asynchronous =
        plan.done.iter().filter(|done| is_asynchronous(done.0)).map(|done| *done.1).sum();
    let left_of = |wanted: bool| {
        let of = plan.skipped.iter().filter(|rest| is_asynchronous(&rest.0.1) == wanted);
        sum(&mut of.map(|row| *row.1))
    };
    let busy = plan.busy.iter().copied().max().unwrap_or_default();
    let lanes = plan.workers.iter().filter(|worker| worker.lane.is_some()).count() as u64;
    let mut facts = vec![
        ("done", "operations replayed", sum(&mut plan.done.values().copied())),
        ("left", "  not replayed", left_of(false)),
        ("asynchronous_left", "  asynchronous, not replayed", left_of(true)),
        ("asynchronous", "  asynchronous", Cell::Count(asynchronous)),
        ("needed", "  dependencies", Cell::Count(plan.needed)),
        ("followed", "  model only", Cell::Count(plan.model_only)),
        ("added", "  implicit operations", Cell::Count(plan.implicit)),
        ("read_bytes", "bytes to read", Cell::Count(plan.bytes[0])),
        ("written_bytes", "bytes to write", Cell::Count(plan.bytes[1])),
        ("span_ns", "duration", Cell::Ns(plan.span.0)),
        ("wanted_from_ns", "  until the selection", Cell::ns(plan.wanted_from.map(|time| time.0))),
        ("busy_ns", "  busiest thread in calls", Cell::Ns(busy.0)),
        ("threads", "threads", Cell::Count(plan.workers.len() as u64)),
        ("lanes", "  for asynchronous operations", Cell::Count(lanes)),
        ("waits", "waits for another thread", Cell::Count(plan.waiting)),
        ("descriptors", "descriptors at once", Cell::Count(plan.handles() as u64)),
        ("given", "  open before", Cell::Count(plan.inherited_fds.len() as u64)),
        ("directories", "directories before", of_kind("directory")),
        ("files", "files before", of_kind("file")),
        ("hard_links", "  further names of one", Cell::Count(hard_links)),
        ("links", "symbolic links before", of_kind("link")),
        ("links_of_other_length", "", Cell::Count(gaps(Gap::Text))),
        ("links_as_directories", "", Cell::Count(gaps(Gap::Target))),
        ("directories_too_deep", "", Cell::Count(gaps(Gap::Depth))),
        ("first_bytes", "bytes in them", first_bytes),
        ("first_hole_bytes", "  known to be in holes", first_holes),
        ("unexplained", "", Cell::Count(plan.world.unexplained)),
        ("names_lost", "", Cell::Count(plan.world.lost())),
    ];
    leave_out_nothing(&mut facts);
    let mut report = Report { kind: "replay plan", facts, ..Report::default() };
    report.notes.extend(durations(plan, busy));
    report.tables = vec![done(plan), left(plan), files(plan, &entries, limit)];
    let counts = [
        plan.world.unexplained,
        plan.world.lost(),
        gaps(Gap::Text),
        gaps(Gap::Target),
        gaps(Gap::Depth),
    ];
    let doubts = DOUBTS.iter().zip(counts).filter(|doubt| doubt.1 > 0);
    report.notes.extend(doubts.map(|(doubt, count)| format!("{count} {doubt}")));
    report
}

/// Facts whose line for people is kept at 0: that nothing is replayed or left out is a result.
const RESULTS: [&str; 2] = ["done", "left"];

/// Removes the lines for people of facts whose value is zero or missing.
fn leave_out_nothing(facts: &mut [(&'static str, &'static str, Cell)]) {
    for (key, title, value) in facts {
        let is_nothing = matches!(value, Cell::Count(0) | Cell::Ns(0) | Cell::None);
        if is_nothing && !RESULTS.contains(key) {
            *title = "";
        }
    }
}

/// Doubts about the initial state, each preceded by its count.
const DOUBTS: [&str; 5] = [
    "operations found another state than the operations before them had left: it was changed by a process outside the log, or it has two \
     names of which one is unknown",
    "names were absent at the start, and exceeded the limit: such a name that another process has made since is taken for \
     one that was there",
    "symbolic links lead to their captured targets, but their texts differ in length: `readlink` returns another number",
    "symbolic links are made as directories: no open has shown their targets; record with `--names kprobe` or `uprobe`",
    "directories are made without their entries: those have paths that are longer than a call accepts",
];

/// Notes on the duration of a replay; `busy`: time of the busiest thread inside calls.
fn durations<O: PlanOutput>(plan: &Planner<O>, busy: Nanos) -> impl Iterator<Item = String> {
    let seconds = |it: Nanos| std::time::Duration::from_nanos(it.0).as_secs_f64();
    let takes = format!(
        "a replay takes {:.3} s at --speed 1, and with --speed max about {:.3} s, if calls take as long as in the capture: that is the time which the \
         busiest thread was inside calls",
        seconds(plan.span),
        seconds(busy)
    );
    // Where the wait takes longer than all operations.
    let wanted_from = plan.wanted_from.map(|time| time.since(ReplayTime::MIN));
    let wanted_from = wanted_from.filter(|wanted_from| *wanted_from > busy).map(|wanted_from| {
        format!(
            "the selected operations begin {:.3} s after the first one that they need: replay run --from {}ns runs those that had ended by then at \
             full speed",
            seconds(wanted_from),
            wanted_from.0
        )
    });
    (!plan.done.is_empty()).then_some(takes).into_iter().chain(wanted_from)
}

fn done<O: PlanOutput>(plan: &Planner<O>) -> Table {
    let mut rows: Vec<(OpKind, u64)> = plan.done.iter().map(|(call, it)| (*call, *it)).collect();
    rows.sort_by_key(|(call, it)| (std::cmp::Reverse(*it), *call));
    let row = |(call, it): (OpKind, u64)| vec![name(call), Cell::Count(it)];
    let rows = rows.into_iter().map(row).collect();
    Table { key: "done_calls", title: "Replayed".to_owned(), columns: DONE.to_vec(), rows }
}

fn left<O: PlanOutput>(plan: &Planner<O>) -> Table {
    let mut rows: Vec<_> = plan.skipped.iter().collect();
    rows.sort_by_key(|(key, it)| (std::cmp::Reverse(**it), **key));
    let rows = rows.into_iter().map(|((reason, call), operations)| {
        let reason = [reason.as_str().to_owned(), reason.to_string()].map(Cell::Word);
        let [word, sentence] = reason;
        vec![word, name(*call), Cell::Count(*operations), sentence]
    });
    let rows = rows.collect();
    Table { key: "left_calls", title: "Not replayed".to_owned(), columns: LEFT.to_vec(), rows }
}

fn files<O: PlanOutput>(plan: &Planner<O>, entries: &[ListedEntry], limit: usize) -> Table {
    let total = entries.len();
    let (shown, rest) = first_rows(entries.iter().collect(), limit);
    let exact = |entry: &ListedEntry| match entry.thing {
        EntryKind::File(file) => Cell::Flag(plan.world.size(file).is_exact()),
        _ => Cell::None,
    };
    let row = |entry: &ListedEntry| {
        vec![
            Cell::Word(kind(entry.thing).to_owned()),
            Cell::count(size(&plan.world, entry)),
            exact(entry),
            Cell::count(holes(&plan.world, entry)),
            entry.mode.map_or(Cell::None, |mode| Cell::Word(format!("{mode:04o}"))),
            Cell::Flag(entry.has_more),
            Cell::Name(entry.path.clone()),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = shown.into_iter().map(row).collect();
    if !rest.is_empty() {
        let bytes = rest.iter().filter_map(|rest| size(&plan.world, rest)).sum();
        let holes = rest.iter().filter_map(|rest| holes(&plan.world, rest)).sum();
        let mut row = vec![Cell::None, Cell::Count(bytes), Cell::None, Cell::Count(holes)];
        row.extend([Cell::None, Cell::None, others(rest.len())]);
        rows.push(row);
    }
    let title = format!("Existing before the first operation: {total}");
    Table { key: "files_before", title, columns: FILES.to_vec(), rows }
}

fn name(what: OpKind) -> Cell {
    Cell::Word(what.to_string())
}

/// Kind of an entry; one without evidence is made a file.
fn kind(thing: EntryKind) -> &'static str {
    match thing {
        EntryKind::Directory => "directory",
        EntryKind::Any | EntryKind::File(_) => "file",
        EntryKind::Link(_) => "link",
    }
}

fn size(world: &FsModel, entry: &ListedEntry) -> Option<u64> {
    match entry.thing {
        EntryKind::File(file) => Some(world.size(file).first()),
        EntryKind::Link(bytes) => Some(bytes),
        _ => None,
    }
}

/// Bytes of a file that the capture shows to be holes.
fn holes(world: &FsModel, entry: &ListedEntry) -> Option<u64> {
    match entry.thing {
        EntryKind::File(file) => Some(hole_bytes(world.parts(file))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_about_nothing_keep_their_values_for_programs() {
        let mut facts = [
            ("done", "operations replayed", Cell::Count(0)),
            ("links", "symbolic links before", Cell::Count(0)),
            ("files", "files before", Cell::Count(2)),
            ("wanted_from_ns", "  until the selection", Cell::None),
        ];
        leave_out_nothing(&mut facts);
        assert_eq!(
            facts.each_ref().map(|fact| fact.1),
            ["operations replayed", "", "files before", ""]
        );
        assert!(matches!(facts[1].2, Cell::Count(0)) && matches!(facts[3].2, Cell::None));
    }
}
