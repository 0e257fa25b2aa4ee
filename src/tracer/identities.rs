//! Identities of processes, read by a thread of its own: command lines, control groups, programs.
//!
//! A process can delay the reader of its command line for any time (its arguments may be in a file
//! whose file system does not answer). So no other thread waits for a reader without progress, such
//! a reader is replaced by another one, and the log thread fetches the facts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::TracerError;
use super::named_thread::spawn_named;
use super::thread_placement::ThreadPlacement;
use crate::capture::fact::Fact;
use crate::sys::{clock, proc};
use crate::units::{KernelTime, Pid};

/// Largest number of requests that wait.
const WAITING_MAX: usize = 4096;

/// Time after which the end of a recording looks whether the reader makes progress.
const WAIT: Duration = Duration::from_millis(300);

/// Largest number of these waits: a machine may have any number of processes.
const WAITS_MAX: u32 = 6;

/// Time without progress after which a reader is replaced, ns.
const STALL_NS: u64 = 1_000_000_000;

/// Largest number of readers of a recording.
const READERS_MAX: u32 = 8;

/// Largest number of bytes of facts that wait for the log thread.
const BYTES_MAX: usize = 16 << 20;

/// Request to a reader.
enum Request {
    /// Read the identities of these processes.
    Of(Vec<Pid>),
    /// Answer when everything before is done.
    Answer(SyncSender<()>),
}

/// Facts that wait for the log thread.
#[derive(Debug, Default)]
struct ReadFacts {
    /// Facts, each with its process.
    facts: Vec<(Option<Pid>, Fact)>,
    /// Bytes of these facts, beside their fixed size.
    bytes: usize,
    /// Processes whose facts had no room.
    left_out: u64,
}

/// Results of a reader.
#[derive(Debug, Default)]
struct IdentityResults {
    read: Mutex<ReadFacts>,
    /// Processes that were looked at.
    passed: AtomicU64,
}

/// Connection to a reader's thread.
#[derive(Debug)]
pub struct IdentityReader {
    own_name: String,
    place: ThreadPlacement,
    requests: SyncSender<Request>,
    results: Arc<IdentityResults>,
    /// Processes that the reader is to look at, in this order, without those that it was seen to
    /// have passed.
    pending: VecDeque<Pid>,
    /// Number of processes that the reader is to look at, so far.
    requested: u64,
    /// Number of processes that the reader had looked at, and the time since then.
    progress: (u64, KernelTime),
    /// Number of readers so far.
    readers: u32,
    /// Processes that no reader has looked at.
    unread: u64,
}

impl IdentityReader {
    /// Starts the reader of a recording, and has the identities of these processes read, or of all.
    ///
    /// # Errors
    ///
    /// If its thread cannot be started.
    pub(super) fn of(
        processes: &[Pid],
        is_system: bool,
        place: &ThreadPlacement,
        own_name: &str,
    ) -> Result<Self, TracerError> {
        let (requests, results) = start(own_name, place)?;
        let mut reader = Self {
            own_name: own_name.to_owned(),
            place: place.clone(),
            requests,
            results,
            pending: VecDeque::new(),
            requested: 0,
            progress: (0, clock::now()),
            readers: 1,
            unread: 0,
        };
        reader.read(if is_system { proc::processes() } else { processes.to_vec() });
        Ok(reader)
    }

    /// Has the identities of these processes read.
    pub(super) fn read(&mut self, processes: Vec<Pid>) {
        self.note_progress();
        let count = processes.len() as u64;
        match self.requests.try_send(Request::Of(processes.clone())) {
            Ok(()) => {
                self.requested += count;
                self.pending.extend(processes);
            }
            Err(_) => self.unread += count,
        }
    }

    /// Notes which processes the reader has passed. Returns true if it makes progress, or has
    /// nothing to do.
    fn note_progress(&mut self) -> bool {
        // ORDERING: a counter alone; nothing is published with it.
        let passed = self.results.passed.load(Ordering::Relaxed);
        let is_busy = passed < self.requested;
        let has_progress = passed != self.progress.0;
        if has_progress || !is_busy {
            let newly = usize::try_from(passed - self.progress.0).unwrap_or(usize::MAX);
            self.pending.drain(..newly.min(self.pending.len()));
            self.progress = (passed, clock::now());
        }
        has_progress || !is_busy
    }

    /// Takes the facts that were read so far, each with its process, and replaces a reader that
    /// makes no progress.
    pub(super) fn take(&mut self) -> Vec<(Option<Pid>, Fact)> {
        let stalled_ns = clock::now().0.saturating_sub(self.progress.1.0);
        if !self.note_progress() && stalled_ns > STALL_NS {
            self.replace();
        }
        self.fetch()
    }

    fn fetch(&mut self) -> Vec<(Option<Pid>, Fact)> {
        let mut read = self.results.read.lock().unwrap_or_else(PoisonError::into_inner);
        let ReadFacts { facts, left_out, .. } = std::mem::take(&mut *read);
        self.unread += left_out;
        facts
    }

    /// Leaves the reader to the process that delays it, and starts another one for the processes
    /// after that one. Returns false if there may be no further reader.
    fn replace(&mut self) -> bool {
        if self.readers >= READERS_MAX {
            return false;
        }
        let Ok((requests, results)) = start(&self.own_name, &self.place) else { return false };
        self.readers += 1;
        self.unread += u64::from(self.pending.pop_front().is_some());
        let rest = std::mem::take(&mut self.pending);
        let earlier = std::mem::replace(&mut self.results, results);
        self.requests = requests;
        (self.requested, self.progress) = (0, (0, clock::now()));
        // The facts that the earlier reader has left.
        let mut of_earlier = earlier.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = self.results.read.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = std::mem::take(&mut *of_earlier);
        drop((kept, of_earlier));
        self.read(rest.into());
        true
    }

