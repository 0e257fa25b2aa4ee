//! Queue of a device with another latency and depth, for the requests of a recording.
//!
//! The device has as many servers as its depth. They take requests in the order of their arrival,
//! and need the same time for each. There are two models of the programs. In the *open* one
//! requests arrive as they were recorded. In the *closed* one threads wait for their requests
//! ([`closed_loop`]). Programs that wait less than the closed model says, because they send by the
//! clock or can have more in flight, are between the two.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::closed_loop::{TimedRequest, closed_loop};
use super::server_pool::{ModelTimes, ServerPool};
use crate::analysis::histogram::Histogram;
use crate::operation::access::is_passed_on;
use crate::operation::block::{BlockRequest, FlushRole, RequestEnd};
use crate::units::{DevId, KernelTime, Tid};

/// Largest number of requests that are kept of all devices, and of asynchronous operations.
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
    /// Requests in the order of their completion.
    requests: Vec<TimedRequest>,
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
    /// Begin and end of asynchronous operations, by thread.
    asynchronous: BTreeMap<Tid, Vec<(u64, u64)>>,
    asynchronous_kept: usize,
    /// Asynchronous operations beyond the limit.
    pub asynchronous_left_out: u64,
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
    /// Times in the model in which requests arrive as recorded.
    pub open: ModelTimes,
    /// Times in the model in which threads wait for their requests.
    pub closed: ModelTimes,
    /// Largest time before the service of a request if no more are in flight than in the recording,
    /// or than asynchronous operations were without a result.
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
        let end = end.max(arrival);
        let issued = request.reissued.or(request.issued).unwrap_or(arrival);
        let device = self.devices.entry(request.dev).or_default();
        device.service.add(end.0.saturating_sub(issued.0));
        device.whole.add(end.0.saturating_sub(arrival.0));
        let thread = request.submitter.map(|by| by.tid);
        device.requests.push(TimedRequest { thread, arrival: arrival.0, end: end.0 });
    }

    /// Takes the begin and end of an asynchronous operation of a thread.
    pub(super) fn async_ended(&mut self, thread: Tid, begin: KernelTime, end: KernelTime) {
        if self.asynchronous_kept >= REQUESTS_MAX {
            self.asynchronous_left_out += 1;
            return;
        }
        self.asynchronous_kept += 1;
        self.asynchronous.entry(thread).or_default().push((begin.0, end.0));
    }

    /// Returns the predictions for each device, most requests first.
    pub fn predictions(&self, wish: DeviceWish) -> Vec<(DevId, QueuePrediction)> {
        let by_thread: BTreeMap<Tid, u64> =
            self.asynchronous.iter().map(|(tid, times)| (*tid, in_flight(times))).collect();
        let all: Vec<(u64, u64)> = self.asynchronous.values().flatten().copied().collect();
        let operations = OperationsInFlight { by_thread, all: in_flight(&all) };
        let prediction =
            |(dev, device): (&DevId, &QueueArrivals)| (*dev, device.predict(wish, &operations));
        let mut predictions: Vec<_> = self.devices.iter().map(prediction).collect();
        predictions.sort_by_key(|(dev, queue)| (Reverse(queue.requests), *dev));
        predictions
    }
}

/// Asynchronous operations in flight at once.
#[derive(Clone, Debug)]
struct OperationsInFlight {
    by_thread: BTreeMap<Tid, u64>,
    all: u64,
}

impl QueueArrivals {
    fn predict(&self, wish: DeviceWish, operations: &OperationsInFlight) -> QueuePrediction {
        let latency_ns = wish.latency_ns.or(self.service.percentile(500)).unwrap_or(0);
        let depth = wish.depth.unwrap_or(DEPTH).max(1);
        let times: Vec<(u64, u64)> =
            self.requests.iter().map(|request| (request.arrival, request.end)).collect();
        let mut arrivals: Vec<u64> = times.iter().map(|(arrival, _)| *arrival).collect();
        arrivals.sort_unstable();
        let mut pool = ServerPool::new(latency_ns, depth);
        for arrival in &arrivals {
            pool.serve(*arrival);
        }
        let in_flight = in_flight(&times);
        let in_flight_bound = in_flight.max(operations.all);
        let requests = arrivals.len() as u64;
        let rounds = requests.div_ceil(depth.into());
        let last = times.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let closed_pool = ServerPool::new(latency_ns, depth);
        QueuePrediction {
            requests,
            recorded: self.whole.clone(),
            latency_ns,
            depth,
            open: pool.finish(),
            closed: closed_loop(&self.requests, &operations.by_thread, closed_pool),
            waited_bound_ns: (in_flight_bound.saturating_sub(1) / u64::from(depth))
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
