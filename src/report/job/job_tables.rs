//! Tables of a job.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::facts::JobFacts;
use super::input::JobReportInput;
use super::rank_ranges::ranges;
use super::row_names::{host_name, row_name};
use super::sentences::{BoundedTime, last_in, named};
use crate::analysis::job::balance::ComparedRanks;
use crate::analysis::job::fold::{JobFold, RankRow};
use crate::analysis::job::job_files::JobFile;
use crate::analysis::job::phases::IoPhase;
use crate::analysis::job::row_plan::{JobRowKey, RowSubject};
use crate::analysis::job::sums::RankSums;
use crate::report::file_rows::file_cells;
use crate::report::rows::{column, first_rows, key_column, others, titled};
use crate::text::quantity::counted;
use crate::text::table::{Cell, Column, Table};

/// Columns of sums.
const SUMS: [Column; 11] = [
    column("file_ns", "time on files"),
    column("file_read_bytes", "read"),
    column("file_written_bytes", "written"),
    column("file_operations", "operations on files"),
    column("other_operations", "neither read nor write"),
    column("other_ns", "time in these"),
    column("operations", ""),
    column("failed", "failed"),
    column("read_bytes", ""),
    column("written_bytes", ""),
    column("time_ns", ""),
];

fn sums(sums: &RankSums) -> Vec<Cell> {
    vec![
        Cell::Ns(sums.file_ns),
        Cell::Count(sums.on_files[0]),
        Cell::Count(sums.on_files[1]),
        Cell::Count(sums.file_operations),
        Cell::Count(sums.other_operations),
        Cell::Ns(sums.other_ns),
        Cell::Count(sums.operations),
        Cell::Count(sums.failed),
        Cell::Count(sums.moved[0]),
        Cell::Count(sums.moved[1]),
        Cell::Ns(sums.ns),
    ]
}

