//! Rows of events that no kernel would write: exits without entries, two entries, forks of oneself,
//! execs of threads that are gone, block events of no request. The books balance all the same.

use std::convert::Infallible;

use iotrace_perf::event::block::{BlockEvent, BlockPoint, DevicePosition, Rwbs};
use iotrace_perf::event::fault::{FaultEvent, FaultPlace};
use iotrace_perf::event::fs::{AddressUnit, Extent, FsEvent};
use iotrace_perf::event::syscall_table::{CALLS, CallId};
use iotrace_perf::event::task::TaskEvent;
use iotrace_perf::event::{Event, EventKind, FileStat, Name, ReadNames, SeenFd, SysEnter, SysExit};
use iotrace_perf::operation::block::BlockOptions;
use iotrace_perf::operation::context::Observability;
use iotrace_perf::operation::process::Scope;
use iotrace_perf::operation::tracker::Tracker;
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};
use proptest::prelude::*;

use super::checked::Checked;

/// Input of the tracker.
#[derive(Clone, Debug)]
enum Input {
    Event(EventKind),
    SeenTask(i32, i32),
    SeenFd(Box<SeenFd>),
}

struct Nothing;

impl Sink for Nothing {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, _: &Step<'_>) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Few numbers, so that they meet.
fn id() -> impl Strategy<Value = i32> + Clone {
    prop_oneof![20 => 1i32..6, 1 => Just(0), 1 => Just(-1), 1 => Just(i32::MAX)]
}

fn register() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..6,
        1 => Just(u64::MAX),
        1 => Just(u64::from(u32::MAX)),
        1 => Just((-100i64).cast_unsigned()),
        1 => Just(i64::MAX.cast_unsigned()),
        2 => prop::sample::select(vec![0o2_000_000u64, 1030, 4096]),
        1 => any::<u64>(),
    ]
}

fn result() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0i64..6, 2 => Just(4096), 1 => Just(-9), 1 => Just(-2), 1 => Just(i64::MAX), 1 => any::<i64>()]
}

fn call() -> impl Strategy<Value = CallId> {
    let rows = u16::try_from(CALLS.len()).expect("a short table");
    prop_oneof![1 => Just(CallId(rows)), 60 => (0..rows).prop_map(CallId), 10 => Just(CallId(0))]
}

fn stat() -> impl Strategy<Value = Option<FileStat>> {
    let stat = prop::sample::select(vec![0o100_644u32, 0o040_755, 0o060_600, 0o010_600]);
    prop::option::of(stat.prop_map(|mode| FileStat {
        mode,
        dev: DevId::new(8, 1),
        ino: 1,
        size: 10,
    }))
}

fn names() -> impl Strategy<Value = Option<Box<ReadNames>>> {
    let name = || {
        prop::option::of(
            any::<bool>().prop_map(|verified| Name { bytes: b"/a".to_vec(), verified }),
        )
    };
    // A list at any address, also at that of the call, with whole and with cut elements.
    let bytes = prop::sample::select(vec![0, 32, 80, 100, 320]);
    let list = prop::option::of((register(), bytes.prop_map(|bytes| vec![1; bytes])));
    let names = (name(), name(), stat(), list);
    prop::option::of(names.prop_map(|(argument, link, stat, list)| {
        let (second, memory) = (argument.clone(), Vec::new());
        let from = Default::default();
        let read = KernelTime::MIN;
        Box::new(ReadNames {
            argument,
            second,
            from,
            memory,
            list,
            pair: Vec::new(),
            link,
            opened: None,
            is_opened_here: false,
            stat_is_by_handle: false,
            stat,
            read,
        })
    }))
}

fn task() -> impl Strategy<Value = TaskEvent> {
    prop_oneof![
        3 => [id(), id(), id(), id()].prop_map(|[pid, tid, ppid, ptid]| TaskEvent::Fork {
            pid: Pid(pid), tid: Tid(tid), ppid: Pid(ppid), ptid: Tid(ptid),
        }),
        2 => id().prop_map(|pid| TaskEvent::Fork { pid: Pid(pid), tid: Tid(pid), ppid: Pid(1), ptid: Tid(1) }),
        2 => (id(), any::<bool>()).prop_map(|(tid, files)| TaskEvent::NewTask {
            tid: Tid(tid), clone_flags: if files { 0x400 } else { 0 }, comm: None,
        }),
        3 => (id(), id(), any::<bool>()).prop_map(|(pid, tid, exec)| TaskEvent::Comm {
            pid: Pid(pid), tid: Tid(tid), comm: b"name".to_vec(), exec,
        }),
        3 => (id(), id()).prop_map(|(pid, tid)| TaskEvent::Exit { pid: Pid(pid), tid: Tid(tid) }),
    ]
}

