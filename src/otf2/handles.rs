//! Definitions of I/O handles, shared by all processes and all times.

use otf2_sys::{IoAccessMode, IoFileRef, IoHandleRef, IoParadigmRef, IoStatusFlags, StringRef};
use rustc_hash::FxHashMap;

use super::error::OtfError;

/// A layer of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Layer {
    /// System calls.
    Posix,
    /// Requests, on the device's location.
    Block,
    /// The same requests, on the location of the thread that asked for them.
    BlockByThread,
    /// System calls on pipes, sockets, terminals and the like: mostly waiting for others.
    Waiting,
}

/// That of [`Layer::Posix`], which is always there and the first.
pub(super) const POSIX: IoParadigmRef = IoParadigmRef::new(0);

impl Layer {
    pub(super) const ALL: [Self; 4] =
        [Self::Posix, Self::Block, Self::BlockByThread, Self::Waiting];

    /// The names for programs and for people.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Posix => ("POSIX", "POSIX I/O"),
            Self::Block => ("block_io", "block layer I/O"),
            Self::BlockByThread => ("block_io_by_thread", "block layer I/O by thread"),
            Self::Waiting => ("POSIX_waiting", "POSIX: pipes, sockets, terminals (waiting)"),
        }
    }
}

/// What tells one handle from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    /// The layer.
    pub(super) layer: Layer,
    /// The descriptor; for a device its number.
    pub(super) number: u32,
    /// The file, if its name is known.
    pub(super) file: Option<IoFileRef>,
    /// Its own name; empty if it has a file.
    pub(super) name: StringRef,
    /// Set if it is `PRE_CREATED`.
    pub(super) pre_created: Option<(IoAccessMode, IoStatusFlags)>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Handles {
    ids: FxHashMap<Handle, u32>,
    list: Vec<Handle>,
}

impl Handles {
    /// The number of this handle.
    pub(super) fn handle(&mut self, handle: Handle) -> Result<IoHandleRef, OtfError> {
        if let Some(&known) = self.ids.get(&handle) {
            return Ok(IoHandleRef::new(known));
        }
        let id = u32::try_from(self.list.len()).ok().filter(|&it| it < u32::MAX);
        let id = id.ok_or(OtfError::Full("I/O handle"))?;
        self.ids.insert(handle, id);
        self.list.push(handle);
        Ok(IoHandleRef::new(id))
    }

    /// In the order of their numbers.
    pub(super) fn list(&self) -> &[Handle] {
        &self.list
    }
}
