//! JSON about a log that is a part of a longer recording.

use serde::{Deserialize, Serialize};

/// Part of a longer recording: what the ring of a recorder held, or one log of several.
///
/// The state before the part is that of a snapshot at its beginning, as at the start of a
/// recording. Calls and requests that began earlier have no beginning in the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Excerpt {
    /// Number of the part, from 1 on, as in its name.
    pub number: u64,
    /// Reason for which it was written: `incident` or `rotation`.
    pub reason: String,
    /// Limits of the ring, in words; empty without a ring.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ring: String,
    /// Time when the recording started, ns.
    pub recording_start_ns: u64,
    /// Mode of the recording: `system`, `launch` or `attach`. The processes that exist when the
    /// part begins are attached to.
    pub mode: String,
    /// Launched command of the recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Triggers that fired, in the order of their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<FiredTrigger>,
    /// Number of triggers that fired beyond those.
    pub triggers_left_out: u64,
    /// Time for which triggers were not evaluated, because the recorder could not keep up, ns.
    pub unevaluated_ns: u64,
}

/// A trigger that fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FiredTrigger {
    /// Trigger as it was given; `SIGUSR2` or `ctl dump` for one by hand.
    pub trigger: String,
    /// Time of the event, ns: the end of an operation or of a window, or the time when an operation
    /// without an end had reached the limit.
    pub time_ns: u64,
    /// Value that is beyond the limit, in the unit; 0 for one by hand.
    pub value: u64,
    /// Unit of the value: `ns`, `records`, `operations`; empty for one by hand.
    pub unit: String,
    /// Operation or device of the value; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// Process of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Thread of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    /// Name of the thread; bytes that are not printable ASCII as `\xNN`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Path of the file of the operation; bytes that are not printable ASCII as `\xNN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True if the operation had no end yet.
    pub is_running: bool,
}
