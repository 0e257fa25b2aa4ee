//! Anomalies: input that a stage could not interpret, and the counters that reconcile input with
//! output.

use std::collections::BTreeMap;
use std::fmt;

use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Why something could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnomalyKind {
    /// The kernel dropped records because a ring was full (`PERF_RECORD_LOST`); `count` says how
    /// many.
    Lost,
    /// The record came after later ones had been passed on.
    Late,
    /// The record's bytes do not make sense.
    Undecodable,
    /// A `sys_exit` without its `sys_enter` of a thread that was seen before: the entry was lost,
    /// or came between the moments at which entries and exits were switched off.
    OrphanExit,
    /// A `sys_enter` whose exit never came although the thread went on.
    LostExit,
    /// A hit of a thread whose process is not known: its birth was lost.
    NoProcess,
    /// A block event that fits no request.
    UnmatchedBlock,
    /// The result of an asynchronous operation that is not in the capture.
    OrphanResult,
    /// A frame of the capture log is damaged; `count` says how many bytes were passed over.
    DamagedLog,
    /// It would keep more alive than a reader has room for (see `docs/format.md`); `count` says how
    /// many.
    BeyondBounds,
}

impl AnomalyKind {
    /// All kinds, in the order they are shown.
    pub const ALL: &[Self] = &[
        Self::Lost,
        Self::Late,
        Self::Undecodable,
        Self::OrphanExit,
        Self::LostExit,
        Self::NoProcess,
        Self::UnmatchedBlock,
        Self::OrphanResult,
        Self::DamagedLog,
        Self::BeyondBounds,
    ];

    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Undecodable => "undecodable",
            Self::OrphanExit => "orphan-exit",
            Self::LostExit => "lost-exit",
            Self::NoProcess => "no-process",
            Self::UnmatchedBlock => "unmatched-block",
            Self::OrphanResult => "orphan-result",
            Self::DamagedLog => "damaged-log",
            Self::BeyondBounds => "beyond-bounds",
        }
    }
}

/// One thing that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The reason.
    pub kind: AnomalyKind,
    /// When; the time of the record concerned.
    pub time: KernelTime,
    /// The CPU or place in the log.
    pub cpu: CpuId,
    /// Whose, as far as known.
    pub pid: Pid,
    /// Whose, as far as known.
    pub tid: Tid,
    /// How many records (bytes for a damaged log) it stands for.
    pub count: u64,
    /// What exactly, for people.
    pub detail: String,
}

/// Why a record that is fine was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ignored {
    /// Of a process that is not traced.
    Foreign,
    /// Of the tracer itself.
    Own,
    /// Of the launched child before its exec: the tracer's code, not the program's.
    BeforeExec,
    /// Of a task that the tracer's pid namespace does not show: all of them have the number 0.
    Invisible,
    /// The exit of a call that its thread was inside when the capture began, or when it was born.
    UnderWay,
    /// Of a program that makes calls of another table than this machine's own: a 32-bit program.
    OtherTable,
    /// A page fault in memory of which no file is known: anonymous, or mapped by the kernel to
    /// start a program.
    NoFile,
    /// The end of a block request, or something else about it, that was in flight when the capture
    /// began.
    OlderRequest,
    /// Perf's own bookkeeping (throttling and the like).
    Bookkeeping,
}

impl Ignored {
    /// All reasons, in the order they are shown.
    pub const ALL: &[Self] = &[
        Self::Foreign,
        Self::Own,
        Self::BeforeExec,
        Self::Invisible,
        Self::UnderWay,
        Self::OtherTable,
        Self::NoFile,
        Self::OlderRequest,
        Self::Bookkeeping,
    ];

    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Own => "own",
            Self::BeforeExec => "before-exec",
            Self::Invisible => "invisible",
            Self::UnderWay => "under-way",
            Self::OtherTable => "other-table",
            Self::NoFile => "no-file",
            Self::OlderRequest => "older-request",
            Self::Bookkeeping => "bookkeeping",
        }
    }
}

