//! First look at the recordings of a job: header and end of each, one after the other. It decides
//! which are merged, which host each is of, and how its times become those of the archive.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::checked_capture::{CheckedPlace, OpenCapture};
use super::clock_source::ClockSource;
use super::convert::{self, InputLog, end_of};
use super::error::CliError;
use super::job_index::{IndexedCapture, JobIndex};
use super::log_argument;
use crate::capture::header::{Header, JobPlace};
use crate::capture::trailing_facts;
use crate::capture::wall_clock::{self, ClockReading, WallClock};
use crate::pipeline;
use crate::sys::regular;
use crate::units::KernelTime;

/// Time before the first event of an archive, ns: a record may be a little older than the start of
/// its recording.
pub(super) const LEAD_NS: u64 = 60_000_000_000;

/// First date of a clock that is set, ns since 1970: that of 2001. A machine without a clock begins
/// in 1970.
pub(super) const FIRST_DATE_NS: u64 = 978_307_200_000_000_000;

/// A recording that is merged.
#[derive(Debug)]
pub(super) struct SurveyedLog {
    /// Path that messages show.
    pub(super) path: PathBuf,
    /// File that an index has led to; `None`: the user gave the path.
    place: Option<CheckedPlace>,
    /// Clock that an index has.
    stored: Option<StoredClock>,
    /// Number of its host in [`JobSurvey::hosts`].
    pub(super) host: usize,
    /// Clock of its times; the offset that the user gave is not in it.
    pub(super) clock: WallClock,
    pub(super) start: KernelTime,
    /// End; without an end record the last time of a frame.
    pub(super) end: KernelTime,
    /// True if the whole machine was recorded.
    pub(super) is_system: bool,
    pub(super) job: Option<JobPlace>,
    /// Ranks that were recorded together; empty if there was at most one.
    pub(super) node_ranks: Vec<u64>,
    /// True for a part of a longer recording: its wall clock was read at the start of that one.
    pub(super) is_part: bool,
    readings: Vec<ClockReading>,
    /// First reading as the log has it.
    pub(super) first_reading: Option<ClockReading>,
    /// Source of its clock.
    pub(super) clock_source: ClockSource,
    /// True if the wall clock of the host was not set, while those of others were.
    has_unset_clock: bool,
    pub(super) identity: HostIdentity,
    /// Properties of its host.
    facts: Vec<(String, String)>,
    pub(super) has_end: bool,
    pub(super) bytes: u64,
    print: HeaderPrint,
}

/// Clock of a recording in an index of a job.
#[derive(Clone, Copy, Debug)]
struct StoredClock {
    clock: WallClock,
    source: ClockSource,
}

/// Boot of a host of which an index has a clock.
#[derive(Debug)]
struct StoredBoot {
    host: usize,
    first: ClockReading,
    stored: StoredClock,
}

impl StoredBoot {
    /// True if a log is of this boot.
    fn is_of(&self, log: &SurveyedLog) -> bool {
        let is_boot = |first: &ClockReading| wall_clock::is_same_boot(self.first, *first);
        self.host == log.host && log.readings.first().is_some_and(is_boot)
    }
}

/// Recording that an argument has led to.
#[derive(Debug)]
struct FoundCapture {
    /// Path that messages show.
    path: PathBuf,
    place: Option<CheckedPlace>,
    stored: Option<StoredClock>,
}

impl StoredClock {
    /// True if the recording has dates.
    fn is_dated(&self) -> bool {
        self.clock.bound_ns().is_some()
    }
}

impl FoundCapture {
    fn named(path: PathBuf) -> Self {
        Self { path, place: None, stored: None }
    }

    fn indexed(capture: &IndexedCapture, place: CheckedPlace) -> Self {
        let stored = StoredClock { clock: capture.clock, source: capture.clock_source };
        Self { path: capture.shown.clone(), place: Some(place), stored: Some(stored) }
    }
}

/// Opens a recording: the file that was checked, or the one that the user named.
fn open(path: &Path, place: Option<&CheckedPlace>) -> Result<OpenCapture, CliError> {
    match place {
        Some(place) => {
            place.open().map_err(|message| CliError::Log { path: path.to_owned(), message })
        }
        None => Ok(OpenCapture::named(path)),
    }
}

/// Identity of a host; the clock shows the boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostIdentity {
    pub(super) name: String,
    /// Release, version and machine.
    pub(super) kernel: String,
    /// Path of a log without a host name, which is a host of its own.
    pub(super) log: Option<PathBuf>,
}

/// Checksum and length of a header.
type HeaderPrint = (u32, usize);

