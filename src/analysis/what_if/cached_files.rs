//! Files in the page cache: their identities, the accesses to their pages, and what drops pages.
//!
//! A file is a device and inode, or a name where these are not known. Its pages leave the memory
//! with a truncation, with the removal of its name, with another file that takes the name, and with
//! `POSIX_FADV_DONTNEED`. A file that an open creates has none.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::hit_rates::HitRates;
use super::read_ahead::FileAdvice;
use super::read_ahead_settings::{CachedBytes, ReadAheads};
use crate::analysis::completed_op::{CompletedOp, NamedPath};
use crate::analysis::summary::file_key;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::{FileStat, OpenFlags};
use crate::operation::attribution::FileKey;
use crate::operation::io_class::IoClass;
use crate::operation::model::{OpenFile, PathArgument, SyscallOperation};
use crate::operation::mount_table::MountTable;
use crate::operation::renaming::exchanges;
use crate::units::DevId;

/// Limit of the kernel on the bytes of one call (`MAX_RW_COUNT` with pages of 4 KiB); imported logs
/// may have any number.
const CALL_BYTES_MAX: u64 = 0x7fff_f000;

/// Largest number of files and of names that are distinguished.
const FILES_MAX: usize = 1 << 18;

/// File systems whose files are memory, and have no other place.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];

/// `POSIX_FADV_DONTNEED` (`include/uapi/linux/fadvise.h`).
const DONT_NEED: u64 = 4;

/// Advice that pages will be read (`POSIX_FADV_WILLNEED`).
const WILL_NEED: u64 = 3;

/// Largest part of a transfer that is one read: the pages of a pipe (`PIPE_DEF_BUFFERS`).
const TRANSFER_PAGES: u64 = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CachedFileId {
    Inode(FileKey),
    Name(Vec<u8>),
}

/// Bytes of reads and writes that are not in the model, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncachedBytes {
    /// Bytes past the page cache (`O_DIRECT`).
    pub direct: u64,
    /// Bytes of files in memory, of the kernel's state and of character devices.
    pub elsewhere: u64,
    /// Bytes whose file or offset is not known.
    pub unknown: u64,
}

/// Direction of bytes, and how a call takes them from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheAccess {
    /// A read that asks for this number of bytes, if that is known.
    Read { wanted: Option<u64> },
    /// A transfer to another file, in parts.
    Transfer,
    /// A write.
    Write,
}

impl CacheAccess {
    fn of(class: CallClass, call: Option<&SyscallOperation>) -> Self {
        match class {
            CallClass::Write => Self::Write,
            CallClass::Transfer => Self::Transfer,
            _ => {
                let wanted = call.and_then(|call| {
                    let place = call.call.call().arg(Role::Count)?;
                    call.args.get(place).copied()
                });
                Self::Read { wanted: wanted.filter(|bytes| *bytes <= CALL_BYTES_MAX) }
            }
        }
    }
}

/// Models that take the accesses to pages.
#[derive(Debug)]
pub(super) struct PageModels<'a> {
    pub(super) rates: &'a mut HitRates,
    pub(super) read_ahead: &'a mut ReadAheads,
}

impl PageModels<'_> {
    fn remove(&mut self, number: u32, pages: Range<u64>) {
        self.read_ahead.remove(number, &pages);
        self.rates.remove(number, pages);
    }
}

/// Files whose pages are accessed.
#[derive(Clone, Debug)]
pub(super) struct CachedFiles {
    page_bytes: u64,
    /// Bit of `O_DIRECT` on the machine of the recording.
    direct_flag: u32,
    ids: FxHashMap<CachedFileId, u32>,
    names: FxHashMap<Vec<u8>, u32>,
    /// Page in which the last access of each file ended.
    last_pages: Vec<Option<u64>>,
    /// File systems without a disk or another place.
    elsewhere: FxHashSet<DevId>,
    pub(super) uncached: UncachedBytes,
}

impl CachedFiles {
    /// Creates it for a machine with pages of this size, and this bit of `O_DIRECT`.
    pub(super) fn new(page_bytes: u64, direct_flag: u32) -> Self {
        Self {
            page_bytes: page_bytes.max(1),
            direct_flag,
            ids: FxHashMap::default(),
            names: FxHashMap::default(),
            last_pages: Vec::new(),
            elsewhere: FxHashSet::default(),
            uncached: UncachedBytes::default(),
        }
    }

