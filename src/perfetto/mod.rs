//! Writer of Perfetto traces from steps of operations: it only maps the meaning of each step to
//! packets.
//!
//! In: [`Step`](crate::operation::Step)s in time order. Out: a `Trace` message of protobuf, packet
//! by packet, to any [`std::io::Write`]. Never: a clock, a kernel, a file.
//!
//! ```text
//!   tracks                                        events
//!   capture                                       begin, end, anomalies (instants)
//!   process comm [pid] ─┬─ thread comm tid        slice read { slice fs } · page fault (instant)
//!                       └─ io_uring ring 1        slice READ, on one of several lanes
//!   block devices ─ sda ─┬─ requests              slice write { slice queue · slice device }
//!                        └─ sda bytes read, …     counters
//! ```
//!
//! # Order
//!
//! An operation is written when it ends, its begin included. So all slices are closed, their
//! arguments and flows are complete, and the packets are in the order of the ends; readers sort
//! them by time. Events with the same time stay in the order of the file, in which slices of one
//! track are nested.
//!
//! # Flows
//!
//! A flow leads from a call to each block request that its thread has queued since its begin, and
//! to each asynchronous operation that the kernel has taken in it. Requests of other threads
//! (writeback, workers of io_uring) have none.
//!
//! # Memory
//!
//! Bounded by what is alive: threads, processes, requests and operations in flight. Texts are
//! interned, and begin anew beyond 65,536 of them or 8 MiB.

mod async_slices;
mod block_slices;
mod call_slices;
mod device_tracks;
mod interning;
mod lanes;
mod nested;
mod packets;
mod schema;
mod sink;
mod sink_tracks;
mod task_tracks;
mod wire;
mod words;

#[cfg(test)]
mod tests;

pub use sink::{PerfettoSink, PerfettoSummary};
