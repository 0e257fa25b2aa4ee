//! Tracker: turns events into operations, assigns them to tasks, reports the steps, and keeps the
//! accounting.

mod aio;
mod announce;
mod async_state;
mod asynchronous;
mod block;
mod bounds;
mod end_spans;
mod ended;
mod fault;
mod identity;
mod layers;
mod mounts;
mod names;
mod note_file;
mod own_calls;
mod preexisting_requests;
mod renamed;
mod request_state;
mod seen_maps;
mod snapshot;
mod started;
mod unpaired;
mod unshare;
mod uring;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use self::announce::{announce, anomaly};
use self::async_state::Asynchronous;
use self::end_spans::end_spans;
use self::note_file::note_file;
use self::own_calls::OwnCalls;
use self::preexisting_requests::PreexistingRequests;
use self::request_state::InFlightRequest;
use self::seen_maps::SeenMaps;
use self::unpaired::without_exit;
use super::abi::AbiDecision;
use super::attribution::FileAttribution;
use super::block_step_kind::owned;
use super::context::{Context, Observability};
use super::model::{SyscallOperation, Unfinished};
use super::process::{Scope, Thread};
use super::spans::JournalCommits;
use super::started::{StartedPrograms, Zombies};
use super::step::{Sink, Step};
use super::syscall;
use super::task::{TaskId, TaskView};
use super::tasks::Tasks;
use super::{credentials, io_class};
use crate::anomaly::{Anomaly, AnomalyKind, Ignored, Ledger};
use crate::block::{BlockOptions, BlockTracker, RequestId};
use crate::event::fs::FsEvent;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, ProbeObservation, SeenFd, SysEnter, SysExit};
use crate::units::{KernelTime, Pid, counted};

/// State machine with events as input and steps as output.
#[derive(Debug)]
pub struct Tracker {
    tasks: Tasks,
    block: BlockTracker,
    asynchronous: Asynchronous,
    /// Requests in flight.
    requests: FxHashMap<RequestId, InFlightRequest>,
    /// Files and extents, for the attribution of requests.
    files: FileAttribution,
    /// Requests in flight that are older than the recording.
    older: PreexistingRequests,
    /// True if block requests of processes that are not followed are reported, too.
    all_requests: bool,
    /// Commits of journals.
    commits: JournalCommits,
    ledger: Ledger,
    context: Context,
    /// Time at which the last tracepoint had been switched on: earlier state may have been changed
    /// unseen.
    all_on: KernelTime,
    /// Number of losses at that time.
    losses_when_on: u32,
    /// True if the machine is of the kind `x86_64`.
    is_x86_64: bool,
    /// Time at which the first tracepoint was switched off: any part of operations in progress then
    /// may be missing.
    off_from: KernelTime,
    /// Descriptors that were the same at the start as in the snapshot later.
    from_start: Vec<SeenFd>,
    /// Program starts, for the audit.
    started: StartedPrograms,
    own_calls: OwnCalls,
    zombies: Zombies,
    /// Reads of the memory maps of processes, until their time comes.
    seen_maps: VecDeque<SeenMaps>,
    /// Process that the recording launches, and its arguments, until its exec.
    launched: Option<(Pid, Arc<[u8]>)>,
}

impl Tracker {
    /// Returns a tracker for a capture with these properties.
    pub fn new(
        scope: Scope,
        block: BlockOptions,
        followed: Observability,
        all_on: KernelTime,
    ) -> Self {
        Self {
            context: Context::new(followed),
            all_on,
            losses_when_on: 0,
            is_x86_64: false,
            off_from: KernelTime::MAX,
            from_start: Vec::new(),
            seen_maps: VecDeque::new(),
            launched: None,
            all_requests: scope.all_requests,
            tasks: Tasks::new(scope),
            block: BlockTracker::new(block),
            older: PreexistingRequests::default(),
            asynchronous: Asynchronous::default(),
            requests: FxHashMap::default(),
            files: FileAttribution::default(),
            commits: JournalCommits::default(),
            ledger: Ledger::default(),
            started: StartedPrograms::default(),
            own_calls: OwnCalls::default(),
            zombies: Zombies::default(),
        }
    }