    /// Takes the mounts of the recording.
    pub(super) fn mounted(&mut self, table: &MountTable) {
        let is_elsewhere = |fs_type: &str| IN_MEMORY.contains(&fs_type);
        let mounts = table.mounts().iter();
        let found = mounts.filter(|mount| mount.is_pseudo() || is_elsewhere(&mount.fs_type));
        self.elsewhere.extend(found.map(|mount| mount.dev));
    }

    /// Takes an operation that has ended.
    pub(super) fn done(
        &mut self,
        done: &CompletedOp<'_>,
        call: Option<&SyscallOperation>,
        models: &mut PageModels<'_>,
    ) {
        if done.errno.is_some() {
            return;
        }
        match (done.class, done.file) {
            (CallClass::Open, Some(file)) => {
                self.opened(done, file, call.and_then(SyscallOperation::file_flags), models);
            }
            (CallClass::Read | CallClass::Write | CallClass::Transfer, file)
                if done.io == IoClass::File =>
            {
                let access = CacheAccess::of(done.class, call);
                self.moved(file.map(|file| &**file), done.offset, done.bytes, access, models);
            }
            (CallClass::Advise, Some(file)) => {
                if let Some(call) = call {
                    self.advised(call, file, models);
                }
            }
            _ => {}
        }
        let Some(call) = call else { return };
        if let Some((_, target)) =
            call.target.as_ref().filter(|_| done.class == CallClass::Transfer)
            && target.io_class() == IoClass::File
        {
            self.moved(Some(target), done.target_offset, done.bytes, CacheAccess::Write, models);
        }
        self.changed(call, done, models);
    }

    fn opened(
        &mut self,
        done: &CompletedOp<'_>,
        file: &OpenFile,
        flags: Option<OpenFlags>,
        models: &mut PageModels<'_>,
    ) {
        let Some(number) = self.number(file) else { return };
        let name = done.name.filter(|name| !name.is_doubtful).map(|name| file_key(&name));
        if let Some(name) = name
            && (self.names.len() < FILES_MAX || self.names.contains_key(&name))
        {
            self.names.insert(name, number);
        }
        if flags.is_some_and(|flags| flags.truncates() || flags.makes_regular_file()) {
            models.remove(number, 0..u64::MAX);
            models.read_ahead.resized(number, 0);
        }
    }

    /// Takes bytes that were read or written: their position and number.
    fn moved(
        &mut self,
        file: Option<&OpenFile>,
        offset: Option<u64>,
        bytes: u64,
        access: CacheAccess,
        models: &mut PageModels<'_>,
    ) {
        if bytes == 0 {
            return;
        }
        if file.is_some_and(|file| self.is_elsewhere(file)) {
            self.uncached.elsewhere = self.uncached.elsewhere.saturating_add(bytes);
            return;
        }
        if file.and_then(|file| file.flags).is_some_and(|flags| flags & self.direct_flag != 0) {
            self.uncached.direct = self.uncached.direct.saturating_add(bytes);
            return;
        }
        let is_real = bytes <= CALL_BYTES_MAX;
        let range = offset.and_then(|offset| Some(offset..offset.checked_add(bytes)?));
        let range = range.filter(|_| is_real);
        let numbered = file.and_then(|file| Some((file, self.number(file)?)));
        let (Some(range), Some((file, number))) = (range, numbered) else {
            self.uncached.unknown = self.uncached.unknown.saturating_add(bytes);
            return;
        };
        let (first, last) = (range.start / self.page_bytes, (range.end - 1) / self.page_bytes);
        let before = self.last_pages.get_mut(number as usize);
        let before = before.and_then(|page| page.replace(last));
        let is_read = access != CacheAccess::Write;
        for page in first..=last {
            // The rest of a page after a part of it is one access (`filemap_read()`).
            models.rates.access(number, page, is_read, before != Some(page) || page != first);
        }
        let is_transfer = access == CacheAccess::Transfer;
        let offset = range.start;
        let moved = CachedBytes { number, offset, bytes, wanted: None, is_transfer };
        match access {
            CacheAccess::Read { wanted } => {
                models.read_ahead.read(file, CachedBytes { wanted, ..moved });
            }
            CacheAccess::Transfer => {
                let part = TRANSFER_PAGES.saturating_mul(self.page_bytes);
                models.read_ahead.read_in_parts(file, moved, part);
            }
            CacheAccess::Write => models.read_ahead.written(file, moved),
        }
    }

    fn is_elsewhere(&self, file: &OpenFile) -> bool {
        let Some(stat) = file.stat else { return false };
        match stat.mode & libc::S_IFMT {
            libc::S_IFBLK => false,
            libc::S_IFREG => self.elsewhere.contains(&stat.dev),
            _ => true,
        }
    }

