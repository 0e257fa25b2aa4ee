//! Biographies of files: birth, names, opens, accesses and removal of chosen files, and the bytes
//! that never reached the disk.
//!
//! A life is one file: a device and inode, from its birth or first sight to its removal. A number
//! that is used again begins another life. A file is chosen by a name that it had at any time, or
//! by its number; as a later rename may give the name, the lives of other files are followed, too.

mod life;
#[cfg(test)]
mod tests;
mod written_bytes;

use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::{FxHashMap, FxHashSet};

use self::life::event_of;
pub use self::life::{Life, LifeEvent, LifeStep};
pub use self::written_bytes::ByteFates;
use self::written_bytes::WriteSpan;
use super::completed_op::{CompletedOp, NamedPath, OpKind};
use super::process_names::ProcessNames;
use super::summary::file_key;
use crate::anomaly::Link;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::{FileStat, OpenFlags};
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass};
use crate::operation::model::{OpenFile, PathArgument, SyscallOperation};
use crate::operation::renaming::exchanges;
use crate::operation::{Sink, Step};
use crate::units::{KernelTime, SECTOR_BYTES};

/// Choice of the files whose lives are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeTarget {
    /// A path from the root, in the tracer's mounts.
    Path(Vec<u8>),
    /// Device and inode.
    Inode(FileKey),
}

/// Largest number of files that are followed at a time.
const LIVES_MAX: usize = 1 << 16;

/// Largest number of chosen files that are kept.
const CHOSEN_MAX: usize = 256;

/// Largest number of open files, and of absent names, that are remembered.
const REMEMBERED_MAX: usize = 1 << 18;

/// Fold of biographies.
#[derive(Debug)]
pub struct Biographies {
    target: LifeTarget,
    lives: BTreeMap<u64, Life>,
    next: u64,
    by_name: BTreeMap<Vec<u8>, u64>,
    by_inode: FxHashMap<FileKey, u64>,
    by_file: FxHashMap<u64, u64>,
    /// Names that no file had when they were last used.
    absent: FxHashSet<Vec<u8>>,
    /// Names of processes.
    pub names: ProcessNames,
    /// Files that were not followed, for want of room.
    pub not_followed: u64,
    /// Open files and absent names that are not remembered, for want of room.
    pub not_remembered: u64,
    /// Renames and removals whose names are not known.
    pub unknown_names: u64,
}

impl Biographies {
    /// Creates the fold for these files.
    pub fn new(target: LifeTarget) -> Self {
        Self {
            target,
            lives: BTreeMap::new(),
            next: 0,
            by_name: BTreeMap::new(),
            by_inode: FxHashMap::default(),
            by_file: FxHashMap::default(),
            absent: FxHashSet::default(),
            names: ProcessNames::default(),
            not_followed: 0,
            not_remembered: 0,
            unknown_names: 0,
        }
    }

    /// Returns the lives of the chosen files, in the order of their first sight.
    pub fn chosen(&self) -> impl Iterator<Item = &Life> {
        self.lives.values().filter(|life| life.is_chosen)
    }

    fn is_target(&self, name: &[u8]) -> bool {
        matches!(&self.target, LifeTarget::Path(path) if path == name)
    }

    /// Creates a life; `None`: there is no room.
    fn create(&mut self, inode: Option<FileKey>, name: Option<&[u8]>) -> Option<u64> {
        let is_named = name.is_some_and(|name| self.is_target(name));
        let is_numbered = matches!(&self.target, LifeTarget::Inode(key) if inode == Some(*key));
        let is_chosen = is_named || is_numbered;
        if self.lives.len() >= LIVES_MAX + if is_chosen { CHOSEN_MAX } else { 0 } {
            self.not_followed += 1;
            return None;
        }
        let id = self.next;
        self.next += 1;
        self.lives.insert(id, Life { is_chosen, ..Life::default() });
        inode.into_iter().for_each(|inode| self.has_inode(id, inode));
        name.into_iter().for_each(|name| self.has_name(id, name));
        Some(id)
    }

    fn has_inode(&mut self, id: u64, inode: FileKey) {
        let is_target = matches!(&self.target, LifeTarget::Inode(key) if inode == *key);
        if let Some(life) = self.lives.get_mut(&id) {
            life.inode = Some(inode);
            life.is_chosen |= is_target;
            self.by_inode.insert(inode, id);
        }
    }

