//! Sorts events of several rings by time, a round after the other.

use std::io;

use super::super::import_report::ImportReport;
use super::super::imported_event::{ImportedEvent, ImportedKind, ImportedTask};

/// Limit on the events that wait for the end of their round: 1.5 GB.
const WAITING_MAX: usize = 1 << 23;

/// Events of the current round, and those of the one before that are not older than its end.
pub(super) struct RoundSorter<P> {
    put: P,
    waiting: Vec<ImportedEvent>,
    /// Latest time of all events so far, and of those before the current round.
    latest: u64,
    complete: u64,
    /// Names that threads had at the start: perf gives them no time.
    initial: Vec<ImportedEvent>,
    is_begun: bool,
}

impl<P: FnMut(ImportedEvent) -> io::Result<()>> RoundSorter<P> {
    pub(super) fn new(put: P) -> Self {
        let (waiting, initial) = (Vec::new(), Vec::new());
        Self { put, waiting, latest: 0, complete: 0, initial, is_begun: false }
    }

    pub(super) fn push(
        &mut self,
        event: ImportedEvent,
        notes: &mut ImportReport,
    ) -> io::Result<()> {
        if event.time == 0 && self.is_begun {
            // perf has made it up at its end.
            return self.push(ImportedEvent { time: self.latest, ..event }, notes);
        }
        if event.time == 0 {
            if matches!(event.what, ImportedKind::Named(..)) && self.initial.len() < WAITING_MAX {
                self.initial.push(event);
            }
            return Ok(());
        }
        self.latest = self.latest.max(event.time);
        self.waiting.push(event);
        if self.waiting.len() < WAITING_MAX {
            return Ok(());
        }
        notes.count("rounds of more than 8,388,608 events: not sorted beyond");
        self.emit(WAITING_MAX / 2)
    }

    /// Emits what is older than the end of the round before: no ring has older events.
    pub(super) fn end_round(&mut self) -> io::Result<()> {
        self.waiting.sort_by_key(|event| event.time);
        let count = self.waiting.partition_point(|event| event.time <= self.complete);
        self.complete = self.latest;
        self.emit_sorted(count)
    }

    /// Adds an event at the time of the last one.
    pub(super) fn push_last(&mut self, what: ImportedKind) {
        let event = ImportedEvent { time: self.latest, task: ImportedTask::leader(0), what };
        self.waiting.push(event);
    }

    /// Emits all events.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.emit(self.waiting.len())
    }

    fn emit(&mut self, count: usize) -> io::Result<()> {
        self.waiting.sort_by_key(|event| event.time);
        self.emit_sorted(count)
    }

    fn emit_sorted(&mut self, count: usize) -> io::Result<()> {
        if let Some(first) = self.waiting.first().filter(|_| count > 0 && !self.is_begun) {
            self.is_begun = true;
            let time = first.time;
            for event in self.initial.drain(..) {
                (self.put)(ImportedEvent { time, ..event })?;
            }
        }
        for event in self.waiting.drain(..count) {
            (self.put)(event)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_round_wait_for_the_next_one() {
        let mut times = Vec::new();
        let mut notes = ImportReport::default();
        let put = |event: ImportedEvent| {
            times.push((event.time, event.task.pid.0));
            Ok(())
        };
        let mut sorter = RoundSorter::new(put);
        let event = |time, pid, what| ImportedEvent { time, task: ImportedTask::leader(pid), what };
        let named = ImportedKind::Named(b"sh".to_vec(), false);
        sorter.push(event(0, 7, named), &mut notes).expect("memory");
        for round in [&[30, 50, 20, 40][..], &[60, 45, 35], &[70]] {
            for time in round {
                sorter.push(event(*time, 1, ImportedKind::Ended), &mut notes).expect("memory");
            }
            sorter.end_round().expect("memory");
        }
        sorter.finish().expect("memory");
        let all: Vec<u64> = times.iter().map(|event| event.0).collect();
        assert_eq!(all, [20, 20, 30, 35, 40, 45, 50, 60, 70]);
        assert_eq!(times.first(), Some(&(20, 7)));
    }
}
