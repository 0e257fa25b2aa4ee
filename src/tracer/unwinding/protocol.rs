//! Protocol between the tracer and the helper that unwinds stacks.
//!
//! A question is about one process: its mappings, and between them the copies of its stacks, in the
//! order of their times. The answer has an unwound stack for each copy, in the same order, and then
//! the files whose unwind information was needed and not available. The author of the files may
//! have forged the answer, too: data that was not requested is rejected.

use super::cfi::FollowedRegisters;
use super::unwinder::{CodeRange, SampledStack};
use crate::capture::fact::{StackEnd, UnwoundStack};
use crate::capture::format::Cursor;
use crate::tracer::executable_mappings::CodeFile;
use crate::tracer::symbols::protocol::{file, length, push_bytes, push_file};
use crate::units::Pid;

/// Question to the helper.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StacksQuestion {
    pub pid: Pid,
    pub files: Vec<FileRequest>,
    pub events: Vec<MemoryEvent>,
}

/// A file, and the range of memory in which the process had mapped it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileRequest {
    pub file: CodeFile,
    pub mapped: (u64, u64),
}

/// Answer of the helper.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StacksAnswer {
    pub ways: Vec<UnwoundStack>,
    /// Numbers of files that were not available; empty if the answer is incomplete.
    pub missed: Vec<usize>,
}

/// Event in the life of a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemoryEvent {
    /// Code was mapped at this address.
    Map(u64, CodeRange),
    /// All mappings are gone.
    Clear,
    /// The process was sampled.
    Stack(Box<SampledStack>),
}

mod kind {
    pub(super) const MAP: u8 = 0;
    pub(super) const CLEAR: u8 = 1;
    pub(super) const STACK: u8 = 2;
}

/// Number that stands for no file.
const NO_FILE: u32 = u32::MAX;

impl StacksQuestion {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.pid.0.to_le_bytes().to_vec();
        out.extend(length(self.files.len()));
        for FileRequest { file, mapped: (start, end) } in &self.files {
            push_file(&mut out, file);
            out.extend(start.to_le_bytes().into_iter().chain(end.to_le_bytes()));
        }
        self.events.iter().for_each(|it| it.encode(&mut out));
        out
    }

    /// Decodes a question; `None`: the bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let pid = Pid(from.i32()?);
        let files =
            (0..from.u32()?).map(|_| read_file_request(&mut from)).collect::<Option<_>>()?;
        let mut events = Vec::new();
        while !from.0.is_empty() {
            events.push(MemoryEvent::decode(&mut from)?);
        }
        Some(Self { pid, files, events })
    }
}

fn read_file_request(from: &mut Cursor<'_>) -> Option<FileRequest> {
    Some(FileRequest { file: file(from)?, mapped: (from.u64()?, from.u64()?) })
}

impl MemoryEvent {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Map(start, CodeRange { end, offset, file }) => {
                out.push(kind::MAP);
                out.extend([start, end, offset].into_iter().flat_map(|it| it.to_le_bytes()));
                let file = file.and_then(|it| u32::try_from(it).ok()).unwrap_or(NO_FILE);
                out.extend(file.to_le_bytes());
            }
            Self::Clear => out.push(kind::CLEAR),
            Self::Stack(sampled) => {
                let SampledStack { registers, stack, is_full } = sampled.as_ref();
                out.push(kind::STACK);
                let known = (0_u32..).zip(registers).filter(|it| it.1.is_some());
                out.extend(known.fold(0_u32, |all, it| all | 1 << it.0).to_le_bytes());
                out.extend(registers.iter().flatten().flat_map(|it| it.to_le_bytes()));
                out.push(u8::from(*is_full));
                push_bytes(out, stack);
            }
        }
    }

    fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        Some(match from.u8()? {
            kind::MAP => {
                let (start, end, offset) = (from.u64()?, from.u64()?, from.u64()?);
                let file = Some(from.u32()?).filter(|it| *it != NO_FILE);
                let file = file.and_then(|it| usize::try_from(it).ok());
                Self::Map(start, CodeRange { end, offset, file })
            }
            kind::CLEAR => Self::Clear,
            kind::STACK => {
                let known = from.u32()?;
                let mut registers = FollowedRegisters::default();
                for (number, register) in (0_u32..).zip(&mut registers) {
                    if known & 1 << number != 0 {
                        *register = Some(from.u64()?);
                    }
                }
                let is_full = from.u8()? != 0;
                let stack = from.bytes()?.to_vec();
                Self::Stack(Box::new(SampledStack { registers, stack, is_full }))
            }
            _ => return None,
        })
    }
}

