//! Predictions: the same accesses with another amount of memory, and the same requests on another
//! device.
//!
//! ```text
//!   ended calls ──► files and pages (cached_files) ──► caches of many sizes (hit_rates)
//!   ended requests, asynchronous operations ─────────► queues (device_queue, closed_loop)
//! ```
//!
//! The fold sees accesses, and not what the recorded machine had in memory: the caches are empty at
//! the beginning.

mod cached_files;
mod closed_loop;
mod device_queue;
mod hit_rates;
#[cfg(test)]
mod queue_tests;
mod server_pool;
mod stack_distance;
#[cfg(test)]
mod tests;
mod two_lists;

use std::convert::Infallible;

use self::cached_files::CachedFiles;
pub use self::cached_files::UncachedBytes;
pub use self::device_queue::{DEPTH, DeviceQueues, DeviceWish, QueuePrediction};
pub use self::hit_rates::{HitRates, PAGES_MAX, PredictedHits};
pub use self::server_pool::ModelTimes;
use super::completed_op::CompletedOp;
use crate::capture::header::Header;
use crate::operation::block::BlockStep;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Smallest and largest size of memory that is tried if none is given: powers of two between.
const SIZE_BITS: std::ops::RangeInclusive<u32> = 16..=50;

/// Size of a page where the log does not have it, as in those of other tools.
const PAGE_BYTES: u64 = 4096;

/// Fold of a recording under other conditions.
#[derive(Debug)]
pub struct WhatIf {
    files: CachedFiles,
    /// Hit rates by the size of the memory.
    pub rates: HitRates,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Requests of devices.
    pub queues: DeviceQueues,
}

impl WhatIf {
    /// Creates the fold for a recording with this header. `direct_flag`: bit of `O_DIRECT` on its
    /// machine; `sizes`: sizes of the memory in bytes, none for powers of two.
    pub fn new(header: &Header, direct_flag: u32, sizes: &[u64]) -> Self {
        let page_bytes = Some(header.host.page_bytes).filter(|bytes| *bytes > 0);
        let page_bytes = page_bytes.unwrap_or(PAGE_BYTES);
        let sizes = match sizes {
            [] => SIZE_BITS.map(|bits| 1 << bits).collect(),
            sizes => sizes.to_vec(),
        };
        Self {
            files: CachedFiles::new(page_bytes, direct_flag),
            rates: HitRates::new(page_bytes, sizes),
            page_bytes,
            queues: DeviceQueues::default(),
        }
    }

    /// Returns the bytes that are not in the model.
    pub fn uncached(&self) -> UncachedBytes {
        self.files.uncached
    }
}

impl Sink for WhatIf {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::MountsSeen(table) => self.files.mounted(table),
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                let call = match step {
                    Step::SyscallEnded(operation, _) => Some(*operation),
                    _ => None,
                };
                if let Some(done) = CompletedOp::of(step) {
                    self.files.done(&done, call, &mut self.rates);
                }
                if let Step::AsyncEnded(operation, _) = step
                    && operation.opcode.has_bytes()
                    && let Some(end) = operation.end
                {
                    self.queues.async_ended(operation.tid, operation.start, end);
                }
            }
            Step::Block { step: BlockStep::Ended(request), .. } => self.queues.ended(request),
            _ => {}
        }
        Ok(())
    }
}
