//! Tests of the assignment of events to calls. Times have one digit or more; a call is `START-END`
//! (suffix `x`: it failed late; `p`: `O_PATH`; `n`: no such file; `d`: `O_DIRECTORY`; `w`:
//! `O_WRONLY`), an event is `NAME:SINCE-UNTIL`. Calls have the numbers 0, 1, 2, ….

use super::*;
use crate::event::syscall_table::CallId;

fn time(word: &str) -> KernelTime {
    KernelTime(word.parse().expect("a number"))
}

fn span(word: &str) -> (KernelTime, KernelTime) {
    let (start, end) = word.split_once('-').expect("START-END");
    (time(start), time(end))
}

fn joined_text(word: &str) -> FanotifyOpen {
    let (name, times) = word.split_once(':').expect("NAME:SINCE-UNTIL");
    let (since, until) = span(times);
    let bytes = name.as_bytes().to_vec();
    FanotifyOpen { since, until, end: until, stat: Some(stat(name)), bytes }
}

/// Returns type and inode for a name; with a trailing slash it is a directory.
fn stat(name: &str) -> FileStat {
    let mode = if name.ends_with('/') { libc::S_IFDIR } else { libc::S_IFREG };
    FileStat { mode, dev: Default::default(), ino: 1, size: 0 }
}

/// Runs the calls and events of one thread; returns the verdict of each call that made a
/// descriptor: `-` none, `NAME` certain, `NAME?` not certain.
#[track_caller]
fn check(calls: &str, events: &str, expected: &str) {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    events.split_whitespace().for_each(|it| assert!(join.add(Tid(7), joined_text(it))));
    assert_eq!(verdict_text(&mut join, calls), expected, "{calls} | {events}");
}