    /// Waits until everything that was requested is read; readers without progress are replaced.
    /// Returns the last facts, and a warning about identities that are missing.
    pub(super) fn finish(&mut self) -> (Vec<(Option<Pid>, Fact)>, Option<String>) {
        let (mut answer, mut answered) = sync_channel(1);
        let mut is_sent = self.requests.try_send(Request::Answer(answer)).is_ok();
        for _ in 0..WAITS_MAX {
            if is_sent && answered.recv_timeout(WAIT).is_ok() {
                break;
            }
            if !self.note_progress() {
                if !self.replace() {
                    break;
                }
                (answer, answered) = sync_channel(1);
                is_sent = self.requests.try_send(Request::Answer(answer)).is_ok();
            }
        }
        self.note_progress();
        self.unread += std::mem::take(&mut self.pending).len() as u64;
        let facts = self.fetch();
        let warning = (self.unread > 0).then(|| {
            format!(
                "processes whose command line, program and control group were not read: {}; too many started at once, or one \
                 delayed its reader",
                self.unread
            )
        });
        (facts, warning)
    }
}

/// Starts a reader's thread. It ends with its connection, or with the process if a read does not
/// end.
fn start(
    own_name: &str,
    place: &ThreadPlacement,
) -> Result<(SyncSender<Request>, Arc<IdentityResults>), TracerError> {
    let (requests, received) = sync_channel(WAITING_MAX);
    let results = Arc::new(IdentityResults::default());
    let (reading, place) = (Arc::clone(&results), place.clone());
    let thread = spawn_named(own_name, move || {
        place.take(None);
        read(&received, &reading);
    })?;
    drop(thread);
    Ok((requests, results))
}

/// Reads until the connection is gone.
fn read(requests: &Receiver<Request>, results: &IdentityResults) {
    for request in requests {
        let processes = match request {
            Request::Of(processes) => processes,
            Request::Answer(answer) => {
                // The asker may have given up.
                let _ = answer.send(());
                continue;
            }
        };
        for pid in processes {
            let facts = proc::identity(pid);
            let bytes: usize = facts.iter().map(Fact::heap_bytes).sum();
            let mut kept = results.read.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.bytes + bytes > BYTES_MAX {
                kept.left_out += 1;
            } else {
                kept.bytes += bytes;
                kept.facts.extend(facts.into_iter().map(|fact| (Some(pid), fact)));
            }
            // ORDERING: a counter alone; nothing is published with it.
            results.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fact::Text;

    fn reader(requests: SyncSender<Request>) -> IdentityReader {
        IdentityReader {
            own_name: "reader".to_owned(),
            place: ThreadPlacement::default(),
            requests,
            results: Arc::default(),
            pending: VecDeque::new(),
            requested: 0,
            progress: (0, clock::now()),
            readers: 1,
            unread: 0,
        }
    }

    fn own() -> Pid {
        Pid(std::process::id().cast_signed())
    }

    #[track_caller]
    fn check_own(facts: &[(Option<Pid>, Fact)]) {
        let command = facts.iter().find_map(|(pid, fact)| match fact {
            Fact::Text { which: Text::COMMAND, text, .. } => Some((*pid, text.clone())),
            _ => None,
        });
        let first = std::env::args().next().expect("a program");
        let (pid, text) = command.expect("own command line");
        assert!(pid == Some(own()) && text.starts_with(first.as_bytes()), "{text:?}");
        assert!(facts.iter().all(|(pid, _)| *pid == Some(own())));
    }

    #[test]
    fn own_command_line_is_read() {
        let place = ThreadPlacement::default();
        let reader = IdentityReader::of(&[own(), Pid(i32::MAX)], false, &place, "reader");
        let (facts, warning) = reader.expect("a thread").finish();
        assert_eq!(warning, None);
        check_own(&facts);
    }

    #[test]
    fn requests_without_room_are_counted() {
        let (requests, received) = sync_channel(1);
        let mut reader = reader(requests);
        reader.read(vec![Pid(i32::MAX)]);
        reader.read(vec![Pid(1), Pid(2)]);
        drop(received);
        assert_eq!((reader.unread, reader.pending.len()), (2, 1));
    }

    /// The first process never ends its read, and the second one is read by another reader.
    #[test]
    fn reader_without_progress_is_replaced() {
        let (requests, _received) = sync_channel(1);
        let mut reader = reader(requests);
        reader.read(vec![Pid(1), own()]);
        assert!(reader.take().is_empty() && reader.readers == 1);
        reader.progress.1 = KernelTime(clock::now().0 - STALL_NS - 1);
        reader.take();
        assert_eq!((reader.readers, reader.unread), (2, 1));
        let (facts, warning) = reader.finish();
        assert!(warning.is_some_and(|warning| warning.contains("not read: 1;")));
        check_own(&facts);
    }

    #[test]
    fn end_does_not_wait_for_one_process() {
        let (requests, _received) = sync_channel(2);
        let mut reader = reader(requests);
        reader.read(vec![Pid(1), own()]);
        let (facts, warning) = reader.finish();
        assert!(warning.is_some_and(|warning| warning.contains("not read: 1;")));
        check_own(&facts);
    }
}
