//! Does what a plan says, and looks at what comes of it.
//!
//! ```text
//!   plan ─► init ─► the files as they were           (manifest: what was made, and for which plan)
//!        ─► run  ─► one thread for each of the original and for each lane, or one for all lanes of one; helpers that read ahead and compare
//!        ─► purge ─► what the manifest lists is gone
//! ```
//!
//! All of it happens inside a directory that is the root of the process ([`crate::sys::sandbox`]), but for what is to be done to the
//! captured files themselves ([`in_place`]).

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
