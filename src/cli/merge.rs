//! `iotrace-perf merge LOG… -o NAME.otf2`: logs of a job → one OTF2 archive, or one page
//! ([`merge_page`]).
//!
//! ```text
//!   header, end of each log ──► hosts, clocks, duplicates        (survey)
//!   log 1 ──► its locations ─┐
//!   log 2 ──► its locations ─┼─► definitions of all ──► archive
//!   …                        ┘
//! ```
//!
//! One log is open at a time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::archive_staging::StagedArchive;
use super::completeness;
use super::convert::{InputLog, completeness_facts, end_facts};
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::file_staging::FreeName;
use super::interruptible::until_signal;
use super::merge_args::{ClockOffset, MergeArgs};
use super::merge_clock_lines;
use super::merge_clocks;
use super::merge_lines;
use super::merge_page;
use super::merge_result::{Merged, MergedCounts};
use super::merge_survey::{JobSurvey, LEAD_NS, OmittedLog, SurveyedLog};
use super::output::{OpenOutput, Output, substitute};
use super::shown_names;
use crate::analysis::call_totals::{Totals, WithTotals};
use crate::capture::header::JobPlace;
use crate::otf2::{EndFacts, JobCapture, JobEnd, JobHost, JobSink, OtfError, OtfOptions};
use crate::pipeline::{self, PipelineError, Summary};
use crate::sys::output_dir::Users;
use crate::sys::rlimits;

