//! Event → operation: begin and end paired, descriptors followed, told in steps.
//!
//! In: events in time order. Out: [`Step`]s in time order, to a [`Sink`]. Pure state machines: nothing here knows
//! where events come from or what becomes of operations.

pub mod abi;
pub mod access;
pub mod asynchronous;
pub mod attribution;
mod bounds;
mod closed_fds;
pub mod context;
pub mod disk;
pub mod fault;
pub mod fd_table;
pub mod file_names;
mod given;
mod inside;
pub mod io_class;
pub mod mappings;
pub mod model;
pub mod names;
pub mod opened;
pub mod opening;
pub mod owner;
mod pair;
pub mod place;
pub mod process;
mod register;
pub mod renaming;
pub mod spaces;
pub mod spans;
pub mod started;
pub mod symbols;
pub mod syscall;
pub mod task;
pub mod tracker;
mod undecided;
pub mod unwound;
mod user;

pub use crate::block;

#[cfg(test)]
mod abi_tests;
#[cfg(test)]
mod async_tests;
#[cfg(test)]
mod file_names_tests;
#[cfg(test)]
pub mod made;
#[cfg(test)]
mod made_tests;
#[cfg(test)]
mod mappings_tests;
#[cfg(test)]
mod missed_tests;
#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod tracker_tests;

use crate::anomaly::Anomaly;
use crate::event::chain::CallChain;
use crate::units::{Fd, KernelTime, Pid};
use asynchronous::{AsyncOperation, NoResult};
use fault::Fault;
use model::{FdEffect, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo, Unfinished};
use spans::Span;

/// One thing that happened to an operation, a descriptor or a task.
#[derive(Debug)]
pub enum Step<'a> {
    /// A process is seen for the first time; comes before everything else about it.
    ProcessSeen(&'a ProcessInfo),
    /// A thread is seen for the first time; its process was seen before.
    ThreadSeen(&'a ThreadInfo),
    /// A thread has another name now (an exec, `prctl`).
    ThreadRenamed(&'a ThreadInfo),
    /// A process has another user now.
    UserChanged(&'a ProcessInfo),
    /// A process has got a child, which has a copy of its descriptors; the child is seen when it does something.
    Forked {
        /// Whose descriptors they were.
        parent: ProcessKey,
        /// Who has them now, too.
        child: ProcessKey,
    },
    /// A system call began: `end`, `ret` and, for an open, `file` are not there yet.
    SyscallBegun(&'a SyscallOperation),
    /// It ended; what it did to descriptors, in order.
    SyscallEnded(&'a SyscallOperation, &'a [FdEffect]),
    /// It will not end any more.
    SyscallUnfinished(&'a SyscallOperation, Unfinished),
    /// An asynchronous operation began; its file comes with the next step, if it has one.
    AsyncBegun(&'a AsyncOperation),
    /// Its file is known now.
    AsyncFile(&'a AsyncOperation),
    /// Its (last) result is there; what it did to descriptors.
    AsyncEnded(&'a AsyncOperation, &'a [FdEffect]),
    /// There will be no result.
    AsyncUnfinished(&'a AsyncOperation, NoResult),
    /// Descriptors went without a call: an exec closed them, or the last thread of the process died.
    DescriptorsClosed(ProcessKey, &'a [Fd]),
    /// The last thread of a process is gone.
    ProcessEnded(&'a ProcessInfo),
    /// A thread is gone; nothing about its system calls follows (block requests that it queued may).
    ThreadEnded(&'a ThreadInfo),
    /// A program touched a page of a file in memory that was not there.
    Fault(&'a Fault),
    /// A stretch of time inside no call: a thread of the kernel's at work.
    Aside {
        /// Which.
        thread: &'a ThreadInfo,
        /// Its process.
        pid: Pid,
        /// From when to when.
        span: Span,
    },
    /// A block request took a step; `thread` is the one that asked for it, if it is one of those recorded.
    Block {
        /// The step.
        step: &'a block::BlockStep<'a>,
        /// Who asked.
        thread: Option<&'a ThreadInfo>,
        /// What stands behind it, by sector: with its last step.
        pieces: &'a [attribution::Piece],
    },
    /// A chain of functions, before everything that came through it.
    ChainSeen(&'a CallChain),
    /// Something could not become an operation.
    Anomaly(&'a Anomaly),
}

/// Takes the steps: an archive writer, a printer, a fold.
pub trait Sink {
    /// What can go wrong in it.
    type Error;

    /// One step. Times never go back.
    ///
    /// # Errors
    ///
    /// Whatever the sink runs into; it gets no further step then.
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Self::Error>;

    /// Everything that happened before this time has been told; what is told from now on happened at it or later. Comes now and then
    /// while a log is read.
    ///
    /// # Errors
    ///
    /// As of [`Self::step`].
    fn told_until(&mut self, _time: KernelTime) -> Result<(), Self::Error> {
        Ok(())
    }
}