/// Three sets of books. Records: `records = events + anomalies + ignored`. System calls: `entries =
/// pairs + open at the end + cut off + lost exits` and `exits = pairs + orphans`. Asynchronous
/// operations: `begun = ended + open at the end + unseen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Records read from the log.
    pub records: u64,
    /// Records that became an event that was used.
    pub events: u64,
    /// Records that became an anomaly, by kind (a LOST record counts as one, whatever it stands
    /// for).
    pub anomalous: BTreeMap<AnomalyKind, u64>,
    /// Records that are fine but not used, by reason.
    pub ignored: BTreeMap<Ignored, u64>,
    /// Records that the kernel says it dropped: the sum over LOST records.
    pub lost: u64,
    /// `sys_enter` events used.
    pub entries: u64,
    /// `sys_exit` events used.
    pub exits: u64,
    /// Entry and exit found each other: system call operations.
    pub pairs: u64,
    /// Operations still open when the capture ended.
    pub open_at_end: u64,
    /// Operations cut off by the death of their thread.
    pub cut_off: u64,
    /// Entries whose exit was lost.
    pub lost_exits: u64,
    /// Exits whose entry is not in the capture.
    pub orphan_exits: u64,
    /// Block requests that came to an end.
    pub requests: u64,
    /// Block requests in flight when the capture ended.
    pub requests_open: u64,
    /// Block requests that are not of a traced process.
    pub requests_foreign: u64,
    /// Those of them that `/proc/diskstats` counts, by device and the word for their operation: how
    /// many, and bytes.
    pub requests_others: BTreeMap<(DevId, &'static str), (u64, u64)>,
    /// Block events that fit no request.
    pub unmatched: u64,
    /// Asynchronous operations: those that began.
    pub asynchronous: u64,
    /// Those of them whose result was seen.
    pub async_ended: u64,
    /// Those that were open when the capture ended.
    pub async_open: u64,
    /// Those whose result was not seen: none was asked for, the program fetched it without a call,
    /// or ended.
    pub async_unseen: u64,
    /// Those that moved bytes of a file, or opened one, whose name is not known.
    pub async_nameless: u64,
    /// Results of operations that are not in the capture.
    pub async_orphans: u64,
    /// Operations and results of `io_submit` and `io_getevents` that could not be read.
    pub async_unread: u64,
    /// Operations on a descriptor whose name is not known.
    pub unnamed: u64,
    /// Operations on descriptors of unknown type: files, or pipes and the like.
    pub untyped: u64,
    /// Followed processes without a wait by a followed process: they ended after their parent, or
    /// run on.
    pub unwaited: u64,
    /// Programs that were started (execs) in the processes followed.
    pub execs: u64,
    /// Opens whose name was read too late to be sure.
    pub unverified: u64,
    /// Renames and removals whose paths are not known: open files keep names that may not be theirs
    /// any more.
    pub unfollowed: u64,
    /// Programs whose calls are of another table than this machine's own.
    pub other: OtherPrograms,
    /// Attribution of block requests: counts by source.
    pub behind: BehindBooks,
    /// Spans inside calls that are not shown as spans.
    pub spans: SpanBooks,
}

/// Stretches of time that did not become any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanBooks {
    /// Ends of what was not seen to begin.
    pub without_begin: u64,
    /// What began and did not end inside its call.
    pub without_end: u64,
    /// Those of calls that had too many.
    pub left_out: u64,
}

/// How something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// The kernel said it.
    Exact,
    /// It follows from what the kernel said, but something else is possible.
    Inferred,
    /// Not at all.
    Unknown,
}

impl Link {
    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Inferred => "inferred",
            Self::Unknown => "unknown",
        }
    }
}

/// Sectors of requests that were done, by how it is known what lies there and who wanted it; only
/// those with contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BehindBooks {
    /// Of a file, the journal or metadata: exact, inferred, unknown.
    pub files: ByLink,
    /// Asked for by a program: exact (it queued the bio), inferred (it wrote those bytes last),
    /// unknown.
    pub programs: ByLink,
    /// Asked for by the kernel for itself: journals and metadata.
    pub kernel: u64,
    /// Extents that file systems report in blocks of unknown size.
    pub unsized_extents: u64,
    /// Extents, files and writers that were given up for want of room.
    pub given_up: u64,
}

/// A number for each way in which something is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByLink {
    /// Of [`Link::Exact`].
    pub exact: u64,
    /// Of [`Link::Inferred`].
    pub inferred: u64,
    /// Of [`Link::Unknown`].
    pub unknown: u64,
}

impl ByLink {
    /// That of one.
    pub fn of(&mut self, link: Link) -> &mut u64 {
        match link {
            Link::Exact => &mut self.exact,
            Link::Inferred => &mut self.inferred,
            Link::Unknown => &mut self.unknown,
        }
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.exact + self.inferred + self.unknown
    }
}

/// Programs whose calls cannot be interpreted: their number, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherPrograms {
    /// How many were found.
    pub count: u64,
    /// Process and name of the first [`OTHER_SHOWN_MAX`].
    pub first: Vec<(Pid, Vec<u8>)>,
}

/// Number of programs of another system call table that are reported by name.
pub const OTHER_SHOWN_MAX: usize = 8;

impl OtherPrograms {
    /// One more.
    pub fn add(&mut self, pid: Pid, comm: &[u8]) {
        self.count += 1;
        if self.first.len() < OTHER_SHOWN_MAX {
            self.first.push((pid, comm.to_vec()));
        }
    }
}

impl Ledger {
    /// A record became this anomaly.
    pub fn anomalous(&mut self, kind: AnomalyKind) {
        *self.anomalous.entry(kind).or_default() += 1;
    }

    /// A record was fine and not needed.
    pub fn ignore(&mut self, reason: Ignored) {
        *self.ignored.entry(reason).or_default() += 1;
    }

    /// How many records became anomalies.
    pub fn anomalous_total(&self) -> u64 {
        self.anomalous.values().sum()
    }

    /// How many records were not needed.
    pub fn ignored_total(&self) -> u64 {
        self.ignored.values().sum()
    }

    /// What does not add up, in words; empty when the books balance.
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
            ("system call exits", self.exits, "pairs + orphans", self.pairs + self.orphan_exits),
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
