//! Locks, processes and their descriptors in replays.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::fixture::{Replay, sizes};
use crate::support::driver::recording::{BINARY, can_record, compile};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};

/// Programs that lock a file in turn.
#[test]
fn locks_are_acquired_in_captured_order() {
    if !can_record(&[Need::Uprobes, Need::Program("flock")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let line = format!(
        "cd {} && for i in 1 2 3 4; do flock lock sh -c 'echo one >> f; cat f >> g' & done; wait; flock -n lock cat f g",
        text(&place)
    );
    let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
    for _ in 0..3 {
        replay.assert_same(&["--speed", "max"], 100);
    }
}

/// Fails if another thread gets a lock than in the capture, if a refused attempt is not refused, or
/// if a thread waits for ever.
#[test]
fn lock_holders_are_those_of_the_capture() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let program = compile("locks.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let replay = Replay::of(dir.path(), &[&program, text(&place), "41"]);
    // Turns of four processes, and of their children.
    let records = 4 * 41 + 33;
    for options in [&["--speed", "max"][..]; 5] {
        replay.assert_same(options, 1000);
        assert_eq!(sizes(&replay.inside(&place)), sizes(&place));
    }
    assert_eq!(sizes(&place)[Path::new("data")], records * 101);
    replay.assert_same(&["--speed", "max", "--order", "total"], 1000);
    replay.assert_same(&["--speed", "3", "--pacing", "closed"], 1000);
    let report = replay.report(&["--speed", "3"]);
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    // Locks and unlocks, reads together, children, the parent and the attempts that it conflicted
    // with. Others that were refused may have been so at the last moment.
    let count = |table: &str| -> u64 {
        let rows = report[table].as_array().expect("a list").iter();
        let flocks = rows.filter(|it| it["call"] == "flock");
        flocks.map(|it| it["count"].as_u64().expect("a number")).sum()
    };
    assert!(count("outcomes") >= 2 * (4 * 41) + 2 * 24 + 33 + 2 + 8, "{report:#}");
    assert!(count("left_calls") < 28, "{report:#}");
    // Without an order locks come as they come, but all is over at some time.
    for order in ["thread", "none"] {
        assert_eq!(replay.report(&["--speed", "max", "--order", order])["is_whole"], true);
    }
}

/// Fails if descriptors that went with their processes, or by an exec, stay open in the replay.
#[test]
fn descriptors_of_an_exited_process_are_closed() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let program = compile("staggered_exits.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let replay = Replay::of(dir.path(), &[&program, text(&place), "8", "101", "700"]);
    replay.init().success();
    let mut command = Command::new(BINARY);
    command.args(["replay", "run", text(&replay.plan), "--root", text(&replay.root), "--json"]);
    let reported = fs::File::create_new(dir.path().join("reported")).expect("space");
    let mut running = command.stdout(reported).spawn().expect("it starts");
    let folder = format!("/proc/{}/fd", running.id());
    let mut seen = Vec::new();
    while running.try_wait().expect("our child").is_none() {
        seen.push(fs::read_dir(&folder).map_or(0, Iterator::count));
        std::thread::sleep(Duration::from_millis(10));
    }
    let reported = fs::read(dir.path().join("reported")).expect("ours");
    let report: Value = serde_json::from_slice(&reported).expect("a report");
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    assert_eq!(report["is_whole"], true);
    // On a busy machine not all of them are looked at at once.
    let many = seen.iter().position(|it| *it > 700).unwrap_or_else(|| panic!("{seen:?}"));
    assert!(seen[many..].iter().any(|it| (1..50).contains(it)), "{seen:?}");
}
