//! Tests of the name join: events between a call and the reads of its names, and names that need no
//! read.

use super::super::pending_results::RESULTS_NS_MAX;
use super::*;
use crate::event::syscall_table::{CallId, IO_EVENT_BYTES, IOCB_READ_BYTES};
use crate::event::{FileStat, ProbeObservation, SysEnter, SysExit};
use crate::units::{CpuId, Fd, Pid};

fn event(time: u64, tid: i32, kind: EventKind) -> Event {
    Event { time: KernelTime(time), cpu: CpuId(0), pid: Pid(7), tid: Tid(tid), kind }
}

fn call(name: &str) -> CallId {
    CallId::by_name(name).expect("in the table")
}

fn exit(time: u64, tid: i32, name: &str, ret: i64) -> Event {
    event(
        time,
        tid,
        EventKind::SysExit(SysExit { call: call(name), ret, names: None, chain: None }),
    )
}

fn enter(time: u64, tid: i32, name: &str, first: u64) -> Event {
    let args = [first, 0, 0, 0, 0, 0];
    event(time, tid, EventKind::SysEnter(SysEnter { call: call(name), args }))
}

/// Opens fd 5 at 100 with its names read at 130, then `after`; checks whether argument and link are
/// valid.
#[track_caller]
fn check(after: Vec<Event>, argument_is_valid: bool, link_is_valid: bool) {
    let mut join = NameJoin::new(true, true);
    for of in [NameOf::Link, NameOf::Argument] {
        let name = ReadName {
            of,
            end: KernelTime(130),
            errno: 0,
            address: 0,
            stat: None,
            bytes: b"/a".to_vec(),
        };
        assert!(join.add(Tid(7), KernelTime(100), name));
    }
    let mut out = Vec::new();
    let count = after.len() + 1;
    join.push(enter(90, 7, "openat", 0), &mut |it| out.push(it));
    out.clear();
    join.push(exit(100, 7, "openat", 5), &mut |it| out.push(it));
    assert!(out.is_empty(), "waits for its verdict");
    for it in after {
        join.push(it, &mut |it| out.push(it));
    }
    join.finish(&mut |it| out.push(it));
    assert_eq!(out.len(), count);
    assert!(out.is_sorted_by_key(|it| it.time));
    let EventKind::SysExit(SysExit { names: Some(names), .. }) = &out[0].kind else {
        panic!("{:?}", out[0])
    };
    let verified = |it: &Option<Name>| it.as_ref().is_some_and(|it| it.verified);
    let found = (verified(&names.argument), verified(&names.link));
    assert_eq!(found, (argument_is_valid, link_is_valid));
}

#[test]
fn a_name_read_in_time_is_good() {
    check(vec![], true, true);
    check(vec![enter(131, 7, "read", 5)], true, true);
    check(vec![enter(120, 8, "close", 4), enter(140, 7, "close", 5)], true, true);
}

#[test]
fn a_thread_that_went_on_makes_its_argument_doubtful() {
    check(vec![enter(120, 7, "read", 5)], false, true);
    check(vec![enter(120, 7, "close", 5)], false, false);
}

#[test]
fn any_rename_makes_a_link_doubtful() {
    check(vec![enter(120, 8, "rename", 5)], true, false);
    check(vec![exit(120, 8, "unlink", 0)], true, false);
    check(vec![enter(131, 8, "rename", 5)], true, true);
    check(vec![enter(120, 8, "mkdir", 5)], true, true);
    check(vec![enter(120, 8, "symlink", 5)], true, true);
}

/// Type and inode of a descriptor stay valid after a rename of its file, but not after a close.
#[test]
fn rename_keeps_the_identity_of_the_file() {
    for (call, remains) in [("rename", true), ("close", false)] {
        let mut join = NameJoin::new(true, true);
        let stat = Some(FileStat { mode: libc::S_IFREG, dev: Default::default(), ino: 7, size: 0 });
        let (end, bytes) = (KernelTime(130), b"/a".to_vec());
        let link = ReadName { of: NameOf::Link, end, errno: 0, address: 0, stat, bytes };
        assert!(join.add(Tid(7), KernelTime(100), link));
        let mut out = Vec::new();
        for it in [enter(90, 7, "openat", 0), exit(100, 7, "openat", 5), enter(120, 8, call, 5)] {
            join.push(it, &mut |it| out.push(it));
        }
        join.finish(&mut |it| out.push(it));
        let EventKind::SysExit(SysExit { names: Some(names), .. }) = &out[1].kind else {
            panic!("{:?}", out[1])
        };
        assert_eq!(names.stat, stat.filter(|_| remains), "{call}");
        assert!(names.link.as_ref().is_some_and(|it| !it.verified), "{call}");
    }
}

