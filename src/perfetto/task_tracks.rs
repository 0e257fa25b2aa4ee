//! Tracks of processes and threads, and the state of each live thread.
//!
//! For a reader the last name of a thread counts, but the first one of a process. A process has the
//! name of its parent until its exec, so its name is written when it ends.

use std::io;

use rustc_hash::FxHashMap;

use super::nested::{SlicePeriod, write_spans};
use super::packets::{FlowId, PacketWriter, TrackId};
use super::schema::{process, thread, track};
use super::words::{ArgumentName, EventCategory};
use crate::operation::model::{ProcessInfo, ProcessKey, ThreadInfo, ThreadKey};
use crate::operation::span::Span;
use crate::text::escape::shown;
use crate::units::{KernelTime, Pid};

/// Limit on spans of a thread outside of calls that wait for others which may contain them.
const LOOSE_SPANS_MAX: usize = 1 << 10;

/// Limit on flows from one call. The call's number of requests is always complete.
const FLOWS_MAX: usize = 1 << 16;

/// Open call of a thread.
#[derive(Debug)]
struct CallInProgress {
    start: KernelTime,
    /// Block requests that the thread has queued since.
    requests: u64,
}

/// Thread that has not ended.
#[derive(Debug, Default)]
pub(super) struct ThreadTrack {
    call: Option<CallInProgress>,
    /// Flows that begin at the open call.
    flows: Vec<FlowId>,
    /// Spans outside of calls that are not written yet.
    loose: Vec<Span>,
    /// End of the last slice.
    written_until: KernelTime,
}

/// Process that has not ended.
#[derive(Debug)]
struct ProcessTrack {
    pid: Pid,
    /// Last name of its first thread.
    name: Vec<u8>,
}

/// Facts that a thread has collected since the begin of its call.
#[derive(Debug)]
pub(super) struct CallFacts<'a> {
    /// Block requests that the call has queued.
    pub(super) requests: u64,
    /// Flows that begin at the call.
    pub(super) flows: &'a [FlowId],
    /// Earliest begin of the call's slice.
    pub(super) earliest: KernelTime,
}

/// All processes and threads that have not ended.
#[derive(Debug, Default)]
pub(super) struct TaskTracks {
    threads: FxHashMap<ThreadKey, ThreadTrack>,
    processes: FxHashMap<ProcessKey, ProcessTrack>,
}

/// Returns the track of a thread.
#[inline]
pub(super) fn thread_track(key: ThreadKey) -> TrackId {
    TrackId(u64::from(key.0) << 2 | 1)
}

/// Returns the track of a process.
pub(super) fn process_track(key: ProcessKey) -> TrackId {
    TrackId(u64::from(key.0) << 2 | 2)
}

impl ThreadTrack {
    /// Writes the spans outside of calls, which reach no further than `until`.
    fn write_loose<W: io::Write>(
        &mut self,
        key: ThreadKey,
        until: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        if self.loose.is_empty() {
            return Ok(());
        }
        let last = self.loose.iter().map(|span| span.end).max().unwrap_or(until).min(until);
        let period = SlicePeriod { start: self.written_until, end: last.max(self.written_until) };
        write_spans(&mut self.loose, period, thread_track(key), out)?;
        self.written_until = period.end;
        self.loose.clear();
        Ok(())
    }
}

impl TaskTracks {
    /// Describes a process, but for its name; again after each change.
    pub(super) fn process<W: io::Write>(
        &mut self,
        info: &ProcessInfo,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let process = ProcessTrack { pid: info.pid, name: info.comm.clone() };
        self.processes.insert(info.key, process);
        out.describe(process_track(info.key), None, b"", |fields| {
            let message = fields.begin(track::PROCESS);
            fields.signed(process::PID, info.pid.0.into());
            let mut text = Vec::new();
            let arguments = info.command.as_deref().unwrap_or_default();
            for argument in
                arguments.strip_suffix(b"\0").unwrap_or(arguments).split(|byte| *byte == 0)
            {
                if !arguments.is_empty() {
                    text.clear();
                    shown(&mut text, argument, b"");
                    fields.bytes(process::COMMAND_LINE, &text);
                }
            }
            fields.end(message);
        })
    }

    /// Describes a thread; again after each change of its name.
    pub(super) fn thread<W: io::Write>(
        &mut self,
        info: &ThreadInfo,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        self.threads.entry(info.key).or_default();
        let process = self.processes.get_mut(&info.process);
        let pid = process.as_ref().map_or(Pid(info.tid.0), |process| process.pid);
        // A process has the name of its first thread.
        if let Some(process) = process.filter(|_| pid.0 == info.tid.0) {
            process.name.clone_from(&info.comm);
        }
        out.describe(thread_track(info.key), None, b"", |fields| {
            let message = fields.begin(track::THREAD);
            fields.signed(thread::PID, pid.0.into());
            fields.signed(thread::TID, info.tid.0.into());
            let mut text = Vec::new();
            shown(&mut text, &info.comm, b"");
            fields.bytes(thread::NAME, &text);
            fields.end(message);
        })
    }

