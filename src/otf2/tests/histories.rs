//! Random histories, impossible ones included: each becomes an archive that keeps the rules of
//! OTF2.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::OtfOptions;
use super::language::{make, otf2_print, printed};
use super::{MOUNTS, balance, skip};

/// Random event of one of few threads with few descriptors, so that they interact.
fn event() -> impl Strategy<Value = String> {
    let (fd, ret) = (0..5_i64, prop_oneof![Just(-9_i64), Just(-2), 0..5_i64]);
    let path = prop_oneof![
        Just("link /a"),
        Just("link /b dir"),
        Just("late /a"),
        Just("argument a"),
        Just("")
    ];
    let simple = prop_oneof![
        Just("read"),
        Just("write"),
        Just("pread64"),
        Just("close"),
        Just("lseek"),
        Just("dup"),
        Just("dup3"),
        Just("fcntl"),
        Just("fsync"),
        Just("sendfile64"),
        Just("openat"),
        Just("close_range"),
    ];
    prop_oneof![
        8 => (simple.clone(), fd.clone(), fd).prop_map(|(call, a, b)| format!("enter {call} {a} {b} 1")),
        8 => (simple, ret, path).prop_map(|(call, ret, path)| {
            let names = if call == "openat" { path } else { "" };
            format!("exit {call} {ret} {names}")
        }),
        1 => (7..10).prop_map(|pid| format!("fork {pid}/{pid}")),
        1 => Just("comm new exec".to_owned()),
        1 => Just("death".to_owned()),
        1 => Just("lost 1".to_owned()),
        3 => (
            prop_oneof![Just("getrq"), Just("insert"), Just("issue"), Just("complete"), Just("rq_merge")],
            prop_oneof![Just("R"), Just("W"), Just("D")],
            0..3,
        )
            .prop_map(|(point, op, sector)| format!("block {point} 7:0 {op} {} +8", sector * 8)),
    ]
}

/// Makes each exit one of the call that its thread is in, if it is in one. A number is given to a
/// new process only when it is free.
fn history() -> impl Strategy<Value = String> {
    let task = prop_oneof![Just("7/7"), Just("7/17"), Just("8/8"), Just("9/9")];
    proptest::collection::vec((task, event()), 1..60).prop_map(|events| {
        let mut alive = BTreeMap::new();
        let mut text = String::new();
        for (time, (task, event)) in (1..).zip(events) {
            if let Some(event) = possible(task, &event, &mut alive) {
                writeln!(text, "{} {task} {event}", time * 10).expect("a string takes it");
            }
        }
        text
    })
}

/// Changes an event into a possible one, if there is one. `alive`: tasks and the calls that they
/// are in.
fn possible(
    task: &'static str,
    event: &str,
    alive: &mut BTreeMap<&'static str, Option<String>>,
) -> Option<String> {
    let words: Vec<&str> = event.splitn(3, ' ').collect();
    let process = |task: &str| task.split_once('/').map(|halves| halves.0.to_owned());
    let inside = alive.entry(task).or_default();
    match *words.as_slice() {
        ["enter", call, ..] => *inside = Some(call.to_owned()),
        ["exit", _, rest] => match inside.take() {
            Some(call) if call == "openat" || !rest.contains(['/', 'a']) => {
                return Some(format!("exit {call} {rest}"));
            }
            Some(call) => return Some(format!("exit {call} 0")),
            None => {}
        },
        ["fork", child] if alive.keys().any(|key| process(key) == process(child)) => return None,
        // The calling thread has the process's number when the kernel reports the exec.
        ["comm", _, "exec"] if task.split_once('/').is_none_or(|halves| halves.0 != halves.1) => {
            return None;
        }
        ["comm", _, "exec"] => alive.retain(|pid, _| process(pid) != process(task)),
        ["death"] => {
            alive.remove(task);
        }
        _ => {}
    }
    Some(event.to_owned())
}

#[test]
fn destroyed_handles_stay_destroyed_between_threads() {
    let text = "10 7/17 enter sendfile64 0 4 1\n20 7/7 comm new exec\n30 7/17 enter lseek 0 0 1\n40 7/7 comm new exec\n\
                50 7/7 enter read 4 0 1\n";
    let made = make(text, OtfOptions::default(), MOUNTS).expect("an archive");
    match otf2_print() {
        Some(program) => {
            balance::check(&printed(&program, &made, &["-G"]), &printed(&program, &made, &[]));
        }
        None => skip(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_becomes_a_valid_archive(text in history(), block_on_threads in any::<bool>()) {
        let options = OtfOptions { block_on_threads, ..OtfOptions::default() };
        let made = make(&text, options, MOUNTS).expect("an archive");
        prop_assert_eq!((made.summary.clamped, made.summary.after_end), (0, 0));
        match otf2_print() {
            Some(program) => balance::check(&printed(&program, &made, &["-G"]), &printed(&program, &made, &[])),
            None => skip(),
        }
    }
}