/// Makes a pipe at 100 whose ends, 5 and 6, are read until 130, then `after`; checks whether they
/// are certain.
#[track_caller]
fn check_pair(after: Vec<Event>, expected: bool) {
    let mut join = NameJoin::new(true, true);
    for fd in [5, 6] {
        let stat = Some(FileStat { mode: libc::S_IFIFO, dev: Default::default(), ino: 7, size: 0 });
        let (end, bytes) = (KernelTime(130), b"pipe:[7]".to_vec());
        let link = ReadName { of: NameOf::Link, end, errno: 0, address: fd, stat, bytes };
        join.add(Tid(7), KernelTime(100), link);
    }
    let mut out = Vec::new();
    for it in [vec![enter(90, 7, "pipe2", 64), exit(100, 7, "pipe2", 0)], after].concat() {
        join.push(it, &mut |it| out.push(it));
    }
    join.finish(&mut |it| out.push(it));
    let EventKind::SysExit(SysExit { names: Some(names), .. }) = &out[1].kind else {
        panic!("{:?}", out[1])
    };
    let fds: Vec<Fd> = names.pair.iter().map(|it| it.0).collect();
    assert_eq!((fds, &names.link), (vec![Fd(5), Fd(6)], &None));
    assert!(names.pair.iter().all(|it| it.1.verified == expected));
}

#[test]
fn a_pair_is_sure_if_nothing_has_closed_or_made_such_a_number() {
    check_pair(vec![], true);
    check_pair(vec![enter(120, 7, "read", 5)], true);
    check_pair(vec![enter(120, 7, "close", 7), enter(131, 7, "close", 5)], true);
    check_pair(vec![enter(120, 7, "close", 5)], false);
    check_pair(vec![enter(120, 8, "close", 6)], false);
    check_pair(vec![exit(120, 8, "openat", 8)], true);
    check_pair(vec![exit(120, 8, "openat", 6)], false);
    check_pair(vec![exit(120, 8, "pipe2", 0)], false);
    check_pair(vec![exit(131, 8, "pipe2", 0)], true);
}

fn probed(time: u64, tid: i32, address: u64, bytes: &str) -> Event {
    let (address, bytes) = (Some(address), Some(bytes.into()));
    event(time, tid, EventKind::Probed(Box::new(ProbeObservation::Path { address, bytes })))
}

/// Returns the names of the last of these events.
#[track_caller]
fn last_names(events: Vec<Event>) -> Option<ReadNames> {
    let mut join = NameJoin::new(true, true);
    let mut out = Vec::new();
    let count = events.len();
    for event in events {
        assert!(!join.can_bypass(&event), "{event:?}");
        join.push(event, &mut |it| out.push(it));
    }
    assert_eq!(out.len(), count, "nothing waits");
    match out.pop().map(|it| it.kind) {
        Some(EventKind::SysExit(exit)) => exit.names.map(|it| *it),
        other => panic!("{other:?}"),
    }
}

#[test]
fn path_from_a_probe_needs_no_verdict() {
    let names = last_names(vec![
        enter(90, 7, "unlink", 10),
        probed(95, 8, 10, "/of another thread"),
        probed(96, 7, 10, "/a"),
        exit(100, 7, "unlink", 0),
    ]);
    let names = names.expect("seen");
    assert_eq!(names.argument.map(|it| it.bytes).as_deref(), Some(&b"/a"[..]));
    assert_eq!(names.from[0], StringFrom::Kernel);
}

fn given(time: u64, tid: i32, address: u64, bytes: &str) -> Event {
    let bytes = Some(bytes.into());
    event(time, tid, EventKind::Probed(Box::new(ProbeObservation::Given { address, bytes })))
}