    /// Describes a thread by its new name, and marks the time of the change.
    pub(super) fn renamed<W: io::Write>(
        &mut self,
        info: &ThreadInfo,
        time: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        self.thread(info, out)?;
        out.begin_instant(thread_track(info.key), EventCategory::Rename, "new name");
        out.text(ArgumentName::Comm, Some(&info.comm));
        out.end_event(time)
    }

    /// Ends a thread.
    pub(super) fn thread_ended<W: io::Write>(
        &mut self,
        key: ThreadKey,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        match self.threads.remove(&key) {
            Some(mut thread) => thread.write_loose(key, KernelTime::MAX, out),
            None => Ok(()),
        }
    }

    /// Ends a process.
    pub(super) fn process_ended<W: io::Write>(
        &mut self,
        key: ProcessKey,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        match self.processes.remove(&key) {
            Some(process) => process.write_name(key, out),
            None => Ok(()),
        }
    }

    /// Takes note of the begin of a call.
    #[inline]
    pub(super) fn call_begun<W: io::Write>(
        &mut self,
        key: ThreadKey,
        start: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let thread = self.threads.entry(key).or_default();
        thread.write_loose(key, start, out)?;
        thread.flows.clear();
        thread.call = Some(CallInProgress { start, requests: 0 });
        Ok(())
    }

    /// Takes note of the end of a call, and returns what is known of it.
    #[inline]
    pub(super) fn call_ended(&mut self, key: ThreadKey, end: KernelTime) -> CallFacts<'_> {
        let thread = self.threads.entry(key).or_default();
        let requests = thread.call.take().map_or(0, |call| call.requests);
        let earliest = thread.written_until;
        thread.written_until = end.max(earliest);
        CallFacts { requests, flows: &thread.flows, earliest }
    }

    /// Counts a block request that began at `time` with the call that the thread is inside. Returns
    /// true if a flow leads from the call to it.
    pub(super) fn request_queued(
        &mut self,
        key: ThreadKey,
        time: KernelTime,
        flow: FlowId,
    ) -> bool {
        let Some(thread) = self.threads.get_mut(&key) else { return false };
        let Some(call) = thread.call.as_mut().filter(|call| call.start <= time) else {
            return false;
        };
        call.requests += 1;
        thread.add_flow(flow)
    }

    /// Adds a flow from the call that the thread is inside to an asynchronous operation. Returns
    /// true if there is such a call.
    pub(super) fn operation_taken(
        &mut self,
        key: ThreadKey,
        time: KernelTime,
        flow: FlowId,
    ) -> bool {
        let Some(thread) = self.threads.get_mut(&key) else { return false };
        let is_inside = thread.call.as_ref().is_some_and(|call| call.start <= time);
        is_inside && thread.add_flow(flow)
    }

    /// Keeps a span outside of calls until it is known which others contain it.
    pub(super) fn loose_span<W: io::Write>(
        &mut self,
        key: ThreadKey,
        span: Span,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let thread = self.threads.entry(key).or_default();
        let is_later = thread.loose.iter().all(|other| other.end <= span.begin);
        if is_later || thread.loose.len() >= LOOSE_SPANS_MAX {
            thread.write_loose(key, KernelTime::MAX, out)?;
        }
        thread.loose.push(span);
        Ok(())
    }

    /// Writes what is still kept.
    pub(super) fn finish<W: io::Write>(&mut self, out: &mut PacketWriter<W>) -> io::Result<()> {
        for (key, thread) in &mut self.threads {
            thread.write_loose(*key, KernelTime::MAX, out)?;
        }
        for (key, process) in &self.processes {
            process.write_name(*key, out)?;
        }
        Ok(())
    }
}

impl ProcessTrack {
    fn write_name<W: io::Write>(
        &self,
        key: ProcessKey,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        out.describe(process_track(key), None, b"", |fields| {
            let message = fields.begin(track::PROCESS);
            fields.signed(process::PID, self.pid.0.into());
            let mut text = Vec::new();
            shown(&mut text, &self.name, b"");
            fields.bytes(process::NAME, &text);
            fields.end(message);
        })
    }
}

impl ThreadTrack {
    fn add_flow(&mut self, flow: FlowId) -> bool {
        let has_room = self.flows.len() < FLOWS_MAX;
        if has_room {
            self.flows.push(flow);
        }
        has_room
    }
}
