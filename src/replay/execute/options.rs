//! Options of a replay.

use super::file_content;
use super::time_window::TimeWindow;
use crate::sys::replay::reissue::UringPolicy;
use crate::units::{Nanos, ReplayTime};

/// Ordering constraints between operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOrder {
    /// Total order: each operation begins when the one that ended before it in the capture has
    /// ended.
    Total,
    /// Each operation waits for the operations that it depends on.
    Dependencies,
    /// Operations of a thread follow each other; a thread begins when its parent has come as far as
    /// in the capture.
    Thread,
    /// Operations of a thread follow each other; all threads begin at once.
    None,
}

/// Start times of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// At their times in the capture, however long earlier operations take.
    Open,
    /// With the captured gap after the previous operation.
    Closed,
    /// Immediately, without waiting.
    Max,
}

/// Method by which asynchronous operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// System calls: one thread for each operation in flight.
    Calls,
    /// io_uring: one thread for each captured thread submits to a ring with these rules.
    IoUring(UringPolicy),
}

/// Options of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Ordering constraints between operations.
    pub order: ReplayOrder,
    /// Start times of operations.
    pub pacing: Pacing,
    /// Factor by which the replay is faster than the capture, above 0.
    pub speed: f64,
    /// Method by which asynchronous operations are executed.
    pub engine: Engine,
    /// Contents of writes.
    pub contents: file_content::ContentsSource,
    /// Part of the plan that is replayed.
    pub window: TimeWindow,
    /// Stops the replay at the first operation on names that succeeds and failed in the capture, or
    /// the other way round: later operations may then concern other files.
    pub ends_at_names: bool,
}

impl ReplayOptions {
    /// Returns the duration in the replay of a captured duration.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a speed is no exact number: 2^53 ns are 104 days; larger results saturate"
    )]
    pub fn scaled(&self, duration: Nanos) -> Nanos {
        if self.speed.to_bits() == 1.0_f64.to_bits() {
            return duration;
        }
        Nanos((duration.0 as f64 / self.speed) as u64)
    }

    /// Returns the time in the replay that is this captured duration after its begin.
    pub(super) fn due(&self, duration: Nanos) -> ReplayTime {
        ReplayTime::MIN.saturating_add(self.scaled(duration))
    }
}
