//! Last lines of a report on a job: what is missing, and what its recordings have in common.

use super::completeness;
use super::converted::{Converted, JobState};
use super::job_overlap::overlap;
use crate::text::quantity::{count, counted, time};
use crate::text::table::{Cell, Report};

/// Adds the counts of a job to a report, what is missing, and notes.
pub(super) fn add_to(report: &mut Report, converted: &Converted, job: &JobState) {
    report.facts.extend([
        ("recordings", "recordings", Cell::Count(job.captures)),
        ("recordings_read", "", Cell::Count(job.read)),
        ("host_count", "hosts", Cell::Count(job.hosts)),
        ("rank_count", "ranks", Cell::Count(job.ranks)),
        ("job_size", "", Cell::count(job.size)),
        ("clock_error_bound_ns", "", Cell::ns(job.bound_ns)),
        ("overlapping_hosts", "", Cell::Count(job.overlapping_hosts.len() as u64)),
    ]);
    report.incomplete.clone_from(&job.incomplete);
    let more = job.incomplete_count.saturating_sub(job.incomplete.len()) as u64;
    if more > 0 {
        report.incomplete.push(format!("and {} more recordings", count(more)));
    }
    report.notes.extend(notes(converted, job));
    if converted.filter_notes.is_empty() {
        completeness::add_stat_storm(report, &converted.summary);
    }
}

fn notes(converted: &Converted, job: &JobState) -> Vec<String> {
    let summary = &converted.summary;
    let mut notes = converted.filter_notes.clone();
    notes.push(format!(
        "job: {} of {} of {} read, one after the other; times are those since its start",
        count(job.read),
        counted(job.captures, "recording"),
        counted(job.hosts, "host")
    ));
    if let Some(size) = job.size.filter(|size| *size > job.ranks && job.ranks > 0) {
        notes.push(format!("{} of {} are recorded", count(job.ranks), counted(size, "rank")));
    }
    if job.incomplete_count == 0 {
        notes.extend(completeness::complete(summary));
    } else {
        let unknown = completeness::unknown(summary);
        notes.extend((!unknown.is_empty()).then(|| format!("not known: {}", unknown.join(", "))));
    }
    let overlapping: Vec<&str> = job.overlapping_hosts.iter().map(String::as_str).collect();
    notes.extend(overlap(&overlapping));
    notes.extend(job.notes.iter().cloned());
    notes.extend(clock(job));
    notes.extend(completeness::not_recorded(summary));
    notes
}

/// Line on the order of events of different hosts.
fn clock(job: &JobState) -> Option<String> {
    match job.bound_ns {
        Some(0) => None,
        Some(bound) => Some(format!(
            "clock: times of different hosts that are less than {} apart have no known order, if \
             the wall clocks are right (iotrace-perf info has the clock of each)",
            time(bound)
        )),
        None => Some(
            "clock: a recording has no dates: its times and those of others have no known order"
                .to_owned(),
        ),
    }
}
