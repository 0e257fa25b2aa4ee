//! Captured system calls, made once more: the same numbers in the registers, with our own memory
//! and descriptors in place of the program's.
//!
//! ```text
//!   CapturedCall ──► CallBatch::push ──► CallBatch::call    registers of a read, for example:
//!                                        (call to make)     [slot 7 → 12] [our buffer] [4096]
//! ```
//!
//! `registers.rs` alone decides which registers are pointers. Concurrent calls of one thread go
//! through a [`CallRing`].

mod batch;
mod buffer_sizes;
mod memory;
mod refusal;
mod registers;
mod ring;
mod sink;
mod slots;
mod uring_availability;

pub use batch::CallBatch;
pub use buffer_sizes::{BUFFER_BYTES_MAX, BufferSizes};
pub use memory::{CallMemory, WriteContents};
pub use refusal::CallRefusal;
pub use registers::{CallSignature, CapturedCall};
pub use ring::CallRing;
pub use sink::DataSink;
pub use slots::FdSlots;
pub use uring_availability::{UringPolicy, UringUnavailable};
