//! Probes of long lists of asynchronous operations: they are switched on when a program passes one.
//!
//! A probe reads a fixed number of operations, whatever the length of the list is, and its cost
//! grows with that number. So the probe of the first operations alone is on at the start, and
//! probes of the later ones follow as the readers of names find longer lists.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::source::Source;
use super::tracepoint_plan::PlannedTracepoint;
use crate::event::probe_events::{COMPLETED_PREFIX, GROUP_PREFIX, SUBMITTED_PREFIX, first_of_part};
use crate::event::syscall_table::{Call, Role};

/// Kind of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    /// Operations of `io_submit`.
    Submitted,
    /// Results of `io_getevents`.
    Completed,
}

/// Kinds of lists, the prefix of the names of their probes, and the argument with the list.
const KINDS: [(ListKind, &str, Role); 2] = [
    (ListKind::Submitted, SUBMITTED_PREFIX, Role::Iocbs),
    (ListKind::Completed, COMPLETED_PREFIX, Role::IoEvents),
];

/// Longest lists that were seen.
#[derive(Debug)]
pub struct LongLists {
    /// Number of elements in the longest list of each kind.
    longest: [AtomicUsize; KINDS.len()],
    /// Signals that a list is longer than all before.
    grown: EventFd,
    /// Error of switching probes on.
    failed: Mutex<Option<io::Error>>,
}

impl LongLists {
    /// Returns the state before any list.
    ///
    /// # Errors
    ///
    /// Errors of `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let grown = EventFd::from_value_and_flags(0, flags)?;
        Ok(Self { longest: Default::default(), grown, failed: Mutex::default() })
    }

    /// Notes the list of a call that has returned the number of its elements.
    pub fn note(&self, call: &Call, ret: i64) {
        let Ok(length) = usize::try_from(ret) else { return };
        for (kind, _, _) in KINDS.iter().filter(|(_, _, role)| call.arg(*role).is_some()) {
            let Some(longest) = self.longest.get(*kind as usize) else { continue };
            // ORDERING: the number alone counts, and the eventfd wakes its reader.
            if longest.fetch_max(length, Ordering::Relaxed) < length && length > 1 {
                let _ = self.grown.write(1);
            }
        }
    }

    /// Returns the descriptor that is readable when a list is longer than all before.
    pub fn grown(&self) -> &EventFd {
        &self.grown
    }

    /// Returns a warning if probes could not be switched on.
    pub fn warning(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map(|error| {
            format!("probes of long lists of libaio could not be switched on: {error}; readers of memory read these lists")
        })
    }

    /// Switches on the probes of all elements of the longest lists.
    pub fn follow(&self, source: &dyn Source) {
        let _ = self.grown.read();
        // ORDERING: as in note().
        let longest = self.longest.each_ref().map(|length| length.load(Ordering::Relaxed));
        let switched = source.switch_on(&|point| {
            part(point).is_some_and(|(kind, first)| {
                longest.get(kind as usize).is_some_and(|length| first > 0 && *length > first)
            })
        });
        if let Err(error) = switched {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

/// Returns the kind of list and the index of the first element that a tracepoint records, if it is
/// one of the tracer's probes of lists.
fn part(point: &PlannedTracepoint) -> Option<(ListKind, usize)> {
    let is_ours = point.system.starts_with(GROUP_PREFIX);
    let mut kinds = KINDS.iter().filter(|_| is_ours);
    kinds.find_map(|(kind, prefix, _)| Some((*kind, first_of_part(&point.name, prefix)?)))
}

impl PlannedTracepoint {
    /// True if the tracepoint is off until a list has the elements that it records.
    pub fn is_off_at_start(&self) -> bool {
        part(self).is_some_and(|(_, first)| first > 0)
    }
}
