//! Sentences about a job: its straggler, balance, phases and shared files.

use super::facts::JobFacts;
use super::input::JobReportInput;
use super::row_names::{host_name, row_name};
use crate::analysis::job::balance::{RankBalance, multiple};
use crate::analysis::job::phases::{IoPhase, counted_rows};
use crate::report::file_rows::file_cells;
use crate::report::rows::{column, key_column};
use crate::text::quantity::{count, counted, size, time};
use crate::text::table::{Cell, Table};

/// Multiple of the mean from which a rank stands out.
const STANDS_OUT: f64 = 1.2;

/// Part of the job's time, as one in this number, that a rank that stands out takes more than the
/// mean.
const PART_OF_JOB: u64 = 200;

/// Largest number of phases in a sentence.
const PHASES_SHOWN: usize = 6;

/// Distance of two columns, as far as columns and clocks show it.
pub(super) struct BoundedTime {
    /// Shortest distance, ns; `None`: it may be nothing.
    pub(super) least: Option<u64>,
    /// Longest distance, ns; `None`: not known, as a recording has no dates.
    pub(super) most: Option<u64>,
}

impl BoundedTime {
    /// Distance of two columns whose ranks may be on two hosts.
    pub(super) fn of(input: &JobReportInput<'_>, [first, last]: [usize; 2]) -> Self {
        let width = input.fold.axis.width_ns();
        let Some(bound) = input.facts.order_bound_ns else {
            return Self { least: None, most: None };
        };
        let columns = last.saturating_sub(first) as u64;
        let least = columns.saturating_sub(1).saturating_mul(width).saturating_sub(bound);
        let most = (columns + 1).saturating_mul(width).saturating_add(bound);
        Self { least: Some(least).filter(|ns| *ns > 0), most: Some(most) }
    }
}

