//! Clocks of hosts that messages have compared (`clocks`), in place of their wall clocks.
//!
//! ```text
//!   host ──(messages: a line)──► reference ──(constant)──► time of the archive
//!   host without comparisons ──(its wall clock)──────────► time of the archive
//! ```
//!
//! The archive shows the wall clock of the reference as it was at its first reading: a later change
//! of it moves no event.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::clock_source::ClockSource;
use super::merge_clock_lines;
use super::merge_survey::{FIRST_DATE_NS, JobSurvey, OmittedLog, SurveyedLog, WallError};
use crate::capture::clock_exchange::{ClockFile, ClockedHost, OffsetReading};
use crate::capture::message_clock::MessageClock;
use crate::capture::wall_clock::{self, ClockReading, READING_ERROR_NS, WallClock};
use crate::sys::regular;
use crate::units::KernelTime;

/// Largest file, in bytes: it has some readings.
const BYTES_MAX: u64 = 1 << 20;

/// Time between the points of a line, ns: rounding errors do not grow over the length of a job.
const LINE_NS: u64 = 3_600_000_000_000;

/// Boot of a host whose clock was compared.
#[derive(Debug)]
struct ComparedBoot {
    host: ClockedHost,
    wall: Vec<ClockReading>,
    readings: Vec<OffsetReading>,
    clock: MessageClock,
    source: ClockSource,
    /// First and last time of its recordings.
    span: Option<[KernelTime; 2]>,
}

/// Clock of the archive.
#[derive(Clone, Copy, Debug)]
struct CommonClock {
    /// Wall clock less the clock of the reference, ns.
    offset_ns: i128,
    /// Error of the wall clock of the reference, ns.
    bound_ns: u64,
}

/// Gives the recordings of compared hosts the clocks of these files and directories.
pub(super) fn apply(survey: &mut JobSurvey, names: &[PathBuf]) {
    let files = read_all(names, &mut survey.left_out_clocks);
    let Some(reference) = choose_reference(&files, &survey.logs) else { return };
    let mut boots = boots_of(files, &reference, &mut survey.left_out_clocks);
    for log in &survey.logs {
        if let Some(boot) = place_of(&boots, log).and_then(|place| boots.get_mut(place)) {
            let [start, end] = boot.span.unwrap_or([log.start; 2]);
            boot.span = Some([start.min(log.start), end.max(log.end).max(log.start)]);
        }
    }
    let common = common_clock(&boots);
    boots.iter_mut().for_each(ComparedBoot::choose_comparisons);
    let of_log = |log: &SurveyedLog| place_of(&boots, log).and_then(|place| boots.get(place));
    survey.replace_clocks(&|log| match of_log(log) {
        Some(boot) => (boot.source, boot.wall_clock(log, common)),
        None => (ClockSource::Wall, log.clock.widened_by(common.bound_ns)),
    });
    survey.clock_reference = reference.hostname;
    survey.reference_bound_ns = common.bound_ns;
    note_wall_errors(survey, common);
    let excesses = boots.iter().filter(|boot| boot.span.is_some() && boot.clock.has_excess());
    let names: Vec<&str> = excesses.map(|boot| boot.host.hostname.as_str()).collect();
    survey.clock_notes.extend(merge_clock_lines::excess(&names));
}

/// Reads all files that the arguments name; those that cannot be used are left out.
fn read_all(names: &[PathBuf], left_out: &mut Vec<OmittedLog>) -> Vec<ClockFile> {
    let mut files = Vec::new();
    for name in names {
        let paths = match paths_of(name) {
            Ok(paths) if !paths.is_empty() => paths,
            Ok(_) => {
                let reason = "the directory has no file of iotrace-perf clocks".to_owned();
                left_out.push(OmittedLog { path: name.clone(), reason });
                continue;
            }
            Err(error) => {
                left_out.push(OmittedLog { path: name.clone(), reason: error.to_string() });
                continue;
            }
        };
        for path in paths {
            match read(&path) {
                Ok(file) => files.push(file),
                Err(reason) => left_out.push(OmittedLog { path, reason }),
            }
        }
    }
    files
}

/// Returns the files of a directory, or the file itself.
fn paths_of(name: &Path) -> io::Result<Vec<PathBuf>> {
    if !name.is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let entries: io::Result<Vec<_>> = fs::read_dir(name)?.collect();
    let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let is_hidden =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_hidden && path.extension().is_some_and(|end| end == "json")
    });
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<ClockFile, String> {
    let mut bytes = Vec::new();
    let file = regular::open_named(path).map_err(|error| error.to_string())?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err("it is too large for a file of iotrace-perf clocks".to_owned());
    }
    ClockFile::parse(&bytes)
}

