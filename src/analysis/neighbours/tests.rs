//! Requests whose service is known by construction.

use std::cell::Cell;

use super::*;
use crate::event::block::RequestOp;
use crate::operation::attribution::{BlockContents, LastWriter};
use crate::operation::block::EventContext;
use crate::operation::model::ProcessInfo;
use crate::operation::test_fixtures;
use crate::units::CpuId;

const DEV: DevId = DevId(7);

/// A request: process, then the times of its bio, issue and completion.
#[derive(Clone, Copy)]
struct Timed(u32, [u64; 3]);

/// Fold of requests, and their number.
struct Device0 {
    fold: Neighbours,
    requests: Cell<u64>,
    steps: Vec<(u64, Ordered)>,
}

/// A step of a request.
enum Ordered {
    Queued(BlockRequest),
    Issued(BlockRequest),
    Ended(BlockRequest, Vec<Piece>),
}

impl Device0 {
    fn new() -> Self {
        let mut fold = Neighbours::new(Filter::default());
        for number in 1..9_u32 {
            let pid = Pid(100 + i32::try_from(number).expect("small"));
            let comm = format!("p{number}").into_bytes();
            let is_kernel = number == 8;
            let info = ProcessInfo { comm, is_kernel, ..ProcessInfo::new(ProcessKey(number), pid) };
            let Ok(()) = fold.step(KernelTime(0), &Step::ProcessSeen(&info));
        }
        Self { fold, requests: Cell::new(0), steps: Vec::new() }
    }

    fn request(&self, times: [u64; 3]) -> BlockRequest {
        let id = RequestId(self.requests.replace(self.requests.get() + 1));
        let [queued, issued, completed] = times;
        let issued = Some(KernelTime(issued));
        let times = [queued, completed];
        let request = test_fixtures::request(DEV, RequestOp::Write, id.0 * 8, 8, times);
        BlockRequest { id, issued, ..request }
    }

    fn pieces(&self, request: &BlockRequest, process: u32) -> Vec<Piece> {
        let mut piece = test_fixtures::piece(request, BlockContents::Unknown);
        piece.queued.pid = Pid(100 + i32::try_from(process).expect("small"));
        vec![piece]
    }

    fn add(&mut self, request: BlockRequest, pieces: Vec<Piece>) {
        let time = |time: Option<KernelTime>| time.map_or(0, |time| time.0);
        let end = time(request.completed);
        self.steps.push((time(request.queued), Ordered::Queued(request.clone())));
        if request.issued.is_some() {
            self.steps.push((time(request.issued), Ordered::Issued(request.clone())));
        }
        self.steps.push((end, Ordered::Ended(request, pieces)));
    }

    fn of(requests: &[Timed]) -> Self {
        let mut device = Self::new();
        for Timed(process, times) in requests {
            let request = device.request(*times);
            let pieces = device.pieces(&request, *process);
            device.add(request, pieces);
        }
        device
    }

    fn run(mut self) -> Neighbours {
        self.steps.sort_by_key(|(time, _)| *time);
        for (time, step) in &self.steps {
            let mut push = |step: BlockStep<'_>, pieces: &[Piece]| {
                let step = Step::Block { step: &step, thread: None, pieces };
                let Ok(()) = self.fold.step(KernelTime(*time), &step);
            };
            match step {
                Ordered::Queued(request) => push(BlockStep::Queued(request), &[]),
                Ordered::Issued(request) => push(BlockStep::Issued(request), &[]),
                Ordered::Ended(request, pieces) => push(BlockStep::Ended(request), pieces),
            }
        }
        self.fold
    }
}

fn process(number: u32) -> DiskCause {
    DiskCause::Process(ProcessKey(number))
}

fn blame(fold: &Neighbours, victim: u32, aggressor: DiskCause) -> Blame {
    fold.cells.get(&(DEV, process(victim), aggressor)).copied().unwrap_or_default()
}

/// Waiting of a process: all, for itself, for others, idle, unknown.
fn waiting(fold: &Neighbours, victim: u32) -> [u64; 5] {
    let row = fold.victims.get(&(DEV, process(victim))).copied().unwrap_or_default();
    let sum = row.own_ns + row.others_ns + row.idle_ns + row.unknown_ns;
    assert_eq!(row.waited_ns, sum, "all of the time is accounted for");
    [row.waited_ns, row.own_ns, row.others_ns, row.idle_ns, row.unknown_ns]
}

