//! Lines and properties of a merge about clocks that messages have compared.

use super::clock_source::ClockSource;
use super::merge_survey::{JobSurvey, SurveyedHost, SurveyedLog};
use super::shown_names::{SHOWN_MAX, first_of};
use crate::text::quantity::time;

/// Line on hosts whose comparisons do not fit together; `None`: there are none.
pub(super) fn excess(hosts: &[&str]) -> Option<String> {
    (!hosts.is_empty()).then(|| {
        format!(
            "clock: the comparisons of {} are not on a line: a clock stood still, or a clock \
             daemon changed its rate; the bound has the difference",
            first_of(hosts)
        )
    })
}

/// Lines on wall clocks that are wrong.
pub(super) fn wall_errors(hosts: &[SurveyedHost], reference: &str) -> Vec<String> {
    let wrong = |host: &SurveyedHost| {
        let found = host.wall_error?;
        let side = if found.ns < 0 { "behind" } else { "ahead of" };
        Some(format!(
            "clock: the wall clock of {} was {} {side} that of {reference} (± {}); its events are \
             placed by messages; check its NTP or PTP",
            host.name,
            time(found.ns.unsigned_abs()),
            time(found.bound_ns)
        ))
    };
    let all: Vec<String> = hosts.iter().filter_map(wrong).collect();
    let more = all.len().saturating_sub(SHOWN_MAX);
    let more =
        (more > 0).then(|| format!("clock: the wall clocks of {more} more hosts were wrong"));
    all.into_iter().take(SHOWN_MAX).chain(more).collect()
}

/// Clock of a host in its line.
pub(super) fn host_clock(logs: &[&SurveyedLog], bound_ns: u64) -> String {
    let source = logs.first().map_or(ClockSource::Wall, |log| log.clock_source);
    match source {
        ClockSource::Wall => format!(", clock ± {}", time(bound_ns)),
        ClockSource::Messages => format!(", clock ± {} by messages", time(bound_ns)),
        ClockSource::Reference => ", its clock is the reference".to_owned(),
    }
}

/// Line on the order of events if clocks were compared; `None`: no clock was.
pub(super) fn order(survey: &JobSurvey, bound_ns: u64) -> Option<String> {
    let reference = Some(&survey.clock_reference).filter(|name| !name.is_empty())?;
    let by_wall_clock = |number: usize| {
        let mut logs = survey.logs.iter().filter(|log| log.host == number);
        logs.any(|log| log.clock_source == ClockSource::Wall)
    };
    let hosts = survey.hosts.iter().enumerate();
    let others: Vec<&str> = hosts
        .filter(|(number, _)| by_wall_clock(*number))
        .map(|(_, host)| host.name.as_str())
        .collect();
    let begin = format!(
        "clock: events of different hosts that are less than {} apart have no known order; \
         messages compared the clocks with that of {reference}",
        time(bound_ns)
    );
    Some(match others.len() {
        0 => begin,
        _ => format!(
            "{begin}, but for those of {} (no comparison of this boot): their order holds if the \
             wall clocks are right",
            first_of(&others)
        ),
    })
}

/// Value of the archive's property about its clock; `None`: no clock was compared.
pub(super) fn clock_property(survey: &JobSurvey) -> Option<String> {
    let reference = Some(&survey.clock_reference).filter(|name| !name.is_empty())?;
    Some(format!(
        "ns; clock of {reference}, with which messages compared those of other hosts; events were \
         moved to it when they were written"
    ))
}

/// Properties of a host about the source of its clock.
pub(super) fn host_facts(
    survey: &JobSurvey,
    host: &SurveyedHost,
    log: Option<&SurveyedLog>,
) -> Vec<(String, String)> {
    if survey.clock_reference.is_empty() {
        return Vec::new();
    }
    let source = match log.map_or(ClockSource::Wall, |log| log.clock_source) {
        ClockSource::Wall => "wall clock".to_owned(),
        ClockSource::Messages => format!("messages to {}", survey.clock_reference),
        ClockSource::Reference => "reference".to_owned(),
    };
    let error = host.wall_error.map(|found| found.ns.to_string());
    let facts = [("Clock source", Some(source)), ("Wall clock error (ns)", error)];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}
