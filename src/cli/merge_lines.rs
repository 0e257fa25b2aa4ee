//! Last lines of a merge: hosts, ranks, clocks, and what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::job_overlap::overlap;
use super::merge_clock_lines;
use super::merge_result::{Merged, MergedCounts};
use super::merge_survey::{JobSurvey, OmittedLog, SurveyedHost, SurveyedLog};
use super::message::{print_error, print_line};
use super::shown_names::{SHOWN_MAX, first_of};
use super::summary_lines;
use crate::analysis::call_totals::OnFiles;
use crate::report::job::ranges;
use crate::text::quantity::{count, counted, counted_as, size, time};

/// Value of the archive's property about its clock.
pub(super) const CLOCK: &str = "ns; wall clocks of the hosts, read at the start and end of each \
                                recording; events were moved to it when they were written";

/// Largest error of reading two clocks, ns: changes below it are none.
const MOVED_NS: u64 = 20_000;

/// Prints what was merged, and what is missing, to standard error.
pub(super) fn print(merged: &Merged, archive: &Path) {
    let survey = &merged.survey;
    left_out(&survey.left_out);
    left_out_clocks(survey);
    for OmittedLog { path, reason } in merged.incomplete.iter().take(SHOWN_MAX) {
        print_error(&format!("INCOMPLETE: {}: {reason}", path.display()));
    }
    more(merged.incomplete.len(), "incomplete recording").iter().for_each(|line| print_error(line));
    print_line(&format!("wrote {0}; open it: vampir {0}", archive.display()));
    print_line(&merged_line(merged));
    let hosts = survey.hosts.iter().zip(&merged.hosts).enumerate();
    for (number, (host, counts)) in hosts.take(SHOWN_MAX) {
        let logs: Vec<&SurveyedLog> = survey.logs.iter().filter(|log| log.host == number).collect();
        print_line(&host_line(host, counts, &logs));
    }
    more(survey.hosts.len(), "host").iter().for_each(|line| print_line(line));
    let lines = of_survey(survey).into_iter().chain(shared(merged));
    lines.for_each(|line| print_line(&line));
    summary_lines::limits(&merged.archive.archive).iter().for_each(|line| print_line(line));
}

/// Lines on ranks, clocks, parts and operations that are there twice.
pub(super) fn of_survey(survey: &JobSurvey) -> Vec<String> {
    ranks(survey).into_iter().chain(clock_lines(survey)).chain(overlaps(survey)).collect()
}

/// Returns lines on the clocks of the recordings.
pub(super) fn clock_lines(survey: &JobSurvey) -> Vec<String> {
    let notes = survey.clock_notes.iter().cloned();
    [clock(survey)].into_iter().chain(notes).chain(parts(survey)).collect()
}

/// Prints the recordings that are left out.
pub(super) fn left_out(left_out: &[OmittedLog]) {
    left_out_of(left_out, "recording left out");
}

/// Prints the comparisons of clocks that are left out.
pub(super) fn left_out_clocks(survey: &JobSurvey) {
    left_out_of(&survey.left_out_clocks, "file of clocks left out");
}

fn left_out_of(left_out: &[OmittedLog], noun: &str) {
    for OmittedLog { path, reason } in left_out.iter().take(SHOWN_MAX) {
        print_error(&format!("LEFT OUT: {}: {reason}", path.display()));
    }
    more(left_out.len(), noun).iter().for_each(|line| print_error(line));
}

/// Line on things that are not shown.
fn more(all: usize, noun: &str) -> Option<String> {
    let more = all.saturating_sub(SHOWN_MAX) as u64;
    (more > 0).then(|| format!("… and {} more ({noun})", count(more)))
}

fn merged_line(merged: &Merged) -> String {
    let none = OnFiles::default();
    let files = merged.hosts.iter().fold(none, |sum, counts| sum.plus(counts.files));
    let requests: u64 = merged.hosts.iter().map(|counts| counts.requests).sum();
    format!(
        "merged {} of {}: {} on files, read {}, wrote {}; {}; {} with {}",
        counted(merged.survey.logs.len() as u64, "recording"),
        counted(merged.survey.hosts.len() as u64, "host"),
        counted(files.count, "operation"),
        size(files.read),
        size(files.written),
        counted(requests, "block request"),
        counted(merged.archive.archive.locations, "location"),
        counted(merged.archive.archive.events, "event"),
    )
}

fn host_line(host: &SurveyedHost, counts: &MergedCounts, logs: &[&SurveyedLog]) -> String {
    let ranks: BTreeSet<u64> = logs.iter().flat_map(|log| log.ranks()).collect();
    let ranks = match ranks.len() {
        0 => String::new(),
        1 => format!(", rank {}", ranges(&ranks)),
        _ => format!(", ranks {}", ranges(&ranks)),
    };
    let moved: Vec<String> = host.clocks().filter_map(|clock| moved(clock.moved_ns())).collect();
    let moved = match moved.as_slice() {
        [] => String::new(),
        moved => format!("; its wall clock moved by {} meanwhile", moved.join(", ")),
    };
    let bounds: Option<Vec<u64>> = host.clocks().map(|clock| clock.bound_ns()).collect();
    let bound = bounds.and_then(|bounds| bounds.into_iter().max());
    let bound = bound.filter(|_| logs.iter().any(|log| log.is_dated()));
    let clock =
        bound.map_or(", no dates".to_owned(), |bound| merge_clock_lines::host_clock(logs, bound));
    let added = logs.first().map_or(0, |log| log.clock.added_ns());
    let added = match added {
        0 => String::new(),
        ns => format!(", moved by {} (--clock-offset)", signed(ns)),
    };
    format!(
        "{}: {}{ranks}{clock}{added}{moved}",
        host.name,
        counted(counts.recordings, "recording")
    )
}

