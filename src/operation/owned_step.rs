//! Steps that own their values, for a consumer in another thread.

use super::asynchronous::{AsyncOperation, NoResult};
use super::attribution::Piece;
use super::block_step_kind::{StepKind, parts};
use super::fault::Fault;
use super::model::{FdEffect, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo, Unfinished};
use super::mount_table::MountTable;
use super::span::{JournalCommit, Span};
use super::step::Step;
use crate::anomaly::Anomaly;
use crate::block::{BlockAnomaly, BlockRequest, BlockStep};
use crate::event::callchain::CallChain;
use crate::units::{Fd, Pid};

/// A [`Step`] with values of its own. System calls are by far the most frequent steps, so that
/// values of other kinds are boxed.
#[derive(Debug)]
pub enum OwnedStep {
    /// See [`Step::MountsSeen`].
    MountsSeen(Box<MountTable>),
    /// See [`Step::ProcessSeen`].
    ProcessSeen(Box<ProcessInfo>),
    /// See [`Step::ThreadSeen`].
    ThreadSeen(Box<ThreadInfo>),
    /// See [`Step::ThreadRenamed`].
    ThreadRenamed(Box<ThreadInfo>),
    /// See [`Step::UserChanged`].
    UserChanged(Box<ProcessInfo>),
    /// See [`Step::Identified`].
    Identified(Box<ProcessInfo>),
    /// See [`Step::Forked`].
    Forked(ProcessKey, ProcessKey),
    /// See [`Step::SyscallBegun`].
    SyscallBegun(SyscallOperation),
    /// See [`Step::SyscallEnded`].
    SyscallEnded(SyscallOperation, Vec<FdEffect>),
    /// See [`Step::SyscallUnfinished`].
    SyscallUnfinished(SyscallOperation, Unfinished),
    /// See [`Step::AsyncBegun`].
    AsyncBegun(Box<AsyncOperation>),
    /// See [`Step::AsyncFile`].
    AsyncFile(Box<AsyncOperation>),
    /// See [`Step::AsyncEnded`].
    AsyncEnded(Box<AsyncOperation>, Vec<FdEffect>),
    /// See [`Step::AsyncUnfinished`].
    AsyncUnfinished(Box<AsyncOperation>, NoResult),
    /// See [`Step::DescriptorsClosed`].
    DescriptorsClosed(ProcessKey, Vec<Fd>),
    /// See [`Step::ProcessEnded`].
    ProcessEnded(Box<ProcessInfo>),
    /// See [`Step::ThreadEnded`].
    ThreadEnded(Box<ThreadInfo>),
    /// See [`Step::Fault`].
    Fault(Box<Fault>),
    /// See [`Step::Aside`].
    Aside(Box<ThreadInfo>, Pid, Span),
    /// See [`Step::Block`]; the step is about a request.
    Block(Box<OwnedBlockStep>),
    /// See [`Step::Block`]; the step is about an event without a request.
    BlockAnomaly(Box<(BlockAnomaly, Option<ThreadInfo>, Vec<Piece>)>),
    /// See [`Step::Committed`].
    Committed(Box<JournalCommit>),
    /// See [`Step::ChainSeen`].
    ChainSeen(Box<CallChain>),
    /// See [`Step::Anomaly`].
    Anomaly(Box<Anomaly>),
}

/// Step of a block request, with the request.
#[derive(Debug)]
pub struct OwnedBlockStep {
    kind: StepKind,
    request: BlockRequest,
    thread: Option<ThreadInfo>,
    pieces: Vec<Piece>,
}

impl OwnedStep {
    /// Returns a copy of a step.
    pub fn of(step: &Step<'_>) -> Self {
        match *step {
            Step::SyscallEnded(call, effects) => Self::SyscallEnded(call.clone(), effects.to_vec()),
            Step::SyscallBegun(call) => Self::SyscallBegun(call.clone()),
            Step::SyscallUnfinished(call, why) => Self::SyscallUnfinished(call.clone(), why),
            Step::MountsSeen(table) => Self::MountsSeen(Box::new(table.clone())),
            Step::ProcessSeen(process) => Self::ProcessSeen(Box::new(process.clone())),
            Step::ThreadSeen(thread) => Self::ThreadSeen(Box::new(thread.clone())),
            Step::ThreadRenamed(thread) => Self::ThreadRenamed(Box::new(thread.clone())),
            Step::UserChanged(process) => Self::UserChanged(Box::new(process.clone())),
            Step::Identified(process) => Self::Identified(Box::new(process.clone())),
            Step::Forked { parent, child } => Self::Forked(parent, child),
            Step::AsyncBegun(operation) => Self::AsyncBegun(Box::new(operation.clone())),
            Step::AsyncFile(operation) => Self::AsyncFile(Box::new(operation.clone())),
            Step::AsyncEnded(operation, effects) => {
                Self::AsyncEnded(Box::new(operation.clone()), effects.to_vec())
            }
            Step::AsyncUnfinished(operation, why) => {
                Self::AsyncUnfinished(Box::new(operation.clone()), why)
            }
            Step::DescriptorsClosed(process, fds) => Self::DescriptorsClosed(process, fds.to_vec()),
            Step::ProcessEnded(process) => Self::ProcessEnded(Box::new(process.clone())),
            Step::ThreadEnded(thread) => Self::ThreadEnded(Box::new(thread.clone())),
            Step::Fault(fault) => Self::Fault(Box::new(fault.clone())),
            Step::Aside { thread, pid, span } => Self::Aside(Box::new(thread.clone()), pid, span),
            Step::Block { step, thread, pieces } => Self::of_block(step, thread, pieces),
            Step::Committed(commit) => Self::Committed(Box::new(commit.clone())),
            Step::ChainSeen(chain) => Self::ChainSeen(Box::new(chain.clone())),
            Step::Anomaly(anomaly) => Self::Anomaly(Box::new(anomaly.clone())),
        }
    }