/// Returns the host with which most clocks of recordings were compared.
fn choose_reference(files: &[ClockFile], logs: &[SurveyedLog]) -> Option<ClockedHost> {
    let mut logs_of: BTreeMap<&str, Vec<&SurveyedLog>> = BTreeMap::new();
    for log in logs {
        logs_of.entry(&log.identity.name).or_default().push(log);
    }
    let is_recorded = |file: &&ClockFile| {
        let wall: Vec<ClockReading> = file.wall_readings().collect();
        let of_host = logs_of.get(file.host.hostname.as_str());
        of_host.into_iter().flatten().any(|log| is_log_of(log, &file.host, &wall))
    };
    let recorded: Vec<&ClockFile> = files.iter().filter(is_recorded).collect();
    // Without any, the last lines name the hosts whose clocks were not compared.
    let counting = if recorded.is_empty() { files.iter().collect() } else { recorded };
    let mut counts: BTreeMap<&ClockedHost, usize> = BTreeMap::new();
    for file in counting {
        *counts.entry(&file.reference).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(reference, _)| reference.clone())
}

/// True if a log is of the boot of a host with these readings of both clocks.
fn is_log_of(log: &SurveyedLog, host: &ClockedHost, wall: &[ClockReading]) -> bool {
    let is_boot = |first| wall.iter().any(|reading| wall_clock::is_same_boot(*reading, first));
    log.identity.log.is_none()
        && log.identity.name == host.hostname
        && log.first_reading.is_some_and(is_boot)
        && log.identity.kernel
            == format!("{} {} {}", host.kernel_release, host.kernel_version, host.machine)
}

/// Returns the place of a log's boot among these, which are in the order of their hosts' names.
fn place_of(boots: &[ComparedBoot], log: &SurveyedLog) -> Option<usize> {
    let name = &log.identity.name;
    let first = boots.partition_point(|boot| boot.host.hostname < *name);
    let of_host = boots.iter().enumerate().skip(first);
    let mut of_host = of_host.take_while(|(_, boot)| boot.host.hostname == *name);
    of_host.find(|(_, boot)| is_log_of(log, &boot.host, &boot.wall)).map(|(place, _)| place)
}

/// Returns the boots that were compared with this reference, in the order of their hosts' names.
fn boots_of(
    files: Vec<ClockFile>,
    reference: &ClockedHost,
    left_out: &mut Vec<OmittedLog>,
) -> Vec<ComparedBoot> {
    let mut readings: BTreeMap<ClockedHost, (Vec<ClockReading>, Vec<OffsetReading>)> =
        BTreeMap::new();
    readings.entry(reference.clone()).or_default();
    for file in files {
        if file.reference != *reference {
            let reason = format!(
                "it is a comparison with {}, and others are with {}",
                named(&file.reference),
                named(reference)
            );
            let path = format!("clock of {}", file.host.hostname).into();
            left_out.push(OmittedLog { path, reason });
            continue;
        }
        let of_boot = readings.entry(file.host.clone()).or_default();
        of_boot.0.extend(file.wall_readings());
        of_boot.1.extend(file.reading());
    }
    let boot = |(host, (wall, readings)): (ClockedHost, (Vec<ClockReading>, Vec<_>))| {
        let is_reference = host == *reference;
        let (clock, source) = match is_reference {
            true => (MessageClock::of_reference(), ClockSource::Reference),
            false => (MessageClock::of(&readings)?, ClockSource::Messages),
        };
        Some(ComparedBoot { host, wall, readings, clock, source, span: None })
    };
    readings.into_iter().filter_map(boot).collect()
}

/// Name of a host, with the begin of its boot's identifier.
fn named(host: &ClockedHost) -> String {
    let boot: String = host.boot_id.chars().take(8).collect();
    format!("{} (boot {boot})", host.hostname)
}

/// Returns the clock of the archive: the wall clock of the reference, or of another host if that is
/// not set.
fn common_clock(boots: &[ComparedBoot]) -> CommonClock {
    let (of_reference, others): (Vec<_>, Vec<_>) =
        boots.iter().partition(|boot| boot.source == ClockSource::Reference);
    let is_set = |reading: &&ClockReading| reading.wall_ns >= FIRST_DATE_NS;
    for boot in of_reference.into_iter().chain(others) {
        let first = boot.wall.iter().filter(is_set).min_by_key(|reading| reading.time);
        if let Some((first, clock)) = first.zip(WallClock::of(&boot.wall)) {
            let time = i128::from(first.time.0) + boot.clock.offset_ns(first.time);
            let offset_ns = i128::from(first.wall_ns) - time;
            let own = boot.clock.bound_ns(first.time);
            let bound_ns = clock.bound_ns().unwrap_or(u64::MAX).saturating_add(own);
            return CommonClock { offset_ns, bound_ns };
        }
    }
    CommonClock { offset_ns: 0, bound_ns: u64::MAX }
}

