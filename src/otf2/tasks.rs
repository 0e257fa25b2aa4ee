//! Registry of processes and threads, which opens and closes their locations.
//!
//! ```text
//!            first event                  ended, nothing in flight
//!   unheard ────────────────────► open ───────────────────────────► closed
//!                                   └─ the last of its process stays open while handles are
//!                                      active, until they are known to be closed
//! ```

use std::collections::VecDeque;

use otf2_sys::EvtWriter;

use super::active_handles::{Activity, HandleEventOutput};
use super::definitions::registry::{Definitions, LocationOwner};
use super::error::OtfError;
use super::pending_operations::PendingOperations;
use crate::operation::model::{ProcessInfo, ProcessKey, ThreadInfo, ThreadKey};
use crate::units::{Fd, Tid};

/// Limit on processes without a living location whose last one is kept open. More would mean that
/// the ends of their descriptors are never reported, and each needs some memory.
const WAITING_MAX: usize = 64;

/// A process.
#[derive(Debug)]
pub(super) struct ProcessDefinition {
    /// The process as it was last reported.
    pub(super) info: ProcessInfo,
    activity: Activity,
    /// Threads whose location is open.
    open: Vec<ThreadKey>,
    waiting: bool,
}

/// Destination of a thread's events.
#[derive(Debug)]
enum EventDestination {
    Unheard,
    Open(EvtWriter),
    Closed,
}

/// A thread.
#[derive(Debug)]
pub(super) struct ThreadDefinition {
    pub(super) process: ProcessKey,
    pub(super) tid: Tid,
    pub(super) comm: Vec<u8>,
    place: EventDestination,
    ended: bool,
    /// Block requests of the thread that have not ended.
    requests: u32,
    pending: PendingOperations,
}

/// Parts on which a step of a thread works.
pub(super) struct Active<'a> {
    pub(super) writer: &'a mut EvtWriter,
    pub(super) activity: &'a mut Activity,
    pub(super) pending: &'a mut PendingOperations,
    pub(super) requests: &'a mut u32,
}

/// All processes and threads, by their keys.
#[derive(Debug, Default)]
pub(super) struct TaskDefinitions {
    processes: Vec<Option<ProcessDefinition>>,
    threads: Vec<Option<ThreadDefinition>>,
    waiting: VecDeque<ProcessKey>,
    /// Steps of threads whose location is closed.
    pub(super) after_end: u64,
}

fn index(key: u32) -> usize {
    usize::try_from(key).unwrap_or(usize::MAX)
}

fn put<T>(list: &mut Vec<Option<T>>, key: u32, value: T) {
    let index = index(key);
    if index >= list.len() {
        list.resize_with(index + 1, || None);
    }
    if let Some(place) = list.get_mut(index) {
        *place = Some(value);
    }
}

impl TaskDefinitions {
    pub(super) fn process(&self, key: ProcessKey) -> Option<&ProcessDefinition> {
        self.processes.get(index(key.0))?.as_ref()
    }

    pub(super) fn thread(&self, key: ThreadKey) -> Option<&ThreadDefinition> {
        self.threads.get(index(key.0))?.as_ref()
    }

    fn process_mut(&mut self, key: ProcessKey) -> Option<&mut ProcessDefinition> {
        self.processes.get_mut(index(key.0))?.as_mut()
    }

    fn thread_mut(&mut self, key: ThreadKey) -> Option<&mut ThreadDefinition> {
        self.threads.get_mut(index(key.0))?.as_mut()
    }

    pub(super) fn process_seen(&mut self, info: &ProcessInfo) {
        let process = ProcessDefinition {
            info: info.clone(),
            activity: Activity::default(),
            open: Vec::new(),
            waiting: false,
        };
        put(&mut self.processes, info.key.0, process);
    }

    /// Takes a new identity of a process.
    pub(super) fn identified(&mut self, info: &ProcessInfo) {
        if let Some(process) = self.process_mut(info.key) {
            process.info = info.clone();
        }
    }

    pub(super) fn thread_seen(&mut self, info: &ThreadInfo) {
        let thread = ThreadDefinition {
            process: info.process,
            tid: info.tid,
            comm: info.comm.clone(),
            place: EventDestination::Unheard,
            ended: false,
            requests: 0,
            pending: PendingOperations::default(),
        };
        put(&mut self.threads, info.key.0, thread);
    }

    /// Renames a thread: locations and groups get the last names.
    pub(super) fn renamed(&mut self, info: &ThreadInfo) {
        if let Some(thread) = self.thread_mut(info.key) {
            thread.comm.clone_from(&info.comm);
        }
        if let Some(process) = self.process_mut(info.process)
            && process.info.pid.0 == info.tid.0
        {
            process.info.comm.clone_from(&info.comm);
        }
    }

