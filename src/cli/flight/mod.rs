//! `iotrace-perf record --ring` and `--rotate`: a recording that keeps the last part of its log, or
//! several logs.
//!
//! The tracer writes one log, which grows: here into memory, or into a file without a name. A
//! keeper thread reads it as it grows and frees what is not needed any more. So the tracer knows
//! nothing of rings; it only begins a segment when it is asked to.

mod evaluation;
mod incident;
mod keeper;
mod part_file;
mod part_names;
mod repeated_errors;
mod rotation;
mod shared_ring;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use self::evaluation::Evaluation;
use self::keeper::{KeeperReport, KeeperState, RingKeeper, RingLimits};
use self::part_names::PartNames;
use self::rotation::{Rotation, RotationReport, RotationState};
use self::shared_ring::SharedRing;
use super::args::RecordArgs;
use super::control::DumpControl;
use super::dump_requests::DumpRequests;
use super::error::CliError;
use super::events::wanted_events;
use super::flight_args::{FlightArgs, RingArg};
use super::message::{be_quiet, print_line};
use super::recording::{self, LogPlace};
use super::tailing_reader::LogCompletion;
use super::target::{self, TargetWords};
use crate::analysis::trigger::TriggerEvents;
use crate::capture::frame_scanner::FrameScanner;
use crate::sys::output_dir::Users;
use crate::sys::{clock, files};
use crate::text::quantity::{count, counted, size, time};
use crate::text::shares;
use crate::tracer::segments::SegmentRequests;

/// Size of a ring, unless another one is given.
const RING_BYTES: u64 = 512 << 20;

/// Time after a trigger, unless another one is given.
const AFTER: Duration = Duration::from_secs(2);

/// Number of incidents by triggers, unless another one is given.
const INCIDENTS_MAX: u64 = 20;

/// Firings on their way to the keeper.
const FIRINGS_MAX: usize = 4096;

/// Refuses the control of a recording whose log is in parts.
fn refuse_control(args: &RecordArgs) -> Result<(), CliError> {
    if args.flight.rotate.is_some() && args.control.is_some() {
        let text = "--control: files are not watched with --rotate; leave out one of them";
        return Err(CliError::Usage(text.into()));
    }
    Ok(())
}

/// Records with a ring.
pub(super) fn run(args: &RecordArgs) -> Result<ExitCode, CliError> {
    if args.messages.quiet {
        be_quiet();
    }
    recording::refuse_stacks(&args.capture)?;
    check_triggers(args)?;
    refuse_control(args)?;
    let limits = limits(&args.flight);
    let default = if args.flight.rotate.is_some() { "iotrace-{N}" } else { "incident-{N}" };
    let names = PartNames::of(&args.output, default)?;
    let (log, mut place) = ring_file(&args.flight)?;
    place.shown = match args.flight.rotate {
        Some(bytes) => format!("logs of {}", size(bytes)),
        None => format!("a ring of {} in {}", limits.text, place.shown),
    };
    let control = args.control.as_deref().map(DumpControl::new).transpose()?;
    let failed = |source| CliError::Open { path: place.path.clone(), source };
    let segments = SegmentRequests::new().map_err(failed)?;
    let mut target = target::resolved(&args.capture, TargetWords::of_record(args))?;
    target.target.max_operations = target.target.max_operations.or(args.target.max_events);
    target.max_log = target.max_log.or(args.target.max_size);
    target.segments = Some(segments.clone());
    let (ended, requests) = (LogCompletion::default(), DumpRequests::default());
    let start = clock::now();
    let mut recorder = RecorderThreads {
        args: &args.flight,
        log: log.try_clone().map_err(failed)?,
        limits: Some(limits),
        names: Some(names),
        segments,
        ended: ended.clone(),
        requests: requests.clone(),
    };
    let users = std::cell::OnceCell::new();
    let mut keeper = None;
    let mut controlled = None;
    let place_it = |its: &Users| {
        let _ = users.set(its.clone());
        Ok(place)
    };
    let create = |_: &Path| {
        // The program has been forked by now: before that, there must be one thread.
        if args.flight.rotate.is_none() {
            requests.listen()?;
        }
        keeper = Some(recorder.start(users.get().cloned().unwrap_or_default())?);
        controlled = control.map(|control| control.start(requests.clone())).transpose()?;
        log.try_clone()
    };
    let recorded = recording::capture(&target, place_it, create);
    ended.set();
    controlled.into_iter().for_each(super::control::DumpControlled::stop);
    let mut recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            ended.give_up();
            let _ = keeper.map(JoinHandle::join);
            return Err(error);
        }
    };
    if let Some(keeper) = keeper {
        recorded.wait_for(&keeper, &ended);
        let report = recorded.result_of(wrapped(keeper));
        if let Some(report) = recorded.check(report) {
            let (lines, error) = report.into_lines(clock::now().0.saturating_sub(start.0));
            lines.iter().for_each(|line| print_line(line));
            recorded.check::<()>(error.map_or(Ok(()), Err));
        }
    }
    recorded.end()
}

