//! Steps through the sink to the packets, decoded by the whole schema.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use perfetto_protos::debug_annotation::debug_annotation::Value;
use perfetto_protos::trace::Trace;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message as _;

use super::{PerfettoSink, PerfettoSummary};
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::capture::header::Header;
use crate::event::block::RequestOp;
use crate::event::layer::Layer;
use crate::operation::block::{BlockRequest, BlockStep, RequestId};
use crate::operation::model::{
    FilePath, OpenFile, PathSource, ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo,
    ThreadKey, Unfinished,
};
use crate::operation::span::Span;
use crate::operation::test_fixtures::{call, request};
use crate::operation::{Sink, Step};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

const DEV: DevId = DevId(8 << 20);

fn process() -> ProcessInfo {
    ProcessInfo { comm: b"dd".to_vec(), ..ProcessInfo::new(ProcessKey(0), Pid(11)) }
}

fn thread(comm: &str) -> ThreadInfo {
    let comm = comm.as_bytes().to_vec();
    ThreadInfo { key: ThreadKey(0), process: ProcessKey(0), tid: Tid(11), comm }
}

fn file(path: &str) -> Arc<OpenFile> {
    let path = Some(FilePath::new(path, PathSource::Link));
    Arc::new(OpenFile {
        id: 0,
        path,
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    })
}

fn write(times: [u64; 2]) -> SyscallOperation {
    call("write", file("/tmp/a"), times, Some(0), 4096)
}

fn request_of(number: u64, times: [u64; 2]) -> BlockRequest {
    let issued = Some(KernelTime(times[0] + 2));
    let id = RequestId(number);
    BlockRequest { id, issued, ..request(DEV, RequestOp::Write, 64, 8, times) }
}

fn span(what: &'static str, begin: u64, end: u64) -> Span {
    Span { layer: Layer::Fs, what, begin: KernelTime(begin), end: KernelTime(end) }
}

/// Trace of what `steps` passes to the sink.
fn traced(steps: impl FnOnce(&mut PerfettoSink<Vec<u8>>)) -> (Trace, PerfettoSummary) {
    let mut sink = PerfettoSink::create(Vec::new(), &Header::default(), &[]).expect("memory");
    step(&mut sink, 0, &Step::ProcessSeen(&process()));
    step(&mut sink, 0, &Step::ThreadSeen(&thread("dd")));
    steps(&mut sink);
    let (bytes, summary) = sink.finish(KernelTime(100), &[]).expect("memory");
    (Trace::parse_from_bytes(&bytes).expect("a trace"), summary)
}

fn step(sink: &mut PerfettoSink<Vec<u8>>, time: u64, step: &Step<'_>) {
    sink.step(KernelTime(time), step).expect("memory");
}

fn block(sink: &mut PerfettoSink<Vec<u8>>, time: u64, of: &BlockStep<'_>) {
    let thread = thread("dd");
    step(sink, time, &Step::Block { step: of, thread: Some(&thread), pieces: &[] });
}

/// Texts of the current state.
#[derive(Default)]
struct DecodedTexts {
    names: BTreeMap<u64, String>,
    arguments: BTreeMap<u64, String>,
    texts: BTreeMap<u64, String>,
}

