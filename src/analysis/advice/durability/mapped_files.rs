//! Mapped files, and closes after failed syncs.

use super::Durability;
use super::deed::Deed;
use crate::analysis::advice::finding::ProofEvent;
use crate::analysis::completed_op::OpKind;
use crate::event::registers::argument;
use crate::event::syscall_table::CallId;
use crate::event::syscall_table::Role;
use crate::operation::fault::Fault;

/// Kinds of mappings in the flags of `mmap` (`include/uapi/linux/mman.h`).
const MAP_TYPE: u64 = 0x0f;

/// Kinds of mappings whose changes reach the file: `MAP_SHARED`, `MAP_SHARED_VALIDATE`.
const SHARED: [u64; 2] = [1, 3];

/// Protection that allows stores.
const PROT_WRITE: u64 = libc::PROT_WRITE.unsigned_abs() as u64;

impl Durability {
    pub(super) fn mapped(&mut self, deed: &Deed<'_>) {
        let Some(call) = deed.call.filter(|_| deed.done.errno.is_none()) else { return };
        let row = call.call.call();
        let flags = argument(row, Role::MapFlags, &call.args).unwrap_or(0) & MAP_TYPE;
        let protection = call.args.get(2).copied().unwrap_or(0);
        let is_writable = row.maps() && protection & PROT_WRITE != 0 && SHARED.contains(&flags);
        let Some(file) = deed.done.file.filter(|_| is_writable) else { return };
        let Some(key) = self.follow(file) else { return };
        if let Some(state) = self.files.get_mut(&key) {
            let event = deed.event(&state.shown_name());
            state.mapped = Some(Box::new((event, deed.done.process)));
        }
    }

    /// Handles a store to a page of a file: only one to a shared mapping changes the file.
    pub(super) fn stored(&mut self, fault: &Fault, is_selected: bool) {
        let Some(key) = self.key_of(&fault.file) else { return };
        let Some(state) = self.files.get_mut(&key) else { return };
        if state.mapped.as_ref().is_none_or(|mapped| mapped.1 != fault.process) {
            return;
        }
        let Some(call) = CallId::by_name("mmap") else { return };
        let event = ProofEvent {
            start: fault.time,
            end: fault.time,
            what: OpKind::Call(call),
            pid: fault.pid,
            fd: None,
            errno: None,
            bytes: 0,
            path: state.shown_name(),
        };
        state.stored = Some(Box::new((event, is_selected)));
    }

    pub(super) fn closed(&mut self, deed: &Deed<'_>) {
        let Some(file) = deed.done.file else { return };
        if let (Some(fd), Some(_)) = (deed.fd, deed.call) {
            self.unnamed.remove(&(deed.done.process, fd));
        }
        let Some(key) = self.key_of(file) else { return };
        let Some(state) = self.files.get_mut(&key) else { return };
        let name = state.shown_name();
        if let Some(failed) = &mut state.failed
            && failed.closed.is_none()
        {
            failed.closed = Some(deed.event(&name));
        }
    }
}
