//! Definitions of I/O handles, shared by all processes and all times.
//!
//! Consecutive lives of descriptors share one definition: the handles of a file differ only by
//! their slot, and a process takes its smallest free slot. So a file has as many definitions as one
//! process ever had descriptors of it at once, independent of the number of opens and of the
//! descriptors' numbers. That keeps archives readable: `otf2-print` looks each definition up in one
//! of 32 lists.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use otf2_sys::{IoAccessMode, IoFileRef, IoHandleRef, IoParadigmRef, IoStatusFlags, StringRef};
use rustc_hash::FxHashMap;

use super::error::OtfError;

/// A layer of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum HandleLayer {
    /// System calls.
    Posix,
    /// Requests, on the device's location.
    Block,
    /// Requests, on the location of the submitting thread.
    BlockByThread,
    /// System calls on pipes, sockets, terminals and similar files: mostly waiting.
    Waiting,
}

/// Paradigm of [`HandleLayer::Posix`], which always exists and is the first.
pub(super) const POSIX: IoParadigmRef = IoParadigmRef::new(0);

impl HandleLayer {
    pub(super) const ALL: [Self; 4] =
        [Self::Posix, Self::Block, Self::BlockByThread, Self::Waiting];

    /// Names for programs and for people.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Posix => ("POSIX", "POSIX I/O"),
            Self::Block => ("block_io", "block layer I/O"),
            Self::BlockByThread => ("block_io_by_thread", "block layer I/O by thread"),
            Self::Waiting => ("POSIX_waiting", "POSIX: pipes, sockets, terminals (waiting)"),
        }
    }
}

/// Identity of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HandleKey {
    /// I/O layer of the handle.
    pub(super) layer: HandleLayer,
    /// For a descriptor the slot, see above; for a device its number.
    pub(super) number: u32,
    /// The file, if its name is known.
    pub(super) file: Option<IoFileRef>,
    /// Own name; empty if it has a file.
    pub(super) name: StringRef,
    /// Access mode and status, if it is `PRE_CREATED`.
    pub(super) pre_created: Option<(IoAccessMode, IoStatusFlags)>,
    /// Host of a handle without a file, in an archive of several captures: `pipe:[7]` of another
    /// host is another pipe. 0 for a handle with a file, which has its host.
    pub(super) host: u32,
}

/// Number of the handle for files registered with rings: it is not the slot of a descriptor.
pub(super) const REGISTERED: u32 = u32::MAX;

/// Slots of a kind of handle in one process: the smallest free one is taken.
#[derive(Debug, Default)]
struct Free {
    given_back: BinaryHeap<Reverse<u32>>,
    next: u32,
}

/// Handles of one process by their kind, which is a [`HandleKey`] with number 0.
#[derive(Debug, Default)]
pub(super) struct HandleSlots(FxHashMap<HandleKey, Free>);

impl HandleSlots {
    /// The handle of this kind with the smallest free slot.
    pub(super) fn take(&mut self, kind: HandleKey) -> HandleKey {
        let free = self.0.entry(kind).or_default();
        let number = free.given_back.pop().map_or_else(
            || {
                free.next += 1;
                free.next - 1
            },
            |Reverse(slot)| slot,
        );
        HandleKey { number, ..kind }
    }

    /// Ends the life of this handle.
    pub(super) fn give_back(&mut self, handle: HandleKey) {
        let kind = HandleKey { number: 0, ..handle };
        let Some(free) = self.0.get_mut(&kind) else { return };
        free.given_back.push(Reverse(handle.number));
        // Files without an open descriptor need no memory.
        if free.given_back.len() == usize::try_from(free.next).unwrap_or(usize::MAX) {
            self.0.remove(&kind);
        }
    }
}

/// All handles.
#[derive(Debug, Default)]
pub(super) struct HandleTable {
    ids: FxHashMap<HandleKey, u32>,
    list: Vec<HandleKey>,
}

impl HandleTable {
    /// Number of this handle.
    pub(super) fn handle(&mut self, handle: HandleKey) -> Result<IoHandleRef, OtfError> {
        if let Some(&known) = self.ids.get(&handle) {
            return Ok(IoHandleRef::new(known));
        }
        let id = u32::try_from(self.list.len()).ok().filter(|&id| id < u32::MAX);
        let id = id.ok_or(OtfError::Full("I/O handle"))?;
        self.ids.insert(handle, id);
        self.list.push(handle);
        Ok(IoHandleRef::new(id))
    }

    /// Handles in the order of their numbers.
    pub(super) fn list(&self) -> &[HandleKey] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use otf2_sys::{Archive, Options};

    use super::{HandleKey, HandleLayer, HandleSlots};

    #[test]
    fn one_definition_serves_lives_that_follow_each_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let archive = Archive::create(directory.path(), "handles", Options::default());
        let name = archive.and_then(|mut archive| archive.intern("pipe:[7]")).expect("a text");
        let (layer, pre_created) = (HandleLayer::Posix, None);
        let kind = HandleKey { layer, number: 0, file: None, name, pre_created, host: 0 };
        let mut slots = HandleSlots::default();
        let (first, second) = (slots.take(kind), slots.take(kind));
        assert_eq!([first.number, second.number], [0, 1]);
        slots.give_back(first);
        assert_eq!(slots.take(kind), first);
        slots.give_back(first);
        slots.give_back(second);
        assert!(slots.0.is_empty());
        assert_eq!(slots.take(kind), first);
    }
}
