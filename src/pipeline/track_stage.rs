//! Track stage: events become steps in the tracker and go to the sink.

use super::error::PipelineError;
use super::recorded::followed;
use super::stage_message::{StageMessage, StageOutput};
use super::summary::Summary;
use super::thread_scope::ThreadScope;
use crate::anomaly::Ignored;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::{Disk, Header};
use crate::event::fs::WRITEBACK_POINTS;
use crate::operation::block::BlockOptions;
use crate::operation::mount_table::MountTable;
use crate::operation::process::Scope;
use crate::operation::tracker::Tracker;
use crate::operation::{Sink, Step};
use crate::units::{KernelTime, Pid, Tid};

/// Tracker, sink, and the callback that continues or stops.
pub(super) struct TrackStage<'a, S> {
    tracker: Tracker,
    /// Disks that existed at the start.
    disks: Vec<Disk>,
    sink: ThreadScope<'a, S>,
    /// Time up to which all steps were passed on. An anomaly has a time of its own, which may be
    /// before or after this time.
    now: KernelTime,
    /// Called in each round; false stops the run.
    go_on: &'a mut dyn FnMut() -> bool,
}

impl<'a, S: Sink> TrackStage<'a, S> {
    /// Creates the stage for a log with this header.
    pub(super) fn new(
        header: &Header,
        sink: &'a mut S,
        go_on: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        let (tracker, disks) = (tracker(header), header.disks.clone());
        let sink = ThreadScope::new(header, sink);
        Self { tracker, disks, sink, now: KernelTime::MIN, go_on }
    }

    /// Ends the run after the last message of the log, and returns its summary.
    pub(super) fn finish(mut self, summary: Summary) -> Result<Summary, PipelineError<S::Error>> {
        let at = match summary.read_until {
            // What became of the processes later is not known here.
            Some(_) => self.now,
            None => summary.last_time.max(self.now),
        };
        self.tracker.finish(at, &mut self.sink).map_err(PipelineError::Sink)?;
        let mut beyond_bounds = summary.beyond_bounds;
        if let Some(anomaly) = self.tracker.left_out(beyond_bounds, at) {
            beyond_bounds = anomaly.count;
            self.sink.step(at, &Step::Anomaly(&anomaly)).map_err(PipelineError::Sink)?;
        }
        // The kernel may have counted a loss that no record reports.
        if summary.lacks_samples() {
            self.tracker.ledger_mut().doubt_refusals();
        }
        let (ledger, started) = (self.tracker.ledger().clone(), self.tracker.started().clone());
        let alive_at_end = self.tracker.alive();
        Ok(Summary { ledger, started, beyond_bounds, alive_at_end, ..summary })
    }

    /// Handles facts without a step.
    fn learn(&mut self, passed: StageMessage) {
        let tracker = &mut self.tracker;
        match passed {
            StageMessage::Records(count) => tracker.ledger_mut().records += count,
            StageMessage::Bookkeeping => tracker.ledger_mut().ignore(Ignored::Bookkeeping),
            StageMessage::Later(count) => tracker.ledger_mut().ignore_all(Ignored::Later, count),
            StageMessage::Fact(fact) => self.fact(*fact),
            StageMessage::SeenFd(late, at) => tracker.seen_fd(&late, at),
            StageMessage::FileSystems(all) => tracker.seen_file_systems(&all),
            StageMessage::Opened(opened) => {
                tracker.same_from_start(opened.from_start);
                opened.moved.iter().for_each(|moved| tracker.lose_place(*moved));
            }
            StageMessage::Disks(later) => tracker.has_disks(&self.disks, &later),
            StageMessage::Event(_)
            | StageMessage::Anomaly(_)
            | StageMessage::Damage(_)
            | StageMessage::CompleteUntil(_)
            | StageMessage::Round => {}
        }
    }

    /// Handles facts of a snapshot, except for those with a place in time, which come as events.
    fn fact(&mut self, fact: Fact) {
        let tracker = &mut self.tracker;
        let (pid, tid) = match &fact {
            Fact::Task { pid, tid, .. } => (*pid, *tid),
            Fact::User { pid, .. } | Fact::Text { pid, .. } => (*pid, Tid(pid.0)),
            _ => (Pid(0), Tid(0)),
        };
        // Texts without a process have number 0.
        if pid.0 != 0 && !tracker.has_room_for_task(pid, tid) {
            return;
        }
        match fact {
            Fact::Task { pid, tid, ppid, comm, .. } => tracker.seen_task(pid, tid, ppid, &comm),
            Fact::User { pid, user, .. } => tracker.seen_user(pid, user),
            Fact::Text { which, pid, time, text } => match which {
                Text::CWD | Text::ROOT => tracker.seen_place(pid, which, &text),
                Text::MOUNTS => tracker.seen_mounts(pid, &text),
                Text::EXE => tracker.seen_program(pid, &text),
                Text::MAPS => tracker.seen_maps(time, pid, text),
                Text::BITS => tracker.seen_other_table(pid),
                Text::EXTENTS => tracker.seen_extents(&text),
                Text::SWITCHING_OFF => tracker.switching_off(time),
                Text::DISKSTATS_START => tracker.seen_counters(time, &text),
                _ => {}
            },
            // The decode stage joins these to events.
            Fact::Name { .. }
            | Fact::Fd { .. }
            | Fact::Opened { .. }
            | Fact::Symbol(_)
            | Fact::Stack(_)
            | Fact::Unwound(_) => {}
        }
    }
}

