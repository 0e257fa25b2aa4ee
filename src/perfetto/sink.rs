//! Sink that passes each step to its mapping.

use std::io;

use super::async_slices::AsyncSlices;
use super::block_slices::BlockSlices;
use super::call_slices::{write_call, write_fault};
use super::packets::PacketWriter;
use super::schema::{clock, packet, system};
use super::sink_tracks::{self, CAPTURE};
use super::task_tracks::TaskTracks;
use super::words::{ArgumentName, EventCategory};
use crate::anomaly::Anomaly;
use crate::capture::header::{Disk, Header};
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Summary of a written trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfettoSummary {
    /// Number of packets.
    pub packets: u64,
    /// Number of times that the interned texts began anew.
    pub states: u64,
}

/// Writes steps as a Perfetto trace. The memory depends on what is alive and in flight, not on the
/// length of the log.
#[derive(Debug)]
pub struct PerfettoSink<W> {
    out: PacketWriter<W>,
    tasks: TaskTracks,
    asynchronous: AsyncSlices,
    block: BlockSlices,
}

impl<W: io::Write> PerfettoSink<W> {
    /// Begins a trace. There are many small writes to `out`, which should have a buffer. `disks`
    /// are those at the start and those that came later: for a reader the first name of a track
    /// counts.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn create(out: W, capture: &Header, disks: &[Disk]) -> io::Result<Self> {
        let mut out = PacketWriter::new(out);
        out.begin_state(clock::MONOTONIC)?;
        write_clock(capture, &mut out)?;
        sink_tracks::describe(&mut out)?;
        write_system(capture, &mut out)?;
        let mut sink = Self {
            out,
            tasks: TaskTracks::default(),
            asynchronous: AsyncSlices::default(),
            block: BlockSlices::new(disks),
        };
        sink.write_begin(capture)?;
        Ok(sink)
    }

    /// Ends the trace. `properties` are facts about its completeness, by name.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn finish(
        mut self,
        end: KernelTime,
        properties: &[(String, String)],
    ) -> io::Result<(W, PerfettoSummary)> {
        self.tasks.finish(&mut self.out)?;
        self.out.begin_instant(CAPTURE, EventCategory::Capture, "end of the capture");
        let lines: Vec<String> =
            properties.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        self.out.sentence(ArgumentName::Text, &lines.join("\n"));
        self.out.end_event(end)?;
        let summary = PerfettoSummary { packets: self.out.packets, states: self.out.states };
        Ok((self.out.finish()?, summary))
    }

    fn write_begin(&mut self, capture: &Header) -> io::Result<()> {
        let out = &mut self.out;
        out.begin_instant(CAPTURE, EventCategory::Capture, "begin of the capture");
        let command = capture.scope.command.join(" ");
        let facts = [
            ("host", capture.host.hostname.as_str()),
            ("command", command.as_str()),
            ("source", capture.source.as_str()),
            ("names", capture.names.as_str()),
            ("iotrace-perf", capture.tool_version.as_str()),
        ];
        let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
        let lines: Vec<String> = facts.map(|(name, value)| format!("{name}: {value}")).collect();
        out.sentence(ArgumentName::Text, &lines.join("\n"));
        out.end_event(KernelTime(capture.clock.start_ns))
    }

    fn anomaly(&mut self, anomaly: &Anomaly) -> io::Result<()> {
        let out = &mut self.out;
        out.begin_instant(CAPTURE, EventCategory::Anomaly, anomaly.kind.as_str());
        out.unsigned(ArgumentName::Count, Some(anomaly.count));
        out.unsigned(ArgumentName::Cpu, Some(anomaly.cpu.0.into()));
        out.signed(ArgumentName::Pid, Some(anomaly.pid.0.into()));
        out.signed(ArgumentName::Tid, Some(anomaly.tid.0.into()));
        out.sentence(ArgumentName::Detail, &anomaly.detail);
        out.end_event(anomaly.time)
    }
}

/// Writes the clock of all times, and the wall clock at the start.
fn write_clock<W: io::Write>(capture: &Header, out: &mut PacketWriter<W>) -> io::Result<()> {
    let monotonic = (clock::MONOTONIC, capture.clock.start_ns);
    let real = (clock::REALTIME, capture.clock.start_realtime_ns);
    out.message(packet::CLOCK_SNAPSHOT, |fields| {
        // Imported logs may know no wall clock.
        for (id, time) in [monotonic, real].into_iter().filter(|(_, time)| *time > 0) {
            let message = fields.begin(clock::CLOCKS);
            fields.unsigned(clock::ID, id);
            fields.unsigned(clock::TIMESTAMP, time);
            fields.end(message);
        }
        fields.unsigned(clock::PRIMARY, clock::MONOTONIC);
    })
}

fn write_system<W: io::Write>(capture: &Header, out: &mut PacketWriter<W>) -> io::Result<()> {
    let host = &capture.host;
    out.message(packet::SYSTEM_INFO, |fields| {
        let message = fields.begin(system::UTSNAME);
        fields.bytes(system::SYSNAME, b"Linux");
        fields.bytes(system::VERSION, host.kernel_version.as_bytes());
        fields.bytes(system::RELEASE, host.kernel_release.as_bytes());
        fields.bytes(system::MACHINE, host.machine.as_bytes());
        fields.end(message);
    })
}

impl<W: io::Write> Sink for PerfettoSink<W> {
    type Error = io::Error;

    #[inline]
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> io::Result<()> {
        let (tasks, out) = (&mut self.tasks, &mut self.out);
        if out.is_full() {
            out.begin_state(clock::MONOTONIC)?;
        }
        match step {
            Step::SyscallBegun(operation) => {
                tasks.call_begun(operation.thread, operation.start, out)
            }
            Step::SyscallEnded(operation, _) => write_call(operation, None, time, tasks, out),
            Step::SyscallUnfinished(operation, why) => {
                write_call(operation, Some(*why), time, tasks, out)
            }
            Step::Block { step, thread, pieces } => {
                self.block.step(time, step, *thread, pieces, tasks, out)
            }
            Step::Fault(fault) => write_fault(fault, out),
            Step::AsyncBegun(operation) => {
                self.asynchronous.begun(operation, tasks);
                Ok(())
            }
            Step::AsyncEnded(operation, _) => self.asynchronous.write(operation, None, time, out),
            Step::AsyncUnfinished(operation, why) => {
                self.asynchronous.write(operation, Some(*why), time, out)
            }
            Step::ProcessSeen(info) | Step::Identified(info) => tasks.process(info, out),
            Step::ThreadSeen(info) => tasks.thread(info, out),
            Step::ThreadRenamed(info) => tasks.renamed(info, time, out),
            Step::ThreadEnded(info) => tasks.thread_ended(info.key, out),
            Step::ProcessEnded(info) => {
                self.asynchronous.process_ended(info.key);
                tasks.process_ended(info.key, out)
            }
            Step::Aside { thread, span, .. } => tasks.loose_span(thread.key, *span, out),
            Step::Anomaly(anomaly) => self.anomaly(anomaly),
            // The file of an operation comes again with its end.
            Step::AsyncFile(_)
            | Step::DescriptorsClosed(..)
            | Step::UserChanged(_)
            | Step::Forked { .. }
            | Step::ChainSeen(_)
            | Step::Committed(_)
            | Step::MountsSeen(_) => Ok(()),
        }
    }
}
