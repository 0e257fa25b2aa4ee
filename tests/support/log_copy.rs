//! Copies of a capture log with other frames: with the header of another host or rank, with another
//! end.

use std::fs::{self, File};
use std::path::Path;

use iotrace_perf::capture::format::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind,
};
use iotrace_perf::capture::header::Header;
use iotrace_perf::capture::reader::{Item, Reader, json};
use iotrace_perf::capture::writer::Writer;
use iotrace_perf::units::KernelTime;

/// Copies a whole log. `replace` gets each frame, and returns true for one that it has replaced or
/// leaves out; the others are copied as they are. Returns the writer after the last frame.
///
/// # Panics
///
/// If the log is damaged, `to` exists or cannot be written.
pub(crate) fn copy_frames(
    log: &Path,
    to: &Path,
    mut replace: impl FnMut(&mut Writer<File>, &FrameHeader, &[u8]) -> bool,
) -> Writer<File> {
    let bytes = fs::read(log).expect("a log");
    let mut reader = Reader::new(bytes.as_slice()).expect("a log");
    let mut writer = Writer::new(File::create_new(to).expect("a file")).expect("space");
    let mut rest = &bytes[FILE_HEADER_BYTES..];
    while let Some(item) = reader.next_item().expect("memory") {
        let Item::Frame(frame, payload) = item else { panic!("{} is damaged", log.display()) };
        let stored;
        (stored, rest) = rest.split_at(FRAME_HEADER_BYTES + frame.stored_bytes as usize);
        if !replace(&mut writer, &frame, &payload) {
            writer.frames(stored).expect("space");
        }
    }
    writer
}

/// Writes the header as `change` leaves it, if the frame is one. Returns true if so.
pub(crate) fn replace_header(
    writer: &mut Writer<File>,
    frame: &FrameHeader,
    payload: &[u8],
    change: impl FnOnce(&mut Header),
) -> bool {
    let Some(header) = json::<Header>(frame, payload, FrameKind::HEADER) else { return false };
    let mut header = header.expect("a header");
    change(&mut header);
    writer.json(FrameKind::HEADER, KernelTime(frame.first_time), &header).expect("space");
    true
}

/// Copies a whole log with another header.
///
/// # Panics
///
/// As [`copy_frames`].
pub(crate) fn copy_with_header(log: &Path, to: &Path, change: impl Fn(&mut Header)) {
    copy_frames(log, to, |writer, frame, payload| replace_header(writer, frame, payload, &change));
}
