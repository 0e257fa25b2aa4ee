//! In two and in three threads a log gives what it gives in one.

use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::Header;
use iotrace_perf::capture::reader::{Item, Reader};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline::{self, PipelineError, Summary};
use iotrace_perf::units::KernelTime;

use super::{FailsAt, Nothing, names, read};

/// Number of steps that is surely larger than one batch for the other thread.
const MANY: usize = 2000;

/// Every call of a sink, as text.
#[derive(Default)]
struct Heard(Vec<String>);

impl Sink for Heard {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.0.push(format!("{time:?} {step:?}"));
        Ok(())
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Infallible> {
        self.0.push(format!("until {time:?}"));
        Ok(())
    }
}

fn open(log: &[u8]) -> (Reader<&[u8]>, Header) {
    pipeline::open::<_, Infallible>(log).expect("a log")
}

/// Items of a log on their way to the pipeline.
type Items<'a> = Box<dyn Iterator<Item = io::Result<Item>> + Send + 'a>;

/// Equal items give the same steps, the same questions whether to go on, and the same end. How
/// many steps.
#[track_caller]
fn check<'a>(log: &'a [u8], what: &str, items: impl Fn(Reader<&'a [u8]>) -> Items<'a>) -> usize {
    let reported = |threads: usize| {
        let (reader, header) = open(log);
        let (items, mut heard, mut rounds) = (items(reader), Heard::default(), 0);
        let go_on = &mut || {
            rounds += 1;
            true
        };
        let end = match threads {
            1 => pipeline::run(items, header, &mut heard, go_on),
            2 => pipeline::run_in_two_threads(items, header, &mut heard, go_on),
            _ => pipeline::run_in_three_threads(items, header, &mut heard, go_on),
        };
        (heard.0, rounds, format!("{end:?}"))
    };
    let one = reported(1);
    for threads in [2, 3] {
        let other = reported(threads);
        assert!(one.0 == other.0, "{what}: other steps in {threads} threads");
        assert_eq!((one.1, &one.2), (other.1, &other.2), "{what} in {threads} threads");
    }
    one.0.len()
}

#[test]
fn all_logs_give_the_same() {
    let most = names("iocap")
        .iter()
        .map(|name| check(&read(name, "iocap"), name, |it| Box::new(it)))
        .max();
    assert!(most > Some(MANY), "{most:?}: no log is long enough");
}

/// Fails if time passes for the reader of a log only with events: idle programs have none.
#[test]
fn time_passes_without_events() {
    let is_data = |item: &io::Result<Item>| matches!(item, Ok(Item::Frame(frame, _)) if frame.kind == FrameKind::DATA);
    let times = |name: &String| {
        let log = read(name, "iocap");
        let (reader, header) = open(&log);
        let without_events = reader.filter(|item| !is_data(item));
        let mut heard = Heard::default();
        pipeline::run(without_events, header, &mut heard, &mut || true).expect("a log");
        heard.0.iter().filter(|step| step.starts_with("until")).count()
    };
    let most = names("iocap").iter().map(times).max();
    assert!(most > Some(1), "{most:?}");
}

#[test]
fn steps_before_a_read_failure_are_passed_on() {
    let log = read("v1/fio", "iocap");
    let all = open(&log).0.count();
    for whole in [0, 1, all / 2, all] {
        check(&log, &format!("{whole} items"), |it| {
            let failure = io::Error::other("the disk is gone");
            Box::new(it.take(whole).chain([Err(failure)]))
        });
    }
    let cut = log.get(..log.len() - 9).expect("it is longer");
    check(cut, "cut off", |it| Box::new(it));
}

#[test]
fn sink_that_stops_gets_no_further_step() {
    let log = read("v1/fio", "iocap");
    let (reader, header) = open(&log);
    let stopped = pipeline::run_in_two_threads(reader, header, &mut Nothing, &mut || false);
    assert!(matches!(stopped, Err(PipelineError::Interrupted)), "{stopped:?}");
    let (reader, header) = open(&log);
    let stopped = pipeline::run_in_three_threads(reader, header, &mut Nothing, &mut || false);
    assert!(matches!(stopped, Err(PipelineError::Interrupted)), "{stopped:?}");
}

fn run_failing(
    log: &[u8],
    sink: &mut FailsAt,
    threads: usize,
) -> Result<Summary, PipelineError<u64>> {
    let (reader, header) = open(log);
    match threads {
        2 => pipeline::run_in_two_threads(reader, header, sink, &mut || true),
        _ => pipeline::run_in_three_threads(reader, header, sink, &mut || true),
    }
}

#[test]
fn failed_sink_gets_no_further_step() {
    let log = read("v1/pipes", "iocap");
    for number in (0..200).step_by(7) {
        for threads in [2, 3] {
            let failed = run_failing(&log, &mut FailsAt(number), threads);
            assert!(
                matches!(failed, Err(PipelineError::Sink(7))),
                "step {number} in {threads} threads: {failed:?}"
            );
        }
    }
}

#[test]
fn panic_of_a_sink_is_passed_on() {
    let log = read("v1/pipes", "iocap");
    for threads in [2, 3] {
        // The work takes no step at all.
        let mut sink = FailsAt(u64::MAX);
        let run = || run_failing(&log, &mut sink, threads).map(|_| ());
        let panicked = catch_unwind(AssertUnwindSafe(run));
        let said = panicked.expect_err("a panic");
        let said = said.downcast_ref::<String>().expect("words");
        assert!(said.contains("a step after the failure"), "{said}");
    }
}

#[test]
fn panic_of_a_reader_is_passed_on() {
    let log = read("v1/fio", "iocap");
    for threads in [2, 3] {
        let (reader, header) = open(&log);
        let items = reader.inspect(|it| {
            let is_round =
                matches!(it, Ok(Item::Frame(frame, _)) if frame.kind == FrameKind::ROUND);
            assert!(!is_round, "no item is liked");
        });
        let run = || match threads {
            2 => pipeline::run_in_two_threads(items, header, &mut Nothing, &mut || true),
            _ => pipeline::run_in_three_threads(items, header, &mut Nothing, &mut || true),
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| run().map(|_| ())));
        let said = panicked.expect_err("a panic");
        assert_eq!(said.downcast_ref::<&str>(), Some(&"no item is liked"));
    }
}
