//! Summary of a log: everything except for its operations.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::anomaly::Ledger;
use crate::capture::fact::Text;
use crate::capture::header::{Counts, Disk, End, Header, RingCounts};
use crate::operation::disk;
use crate::operation::started::StartedPrograms;
use crate::operation::symbols::Symbols;
use crate::operation::user_stacks::UnwindStats;
use crate::units::{CpuId, KernelTime, Pid, Tid};

/// Summary of a log: everything except for its operations.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Header of the log.
    pub header: Header,
    /// End frame; `None` if the recording did not end in order.
    pub end: Option<End>,
    /// Counters of records and operations.
    pub ledger: Ledger,
    /// Programs that were started.
    pub started: StartedPrograms,
    /// Texts of the kernel.
    pub texts: Vec<(Text, Pid, Vec<u8>)>,
    /// Time of the last record, of the last round, or of the end.
    pub last_time: KernelTime,
    /// Bytes of the log that are damaged, or truncated at its end.
    pub damaged_bytes: u64,
    /// True if the log ends in the middle of a frame.
    pub torn: bool,
    /// Overhead of reading names for the programs.
    pub names_wait: NamesWait,
    /// Times between which fanotify did not report all opens, and the reason (errno; `EOVERFLOW`:
    /// its queue was full).
    pub unheard: Vec<(KernelTime, KernelTime, i32)>,
    /// Names of the addresses in call chains.
    pub symbols: Symbols,
    /// Tasks with the number of one that had just ended: they may not have been recorded.
    pub reused_numbers: u64,
    /// Results of unwinding copied stacks of programs.
    pub ways: UnwindStats,
    /// Facts that were skipped, because they would have kept more alive than a reader has room for.
    pub beyond_bounds: u64,
    /// Recorded processes that had not ended when the recording did.
    pub alive_at_end: u64,
    /// Samples whose chains were not kept, because there were too many different ones.
    pub chains_left_out: u64,
    /// Time up to which the log was read; `None`: to its end. Counters of records and operations
    /// are then those up to about this time, while the end frame is that of the whole recording.
    pub read_until: Option<KernelTime>,
}

/// Part of the duration of a call in the log that is the tracer's own, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationShare {
    /// Of any call.
    pub call_ns: u64,
    /// Of an open; `None`: not measured.
    pub open_ns: Option<u64>,
    /// Of each tracepoint that is recorded inside the call, about; `None`: not measured.
    pub inner_event_ns: Option<u64>,
}

impl Summary {
    /// Returns the part of a duration that is the tracer's own, by the calls that a thread of the
    /// tracer made at the start: nine of ten had no larger part. `None`: not measured.
    ///
    /// A call that does nothing takes no time but that of its own records. The time of an open
    /// before the recording includes the way into the kernel, which the log does not show: the
    /// other call takes longer than that. A recorded call has two events, so an event inside a call
    /// costs half of one.
    pub fn duration_share(&self) -> Option<DurationShare> {
        let own = &self.end.as_ref()?.own;
        let logged = self.ledger.own.get(&Tid(own.meter_tid?))?;
        let call_ns = logged.idle_ns?;
        let opens = logged.open_ns.zip(own.open_ns).zip(own.idle_ns);
        let open_ns = opens.map(|((logged, before), way)| (logged + way).saturating_sub(before));
        Some(DurationShare {
            call_ns,
            open_ns: open_ns.map(|share| share.max(call_ns)),
            inner_event_ns: own.call_cost_ns.map(|cost| cost / 2),
        })
    }
}

/// Time for which CPUs were blocked until names had been read: nothing else runs on a CPU
/// meanwhile. Opens that wait for the reader of one CPU at the same time share the same moments,
/// which count once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesWait {
    /// Sum over all CPUs, ns: at most the recorded time of each.
    pub ns: u64,
    /// Number of calls.
    pub calls: u64,
    /// End of the counted time of each CPU.
    until: FxHashMap<CpuId, KernelTime>,
    /// Calls of which a name was counted recently.
    lately: FxHashSet<(Tid, KernelTime)>,
}

/// Limit on the opens that are remembered: names of one open come within a round.
const LATELY_MAX: usize = 1 << 16;

