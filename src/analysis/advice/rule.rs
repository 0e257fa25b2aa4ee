//! Rules: what each means, from which facts, and what helps.

use super::rule_table::RULES;

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
    /// Returns the row of the table.
    pub fn rule(self) -> &'static AdviceRule {
        RULES.iter().find(|rule| rule.id == self).unwrap_or(&RULES[0])
    }

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

    /// Returns the rule with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        RULES.iter().find(|rule| rule.name == name).map(|rule| rule.id)
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
    /// Identity.
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
    /// Advice.
    pub action: &'static str,
    /// Source of the rule.
    pub source: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_each_rule_once_in_order() {
        assert!(RULES.windows(2).all(|pair| pair[0].id < pair[1].id));
        for rule in &RULES {
            assert_eq!(RuleId::by_name(rule.name), Some(rule.id));
            assert_eq!(rule.id.rule().name, rule.name);
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(rule.name.bytes().all(is_name), "{}", rule.name);
            let texts = [rule.meaning, rule.threshold, rule.action, rule.source, rule.command];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", rule.name);
            assert!(rule.command.contains("LOG"), "{}", rule.name);
        }
    }
}
