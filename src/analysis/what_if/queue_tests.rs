//! Queues beside results by hand, and recordings of a device that is the model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::closed_loop::{TimedRequest, closed_loop};
use super::device_queue::DeviceQueues;
use super::server_pool::ServerPool;
use super::*;
use crate::event::block::RequestOp;
use crate::operation::block::{BlockRequest, Submitter, SubmitterSource};
use crate::operation::test_fixtures::request;
use crate::units::{DevId, Pid, Tid};

/// Requests by arrival and completion.
fn queues(times: &[[u64; 2]]) -> DeviceQueues {
    let mut queues = DeviceQueues::default();
    for [arrival, end] in times {
        queues.ended(&timed(*arrival, *end));
    }
    queues
}

fn timed(arrival: u64, end: u64) -> BlockRequest {
    let request = request(DevId(7), RequestOp::Read, 0, 8, [arrival, end]);
    BlockRequest { issued: Some(KernelTime(arrival)), ..request }
}

fn predict(times: &[[u64; 2]], latency_ns: u64, depth: u32) -> QueuePrediction {
    let wish = DeviceWish { latency_ns: Some(latency_ns), depth: Some(depth) };
    queues(times).predictions(wish).remove(0).1
}

#[test]
fn queue_of_one_server_is_that_of_lindley() {
    let times = [[0, 100], [10, 100], [20, 120], [200, 230]];
    // One at a time, 50 each: waits of 0, 40, 80, 0.
    let queue = predict(&times, 50, 1);
    assert_eq!(
        (queue.open.waited_ns, queue.open.times.sum(), queue.open.times.max()),
        (120, 320, 130)
    );
    assert_eq!((queue.in_flight, queue.waited_bound_ns), (3, 100));
    assert_eq!((queue.busy_ns, queue.span_ns, queue.requests), (200, 230, 4));
    assert_eq!(queue.recorded.sum(), 100 + 90 + 100 + 30);
    // Two at a time: the third waits for the first, 30.
    let queue = predict(&times, 50, 2);
    assert_eq!((queue.open.waited_ns, queue.waited_bound_ns, queue.busy_ns), (30, 50, 100));
    // As many as there are: none waits.
    let queue = predict(&times, 50, 32);
    assert_eq!((queue.open.waited_ns, queue.open.times.sum(), queue.waited_bound_ns), (0, 200, 0));
}

#[test]
fn latency_of_the_recording_is_the_median_of_its_services() {
    let wish = DeviceWish { latency_ns: None, depth: Some(1) };
    let (_, queue) = queues(&[[0, 30], [100, 110], [200, 900]]).predictions(wish).remove(0);
    assert_eq!((queue.latency_ns, queue.depth), (30, 1));
    let wish = DeviceWish { latency_ns: Some(5), depth: None };
    assert_eq!(queues(&[[0, 30]]).predictions(wish).remove(0).1.depth, DEPTH);
}

#[test]
fn requests_without_an_end_are_no_requests_of_the_model() {
    let mut queues = queues(&[[0, 30]]);
    queues.ended(&BlockRequest { completed: None, ..timed(1, 2) });
    queues.ended(&BlockRequest { ending: None, ..timed(1, 2) });
    assert_eq!(queues.without_times, 1);
    assert_eq!(queues.predictions(DeviceWish::default())[0].1.requests, 1);
}

/// Thread, arrival and completion of a request.
type ThreadRequest = (i32, u64, u64);

/// Thread, and its greatest number of asynchronous operations in flight.
type ThreadDepth = (i32, u64);

/// Closed model of requests: the span, the time before the
/// service, and the sum of the times.
fn closed(requests: &[ThreadRequest], in_flight: &[ThreadDepth], device: ServerPool) -> [u64; 3] {
    let request = |(thread, arrival, end): &ThreadRequest| TimedRequest {
        thread: Some(Tid(*thread)),
        arrival: *arrival,
        end: *end,
    };
    let requests: Vec<TimedRequest> = requests.iter().map(request).collect();
    let in_flight = in_flight.iter().map(|(thread, number)| (Tid(*thread), *number)).collect();
    let times = closed_loop(&requests, &in_flight, device);
    assert_eq!(times.times.count(), requests.len() as u64);
    [times.span_ns, times.waited_ns, times.times.sum()]
}

