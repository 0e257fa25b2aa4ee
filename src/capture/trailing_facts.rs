//! Frames at the end of a log that apply to all of it, read before the others.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::vec;

use super::format::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use super::header::End;
use super::payload::Unpacker;
use super::reader::{Item, Reader};
use crate::units::KernelTime;

/// Returns the frames of these kinds, in their order: [`FrameKind::LAST_FACTS`],
/// [`FrameKind::END`]. All other frames are skipped after their headers; each returned frame is
/// read when it is requested. Frames after damaged bytes are not found. An input that cannot be
/// wound back (a pipe) has none: its frames come in their turn.
///
/// # Errors
///
/// Errors of the input.
pub fn look<R: Read + Seek>(mut input: R) -> io::Result<TrailingFacts<R>> {
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
    Ok(TrailingFacts { input, frames: frames.into_iter(), unpacker: Unpacker::default() })
}

/// Returns the last end record of a log; `None`: the log has none, or one that cannot be read.
///
/// # Errors
///
/// Errors of the input.
pub fn end<R: Read + Seek>(input: R) -> io::Result<Option<End>> {
    let mut last = None;
    for item in look(input)? {
        if let Item::Frame(header, payload) = item?
            && header.kind == FrameKind::END
        {
            last = serde_json::from_slice(&payload).ok().or(last);
        }
    }
    Ok(last)
}

/// Returns the last time in the headers of a log's frames. Damaged bytes hide the frames behind
/// them from a look at headers: the log is read then.
///
/// # Errors
///
/// Errors of the input.
pub fn last_time<R: Read + Seek>(mut input: R) -> io::Result<Option<KernelTime>> {
    let mut last = None;
    let is_whole = walk(&mut input, &mut |_, header| {
        last = last.max(Some(header.last_time));
        Ok(ControlFlow::Continue(()))
    })?;
    if !is_whole {
        input.rewind()?;
        let Ok(mut reader) = Reader::new(input) else { return Ok(None) };
        while let Some(item) = reader.next_item()? {
            if let Item::Frame(header, _) = item {
                last = last.max(Some(header.last_time));
            }
        }
    }
    Ok(last.map(KernelTime))
}

/// Frames that are read one by one.
#[derive(Debug)]
pub struct TrailingFacts<R> {
    input: R,
    /// Headers of the frames, with the offsets of their payloads.
    frames: vec::IntoIter<(u64, FrameHeader)>,
    unpacker: Unpacker,
}

impl<R: Read + Seek> Iterator for TrailingFacts<R> {
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
                // A damaged payload comes in its turn, where it counts as damaged.
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Takes the selected frames, in their order, from the start of a log on, until `take` breaks; all
/// others are skipped after their headers. Returns false if damaged bytes were reached, after which
/// nothing is found.
///
/// # Errors
///
/// Errors of the input.
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

/// Calls `show` with each header and the input after it, whose position `show` must keep. Returns
/// false if the next bytes are not a header.
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

/// Reads the payload of the frame whose header ends here; `None` if it is damaged or incomplete.
fn payload(
    input: &mut impl Read,
    header: &FrameHeader,
    unpacker: &mut Unpacker,
) -> io::Result<Option<Vec<u8>>> {
    let mut stored = vec![0; usize::try_from(header.stored_bytes).unwrap_or(0)];
    let is_good = read_whole(input, &mut stored)? && crc32fast::hash(&stored) == header.payload_crc;
    Ok(if is_good { unpacker.unpack(header, &stored) } else { None })
}

/// Fills `bytes` from the input; returns false if the input ends first.
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
    use crate::units::Pid;
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

    #[test]
    fn last_end_record_is_returned() {
        let mut writer = Writer::new(Vec::new()).expect("memory");
        let none = end(Cursor::new(writer.get_ref())).expect("memory");
        assert!(none.is_none());
        for end_ns in [3, 5] {
            let end = End { end_ns, ..End::default() };
            writer.json(FrameKind::END, KernelTime(4), &end).expect("memory");
            writer.json(FrameKind::END, KernelTime(4), &"damaged").expect("memory");
        }
        let found = end(Cursor::new(writer.get_ref())).expect("memory");
        assert_eq!(found.map(|end| end.end_ns), Some(5));
    }

    /// Fails if the last frame of a log that was cut, or damaged before it, is not found.
    #[test]
    fn last_time_is_found_without_an_end() {
        let mut writer = Writer::new(Vec::new()).expect("memory");
        let mut lengths = Vec::new();
        for time in [3, 900, 7, 950] {
            writer.round(KernelTime(time)).expect("memory");
            lengths.push(writer.get_ref().len());
        }
        let log = writer.get_ref().clone();
        let found = |log: &[u8]| last_time(Cursor::new(log)).expect("memory");
        assert_eq!(found(&log), Some(KernelTime(950)));
        assert_eq!(found(&log[..lengths[2]]), Some(KernelTime(900)));
        let mut damaged = log.clone();
        damaged[lengths[0]] ^= 1;
        assert_eq!(found(&damaged), Some(KernelTime(950)));
        assert_eq!((found(&[]), found(&log[..16])), (None, None));
    }

    fn kinds(log: &[u8]) -> Vec<FrameKind> {
        let found = look(Cursor::new(log)).expect("memory");
        let kind = |item: io::Result<Item>| match item.expect("memory") {
            Item::Frame(header, payload) => {
                assert_eq!(payload.len(), header.payload_bytes as usize);
                header.kind
            }
            Item::Damaged { .. } => panic!("not reported here"),
        };
        found.map(kind).collect()
    }

    #[test]
    fn global_facts_are_found_and_no_others() {
        assert_eq!(kinds(&log()), [FrameKind::LAST_FACTS, FrameKind::END]);
    }

    #[test]
    fn any_part_of_a_log_can_be_scanned() {
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
