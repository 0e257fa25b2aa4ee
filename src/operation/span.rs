//! Spans of time: the work of one layer inside a call.

use crate::event::layer::Layer;
use crate::units::KernelTime;

/// One span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Layer that was at work.
    pub layer: Layer,
    /// Function, or the word that represents it.
    pub what: &'static str,
    /// Begin of the span.
    pub begin: KernelTime,
    /// End of the span.
    pub end: KernelTime,
}

impl Span {
    /// Returns the duration in ns.
    pub fn ns(&self) -> u64 {
        self.end.0.saturating_sub(self.begin.0)
    }
}
