//! Calls that have not ended: what their exits need of their entries.

use std::rc::Rc;

use super::fd_table::{Description, Slot};
use super::mappings::Mapping;
use super::model::SyscallOperation;
use crate::units::Fd;

/// A call that has not ended.
#[derive(Debug)]
pub struct PendingCall {
    /// The operation, as far as it is known.
    pub operation: SyscallOperation,
    /// File whose position it moves.
    pub(super) moves: Option<Rc<Description>>,
    /// Second file whose position it moves.
    pub(super) moves_target: Option<Rc<Description>>,
    /// True for a write that goes to the end of the file, for this call only (`RWF_APPEND`).
    pub(super) appends: bool,
    /// Descriptor that it closes. The number is free from the entry on: another thread may get it
    /// before the exit.
    pub(super) closed: Option<(Fd, Slot)>,
    /// File that it maps.
    pub(super) mapped: Option<Rc<Description>>,
    /// Mappings that it removes. The addresses are free from the entry on.
    pub(super) unmapped: Vec<Mapping>,
    /// Directory argument of an exec: the exec may close it.
    pub(super) directory: Option<Rc<Description>>,
}