fn block() -> impl Strategy<Value = BlockEvent> {
    let point = prop::sample::select(vec![
        BlockPoint::GetRq,
        BlockPoint::GetRq,
        BlockPoint::Insert,
        BlockPoint::Issue,
        BlockPoint::Issue,
        BlockPoint::Complete,
        BlockPoint::Complete,
        BlockPoint::Requeue,
        BlockPoint::BackMerge,
        BlockPoint::FrontMerge,
        BlockPoint::RqMerge,
        BlockPoint::BioQueue,
        BlockPoint::BioQueue,
        BlockPoint::Split,
        BlockPoint::Remap,
        BlockPoint::BioComplete,
    ]);
    let letters = prop::sample::select(vec!["R", "WS", "FWFSM", "FWS", "FF", "DS", "N", ""]);
    let sector = prop_oneof![8 => (0u64..4).prop_map(|it| it * 8), 1 => Just(u64::MAX)];
    let length = prop_oneof![1 => Just(0u32), 6 => Just(8), 1 => Just(16), 1 => Just(u32::MAX)];
    (point, letters, sector, length, prop_oneof![6 => Just(0), 1 => Just(-5)]).prop_map(
        |(point, letters, sector, nr_sector, error)| BlockEvent {
            point,
            dev: DevId::new(7, 0),
            sector,
            nr_sector,
            error,
            rwbs: Rwbs::new(letters.as_bytes()),
            from: (point == BlockPoint::Remap)
                .then_some(DevicePosition { dev: DevId::new(7, 1), sector: sector / 2 }),
            comm: None,
            chain: None,
        },
    )
}

fn file_system() -> impl Strategy<Value = FsEvent> {
    let dev = DevId::new(7, 0);
    let unit = prop::sample::select(vec![AddressUnit::Bytes, AddressUnit::Blocks]);
    let place = (0..9u64, 0..9u64, any::<u64>());
    let extent = (0..3u64, unit, place, any::<bool>()).prop_map(
        move |(ino, unit, (offset, length, address), is_shared)| {
            FsEvent::Extent(Extent { dev, ino, on: dev, unit, offset, length, address, is_shared })
        },
    );
    prop_oneof![
        4 => extent,
        1 => (any::<u64>(), any::<u64>()).prop_map(move |(block, count)| FsEvent::Freed { dev, block, count }),
        1 => (0..3u64).prop_map(move |ino| FsEvent::Evicted { dev, ino }),
        1 => Just(FsEvent::NoExtent),
    ]
}

fn fault() -> impl Strategy<Value = FaultEvent> {
    let address = any::<bool>().prop_map(|it| FaultPlace::Address(if it { 4096 } else { 2 }));
    let page =
        (0..3u64).prop_map(|index| FaultPlace::Page { dev: DevId::new(7, 0), ino: 2, index });
    (prop_oneof![address, page], any::<Option<bool>>())
        .prop_map(|(place, write)| FaultEvent { place, write })
}

fn seen_fd() -> impl Strategy<Value = Box<SeenFd>> {
    (id(), -1i32..6, any::<u32>(), any::<u64>(), any::<bool>(), stat()).prop_map(
        |(pid, fd, flags, position, shared, stat)| {
            let (begin, link) = (KernelTime(3), b"/seen".to_vec());
            Box::new(SeenFd {
                begin,
                pid: Pid(pid),
                fd: Fd(fd),
                flags,
                position: Some(position),
                shared,
                stat,
                link,
            })
        },
    )
}

/// Any input. A choice holds the trees of all its alternatives by value, and copies them: without
/// boxes they would not fit into the stack of a test in a build without optimisation.
fn input() -> impl Strategy<Value = Input> {
    let enter = (call(), [register(), register(), register(), register(), register(), register()])
        .prop_map(|(call, args)| EventKind::SysEnter(SysEnter { call, args }));
    let exit = (call(), result(), names()).prop_map(|(call, ret, names)| {
        EventKind::SysExit(SysExit { call, ret, names, chain: None })
    });
    prop_oneof![
        8 => enter.prop_map(Input::Event).boxed(),
        8 => exit.prop_map(Input::Event).boxed(),
        4 => task().prop_map(|task| Input::Event(EventKind::Task(task))).boxed(),
        4 => block().prop_map(|block| Input::Event(EventKind::Block(block))).boxed(),
        2 => file_system().prop_map(|report| Input::Event(EventKind::Fs(report))).boxed(),
        2 => fault().prop_map(|fault| Input::Event(EventKind::Fault(fault))).boxed(),
        1 => (1u64..9).prop_map(|count| Input::Event(EventKind::Lost(count))).boxed(),
        1 => (id(), id()).prop_map(|(pid, tid)| Input::SeenTask(pid, tid)).boxed(),
        1 => seen_fd().prop_map(Input::SeenFd).boxed(),
    ]
}

/// One input, the thread that was running, and how much later it is.
type Fed = (Input, i32, i32, u64);

