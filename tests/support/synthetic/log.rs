//! The log: header, snapshot, rounds, end with its books.

use std::io::{self, Write};
use std::rc::Rc;

use iotrace_perf::capture::fact::{Fact, FactsFrame, Text};
use iotrace_perf::capture::format::{Codec, FrameKind};
use iotrace_perf::capture::header::{
    CaptureScope, Clock, Counts, Disk, End, Header, Host, RecordLayout,
};
use iotrace_perf::capture::header::{RingInfo, Tracepoint};
use iotrace_perf::capture::writer::{DataFrame, Writer};
use iotrace_perf::event::FileStat;
use iotrace_perf::event::decode::common_type;
use iotrace_perf::event::syscall_table::CALLS;
use iotrace_perf::record::{SampleLayout, records};
use iotrace_perf::units::{DevId, Fd, KernelTime, Pid, Tid};

use super::record::{SAMPLE_TYPE, Task, Tracepoints};
use super::ring::{Ring, Stream, Taken};
use super::{DISKS, OWN, SNAPSHOT, START};

/// From one ring to the next when they are taken, ns.
const TAKING: u64 = 2_000;
/// A frame is closed when it has so many bytes.
const FRAME_BYTES: usize = 4 << 20;

/// A log that is being written, and the rings before it.
pub(super) struct Log<W> {
    writer: Writer<W>,
    points: Rc<Tracepoints>,
    /// Both rings of each CPU.
    rings: Vec<[Ring; 2]>,
    /// Facts of the round.
    facts: FactsFrame,
    header: Header,
    /// Samples by `Header::tracepoints`.
    samples: Vec<u64>,
    /// Disks of the end.
    late: Vec<Disk>,
}

impl<W: Write> Log<W> {
    pub(super) fn begin(cpus: u32, late_disks: bool, out: W) -> io::Result<Self> {
        let points = Rc::new(Tracepoints::new());
        let mut header = header(cpus, points.described());
        let late = if late_disks { std::mem::take(&mut header.disks) } else { Vec::new() };
        let mut writer = Writer::new(out)?;
        writer.json(FrameKind::HEADER, KernelTime(START), &header)?;
        Ok(Self {
            writer,
            points,
            rings: (0..cpus).map(|_| Default::default()).collect(),
            facts: FactsFrame::default(),
            samples: vec![0; header.tracepoints.len()],
            header,
            late,
        })
    }

    pub(super) fn points(&self) -> Rc<Tracepoints> {
        Rc::clone(&self.points)
    }

    /// Snapshot of `/proc` at the start: these tasks, and the standard input of each process.
    pub(super) fn snapshot(&mut self, tasks: impl Iterator<Item = Task>) -> io::Result<()> {
        let time = KernelTime(START + SNAPSHOT / 2);
        for task in tasks {
            let pid = Pid(task.pid.cast_signed());
            self.fact(Fact::Task {
                time,
                pid,
                tid: Tid(task.tid.cast_signed()),
                ppid: Pid(1),
                comm: b"daemon".to_vec(),
            });
            if task.pid == task.tid {
                self.fact(standard_input(pid, time));
            }
        }
        let over = KernelTime(START + SNAPSHOT);
        let (which, pid, text) = (Text::SNAPSHOT_OVER, Pid(0), Vec::new());
        self.fact(Fact::Text { time: over, which, pid, text });
        self.write_facts(over)
    }

    pub(super) fn fact(&mut self, fact: Fact) {
        self.facts.push(&fact);
    }

    pub(super) fn put(
        &mut self,
        cpu: u32,
        stream: Stream,
        time: u64,
        delay: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let rings = &mut self.rings[usize::try_from(cpu).expect("a place in memory")];
        let [main, names] = rings;
        let ring = if stream == Stream::Main { main } else { names };
        ring.put(time, delay, write);
    }

    /// When the last ring has been taken in the round of this time.
    pub(super) fn taken_by(&self, round: u64) -> u64 {
        round + TAKING * self.rings.len() as u64
    }

