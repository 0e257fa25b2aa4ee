//! Tests that record: as root, with the tracepoints and the tracing file system of this machine.
//!
//! Each test takes a turn ([`support::machine::turns`]): `alone()` if it measures or changes the
//! machine, or needs its load for itself, otherwise `beside_others()`.

mod advise;
mod attribution;
mod both_sources;
mod cache;
mod calls;
mod capsule;
mod code_readers;
mod containers;
mod descriptors;
mod diff;
mod disk;
mod fanotify;
mod file_offsets;
mod hostile;
mod hostile_environment;
mod identity;
mod import_perf;
mod instance_pool;
mod layers;
mod libaio;
mod mount_changes;
mod mpi_hosts;
mod names;
mod node_ranks;
mod outputs;
mod pattern;
mod privileges;
mod reports;
mod ring;
mod shutdown;
mod sigkill;
mod slow;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod top;
mod triggers;
mod unprivileged;
mod unwind;
mod vm_images;
mod watch;
mod what_if;
mod what_if_device;
