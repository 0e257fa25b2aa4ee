//! Durability: whether the data and the names of files were on the device when other files or names
//! came to depend on them.
//!
//! ```text
//!  opened ──► written ──► synced ──► renamed ──► directory synced        nothing to report
//!                │                     ▲
//!                ├─────────────────────┘  not synced: rename-unsynced
//!                └── synced, written again ┘  write-after-sync
//! ```
//!
//! A file is its inode, so descriptors that were copied, other processes and other names are the
//! same file; without inodes it is its path. A sync counts for the operations that ended before it
//! began. `sync_file_range` does not count: it promises nothing about the device (its manual page).
//! Files in memory (tmpfs) are not followed, and files that are removed before the end have no
//! finding. What cannot be known is counted as not judged, with its reason.

mod case;
mod deed;
mod doubt;
mod end;
mod file_state;
mod limits;
mod mapped_files;
mod names_changed;
mod path_index;
mod state_key;
mod sync_epochs;
mod syncs;

use std::collections::{BTreeMap, BTreeSet};

use rangemap::RangeSet;
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::case::{DurabilityCase, DurabilityResult};
use self::deed::Deed;
pub use self::doubt::DurabilityDoubt;
use self::file_state::{Dirty, FileState, NameEntry};
use self::limits::{ABSENT_MAX, FILES_MAX};
use self::path_index::{PathIndex, PlacedPath};
use self::state_key::StateKey;
use self::sync_epochs::SyncEpochs;
use self::syncs::is_descriptor;
use super::super::completed_op::CompletedOp;
#[cfg(test)]
use super::finding::ProofEvent;
use super::medium::{Media, Medium};
use super::rule::RuleId;
use crate::event::registers::argument;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::{AccessMode, OpenFlags};
use crate::naming::paths::DELETED;
use crate::operation::Step;
use crate::operation::asynchronous::NoResult;
use crate::operation::model::{
    FdEffect, FilePath, MountNamespace, OpenFile, ProcessKey, SyscallOperation,
};
use crate::units::{Fd, KernelTime};

/// Flags of `pwritev2` with which a write is synced when it ends: `RWF_DSYNC`, `RWF_SYNC`
/// (`include/uapi/linux/fs.h`).
const RWF_SYNCS: u64 = 0x2 | 0x4;

/// Fold of the durability of files.
#[derive(Debug, Default)]
pub struct Durability {
    media: Media,
    files: FxHashMap<StateKey, FileState>,
    paths: PathIndex,
    /// Unnamed files (`O_TMPFILE`) by their descriptors, until they get a name.
    unnamed: FxHashMap<(ProcessKey, Fd), StateKey>,
    absent: BTreeSet<PlacedPath>,
    epochs: SyncEpochs,
    /// Processes that have synced a file.
    syncers: FxHashSet<ProcessKey>,
    ended: RangeSet<u32>,
    cases: Vec<DurabilityCase>,
    /// Last rename, link or removal of an unknown file.
    lost_names: Option<KernelTime>,
    undecided: BTreeMap<(RuleId, DurabilityDoubt), u64>,
    /// Size at which the map of files is swept.
    sweep_at: usize,
}

impl Durability {
    /// Takes a step; `done` is its operation, if it ends one.
    pub fn take(&mut self, step: &Step<'_>, done: Option<&CompletedOp<'_>>, is_selected: bool) {
        match (step, done) {
            (Step::SyscallEnded(operation, effects), Some(done)) => {
                let fd = operation.fd;
                let deed = Deed { done, call: Some(operation), fd, is_selected };
                self.ended(&deed, effects);
                if done.class == CallClass::Transfer
                    && let Some((fd, target)) = &operation.target
                {
                    self.written(&Deed { fd: Some(*fd), ..deed }, target);
                }
            }
            (Step::AsyncEnded(operation, effects), Some(done)) => {
                let deed = Deed { done, call: None, fd: operation.fd, is_selected };
                let is_synced_write = u64::from(operation.rw_flags) & RWF_SYNCS != 0;
                let is_write = matches!(done.class, CallClass::Write | CallClass::Pipe);
                if !(is_write && is_synced_write) {
                    self.ended(&deed, effects);
                }
            }
            (Step::MountsSeen(table), _) => self.media = Media::new(table),
            (Step::ProcessEnded(process), _) => {
                self.ended.insert(process.key.0..process.key.0.saturating_add(1));
            }
            (Step::Fault(fault), _) if fault.write == Some(true) => self.stored(fault, is_selected),
            // The kernel reports only failures of such an operation.
            (Step::AsyncUnfinished(operation, NoResult::Skipped), _) => {
                let done = CompletedOp::asynchronous(operation);
                let deed = Deed { done: &done, call: None, fd: operation.fd, is_selected };
                self.ended(&deed, &[]);
            }
            _ => {}
        }
    }

