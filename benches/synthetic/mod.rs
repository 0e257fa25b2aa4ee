//! Synthetic records in the kernel's format: threads that read and write one after the other, each
//! on its own CPU.

use iotrace_perf::capture::format::{Codec, FrameKind};
use iotrace_perf::capture::header::{
    CaptureScope, Clock, Header, Host, RecordLayout, RingInfo, Tracepoint,
};
use iotrace_perf::capture::writer::{DataFrame, Writer};
use iotrace_perf::event::syscall_table::CALLS;
use iotrace_perf::record::SampleLayout;
use iotrace_perf::units::KernelTime;

const ENTER_FORMAT: &str =
    include_str!("../../tests/corpus/tracefs/6.18.44-fc-v669/events/raw_syscalls/sys_enter/format");
const EXIT_FORMAT: &str =
    include_str!("../../tests/corpus/tracefs/6.18.44-fc-v669/events/raw_syscalls/sys_exit/format");
/// `common_type` of the entry; any number would do.
const ENTER: u16 = 700;
const EXIT: u16 = 701;
/// Bits `PERF_SAMPLE_TID`, `_TIME`, `_RAW`.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 10;
/// Process of all threads.
const PID: u32 = 5000;
/// Nanoseconds from one system call of a thread to its next, and from entry to exit.
const PERIOD: u64 = 1000;
const DURATION: u64 = 300;
/// System calls of one CPU between two rounds: a busy CPU's in 100 ms.
pub(crate) const CALLS_PER_ROUND: u64 = 50_000;

/// Layout of the records.
pub(crate) fn layout() -> SampleLayout {
    SampleLayout::new(SAMPLE_TYPE, 0).expect("it has all that is needed")
}

/// Header of such a capture.
pub(crate) fn header(cpus: u32) -> Header {
    let tracepoint = |name: &str, id, format: &str| Tracepoint {
        system: "raw_syscalls".into(),
        name: name.into(),
        id,
        format: format.into(),
        ..Tracepoint::default()
    };
    Header {
        host: Host { machine: "x86_64".into(), cpus: (0..cpus).collect(), ..Host::default() },
        clock: Clock { name: "CLOCK_MONOTONIC".into(), start_ns: 1, ..Clock::default() },
        calls: CALLS.iter().map(|it| it.name.to_owned()).collect(),
        scope: CaptureScope { mode: "system".into(), ..CaptureScope::default() },
        layouts: vec![RecordLayout {
            source: "perf".into(),
            sample_type: SAMPLE_TYPE,
            ..RecordLayout::default()
        }],
        rings: vec![RingInfo { name: "main".into(), bytes: 8 << 20 }],
        tracepoints: vec![
            tracepoint("sys_enter", ENTER, ENTER_FORMAT),
            tracepoint("sys_exit", EXIT, EXIT_FORMAT),
        ],
        ..Header::default()
    }
}

/// A SAMPLE record around a payload: header, task, time, length, payload, padding to eight bytes.
fn sample(out: &mut Vec<u8>, tid: u32, time: u64, payload: &[u8]) {
    let raw = (payload.len() + 4).next_multiple_of(8);
    let size = u16::try_from(8 + 16 + raw).expect("a short record");
    let raw_bytes = u32::try_from(raw - 4).expect("a short record");
    out.extend_from_slice(&9u32.to_le_bytes());
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&PID.to_le_bytes());
    out.extend_from_slice(&tid.to_le_bytes());
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&raw_bytes.to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len() + raw - 4 - payload.len(), 0);
}

/// Common fields of a tracepoint, and the number of the call.
fn payload(id: u16, tid: u32, number: u64) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[0, 0], &tid.to_le_bytes(), &number.to_le_bytes()].concat()
}

/// Records of this number of system calls of the thread on this CPU, from call number `first` on.
/// Times vary a little, as real ones do.
pub(crate) fn records(cpu: u32, first: u64, calls: u64) -> Vec<u8> {
    let tid = PID + cpu;
    let mut out = Vec::new();
    for call in first..first + calls {
        let is_write = call % 2;
        let jitter = call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
        let start = call * PERIOD + u64::from(cpu) * 7 + jitter;
        let buffer = 0x7f00_0000_0000 + (call % 16) * 4096;
        let mut enter = payload(ENTER, tid, is_write);
        for argument in [3 + is_write, buffer, 4096, 0, 0, 0] {
            enter.extend_from_slice(&argument.to_le_bytes());
        }
        sample(&mut out, tid, start, &enter);
        let mut exit = payload(EXIT, tid, is_write);
        exit.extend_from_slice(&4096u64.to_le_bytes());
        sample(&mut out, tid, start + DURATION + jitter / 4, &exit);
    }
    out
}

/// Frame header of these records.
pub(crate) fn frame(cpu: u32, first: u64, calls: u64) -> DataFrame {
    DataFrame {
        cpu,
        stream: 0,
        layout: 0,
        codec: Codec::ZSTD_DELTA,
        first_time: KernelTime(first * PERIOD),
        last_time: KernelTime((first + calls) * PERIOD),
        records: u32::try_from(2 * calls).expect("a few millions at most"),
    }
}

/// A complete log: this number of rounds of all CPUs.
pub(crate) fn log(cpus: u32, rounds: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    writer.json(FrameKind::HEADER, KernelTime(1), &header(cpus)).expect("memory takes all");
    for round in 0..rounds {
        let first = round * CALLS_PER_ROUND;
        for cpu in 0..cpus {
            let mut records = records(cpu, first, CALLS_PER_ROUND);
            writer
                .data(&frame(cpu, first, CALLS_PER_ROUND), &mut records)
                .expect("memory takes all");
        }
        writer.round(KernelTime((first + CALLS_PER_ROUND) * PERIOD)).expect("memory takes all");
    }
    writer.get_ref().clone()
}
