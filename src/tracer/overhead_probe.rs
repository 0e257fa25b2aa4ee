//! Cost of a recorded system call on this machine, measured with a thread of the tracer.
//!
//! The thread makes a few hundred calls before the events are on, and as many after. The difference
//! is the additional cost of a recorded call. The log contains the calls as the tracer's own. Of
//! several small batches the fastest counts, which excludes interrupts.

use std::fs::File;
use std::io::Seek as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::error::TracerError;
use super::threads::spawn_named;
use crate::event::syscall_table::CallId;
use crate::sys::clock;
use crate::units::Tid;

/// The measured call, which does almost nothing.
const CALL: &str = "lseek";
/// Number of calls in a batch.
const CALLS: u32 = 50;
/// Number of batches.
const BATCHES: u32 = 4;

/// A thread that measures its own calls.
pub(super) struct OverheadMeter {
    /// Number of the thread in the tracer's pid namespace.
    pub tid: Tid,
    events_are_on: Sender<()>,
    thread: JoinHandle<Option<u64>>,
}

impl OverheadMeter {
    /// Starts the thread and waits for the first half; `None` if the call is not recorded.
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

    /// Runs the second half, after the events were switched on. Returns the additional time of a
    /// recorded call, ns; `None` if it could not be measured.
    pub(super) fn finish(self) -> Option<u64> {
        self.events_are_on.send(()).ok()?;
        self.thread.join().ok()?
    }
}

fn measure(ready: &Sender<Tid>, on: &Receiver<()>) -> Option<u64> {
    let mut file = File::open("/dev/null").ok()?;
    // The first run warms the caches and does not count.
    fastest(&mut file)?;
    let before = fastest(&mut file)?;
    ready.send(Tid(nix::unistd::gettid().as_raw())).ok()?;
    on.recv().ok()?;
    fastest(&mut file)?.checked_sub(before)
}

/// Returns the time of a call in the fastest batch, ns.
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