    fn ended(&mut self, deed: &Deed<'_>, effects: &[FdEffect]) {
        let done = deed.done;
        for effect in effects {
            if let FdEffect::Created { fd, file } = effect
                && done.errno.is_none()
            {
                self.opened(deed, *fd, file);
            }
        }
        match done.class {
            CallClass::Write if deed.call.is_none_or(|call| !is_synced_write(call)) => {
                if let Some(file) = done.file {
                    self.written(deed, file);
                }
            }
            CallClass::Pipe if deed.call.is_none() => {
                if let Some(file) = done.file {
                    self.written(deed, file);
                }
            }
            CallClass::Resize => self.resized(deed),
            CallClass::Sync => self.synced(deed),
            CallClass::Rename => self.renamed(deed),
            CallClass::Name => self.linked(deed),
            CallClass::Remove => self.removed(deed),
            CallClass::Close => self.closed(deed),
            CallClass::Map => self.mapped(deed),
            _ => {}
        }
        if done.errno == Some(libc::ENOENT) {
            self.missed(deed);
        }
    }

    /// Notes that a path does not exist: the next open that may create it does.
    fn missed(&mut self, deed: &Deed<'_>) {
        let named = deed.call.and_then(|call| call.named.as_ref()?.first.as_ref());
        let Some(path) = named.and_then(path_index::whole) else { return };
        // The file may be there when its directory is not the one that was looked for.
        if matches!(deed.done.class, CallClass::Open | CallClass::Stat | CallClass::Remove) {
            self.note_absent(path);
        }
    }

    fn note_absent(&mut self, path: PlacedPath) {
        if self.absent.len() < ABSENT_MAX {
            self.absent.insert(path);
        } else if !self.absent.contains(&path) {
            // The creation of this file is not noticed.
            self.doubt(RuleId::DirectoryUnsynced, DurabilityDoubt::NoRoom);
        }
    }

    fn opened(&mut self, deed: &Deed<'_>, fd: Fd, file: &OpenFile) {
        let Some(flags) = file.flags.map(OpenFlags) else { return };
        if flags.is_path_only() {
            return;
        }
        if file.stat.is_some_and(|stat| !stat.has_position()) {
            if file.stat.is_some_and(|stat| stat.is_directory()) {
                self.note_directory(file);
            }
            return;
        }
        let path = file.path.as_ref().filter(|path| path.bytes.starts_with(b"/"));
        let given = file.given.as_deref();
        let path_key = path.map(|path| (path.mounts, path_index::normal(&path.bytes)));
        let was_absent = flags.creates()
            && path_key.as_ref().is_some_and(|key| {
                let given = given.map(|given| (key.0, path_index::normal(given)));
                self.absent.remove(key) | given.is_some_and(|given| self.absent.remove(&given))
            });
        let old = self.key_of(file);
        // A file that is followed under a name was not absent: its directory got another name.
        let is_followed =
            old.and_then(|key| self.files.get(&key)).is_some_and(|state| !state.names.is_empty());
        let is_new = flags.makes_regular_file() || was_absent && !is_followed;
        if let Some(key) = old.filter(|key| {
            // The inode of a removed file belongs to another one now.
            let is_nameless = |state: &FileState| state.had_names && state.names.is_empty();
            is_new || flags.creates() && self.files.get(key).is_some_and(is_nameless)
        }) {
            self.forget(key);
        }
        if !is_new && old.is_none_or(|key| !self.files.contains_key(&key)) {
            // A file that is only read needs no state.
            if flags.access_mode() == AccessMode::Read {
                return;
            }
        }
        let Some(key) = self.follow(file) else { return };
        let paths = self.register(key, file);
        let Some(state) = self.files.get_mut(&key) else { return };
        if flags.truncates() {
            // All data is written again: an earlier failure does not matter any more.
            state.failed = None;
        }
        if is_new {
            let name = state.shown_name();
            let event = Deed { fd: Some(fd), ..*deed }.event(&name);
            state.born = Some(Box::new(event.clone()));
            if flags.is_unnamed() {
                self.unnamed.insert((deed.done.process, fd), key);
            } else if let Some((mounts, path)) = paths {
                let directory = (mounts, path_index::directory(&path));
                let (process, is_selected) = (deed.done.process, deed.is_selected);
                state.entry = Some(Box::new(NameEntry {
                    directory,
                    event,
                    process,
                    is_selected,
                    is_birth: true,
                }));
            }
        }
    }

