//! Intervals for tests.

use super::{TopAmounts, TopFile, TopInterval, TopOperation, TopPair, TopProcess};
use crate::analysis::completed_op::OpKind;
use crate::event::syscall_table::CallId;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::units::{KernelTime, Pid, Tid};

/// Length of the intervals, ns.
const SECOND: u64 = 1_000_000_000;

/// Returns the second with this number, in which a process wrote to a file once, for 50 ns.
pub fn interval(number: u64, process: ProcessKey, path: &str, written: u64) -> TopInterval {
    let all = TopAmounts { count: 1, written, io_count: 1, io_ns: 50, ..TopAmounts::default() };
    let pair = TopPair { process, file: TopFile::Named(path.as_bytes().into()) };
    let what = OpKind::Call(CallId::by_name("write").expect("it exists"));
    let [start, end] = [number * SECOND, (number + 1) * SECOND].map(KernelTime);
    let number = i32::try_from(process.0).expect("small");
    let operation = TopOperation {
        what,
        tid: Tid(100 + number),
        end: KernelTime(end.0 - SECOND / 2),
        ns: 50,
        offset: Some(4_099),
        bytes: written,
        errno: None,
    };
    TopInterval {
        start,
        end,
        all,
        processes: vec![(process, all)],
        pairs: vec![(pair.clone(), all)],
        calls: vec![((what, IoClass::File), all)],
        known: vec![TopProcess {
            key: process,
            pid: Pid(100 + number),
            comm: format!("app{number}").into_bytes(),
            command: None,
            cgroup: None,
        }],
        operations: vec![(pair, operation)],
        ..TopInterval::default()
    }
}
