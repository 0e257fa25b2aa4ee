//! Memory mappings of files in a process: addresses, and the bytes of the files that they show.
//!
//! A mapping outlives its descriptor. `mmap` makes a mapping, `mremap` moves it; `munmap`, and
//! anything that is mapped over it, ends it. A fork copies the mappings, and an exec removes them.
//! Mappings that the kernel makes itself to start a program are not known here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::fd_table::Description;
use super::model::SyscallOperation;
use crate::event::syscall_table::{CallClass, Role};
use crate::units::DevId;

/// Mappings of files, by their first addresses; none overlaps another.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    ranges: BTreeMap<u64, Mapping>,
    /// Number of losses at the time when the mappings were certain.
    losses: u32,
}

/// Mapping of the addresses from `start` to before `end`.
#[derive(Clone, Debug)]
pub struct Mapping {
    start: u64,
    end: u64,
    description: Rc<Description>,
    /// Offset in the file of the byte at `start`.
    offset: u64,
}

/// Mappings of a memory that processes may share.
pub type SharedMappings = Rc<RefCell<Mappings>>;

impl Mapping {
    /// Returns a mapping of `bytes` bytes.
    pub fn new(start: u64, bytes: u64, description: Rc<Description>, offset: u64) -> Self {
        Self { start, end: start.saturating_add(bytes), description, offset }
    }

    /// Returns the part from `start` to before `end`, which are within the mapping.
    fn part(&self, start: u64, end: u64) -> Self {
        let offset = self.offset.saturating_add(start - self.start);
        Self { start, end, description: Rc::clone(&self.description), offset }
    }
}

impl Mappings {
    /// Returns the open file at this address, and the offset of the byte.
    pub fn at(&self, address: u64) -> Option<(&Rc<Description>, u64)> {
        let (_, mapping) = self.ranges.range(..=address).next_back()?;
        let is_in = address < mapping.end;
        is_in
            .then(|| (&mapping.description, mapping.offset.saturating_add(address - mapping.start)))
    }

    /// Returns the open file with this inode that is mapped at any address.
    pub fn file(&self, dev: DevId, ino: u64) -> Option<Rc<Description>> {
        let mut all = self.ranges.values().map(|it| &it.description);
        let is_it =
            |it: &&Rc<Description>| it.file().stat.is_some_and(|it| (it.dev, it.ino) == (dev, ino));
        all.find(is_it).map(Rc::clone)
    }

    /// Forgets the mappings after records were lost: anything may be mapped anywhere.
    pub fn doubt_since(&mut self, losses: u32) {
        if self.losses != losses {
            self.losses = losses;
            self.ranges.clear();
        }
    }

    /// Adds a mapping, in place of those that were there before.
    pub fn put(&mut self, mapping: Mapping) {
        self.take(mapping.start, mapping.end);
        if mapping.start < mapping.end {
            self.ranges.insert(mapping.start, mapping);
        }
    }

    /// Removes and returns the mappings from `start` to before `end`.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<Mapping> {
        if end <= start {
            return Vec::new();
        }
        let mut touched = self.ranges.range(start..end).map(|it| *it.0).collect::<Vec<_>>();
        let before = self.ranges.range(..start).next_back().filter(|it| it.1.end > start);
        touched.extend(before.map(|it| *it.0));
        let mut taken = Vec::new();
        for mapping in touched.iter().filter_map(|it| self.ranges.remove(it)).collect::<Vec<_>>() {
            let (first, last) = (mapping.start.max(start), mapping.end.min(end));
            for (from, to) in [(mapping.start, first), (last, mapping.end)] {
                if from < to {
                    self.ranges.insert(from, mapping.part(from, to));
                }
            }
            if first < last {
                taken.push(mapping.part(first, last));
            }
        }
        taken
    }

    /// Puts a removed mapping back, unless something else is there by now.
    fn put_back(&mut self, mapping: Mapping) {
        if self.ranges.range(mapping.start..mapping.end).next().is_none() {
            self.ranges.insert(mapping.start, mapping);
        }
    }
}

/// `MAP_ANONYMOUS`: memory without a file, whatever the descriptor is.
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;

/// `MREMAP_DONTUNMAP`: the old addresses stay mapped.
const MREMAP_DONTUNMAP: u64 = 4;

/// Registers of a call that changes mappings.
struct MappingArguments {
    address: u64,
    bytes: u64,
    old_bytes: u64,
    flags: u64,
}

