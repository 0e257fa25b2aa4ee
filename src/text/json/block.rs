//! The line of a block request.

use rustc_hash::FxHashMap;

use super::super::errno::ErrnoName;
use super::object::{Object, key};
use crate::anomaly::Link;
use crate::event::block::RequestOp;
use crate::operation::attribution::{BlockContents, Piece, device_of};
use crate::operation::block::{BlockRequest, DiskstatsClass, FlushRole, RequestEnd};
use crate::operation::model::ThreadInfo;
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Writes the line into `line`.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    disks: &FxHashMap<DevId, String>,
    request: &BlockRequest,
    thread: Option<&ThreadInfo>,
    pieces: &[Piece],
) {
    let since = |time: Option<KernelTime>| time.map(|time| time.signed_since(start));
    let error = request.error.map(|error| ErrnoName(error).to_string());

    let mut object = Object::begin(line, "block");
    object.text(key!("disk"), disks.get(&request.dev).map(String::as_str));
    object.text(key!("dev"), Some(&request.dev.to_string()));
    object.word(key!("op"), Some(request.op.as_str()));
    object.unsigned(key!("sector"), Some(request.sector));
    object.unsigned(key!("bytes"), Some(request.bytes()));
    object.signed(key!("queued_ns"), since(request.queued));
    object.signed(key!("inserted_ns"), since(request.inserted));
    object.signed(key!("issued_ns"), since(request.issued));
    object.signed(key!("completed_ns"), since(request.completed));
    object.signed(key!("pid"), request.submitter.map(|submitter| submitter.pid.0.into()));
    object.bytes(key!("comm"), key!("comm_bytes"), thread.map(|thread| thread.comm.as_slice()));
    object.word(key!("error"), error.as_deref());
    object.signed(key!("tid"), request.submitter.map(|submitter| submitter.tid.0.into()));
    object.text(key!("rwbs"), Some(&request.rwbs.to_string()));
    object.unsigned(key!("merges"), Some(request.merges.into()));
    object.unsigned(key!("requeues"), Some(request.requeues.into()));
    object.word(key!("ending"), request.ending.map(RequestEnd::as_str));
    object.word(key!("flush"), Some(flush(request.flush)));
    object.word(key!("diskstats"), request.diskstats_class().map(DiskstatsClass::as_str));
    object.unsigned(key!("bytes_done"), Some(request.bytes_done));
    object.signed(key!("bio_queued_ns"), since(request.bio_queued()));
    object.unsigned(key!("request"), Some(request.id.0));
    // Every flush of the device has that letter, too.
    let preflush = request.rwbs.is_preflush() && request.op != RequestOp::Flush;
    object.boolean(key!("preflush"), preflush);
    let serves = match request.flush {
        FlushRole::Device { serves } => serves,
        _ => None,
    };
    object.unsigned(key!("serves"), serves.map(|served| served.request.0));
    object.unsigned(key!("serves_waiting"), serves.map(|served| served.waiting.into()));
    object.objects(key!("pieces"), pieces, |object, it| piece(object, it, start, disks));
    object.end();
}

fn piece(
    object: &mut Object<'_>,
    piece: &Piece,
    start: KernelTime,
    disks: &FxHashMap<DevId, String>,
) {
    object.word(key!("behind"), Some(piece.contents.as_str()));
    object.word(key!("link"), Some(piece.contents.link().as_str()));
    object.word(key!("program"), piece.program().map(Link::as_str));
    object.unsigned(key!("sector"), Some(piece.sector));
    object.unsigned(key!("bytes"), Some(piece.nr_sector.saturating_mul(SECTOR_BYTES)));
    object.signed(key!("bio_queued_ns"), Some(piece.queued.time.signed_since(start)));
    object.signed(key!("pid"), Some(piece.queued.pid.0.into()));
    object.signed(key!("tid"), Some(piece.queued.tid.0.into()));
    file(object, &piece.contents);
    // Locations on the devices above, the nearest first.
    object.objects(key!("levels"), &piece.levels, |object, level| {
        object.text(key!("dev"), Some(&level.dev.to_string()));
        object.text(key!("disk"), disks.get(&level.dev).map(String::as_str));
        object.unsigned(key!("sector"), Some(level.sector));
    });
    object.objects(key!("above"), &piece.above, |object, location| {
        object.text(key!("dev"), Some(&location.place.dev.to_string()));
        object.text(key!("disk"), disks.get(&location.place.dev).map(String::as_str));
        object.unsigned(key!("sector"), Some(location.place.sector));
        object.word(key!("behind"), Some(location.contents.as_str()));
        file(object, &location.contents);
    });
    object.objects(key!("writers"), &piece.writers, |object, writer| {
        object.signed(key!("pid"), Some(writer.pid.0.into()));
        object.bytes(key!("comm"), key!("comm_bytes"), Some(&writer.comm));
    });
}

/// Writes the members of a piece of a file.
fn file(object: &mut Object<'_>, contents: &BlockContents) {
    if let BlockContents::File { key, offset, file, .. } = contents {
        let path = file.as_ref().and_then(|file| file.path.as_ref());
        object.bytes(key!("path"), key!("path_bytes"), path.map(|path| path.bytes.as_slice()));
        object.word(key!("path_source"), path.map(|path| path.source.as_str()));
        match device_of(*key) {
            Some(dev) => object.text(key!("device"), Some(&dev.to_string())),
            None => {
                object.text(key!("fs_dev"), Some(&key.0.to_string()));
                object.unsigned(key!("ino"), Some(key.1));
            }
        }
        object.unsigned(key!("offset"), *offset);
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
