//! Operations: pairs begin and end events, follows descriptors, and reports the result in steps.
//!
//! Input: events in time order. Output: [`Step`]s in time order, to a [`Sink`]. The code consists
//! of pure state machines: nothing here depends on the source of the events or on the use of the
//! operations.

pub mod abi;
pub mod access;
pub mod asynchronous;
pub mod attribution;
mod bounds;
mod closed_fds;
pub mod context;
mod credentials;
pub mod disk;
pub mod fanotify_join;
pub mod fault;
pub mod fd_table;
pub mod file_names;
pub mod fs_context;
mod in_call;
pub mod io_class;
pub mod join;
pub mod mappings;
pub mod model;
pub mod mount_namespaces;
mod pair;
mod path_arguments;
mod pending_validation;
pub mod process;
mod register;
pub mod renaming;
pub mod spans;
pub mod started;
pub mod startup_buffer;
pub mod symbols;
pub mod syscall;
pub mod task;
pub mod thread_owner;
pub mod tracker;
pub mod user_stacks;

pub use crate::block;

#[cfg(test)]
mod abi_tests;
#[cfg(test)]
mod async_tests;
#[cfg(test)]
mod file_names_tests;
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
pub mod test_fixtures;
#[cfg(test)]
mod tracker_tests;

use crate::anomaly::Anomaly;
use crate::event::callchain::CallChain;
use crate::units::{Fd, KernelTime, Pid};
use asynchronous::{AsyncOperation, NoResult};
use fault::Fault;
use model::{FdEffect, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo, Unfinished};
use spans::Span;

/// A change of an operation, a descriptor, a process or a thread.
#[derive(Debug)]
pub enum Step<'a> {
    /// First sight of a process; precedes everything else about the process.
    ProcessSeen(&'a ProcessInfo),
    /// First sight of a thread; its process was seen before.
    ThreadSeen(&'a ThreadInfo),
    /// New name of a thread (an exec, `prctl`).
    ThreadRenamed(&'a ThreadInfo),
    /// New user of a process.
    UserChanged(&'a ProcessInfo),
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
        /// Its process.
        pid: Pid,
        /// Begin and end of the work.
        span: Span,
    },
    /// Step of a block request.
    Block {
        /// New state of the request.
        step: &'a block::BlockStep<'a>,
        /// Thread that submitted it, if that thread is recorded.
        thread: Option<&'a ThreadInfo>,
        /// Contents of the request by sector; with its last step.
        pieces: &'a [attribution::Piece],
    },
    /// A call chain, before everything that came through it.
    ChainSeen(&'a CallChain),
    /// Input that could not become an operation.
    Anomaly(&'a Anomaly),
}

/// Consumer of the steps: an archive writer, a printer, a fold.
pub trait Sink {
    /// Error of the consumer.
    type Error;

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
    fn told_until(&mut self, _time: KernelTime) -> Result<(), Self::Error> {
        Ok(())
    }
}
