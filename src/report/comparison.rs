//! Report of `diff`: what differs between the runs of two versions.

use std::cmp::Reverse;

use super::rows::{column, first_rows, key_column};
use crate::analysis::comparison::call_interest::CallInterest;
use crate::analysis::comparison::profile::{CountMetric, Dimension, RunProfile, operation_of};
use crate::analysis::comparison::rank_test::median;
use crate::analysis::comparison::{
    ComparedGroup, ComparedValue, RunComparison, Verdict, compare_values,
};
use crate::text::escape::shown;
use crate::text::quantity::{self, counted, size, time, time_in_range};
use crate::text::table::{Cell, Column, Report, Table};

/// Runs of one version.
#[derive(Clone, Debug)]
pub struct ComparedRuns {
    /// Recording, directory of recordings, or command.
    pub name: String,
    /// Profiles of the runs, at least one.
    pub profiles: Vec<RunProfile>,
}

/// Form of the report.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonOptions {
    /// Rows of each table; 0: all.
    pub limit: usize,
    /// True to list counts that vary from run to run as well.
    pub has_varying: bool,
}

/// Key and title of the table of a dimension, and the title of its first column.
fn titles(dimension: Dimension) -> (&'static str, &'static str, &'static str) {
    match dimension {
        Dimension::Call => ("calls", "Operations that differ", "operation"),
        Dimension::Program => ("programs", "Programs that differ", "program"),
        Dimension::Directory => ("directories", "Directories that differ", "directory"),
        Dimension::File => ("files", "Files that differ", "file"),
        Dimension::Device => ("devices", "Disks that differ", "disk"),
    }
}

/// Word of a verdict in data.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::Different => "different",
        Verdict::Apart => "apart",
        Verdict::Varies => "varies",
        Verdict::OneRun => "one run",
    }
}

/// Returns the report on runs of two versions.
pub fn report(before: &ComparedRuns, after: &ComparedRuns, options: ComparisonOptions) -> Report {
    let comparison = RunComparison::new(&before.profiles, &after.profiles);
    let mut report = Report { kind: "diff", ..Report::default() };
    let side = |runs: &ComparedRuns| {
        let count = counted(runs.profiles.len() as u64, "run");
        Cell::Word(format!("{} ({count})", harmless(runs.name.as_bytes())))
    };
    let count = |runs: &ComparedRuns| Cell::Count(runs.profiles.len() as u64);
    let (different, varying) = numbers(&comparison);
    report.facts = vec![
        ("before", "before", side(before)),
        ("before_runs", "", count(before)),
        ("after", "after", side(after)),
        ("after_runs", "", count(after)),
        ("equal_counts", "", Cell::Count(comparison.equal_counts as u64)),
        ("different_counts", "", Cell::Count(different)),
        ("varying_counts", "", Cell::Count(varying)),
        ("renamed_files", "", Cell::Count(comparison.renamed.len() as u64)),
    ];
    let program = program_time(before, after);
    report.tables.push(findings(&comparison, &before.profiles, &after.profiles, program.as_ref()));
    for dimension in Dimension::ALL {
        report.tables.push(counts(&comparison, dimension, options));
    }
    report.tables.push(times(&comparison, program.as_ref(), options));
    report.tables.push(renamed(&comparison, options));
    report.notes = notes(&comparison, before, after, options);
    report
}

/// True if a report has found a difference of counts.
pub fn has_difference(report: &Report) -> bool {
    let is_found = |(key, _, value): &(&str, &str, Cell)| {
        *key == "different_counts" && *value != Cell::Count(0)
    };
    report.facts.iter().any(is_found)
}

/// Numbers of the counts that differ, and of those that vary.
fn numbers(comparison: &RunComparison) -> (u64, u64) {
    let is = |value: &&ComparedValue<CountMetric>| value.verdict == Verdict::Different;
    let different = comparison.counts.iter().filter(is).count();
    (different as u64, (comparison.counts.len() - different) as u64)
}

/// Times of the launched programs, if all runs have one.
fn program_time(before: &ComparedRuns, after: &ComparedRuns) -> Option<ComparedValue<()>> {
    let times = |runs: &ComparedRuns| -> Option<Vec<u64>> {
        runs.profiles.iter().map(|run| run.program_ns).collect()
    };
    Some(compare_values(times(before)?, times(after)?))
}