    /// Returns the key of a file; `None`: neither inode nor path is known.
    fn key_of(&self, file: &OpenFile) -> Option<StateKey> {
        if let Some((dev, ino)) = file.stat.and_then(|stat| stat.inode()) {
            return Some(StateKey::Inode(dev, ino));
        }
        if file.is_made() || file.path.as_ref().is_some_and(is_descriptor) {
            return None;
        }
        let by_path = |path: &FilePath| {
            let is_certain = path.bytes.starts_with(b"/") && !path.source.is_doubtful();
            is_certain.then(|| self.paths.get(path.mounts, &path.bytes)).flatten()
        };
        by_path(file.path.as_ref()?).or(Some(StateKey::Open(file.id)))
    }

    /// Returns the key of a file whose state is kept, with a new state if there is none.
    fn follow(&mut self, file: &OpenFile) -> Option<StateKey> {
        if file.stat.is_some_and(|stat| stat.mode & libc::S_IFMT != libc::S_IFREG) {
            return None;
        }
        let key = self.key_of(file)?;
        if self.files.contains_key(&key) {
            return Some(key);
        }
        let path = file.path.as_ref();
        let is_file = path.is_some_and(|path| path.bytes.starts_with(b"/"));
        if !is_file && file.stat.is_none() {
            return None;
        }
        let medium = self.media.of(path, file.stat.map(|stat| stat.dev));
        if matches!(medium, Medium::Memory | Medium::Synchronous) {
            return None;
        }
        self.make_room();
        let dev = file.stat.map(|stat| stat.dev);
        let name = path.map(|path| path.bytes.as_slice()).unwrap_or_default();
        self.files.insert(key, FileState::new(name, dev, medium));
        self.register(key, file);
        Some(key)
    }

    /// Adds the names of a file to the index. Returns the resolved one.
    fn register(&mut self, key: StateKey, file: &OpenFile) -> Option<(MountNamespace, Vec<u8>)> {
        let path = file.path.as_ref().filter(|path| path.bytes.starts_with(b"/"))?;
        if path.source.is_doubtful() || path.bytes.ends_with(DELETED) {
            return None;
        }
        if !self.files.contains_key(&key) {
            return None;
        }
        let whole = path_index::normal(&path.bytes);
        if let Some(given) = &file.given {
            let given = path_index::normal(given);
            if !self.paths.note_alias(path.mounts, &given, &whole) {
                self.doubt(RuleId::RenameUnsynced, DurabilityDoubt::NoRoom);
            }
        }
        let state = self.files.get_mut(&key)?;
        if !state.names.iter().any(|name| *name.1 == *whole && name.0 == path.mounts) {
            state.add_name(path.mounts, &whole);
            if let Some(other) = self.paths.insert(path.mounts, &whole, key)
                && let Some(other) = self.files.get_mut(&other)
            {
                other.remove_name(path.mounts, &whole);
            }
        }
        Some((path.mounts, whole))
    }

    /// Removes all that is known of a file.
    fn forget(&mut self, key: StateKey) {
        if let Some(state) = self.files.remove(&key) {
            for (mounts, name) in &state.names {
                self.paths.remove(*mounts, name);
            }
        }
    }

