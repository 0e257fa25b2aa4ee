//! Predictions: the same accesses with another amount of memory, and the same requests on another
//! device.
//!
//! ```text
//!   ended calls ──► files and pages (cached_files) ─┬► caches of many sizes (hit_rates)
//!                                                   └► caches that read ahead (read_ahead)
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
mod read_ahead;
mod read_ahead_settings;
#[cfg(test)]
mod read_ahead_tests;
mod resident_pages;
mod server_pool;
mod stack_distance;
#[cfg(test)]
mod tests;
mod two_lists;

use std::convert::Infallible;
use std::ops::RangeInclusive;

pub use self::cached_files::UncachedBytes;
use self::cached_files::{CachedFiles, PageModels};
pub use self::device_queue::{DEPTH, DeviceQueues, DeviceWish, QueuePrediction};
pub use self::hit_rates::{HitRates, PAGES_MAX, PredictedHits};
pub use self::read_ahead::ReadAheadTotals;
pub use self::read_ahead_settings::{PredictedReadAhead, ReadAheads};
pub use self::server_pool::ModelTimes;
use super::completed_op::CompletedOp;
use crate::capture::header::Header;
use crate::operation::block::BlockStep;
use crate::operation::io_class::IoClass;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Smallest and largest size of memory that is tried if none is given: powers of two between.
const SIZE_BITS: std::ops::RangeInclusive<u32> = 16..=50;

/// Size of a page where the log does not have it, as in those of other tools.
const PAGE_BYTES: u64 = 4096;

/// Sizes of pages that machines have: of a log that has another one the default is taken.
const PAGE_SIZES: RangeInclusive<u64> = 4 << 10..=1 << 20;

/// Fold of a recording under other conditions.
#[derive(Debug)]
pub struct WhatIf {
    files: CachedFiles,
    /// Hit rates by the size of the memory.
    pub rates: HitRates,
    /// Predictions by the read-ahead.
    pub read_ahead: ReadAheads,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Requests of devices.
    pub queues: DeviceQueues,
}

impl WhatIf {
    /// Creates the fold for a recording with this header. `direct_flag`: bit of `O_DIRECT` on its
    /// machine; `sizes`: sizes of the memory in bytes, none for powers of two; `read_ahead`: sizes
    /// of the read-ahead in bytes, none for no prediction of it.
    pub fn new(header: &Header, direct_flag: u32, sizes: &[u64], read_ahead: &[u64]) -> Self {
        let is_page = |bytes: &u64| bytes.is_power_of_two() && PAGE_SIZES.contains(bytes);
        let page_bytes = Some(header.host.page_bytes).filter(is_page);
        let page_bytes = page_bytes.unwrap_or(PAGE_BYTES);
        let sizes = match sizes {
            [] => SIZE_BITS.map(|bits| 1 << bits).collect(),
            sizes => sizes.to_vec(),
        };
        Self {
            files: CachedFiles::new(page_bytes, direct_flag),
            rates: HitRates::new(page_bytes, sizes),
            read_ahead: ReadAheads::new(header, page_bytes, read_ahead),
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
            Step::MountsSeen(table) => {
                self.files.mounted(table);
                self.read_ahead.mounted(table);
            }
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                let call = match step {
                    Step::SyscallEnded(operation, _) => Some(*operation),
                    _ => None,
                };
                let Some(done) = CompletedOp::of(step) else { return Ok(()) };
                let (rates, read_ahead) = (&mut self.rates, &mut self.read_ahead);
                self.files.done(&done, call, &mut PageModels { rates, read_ahead });
                if let Step::AsyncEnded(operation, _) = step
                    && operation.opcode.has_bytes()
                    && matches!(done.io, IoClass::File | IoClass::Unknown)
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
