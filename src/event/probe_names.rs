//! Names of the tracer's own probes.

/// Prefix of the groups of the tracer's probes; the tracer's process number follows.
pub const GROUP_PREFIX: &str = "iotrace_";
/// Prefix of the names of probes that see a path.
pub const PATH_PREFIX: &str = "path";
/// Prefix of the names of probes that see a program pass a path.
pub const GIVEN_PREFIX: &str = "given";
/// Prefix of the names of those probes among them that see every call: its number is a field of
/// them.
pub const NUMBERED_PREFIX: &str = "given_nr";
/// Name of that field.
pub const NUMBER_FIELD: &str = "nr";
/// Prefix of the names of probes that see a file bound to a descriptor.
pub const FILE_PREFIX: &str = "file";
