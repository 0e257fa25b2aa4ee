//! Steps of operations, and their consumers.

use super::asynchronous::{AsyncOperation, NoResult};
use super::attribution::Piece;
use super::fault::Fault;
use super::model::{FdEffect, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo, Unfinished};
use super::mount_table::MountTable;
use super::span::{JournalCommit, Span};
use crate::anomaly::Anomaly;
use crate::block::BlockStep;
use crate::event::callchain::CallChain;
use crate::units::{Fd, KernelTime, Pid};

/// A change of an operation, a descriptor, a process or a thread.
#[derive(Debug)]
pub enum Step<'a> {
    /// Mounts at the start of the recording, before all operations; recordings of other tools have
    /// none.
    MountsSeen(&'a MountTable),
    /// First sight of a process; precedes everything else about the process.
    ProcessSeen(&'a ProcessInfo),
    /// First sight of a thread; its process was seen before.
    ThreadSeen(&'a ThreadInfo),
    /// New name of a thread (an exec, `prctl`).
    ThreadRenamed(&'a ThreadInfo),
    /// New user of a process.
    UserChanged(&'a ProcessInfo),
    /// New program, arguments or control group of a process.
    Identified(&'a ProcessInfo),
    /// Fork: a process has a child with a copy of its descriptors. The child is seen when it does
    /// something.
    Forked {
        /// Process whose descriptors were copied.
        parent: ProcessKey,
        /// Process that has them now, too.
        child: ProcessKey,
    },
    /// Begin of a system call. `end`, `ret` and, for an open, `file` are not known yet.
    SyscallBegun(&'a SyscallOperation),
    /// End of a system call, and its effects on descriptors, in order.
    SyscallEnded(&'a SyscallOperation, &'a [FdEffect]),
    /// System call whose end will not be seen any more.
    SyscallUnfinished(&'a SyscallOperation, Unfinished),
    /// Begin of an asynchronous operation; its file comes with the next step, if it has one.
    AsyncBegun(&'a AsyncOperation),
    /// File of an asynchronous operation.
    AsyncFile(&'a AsyncOperation),
    /// (Last) result of an asynchronous operation, and its effects on descriptors.
    AsyncEnded(&'a AsyncOperation, &'a [FdEffect]),
    /// Asynchronous operation without a result.
    AsyncUnfinished(&'a AsyncOperation, NoResult),
    /// Descriptors closed without a call: by an exec, or with the last thread of the process.
    DescriptorsClosed(ProcessKey, &'a [Fd]),
    /// End of the last thread of a process.
    ProcessEnded(&'a ProcessInfo),
    /// End of a thread. Nothing about its system calls follows; block requests that it queued may.
    ThreadEnded(&'a ThreadInfo),
    /// Page fault: a program touched a page of a mapped file that was not in memory.
    Fault(&'a Fault),
    /// Span of a kernel thread, outside of any call.
    Aside {
        /// Thread that was at work.
        thread: &'a ThreadInfo,
        /// Process of the thread.
        pid: Pid,
        /// Begin and end of the work.
        span: Span,
    },
    /// Step of a block request.
    Block {
        /// New state of the request.
        step: &'a BlockStep<'a>,
        /// Thread that submitted it, if that thread is recorded.
        thread: Option<&'a ThreadInfo>,
        /// Contents of the request by sector; with its last step.
        pieces: &'a [Piece],
    },
    /// Commit of a journal that has ended.
    Committed(&'a JournalCommit),
    /// A call chain, before everything that came through it.
    ChainSeen(&'a CallChain),
    /// Input that could not become an operation.
    Anomaly(&'a Anomaly),
}

impl Step<'_> {
    /// True for a step at the begin of an operation ([`Sink::USES_BEGINS`]).
    pub fn is_begin(&self) -> bool {
        matches!(self, Self::SyscallBegun(_) | Self::AsyncBegun(_) | Self::AsyncFile(_))
    }
}

/// Consumer of the steps: an archive writer, a printer, a fold.
pub trait Sink {
    /// Error of the consumer.
    type Error;

    /// False if the consumer does nothing at the begin of an operation: at
    /// [`Step::SyscallBegun`], [`Step::AsyncBegun`] and [`Step::AsyncFile`]. It may then get these
    /// steps or not.
    const USES_BEGINS: bool = true;

    /// True if the consumer takes longer for a step than the tracker does. It has a thread of its
    /// own then wherever there are two CPUs; for others the copies of the steps cost more than that
    /// saves.
    const IS_COSTLY: bool = false;

    /// Takes one step. Times never go back.
    ///
    /// # Errors
    ///
    /// Any error of the sink; the sink gets no further step then.
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Self::Error>;

    /// Low watermark: everything before this time has been passed to [`Self::step`]; all later
    /// steps have this time or a later one. Called now and then while a log is read.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::step`].
    fn complete_until(&mut self, _time: KernelTime) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Takes note that the log is damaged, or has no end. Called after the last step of a log that
    /// does not grow.
    fn damaged(&mut self) {}
}

impl<S: Sink> Sink for &mut S {
    type Error = S::Error;
    const USES_BEGINS: bool = S::USES_BEGINS;
    const IS_COSTLY: bool = S::IS_COSTLY;

    #[inline]
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), S::Error> {
        S::step(self, time, step)
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), S::Error> {
        S::complete_until(self, time)
    }

    fn damaged(&mut self) {
        S::damaged(self);
    }
}
