//! Counts of other programs' requests that were left out.

use std::collections::BTreeMap;

use crate::block::{BlockRequest, RequestEnd};
use crate::capture::header::{OthersOnDevice, RequestCount};
use crate::units::{DevId, SECTOR_BYTES};

/// Counts by device.
#[derive(Debug, Default)]
pub(super) struct LeftOutRequests(BTreeMap<DevId, OthersOnDevice>);

impl LeftOutRequests {
    /// Counts a request that has ended. A request that became part of another one is counted there;
    /// a request whose end was not seen is not counted by operation.
    pub(super) fn add(&mut self, request: &BlockRequest) {
        if matches!(request.ending, Some(RequestEnd::Absorbed { .. })) {
            return;
        }
        let device = self.0.entry(request.dev).or_default();
        if request.diskstats_class().is_none() {
            device.not_counted += 1;
            return;
        }
        let count: &mut RequestCount =
            device.operations.entry(request.op.as_str().to_owned()).or_default();
        count.requests += 1;
        count.bytes = count.bytes.saturating_add(request.diskstats_sectors() * SECTOR_BYTES);
    }

    /// Returns the counts as the log stores them.
    pub(super) fn into_devices(self) -> Vec<OthersOnDevice> {
        let named =
            |(dev, it): (DevId, OthersOnDevice)| OthersOnDevice { dev: dev.to_string(), ..it };
        self.0.into_iter().map(named).collect()
    }
}
