//! Plans of recorded logs: every operation has its place, and depends only on operations before it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use iotrace_perf::analysis::completed_op::OpKind;
use iotrace_perf::analysis::summary::IoSummary;
use iotrace_perf::replay::plan::dependencies::OpId;
use iotrace_perf::replay::plan::planned_op::PlannedOp;
use iotrace_perf::replay::plan::planner::{PlanOutput, Planner};
use iotrace_perf::replay::plan::replayability::SkipReason;
use iotrace_perf::units::ReplayTime;

use super::{names, read, run};

#[derive(Default)]
struct Kept(Vec<PlannedOp>);

impl PlanOutput for Kept {
    type Error = Infallible;

    fn planned(&mut self, planned: &PlannedOp) -> Result<(), Infallible> {
        self.0.push(planned.clone());
        Ok(())
    }
}

#[test]
fn every_call_has_its_place() {
    let (mut done, mut implicit, mut asynchronous) = (0, 0, 0);
    for name in names("iocap") {
        let (summary, _, plan) = run(&read(&name, "iocap"), Planner::new(Kept::default()));
        let (_, _, all) = run(&read(&name, "iocap"), IoSummary::default());
        let planned = plan.out.0.iter().filter(|it| !it.implicit).count() as u64;
        assert_eq!(planned + plan.implicit, plan.out.0.len() as u64, "{name}");
        assert_eq!(planned, plan.done.values().sum::<u64>(), "{name}");
        let ledger = &summary.ledger;
        let [endless, endless_asynchronous] = [
            ledger.open_at_end + ledger.cut_off + ledger.lost_exits,
            ledger.async_open + ledger.async_unseen,
        ];
        for (is_call, followed, endless) in
            [(true, plan.model_only, endless), (false, 0, endless_asynchronous)]
        {
            let is_meant = |it: &OpKind| matches!(it, OpKind::Call(_)) == is_call;
            let of = |is_endless: bool| -> u64 {
                let left = plan.skipped.iter().filter(|it| is_meant(&it.0.1));
                left.filter(|it| (it.0.0 == SkipReason::NoResult) == is_endless)
                    .map(|it| *it.1)
                    .sum()
            };
            let done: u64 = plan.done.iter().filter(|it| is_meant(it.0)).map(|it| *it.1).sum();
            let ended: u64 =
                all.calls().iter().filter(|it| is_meant(&it.0.0)).map(|it| it.1.count).sum();
            assert_eq!(done + followed + of(false), ended, "{name}");
            assert_eq!(of(true), endless, "{name}");
        }
        asynchronous += plan.out.0.iter().filter(|it| it.asynchronous.is_some()).count();
        done += planned;
        implicit += plan.implicit;
    }
    assert!(asynchronous >= 6, "{asynchronous}");
    assert!(done > 2000, "{done}");
    assert!(implicit > 20, "{implicit}");
}

/// Fails if the same log gives two plans, or if a replay could wait for ever.
#[test]
fn dependencies_ended_before_their_dependents() {
    let mut waits = 0;
    for name in names("iocap") {
        let plan = || run(&read(&name, "iocap"), Planner::new(Kept::default())).2;
        let Planner { out: Kept(planned), workers: who, .. } = plan();
        assert_eq!(planned, plan().out.0, "{name}");
        let mut ends: BTreeMap<OpId, ReplayTime> = BTreeMap::new();
        let mut counts: BTreeMap<_, u32> = BTreeMap::new();
        for it in &planned {
            let count = counts.entry(it.at.worker).or_default();
            assert_eq!(it.at.number, *count, "{name}");
            *count += 1;
            let born = &who[it.at.worker.0 as usize].before;
            let born = born.iter().filter(|_| it.at.number == 0);
            for before in it.before.iter().chain(born) {
                assert!(before.worker != it.at.worker, "{name}: {it:?}");
                let end = ends.get(before).expect("it comes before");
                // A lock counts once it is acquired, a name once it is resolved; an operation
                // without a call has no time.
                let is_by_result = it.path.is_some() || it.call.call().name == "flock";
                let latest = if is_by_result { it.end } else { it.start };
                assert!(it.implicit || *end <= latest, "{name}: {it:?}");
                waits += 1;
            }
            ends.insert(it.at, it.end);
        }
    }
    assert!(waits > 20, "{waits}");
}

/// Fails if a lane does two operations at once, if a thread has more lanes than it needs, or if one
/// begins before what its thread had done.
#[test]
fn lane_has_one_operation_at_a_time() {
    let mut deepest = 0;
    for name in names("iocap") {
        let Planner { out: Kept(planned), workers: who, .. } =
            run(&read(&name, "iocap"), Planner::new(Kept::default())).2;
        let mut of: BTreeMap<i32, Vec<&PlannedOp>> = BTreeMap::new();
        let mut ends: BTreeMap<_, ReplayTime> = BTreeMap::new();
        for it in &planned {
            let who = &who[it.at.worker.0 as usize];
            assert_eq!(it.asynchronous.is_some(), who.lane.is_some() && !it.implicit, "{name}");
            if it.asynchronous.is_none() {
                continue;
            }
            let end = ends.insert(it.at.worker, it.end);
            assert!(end.is_none_or(|end| end <= it.start), "{name}: {it:?}");
            assert!(it.handle.is_some() && !who.before.is_empty(), "{name}: {it:?}");
            of.entry(who.tid).or_default().push(it);
        }
        for (tid, operations) in of {
            let at_once = |it: &&&PlannedOp| {
                let begun = operations.iter().filter(|other| other.start <= it.start);
                begun.filter(|other| other.end > it.start).count()
            };
            let depth = operations.iter().map(|it| at_once(&it)).max().expect("there is one");
            let lanes = who.iter().filter(|it| it.tid == tid && it.lane.is_some()).count();
            assert_eq!(lanes, depth, "{name}");
            deepest = deepest.max(depth);
        }
    }
    assert!(deepest >= 2, "{deepest}");
}
