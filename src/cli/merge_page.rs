//! `iotrace-perf merge LOG… -o NAME.html`: logs of a job → one page.
//!
//! One log is open at a time, and only sums and the cells of the maps are kept.

use std::ffi::OsStr;
use std::path::Path;

use super::completeness;
use super::convert::InputLog;
use super::error::CliError;
use super::file_staging::FreeName;
use super::merge_lines;
use super::merge_survey::{JobSurvey, SurveyedLog};
use super::message::{print_error, print_line};
use super::report::write_file;
use super::shown_names::{SHOWN_MAX, first_of};
use crate::analysis::job::fold::JobFold;
use crate::analysis::job::phases::IoPhases;
use crate::analysis::job::row_plan::{RecordedRanks, RecordingScope, RowPlan};
use crate::analysis::rank_balance::RankReading;
use crate::capture::header::JobPlace;
use crate::pipeline::{self, PipelineError};
use crate::report::job::{JobFacts, JobGap, JobHostFacts, JobReportInput, report};
use crate::report::page;
use crate::text::quantity::count;
use crate::text::table::Cell;
use crate::units::KernelTime;

/// Returns true if the name of an output is that of a page.
pub(super) fn is_page(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("html"))
}

/// Writes the page about the recordings of a job; `command` makes it again. `go_on` is called now
/// and then. Returns true if all recordings are there, and whole.
pub(super) fn write(
    survey: &JobSurvey,
    place: &FreeName,
    command: &str,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool, CliError> {
    let folded = FoldedJob::of(survey, go_on)?;
    let facts = facts(survey, &folded, command);
    let phases = [0, 1].map(|side| IoPhases::of(&folded.fold, side));
    let input = JobReportInput { fold: &folded.fold, facts: &facts, phases: &phases };
    write_file(place, &page::job_page(&input), go_on)?;
    let incomplete = facts.gaps.iter().filter(|gap| !gap.is_left_out);
    merge_lines::left_out(&survey.left_out);
    merge_lines::left_out_clocks(survey);
    for gap in incomplete.clone().take(SHOWN_MAX) {
        print_error(&format!("INCOMPLETE: {}: {}", gap.path, gap.reason));
    }
    let more = incomplete.count().saturating_sub(SHOWN_MAX) as u64;
    if more > 0 {
        print_error(&format!("… and {} more (incomplete recording)", count(more)));
    }
    let lines = first_finding(&input).into_iter().chain(facts.warnings.iter().cloned());
    lines.chain(facts.notes.iter().cloned()).for_each(|line| print_line(&line));
    Ok(survey.has_all() && !folded.has_damage)
}

/// First sentence of the report.
fn first_finding(input: &JobReportInput<'_>) -> Option<String> {
    let report = report(input, 1);
    let cells = report.tables.first()?.rows.first()?;
    match cells.last()? {
        Cell::Word(text) => Some(text.clone()),
        _ => None,
    }
}

/// Recordings of a job that were read.
struct FoldedJob {
    fold: JobFold,
    /// Recordings that are not whole.
    gaps: Vec<JobGap>,
    /// True if one of them is damaged, or has no end.
    has_damage: bool,
}

impl FoldedJob {
    /// Reads all recordings.
    fn of(survey: &JobSurvey, go_on: &mut dyn FnMut() -> bool) -> Result<Self, CliError> {
        let scopes: Vec<RecordingScope> = survey.logs.iter().map(scope).collect();
        let at = |wall: i128| {
            let since_zero = wall - i128::from(survey.zero_wall_ns);
            KernelTime(u64::try_from(since_zero.max(0)).unwrap_or(u64::MAX))
        };
        let starts = survey.logs.iter().map(|log| at(log.clock.at(log.start)));
        let ends = survey.logs.iter().map(|log| at(log.clock.at(log.end)));
        let [from, until] = [starts.min(), ends.max()].map(Option::unwrap_or_default);
        let fold = JobFold::new(RowPlan::new(&scopes), survey.zero_wall_ns, from, until);
        let mut folded = Self { fold, gaps: Vec::new(), has_damage: false };
        for (number, log) in survey.logs.iter().enumerate() {
            folded.add(number, log, go_on)?;
        }
        Ok(folded)
    }

    /// Adds a recording. One that cannot be read to its end counts up to there.
    fn add(
        &mut self,
        number: usize,
        log: &SurveyedLog,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), CliError> {
        let InputLog { items, header, .. } = match log.read() {
            Ok(input) => input,
            Err(error) => {
                self.note_gap(number, log, error.to_string(), RankReading::None);
                return Ok(());
            }
        };
        let mut sink = self.fold.begin(number, log.clock);
        let read = pipeline::run_threaded(items, header, &mut sink, go_on);
        match read {
            Ok(summary) => {
                sink.finish(summary.end_time().max(log.end));
                let is_damaged = summary.is_damaged();
                let reading = if is_damaged { RankReading::Part } else { RankReading::Whole };
                let missing = completeness::missing(&summary);
                if !missing.is_empty() {
                    self.note_gap(number, log, missing.join("; "), reading);
                }
            }
            Err(PipelineError::Interrupted) => return Err(CliError::Interrupted),
            Err(error) => {
                sink.finish(log.end);
                self.note_gap(number, log, error.to_string(), RankReading::Part);
            }
        }
        Ok(())
    }

    fn note_gap(&mut self, number: usize, log: &SurveyedLog, reason: String, reading: RankReading) {
        self.has_damage |= reading != RankReading::Whole;
        self.fold.note_missing(number, &reason, reading);
        let path = log.path.display().to_string();
        self.gaps.push(JobGap { path, is_left_out: false, reason });
    }
}

/// Host and ranks of a recording.
fn scope(log: &SurveyedLog) -> RecordingScope {
    let ranks = match log.rank() {
        Some(rank) => RecordedRanks::One(rank),
        None if !log.node_ranks.is_empty() => RecordedRanks::Several(log.node_ranks.clone()),
        None if log.is_system => RecordedRanks::Machine,
        None => RecordedRanks::None,
    };
    RecordingScope { host: log.host, ranks }
}

/// Facts of the job.
fn facts(survey: &JobSurvey, folded: &FoldedJob, command: &str) -> JobFacts {
    let host = |(number, host): (usize, &super::merge_survey::SurveyedHost)| {
        let logs = survey.logs.iter().filter(|log| log.host == number);
        let is_dated = logs.clone().any(SurveyedLog::is_dated);
        let bounds: Option<Vec<u64>> = host.clocks().map(|clock| clock.bound_ns()).collect();
        JobHostFacts {
            name: host.name.clone(),
            recordings: logs.clone().count() as u64,
            bound_ns: bounds.and_then(|all| all.into_iter().max()).filter(|_| is_dated),
            moved_ns: host.clocks().map(|clock| clock.moved_ns()).find(|ns| *ns != 0).unwrap_or(0),
            added_ns: logs.map(|log| log.clock.added_ns()).next().unwrap_or(0),
        }
    };
    let left_out = survey.left_out.iter().map(|log| JobGap {
        path: log.path.display().to_string(),
        is_left_out: true,
        reason: log.reason.clone(),
    });
    let paths = survey.logs.iter().map(|log| log.path.display().to_string());
    let is_dated = survey.logs.iter().any(SurveyedLog::is_dated);
    JobFacts {
        hosts: survey.hosts.iter().enumerate().map(host).collect(),
        recordings: paths.collect(),
        gaps: left_out.chain(folded.gaps.iter().cloned()).collect(),
        order_bound_ns: survey.order_bound_ns(),
        warnings: warnings(survey),
        notes: notes(survey),
        job: job_name(survey),
        zero_wall_ns: if is_dated { survey.zero_wall_ns } else { 0 },
        command: command.to_owned(),
    }
}

/// Sentences on ranks without a recording, and on operations that count twice.
fn warnings(survey: &JobSurvey) -> Vec<String> {
    let names = merge_lines::overlapping_hosts(survey);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let overlap = (!names.is_empty()).then(|| {
        format!(
            "Recordings of the whole machine overlap with others of {}: the sums have their common operations twice.",
            first_of(&names)
        )
    });
    let ranks = merge_lines::ranks(survey).into_iter().map(|line| {
        let mut letters = line.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        format!("{first}{}.", letters.as_str())
    });
    ranks.chain(overlap).collect()
}

/// Sentences on clocks and hosts.
fn notes(survey: &JobSurvey) -> Vec<String> {
    let moved = survey.hosts.iter().flat_map(|host| {
        let moved = host.clocks().filter_map(|clock| merge_lines::moved(clock.moved_ns()));
        moved.map(|moved| {
            format!("clock: the wall clock of {} moved by {moved} while it was recorded", host.name)
        })
    });
    let added = survey.hosts.iter().enumerate().filter_map(|(number, host)| {
        let log = survey.logs.iter().find(|log| log.host == number)?;
        let added = merge_lines::signed(log.clock.added_ns());
        (log.clock.added_ns() != 0)
            .then(|| format!("clock: {} is moved by {added} (--clock-offset)", host.name))
    });
    merge_lines::clock_lines(survey).into_iter().chain(moved).chain(added).collect()
}

/// Name of the job, if all recordings are of one.
fn job_name(survey: &JobSurvey) -> String {
    let places: Vec<&JobPlace> = survey.logs.iter().filter_map(|log| log.job.as_ref()).collect();
    let common = |value: fn(&JobPlace) -> &String| {
        let first = places.first().map(|job| value(job)).filter(|value| !value.is_empty())?;
        places.iter().all(|job| value(job) == first).then_some(first.as_str())
    };
    let manager = common(|job| &job.manager);
    let Some(id) = common(|job| &job.id) else { return String::new() };
    let step = common(|job| &job.step).map_or_else(String::new, |step| format!(", step {step}"));
    match manager {
        Some(manager) => format!("{manager} job {id}{step}"),
        None => format!("job {id}{step}"),
    }
}
