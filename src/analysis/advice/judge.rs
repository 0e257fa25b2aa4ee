//! Judges the rules: from the folds to findings.

mod access;
mod device;
mod durable;
mod needs;
mod places;
mod thresholds;

use std::cmp::Reverse;

use super::super::files::FileTotals;
use super::super::summary::IoSummary;
use super::facts::{AdviceFacts, AdviceFold};
use super::finding::{Advice, AdviceFinding, NotJudged};
use super::rule::RuleId;
use super::rule_table::RULES;
use crate::capture::fact::Text;
use crate::operation::mount_table::MountTable;
use crate::pipeline::Summary;

/// Everything that the rules are judged from.
#[derive(Debug)]
pub struct AdviceInput<'a> {
    /// Sums by call, process, file and device.
    pub summary: &'a IoSummary,
    /// Uses of files; `None`: only the rules that cost little are judged.
    pub files: Option<&'a FileTotals>,
    /// Folds that only the rules need.
    pub facts: &'a AdviceFacts,
    /// Facts of the recording.
    pub recording: &'a Summary,
    /// Rules that are not judged on demand.
    pub ignored: &'a [RuleId],
}

impl<'a> AdviceInput<'a> {
    /// Returns the input with the folds of `advise`.
    pub fn of(fold: &'a AdviceFold, recording: &'a Summary, ignored: &'a [RuleId]) -> Self {
        let AdviceFold { summary, files, facts, .. } = fold;
        Self { summary, files: files.as_ref(), facts, recording, ignored }
    }
}

/// Input with what several rules need.
struct Judge<'a> {
    input: &'a AdviceInput<'a>,
    mounts: MountTable,
    page_bytes: u64,
}

/// Judges all rules that are not ignored.
pub fn judge(input: &AdviceInput<'_>) -> Advice {
    let mounts = input.recording.text(Text::MOUNTINFO).unwrap_or_default();
    let page_bytes = match input.recording.header.host.page_bytes {
        0 => 4096,
        bytes => bytes,
    };
    let judge = Judge { input, mounts: MountTable::parse(mounts), page_bytes };
    let mut advice = Advice::default();
    let durable = durable::Durable::new(&input.facts.durability);
    for rule in &RULES {
        let is_left_out = input.files.is_none() && !rule.id.is_brief();
        if is_left_out || input.ignored.contains(&rule.id) {
            advice.ignored += 1;
            continue;
        }
        if let Some(reason) = needs::unmet(rule, input.recording) {
            advice.not_judged.push(NotJudged { rule: rule.id, cases: None, reason });
            continue;
        }
        advice.judged += 1;
        advice.findings.extend(judge.findings(rule.id, &durable));
        advice.not_judged.extend(durable.not_judged(rule.id));
    }
    advice.not_judged.extend(judge.forgotten());
    advice.findings.sort_by_key(|finding| (Reverse(finding.severity), finding.rule));
    advice
}

impl Judge<'_> {
    fn findings(&self, rule: RuleId, durable: &durable::Durable) -> Vec<AdviceFinding> {
        let one = match rule {
            RuleId::WriteAfterSync
            | RuleId::RenameUnsynced
            | RuleId::DirectoryUnsynced
            | RuleId::SyncFailed
            | RuleId::MmapUnsynced => return durable.findings(rule, &self.input.summary.names),
            RuleId::SmallReads => self.small_reads(),
            RuleId::SmallWrites => self.small_writes(),
            RuleId::Reread => self.reread(),
            RuleId::MissingLookups => self.missing_lookups(),
            RuleId::StatStorm => self.stat_storm(),
            RuleId::OpenedUnused => self.opened_unused(),
            RuleId::WrittenRemoved => self.written_removed(),
            RuleId::Overwritten => self.overwritten(),
            RuleId::FsyncStorm => self.fsync_storm(),
            RuleId::SyncAll => self.sync_all(),
            RuleId::SyncTwice => self.sync_twice(),
            RuleId::JournalCommits => self.journal_commits(),
            RuleId::UselessReadahead => self.useless_readahead(),
            RuleId::DirectUnaligned => self.direct_unaligned(),
            RuleId::OneAtATime => self.one_at_a_time(),
            RuleId::SharedFile => self.shared_file(),
            RuleId::MisalignedPartition => self.misaligned_partition(),
            RuleId::MetadataHeavy => self.metadata_heavy(),
            RuleId::CacheThrash => self.cache_thrash(),
            RuleId::ThrottledWriters => self.throttled_writers(),
        };
        one.into_iter().collect()
    }

    /// Returns what the folds dropped for lack of room.
    fn forgotten(&self) -> Vec<NotJudged> {
        let others = self.input.files.and_then(|files| files.files.others());
        let files = others.map_or(0, |others| others.count);
        let habits = &self.input.facts.habits;
        let rows = [
            (RuleId::Reread, files, "operations on files beyond the limit of 20,000 names"),
            (RuleId::Overwritten, habits.forgotten, "writes beyond the limit of 262,144 ranges"),
            (
                RuleId::SharedFile,
                habits.forgotten_writers,
                "writes beyond the limit of 16,384 files",
            ),
            (
                RuleId::OpenedUnused,
                habits.forgotten_opens,
                "opens beyond the limit of 65,536 files",
            ),
        ];
        let some = rows.into_iter().filter(|(_, count, _)| *count > 0);
        let some = some.filter(|(rule, _, _)| !self.input.ignored.contains(rule));
        some.map(|(rule, count, reason)| NotJudged {
            rule,
            cases: Some(count),
            reason: reason.to_owned(),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
