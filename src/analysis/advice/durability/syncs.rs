//! Syncs: of a file, of a directory, of a file system, of all.

use super::Durability;
use super::deed::Deed;
use super::doubt::DurabilityDoubt;
use super::file_state::FailedSync;
use super::limits::SYNCERS_MAX;
use super::path_index::normal;
use super::state_key::StateKey;
use super::sync_epochs::later;
use crate::analysis::advice::rule::RuleId;
use crate::analysis::completed_op::OpKind;
use crate::event::OpenFlags;
use crate::operation::model::{FilePath, OpenFile};
use crate::units::KernelTime;

/// Errors of a sync after which data may be missing.
const DATA_ERRORS: [i32; 4] = [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::ENOMEM];

/// Flag of `msync` with which it waits for the device.
const MS_SYNC: u64 = libc::MS_SYNC.unsigned_abs() as u64;

impl Durability {
    pub(super) fn synced(&mut self, deed: &Deed<'_>) {
        let name = match deed.done.what {
            OpKind::Call(call) => call.call().name,
            OpKind::Async(opcode) if opcode.request_kind().name == "SYNC_FILE_RANGE" => return,
            OpKind::Async(_) => "fsync",
        };
        let flags = deed.call.and_then(|call| call.args.get(2)).copied().unwrap_or(0);
        if name == "sync_file_range" || name == "msync" && flags & MS_SYNC == 0 {
            return;
        }
        if let Some(errno) = deed.done.errno {
            if DATA_ERRORS.contains(&errno) {
                self.sync_failed(deed);
            }
            return;
        }
        if self.syncers.len() < SYNCERS_MAX {
            self.syncers.insert(deed.done.process);
        } else if !self.syncers.contains(&deed.done.process) {
            self.doubt_of(deed, RuleId::RenameUnsynced, DurabilityDoubt::NoRoom);
        }
        let start = deed.done.start;
        if name == "sync" {
            return later(&mut self.epochs.all, start);
        }
        let Some(file) = deed.done.file else { return later(&mut self.epochs.unknown, start) };
        if file.stat.is_none() && file.path.as_ref().is_some_and(is_descriptor) {
            return later(&mut self.epochs.unknown, start);
        }
        if name == "syncfs" {
            match file.stat {
                Some(stat) => {
                    let known = self.epochs.devices.entry(stat.dev).or_insert(start);
                    *known = (*known).max(start);
                }
                None => later(&mut self.epochs.all, start),
            }
            return;
        }
        if file.stat.map_or_else(|| is_directory_open(file), |stat| stat.is_directory()) {
            return self.directory_synced(file, start);
        }
        let is_known = file.stat.is_some() || file.path.is_some();
        match self.key_of(file).filter(|_| is_known) {
            Some(key) if self.files.contains_key(&key) => self.file_synced(key, deed),
            Some(_) => {
                // Nothing of it is followed; where its type is not known, it may be a directory.
                if file.stat.is_none() {
                    self.directory_synced(file, start);
                    later(&mut self.epochs.unknown, start);
                }
            }
            None => later(&mut self.epochs.unknown, start),
        }
    }

    fn directory_synced(&mut self, file: &OpenFile, start: KernelTime) {
        let Some(path) = file.path.as_ref() else { return later(&mut self.epochs.unknown, start) };
        self.note_directory(file);
        self.epochs.sync_inode(file.stat.and_then(|stat| stat.inode()), start);
        for name in directory_names(file) {
            self.epochs.sync_directory((path.mounts, name), start);
        }
    }

    /// Notes the names of an open directory.
    pub(super) fn note_directory(&mut self, file: &OpenFile) {
        let Some(path) = file.path.as_ref().filter(|path| !path.source.is_doubtful()) else {
            return;
        };
        let Some(inode) = file.stat.and_then(|stat| stat.inode()) else { return };
        for name in directory_names(file) {
            self.epochs.note_directory((path.mounts, name), inode);
        }
    }

    fn file_synced(&mut self, key: StateKey, deed: &Deed<'_>) {
        self.retried(key, deed);
        let Some(state) = self.files.get_mut(&key) else { return };
        let event = deed.event(&state.shown_name());
        // A write that ended after the begin of the sync may not be covered.
        if state.dirty.as_ref().is_some_and(|dirty| dirty.last.end <= deed.done.start) {
            state.covered = state.dirty.take().map(|dirty| Box::new(dirty.last));
        }
        for case in &state.cases {
            let known = self
                .cases
                .get_mut(*case)
                .filter(|case| case.later.is_none() && case.rule != RuleId::SyncFailed);
            if let Some(case) = known {
                case.later = Some(event.clone());
            }
        }
        if state.stored.as_ref().is_some_and(|stored| stored.0.end <= deed.done.start) {
            state.stored = None;
        }
        state.synced = Some(Box::new(event));
    }

    /// Judges a sync after a failed one: data that was written again is on the device now.
    fn retried(&mut self, key: StateKey, deed: &Deed<'_>) {
        let Some(state) = self.files.get_mut(&key) else { return };
        let Some(failed) = &state.failed else { return };
        if failed.rewritten == 0 {
            return self.after_failure(key, deed);
        }
        if failed.rewritten < failed.unsynced && failed.is_selected {
            self.doubt(RuleId::SyncFailed, DurabilityDoubt::PartlyRewritten);
        }
        if let Some(state) = self.files.get_mut(&key) {
            state.failed = None;
        }
    }

    fn sync_failed(&mut self, deed: &Deed<'_>) {
        let Some(file) = deed.done.file else { return };
        let Some(key) = self.follow(file) else { return };
        let Some(state) = self.files.get_mut(&key) else { return };
        let event = deed.event(&state.shown_name());
        let (process, is_selected) = (deed.done.process, deed.is_selected);
        let unsynced = state.dirty.as_ref().map_or(0, |dirty| dirty.bytes);
        let failed = state.failed.get_or_insert_with(|| {
            let (closed, rewritten) = (None, 0);
            Box::new(FailedSync { event, process, closed, unsynced, rewritten, is_selected })
        });
        // What was written since the first failure is lost as well.
        failed.unsynced = failed.unsynced.max(unsynced);
        failed.rewritten = 0;
    }
}

/// Returns the whole names of an open directory: the kernel's, and the one that the program gave.
fn directory_names(file: &OpenFile) -> impl Iterator<Item = Vec<u8>> {
    let path = file.path.as_ref().map(|path| path.bytes.as_slice());
    // A link before `..` leads elsewhere.
    let has_parent = |name: &[u8]| name.split(|byte| *byte == b'/').any(|part| part == b"..");
    let given = file.given.as_deref().filter(|given| !has_parent(given));
    let names = path.into_iter().chain(given);
    names.filter(|name| name.starts_with(b"/")).map(normal)
}

/// True for a path that stands for a descriptor of a process: `/proc/self/fd/3`, `/dev/fd/3`.
pub(super) fn is_descriptor(path: &FilePath) -> bool {
    let path = path.bytes.as_slice();
    let is_of_process = path.starts_with(b"/proc/") && path.windows(4).any(|part| part == b"/fd/");
    is_of_process
        || path.starts_with(b"/dev/fd/")
        || matches!(path, b"/dev/stdin" | b"/dev/stdout" | b"/dev/stderr")
}

fn is_directory_open(file: &OpenFile) -> bool {
    // O_TMPFILE contains O_DIRECTORY.
    let flags = file.flags.map(OpenFlags);
    flags.is_some_and(|flags| flags.is_directory() && !flags.is_unnamed())
}
