//! The line of a block request.

use rustc_hash::FxHashMap;

use super::super::errno::ErrnoName;
use super::object::Object;
use crate::anomaly::Link;
use crate::operation::behind::{Behind, Piece, device_of};
use crate::operation::block::{BlockRequest, DiskstatsClass, Ending, FlushRole};
use crate::operation::model::ThreadInfo;
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Writes the line into `line`.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    disks: &FxHashMap<DevId, String>,
    request: &BlockRequest,
    (thread, pieces): (Option<&ThreadInfo>, &[Piece]),
) {
    let since = |time: Option<KernelTime>| time.map(|it| it.signed_since(start));
    let error = request.error.map(|it| ErrnoName(it).to_string());

    let mut object = Object::begin(line, "block");
    object.text("disk", disks.get(&request.dev).map(String::as_str));
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
    object.signed("bio_queued_ns", since(request.bio_queued()));
    object.objects("pieces", pieces, |object, it| piece(object, it, start, disks));
    object.end();
}

fn piece(
    object: &mut Object<'_>,
    piece: &Piece,
    start: KernelTime,
    disks: &FxHashMap<DevId, String>,
) {
    object.word("behind", Some(piece.behind.as_str()));
    object.word("link", Some(piece.behind.link().as_str()));
    object.word("program", piece.program().map(Link::as_str));
    object.unsigned("sector", Some(piece.sector));
    object.unsigned("bytes", Some(piece.nr_sector.saturating_mul(SECTOR_BYTES)));
    object.signed("bio_queued_ns", Some(piece.queued.time.signed_since(start)));
    object.signed("pid", Some(piece.queued.pid.0.into()));
    object.signed("tid", Some(piece.queued.tid.0.into()));
    file(object, &piece.behind);
    // The places above, the nearest first.
    object.objects("levels", &piece.levels, |object, it| {
        object.text("dev", Some(&it.dev.to_string()));
        object.text("disk", disks.get(&it.dev).map(String::as_str));
        object.unsigned("sector", Some(it.sector));
    });
    object.objects("above", &piece.above, |object, it| {
        object.text("dev", Some(&it.place.dev.to_string()));
        object.text("disk", disks.get(&it.place.dev).map(String::as_str));
        object.unsigned("sector", Some(it.place.sector));
        object.word("behind", Some(it.behind.as_str()));
        file(object, &it.behind);
    });
    object.objects("writers", &piece.writers, |object, it| {
        object.signed("pid", Some(it.pid.0.into()));
        object.bytes("comm", "comm_bytes", Some(&it.comm));
    });
}

/// The members of what is a file.
fn file(object: &mut Object<'_>, behind: &Behind) {
    if let Behind::File { key, offset, file, .. } = behind {
        let path = file.as_ref().and_then(|it| it.path.as_ref());
        object.bytes("path", "path_bytes", path.map(|it| it.bytes.as_slice()));
        object.word("path_source", path.map(|it| it.source.as_str()));
        match device_of(*key) {
            Some(dev) => object.text("device", Some(&dev.to_string())),
            None => {
                object.text("fs_dev", Some(&key.0.to_string()));
                object.unsigned("ino", Some(key.1));
            }
        }
        object.unsigned("offset", *offset);
    }
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
