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
/// Prefix of the names of probes that see a program submit a list of `struct iocb`.
pub const SUBMITTED_PREFIX: &str = "submitted";
/// Prefix of the names of probes that see a program get a list of `struct io_event`.
pub const COMPLETED_PREFIX: &str = "completed";
/// Name of the field with the address of either list.
pub const LIST_ADDRESS_FIELD: &str = "address";
/// Name of the field with the number of results in a list.
pub const LIST_COUNT_FIELD: &str = "count";
/// Name of the field with the words of a list: pointers, or results.
pub const LIST_FIELD: &str = "list";
/// Prefix of the names of the fields with the words of each `struct iocb` in a list.
pub const IOCB_FIELD: &str = "iocb";