    /// The clock shows `time`, then one ring after the other is taken.
    pub(super) fn round(&mut self, time: u64) -> io::Result<()> {
        // A name is read after its open, and is in the log before it.
        self.write_facts(KernelTime(time))?;
        let mut taking = time;
        for cpu in 0..self.rings.len() {
            taking += TAKING;
            for (stream, _) in (0..).zip(Stream::ALL) {
                let ring = &mut self.rings[cpu][usize::from(stream != 0)];
                for taken in ring.take(taking, FRAME_BYTES) {
                    self.data(cpu, stream, taken)?;
                }
            }
        }
        self.writer.round(KernelTime(time))
    }

    fn data(&mut self, cpu: usize, stream: u32, mut taken: Taken) -> io::Result<()> {
        self.count(stream, &taken.bytes);
        let frame = DataFrame {
            cpu: u32::try_from(cpu).expect("it was one"),
            stream,
            layout: 0,
            codec: Codec::ZSTD_DELTA,
            first_time: KernelTime(taken.first_time),
            last_time: KernelTime(taken.last_time),
            records: taken.records,
        };
        self.writer.data(&frame, &mut taken.bytes)
    }

    /// Counts the samples, as the tracer does.
    fn count(&mut self, stream: u32, bytes: &[u8]) {
        let layout = SampleLayout::new(SAMPLE_TYPE, 0).expect("it has all that is needed");
        for (_, record) in records(bytes).flatten() {
            let Some(id) = record.payload(&layout).and_then(common_type) else { continue };
            let points = self.header.tracepoints.iter();
            let place = points.zip(&mut self.samples);
            for (_, count) in place.filter(|it| (it.0.id, it.0.ring) == (id, stream)) {
                *count += 1;
            }
        }
    }

    fn write_facts(&mut self, time: KernelTime) -> io::Result<()> {
        self.writer.facts(time, &mut std::mem::take(&mut self.facts))
    }

    /// All is taken; the books.
    pub(super) fn end(mut self, time: u64) -> io::Result<()> {
        self.round(time)?;
        let counts = |(it, &samples): (&Tracepoint, &u64)| Counts {
            name: format!("{}:{}", it.system, it.name),
            ring: it.ring,
            hits: Some(samples),
            samples,
            lost: Some(0),
        };
        let end = End {
            end_ns: time,
            reason: "interrupt".into(),
            tracepoints: self.header.tracepoints.iter().zip(&self.samples).map(counts).collect(),
            disks: self.late,
            ..End::default()
        };
        self.writer.json(FrameKind::END, KernelTime(time), &end)
    }
}

fn header(cpus: u32, tracepoints: Vec<Tracepoint>) -> Header {
    let ring = |name: &str, bytes| RingInfo { name: name.into(), bytes };
    let disk = |minor| Disk {
        dev: DevId::new(8, minor).to_string(),
        name: format!("disk{minor}"),
        scheduler: "mq-deadline".into(),
        ..Disk::default()
    };
    Header {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        host: Host {
            hostname: "synthetic".into(),
            machine: "x86_64".into(),
            cpus: (0..cpus).collect(),
            page_bytes: 4096,
            ..Host::default()
        },
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            start_ns: START,
            all_on_ns: START + 1,
            ..Clock::default()
        },
        scope: CaptureScope { mode: "system".into(), ..CaptureScope::default() },
        own_pid: OWN.pid.cast_signed(),
        calls: CALLS.iter().map(|it| it.name.to_owned()).collect(),
        names: "reader".into(),
        layouts: vec![RecordLayout {
            source: "perf".into(),
            sample_type: SAMPLE_TYPE,
            ..RecordLayout::default()
        }],
        rings: vec![ring("main", 2 << 20), ring("names", 256 << 10)],
        tracepoints,
        disks: (0..DISKS).map(disk).collect(),
        ..Header::default()
    }
}

fn standard_input(pid: Pid, time: KernelTime) -> Fact {
    Fact::Fd {
        begin: time,
        end: time,
        pid,
        fd: Fd(0),
        flags: 0,
        position: 0,
        shared: true,
        stat: Some(FileStat { mode: 0o020_666, dev: DevId::new(0, 6), ino: 4, size: 0 }),
        link: b"/dev/null".to_vec(),
    }
}