/// Checks the path of the last call, as seen by a probe right before the call.
#[track_caller]
fn given_path(events: Vec<Event>, expected: Option<&str>) {
    let names = last_names(events).unwrap_or_default();
    let path = names.argument.map(|it| String::from_utf8(it.bytes).expect("text"));
    assert_eq!(path.as_deref(), expected);
    assert_eq!(
        names.from[0],
        if path.is_some() { StringFrom::Uprobe } else { StringFrom::default() }
    );
}

#[test]
fn string_at_the_address_before_the_call_is_its_path() {
    let (enter, exit) = (enter(90, 7, "unlink", 10), exit(100, 7, "unlink", 0));
    let call = |before: &[Event]| [before, &[enter.clone(), exit.clone()]].concat();
    given_path(call(&[given(80, 7, 10, "/a")]), Some("/a"));
    given_path(call(&[given(80, 7, 11, "/a")]), None);
    given_path(call(&[given(80, 8, 10, "/a")]), None);
    // Seen twice on the way: the call got the last one.
    given_path(call(&[given(80, 7, 10, "/a"), given(81, 7, 10, "/b")]), Some("/b"));
    given_path(call(&[given(80, 7, 10, "/a"), event(85, -1, EventKind::Lost(1))]), None);
}

#[test]
fn probed_path_belongs_to_the_next_call_only() {
    let first = [given(80, 7, 10, "/a"), enter(82, 7, "read", 10)];
    let second = [enter(90, 7, "unlink", 10), exit(100, 7, "unlink", 0)];
    given_path([&first[..], &second].concat(), None);
}

#[test]
fn unreadable_string_gives_no_path() {
    let fault = -i64::from(libc::EFAULT);
    let call = [given(80, 7, 10, "(fault)"), enter(90, 7, "unlink", 10)];
    given_path([&call[..], &[exit(100, 7, "unlink", fault)]].concat(), None);
    given_path([&call[..], &[exit(100, 7, "unlink", -2)]].concat(), Some("(fault)"));
}

#[test]
fn probed_path_is_dropped_after_a_loss() {
    let names = last_names(vec![
        enter(90, 7, "unlink", 10),
        probed(96, 7, 10, "/a"),
        event(97, -1, EventKind::Lost(3)),
        exit(100, 7, "unlink", 0),
    ]);
    assert_eq!(names, None);
}

#[test]
fn a_path_of_another_call_of_the_thread_is_not_taken() {
    let names = last_names(vec![
        enter(90, 7, "unlink", 10),
        probed(96, 7, 10, "/a"),
        enter(98, 7, "rmdir", 10),
        exit(100, 7, "rmdir", 0),
    ]);
    assert_eq!(names, None);
}

#[test]
fn strings_of_an_entry_are_the_last_choice() {
    let string = |bytes: &str, from| EventString { address: 0, bytes: bytes.into(), from };
    let read = |errno| ReadName {
        of: NameOf::Argument,
        end: KernelTime(130),
        errno,
        address: 0,
        stat: None,
        bytes: b"/\x81read".to_vec(),
    };
    let mut join = NameJoin::new(true, true);
    let mut out = Vec::new();
    for (time, bytes, from, errno) in [
        (100, "/.read", StringFrom::Event, 0),
        (200, "/.re", StringFrom::EventCut, 0),
        (300, "/event", StringFrom::EventCut, libc::EFAULT),
        // The argument at the read differs from the one at the entry.
        (400, "/.rea", StringFrom::Event, 0),
    ] {
        join.carries(vec![string(bytes, from)]);
        join.push(enter(time, 7, "unlink", 0), &mut |it| out.push(it));
        assert!(join.add(Tid(7), KernelTime(time + 10), read(errno)));
        join.push(exit(time + 10, 7, "unlink", 0), &mut |it| out.push(it));
    }
    join.finish(&mut |it| out.push(it));
    let names = out.into_iter().filter_map(|event| match event.kind {
        EventKind::SysExit(exit) => exit.names,
        _ => None,
    });
    let found: Vec<(Vec<u8>, StringFrom)> =
        names.map(|it| (it.argument.expect("there").bytes, it.from[0])).collect();
    let expected: [(&[u8], StringFrom); 4] = [
        (b"/\x81read", StringFrom::Memory),
        (b"/\x81read", StringFrom::Memory),
        (b"/event", StringFrom::EventCut),
        (b"/.rea", StringFrom::Event),
    ];
    let found: Vec<(&[u8], StringFrom)> = found.iter().map(|it| (&*it.0, it.1)).collect();
    assert_eq!(found, expected);
}

