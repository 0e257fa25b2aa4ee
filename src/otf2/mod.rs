//! Writer of OTF2 archives from steps of operations: it only maps the meaning of each step to OTF2.
//!
//! In: [`Step`](crate::operation::Step)s in time order. Out: `NAME.otf2`, `NAME.def`, `NAME/`.
//! Never: a clock, a kernel, a format's bytes (`otf2-sys` has those).
//!
//! ```text
//!   definitions                                             events
//!   Linux ─ HOST ─┬─ comm [pid] ───── comm:tid              Enter read · Begin … Complete · Leave
//!                 └─ block devices
//!                      └─ sda ─ sda queue ─ sda requests    Enter busy · Begin · Issued …
//!                                                           … Complete · Leave
//!   files, handles, regions: whatever the events named
//! ```
//!
//! # Handles
//!
//! One definition represents descriptors of the same file in all processes, independent of their
//! numbers, and for all their lives one after the other; a second one exists where a process has
//! two descriptors of the file at once (`handles`). Each process has its own set of active handles
//! (`active_handles`). A descriptor that a process uses without a recorded open (open before the
//! recording, inherited, opened by another process that shares the table) is a handle with the flag
//! `PRE_CREATED`. That includes a number that turns out not to be a descriptor: the call then has
//! begun on such a handle, and ends with `errno` 9.
//!
//! # Times and ends
//!
//! A location is one incarnation of a thread. It is opened at the thread's first event, closed when
//! the thread has ended and nothing of it is in flight, and never opened again. The last one of a
//! process waits until the process's descriptors are known to be closed, which is written there.
//!
//! # Archives of several captures
//!
//! [`JobSink`] writes captures one after the other: each has locations of its own, whose event
//! files are complete before the next capture begins. So neither memory nor open files depend on
//! the number of captures, except for their definitions, which are written at the end.
//!
//! ```text
//!   Linux ─┬─ HOST 1 ─┬─ rank 0: comm [pid] ── comm:tid
//!          │          └─ block devices …
//!          └─ HOST 2 ─── rank 1: comm [pid] …
//! ```
//!
//! # Matching ids
//!
//! `2 · location` for the synchronous operations of a thread; `2 · n + 1` with the smallest free
//! `n` for the others. So they are unique among all open operations of the archive, which some
//! readers need, and short.

mod active_handles;
mod asynchronous;
mod attributes;
mod block;
mod definitions;
mod error;
mod files;
mod flags;
mod handles;
mod job;
mod job_files;
mod matching_ids;
mod mounts;
mod options;
mod pending_operations;
mod posix;
mod regions;
mod sink;
mod tasks;
mod text;

#[cfg(test)]
mod tests;

pub use error::OtfError;
pub use job::{JobCapture, JobEnd, JobHost, JobSink, JobSummary};
pub use options::{EndFacts, OtfOptions, OtfSummary};
pub use sink::OtfSink;
