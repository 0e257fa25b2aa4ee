//! End of a recording: names whose directories were not synced, and the severity of each case.

use std::rc::Rc;

use super::Durability;
use super::case::{DurabilityCase, DurabilityResult, events_before};
use super::doubt::DurabilityDoubt;
use super::file_state::FileState;
use super::sync_epochs::DirectorySync;
use crate::analysis::advice::medium::Medium;
use crate::analysis::advice::rule::{RuleId, Severity};
use crate::operation::model::ProcessKey;
use crate::units::Pid;

impl Durability {
    /// Judges the state at the end of the recording.
    pub fn finish(&self) -> DurabilityResult {
        let mut undecided = self.undecided.clone();
        let mut doubt = |rule, reason| *undecided.entry((rule, reason)).or_default() += 1;
        let mut cases: Vec<DurabilityCase> = Vec::new();
        for case in self.cases.iter().filter(|case| case.is_selected && !case.is_withdrawn) {
            match self.with_severity(case.clone()) {
                Ok(case) => cases.push(case),
                Err(reason) => doubt(case.rule, reason),
            }
        }
        for state in self.files.values() {
            match self.directory_case(state) {
                Ok(case) => cases.extend(case),
                Err(reason) => doubt(RuleId::DirectoryUnsynced, reason),
            }
            match self.closed_case(state) {
                Ok(case) => cases.extend(case),
                Err(reason) => doubt(RuleId::SyncFailed, reason),
            }
            match self.mapped_case(state) {
                Ok(case) => cases.extend(case),
                Err(reason) => doubt(RuleId::MmapUnsynced, reason),
            }
        }
        cases.sort_by_key(|case| {
            let end = case.events.last().map(|event| event.end);
            (case.rule, end, Rc::clone(&case.path))
        });
        let undecided = undecided.into_iter().map(|((rule, reason), count)| (rule, reason, count));
        DurabilityResult { cases, undecided: undecided.collect() }
    }

    fn has_synced(&self, processes: [ProcessKey; 2]) -> bool {
        processes.iter().any(|process| self.syncers.contains(process))
    }

    fn is_ended(&self, process: ProcessKey) -> bool {
        self.ended.contains(&process.0)
    }

    fn with_severity(&self, mut case: DurabilityCase) -> Result<DurabilityCase, DurabilityDoubt> {
        let last = case.events.last().map(|event| event.end);
        if self.lost_names.is_some() && self.lost_names >= last {
            // The file may be removed.
            return Err(DurabilityDoubt::UnknownPath);
        }
        if case.severity.is_some() {
            return Ok(case);
        }
        let synced_all = last.is_some_and(|end| self.epochs.covers(case.dev, end));
        let (severity, outcome) = if let Some(later) = case.later.take() {
            case.events.push(later);
            (Severity::Note, "the file was synced later: until then a crash loses the data")
        } else if synced_all {
            (Severity::Note, "all files were synced later: until then a crash loses the data")
        } else if self.epochs.unknown.is_some() && self.epochs.unknown >= last {
            return Err(DurabilityDoubt::UnknownSync);
        } else if !case.processes.iter().all(|process| self.is_ended(*process)) {
            return Err(DurabilityDoubt::RecordingEnd);
        } else if case.is_backup {
            (Severity::Note, "never synced; the new name extends the old one, as for a rotated log")
        } else if !self.has_synced(case.processes) {
            (Severity::Note, "never synced; the processes that write and rename it sync no file")
        } else {
            (case.rule.rule().severity, "never synced in this recording")
        };
        (case.severity, case.outcome) = (Some(severity), outcome);
        Ok(case)
    }

