//! Assigns plan workers to threads: one thread per worker, or, with io_uring, one thread for all
//! lanes of a captured thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, SyncSender, channel};
use std::thread::{Builder, Scope};

use rustc_hash::{FxHashMap, FxHashSet};

use super::decoder_threads::DecodeRequest;
use super::messages::WorkerMessage;
use super::options::Engine;
use super::run_error::RunError;
use super::shared::Shared;
use super::uring_server::serve;
use super::worker::work;
use crate::replay::plan::plan_file::{Index, WorkerPlan};
use crate::replay::verify_recording::THREAD_NAME;
use crate::sys::replay::reissue::{CallRing, UringPolicy};

/// Returns the number of rings that a plan needs at most.
pub(super) fn rings(index: &Index, engine: Engine) -> usize {
    let lanes = index.workers.iter().filter(|it| it.lane.is_some() && engine != Engine::Calls);
    lanes.map(CapturedThread::of).collect::<FxHashSet<_>>().len()
}

/// Threads of a replay.
#[derive(Debug)]
pub(super) struct WorkerPool<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'scope Shared,
    helpers: SyncSender<DecodeRequest>,
    messages: Sender<WorkerMessage>,
    /// Servers by captured thread.
    servers: FxHashMap<CapturedThread, LaneServer>,
    /// Number of running workers that are threads.
    threads: usize,
}

/// Captured thread, whose lanes share a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CapturedThread {
    pid: i32,
    tid: i32,
}

impl CapturedThread {
    /// Returns the thread of a worker.
    fn of(worker: &WorkerPlan) -> Self {
        Self { pid: worker.pid, tid: worker.tid }
    }
}

/// Thread that serves lanes.
#[derive(Debug)]
struct LaneServer {
    births: Sender<u32>,
    /// Number of its running lanes.
    lanes: usize,
}

impl<'scope, 'env> WorkerPool<'scope, 'env> {
    /// Creates a pool without threads.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        shared: &'scope Shared,
        helpers: SyncSender<DecodeRequest>,
        messages: Sender<WorkerMessage>,
    ) -> Self {
        Self { scope, shared, helpers, messages, servers: FxHashMap::default(), threads: 0 }
    }

    /// Starts a worker.
    pub(super) fn start(&mut self, worker: u32) -> Result<(), RunError> {
        let Some((thread, rules)) = self.server_of(worker) else {
            let (shared, helpers, messages) =
                (self.shared, self.helpers.clone(), self.messages.clone());
            let run = move || work(shared, worker, &helpers, &messages);
            self.spawn(format!("{THREAD_NAME}{worker}"), run)?;
            self.threads += 1;
            return Ok(());
        };
        if !self.servers.contains_key(&thread) {
            let serving = self.server(thread, rules)?;
            self.servers.insert(thread, serving);
        }
        if let Some(serving) = self.servers.get_mut(&thread) {
            // The server exists as long as this sender does.
            let _ = serving.births.send(worker);
            serving.lanes += 1;
        }
        Ok(())
    }

    /// Records that a worker has ended.
    pub(super) fn ended(&mut self, worker: u32) {
        let server = self.server_of(worker).and_then(|it| self.servers.get_mut(&it.0));
        match server {
            Some(it) => it.lanes -= 1,
            None => self.threads -= 1,
        }
    }

    /// Returns the number of running workers.
    pub(super) fn workers(&self) -> usize {
        self.threads + self.servers.values().map(|it| it.lanes).sum::<usize>()
    }

    /// Returns the number of threads that there would be if these workers were started.
    pub(super) fn threads_with(&self, born: &[u32]) -> usize {
        let mut rings = FxHashSet::default();
        let is_more = |worker: &&u32| match self.server_of(**worker) {
            Some((thread, _)) => !self.servers.contains_key(&thread) && rings.insert(thread),
            None => true,
        };
        self.threads + self.servers.len() + born.iter().filter(is_more).count()
    }

    /// Returns the number of threads that have work.
    pub(super) fn threads(&self) -> usize {
        self.threads + self.servers.values().filter(|it| it.lanes > 0).count()
    }

    /// Returns the number of threads that serve lanes, including those without running lanes.
    pub(super) fn rings(&self) -> usize {
        self.servers.len()
    }

    /// Returns the captured thread whose lanes are served together, if the worker is one of these
    /// lanes.
    fn server_of(&self, worker: u32) -> Option<(CapturedThread, UringPolicy)> {
        let Engine::IoUring(rules) = self.shared.options.engine else { return None };
        let it = self.shared.source.index.workers.get(worker as usize)?;
        it.lane.map(|_| (CapturedThread::of(it), rules))
    }

    /// Starts the server of all lanes of a captured thread.
    fn server(&self, thread: CapturedThread, rules: UringPolicy) -> Result<LaneServer, RunError> {
        let workers = self.shared.source.index.workers.iter();
        let is_one = |it: &&WorkerPlan| it.lane.is_some() && CapturedThread::of(it) == thread;
        let lanes = workers.filter(is_one).count();
        let ring = CallRing::new(u32::try_from(lanes).unwrap_or(u32::MAX), rules)?;
        let (births, born) = channel();
        let (shared, helpers, messages) =
            (self.shared, self.helpers.clone(), self.messages.clone());
        let run = move || serve(shared, ring, lanes, &born, &helpers, &messages);
        self.spawn(format!("ring {}", self.servers.len()), run)?;
        Ok(LaneServer { births, lanes: 0 })
    }

    fn spawn(&self, name: String, run: impl FnOnce() + Send + 'scope) -> Result<(), RunError> {
        // A thread that panics has reported so (`WorkerEndNotice`), and the scope must not panic
        // afterwards.
        let run = || drop(catch_unwind(AssertUnwindSafe(run)));
        let thread = Builder::new().name(name).spawn_scoped(self.scope, run);
        thread.map(drop).map_err(RunError::Thread)
    }
}
