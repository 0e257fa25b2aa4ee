//! Triggers of a recorder: conditions on operations and requests, and the fold that evaluates them.
//!
//! ```text
//!  "p99(read,10s)>50ms" ─► Trigger ─┐
//!                         steps ─► TriggerFold ─► Firing (trigger, time, value, operation)
//! ```

mod fold;
mod grammar;

pub use fold::{Firing, TriggerFold};
pub use grammar::{
    CallSet, Metric, Statistic, Trigger, TriggerError, TriggerEvents, TriggerSource,
};

#[cfg(test)]
mod tests;
