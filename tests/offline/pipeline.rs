//! From a capture log to operations: recorded logs against the texts that they are known to give,
//! and the tracker against any row of events whatever.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use iotrace_perf::analysis::call_totals::{Totals, WithTotals};
use iotrace_perf::capture::fact::{FactsFrame, Text, facts};
use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::Header;
use iotrace_perf::capture::reader::{Item, Reader};
use iotrace_perf::capture::writer::{DataFrame, Writer};
use iotrace_perf::event::syscall_table::{CallClass, CallId};
use iotrace_perf::operation::{Sink, disk};
use iotrace_perf::pipeline::{self, Summary};
use iotrace_perf::text::line_format::LineWriter;
use iotrace_perf::units::KernelTime;

mod any_events;
mod block_logs;
mod checked;
mod layer_logs;
mod places;
mod read_until;
mod replays;
mod reports;
mod two_threads;

use checked::Checked;

const CORPUS: &str = "tests/corpus/logs";
/// Bounds of the corpus: it stays for ever.
const LOG_BYTES_MAX: u64 = 120 << 10;
const CORPUS_BYTES_MAX: u64 = 9 << 18;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS)
}

fn read(name: &str, ending: &str) -> Vec<u8> {
    let path = corpus().join(name).with_extension(ending);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files with this ending, without it: `v1/dd`.
fn names(ending: &str) -> Vec<String> {
    let mut names = Vec::new();
    for version in ["v1", "v2"] {
        let entries = std::fs::read_dir(corpus().join(version)).expect("the corpus");
        let paths = entries.map(|it| it.expect("readable").path());
        let files = paths
            .filter(|it| it.extension().is_some_and(|it| it == ending))
            .filter_map(|it| Some(format!("{version}/{}", it.file_stem()?.to_str()?)));
        names.extend(files);
    }
    names.sort();
    names
}

/// Runs a log into a sink that is checked on the way.
fn run<S: Sink<Error: std::fmt::Debug>>(log: &[u8], sink: S) -> (Summary, Totals, S) {
    let (reader, header) = pipeline::open::<_, S::Error>(log).expect("a log");
    let mut totals = Totals::default();
    let mut sink = WithTotals { totals: &mut totals, sink: Checked::new(sink) };
    let summary =
        pipeline::run(reader, header, &mut sink, &mut || true).expect("nothing fails here");
    let sink = sink.sink.finish(&summary.ledger);
    (summary, totals, sink)
}

/// Takes steps and does nothing with them.
struct Nothing;

impl Sink for Nothing {
    type Error = Infallible;

    fn step(
        &mut self,
        _: KernelTime,
        _: &iotrace_perf::operation::Step<'_>,
    ) -> Result<(), Infallible> {
        Ok(())
    }
}

fn header_of(log: &[u8]) -> Header {
    pipeline::open::<_, Infallible>(log).expect("a log").1
}

/// Lines, then totals, then the books: what a log is known to give.
fn text_of(log: &[u8]) -> String {
    let header = header_of(log);
    let start = KernelTime(header.clock.start_ns);
    let lines = LineWriter::new(start, disk::names(&header.disks), Vec::new())
        .machine(&header.host.machine);
    let (summary, totals, lines) = run(log, lines);
    let mut text = String::from_utf8(lines.finish().expect("memory")).expect("lines are UTF-8");
    text.push_str("\n-- totals --\n");
    for (call, it) in totals.calls() {
        let name = call.call().name;
        let _ = writeln!(
            text,
            "{name}: {} calls, {} errors, {} bytes, {} ns",
            it.count, it.errors, it.bytes, it.time_ns
        );
    }
    for ((dev, class), it) in &totals.blocks {
        let _ = writeln!(
            text,
            "{dev} {class:?}: {} requests, {} sectors, {} merges",
            it.requests, it.sectors, it.merges
        );
    }
    let _ = writeln!(text, "\n-- books --\n{:#?}", summary.ledger);
    let _ = writeln!(text, "lost {}, missing {:?}", summary.lost(), summary.missing());
    text
}

#[test]
fn recorded_logs_give_their_expected_texts() {
    let bless = std::env::var_os("UPDATE_EXPECT").is_some();
    for name in names("iocap") {
        let text = text_of(&read(&name, "iocap"));
        if bless {
            std::fs::write(corpus().join(&name).with_extension("txt"), &text)
                .expect("the corpus can be written");
        }
        let expected = String::from_utf8(read(&name, "txt")).expect("UTF-8");
        for (number, (got, expected)) in text.lines().zip(expected.lines()).enumerate() {
            assert_eq!(got, expected, "{name}.txt:{} (UPDATE_EXPECT=1 rewrites it)", number + 1);
        }
        assert_eq!(text.lines().count(), expected.lines().count(), "{name}.txt");
    }
}

#[test]
fn corpus_is_small_and_described() {
    let logs = names("iocap");
    assert_eq!(logs, names("txt"), "each log has its text");
    assert!(logs.len() >= 5, "{logs:?}");
    let sizes =
        logs.iter().flat_map(|name| ["iocap", "txt"].map(|ending| read(name, ending).len() as u64));
    assert!(sizes.clone().all(|it| it <= LOG_BYTES_MAX), "one is too large");
    assert!(sizes.sum::<u64>() <= CORPUS_BYTES_MAX, "the corpus is too large");
    let readme =
        std::fs::read_to_string(corpus().join("README.md")).expect("tests/corpus/logs/README.md");
    let rows = readme.lines().filter_map(|it| it.strip_prefix("| `")?.split_once(".iocap`"));
    let mut described: Vec<&str> = rows.map(|it| it.0).collect();
    described.sort_unstable();
    assert_eq!(described, logs, "the table in tests/corpus/logs/README.md");
}

/// Captures come from the script's own directory, and show nothing of the machine but its kernel.
#[test]
fn corpus_tells_nothing_private() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        assert_eq!(header_of(&log).host.hostname, "corpus", "{name}");
        let mut reader = Reader::new(log.as_slice()).expect("a log");
        while let Some(item) = reader.next_item().expect("memory") {
            let Item::Frame(_, payload) = item else { panic!("{name}: {item:?}") };
            for private in ["home", "root", "work", "mnt", "opt", "var"] {
                let private = format!("/{private}/");
                let found = payload.windows(private.len()).any(|it| it == private.as_bytes());
                assert!(!found, "{name} holds {private}");
            }
        }
    }
}