    /// Gives a file a name. A file that had it has lost it.
    fn has_name(&mut self, id: u64, name: &[u8]) {
        let is_target = self.is_target(name);
        self.absent.remove(name);
        if self.by_name.len() >= REMEMBERED_MAX && !is_target {
            self.not_followed += 1;
            return;
        }
        if let Some(before) = self.by_name.insert(name.to_vec(), id)
            && before != id
            && let Some(life) = self.lives.get_mut(&before)
        {
            life.names.retain(|known| known != name);
        }
        if let Some(life) = self.lives.get_mut(&id) {
            life.is_chosen |= is_target;
            life.is_gone = false;
            life.last_name = Some(name.to_vec());
            if !life.names.iter().any(|known| known == name) {
                life.names.push(name.to_vec());
            }
        }
    }

    /// Returns the life of an open file; `is_opened`: it has just been opened, by this name.
    fn of_file(&mut self, file: &OpenFile, is_opened: bool) -> Option<u64> {
        if let Some(id) = self.by_file.get(&file.id) {
            return Some(*id).filter(|id| self.lives.contains_key(id));
        }
        if file.is_made() {
            return None;
        }
        let path = file.path.as_ref().map(NamedPath::of);
        let name = path.filter(|path| !path.is_doubtful && path.path.starts_with(b"/"));
        let name = name.map(|name| file_key(&name));
        let inode = file.stat.as_ref().filter(|stat| stat.is_file()).and_then(FileStat::inode);
        let by_inode = inode.and_then(|inode| self.by_inode.get(&inode).copied());
        let is_alive = |id: &u64| self.lives.get(id).is_some_and(|life| !life.is_gone);
        let by_name = name.as_ref().and_then(|name| self.by_name.get(name).copied());
        let has_other = |id: &u64| {
            let known = self.lives.get(id).and_then(|life| life.inode);
            known.zip(inode).is_some_and(|(known, inode)| known != inode)
        };
        let by_name = by_name.filter(|id| !has_other(id));
        // A file without a name may still be opened again through /proc.
        let id = by_inode.filter(is_alive).or(by_name).or_else(|| self.create(inode, None))?;
        if let Some(inode) = inode {
            self.has_inode(id, inode);
        }
        if let Some(name) = name.filter(|_| is_opened || by_name.is_none()) {
            self.has_name(id, &name);
        }
        if self.by_file.len() < REMEMBERED_MAX {
            self.by_file.insert(file.id, id);
        } else {
            self.not_remembered += 1;
        }
        Some(id)
    }

    fn event(&mut self, id: u64, done: &CompletedOp<'_>, event: LifeEvent) {
        if let Some(life) = self.lives.get_mut(&id) {
            life.add(event);
            self.names.keep(done.process);
        }
    }

    fn opened(&mut self, done: &CompletedOp<'_>, file: &OpenFile, flags: Option<OpenFlags>) {
        let name = done.name.filter(|name| !name.is_doubtful).map(|name| file_key(&name));
        let was_absent = name.as_ref().is_some_and(|name| self.absent.contains(name));
        let Some(id) = self.of_file(file, true) else { return };
        if let Some(given) = &file.given {
            self.by_name.insert(given.to_vec(), id);
            self.absent.remove(&**given);
            let is_target = self.is_target(given);
            if let Some(life) = self.lives.get_mut(&id) {
                life.is_chosen |= is_target;
            }
        }
        let flags = flags.or(file.flags.map(OpenFlags));
        let is_made = flags.is_some_and(OpenFlags::makes_regular_file);
        let may_be_new = flags.is_some_and(OpenFlags::creates) && was_absent;
        let is_new = is_made || may_be_new;
        if is_new {
            let link = if is_made { Link::Exact } else { Link::Inferred };
            let born = LifeEvent { link, ..event_of(LifeStep::Born, done) };
            self.event(id, done, born);
        }
        if flags.is_some_and(OpenFlags::truncates) && !is_new {
            let is_first = self.lives.get(&id).is_some_and(|life| life.events.is_empty());
            match is_first && flags.is_some_and(OpenFlags::creates) {
                true => {
                    let what = LifeStep::BornOrTruncated;
                    self.event(id, done, LifeEvent { link: Link::Unknown, ..event_of(what, done) });
                }
                false => self.truncated(id, done, 0),
            }
        }
        self.event(id, done, event_of(LifeStep::Opened, done));
    }

    fn truncated(&mut self, id: u64, done: &CompletedOp<'_>, length: u64) {
        if let Some(life) = self.lives.get_mut(&id) {
            life.bytes.truncated(length, done.end);
        }
        let event = LifeEvent { bytes: length, ..event_of(LifeStep::Truncated, done) };
        self.event(id, done, event);
    }