fn findings(
    comparison: &RunComparison,
    before: &[RunProfile],
    after: &[RunProfile],
    program: Option<&ComparedValue<()>>,
) -> Table {
    let mut sentences = Vec::new();
    let (different, _) = numbers(comparison);
    let number = |wanted| comparison.counts.iter().filter(|value| value.verdict == wanted).count();
    let apart = number(Verdict::Apart) as u64;
    if apart > 0 {
        sentences.push(format!(
            "the ranges of {} do not overlap, but these are too few runs to tell that from chance: \
             compare more (--runs 10)",
            counted(apart, "count")
        ));
    }
    if different == 0 && apart == 0 {
        sentences.push(same(before, after, number(Verdict::Varies) as u64));
    } else {
        sentences.extend(of_calls(comparison));
        sentences.extend(of_files(comparison));
    }
    sentences.extend(program.map(of_program));
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("text", "finding")],
        rows: sentences.into_iter().map(|sentence| vec![Cell::Word(sentence)]).collect(),
    }
}

/// Sentence about runs without a difference; `varying` counts are not equal in all of them.
fn same(before: &[RunProfile], after: &[RunProfile], varying: u64) -> String {
    let of = |metric| {
        let runs = before.iter().chain(after);
        values(&runs.map(|run| run.total.count(metric)).collect::<Vec<_>>(), metric)
    };
    let shown = match varying {
        0 => "no difference of counts".to_owned(),
        _ => format!("no difference of counts is shown; {} from run to run", varying_text(varying)),
    };
    format!(
        "{shown}: operations {}, read {}, written {} in each run",
        of(CountMetric::Operations),
        of(CountMetric::Read),
        of(CountMetric::Written)
    )
}

/// Number of counts that vary, with their verb.
fn varying_text(varying: u64) -> String {
    let verb = if varying == 1 { "varies" } else { "vary" };
    format!("{} {verb}", counted(varying, "count"))
}

/// Sentence about the kind of operation whose number has changed most, among those that work on
/// files, if there are any.
fn of_calls(comparison: &RunComparison) -> Option<String> {
    let rows = different(comparison, Dimension::Call);
    let is_work = |group, metric| interest(group, metric).is_some_and(CallInterest::is_work);
    let largest = rows.iter().min_by_key(|(group, value)| {
        let metric = value.metric;
        (!is_work(group, metric), metric.is_bytes(), Reverse(change_of(value)))
    });
    let (group, value) = *largest?;
    let more = match rows.len() {
        1 => String::new(),
        count => {
            format!(" (and {} more of kinds of operations)", counted(count as u64 - 1, "count"))
        }
    };
    let what = metric_word(value.metric, Dimension::Call);
    let [one, other] = [&value.before, &value.after].map(|all| values(all, value.metric));
    Some(format!(
        "{}: {what} {one} before, {other} after, {}{more}",
        harmless(&group.key),
        change(value)
    ))
}

/// Number of files that a sentence names.
const NAMED_MAX: usize = 2;

/// Sentences about files that only one version uses.
fn of_files(comparison: &RunComparison) -> Vec<String> {
    let used = |value: &ComparedValue<CountMetric>| {
        let sum = |all: &[u64]| all.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        (sum(&value.before) > 0, sum(&value.after) > 0)
    };
    let files = different(comparison, Dimension::File);
    let operations = files.iter().filter(|row| row.1.metric == CountMetric::Operations);
    let mut sentences = Vec::new();
    for (wanted, verb) in [((false, true), "used only after"), ((true, false), "used only before")]
    {
        let rows: Vec<_> = operations.clone().filter(|row| used(row.1) == wanted).collect();
        let names: Vec<String> =
            rows.iter().take(NAMED_MAX).map(|row| harmless(&row.0.key)).collect();
        if !names.is_empty() {
            let more = if rows.len() > names.len() { ", …" } else { "" };
            let count = counted(rows.len() as u64, "file");
            sentences.push(format!("{count} {verb}: {}{more}", names.join(", ")));
        }
    }
    sentences
}

fn of_program(times: &ComparedValue<()>) -> String {
    let [one, other] = [&times.before, &times.after].map(|all| spread(all));
    let verdict = match times.verdict {
        Verdict::OneRun => "one run is no evidence for times".to_owned(),
        Verdict::Different => ratio(times),
        _ => format!(
            "{} and {} do not show a difference",
            counted(times.before.len() as u64, "run"),
            times.after.len()
        ),
    };
    format!("the program ran {one} before, {other} after: {verdict}")
}

