//! Rounds and parts of replays.

use std::fs;
use std::path::Path;

use super::fixture::{NAMED, Replay};
use crate::support::driver::recording::{can_record, iotrace, record};
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};

/// Fails if a round finds what the one before has left: a directory can be made once.
#[test]
fn each_round_begins_with_new_files() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory");
    let replay = Replay::of_mkdir(dir.path());
    let report = replay.report(&["--loop", "3", "--drop-caches"]);
    assert_eq!(report["rounds_done"].as_array().expect("a list").len(), 3, "{report:#}");
    assert_eq!(report["operations"], 3, "{report:#}");
    assert_eq!(report["mismatches"], 0, "{report:#}");
    // Files that another replay has changed are refused by the first round, without a report.
    let refused = replay.run(&["--loop", "2"]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("make them again"), "{}", refused.stderr());
}

/// Two threads that make a directory each, every 100 ms, the second one 50 ms after the first; each
/// takes 10 ms. In the second thread the first one is the parent of the others, and the first
/// thread's are below it, so that no thread may begin before it is there.
fn made_every_100_ms(dir: &Path) -> Replay {
    let mut lines = vec!["1 1700000000.000000 mkdir(\"/w/a\", 0777) = 0 <0.010000>\n".to_owned()];
    for number in 1..10 {
        lines.push(format!(
            "2 1700000000.{:06} mkdir(\"/w/a/b{number}\", 0777) = 0 <0.010000>\n",
            number * 100_000 - 50_000
        ));
        lines.push(format!(
            "1 1700000000.{number}00000 mkdir(\"/w/a/a{number}\", 0777) = 0 <0.010000>\n"
        ));
    }
    let (strace, log) = (dir.join("strace"), dir.join("trace/traces.iocap"));
    fs::write(&strace, lines.concat()).expect("space");
    fs::create_dir(dir.join("trace")).expect("a directory");
    iotrace(&["import", text(&strace), "-o", text(&log)]).success();
    Replay::of_log(dir, "plan")
}

/// Fails if something of a part is not done, or something after it is; or if times are those of
/// what was done before.
#[test]
fn part_of_a_plan_is_replayed() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory");
    let replay = made_every_100_ms(dir.path());
    let part = ["--from", "310ms", "--until", "600ms"];
    let paces: [&[&str]; 4] = [
        &["--speed", "max"],
        &["--speed", "max", "--order", "total"],
        &["--speed", "2"],
        &["--pacing", "closed"],
    ];
    for pace in paces {
        let report = replay.report(&[&part, pace].concat());
        let is =
            |key: &str, expected: u64| assert_eq!(report[key], expected, "{pace:?}: {report:#}");
        // a to a3, b1 to b3; and a4, b4, a5, b5, b6.
        is("operations", 7 + 5);
        is("prepared", 7);
        is("mismatches", 0);
        assert_eq!(report["is_whole"], true, "{report:#}");
        assert_eq!(report["calls"][0]["count"], 5, "{report:#}");
        is("captured_span_ns", 560_000_000 - 350_000_000);
        let expected = match pace {
            ["--speed", "2"] => 105_000_000,
            ["--pacing", "closed"] => 210_000_000,
            _ => 0,
        };
        assert_eq!(report["expected_span_ns"].as_u64().unwrap_or(0), expected, "{report:#}");
        // No operation begins before its time, the first one may have been late, and the last one
        // took 10 ms in the capture.
        let ns = |key: &str| report[key].as_u64().unwrap_or(0);
        let least = expected.saturating_sub(ns("lateness_max_ns") + 10_000_000 / 2);
        assert!(pace[0] != "--speed" || ns("span_ns") >= least, "{report:#}");
        let made = |name: &str| replay.inside(Path::new("/w/a")).join(name).exists();
        assert_eq!(["a3", "a5", "b6", "a6", "b7"].map(made), [true, true, true, false, false]);
    }
    let refused = replay.run(&["--from", "2s"]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("ends 910ms after"), "{}", refused.stderr());
}

/// Fails if a write goes elsewhere in a file because the reads and seeks that had moved to its
/// place are not done again.
#[test]
fn unreplayed_renames_still_move_files() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let place = dir.path().join("f");
    fs::write(&place, "1234567\n1234567\nrest").expect("space");
    let line =
        format!("exec 3<>{}; read a <&3; echo new >&3; read b <&3; echo more >&3", text(&place));
    let (finished, _) = record(&dir.path().join("trace"), &NAMED, &["sh", "-c", &line]);
    finished.success();
    let (plan, log) = (dir.path().join("plan"), dir.path().join("trace/traces.iocap"));
    iotrace(&["replay", "plan", text(&log), "--io", "w", "-o", text(&plan)]).success();
    let replay = Replay { plan, root: dir.path().join("root") };
    iotrace(&[
        "replay",
        "init",
        text(&replay.plan),
        "--root",
        text(&replay.root),
        "--content",
        "zero",
    ])
    .success();
    replay.run(&["--speed", "max"]).success();
    let written = fs::read(replay.inside(&place)).expect("made");
    let is_written: Vec<bool> = written.chunks(4).map(|it| it != [0; 4]).collect();
    assert_eq!(is_written, [false, false, true, false, true, true], "{written:?}");
    let again = format!("{}/", text(&dir.path().join("again")));
    let report = replay.report(&["--speed", "max", "--trace", &again]);
    assert_eq!(report["trace"]["is_same"], true, "{report:#}");
    assert_eq!(report["trace"]["offsets_unknown"], 0, "{report:#}");
}