impl MappingArguments {
    /// Reads the registers. Lengths are rounded to pages, as in the kernel.
    fn of(operation: &SyscallOperation, page_bytes: u64) -> Self {
        let call = operation.call.call();
        let register = |role| {
            call.arg(role).and_then(|it| operation.args.get(it)).copied().unwrap_or_default()
        };
        let pages = |role| {
            let bytes: u64 = register(role);
            bytes.checked_next_multiple_of(page_bytes).unwrap_or(u64::MAX)
        };
        Self {
            address: register(Role::Address),
            bytes: pages(Role::Count),
            old_bytes: pages(Role::OldCount),
            flags: register(Role::MapFlags),
        }
    }
}

/// Handles the entry of a call with an address: finds the mapped file, and removes the mappings
/// that the call will remove (another thread may map something there before the exit comes).
/// Returns what was removed.
pub fn begin(
    operation: &mut SyscallOperation,
    mappings: &mut Mappings,
    page_bytes: u64,
) -> Vec<Mapping> {
    let it = MappingArguments::of(operation, page_bytes);
    let call = operation.call.call();
    if call.arg(Role::Address).is_none() {
        return Vec::new();
    }
    if let Some((description, offset)) = mappings.at(it.address) {
        operation.file = Some(description.file());
        operation.offset = Some(offset);
    }
    let is_remap = call.arg(Role::OldCount).is_some();
    let keeps = is_remap && (it.flags & MREMAP_DONTUNMAP != 0 || it.old_bytes == 0);
    match call.class {
        CallClass::Map if keeps => {
            mappings.at(it.address).map_or_else(Vec::new, |(file, offset)| {
                vec![Mapping::new(it.address, it.bytes, Rc::clone(file), offset)]
            })
        }
        CallClass::Map if is_remap => {
            mappings.take(it.address, it.address.saturating_add(it.old_bytes))
        }
        CallClass::Map if call.unmaps() => {
            mappings.take(it.address, it.address.saturating_add(it.bytes))
        }
        _ => Vec::new(),
    }
}

/// Handles the exit. `mapped` is the open file of the descriptor of an `mmap`.
pub fn end(
    operation: &SyscallOperation,
    mapped: Option<Rc<Description>>,
    taken: Vec<Mapping>,
    mappings: &mut Mappings,
    page_bytes: u64,
) {
    let call = operation.call.call();
    let it = MappingArguments::of(operation, page_bytes);
    // Addresses are not negative numbers, but errors are.
    let result = operation.ret.filter(|ret| !(-4095..0).contains(ret)).map(i64::cast_unsigned);
    let Some(result) = result else {
        taken.into_iter().for_each(|it| mappings.put_back(it));
        return;
    };
    if call.arg(Role::OldCount).is_some() {
        mappings.take(result, result.saturating_add(it.bytes));
        if let Some(first) = taken.first().filter(|first| first.start == it.address) {
            let description = Rc::clone(&first.description);
            mappings.put(Mapping::new(result, it.bytes, description, first.offset));
        }
    } else if call.maps() {
        mappings.take(result, result.saturating_add(it.bytes));
        let offset = call.arg(Role::Offset).and_then(|it| operation.args.get(it)).copied();
        if let Some(description) = mapped.filter(|_| it.flags & MAP_ANONYMOUS == 0) {
            mappings.put(Mapping::new(result, it.bytes, description, offset.unwrap_or_default()));
        }
    }
}

/// Mapping of a file, from `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedFile<'a> {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file of the first address, in bytes.
    pub offset: u64,
    /// Device of the file.
    pub dev: DevId,
    /// Inode number of the file.
    pub ino: u64,
    /// Path of the file.
    pub path: &'a [u8],
}

/// Returns the mapped files of a `/proc/PID/maps` (`proc_pid_maps(5)`); lines of memory without a
/// file are skipped.
pub fn mapped_files(text: &[u8]) -> impl Iterator<Item = MappedFile<'_>> {
    text.split(|&it| it == b'\n').filter_map(|line| {
        let path = line.get(line.iter().position(|&it| it == b'/')?..)?;
        let head = std::str::from_utf8(line.get(..line.len() - path.len())?).ok()?;
        let [range, _, offset, dev, ino] = *head.split_whitespace().collect::<Vec<_>>() else {
            return None;
        };
        let hex = |it: &str| u64::from_str_radix(it, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (major, minor) = dev.split_once(':')?;
        let number = |it: &str| u32::from_str_radix(it, 16).ok();
        let dev = DevId::new(number(major)?, number(minor)?);
        Some(MappedFile {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            dev,
            ino: ino.parse().ok()?,
            path,
        })
    })
}
