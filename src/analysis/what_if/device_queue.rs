//! Queue of a device with another latency and depth, for the requests of a recording.
//!
//! The model is that of a device with as many servers as its depth. They take requests in the order
//! of their arrival, and need the same time for each. Requests arrive as they were recorded: this
//! model is *open*. Programs that wait for their requests hold the next ones back, or send them
//! sooner if the device is faster. Two bounds hold for these: a request waits at least for nothing,
//! and at most for the other ones that were in flight at once in the recording.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::analysis::histogram::Histogram;
use crate::operation::access::is_passed_on;
use crate::operation::block::{BlockRequest, FlushRole, RequestEnd};
use crate::units::DevId;

/// Largest number of requests that are kept of all devices.
const REQUESTS_MAX: usize = 1 << 21;

/// Default number of requests that a device serves at once.
pub const DEPTH: u32 = 32;

/// Wanted properties of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWish {
    /// Time of a request in service; `None`: the median of the recording.
    pub latency_ns: Option<u64>,
    /// Requests that are served at once; `None`: [`DEPTH`].
    pub depth: Option<u32>,
}

/// Recorded requests of a device.
#[derive(Clone, Debug, Default)]
struct QueueArrivals {
    /// Arrival and completion of each request.
    times: Vec<(u64, u64)>,
    /// Times in service.
    service: Histogram,
    /// Times from the arrival to the completion.
    whole: Histogram,
}

/// Requests of devices.
#[derive(Clone, Debug, Default)]
pub struct DeviceQueues {
    devices: BTreeMap<DevId, QueueArrivals>,
    kept: usize,
    /// Requests beyond the limit.
    pub left_out: u64,
    /// Requests whose begin or end is not known.
    pub without_times: u64,
}

/// Times that requests would need.
#[derive(Clone, Debug)]
pub struct QueuePrediction {
    /// Number of requests.
    pub requests: u64,
    /// Times of the recording, from the arrival to the completion.
    pub recorded: Histogram,
    /// Time in service of each request in the model.
    pub latency_ns: u64,
    /// Requests that the device of the model serves at once.
    pub depth: u32,
    /// Times from the arrival to the completion in the model.
    pub predicted: Histogram,
    /// Sum of the times before the service in the model.
    pub waited_ns: u64,
    /// Largest time before the service of a request whose program keeps no more requests in flight
    /// than in the recording.
    pub waited_bound_ns: u64,
    /// Largest number of requests in flight in the recording.
    pub in_flight: u64,
    /// Shortest time in which the device serves all requests.
    pub busy_ns: u64,
    /// Time from the first arrival to the last completion in the recording.
    pub span_ns: u64,
}

impl DeviceQueues {
    /// Takes a request that has ended.
    pub(super) fn ended(&mut self, request: &BlockRequest) {
        let is_done = request.ending == Some(RequestEnd::Completed) && !request.is_stillborn;
        if !is_done || is_passed_on(request) || request.flush == FlushRole::Demand {
            return;
        }
        let (Some(arrival), Some(end)) = (request.begin(), request.completed) else {
            self.without_times += 1;
            return;
        };
        if self.kept >= REQUESTS_MAX {
            self.left_out += 1;
            return;
        }
        self.kept += 1;
        let issued = request.reissued.or(request.issued).unwrap_or(arrival);
        let device = self.devices.entry(request.dev).or_default();
        device.service.add(end.0.saturating_sub(issued.0));
        device.whole.add(end.0.saturating_sub(arrival.0));
        device.times.push((arrival.0, end.0));
    }

    /// Returns the predictions for each device.
    pub fn predictions(&self, wish: DeviceWish) -> Vec<(DevId, QueuePrediction)> {
        let prediction = |(dev, device): (&DevId, &QueueArrivals)| (*dev, device.predict(wish));
        self.devices.iter().map(prediction).collect()
    }
}

impl QueueArrivals {
    fn predict(&self, wish: DeviceWish) -> QueuePrediction {
        let latency_ns = wish.latency_ns.or(self.service.percentile(500)).unwrap_or(0);
        let depth = wish.depth.unwrap_or(DEPTH).max(1);
        let mut arrivals: Vec<u64> = self.times.iter().map(|(arrival, _)| *arrival).collect();
        arrivals.sort_unstable();
        let mut free: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut predicted = Histogram::default();
        let mut waited_ns = 0_u64;
        for arrival in &arrivals {
            let is_free = free.len() < depth as usize;
            let server = if is_free { None } else { free.pop() };
            let begin = server.map_or(*arrival, |Reverse(end)| end.max(*arrival));
            let end = begin.saturating_add(latency_ns);
            free.push(Reverse(end));
            waited_ns = waited_ns.saturating_add(begin - arrival);
            predicted.add(end - arrival);
        }
        let in_flight = in_flight(&self.times);
        let requests = arrivals.len() as u64;
        let rounds = requests.div_ceil(depth.into());
        let last = self.times.iter().map(|(_, end)| *end).max().unwrap_or(0);
        QueuePrediction {
            requests,
            recorded: self.whole.clone(),
            latency_ns,
            depth,
            predicted,
            waited_ns,
            waited_bound_ns: (in_flight.saturating_sub(1) / u64::from(depth))
                .saturating_mul(latency_ns),
            in_flight,
            busy_ns: rounds.saturating_mul(latency_ns),
            span_ns: last.saturating_sub(arrivals.first().copied().unwrap_or(last)),
        }
    }
}

/// Returns the largest number of requests that were in flight at once.
fn in_flight(times: &[(u64, u64)]) -> u64 {
    let ends = times.iter().map(|(_, end)| (*end, false));
    let mut changes: Vec<(u64, bool)> =
        times.iter().map(|(arrival, _)| (*arrival, true)).chain(ends).collect();
    // At the same time, one ends before another one arrives.
    changes.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, arrives) in changes {
        now = if arrives { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}
