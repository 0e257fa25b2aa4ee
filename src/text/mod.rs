//! Operation → text: lines for people, JSON Lines for programs, and the lines of b-com's I/O
//! tracer.
//!
//! In: the [`Step`](crate::operation::Step)s of operations in time order. Out: one line per
//! operation that came to an end, in the order of the ends, to any [`std::io::Write`]. Each line
//! goes out in one `write_all`, so that the writer decides about buffering: give these sinks a
//! buffered one.
//!
//! Names of files, threads and disks are other people's bytes. Both forms write every one of them
//! losslessly, and neither passes on a control character, so that a file's name cannot drive the
//! terminal that shows it.

pub mod fields;
pub mod ioreplay;
pub mod iotracer;
pub mod json;
pub mod line_format;
pub mod shares;
pub mod table;

mod argument;
pub mod errno;
pub mod escape;
mod flags;
mod number_format;

pub use flags::direct_flag;

#[cfg(test)]
mod fixtures;