fn verdict_text(join: &mut FanotifyJoin, calls: &str) -> String {
    let call = CallId::by_name("openat").expect("in the table");
    let tid = Tid(7);
    let mut verdicts = Vec::new();
    let mut opened = Vec::new();
    for (number, word) in calls.split_whitespace().enumerate() {
        let plain = word.trim_end_matches(['x', 'p', 'n', 'd', 'w']);
        let (start, end) = span(plain);
        let flags = match word.chars().last() {
            Some('p') => libc::O_PATH,
            Some('d') => libc::O_DIRECTORY,
            Some('w') => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        let ret = match word.chars().last() {
            Some('x') => -i64::from(libc::EACCES),
            Some('n') => -i64::from(libc::ENOENT),
            _ => 3,
        };
        verdicts.extend(join.settle(start));
        let args = [0, 0, u64::from(flags.cast_unsigned()), 0, 0, 0];
        join.enter(tid, start, &SysEnter { call, args });
        verdicts.extend(join.settle(end));
        let number = number as u64;
        join.exit(tid, end, &SysExit { call, ret, names: None, chain: None }, number);
        if ret >= 0 {
            opened.push(number);
        }
    }
    verdicts.extend(join.settle(KernelTime::MAX));
    let text_of = |number: u64| {
        let mut its = verdicts.iter().filter(|it| it.number == number);
        let verdict = its.next();
        assert_eq!(its.next(), None, "one verdict");
        match verdict.and_then(|it| Some((it.report.as_ref()?, it.sure))) {
            None => "-".to_owned(),
            Some((report, sure)) => {
                let name = String::from_utf8_lossy(&report.bytes);
                if sure { name.into_owned() } else { format!("{name}?") }
            }
        }
    };
    opened.into_iter().map(text_of).collect::<Vec<_>>().join(" ")
}

#[test]
fn one_call_and_one_event() {
    check("10-20", "a:5-30", "a");
    check("10-20", "a:5-15", "a");
    check("10-20", "a:15-16", "a");
    check("10-20", "", "-");
}

#[test]
fn event_outside_the_call_is_unmatched() {
    check("10-20", "a:1-9", "-");
    check("10-20", "a:21-30", "-");
    check("10-20 40-50", "a:1-5 b:22-45", "- b");
}

#[test]
fn as_many_events_as_calls_are_in_the_same_order() {
    check("10-20 30-40 50-60", "a:5-70 b:5-70 c:5-70", "a b c");
    check("10-20 30-40", "a:5-35 b:25-70", "a b");
}

#[test]
fn fewer_events_than_calls_are_ambiguous() {
    check("10-20 30-40", "a:5-70", "- -");
    // Either the middle call has no event, or the last call opened the first file again.
    check("10-20 30-40 50-60", "a:5-70 b:5-70", "- - -");
}

#[test]
fn times_resolve_some_ambiguous_events() {
    check("10-20 30-40 50-60", "a:5-25 b:26-70", "a - -");
    check("10-20 30-40 50-60", "a:5-45 b:46-70", "- - b");
    // The second call gets the remaining event.
    check("10-20 30-40 50-60", "a:5-25 b:5-45 c:46-60", "a b c");
}

#[test]
fn surplus_event_shows_an_unseen_call() {
    check("10-20", "a:5-30 b:5-30", "-");
    check("10-20 50-60", "a:5-30 b:5-30 c:40-70", "- c");
}

#[test]
fn calls_without_an_open_have_no_event() {
    check("10-20p 30-40", "a:5-70", "- a");
    check("10-20n 30-40", "a:5-70", "a");
}

#[test]
fn a_directory_is_not_opened_for_writing_and_a_file_not_as_a_directory() {
    check("10-20 30-40d 50-60w", "a:5-70 b/:5-70", "a b/ -");
    check("10-20d 30-40 50-60w", "b/:5-70 a:5-70 c:5-70", "b/ a c");
    check("10-20w 30-40 50-60d", "b/:5-70 a/:5-70", "- b/ a/");
    check("10-20d", "a:5-70", "-");
}

#[test]
fn a_call_that_failed_late_may_have_one() {
    check("10-20x 30-40", "a:5-70", "-");
    check("10-20x 30-40", "a:5-70 b:5-70", "b");
    check("10-20x", "a:5-70", "");
}

#[test]
fn before_all_calls_were_recorded_nothing_is_certain() {
    let mut join = FanotifyJoin::new(KernelTime(8), std::env::consts::ARCH);
    assert!(join.add(Tid(7), joined_text("a:5-25")));
    assert!(join.add(Tid(7), joined_text("b:26-70")));
    assert_eq!(verdict_text(&mut join, "10-20 30-40"), "a? b");
    let mut join = FanotifyJoin::new(KernelTime::MAX, std::env::consts::ARCH);
    assert!(join.add(Tid(7), joined_text("a:5-25")));
    assert_eq!(verdict_text(&mut join, "10-20"), "a?");
}

#[test]
fn io_uring_open_makes_events_of_the_thread_doubtful() {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    assert!(join.add(Tid(7), joined_text("a:5-25")));
    join.opens_otherwise(Tid(8));
    assert_eq!(verdict_text(&mut join, "10-20"), "a");
    join.opens_otherwise(Tid(7));
    assert!(join.add(Tid(7), joined_text("b:26-70")));
    assert_eq!(verdict_text(&mut join, "30-40"), "b?");
}

#[test]
fn events_of_other_threads_do_not_matter() {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    assert!(join.add(Tid(8), joined_text("a:5-25")));
    assert!(join.add(Tid(7), joined_text("b:5-25")));
    assert_eq!(verdict_text(&mut join, "10-20"), "b");
}

#[test]
fn after_a_loss_nothing_of_before_is_certain() {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    assert!(join.add(Tid(7), joined_text("a:5-25")));
    join.lost(KernelTime(9));
    assert!(join.add(Tid(7), joined_text("b:8-55")));
    assert!(join.add(Tid(7), joined_text("c:56-90")));
    assert_eq!(verdict_text(&mut join, "10-20 40-50 60-70"), "a? b? c");
}

#[test]
fn call_waits_for_other_candidates_of_its_event() {
    let call = CallId::by_name("openat").expect("in the table");
    let (enter, exit) =
        (SysEnter { call, args: [0; 6] }, SysExit { call, ret: 3, names: None, chain: None });
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    assert!(join.add(Tid(7), joined_text("a:5-30")));
    join.enter(Tid(7), KernelTime(10), &enter);
    assert_eq!(join.exit(Tid(7), KernelTime(20), &exit, 0), Some(KernelTime(30)));
    join.enter(Tid(7), KernelTime(25), &enter);
    assert_eq!(join.settle(KernelTime(100)), [], "the second is not over");
    assert_eq!(join.exit(Tid(7), KernelTime(101), &exit, 1), Some(KernelTime(30)));
    let numbers: Vec<u64> = join.settle(KernelTime(102)).into_iter().map(|it| it.number).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(join.settle(KernelTime::MAX), []);
}

#[test]
fn a_thread_that_ended_inside_a_call_is_not_waited_for() {
    let call = CallId::by_name("openat").expect("in the table");
    let (enter, exit) =
        (SysEnter { call, args: [0; 6] }, SysExit { call, ret: 3, names: None, chain: None });
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    assert!(join.add(Tid(7), joined_text("a:5-30")));
    join.enter(Tid(7), KernelTime(10), &enter);
    join.exit(Tid(7), KernelTime(20), &exit, 0);
    join.enter(Tid(7), KernelTime(25), &enter);
    join.ended(Tid(7), KernelTime(40));
    let verdicts = join.settle(KernelTime(50));
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].report, None, "it may be of either");
}

