//! Window that sorts imported events by time, in bounded memory.
//!
//! Logs are nearly sorted: only long calls appear later than they began. So the window holds a
//! fixed number of events back. An event that is earlier than the window's beginning is emitted at
//! once, with the time that the window has reached, and counted.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::imported_event::ImportedEvent;

/// Number of events in the window.
const WINDOW: usize = 1 << 17;

/// Sorting window.
#[derive(Debug, Default)]
pub(super) struct ReorderWindow {
    heap: BinaryHeap<Reverse<WaitingEvent>>,
    number: u64,
    last: u64,
    /// Events that were later than the window is long.
    pub(super) late: u64,
}

/// An event in the window. Events of the same time stay in their order.
#[derive(Debug)]
struct WaitingEvent {
    number: u64,
    event: ImportedEvent,
}

impl WaitingEvent {
    fn key(&self) -> (u64, u64) {
        (self.event.time, self.number)
    }
}

impl Ord for WaitingEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for WaitingEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WaitingEvent {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for WaitingEvent {}

impl ReorderWindow {
    /// Takes an event; returns one that is due.
    pub(super) fn push(&mut self, event: ImportedEvent) -> Option<ImportedEvent> {
        self.number += 1;
        self.heap.push(Reverse(WaitingEvent { number: self.number, event }));
        if self.heap.len() > WINDOW { self.pop() } else { None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Returns the next event. No two have the same time: our log is ordered by time alone.
    pub(super) fn pop(&mut self) -> Option<ImportedEvent> {
        let Reverse(WaitingEvent { event, .. }) = self.heap.pop()?;
        // Events that only share a time with others are moved by less than a microsecond.
        self.late += u64::from(event.time.saturating_add(1000) < self.last);
        self.last = event.time.max(self.last.saturating_add(1));
        Some(ImportedEvent { time: self.last, ..event })
    }
}

#[cfg(test)]
mod tests {
    use super::super::imported_event::{ImportedKind, ImportedTask};
    use super::*;

    #[test]
    fn times_are_sorted_and_different() {
        let mut order = ReorderWindow::default();
        let event = |time, pid| ImportedEvent {
            time,
            task: ImportedTask::leader(pid),
            what: ImportedKind::Ended,
        };
        for (time, pid) in [(9, 1), (5, 2), (5, 3), (7, 4), (5, 5)] {
            assert_eq!(order.push(event(time, pid)), None);
        }
        let all: Vec<(u64, i32)> = std::iter::from_fn(|| order.pop())
            .map(|value| (value.time, value.task.pid.0))
            .collect();
        assert_eq!(all, [(5, 2), (6, 3), (7, 5), (8, 4), (9, 1)]);
        assert_eq!(order.late, 0);
    }

    #[test]
    fn window_is_bounded_and_late_events_are_counted() {
        let mut order = ReorderWindow::default();
        let event =
            |time| ImportedEvent { time, task: ImportedTask::leader(1), what: ImportedKind::Ended };
        for time in 0..WINDOW as u64 {
            assert_eq!(order.push(event(10_000 * (time + 1))), None);
        }
        assert_eq!(order.push(event(u64::MAX)).map(|order| order.time), Some(10_000));
        assert_eq!(order.push(event(3)).map(|order| order.time), Some(10_001));
        assert_eq!(order.late, 1);
    }
}
