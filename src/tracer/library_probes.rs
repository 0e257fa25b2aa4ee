//! Probes in the code of libraries, and their removal while a recording runs.
//!
//! A probe is a breakpoint in the memory of every program that uses the library. A program that
//! reads instructions from there cannot have that (`uprobes::code_readers`).

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use super::tracepoint_plan::PlannedTracepoint;
use crate::event::probe_events::{COMPLETED_PREFIX, GIVEN_PREFIX, GROUP_PREFIX, SUBMITTED_PREFIX};

/// Prefixes of the names of these probes.
const PREFIXES: [&str; 3] = [GIVEN_PREFIX, SUBMITTED_PREFIX, COMPLETED_PREFIX];

/// True if an event is one of the tracer's probes in libraries.
pub(super) fn is_in_library(system: &str, name: &str) -> bool {
    system.starts_with(GROUP_PREFIX) && PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl PlannedTracepoint {
    /// True if the tracepoint is one of the tracer's probes in libraries.
    pub(super) fn is_in_library(&self) -> bool {
        is_in_library(&self.system, &self.name)
    }
}

/// Switches of the recorded probes in libraries.
#[derive(Debug, Default)]
pub struct LibraryProbes {
    /// Switch of each probe, open for writing.
    switches: Vec<File>,
    /// True when the probes have been taken out.
    are_out: Mutex<bool>,
}

impl LibraryProbes {
    /// Returns the probes with these switches.
    pub(super) fn new(switches: Vec<File>) -> Self {
        Self { switches, are_out: Mutex::default() }
    }

    /// True if no probe is recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.switches.is_empty()
    }

    /// True if the probes have been taken out.
    pub(super) fn are_out(&self) -> bool {
        *self.are_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches probes on, unless all have been taken out.
    pub(super) fn unless_out(&self, switch_on: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let are_out = self.are_out.lock().unwrap_or_else(PoisonError::into_inner);
        if *are_out { Ok(()) } else { switch_on() }
    }

    /// Takes all probes out of the memory of programs, for the rest of the recording.
    ///
    /// # Errors
    ///
    /// The first error of the kernel; the other probes are taken out.
    pub(super) fn take_out(&self) -> io::Result<()> {
        let mut are_out = self.are_out.lock().unwrap_or_else(PoisonError::into_inner);
        *are_out = true;
        let mut first = Ok(());
        for mut switch in &self.switches {
            first = first.and(switch.write_all(b"0"));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_in_libraries_are_known_by_their_names() {
        for name in ["given_42", "given_nr_42", "submitted_42", "completed16_42"] {
            assert!(is_in_library("iotrace_42", name), "{name}");
        }
        assert!(!is_in_library("iotrace_42", "path0_42"));
        assert!(!is_in_library("syscalls", "given_42"));
    }

    /// Fails if an error keeps other probes in, or if probes come back after that.
    #[test]
    fn probes_stay_out() {
        let good = tempfile::tempfile().expect("a file");
        let bad = File::open("/dev/null").expect("a file for reading");
        let probes = LibraryProbes::new(vec![bad, good.try_clone().expect("a descriptor")]);
        let mut switched = 0;
        probes
            .unless_out(|| {
                switched += 1;
                Ok(())
            })
            .expect("no error");
        assert!(probes.take_out().is_err() && probes.are_out());
        assert_eq!(good.metadata().expect("a file").len(), 1);
        probes
            .unless_out(|| {
                switched += 1;
                Ok(())
            })
            .expect("no error");
        assert_eq!(switched, 1);
    }
}
