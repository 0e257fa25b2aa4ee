//! Model for tests of the screen.

use crate::analysis::completed_op::OpKind;
use crate::analysis::top::{
    TopAmounts, TopFacts, TopFile, TopInterval, TopModel, TopOperation, TopPair, TopProcess,
};
use crate::event::syscall_table::CallId;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::units::{DevId, KernelTime, Pid, Tid};

/// Length of an interval, ns.
const SECOND: u64 = 1_000_000_000;

fn amounts(count: u64, [read, written]: [u64; 2], io_ns: u64) -> TopAmounts {
    TopAmounts { count, read, written, io_count: count, io_ns, ..TopAmounts::default() }
}

fn process(key: u32, pid: i32, comm: &[u8], command: Option<&[u8]>) -> TopProcess {
    TopProcess {
        key: ProcessKey(key),
        pid: Pid(pid),
        comm: comm.to_vec(),
        command: command.map(Into::into),
        cgroup: (key != 2).then(|| b"/system.slice/db.service".as_slice().into()),
    }
}

fn pair(key: u32, path: &[u8]) -> TopPair {
    TopPair { process: ProcessKey(key), file: TopFile::Named(path.into()) }
}

/// Path of a file with a name that a terminal would obey.
pub(super) const HOSTILE: &[u8] = b"/srv/\x1b[2Jx\ny/data.db";

/// Returns a second of three processes: a database that reads and writes, a program with a hostile
/// name, and one that ends in the second interval.
fn interval(number: u64) -> TopInterval {
    let busy = 2 + number % 7;
    let reads = amounts(1_021 * busy, [4_099 * 1_021 * busy, 0], 150_000_000 * busy);
    let writes = amounts(211, [0, 8_191 * 211], 40_000_000);
    let mut of_db = reads;
    of_db.merge(&writes);
    let waits = TopAmounts { waited_ns: 730_000_000, errors: 3, ..amounts(7, [13, 0], 0) };
    let waits = TopAmounts { io_count: 0, ..waits };
    let short = amounts(2, [0, 31], 9_000);
    let [read, write] =
        ["pread64", "fdatasync"].map(|name| OpKind::Call(CallId::by_name(name).expect(name)));
    let [start, end] = [number * SECOND, (number + 1) * SECOND].map(KernelTime);
    let operation = |at: u64, errno: Option<i32>| TopOperation {
        what: read,
        tid: Tid(4711),
        end: KernelTime(end.0 - at),
        ns: 12_300,
        offset: errno.is_none().then_some(4_099 * 1_000_003),
        bytes: if errno.is_some() { 0 } else { 4_099 },
        errno,
    };
    let data = pair(0, "/var/lib/db/日本/base/16384/2619_a_long_name_of_a_table".as_bytes());
    let mut all = of_db;
    [waits, short].iter().for_each(|other| all.merge(other));
    let mut interval = TopInterval {
        start,
        end,
        all,
        processes: vec![(ProcessKey(0), of_db), (ProcessKey(1), waits)],
        pairs: vec![(data.clone(), reads), (pair(0, HOSTILE), writes)],
        calls: vec![((read, IoClass::File), reads), ((write, IoClass::File), writes)],
        devices: vec![(DevId::new(8, 0), writes), (DevId::new(7, 3), short)],
        known: vec![
            process(0, 4711, b"postgres", Some(b"postgres: writer\0-D\0/var/lib/db\0")),
            process(1, 812, b"\x1b]0;evil\x07", None),
        ],
        operations: vec![(data.clone(), operation(2_000, None)), (data, operation(1_000, Some(5)))],
        ..TopInterval::default()
    };
    if number < 2 {
        interval.processes.push((ProcessKey(2), short));
        interval.pairs.push((
            TopPair { process: ProcessKey(2), file: TopFile::Nameless(IoClass::File) },
            short,
        ));
        interval.known.push(process(2, 1_234_567, b"cc1", Some(b"cc1\0-O2\0")));
    }
    if number == 1 {
        interval.ended.push(ProcessKey(2));
    }
    interval
}

/// Returns a model of this number of intervals.
pub(super) fn model(intervals: u64) -> TopModel {
    let mut model = TopModel::new(TopFacts {
        scope: "the whole machine".to_owned(),
        length_ns: SECOND,
        names: "snapshot".to_owned(),
        omissions: vec!["only %data,block (-e)".to_owned()],
        disks: vec![(DevId::new(8, 0), "sda".to_owned())],
        start: KernelTime(0),
    });
    for number in 0..intervals {
        model.close(interval(number));
        (model.own_cpu_ns, model.delay_ns) = (12_000_000, 80_000_000);
    }
    model
}
