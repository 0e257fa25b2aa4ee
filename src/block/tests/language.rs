//! Line language of the tests: one event per line, `SECONDS [cpuN] tid N POINT MAJ:MIN RWBS SECTOR
//! +LENGTH [error -N]`; a remap ends with `<- MAJ:MIN SECTOR`.
//!
//! A test is one text: its events, and below each, indented, the steps that it causes.

use std::fmt::Write as _;

use expect_test::Expect;

use crate::block::{
    BlockOptions, BlockRequest, BlockStep, BlockTracker, DiskstatsClass, EventContext, FlushRole,
    RequestEnd, SubmitterSource, UnfinishedRequest,
};
use crate::event::block::{BlockEvent, BlockPoint, DevicePosition, Rwbs};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Parses one line; `None` if it is not an event.
pub(super) fn parse(line: &str) -> Option<(EventContext, BlockEvent)> {
    let mut words = line.split_whitespace().peekable();
    let time = words.next().filter(|it| it.starts_with(|it: char| it.is_ascii_digit()))?;
    let (seconds, micros) = time.split_once('.').expect("a time");
    let micros: u64 = micros.replace('_', "").parse().expect("six digits");
    let nanos = (seconds.parse::<u64>().expect("seconds") * 1_000_000 + micros) * 1000;
    let cpu =
        words.next_if(|it| it.starts_with("cpu")).map_or(0, |it| it[3..].parse().expect("a CPU"));
    assert_eq!(words.next(), Some("tid"), "{line}");
    let tid = words.next().expect("a tid").parse().expect("a tid");
    let point = match words.next().expect("a point") {
        "getrq" => BlockPoint::GetRq,
        "insert" => BlockPoint::Insert,
        "issue" => BlockPoint::Issue,
        "complete" => BlockPoint::Complete,
        "requeue" => BlockPoint::Requeue,
        "backmerge" => BlockPoint::BackMerge,
        "frontmerge" => BlockPoint::FrontMerge,
        "rq_merge" => BlockPoint::RqMerge,
        "queue" => BlockPoint::BioQueue,
        "split" => BlockPoint::Split,
        "remap" => BlockPoint::Remap,
        "bio_complete" => BlockPoint::BioComplete,
        other => panic!("{other}: {line}"),
    };
    let dev = device(words.next());
    let rwbs = Rwbs::new(words.next().expect("letters").as_bytes());
    let sector = match words.next().expect("a sector") {
        "-1" => u64::MAX,
        number => number.parse().expect("a sector"),
    };
    let nr_sector = words
        .next()
        .and_then(|it| it.strip_prefix('+'))
        .expect("a length")
        .parse()
        .expect("a length");
    let error = words
        .next_if_eq(&"error")
        .map_or(0, |_| words.next().expect("errno").parse().expect("errno"));
    let from = words.next_if_eq(&"<-").map(|_| {
        let dev = device(words.next());
        DevicePosition { dev, sector: words.next().expect("a sector").parse().expect("a sector") }
    });
    assert_eq!(words.next(), None, "{line}");
    let at =
        EventContext { time: KernelTime(nanos), cpu: CpuId(cpu), pid: Pid(tid), tid: Tid(tid) };
    Some((
        at,
        BlockEvent { point, dev, sector, nr_sector, error, rwbs, from, comm: None, chain: None },
    ))
}

fn device(word: Option<&str>) -> DevId {
    let (major, minor) = word.and_then(|it| it.split_once(':')).expect("a device");
    DevId::new(major.parse().expect("major"), minor.parse().expect("minor"))
}

/// Invariants of every run, whatever its events.
#[derive(Debug, Default)]
pub(super) struct BlockInvariants {
    /// Requests that ended, in the order in which they did.
    pub ended: Vec<BlockRequest>,
    /// Anomalies as text.
    pub anomalies: Vec<String>,
    open: std::collections::BTreeSet<u64>,
    begun: u64,
    steps: usize,
}

