//! Limits of a log at which its recording ends, and the signals of the log thread that end it.

use nix::sys::eventfd::EventFd;
use rustc_hash::FxHashSet;

use super::options::Options;
use super::source::Described;
use crate::event::decode::common_type;
use crate::record::page::{self, PageEntry};
use crate::record::{Layout, records};

/// Signals of the log thread that end a recording.
#[derive(Debug)]
pub struct LogSignals {
    /// The log cannot be written any more.
    pub failed: EventFd,
    /// The log has the size at which the recording ends.
    pub full: EventFd,
    /// The log has the number of operations at which the recording ends.
    pub counted: EventFd,
}

/// Limits of a log, and the number of ended system calls in it.
#[derive(Debug, Default)]
pub(super) struct LogLimits {
    /// Largest size of the log, bytes.
    bytes: Option<u64>,
    /// Largest number of ended system calls.
    operations: Option<u64>,
    /// Tracepoints of the ends of system calls.
    ends: FxHashSet<u16>,
    /// Number of ended system calls so far.
    ended: u64,
}

impl LogLimits {
    /// Returns the limits of a recording of these tracepoints.
    pub(super) fn of(options: &Options, tracepoints: &[Described]) -> Self {
        let is_end = |point: &&Described| {
            let (system, name) = (&*point.planned.system, point.planned.name.as_str());
            matches!(system, "syscalls" | "raw_syscalls") && name.starts_with("sys_exit")
        };
        Self {
            bytes: options.log_bytes_max,
            operations: options.operations_max,
            ends: tracepoints.iter().filter(is_end).map(|point| point.id).collect(),
            ended: 0,
        }
    }

    /// Counts the ended system calls among the records that go to the log.
    pub(super) fn note(&mut self, bytes: &[u8], layout: Layout) {
        if self.operations.is_none() {
            return;
        }
        let is_end =
            |payload: &[u8]| common_type(payload).is_some_and(|id| self.ends.contains(&id));
        let ended = match layout {
            Layout::Perf(layout) => records(bytes)
                .flatten()
                .filter(|(_, record)| record.payload(&layout).is_some_and(is_end))
                .count(),
            Layout::Pages(layout) => {
                let payload = |start: usize| page::payload(bytes.get(start..).unwrap_or_default());
                let hits = page::entries(bytes, layout).flatten();
                hits.filter(|entry| match entry {
                    PageEntry::Hit(start, _) => payload(*start).is_some_and(is_end),
                    PageEntry::Lost(..) => false,
                })
                .count()
            }
        };
        self.ended += ended as u64;
    }

    /// Signals the limits that a log of this size has reached.
    pub(super) fn signal(&self, written: u64, signals: &LogSignals) {
        let reached =
            [(self.bytes, written, &signals.full), (self.operations, self.ended, &signals.counted)];
        for (limit, current, signal) in reached {
            if limit.is_some_and(|limit| current >= limit) {
                // The counter of the signal is far from its limit.
                let _ = signal.write(1);
            }
        }
    }
}