    fn moved(
        &mut self,
        id: u64,
        done: &CompletedOp<'_>,
        file: &OpenFile,
        write: Option<WriteSpan>,
    ) {
        let what = if write.is_some() { LifeStep::Written } else { LifeStep::Read };
        let Some(life) = self.lives.get_mut(&id) else { return };
        match write {
            Some(write) => {
                life.written = life.written.saturating_add(write.bytes);
                let is_direct = file.flags.map(OpenFlags).is_some_and(OpenFlags::is_direct);
                life.bytes.wrote(WriteSpan { is_direct, ..write });
            }
            None => life.read = life.read.saturating_add(done.bytes),
        }
        self.event(id, done, LifeEvent { bytes: done.bytes, ..event_of(what, done) });
    }

    fn done(&mut self, step: &Step<'_>, done: &CompletedOp<'_>) {
        if done.errno == Some(libc::ENOENT)
            && let Some(name) = done.name.filter(|name| !name.is_doubtful)
        {
            self.is_absent(file_key(&name));
        }
        if done.errno.is_some() {
            return;
        }
        let call = match step {
            Step::SyscallEnded(operation, _) => Some(*operation),
            _ => None,
        };
        let write = |offset| WriteSpan {
            start: done.start,
            end: done.end,
            offset,
            bytes: done.bytes,
            is_direct: false,
        };
        match (done.class, done.file) {
            (CallClass::Open, Some(file)) => {
                self.opened(done, file, call.and_then(SyscallOperation::file_flags));
            }
            (CallClass::Read | CallClass::Write | CallClass::Transfer, Some(file)) => {
                if let Some(id) = self.of_file(file, false).filter(|_| done.bytes > 0) {
                    let write = (done.class == CallClass::Write).then(|| write(done.offset));
                    self.moved(id, done, file, write);
                }
            }
            (CallClass::Sync, Some(file)) => self.on_file(file, LifeStep::Synced, done),
            (CallClass::Map, Some(file)) => self.on_file(file, LifeStep::Mapped, done),
            _ => {}
        }
        if let Some((_, target)) = call.and_then(|operation| operation.target.as_ref())
            && done.class == CallClass::Transfer
            && done.bytes > 0
            && let Some(id) = self.of_file(target, false)
        {
            self.moved(id, done, target, Some(write(done.target_offset)));
        }
        if let Some(operation) = call {
            self.changed(operation, done);
        }
    }

    fn on_file(&mut self, file: &OpenFile, what: LifeStep, done: &CompletedOp<'_>) {
        if let Some(id) = self.of_file(file, false) {
            self.event(id, done, event_of(what, done));
        }
    }

    fn is_absent(&mut self, name: Vec<u8>) {
        if self.absent.len() < REMEMBERED_MAX {
            self.absent.insert(name);
        } else {
            self.not_remembered += 1;
        }
    }

    /// Takes a call that has changed names or lengths.
    fn changed(&mut self, operation: &SyscallOperation, done: &CompletedOp<'_>) {
        let call = operation.call.call();
        let named = operation.named.as_ref();
        let key = |given: Option<&PathArgument>| {
            let given = given.map(NamedPath::given)?;
            let is_known = !given.is_doubtful && given.path.starts_with(b"/");
            is_known.then(|| file_key(&given))
        };
        let first = key(named.and_then(|named| named.first.as_ref()));
        let second = key(named.and_then(|named| named.second.as_ref()));
        match (call.class, first, second) {
            (CallClass::Rename, Some(from), Some(to)) => {
                self.renamed(&from, &to, exchanges(operation), done);
            }
            (CallClass::Remove, Some(name), _) => self.removed(&name, done),
            (CallClass::Rename | CallClass::Remove, ..) => self.unknown_names += 1,
            (CallClass::Name, Some(from), Some(to)) if call.name.starts_with("link") => {
                let Some(id) = self.of_name(&from) else { return };
                self.has_name(id, &to);
                let event = LifeEvent {
                    name: Some(from),
                    new_name: Some(to),
                    ..event_of(LifeStep::Linked, done)
                };
                self.event(id, done, event);
            }
            (CallClass::Name, Some(name), _) => {
                // The call fails if the name exists.
                let Some(id) = self.create(None, Some(&name)) else { return };
                self.event(
                    id,
                    done,
                    LifeEvent { name: Some(name), ..event_of(LifeStep::Born, done) },
                );
            }
            (CallClass::Resize, name, _) => {
                let by_name = name.and_then(|name| self.of_name(&name));
                let by_file = |this: &mut Self| this.of_file(done.file?, false);
                let Some(id) = by_name.or_else(|| by_file(self)) else { return };
                let length = call.arg(Role::Length).and_then(|place| operation.args.get(place));
                match length {
                    Some(length) => self.truncated(id, done, *length),
                    None => self.event(id, done, event_of(LifeStep::Allocated, done)),
                }
            }
            _ => {}
        }
    }