/// A host of the job.
#[derive(Debug)]
pub(super) struct SurveyedHost {
    pub(super) name: String,
    /// Properties of the host, by name.
    pub(super) facts: Vec<(String, String)>,
    /// Readings of each boot, and their clock.
    boots: Vec<(Vec<ClockReading>, Option<WallClock>)>,
    /// Wall clock of the host less the common clock, ns, and the bound of that; `None`: they are
    /// the same, or were not compared.
    pub(super) wall_error: Option<WallError>,
}

/// Difference of a wall clock from the common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WallError {
    pub(super) ns: i64,
    pub(super) bound_ns: u64,
}

/// Recording, or a name of one, that is left out.
#[derive(Debug)]
pub(super) struct OmittedLog {
    pub(super) path: PathBuf,
    /// Reason, in words.
    pub(super) reason: String,
}

/// Recordings of a job.
#[derive(Debug, Default)]
pub(super) struct JobSurvey {
    pub(super) logs: Vec<SurveyedLog>,
    pub(super) hosts: Vec<SurveyedHost>,
    pub(super) left_out: Vec<OmittedLog>,
    /// Files of clocks that are left out.
    pub(super) left_out_clocks: Vec<OmittedLog>,
    /// Wall clock at time 0 of the archive, ns since 1970; 0: no recording has dates.
    pub(super) zero_wall_ns: u64,
    /// Host with whose clock messages have compared others; empty: there is none.
    pub(super) clock_reference: String,
    /// Error of the wall clock of that host, ns.
    pub(super) reference_bound_ns: u64,
    /// Lines on clocks that were compared.
    pub(super) clock_notes: Vec<String>,
}

impl JobSurvey {
    /// Looks at all recordings that the arguments name. The recordings of an index have the clocks
    /// of the index, if `is_stored_taken`.
    pub(super) fn of(arguments: &[PathBuf], is_stored_taken: bool) -> Self {
        let mut survey = Self::default();
        for argument in arguments {
            let logs = match log_argument::runs_of(argument) {
                Ok(logs) => logs,
                Err(error) => {
                    let (path, reason) = (argument.clone(), error.to_string());
                    survey.left_out.push(OmittedLog { path, reason });
                    continue;
                }
            };
            for found in survey.captures_of(logs, is_stored_taken) {
                let path = found.path.clone();
                match look(found) {
                    Ok(log) => survey.add(log),
                    Err(error) => {
                        survey.left_out.push(OmittedLog { path, reason: error.to_string() })
                    }
                }
            }
        }
        survey.logs.sort_by(|one, other| one.order().cmp(&other.order()));
        survey.find_hosts();
        survey.align();
        survey.take_stored_clocks();
        survey
    }

    /// Returns the logs, with the recordings of an index of a job in its place. Those that are not
    /// the ones of the index are left out.
    fn captures_of(&mut self, logs: Vec<PathBuf>, is_stored_taken: bool) -> Vec<FoundCapture> {
        let mut captures = Vec::new();
        for log in logs {
            let Some(index) = JobIndex::named_by(&log) else {
                captures.push(FoundCapture::named(log));
                continue;
            };
            let index = match JobIndex::read(&index) {
                Ok(index) => index,
                Err(error) => {
                    self.left_out.push(OmittedLog { path: log, reason: error.to_string() });
                    continue;
                }
            };
            let omitted = index.left_out.iter().map(|omitted| OmittedLog {
                path: omitted.path.clone().into(),
                reason: omitted.reason.clone(),
            });
            self.left_out.extend(omitted);
            if is_stored_taken {
                self.note_reference(&index);
            }
            for capture in &index.captures {
                match index.check(capture) {
                    Ok(place) => {
                        let found = FoundCapture::indexed(capture, place);
                        let stored = found.stored.filter(|_| is_stored_taken);
                        captures.push(FoundCapture { stored, ..found });
                    }
                    Err(reason) => {
                        let path = capture.shown.clone();
                        self.left_out.push(OmittedLog { path, reason });
                    }
                }
            }
        }
        captures
    }

    /// Notes the host with whose clock those of an index were compared.
    fn note_reference(&mut self, index: &JobIndex) {
        let reference = &index.clock_reference;
        if self.clock_reference.is_empty() {
            self.clock_reference.clone_from(reference);
            self.reference_bound_ns = index.reference_bound_ns;
        } else if !reference.is_empty() && *reference != self.clock_reference {
            self.clock_notes.push(format!(
                "clock: messages compared the clocks of {} with that of {reference}: the order to \
                 recordings of other indexes holds if the wall clocks of both references are right",
                JobIndex::named(&index.path).display()
            ));
        }
    }