#[test]
fn close_by_another_thread_makes_the_name_doubtful() {
    check(vec![enter(120, 8, "close", 5)], true, false);
    check(vec![exit(120, 8, "close", 0)], true, false);
    check(vec![enter(120, 8, "close_range", 3)], true, false);
}

fn list(time: u64, tid: i32, observed: ProbeObservation) -> Event {
    event(time, tid, EventKind::Probed(Box::new(observed)))
}

/// A call that takes or fills the list at an address.
fn list_call(name: &str, address: u64, ret: i64) -> [Event; 2] {
    let mut args = [0; 6];
    args[if name == "io_submit" { 2 } else { 3 }] = address;
    let enter = EventKind::SysEnter(SysEnter { call: call(name), args });
    [event(90, 7, enter), exit(100, 7, name, ret)]
}

/// List of a call, with its address.
type List = Option<(u64, Vec<u8>)>;

/// Returns the lists of all exits, and the number of events that have waited for a later one.
#[track_caller]
fn lists(events: &[Event]) -> (Vec<List>, usize) {
    let mut join = NameJoin::new(true, true);
    let (mut out, mut late) = (Vec::new(), 0);
    for (number, event) in events.iter().enumerate() {
        if join.can_bypass(event) {
            out.push(event.clone());
        } else {
            join.push(event.clone(), &mut |event| out.push(event));
        }
        late += usize::from(out.len() <= number);
    }
    join.finish(&mut |event| out.push(event));
    assert!(out.is_sorted_by_key(|event| event.time) && out.len() == events.len());
    let exits = out.into_iter().filter_map(|event| match event.kind {
        EventKind::SysExit(exit) => Some(exit.names.and_then(|names| names.list)),
        _ => None,
    });
    (exits.collect(), late)
}

#[test]
fn submitted_list_belongs_to_the_call_with_its_address() {
    let submitted = |tid, address| {
        list(80, tid, ProbeObservation::Submitted { address, first: 0, bytes: b"list".to_vec() })
    };
    let expected = Some((64, b"list".to_vec()));
    for (before, ret, expected) in [
        (submitted(7, 64), 1, expected),
        (submitted(7, 65), 1, None),
        (submitted(8, 64), 1, None),
        (submitted(7, 64), -11, None),
    ] {
        let call = list_call("io_submit", 64, ret);
        assert_eq!(lists(&[&[before][..], &call].concat()), (vec![expected], 0));
    }
}

/// A `struct io_event`.
const RESULT: [u8; IO_EVENT_BYTES] = [7; IO_EVENT_BYTES];

#[test]
fn exit_waits_for_the_results_that_its_thread_records() {
    let submitted =
        list(80, 9, ProbeObservation::Submitted { address: 1, first: 0, bytes: Vec::new() });
    let counted = |time, tid, address, count| {
        list(
            time,
            tid,
            ProbeObservation::Completed { address, count, first: 0, bytes: RESULT.to_vec() },
        )
    };
    let completed = |time, tid, address| counted(time, tid, address, 1);
    let check = |after: &[Event], expected: Option<&[u8]>, late: usize| {
        let call = list_call("io_getevents", 64, 1);
        let (found, waited) = lists(&[&[submitted.clone()][..], &call, after].concat());
        let expected = expected.map(|bytes| (64, bytes.to_vec()));
        assert_eq!((found, waited), (vec![expected], late), "{after:?}");
    };
    check(&[completed(101, 7, 64)], Some(&RESULT), 1);
    // Other records of the thread, such as those of interrupts, and calls of other threads do not
    // end the wait, the next call does.
    let (interrupt, other) = (probed(102, 7, 1, "/a"), enter(103, 8, "read", 1));
    check(&[interrupt, other, completed(104, 7, 64)], Some(&RESULT), 3);
    check(&[enter(102, 7, "read", 1), completed(104, 7, 64)], None, 1);
    // Neither a record of another list nor one of another thread is taken, nor one that comes late.
    check(&[completed(101, 7, 65)], None, 1);
    check(&[completed(101, 8, 64)], None, 2);
    check(&[counted(101, 7, 64, 2)], None, 1);
    // The record may have been lost, and this be that of a later call that was lost, too.
    check(&[event(102, -1, EventKind::Lost(3)), completed(104, 7, 64)], None, 1);
    let late = 101 + RESULTS_NS_MAX;
    check(&[enter(late, 8, "read", 1), completed(late + 1, 7, 64)], None, 1);
}

