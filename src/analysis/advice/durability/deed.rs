//! Operations as the fold sees them.

use std::rc::Rc;

use crate::analysis::advice::finding::ProofEvent;
use crate::analysis::completed_op::CompletedOp;
use crate::operation::model::SyscallOperation;
use crate::units::Fd;

/// Operation with the facts that the fold needs.
pub(super) struct Deed<'a> {
    pub(super) done: &'a CompletedOp<'a>,
    pub(super) call: Option<&'a SyscallOperation>,
    pub(super) fd: Option<Fd>,
    pub(super) is_selected: bool,
}

impl Deed<'_> {
    pub(super) fn event(&self, path: &Rc<[u8]>) -> ProofEvent {
        ProofEvent {
            start: self.done.start,
            end: self.done.end,
            what: self.done.what,
            pid: self.done.pid,
            fd: self.fd.map(|fd| fd.0),
            errno: self.done.errno,
            bytes: self.done.bytes,
            path: Rc::clone(path),
        }
    }
}
