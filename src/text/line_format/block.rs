//! `TIME DISK DEV RWBS SECTOR + SECTORS Q2G s G2I s I2D s D2C s Q2C s ENDING`, the submitter, and
//! the attribution: `<- LEVEL SECTOR` for each device above, and in brackets the pieces: a file
//! with the offset, or a word. A `?` after a name means that it is not certain.

use rustc_hash::FxHashMap;

use super::super::errno::ErrnoName;
use super::super::{escape, number_format};
use crate::anomaly::Link;
use crate::operation::attribution::{BlockContents, Piece, StackedLocation, device_of};
use crate::operation::block::{BlockRequest, RequestEnd, UnfinishedRequest};
use crate::units::{DevId, KernelTime};

/// Width of the time at the beginning of a line, in columns.
pub(super) const TIME_WIDTH: usize = 14;

/// Writes all columns except for the last, which is the submitter.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    disk: Option<&[u8]>,
    request: &BlockRequest,
) {
    match request.begin().or(request.completed) {
        Some(time) => number_format::seconds(line, time.signed_since(start), TIME_WIDTH),
        None => line.extend_from_slice(format!("{:>TIME_WIDTH$}", "-").as_bytes()),
    }
    line.push(b' ');
    line.extend_from_slice(disk.unwrap_or(b"?"));
    let letters = request.rwbs.to_string();
    let letters = if letters.is_empty() { "?" } else { &letters };
    let place = format!(" {} {letters} {} + {}", request.dev, request.sector, request.nr_sector);
    line.extend_from_slice(place.as_bytes());
    let queued = request.bio_queued();
    for (label, from, to) in [
        (" Q2G ", queued, request.queued),
        (" G2I ", request.queued, request.inserted),
        (" I2D ", request.inserted, request.issued),
        (" D2C ", request.issued, request.completed),
        match queued {
            Some(_) => (" Q2C ", queued, request.completed),
            // Without its bio the request begins when it was allocated.
            None => (" G2C ", request.queued, request.completed),
        },
    ] {
        line.extend_from_slice(label.as_bytes());
        match from.zip(to) {
            Some((from, to)) => number_format::seconds(line, to.signed_since(from), 0),
            None => line.push(b'-'),
        }
    }
    line.push(b' ');
    line.extend_from_slice(ending(request).as_bytes());
}

/// Limit on the pieces in a line, which has the number of the others. `script --json` has all.
const PIECES_SHOWN_MAX: usize = 4;

/// Writes the devices above and the contents of the request's sectors.
pub(super) fn write_pieces(
    line: &mut Vec<u8>,
    disks: &FxHashMap<DevId, Vec<u8>>,
    pieces: &[Piece],
) {
    let Some(first) = pieces.first() else { return };
    for level in first.levels.iter() {
        line.extend_from_slice(b" <- ");
        device(line, disks, level.dev);
        line.extend_from_slice(format!(" {}", level.sector).as_bytes());
    }
    if pieces.iter().all(|piece| matches!(piece.contents, BlockContents::Nothing)) {
        return;
    }
    line.extend_from_slice(b" [");
    for (index, piece) in pieces.iter().take(PIECES_SHOWN_MAX).enumerate() {
        if index > 0 {
            line.extend_from_slice(b"; ");
        }
        write_piece(line, disks, piece, pieces.len() > 1);
    }
    if let Some(more @ 1..) = pieces.len().checked_sub(PIECES_SHOWN_MAX) {
        line.extend_from_slice(format!("; {more} more").as_bytes());
    }
    line.push(b']');
}

fn write_piece(
    line: &mut Vec<u8>,
    disks: &FxHashMap<DevId, Vec<u8>>,
    piece: &Piece,
    with_length: bool,
) {
    write_contents(line, &piece.contents);
    // Contents of the same sectors on the devices above.
    for StackedLocation { place, contents } in &piece.above {
        line.extend_from_slice(b" = ");
        device(line, disks, place.dev);
        line.extend_from_slice(format!(" {}: ", place.sector).as_bytes());
        write_contents(line, contents);
    }
    if with_length {
        line.extend_from_slice(format!(" +{}", piece.nr_sector).as_bytes());
    }
    for (index, writer) in piece.writers.iter().enumerate() {
        line.extend_from_slice(if index == 0 { b" by " } else { b", " });
        escape::shown(line, &writer.comm, b" ;][");
        line.extend_from_slice(format!("[{}]", writer.pid).as_bytes());
    }
}

fn write_contents(line: &mut Vec<u8>, contents: &BlockContents) {
    let BlockContents::File { key, offset, file, link } = contents else {
        return line.extend_from_slice(contents.as_str().as_bytes());
    };
    match file.as_ref().and_then(|file| file.path.as_ref()) {
        Some(path) => {
            escape::shown(line, &path.bytes, b" ;]");
            if path.source.is_doubtful() {
                line.push(b'?');
            }
        }
        None => line.extend_from_slice(
            match device_of(*key) {
                Some(dev) => format!("device {dev}"),
                None => format!("inode {} of {}", key.1, key.0),
            }
            .as_bytes(),
        ),
    }
    match offset {
        Some(offset) => line.extend_from_slice(format!(" @{offset}").as_bytes()),
        None => line.extend_from_slice(b" @?"),
    }
    if *link != Link::Exact {
        line.extend_from_slice(format!(" {}", link.as_str()).as_bytes());
    }
}

/// Writes the device's name, or its number.
fn device(line: &mut Vec<u8>, disks: &FxHashMap<DevId, Vec<u8>>, dev: DevId) {
    match disks.get(&dev) {
        Some(name) => line.extend_from_slice(name),
        None => line.extend_from_slice(dev.to_string().as_bytes()),
    }
}

/// Ending of a request, in one word.
fn ending(request: &BlockRequest) -> String {
    match (request.ending, request.error) {
        (Some(RequestEnd::Completed), Some(error)) => ErrnoName(error).to_string(),
        (Some(RequestEnd::Completed), None) => "completed".to_owned(),
        (Some(RequestEnd::Absorbed { .. }), _) => "absorbed".to_owned(),
        (Some(RequestEnd::Unfinished(UnfinishedRequest::GivenUp)), _) => "given-up".to_owned(),
        (Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd)) | None, _) => {
            "unfinished".to_owned()
        }
    }
}
