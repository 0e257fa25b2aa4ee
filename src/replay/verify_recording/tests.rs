use std::io::Write;

use super::*;
use crate::replay::plan::dependencies::{OpId, Worker};
use crate::replay::plan::namespace::FileId;
use crate::replay::plan::plan_file::{PlanWriter, finish};
use crate::replay::plan::planned_op::{PlannedOp, WorkerInfo};
use crate::replay::plan::planner::{PlanOutput, Planner};
use crate::units::ReplayTime;

/// Returns the file at a path: its number is the last byte of the path.
fn file_of(path: &str) -> FileId {
    FileId(path.bytes().last().map_or(0, u32::from))
}

/// Returns the operation of a line `CALL PATH OFFSET RESULT`.
fn operation(number: u32, line: &str) -> PlannedOp {
    let [call, path, offset, ret] = line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let path = Some(path).filter(|it| *it != "-");
    let file = path.map(file_of);
    let path = path.map(|path| path.as_bytes().to_vec());
    let call = CallId::by_name(call).expect(call);
    let is_named = call.call().has_path();
    PlannedOp {
        at: OpId { worker: Worker(0), number },
        call,
        asynchronous: None,
        args: [7, 0, 0, 0, 0, 0],
        handle: None,
        target: None,
        makes: None,
        file,
        path: path.filter(|_| is_named),
        second_path: None,
        flags: None,
        offset: offset.parse().ok(),
        target_offset: None,
        bytes: None,
        ret: ret.parse().expect(line),
        start: ReplayTime(number.into()),
        end: ReplayTime(number.into()),
        keeps_handle: false,
        implicit: false,
        before: Vec::new(),
    }
}

fn side(comm: &str, lines: &[&str]) -> PlanSide {
    side_of(WorkerInfo { comm: comm.into(), ..WorkerInfo::default() }, lines)
}

fn side_of(who: WorkerInfo, lines: &[&str]) -> PlanSide {
    let mut planner = Planner::new(PlanWriter::new(Vec::new()).expect("memory"));
    for (number, line) in (0..).zip(lines) {
        planner.out.planned(&operation(number, line)).expect("memory");
    }
    planner.workers = vec![who];
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&finish(planner, std::env::consts::ARCH).expect("memory")).expect("space");
    let (reader, index) = PlanReader::new(file).expect("a plan");
    let mut side = PlanSide::new(reader, index).expect("a plan");
    let paths = lines.iter().filter_map(|line| line.split(' ').nth(1)).filter(|path| *path != "-");
    side.names = paths.map(|path| (file_of(path).0, path.as_bytes().to_vec())).collect();
    side
}

const PLAN: [&str; 4] = ["open /a - 3", "read - 0 100", "read - 100 50", "close - - 0"];

/// Compares [`PLAN`] with a recording. `expected`: `SAME DIFFERENT MISSING EXTRA OWN`;
/// `difference`: that of the first example.
#[track_caller]
fn check(recorded: &[&str], expected: &str, difference: Option<OperationDifference>) {
    let traced = compare(&side("app", &PLAN), &side("replay 0", recorded), b"/again/files");
    let traced = traced.expect("plans");
    let VerifyResult { same, missing, extra, own, .. } = traced;
    let different: u64 = traced.different.values().sum();
    assert_eq!(format!("{same} {different} {missing} {extra} {own}"), expected);
    assert_eq!(traced.examples.first().map(|it| it.difference), difference);
    assert_eq!(traced.is_same(), different + missing + extra == 0);
    assert_eq!(traced.compared, same + different);
}

#[test]
fn operations_are_equal_below_the_root() {
    check(
        &["open /again/files/a - 9", "read - 0 100", "read - 100 50", "close - - 0"],
        "4 0 0 0 0",
        None,
    );
}

#[test]
fn each_difference_is_reported() {
    let with = |at: usize, line: &'static str| {
        let mut lines = PLAN;
        lines[at] = line;
        lines
    };
    check(&with(0, "open /again/files2/a - 3"), "3 1 0 0 0", Some(OperationDifference::Path));
    check(&with(0, "creat /a - 3"), "3 1 0 0 0", Some(OperationDifference::Call));
    check(&with(0, "open /a - -2"), "3 1 0 0 0", Some(OperationDifference::Result));
    check(&with(1, "read - 4096 100"), "3 1 0 0 0", Some(OperationDifference::Offset));
    check(&with(1, "read - 0 99"), "3 1 0 0 0", Some(OperationDifference::Result));
}

