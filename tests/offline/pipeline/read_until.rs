//! A log that is read up to a time gives the same operations up to this time as all of it.

use std::convert::Infallible;
use std::io::Cursor;

use iotrace_perf::analysis::filter::{Filter, Filtered};
use iotrace_perf::capture::trailing_facts;
use iotrace_perf::operation::block::BlockStep;
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline::{self, Summary};
use iotrace_perf::units::KernelTime;

use super::{names, read};
use crate::scale::synthetic::{self, Shape};

/// Ends of operations, as text.
#[derive(Default)]
struct Ends(Vec<String>);

impl Sink for Ends {
    type Error = Infallible;

    const USES_BEGINS: bool = false;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let is_end = matches!(
            step,
            Step::SyscallEnded(..)
                | Step::SyscallUnfinished(..)
                | Step::AsyncEnded(..)
                | Step::AsyncUnfinished(..)
                | Step::Fault(_)
                | Step::Block { step: BlockStep::Ended(_), .. }
        );
        if is_end {
            self.0.push(format!("{time:?} {step:?}"));
        }
        Ok(())
    }
}

/// Returns the operations that a filter selects up to a time, the summary, and the number of items
/// that were read; `is_read_on`: the log is read to its end all the same.
fn selected(log: &[u8], until: KernelTime, is_read_on: bool) -> (Vec<String>, Summary, usize) {
    let last = trailing_facts::look(Cursor::new(log)).expect("memory");
    let (reader, header) = pipeline::open::<_, Infallible>(log).expect("a log");
    let window = Some((KernelTime::MIN, until));
    let filter = Filter { window, ..Filter::default() };
    let read_until = if is_read_on { KernelTime::MAX } else { filter.last_time() };
    let mut sink = Filtered::new(filter, Ends::default());
    let mut items = 0;
    let counted = last.chain(reader).inspect(|_| items += 1);
    let summary = pipeline::run_until(counted, header, read_until, &mut sink, &mut || true);
    (sink.sink.0, summary.expect("nothing fails here"), items)
}

#[test]
fn operations_up_to_a_time_are_the_same() {
    let (mut cut, mut some) = (0, 0);
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let (_, whole, all) = selected(&log, KernelTime::MAX, true);
        assert_eq!(whole.read_until, None, "{name}");
        let (start, end) = (whole.start().0, whole.end_time().0);
        for part in [1, 4, 7] {
            let until = KernelTime(start + (end - start) / 8 * part);
            let (expected, _, _) = selected(&log, until, true);
            let (found, summary, items) = selected(&log, until, false);
            assert!(expected == found, "{name} up to {part}/8: other operations");
            // What the kernel has counted is known although the end was not reached.
            assert_eq!(summary.lost(), whole.lost(), "{name}");
            assert_eq!(summary.end.is_some(), whole.end.is_some(), "{name}");
            assert!(summary.ledger.imbalances().is_empty(), "{name} up to {part}/8");
            assert_eq!(summary.read_until.is_some(), items < all, "{name} up to {part}/8");
            cut += usize::from(items < all);
            some += found.len();
        }
    }
    assert!(cut > 10 && some > 1000, "{cut} logs were not read to their end, {some} operations");
}

#[test]
fn rest_of_a_long_log_is_not_read() {
    let mut log = Vec::new();
    let shape = Shape { records: 200_000, records_per_second: 200_000, ..Shape::default() };
    synthetic::write(&shape, &mut log).expect("memory");
    let (_, whole, all) = selected(&log, KernelTime::MAX, true);
    let until = KernelTime(whole.start().0 + (whole.end_time().0 - whole.start().0) / 10);
    let (expected, _, _) = selected(&log, until, true);
    let (found, summary, items) = selected(&log, until, false);
    assert!(expected == found, "other operations");
    assert!(found.len() > 1000, "{}", found.len());
    assert_eq!(summary.read_until, Some(until));
    assert!(items * 4 < all, "{items} of {all} items were read for a tenth of the log");
}
