//! Closed model of a queue: threads wait for their requests.
//!
//! ```text
//!   recorded   1 ███        2 ███        3 ██      think times ── between a completion and the
//!                   ╰─ 4 ms ─╯  ╰─ 5 ms ─╯         next request
//!   model      1 ████████        2 ████████        3 ████████
//!                        ╰─ 4 ms ─╯        ╰─ 5 ms ─╯
//! ```
//!
//! A thread sends a request when as many of its earlier ones are complete as were so in the
//! recording, and after the same time as then. If it has asynchronous operations, the device may
//! have been too fast for them to be in flight together: then it waits only while it has as many in
//! flight as it ever had operations without a result. The first request of a thread is as late as
//! the last completion before it, whosesoever that was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::server_pool::{ModelTimes, ServerPool};
use crate::units::Tid;

/// Request of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedRequest {
    /// Thread that submitted it, if it is known.
    pub(super) thread: Option<Tid>,
    /// Time of its arrival.
    pub(super) arrival: u64,
    /// Time of its completion.
    pub(super) end: u64,
}

/// Conditions under which a thread sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextRequest {
    /// Number of its requests that have to be complete.
    needs: usize,
    /// Time between the last of these, or the request before it, and this one.
    think_ns: u64,
}

/// Requests of a thread, in the order of their arrival.
#[derive(Debug, Default)]
struct RequestingThread {
    requests: Vec<NextRequest>,
    /// Completions in the model.
    ends: Vec<u64>,
}

/// Threads that begin after a request: their places, and the times between.
type Starts = HashMap<(usize, usize), Vec<(usize, u64)>>;

/// Returns the times of these requests if each thread waits as it did. `in_flight`: number of
/// requests that a thread is known to keep in flight.
pub(super) fn closed_loop(
    requests: &[TimedRequest],
    in_flight: &BTreeMap<Tid, u64>,
    mut pool: ServerPool,
) -> ModelTimes {
    let by_thread = by_thread(requests);
    let (starts, mut next) = starts(&by_thread);
    let requesting = |thread: &ThreadTimes| {
        let limit = thread.thread.and_then(|tid| in_flight.get(&tid)).copied();
        RequestingThread::new(&thread.times, limit)
    };
    let mut threads: Vec<RequestingThread> = by_thread.iter().map(requesting).collect();
    while let Some(Reverse((arrival, place))) = next.pop() {
        let end = pool.serve(arrival);
        let Some(thread) = threads.get_mut(place) else { continue };
        thread.ends.push(end);
        next.extend(thread.next_arrival(arrival).map(|at| Reverse((at, place))));
        let started = starts.get(&(place, thread.ends.len() - 1)).into_iter().flatten();
        next.extend(started.map(|(place, after)| Reverse((end.saturating_add(*after), *place))));
    }
    pool.finish()
}

/// Recorded arrivals and completions of a thread's requests, in the order of their arrival.
#[derive(Debug)]
struct ThreadTimes {
    thread: Option<Tid>,
    times: Vec<(u64, u64)>,
}

/// Returns the requests by thread.
fn by_thread(requests: &[TimedRequest]) -> Vec<ThreadTimes> {
    let mut threads: BTreeMap<Option<Tid>, Vec<(u64, u64)>> = BTreeMap::new();
    for request in requests {
        threads.entry(request.thread).or_default().push((request.arrival, request.end));
    }
    let sorted = |(thread, mut times): (Option<Tid>, Vec<(u64, u64)>)| {
        times.sort_unstable();
        ThreadTimes { thread, times }
    };
    threads.into_iter().map(sorted).collect()
}

/// Returns the threads that begin after a request, and the arrivals of those that do not.
fn starts(threads: &[ThreadTimes]) -> (Starts, BinaryHeap<Reverse<(u64, usize)>>) {
    let firsts = threads
        .iter()
        .enumerate()
        .filter_map(|(place, thread)| thread.times.first().map(|(first, _)| (*first, place)));
    let mut firsts: Vec<(u64, usize)> = firsts.collect();
    firsts.sort_unstable();
    // The latest completion between two beginnings of threads.
    let mut latest: Vec<Option<(u64, (usize, usize))>> = vec![None; firsts.len()];
    for (place, thread) in threads.iter().enumerate() {
        for (request, (_, end)) in thread.times.iter().enumerate() {
            let after = firsts.partition_point(|(first, _)| first <= end);
            if let Some(latest) = latest.get_mut(after) {
                *latest = (*latest).max(Some((*end, (place, request))));
            }
        }
    }
    let (mut starts, mut free, mut cause) = (Starts::new(), BinaryHeap::new(), None);
    for ((first, place), latest) in firsts.into_iter().zip(latest) {
        cause = cause.max(latest);
        match cause {
            Some((end, request)) => starts.entry(request).or_default().push((place, first - end)),
            None => free.push(Reverse((first, place))),
        }
    }
    (starts, free)
}

impl RequestingThread {
    /// Creates a thread of a recording from the arrivals and completions of its requests.
    fn new(times: &[(u64, u64)], in_flight: Option<u64>) -> Self {
        let mut ends: Vec<u64> = times.iter().map(|(_, end)| *end).collect();
        ends.sort_unstable();
        let limit = in_flight.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let mut before = 0;
        let mut requests = Vec::with_capacity(times.len());
        for (sent, (arrival, _)) in times.iter().enumerate() {
            let done = ends.partition_point(|end| end <= arrival).min(sent);
            let needs = limit.map_or(done, |limit| (sent + 1).saturating_sub(limit).min(done));
            let end = needs.checked_sub(1).and_then(|last| ends.get(last)).copied();
            let ready = end.unwrap_or(0).max(before);
            requests.push(NextRequest { needs, think_ns: arrival.saturating_sub(ready) });
            before = *arrival;
        }
        Self { requests, ends: Vec::new() }
    }

    /// Returns the arrival of the request after one that came at this time.
    fn next_arrival(&self, before: u64) -> Option<u64> {
        let next = self.requests.get(self.ends.len())?;
        let end = next.needs.checked_sub(1).and_then(|last| self.ends.get(last)).copied();
        Some(end.unwrap_or(0).max(before).saturating_add(next.think_ns))
    }
}
