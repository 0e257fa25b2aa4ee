//! Requests by hand to write what a ring holds: SIGUSR2, and `ctl dump`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGUSR2;

/// Requests that no recorder has taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct DumpRequests {
    by_signal: Arc<AtomicBool>,
    by_client: Arc<AtomicBool>,
}

impl DumpRequests {
    /// Makes SIGUSR2 a request.
    ///
    /// # Errors
    ///
    /// Those of `sigaction(2)`.
    pub(super) fn listen(&self) -> io::Result<()> {
        signal_hook::flag::register(SIGUSR2, Arc::clone(&self.by_signal)).map(drop)
    }

    /// Requests a log by a client of the control socket.
    pub(super) fn request(&self) {
        // ORDERING: Relaxed: the flag guards no other data.
        self.by_client.store(true, Ordering::Relaxed);
    }

    /// Takes the requests; returns what made them.
    pub(super) fn take(&self) -> impl Iterator<Item = &'static str> {
        let all = [(&self.by_signal, "SIGUSR2"), (&self.by_client, "ctl dump")];
        // ORDERING: Relaxed: the flags guard no other data.
        let made = all.map(|(flag, name)| flag.swap(false, Ordering::Relaxed).then_some(name));
        made.into_iter().flatten()
    }
}