impl<S: Sink> TrackStage<'_, S> {
    /// Passes the mounts of a snapshot on.
    fn mounts(&mut self, fact: &Fact) -> Result<(), S::Error> {
        let Fact::Text { text, .. } = fact else { return Ok(()) };
        self.sink.step(self.now, &Step::MountsSeen(&MountTable::parse(text)))
    }
}

/// True if a fact is the mounts of a snapshot.
fn has_mounts(fact: &Fact) -> bool {
    matches!(fact, Fact::Text { which: Text::MOUNTINFO, .. })
}

impl<S: Sink> StageOutput for TrackStage<'_, S> {
    type Error = PipelineError<S::Error>;

    fn take(&mut self, passed: StageMessage) -> Result<(), Self::Error> {
        let tracker = &mut self.tracker;
        self.now = match &passed {
            StageMessage::Event(event) => self.now.max(event.time),
            StageMessage::CompleteUntil(time) => self.now.max(*time),
            _ => self.now,
        };
        let taken = match passed {
            StageMessage::Event(event) if tracker.has_room_for(&event) => {
                tracker.push(event, &mut self.sink)
            }
            StageMessage::Event(event) => {
                tracker.anomaly(&Tracker::beyond_bounds(&event), self.now, &mut self.sink)
            }
            StageMessage::Anomaly(anomaly) => tracker.anomaly(&anomaly, self.now, &mut self.sink),
            // Damage is not the anomaly of a record that was read, so the counters of records do
            // not have it.
            StageMessage::Damage(it) => self.sink.step(self.now, &Step::Anomaly(&it)),
            StageMessage::CompleteUntil(time) => self.sink.complete_until(time),
            StageMessage::Round => {
                return if (self.go_on)() { Ok(()) } else { Err(PipelineError::Interrupted) };
            }
            StageMessage::Fact(fact) if has_mounts(&fact) => self.mounts(&fact),
            quiet => {
                self.learn(quiet);
                Ok(())
            }
        };
        taken.map_err(PipelineError::Sink)
    }
}

fn tracker(header: &Header) -> Tracker {
    let all_on = KernelTime(header.clock.all_on_ns);
    let mut tracker = Tracker::new(scope(header), block_options(header), followed(header), all_on);
    tracker.runs_on(&header.host.machine);
    tracker.has_disks(&header.disks, &[]);
    // Of the ranks of a node the first one is the launched program.
    let is_launched = header.scope.roots.len() == 1 || !header.scope.ranks.is_empty();
    let root = header.scope.roots.first().filter(|_| is_launched);
    if let Some(root) = root.filter(|_| !header.scope.command.is_empty()) {
        tracker.launches(Pid(*root), &header.scope.command);
    }
    for (pid, rank) in ranks(header) {
        tracker.is_rank(pid, rank);
    }
    let mut tracepoints = header.tracepoints.iter();
    if tracepoints.any(|tracepoint| WRITEBACK_POINTS.contains(&tracepoint.name.as_str())) {
        tracker.reports_writeback();
    }
    tracker
}

/// Returns the processes whose ranks are known: all of a node, or the one that was recorded.
fn ranks(header: &Header) -> Vec<(Pid, u64)> {
    let scope = &header.scope;
    let known = scope.ranks.iter().filter_map(|process| Some((Pid(process.pid), process.rank?)));
    let rank = header.job.as_ref().and_then(|job| job.rank);
    match (scope.roots.as_slice(), rank) {
        ([root], Some(rank)) if scope.ranks.is_empty() => vec![(Pid(*root), rank)],
        _ => known.collect(),
    }
}

fn scope(header: &Header) -> Scope {
    Scope {
        system: header.scope.mode == "system",
        all_requests: header.scope.mode == "system" || header.scope.all_block,
        roots: header.scope.roots.iter().copied().map(Pid).collect(),
        launched: !header.scope.command.is_empty(),
        own: Pid(header.own_pid),
        children: !header.scope.children_left_out,
        excluded: header.scope.excluded.iter().copied().map(Pid).collect(),
    }
}

/// Block tracepoints of the capture.
fn block_options(header: &Header) -> BlockOptions {
    let has = |name: &str| header.tracepoints.iter().any(|tracepoint| tracepoint.name == name);
    BlockOptions {
        merges_recorded: has("block_bio_backmerge")
            && has("block_bio_frontmerge")
            && has("block_rq_merge"),
        requeues_recorded: has("block_rq_requeue"),
        ..BlockOptions::default()
    }
}