/// Encodes an unwound stack of an answer.
pub(super) fn encode_way(way: &UnwoundStack) -> Vec<u8> {
    let mut out = vec![way.ending.number(), u8::from(way.is_guessed)];
    out.extend(length(way.addresses.len()));
    out.extend(way.addresses.iter().flat_map(|it| it.to_le_bytes()));
    out
}

/// Encodes the numbers of unavailable files, which follow all unwound stacks.
pub(super) fn encode_missed(missed: impl Iterator<Item = usize>) -> Vec<u8> {
    missed.flat_map(length).collect()
}

impl StacksAnswer {
    /// Decodes the valid part of an answer, at most this number of unwound stacks.
    pub(super) fn decode(bytes: &[u8], count: usize) -> Self {
        let mut from = Cursor(bytes);
        let ways: Vec<UnwoundStack> = std::iter::from_fn(|| way(&mut from)).take(count).collect();
        let mut missed = Vec::new();
        if ways.len() == count {
            let numbers = std::iter::from_fn(|| from.u32());
            missed.extend(numbers.filter_map(|it| usize::try_from(it).ok()));
        }
        Self { ways, missed }
    }
}

fn way(from: &mut Cursor<'_>) -> Option<UnwoundStack> {
    let ending = StackEnd::of(from.u8()?)?;
    let is_guessed = from.u8()? != 0;
    let count = usize::try_from(from.u32()?).ok()?;
    let (addresses, rest) = from.0.split_at_checked(count.checked_mul(8)?)?;
    from.0 = rest;
    let (addresses, _) = addresses.as_chunks::<8>();
    let addresses = addresses.iter().map(|it| u64::from_le_bytes(*it)).collect();
    Some(UnwoundStack { addresses, ending, is_guessed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracer::executable_mappings::FileIdentity;
    use proptest::prelude::*;

    fn question() -> StacksQuestion {
        let identities =
            [FileIdentity::BuildId(b"id".to_vec()), FileIdentity::Inode(8, 1, 1 << 40)];
        let files = identities.map(|identity| FileRequest {
            file: CodeFile { path: b"/a\xff".to_vec(), identity },
            mapped: (3, u64::MAX),
        });
        let mut registers = FollowedRegisters::default();
        (registers[6], registers[16]) = (Some(5), Some(0));
        let sampled = SampledStack { registers, stack: b"stack".to_vec(), is_full: true };
        let mapped = |file| CodeRange { end: 9, offset: 3, file };
        let maps = [MemoryEvent::Map(1, mapped(Some(1))), MemoryEvent::Map(2, mapped(None))];
        let events =
            maps.into_iter().chain([MemoryEvent::Clear, MemoryEvent::Stack(Box::new(sampled))]);
        StacksQuestion { pid: Pid(7), files: files.into(), events: events.collect() }
    }

    #[test]
    fn a_question_is_understood() {
        let bytes = question().encode();
        assert_eq!(StacksQuestion::decode(&bytes), Some(question()));
        assert_eq!(StacksQuestion::decode(&bytes[..bytes.len() - 1]), None);
    }

    fn ways() -> [UnwoundStack; 2] {
        let way =
            |ending, is_guessed| UnwoundStack { addresses: [3, 4].into(), ending, is_guessed };
        [way(StackEnd::Short, true), way(StackEnd::Outermost, false)]
    }

    #[test]
    fn truncated_answer_gives_its_whole_stacks() {
        let whole: Vec<u8> = ways().iter().flat_map(encode_way).collect();
        let all = [whole.clone(), encode_missed([1, 5].into_iter())].concat();
        let ways_of = |bytes: &[u8], count| StacksAnswer::decode(bytes, count).ways;
        let answer = StacksAnswer { ways: ways().into(), missed: vec![1, 5] };
        assert_eq!(StacksAnswer::decode(&all, 2), answer);
        assert_eq!(StacksAnswer::decode(&whole, 3).missed, Vec::<usize>::new());
        assert_eq!(ways_of(&whole, 1), ways()[..1]);
        assert_eq!(ways_of(&whole[..whole.len() - 1], 2), ways()[..1]);
        assert_eq!(ways_of(&[0, 0, 0xff, 0xff, 0xff, 0xff], 2), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(0_u8..6, 0..200)) {
            prop_assert!(StacksAnswer::decode(&bytes, 3).ways.len() <= 3);
            // Decoding them as a question must not panic, either.
            let _ = StacksQuestion::decode(&bytes);
        }
    }
}
