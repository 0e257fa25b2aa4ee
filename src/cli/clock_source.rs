//! Source of the clock of a recording of a job.

use serde::{Deserialize, Serialize};

/// Source of the clock of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClockSource {
    /// The wall clock of its host.
    #[default]
    Wall,
    /// Messages to the reference.
    Messages,
    /// The host is the reference.
    Reference,
}
