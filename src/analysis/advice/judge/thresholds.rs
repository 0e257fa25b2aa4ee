//! Thresholds that several rules share.

/// Number of operations below which a rule about operations has no finding.
pub(super) const MANY: u64 = 100;

/// Number of bytes below which a rule about bytes has no finding.
pub(super) const MUCH: u64 = 1 << 20;

/// Time below which a rule about time has no finding, ns.
pub(super) const LONG_NS: u64 = 100_000_000;
