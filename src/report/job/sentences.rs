//! Sentences about a job: its balance, its last rank, phases and shared files.

use super::facts::JobFacts;
use super::input::JobReportInput;
use super::rank_sentences::{last_io, left_out, of_parts};
use super::row_names::{host_name, row_name};
use crate::analysis::job::balance::ComparedRanks;
use crate::analysis::job::phases::IoPhase;
use crate::analysis::rank_balance::{LastRank, RankAmounts, RankBalance};
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
    /// Longest distance, ns; `None`: not known, as a recording has no dates.
    pub(super) most: Option<u64>,
}

impl BoundedTime {
    /// Distance of two columns whose ranks may be on two hosts.
    pub(super) fn of(input: &JobReportInput<'_>, [first, last]: [usize; 2]) -> Self {
        let width = input.fold.axis.width_ns();
        let Some(bound) = input.facts.order_bound_ns else {
            return Self { most: None };
        };
        let columns = last.saturating_sub(first) as u64;
        let most = (columns + 1).saturating_mul(width).saturating_add(bound);
        Self { most: Some(most) }
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
    let ranks = ComparedRanks::of(input.fold);
    let balance = ranks.balance(input.fold);
    let mut rows = vec![
        ("imbalance", imbalance(input, &ranks, &balance)),
        ("imbalance-bytes", bytes(input, &ranks, &balance)),
        ("straggler", straggler(input, &ranks, &balance)),
        ("left-out", left_out(&balance, input.noun()).map(sentence)),
        ("left-out", of_parts(&balance, input.noun()).map(sentence)),
    ];
    for (side, phases) in input.phases.iter().enumerate() {
        rows.push(("phases", phase_sentence(input, side, &phases.phases)));
    }
    rows.push(("alignment", alignment(input, &ranks)));
    rows.push(("shared-file", shared_file(input)));
    let row = |(kind, text): (&str, Option<String>)| {
        Some([kind.to_owned(), text?].map(Cell::Word).to_vec())
    };
    Table {
        key: "findings",
        title: "Findings".to_owned(),
        columns: vec![column("finding", ""), key_column(0, "text", "finding")],
        rows: rows.into_iter().filter_map(row).collect(),
    }
}

/// Text with the form of a sentence.
fn sentence(text: String) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// Name of a rank with its host.
pub(super) fn named(input: &JobReportInput<'_>, ranks: &ComparedRanks, rank: u64) -> String {
    let row = ranks.row(rank).and_then(|row| input.fold.rows.get(row));
    let Some(row) = row else { return format!("rank {rank}") };
    let name = row_name(row.key, input.facts);
    format!("{name} on {}", host_name(row.key.host, input.facts))
}

/// Sentence on the rank with most time in operations on files.
fn imbalance(
    input: &JobReportInput<'_>,
    ranks: &ComparedRanks,
    balance: &RankBalance,
) -> Option<String> {
    let (noun, largest) = (input.noun(), balance.file_ns);
    let (name, ratio) = (named(input, ranks, largest.rank), largest.ratio().unwrap_or(0.0));
    let (max, mean) = (time(largest.max), time(largest.mean()));
    let is_much = (largest.max - largest.mean()) > input.wall_ns() / PART_OF_JOB;
    if balance.ranks < 2 {
        return (balance.ranks == 1).then(|| {
            format!("There is one {noun} to look at: {name}, with {max} in operations on files.")
        });
    }
    if ratio < STANDS_OUT || !is_much {
        return Some(format!(
            "No {noun} stands out: the longest time in operations on files is {max}, of {name}; \
             the mean of {} is {mean}.",
            counted(balance.ranks, noun)
        ));
    }
    let causes = causes(&ranks.amounts(input.fold, largest.rank), balance).join(", ");
    let causes = if causes.is_empty() { causes } else { format!("; it {causes}") };
    let rows = ranks.rows(input.fold, largest.rank);
    let slowest = rows.iter().filter_map(|row| row.slowest.as_ref()).max_by_key(|file| file.1);
    let file = slowest.map_or_else(String::new, |(key, ns)| {
        let [_, _, path] = file_cells(key);
        format!(". Its slowest file is {} ({})", path.text(), time(*ns))
    });
    Some(format!(
        "{name} has the most time in operations on files: {max}, {ratio:.1} times the mean of \
         {mean}{causes}{file}."
    ))
}

/// Amounts in which a rank with much time is beyond the mean, as far as the numbers show them.
fn causes(rank: &RankAmounts, balance: &RankBalance) -> Vec<String> {
    let operations = balance.file_operations.multiple(rank.file_operations);
    let time = balance.file_ns.multiple(rank.file_ns);
    let each = time.zip(operations).map(|(time, operations)| time / operations);
    let bytes = balance.file_bytes.multiple(rank.file_bytes);
    let part = |multiple: Option<f64>, before: &str, after: &str| {
        let multiple = multiple.filter(|multiple| *multiple >= STANDS_OUT)?;
        Some(format!("{before} {multiple:.1} times {after}"))
    };
    let parts = [
        part(bytes, "moves", "the mean of bytes"),
        part(operations, "makes", "the mean of operations"),
        part(each.filter(|each| each.is_finite()), "needs", "as long for each operation"),
    ];
    parts.into_iter().flatten().collect()
}

/// Sentence on the rank whose I/O ended last.
fn straggler(
    input: &JobReportInput<'_>,
    ranks: &ComparedRanks,
    balance: &RankBalance,
) -> Option<String> {
    let name = |rank: u64| named(input, ranks, rank);
    let zero_ns = input.fold.axis.origin().0;
    let bound_ns = input.facts.order_bound_ns;
    let text = last_io(balance.last.as_ref()?, bound_ns, zero_ns, input.noun(), &name);
    // Names of ranks are as they are.
    let is_of_none = ["which ", "several "].iter().any(|word| text.starts_with(word));
    Some(if is_of_none { sentence(text) } else { format!("{text}.") })
}

/// Sentence on the balance of bytes.
fn bytes(
    input: &JobReportInput<'_>,
    ranks: &ComparedRanks,
    balance: &RankBalance,
) -> Option<String> {
    let largest = balance.file_bytes;
    let ratio = largest.ratio().filter(|_| balance.ranks > 1)?;
    let (most, mean) = (size(largest.max), size(largest.mean()));
    Some(match ratio < STANDS_OUT {
        true => format!(
            "Bytes are balanced: the most of a {} are {most}, {ratio:.2} times the mean of {mean}.",
            input.noun()
        ),
        false => format!(
            "Bytes are not balanced: {} moves {most}, {ratio:.1} times the mean of {mean}.",
            named(input, ranks, largest.rank)
        ),
    })
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
fn alignment(input: &JobReportInput<'_>, all: &ComparedRanks) -> Option<String> {
    let phases = input.phases.iter().zip(["read", "write"]);
    let phases =
        phases.flat_map(|(phases, name)| phases.phases.iter().map(move |phase| (phase, name)));
    let (phase, name) = phases.max_by_key(|(phase, _)| phase.bytes)?;
    if all.count() < 2 {
        return None;
    }
    let [begins, ends] = [phase.begins, phase.ends].map(|ends| BoundedTime::of(input, ends));
    let from = time(phase.columns.start as u64 * input.fold.axis.width_ns());
    let part = format!(
        "In the largest phase, the {name} at {from}, {} of {} take part",
        count(phase.ranks),
        counted(all.count(), input.noun())
    );
    let (Some(begin), Some(end)) = (begins.most, ends.most) else {
        let text = "; how they are aligned is not known, for a recording has no dates.";
        return Some(part + text);
    };
    let last = last_in(input, phase).map_or_else(String::new, |(rank, lead)| {
        let name = named(input, all, rank);
        let part = phases_of_last(input, rank);
        format!("; {name} ends last, at least {} after every other one{part}", time(lead))
    });
    if phase.ranks == 1 {
        return Some(format!("{part}."));
    }
    let (begin, end) = (time(begin), time(end));
    Some(format!("{part}: they begin within {begin} and end within {end}{last}."))
}

/// Rank that is the last one in a phase, and the shortest time by which it is; `None`: columns and
/// clocks do not show which one is.
pub(super) fn last_in(input: &JobReportInput<'_>, phase: &IoPhase) -> Option<(u64, u64)> {
    let (last, error_ns) = (phase.last.as_ref()?, input.column_error_ns()?);
    match last.decide(error_ns) {
        LastRank::One(one) => Some((one.rank, last.lead(error_ns)?)),
        LastRank::OneOf(_) | LastRank::Unknown => None,
    }
}

/// Words on the phases in which a rank is the last one, if they are several.
fn phases_of_last(input: &JobReportInput<'_>, rank: u64) -> String {
    let all = || input.phases.iter().flat_map(|phases| &phases.phases);
    let is_last = |phase: &&IoPhase| last_in(input, phase).is_some_and(|(last, _)| last == rank);
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
        "Of the files of several {}s {} takes the most time: {} in operations of {}, {} read and \
         {} written.",
        input.noun(),
        path.text(),
        time(file.all.ns),
        counted(file.rows.len(), input.noun()),
        size(file.all.moved[0]),
        size(file.all.moved[1])
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::job::fold::JobFold;
    use crate::analysis::job::phases::IoPhases;
    use crate::analysis::job::row_plan::{RecordedRanks, RecordingScope, RowPlan};
    use crate::analysis::job::sums::MapCell;
    use crate::analysis::rank_balance::RankReading;
    use crate::report::job::JobHostFacts;
    use crate::units::KernelTime;

    /// Returns a job whose ranks write up to these columns, on two hosts.
    fn writers(ends: &[usize]) -> JobFold {
        let scopes: Vec<RecordingScope> = (0..ends.len())
            .map(|rank| RecordingScope { host: rank % 2, ranks: RecordedRanks::One(rank as u64) })
            .collect();
        let until = KernelTime(400 * 1024 - 1);
        let mut fold = JobFold::new(RowPlan::new(&scopes), 0, KernelTime(0), until);
        let ranks = ComparedRanks::of(&fold);
        for (rank, end) in (0..).zip(ends.iter().copied()) {
            let row = ranks.row(rank).expect("a row");
            fold.lines[row].resize(400, MapCell::default());
            for column in 10..=end {
                fold.lines[row][column].moved[1] = 100;
            }
            fold.rows[row].marks[1].mark(10..=end);
        }
        fold
    }

    fn clearly_last(fold: &JobFold, bound_ns: Option<u64>) -> Option<u64> {
        let hosts = vec![JobHostFacts::default(); 2];
        let facts = JobFacts { hosts, order_bound_ns: bound_ns, ..JobFacts::default() };
        let phases = [0, 1].map(|side| IoPhases::of(fold, side));
        let input = JobReportInput { fold, facts: &facts, phases: &phases };
        last_in(&input, &phases[1].phases[0]).map(|(rank, _)| rank)
    }

    /// Fails if a rank is the last one of a phase though another may have ended later, or if one of
    /// two ranks is never the last.
    #[test]
    fn last_rank_of_a_phase_is_later_than_every_other() {
        for (ends, bound_ns, expected) in [
            (vec![20, 20, 40, 40], Some(0), None),
            (vec![20, 20, 39, 40], Some(0), None),
            (vec![20, 20, 30, 40], Some(0), Some(3)),
            (vec![20, 20, 30, 40], Some(9 * 1024), None),
            (vec![20, 20, 30, 40], None, None),
            (vec![40, 20], Some(0), Some(0)),
        ] {
            assert_eq!(clearly_last(&writers(&ends), bound_ns), expected, "{ends:?} {bound_ns:?}");
        }
        // The end of a rank is not known if its recording is damaged.
        let mut fold = writers(&[20, 20, 30, 40]);
        let last = fold.rows.iter_mut().max_by_key(|row| row.key.subject).expect("four");
        last.reading = RankReading::Part;
        assert_eq!(clearly_last(&fold, Some(0)), Some(2));
    }

    /// Fails if operations are called slow because bytes are equal, or many because they are slow.
    #[test]
    fn causes_are_those_that_numbers_show() {
        let others = RankAmounts {
            file_ns: 1000,
            file_bytes: 500,
            file_operations: 100,
            ..RankAmounts::default()
        };
        let text = |rank: RankAmounts| {
            let all: Vec<RankAmounts> = (0..9).map(|rank| RankAmounts { rank, ..others }).collect();
            let rank = RankAmounts { rank: 9, ..rank };
            causes(&rank, &RankBalance::of(&[all, vec![rank]].concat())).join(", ")
        };
        let many = RankAmounts { file_ns: 9000, file_operations: 900, ..others };
        assert_eq!(text(many), "makes 5.0 times the mean of operations");
        let slow = RankAmounts { file_ns: 9000, ..others };
        assert_eq!(text(slow), "needs 5.0 times as long for each operation");
        let more = RankAmounts { file_ns: 1500, file_bytes: 4500, ..others };
        assert!(text(more).starts_with("moves 5.0 times the mean of bytes, needs 1.4"));
        assert_eq!(text(others), "");
    }
}
