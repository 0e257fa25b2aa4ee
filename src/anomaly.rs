//! Anomalies: input that a stage could not interpret, and the counters that reconcile input with
//! output.

use std::collections::BTreeMap;
use std::fmt;

use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Reason why a record could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnomalyKind {
    /// The kernel dropped records because a ring was full (`PERF_RECORD_LOST`); `count` is their
    /// number.
    Lost,
    /// The record arrived after later ones had been passed on.
    Late,
    /// The bytes of the record are invalid.
    Undecodable,
    /// A `sys_exit` without its `sys_enter`, of a thread that was seen before. The entry was lost,
    /// or occurred between the moments at which entries and exits were switched off.
    OrphanExit,
    /// A `sys_exit` without its `sys_enter`, of a thread that was seen before, where no record was
    /// lost until then: the kernel did not execute the call, because a seccomp filter refused it,
    /// trapped it or had a supervisor answer it. The kernel decides that before the tracepoint of
    /// the entry (`syscall_trace_enter()` in `kernel/entry/common.c`).
    Refused,
    /// A `sys_enter` without its exit, although the thread continued.
    LostExit,
    /// An event of a thread whose process is unknown, because the record of its creation was lost.
    NoProcess,
    /// A block event that matches no request.
    UnmatchedBlock,
    /// The result of an asynchronous operation that is not in the capture.
    OrphanResult,
    /// A damaged frame of the capture log; `count` is the number of bytes that were skipped.
    DamagedLog,
    /// State above the bounds of a reader (see `docs/format.md`); `count` is the number of entries
    /// that were dropped.
    BeyondBounds,
}

impl AnomalyKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: &[Self] = &[
        Self::Lost,
        Self::Late,
        Self::Undecodable,
        Self::OrphanExit,
        Self::Refused,
        Self::LostExit,
        Self::NoProcess,
        Self::UnmatchedBlock,
        Self::OrphanResult,
        Self::DamagedLog,
        Self::BeyondBounds,
    ];

    /// Returns the word that denotes this kind in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Undecodable => "undecodable",
            Self::OrphanExit => "orphan-exit",
            Self::Refused => "refused",
            Self::LostExit => "lost-exit",
            Self::NoProcess => "no-process",
            Self::UnmatchedBlock => "unmatched-block",
            Self::OrphanResult => "orphan-result",
            Self::DamagedLog => "damaged-log",
            Self::BeyondBounds => "beyond-bounds",
        }
    }
}

/// One record, or one run of records, that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Reason of the anomaly.
    pub kind: AnomalyKind,
    /// Time of the record concerned.
    pub time: KernelTime,
    /// CPU, or position in the log.
    pub cpu: CpuId,
    /// Process of the record, as far as it is known.
    pub pid: Pid,
    /// Thread of the record, as far as it is known.
    pub tid: Tid,
    /// Number of records (bytes for a damaged log) that this anomaly represents.
    pub count: u64,
    /// Description of the details for people.
    pub detail: String,
}

/// Reason why a valid record was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ignored {
    /// The record belongs to a process that is not traced.
    Foreign,
    /// The record belongs to the tracer itself.
    Own,
    /// The record belongs to the launched child before its exec: to code of the tracer, not of the
    /// program.
    BeforeExec,
    /// The record belongs to a task that the tracer's pid namespace does not show: all of them have
    /// the number 0.
    Invisible,
    /// The exit of a call during which the capture, or the thread, began.
    UnderWay,
    /// The record belongs to a program that uses another system call table than this machine's own:
    /// a 32-bit program.
    Compat32,
    /// A page fault in memory without a known file: anonymous memory, or memory that the kernel
    /// mapped in order to start a program.
    NoFile,
    /// The end of a block request, or another event of it, that was in flight when the capture
    /// began.
    OlderRequest,
    /// Bookkeeping of perf itself (throttling and similar).
    Bookkeeping,
    /// The record is later than the time to which the log was read: rings are read one after the
    /// other, so records beside it may be missing.
    Later,
}

impl Ignored {
    /// All reasons, in the order in which they are shown.
    pub const ALL: &[Self] = &[
        Self::Foreign,
        Self::Own,
        Self::BeforeExec,
        Self::Invisible,
        Self::UnderWay,
        Self::Compat32,
        Self::NoFile,
        Self::OlderRequest,
        Self::Bookkeeping,
        Self::Later,
    ];

    /// Returns the word that denotes this reason in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Own => "own",
            Self::BeforeExec => "before-exec",
            Self::Invisible => "invisible",
            Self::UnderWay => "under-way",
            Self::Compat32 => "other-table",
            Self::NoFile => "no-file",
            Self::OlderRequest => "older-request",
            Self::Bookkeeping => "bookkeeping",
            Self::Later => "later",
        }
    }
}

