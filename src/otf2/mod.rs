//! Steps of operations → an OTF2 archive. Mapping only: what a step means in OTF2's words.
//!
//! In: [`Step`](crate::operation::Step)s in time order. Out: `NAME.otf2`, `NAME.def`, `NAME/`.
//! Never: a clock, a kernel, a format's bytes (`otf2-sys` knows those).
//!
//! ```text
//!   definitions                                             events
//!   Linux ─ HOST ─┬─ comm [pid] ───── comm:tid              Enter read · Begin … Complete · Leave
//!                 └─ block devices
//!                      └─ sda ─ sda queue ─ sda requests    Enter busy · Begin · Issued … Complete · Leave
//!   files, handles, regions: whatever the events named
//! ```
//!
//! # Handles
//!
//! One definition stands for descriptors of the same file in all processes, whatever their numbers
//! are, and for all their lives one after the other; a second one exists where a process has two
//! descriptors of the file at once (`handles`). Which of them are active is a matter of each
//! process (`activity`). A descriptor that a process uses and that it was not seen to open (open
//! before the recording, inherited, opened by another process that shares the table) is a handle
//! with the flag `PRE_CREATED`. That includes a number that turns out to be no descriptor: the call
//! then has begun on such a handle, and ends with `errno` 9.
//!
//! # Times and ends
//!
//! A location is one incarnation of a thread, opened when the thread does its first thing, closed
//! when it has died and nothing of it is in flight, and never opened again. The last one of a
//! process waits for the news that the process's descriptors are closed, which is written there.
//!
//! # Matching ids
//!
//! `2 · location` for what a thread does and waits for; `2 · n + 1` with the smallest free `n` for
//! the rest. So they are unique among all open operations of the archive, which some readers need,
//! and short.

mod active_handles;
mod asynchronous;
mod attributes;
mod block;
mod define;
mod define_metrics;
mod define_places;
mod definitions;
mod error;
mod files;
mod flags;
mod handles;
mod matching_ids;
mod mounts;
mod options;
mod posix;
mod regions;
mod sink;
mod tasks;
mod text;

#[cfg(test)]
mod tests;

pub use error::OtfError;
pub use options::{EndFacts, OtfOptions, OtfSummary};
pub use sink::OtfSink;