impl BlockInvariants {
    /// Checks one step: requests begin once, under the next number, and end once.
    pub(super) fn book(&mut self, step: &BlockStep<'_>) {
        self.steps += 1;
        match step {
            BlockStep::Queued(it) => {
                assert_eq!(it.id.0, self.begun, "numbers are dense");
                self.begun += 1;
                self.open.insert(it.id.0);
                assert_eq!(it.ending, None);
            }
            BlockStep::Ended(it) => {
                assert!(self.open.remove(&it.id.0), "ends once: {it:?}");
                assert_eq!(
                    it.completed.is_some(),
                    it.ending == Some(RequestEnd::Completed),
                    "{it:?}"
                );
                self.ended.push((*it).clone());
            }
            BlockStep::Merged(it)
            | BlockStep::Inserted(it)
            | BlockStep::Issued(it)
            | BlockStep::Requeued(it)
            | BlockStep::Progressed(it) => {
                assert!(self.open.contains(&it.id.0), "{it:?}");
                assert_eq!(it.ending, None);
            }
            BlockStep::Anomaly(it) => self.anomalies.push(it.reason.to_string()),
        }
    }

    /// Checks that no request is open after the end.
    pub(super) fn close(&self) {
        assert!(self.open.is_empty(), "{:?}", self.open);
        assert_eq!(self.begun, self.ended.len() as u64);
    }

    /// Returns requests, sectors and merges as `/proc/diskstats` would count them.
    pub(super) fn diskstats(&self, class: DiskstatsClass) -> (u64, u64, u64) {
        let counted = self.ended.iter().filter(|it| it.diskstats_class() == Some(class));
        counted.fold((0, 0, 0), |(requests, sectors, merges), ended| {
            (requests + 1, sectors + ended.diskstats_sectors(), merges + u64::from(ended.merges))
        })
    }
}

/// Runs events; each must cause at least one step.
pub(super) fn run(
    options: BlockOptions,
    events: impl IntoIterator<Item = (EventContext, BlockEvent)>,
    mut see: impl FnMut(Option<&BlockEvent>, &BlockStep<'_>),
) -> BlockInvariants {
    let mut tracker = BlockTracker::new(options);
    let mut books = BlockInvariants::default();
    for (at, event) in events {
        let before = books.steps;
        tracker.push(&at, &event, &mut |step| {
            books.book(&step);
            see(Some(&event), &step);
        });
        let has_step = books.steps > before || event.point.is_of_bio();
        assert!(has_step, "not used and not an anomaly: {event:?}");
    }
    tracker.finish(&mut |step| {
        books.book(&step);
        see(None, &step);
    });
    books.close();
    books
}

/// Runs the events of a text and compares the steps with it.
#[track_caller]
pub(super) fn check(text: Expect) {
    check_with(BlockOptions::default(), text);
}

/// Runs [`check`] as if the merge and requeue events were not recorded.
#[track_caller]
pub(super) fn check_bare(text: Expect) {
    let bare = BlockOptions {
        merges_recorded: false,
        requeues_recorded: false,
        ..BlockOptions::default()
    };
    check_with(bare, text);
}

/// Runs [`check`] with options.
#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "a test reads better without a `&` before its text"
)]
pub(super) fn check_with(options: BlockOptions, text: Expect) {
    text.assert_eq(&print_step(options, text.data()));
}

const LOST: &str = "-- records lost --";
const END: &str = "-- the end --";

fn print_step(options: BlockOptions, text: &str) -> String {
    let is_input = |line: &&str| line.starts_with(|it: char| it.is_ascii_digit()) || *line == LOST;
    let mut tracker = BlockTracker::new(options);
    let mut books = BlockInvariants::default();
    let mut out = String::new();
    let mut write_step = |out: &mut String, step: BlockStep<'_>| {
        books.book(&step);
        writeln!(out, "    {}", show(&step)).expect("text");
    };
    for line in text.lines().map(str::trim).filter(is_input) {
        writeln!(out, "{line}").expect("text");
        match parse(line) {
            None => tracker.records_lost(),
            Some((at, event)) => tracker.push(&at, &event, &mut |step| write_step(&mut out, step)),
        }
    }
    writeln!(out, "{END}").expect("text");
    tracker.finish(&mut |step| write_step(&mut out, step));
    books.close();
    out
}

