//! Exit codes of this program's own; otherwise it ends with the status of the traced program.

/// Failure of this program, as in `env` and `timeout`. 126: the traced program is not executable;
/// 127: it does not exist.
pub(super) const FAILURE: u8 = 125;

/// Recordings were merged without one that is missing, damaged or given twice, or without a part of
/// one.
pub(super) const INCOMPLETE: u8 = 1;

/// A replay ran to its end with results that differ from the capture, or files were left by a
/// purge.
pub(super) const MISMATCH: u8 = 1;
