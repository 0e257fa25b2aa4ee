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

mod btf;
mod call_counter;
mod callchain_addresses;
pub mod drain;
mod ended_call;
mod entered_calls;
pub mod environment;
pub mod error;
mod executable_mappings;
pub mod extents;
pub mod fanotify_listener;
mod followed;
pub mod format_cache;
mod handle_listener;
mod header_end;
mod held_rounds;
mod identities;
mod inherited_source;
pub mod job;
pub mod joined_ranks;
pub mod kernel_objects;
mod late_looks;
mod layers;
mod library_probes;
pub mod log_limits;
pub mod log_message;
pub mod log_thread;
mod long_lists;
pub mod name_readers;
pub mod name_records;
pub mod name_source;
pub mod name_source_selection;
mod named_thread;
pub mod node_ranks;
pub mod open_listener;
mod open_probes;
pub mod options;
mod overhead_probe;
mod own_pages;
pub mod perf_source;
mod pieces;
mod probe_coverage;
mod probe_self_test;
mod probe_validation;
pub mod probes;
pub mod process_tree;
pub mod programs;
mod queued_bytes;
mod reader_exclusivity;
pub mod ring_stream;
mod scm_rights;
pub mod segments;
pub mod session;
mod sieve;
pub mod snapshot;
pub mod source;
pub mod source_selection;
mod switched;
pub mod symbols;
mod target_memory;
mod targets;
pub mod thread_placement;
mod threads;
pub mod tracefs_source;
pub mod tracepoint_plan;
mod unprivileged;
pub mod unwinding;
pub mod uprobes;
mod wait;
