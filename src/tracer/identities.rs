//! Identities of processes, read by a thread of its own: command lines and control groups.
//!
//! A process can delay the reader of its command line for any time (its arguments may be in a file
//! whose file system does not answer). So no other thread waits for this one longer than
//! [`WAIT_MAX`], and what it has read is fetched by the log thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::TracerError;
use super::named_thread::spawn_named;
use crate::capture::fact::Fact;
use crate::sys::proc;
use crate::units::Pid;

/// Largest number of processes that wait to be read.
const WAITING_MAX: usize = 4096;

/// Longest time for which the end of a recording waits for the reader.
const WAIT_MAX: Duration = Duration::from_millis(300);

/// Largest number of bytes of facts that wait for the log thread.
const BYTES_MAX: usize = 16 << 20;

/// Request to the reader.
enum Request {
    /// Read the identities of these processes.
    Of(Vec<Pid>),
    /// Read the identities of all processes.
    OfAll,
    /// Answer when everything before is done.
    Answer(SyncSender<()>),
}

/// Identities that were read, and those that were not.
#[derive(Debug, Default)]
struct IdentityResults {
    facts: Mutex<Vec<(Option<Pid>, Fact)>>,
    /// Processes that were not read: too many waited.
    unread: AtomicU64,
}

/// Connection to the reader's thread.
#[derive(Debug)]
pub struct IdentityReader {
    requests: SyncSender<Request>,
    results: Arc<IdentityResults>,
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
        own_name: &str,
    ) -> Result<Self, TracerError> {
        let reader = Self::start(own_name)?;
        match is_system {
            true => reader.read_all(),
            false => reader.read(processes.to_vec()),
        }
        Ok(reader)
    }

    fn start(own_name: &str) -> Result<Self, TracerError> {
        let (requests, received) = sync_channel(WAITING_MAX);
        let results = Arc::new(IdentityResults::default());
        let reading = Arc::clone(&results);
        // The thread ends with this connection, or with the process if a read does not end.
        drop(spawn_named(own_name, move || read(&received, &reading))?);
        Ok(Self { requests, results })
    }

    /// Has the identities of these processes read.
    pub(super) fn read(&self, processes: Vec<Pid>) {
        let count = processes.len() as u64;
        self.request(Request::Of(processes), count);
    }

    /// Has the identities of all processes read.
    pub(super) fn read_all(&self) {
        self.request(Request::OfAll, 1);
    }

    fn request(&self, request: Request, count: u64) {
        if let Err(TrySendError::Full(_)) = self.requests.try_send(request) {
            // ORDERING: a counter alone; nothing is published with it.
            self.results.unread.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Takes the facts that were read so far, each with its process.
    pub(super) fn take(&self) -> Vec<(Option<Pid>, Fact)> {
        std::mem::take(&mut *self.results.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until everything that was requested is read, or [`WAIT_MAX`] has passed. Returns a
    /// warning about identities that are missing.
    pub(super) fn finish(&self) -> Option<String> {
        let (answer, answered) = sync_channel(1);
        let is_sent = self.requests.try_send(Request::Answer(answer)).is_ok();
        if !is_sent || answered.recv_timeout(WAIT_MAX).is_err() {
            return Some(format!(
                "command lines and control groups of some processes are unknown: a process did not answer for {} ms",
                WAIT_MAX.as_millis()
            ));
        }
        // ORDERING: the answer came through a channel, after all additions.
        let unread = self.results.unread.load(Ordering::Relaxed);
        (unread > 0).then(|| {
            format!("command lines and control groups of {unread} processes are unknown: too many started at once")
        })
    }
}

/// Reads until the connection is gone.
fn read(requests: &Receiver<Request>, results: &IdentityResults) {
    for request in requests {
        let processes = match request {
            Request::Of(processes) => processes,
            Request::OfAll => proc::processes(),
            Request::Answer(answer) => {
                // The asker may have given up.
                let _ = answer.send(());
                continue;
            }
        };
        for pid in processes {
            let facts = proc::identity(pid);
            let mut kept = results.facts.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes: usize = kept.iter().map(|(_, fact)| fact.heap_bytes()).sum();
            if bytes > BYTES_MAX {
                // ORDERING: a counter alone; nothing is published with it.
                results.unread.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            kept.extend(facts.into_iter().map(|fact| (Some(pid), fact)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fact::Text;

    #[test]
    fn own_command_line_is_read() {
        let reader = IdentityReader::start("reader").expect("a thread");
        let own = Pid(std::process::id().cast_signed());
        reader.read(vec![own, Pid(i32::MAX)]);
        assert_eq!(reader.finish(), None);
        let facts = reader.take();
        let command = facts.iter().find_map(|(pid, fact)| match fact {
            Fact::Text { which: Text::COMMAND, text, .. } => Some((*pid, text.clone())),
            _ => None,
        });
        let first = std::env::args().next().expect("a program");
        let (pid, text) = command.expect("own command line");
        assert!(pid == Some(own) && text.starts_with(first.as_bytes()), "{text:?}");
        assert!(facts.iter().all(|(pid, _)| *pid == Some(own)));
        assert!(reader.take().is_empty());
    }

    #[test]
    fn too_many_requests_are_counted() {
        let (requests, received) = sync_channel(1);
        let reader = IdentityReader { requests, results: Arc::default() };
        reader.read(vec![Pid(1)]);
        reader.read(vec![Pid(1), Pid(2)]);
        drop(received);
        // ORDERING: one thread.
        assert_eq!(reader.results.unread.load(Ordering::Relaxed), 2);
        assert!(reader.finish().is_some_and(|warning| warning.contains("did not answer")));
    }
}
