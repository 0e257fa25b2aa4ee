//! Rules: what each means, from which facts, and what helps.

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Costs time, or is safe only by the grace of one file system.
    Warning,
    /// Data may be lost.
    Problem,
}

impl Severity {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Identity of a rule, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleId {
    /// Written after its last fsync, then renamed.
    WriteAfterSync,
    /// Renamed or linked before its data was synced.
    RenameUnsynced,
    /// Synced file whose directory was never synced.
    DirectoryUnsynced,
    /// Failed fsync without a consequence.
    SyncFailed,
    /// Stores through a mapping without a sync.
    MmapUnsynced,
    /// Small reads.
    SmallReads,
    /// Small writes.
    SmallWrites,
    /// Bytes that are read again.
    Reread,
    /// Lookups of files that do not exist.
    MissingLookups,
    /// Queries of the same path.
    StatStorm,
    /// Files that are opened and not used.
    OpenedUnused,
    /// Files that are written and removed.
    WrittenRemoved,
    /// Bytes that are overwritten before a disk had them.
    Overwritten,
    /// Syncs of little data.
    FsyncStorm,
    /// Syncs of all files.
    SyncAll,
    /// Sync of a file that is always synced.
    SyncTwice,
    /// Time in commits of a journal.
    JournalCommits,
    /// Read-ahead that nothing reads.
    UselessReadahead,
    /// Direct I/O that is not aligned.
    DirectUnaligned,
    /// One request at a time.
    OneAtATime,
    /// Threads that write one file at the same time.
    SharedFile,
    /// Partition that is not aligned.
    MisalignedPartition,
    /// More time for names than for data.
    MetadataHeavy,
    /// Data that disks read again and again.
    CacheThrash,
    /// Writers that the kernel slows down.
    ThrottledWriters,
}

impl RuleId {
    /// Returns true for a rule whose folds cost little: a summary has these, too.
    pub fn is_brief(self) -> bool {
        !matches!(
            self,
            Self::SmallReads
                | Self::SmallWrites
                | Self::Reread
                | Self::WrittenRemoved
                | Self::UselessReadahead
                | Self::OneAtATime
                | Self::CacheThrash
        )
    }
}

/// Fact that a rule needs, and that a recording may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleNeed {
    /// Names of files.
    Names,
    /// At least one call of a group (`stat`).
    Group(&'static str),
    /// All of these calls, as far as the machine has them.
    Calls(&'static [&'static str]),
    /// Operations of io_uring.
    Uring,
    /// Block requests.
    Block,
    /// Layers inside calls.
    Layers,
    /// Page faults.
    Faults,
    /// Every record: one that is missing may be the sync.
    Whole,
}

/// Row of the table of rules.
#[derive(Debug)]
pub struct AdviceRule {
    /// Identity of the rule.
    pub id: RuleId,
    /// Name in outputs and options.
    pub name: &'static str,
    /// Meaning, as a sentence.
    pub meaning: &'static str,
    /// Condition of a finding.
    pub threshold: &'static str,
    /// Severity of a finding; a finding may have a lower one, for the reason in `threshold`.
    pub severity: Severity,
    /// Facts without which the rule is not judged.
    pub needs: &'static [RuleNeed],
    /// Arguments of the command that shows the evidence; `LOG` and `FILE` are filled in.
    pub command: &'static str,
    /// Advice of the rule.
    pub action: &'static str,
    /// Source of the rule.
    pub source: &'static str,
}