/// A call with 20 results at address 64 whose parts are recorded, in this order.
#[track_caller]
fn check_parts(parts: &[(u64, usize, usize)], next_call: Option<u64>, expected: usize) {
    let submitted = ProbeObservation::Submitted { address: 1, first: 0, bytes: Vec::new() };
    let part = |&(time, first, results): &(u64, usize, usize)| {
        let bytes = RESULT.repeat(results);
        list(time, 7, ProbeObservation::Completed { address: 64, count: 20, first, bytes })
    };
    let mut events = vec![list(80, 7, submitted)];
    events.extend(list_call("io_getevents", 64, 20));
    events.extend(parts.iter().map(part));
    events.extend(next_call.map(|time| enter(time, 7, "read", 1)));
    events.sort_by_key(|event| event.time);
    let expected = (expected > 0).then(|| (64, RESULT.repeat(expected)));
    assert_eq!(lists(&events).0, [expected], "{parts:?}");
}

#[test]
fn long_list_of_results_is_joined_from_its_parts() {
    check_parts(&[(101, 0, 16), (102, 16, 48)], Some(103), 64);
    check_parts(&[(101, 16, 48), (102, 0, 16)], None, 64);
    check_parts(&[(101, 0, 16)], Some(103), 16);
    check_parts(&[(101, 0, 16)], None, 16);
    check_parts(&[(101, 16, 48)], Some(103), 0);
    check_parts(&[(101, 0, 16), (104, 16, 48)], Some(103), 16);
}

#[test]
fn long_list_of_operations_is_joined_from_its_parts() {
    let part = |time, address, first, byte| {
        let bytes = vec![byte; IOCB_READ_BYTES * 4];
        list(time, 7, ProbeObservation::Submitted { address, first, bytes })
    };
    let joined = |parts: &[Event]| {
        let found = lists(&[parts, &list_call("io_submit", 64, 8)].concat()).0;
        found.into_iter().flatten().next().unwrap_or_default().1
    };
    let [low, high] = [1, 2].map(|byte| vec![byte; IOCB_READ_BYTES * 4]);
    let whole = [&low[..], &high].concat();
    assert_eq!(joined(&[part(80, 64, 0, 1), part(81, 64, 4, 2)]), whole);
    assert_eq!(joined(&[part(80, 64, 4, 2), part(81, 64, 0, 1)]), whole);
    // A part of another list.
    assert_eq!(joined(&[part(80, 65, 4, 2), part(81, 64, 0, 1)]), low);
    assert!(joined(&[part(81, 64, 4, 2)]).is_empty());
}

/// Programs without the probes of libaio cause no wait.
#[test]
fn exit_does_not_wait_in_processes_that_no_probe_has_seen() {
    let call = list_call("io_getevents", 64, 1);
    assert_eq!(lists(&call), (vec![None], 0));
}

/// Opens fd 5 at 100; its link is read until 130. Returns whether the link is valid, where all
/// calls were recorded from `since` on, until `off`.
fn late_link(since: u64, off: u64) -> bool {
    let mut join = NameJoin::new(true, true).with_late_links(KernelTime(since));
    let (end, bytes) = (KernelTime(130), b"/a".to_vec());
    let link = ReadName { of: NameOf::Link, end, errno: 0, address: 0, stat: None, bytes };
    assert!(join.add(Tid(7), KernelTime(100), link));
    let mut out = Vec::new();
    join.push(enter(90, 7, "openat", 0), &mut |event| out.push(event));
    join.push(exit(100, 7, "openat", 5), &mut |event| out.push(event));
    join.switched_off(KernelTime(off));
    join.finish(&mut |event| out.push(event));
    let EventKind::SysExit(SysExit { names: Some(names), .. }) = &out[1].kind else {
        panic!("{:?}", out[1])
    };
    names.link.as_ref().is_some_and(|link| link.verified)
}

#[test]
fn late_link_is_valid_only_while_all_calls_are_recorded() {
    assert!(late_link(100, 131));
    assert!(!late_link(101, 131), "opened before all rings were on");
    assert!(!late_link(100, 130), "read after a ring was switched off");
}
