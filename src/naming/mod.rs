//! Naming: assigns names to the calls that they were read for, before events become operations.
//!
//! Input: events in time order, with what was read beside them: names and links by reader threads,
//! reports of fanotify, hits of probes, strings of the calls' own events, the snapshot. Output: the
//! same events in the same order, with the names of their calls and a verdict on each name; the
//! process of each thread; the facts of a capture's first moments.
//!
//! ```text
//!  event ──► thread_owner ──► name_join ───────────────► startup_buffer ──► operation
//!            tid → pid        ├─ in_call: probes, strings   held until the
//!                             ├─ read names, fanotify_join  snapshot is complete
//!                             └─ closed_fds, pending_validation: verdicts
//! ```

mod closed_fds;
mod eventless_mounts;
mod explained_opens;
pub mod fanotify_join;
mod in_call;
pub mod name_join;
pub mod open_assignment;
pub mod pair;
pub mod paths;
mod pending_arguments;
mod pending_results;
mod pending_validation;
pub mod read_name;
mod recorded_list;
pub mod room;
pub mod startup_buffer;
pub mod thread_owner;
