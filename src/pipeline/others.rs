//! Block requests of other programs and of the kernel's own threads during a recording of some
//! processes: those that the recording has counted, and those in the log that are not shown.

use std::collections::BTreeMap;

use super::summary::Summary;
use crate::units::DevId;

/// Requests of others for one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherRequests {
    /// Requests that `/proc/diskstats` counts, and their bytes, by operation.
    pub operations: BTreeMap<String, (u64, u64)>,
    /// Requests that it does not count.
    pub not_counted: u64,
    /// Requests of `operations` that are in the log individually.
    pub recorded: u64,
}

impl OtherRequests {
    /// Requests and bytes of all operations.
    pub fn all(&self) -> (u64, u64) {
        let add = |all: (u64, u64), one: &(u64, u64)| {
            (all.0.saturating_add(one.0), all.1.saturating_add(one.1))
        };
        self.operations.values().fold((0, 0), add)
    }

    fn add(&mut self, operation: &str, requests: u64, bytes: u64) {
        let all = self.operations.entry(operation.to_owned()).or_default();
        *all = (all.0.saturating_add(requests), all.1.saturating_add(bytes));
    }
}

impl Summary {
    /// Requests of others by device.
    pub fn others(&self) -> BTreeMap<DevId, OtherRequests> {
        let mut all: BTreeMap<DevId, OtherRequests> = BTreeMap::new();
        for device in self.end.iter().flat_map(|end| &end.others.devices) {
            let Some(dev) = DevId::parse(&device.dev) else { continue };
            let others = all.entry(dev).or_default();
            others.not_counted = others.not_counted.saturating_add(device.not_counted);
            for (operation, it) in &device.operations {
                others.add(operation, it.requests, it.bytes);
            }
        }
        for (&(dev, operation), &count) in &self.ledger.requests_others {
            let others = all.entry(dev).or_default();
            others.recorded = others.recorded.saturating_add(count.0);
            others.add(operation, count.0, count.1);
        }
        all
    }

    /// True if requests of others were counted and the count is not in the log, because the
    /// recording did not end in order.
    pub fn others_are_unknown(&self) -> bool {
        self.header.scope.others_counted && self.end.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::header::{End, OthersOnDevice, RequestCount};

    /// Fails if counted and recorded requests are not added up, or if a torn log seems to have no
    /// others.
    #[test]
    fn counted_and_recorded_requests_add_up() {
        let dev = DevId::new(7, 3);
        let mut summary = Summary::default();
        summary.header.scope.others_counted = true;
        assert!(summary.others_are_unknown() && summary.others().is_empty());
        let mut device = OthersOnDevice { dev: "7:3".into(), not_counted: 5, ..Default::default() };
        let count = RequestCount { requests: 11, bytes: 4099 };
        device.operations.insert("write".into(), count);
        let mut end = End::default();
        end.others.devices.push(device);
        summary.end = Some(end);
        summary.ledger.requests_others.insert((dev, "write"), (2, 512));
        summary.ledger.requests_others.insert((dev, "read"), (3, 1024));
        let others = summary.others();
        let on = others.get(&dev).expect("it is there");
        assert_eq!((on.all(), on.recorded, on.not_counted), ((16, 5635), 5, 5));
        assert_eq!(on.operations.get("write"), Some(&(13, 4611)));
        assert!(!summary.others_are_unknown());
    }
}