/// Line of an event.
fn line(time: u64, event: &TrackEvent, texts: &DecodedTexts) -> String {
    let mut line = format!("{time} track {} ", event.track_uuid());
    let name = texts.names.get(&event.name_iid()).map_or("?", String::as_str);
    let _ = match event.type_() {
        Type::TYPE_SLICE_BEGIN => write!(line, "begin {name}"),
        Type::TYPE_SLICE_END => write!(line, "end"),
        Type::TYPE_INSTANT => write!(line, "mark {name}"),
        _ => write!(line, "count {}", event.counter_value()),
    };
    for argument in &event.debug_annotations {
        let name = &texts.arguments[&argument.name_iid()];
        let value = match argument.value.as_ref().expect("a value") {
            Value::StringValueIid(iid) => texts.texts[iid].clone(),
            Value::StringValue(text) => text.clone(),
            Value::UintValue(number) | Value::PointerValue(number) => number.to_string(),
            Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        let _ = write!(line, " {name}={value}");
    }
    for flow in &event.flow_ids {
        let _ = write!(line, " flow {flow}");
    }
    for flow in &event.terminating_flow_ids {
        let _ = write!(line, " ends flow {flow}");
    }
    line
}

/// Lines of all events and tracks, in the order of the file.
fn lines(trace: &Trace) -> Vec<String> {
    let (mut lines, mut texts) = (Vec::new(), DecodedTexts::default());
    for packet in &trace.packet {
        if packet.sequence_flags() & 1 != 0 {
            texts = DecodedTexts::default();
        }
        if let Some(data) = packet.interned_data.as_ref() {
            let names = data.event_names.iter();
            texts.names.extend(names.map(|entry| (entry.iid(), entry.name().to_owned())));
            let names = data.debug_annotation_names.iter();
            texts.arguments.extend(names.map(|entry| (entry.iid(), entry.name().to_owned())));
            for entry in &data.debug_annotation_string_values {
                let text = String::from_utf8(entry.str().to_vec()).expect("UTF-8");
                texts.texts.insert(entry.iid(), text);
            }
        }
        if packet.has_track_descriptor() {
            let track = packet.track_descriptor();
            let name = match (track.process.as_ref(), track.thread.as_ref()) {
                (Some(process), _) => format!("process {}", process.process_name()),
                (_, Some(thread)) => format!("thread {}", thread.thread_name()),
                _ => format!("{} in {}", track.name(), track.parent_uuid()),
            };
            lines.push(format!("track {}: {name}", track.uuid()));
        }
        if packet.has_track_event() {
            lines.push(line(packet.timestamp(), packet.track_event(), &texts));
        }
    }
    lines
}

/// Checks the lines after those that every trace has at its begin.
#[track_caller]
fn check(steps: impl FnOnce(&mut PerfettoSink<Vec<u8>>), expected: Expect) {
    let lines = lines(&traced(steps).0);
    let first = lines.iter().rposition(|line| line.ends_with("thread dd")).unwrap_or(0);
    let shown: Vec<&str> = lines.iter().skip(first).map(String::as_str).collect();
    expected.assert_eq(&(shown.join("\n") + "\n"));
}

#[test]
fn flow_leads_from_a_call_to_its_request() {
    let (write, request) = (write([10, 20]), request_of(0, [12, 30]));
    check(
        |sink| {
            step(sink, 10, &Step::SyscallBegun(&write));
            block(sink, 12, &BlockStep::Queued(&request));
            block(sink, 14, &BlockStep::Issued(&request));
            step(sink, 20, &Step::SyscallEnded(&write, &[]));
            block(sink, 30, &BlockStep::Ended(&request));
        },
        expect![[r#"
            track 1: thread dd
            track 7: dev 8:0 in 8
            track 11: dev 8:0 requests waiting in 7
            track 15: dev 8:0 requests at the driver in 7
            track 19: dev 8:0 bytes read in 7
            track 23: dev 8:0 bytes written in 7
            12 track 11 count 1
            14 track 11 count 0
            14 track 15 count 1
            10 track 1 begin write fd=3 path=/tmp/a path_source=fd-link offset=0 result=4096 bytes=4096 requests=1 flow 2
            20 track 1 end
            track 27: requests in 7
            12 track 27 begin write device=dev 8:0 request=0 sector=64 bytes=4096 bytes_done=4096 comm=dd rwbs=R ending=completed ends flow 2
            12 track 27 begin queue
            14 track 27 end
            14 track 27 begin device
            30 track 27 end
            30 track 27 end
            30 track 15 count 0
            30 track 23 count 4096
            track 2: process dd
            100 track 4 mark end of the capture text=
        "#]],
    );
}

#[test]
fn overlapping_requests_have_lanes_of_their_own() {
    let requests = [request_of(0, [10, 30]), request_of(1, [12, 40]), request_of(2, [35, 50])];
    check(
        |sink| {
            for request in &requests {
                let time = request.completed.map_or(0, |time| time.0);
                block(sink, time, &BlockStep::Ended(request));
            }
        },
        expect![[r#"
            track 1: thread dd
            track 7: dev 8:0 in 8
            track 11: dev 8:0 requests waiting in 7
            track 15: dev 8:0 requests at the driver in 7
            track 19: dev 8:0 bytes read in 7
            track 23: dev 8:0 bytes written in 7
            track 27: requests in 7
            10 track 27 begin write device=dev 8:0 request=0 sector=64 bytes=4096 bytes_done=4096 comm=dd rwbs=R ending=completed
            10 track 27 begin queue
            12 track 27 end
            12 track 27 begin device
            30 track 27 end
            30 track 27 end
            30 track 11 count 0
            30 track 23 count 4096
            track 31: requests in 7
            12 track 31 begin write device=dev 8:0 request=1 sector=64 bytes=4096 bytes_done=4096 comm=dd rwbs=R ending=completed
            12 track 31 begin queue
            14 track 31 end
            14 track 31 begin device
            40 track 31 end
            40 track 31 end
            40 track 11 count 0
            40 track 23 count 8192
            35 track 27 begin write device=dev 8:0 request=2 sector=64 bytes=4096 bytes_done=4096 comm=dd rwbs=R ending=completed
            35 track 27 begin queue
            37 track 27 end
            37 track 27 begin device
            50 track 27 end
            50 track 27 end
            50 track 11 count 0
            50 track 23 count 12288
            track 2: process dd
            100 track 4 mark end of the capture text=
        "#]],
    );
}

#[test]
fn spans_are_nested_in_their_call_and_cut_at_its_end() {
    let mut write = write([10, 20]);
    write.spans = vec![span("inner", 12, 14), span("outer", 12, 16), span("pause", 15, 40)];
    check(
        |sink| {
            step(sink, 10, &Step::SyscallBegun(&write));
            step(sink, 20, &Step::SyscallEnded(&write, &[]));
        },
        expect![[r#"
            track 1: thread dd
            10 track 1 begin write fd=3 path=/tmp/a path_source=fd-link offset=0 result=4096 bytes=4096
            12 track 1 begin outer layer=fs
            12 track 1 begin inner layer=fs
            14 track 1 end
            15 track 1 begin pause layer=fs duration_ns=25
            16 track 1 end
            16 track 1 end
            20 track 1 end
            track 2: process dd
            100 track 4 mark end of the capture text=
        "#]],
    );
}

#[test]
fn spans_outside_of_calls_wait_for_those_that_contain_them() {
    let info = thread("dd");
    let aside = |span: Span| Step::Aside { thread: &info, pid: Pid(11), span };
    check(
        |sink| {
            step(sink, 14, &aside(span("inner", 12, 14)));
            step(sink, 16, &aside(span("outer", 12, 16)));
            step(sink, 20, &aside(span("later", 18, 20)));
        },
        expect![[r#"
            track 1: thread dd
            12 track 1 begin outer layer=fs
            12 track 1 begin inner layer=fs
            14 track 1 end
            16 track 1 end
            18 track 1 begin later layer=fs
            20 track 1 end
            track 2: process dd
            100 track 4 mark end of the capture text=
        "#]],
    );
}

#[test]
fn unfinished_calls_names_and_anomalies_are_marked() {
    let mut write = write([10, 20]);
    (write.end, write.ret) = (None, None);
    let lost = Anomaly {
        kind: AnomalyKind::Lost,
        time: KernelTime(13),
        cpu: CpuId(1),
        pid: Pid(0),
        tid: Tid(0),
        count: 7,
        detail: "7 records".into(),
    };
    check(
        |sink| {
            step(sink, 5, &Step::ThreadRenamed(&thread("cp")));
            step(sink, 10, &Step::SyscallBegun(&write));
            step(sink, 13, &Step::Anomaly(&lost));
            step(sink, 90, &Step::SyscallUnfinished(&write, Unfinished::CaptureEnd));
        },
        expect![[r#"
            track 1: thread dd
            track 1: thread cp
            5 track 1 mark new name comm=cp
            13 track 4 mark lost count=7 cpu=1 pid=0 tid=0 detail=7 records
            10 track 1 begin write fd=3 path=/tmp/a path_source=fd-link offset=0 unfinished=capture-end
            90 track 1 end
            track 2: process cp
            100 track 4 mark end of the capture text=
        "#]],
    );
}

#[test]
fn texts_begin_anew_when_there_are_too_many() {
    let (trace, summary) = traced(|sink| {
        for number in 0..70_000 {
            let write = call("write", file(&format!("/tmp/{number}")), [10, 10], None, 1);
            step(sink, 10, &Step::SyscallBegun(&write));
            step(sink, 10, &Step::SyscallEnded(&write, &[]));
        }
    });
    assert_eq!(summary.states, 2);
    assert_eq!(summary.packets, trace.packet.len() as u64);
    // Each path is known in its state.
    let lines = lines(&trace);
    for number in [0, 65_534, 65_535, 65_536, 69_999] {
        let path = format!("path=/tmp/{number} ");
        assert_eq!(lines.iter().filter(|line| line.contains(&path)).count(), 1, "{path}");
    }
}
