//! Reasons for which a recording of perf is not imported.

use std::io;

/// Reason why a recording is not imported.
#[derive(Debug)]
pub(in crate::import) enum Refusal {
    /// Error of the recording, or of the log.
    Io(io::Error),
    /// Another form of recording, with what to do.
    Text(String),
}

impl Refusal {
    pub(super) fn text(why: &str) -> Self {
        let instead = "perf script -F +pid | iotrace-perf import - -o LOG.iocap";
        Self::Text(format!("{why}; {instead} reads what perf prints of it"))
    }

    pub(super) fn damaged(why: &str) -> Self {
        Self::Text(format!("the recording of perf is damaged: {why}"))
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