#[test]
fn books_of_recorded_logs_balance() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let (summary, totals, Nothing) = run(&log, Nothing);
        assert_eq!(summary.ledger.imbalances(), Vec::<String>::new(), "{name}");
        assert_eq!((summary.damaged_bytes, summary.torn), (0, false), "{name}");
        let end = summary.end.as_ref().expect("it ended in order");
        let samples: u64 = end.tracepoints.iter().map(|it| it.samples).sum();
        assert!(
            samples <= summary.ledger.records + end.foreign_dropped,
            "{name}: each sample is in the log"
        );
        let ended: u64 = totals.calls().map(|it| it.1.count).sum();
        assert_eq!(ended, summary.ledger.pairs, "{name}");
        let requests: u64 = totals.blocks.values().map(|it| it.requests).sum();
        assert!(
            requests <= summary.ledger.requests,
            "{name}: absorbed ones are not counted as completed"
        );
    }
}

/// A sink that keeps the writes of one thread: process name, result.
#[derive(Default)]
struct Writes(Vec<(i32, String, i64)>);

impl Sink for Writes {
    type Error = Infallible;

    fn step(
        &mut self,
        _: KernelTime,
        step: &iotrace_perf::operation::Step<'_>,
    ) -> Result<(), Infallible> {
        if let iotrace_perf::operation::Step::SyscallEnded(operation, _) = step
            && operation.call.call().class == CallClass::Write
        {
            let path = operation.path().map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
            let fd = operation.fd.map_or(-1, |it| it.0);
            self.0.push((fd, path.unwrap_or_default(), operation.ret.unwrap_or(i64::MIN)));
        }
        Ok(())
    }
}

