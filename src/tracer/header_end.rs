//! First and last frame of a log.

use std::fs::File;
use std::io;

use super::followed::Exclusion;
use super::job;
use super::layers::Layers;
use super::log_thread::LogCounts;
use super::name_source_selection::Naming;
use super::options::{CallChainOptions, Follow, Options};
use super::source::{Described, KernelCounts, Source};
use super::source_selection::SourceChoice;
use super::tracepoint_plan::{self, RingKind};
use super::uprobes::aio::AioProbes;
use crate::capture::format::FrameKind;
use crate::capture::header::{
    self, CaptureScope, Clock, Counts, Disk, End, Header, Host, JobPlace, Others, ProcessRank,
    RingCounts, RingInfo, TracerCost, Unread, UnreadPrograms,
};
use crate::capture::writer::Writer;
use crate::sys::clock;
use crate::sys::perf::{self, Functions, Unwind};
use crate::sys::spawn::ProgramEnd;
use crate::units::{DevId, KernelTime, Pid};

/// Decisions and findings from before the recording.
pub(super) struct HeaderFacts<'a> {
    pub host: Host,
    pub disks: Vec<Disk>,
    pub naming: &'a Naming,
    pub layers: Option<&'a Layers>,
    pub aio: &'a AioProbes,
    pub choice: &'a SourceChoice,
    pub exclusion: Exclusion,
    /// Times at which the first and the last tracepoint were switched on.
    pub on: (KernelTime, KernelTime),
}

/// Returns the header of the capture.
pub(super) fn header(
    options: &Options,
    facts: HeaderFacts<'_>,
    roots: &[Pid],
    source: &dyn Source,
    ring_bytes: &[usize],
) -> Header {
    let HeaderFacts { host, disks, naming, layers, aio, choice, exclusion, on: (start, all_on) } =
        facts;
    let mode = match options.follow {
        Follow::System => "system",
        Follow::Launched => "launch",
        Follow::Attached(_) => "attach",
    };
    let job = job::job(options);
    let ring = |(of, &bytes): (RingKind, &usize)| RingInfo {
        name: of.as_str().into(),
        bytes: bytes as u64,
    };
    Header {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            start_ns: start.0,
            all_on_ns: all_on.0,
            start_realtime_ns: wall_clock_at(start),
        },
        scope: CaptureScope {
            mode: mode.into(),
            roots: roots.iter().map(|it| it.0).collect(),
            group: options.group.as_ref().map(ToString::to_string),
            foreign_kept: options.keep_foreign,
            all_block: options.all_block,
            others_counted: options.counts_others(),
            command: options.command.clone(),
            children_left_out: !options.follows_children,
            threads: options.threads.clone(),
            excluded: exclusion.processes.iter().map(|pid| pid.0).collect(),
            excluded_in_kernel: exclusion.is_in_kernel,
            ranks: ranks(options, roots, job.as_ref()),
        },
        own_pid: i32::try_from(std::process::id()).unwrap_or(0),
        calls: options.calls.iter().map(|it| it.call().name.to_owned()).collect(),
        names: naming.names.as_str().into(),
        names_reason: naming.reason.clone(),
        layers: layers.map(|it| if it.has_probes() { "kprobe" } else { "tracepoint" }.into()),
        layers_reason: layers.map(|it| it.reason.clone()).unwrap_or_default(),
        aio_reason: aio.reason.clone(),
        args: if options.exact_args { "exact" } else { "registers" }.into(),
        source: choice.source.as_str().into(),
        source_reason: choice.reason.clone(),
        exec_exits: tracepoint_plan::has_exec_exits(
            source.tracepoints().iter().map(|it| &it.planned),
        ),
        chains: options.chains.map(chains),
        layouts: source.layouts(),
        rings: RingKind::ALL.into_iter().zip(ring_bytes).map(ring).collect(),
        tracepoints: source.tracepoints().iter().map(Described::header).collect(),
        disks,
        device_filter: options.devices.iter().map(DevId::to_string).collect(),
        job,
        imported: None,
        capsule: None,
        excerpt: None,
        host,
    }
}

/// Returns the ranks of a node that are followed together, the launched one among them.
fn ranks(options: &Options, roots: &[Pid], job: Option<&JobPlace>) -> Vec<ProcessRank> {
    let (Some(node), Some(launched)) = (&options.node, roots.first()) else { return Vec::new() };
    let rank = job.and_then(|job| job.rank);
    let own = ProcessRank { pid: launched.0, rank, local_rank: job.and_then(|job| job.local_rank) };
    let mut ranks = Vec::from_iter(node.processes.iter().copied().chain([own]));
    ranks.sort_by_key(|process| (process.rank, process.pid));
    ranks
}

/// Returns the recorded call chains.
fn chains(CallChainOptions { functions, calls }: CallChainOptions) -> header::CallChainKinds {
    let Functions { kernel, user } = functions;
    let stack_bytes = user.map_or(0, Unwind::stack_bytes);
    let (user, frames_max) = (user.is_some(), perf::chain_frames_max());
    header::CallChainKinds { kernel, user, stack_bytes, calls, frames_max }
}

/// Returns the wall-clock time at a recent time of the capture's clock.
fn wall_clock_at(time: KernelTime) -> u64 {
    let (now, wall_ns) = clock::both();
    wall_ns.saturating_sub(now.0.saturating_sub(time.0))
}

/// Returns the change of the wall clock since the header was written, against the clock of the
/// capture, ns: the clock was set, or the machine slept.
pub(super) fn wall_moved_ns(header: &Clock) -> i64 {
    wall_clock_at(KernelTime(header.start_ns))
        .cast_signed()
        .saturating_sub(header.start_realtime_ns.cast_signed())
}

/// Begins a log with its header.
pub(super) fn begin_log(log: File, header: &Header, start: KernelTime) -> io::Result<Writer<File>> {
    let mut writer = Writer::new(log)?;
    writer.json(FrameKind::HEADER, start, header)?;
    Ok(writer)
}

/// Returns the content of the END frame: the end of the recording, and the kernel's counters.
pub(super) fn end_frame(
    reason: &str,
    end_ns: u64,
    end_realtime_ns: u64,
    ended: Option<ProgramEnd>,
    books: KernelCounts,
    counted: &LogCounts,
    warnings: Vec<String>,
) -> End {
    let with_samples = |(id, counts): (u16, Counts)| Counts {
        samples: counted.samples(counts.ring, id),
        ..counts
    };
    let with_found = |rings: RingCounts| RingCounts { found: counted.in_ring(rings.ring), ..rings };
    let (exit_code, exit_signal) = match ended {
        Some(ProgramEnd::Exited(code)) => (Some(code), None),
        Some(ProgramEnd::Killed(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    End {
        end_ns,
        end_realtime_ns,
        reason: reason.to_owned(),
        exit_code,
        exit_signal,
        tracepoints: books.tracepoints.into_iter().map(with_samples).collect(),
        rings: books.rings.into_iter().map(with_found).collect(),
        foreign_dropped: counted.foreign_dropped,
        unwritten: counted.unwritten,
        warnings,
        own: TracerCost::default(),
        wall_moved_ns: None,
        places_not_asked: 0,
        disks: Vec::new(),
        unread: Unread::default(),
        others: Others::default(),
        unread_programs: UnreadPrograms::default(),
        stat_calls: None,
    }
}
