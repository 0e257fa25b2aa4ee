//! Filters and groups by place: do the parts of a recording add up to the whole?

use std::collections::BTreeSet;
use std::convert::Infallible;

use iotrace_perf::analysis::filter::{Filter, Filtered, MountFilter};
use iotrace_perf::analysis::summary::IoSummary;
use iotrace_perf::operation::mount_table::MountTable;
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::units::KernelTime;

use super::{names, read, run};

/// Mounts that a log begins with.
#[derive(Default)]
struct Mounts(MountTable);

impl Sink for Mounts {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::MountsSeen(table) = step {
            self.0 = (*table).clone();
        }
        Ok(())
    }
}

/// Operations and bytes that a filter selects.
fn selected(log: &[u8], filter: Filter) -> [u64; 3] {
    let all = run(log, Filtered::new(filter, IoSummary::default())).2.sink.all();
    [all.count, all.read, all.written]
}

fn added(sums: impl Iterator<Item = [u64; 3]>) -> [u64; 3] {
    sums.fold([0; 3], |sum, more| [sum[0] + more[0], sum[1] + more[1], sum[2] + more[2]])
}

#[test]
fn each_operation_is_of_one_type_of_file_system() {
    let mut types_of_all = BTreeSet::new();
    for name in names("iocap").into_iter().filter(|name| name.starts_with("v2/")) {
        let log = read(&name, "iocap");
        let table = run(&log, Mounts::default()).2.0;
        let types: BTreeSet<String> =
            table.mounts().iter().map(|mount| mount.fs_type.clone()).collect();
        let of = |words: &[String]| {
            let mounts = MountFilter::new(&[], words).expect("good words");
            selected(&log, Filter { mounts, ..Filter::default() })
        };
        let each = types.iter().map(|fs_type| (fs_type, of(&[fs_type.clone()])));
        let each: Vec<(&String, [u64; 3])> = each.filter(|(_, sum)| sum[0] > 0).collect();
        let others: Vec<String> = types.iter().map(|fs_type| format!("!{fs_type}")).collect();
        let sum = added(each.iter().map(|(_, sum)| *sum).chain([of(&others)]));
        assert_eq!(sum, selected(&log, Filter::default()), "{name}: {each:?}");
        types_of_all.extend(each.iter().map(|(fs_type, _)| (*fs_type).clone()));
    }
    assert!(types_of_all.len() > 3 && types_of_all.contains("ext4"), "{types_of_all:?}");
}

#[test]
fn results_are_failures_or_successes() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let of = |failed| selected(&log, Filter { failed, ..Filter::default() });
        assert_eq!(added([Some(true), Some(false)].map(of).into_iter()), of(None), "{name}");
    }
}