    /// Removes states that tell nothing; if that is not enough, those of the files whose last event
    /// is the oldest.
    fn make_room(&mut self) {
        if self.files.len() < self.sweep_at.max(1024) {
            return;
        }
        let epochs = &self.epochs;
        let idle: Vec<StateKey> = self
            .files
            .iter()
            .filter(|(_, state)| state.is_idle(epochs))
            .map(|(key, _)| *key)
            .collect();
        idle.into_iter().for_each(|key| self.forget(key));
        if self.files.len() >= FILES_MAX {
            let mut times: Vec<(KernelTime, StateKey)> =
                self.files.iter().map(|(key, state)| (state.last_time(), *key)).collect();
            times.sort_unstable();
            for (_, key) in times.into_iter().take(FILES_MAX / 4) {
                self.forget(key);
                self.doubt(RuleId::RenameUnsynced, DurabilityDoubt::NoRoom);
            }
        }
        self.sweep_at = self.files.len().saturating_mul(2).min(FILES_MAX);
    }

    /// Counts a case that is not judged, if its operation is selected.
    fn doubt_of(&mut self, deed: &Deed<'_>, rule: RuleId, reason: DurabilityDoubt) {
        if deed.is_selected {
            self.doubt(rule, reason);
        }
    }

    fn doubt(&mut self, rule: RuleId, reason: DurabilityDoubt) {
        *self.undecided.entry((rule, reason)).or_default() += 1;
    }

    fn written(&mut self, deed: &Deed<'_>, file: &OpenFile) {
        if deed.done.errno.is_some() || deed.done.bytes == 0 || is_always_synced(file) {
            return;
        }
        let Some(key) = self.follow(file) else { return };
        self.change(key, deed);
    }

    /// Notes a change of the data of a file.
    fn change(&mut self, key: StateKey, deed: &Deed<'_>) {
        let Some(state) = self.files.get_mut(&key) else { return };
        if let Some(failed) = &mut state.failed {
            failed.rewritten = failed.rewritten.saturating_add(deed.done.bytes);
        }
        let name = state.shown_name();
        let event = deed.event(&name);
        state.is_reported = false;
        let is_synced =
            state.dirty.as_ref().is_none_or(|dirty| self.epochs.covers(state.dev, dirty.last.end));
        match state.dirty.as_mut().filter(|_| !is_synced) {
            Some(dirty) => {
                dirty.count += 1;
                dirty.bytes = dirty.bytes.saturating_add(deed.done.bytes);
                dirty.last = event;
                dirty.writer = deed.done.process;
            }
            None => {
                let (count, bytes, writer) = (1, deed.done.bytes, deed.done.process);
                let first = event.clone();
                state.dirty = Some(Box::new(Dirty { first, last: event, count, bytes, writer }));
            }
        }
    }

    fn resized(&mut self, deed: &Deed<'_>) {
        // An allocation changes no data that is read.
        let is_truncation =
            deed.call.is_none_or(|call| call.call.call().name.ends_with("truncate"));
        if deed.done.errno.is_some() || !is_truncation {
            return;
        }
        let key = match deed.done.file {
            Some(file) if is_always_synced(file) => return,
            Some(file) => self.key_of(file),
            None => self.named_file(deed),
        };
        // A length alone is not worth a finding: only files with data are.
        if let Some(key) = key
            && self
                .files
                .get(&key)
                .is_some_and(|state| state.dirty.is_some() || state.synced.is_some())
        {
            self.change(key, deed);
        }
    }
}

/// True if each write to the file is synced when it ends.
fn is_always_synced(file: &OpenFile) -> bool {
    file.flags.map(OpenFlags).is_some_and(|flags| flags.has(libc::O_DSYNC))
}

/// True for a write with `RWF_DSYNC` or `RWF_SYNC`.
fn is_synced_write(call: &SyscallOperation) -> bool {
    argument(call.call.call(), Role::RwFlags, &call.args)
        .is_some_and(|flags| flags & RWF_SYNCS != 0)
}

#[cfg(test)]
mod tests;