#[test]
fn unawaited_events_are_evicted() {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    for tid in 0..100 {
        join.add(Tid(tid), joined_text("a:5-30"));
    }
    join.forget_before(KernelTime(31));
    assert_eq!(join.threads.len(), 0);
}

/// Properties with a listener that reads the queue at these times, and a program whose opens have
/// events or not: every certain verdict is right.
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Opens of a program: of a file with events, or of one without.
    fn opens() -> impl Strategy<Value = Vec<(u64, u64, Option<u8>)>> {
        let open = (1..6_u64, 1..6_u64, proptest::option::weighted(0.8, 0..3_u8));
        proptest::collection::vec(open, 1..12)
    }

    proptest! {
        #[test]
        fn certain_paths_are_never_wrong(opens in opens(), looks in proptest::collection::vec(1..20_u64, 1..12)) {
            // The program: pause, duration, file; an event in the middle of each call.
            let mut now = 0;
            let mut calls = Vec::new();
            for (pause, half, file) in opens {
                let start = now + pause;
                let end = start + 2 * half;
                calls.push((start, start + half, end, file));
                now = end;
            }
            let mut looks: Vec<u64> = looks
                .into_iter()
                .scan(0, |at, step| {
                    *at += step;
                    Some(*at)
                })
                .collect();
            looks.push(now + 100);
            // The kernel: one event for each file until it is read.
            let (mut join, mut since) = (FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH), 0);
            for until in looks {
                let mut waiting: Vec<u8> = Vec::new();
                for (_, at, _, file) in &calls {
                    if let Some(file) = file
                        && (since < *at && *at <= until)
                        && !waiting.contains(file)
                    {
                        waiting.push(*file);
                    }
                }
                for file in waiting {
                    let (since, until) = (KernelTime(since), KernelTime(until));
                    let bytes = vec![file];
                    let report = FanotifyOpen { since, until, end: until, stat: None, bytes };
                    join.add(Tid(7), report);
                }
                since = until;
            }
            let call = CallId::by_name("openat").expect("in the table");
            let mut verdicts = Vec::new();
            for (number, (start, _, end, _)) in calls.iter().enumerate() {
                verdicts.extend(join.settle(KernelTime(*start)));
                join.enter(Tid(7), KernelTime(*start), &SysEnter { call, args: [0; 6] });
                let exit = SysExit { call, ret: 3, names: None, chain: None };
                join.exit(Tid(7), KernelTime(*end), &exit, number as u64);
            }
            verdicts.extend(join.settle(KernelTime::MAX));
            for it in &verdicts {
                let file = calls[usize::try_from(it.number).expect("small")].3;
                if let Some(report) = &it.report {
                    prop_assert!(it.sure);
                    prop_assert_eq!(file.map(|it| vec![it]), Some(report.bytes.clone()));
                }
            }
        }
    }
}