impl NamesWait {
    /// Counts a name that had been read at `end`, of the open whose exit was on this CPU at
    /// `record_time`.
    pub(super) fn add(&mut self, cpu: CpuId, tid: Tid, record_time: KernelTime, end: KernelTime) {
        let until = self.until.entry(cpu).or_default();
        self.ns = self.ns.saturating_add(end.0.saturating_sub(record_time.max(*until).0));
        *until = end.max(*until);
        if self.lately.len() >= LATELY_MAX {
            self.lately.clear();
        }
        self.calls += u64::from(self.lately.insert((tid, record_time)));
    }
}

impl Summary {
    /// Start of the capture.
    pub fn start(&self) -> KernelTime {
        KernelTime(self.header.clock.start_ns)
    }

    /// Returns true if a part of the log is damaged, or its end is missing.
    pub fn is_damaged(&self) -> bool {
        let has_no_end = self.end.is_none() && self.read_until.is_none();
        self.torn || self.damaged_bytes > 0 || has_no_end
    }

    /// End of the capture, as far as the log has it.
    pub fn end_time(&self) -> KernelTime {
        self.last_time.max(self.start())
    }

    /// Block devices: as they were at the start, and those that appeared during the recording as
    /// they were at its end.
    pub fn disks(&self) -> Vec<Disk> {
        disk::all(&self.header, self.end.as_ref())
    }

    /// Text of this kind, if it was recorded.
    pub fn text(&self, which: Text) -> Option<&[u8]> {
        self.texts.iter().find(|text| text.0 == which).map(|text| text.2.as_slice())
    }

    /// Samples that the kernel lost and counted: by its counters if it has them, by its LOST
    /// records otherwise.
    pub fn lost(&self) -> u64 {
        let counted = self.end.as_ref().and_then(|end| {
            let by_ring =
                end.rings.iter().flat_map(|ring| [Some(ring.overrun), Some(ring.dropped)]);
            let mut all = end.tracepoints.iter().map(|tracepoint| tracepoint.lost).chain(by_ring);
            // Saturating, as the log may be damaged.
            all.try_fold(0_u64, |sum, it| Some(sum.saturating_add(it?)))
        });
        counted.unwrap_or(0).max(self.ledger.lost)
    }

    /// Returns true if the kernel has counted samples that are not in the log.
    pub(super) fn lacks_samples(&self) -> bool {
        self.lost() > 0 || self.missing().is_some_and(|counts| !counts.is_empty())
    }

    /// Samples that went missing without a report, where that is not 0; `None` without an end
    /// frame. For perf's tracepoints: `hits` − `samples` − `lost`. For a tracefs ring, which
    /// has no counters by tracepoint: records that were taken out by the kernel's count and not
    /// found in it, and those that were left in it.
    pub fn missing(&self) -> Option<Vec<(String, i64)>> {
        let end = self.end.as_ref()?;
        let less = |all: u64, known: u64| KernelTime(all).signed_since(KernelTime(known));
        let of_tracepoint = |counts: &Counts| {
            Some((
                counts.name.clone(),
                less(counts.hits?, counts.samples.saturating_add(counts.lost.unwrap_or(0))),
            ))
        };
        let of_ring = |counts: &RingCounts| {
            let ring = self.header.rings.get(usize::try_from(counts.ring).ok()?)?;
            Some((
                format!("ring {}", ring.name),
                less(counts.read.saturating_add(counts.left), counts.found),
            ))
        };
        let tracepoints = end.tracepoints.iter().filter_map(of_tracepoint);
        let rings = end.rings.iter().filter_map(of_ring);
        Some(tracepoints.chain(rings).filter(|tracepoint| tracepoint.1 != 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_a_cpu_no_longer_than_it_ran() {
        let mut wait = NamesWait::default();
        let mut add = |cpu, tid, at, end| {
            wait.add(CpuId(cpu), Tid(tid), KernelTime(at), KernelTime(end));
        };
        // A thousand opens of a thousand threads wait for the same reader; each has a link and an
        // argument.
        for of in [7, 11] {
            for tid in 1..=1000 {
                add(0, tid, 100, 100 + of + u64::try_from(tid).expect("small"));
            }
        }
        add(1, 2000, 500, 530);
        assert_eq!((wait.ns, wait.calls), (1011 + 30, 1001));
    }
}
