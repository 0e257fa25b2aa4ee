//! Follower of a recording: reads the log as it grows, and closes intervals.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::analysis::top::{TopFacts, TopFold, TopInterval, TopModel, TopPair};
use crate::capture::header::Header;
use crate::cli::error::CliError;
use crate::cli::tailing_reader::{LogCompletion, TailingReader};
use crate::operation::disk;
use crate::pipeline::{self, PipelineError, Summary};
use crate::sys::clock;
use crate::units::KernelTime;

/// Model that the follower and the screen share.
pub(super) type SharedModel = Arc<Mutex<TopModel>>;

/// Locks the model; a thread that has panicked leaves a whole one.
pub(super) fn locked(model: &SharedModel) -> MutexGuard<'_, TopModel> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Scope and intervals.
pub(super) struct FollowerOptions {
    /// Scope of the recording, for people.
    pub(super) scope: String,
    /// Length of an interval.
    pub(super) length: Duration,
    /// Number of intervals.
    pub(super) count_max: Option<u64>,
    /// Recorded events, if they were chosen.
    pub(super) events: Vec<String>,
}

/// Follower of a recording. `closed` is called after each interval.
pub(super) struct IntervalFollower<F> {
    pub(super) options: FollowerOptions,
    pub(super) model: SharedModel,
    pub(super) closed: F,
    /// Recording that is stopped when intervals cannot be shown; `None`: it goes on.
    pub(super) failed: Option<LogCompletion>,
}

impl<F: FnMut(&TopModel) -> io::Result<()>> IntervalFollower<F> {
    /// Reads the log to its end. After an error the program goes on, and its log takes no room.
    pub(super) fn follow(self, input: TailingReader) -> Result<Summary, CliError> {
        let failed = self.failed.clone();
        let rest = input.discarder().map_err(CliError::Output)?;
        let followed = self.read(input);
        if followed.is_err() {
            if let Some(recording) = failed {
                recording.stop_recording();
            }
            if let Some(rest) = rest {
                rest.discard();
            }
        }
        followed
    }

    fn read(self, input: TailingReader) -> Result<Summary, CliError> {
        let path = Path::new("(the recording)");
        let (items, header) = pipeline::open::<_, io::Error>(input)
            .map_err(|error| CliError::pipeline(path, &error))?;
        let Self { options, model, mut closed, .. } = self;
        let length_ns = u64::try_from(options.length.as_nanos()).unwrap_or(u64::MAX);
        let facts = facts(&header, &options, length_ns);
        let start = facts.start;
        locked(&model).facts = facts;
        let mut cpu_ns = clock::own_cpu_ns();
        let close = |interval: TopInterval| -> io::Result<Option<TopPair>> {
            let (end, cpu_before) = (interval.end, cpu_ns);
            cpu_ns = clock::own_cpu_ns();
            let mut model = locked(&model);
            model.close(interval);
            model.delay_ns = clock::now().0.saturating_sub(end.0);
            model.own_cpu_ns = cpu_ns.saturating_sub(cpu_before);
            closed(&model)?;
            Ok(model.focus().cloned())
        };
        let mut fold = TopFold::new(start, length_ns, options.count_max, close);
        let summary =
            pipeline::run(items, header, &mut fold, &mut || true).map_err(|error| match error {
                PipelineError::Sink(error) => CliError::output(error),
                other => CliError::pipeline(path, &other),
            })?;
        fold.finish(summary.end_time()).map_err(CliError::output)?;
        Ok(summary)
    }
}

/// Returns what a log begins with.
fn facts(header: &Header, options: &FollowerOptions, length_ns: u64) -> TopFacts {
    let has_block = header.tracepoints.iter().any(|point| point.name == "block_rq_complete");
    let is_part = header.scope.mode != "system" && !header.scope.all_block;
    let mut omissions = Vec::new();
    if !options.events.is_empty() {
        omissions.push(format!("only {} (-e)", options.events.join(",")));
    }
    match (has_block, is_part) {
        (false, _) => omissions.push("no block requests: no devices".to_owned()),
        (true, true) => omissions.push("devices: only requests of these processes".to_owned()),
        (true, false) => {}
    }
    let clock = &header.clock;
    TopFacts {
        scope: options.scope.clone(),
        length_ns,
        names: header.names.clone(),
        omissions,
        disks: disk::names(&header.disks),
        start: KernelTime(clock.all_on_ns.max(clock.start_ns)),
    }
}
