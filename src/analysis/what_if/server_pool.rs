//! Device of a model: as many servers as its depth, the same time for each request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::analysis::histogram::Histogram;

/// Times of all requests in a model.
#[derive(Clone, Debug, Default)]
pub struct ModelTimes {
    /// Times from the arrival to the completion.
    pub times: Histogram,
    /// Sum of the times before the service.
    pub waited_ns: u64,
    /// Time from the first arrival to the last completion.
    pub span_ns: u64,
}

/// Servers that take requests in the order of their arrival.
#[derive(Clone, Debug)]
pub(super) struct ServerPool {
    latency_ns: u64,
    depth: usize,
    /// Times at which servers are free that have had a request.
    free: BinaryHeap<Reverse<u64>>,
    first_ns: Option<u64>,
    last_ns: u64,
    result: ModelTimes,
}

impl ServerPool {
    /// Creates a pool of free servers.
    pub(super) fn new(latency_ns: u64, depth: u32) -> Self {
        Self {
            latency_ns,
            depth: depth as usize,
            free: BinaryHeap::new(),
            first_ns: None,
            last_ns: 0,
            result: ModelTimes::default(),
        }
    }

    /// Serves a request, and returns the time of its completion: no earlier than that of any
    /// request before. Arrivals never go back.
    pub(super) fn serve(&mut self, arrival: u64) -> u64 {
        let is_free = self.free.len() < self.depth;
        let server = if is_free { None } else { self.free.pop() };
        let begin = server.map_or(arrival, |Reverse(end)| end.max(arrival));
        let end = begin.saturating_add(self.latency_ns);
        self.free.push(Reverse(end));
        self.result.waited_ns = self.result.waited_ns.saturating_add(begin - arrival);
        self.result.times.add(end - arrival);
        self.first_ns.get_or_insert(arrival);
        self.last_ns = end;
        end
    }

    /// Returns the times of all requests.
    pub(super) fn finish(mut self) -> ModelTimes {
        self.result.span_ns = self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns));
        self.result
    }
}
