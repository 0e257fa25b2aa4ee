//! Turns a capture into a replay plan: initial files, operations, dependencies.

mod async_lanes;
mod asynchronous;
pub mod block;
pub mod dependencies;
mod evicted_accesses;
mod external_entries;
pub mod handles;
pub mod hole_map;
mod in_flight;
pub mod infer_initial_state;
pub mod initial_size;
pub mod initially_absent;
pub mod links;
pub mod locks;
pub mod low_watermark;
pub mod namespace;
mod open_flags;
pub mod plan_file;
pub mod plan_output;
pub mod planned_op;
pub mod planner;
mod process_waits;
pub(super) mod replay_paths;
pub mod replayability;
mod resources;
mod symlink_follow;
