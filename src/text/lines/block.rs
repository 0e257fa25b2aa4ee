//! `TIME DISK DEV RWBS SECTOR + SECTORS Q2I s I2D s D2C s Q2C s ENDING`.

use super::super::digits;
use super::super::errno::ErrnoName;
use super::TIME_WIDTH;
use crate::operation::block::{BlockRequest, Ending, Unfinished};
use crate::units::KernelTime;

/// Writes all columns but the last, which is the submitter.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    disk: Option<&[u8]>,
    request: &BlockRequest,
) {
    match request.begin().or(request.completed) {
        Some(time) => digits::seconds(line, time.signed_since(start), TIME_WIDTH),
        None => line.extend_from_slice(format!("{:>TIME_WIDTH$}", "-").as_bytes()),
    }
    line.push(b' ');
    line.extend_from_slice(disk.unwrap_or(b"?"));
    let letters = request.rwbs.to_string();
    let letters = if letters.is_empty() { "?" } else { &letters };
    let place = format!(" {} {letters} {} + {}", request.dev, request.sector, request.nr_sector);
    line.extend_from_slice(place.as_bytes());
    for (label, from, to) in [
        (" Q2I ", request.queued, request.inserted),
        (" I2D ", request.inserted, request.issued),
        (" D2C ", request.issued, request.completed),
        (" Q2C ", request.queued, request.completed),
    ] {
        line.extend_from_slice(label.as_bytes());
        match from.zip(to) {
            Some((from, to)) => digits::seconds(line, to.signed_since(from), 0),
            None => line.push(b'-'),
        }
    }
    line.push(b' ');
    line.extend_from_slice(ending(request).as_bytes());
}

/// How it ended, in one word.
fn ending(request: &BlockRequest) -> String {
    match (request.ending, request.error) {
        (Some(Ending::Completed), Some(error)) => ErrnoName(error).to_string(),
        (Some(Ending::Completed), None) => "completed".to_owned(),
        (Some(Ending::Absorbed { .. }), _) => "absorbed".to_owned(),
        (Some(Ending::Unfinished(Unfinished::GivenUp)), _) => "given-up".to_owned(),
        (Some(Ending::Unfinished(Unfinished::CaptureEnd)) | None, _) => "unfinished".to_owned(),
    }
}
