//! Tests of the assignment of events to calls. Times have one digit or more; a call is `START-END`
//! (suffix `x`: it failed late; `p`: `O_PATH`; `n`: no such file; `d`: `O_DIRECTORY`; `w`:
//! `O_WRONLY`; then maybe `=PATH`, the path that a probe recorded), an event is
//! `NAME:SINCE-UNTIL`. Calls have the numbers 0, 1, 2, ….

use super::*;
use crate::event::syscall_table::CallId;
use crate::event::{FileStat, Name, ReadNames};

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
    FanotifyOpen { since, until, end: until, stat: Some(stat(name)), bytes, has_other_names: false }
}

/// Returns type and inode for a name; with a trailing slash it is a directory.
fn stat(name: &str) -> FileStat {
    let mode = if name.ends_with('/') { libc::S_IFDIR } else { libc::S_IFREG };
    let ino = name.bytes().fold(1, |ino, byte| ino * 31 + u64::from(byte));
    FileStat { mode, dev: Default::default(), ino, size: 0 }
}

/// Runs the calls and events of one thread; returns the verdict of each call that made a
/// descriptor: `-` none, `NAME` certain, `NAME?` not certain.
#[track_caller]
fn check(calls: &str, events: &str, expected: &str) {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    events.split_whitespace().for_each(|it| assert!(join.add(Tid(7), joined_text(it))));
    assert_eq!(verdict_text(&mut join, calls), expected, "{calls} | {events}");
}

/// The end of an open whose path a probe has recorded, or not.
fn exit_of(ret: i64, path: Option<&str>) -> SysExit {
    let call = CallId::by_name("openat").expect("in the table");
    let argument = path.map(|path| Name { bytes: path.into(), verified: true });
    let names = argument.is_some().then(|| ReadNames { argument, ..ReadNames::default() });
    SysExit { call, ret, names: names.map(Box::new), chain: None }
}

