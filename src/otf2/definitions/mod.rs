//! Definitions of the archive: numbered while events are written, and written at the end.

pub(super) mod finish_context;
pub(super) mod job_tree;
mod metrics;
pub(super) mod registry;
mod system_tree;
mod write;