fn show(step: &BlockStep<'_>) -> String {
    match step {
        BlockStep::Queued(it) => format!("{} begins: {}{}", it.id, place(it), submitter(it)),
        BlockStep::Merged(it) => format!("{} grew: {}", it.id, place(it)),
        BlockStep::Inserted(it) => format!("{} inserted: {}", it.id, place(it)),
        BlockStep::Issued(it) => format!("{} issued: {}{}", it.id, place(it), flush(it)),
        BlockStep::Requeued(it) => format!("{} given back", it.id),
        BlockStep::Progressed(it) if it.data_completed.is_some() => format!("{} data done", it.id),
        BlockStep::Progressed(it) => {
            format!("{} {} of {} B done", it.id, it.bytes_done, it.bytes())
        }
        BlockStep::Ended(it) => ended(it),
        BlockStep::Anomaly(it) => format!("! {}", it.reason),
    }
}

fn place(request: &BlockRequest) -> String {
    format!("{} @{} +{}", request.op, request.sector, request.nr_sector)
}

fn submitter(request: &BlockRequest) -> String {
    match request.submitter {
        None => String::new(),
        Some(by) if by.source != SubmitterSource::Insert => format!(" by tid {}", by.tid),
        Some(by) => format!(" perhaps by tid {}", by.tid),
    }
}

fn flush(request: &BlockRequest) -> String {
    match request.flush {
        FlushRole::Device { serves: Some(link) } => {
            format!(" for {} ({} waiting)", link.request, link.waiting)
        }
        FlushRole::Device { serves: None } => " for an unknown request".to_owned(),
        FlushRole::None | FlushRole::Sequence | FlushRole::Demand => String::new(),
    }
}

fn ended(request: &BlockRequest) -> String {
    let mut text = match request.ending {
        None => panic!("{request:?}"),
        Some(RequestEnd::Completed) => {
            format!("{} done: {}, {} B", request.id, place(request), request.bytes_done)
        }
        Some(RequestEnd::Absorbed { into, inferred, .. }) => {
            let into = into.map_or("?".to_owned(), |id| id.to_string());
            format!("{} absorbed by {into}{}", request.id, if inferred { ", not seen" } else { "" })
        }
        Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd)) => {
            format!("{} unfinished", request.id)
        }
        Some(RequestEnd::Unfinished(UnfinishedRequest::GivenUp)) => {
            format!("{} given up", request.id)
        }
    };
    let micros =
        |end: Option<KernelTime>, start: Option<KernelTime>| Some(end?.since(start?)?.0 / 1000);
    let queued = micros(request.issued, request.begin()).filter(|_| request.queued.is_some());
    if let Some(time) = queued {
        write!(text, ", {time} us queued").expect("text");
    }
    if let Some(time) = micros(request.completed, request.reissued.or(request.issued)) {
        write!(text, ", {time} us at the device").expect("text");
    }
    for (count, what) in [(request.merges, "merges"), (request.requeues, "requeues")] {
        if count > 0 {
            write!(text, ", {count} {what}").expect("text");
        }
    }
    if let Some(errno) = request.error {
        write!(text, ", errno {errno}").expect("text");
    }
    if request.inferred.extent {
        text.push_str(", extent inferred");
    }
    if request.inferred.requeue {
        text.push_str(", requeue inferred");
    }
    for part in request.parts.iter() {
        write!(text, ", part @{} +{}", part.sector, part.nr_sector).expect("text");
        if Some(part.queued.tid) != request.submitter.map(|it| it.tid) {
            write!(text, " of tid {}", part.queued.tid).expect("text");
        }
        for level in part.levels.iter() {
            write!(text, " <- {} @{}", level.dev, level.sector).expect("text");
        }
    }
    match request.diskstats_class() {
        Some(class) => write!(text, " [{class:?} {}]", request.diskstats_sectors()).expect("text"),
        None => text.push_str(" [not counted]"),
    }
    text
}
