//! State of a file.

use std::rc::Rc;

use super::sync_epochs::{DirectorySync, SyncEpochs};
use crate::analysis::advice::finding::ProofEvent;
use crate::analysis::advice::medium::Medium;
use crate::operation::model::{MountNamespace, ProcessKey};
use crate::units::{DevId, KernelTime};

/// Writes that no sync has covered.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    pub(super) first: ProofEvent,
    pub(super) last: ProofEvent,
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// Process of the last write.
    pub(super) writer: ProcessKey,
}

/// Name that a directory got.
#[derive(Clone, Debug)]
pub(super) struct NameEntry {
    pub(super) directory: (MountNamespace, Vec<u8>),
    pub(super) event: ProofEvent,
    pub(super) process: ProcessKey,
    pub(super) is_selected: bool,
    /// True for the creation of the file, false for a rename or link.
    pub(super) is_birth: bool,
}

/// Failed sync.
#[derive(Clone, Debug)]
pub(super) struct FailedSync {
    pub(super) event: ProofEvent,
    pub(super) process: ProcessKey,
    pub(super) closed: Option<ProofEvent>,
    /// Bytes that were not synced when it failed.
    pub(super) unsynced: u64,
    /// Bytes that were written since.
    pub(super) rewritten: u64,
    pub(super) is_selected: bool,
}

/// Knowledge of a file.
#[derive(Clone, Debug)]
pub(super) struct FileState {
    /// Last name.
    name: Rc<[u8]>,
    pub(super) names: Vec<(MountNamespace, Rc<[u8]>)>,
    /// True if it had a name in the index.
    pub(super) had_names: bool,
    pub(super) dev: Option<DevId>,
    pub(super) medium: Medium,
    pub(super) born: Option<Box<ProofEvent>>,
    pub(super) dirty: Option<Box<Dirty>>,
    /// Last write that a sync has covered.
    pub(super) covered: Option<Box<ProofEvent>>,
    /// Last sync that has covered data.
    pub(super) synced: Option<Box<ProofEvent>>,
    pub(super) entry: Option<Box<NameEntry>>,
    pub(super) failed: Option<Box<FailedSync>>,
    /// Shared writable mapping without a later sync, and its process.
    pub(super) mapped: Option<Box<(ProofEvent, ProcessKey)>>,
    /// Store through a mapping without a later sync.
    pub(super) stored: Option<Box<(ProofEvent, bool)>>,
    /// Numbers of the cases about it.
    pub(super) cases: Vec<usize>,
    /// True if its unsynced data has been reported.
    pub(super) is_reported: bool,
}

impl FileState {
    pub(super) fn new(name: &[u8], dev: Option<DevId>, medium: Medium) -> Self {
        Self {
            name: name.into(),
            names: Vec::new(),
            had_names: false,
            dev,
            medium,
            born: None,
            dirty: None,
            covered: None,
            synced: None,
            entry: None,
            failed: None,
            mapped: None,
            stored: None,
            cases: Vec::new(),
            is_reported: false,
        }
    }

    pub(super) fn shown_name(&self) -> Rc<[u8]> {
        Rc::clone(&self.name)
    }

    pub(super) fn add_name(&mut self, mounts: MountNamespace, name: &[u8]) {
        self.name = name.into();
        self.names.push((mounts, Rc::clone(&self.name)));
        self.had_names = true;
    }

    pub(super) fn remove_name(&mut self, mounts: MountNamespace, name: &[u8]) {
        self.names.retain(|known| known.0 != mounts || *known.1 != *name);
    }

    /// True if the file has unsynced data.
    pub(super) fn is_dirty(&self, epochs: &SyncEpochs) -> bool {
        self.dirty.as_ref().is_some_and(|dirty| !epochs.covers(self.dev, dirty.last.end))
    }

    /// True if the directory of the file's name is not synced.
    pub(super) fn is_entry_open(&self, epochs: &SyncEpochs) -> bool {
        self.entry.as_ref().is_some_and(|entry| {
            let end = entry.event.end;
            let of_directory = epochs.of_directory(&entry.directory, self.dev, end);
            !epochs.covers(self.dev, end) && of_directory != DirectorySync::Done
        })
    }

    /// True if the state can be forgotten without a loss.
    pub(super) fn is_idle(&self, epochs: &SyncEpochs) -> bool {
        let is_removed = self.had_names && self.names.is_empty();
        let is_clean = !self.is_dirty(epochs) && !self.is_entry_open(epochs);
        let is_mapped = self.mapped.is_some() || self.stored.is_some();
        is_removed || is_clean && self.failed.is_none() && !is_mapped && self.cases.is_empty()
    }

    /// Returns the time of its last event.
    pub(super) fn last_time(&self) -> KernelTime {
        let ends = [
            self.dirty.as_ref().map(|dirty| dirty.last.end),
            self.synced.as_ref().map(|event| event.end),
            self.entry.as_ref().map(|entry| entry.event.end),
            self.born.as_ref().map(|event| event.end),
            self.mapped.as_ref().map(|mapped| mapped.0.end),
        ];
        ends.into_iter().flatten().max().unwrap_or(KernelTime::MIN)
    }
}