    /// Returns the file of a name: one that is known, or a new one.
    fn of_name(&mut self, name: &[u8]) -> Option<u64> {
        let known = self.by_name.get(name).copied().filter(|id| self.lives.contains_key(id));
        known.or_else(|| self.create(None, Some(name)))
    }

    fn renamed(&mut self, from: &[u8], to: &[u8], is_exchange: bool, done: &CompletedOp<'_>) {
        if from == to {
            return;
        }
        let event = |from: &[u8], to: &[u8]| LifeEvent {
            name: Some(from.to_vec()),
            new_name: Some(to.to_vec()),
            ..event_of(LifeStep::Renamed, done)
        };
        let Some(id) = self.of_name(from) else { return };
        let below = self.take_below(from);
        if is_exchange {
            let other = self.of_name(to);
            let below_other = self.take_below(to);
            for (id, from, to) in
                other.map(|other| (other, to, from)).into_iter().chain([(id, from, to)])
            {
                self.loses_name(id, from);
                self.has_name(id, to);
                self.event(id, done, event(from, to));
            }
            self.move_below(below_other, to, from);
        } else {
            if let Some(replaced) = self.by_name.get(to).copied().filter(|replaced| *replaced != id)
            {
                self.unlinked(replaced, to, LifeStep::Replaced, done);
            }
            self.loses_name(id, from);
            self.by_name.remove(from);
            self.is_absent(from.to_vec());
            self.has_name(id, to);
            self.event(id, done, event(from, to));
        }
        self.move_below(below, from, to);
    }

    fn loses_name(&mut self, id: u64, name: &[u8]) {
        if let Some(life) = self.lives.get_mut(&id) {
            life.names.retain(|known| known != name);
        }
    }

    /// Takes the names below a directory away.
    fn take_below(&mut self, directory: &[u8]) -> Vec<(Vec<u8>, u64)> {
        let prefix = [directory, b"/"].concat();
        let from = self.by_name.range(prefix.clone()..);
        let below = from.take_while(|(name, _)| name.starts_with(&prefix));
        let below: Vec<(Vec<u8>, u64)> = below.map(|(name, id)| (name.clone(), *id)).collect();
        for (name, id) in &below {
            self.by_name.remove(name);
            self.loses_name(*id, name);
        }
        below
    }

    fn move_below(&mut self, below: Vec<(Vec<u8>, u64)>, from: &[u8], to: &[u8]) {
        for (name, id) in below {
            let rest = name.get(from.len()..).unwrap_or_default();
            self.has_name(id, &[to, rest].concat());
        }
    }

    fn removed(&mut self, name: &[u8], done: &CompletedOp<'_>) {
        if let Some(id) = self.of_name(name) {
            self.unlinked(id, name, LifeStep::Removed, done);
        }
        self.by_name.remove(name);
        self.is_absent(name.to_vec());
    }

    /// Takes a name from a file; the last one ends its life.
    fn unlinked(&mut self, id: u64, name: &[u8], what: LifeStep, done: &CompletedOp<'_>) {
        self.loses_name(id, name);
        let Some(life) = self.lives.get_mut(&id) else { return };
        life.is_gone = life.names.is_empty();
        let what = if life.is_gone { what } else { LifeStep::Unlinked };
        let is_over = life.is_gone && !life.is_chosen;
        if is_over {
            let inode = life.inode;
            self.lives.remove(&id);
            if let Some(inode) = inode {
                self.by_inode.remove(&inode);
            }
            return;
        }
        let event = LifeEvent { name: Some(name.to_vec()), ..event_of(what, done) };
        self.event(id, done, event);
    }

    /// Takes the bytes that a request has carried to a disk.
    fn request(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        if request.diskstats_class() != Some(DiskstatsClass::Write) || request.error.is_some() {
            return;
        }
        for piece in pieces {
            let BlockContents::File { key, offset: Some(offset), link, .. } = &piece.contents
            else {
                continue;
            };
            let id = self.by_inode.get(key);
            if let Some(life) = id.and_then(|id| self.lives.get_mut(id)) {
                let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES);
                let range = *offset..offset.saturating_add(bytes);
                life.bytes.carried(range, piece.queued.time, *link);
            }
        }
    }
}

impl Sink for Biographies {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(step, &done);
                    // The names of such requests are not recorded.
                    let changes_names = matches!(done.class, CallClass::Rename | CallClass::Remove);
                    let is_request = matches!(done.what, OpKind::Async(_));
                    self.unknown_names += u64::from(is_request && changes_names);
                }
            }
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.request(request, pieces);
            }
            _ => self.names.look(step),
        }
        Ok(())
    }
}
