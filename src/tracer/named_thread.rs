//! Threads with the tracer's own name: their records are left out.

use std::thread::JoinHandle;

use super::error::TracerError;

/// Starts a thread of the tracer.
pub(super) fn spawn_named<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, TracerError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(TracerError::system("start a thread"))
}
