//! Sinks: transfers from a file to a target that the replay lacks, such as a socket, a pipe or a
//! device. The file side is replayed: as many bytes as were moved go to a descriptor that discards
//! them.
//!
//! ```text
//!   sendfile socket 5, file 3, 1 MiB = 65536      sendfile SINK, file 3, 65536
//!   splice   file 3, pipe 7, 1 MiB   = 65536      sendfile SINK, file 3, 65536
//! ```

use super::Planner;
use crate::event::syscall_table::{CallClass, CallId, Role};
use crate::operation::model::{OpenFile, SyscallOperation};
use crate::replay::plan::handles::Handle;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replay_paths::of_file;
use crate::replay::plan::replayability::SkipReason;

/// Name of the call that replays such a transfer.
const DOES: &str = "sendfile64";

impl<O: PlanOutput> Planner<O> {
    /// Returns a `splice` from a file to a pipe as the `sendfile` that reads the same bytes.
    pub(super) fn as_sendfile(&self, operation: &SyscallOperation) -> Option<SyscallOperation> {
        let call = operation.call.call();
        if call.class != CallClass::Transfer || call.name != "splice" {
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

    /// Returns true if the replay has this file open.
    fn is_in_replay(&self, file: &OpenFile) -> bool {
        match self.handles.newest_of(file.id) {
            Some(handle) => self.handles.usable(handle).is_ok(),
            None => of_file(file).is_ok(),
        }
    }

    /// Returns the second descriptor of a transfer; `None`: the descriptor was not open, or the
    /// replay does not have it, in which case only the first one counts.
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

/// Returns true for a successful `sendfile`: its failures depend on the target.
fn may_sink(operation: &SyscallOperation) -> bool {
    operation.call.call().name == DOES && operation.ret.is_some_and(|ret| ret >= 0)
}

/// Returns the bytes that go to a sink: the bytes that were moved, as a target may have taken fewer
/// than it was given. `None`: the call has another target.
pub(super) fn bytes(operation: &SyscallOperation, target: Option<Handle>) -> Option<u64> {
    let moved = operation.ret.and_then(|ret| u64::try_from(ret).ok());
    moved.filter(|_| target.is_none() && may_sink(operation))
}

/// Returns the registers of a call that moves this many bytes.
pub(super) fn args(operation: &SyscallOperation, bytes: Option<u64>) -> [u64; 6] {
    let mut args = operation.args;
    if let (Some(bytes), Some(count)) = (bytes, operation.call.call().arg(Role::Count)) {
        args[count] = bytes;
    }
    args
}
