//! Tracer: carries records from the kernel's rings to the capture log. While the program runs, only
//! this happens:
//!
//! ```text
//!  main rings ──► drain thread ──────► log thread ──► capture log
//!  (per CPU)      copies, counts T     filters by tree, compresses, writes
//!  names rings ─► reader threads ──┘
//!  (per CPU)      read each name at once
//! ```
//!
//! Nothing is decoded that need not be, nothing is merged, nothing is paired: all of that is a pure
//! function of the log.

mod bench;
mod btf;
pub mod cache;
mod chains;
pub mod choice;
mod code;
pub mod drain;
pub mod error;
pub mod extents;
mod frames;
mod gauge;
mod held;
mod hold;
mod inherited_source;
mod layers;
pub mod log;
mod memory;
pub mod names;
pub mod naming;
mod opening;
pub mod opens;
pub mod options;
mod passed;
pub mod perf_source;
mod pieces;
pub mod plan;
mod privileges;
pub mod probes;
pub mod programs;
mod queued;
pub mod session;
mod sieve;
pub mod snapshot;
pub mod source;
pub mod stream;
mod switched;
pub mod symbols;
mod threads;
pub mod tracefs_source;
pub mod tree;
mod trial;
pub mod unwinding;
pub mod uprobes;
mod watch;
