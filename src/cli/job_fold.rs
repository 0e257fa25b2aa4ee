//! One answer for all recordings of a job.
//!
//! ```text
//!   index ──► capture 1 ──► fold ─┐
//!             capture 2 ──► fold ─┼─► fold of the job ──► report
//!             …                   ┘
//! ```
//!
//! One recording is open at a time, and the fold of one is in memory beside that of the job.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use super::completeness;
use super::convert::{InputLog, open};
use super::converted::{Converted, JobState};
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::job_fold_notes::{MountedHosts, UnresolvedFilters};
use super::job_index::{IndexedCapture, JobIndex};
use super::log_pass::pass_over;
use super::{filter_notes, summary_lines};
use crate::analysis::call_totals::{Totals, WithTotals};
use crate::analysis::filter::Filter;
use crate::analysis::job_keys::{Absorb, CaptureKeys, CaptureOrigin, JobKeys};
use crate::analysis::ledger_sum;
use crate::analysis::picked::Picked;
use crate::capture::fact::Text;
use crate::capture::header::{Disk, End, Header};
use crate::operation::mount_table::MountTable;
use crate::operation::{Sink, disk};
use crate::pipeline::{self, Summary};
use crate::sys::error_text::plain;
use crate::units::{DevId, Pid};

/// Folds a log, or all recordings of a job. `go_on` is called now and then.
pub(super) fn fold_all<S>(
    log: &Path,
    wish: FilterSpec<'_>,
    sink: impl Fn(Filter, &Header) -> S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(S, Converted), CliError>
where
    S: Sink<Error: Display> + Absorb + Picked,
{
    let Some(path) = JobIndex::named_by(log) else {
        let (sink, converted) = pass_over(log, wish, sink, go_on)?;
        let filter_notes = summary_lines::filter_notes(sink.picker());
        return Ok((sink, Converted { filter_notes, ..converted }));
    };
    let index = JobIndex::read(&path)?;
    wish.check_events()?;
    let mut job = JobSums::new(&index, sink(Filter::default(), &Header::default()));
    for capture in &index.captures {
        job.add(capture, wish.clone(), &sink, go_on)?;
    }
    job.finish()
}

/// Returns true if a path is that of the index of a job.
pub(super) fn is_job(log: &Path) -> bool {
    JobIndex::named_by(log).is_some()
}

/// Fold of a job.
struct JobSums<'a, S> {
    index: &'a JobIndex,
    keys: JobKeys,
    zero_ns: i128,
    fold: S,
    summary: Summary,
    state: JobState,
    mounts: MountedHosts,
    /// True if a recording has given the header what all have in common.
    has_header: bool,
    unresolved: UnresolvedFilters,
    /// Notes on the filter that all recordings so far have; `None`: there was none.
    filter_notes: Option<Vec<String>>,
    unknown_users: u64,
}

impl<'a, S: Sink<Error: Display> + Absorb + Picked> JobSums<'a, S> {
    fn new(index: &'a JobIndex, fold: S) -> Self {
        let starts = index.captures.iter().map(|capture| capture.clock.at(capture.start));
        let zero_ns = starts.min().unwrap_or_default();
        let mut summary = Summary { end: Some(End::default()), ..Summary::default() };
        summary.header.clock.start_realtime_ns = u64::try_from(zero_ns).unwrap_or(0);
        Self {
            keys: JobKeys::new(index.hosts.len() > 1),
            zero_ns,
            fold,
            summary,
            state: JobState::of(index),
            mounts: MountedHosts::default(),
            has_header: false,
            unresolved: UnresolvedFilters::default(),
            filter_notes: None,
            unknown_users: 0,
            index,
        }
    }

