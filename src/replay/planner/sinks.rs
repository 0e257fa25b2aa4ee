//! Transfers from a file to something that the replay does not have: a socket, a pipe, a device. Their file side is done: as many bytes as were moved go
//! to a descriptor that takes and forgets them.
//!
//! ```text
//!   sendfile socket 5, file 3, 1 MiB = 65536      sendfile SINK, file 3, 65536
//!   splice   file 3, pipe 7, 1 MiB   = 65536      sendfile SINK, file 3, 65536
//! ```

use super::{Out, Planner};
use crate::event::syscall_table::{CallId, Class, Role};
use crate::operation::model::{OpenFile, SyscallOperation};
use crate::replay::handles::Handle;
use crate::replay::replay_paths::of_file;
use crate::replay::replayability::SkipReason;

/// The call that does it.
const DOES: &str = "sendfile64";

impl<O: Out> Planner<O> {
    /// A `splice` from a file to a pipe as the `sendfile` that reads the same bytes.
    pub(super) fn as_sendfile(&self, operation: &SyscallOperation) -> Option<SyscallOperation> {
        let call = operation.call.call();
        if call.class != Class::Transfer || call.name != "splice" {
            return None;
        }
        // One of the two is a pipe (splice(2)): not the first one, if that is a file.
        let (file, target) = (operation.file.as_ref()?, &operation.target.as_ref()?.1);
        if !self.is_in_replay(file) || self.is_in_replay(target) {
            return None;
        }
        let [from, offset, to, _, bytes, _] = operation.args;
        let args = [to, from, offset, bytes, 0, 0];
        Some(SyscallOperation { call: CallId::by_name(DOES)?, args, ..operation.clone() })
    }

    /// True if the replay has this file open.
    fn is_in_replay(&self, file: &OpenFile) -> bool {
        match self.handles.newest_of(file.id) {
            Some(handle) => self.handles.usable(handle).is_ok(),
            None => of_file(file).is_ok(),
        }
    }

    /// What the second descriptor of a transfer is; `None`: none that was open, or one that the replay does not have, where only the first one counts.
    pub(super) fn target(
        &mut self,
        operation: &SyscallOperation,
        target: Option<&OpenFile>,
    ) -> Result<Option<Handle>, SkipReason> {
        match self.descriptor(operation, Role::Fd2, target) {
            Err(_) if may_sink(operation) => Ok(None),
            handle => handle,
        }
    }
}

/// True if it was a `sendfile` and succeeded: how it fails is the target's business.
fn may_sink(operation: &SyscallOperation) -> bool {
    operation.call.call().name == DOES && operation.ret.is_some_and(|it| it >= 0)
}

/// The bytes that go to a sink: those that were moved, as a target may have taken less than it was given. `None`: it has another target.
pub(super) fn bytes(operation: &SyscallOperation, target: Option<Handle>) -> Option<u64> {
    let moved = operation.ret.and_then(|it| u64::try_from(it).ok());
    moved.filter(|_| target.is_none() && may_sink(operation))
}

/// The registers of such a call.
pub(super) fn args(operation: &SyscallOperation, bytes: Option<u64>) -> [u64; 6] {
    let mut args = operation.args;
    if let (Some(bytes), Some(count)) = (bytes, operation.call.call().arg(Role::Count)) {
        args[count] = bytes;
    }
    args
}
