//! What stands at the end of a log and holds for all of it, read before the rest.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::vec;

use super::format::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use super::payload::Unpacker;
use super::reader::Item;

/// The frames of these kinds, in their order: [`FrameKind::LAST_FACTS`], [`FrameKind::END`]. Only headers are read of all others; each is
/// read when its turn comes. What stands behind damaged bytes is not found, and what cannot be wound back (a pipe) has none: it comes in
/// its turn.
///
/// # Errors
///
/// Those of the input.
pub fn look<R: Read + Seek>(mut input: R) -> io::Result<Later<R>> {
    let mut frames = Vec::new();
    if input.stream_position().is_ok() {
        let is_last = |it: &FrameHeader| matches!(it.kind, FrameKind::LAST_FACTS | FrameKind::END);
        walk(&mut input, &mut |input, header| {
            if is_last(&header) {
                frames.push((input.stream_position()?, header));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(Later { input, frames: frames.into_iter(), unpacker: Unpacker::default() })
}

/// Frames that are read one by one.
#[derive(Debug)]
pub struct Later<R> {
    input: R,
    /// Where what is behind its header stands.
    frames: vec::IntoIter<(u64, FrameHeader)>,
    unpacker: Unpacker,
}

impl<R: Read + Seek> Iterator for Later<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (place, header) = self.frames.next()?;
            let payload = self
                .input
                .seek(SeekFrom::Start(place))
                .and_then(|_| payload(&mut self.input, &header, &mut self.unpacker));
            match payload {
                Ok(Some(payload)) => return Some(Ok(Item::Frame(header, payload))),
                // It comes in its turn, where it counts as damaged.
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Takes the frames that are wanted, in their order, from the start of a log on, until it breaks off: of the others only headers are read.
/// False if it came to damaged bytes, behind which nothing is found.
///
/// # Errors
///
/// Those of the input.
pub fn for_each(
    input: &mut (impl Read + Seek),
    is_wanted: &dyn Fn(&FrameHeader) -> bool,
    take: &mut dyn FnMut(FrameHeader, Vec<u8>) -> ControlFlow<()>,
) -> io::Result<bool> {
    let mut unpacker = Unpacker::default();
    let mut is_whole = true;
    let is_at_end = walk(input, &mut |input, header| {
        if !is_wanted(&header) {
            return Ok(ControlFlow::Continue(()));
        }
        let place = input.stream_position()?;
        let taken = match payload(input, &header, &mut unpacker)? {
            Some(payload) => take(header, payload),
            None => {
                is_whole = false;
                ControlFlow::Continue(())
            }
        };
        input.seek(SeekFrom::Start(place))?;
        Ok(taken)
    })?;
    Ok(is_whole && is_at_end)
}

/// Shows each header, with the input behind it, where it must be left. False if there is something that is none.
fn walk<R: Read + Seek>(
    input: &mut R,
    show: &mut dyn FnMut(&mut R, FrameHeader) -> io::Result<ControlFlow<()>>,
) -> io::Result<bool> {
    if !read_whole(input, &mut [0; FILE_HEADER_BYTES])? {
        return Ok(false);
    }
    let mut bytes = [0; FRAME_HEADER_BYTES];
    while read_whole(input, &mut bytes)? {
        let Some(header) = FrameHeader::decode(&bytes) else { return Ok(false) };
        if show(input, header)?.is_break() {
            break;
        }
        input.seek_relative(header.stored_bytes.into())?;
    }
    Ok(true)
}

/// The payload of the frame that begins here behind its header; `None` if it is damaged or cut off.
fn payload(
    input: &mut impl Read,
    header: &FrameHeader,
    unpacker: &mut Unpacker,
) -> io::Result<Option<Vec<u8>>> {
    let mut stored = vec![0; usize::try_from(header.stored_bytes).unwrap_or(0)];
    let is_good = read_whole(input, &mut stored)? && crc32fast::hash(&stored) == header.payload_crc;
    Ok(if is_good { unpacker.unpack(header, &stored) } else { None })
}

/// False if the input ends first.
fn read_whole(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fact::{Fact, FactsFrame, Text};
    use crate::capture::writer::Writer;
    use crate::units::{KernelTime, Pid};
    use std::io::Cursor;

    fn log() -> Vec<u8> {
        let facts = |text: &[u8]| {
            let mut frame = FactsFrame::default();
            let (time, which, pid) = (KernelTime(1), Text::EXTENTS, Pid(0));
            frame.push(&Fact::Text { time, which, pid, text: text.to_vec() });
            frame
        };
        let mut writer = Writer::new(Vec::new()).expect("memory");
        writer.json(FrameKind::HEADER, KernelTime(0), &1).expect("memory");
        writer.facts(KernelTime(1), &mut facts(b"in its turn")).expect("memory");
        writer.round(KernelTime(2)).expect("memory");
        writer.last_facts(KernelTime(3), &mut facts(b"for all")).expect("memory");
        writer.json(FrameKind::END, KernelTime(4), &2).expect("memory");
        writer.get_ref().clone()
    }

    fn kinds(log: &[u8]) -> Vec<FrameKind> {
        let found = look(Cursor::new(log)).expect("memory");
        let kind = |it: io::Result<Item>| match it.expect("memory") {
            Item::Frame(header, payload) => {
                assert_eq!(payload.len(), header.payload_bytes as usize);
                header.kind
            }
            Item::Damaged { .. } => panic!("not told here"),
        };
        found.map(kind).collect()
    }

    #[test]
    fn what_holds_for_all_is_found_and_nothing_else() {
        assert_eq!(kinds(&log()), [FrameKind::LAST_FACTS, FrameKind::END]);
    }

    #[test]
    fn any_part_of_a_log_can_be_looked_at() {
        let log = log();
        for length in 0..log.len() {
            assert!(kinds(&log[..length]).len() < 2, "{length}");
        }
        for place in 16..log.len() {
            let mut damaged = log.clone();
            damaged[place] ^= 1;
            assert!(kinds(&damaged).len() < 2 || kinds(&damaged) == kinds(&log));
        }
    }
}
