//! Facts of a recording that its lines need.

use super::super::flags::OpenFlagNames;
use crate::units::KernelTime;

/// Start of the recording, and names of flags on its machine.
pub(super) struct LineBase {
    pub(super) start: KernelTime,
    pub(super) open_flags: &'static OpenFlagNames,
}