/// Ratio of the medians, in words.
fn ratio(times: &ComparedValue<()>) -> String {
    let (one, other) = (median(&times.before), median(&times.after));
    if one.min(other) == 0 {
        return if one == 0 { "only after" } else { "only before" }.to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
    let ratio = one.max(other) as f64 / one.min(other).max(1) as f64;
    format!("{ratio:.2} times as {}", if other > one { "long" } else { "fast" })
}

/// Counts of a dimension that differ, the largest changes first. Kinds of operations are ordered by
/// [`CallInterest`] before that.
fn different(
    comparison: &RunComparison,
    dimension: Dimension,
) -> Vec<(&ComparedGroup, &ComparedValue<CountMetric>)> {
    rows_of(comparison, dimension, |verdict| verdict == Verdict::Different)
}

fn rows_of(
    comparison: &RunComparison,
    dimension: Dimension,
    is_wanted: impl Fn(Verdict) -> bool,
) -> Vec<(&ComparedGroup, &ComparedValue<CountMetric>)> {
    let group = |value: &ComparedValue<CountMetric>| comparison.groups.get(value.group);
    let wanted = comparison.counts.iter().filter(|value| is_wanted(value.verdict));
    let rows = wanted.filter_map(|value| Some((group(value)?, value)));
    let mut rows: Vec<_> = rows.filter(|(group, _)| group.dimension == dimension).collect();
    rows.sort_by_key(|(group, value)| {
        let interest = interest(group, value.metric);
        let key = (Reverse(change_of(value)), value.metric, group.key.clone());
        (interest, value.metric.is_bytes(), key)
    });
    rows
}

/// Interest in a count of a kind of operation; of the other dimensions all counts are equal.
fn interest(group: &ComparedGroup, metric: CountMetric) -> Option<CallInterest> {
    let is_call = group.dimension == Dimension::Call;
    is_call.then(|| CallInterest::of(operation_of(&group.key), metric))
}

/// Size of the change of the medians.
fn change_of<M>(value: &ComparedValue<M>) -> u64 {
    median(&value.before).abs_diff(median(&value.after))
}

fn counts(comparison: &RunComparison, dimension: Dimension, options: ComparisonOptions) -> Table {
    let (key, title, name) = titles(dimension);
    let columns: Vec<Column> = vec![
        key_column(0, "name", name),
        column("metric", ""),
        column("", "what"),
        column("before_min", ""),
        column("before_max", ""),
        column("after_min", ""),
        column("after_max", ""),
        column("", "before"),
        column("", "after"),
        column("", "change"),
        column("verdict", ""),
    ];
    let is_shown = |verdict| matches!(verdict, Verdict::Different | Verdict::Apart);
    let is_wanted = |verdict| options.has_varying || is_shown(verdict);
    let (rows, rest) = first_rows(rows_of(comparison, dimension, is_wanted), options.limit);
    let row = |(group, value): (&ComparedGroup, &ComparedValue<CountMetric>)| {
        let word_of = |text: &str| Cell::Word(text.to_owned());
        let [low, high] = ends(&value.before).map(Cell::count);
        let [low_after, high_after] = ends(&value.after).map(Cell::count);
        vec![
            Cell::Name(group.key.clone()),
            word_of(value.metric.as_str()),
            word_of(metric_word(value.metric, dimension)),
            low,
            high,
            low_after,
            high_after,
            Cell::Word(values(&value.before, value.metric)),
            Cell::Word(values(&value.after, value.metric)),
            Cell::Word(change(value)),
            word_of(word(value.verdict)),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(row).collect();
    if !rest.is_empty() {
        let name = Cell::Word(format!("({} more, -n 0 shows all)", rest.len()));
        rows.push([vec![name], vec![Cell::None; columns.len() - 1]].concat());
    }
    Table { key, title: title.into(), columns, rows }
}

fn times(
    comparison: &RunComparison,
    program: Option<&ComparedValue<()>>,
    options: ComparisonOptions,
) -> Table {
    let columns = vec![
        column("dimension", ""),
        key_column(0, "name", "time in"),
        column("before_median_ns", ""),
        column("before_min_ns", ""),
        column("before_max_ns", ""),
        column("after_median_ns", ""),
        column("after_min_ns", ""),
        column("after_max_ns", ""),
        column("", "before"),
        column("", "after"),
        column("", "difference"),
        column("verdict", ""),
    ];
    let row = |dimension: &str, name: Cell, value: &ComparedValue<()>| {
        let numbers = [&value.before, &value.after].map(|all| {
            let [low, high] = ends(all).map(Cell::ns);
            [Cell::Ns(median(all)), low, high]
        });
        let result = match value.verdict {
            Verdict::Different => ratio(value),
            _ => "-".to_owned(),
        };
        let texts =
            [spread(&value.before), spread(&value.after), result, word(value.verdict).to_owned()];
        let names = [Cell::Word(dimension.to_owned()), name];
        [names.to_vec(), numbers.concat(), texts.map(Cell::Word).to_vec()].concat()
    };
    let group = |value: &ComparedValue<()>| comparison.groups.get(value.group);
    let all = comparison.times.iter().filter_map(|value| Some((group(value)?, value)));
    let is_shown =
        |group: &ComparedGroup| options.has_varying || group.dimension == Dimension::Call;
    let mut all: Vec<_> = all.filter(|(group, _)| is_shown(group)).collect();
    all.sort_by_key(|(group, value)| {
        (group.dimension, value.verdict != Verdict::Different, Reverse(change_of(value)))
    });
    let (shown, rest) = first_rows(all, options.limit);
    let whole = program.map(|value| row("run", Cell::Word("the whole run".into()), value));
    let mut rows: Vec<Vec<Cell>> = whole.into_iter().collect();
    rows.extend(shown.into_iter().map(|(group, value)| {
        let (dimension, _, _) = titles(group.dimension);
        row(dimension, Cell::Name(group.key.clone()), value)
    }));
    if !rest.is_empty() {
        let name = Cell::Word(format!("({} more)", rest.len()));
        rows.push([vec![Cell::None, name], vec![Cell::None; columns.len() - 2]].concat());
    }
    Table { key: "times", title: "Times: median (range)".into(), columns, rows }
}

/// Files that have another name in the second runs.
fn renamed(comparison: &RunComparison, options: ComparisonOptions) -> Table {
    let (shown, rest) = first_rows(comparison.renamed.clone(), options.limit);
    let name = |name: Vec<u8>| Cell::Name(name);
    let mut rows: Vec<Vec<Cell>> =
        shown.into_iter().map(|file| vec![name(file.before), name(file.after)]).collect();
    if !rest.is_empty() {
        rows.push(vec![Cell::Word(format!("({} more)", rest.len())), Cell::None]);
    }
    Table {
        key: "renamed",
        title: "Compared as one file".into(),
        columns: vec![key_column(0, "before", "before"), key_column(1, "after", "after")],
        rows,
    }
}

fn notes(
    comparison: &RunComparison,
    before: &ComparedRuns,
    after: &ComparedRuns,
    options: ComparisonOptions,
) -> Vec<String> {
    let mut notes = Vec::new();
    let (_, varying) = numbers(comparison);
    let runs = before.profiles.len().min(after.profiles.len());
    let is_listed = |value: &&ComparedValue<CountMetric>| value.verdict == Verdict::Apart;
    let listed = comparison.counts.iter().filter(is_listed).count() as u64;
    let hidden = varying.saturating_sub(listed);
    if hidden > 0 && !options.has_varying {
        let verb = if hidden == 1 { "is" } else { "are" };
        notes.push(format!(
            "{} from run to run and {verb} not listed; --json lists all",
            varying_text(hidden)
        ));
    }
    if runs == 1 {
        notes.push(
            "a side has one run: a count that varies from run to run looks like a difference, and \
             times are not compared; compare directories with several recordings, or commands: \
             iotrace-perf diff --runs 5 -- COMMAND -- COMMAND"
                .to_owned(),
        );
    }
    let all = before.profiles.iter().chain(&after.profiles);
    if all.clone().any(|run| run.has_further) {
        notes.push(
            "a run has more files or processes than a report has rows: the ones without a row are \
             in the counts of operations only"
                .to_owned(),
        );
    }
    notes
}

/// Smallest and largest value.
fn ends(all: &[u64]) -> [Option<u64>; 2] {
    [all.iter().min().copied(), all.iter().max().copied()]
}

/// Values of runs: one number, or their range.
fn values(all: &[u64], metric: CountMetric) -> String {
    let text = |value: Option<u64>| {
        let value = value.unwrap_or(0);
        if metric.is_bytes() { size(value) } else { quantity::count(value) }
    };
    let [low, high] = ends(all);
    if low == high { text(low) } else { format!("{}–{}", text(low), text(high)) }
}

/// Median of times and their range.
fn spread(all: &[u64]) -> String {
    match ends(all) {
        [Some(low), Some(high)] if low != high => time_in_range(median(all), low, high),
        _ => time(median(all)),
    }
}

/// Change of the medians.
fn change(value: &ComparedValue<CountMetric>) -> String {
    let (one, other) = (median(&value.before), median(&value.after));
    let difference = change_of(value);
    let text = if value.metric.is_bytes() { size(difference) } else { quantity::count(difference) };
    let sign = if other < one { "−" } else { "+" };
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let percent = difference as f64 / one.max(1) as f64 * 100.0;
    match one {
        0 => format!("{sign}{text} (new)"),
        _ if other == 0 => format!("{sign}{text} (none)"),
        _ => format!("{sign}{text} ({sign}{percent:.1} %)"),
    }
}

fn metric_word(metric: CountMetric, dimension: Dimension) -> &'static str {
    match (metric, dimension) {
        (CountMetric::Operations, Dimension::Device) => "requests",
        (CountMetric::Operations, _) => "operations",
        (CountMetric::Failed, _) => "failed",
        (_, Dimension::Device) => "bytes",
        (CountMetric::Read, _) => "read",
        (CountMetric::Written, _) => "written",
    }
}

fn harmless(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    shown(&mut out, bytes, b"");
    String::from_utf8_lossy(&out).into_owned()
}