/// Phases in which the job reads or writes.
pub(super) fn phases(input: &JobReportInput<'_>) -> Table {
    let mut all: Vec<(&'static str, &IoPhase)> = Vec::new();
    for (name, phases) in ["read", "write"].into_iter().zip(input.phases) {
        all.extend(phases.phases.iter().map(|phase| (name, phase)));
    }
    all.sort_by_key(|(name, phase)| (phase.columns.start, *name));
    let width = input.fold.axis.width_ns();
    let ranks = ComparedRanks::of(input.fold);
    let row = |(name, phase): (&str, &IoPhase)| {
        let within = |columns: [usize; 2]| Cell::ns(BoundedTime::of(input, columns).most);
        let cells = phase.ranks.saturating_mul(phase.columns.len() as u64);
        // A rank that is last for certain, by more than columns and clocks can hide.
        let last = last_in(input, phase).map(|(rank, _)| named(input, &ranks, rank));
        vec![
            Cell::Word(name.to_owned()),
            Cell::Ns(phase.columns.start as u64 * width),
            Cell::Ns((phase.columns.end as u64 * width).min(input.wall_ns())),
            Cell::Count(phase.bytes),
            Cell::Count(phase.ranks),
            within(phase.begins),
            within(phase.ends),
            Cell::share(phase.busy_columns, cells),
            last.map_or(Cell::None, |name| Cell::Name(name.into_bytes())),
        ]
    };
    Table {
        key: "phases",
        title: titled("I/O phases, in times since the first start", all.len()),
        columns: vec![
            key_column(0, "kind", "phase"),
            column("from_ns", "from"),
            column("until_ns", "until"),
            column("bytes", "bytes"),
            column("ranks", "ranks"),
            column("begin_spread_ns", "ranks begin within"),
            column("end_spread_ns", "ranks end within"),
            column("busy_share", "ranks busy"),
            column("last", "clearly last"),
        ],
        rows: all.into_iter().map(row).collect(),
    }
}

/// Ranks, those with most time first.
pub(super) fn ranks(input: &JobReportInput<'_>, limit: usize) -> Table {
    let (fold, facts) = (input.fold, input.facts);
    let is_used =
        |row: &&RankRow| row.sums.operations > 0 || !matches!(row.key.subject, RowSubject::Others);
    let numbers = fold.rows.iter().enumerate();
    let numbers: BTreeMap<JobRowKey, Option<u64>> =
        numbers.map(|(at, row)| (row.key, ComparedRanks::number(fold, at, row))).collect();
    let mut rows: Vec<&RankRow> = fold.rows.iter().filter(is_used).collect();
    rows.sort_by_key(|row| (Reverse(row.sums.file_ns), row.key));
    let total = rows.len();
    let (rows, rest) = first_rows(rows, limit);
    let balance = ComparedRanks::of(fold).balance(fold);
    let row = |row: &RankRow| {
        // Ranks that are not compared are not in the mean.
        let number = numbers.get(&row.key).copied().flatten();
        let is_compared = number.is_some_and(|rank| balance.compares(rank));
        let ratio = balance.file_ns.multiple(row.sums.file_ns);
        let ratio = ratio.filter(|_| is_compared).map_or(Cell::None, Cell::Mean);
        [details(row, ratio), sums(&row.sums), names(row, facts)].concat()
    };
    let mut cells: Vec<Vec<Cell>> = rows.into_iter().map(row).collect();
    cells.extend(rest_row(&rest));
    let details = [
        column("file_ns_ratio", "× mean time"),
        column("missing", "missing"),
        column("slowest_file_ns", "slowest file"),
        column("slowest_file", "its path"),
    ];
    let names = [
        column("recordings", ""),
        column("rank", ""),
        key_column(1, "host", "host"),
        key_column(0, "name", "rank"),
    ];
    Table {
        key: "ranks",
        title: titled("Ranks, by their time in operations on files", total),
        columns: details.into_iter().chain(SUMS).chain(names).collect(),
        rows: cells,
    }
}

/// Cells before the sums of a row: its part of the mean, what is missing, and its slowest file.
fn details(row: &RankRow, ratio: Cell) -> Vec<Cell> {
    let (file, ns) = match &row.slowest {
        Some((key, ns)) => {
            let [_, _, path] = file_cells(key);
            (path, Cell::Ns(*ns))
        }
        None => (Cell::None, Cell::None),
    };
    let missing = match row.missing.as_str() {
        "" => Cell::None,
        missing => Cell::Name(missing.as_bytes().to_vec()),
    };
    vec![ratio, missing, ns, file]
}

/// Cells that name a row.
fn names(row: &RankRow, facts: &JobFacts) -> Vec<Cell> {
    let rank = match row.key.subject {
        RowSubject::Rank(rank) => Cell::Count(rank),
        _ => Cell::None,
    };
    let [host, name] = [host_name(row.key.host, facts).to_owned(), row_name(row.key, facts)]
        .map(|name| Cell::Name(name.into_bytes()));
    vec![Cell::Count(row.recordings), rank, host, name]
}

/// Row of the ranks beyond the limit.
fn rest_row(rest: &[&RankRow]) -> Option<Vec<Cell>> {
    let mut sum = RankSums::default();
    rest.iter().for_each(|row| sum.merge(&row.sums));
    let missing = match rest.iter().filter(|row| !row.missing.is_empty()).count() as u64 {
        0 => Cell::None,
        ranks => Cell::Word(format!("parts of {}", counted(ranks, "rank"))),
    };
    let none = vec![Cell::None; 2];
    let details = [vec![Cell::None, missing], none.clone()].concat();
    let names = [none, vec![Cell::None, others(rest.len())]].concat();
    (!rest.is_empty()).then(|| [details, sums(&sum), names].concat())
}

/// Hosts, those with most time first.
pub(super) fn hosts(input: &JobReportInput<'_>, limit: usize) -> Table {
    let mut all: Vec<HostRow> = (0..input.facts.hosts.len()).map(HostRow::new).collect();
    for row in &input.fold.rows {
        if let Some(host) = all.get_mut(row.key.host) {
            host.add(row);
        }
    }
    for (host, facts) in all.iter_mut().zip(&input.facts.hosts) {
        host.recordings = facts.recordings;
    }
    all.sort_by_key(|host| (Reverse(host.sums.file_ns), host.host));
    let total = all.len();
    let (shown, rest) = first_rows(all, limit);
    let mut rows: Vec<Vec<Cell>> = shown
        .iter()
        .map(|host| {
            let facts = input.facts.hosts.get(host.host);
            let bound = facts.and_then(|facts| facts.bound_ns);
            let name = host_name(host.host, input.facts).as_bytes().to_vec();
            host.cells(Cell::ns(bound), Cell::Name(name))
        })
        .collect();
    if !rest.is_empty() {
        let mut sum = HostRow::new(0);
        rest.iter().for_each(|host| sum.merge(host));
        rows.push(sum.cells(Cell::None, others(rest.len())));
    }
    let names = [
        column("ranks", "ranks"),
        column("incomplete_ranks", "with missing parts"),
        column("recordings", "recordings"),
        column("clock_error_bound_ns", "clock ±"),
        key_column(0, "host", "host"),
    ];
    Table {
        key: "hosts",
        title: titled("Hosts, by the time of their ranks in operations on files", total),
        columns: SUMS.into_iter().chain(names).collect(),
        rows,
    }
}

/// Sums of a host.
struct HostRow {
    host: usize,
    ranks: u64,
    incomplete: u64,
    recordings: u64,
    sums: RankSums,
}

impl HostRow {
    fn new(host: usize) -> Self {
        Self { host, ranks: 0, incomplete: 0, recordings: 0, sums: RankSums::default() }
    }

    fn add(&mut self, row: &RankRow) {
        self.sums.merge(&row.sums);
        let is_rank = !matches!(row.key.subject, RowSubject::Others);
        self.ranks += u64::from(matches!(row.key.subject, RowSubject::Rank(_)));
        self.incomplete += u64::from(is_rank && !row.missing.is_empty());
    }

    fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
        self.recordings += other.recordings;
        self.ranks += other.ranks;
        self.incomplete += other.incomplete;
    }

    fn cells(&self, bound: Cell, name: Cell) -> Vec<Cell> {
        let counts = [self.ranks, self.incomplete, self.recordings].map(Cell::Count);
        [sums(&self.sums), counts.to_vec(), vec![bound, name]].concat()
    }
}

