//! Tests of replays: plans, initial files, runs and comparisons. Most need root, those that record
//! first also need the tracepoints of this machine.
//!
//! Each test takes a turn ([`support::machine::turns`]), as those of `tests/recording` do.

mod block;
mod capsule;
mod confinement;
mod directory_race;
mod filter;
mod fio;
mod fixture;
mod hostile;
mod in_place;
mod init;
mod links;
mod locks;
mod parts;
mod path_mapping;
mod preconditions;
mod programs;
mod results;
mod stop;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
mod uring;