/// Sources of all paths that calls were given, and of what they opened.
#[derive(Default)]
struct Sources(Vec<(String, &'static str)>);

impl Sink for Sources {
    type Error = Infallible;

    fn step(
        &mut self,
        _: KernelTime,
        step: &iotrace_perf::operation::Step<'_>,
    ) -> Result<(), Infallible> {
        if let iotrace_perf::operation::Step::SyscallEnded(operation, _) = step
            && operation.call.call().has_path()
        {
            let paths = [operation.path(), operation.second_path()];
            self.0.extend(
                paths.into_iter().flatten().map(|it| {
                    (String::from_utf8_lossy(&it.bytes).into_owned(), it.source.as_str())
                }),
            );
        }
        Ok(())
    }
}

/// The two kernels copy the paths of a rename in different orders.
#[test]
fn probes_name_every_call_with_a_path() {
    for name in ["v2/kprobe-old", "v2/kprobe-new"] {
        let (summary, _, sources) = run(&read(name, "iocap"), Sources::default());
        assert_eq!(summary.header.names, "kprobe");
        assert!(sources.0.iter().all(|it| it.1 == "kernel-string"), "{name}: {:?}", sources.0);
        let paths: Vec<&str> = sources.0.iter().map(|it| it.0.as_str()).collect();
        assert!(paths.windows(2).any(|it| it == ["first", "second"]), "{name}: {paths:?}");
        assert!(paths.contains(&"/tmp/iotrace-corpus/inner/a copy"), "{name}: {paths:?}");
        assert_eq!((summary.ledger.unnamed, summary.ledger.unverified), (0, 0), "{name}");
    }
}

#[test]
fn entries_of_calls_carry_paths() {
    let (summary, _, sources) = run(&read("v2/event", "iocap"), Sources::default());
    assert_eq!(summary.header.names, "event");
    let of_events = sources.0.iter().filter(|it| it.1 == "event-string");
    let paths: Vec<&str> = of_events.map(|it| it.0.as_str()).collect();
    assert!(paths.windows(2).any(|it| it == ["first", "second"]), "{paths:?}");
    assert!(
        sources.0.iter().all(|it| ["event-string", "snapshot"].contains(&it.1)),
        "{:?}",
        sources.0
    );
}

/// "Run a prime number of events and check that the numbers match."
#[test]
fn twenty_three_writes_are_twenty_three_operations() {
    let (summary, totals, writes) = run(&read("v1/dd", "iocap"), Writes::default());
    let of_file: Vec<i64> =
        writes.0.iter().filter(|it| it.1 == "/tmp/iotrace-corpus/zeroes").map(|it| it.2).collect();
    assert_eq!(of_file, [4099; 23]);
    assert_eq!(of_file.iter().sum::<i64>(), 94_277);
    // The report of dd goes to standard error.
    let others = writes.0.iter().filter(|it| it.1 != "/tmp/iotrace-corpus/zeroes");
    assert!(others.clone().all(|it| it.0 == 2), "{writes:?}", writes = writes.0);
    assert_eq!(totals.call("write").count, 23 + others.count() as u64);
    let ledger = &summary.ledger;
    let doubts =
        [ledger.lost, ledger.orphan_exits, ledger.lost_exits, ledger.cut_off, ledger.open_at_end];
    assert_eq!(doubts, [0; 5]);
    assert_eq!((ledger.anomalous_total(), ledger.unnamed, ledger.unverified), (0, 0, 0));
}

#[test]
fn losses_are_reported_and_no_record_is_invented() {
    let (summary, _, Nothing) = run(&read("v1/lost", "iocap"), Nothing);
    assert!(summary.ledger.lost > 0, "the workload overflows its ring");
    assert_eq!(summary.lost(), summary.ledger.lost, "the LOST records and the counters agree");
    let missing = summary.missing().expect("it ended in order");
    assert!(missing.iter().all(|it| it.0.starts_with("block:")), "{missing:?}");
}

#[test]
fn each_request_of_the_device_is_one_operation() {
    let (summary, totals, Nothing) = run(&read("v1/fio", "iocap"), Nothing);
    let device = disk::names(&summary.header.disks)
        .into_iter()
        .find(|it| it.1.starts_with("loop"))
        .expect("a loop device")
        .0;
    let of_device: Vec<_> =
        totals.blocks.iter().filter(|it| it.0.0 == device).map(|it| (it.0.1, *it.1)).collect();
    let count = |class: CallClass| totals.class(class);
    let (reads, writes) = (totals.call("pread64"), totals.call("pwrite64"));
    assert!(
        writes.count > 0 && count(CallClass::Sync).count > 0,
        "the workload writes and flushes"
    );
    let sectors: u64 = of_device.iter().map(|it| it.1.sectors).sum();
    // fio maps its libraries with two preads of its own, which are no multiple of a sector.
    let library_bytes = reads.bytes % 4096;
    assert_eq!(sectors * 512, writes.bytes + reads.bytes - library_bytes, "{of_device:?}");
}

#[test]
fn log_without_its_end_still_balances() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let mut reader = Reader::new(log.as_slice()).expect("a log");
        let mut end = 16;
        while let Some(Item::Frame(header, _)) = reader.next_item().expect("memory") {
            if header.kind == FrameKind::END {
                break;
            }
            end += 52 + header.stored_bytes as usize;
        }
        let (summary, _, Nothing) = run(&log[..end], Nothing);
        assert!(summary.end.is_none() && !summary.torn, "{name}");
        assert_eq!(summary.ledger.imbalances(), Vec::<String>::new(), "{name}");
        assert_eq!(summary.missing(), None, "{name}");
    }
}

