//! What stands at the end of a log and holds for all of it, read before the rest.

use std::io::{self, Read, Seek, SeekFrom};

use super::format::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use super::payload::Unpacker;
use super::reader::Item;

/// The frames of these kinds, in their order: [`FrameKind::LAST_FACTS`], [`FrameKind::END`]. Only headers are read of all others. What
/// stands behind damaged bytes is not found, and what cannot be wound back (a pipe) has none: it comes in its turn.
///
/// # Errors
///
/// Those of the input; afterwards it stands at its start.
pub fn look(input: &mut (impl Read + Seek)) -> io::Result<Vec<Item>> {
    let Ok(start) = input.stream_position() else { return Ok(Vec::new()) };
    let found = frames(input);
    input.seek(SeekFrom::Start(start))?;
    found
}

fn frames(input: &mut (impl Read + Seek)) -> io::Result<Vec<Item>> {
    let mut found = Vec::new();
    let is_last = |it: &FrameHeader| matches!(it.kind, FrameKind::LAST_FACTS | FrameKind::END);
    for_each(input, &is_last, &mut |header, it| found.push(Item::Frame(header, it)))?;
    Ok(found)
}

/// Takes the frames that are wanted, in their order, from the start of a log on: of the others only headers are read. What stands behind
/// damaged bytes is not found.
///
/// # Errors
///
/// Those of the input.
pub fn for_each(
    input: &mut (impl Read + Seek),
    is_wanted: &dyn Fn(&FrameHeader) -> bool,
    take: &mut dyn FnMut(FrameHeader, Vec<u8>),
) -> io::Result<()> {
    let mut unpacker = Unpacker::default();
    if !read_whole(input, &mut [0; FILE_HEADER_BYTES])? {
        return Ok(());
    }
    let mut bytes = [0; FRAME_HEADER_BYTES];
    while read_whole(input, &mut bytes)? {
        let Some(header) = FrameHeader::decode(&bytes) else { break };
        if !is_wanted(&header) {
            input.seek_relative(header.stored_bytes.into())?;
            continue;
        }
        let mut stored = vec![0; usize::try_from(header.stored_bytes).unwrap_or(0)];
        if !read_whole(input, &mut stored)? || crc32fast::hash(&stored) != header.payload_crc {
            break;
        }
        if let Some(bytes) = unpacker.unpack(&header, &stored) {
            take(header, bytes);
        }
    }
    Ok(())
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
        let mut input = Cursor::new(log);
        let found = look(&mut input).expect("memory");
        assert_eq!(input.position(), 0);
        let kind = |it: Item| match it {
            Item::Frame(header, payload) => {
                assert_eq!(payload.len(), header.payload_bytes as usize);
                header.kind
            }
            Item::Damaged { .. } => panic!("not told here"),
        };
        found.into_iter().map(kind).collect()
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