    /// Adds a recording, unless it is there already; the more complete one is kept.
    fn add(&mut self, log: SurveyedLog) {
        let known = self.logs.iter_mut().find(|known| is_same_recording(known, &log));
        let Some(known) = known else { return self.logs.push(log) };
        let is_better = (log.has_end, log.bytes) > (known.has_end, known.bytes);
        let other = if is_better { std::mem::replace(known, log) } else { log };
        let reason = format!("it is the same recording as {}", known.path.display());
        self.left_out.push(OmittedLog { path: other.path, reason });
    }

    /// Numbers the hosts, in the order of their names.
    fn find_hosts(&mut self) {
        let mut numbers: BTreeMap<HostIdentity, usize> = BTreeMap::new();
        for log in &mut self.logs {
            let next = numbers.len();
            log.host = *numbers.entry(log.identity.clone()).or_insert(next);
            if log.host == next {
                let name = &log.identity.name;
                let name = match numbers.keys().filter(|known| known.name == *name).count() {
                    1 => name.clone(),
                    same => format!("{name} ({same})"),
                };
                let facts = std::mem::take(&mut log.facts);
                self.hosts.push(SurveyedHost { name, facts, boots: Vec::new(), wall_error: None });
            }
        }
    }

    /// Finds the clock of each recording: all recordings of one boot share it.
    fn align(&mut self) {
        self.move_unset_clocks();
        for log in &self.logs {
            if let Some(host) = self.hosts.get_mut(log.host) {
                host.add_readings(&log.readings);
            }
        }
        for boot in self.hosts.iter_mut().flat_map(|host| &mut host.boots) {
            boot.1 = WallClock::of(&boot.0);
        }
        let dated = self.logs.iter().filter_map(|log| log.readings.first());
        let earliest = dated.map(|reading| reading.wall_ns).min();
        self.zero_wall_ns = earliest.map_or(0, |wall| wall.saturating_sub(LEAD_NS));
        let without = earliest.unwrap_or(LEAD_NS);
        for log in &mut self.logs {
            let host = self.hosts.get(log.host);
            let known = host.zip(log.readings.first()).and_then(|(host, first)| host.clock(*first));
            log.clock = known.unwrap_or_else(|| WallClock::without_dates(log.start, without));
        }
    }

    /// Gives the recordings of an index the clocks of the index, and those of the same boots, too.
    fn take_stored_clocks(&mut self) {
        if self.logs.iter().all(|log| log.stored.is_none()) {
            return;
        }
        let of_log = |log: &SurveyedLog| {
            let stored = log.stored.filter(StoredClock::is_dated)?;
            Some(StoredBoot { host: log.host, first: *log.readings.first()?, stored })
        };
        let boots: Vec<StoredBoot> = self.logs.iter().filter_map(of_log).collect();
        let widened_ns = self.reference_bound_ns;
        self.replace_clocks(&|log| {
            let of_boot = || boots.iter().find(|boot| boot.is_of(log)).map(|boot| boot.stored);
            let stored = log.stored.or_else(of_boot);
            let wall = log.clock.widened_by(widened_ns);
            stored.map_or((ClockSource::Wall, wall), |stored| (stored.source, stored.clock))
        });
    }

    /// Replaces the clock of each recording by the one that `find` knows for it and its old one;
    /// a boot gets the one with the largest bound.
    pub(super) fn replace_clocks(
        &mut self,
        find: &dyn Fn(&SurveyedLog) -> (ClockSource, WallClock),
    ) {
        self.hosts.iter_mut().flat_map(|host| &mut host.boots).for_each(|boot| boot.1 = None);
        for log in &mut self.logs {
            let found = find(log);
            (log.clock_source, log.clock) = found;
            if let (Some(host), Some(first)) = (self.hosts.get_mut(log.host), log.readings.first())
            {
                let mut boots = host.boots.iter_mut();
                if let Some(boot) = boots.find(|boot| boot.0.contains(first)) {
                    boot.1 = Some(boot.1.map_or(log.clock, |known| known.or_less_known(log.clock)));
                }
            }
        }
        let starts = self.logs.iter().filter(|log| log.is_dated());
        if let Some(start) = starts.map(|log| log.clock.at(log.start)).min() {
            let start = u64::try_from(start.max(0)).unwrap_or(u64::MAX);
            self.zero_wall_ns = start.saturating_sub(LEAD_NS);
        }
    }

