//! The line of a block request.

use super::super::errno::ErrnoName;
use super::object::Object;
use crate::operation::block::{BlockRequest, DiskstatsClass, Ending, FlushRole};
use crate::operation::model::ThreadInfo;
use crate::units::KernelTime;

/// Writes the line into `line`.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    disk: Option<&str>,
    request: &BlockRequest,
    thread: Option<&ThreadInfo>,
) {
    let since = |time: Option<KernelTime>| time.map(|it| it.signed_since(start));
    let error = request.error.map(|it| ErrnoName(it).to_string());

    let mut object = Object::begin(line, "block");
    object.text("disk", disk);
    object.text("dev", Some(&request.dev.to_string()));
    object.word("op", Some(request.op.as_str()));
    object.unsigned("sector", Some(request.sector));
    object.unsigned("bytes", Some(request.bytes()));
    object.signed("queued_ns", since(request.queued));
    object.signed("inserted_ns", since(request.inserted));
    object.signed("issued_ns", since(request.issued));
    object.signed("completed_ns", since(request.completed));
    object.signed("pid", request.submitter.map(|it| it.pid.0.into()));
    object.bytes("comm", "comm_bytes", thread.map(|it| it.comm.as_slice()));
    object.word("error", error.as_deref());
    object.signed("tid", request.submitter.map(|it| it.tid.0.into()));
    object.text("rwbs", Some(&request.rwbs.to_string()));
    object.unsigned("merges", Some(request.merges.into()));
    object.unsigned("requeues", Some(request.requeues.into()));
    object.word("ending", request.ending.map(ending));
    object.word("flush", Some(flush(request.flush)));
    object.word("diskstats", request.diskstats_class().map(diskstats));
    object.unsigned("bytes_done", Some(request.bytes_done));
    object.end();
}

fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::Absorbed { .. } => "absorbed",
        Ending::Unfinished(_) => "unfinished",
    }
}

fn flush(role: FlushRole) -> &'static str {
    match role {
        FlushRole::None => "none",
        FlushRole::Sequence => "sequence",
        FlushRole::Demand => "demand",
        FlushRole::Device { .. } => "device",
    }
}

fn diskstats(class: DiskstatsClass) -> &'static str {
    match class {
        DiskstatsClass::Read => "read",
        DiskstatsClass::Write => "write",
        DiskstatsClass::Discard => "discard",
        DiskstatsClass::Flush => "flush",
    }
}
