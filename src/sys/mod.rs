//! The kernel boundary: the calls by which a capture or a replay requests something from the
//! kernel, and all `unsafe` code of this package.
//!
//! Only bytes and numbers cross it outwards: records as the kernel wrote them, texts of `/proc` and
//! tracefs. No module of this room interprets a tracepoint.

#![expect(unsafe_code, reason = "the one place for it; see each SAFETY note")]

pub mod cancellation;
pub mod capabilities;
pub mod clock;
pub mod clock_client;
pub mod clock_service;
#[cfg(test)]
mod clock_tests;
pub mod clock_wire;
pub mod closing_lock;
pub mod containers;
pub mod cpu_topology;
pub mod disks;
pub mod error_text;
pub mod fanotify;
pub mod fiemap;
mod file_handles;
pub mod files;
pub mod format_cache;
pub mod fs_identity;
pub mod handle_events;
pub mod identity;
pub mod inheritance;
pub mod instance_pool;
mod listened_file_system;
pub mod mounts;
#[cfg(test)]
pub mod need;
pub mod net_addresses;
pub mod output_dir;
pub mod output_path;
pub mod perf;
pub mod probe_events;
pub mod proc;
pub mod random;
pub mod rank_socket;
pub mod regular;
pub mod rename;
pub mod replay;
pub mod ring;
pub mod rlimits;
pub mod root_cache;
pub mod sandboxed_helper;
mod seccomp;
mod session;
pub mod signal;
pub mod socket;
pub mod spawn;
pub mod thread;
pub mod trace_ring;
pub mod tracefs;
pub mod tracefs_instance;