/// Change of a wall clock, unless it is within the error of reading it.
pub(super) fn moved(ns: i64) -> Option<String> {
    (ns.unsigned_abs() > MOVED_NS).then(|| signed(ns))
}

pub(super) fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { '-' } else { '+' }, time(ns.unsigned_abs()))
}

/// Properties of a host about its clock.
pub(super) fn clock_facts(host: &SurveyedHost, log: Option<&SurveyedLog>) -> Vec<(String, String)> {
    let bound = host.clocks().filter_map(|clock| clock.bound_ns()).max();
    let moved = host.clocks().map(|clock| clock.moved_ns()).find(|ns| *ns != 0);
    let added = log.map(|log| log.clock.added_ns()).filter(|ns| *ns != 0);
    let facts = [
        ("Clock error bound (ns)", Some(bound.map_or("unknown".to_owned(), |ns| ns.to_string()))),
        ("Clock moved meanwhile (ns)", moved.map(|ns| ns.to_string())),
        ("Clock offset given (ns)", added.map(|ns| ns.to_string())),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Largest size of a job whose missing ranks are looked for.
const SIZE_MAX: u64 = 1 << 24;

/// Lines on ranks without a recording, and on those with several.
pub(super) fn ranks(survey: &JobSurvey) -> Vec<String> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for rank in survey.logs.iter().flat_map(SurveyedLog::ranks) {
        *counts.entry(rank).or_default() += 1;
    }
    let sizes = survey.logs.iter().filter_map(|log| log.job.as_ref()?.size);
    let size = sizes.max().unwrap_or(0).min(SIZE_MAX);
    let missing: BTreeSet<u64> = (0..size).filter(|rank| !counts.contains_key(rank)).collect();
    let several: BTreeSet<u64> =
        counts.iter().filter(|(_, count)| **count > 1).map(|(rank, _)| *rank).collect();
    let mut lines = Vec::new();
    if !missing.is_empty() && !counts.is_empty() {
        lines.push(format!(
            "ranks of {} without a recording of their own: {}",
            count(size),
            ranges(&missing)
        ));
    }
    if !several.is_empty() {
        lines.push(format!("several recordings have the same rank: {}", ranges(&several)));
    }
    lines
}

/// Line on the order of events of different hosts.
fn clock(survey: &JobSurvey) -> String {
    let undated = survey.logs.iter().filter(|log| !log.is_dated()).count() as u64;
    let bound = survey.order_bound_ns();
    if let Some(line) = bound.and_then(|bound| merge_clock_lines::order(survey, bound)) {
        return line;
    }
    match bound {
        Some(0) => "clock: all recordings are of one clock, their order is exact".to_owned(),
        Some(bound) => format!(
            "clock: events of different hosts that are less than {} apart have no known order, \
             if the wall clocks are right; logs do not show whether they are (NTP, PTP). A known \
             error: --clock-offset HOST=+12.3ms",
            time(bound)
        ),
        None => format!(
            "clock: {} no dates and shown as if begun with the earliest one: the order of \
             its events and those of others is not known",
            counted_as(undated, ["recording has", "recordings have"])
        ),
    }
}

/// Line on parts of longer recordings.
fn parts(survey: &JobSurvey) -> Option<String> {
    let parts = survey.logs.iter().filter(|log| log.is_part).count() as u64;
    (parts > 0).then(|| {
        format!(
            "clock: {} of a longer one (--rotate, --ring): the wall clock was read at its start, \
             and what was set later is in no bound",
            counted_as(parts, ["recording is a part", "recordings are parts"])
        )
    })
}

/// Line on recordings that have the same operations.
fn overlaps(survey: &JobSurvey) -> Option<String> {
    let names = overlapping_hosts(survey);
    overlap(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the names of hosts of which a recording of the whole machine overlaps with another one.
pub(super) fn overlapping_hosts(survey: &JobSurvey) -> Vec<String> {
    let mut hosts = BTreeSet::new();
    let systems = survey.logs.iter().enumerate().filter(|(_, log)| log.is_system);
    for (number, system) in systems {
        let others = survey.logs.iter().enumerate().filter(|(other, _)| *other != number);
        if others.into_iter().any(|(_, other)| system.overlaps(other)) {
            hosts.insert(system.host);
        }
    }
    hosts.iter().filter_map(|&host| Some(survey.hosts.get(host)?.name.clone())).collect()
}

/// Line on files that several hosts have.
fn shared(merged: &Merged) -> Option<String> {
    let archive = &merged.archive;
    if archive.shared_files == 0 {
        let text = "files: none on a file system that is known to be shared; a path on two hosts \
                    is two files";
        return (merged.survey.hosts.len() > 1).then(|| text.to_owned());
    }
    let sources: Vec<String> =
        archive.shared_sources.iter().map(|(kind, source)| format!("{kind} {source}")).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    Some(format!(
        "files: {} on shared file systems (the same for all hosts by type, source and path): {}",
        count(archive.shared_files),
        first_of(&sources)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(signed(-12_300_000), "-12.3 ms");
        assert_eq!((moved(20_000), moved(-50_000_000)), (None, Some("-50.0 ms".to_owned())));
    }
}