/// Returns the keeper's thread as one with a result.
fn wrapped(keeper: JoinHandle<FlightReport>) -> JoinHandle<Result<FlightReport, CliError>> {
    std::thread::spawn(move || keeper.join().map_err(|_| CliError::Interrupted))
}

/// Sums at the end.
enum FlightReport {
    Ring(KeeperReport),
    Rotation(RotationReport),
}

impl FlightReport {
    /// Returns the last lines, and the error after which nothing was kept.
    fn into_lines(self, duration_ns: u64) -> (Vec<String>, Option<CliError>) {
        match self {
            Self::Ring(mut report) => {
                let error = report.error.take();
                (ring_lines(&report, duration_ns), error)
            }
            Self::Rotation(report) => (rotation_lines(&report, duration_ns), report.error),
        }
    }
}

/// Threads of a recorder, before they are started.
struct RecorderThreads<'a> {
    args: &'a FlightArgs,
    log: File,
    limits: Option<RingLimits>,
    names: Option<PartNames>,
    segments: SegmentRequests,
    ended: LogCompletion,
    requests: DumpRequests,
}

impl RecorderThreads<'_> {
    fn start(&mut self, users: Users) -> io::Result<JoinHandle<FlightReport>> {
        let names = self.names.take().ok_or(io::ErrorKind::NotFound)?;
        let builder = std::thread::Builder::new().name("iotrace-ring".into());
        if let Some(bytes) = self.args.rotate {
            let rotation = Rotation {
                scanner: FrameScanner::new(self.log.try_clone()?),
                log: self.log.try_clone()?,
                segments: self.segments.clone(),
                ended: self.ended.clone(),
                users,
                names,
                bytes,
                keep: self.args.keep,
                state: RotationState::default(),
            };
            return builder.spawn(move || FlightReport::Rotation(rotation.run()));
        }
        let ring = Arc::new(SharedRing::default());
        let (fired, firings) = sync_channel(FIRINGS_MAX);
        let triggers = self.args.trigger.clone();
        let mut evaluation = None;
        if !triggers.is_empty() {
            let (ring, log) = (Arc::clone(&ring), self.log.try_clone()?);
            let (ended, triggers) = (self.ended.clone(), triggers.clone());
            let work = Evaluation { ring, log, ended, triggers, fired };
            let builder = std::thread::Builder::new().name("iotrace-eval".into());
            evaluation = Some(builder.spawn(move || work.run())?);
        }
        let limits = self.limits.take().ok_or(io::ErrorKind::NotFound)?;
        let keeper = RingKeeper {
            scanner: FrameScanner::new(self.log.try_clone()?),
            log: self.log.try_clone()?,
            ring,
            limits,
            triggers,
            firings,
            evaluation,
            requests: self.requests.clone(),
            segments: self.segments.clone(),
            ended: self.ended.clone(),
            users,
            names,
            state: KeeperState::default(),
        };
        builder.spawn(move || FlightReport::Ring(keeper.run()))
    }
}

