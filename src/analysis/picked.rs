//! Sinks that see only what a picker selects.

use super::filter::{Filtered, Picker};
use super::job_keys::{Absorb, CaptureKeys};

/// Sink that sees only what a picker selects.
pub trait Picked {
    /// Returns the picker.
    fn picker(&self) -> &Picker;
}

impl<S> Picked for Filtered<S> {
    fn picker(&self) -> &Picker {
        &self.picker
    }
}

impl<S: Absorb> Absorb for Filtered<S> {
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        self.sink.absorb(other.sink, keys);
    }
}
