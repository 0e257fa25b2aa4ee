//! Page faults on mapped files. They have no end: no tracepoint reports when the page was there.

use std::sync::Arc;

use super::model::{OpenFile, ProcessKey, ThreadKey};
use crate::units::{CpuId, KernelTime, Pid, Tid};

/// A page that a program touched and that was not mapped yet, or not with the wanted access.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Incarnation of the thread.
    pub thread: ThreadKey,
    /// Incarnation of the process.
    pub process: ProcessKey,
    /// Number of the process.
    pub pid: Pid,
    /// Number of the thread.
    pub tid: Tid,
    /// CPU of the thread.
    pub cpu: CpuId,
    /// Time of the fault.
    pub time: KernelTime,
    /// Faulting address; `None`: the tracepoint reports only the page.
    pub address: Option<u64>,
    /// True for a write access; `None`: not reported.
    pub write: Option<bool>,
    /// The file.
    pub file: Arc<OpenFile>,
    /// Offset of the byte in the file, or of its page; in bytes from the beginning.
    pub offset: u64,
}

impl Fault {
    /// Returns the wanted access, as in every output; `None`: not reported.
    pub fn access(&self) -> Option<&'static str> {
        self.write.map(|it| if it { "write" } else { "read" })
    }
}