pub(super) fn run(args: &MergeArgs) -> Result<ExitCode, CliError> {
    let output = MergeOutput::parse(args)?;
    let if_interrupted = match &output {
        MergeOutput::Archive(_) => "no archive was made",
        MergeOutput::Page(_) => "no page was made",
    };
    let is_whole = until_signal(if_interrupted, |go_on| make(args, output, go_on))?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// Makes the output. Returns true if all recordings are there, and whole.
fn make(
    args: &MergeArgs,
    output: MergeOutput,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool, CliError> {
    let mut survey = JobSurvey::of(&args.logs, args.clocks.is_empty());
    if survey.logs.is_empty() {
        merge_lines::left_out(&survey.left_out);
        return Err(CliError::Usage("none of the recordings can be read: nothing to merge".into()));
    }
    merge_clocks::apply(&mut survey, &args.clocks);
    correct(&mut survey, &args.clock_offset)?;
    match output {
        MergeOutput::Archive(output) => {
            archive(survey, &output.open(&Users::caller(), args.force)?, go_on)
        }
        MergeOutput::Page(place) => merge_page::write(&survey, &place, &command_line(args), go_on),
    }
}

/// Writes the archive, and the last lines. Returns true if all recordings are there, and whole.
fn archive(
    survey: JobSurvey,
    output: &OpenOutput,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool, CliError> {
    let merged = merge(survey, output, go_on)?;
    merge_lines::print(&merged, &output.output.archive());
    Ok(merged.survey.has_all() && !merged.has_damage)
}

/// Output of a merge.
enum MergeOutput {
    Archive(Output),
    Page(FreeName),
}

impl MergeOutput {
    /// Parses `-o`.
    fn parse(args: &MergeArgs) -> Result<Self, CliError> {
        let path = PathBuf::from(substitute(&args.output)?);
        if merge_page::is_page(&path) {
            return Ok(Self::Page(FreeName::find(&path, &Users::caller(), args.force)?));
        }
        archive_output(&args.output).map(Self::Archive)
    }
}

/// Command that makes the output again.
fn command_line(args: &MergeArgs) -> String {
    let shown = args.logs.iter().take(LOGS_SHOWN).map(|log| log.display().to_string());
    let more = if args.logs.len() > LOGS_SHOWN { " …" } else { "" };
    let logs = shown.collect::<Vec<_>>().join(" ");
    format!("iotrace-perf merge {logs}{more} -o {}", Path::new(&args.output).display())
}

/// Largest number of names of recordings in the command.
const LOGS_SHOWN: usize = 4;

/// Parses `-o`.
fn archive_output(text: &OsStr) -> Result<Output, CliError> {
    let text = substitute(text)?;
    let path = Path::new(&text);
    if path.extension() != Some(OsStr::new("otf2")) || path.is_dir() {
        let name = path.with_extension("otf2");
        return Err(CliError::Usage(format!(
            "-o {}: recordings are merged into an OTF2 archive, a page or an index; try: -o {}, -o {} or -o {}/",
            path.display(),
            name.display(),
            path.with_extension("html").display(),
            path.display()
        )));
    }
    Output::parse(&text)
}

/// Adds the offsets that the user gave to the clocks of their hosts, in place of those that an
/// index has for these hosts.
pub(super) fn correct(survey: &mut JobSurvey, offsets: &[ClockOffset]) -> Result<(), CliError> {
    for log in &mut survey.logs {
        let name = survey.hosts.get(log.host).map(|host| &host.name);
        if offsets.iter().any(|offset| Some(&offset.host) == name) {
            log.clock = log.clock.uncorrected();
        }
    }
    for ClockOffset { host, ns } in offsets {
        let Some(number) = survey.hosts.iter().position(|known| known.name == *host) else {
            let names: Vec<&str> = survey.hosts.iter().map(|known| known.name.as_str()).collect();
            return Err(CliError::Usage(format!(
                "--clock-offset {host}: no recording is of this host; hosts: {}",
                shown_names::first_of(&names)
            )));
        };
        for log in survey.logs.iter_mut().filter(|log| log.host == number) {
            log.clock = log.clock.corrected_by(*ns);
        }
    }
    // An offset may lead to before the first start.
    let starts = survey.logs.iter().map(|log| log.clock.at(log.start));
    let early = i128::from(survey.zero_wall_ns) - starts.min().unwrap_or_default();
    if early > 0 {
        // Some records are older than the start.
        let lead = u64::try_from(early).unwrap_or(u64::MAX).saturating_add(LEAD_NS);
        survey.zero_wall_ns = survey.zero_wall_ns.saturating_sub(lead);
    }
    Ok(())
}

/// Writes the archive. `go_on` is called now and then.
fn merge(
    survey: JobSurvey,
    output: &OpenOutput,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Merged, CliError> {
    let options = OtfOptions {
        // The other half is for other files of the library, and for us.
        open_files_max: rlimits::raise_open_files() / 2,
        block_on_threads: true,
        ..OtfOptions::default()
    };
    output.refuse_existing()?;
    let unfinished = StagedArchive::new(output)?;
    let failed = |error: &OtfError| merge_error(output, error);
    let names = survey.hosts.iter().map(|host| host.name.clone()).collect();
    let (path, name) = (unfinished.path(), &output.output.name);
    let sink = {
        let _as = unfinished.enter()?;
        JobSink::create(&path, name, names, survey.zero_wall_ns, options)
    };
    let mut merger = ArchiveMerger {
        sink: sink.map_err(|error| failed(&error))?,
        hosts: vec![MergedCounts::default(); survey.hosts.len()],
        incomplete: Vec::new(),
        has_damage: false,
        last_wall_ns: survey.zero_wall_ns,
    };
    for log in &survey.logs {
        // The caller may read logs that the owner of the archive may not.
        let input = log.read();
        let _as = unfinished.enter()?;
        merger.add(log, input, output, go_on)?;
    }
    let end = job_end(&survey, &merger);
    let ArchiveMerger { sink, hosts, incomplete, has_damage, .. } = merger;
    let archive = {
        let _as = unfinished.enter()?;
        sink.finish(&end).map_err(|error| failed(&error))?
    };
    let merged = Merged { survey, hosts, incomplete, has_damage, archive };
    unfinished.finish()?;
    Ok(merged)
}

fn merge_error(output: &OpenOutput, error: &OtfError) -> CliError {
    CliError::MergedArchive { path: output.output.archive(), message: error.to_string() }
}

/// Archive that recordings are added to.
struct ArchiveMerger {
    sink: JobSink,
    /// Counts by host.
    hosts: Vec<MergedCounts>,
    incomplete: Vec<OmittedLog>,
    has_damage: bool,
    /// Last wall-clock time of a recording, ns since 1970.
    last_wall_ns: u64,
}

impl ArchiveMerger {
    /// Adds a recording. One that cannot be read to its end is in the archive up to there.
    fn add(
        &mut self,
        log: &SurveyedLog,
        input: Result<InputLog, CliError>,
        output: &OpenOutput,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), CliError> {
        let InputLog { items, header, .. } = match input {
            Ok(input) => input,
            Err(error) => {
                self.note_damage(&log.path, error.to_string());
                return Ok(());
            }
        };
        let host = u32::try_from(log.host).unwrap_or(u32::MAX);
        let capture = JobCapture { host, rank: log.rank(), clock: log.clock, header: &header };
        self.sink.begin(capture);
        let mut totals = Totals::default();
        let mut sink = WithTotals { totals: &mut totals, sink: &mut self.sink };
        let read = pipeline::run_threaded(items, header, &mut sink, go_on);
        let failed = |error: &OtfError| merge_error(output, error);
        let facts = match &read {
            Ok(summary) => end_facts(summary),
            Err(PipelineError::Sink(error)) => return Err(failed(error)),
            Err(PipelineError::Interrupted) => return Err(CliError::Interrupted),
            Err(_) => EndFacts::default(),
        };
        self.sink.end(&facts).map_err(|error| failed(&error))?;
        self.add_totals(log, &totals);
        match read {
            Ok(summary) => self.count(log, &summary),
            Err(error) => {
                self.note_damage(&log.path, error.to_string());
                // What the rest of the log says about losses is not known.
                let host = self.hosts.get_mut(log.host).into_iter();
                let values = host.flat_map(|host| host.completeness.values_mut());
                values.for_each(|value| *value = UNKNOWN.to_owned());
            }
        }
        Ok(())
    }

    fn note_damage(&mut self, path: &Path, reason: String) {
        self.has_damage = true;
        self.incomplete.push(OmittedLog { path: path.into(), reason });
    }

    /// Adds what was read of a recording to the counts of its host.
    fn add_totals(&mut self, log: &SurveyedLog, totals: &Totals) {
        let Some(host) = self.hosts.get_mut(log.host) else { return };
        host.recordings += 1;
        host.files = host.files.plus(totals.on_files());
        host.requests += totals.blocks.values().map(|blocks| blocks.requests).sum::<u64>();
    }

    /// Notes what is missing of a recording that was read to its end.
    fn count(&mut self, log: &SurveyedLog, summary: &Summary) {
        self.has_damage |= summary.torn || summary.damaged_bytes > 0 || summary.end.is_none();
        let missing = completeness::missing(summary);
        if !missing.is_empty() {
            let (path, reason): (PathBuf, String) = (log.path.clone(), missing.join("; "));
            self.incomplete.push(OmittedLog { path, reason });
        }
        let last = log.clock.at(summary.end_time().max(log.end)).max(0);
        self.last_wall_ns = self.last_wall_ns.max(u64::try_from(last).unwrap_or(u64::MAX));
        let Some(host) = self.hosts.get_mut(log.host) else { return };
        for (name, value) in completeness_facts(summary) {
            let sum = host.completeness.entry(name).or_insert_with(|| "0".to_owned());
            *sum = added(sum, &value);
        }
    }
}

/// Value of a count that is not known.
const UNKNOWN: &str = "unknown";

/// Sum of two numbers as texts; `unknown` if one of them is no number.
fn added(sum: &str, value: &str) -> String {
    match (sum.parse::<i64>(), value.parse::<i64>()) {
        (Ok(sum), Ok(value)) => sum.saturating_add(value).to_string(),
        _ => UNKNOWN.to_owned(),
    }
}

/// Facts for the end of the archive.
fn job_end(survey: &JobSurvey, merger: &ArchiveMerger) -> JobEnd {
    let hosts: Vec<JobHost> = survey
        .hosts
        .iter()
        .zip(&merger.hosts)
        .enumerate()
        .map(|(number, (host, counts))| {
            let mut properties = host.facts.clone();
            properties.push(("Recordings".to_owned(), counts.recordings.to_string()));
            let given = survey.logs.iter().find(|log| log.host == number);
            properties.extend(merge_lines::clock_facts(host, given));
            properties.extend(merge_clock_lines::host_facts(survey, host, given));
            properties.extend(counts.completeness.clone());
            JobHost { name: host.name.clone(), properties }
        })
        .collect();
    let starts = survey.logs.iter().map(|log| log.clock.at(log.start));
    let start = u64::try_from(starts.min().unwrap_or_default().max(0)).unwrap_or(u64::MAX);
    let machine = match hosts.as_slice() {
        [host] => host.name.clone(),
        hosts => format!("{} hosts", hosts.len()),
    };
    JobEnd {
        properties: archive_facts(survey, merger),
        machine,
        description: format!("{} recordings, merged", survey.logs.len()),
        span_ns: [start, merger.last_wall_ns],
        hosts,
    }
}

/// Properties of the archive.
fn archive_facts(survey: &JobSurvey, merger: &ArchiveMerger) -> Vec<(String, String)> {
    let bound = survey.order_bound_ns().map_or("unknown".to_owned(), |bound| bound.to_string());
    let mut facts = vec![
        ("hosts".to_owned(), survey.hosts.len().to_string()),
        ("recordings".to_owned(), survey.logs.len().to_string()),
        ("recordings_left_out".to_owned(), survey.left_out.len().to_string()),
        (
            "clock".to_owned(),
            merge_clock_lines::clock_property(survey).unwrap_or(merge_lines::CLOCK.to_owned()),
        ),
        ("clock_error_bound_ns".to_owned(), bound),
        ("clock_zero_realtime_ns".to_owned(), survey.zero_wall_ns.to_string()),
    ];
    let mut sums: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in merger.hosts.iter().flat_map(|host| &host.completeness) {
        let sum = sums.entry(name.clone()).or_insert_with(|| "0".to_owned());
        *sum = added(sum, value);
    }
    facts.extend(sums);
    let places: Vec<&JobPlace> = survey.logs.iter().filter_map(|log| log.job.as_ref()).collect();
    let size = places.iter().filter_map(|job| job.size).max().map(|size| size.to_string());
    let common = |value: fn(&JobPlace) -> &String| {
        let first = places.first().map(|job| value(job))?;
        places.iter().all(|job| value(job) == first).then(|| first.clone())
    };
    let of_job = [
        ("size", size),
        ("job_manager", common(|job| &job.manager)),
        ("job_id", common(|job| &job.id)),
        ("job_step", common(|job| &job.step)),
    ];
    for (name, value) in of_job {
        facts.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value)));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_with_an_unknown_part_are_unknown() {
        assert_eq!(added("3", "4"), "7");
        assert_eq!(added("3", "unknown"), "unknown");
        assert_eq!(added("unknown", "4"), "unknown");
    }

    #[test]
    fn outputs_are_archives() {
        let refused = |text: &str| archive_output(OsStr::new(text)).is_err();
        assert!(refused("job") && refused("job/") && refused("job.iocap") && refused("/tmp"));
        let output = archive_output(OsStr::new("a/job.otf2")).expect("an archive");
        assert_eq!(output.archive(), Path::new("a/job.otf2"));
    }
}
