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
//! Everything happens inside a directory that is the root of the process ([`crate::sys::sandbox`]),
//! except replays on the captured files themselves ([`in_place`]).

mod ahead;
mod at_work;
pub mod block;
pub mod check;
pub mod contents;
mod course;
mod crew;
mod fill;
mod frames;
mod given;
mod helper;
pub mod in_place;
pub mod init;
mod lane;
mod load;
pub mod manifest;
pub mod maps;
pub mod originals;
pub mod places;
mod progress;
pub mod purge;
pub mod read;
pub mod run;
mod server;
pub mod settings;
mod stamps;
mod steps;
mod turns;
pub mod walk;
pub mod window;
mod worker;