#[test]
fn queue_before_the_device_is_caused_by_the_request_in_service() {
    // One request at a time: process 2 keeps the device busy for 30, then 1 is served for 10.
    let fold = Device0::of(&[Timed(2, [0, 0, 30]), Timed(1, [5, 30, 40])]).run();
    assert_eq!(waiting(&fold, 1), [35, 10, 25, 0, 0]);
    let expected = Blame { caused_ns: 25, shared_ns: 0, by_link: [25, 0, 0] };
    assert_eq!(blame(&fold, 1, process(2)), expected);
    assert_eq!(waiting(&fold, 2), [30, 30, 0, 0, 0]);
    assert_eq!(fold.depth_max(DEV), 1);
}

#[test]
fn queue_in_the_device_is_shared() {
    // First in, first out: both are in service at once, the device works on 2 for 30, on 1 for 10.
    let fold = Device0::of(&[Timed(2, [0, 0, 30]), Timed(1, [5, 5, 40])]).run();
    assert_eq!(waiting(&fold, 1), [35, 10, 25, 0, 0]);
    let expected = Blame { caused_ns: 0, shared_ns: 25, by_link: [25, 0, 0] };
    assert_eq!(blame(&fold, 1, process(2)), expected);
    // A request that overtakes another one, in a device with two queues.
    let fold = Device0::of(&[Timed(2, [0, 0, 100]), Timed(1, [10, 10, 20])]).run();
    assert_eq!(waiting(&fold, 1), [10, 10, 0, 0, 0]);
    assert_eq!(waiting(&fold, 2), [100, 90, 10, 0, 0]);
    assert_eq!(blame(&fold, 2, process(1)).shared_ns, 10);
    assert_eq!(fold.depth_max(DEV), 2);
}

#[test]
fn idle_disk_and_a_queue_before_the_first_event_of_a_request() {
    let mut device = Device0::of(&[Timed(2, [0, 0, 30])]);
    // The bio waited for a request from 10 on; the request was made at 50, and issued at 60.
    let request = device.request([50, 60, 70]);
    let mut pieces = device.pieces(&request, 1);
    pieces[0].queued.time = KernelTime(10);
    device.add(request, pieces);
    let fold = device.run();
    assert_eq!(waiting(&fold, 1), [60, 10, 20, 30, 0]);
    assert_eq!(blame(&fold, 1, process(2)).caused_ns, 20);
}

#[test]
fn waiting_at_once_counts_once() {
    // Three requests of 1, the first one is served last.
    let requests = [
        Timed(1, [0, 0, 100]),
        Timed(1, [10, 10, 30]),
        Timed(2, [10, 30, 50]),
        Timed(1, [40, 50, 60]),
    ];
    let fold = Device0::of(&requests).run();
    assert_eq!(waiting(&fold, 1), [100, 80, 20, 0, 0]);
    assert_eq!(waiting(&fold, 2), [40, 20, 20, 0, 0]);
    let row = fold.victims.get(&(DEV, process(1))).expect("a row");
    assert_eq!((row.alone.requests, row.beside.requests), (1, 2));
}

#[test]
fn merged_bios_wait_from_their_own_begin_and_share_the_service() {
    let mut device = Device0::of(&[Timed(3, [0, 0, 30])]);
    // A request of 8 sectors: 6 of process 1 since 5, 2 of process 2 since 20.
    let request = device.request([5, 30, 70]);
    let mut pieces = [1, 2].map(|number| device.pieces(&request, number).remove(0));
    pieces[0].nr_sector = 6;
    pieces[0].queued.time = KernelTime(5);
    pieces[1].nr_sector = 2;
    pieces[1].queued.time = KernelTime(20);
    device.add(request, pieces.to_vec());
    let fold = device.run();
    assert_eq!(waiting(&fold, 1), [65, 30, 35, 0, 0]);
    assert_eq!(waiting(&fold, 2), [50, 10, 40, 0, 0]);
    assert_eq!(blame(&fold, 1, process(2)).caused_ns, 0, "both were in service");
    assert_eq!(blame(&fold, 1, process(2)).shared_ns, 10);
}

#[test]
fn written_back_data_is_of_its_writer_and_kernel_threads_wait_for_themselves() {
    let mut device = Device0::of(&[Timed(1, [5, 30, 40])]);
    let request = device.request([0, 0, 30]);
    let mut pieces = device.pieces(&request, 8);
    pieces[0].for_others = true;
    let writer = |number: u32| LastWriter {
        process: ProcessKey(number),
        pid: Pid(1),
        comm: b"w".as_slice().into(),
    };
    pieces[0].writers = vec![writer(2)];
    device.add(request, pieces);
    // Data without a known writer.
    let request = device.request([40, 40, 50]);
    let mut pieces = device.pieces(&request, 8);
    pieces[0].for_others = true;
    device.add(request, pieces);
    let request = device.request([41, 50, 60]);
    let pieces = device.pieces(&request, 1);
    device.add(request, pieces);
    let fold = device.run();
    assert_eq!(blame(&fold, 1, process(2)).by_link, [0, 25, 0]);
    assert_eq!(blame(&fold, 1, DiskCause::Unknown).by_link, [0, 0, 9]);
    assert!(fold.victims.get(&(DEV, process(2))).is_none(), "the kernel waits, not the writer");
    assert!(fold.victims.get(&(DEV, DiskCause::Kernel)).is_some());
}