    /// The thread with its location, which is opened at its first event. `None`: the thread has
    /// ended.
    #[inline]
    pub(super) fn active(
        &mut self,
        key: ThreadKey,
        definitions: &mut Definitions,
    ) -> Result<Option<Active<'_>>, OtfError> {
        let thread = self.thread_mut(key);
        if !matches!(thread, Some(ThreadDefinition { place: EventDestination::Open(_), .. }))
            && !self.open(key, definitions)?
        {
            self.after_end += 1;
            return Ok(None);
        }
        let Some(ThreadDefinition {
            place: EventDestination::Open(writer),
            process,
            pending,
            requests,
            ..
        }) = self.threads.get_mut(index(key.0)).and_then(Option::as_mut)
        else {
            return Ok(None);
        };
        let process = self.processes.get_mut(index(process.0)).and_then(Option::as_mut);
        Ok(process.map(|process| Active {
            writer,
            activity: &mut process.activity,
            pending,
            requests,
        }))
    }

    /// Opens the location of a thread that has none yet.
    #[cold]
    fn open(&mut self, key: ThreadKey, definitions: &mut Definitions) -> Result<bool, OtfError> {
        let Some(thread) = self.threads.get_mut(index(key.0)).and_then(Option::as_mut) else {
            return Ok(false);
        };
        let Some(process) =
            self.processes.get_mut(index(thread.process.0)).and_then(Option::as_mut)
        else {
            return Ok(false);
        };
        if !matches!(thread.place, EventDestination::Unheard) {
            return Ok(false);
        }
        thread.place = EventDestination::Open(definitions.open(LocationOwner::Thread(key))?);
        process.open.push(key);
        let process = thread.process;
        self.settle(process, definitions)?;
        Ok(true)
    }

    /// Records the end of a thread.
    pub(super) fn thread_ended(
        &mut self,
        info: &ThreadInfo,
        definitions: &mut Definitions,
    ) -> Result<(), OtfError> {
        self.renamed(info);
        if let Some(thread) = self.thread_mut(info.key) {
            thread.ended = true;
        }
        self.settle(info.process, definitions)
    }

    /// Records the end of a block request of the thread.
    pub(super) fn request_ended(
        &mut self,
        key: ThreadKey,
        definitions: &mut Definitions,
    ) -> Result<(), OtfError> {
        let Some(thread) = self.thread_mut(key) else { return Ok(()) };
        thread.requests = thread.requests.saturating_sub(1);
        let (ended, process) = (thread.ended, thread.process);
        if ended { self.settle(process, definitions) } else { Ok(()) }
    }

    /// Closes descriptors of a process without a call, on the location of a live thread if there is
    /// one.
    pub(super) fn descriptors_closed(
        &mut self,
        time: u64,
        key: ProcessKey,
        fds: &[Fd],
        definitions: &mut Definitions,
    ) -> Result<(), OtfError> {
        let Some(process) = self.process(key) else { return Ok(()) };
        let lives = |key: &&ThreadKey| self.thread(**key).is_some_and(|thread| !thread.ended);
        let speaker = process.open.iter().find(lives).or_else(|| process.open.last()).copied();
        if let Some(speaker) = speaker {
            if let Some(active) = self.active(speaker, definitions)? {
                active.activity.closed(
                    fds,
                    &mut HandleEventOutput { time, writer: active.writer, definitions },
                )?;
            }
        } else if let Some(process) = self.process_mut(key) {
            process.activity.forget();
        }
        self.settle(key, definitions)
    }

    /// Closes the locations of a process without further events.
    fn settle(&mut self, key: ProcessKey, definitions: &mut Definitions) -> Result<(), OtfError> {
        let Some(process) = self.processes.get_mut(index(key.0)).and_then(Option::as_mut) else {
            return Ok(());
        };
        let mut position = 0;
        while let Some(&thread) = process.open.get(position) {
            let thread = self.threads.get_mut(index(thread.0)).and_then(Option::as_mut);
            let is_needed = process.open.len() == 1 && !process.activity.is_empty();
            match thread {
                Some(thread) if thread.ended && thread.requests == 0 && !is_needed => {
                    process.open.remove(position);
                    if let EventDestination::Open(writer) =
                        std::mem::replace(&mut thread.place, EventDestination::Closed)
                    {
                        definitions.close(writer)?;
                    }
                }
                Some(thread) if thread.ended && is_needed && !process.waiting => {
                    process.waiting = true;
                    self.waiting.push_back(key);
                    position += 1;
                }
                _ => position += 1,
            }
        }
        self.limit_waiting(definitions)
    }

    /// Closes the oldest location that waits for its process's descriptors.
    fn limit_waiting(&mut self, definitions: &mut Definitions) -> Result<(), OtfError> {
        while self.waiting.len() > WAITING_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            let threads = &self.threads;
            let Some(process) = self.processes.get_mut(index(oldest.0)).and_then(Option::as_mut)
            else {
                continue;
            };
            process.waiting = false;
            let has_ended = |key: &ThreadKey| {
                threads
                    .get(index(key.0))
                    .and_then(Option::as_ref)
                    .is_some_and(|thread| thread.ended)
            };
            if process.open.iter().all(has_ended) {
                process.activity.forget();
                self.settle(oldest, definitions)?;
            }
        }
        Ok(())
    }

    /// Closes all open locations.
    pub(super) fn close_all(&mut self, definitions: &mut Definitions) -> Result<(), OtfError> {
        for thread in self.threads.iter_mut().flatten() {
            if let EventDestination::Open(writer) =
                std::mem::replace(&mut thread.place, EventDestination::Closed)
            {
                definitions.close(writer)?;
            }
        }
        Ok(())
    }
}