/// Returns the limits of the ring.
fn limits(args: &FlightArgs) -> RingLimits {
    let times = args.ring.iter().filter_map(|limit| match limit {
        RingArg::Time(time) => Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        RingArg::Size(_) => None,
    });
    let sizes = args.ring.iter().filter_map(|limit| match limit {
        RingArg::Size(bytes) => Some(*bytes),
        RingArg::Time(_) => None,
    });
    let (ns, bytes) = (times.max(), sizes.min().unwrap_or(RING_BYTES));
    let text = match ns {
        Some(ns) => format!("{}, at most {}", time(ns), size(bytes)),
        None => size(bytes),
    };
    let after = args.after.unwrap_or(AFTER);
    RingLimits {
        ns,
        bytes,
        text,
        after_ns: u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
        incidents: args.max_incidents.unwrap_or(INCIDENTS_MAX),
    }
}

/// Refuses triggers on events that are not recorded.
fn check_triggers(args: &RecordArgs) -> Result<(), CliError> {
    let events = wanted_events(&args.capture.events)?;
    let calls: Vec<_> = events.calls.iter().copied().collect();
    let recorded = TriggerEvents { calls: &calls, has_block: events.block };
    let lacking =
        args.flight.trigger.iter().find_map(|trigger| Some((trigger, trigger.lacks(recorded)?)));
    match lacking {
        Some((trigger, event)) => Err(CliError::Usage(format!(
            "--trigger {}: {event} is not recorded; add it: -e %default,{event}",
            trigger.text
        ))),
        None => Ok(()),
    }
}

/// Creates the log of a ring.
fn ring_file(args: &FlightArgs) -> Result<(File, LogPlace), CliError> {
    let (log, shown, directory) = match &args.ring_dir {
        Some(directory) => {
            let shown = format!("a file without a name in {}", directory.display());
            (files::create_unnamed(directory), shown, directory.as_path())
        }
        None => (
            files::create_in_memory(c"iotrace-perf-ring"),
            "memory".to_owned(),
            Path::new("(memory)"),
        ),
    };
    let log =
        log.map_err(|source| CliError::Create { path: directory.join("(unnamed)"), source })?;
    files::give_back(&log, 0, 4096).map_err(|error| {
        CliError::Usage(format!(
            "--ring-dir {}: its file system cannot free a part of a file ({error}); leave it out to keep the ring in memory",
            directory.display()
        ))
    })?;
    let path = files::path_of(&log);
    Ok((log, LogPlace { path, shown }))
}

/// Returns the last lines of a rotation.
fn rotation_lines(report: &RotationReport, duration_ns: u64) -> Vec<String> {
    let failed = match report.failed {
        0 => String::new(),
        failed => format!(", {} could not be written", counted(failed, "log")),
    };
    vec![format!(
        "{} written, {} removed (--keep){failed}; the recorder used {} of a CPU",
        counted(report.written, "log"),
        count(report.removed),
        shares::of(clock::own_cpu_ns(), duration_ns)
    )]
}

/// Returns the last lines of a ring.
fn ring_lines(report: &KeeperReport, duration_ns: u64) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {} written; the ring had at most {}; the recorder used {} of a CPU",
        counted(report.fired, "trigger"),
        counted(report.written, "incident"),
        size(report.bytes_max),
        shares::of(clock::own_cpu_ns(), duration_ns)
    )];
    let doubts = [
        (report.failed, "incident", "could not be written"),
        (report.not_written, "trigger", "without an incident"),
        (report.without_room, "trigger", "not counted, as too many fired at once"),
        (
            report.dropped_whole,
            "time",
            "the ring was dropped whole: more came than its size before a snapshot was complete",
        ),
    ];
    let present = doubts.iter().filter(|doubt| doubt.0 > 0);
    lines.extend(present.map(|(count, noun, what)| format!("{} {what}", counted(*count, noun))));
    lines.extend((report.unevaluated_ns > 0).then(|| {
        format!(
            "triggers were not evaluated for {}: the machine was too busy",
            time(report.unevaluated_ns)
        )
    }));
    lines
}
