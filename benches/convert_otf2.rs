//! Speed of the OTF2 sink: reads of one file by four threads, with and without a known position.
//!
//! One element is one system call operation: a `SyscallBegun` and a `SyscallEnded`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iotrace_perf::capture::header::Header;
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::operation::model::{
    FilePath, OpenFile, PathSource, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo,
    ThreadKey,
};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::otf2::{EndFacts, OtfOptions, OtfSink};
use iotrace_perf::units::{CpuId, Fd, KernelTime, Pid, Tid};

const OPERATIONS: u64 = 1_000_000;
const THREADS: u32 = 4;

fn operation(thread: u32, file: &Arc<OpenFile>) -> SyscallOperation {
    SyscallOperation {
        call: CallId::by_name("read").expect("a row"),
        thread: ThreadKey(thread),
        process: ProcessKey(0),
        pid: Pid(100),
        tid: Tid(100),
        cpu: CpuId(0),
        start: KernelTime(0),
        end: None,
        args: [3, 0, 4096, 0, 0, 0],
        ret: None,
        fd: Some(Fd(3)),
        file: Some(Arc::clone(file)),
        named: None,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        target: None,
        offset: None,
        bytes_requested: Some(4096),
        spans: Vec::new(),
        chain: None,
    }
}

/// A sink with known threads, in a directory of its own.
fn sink() -> (OtfSink, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut sink =
        OtfSink::create(directory.path(), "traces", &Header::default(), OtfOptions::default())
            .expect("an archive");
    let process =
        ProcessInfo { comm: b"bench".to_vec(), ..ProcessInfo::new(ProcessKey(0), Pid(100)) };
    sink.step(KernelTime(0), &Step::ProcessSeen(&process)).expect("a step");
    for key in 0..THREADS {
        let info = ThreadInfo {
            key: ThreadKey(key),
            process: ProcessKey(0),
            tid: Tid(100),
            comm: b"bench".to_vec(),
        };
        sink.step(KernelTime(0), &Step::ThreadSeen(&info)).expect("a step");
    }
    (sink, directory)
}

fn write(sink: &mut OtfSink, begun: &mut [SyscallOperation], has_offset: bool) {
    let mut ended: Vec<SyscallOperation> = begun.to_vec();
    let mut time = 0;
    for count in 0..OPERATIONS {
        let index = usize::try_from(count % u64::from(THREADS)).expect("small");
        let (Some(begun), Some(ended)) = (begun.get_mut(index), ended.get_mut(index)) else {
            return;
        };
        time += 700;
        sink.step(KernelTime(time), &Step::SyscallBegun(black_box(begun))).expect("a step");
        ended.ret = Some(4096);
        ended.offset = has_offset.then_some(count * 4096);
        time += 400;
        sink.step(KernelTime(time), &Step::SyscallEnded(black_box(ended), &[])).expect("a step");
    }
}

fn benchmark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("otf2");
    group.sample_size(10).throughput(Throughput::Elements(OPERATIONS));
    let path = Some(FilePath::new(b"/data/a", PathSource::Link));
    let file = Arc::new(OpenFile {
        id: 0,
        path,
        first_path: None,
        given: None,
        stat: None,
        flags: Some(0),
        pre_created: false,
    });
    let mut begun: Vec<SyscallOperation> = (0..THREADS).map(|it| operation(it, &file)).collect();
    for (name, has_offset) in [("read", false), ("read at a known position", true)] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                sink,
                |(mut sink, directory)| {
                    write(&mut sink, &mut begun, has_offset);
                    (sink.finish(&EndFacts::default()).expect("an archive"), directory)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
