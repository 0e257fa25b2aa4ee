//! Reports to the outputs: threads before their first action, and anomalies of events.

use crate::anomaly::{Anomaly, AnomalyKind};
use crate::event::Event;
use crate::operation::process::{Process, Thread};
use crate::operation::step::{Sink, Step};
use crate::units::KernelTime;

/// Reports a thread to the outputs before its first action.
pub(super) fn announce<S: Sink>(
    at: KernelTime,
    process: &mut Process,
    thread: &mut Thread,
    sink: &mut S,
) -> Result<(), S::Error> {
    if !process.announced {
        process.announced = true;
        sink.step(at, &Step::ProcessSeen(&process.info))?;
    }
    if !thread.announced {
        thread.announced = true;
        sink.step(at, &Step::ThreadSeen(&thread.info))?;
    }
    Ok(())
}

/// Returns an anomaly of an event.
pub(super) fn anomaly(event: &Event, kind: AnomalyKind, count: u64, detail: String) -> Anomaly {
    let Event { time, cpu, pid, tid, .. } = *event;
    Anomaly { kind, time, cpu, pid, tid, count, detail }
}