fn verdict_text(join: &mut FanotifyJoin, calls: &str) -> String {
    let call = CallId::by_name("openat").expect("in the table");
    let tid = Tid(7);
    let mut verdicts = Vec::new();
    let mut opened = Vec::new();
    for (number, word) in calls.split_whitespace().enumerate() {
        let (word, path) =
            word.split_once('=').map_or((word, None), |parts| (parts.0, Some(parts.1)));
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
        join.exit(tid, end, &exit_of(ret, path), number);
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
fn paths_resolve_ambiguous_events() {
    check("10-20=/a 30-40=/dev/null 50-60=/b", "/a:5-70 /b:5-70", "/a - /b");
    check("10-20=/dev/null 30-40=/a", "/a:5-70", "- /a");
    // A directory may be opened with a slash at its end.
    check("10-20=/a/ 30-40=/dev/null", "/a:5-70", "/a -");
}

#[test]
fn merged_event_is_of_all_calls_with_its_path() {
    check("10-20=/a 30-40=/a 50-60=/a", "/a:5-70", "/a /a /a");
    check("10-20=/a 30-40=/b 50-60=/a", "/a:5-70 /b:5-70", "/a /b /a");
}

#[test]
fn event_without_a_path_is_of_the_only_call_without_a_file() {
    check("10-20=/a 30-40=link 50-60=/b 70-80=/a", "/a:5-90 /z:5-90 /b:5-90", "/a /z /b /a");
    // Either of two calls has opened the file, by a symbolic link.
    check("10-20=/a 30-40=link 50-60=/dev/null", "/a:5-70 /z:5-70", "/a - -");
    check("10-20=/l 30-40=/dev/null", "/a:5-70", "- -");
    check("10-20=/c/../a 30-40=/dev/null", "/a:5-70", "- -");
    check("10-20=/c//a 30-40=a", "/c/a:5-70", "- -");
}

#[test]
fn name_of_a_removed_file_leaves_all_ambiguous() {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    let removed = FanotifyOpen { bytes: b"/a (deleted)".to_vec(), ..joined_text("/a:5-70") };
    assert!(join.add(Tid(7), removed));
    assert!(join.add(Tid(7), joined_text("/a:5-70")));
    assert_eq!(verdict_text(&mut join, "10-20=/dev/null 30-40=/a 50-60=/a"), "- - -");
}

/// Ends soon only if the work does not grow with the product of events and calls.
#[test]
fn many_opens_of_one_moment_are_judged() {
    const EVENTS: usize = 16_384;
    let call = CallId::by_name("openat").expect("in the table");
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    for event in 0..EVENTS {
        assert!(join.add(Tid(7), joined_text(&format!("/f{event}:1-9999999"))));
    }
    for number in 0..2 * EVENTS as u64 {
        let begin = 10 * number + 2;
        join.enter(Tid(7), KernelTime(begin), &SysEnter { call, args: [0; 6] });
        let exit = exit_of(3, Some(&format!("/f{}", number / 2)));
        join.exit(Tid(7), KernelTime(begin + 2), &exit, number);
    }
    let verdicts = join.settle(KernelTime::MAX);
    assert_eq!(verdicts.len(), 2 * EVENTS);
    for verdict in verdicts {
        let name = verdict.report.map(|report| report.bytes);
        assert_eq!(name, Some(format!("/f{}", verdict.number / 2).into_bytes()));
    }
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
fn path_leads_where_it_led_when_there_was_no_choice() {
    let later = "110-120=/link 130-140=/dev/null";
    check(later, "/a:105-150", "- -");
    check(&format!("10-20=/link {later}"), "/a:5-30 /a:105-150", "/a /a -");
    check(&format!("10-20=/link {later}"), "/a:5-30 /b:105-150", "/a - -");
    let of_process = "110-120=/dev/stdin 130-140=/dev/null";
    check(&format!("10-20=/dev/stdin {of_process}"), "/a:5-30 /a:105-150", "/a - -");
}

#[test]
fn one_path_is_one_file() {
    check("10-20=/l 30-40=/l 50-60=/m", "/a:5-70 /b:5-70", "/a /a /b");
    check("10-20=/l 30-40=/m 50-60=/l", "/a:5-70 /b:5-70", "/a /b /a");
    check("10-20=/l 30-40=/m 50-60=/n 70-80=/l", "/a:5-90 /b:5-90", "- - - -");
    check("10-20=/l 30-40x=/l 50-60=/m 70-80=/m", "/a:5-90 /b:5-90", "- - -");
    check("10-20=l 30-40=l 50-60=m", "/a:5-70 /b:5-70", "- - -");
}

#[test]
fn relative_path_is_one_file_in_one_directory() {
    let call = CallId::by_name("openat").expect("in the table");
    let directory = u64::from(libc::AT_FDCWD.cast_unsigned());
    let enter = SysEnter { call, args: [directory, 0, 0, 0, 0, 0] };
    let names = |change_before: Option<usize>| {
        let mut join =
            FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH).with_directory_changes();
        assert!(
            join.add(Tid(7), joined_text("/a:5-70")) && join.add(Tid(7), joined_text("/b:5-70"))
        );
        for (number, path) in ["l", "l", "m"].into_iter().enumerate() {
            if change_before == Some(number) {
                join.changes_directory();
            }
            let start = KernelTime(10 + 20 * number as u64);
            join.enter(Tid(7), start, &enter);
            join.exit(Tid(7), KernelTime(start.0 + 5), &exit_of(3, Some(path)), number as u64);
        }
        let verdicts = join.settle(KernelTime::MAX).into_iter();
        verdicts.map(|verdict| Some(verdict.report?.bytes)).collect::<Vec<_>>()
    };
    let [a, b] = ["/a", "/b"].map(|name| Some(name.as_bytes().to_vec()));
    assert_eq!(names(None), [a.clone(), a, b]);
    assert_eq!(names(Some(1)), [None, None, None]);
}

#[test]
fn file_of_procfs_has_no_event() {
    let mut join = FanotifyJoin::new(KernelTime(0), std::env::consts::ARCH);
    join.mounts(b"21 1 0:21 / /proc rw - proc proc rw\n");
    assert!(join.add(Tid(7), joined_text("/a:5-50")));
    assert_eq!(verdict_text(&mut join, "10-20=/proc/stat 30-40=/link"), "- /a");
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

    /// Names of the files with events; two have the same last part.
    const FILES: [&str; 3] = ["/a/x", "/b/x", "/a/y"];

    /// An open of a program.
    #[derive(Clone, Debug)]
    struct Open {
        pause: u64,
        half: u64,
        /// File with events; `None`: one without.
        file: Option<usize>,
        spelling: u8,
    }

    impl Open {
        /// Path that a probe has recorded, if one has.
        fn path(&self) -> Option<String> {
            let name = self.file.map_or("/c/x", |file| FILES[file]);
            match self.spelling {
                0 => None,
                1 => Some(format!("/link{name}")),
                2 => name.rsplit('/').next().map(str::to_owned),
                3 => name.strip_prefix('/').map(str::to_owned),
                _ => Some(name.to_owned()),
            }
        }
    }

    fn opens() -> impl Strategy<Value = Vec<Open>> {
        let file = proptest::option::weighted(0.8, 0..FILES.len());
        let open = (1..6_u64, 1..6_u64, file, 0..8_u8);
        let open =
            open.prop_map(|(pause, half, file, spelling)| Open { pause, half, file, spelling });
        proptest::collection::vec(open, 1..12)
    }

    proptest! {
        #[test]
        fn certain_paths_are_never_wrong(opens in opens(), looks in proptest::collection::vec(1..20_u64, 1..12)) {
            // The program: pause, duration, file; an event in the middle of each call.
            let mut now = 0;
            let mut calls = Vec::new();
            for open in opens {
                let start = now + open.pause;
                let end = start + 2 * open.half;
                calls.push((start, start + open.half, end, open));
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
                let mut waiting: Vec<usize> = Vec::new();
                for (_, at, _, open) in &calls {
                    if let Some(file) = open.file
                        && (since < *at && *at <= until)
                        && !waiting.contains(&file)
                    {
                        waiting.push(file);
                    }
                }
                for file in waiting {
                    let (since, until) = (KernelTime(since), KernelTime(until));
                    let bytes = FILES[file].as_bytes().to_vec();
                    let stat = Some(stat(FILES[file]));
                    let report = FanotifyOpen { since, until, end: until, stat, bytes, has_other_names: false };
                    join.add(Tid(7), report);
                }
                since = until;
            }
            let call = CallId::by_name("openat").expect("in the table");
            let mut verdicts = Vec::new();
            for (number, (start, _, end, open)) in calls.iter().enumerate() {
                verdicts.extend(join.settle(KernelTime(*start)));
                join.enter(Tid(7), KernelTime(*start), &SysEnter { call, args: [0; 6] });
                join.exit(Tid(7), KernelTime(*end), &exit_of(3, open.path().as_deref()), number as u64);
            }
            verdicts.extend(join.settle(KernelTime::MAX));
            for it in &verdicts {
                let file = calls[usize::try_from(it.number).expect("small")].3.file;
                if let Some(report) = &it.report {
                    prop_assert!(it.sure);
                    let name = file.map(|file| FILES[file].as_bytes().to_vec());
                    prop_assert_eq!(name, Some(report.bytes.clone()));
                }
            }
        }
    }
}
