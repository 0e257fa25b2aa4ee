//! Tests of replays: plans, initial files, runs and comparisons. Most need root, those that record
//! first also need the tracepoints of this machine.
//!
//! Each test takes a turn ([`support::machine::turns`]), as those of `tests/recording` do.

mod again;
mod block;
mod directory_race;
mod filter;
mod fio;
mod hostile;
mod in_place;
mod init;
mod links;
mod path_mapping;
mod preconditions;
mod results;
mod stop;
#[path = "../support/mod.rs"]
mod support;
mod uring;
