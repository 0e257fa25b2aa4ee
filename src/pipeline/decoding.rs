//! Decoding of a record's bytes into an event, or the reason for which there is none.

use crate::anomaly::{Anomaly, AnomalyKind};
use crate::capture::fact::Text;
use crate::event::decode::Decoder;
use crate::event::identity::{IdentityPart, SeenIdentity};
use crate::event::syscall_strings::EventString;
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind};
use crate::naming::thread_owner::ThreadOwners;
use crate::record::parse::RecordBody;
use crate::record::{Layout, Record, RecordKind, SampleLayout, page};
use crate::units::{CpuId, KernelTime, Pid, Tid};

/// Result of decoding a record.
pub(super) enum Decoded {
    Event(Event),
    Bookkeeping,
    Anomaly(Anomaly),
}

/// Texts about the identity of a process.
pub(super) const IDENTITIES: [Text; 3] = [Text::COMMAND, Text::CGROUP, Text::EXECUTABLE];

/// Returns the part of an identity that a text has.
pub(super) fn identity(which: Text, pid: Pid, text: Vec<u8>) -> SeenIdentity {
    let part = match which {
        Text::COMMAND => IdentityPart::Command(text),
        Text::EXECUTABLE => IdentityPart::Executable(text),
        _ => IdentityPart::Cgroup(text),
    };
    SeenIdentity { pid, part }
}

/// Decodes a record of perf.
pub(super) fn decode(
    decoder: &Decoder,
    bytes: &[u8],
    cpu: CpuId,
    layout: &SampleLayout,
) -> Decoded {
    let record = RecordKind::first(bytes).map_err(|error| error.to_string());
    let record =
        record.and_then(|record| record.0.parse(layout).map_err(|error| error.to_string()));
    let Record { pid, tid, time, body } = match record {
        Ok(record) => record,
        Err(detail) => return undecodable(KernelTime::MIN, cpu, Pid(-1), Tid(-1), detail),
    };
    let kind = match body {
        RecordBody::Sample(payload) => match decoder.decode(payload) {
            Ok(kind) => kind,
            Err(error) => return undecodable(time, cpu, pid, tid, error.to_string()),
        },
        RecordBody::Lost(count) => EventKind::Lost(count),
        RecordBody::Comm { pid, tid, comm, exec } => {
            EventKind::Task(TaskEvent::Comm { pid, tid, comm: comm.to_vec(), exec })
        }
        RecordBody::Fork { pid, tid, ppid, ptid } => {
            EventKind::Task(TaskEvent::Fork { pid, tid, ppid, ptid })
        }
        RecordBody::Exit { pid, tid } => EventKind::Task(TaskEvent::Exit { pid, tid }),
        RecordBody::Mmap(_) | RecordBody::Other(_) => return Decoded::Bookkeeping,
    };
    Decoded::Event(Event { time, cpu, pid, tid, kind })
}

/// Decodes an event in a page: it has no process, and its time was found with it.
pub(super) fn decode_hit(
    decoder: &Decoder,
    bytes: &[u8],
    cpu: CpuId,
    time: KernelTime,
    owners: &ThreadOwners,
) -> Decoded {
    let Some(payload) = page::payload(bytes) else {
        return undecodable(time, cpu, Pid(-1), Tid(-1), "not an event".into());
    };
    let Some(tid) = decoder.thread(payload) else {
        return undecodable(time, cpu, Pid(-1), Tid(-1), "an event without a thread".into());
    };
    let kind = match decoder.decode(payload) {
        Ok(kind) => kind,
        Err(error) => return undecodable(time, cpu, Pid(-1), tid, error.to_string()),
    };
    let is_of_a_task = match &kind {
        EventKind::Block(_) | EventKind::Fs(_) | EventKind::Uring(_) => false,
        EventKind::Layer(hit) => !hit.edge.concerns_any_process(),
        _ => true,
    };
    match owners.of(tid) {
        // Block events may interrupt any thread, and events of file systems, journals and a ring's
        // last results may come from any kernel thread. An unknown thread is not one that is
        // followed.
        None if is_of_a_task => Decoded::Anomaly(Anomaly {
            kind: AnomalyKind::NoProcess,
            time,
            cpu,
            pid: Pid(-1),
            tid,
            count: 1,
            detail: "the process of this thread is unknown".into(),
        }),
        pid => Decoded::Event(Event { time, cpu, pid: pid.unwrap_or(Pid(-1)), tid, kind }),
    }
}

/// Paths in the record of a call's entry.
pub(super) fn strings(decoder: &Decoder, bytes: &[u8], layout: &Layout) -> Vec<EventString> {
    let payload = match layout {
        Layout::Pages(_) => page::payload(bytes),
        Layout::Perf(layout) => {
            let record = RecordKind::first(bytes).ok().and_then(|kind| kind.0.parse(layout).ok());
            record.and_then(|record| {
                if let RecordBody::Sample(record) = record.body { Some(record) } else { None }
            })
        }
    };
    payload.map(|payload| decoder.strings(payload)).unwrap_or_default()
}

/// Learns the owner of a thread from a birth or an exec.
pub(super) fn learn(owners: &mut ThreadOwners, task: &TaskEvent) {
    match *task {
        TaskEvent::Fork { pid, tid, .. } => owners.is_of(tid, pid),
        TaskEvent::Comm { pid, tid, exec: true, .. } => owners.is_of(tid, pid),
        TaskEvent::Comm { .. } | TaskEvent::Exit { .. } | TaskEvent::NewTask { .. } => {}
    }
}

fn undecodable(time: KernelTime, cpu: CpuId, pid: Pid, tid: Tid, detail: String) -> Decoded {
    Decoded::Anomaly(Anomaly {
        kind: AnomalyKind::Undecodable,
        time,
        cpu,
        pid,
        tid,
        count: 1,
        detail,
    })
}
