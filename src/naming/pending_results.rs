//! List of results of a call that has returned, which probes record soon after.

use super::recorded_list::RecordedList;
use crate::event::syscall_table::IO_EVENT_BYTES;
use crate::units::KernelTime;

/// Longest wait for the results of a call, ns: its thread may have to wait for a CPU.
pub(super) const RESULTS_NS_MAX: u64 = 100_000_000;

/// Largest number of results of a call that probes record.
const RECORDED_MAX: usize = 64;

/// List of results that is awaited.
#[derive(Clone, Debug)]
pub(super) struct PendingResults {
    /// Address of the list.
    address: u64,
    /// Number of results that the call has returned.
    count: i64,
    /// Time until which records are waited for.
    until: KernelTime,
    list: RecordedList,
}

impl PendingResults {
    /// Returns the results of a call that has ended at this time, before any is recorded.
    pub(super) fn new(address: u64, count: i64, ended: KernelTime) -> Self {
        let until = KernelTime(ended.0.saturating_add(RESULTS_NS_MAX));
        Self { address, count, until, list: RecordedList::default() }
    }

    /// Returns the time until which records are waited for.
    pub(super) fn until(&self) -> KernelTime {
        self.until
    }

    /// Ends the wait: later records may be of another call.
    pub(super) fn expire(&mut self) {
        self.until = KernelTime::MIN;
    }

    /// True if the wait has ended.
    pub(super) fn is_expired(&self) -> bool {
        self.until == KernelTime::MIN
    }

    /// True if a record with this address and number of results is about this list.
    pub(super) fn is_list(&self, address: u64, count: i64) -> bool {
        !self.is_expired() && (self.address, self.count) == (address, count)
    }

    /// Adds the results from the one with index `first` on. Returns true if no other part is
    /// missing.
    pub(super) fn add(&mut self, first: usize, bytes: Vec<u8>) -> bool {
        self.list.add(first, bytes);
        let wanted = usize::try_from(self.count).unwrap_or(0).min(RECORDED_MAX);
        self.list.joined(IO_EVENT_BYTES).len() >= wanted * IO_EVENT_BYTES
    }

    /// Returns the list with its address, if some of it was recorded.
    pub(super) fn into_list(self) -> Option<(u64, Vec<u8>)> {
        let bytes = self.list.joined(IO_EVENT_BYTES);
        (!bytes.is_empty()).then_some((self.address, bytes))
    }
}
