//! Placement of the tracer's threads: their CPUs and their priority.

use crate::sys::thread;

/// CPUs and priority of one of the tracer's threads.
#[derive(Clone, Debug, Default)]
pub struct ThreadPlacement {
    /// The only CPUs that the thread runs on; empty: any CPU.
    pub cpus: Vec<u32>,
    /// Real-time priority that the user gives the log thread; the drain threads run above it.
    pub realtime: Option<i32>,
}

impl ThreadPlacement {
    /// Applies the CPUs and this real-time priority to the calling thread. Without the right to it,
    /// the thread keeps the ordinary priority.
    pub fn take(&self, priority: Option<i32>) {
        if let Some(priority) = priority {
            let _ = thread::set_fifo(priority);
        }
        if !self.cpus.is_empty() {
            let _ = thread::run_on(&self.cpus);
        }
    }
}
