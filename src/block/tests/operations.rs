//! Tests of operations that the letters do not determine.

use super::language::parse;
use crate::block::{BlockRequest, BlockStep, BlockTracker, DiskstatsClass};
use crate::event::block::RequestOp;
use crate::units::DevId;

/// Returns the only request of these events, on 7:0, which has no zones, and 7:1, which may have
/// some.
#[track_caller]
fn check(events: &[&str], op: RequestOp, class: Option<DiskstatsClass>, sectors: u64) {
    let mut tracker = BlockTracker::default();
    tracker.has_unzoned(std::iter::once(DevId::new(7, 0)));
    let mut ended: Vec<BlockRequest> = Vec::new();
    for (place, event) in events.iter().enumerate() {
        let line = format!("0.000_{:03} {event}", 100 + place);
        let (at, event) = parse(&line).expect("an event");
        tracker.push(&at, &event, &mut |step| match step {
            BlockStep::Ended(it) => ended.push(it.clone()),
            BlockStep::Anomaly(it) => panic!("{it:?}"),
            _ => {}
        });
    }
    let [one] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!((one.op, one.diskstats_class(), one.diskstats_sectors()), (op, class, sectors));
}

/// Fails if a write of zeroes has no name, or if another request gets its name.
#[test]
fn bio_with_a_length_on_an_unzoned_device_is_write_zeroes() {
    let write = Some(DiskstatsClass::Write);
    let through = |dev: &str, letters: &str, length: u32| {
        ["queue", "getrq", "issue", "complete"]
            .map(|it| format!("tid 7 {it} {dev} {letters} 2048 +{length}"))
    };
    let check = |events: [String; 4], op, sectors| {
        check(&events.each_ref().map(String::as_str), op, write, sectors);
    };
    check(through("7:0", "NS", 8), RequestOp::WriteZeroes, 8);
    check(through("7:0", "N", 8), RequestOp::WriteZeroes, 8);
    check(through("7:1", "WZS", 8), RequestOp::WriteZeroes, 8);
    // An append to a zone, before Linux 6.18.
    check(through("7:1", "N", 8), RequestOp::Other, 8);
    // Another operation on zones.
    check(through("7:1", "NS", 0), RequestOp::Other, 0);
    check(through("7:1", "ZAS", 8), RequestOp::ZoneAppend, 8);
    check(through("7:1", "ZR", 0), RequestOp::ZoneReset, 0);
    check(through("7:1", "ZRA", 0), RequestOp::ZoneResetAll, 0);
    check(through("7:1", "ZO", 0), RequestOp::ZoneOpen, 0);
    check(through("7:1", "ZC", 0), RequestOp::ZoneClose, 0);
    check(through("7:1", "ZF", 0), RequestOp::ZoneFinish, 0);
    check(through("7:0", "DES", 8), RequestOp::SecureErase, 8);
}

#[test]
fn a_bio_of_a_device_without_requests_has_its_name_too() {
    let events = ["tid 7 queue 7:0 NS 0 +8", "tid 7 bio_complete 7:0 NS 0 +8"];
    check(&events, RequestOp::WriteZeroes, Some(DiskstatsClass::Write), 8);
}

/// Fails if a driver command, which has no bio and no place, is counted.
#[test]
fn driver_commands_are_other_operations() {
    let events = ["tid 7 issue 7:0 N 0 +0", "tid 7 complete 7:0 N -1 +0"];
    check(&events, RequestOp::Other, None, 0);
}
