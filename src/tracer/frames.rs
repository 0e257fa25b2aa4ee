//! The first and the last frame of a log.

use std::fs::File;
use std::io;

use super::log::Counted;
use super::plan::RingOf;
use super::rings::{OpenEvents, RingSizes};
use super::session::{Follow, Names, Options};
use crate::capture::format::FrameKind;
use crate::capture::header::{Clock, Counts, End, Header, Host, Layout, Ring, Scope};
use crate::capture::writer::Writer;
use crate::sys::perf::SAMPLE_TYPE;
use crate::sys::spawn::Ended;
use crate::sys::{clock, proc};
use crate::units::{KernelTime, Pid};

/// What the capture is. `on` is when the first and when the last tracepoint was switched on.
pub(super) fn header(
    options: &Options,
    host: Host,
    names: Names,
    (start, all_on): (KernelTime, KernelTime),
    roots: &[Pid],
    events: &OpenEvents,
    sizes: RingSizes,
) -> Header {
    let mode = match options.follow {
        Follow::System => "system",
        Follow::Launched => "launch",
        Follow::Attached(_) => "attach",
    };
    let ring = |of: RingOf, name: &str, bytes: usize| {
        (of.index(), Ring { name: name.into(), bytes: bytes as u64 })
    };
    let mut rings =
        [ring(RingOf::Main, "main", sizes.main), ring(RingOf::Names, "names", sizes.names)];
    rings.sort_by_key(|it| it.0);
    Header {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            start_ns: start.0,
            all_on_ns: all_on.0,
            start_realtime_ns: clock::realtime_ns()
                .saturating_sub(clock::now().0.saturating_sub(start.0)),
        },
        scope: Scope {
            mode: mode.into(),
            roots: roots.iter().map(|it| it.0).collect(),
            foreign_kept: options.keep_foreign,
            command: options.command.clone(),
        },
        own_pid: i32::try_from(std::process::id()).unwrap_or(0),
        calls: options.calls.iter().map(|it| it.call().name.to_owned()).collect(),
        names: names.as_str().into(),
        layouts: vec![Layout { source: "perf".into(), sample_type: SAMPLE_TYPE }],
        rings: rings.map(|it| it.1).into(),
        tracepoints: events.header(),
        disks: proc::disks(),
        host,
    }
}

/// Begins a log with its header.
pub(super) fn begin_log(log: File, header: &Header, start: KernelTime) -> io::Result<Writer<File>> {
    let mut writer = Writer::new(log)?;
    writer.json(FrameKind::HEADER, start, header)?;
    Ok(writer)
}

/// How the recording ended, and what the kernel counted.
pub(super) fn end_frame(
    reason: &str,
    end_ns: u64,
    ended: Option<Ended>,
    counts: Vec<(u16, Counts)>,
    counted: &Counted,
    warnings: Vec<String>,
) -> End {
    let with_samples = |(id, counts): (u16, Counts)| Counts {
        samples: counted.samples(counts.ring, id),
        ..counts
    };
    let (exit_code, exit_signal) = match ended {
        Some(Ended::Exited(code)) => (Some(code), None),
        Some(Ended::Killed(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    End {
        end_ns,
        end_realtime_ns: clock::realtime_ns(),
        reason: reason.to_owned(),
        exit_code,
        exit_signal,
        tracepoints: counts.into_iter().map(with_samples).collect(),
        foreign_dropped: counted.foreign_dropped,
        unwritten: counted.unwritten,
        warnings,
    }
}
