//! Replays of anonymised capsules make the calls of the original.

use std::fs;

use super::fixture::Replay;
use crate::support::driver::recording::{can_record, iotrace};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};

/// Fails if a replay of a capsule gives other results, or files of other sizes, than one of the
/// original.
#[test]
fn replay_of_a_capsule_gives_the_results_of_the_original() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let copy = dir.path().join("confidential");
    let original = Replay::of(dir.path(), &["cp", "-r", "src", text(&copy)]);
    let report = original.report(&["--speed", "max"]);
    let log = dir.path().join("trace/traces.iocap");
    let capsule = dir.path().join("capsule.iocap");
    iotrace(&["convert", "--capsule", text(&log), "-o", text(&capsule)]).success();
    let plan = dir.path().join("of-capsule");
    iotrace(&["replay", "plan", text(&capsule), "-o", text(&plan)]).success();
    let anonymous = Replay { plan, root: dir.path().join("other") };
    anonymous.assert_same(&["--speed", "max"], report["operations"].as_u64().expect("a number"));
    // The plan and the made files have no name of the original.
    let plan = fs::read(&anonymous.plan).expect("a plan");
    assert!(!plan.windows(12).any(|window| window == b"confidential"));
}
