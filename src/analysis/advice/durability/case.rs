//! Cases: orders of events that break a rule.

use std::rc::Rc;

use super::Durability;
use super::deed::Deed;
use super::doubt::DurabilityDoubt;
use super::file_state::FileState;
use super::limits::CASES_MAX;
use super::state_key::StateKey;
use crate::analysis::advice::finding::ProofEvent;
use crate::analysis::advice::medium::Medium;
use crate::analysis::advice::rule::{RuleId, Severity};
use crate::event::syscall_table::CallClass;
use crate::operation::model::ProcessKey;
use crate::units::{DevId, Pid};

/// One case.
#[derive(Clone, Debug)]
pub struct DurabilityCase {
    /// Rule that it breaks.
    pub rule: RuleId,
    /// Final path of the file.
    pub path: Rc<[u8]>,
    /// Process of the last event.
    pub pid: Pid,
    /// Incarnations of the processes that wrote and that renamed.
    pub processes: [ProcessKey; 2],
    /// Events in the order of their ends.
    pub events: Vec<ProofEvent>,
    /// Unsynced bytes.
    pub bytes: u64,
    /// Device of the file.
    pub dev: Option<DevId>,
    /// True if the new name extends the old one, as for a rotated log or a backup.
    pub is_backup: bool,
    /// Later sync of the file.
    pub later: Option<ProofEvent>,
    /// True if the file was removed later.
    pub is_withdrawn: bool,
    /// True if the filter selects the last event.
    pub is_selected: bool,
    /// Severity, if it is decided.
    pub severity: Option<Severity>,
    /// Result of the order, as a sentence.
    pub outcome: &'static str,
}

/// Cases at the end of a recording, and the number of those that are not judged.
#[derive(Debug, Default)]
pub struct DurabilityResult {
    /// Cases with their severities.
    pub cases: Vec<DurabilityCase>,
    /// Cases that are not judged, by rule and reason.
    pub undecided: Vec<(RuleId, DurabilityDoubt, u64)>,
}

impl Durability {
    /// Adds a case about a file.
    pub(super) fn add_case(&mut self, key: StateKey, case: DurabilityCase) {
        if self.cases.len() >= CASES_MAX {
            if case.is_selected {
                self.doubt(case.rule, DurabilityDoubt::NoRoom);
            }
            return;
        }
        if let Some(state) = self.files.get_mut(&key) {
            state.cases.push(self.cases.len());
        }
        self.cases.push(case);
    }

    /// Judges a call that gives a file a name.
    pub(super) fn named(&mut self, key: StateKey, from: &[u8], path: &Rc<[u8]>, deed: &Deed<'_>) {
        let Some(state) = self.files.get(&key) else { return };
        if !state.is_dirty(&self.epochs) || state.is_reported || state.failed.is_some() {
            return;
        }
        let Some(dirty) = &state.dirty else { return };
        let rule = match &state.synced {
            Some(_) => RuleId::WriteAfterSync,
            None => RuleId::RenameUnsynced,
        };
        let doubt = match state.medium {
            Medium::Remote => Some(DurabilityDoubt::Remote),
            Medium::Unknown => Some(DurabilityDoubt::UnknownMedium),
            _ if self.epochs.unknown >= Some(dirty.first.end) => Some(DurabilityDoubt::UnknownSync),
            _ if state.synced.as_ref().is_some_and(|sync| dirty.last.start < sync.end) => {
                Some(DurabilityDoubt::Overlap)
            }
            _ => None,
        };
        if let Some(doubt) = doubt {
            self.doubt_of(deed, rule, doubt);
            return self.mark_reported(key);
        }
        let case = DurabilityCase {
            rule,
            path: Rc::clone(path),
            pid: deed.done.pid,
            processes: [dirty.writer, deed.done.process],
            events: events_before(state, deed.event(path)),
            bytes: dirty.bytes,
            is_backup: is_backup(state, from, path),
            dev: state.dev,
            later: None,
            is_withdrawn: false,
            is_selected: deed.is_selected,
            severity: None,
            outcome: "",
        };
        self.add_case(key, case);
        self.mark_reported(key);
    }

    fn mark_reported(&mut self, key: StateKey) {
        if let Some(state) = self.files.get_mut(&key) {
            state.is_reported = true;
        }
    }

    /// Judges what follows a failed sync of the file.
    pub(super) fn after_failure(&mut self, key: StateKey, deed: &Deed<'_>) {
        let Some(state) = self.files.get_mut(&key) else { return };
        let Some(failed) = state.failed.take() else { return };
        let path = state.shown_name();
        let outcome = match deed.done.class {
            CallClass::Sync => "a later sync of the file succeeded, which says nothing of the data",
            CallClass::Rename | CallClass::Name => "the file was renamed or linked after it",
            _ => "the file was used on after it",
        };
        let mut events: Vec<ProofEvent> =
            state.dirty.iter().map(|dirty| dirty.last.clone()).collect();
        events.retain(|event| event.end <= failed.event.start);
        events.push(failed.event.clone());
        events.extend(failed.closed.clone());
        events.push(deed.event(&path));
        let case = DurabilityCase {
            rule: RuleId::SyncFailed,
            path,
            pid: deed.done.pid,
            processes: [failed.process, deed.done.process],
            events,
            bytes: 0,
            is_backup: false,
            dev: None,
            later: None,
            is_withdrawn: false,
            is_selected: failed.is_selected,
            severity: Some(Severity::Problem),
            outcome,
        };
        self.add_case(key, case);
    }
}

/// True if the new name is that of a rotated log or a backup: it extends the name of a file that
/// was not made under it in this recording, as `log.1`, `log-2026`, `log~` and `LOG.old` do.
fn is_backup(state: &FileState, from: &[u8], path: &[u8]) -> bool {
    let is_new = state.born.as_ref().is_some_and(|born| *born.path == *from);
    let extension = path.strip_prefix(from).and_then(<[u8]>::first);
    !is_new && extension.is_some_and(|byte| b".-~".contains(byte) || byte.is_ascii_digit())
}

/// Returns the events of a file that lead to the last one.
pub(super) fn events_before(state: &FileState, last: ProofEvent) -> Vec<ProofEvent> {
    let mut events: Vec<ProofEvent> = Vec::new();
    events.extend(state.born.as_deref().cloned());
    events.extend(state.covered.as_deref().cloned());
    events.extend(state.synced.as_deref().cloned());
    if let Some(dirty) = &state.dirty {
        events.push(dirty.first.clone());
        if dirty.count > 1 {
            events.push(dirty.last.clone());
        }
    }
    events.sort_by_key(|event| event.end);
    events.push(last);
    events
}
