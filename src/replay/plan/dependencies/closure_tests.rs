//! Transitive closure of dependencies: with all accesses ever made, and with only those that are
//! kept.

use proptest::prelude::*;

use super::*;
use crate::replay::plan::evicted_accesses::EvictedAccesses;
use crate::units::{Nanos, ReplayTime};

/// Number of resources.
const THINGS: usize = 3;

/// Operation, with the resource that it accesses and whether it saw that resource.
#[derive(Clone, Copy, Debug)]
struct TestOperation {
    by: TimedOp,
    thing: usize,
    touch: ConflictMode,
    saw: bool,
}

/// Creates operations of 7 threads, in the order of their ends. The first ones of a thread may take
/// long.
fn operations(choices: &[[u8; 4]]) -> Vec<TestOperation> {
    let mut ends = [ReplayTime::MIN; 7];
    let mut numbers = [0; 7];
    let mut all: Vec<TestOperation> = Vec::new();
    for (time, [who, what, pause, length]) in (0..).zip(choices) {
        let worker = usize::from(*who % 7);
        let start = ends[worker].saturating_add(Nanos((*pause).into()));
        let start = start.max(ReplayTime(time * 8));
        let length = if *length < 6 { 20_000 } else { u64::from(*length % 40) + 1 };
        let end = start.saturating_add(Nanos(length));
        ends[worker] = end;
        let at = OpId { worker: Worker(u32::from(*who % 7)), number: numbers[worker] };
        numbers[worker] += 1;
        let touch = if what % 4 == 0 { ConflictMode::Exclusive } else { ConflictMode::Shared };
        let by = TimedOp { at, start, end };
        all.push(TestOperation {
            by,
            thing: usize::from(*what / 8) % THINGS,
            touch,
            saw: what & 4 != 0,
        });
    }
    all.sort_by_key(|did| did.by.end);
    all
}

/// Returns the direct edges of each operation, from the accesses that are kept. `forgets`: from
/// time to time, resources are evicted too.
fn edges(all: &[TestOperation], keeps_all: bool, forgets: bool) -> Vec<Vec<OpId>> {
    let mut things = vec![AccessHistory::default(); THINGS];
    let mut forgotten = EvictedAccesses::default();
    let mut edges = Vec::new();
    for (place, did) in all.iter().enumerate() {
        let starts = |from: usize| -> Vec<ReplayTime> {
            let later = all[from..].iter().map(|other| other.by.start);
            later.filter(|start| *start < did.by.end).collect()
        };
        let past = |from: usize| match keeps_all {
            true => LowWatermark::default(),
            false => {
                let starts = starts(from);
                LowWatermark::of(starts.iter().min().copied().unwrap_or(did.by.end), &starts)
            }
        };
        let mut before = WaitSet::default();
        forgotten.wait(did.by, &past(place), &mut before);
        let floor = past(place);
        things[did.thing].touch_seen(did.by, did.saw, did.touch, &floor, &mut before);
        edges.push(before.all().to_vec());
        if forgets && place % 31 == 30 {
            let some = things.iter_mut().step_by(1 + place % 3).map(std::mem::take);
            forgotten.add(some, &past(place + 1));
        }
    }
    edges
}

/// Returns, for each operation, all operations that are executed before it.
fn reachable(all: &[TestOperation], edges: &[Vec<OpId>]) -> Vec<Vec<bool>> {
    let mut reachable: Vec<Vec<bool>> = Vec::new();
    for (did, direct) in all.iter().zip(edges) {
        let mut own = vec![false; all.len()];
        let OpId { worker, number } = did.by.at;
        let last = number.checked_sub(1).map(|number| OpId { worker, number });
        for before in direct.iter().copied().chain(last) {
            let place = all.iter().position(|did| did.by.at == before).expect("it was there");
            own[place] = true;
            own.iter_mut().zip(&reachable[place]).for_each(|(own, other)| *own |= *other);
        }
        reachable.push(own);
    }
    reachable
}

proptest! {
    /// Fails if an access that is not kept was needed, or an edge leads to an operation that had
    /// not ended.
    #[test]
    fn closure_needs_only_kept_operations(
        choices in proptest::collection::vec(any::<[u8; 4]>(), 1..600),
    ) {
        let all = operations(&choices);
        let expected = reachable(&all, &edges(&all, true, false));
        prop_assert_eq!(&reachable(&all, &edges(&all, false, false)), &expected);
        // No operation saw a change for which it did not wait: see below.
        let blind: Vec<TestOperation> = all.iter().map(|did| TestOperation { saw: false, ..*did }).collect();
        let expected = reachable(&blind, &edges(&blind, true, false));
        let direct = edges(&blind, false, true);
        let coarser = reachable(&blind, &direct);
        for (coarser, expected) in coarser.iter().flatten().zip(expected.iter().flatten()) {
            prop_assert!(*coarser || !expected);
        }
        for (did, direct) in blind.iter().zip(&direct) {
            let ends = |at: &OpId| all.iter().find(|did| did.by.at == *at).expect("it was there").by.end;
            prop_assert!(direct.iter().all(|at| ends(at) <= did.by.start));
        }
    }
}