#[test]
fn thread_sends_the_next_request_after_its_think_time() {
    let requests = [(1, 0, 10), (1, 15, 25), (1, 31, 40)];
    // 0, 105, 211 for 100 each; 0, 6, 13 for 1 each.
    assert_eq!(closed(&requests, &[], ServerPool::new(100, 4)), [311, 0, 300]);
    assert_eq!(closed(&requests, &[], ServerPool::new(1, 4)), [14, 0, 3]);
}

#[test]
fn threads_wait_for_one_another_at_the_device() {
    let requests = [(1, 0, 10), (1, 20, 30), (2, 5, 15)];
    // Thread 1: 0 to 100; thread 2: 5, waits 95, to 200; thread 1: 110, waits 90, to 300.
    assert_eq!(closed(&requests, &[], ServerPool::new(100, 1)), [300, 185, 485]);
    assert_eq!(closed(&requests, &[], ServerPool::new(100, 2)), [210, 0, 300]);
}

#[test]
fn asynchronous_operations_wait_at_their_greatest_number() {
    let requests = [(1, 0, 5), (1, 10, 15), (1, 20, 25)];
    // The third waits for one of the two before it: 0, 10, 110.
    assert_eq!(closed(&requests, &[(1, 2)], ServerPool::new(100, 4)), [210, 0, 300]);
    assert_eq!(closed(&requests, &[(1, 3)], ServerPool::new(100, 4)), [120, 0, 300]);
    // Of another thread nothing follows: 0, 105, 210.
    assert_eq!(closed(&requests, &[(2, 3)], ServerPool::new(100, 4)), [310, 0, 300]);
}

#[test]
fn first_request_of_a_thread_is_as_late_as_the_last_completion_before_it() {
    let requests = [(1, 0, 10), (2, 12, 20), (3, 11, 30), (4, 25, 40)];
    // Threads 2 and 3 begin after thread 1, at 102 and 101; thread 4 after thread 2, at 207.
    assert_eq!(closed(&requests, &[], ServerPool::new(100, 4)), [307, 0, 400]);
    // None is the cause of another one at the same time.
    assert_eq!(closed(&[(1, 5, 5), (2, 5, 5)], &[], ServerPool::new(100, 4)), [100, 0, 200]);
}

#[test]
fn closed_model_of_a_device_knows_threads_and_their_operations() {
    let mut queues = DeviceQueues::default();
    for [arrival, end] in [[0, 5], [10, 15], [20, 25]] {
        let by = Submitter { pid: Pid(1), tid: Tid(1), source: SubmitterSource::Bio };
        queues.ended(&BlockRequest { submitter: Some(by), ..timed(arrival, end) });
    }
    let wish = DeviceWish { latency_ns: Some(100), depth: Some(1) };
    let queue = queues.predictions(wish).remove(0).1;
    assert_eq!((queue.open.span_ns, queue.closed.span_ns, queue.waited_bound_ns), (300, 310, 0));
    // Three are without a result at once: all may be in flight.
    for [begin, end] in [[0, 30], [10, 31], [20, 32]] {
        queues.async_ended(Tid(1), KernelTime(begin), KernelTime(end));
    }
    let queue = queues.predictions(wish).remove(0).1;
    assert_eq!((queue.closed.span_ns, queue.closed.waited_ns), (300, 90 + 180));
    assert_eq!((queue.in_flight, queue.waited_bound_ns), (1, 200));
}

proptest! {
    /// Requests of a recording of the device that is asked about arrive as they did.
    #[test]
    fn same_device_gives_the_recorded_times(
        arrivals in prop::collection::btree_set(0_u64..2_000, 1..60),
        threads in prop::collection::vec(0_i32..4, 60),
        latency in 1_u64..100,
        depth in 1_u32..5,
        limit in prop::option::of(1_u64..5),
    ) {
        let arrivals: BTreeSet<u64> = arrivals;
        let mut pool = ServerPool::new(latency, depth);
        let recorded: Vec<TimedRequest> = arrivals
            .iter()
            .zip(&threads)
            .map(|(arrival, thread)| TimedRequest {
                thread: Some(Tid(*thread)),
                arrival: *arrival,
                end: pool.serve(*arrival),
            })
            .collect();
        let limits: BTreeMap<Tid, u64> =
            limit.into_iter().flat_map(|limit| (0..4).map(move |tid| (Tid(tid), limit))).collect();
        let open = pool.finish();
        let closed = closed_loop(&recorded, &limits, ServerPool::new(latency, depth));
        prop_assert_eq!(closed.span_ns, open.span_ns);
        prop_assert_eq!(closed.waited_ns, open.waited_ns);
        prop_assert_eq!(closed.times.percentile(500), open.times.percentile(500));
    }
}