/// Fails if a missing operation makes all later ones differ.
#[test]
fn missing_and_surplus_operations_are_counted() {
    check(&[PLAN[0], PLAN[2], PLAN[3]], "3 0 1 0 0", None);
    check(&PLAN[..2], "2 0 2 0 0", None);
    check(&[PLAN[0], PLAN[1], PLAN[2], PLAN[3], "unlink /a - 0"], "4 0 0 1 0", None);
    check(&[], "0 0 4 0 0", None);
}

#[test]
fn own_calls_of_the_replay_are_ignored() {
    let own = ["openat /sys/devices/system/cpu/online - -2", "dup - - 8"];
    check(&[&own[..1], &PLAN[..3], &own[1..], &PLAN[3..]].concat(), "4 0 0 0 2", None);
}

/// Fails if threads of a replay are taken for others, or others for them.
#[test]
fn threads_of_other_programs_are_not_compared() {
    let traced = compare(&side("app", &PLAN), &side("app", &PLAN), b"/").expect("plans");
    assert_eq!((traced.missing, traced.compared), (4, 0));
}

#[test]
fn unknown_offset_is_counted_but_not_compared() {
    let recorded = [PLAN[0], "read - - 100", PLAN[2], PLAN[3]];
    let traced = compare(&side("app", &PLAN), &side("replay 0", &recorded), b"/").expect("plans");
    assert_eq!((traced.same, traced.offsets_unknown), (4, 1));
}

/// Fails if a name that the recording does not know is a difference, or if an operation without one
/// counts as a later operation.
#[test]
fn unknown_file_is_counted_but_not_compared() {
    let planned = ["newfstat /a - 0", "newfstat /b - 0", "close /a - 0", "newfstat - - 0"];
    let recorded =
        ["newfstat - - 0", "newfstat /again/files/b - 0", "close - - 0", "newfstat - - 0"];
    let traced = compare(&side("app", &planned), &side("replay 0", &recorded), b"/again/files");
    let traced = traced.expect("plans");
    assert_eq!((traced.same, traced.files_unknown, traced.is_same()), (4, 2, true));

    let recorded =
        ["newfstat /again/files/c - 0", "newfstat - - 0", "close - - 0", "newfstat - - 0"];
    let traced = compare(&side("app", &planned), &side("replay 0", &recorded), b"/again/files");
    let traced = traced.expect("plans");
    assert_eq!((traced.same, traced.files_unknown, traced.missing), (3, 2, 0));
}

/// Fails if a path through a link of the plan differs from the path of the file that it leads to.
#[test]
fn paths_through_initial_links_are_the_same() {
    let planned = ["open /lib/z - 3", "read - 0 100", "unlink /lib/z - 0"];
    let recorded = ["open /again/files/usr/lib/z - 9", "read - 0 100", "unlink /usr/lib/z - 0"];
    let (plan, recording) = (side("app", &planned), side("replay 0", &recorded));
    let compared = |links: &[(&str, &str)]| {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let links = links.iter().map(|(path, text)| (bytes(path), bytes(text))).collect();
        let traced = compare_with(&plan, &recording, b"/again/files", &links).expect("plans");
        (traced.same, traced.different.values().sum::<u64>())
    };
    // A call without a descriptor works on the link itself.
    assert_eq!(compared(&[("/lib", "usr/lib")]), (2, 1));
    assert_eq!(compared(&[]), (1, 2));
    assert_eq!(compared(&[("/lib", "lib")]), (1, 2));
}

/// Fails if operations of a ring are not reported as missing in lanes, or missing operations of a
/// thread are.
#[test]
fn lanes_without_threads_are_counted() {
    let lane = || side_of(WorkerInfo { lane: Some(0), ..WorkerInfo::default() }, &PLAN);
    let check = |plan: &PlanSide, recording: &PlanSide| {
        let traced = compare(plan, recording, b"/").expect("plans");
        (traced.missing, traced.missing_in_lanes)
    };
    assert_eq!(check(&lane(), &side("ring 0", &[])), (4, 4));
    assert_eq!(check(&lane(), &side("replay 0", &PLAN[..1])), (3, 0));
    assert_eq!(check(&side("app", &PLAN), &side("ring 0", &[])), (4, 0));
}