/// Files of several ranks, those of most ranks first.
pub(super) fn files(input: &JobReportInput<'_>, limit: usize) -> Table {
    let (shown, rest) = first_rows(input.fold.files.shared(), limit);
    let total = shown.len() + rest.len();
    let mut rows: Vec<Vec<Cell>> = shown
        .iter()
        .map(|file| {
            let [mounts, unverified, path] = file_cells(&file.name);
            let host = file.host.map(|host| host_name(host, input.facts).as_bytes().to_vec());
            let host = host.map_or_else(|| Cell::Word("(all hosts)".into()), Cell::Name);
            let mut cells = use_cells(&[file]);
            cells.push(Cell::Count(file.rows.len()));
            cells.extend([Cell::Word(ranks_of(file, input.fold)), mounts, unverified, host, path]);
            cells
        })
        .collect();
    if !rest.is_empty() {
        let mut cells = use_cells(&rest);
        cells.extend(vec![Cell::None; 5]);
        cells.push(others(rest.len()));
        rows.push(cells);
    }
    Table {
        key: "files",
        title: titled("Files of several ranks, by the number of ranks", total),
        columns: vec![
            column("time_ns", "time"),
            column("read_bytes", "read"),
            column("written_bytes", "written"),
            column("operations", "operations"),
            column("rank_count", "ranks"),
            column("ranks", "which"),
            column("mounts", ""),
            column("unverified", ""),
            column("host", "host"),
            key_column(0, "path", "file"),
        ],
        rows,
    }
}

/// Cells of the uses of files.
fn use_cells(files: &[&JobFile]) -> Vec<Cell> {
    let sum = |amount: fn(&JobFile) -> u64| {
        files.iter().fold(0, |sum: u64, file| sum.saturating_add(amount(file)))
    };
    vec![
        Cell::Ns(sum(|file| file.all.ns)),
        Cell::Count(sum(|file| file.all.moved[0])),
        Cell::Count(sum(|file| file.all.moved[1])),
        Cell::Count(sum(|file| file.all.operations)),
    ]
}

/// Numbers of the ranks that use a file.
fn ranks_of(file: &JobFile, fold: &JobFold) -> String {
    let keys = file.rows.rows().filter_map(|row| fold.rows.get(row));
    let rank = |row: &RankRow| match row.key.subject {
        RowSubject::Rank(rank) => Some(rank),
        _ => None,
    };
    let ranks: BTreeSet<u64> = keys.filter_map(rank).collect();
    ranges(&ranks)
}

/// Recordings that are not there, or not whole.
pub(super) fn gaps(facts: &JobFacts, limit: usize) -> Table {
    let total = facts.gaps.len();
    let (shown, rest) = first_rows(facts.gaps.iter().collect(), limit);
    let mut rows: Vec<Vec<Cell>> = shown
        .into_iter()
        .map(|gap| {
            let what = if gap.is_left_out { "left out" } else { "incomplete" };
            let [reason, path] =
                [&gap.reason, &gap.path].map(|text| Cell::Name(text.as_bytes().to_vec()));
            vec![Cell::Word(what.to_owned()), reason, path]
        })
        .collect();
    if !rest.is_empty() {
        rows.push(vec![Cell::None, Cell::None, others(rest.len())]);
    }
    Table {
        key: "gaps",
        title: titled("Recordings that are not there, or not whole", total),
        columns: vec![
            key_column(1, "state", "state"),
            column("reason", "reason"),
            key_column(0, "path", "recording"),
        ],
        rows,
    }
}