    /// Moves the readings of hosts whose clocks are not set to the first date of the others, so
    /// that these keep their dates. The recordings of such a host keep their places to each other.
    fn move_unset_clocks(&mut self) {
        let first = |log: &SurveyedLog| log.readings.first().map(|reading| reading.wall_ns);
        let is_set = |wall: &u64| *wall >= FIRST_DATE_NS;
        let Some(earliest) = self.logs.iter().filter_map(first).filter(is_set).min() else {
            return;
        };
        for host in 0..self.hosts.len() {
            let is_unset = |log: &SurveyedLog| {
                log.host == host && first(log).is_some_and(|wall| !is_set(&wall))
            };
            let unset = self.logs.iter().filter(|log| is_unset(log)).filter_map(first);
            let Some(begin) = unset.min() else { continue };
            for log in self.logs.iter_mut().filter(|log| is_unset(log)) {
                log.has_unset_clock = true;
                // The clock may have been set meanwhile.
                log.readings.retain(|reading| !is_set(&reading.wall_ns));
                for reading in &mut log.readings {
                    reading.wall_ns = reading.wall_ns - begin + earliest;
                }
            }
        }
    }

    /// Returns true if nothing that was named is left out.
    pub(super) fn has_all(&self) -> bool {
        self.left_out.is_empty() && self.left_out_clocks.is_empty()
    }

    /// Returns the error bound of the order of two events of different clocks, ns: 0 if there is
    /// one clock, `None` if a recording has no dates.
    pub(super) fn order_bound_ns(&self) -> Option<u64> {
        let undated = self.logs.iter().filter(|log| !log.is_dated()).count();
        if undated > 0 && self.logs.len() > 1 {
            return None;
        }
        let clocks = self.hosts.iter().flat_map(SurveyedHost::clocks);
        let mut bounds: Vec<u64> = clocks.filter_map(|clock| clock.bound_ns()).collect();
        bounds.sort_unstable_by(|one, other| other.cmp(one));
        match bounds.as_slice() {
            [first, second, ..] => Some(first.saturating_add(*second)),
            _ => Some(0),
        }
    }
}

impl SurveyedHost {
    /// Adds the readings of a log to those of its boot.
    fn add_readings(&mut self, readings: &[ClockReading]) {
        let Some(first) = readings.first() else { return };
        let of_boot = |boot: &&mut (Vec<ClockReading>, _)| {
            boot.0.first().is_some_and(|known| wall_clock::is_same_boot(*known, *first))
        };
        match self.boots.iter_mut().find(of_boot) {
            Some(boot) => boot.0.extend(readings),
            None => self.boots.push((readings.to_vec(), None)),
        }
    }

    /// Returns the clock of the boot that a reading is of.
    fn clock(&self, reading: ClockReading) -> Option<WallClock> {
        let boot = self.boots.iter().find(|boot| boot.0.contains(&reading))?;
        boot.1
    }

    /// Returns the clocks of all boots.
    pub(super) fn clocks(&self) -> impl Iterator<Item = WallClock> {
        self.boots.iter().filter_map(|boot| boot.1)
    }
}

impl SurveyedLog {
    /// Returns the number of its process in the job; `None` for several, and for a recording of the
    /// whole machine, most of whose processes are none.
    pub(super) fn rank(&self) -> Option<u64> {
        let is_of_one = self.node_ranks.is_empty() && !self.is_system;
        self.job.as_ref().and_then(|job| job.rank).filter(|_| is_of_one)
    }

    /// Returns the numbers of its processes in the job.
    pub(super) fn ranks(&self) -> impl Iterator<Item = u64> {
        self.rank().into_iter().chain(self.node_ranks.iter().copied())
    }

    /// Opens the recording.
    pub(super) fn open(&self) -> Result<OpenCapture, CliError> {
        open(&self.path, self.place.as_ref())
    }

    /// Opens the recording for reading its operations.
    pub(super) fn read(&self) -> Result<InputLog, CliError> {
        let opened = self.open()?;
        let read = convert::open(&opened.path, false);
        read.map_err(|error| error.shown_as(&opened.path, &self.path))
    }

    /// Order of recordings in the archive.
    fn order(&self) -> (&HostIdentity, Option<u64>, &Path) {
        (&self.identity, self.ranks().next(), &self.path)
    }

    /// Returns true if the log has dates.
    pub(super) fn is_dated(&self) -> bool {
        if let Some(stored) = &self.stored {
            return stored.is_dated();
        }
        let is_compared = self.clock_source != ClockSource::Wall;
        !self.readings.is_empty() && (is_compared || !self.has_unset_clock)
    }

