//! The kernel boundary: the calls by which a capture or a replay requests something from the
//! kernel, and all `unsafe` code of this package.
//!
//! Only bytes and numbers cross it outwards: records as the kernel wrote them, texts of `/proc` and
//! tracefs. No module of this room interprets a tracepoint.

#![expect(unsafe_code, reason = "the one place for it; see each SAFETY note")]

pub mod again;
pub mod caches;
pub mod capabilities;
pub mod clock;
pub mod disks;
pub mod fanotify;
pub mod fiemap;
pub mod files;
mod filter;
pub mod fs_identity;
pub mod helper;
pub mod in_use;
pub mod instance;
pub mod kept_formats;
pub mod limits;
pub mod mounts;
#[cfg(test)]
pub mod need;
pub mod output_dir;
pub mod output_path;
pub mod patience;
pub mod perf;
pub mod probe_events;
pub mod proc;
pub mod reflink;
pub mod regular;
pub mod ring;
pub mod sandbox;
mod session;
pub mod socket;
pub mod spawn;
pub mod target;
pub mod thread;
pub mod ticks;
pub mod trace_ring;
pub mod tracefs;
pub mod user;