    fn of_block(step: &BlockStep<'_>, thread: Option<&ThreadInfo>, pieces: &[Piece]) -> Self {
        let (thread, pieces) = (thread.cloned(), pieces.to_vec());
        match parts(step) {
            Ok((kind, request)) => {
                let request = request.clone();
                Self::Block(Box::new(OwnedBlockStep { kind, request, thread, pieces }))
            }
            Err(anomaly) => Self::BlockAnomaly(Box::new((*anomaly, thread, pieces))),
        }
    }

    /// Returns the number of parts of the step that need memory of their own, and one for itself.
    pub fn parts(&self) -> usize {
        1 + match self {
            Self::SyscallEnded(call, effects) => effects.len() + call.spans.len(),
            Self::SyscallUnfinished(call, _) => call.spans.len(),
            Self::AsyncEnded(_, effects) => effects.len(),
            Self::DescriptorsClosed(_, fds) => fds.len(),
            Self::Block(step) => step.pieces.len(),
            Self::BlockAnomaly(step) => step.2.len(),
            Self::MountsSeen(table) => table.count(),
            _ => 0,
        }
    }

    /// Returns what `take` makes of the step.
    pub fn with<T>(&self, take: impl FnOnce(&Step<'_>) -> T) -> T {
        match self {
            Self::SyscallEnded(call, effects) => take(&Step::SyscallEnded(call, effects)),
            Self::SyscallBegun(call) => take(&Step::SyscallBegun(call)),
            Self::SyscallUnfinished(call, why) => take(&Step::SyscallUnfinished(call, *why)),
            Self::MountsSeen(table) => take(&Step::MountsSeen(table)),
            Self::ProcessSeen(process) => take(&Step::ProcessSeen(process)),
            Self::ThreadSeen(thread) => take(&Step::ThreadSeen(thread)),
            Self::ThreadRenamed(thread) => take(&Step::ThreadRenamed(thread)),
            Self::UserChanged(process) => take(&Step::UserChanged(process)),
            Self::Identified(process) => take(&Step::Identified(process)),
            Self::Forked(parent, child) => take(&Step::Forked { parent: *parent, child: *child }),
            Self::AsyncBegun(operation) => take(&Step::AsyncBegun(operation)),
            Self::AsyncFile(operation) => take(&Step::AsyncFile(operation)),
            Self::AsyncEnded(operation, effects) => take(&Step::AsyncEnded(operation, effects)),
            Self::AsyncUnfinished(operation, why) => take(&Step::AsyncUnfinished(operation, *why)),
            Self::DescriptorsClosed(process, fds) => take(&Step::DescriptorsClosed(*process, fds)),
            Self::ProcessEnded(process) => take(&Step::ProcessEnded(process)),
            Self::ThreadEnded(thread) => take(&Step::ThreadEnded(thread)),
            Self::Fault(fault) => take(&Step::Fault(fault)),
            Self::Aside(thread, pid, span) => take(&Step::Aside { thread, pid: *pid, span: *span }),
            Self::Block(block) => {
                let OwnedBlockStep { kind, request, thread, pieces } = &**block;
                let (step, thread) = (&kind.of(request), thread.as_ref());
                take(&Step::Block { step, thread, pieces })
            }
            Self::BlockAnomaly(anomaly) => {
                let (anomaly, thread, pieces) = &**anomaly;
                let (step, thread) = (&BlockStep::Anomaly(anomaly), thread.as_ref());
                take(&Step::Block { step, thread, pieces })
            }
            Self::Committed(commit) => take(&Step::Committed(commit)),
            Self::ChainSeen(chain) => take(&Step::ChainSeen(chain)),
            Self::Anomaly(anomaly) => take(&Step::Anomaly(anomaly)),
        }
    }
}