    /// Adds a recording. One that cannot be read is reported.
    fn add(
        &mut self,
        capture: &IndexedCapture,
        wish: FilterSpec<'_>,
        sink: &impl Fn(Filter, &Header) -> S,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), CliError> {
        let label = self.index.label(capture);
        let opened = match self.index.open(capture) {
            Ok(opened) => opened,
            Err(reason) => {
                self.state.not_read(format!("{label}: {}: {reason}", capture.shown.display()));
                return Ok(());
            }
        };
        let read = self.read(&opened.path, capture, wish, sink, go_on);
        match read.map_err(|error| error.shown_as(&opened.path, &capture.shown)) {
            Err(CliError::Interrupted) => Err(CliError::Interrupted),
            Err(error) => {
                let reason = match error {
                    CliError::Log { message, .. } => message,
                    CliError::Open { source, .. } => plain(&source),
                    other => other.to_string(),
                };
                self.state.not_read(format!("{label}: {}: {reason}", capture.shown.display()));
                Ok(())
            }
            Ok(None) => Ok(()),
            Ok(Some((fold, summary))) => {
                self.absorb(capture, fold, &summary);
                self.state.read(&label, &summary);
                Ok(())
            }
        }
    }

    /// Folds a recording; `None`: the filter cannot be resolved for it.
    fn read(
        &mut self,
        path: &Path,
        capture: &IndexedCapture,
        wish: FilterSpec<'_>,
        sink: &impl Fn(Filter, &Header) -> S,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<(S, Summary)>, CliError> {
        let InputLog { items, header, .. } = open(path, false)?;
        // Times of the filter count from the start of the job.
        let since_zero = capture.clock.at(capture.start) - self.zero_ns;
        let zero_ns = i128::from(header.clock.start_ns) - since_zero;
        let (filter, until) = match wish.filter_since(&header, zero_ns) {
            Ok(resolved) => resolved,
            Err(CliError::Usage(reason)) => {
                self.unresolved.note(reason);
                return Ok(None);
            }
            Err(other) => return Err(other),
        };
        let mut totals = Totals::default();
        let mut sink = WithTotals { totals: &mut totals, sink: sink(filter, &header) };
        let summary = pipeline::run_until(items, header, until, &mut sink, go_on)
            .map_err(|error| CliError::pipeline(path, &error))?;
        Ok(Some((sink.sink, summary)))
    }

    /// Adds the fold of a recording, and what is known of the recording.
    fn absorb(&mut self, capture: &IndexedCapture, fold: S, summary: &Summary) {
        let picker = fold.picker();
        let notes = filter_notes::notes_of_names(picker);
        self.unknown_users += picker.unknown_users;
        self.filter_notes = Some(match self.filter_notes.take() {
            // What one recording does not have, another one may have.
            Some(known) => known.into_iter().filter(|note| notes.contains(note)).collect(),
            None => notes,
        });
        let place = CaptureOrigin {
            host: capture.host,
            host_name: Arc::from(self.index.host(capture)),
            rank: capture.rank,
            clock: capture.clock,
            zero_ns: self.zero_ns,
        };
        let mounts = MountTable::parse(summary.text(Text::MOUNTINFO).unwrap_or_default());
        let disks = disk::names(&summary.disks());
        let mut keys = CaptureKeys::new(&mut self.keys, place, mounts, disks);
        self.fold.absorb(fold, &mut keys);
        let of_job = &mut self.summary;
        of_job.last_time = of_job.last_time.max(keys.time(summary.end_time()));
        if self.mounts.add(capture.host) {
            of_job.texts.push((Text::MOUNTINFO, Pid(0), keys.mount_text()));
        }
        ledger_sum::add(&mut of_job.ledger, &summary.ledger);
        // The kernel's counters may know of more than its records.
        of_job.ledger.lost += summary.lost().saturating_sub(summary.ledger.lost);
        of_job.damaged_bytes = of_job.damaged_bytes.saturating_add(summary.damaged_bytes);
        of_job.beyond_bounds += summary.beyond_bounds;
        of_job.reused_numbers += summary.reused_numbers;
        of_job.alive_at_end += summary.alive_at_end;
        of_job.read_until = of_job.read_until.max(summary.read_until.map(|time| keys.time(time)));
        let stat_calls = summary.end.as_ref().and_then(|end| end.stat_calls);
        if let (Some(end), Some(count)) = (&mut of_job.end, stat_calls) {
            *end.stat_calls.get_or_insert(0) += count;
        }
        if self.has_header {
            add_header(&mut of_job.header, &summary.header);
        } else {
            begin_header(&mut of_job.header, &summary.header);
        }
        self.has_header = true;
    }

    fn finish(mut self) -> Result<(S, Converted), CliError> {
        let unresolved = self.unresolved.note_of(self.has_header)?;
        self.state.notes.extend(self.mounts.note());
        let users = filter_notes::unknown_users(self.unknown_users);
        let Self { keys, fold, mut summary, state, filter_notes, .. } = self;
        let disk =
            |(dev, name): (DevId, String)| Disk { dev: dev.to_string(), name, ..Disk::default() };
        summary.header.disks = keys.device_names.into_iter().map(disk).collect();
        let mut filter_notes = filter_notes.unwrap_or_default();
        filter_notes.extend(users.into_iter().chain(unresolved));
        let totals = Totals::default();
        let job = Some(state);
        Ok((fold, Converted { summary, totals, archive: None, filter_notes, job }))
    }
}

/// Takes what reports say of how the first recording was made.
fn begin_header(of_job: &mut Header, header: &Header) {
    of_job.host.machine.clone_from(&header.host.machine);
    of_job.names.clone_from(&header.names);
    of_job.layers.clone_from(&header.layers);
    of_job.calls.clone_from(&header.calls);
    of_job.tracepoints.clone_from(&header.tracepoints);
}

/// Adds what reports say of how a recording was made: what all recordings have in common.
fn add_header(of_job: &mut Header, header: &Header) {
    if of_job.names != header.names {
        of_job.names = "several sources".to_owned();
    }
    of_job.calls.retain(|call| header.calls.contains(call));
    let has = |system: &str, name: &str| {
        header.tracepoints.iter().any(|other| other.system == system && other.name == name)
    };
    of_job.tracepoints.retain(|tracepoint| has(&tracepoint.system, &tracepoint.name));
}

impl JobState {
    fn of(index: &JobIndex) -> Self {
        let mut ranks: Vec<u64> = index.captures.iter().flat_map(IndexedCapture::ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut state = Self {
            captures: index.captures.len() as u64,
            hosts: index.hosts.len() as u64,
            ranks: ranks.len() as u64,
            size: index.captures.iter().filter_map(|capture| capture.job_size).max(),
            bound_ns: index.order_bound_ns(),
            overlapping_hosts: index.overlapping_hosts().into_iter().map(str::to_owned).collect(),
            ..Self::default()
        };
        for left_out in &index.left_out {
            state.damaged(format!("left out of the index: {left_out}"));
        }
        state
    }

    /// Counts a recording that was not read.
    fn not_read(&mut self, reason: String) {
        self.not_read += 1;
        self.damaged(format!("not read: {reason}"));
    }

    fn damaged(&mut self, reason: String) {
        self.has_damage = true;
        self.incomplete(reason);
    }

    fn incomplete(&mut self, reason: String) {
        self.incomplete_count += 1;
        if self.incomplete.len() < Self::SHOWN_MAX {
            self.incomplete.push(reason);
        }
    }

    /// Notes what is missing of a recording that was read.
    fn read(&mut self, label: &str, summary: &Summary) {
        self.read += 1;
        self.has_damage |= summary.torn || summary.damaged_bytes > 0 || summary.end.is_none();
        let missing = completeness::missing(summary);
        if !missing.is_empty() {
            self.incomplete(format!("{label}: {}", missing.join("; ")));
        }
    }
}
