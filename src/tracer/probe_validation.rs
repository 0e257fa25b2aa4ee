//! Validation of probes: calls with known paths are made and recorded, and the samples are compared
//! with them.

use std::io;

use super::probe_coverage::ProbeCoverage;
use super::probe_self_test::{self, TrialCall, TrialObservations};
use super::ring_stream::RingStream;
use crate::event::decode::Decoder;
use crate::event::syscall_table::CallId;
use crate::record::PageLayout;
use crate::sys::cpu_topology::online_cpus;
use crate::sys::probe_events::ProbeGroup;
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::Instance;
use crate::tracefs::EventFormat;

/// Environment in which probes are validated.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) tracefs: &'a Tracefs,
    /// `uname -m`.
    pub(super) machine: &'a str,
    /// Name of the tracer's own threads.
    pub(super) own_name: &'a str,
    /// Instance that records the samples.
    pub(super) instance: &'a Instance,
    /// Calls whose paths are tested.
    pub(super) calls: &'a [CallId],
}

/// Size of each CPU's ring in an instance that marks probes as in use, bytes: some dozens of
/// samples of a validation. The kernel's default is more than a MiB.
const MARKER_RING_BYTES: usize = 64 << 10;

/// Number of CPUs from which on the unused rings of a marker are shrunk. The kernel takes 13 ms for
/// it, and with fewer CPUs they take some 20 MiB at most.
const SHRINKING_CPUS: usize = 16;

/// Shrinks the rings of an instance that only marks probes as in use, on machines with many CPUs.
pub(super) fn shrink_marker(instance: &Instance) -> io::Result<()> {
    let is_large = online_cpus().len() >= SHRINKING_CPUS;
    if is_large { instance.set_ring_bytes(MARKER_RING_BYTES) } else { Ok(()) }
}

impl Bench<'_> {
    /// Runs the test, and once more if the result is incomplete. Calls of other processes may push
    /// the samples of the test out of the rings; a second run may go better.
    pub(super) fn try_out_twice(
        &self,
        group: &ProbeGroup,
        functions: &[&'static str],
        is_all: fn(&ProbeCoverage) -> bool,
    ) -> io::Result<ProbeCoverage> {
        let first = self.try_out(group, functions)?;
        if is_all(&first) {
            return Ok(first);
        }
        let second = self.try_out(group, functions)?;
        let is_better = is_all(&second) || second.shown.len() > first.shown.len();
        Ok(if is_better { second } else { first })
    }

    fn try_out(&self, group: &ProbeGroup, functions: &[&'static str]) -> io::Result<ProbeCoverage> {
        let mut decoder = Decoder::new(self.machine);
        for event in group.events() {
            let format = self.tracefs.format(group.name(), event).map_err(io::Error::other)?;
            let id = EventFormat::parse(&format).ok().and_then(|it| it.id);
            let id = id.and_then(|it| u16::try_from(it).ok());
            let id = id.ok_or_else(|| io::Error::other("a probe without an id"))?;
            decoder.add(group.name(), event, id, &format).map_err(io::Error::other)?;
        }
        let header_page = self.tracefs.text("header_page").map_err(io::Error::other)?;
        let layout = PageLayout::parse(&header_page).ok_or_else(|| {
            io::Error::other("this kernel's trace pages are laid out in an unknown way")
        })?;
        self.instance.set_ring_bytes(MARKER_RING_BYTES)?;
        // Inherited from the top instance, where another program may have changed it.
        self.instance.write("options/overwrite", "1")?;
        let rings = online_cpus().into_iter().map(|cpu| {
            let ring = self.instance.ring(cpu, layout.page_bytes())?;
            Ok(RingStream::pages(cpu, super::tracepoint_plan::RingKind::Main, ring, layout))
        });
        let mut rings = rings.collect::<io::Result<Vec<_>>>()?;
        let enable = |on: &str| self.instance.write(&format!("events/{}/enable", group.name()), on);
        enable("1").and_then(|()| self.instance.write("tracing_on", "1"))?;
        let calls = probe_self_test::make_calls(self.own_name, self.calls);
        // Switched off whatever the result: probes that are recorded cannot be removed.
        self.instance.write("tracing_on", "0").and_then(|()| enable("0"))?;
        let calls = calls?;
        let seen = TrialObservations::take(&mut rings, &decoder, layout, calls.tid)?;
        let (shown, hidden): (Vec<&TrialCall>, Vec<&TrialCall>) =
            calls.list.iter().partition(|it| seen.shows(it));
        let names = |calls: &[&TrialCall]| calls.iter().map(|it| it.name).collect();
        Ok(ProbeCoverage {
            functions: functions.to_vec(),
            shown: names(&shown),
            hidden: names(&hidden),
            blank: 0,
            files: seen.shows_file(&calls.file),
        })
    }
}