/// Mostly threads of their own process, as a kernel would have it; sometimes not.
fn fed() -> impl Strategy<Value = Fed> {
    let who = prop_oneof![6 => id().prop_map(|it| (it, it)), 2 => id().prop_map(|it| (1, it)), 1 => (id(), id())];
    (input(), who, 0u64..3).prop_map(|(input, (pid, tid), later)| (input, pid, tid, later))
}

fn scope() -> impl Strategy<Value = Scope> {
    let any_bool = any::<bool>;
    (any_bool(), any_bool(), any_bool(), prop::collection::vec(1i32..6, 0..3)).prop_map(
        |(system, others, launched, roots)| Scope {
            system,
            all_requests: system || others,
            launched,
            roots: roots.into_iter().map(Pid).collect(),
            own: Pid(5),
            children: true,
            excluded: Vec::new(),
        },
    )
}

fn options() -> impl Strategy<Value = BlockOptions> {
    (any::<bool>(), any::<bool>(), 0usize..9).prop_map(
        |(merges_recorded, requeues_recorded, in_flight_limit)| BlockOptions {
            merges_recorded,
            requeues_recorded,
            in_flight_limit,
        },
    )
}

fn followed() -> impl Strategy<Value = (Observability, KernelTime)> {
    let followed = prop_oneof![
        4 => Just(Observability::ALL),
        1 => any::<[bool; 3]>().prop_map(|[descriptors, positions, execs]| Observability { descriptors, positions, directories: positions, roots: execs, execs, exec_entries: positions, waits: execs, mappings: positions.then_some(4096) }),
    ];
    (followed, prop_oneof![0u64..40, Just(u64::MAX)].prop_map(KernelTime))
}

/// Feeds it all to a tracker; the sink checks each step, then the books.
fn feed(mut tracker: Tracker, all: Vec<Fed>) {
    let mut sink = Checked::new(Nothing);
    let mut time = KernelTime(10);
    for (input, pid, tid, later) in all {
        time.0 += later;
        match input {
            Input::Event(kind) => {
                tracker.ledger_mut().records += 1;
                let event = Event { time, cpu: CpuId(0), pid: Pid(pid), tid: Tid(tid), kind };
                tracker.push(event, &mut sink).expect("cannot fail");
            }
            Input::SeenTask(pid, tid) => {
                tracker.seen_task(Pid(pid), Tid(tid), Pid(pid / 2), b"seen")
            }
            Input::SeenFd(seen) => tracker.seen_fd(&seen, seen.begin),
        }
    }
    tracker.finish(time, &mut sink).expect("cannot fail");
    let ledger = tracker.ledger().clone();
    sink.finish(&ledger);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_balance_for_any_events(
        scope in scope(),
        options in options(),
        (followed, all_on) in followed(),
        all in prop::collection::vec(fed(), 0..60),
    ) {
        feed(Tracker::new(scope, options, followed, all_on), all);
    }
}

fn entered(pid: i32, tid: i32) -> Fed {
    let read = SysEnter { call: CallId(0), args: [3, 0, 10, 0, 0, 0] };
    (Input::Event(EventKind::SysEnter(read)), pid, tid, 1)
}

fn system() -> Tracker {
    let scope = Scope {
        system: true,
        all_requests: true,
        roots: Vec::new(),
        launched: false,
        own: Pid(5),
        children: true,
        excluded: Vec::new(),
    };
    Tracker::new(scope, BlockOptions::default(), Observability::ALL, KernelTime::MIN)
}

/// The end of a thread and the birth of the one that has its number now were both lost.
#[test]
fn thread_number_in_another_process_ends_the_call_of_the_first() {
    feed(system(), vec![entered(1, 3), entered(2, 3)]);
    feed(system(), vec![entered(1, 3), (Input::SeenTask(2, 3), 1, 1, 1)]);
}

/// The tracker's own checks must be able to fail.
#[test]
#[should_panic(expected = "time goes back")]
fn decreasing_time_is_noticed() {
    let mut tracker = system();
    let mut sink = Checked::new(Nothing);
    for time in [9, 8] {
        let enter = SysEnter { call: CallId(0), args: [0; 6] };
        let event = Event {
            time: KernelTime(time),
            cpu: CpuId(0),
            pid: Pid(1),
            tid: Tid(1),
            kind: EventKind::SysEnter(enter),
        };
        tracker.push(event, &mut sink).expect("cannot fail");
    }
}

#[test]
#[should_panic(expected = "records")]
fn unaccounted_record_is_noticed() {
    let mut tracker = system();
    let mut sink = Checked::new(Nothing);
    tracker.ledger_mut().records = 1;
    tracker.finish(KernelTime(1), &mut sink).expect("cannot fail");
    let ledger = tracker.ledger().clone();
    sink.finish(&ledger);
}