    /// Returns true if two recordings of a host overlap in time.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        // A recording without an end may have lasted for any time.
        let end_of = |log: &Self| if log.has_end { log.clock.at(log.end) } else { i128::MAX };
        let range = |log: &Self| (log.clock.at(log.start), end_of(log));
        let ((start, end), (begin, last)) = (range(self), range(other));
        self.host == other.host && start < last && begin < end
    }
}

/// Reads header and end of a log.
fn look(found: FoundCapture) -> Result<SurveyedLog, CliError> {
    let opened = open(&found.path, found.place.as_ref())?;
    let shown = found.path.clone();
    look_at(&opened.path, found).map_err(|error| error.shown_as(&opened.path, &shown))
}

/// Reads header and end of the log at a path.
fn look_at(path: &Path, found: FoundCapture) -> Result<SurveyedLog, CliError> {
    let failed = |source| CliError::Open { path: path.into(), source };
    let file = regular::open_named(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let text = "merge reads each log twice, and this is no file: write it to one first";
        return Err(CliError::Usage(text.to_owned()));
    }
    let bytes = metadata.len();
    let (_, header) =
        pipeline::open::<_, Infallible>(file).map_err(|error| CliError::pipeline(path, &error))?;
    let end = end_of(path)?;
    let start = KernelTime(header.clock.start_ns);
    let last = match &end {
        Some(end) => Some(KernelTime(end.end_ns)),
        None => regular::open_named(path).and_then(trailing_facts::last_time).map_err(failed)?,
    };
    let print = print_of(&header);
    let host = &header.host;
    let mut identity = HostIdentity {
        name: host.hostname.clone(),
        kernel: format!("{} {} {}", host.kernel_release, host.kernel_version, host.machine),
        log: None,
    };
    if identity.name.is_empty() {
        let stem = found.path.file_stem().unwrap_or_default();
        identity = HostIdentity {
            name: stem.to_string_lossy().into_owned(),
            log: Some(found.path.clone()),
            ..identity
        };
    }
    let readings = wall_clock::readings(&header, end.as_ref());
    Ok(SurveyedLog {
        host: 0,
        clock: WallClock::without_dates(start, 0),
        start,
        end: last.unwrap_or(start),
        is_system: header.scope.mode == "system",
        first_reading: readings.first().copied(),
        clock_source: ClockSource::default(),
        readings,
        has_unset_clock: false,
        identity,
        facts: host_facts(&header),
        has_end: end.is_some(),
        bytes,
        print,
        path: found.path,
        place: found.place,
        stored: found.stored,
        job: header.job,
        is_part: header.excerpt.as_ref().is_some_and(|part| part.recording_start_ns != start.0),
        node_ranks: header.scope.ranks.iter().filter_map(|process| process.rank).collect(),
    })
}

/// Properties of a host.
fn host_facts(header: &Header) -> Vec<(String, String)> {
    let host = &header.host;
    let cpus = match host.cpus.len() {
        0 => String::new(),
        cpus => cpus.to_string(),
    };
    let facts = [
        ("Kernel release", host.kernel_release.clone()),
        ("Kernel version", host.kernel_version.clone()),
        ("Architecture", host.machine.clone()),
        ("CPUs", cpus),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn print_of(header: &Header) -> HeaderPrint {
    // A header is plain data, which can be written.
    let text = serde_json::to_vec(header).unwrap_or_default();
    (crc32fast::hash(&text), text.len())
}

/// Returns true if two logs are of one recording. A recorded header has the time of its start to
/// the nanosecond; logs without dates are compared byte by byte, up to the end of the shorter one.
fn is_same_recording(one: &SurveyedLog, other: &SurveyedLog) -> bool {
    if one.print != other.print {
        return false;
    }
    let is_recorded = one.is_dated() && one.identity.log.is_none();
    // The headers of thousands of ranks are of one length, and checksums of 32 bits repeat.
    let is_of_same_start = one.identity == other.identity
        && one.start == other.start
        && one.readings.first() == other.readings.first();
    is_of_same_start && (is_recorded || has_same_content(one, other))
}

/// Returns true if one file begins with all of the other.
fn has_same_content(one: &SurveyedLog, other: &SurveyedLog) -> bool {
    let open = |log: &SurveyedLog| -> io::Result<BufReader<File>> {
        let opened = log.open().map_err(|error| io::Error::other(error.to_string()))?;
        regular::open_named(&opened.path).map(BufReader::new)
    };
    let (Ok(one), Ok(other)) = (open(one), open(other)) else { return false };
    one.bytes().zip(other.bytes()).all(|pair| matches!(pair, (Ok(one), Ok(other)) if one == other))
}
