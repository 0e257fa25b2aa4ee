//! What a recorded system call costs on this machine, measured with one of our own threads.
//!
//! A few hundred calls before the events are on, as many after: the difference is what a recorded call costs more. They
//! are in the log as the tracer's own. Of several small batches the fastest counts, so that an interrupt does not.

use std::fs::File;
use std::io::Seek as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::error::TracerError;
use super::threads::spawn_named;
use crate::event::syscall_table::CallId;
use crate::sys::clock;
use crate::units::Tid;

/// The call that is made: it does next to nothing.
const CALL: &str = "lseek";
/// Calls in a batch.
const CALLS: u32 = 50;
/// Batches.
const BATCHES: u32 = 4;

/// A thread that measures itself.
pub(super) struct Gauge {
    /// Its number, in our pid namespace.
    pub tid: Tid,
    events_are_on: Sender<()>,
    thread: JoinHandle<Option<u64>>,
}

impl Gauge {
    /// Starts it and waits for its first half; `None` if its call is not among those that are recorded.
    pub(super) fn start(calls: &[CallId], own_name: &str) -> Result<Option<Self>, TracerError> {
        if !calls.iter().any(|it| it.call().name == CALL) {
            return Ok(None);
        }
        let (ready, is_ready) = channel();
        let (events_are_on, on) = channel();
        let thread = spawn_named(own_name, move || measure(&ready, &on))?;
        let tid = is_ready.recv().map_err(|_| TracerError::System {
            what: "measure a system call",
            source: std::io::Error::other("its thread failed"),
        })?;
        Ok(Some(Self { tid, events_are_on, thread }))
    }

    /// The events are on: the second half. How much longer a recorded call takes, ns; `None` if that could not be
    /// measured.
    pub(super) fn finish(self) -> Option<u64> {
        self.events_are_on.send(()).ok()?;
        self.thread.join().ok()?
    }
}

fn measure(ready: &Sender<Tid>, on: &Receiver<()>) -> Option<u64> {
    let mut file = File::open("/dev/null").ok()?;
    // Not the first time: what is cold would count.
    fastest(&mut file)?;
    let before = fastest(&mut file)?;
    ready.send(Tid(nix::unistd::gettid().as_raw())).ok()?;
    on.recv().ok()?;
    fastest(&mut file)?.checked_sub(before)
}

/// ns for each call of the fastest batch.
fn fastest(file: &mut File) -> Option<u64> {
    let mut fastest = None;
    for _ in 0..BATCHES {
        let begin = clock::now();
        for _ in 0..CALLS {
            file.stream_position().ok()?;
        }
        let each = clock::now().0.saturating_sub(begin.0) / u64::from(CALLS);
        fastest = Some(fastest.map_or(each, |it: u64| it.min(each)));
    }
    fastest
}