#[test]
fn sink_that_stops_gets_no_further_step() {
    let log = read("v1/fio", "iocap");
    let (reader, header) = pipeline::open::<_, Infallible>(log.as_slice()).expect("a log");
    let stopped = pipeline::run(reader, header, &mut Nothing, &mut || false);
    assert!(matches!(stopped, Err(pipeline::PipelineError::Interrupted)), "{stopped:?}");
}

/// Fails at the step of this number.
struct FailsAt(u64);

impl Sink for FailsAt {
    type Error = u64;

    fn step(&mut self, _: KernelTime, _: &iotrace_perf::operation::Step<'_>) -> Result<(), u64> {
        assert_ne!(self.0, u64::MAX, "a step after the failure");
        self.0 = self.0.wrapping_sub(1);
        if self.0 == u64::MAX { Err(7) } else { Ok(()) }
    }
}

#[test]
fn failed_sink_gets_no_further_step() {
    let log = read("v1/pipes", "iocap");
    for number in (0..200).step_by(7) {
        let (reader, header) = pipeline::open::<_, u64>(log.as_slice()).expect("a log");
        let failed = pipeline::run(reader, header, &mut FailsAt(number), &mut || true);
        assert!(
            matches!(failed, Err(pipeline::PipelineError::Sink(7))),
            "step {number}: {failed:?}"
        );
    }
}

#[test]
fn mount_table_is_in_every_log() {
    for name in names("iocap") {
        let (summary, _, Nothing) = run(&read(&name, "iocap"), Nothing);
        let mounts =
            String::from_utf8_lossy(summary.text(Text::MOUNTINFO).expect("recorded")).into_owned();
        assert!(mounts.lines().any(|it| it.split(' ').nth(4) == Some("/")), "{name}: {mounts}");
    }
}

/// Every fact in a log is of a known kind: a fact of a future kind would be passed over in silence.
#[test]
fn corpus_logs_hold_their_documented_facts() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let mut reader = Reader::new(log.as_slice()).expect("a log");
        while let Some(item) = reader.next_item().expect("memory") {
            if let Item::Frame(header, payload) = item
                && header.kind == FrameKind::FACTS
            {
                assert_eq!(facts(&payload).count(), header.items as usize, "{name}");
            }
        }
    }
}

#[test]
fn calls_in_the_texts_are_rows_of_the_table() {
    let header = header_of(&read("v1/dd", "iocap"));
    assert!(header.calls.iter().all(|it| CallId::by_name(it).is_some()), "{:?}", header.calls);
    assert!(header.calls.len() >= 26, "the corpus was recorded with all calls that there were");
}

/// The log with the end of each DATA payload cut off, so that its last record makes no sense.
fn cut(log: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for item in Reader::new(log).expect("a log") {
        let Item::Frame(frame, mut payload) = item.expect("memory") else { panic!("it is whole") };
        let time = KernelTime(frame.first_time);
        let written = match frame.kind {
            FrameKind::HEADER | FrameKind::END => {
                let value: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
                writer.json(frame.kind, time, &value)
            }
            FrameKind::DATA => {
                let data = DataFrame {
                    cpu: frame.cpu,
                    stream: frame.stream,
                    layout: frame.layout,
                    codec: frame.codec,
                    first_time: time,
                    last_time: KernelTime(frame.last_time),
                    records: frame.items,
                };
                let end = payload.len().saturating_sub(3);
                writer.data(&data, &mut payload[..end])
            }
            FrameKind::ROUND => writer.round(time),
            _ => {
                let mut facts = FactsFrame::default();
                facts.bytes.extend(payload);
                writer.facts(time, &mut facts)
            }
        };
        written.expect("memory");
    }
    writer.get_ref().clone()
}

/// Found by `fuzz/`: unusable input was reported at its own time, in the middle of what came
/// earlier and later.
#[test]
fn anomalies_are_reported_in_order_of_time() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let (summary, ..) = run(&cut(&log), Nothing);
        assert!(summary.ledger.anomalous_total() > 0, "{name}");
        let mut damaged = log.clone();
        let middle = log.len() * 2 / 3;
        damaged[middle..middle + 8].fill(0xee);
        let (summary, ..) = run(&damaged, Nothing);
        assert!(summary.damaged_bytes > 0, "{name}");
    }
}
