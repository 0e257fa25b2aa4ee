//! Limits of what is remembered.

/// Limit of files whose state is kept.
pub(super) const FILES_MAX: usize = 1 << 16;

/// Limit of cases that are kept.
pub(super) const CASES_MAX: usize = 10_000;

/// Limit of paths that are known to be absent.
pub(super) const ABSENT_MAX: usize = 1 << 16;

/// Limit of processes that are known to sync files.
pub(super) const SYNCERS_MAX: usize = 1 << 16;