/// Counters of three reconciliations. Records: `records = events + anomalies + ignored`. System
/// calls: `entries = pairs + open at the end + cut off + lost exits` and `exits = pairs + orphans +
/// refused`.
/// Asynchronous operations: `begun = ended + open at the end + unseen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Records read from the log.
    pub records: u64,
    /// Records that became an event that was used.
    pub events: u64,
    /// Records that became an anomaly, by kind. A LOST record counts as one, whatever number it
    /// represents.
    pub anomalous: BTreeMap<AnomalyKind, u64>,
    /// Records that are valid but not used, by reason.
    pub ignored: BTreeMap<Ignored, u64>,
    /// Records that the kernel reports as dropped: the sum over LOST records.
    pub lost: u64,
    /// Times of the first and the last of these records.
    pub lost_between: Option<[KernelTime; 2]>,
    /// `sys_enter` events used.
    pub entries: u64,
    /// `sys_exit` events used.
    pub exits: u64,
    /// System call operations: pairs of an entry and its exit.
    pub pairs: u64,
    /// Operations still open when the capture ended.
    pub open_at_end: u64,
    /// Operations cut off by the end of their thread.
    pub cut_off: u64,
    /// Entries whose exit was lost.
    pub lost_exits: u64,
    /// Exits whose entry is not in the capture.
    pub orphan_exits: u64,
    /// Block requests that ended.
    pub requests: u64,
    /// Block requests in flight when the capture ended.
    pub requests_open: u64,
    /// Block requests that belong to no traced process.
    pub requests_foreign: u64,
    /// Number and bytes of the foreign requests that `/proc/diskstats` counts, by device and the
    /// word for their operation.
    pub requests_others: BTreeMap<(DevId, &'static str), (u64, u64)>,
    /// Block events that match no request.
    pub unmatched: u64,
    /// Asynchronous operations that began.
    pub asynchronous: u64,
    /// Asynchronous operations whose result was seen.
    pub async_ended: u64,
    /// Asynchronous operations that were open when the capture ended.
    pub async_open: u64,
    /// Asynchronous operations whose result was not seen: none was requested, the program fetched
    /// it without a system call, or the program ended.
    pub async_unseen: u64,
    /// Asynchronous operations that moved bytes of a file, or opened a file, whose name is unknown.
    pub async_nameless: u64,
    /// Results of operations that are not in the capture.
    pub async_orphans: u64,
    /// Operations and results of `io_submit` and `io_getevents` that could not be read, in whole or
    /// in part: of a vector the length of its buffers.
    pub async_unread: u64,
    /// Operations on a descriptor whose name is unknown.
    pub unnamed: u64,
    /// Operations on descriptors of unknown type: files, pipes and others.
    pub untyped: u64,
    /// Followed processes for which no followed process waited: they ended after their parent, or
    /// were still running.
    pub unwaited: u64,
    /// Children of followed processes that were not followed.
    pub children_left_out: u64,
    /// Programs that the followed processes started (execs).
    pub execs: u64,
    /// Opens whose name was read too late to be certain.
    pub unverified: u64,
    /// Renames and removals of unknown paths: open files may keep names that are no longer theirs.
    pub unfollowed: u64,
    /// Programs that use another system call table than this machine's own.
    pub other: OtherPrograms,
    /// Attribution of block requests: counters by source.
    pub attribution: AttributionCounts,
    /// Spans inside calls that are not shown.
    pub spans: OmittedSpans,
    /// The launched program.
    pub program: ProgramSpan,
    /// Durations of the tracer's own calls, by thread.
    pub own: BTreeMap<Tid, OwnDurations>,
}

/// Span of a launched program: a recording begins before its exec, and may end after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSpan {
    /// The process, and the time of its exec.
    pub exec: Option<(Pid, KernelTime)>,
    /// End of its last thread.
    pub end: Option<KernelTime>,
}

impl ProgramSpan {
    /// Returns its duration, ns; `None`: no program was launched, or it ran on.
    pub fn ns(&self) -> Option<u64> {
        self.exec.zip(self.end).map(|((_, exec), end)| end.0.saturating_sub(exec.0))
    }
}

/// Durations in the log of calls of a thread of the tracer: nine of ten took no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnDurations {
    /// Call that does nothing, ns.
    pub idle_ns: Option<u64>,
    /// Open of a file, ns.
    pub open_ns: Option<u64>,
}

/// Counters of spans that could not be formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OmittedSpans {
    /// Ends without a beginning.
    pub without_begin: u64,
    /// Beginnings without an end inside their call.
    pub without_end: u64,
    /// Spans of calls that had too many.
    pub left_out: u64,
}

/// Certainty of an attribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// The kernel reported it.
    Exact,
    /// Reports of the kernel imply it, but another explanation is possible.
    Inferred,
    /// No report of the kernel tells it.
    Unknown,
}

