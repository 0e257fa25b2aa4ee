//! Programs that tests run, recordings of them, and their output as values.

pub(crate) mod block_jobs;
pub(crate) mod daily;
pub(crate) mod json;
pub(crate) mod process;
pub(crate) mod recording;
pub(crate) mod watch_session;
pub(crate) mod workloads;