    /// Takes advice about a file.
    fn advised(&mut self, call: &SyscallOperation, file: &OpenFile, models: &mut PageModels<'_>) {
        let [_, offset, length, advice, ..] = call.args;
        let advice = match call.call.call().name {
            "fadvise64" => advice,
            "readahead" if length > 0 => WILL_NEED,
            _ => return,
        };
        if self.is_elsewhere(file) {
            return;
        }
        let end = if length == 0 { u64::MAX } else { offset.saturating_add(length) };
        match advice {
            0 => models.read_ahead.advised(file, FileAdvice::Normal),
            1 => models.read_ahead.advised(file, FileAdvice::Random),
            2 => models.read_ahead.advised(file, FileAdvice::Sequential),
            WILL_NEED => {
                if let Some(number) = self.number(file) {
                    models.read_ahead.wished(file, number, offset..end);
                }
            }
            DONT_NEED => {
                if let Some(number) = self.known(file) {
                    // Only whole pages of the range are dropped.
                    let first = offset.div_ceil(self.page_bytes);
                    let is_to_the_end = length == 0;
                    let end = if is_to_the_end { end } else { end / self.page_bytes };
                    models.remove(number, first..end);
                }
            }
            _ => {}
        }
    }

    /// Takes a call that has changed names or lengths.
    fn changed(
        &mut self,
        call: &SyscallOperation,
        done: &CompletedOp<'_>,
        models: &mut PageModels<'_>,
    ) {
        let named = call.named.as_ref();
        let key = |given: Option<&PathArgument>| {
            let given = given.map(NamedPath::given).filter(|given| !given.is_doubtful)?;
            Some(file_key(&given))
        };
        let first = key(named.and_then(|named| named.first.as_ref()));
        let second = key(named.and_then(|named| named.second.as_ref()));
        match (call.call.call().class, first, second) {
            (CallClass::Remove, Some(name), _) => self.removed(&name, models),
            (CallClass::Rename, Some(from), Some(to)) => {
                let [moved, replaced] = [&from, &to].map(|name| self.names.remove(name));
                let is_exchange = exchanges(call);
                if let Some(number) = moved {
                    self.names.insert(to, number);
                }
                match replaced.filter(|number| Some(*number) != moved) {
                    Some(number) if is_exchange => {
                        self.names.insert(from, number);
                    }
                    Some(number) => models.remove(number, 0..u64::MAX),
                    None => {}
                }
            }
            (CallClass::Resize, name, _) => {
                let of_name = name.and_then(|name| self.names.get(&name).copied());
                let of_file = || self.known(done.file?);
                let length = call.call.call().arg(Role::Length);
                let length = length.and_then(|place| call.args.get(place));
                if let (Some(number), Some(length)) = (of_name.or_else(of_file), length) {
                    models.remove(number, rest_of(*length, self.page_bytes));
                    models.read_ahead.resized(number, *length);
                }
            }
            _ => {}
        }
    }

    fn removed(&mut self, name: &[u8], models: &mut PageModels<'_>) {
        if let Some(number) = self.names.remove(name) {
            models.remove(number, 0..u64::MAX);
        }
    }

    /// Returns the number of a file that was seen before.
    fn known(&self, file: &OpenFile) -> Option<u32> {
        self.ids.get(&id_of(file)?).copied()
    }

    /// Returns the number of a file; `None`: its identity is not known, or there are too many.
    fn number(&mut self, file: &OpenFile) -> Option<u32> {
        let id = id_of(file)?;
        if let Some(number) = self.ids.get(&id) {
            return Some(*number);
        }
        let number = u32::try_from(self.last_pages.len()).ok()?;
        if self.ids.len() >= FILES_MAX {
            return None;
        }
        self.ids.insert(id, number);
        self.last_pages.push(None);
        Some(number)
    }
}

/// Returns the pages behind the end of a file.
fn rest_of(length: u64, page_bytes: u64) -> Range<u64> {
    length.div_ceil(page_bytes)..u64::MAX
}

fn id_of(file: &OpenFile) -> Option<CachedFileId> {
    let stat = file.stat.filter(FileStat::has_position);
    let inode = stat.and_then(|stat| stat.inode()).map(CachedFileId::Inode);
    let name = || {
        let name = file.path.as_ref().map(NamedPath::of).filter(|name| !name.is_doubtful)?;
        let is_unknown = file.stat.is_none() && name.path.starts_with(b"/");
        is_unknown.then(|| CachedFileId::Name(file_key(&name)))
    };
    inode.or_else(name)
}
