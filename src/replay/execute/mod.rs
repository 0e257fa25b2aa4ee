//! Executes a replay plan and compares its results with the capture.
//!
//! ```text
//!   plan ─► init  ─► initial files              (manifest: created files and their plan)
//!        ─► run   ─► worker threads: one per captured thread and per lane,
//!                    or one per captured thread for all its lanes (io_uring);
//!                    helper threads: read ahead, compare results
//!        ─► purge ─► files that the manifest lists are removed
//! ```
//!
//! Everything happens inside a directory that is the root of the process
//! ([`crate::sys::replay::sandbox`]), except replays on the captured files themselves
//! ([`in_place`]).

pub mod block;
mod decoder_threads;
pub mod dir_walk;
pub mod file_content;
mod frames;
pub mod in_place;
pub mod inherited_fds;
pub mod init;
mod interruptible_threads;
mod lane;
mod load;
pub mod manifest;
mod messages;
pub mod options;
pub mod originals;
pub mod path_mapping;
mod preload;
mod progress;
mod progress_counters;
pub mod purge;
pub mod replay_dirs;
pub mod run;
pub mod run_error;
pub mod settings;
mod shared;
mod sparse_layout;
mod steps;
pub mod time_window;
mod timestamps;
mod uring_server;
pub mod validate_plan;
pub mod verify_initial_state;
mod worker;
mod worker_pool;
mod worker_state;
