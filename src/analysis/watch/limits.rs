//! Limits on watched files and their accesses.

/// Maximum number of files that can be watched at the same time.
pub const FILES_MAX: usize = 1024;
/// Maximum number of accesses that can be kept of one file: the size of an answer with all of them
/// (20 MB).
pub const FILE_EVENTS_MAX: usize = 1 << 18;
/// Maximum number of accesses that can be kept of all files together, about 120 bytes each.
pub const EVENTS_MAX: usize = 1 << 20;
/// Maximum number of stops and starts of a file since it was added or reset.
pub(super) const TURNS_MAX: usize = 4096;
