//! Context in which an event occurred.

use crate::units::{CpuId, KernelTime, Pid, Tid};

/// Time and place of an event, and the task that it interrupted or served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventContext {
    /// Time by the kernel's clock.
    pub time: KernelTime,
    /// CPU whose ring held the event.
    pub cpu: CpuId,
    /// Process of the task that was running.
    pub pid: Pid,
    /// Task that was running.
    pub tid: Tid,
}