    fn directory_case(&self, state: &FileState) -> Result<Option<DurabilityCase>, DurabilityDoubt> {
        let (Some(entry), Some(synced)) = (&state.entry, &state.synced) else { return Ok(None) };
        let is_open = state.is_entry_open(&self.epochs);
        if !is_open || !entry.is_selected || state.names.is_empty() || state.is_dirty(&self.epochs)
        {
            return Ok(None);
        }
        let doubt = match state.medium {
            Medium::Remote => Some(DurabilityDoubt::Remote),
            Medium::Unknown => Some(DurabilityDoubt::UnknownMedium),
            _ if self.lost_names >= Some(entry.event.end) => Some(DurabilityDoubt::UnknownPath),
            _ if self.epochs.is_full => Some(DurabilityDoubt::NoRoom),
            _ if self.epochs.unknown >= Some(entry.event.end) => Some(DurabilityDoubt::UnknownSync),
            _ if !self.is_ended(entry.process) => Some(DurabilityDoubt::RecordingEnd),
            _ if self.epochs.of_directory(&entry.directory, state.dev, entry.event.end)
                == DirectorySync::Unclear =>
            {
                Some(DurabilityDoubt::OtherDirectory)
            }
            _ => None,
        };
        if let Some(doubt) = doubt {
            return Err(doubt);
        }
        let is_synced_after = synced.start >= entry.event.end;
        let (severity, outcome) = match (is_synced_after, entry.is_birth) {
            (true, _) => (
                Severity::Note,
                "the file was synced after it got its name, its directory never: ext4, xfs and \
                 btrfs keep the name, POSIX does not promise it",
            ),
            (false, _) => (
                Severity::Warning,
                "the directory was never synced after it: a crash may undo the rename or link",
            ),
        };
        let mut events = events_before(state, entry.event.clone());
        let last = events.pop();
        // The creation may be the first event already.
        events.retain(|event| Some(event) != last.as_ref());
        events.extend(last);
        events.sort_by_key(|event| event.end);
        Ok(Some(DurabilityCase {
            rule: RuleId::DirectoryUnsynced,
            path: state.shown_name(),
            pid: entry.event.pid,
            processes: [entry.process; 2],
            events,
            bytes: 0,
            is_backup: false,
            dev: state.dev,
            later: None,
            is_withdrawn: false,
            is_selected: true,
            severity: Some(severity),
            outcome,
        }))
    }

    fn closed_case(&self, state: &FileState) -> Result<Option<DurabilityCase>, DurabilityDoubt> {
        let Some(failed) = state.failed.as_ref().filter(|failed| failed.is_selected) else {
            return Ok(None);
        };
        if self.lost_names.is_some() && self.lost_names >= Some(failed.event.end) {
            return Err(DurabilityDoubt::UnknownPath);
        }
        if failed.rewritten > 0 {
            return Err(DurabilityDoubt::PartlyRewritten);
        }
        let Some(closed) = &failed.closed else {
            return match self.is_ended(failed.process) {
                // The process ended at the error.
                true => Ok(None),
                false => Err(DurabilityDoubt::RecordingEnd),
            };
        };
        Ok(Some(DurabilityCase {
            rule: RuleId::SyncFailed,
            path: state.shown_name(),
            pid: closed.pid,
            processes: [failed.process; 2],
            events: vec![failed.event.clone(), closed.clone()],
            bytes: 0,
            is_backup: false,
            dev: state.dev,
            later: None,
            is_withdrawn: false,
            is_selected: true,
            severity: Some(Severity::Warning),
            outcome: "the file was closed and not written again",
        }))
    }

    fn mapped_case(&self, state: &FileState) -> Result<Option<DurabilityCase>, DurabilityDoubt> {
        let Some(mapped) = &state.mapped else { return Ok(None) };
        // After a sync only a store that is seen tells that there is something to lose.
        let is_synced = state.synced.as_ref().is_some_and(|sync| mapped.0.end <= sync.start)
            || self.epochs.covers(state.dev, mapped.0.end);
        if state.names.is_empty() || is_synced && state.stored.is_none() {
            return Ok(None);
        }
        let Some((stored, is_selected)) = state.stored.as_deref() else {
            return Err(DurabilityDoubt::UnseenStore);
        };
        if self.epochs.covers(state.dev, stored.end) || !is_selected {
            return Ok(None);
        }
        match state.medium {
            Medium::Remote => return Err(DurabilityDoubt::Remote),
            Medium::Unknown => return Err(DurabilityDoubt::UnknownMedium),
            _ if !self.is_ended(mapped.1) => return Err(DurabilityDoubt::RecordingEnd),
            _ => {}
        }
        let pid: Pid = stored.pid;
        Ok(Some(DurabilityCase {
            rule: RuleId::MmapUnsynced,
            path: state.shown_name(),
            pid,
            processes: [mapped.1; 2],
            events: vec![mapped.0.clone(), stored.clone()],
            bytes: 0,
            is_backup: false,
            dev: state.dev,
            later: None,
            is_withdrawn: false,
            is_selected: true,
            severity: Some(Severity::Note),
            outcome: "the second event is a page fault for a store; no msync or fsync came after",
        }))
    }
}
