//! Operations that have begun and not yet ended.

use otf2_sys::IoHandleRef;

/// Operations that a thread is inside.
#[derive(Debug, Default)]
pub(super) struct PendingOperations {
    pub(super) main: Option<BegunOperation>,
    /// The second side of a transfer; its matching id is a slot.
    pub(super) target: Option<BegunOperation>,
    /// True if the position was written at the beginning.
    pub(super) offset_written: bool,
}

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct BegunOperation {
    pub(super) handle: IoHandleRef,
    pub(super) id: u64,
}