impl ComparedBoot {
    /// Chooses the comparisons that surround its recordings.
    fn choose_comparisons(&mut self) {
        let found = self.span.and_then(|span| MessageClock::around(&self.readings, span));
        // The reference has none.
        self.clock = found.unwrap_or(self.clock);
    }

    /// Returns the clock of a log of this boot.
    fn wall_clock(&self, log: &SurveyedLog, common: CommonClock) -> WallClock {
        let [start, end] = self.span.unwrap_or([log.start, log.end]);
        let far = KernelTime(end.0.max(start.0.saturating_add(LINE_NS)));
        let offsets = [start, far].map(|time| self.clock.offset_ns(time) + common.offset_ns);
        log.clock.replaced_by([start, far], offsets, self.clock.largest_bound_ns(start, end))
    }
}

/// Notes wall clocks that differ from that of the reference by more than both are known.
fn note_wall_errors(survey: &mut JobSurvey, common: CommonClock) {
    for log in &survey.logs {
        let (Some(first), Some(host)) = (log.first_reading, survey.hosts.get_mut(log.host)) else {
            continue;
        };
        if log.clock_source != ClockSource::Messages {
            continue;
        }
        let difference = i128::from(first.wall_ns) - log.clock.at(first.time);
        let ns = i64::try_from(difference).unwrap_or(i64::MAX);
        let own = log.clock.bound_ns().unwrap_or(u64::MAX);
        let bound_ns = own.saturating_add(common.bound_ns).saturating_add(READING_ERROR_NS);
        let is_larger =
            host.wall_error.is_none_or(|known| ns.unsigned_abs() > known.ns.unsigned_abs());
        if ns.unsigned_abs() > bound_ns && is_larger {
            host.wall_error = Some(WallError { ns, bound_ns });
        }
    }
    let reference = survey.clock_reference.clone();
    let noted = merge_clock_lines::wall_errors(&survey.hosts, &reference);
    survey.clock_notes.extend(noted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::clock_exchange::{Exchange, FORMAT, VERSION, WallReading};

    fn host(name: &str) -> ClockedHost {
        ClockedHost { hostname: name.into(), boot_id: "b".into(), ..ClockedHost::default() }
    }

    fn file(of: &str, reference: &str, realtime_ns: u64) -> ClockFile {
        let shortest = vec![Exchange {
            sent_ns: 5_000,
            received_ns: 105_000,
            answered_ns: 105_000,
            returned_ns: 5_000,
        }];
        ClockFile {
            format: FORMAT.into(),
            version: VERSION,
            host: host(of),
            reference: host(reference),
            wall: vec![WallReading { time_ns: 5_000, realtime_ns }],
            shortest,
            ..ClockFile::default()
        }
    }

    #[test]
    fn reference_of_most_comparisons_counts_and_others_are_reported() {
        let wall = FIRST_DATE_NS + 7;
        let files = vec![
            file("node1", "node1", wall),
            file("node2", "node1", wall),
            file("node3", "node2", wall),
        ];
        let reference = choose_reference(&files, &[]).expect("a reference");
        assert_eq!(reference.hostname, "node1");
        let mut left_out = Vec::new();
        let boots = boots_of(files, &reference, &mut left_out);
        assert_eq!(boots.len(), 2);
        assert_eq!(left_out.len(), 1);
        assert!(left_out.iter().all(|left| left.reason.contains("with node2 (boot b)")));
        assert!(choose_reference(&[], &[]).is_none());
    }

    /// Fails if a reference without a set clock dates all others back to 1970.
    #[test]
    fn dates_are_those_of_a_clock_that_is_set() {
        let dated = |reference_wall| {
            let files = vec![
                file("node1", "node1", reference_wall),
                file("node2", "node1", FIRST_DATE_NS + 50_000),
            ];
            common_clock(&boots_of(files, &host("node1"), &mut Vec::new()))
        };
        let set = dated(FIRST_DATE_NS + 9_000);
        assert_eq!(set.offset_ns, i128::from(FIRST_DATE_NS) + 4_000);
        let unset = dated(77);
        // The clock of node2 is 100,000 ns behind that of the reference.
        assert_eq!(unset.offset_ns, i128::from(FIRST_DATE_NS) + 50_000 - 105_000);
        assert!(unset.bound_ns >= READING_ERROR_NS);
    }
}