    /// Returns the accounting so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the accounting, for anomalies that are found before they become events.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Advances to a time. When all tracepoints are on, earlier state may have been changed unseen.
    fn advance_to(&mut self, time: KernelTime) {
        if time >= self.all_on {
            self.all_on = KernelTime::MAX;
            self.context.losses += 1;
            self.losses_when_on = self.context.losses;
            self.context.names.certain_at(self.context.losses);
            self.tasks.forget_seen();
            for seen in std::mem::take(&mut self.from_start) {
                // The name of the file has not changed since the start.
                self.seen_fd(&seen, KernelTime::MIN);
            }
        }
        if !self.seen_maps.is_empty() {
            self.look_at_maps(time);
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// The errors of the sink.
    pub fn push<S: Sink>(&mut self, event: Event, sink: &mut S) -> Result<(), S::Error> {
        self.advance_to(event.time);
        match &event.kind {
            EventKind::SysEnter(enter) => self.enter(&event, enter, sink),
            EventKind::SysExit(exit) => self.exit(&event, exit, sink),
            EventKind::Block(block) => self.block(&event, block, sink),
            EventKind::Fs(report) => {
                self.file_system(report);
                Ok(())
            }
            EventKind::Layer(hit) => self.layer(&event, hit, sink),
            EventKind::Fault(fault) => self.fault(&event, fault, sink),
            EventKind::Uring(uring) => self.uring(&event, uring, sink),
            EventKind::FileIo(io) => {
                self.file_io(&event, io);
                Ok(())
            }
            EventKind::Task(task) => self.task(&event, task, sink),
            EventKind::Lost(count) => self.lost(&event, *count, sink),
            EventKind::SeenFd(seen) => {
                self.seen_fd(seen, event.time);
                Ok(())
            }
            EventKind::FileSystems(all) => {
                self.files.file_systems(all);
                Ok(())
            }
            EventKind::Places(all) => {
                all.iter().for_each(|it| self.files.learn(&FsEvent::Extent(*it)));
                Ok(())
            }
            EventKind::Identity(seen) => self.identified(event.time, seen, sink),
            EventKind::Chain(chain) => sink.step(event.time, &Step::ChainSeen(chain)),
            EventKind::Probed(probed) => {
                self.probed(&event, probed);
                match &**probed {
                    ProbeObservation::Program(path) => self.runs_program(&event, path, sink),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Reports input that could not become an event. It is reported at `now`, whatever its own time
    /// is.
    ///
    /// # Errors
    ///
    /// The errors of the sink.
    pub fn anomaly<S: Sink>(
        &mut self,
        anomaly: &Anomaly,
        now: KernelTime,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.ledger.anomalous(anomaly.kind);
        use AnomalyKind::{Late, NoProcess, Undecodable};
        if matches!(anomaly.kind, Late | Undecodable | NoProcess) {
            // For the followed state this equals a loss.
            self.records_lost();
        }
        sink.step(now, &Step::Anomaly(anomaly))
    }

    /// Ends the capture: all open operations end as unfinished.
    ///
    /// # Errors
    ///
    /// The errors of the sink.
    pub fn finish<S: Sink>(&mut self, at: KernelTime, sink: &mut S) -> Result<(), S::Error> {
        if self.has_losses() {
            self.ledger.doubt_refusals();
        }
        self.settle_ends(at, sink)?;
        self.ledger.own = self.own_calls.durations();
        self.ledger.children_left_out = self.tasks.children_left_out;
        self.ledger.unwaited += self.tasks.left() + self.zombies_left();
        for process in self.tasks.processes().filter(|it| it.followed) {
            if process.abi.is_silent(at.min(self.off_from), self.context.losses) {
                self.ledger.other.add(process.info.pid, &process.info.comm);
            }
        }
        for mut thread in self.tasks.drain_threads() {
            if let Some(pending) = thread.pending.take() {
                self.ledger.open_at_end += 1;
                let operation = syscall::abandon(pending, at);
                sink.step(at, &Step::SyscallUnfinished(&operation, Unfinished::CaptureEnd))?;
            }
        }
        self.async_finish(at, sink)?;
        let mut steps = Vec::new();
        self.block.finish(&mut |step| steps.extend(owned(&step)));
        for (step, request) in steps {
            self.block_step(at, step, &request, sink)?;
        }
        let (unsized_, given_up) = self.files.dropped_counts();
        self.ledger.attribution.unsized_extents = unsized_;
        self.ledger.attribution.given_up = given_up;
        Ok(())
    }

    /// Returns the reason why the records of this process are not wanted, if they are not.
    fn ignore_reason(&mut self, pid: Pid) -> Option<Ignored> {
        self.ignore_reason_of_pid(pid).or_else(|| self.tasks.process(pid).ignore_reason())
    }

    /// Returns the reason why records of this number are not wanted, whichever process has it.
    fn ignore_reason_of_pid(&self, pid: Pid) -> Option<Ignored> {
        match pid {
            Pid(..=0) => Some(Ignored::Invisible),
            own if self.tasks.is_own(own) => Some(Ignored::Own),
            _ => None,
        }
    }

    /// Returns true if this record of a call is not wanted, or belongs to another table.
    /// `ends_exec`: it is the end of an exec.
    fn should_ignore(&mut self, pid: Pid, ends_exec: bool) -> bool {
        if let Some(reason) = self.ignore_reason_of_pid(pid) {
            self.ledger.ignore(reason);
            return true;
        }
        let process = self.tasks.process(pid);
        let mut reason = process.ignore_reason();
        if reason.is_none() {
            let verdict = process.abi.judge(ends_exec, self.context.losses);
            if verdict == AbiDecision::NativeAgain {
                process.forget_files();
            } else if verdict == AbiDecision::OtherNow {
                self.ledger.other.add(pid, &process.info.comm);
            }
            let is_other = matches!(verdict, AbiDecision::Other | AbiDecision::OtherNow);
            reason = is_other.then_some(Ignored::Compat32);
        }
        reason.into_iter().for_each(|it| self.ledger.ignore(it));
        reason.is_some()
    }

    fn enter<S: Sink>(
        &mut self,
        event: &Event,
        enter: &SysEnter,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if self.should_ignore(event.pid, false) {
            if self.tasks.is_own(event.pid) {
                self.own_calls.enter(event.tid, event.time, enter);
            }
            return Ok(());
        }
        self.ledger.events += 1;
        self.ledger.entries += 1;
        self.asynchronous.leave(event.tid);
        self.reap_reused_tid(event.time, event.pid, event.tid, sink)?;
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        self.ledger.spans.without_end += thread.spans.clear() as u64;
        announce(event.time, process, thread, sink)?;
        if let Some(pending) = thread.pending.take() {
            let operation = syscall::abandon(pending, event.time);
            let why = without_exit(event.time >= self.off_from, &mut self.ledger);
            sink.step(event.time, &Step::SyscallUnfinished(&operation, why))?;
        }
        thread.seen = true;
        let task = TaskView::new(process, &thread.own);
        let (key, place) = (thread.info.key, &mut thread.pending);
        let pending = syscall::begin(event, enter, task, key, &mut self.context, place);
        sink.step(event.time, &Step::SyscallBegun(&pending.operation))
    }

    fn exit<S: Sink>(
        &mut self,
        event: &Event,
        exit: &SysExit,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if self.should_ignore(event.pid, exit.call.call().is_exec() && exit.ret == 0) {
            if self.tasks.is_own(event.pid) {
                self.own_calls.exit(event.tid, event.time, exit);
            }
            return Ok(());
        }
        self.reap_reused_tid(event.time, event.pid, event.tid, sink)?;
        self.leave_shared(event, exit);
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        end_spans(thread, &mut self.commits, &mut self.ledger, event.time);
        match &mut thread.pending {
            Some(pending) if pending.operation.call.ends_as(exit.call) => {
                self.ledger.events += 1;
                self.ledger.exits += 1;
                self.ledger.pairs += 1;
                self.started.ends_failed_exec(exit);
                let task = TaskView::new(process, &thread.own);
                let effects = syscall::end(pending, event, exit, task, &mut self.context);
                io_class::count_names(&mut self.ledger, &pending.operation);
                let step = Step::SyscallEnded(&pending.operation, &effects);
                sink.step(event.time, &step)?;
                note_file(&mut self.files, &pending.operation, &thread.info);
                if !pending.operation.call.call().has_consequences() {
                    thread.pending = None;
                    return Ok(());
                }
                let ended = thread.pending.take().map(|it| it.operation);
                ended.map_or(Ok(()), |it| self.follow(event, &it, exit, sink))
            }
            _ => self.unpaired(event, exit, sink),
        }
    }

    /// Handles further consequences of a call that has ended.
    fn follow<S: Sink>(
        &mut self,
        event: &Event,
        operation: &SyscallOperation,
        exit: &SysExit,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let call = operation.call.call();
        if call.changes_names() {
            self.follow_names(operation);
        } else if call.class == CallClass::Mount {
            self.files.mounts_change(event.time);
            self.mounted(operation);
        } else if call.arg(Role::TakenFd).is_some() {
            self.taken(operation);
        } else if call.arg(Role::Registered).is_some() {
            self.uring_registered(operation, exit);
        } else if call.class == CallClass::User {
            return self.user(event, operation, sink);
        } else if call.class == CallClass::Async {
            return self.aio(event, operation, exit, sink);
        }
        Ok(())
    }

    /// Updates the user of a process after a call that may change it.
    fn user<S: Sink>(
        &mut self,
        event: &Event,
        operation: &SyscallOperation,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let process = self.tasks.process(event.pid);
        let after = credentials::after(operation, process.info.user);
        if after == process.info.user {
            return Ok(());
        }
        process.info.user = after;
        sink.step(event.time, &Step::UserChanged(&process.info))
    }

    /// Handles a loss: anything may have happened unseen.
    fn records_lost(&mut self) {
        self.context.losses += 1;
        self.block.records_lost();
        self.commits.forget();
        self.files.records_lost();
        self.tasks.forget_directories();
    }

    fn lost<S: Sink>(&mut self, event: &Event, count: u64, sink: &mut S) -> Result<(), S::Error> {
        self.ledger.lost = self.ledger.lost.saturating_add(count);
        let [first, _] = self.ledger.lost_between.unwrap_or([event.time; 2]);
        self.ledger.lost_between = Some([first, event.time]);
        self.records_lost();
        let detail =
            format!("{} lost: the ring of CPU {} was full", counted(count, "record"), event.cpu);
        self.anomaly(&anomaly(event, AnomalyKind::Lost, count, detail), event.time, sink)
    }

    fn task<S: Sink>(
        &mut self,
        event: &Event,
        task: &TaskEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let concerns = match task {
            TaskEvent::Fork { ppid, .. } => *ppid,
            TaskEvent::NewTask { .. } => event.pid,
            TaskEvent::Comm { pid, .. } | TaskEvent::Exit { pid, .. } => *pid,
        };
        match self.ignore_reason(concerns) {
            Some(Ignored::BeforeExec) | None => self.ledger.events += 1,
            Some(reason) => self.ledger.ignore(reason),
        }
        match task {
            TaskEvent::Fork { pid, tid, ppid, ptid } => {
                let parent = TaskId { pid: *ppid, tid: *ptid };
                let child = TaskId { pid: *pid, tid: *tid };
                self.number_reused(event.time, child.tid, sink)?;
                self.tasks
                    .known_process_mut(*ppid)
                    .into_iter()
                    .for_each(|parent| parent.abi.lives());
                let replaced = self.tasks.fork(event.time, parent, child);
                replaced.into_iter().try_for_each(|it| self.thread_gone(event.time, it, sink))?;
                match self.tasks.keys(*ppid, *pid).filter(|_| ppid != pid) {
                    Some((parent, child)) => sink.step(event.time, &Step::Forked { parent, child }),
                    None => Ok(()),
                }
            }
            TaskEvent::NewTask { clone_flags, comm, .. } => {
                let parent = TaskId { pid: event.pid, tid: event.tid };
                self.tasks.new_task(parent, *clone_flags, comm.as_deref(), event.time);
                Ok(())
            }
            TaskEvent::Comm { pid, tid, comm, exec } => {
                self.renamed(event, TaskId { pid: *pid, tid: *tid }, comm, *exec, sink)
            }
            TaskEvent::Exit { pid, tid } => {
                self.ended(event.time, TaskId { pid: *pid, tid: *tid }, sink)
            }
        }
    }

    fn thread_gone<S: Sink>(
        &mut self,
        at: KernelTime,
        mut thread: Thread,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if let Some(pending) = thread.pending.take() {
            self.ledger.cut_off += 1;
            let operation = syscall::abandon(pending, at);
            if matches!(operation.call.call().class, CallClass::Place | CallClass::Root) {
                self.tasks.places().for_each(|it| it.borrow_mut().abandon_change(operation.tid));
            }
            sink.step(at, &Step::SyscallUnfinished(&operation, Unfinished::ThreadEnd))?;
        }
        if thread.announced {
            sink.step(at, &Step::ThreadEnded(&thread.info))?;
        }
        Ok(())
    }
}
