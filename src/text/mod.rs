//! Operation → text: lines for people, JSON Lines for programs, and the lines of b-com's I/O
//! tracer.
//!
//! In: the [`Step`](crate::operation::Step)s of operations in time order. Out: one line per
//! operation that has ended, in the order of the ends, to any [`std::io::Write`]. Each line is one
//! `write_all`, so the writer decides about buffering: pass a buffered one to these sinks.
//!
//! Names of files, threads and disks are untrusted. All formats write each of them losslessly and
//! escape control characters, so that a file's name cannot control the terminal that shows it.

pub mod fields;
pub mod ioreplay;
pub mod iotracer;
pub mod json;
pub mod labelled_lines;
pub mod line_format;
pub mod quantity;
pub mod shares;
mod step_lines;
pub mod table;
mod table_markdown;
mod table_order;
pub mod table_text;

pub mod errno;
pub mod escape;
mod flags;
mod number_format;
pub mod wrapping;

pub use flags::direct_flag;

#[cfg(test)]
mod fixtures;
