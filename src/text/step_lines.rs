//! Steps of which an output of operations has a line.

use std::io;

use crate::anomaly::Anomaly;
use crate::operation::Step;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::attribution::Piece;
use crate::operation::block::{BlockRequest, BlockStep};
use crate::operation::fault::Fault;
use crate::operation::model::{SyscallOperation, ThreadInfo, ThreadKey, Unfinished};

/// Output with a line for every operation that ends, and for every anomaly.
pub(super) trait StepLines {
    /// Keeps the name of a thread for its lines.
    fn name(&mut self, thread: &ThreadInfo);

    /// Drops the name of a thread that has ended.
    fn forget(&mut self, thread: ThreadKey);

    /// Writes the line of a system call, which has ended unless there is a reason why not.
    fn syscall(
        &mut self,
        operation: &SyscallOperation,
        unfinished: Option<Unfinished>,
    ) -> io::Result<()>;

    /// Writes the line of an asynchronous operation, likewise.
    fn asynchronous(
        &mut self,
        operation: &AsyncOperation,
        unfinished: Option<NoResult>,
    ) -> io::Result<()>;

    /// Writes the line of a block request.
    fn request(
        &mut self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
    ) -> io::Result<()>;

    /// Writes the line of a page fault.
    fn fault(&mut self, fault: &Fault) -> io::Result<()>;

    /// Writes the line of an anomaly.
    fn anomaly(&mut self, anomaly: &Anomaly) -> io::Result<()>;

    /// Writes the line of a step, if it has one.
    fn line_of(&mut self, step: &Step<'_>) -> io::Result<()> {
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => self.name(thread),
            Step::ThreadEnded(thread) => self.forget(thread.key),
            Step::SyscallEnded(operation, _) => self.syscall(operation, None)?,
            Step::SyscallUnfinished(operation, why) => self.syscall(operation, Some(*why))?,
            Step::Block { step: BlockStep::Ended(request), thread, pieces } => {
                self.request(request, *thread, pieces)?;
            }
            Step::Anomaly(anomaly) => self.anomaly(anomaly)?,
            Step::Fault(fault) => self.fault(fault)?,
            Step::AsyncEnded(operation, _) => self.asynchronous(operation, None)?,
            Step::AsyncUnfinished(operation, why) => self.asynchronous(operation, Some(*why))?,
            // A request's last step has all its data, and its anomalies are also `Step::Anomaly`.
            Step::Block { .. }
            | Step::Aside { .. }
            | Step::AsyncBegun(_)
            | Step::AsyncFile(_)
            | Step::ProcessSeen(_)
            | Step::ProcessEnded(_)
            | Step::UserChanged(_)
            | Step::Identified(_)
            | Step::Forked { .. }
            | Step::SyscallBegun(_)
            | Step::DescriptorsClosed(..)
            | Step::ChainSeen(_)
            | Step::Committed(_)
            | Step::MountsSeen(_) => {}
        }
        Ok(())
    }
}
