//! Tests: events as lines in, the steps they make between them.

mod bios;
mod captured;
mod flushes;
mod language;
mod merges;
mod operations;
mod properties;
mod rules;
