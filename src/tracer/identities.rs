//! Identities of processes, read by a thread of its own: command lines, control groups, programs.
//!
//! A process can delay the reader of its command line for any time (its arguments may be in a file
//! whose file system does not answer). So no other thread waits for a reader longer than
//! [`WAIT_MAX`], a reader without progress is replaced by another one, and the log thread fetches
//! the facts.

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

/// Longest time for which the end of a recording waits for one process.
const WAIT_MAX: Duration = Duration::from_millis(300);

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
    /// Processes that the reader is to look at, so far.
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
        let count = processes.len() as u64;
        match self.requests.try_send(Request::Of(processes)) {
            Ok(()) => self.requested += count,
            Err(_) => self.unread += count,
        }
    }

    /// Takes the facts that were read so far, each with its process, and replaces a reader that
    /// makes no progress.
    pub(super) fn take(&mut self) -> Vec<(Option<Pid>, Fact)> {
        let facts = self.fetch();
        // ORDERING: a counter alone; nothing is published with it.
        let passed = self.results.passed.load(Ordering::Relaxed);
        let now = clock::now();
        if passed != self.progress.0 || passed >= self.requested {
            self.progress = (passed, now);
        } else if now.0.saturating_sub(self.progress.1.0) > STALL_NS && self.readers < READERS_MAX {
            self.replace(passed);
        }
        facts
    }

    fn fetch(&mut self) -> Vec<(Option<Pid>, Fact)> {
        let mut read = self.results.read.lock().unwrap_or_else(PoisonError::into_inner);
        let ReadFacts { facts, left_out, .. } = std::mem::take(&mut *read);
        self.unread += left_out;
        facts
    }

    /// Leaves the reader to the process that delays it, and starts another one.
    fn replace(&mut self, passed: u64) {
        let Ok((requests, results)) = start(&self.own_name, &self.place) else { return };
        self.unread += self.requested.saturating_sub(passed);
        self.readers += 1;
        (self.requests, self.results) = (requests, results);
        (self.requested, self.progress) = (0, (0, clock::now()));
    }

    /// Waits for the answer as long as the reader makes progress. Returns false if none comes.
    fn is_answered(&self, answered: &Receiver<()>) -> bool {
        let mut before = None;
        for _ in 0..WAITS_MAX {
            if answered.recv_timeout(WAIT_MAX).is_ok() {
                return true;
            }
            // ORDERING: a counter alone; nothing is published with it.
            let passed = self.results.passed.load(Ordering::Relaxed);
            if before == Some(passed) {
                break;
            }
            before = Some(passed);
        }
        false
    }

    /// Waits until everything that was requested is read, or one process delays the reader for
    /// [`WAIT_MAX`]. Returns a warning about identities that are missing.
    pub(super) fn finish(&mut self) -> Option<String> {
        let (answer, answered) = sync_channel(1);
        let is_sent = self.requests.try_send(Request::Answer(answer)).is_ok();
        if !is_sent || !self.is_answered(&answered) {
            // ORDERING: a counter alone; nothing is published with it.
            let passed = self.results.passed.load(Ordering::Relaxed);
            self.unread += self.requested.saturating_sub(passed).max(1);
        }
        (self.unread > 0).then(|| {
            format!(
                "processes whose command line, program and control group were not read: {}; too many started at once, or one \
                 delayed its reader",
                self.unread
            )
        })
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
            requested: 0,
            progress: (0, clock::now()),
            readers: 1,
            unread: 0,
        }
    }

    #[track_caller]
    fn check_own(facts: &[(Option<Pid>, Fact)]) {
        let own = Pid(std::process::id().cast_signed());
        let command = facts.iter().find_map(|(pid, fact)| match fact {
            Fact::Text { which: Text::COMMAND, text, .. } => Some((*pid, text.clone())),
            _ => None,
        });
        let first = std::env::args().next().expect("a program");
        let (pid, text) = command.expect("own command line");
        assert!(pid == Some(own) && text.starts_with(first.as_bytes()), "{text:?}");
        assert!(facts.iter().all(|(pid, _)| *pid == Some(own)));
    }

    #[test]
    fn own_command_line_is_read() {
        let own = Pid(std::process::id().cast_signed());
        let place = ThreadPlacement::default();
        let reader = IdentityReader::of(&[own, Pid(i32::MAX)], false, &place, "reader");
        let mut reader = reader.expect("a thread");
        assert_eq!(reader.finish(), None);
        check_own(&reader.take());
        assert!(reader.take().is_empty());
    }

    #[test]
    fn requests_without_room_are_counted() {
        let (requests, received) = sync_channel(1);
        let mut reader = reader(requests);
        reader.read(vec![Pid(1)]);
        reader.read(vec![Pid(1), Pid(2)]);
        drop(received);
        assert_eq!(reader.unread, 2);
        assert!(reader.finish().is_some_and(|warning| warning.contains("not read: 3;")));
    }

    #[test]
    fn reader_without_progress_is_replaced() {
        let (requests, _received) = sync_channel(1);
        let mut reader = reader(requests);
        reader.read(vec![Pid(1)]);
        reader.progress.1 = KernelTime(clock::now().0 - STALL_NS - 1);
        reader.take();
        assert_eq!((reader.readers, reader.unread, reader.requested), (2, 1, 0));
        let own = Pid(std::process::id().cast_signed());
        reader.read(vec![own]);
        assert!(reader.finish().is_some_and(|warning| warning.contains("not read: 1;")));
        check_own(&reader.take());
    }
}