impl Link {
    /// Returns the word that denotes this certainty in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Inferred => "inferred",
            Self::Unknown => "unknown",
        }
    }
}

/// Sectors of completed requests, by the certainty with which their content and their originator
/// are known. Only requests with data count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributionCounts {
    /// Sectors attributed to a file, the journal or metadata: exact, inferred, unknown.
    pub files: ByLink,
    /// Sectors attributed to a program: exact (the program queued the bio), inferred (it wrote
    /// those bytes last), unknown.
    pub programs: ByLink,
    /// Sectors that the kernel requested for itself: journals and metadata.
    pub kernel: u64,
    /// Extents that file systems report in blocks of unknown size.
    pub unsized_extents: u64,
    /// Extents, files and writers that were dropped for lack of space.
    pub given_up: u64,
}

/// One counter for each certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByLink {
    /// Counter of [`Link::Exact`].
    pub exact: u64,
    /// Counter of [`Link::Inferred`].
    pub inferred: u64,
    /// Counter of [`Link::Unknown`].
    pub unknown: u64,
}

impl ByLink {
    /// Returns the counter of one certainty.
    pub fn of(&mut self, link: Link) -> &mut u64 {
        match link {
            Link::Exact => &mut self.exact,
            Link::Inferred => &mut self.inferred,
            Link::Unknown => &mut self.unknown,
        }
    }

    /// Returns the sum of all counters.
    pub fn sum(&self) -> u64 {
        self.exact + self.inferred + self.unknown
    }
}

/// Programs whose calls cannot be interpreted: their number, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherPrograms {
    /// Number of such programs.
    pub count: u64,
    /// Process and name of the first [`OTHER_SHOWN_MAX`] programs.
    pub first: Vec<(Pid, Vec<u8>)>,
}

/// Number of programs of another system call table that are reported by name.
pub const OTHER_SHOWN_MAX: usize = 8;

impl OtherPrograms {
    /// Adds one program.
    pub fn add(&mut self, pid: Pid, comm: &[u8]) {
        self.count += 1;
        if self.first.len() < OTHER_SHOWN_MAX {
            self.first.push((pid, comm.to_vec()));
        }
    }
}

impl Ledger {
    /// Counts a record that became this anomaly.
    pub fn anomalous(&mut self, kind: AnomalyKind) {
        *self.anomalous.entry(kind).or_default() += 1;
    }

    /// Counts a record that was valid but not needed.
    pub fn ignore(&mut self, reason: Ignored) {
        self.ignore_all(reason, 1);
    }

    /// Counts this number of records that were not used for this reason.
    pub fn ignore_all(&mut self, reason: Ignored, count: u64) {
        if count > 0 {
            *self.ignored.entry(reason).or_default() += count;
        }
    }

    /// Returns the number of records that became anomalies.
    pub fn anomalous_total(&self) -> u64 {
        self.anomalous.values().sum()
    }

    /// Returns the number of records that were not needed.
    pub fn ignored_total(&self) -> u64 {
        self.ignored.values().sum()
    }

    /// Returns the number of calls that a seccomp filter refused or answered.
    pub fn refused(&self) -> u64 {
        self.anomalous.get(&AnomalyKind::Refused).copied().unwrap_or(0)
    }

    /// Counts these calls as exits without entries: records are missing from the log, which may
    /// have been the entries. (A report of a loss comes some time after it.)
    pub fn doubt_refusals(&mut self) {
        let refused = self.anomalous.remove(&AnomalyKind::Refused).unwrap_or(0);
        if refused > 0 {
            self.orphan_exits += refused;
            *self.anomalous.entry(AnomalyKind::OrphanExit).or_default() += refused;
        }
    }

    /// Returns the equations that do not hold, in words; empty when the counters balance.
    pub fn imbalances(&self) -> Vec<String> {
        let sides = [
            ("records", self.records, "events + anomalies + ignored", {
                self.events + self.anomalous_total() + self.ignored_total()
            }),
            (
                "system call entries",
                self.entries,
                "pairs + open at the end + cut off + lost exits",
                { self.pairs + self.open_at_end + self.cut_off + self.lost_exits },
            ),
            ("system call exits", self.exits, "pairs + orphans + refused", {
                self.pairs + self.orphan_exits + self.refused()
            }),
            ("asynchronous operations", self.asynchronous, "ended + open at the end + unseen", {
                self.async_ended + self.async_open + self.async_unseen
            }),
        ];
        sides
            .into_iter()
            .filter(|(_, left, _, right)| left != right)
            .map(|(what, left, terms, right)| format!("{what}: {left}, but {terms} = {right}"))
            .collect()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} records = {} events + {} anomalies + {} ignored",
            self.records,
            self.events,
            self.anomalous_total(),
            self.ignored_total()
        )
    }
}
