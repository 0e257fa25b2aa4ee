//! Operations: pairs begin and end events, follows descriptors, and reports the result in steps.
//!
//! Input: events in time order. Output: [`Step`]s in time order, to a [`Sink`]. The code consists
//! of pure state machines: nothing here depends on the source of the events or on the use of the
//! operations.

pub mod abi;
pub mod access;
pub mod asynchronous;
pub mod attribution;
mod block_step_kind;
mod bounds;
pub mod cgroup;
pub mod context;
pub mod copy_interval;
mod credentials;
pub mod disk;
pub mod fault;
pub mod fd_table;
pub mod file_names;
pub mod fs_context;
pub mod io_class;
pub mod mappings;
pub mod model;
pub mod mount_namespaces;
pub mod mount_table;
pub mod owned_step;
mod path_arguments;
pub mod pending_call;
pub mod process;
pub mod renaming;
pub mod shared_files;
pub mod span;
pub mod spans;
pub mod started;
pub mod step;
pub mod symbols;
pub mod syscall;
pub mod task;
mod task_table;
pub mod tasks;
pub mod thread_overrides;
pub mod tracker;
pub mod user_stacks;

pub use crate::block;
pub use step::{Sink, Step};

#[cfg(test)]
mod abi_tests;
#[cfg(test)]
mod async_tests;
#[cfg(test)]
mod file_names_tests;
#[cfg(test)]
mod lost_record_tests;
#[cfg(test)]
mod mappings_tests;
#[cfg(test)]
mod new_descriptor_tests;
#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod scope_tests;
#[cfg(test)]
pub mod test_fixtures;
#[cfg(test)]
mod tracker_tests;
