//! Table of system calls. The rest of the tracer derives everything from its rows: the tracepoints
//! to open, the meanings of the arguments, the effects on descriptors, and the OTF2 records. A new
//! system call is a new row.

pub(super) mod call;
mod call_id;
pub(super) mod class;
mod memory;
mod new_descriptors;
pub(super) mod role;

pub use super::syscall_rows::CALLS;
pub use call::Call;
pub use call_id::CallId;
pub use class::{CallClass, DEFAULT_GROUPS, GROUPS};
pub use memory::{ArgumentMemory, IO_EVENT_BYTES, IOCB_BYTES, IOCB_READ_BYTES, IOVEC_BYTES};
pub use role::Role;

#[cfg(test)]
mod tests;
