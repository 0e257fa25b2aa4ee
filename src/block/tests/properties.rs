//! Properties for any events: no panic, every event is used or an anomaly, every request ends once.

use proptest::prelude::*;

use super::language::run;
use crate::block::{BlockOptions, EventContext, RequestEnd};
use crate::event::block::{BlockEvent, BlockPoint, DevicePosition, Rwbs};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

fn any_point() -> impl Strategy<Value = BlockPoint> {
    prop_oneof![
        4 => Just(BlockPoint::GetRq),
        2 => Just(BlockPoint::Insert),
        4 => Just(BlockPoint::Issue),
        4 => Just(BlockPoint::Complete),
        1 => Just(BlockPoint::Requeue),
        1 => Just(BlockPoint::BackMerge),
        1 => Just(BlockPoint::FrontMerge),
        1 => Just(BlockPoint::RqMerge),
        4 => Just(BlockPoint::BioQueue),
        1 => Just(BlockPoint::Split),
        2 => Just(BlockPoint::Remap),
        2 => Just(BlockPoint::BioComplete),
    ]
}

/// Generates events at few places, so that they meet; some are at the ends of the number range.
fn any_event() -> impl Strategy<Value = (EventContext, BlockEvent)> {
    let sector = prop_oneof![8 => (0u64..6).prop_map(|it| it * 8), 1 => Just(u64::MAX), 1 => Just(u64::MAX - 8)];
    let nr_sector =
        prop_oneof![2 => Just(0u32), 8 => (1u32..4).prop_map(|it| it * 8), 1 => Just(u32::MAX)];
    let letters =
        prop::sample::select(vec!["R", "WS", "FWFSM", "FWS", "WFS", "FF", "DS", "N", "ZR", ""]);
    let error = prop_oneof![8 => Just(0), 1 => Just(-5), 1 => Just(i32::MIN)];
    (any_point(), 0u32..2, sector, nr_sector, letters, error, 0..3, 0u64..1000).prop_map(
        |(point, minor, sector, nr_sector, letters, error, tid, time)| {
            let at = EventContext {
                time: KernelTime(time),
                cpu: CpuId(0),
                pid: Pid(tid),
                tid: Tid(tid),
            };
            let dev = DevId::new(7, minor);
            let other = DevicePosition { dev: DevId::new(7, 1 - minor), sector };
            (
                at,
                BlockEvent {
                    point,
                    dev,
                    sector,
                    nr_sector,
                    error,
                    rwbs: Rwbs::new(letters.as_bytes()),
                    from: (point == BlockPoint::Remap).then_some(other),
                    comm: None,
                    chain: None,
                },
            )
        },
    )
}

fn any_options() -> impl Strategy<Value = BlockOptions> {
    (any::<bool>(), any::<bool>(), 0usize..20).prop_map(
        |(merges_recorded, requeues_recorded, in_flight_limit)| BlockOptions {
            merges_recorded,
            requeues_recorded,
            in_flight_limit,
        },
    )
}

proptest! {
    #[test]
    fn books_balance(options in any_options(), events in prop::collection::vec(any_event(), 0..200)) {
        run(options, events, |_, _| ());
    }

    /// Fails if requests at different places, each with its own life, in any interleaving, do not
    /// all complete as themselves.
    #[test]
    fn lives_do_not_disturb_each_other(order in prop::collection::vec(0usize..12, 0..400)) {
        let points = [BlockPoint::GetRq, BlockPoint::Insert, BlockPoint::Issue, BlockPoint::Complete];
        let mut stage = [0usize; 12];
        let mut events = Vec::new();
        let rest = (0..12).flat_map(|it| [it; 4]);
        for (time, which) in order.into_iter().chain(rest).enumerate() {
            let Some(&point) = points.get(stage[which]) else { continue };
            stage[which] += 1;
            let tid = i32::try_from(which).unwrap();
            let at = EventContext { time: KernelTime(time as u64), cpu: CpuId(0), pid: Pid(tid), tid: Tid(tid) };
            let letters = if which % 2 == 0 { "R" } else { "WS" };
            let (sector, nr_sector) = ((which as u64 / 4) * 8, 8 + 8 * u32::try_from(which).unwrap());
            let dev = DevId::new(8, 0);
            let rwbs = Rwbs::new(letters.as_bytes());
            events.push((at, BlockEvent { point, dev, sector, nr_sector, error: 0, rwbs, from: None, comm: None, chain: None }));
        }
        let books = run(BlockOptions::default(), events, |_, _| ());
        prop_assert_eq!(books.anomalies.len(), 0);
        prop_assert_eq!(books.ended.len(), 12);
        for it in &books.ended {
            prop_assert_eq!(it.ending, Some(RequestEnd::Completed));
            let tid = u32::try_from(it.submitter.unwrap().tid.0).unwrap();
            prop_assert_eq!(it.nr_sector, 8 + 8 * tid);
            prop_assert!(it.queued < it.inserted && it.inserted < it.issued && it.issued < it.completed);
        }
    }
}
