//! A page fault on a file in memory. It has no end: no tracepoint tells when the page was there.

use std::rc::Rc;

use super::model::{OpenFile, ProcessKey, ThreadKey};
use crate::units::{CpuId, KernelTime, Pid, Tid};

/// A page that a program touched and that was not there yet, or not in the way that it wanted.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The thread's incarnation.
    pub thread: ThreadKey,
    /// The process's incarnation.
    pub process: ProcessKey,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Where it ran.
    pub cpu: CpuId,
    /// When.
    pub time: KernelTime,
    /// The address; `None`: the tracepoint tells only the page.
    pub address: Option<u64>,
    /// It was to be written to; `None`: not told.
    pub write: Option<bool>,
    /// The file.
    pub file: Rc<OpenFile>,
    /// The byte of the file, or the first one of its page; bytes from the beginning.
    pub offset: u64,
}

impl Fault {
    /// What was wanted, as every output says it; `None`: not told.
    pub fn access(&self) -> Option<&'static str> {
        self.write.map(|it| if it { "write" } else { "read" })
    }
}
