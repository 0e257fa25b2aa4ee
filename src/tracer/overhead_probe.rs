//! Cost of a recorded system call on this machine, measured with a thread of the tracer.
//!
//! The thread makes a few hundred calls before there is any event, probe or listener, and as many
//! after they are on. The difference is the additional cost of a recorded call. The log contains
//! the calls as the tracer's own, so their durations there show how much of a duration is the
//! tracer's. Of several small batches the fastest counts, which excludes interrupts.
//!
//! Events of an earlier recording that are still being closed make calls slower than they are
//! without events. So the first half waits a short time for that, and is left out if it is not
//! enough: an unknown cost is better than one that is too small.

use std::fs::File;
use std::io::Seek as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::TracerError;
use super::named_thread::spawn_named;
use crate::capture::header::TracerCost;
use crate::event::syscall_table::CallId;
use crate::sys::{clock, closing_lock};
use crate::units::Tid;

/// The measured call, which does almost nothing.
const CALL: &str = "lseek";
/// Name of the thread: calls of threads with the tracer's own name are not recorded.
const NAME: &str = "iotrace:meter";
/// Number of calls in a batch.
const CALLS: u32 = 50;
/// Number of batches.
const BATCHES: u32 = 4;

/// Time that a recording waits, before anything else, for the closing of another one's events.
/// Those of tracefs are off within 0.2 to 0.4 s on a busy machine. The closing of perf events takes
/// up to 2 s, longer than a program should wait: the costs are then unknown.
const CLOSING_MAX: Duration = Duration::from_millis(500);

/// Device whose calls do nothing.
const IDLE: &str = "/dev/null";

/// File that is opened: a regular one, for which listeners get events.
const OPENED: &str = "/proc/self/exe";

/// Cost of a recorded call, and time of a call that is not recorded, ns. `None`: not measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCosts {
    /// Additional time of a recorded call.
    pub(super) call_ns: Option<u64>,
    /// Time of the same call before the events were on.
    pub(super) idle_ns: Option<u64>,
    /// Time of an open before the events were on.
    pub(super) open_ns: Option<u64>,
    /// Thread that made the calls.
    pub(super) meter: Option<Tid>,
    /// True if times are missing because events of another recording were being closed.
    pub(super) is_disturbed: bool,
}

impl CallCosts {
    /// Returns the cost of the recording, with the CPU time of the tracer, ns.
    pub(super) fn with_cpu_time(self, cpu_ns: u64) -> TracerCost {
        let Self { call_ns: call_cost_ns, idle_ns, open_ns, meter, is_disturbed } = self;
        let meter_tid = meter.map(|tid| tid.0);
        TracerCost { cpu_ns, call_cost_ns, idle_ns, open_ns, meter_tid, is_disturbed }
    }
}

/// A thread that measures its own calls.
pub(super) struct OverheadMeter {
    /// Number of the thread in the tracer's pid namespace.
    pub tid: Tid,
    events_are_on: Sender<()>,
    thread: JoinHandle<Option<CallCosts>>,
}

impl OverheadMeter {
    /// Starts the thread and waits for the first half; `None` if the call is not recorded.
    pub(super) fn start(calls: &[CallId]) -> Result<Option<Self>, TracerError> {
        if !calls.iter().any(|it| it.call().name == CALL) {
            return Ok(None);
        }
        let (ready, is_ready) = channel();
        let (events_are_on, on) = channel();
        let is_quiet = closing_lock::wait_until_closed;
        let thread = spawn_named(NAME, move || measure(&ready, &on, is_quiet))?;
        let tid = is_ready.recv().map_err(|_| TracerError::System {
            what: "measure a system call",
            source: std::io::Error::other("its thread failed"),
        })?;
        Ok(Some(Self { tid, events_are_on, thread }))
    }

    /// Runs the second half, after the events were switched on.
    pub(super) fn finish(self) -> CallCosts {
        let is_on = self.events_are_on.send(()).is_ok();
        let costs = if is_on { self.thread.join().ok().flatten() } else { None };
        CallCosts { meter: Some(self.tid), ..costs.unwrap_or_default() }
    }
}

/// Measures both halves. `is_quiet` waits at most that time until no events of another recording
/// are being closed.
fn measure(
    ready: &Sender<Tid>,
    on: &Receiver<()>,
    is_quiet: impl Fn(Duration) -> bool,
) -> Option<CallCosts> {
    let mut file = File::open(IDLE).ok()?;
    // The first run warms the caches and does not count.
    fastest(&mut file)?;
    let was_quiet = is_quiet(CLOSING_MAX);
    let (idle_ns, open_ns) = (fastest(&mut file)?, open_time());
    let is_disturbed = !was_quiet || !is_quiet(Duration::ZERO);
    ready.send(Tid(nix::unistd::gettid().as_raw())).ok()?;
    on.recv().ok()?;
    let after = fastest(&mut file);
    open_time();
    if is_disturbed {
        return Some(CallCosts { is_disturbed, ..CallCosts::default() });
    }
    let call_ns = after.and_then(|after| after.checked_sub(idle_ns));
    Some(CallCosts { call_ns, idle_ns: Some(idle_ns), open_ns, ..CallCosts::default() })
}

/// Returns the median time of an open, ns, without the time of the clock.
fn open_time() -> Option<u64> {
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    let (mut opens, mut clocks) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let begin = clock::now();
        let file = File::open(OPENED).ok()?;
        let end = clock::now();
        opens.push(end.0.saturating_sub(begin.0));
        clocks.push(clock::now().0.saturating_sub(end.0));
        drop(file);
    }
    Some(median(opens)?.saturating_sub(median(clocks)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(is_quiet: impl Fn(Duration) -> bool) -> CallCosts {
        let (ready, is_ready) = channel();
        let (events_are_on, on) = channel();
        events_are_on.send(()).expect("a receiver");
        let costs = measure(&ready, &on, is_quiet).expect("it measures");
        is_ready.recv().expect("it was ready");
        costs
    }

    /// Fails if times count that were measured while events of another recording were open.
    #[test]
    fn times_beside_the_events_of_another_recording_do_not_count() {
        let quiet = costs(|_| true);
        assert!(!quiet.is_disturbed && quiet.idle_ns.is_some() && quiet.open_ns.is_some());
        // The closing takes too long, or begins after the wait.
        for is_quiet in [|_| false, |at_most: Duration| !at_most.is_zero()] {
            let costs = costs(is_quiet);
            assert!(costs.is_disturbed);
            assert_eq!((costs.call_ns, costs.idle_ns, costs.open_ns), (None, None, None));
        }
    }
}