#[test]
fn flush_belongs_to_the_process_that_demands_it() {
    let mut device = Device0::of(&[Timed(2, [5, 25, 40])]);
    let demand = BlockRequest {
        issued: None,
        nr_sector: 0,
        flush: FlushRole::Demand,
        ..device.request([0, 0, 20])
    };
    let mut pieces = device.pieces(&demand, 1);
    pieces[0].nr_sector = 0;
    let serves = Some(FlushLink { request: demand.id, waiting: 1 });
    let flush = BlockRequest {
        nr_sector: 0,
        op: RequestOp::Flush,
        flush: FlushRole::Device { serves },
        ..device.request([1, 1, 20])
    };
    device.add(flush, Vec::new());
    let context = pieces[0].queued;
    device.fold.flushed_for.insert(demand.id, process(1));
    device.add(demand, pieces);
    assert_eq!(context, EventContext { cpu: CpuId(0), ..context });
    let fold = device.run();
    assert_eq!(waiting(&fold, 1), [20, 19, 0, 1, 0]);
    assert_eq!(blame(&fold, 2, process(1)).by_link, [15, 0, 0]);
    assert_eq!(waiting(&fold, 2), [35, 15, 15, 5, 0]);
}

/// Fails if a process waits for others while the device works on its own request.
#[test]
fn own_request_with_data_of_another_is_own_time() {
    let mut device = Device0::of(&[]);
    let request = device.request([0, 0, 30]);
    let mut pieces = device.pieces(&request, 1);
    pieces[0].for_others = true;
    let (process, comm) = (ProcessKey(2), b"w".as_slice().into());
    pieces[0].writers = vec![LastWriter { process, pid: Pid(102), comm }];
    device.add(request, pieces);
    // Another one waits for the data of process 2, too: that is not its own request.
    let request = device.request([10, 30, 40]);
    let pieces = device.pieces(&request, 3);
    device.add(request, pieces);
    let fold = device.run();
    assert_eq!(waiting(&fold, 1), [30, 30, 0, 0, 0]);
    assert_eq!(waiting(&fold, 3), [30, 10, 20, 0, 0]);
}

#[test]
fn losses_are_counted_and_leave_no_false_owner() {
    let mut device = Device0::of(&[Timed(1, [5, 30, 40])]);
    // The issue of this one was lost: the disk looks idle meanwhile.
    let request = BlockRequest { issued: None, ..device.request([0, 0, 30]) };
    let pieces = device.pieces(&request, 2);
    device.add(request, pieces);
    // The end of this one was lost.
    let ending = Some(RequestEnd::Unfinished(UnfinishedRequest::GivenUp));
    let request = BlockRequest { ending, ..device.request([50, 50, 90]) };
    device.add(request, Vec::new());
    let fold = device.run();
    assert_eq!((fold.without_issue, fold.lost_ends), (1, 1));
    assert_eq!(waiting(&fold, 1), [35, 10, 0, 25, 0]);
}

#[test]
fn request_in_service_at_the_end_of_the_capture_is_not_certain() {
    let mut device = Device0::of(&[]);
    let ending = Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd));
    for (process, times) in [(2, [0, 0, 100]), (1, [10, 100, 100])] {
        let request = BlockRequest { ending, ..device.request(times) };
        let pieces = device.pieces(&request, process);
        device.add(request, pieces);
    }
    let fold = device.run();
    assert_eq!(blame(&fold, 1, process(2)).by_link, [0, 0, 90]);
}

/// Fails if the parts of the waiting of a process do not add up, in any order of requests.
#[test]
fn all_waiting_is_accounted_for() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut requests = Vec::new();
    for number in 0..997 {
        let queued = number * 7 + random(50);
        let issued = queued + random(40);
        let owner = 1 + u32::try_from(random(4)).expect("small");
        requests.push(Timed(owner, [queued, issued, issued + 1 + random(300)]));
    }
    let fold = Device0::of(&requests).run();
    for victim in 1..5 {
        let [waited, _, others, _, unknown] = waiting(&fold, victim);
        assert!(waited > 1000 && unknown == 0);
        let all = fold.cells.iter().filter(|((_, of, _), _)| *of == process(victim));
        assert_eq!(all.map(|(_, blame)| blame.waited_ns()).sum::<u64>(), others);
    }
}
