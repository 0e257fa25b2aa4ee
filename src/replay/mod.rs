//! Replay of a capture: a plan is made from the capture, executed, and compared with the capture.
//!
//! ```text
//!   Step ─► plan ─► plan file ─► execute ─► Comparison
//!        └► fio: logs and jobs for fio
//! ```
//!
//! This file's siblings are results of a replay, which `execute` fills in and reports render. The
//! subrooms use each other in one direction: `plan`, then `fio` and the results, then `execute`.

pub mod block_comparison;
pub mod comparison;
pub mod execute;
pub mod fio;
pub mod lateness;
pub mod outcome;
pub mod plan;
pub mod timeline;
pub mod verify_recording;
