//! Parts of block requests: the bios that they consist of.

use std::sync::Arc;

use super::event_context::EventContext;
use crate::event::block::{Comm, DevicePosition};
use crate::event::callchain::ChainId;
use crate::units::DevId;

/// Part of a request that came in one bio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPart {
    /// Number of the part, over all requests.
    pub number: u64,
    /// First sector on the request's device.
    pub sector: u64,
    /// Length in sectors.
    pub nr_sector: u32,
    /// Time and task at which the bio was handed to the block layer, at the uppermost device.
    pub queued: EventContext,
    /// Time and task at which the bio, or its successor, was handed to this device.
    pub here: BioArrival,
    /// Places that were addressed before this device, the nearest first: a partition, a stacked
    /// device and its partition. Each is the place of the part's first sector.
    pub levels: Arc<[DevicePosition]>,
}

/// Arrival of a bio at its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioArrival {
    /// Time of the queuing, and the task that was running.
    pub at: EventContext,
    /// Name of that thread.
    pub comm: Option<Comm>,
    /// Call chain of that thread, if it was recorded.
    pub chain: Option<ChainId>,
}

impl RequestPart {
    /// Returns the place that was addressed first: by a file system of its device, or by a program.
    pub fn top(&self, dev: DevId) -> DevicePosition {
        self.levels.last().copied().unwrap_or(DevicePosition { dev, sector: self.sector })
    }
}
