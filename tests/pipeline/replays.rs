//! Plans of recorded logs: does every operation have its place, and does nobody wait for who was not in front of it?

use std::collections::BTreeMap;
use std::convert::Infallible;

use iotrace_perf::analysis::done::What;
use iotrace_perf::analysis::summary::IoSummary;
use iotrace_perf::replay::calls::Reason;
use iotrace_perf::replay::order::At;
use iotrace_perf::replay::planned::Planned;
use iotrace_perf::replay::planner::{Out, Planner};

use super::{names, read, run};

#[derive(Default)]
struct Kept(Vec<Planned>);

impl Out for Kept {
    type Error = Infallible;

    fn planned(&mut self, planned: &Planned) -> Result<(), Infallible> {
        self.0.push(planned.clone());
        Ok(())
    }
}

#[test]
fn every_call_has_its_place() {
    let (mut done, mut implicit) = (0, 0);
    for name in names("iocap") {
        let (summary, _, plan) = run(&read(&name, "iocap"), Planner::new(Kept::default()));
        let (_, _, all) = run(&read(&name, "iocap"), IoSummary::default());
        let calls: u64 =
            all.calls.iter().filter(|it| matches!(it.0, What::Call(_))).map(|it| it.1.count).sum();
        let planned = plan.out.0.iter().filter(|it| !it.implicit).count() as u64;
        assert_eq!(planned + plan.implicit, plan.out.0.len() as u64, "{name}");
        assert_eq!(planned, plan.done.values().sum::<u64>(), "{name}");
        let (endless, left): (Vec<_>, Vec<_>) =
            plan.left.iter().partition(|it| it.0.0 == Reason::NoResult);
        let sum = |of: Vec<(_, &u64)>| of.into_iter().map(|it| *it.1).sum::<u64>();
        assert_eq!(planned + plan.followed + sum(left), calls, "{name}");
        let ledger = &summary.ledger;
        let expected = ledger.open_at_end + ledger.cut_off + ledger.lost_exits;
        assert_eq!(sum(endless), expected, "{name}");
        done += planned;
        implicit += plan.implicit;
    }
    assert!(done > 2000, "{done}");
    assert!(implicit > 20, "{implicit}");
}

/// Fails if the same log gives two plans, or if a replay could wait for ever.
#[test]
fn who_is_waited_for_was_over() {
    let mut waits = 0;
    for name in names("iocap") {
        let plan = || run(&read(&name, "iocap"), Planner::new(Kept::default())).2;
        let Planner { out: Kept(planned), who, .. } = plan();
        assert_eq!(planned, plan().out.0, "{name}");
        let mut ends: BTreeMap<At, u64> = BTreeMap::new();
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
                // A lock counts when somebody has it, a name when somebody found it, and what no call did has no time.
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