/// Parts that are missing from the job, in words.
pub(super) fn incomplete(facts: &JobFacts) -> Vec<String> {
    let left_out = facts.gaps.iter().filter(|gap| gap.is_left_out).count() as u64;
    let damaged = facts.gaps.len() as u64 - left_out;
    let parts = [
        (left_out, ["recording is left out", "recordings are left out"]),
        (damaged, ["recording is not whole", "recordings are not whole"]),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts
        .map(|(number, [one, many])| {
            format!("{} {}", count(*number), if *number == 1 { one } else { many })
        })
        .collect()
}

/// Table of the sentences.
pub(super) fn table(input: &JobReportInput<'_>) -> Table {
    let mut rows = vec![("straggler", straggler(input)), ("bytes", bytes(input))];
    for (side, phases) in input.phases.iter().enumerate() {
        rows.extend(phase_sentence(input, side, &phases.phases).map(|text| ("phases", text)));
    }
    rows.extend(alignment(input).map(|text| ("alignment", text)));
    rows.extend(shared_file(input).map(|text| ("shared-file", text)));
    let row = |(kind, text): (&str, String)| [kind.to_owned(), text].map(Cell::Word).to_vec();
    Table {
        key: "findings",
        title: "Findings".to_owned(),
        columns: vec![column("finding", ""), key_column(0, "text", "finding")],
        rows: rows.into_iter().filter(|(_, text)| !text.is_empty()).map(row).collect(),
    }
}

/// Name of a row with its host.
fn named(input: &JobReportInput<'_>, row: usize) -> String {
    let Some(row) = input.fold.rows.get(row) else { return String::new() };
    let name = row_name(row.key, input.facts);
    format!("{name} on {}", host_name(row.key.host, input.facts))
}

/// Sentence on the rank with most time in operations on files.
fn straggler(input: &JobReportInput<'_>) -> String {
    let Some(balance) = RankBalance::of(input.fold, |row| row.sums.file_ns) else {
        return String::new();
    };
    let (name, ratio) = (named(input, balance.row), balance.ratio().unwrap_or(0.0));
    let (max, mean) = (time(balance.max), time(balance.mean()));
    let is_much = (balance.max - balance.mean()) > input.wall_ns() / PART_OF_JOB;
    if balance.ranks < 2 {
        return format!("There is one rank to look at: {name}, with {max} in operations on files.");
    }
    if ratio < STANDS_OUT || !is_much {
        return format!(
            "No rank stands out: the longest time in operations on files is {max}, of {name}; the \
             mean of {} is {mean}.",
            counted(balance.ranks, "rank")
        );
    }
    let Some(row) = input.fold.rows.get(balance.row) else { return String::new() };
    let all = RankBalance::of(input.fold, |row| row.sums.file_bytes()).unwrap_or_default();
    let of_mean = multiple(row.sums.file_bytes(), all.sum, all.ranks);
    let cause = match of_mean {
        Some(bytes) if bytes >= STANDS_OUT => {
            format!("; it also moves {bytes:.1} times the mean of bytes: it has more to do")
        }
        Some(bytes) => {
            format!("; it moves {bytes:.1} times the mean of bytes: its operations are slower")
        }
        None => String::new(),
    };
    let file = row.slowest.as_ref().map_or_else(String::new, |(key, ns)| {
        let [_, _, path] = file_cells(key);
        format!(". Its slowest file is {} ({})", path.text(), time(*ns))
    });
    format!(
        "{name} is the straggler: {max} in operations on files, {ratio:.1} times the mean of \
         {mean}{cause}{file}."
    )
}

/// Sentence on the balance of bytes.
fn bytes(input: &JobReportInput<'_>) -> String {
    let balance = RankBalance::of(input.fold, |row| row.sums.file_bytes());
    let Some(balance) = balance.filter(|balance| balance.ranks > 1 && balance.sum > 0) else {
        return String::new();
    };
    let ratio = balance.ratio().unwrap_or(0.0);
    let most = size(balance.max);
    let mean = size(balance.mean());
    match ratio < STANDS_OUT {
        true => format!(
            "Bytes are balanced: the most of a rank are {most}, {ratio:.2} times the mean of {mean}."
        ),
        false => format!(
            "Bytes are not balanced: {} moves {most}, {ratio:.1} times the mean of {mean}.",
            named(input, balance.row)
        ),
    }
}

/// Sentence on the phases of a kind.
fn phase_sentence(input: &JobReportInput<'_>, side: usize, phases: &[IoPhase]) -> Option<String> {
    let width = input.fold.axis.width_ns();
    let verb = if side == 0 { "reads" } else { "writes" };
    let range = |phase: &IoPhase| {
        let [from, to] = [phase.columns.start, phase.columns.end].map(|end| end as u64 * width);
        let to = time(to.min(input.wall_ns()));
        format!("{} to {to} ({})", time(from), size(phase.bytes))
    };
    let mut largest: Vec<&IoPhase> = phases.iter().collect();
    largest.sort_by_key(|phase| std::cmp::Reverse(phase.bytes));
    largest.truncate(PHASES_SHOWN);
    largest.sort_by_key(|phase| phase.columns.start);
    let ranges: Vec<String> = largest.into_iter().map(range).collect();
    let more = match phases.len().saturating_sub(PHASES_SHOWN) {
        0 => String::new(),
        more => format!(", and {}", counted(more as u64, "smaller one")),
    };
    let phases = counted(phases.len() as u64, "phase");
    (!ranges.is_empty())
        .then(|| format!("The job {verb} in {phases}: {}{more}.", ranges.join(", ")))
}

/// Sentence on the alignment of ranks in the phase with most bytes.
fn alignment(input: &JobReportInput<'_>) -> Option<String> {
    let phases = input.phases.iter().zip(["read", "write"]);
    let all =
        phases.flat_map(|(phases, name)| phases.phases.iter().map(move |phase| (phase, name)));
    let (phase, name) = all.max_by_key(|(phase, _)| phase.bytes)?;
    let ranks = counted_rows(input.fold).len() as u64;
    if ranks < 2 {
        return None;
    }
    let [begins, ends] = [phase.begins, phase.ends].map(|ends| BoundedTime::of(input, ends));
    let from = time(phase.columns.start as u64 * input.fold.axis.width_ns());
    let part = format!(
        "In the largest phase, the {name} at {from}, {} of {} take part",
        count(phase.ranks),
        counted(ranks, "rank")
    );
    let (Some(begin), Some(end)) = (begins.most, ends.most) else {
        let text = "; how they are aligned is not known, for a recording has no dates.";
        return Some(part + text);
    };
    let last = BoundedTime::of(input, [phase.middle_end, phase.ends[1]]);
    let last = last.least.map_or_else(String::new, |ns| {
        let name = named(input, phase.last_row);
        let part = last_in(input, phase.last_row);
        format!("; {name} ends last, at least {} after half of them{part}", time(ns))
    });
    let are = if phase.ranks == 1 { return Some(format!("{part}.")) } else { "they" };
    Some(format!("{part}: {are} begin within {} and end within {}{last}.", time(begin), time(end)))
}

/// Words on the phases in which a row is clearly last, if they are several.
fn last_in(input: &JobReportInput<'_>, row: usize) -> String {
    let all = || input.phases.iter().flat_map(|phases| &phases.phases);
    let is_last = |phase: &&IoPhase| {
        let distance = BoundedTime::of(input, [phase.middle_end, phase.ends[1]]);
        phase.last_row == row && distance.least.is_some()
    };
    match all().filter(is_last).count() as u64 {
        0 | 1 => String::new(),
        last => format!(", and so in {} of {} phases", count(last), count(all().count() as u64)),
    }
}

/// Sentence on the shared file with most time.
fn shared_file(input: &JobReportInput<'_>) -> Option<String> {
    let file = input.fold.files.shared().into_iter().max_by_key(|file| file.all.ns)?;
    let [_, _, path] = file_cells(&file.name);
    Some(format!(
        "Of the files of several ranks {} takes the most time: {} in operations of {}, {} read and \
         {} written.",
        path.text(),
        time(file.all.ns),
        counted(file.rows.len(), "rank"),
        size(file.all.moved[0]),
        size(file.all.moved[1])
    ))
}
