//! Speed of the pure stages: `cargo bench`. The input is created by [`synthetic`]; rates are per
//! record, per byte or per system call, as each group states.

use std::convert::Infallible;
use std::hint::black_box;
use std::io;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iotrace_perf::capture::reader::Reader;
use iotrace_perf::capture::writer::Writer;
use iotrace_perf::capture::{delta, format};
use iotrace_perf::event::decode::Decoder;
use iotrace_perf::merge::Merger;
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline;
use iotrace_perf::record::parse::RecordBody;
use iotrace_perf::record::records;
use iotrace_perf::text::json::JsonLines;
use iotrace_perf::text::line_format::LineWriter;
use iotrace_perf::units::KernelTime;

mod synthetic;

use synthetic::CALLS_PER_ROUND;

const CPUS: u32 = 4;
const ROUNDS: u64 = 5;
/// Measurement time of the groups with a long single pass.
const LONG: Duration = Duration::from_secs(10);

/// Benchmark of one million items in four streams, each sorted, with a round every 100,000.
fn merge(criterion: &mut Criterion) {
    const STREAMS: u64 = 4;
    const ITEMS: u64 = 1_000_000;
    const ROUND: u64 = 100_000;
    let mut group = criterion.benchmark_group("merge");
    group.sample_size(20).measurement_time(LONG).throughput(Throughput::Elements(ITEMS));
    group.bench_function("1M records", |bencher| {
        bencher.iter(|| {
            let mut merger = Merger::default();
            let mut passed_on = 0;
            for round in 0..ITEMS / ROUND {
                for stream in 0..STREAMS {
                    for item in 0..ROUND / STREAMS {
                        let time = round * ROUND + item * STREAMS + stream;
                        let pushed = merger.push(KernelTime(time), (stream, item));
                        assert!(pushed.is_ok(), "in time");
                    }
                }
                passed_on += merger
                    .round(KernelTime((round + 1) * ROUND))
                    .into_iter()
                    .map(black_box)
                    .count();
            }
            passed_on + merger.finish().into_iter().map(black_box).count()
        });
    });
    group.finish();
}

/// Benchmark from ring bytes to events: found, read, decoded.
fn decode(criterion: &mut Criterion) {
    let bytes = synthetic::records(0, 0, CALLS_PER_ROUND);
    let layout = synthetic::layout();
    let mut decoder = Decoder::new("x86_64");
    for it in synthetic::header(1).tracepoints {
        decoder.add(&it.system, &it.name, it.id, &it.format).expect("a format of the corpus");
    }
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(2 * CALLS_PER_ROUND));
    group.bench_function("records to times", |bencher| {
        bencher.iter(|| {
            let times = records(&bytes).filter_map(|it| it.ok()?.1.time(&layout));
            times.map(|it| it.0).fold(0, u64::wrapping_add)
        });
    });
    group.bench_function("records to events", |bencher| {
        bencher.iter(|| {
            let mut events = 0u64;
            for (_, record) in records(&bytes).flatten() {
                if let Ok(record) = record.parse(&layout)
                    && let RecordBody::Sample(payload) = record.body
                    && let Ok(event) = decoder.decode(payload)
                {
                    black_box(event);
                    events += 1;
                }
            }
            assert_eq!(events, 2 * CALLS_PER_ROUND);
        });
    });
    group.finish();
}

/// Benchmark of the tracer's work on ring bytes while the program runs.
fn write_log(criterion: &mut Criterion) {
    let bytes = synthetic::records(0, 0, CALLS_PER_ROUND);
    let frame = synthetic::frame(0, 0, CALLS_PER_ROUND);
    let mut group = criterion.benchmark_group("log");
    group.sample_size(50).measurement_time(LONG).throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("delta encode", |bencher| {
        let encode = |bytes: &mut Vec<u8>| delta::encode(format::FrameKind::DATA, bytes);
        bencher.iter_batched_ref(|| bytes.clone(), encode, BatchSize::LargeInput);
    });
    group.bench_function("write", |bencher| {
        let mut writer = Writer::new(io::sink()).expect("takes all");
        let write = |bytes: &mut Vec<u8>| writer.data(&frame, bytes).expect("takes all");
        bencher.iter_batched_ref(|| bytes.clone(), write, BatchSize::LargeInput);
    });
    let log = synthetic::log(1, 1);
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let mut reader = Reader::new(log.as_slice()).expect("a log");
            let mut frames = 0;
            while let Some(item) = reader.next_item().expect("memory") {
                black_box(item);
                frames += 1;
            }
            assert_eq!(frames, 3, "header, data, round");
        });
    });
    group.finish();
    let calls = CALLS_PER_ROUND as f64;
    let stored = (log.len() - format::FILE_HEADER_BYTES) as f64;
    note(&format!(
        "log: {:.2} bytes per record raw, {:.2} bytes per call stored",
        bytes.len() as f64 / calls / 2.0,
        stored / calls
    ));
}

#[expect(clippy::print_stderr, reason = "a figure that criterion does not measure")]
fn note(text: &str) {
    eprintln!("{text}");
}

/// Sink that only counts the steps.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.0 += u64::from(matches!(step, Step::SyscallEnded(..)));
        Ok(())
    }
}

fn run<S: Sink<Error: std::fmt::Debug>>(log: &[u8], mut sink: S) -> S {
    let (reader, header) = pipeline::open::<_, S::Error>(log).expect("a log");
    let summary =
        pipeline::run(reader, header, &mut sink, &mut || true).expect("nothing fails here");
    assert_eq!(summary.ledger.pairs, u64::from(CPUS) * ROUNDS * CALLS_PER_ROUND);
    assert!(summary.ledger.imbalances().is_empty());
    sink
}

/// Benchmark of a complete log of a million system calls: read, merged, decoded, paired; then
/// printed, too.
fn operations(criterion: &mut Criterion) {
    let calls = u64::from(CPUS) * ROUNDS * CALLS_PER_ROUND;
    let log = synthetic::log(CPUS, ROUNDS);
    let mut group = criterion.benchmark_group("log to operations");
    group.sample_size(10).measurement_time(LONG).throughput(Throughput::Elements(calls));
    group.bench_function("no sink", |bencher| {
        bencher.iter(|| assert_eq!(run(&log, Count::default()).0, calls));
    });
    group.bench_function("lines", |bencher| {
        bencher.iter(|| run(&log, LineWriter::new(KernelTime(1), [], io::sink())));
    });
    group.bench_function("json", |bencher| {
        bencher.iter(|| run(&log, JsonLines::new(KernelTime(1), [], io::sink())));
    });
    group.finish();
}

criterion_group!(stages, merge, decode, write_log, operations);
criterion_main!(stages);
