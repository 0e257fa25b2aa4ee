//! Protocol between the tracer and the helper that finds function names.
//!
//! A question is about one file, as several processes have mapped it, or about the lists of
//! compiled functions of several processes. The answer is ordered by copies: the processes that
//! have a copy, then, after reading it, the names at each of their addresses. If the helper dies,
//! it is therefore known at which copy, and earlier answers are not lost. The author of the copy
//! may have forged the answer, too: data that was not requested is rejected.

use std::io::{self, Write};

use super::super::executable_mappings::{CodeFile, FileIdentity};
use crate::capture::format::Cursor;
use crate::units::Pid;

/// Largest length of a name, in bytes; longer names are cut off. The reader of the log keeps half
/// of this length, and counts longer names.
pub(super) const NAME_BYTES_MAX: usize = 8 << 10;

/// Question to the helper.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SymbolsQuestion {
    /// File to read; `None`: the lists of compiled functions.
    pub file: Option<CodeFile>,
    pub processes: Vec<ProcessRequest>,
}

/// Addresses of one process in a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessRequest {
    pub pid: Pid,
    /// User of the process, if known while it ran.
    pub owner: Option<u32>,
    /// Range of memory in which the process had mapped the file.
    pub mapped: (u64, u64),
    /// Offsets in the file, or addresses for a list; both are return addresses.
    pub places: Vec<u64>,
}

/// Name of a function, and the distance of an address from its start, in bytes.
pub(super) type FunctionOffset = (Vec<u8>, u64);

/// Result of reading a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// The copy was read.
    Read,
    /// The beginning was read; the rest is too long.
    Cut,
    /// The copy is not the mapped file: further copies of its processes follow.
    Other,
    /// There is no copy.
    Gone,
    /// The copy cannot be opened without privileges, and was too large to be copied.
    Closed,
    /// The copy is not a readable ELF file.
    Unreadable,
}

/// Result for a copy that some processes share.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub state: CopyState,
    /// Index of each process in the question, and the names at its addresses.
    pub found: Vec<(usize, Vec<Option<FunctionOffset>>)>,
}

/// Results until the helper's end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SymbolsAnswer {
    pub groups: Vec<Group>,
    /// Processes whose copy the helper was reading when it ended, by their indices in the question.
    pub at_hand: Vec<usize>,
}

const STATES: [CopyState; 6] = [
    CopyState::Read,
    CopyState::Cut,
    CopyState::Other,
    CopyState::Gone,
    CopyState::Closed,
    CopyState::Unreadable,
];

/// Tags of a question about a file, and of one about lists.
const FILE: u8 = 0;
const LISTS: u8 = 1;

/// Tags of a file with a build id, and of one with an inode.
const BUILD_ID: u8 = 0;
const INODE: u8 = 1;

impl SymbolsQuestion {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.file {
            None => out.push(LISTS),
            Some(file) => {
                out.push(FILE);
                push_file(&mut out, file);
            }
        }
        for ProcessRequest { pid, owner, mapped, places } in &self.processes {
            out.extend(pid.0.to_le_bytes());
            out.push(u8::from(owner.is_some()));
            out.extend(owner.unwrap_or(0).to_le_bytes());
            out.extend(mapped.0.to_le_bytes().into_iter().chain(mapped.1.to_le_bytes()));
            out.extend(length(places.len()));
            out.extend(places.iter().flat_map(|it| it.to_le_bytes()));
        }
        out
    }

    /// Decodes a question; `None`: the bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let file = match from.u8()? {
            LISTS => None,
            FILE => Some(file(&mut from)?),
            _ => return None,
        };
        let mut processes = Vec::new();
        while !from.0.is_empty() {
            let pid = Pid(from.i32()?);
            let has_owner = from.u8()? != 0;
            let owner = Some(from.u32()?).filter(|_| has_owner);
            let mapped = (from.u64()?, from.u64()?);
            let places = (0..from.u32()?).map(|_| from.u64()).collect::<Option<_>>()?;
            processes.push(ProcessRequest { pid, owner, mapped, places });
        }
        Some(Self { file, processes })
    }
}

/// Announces that the copy of these processes is read next.
pub(super) fn begin(out: &mut impl Write, processes: &[usize]) -> io::Result<()> {
    out.write_all(&length(processes.len()))?;
    processes.iter().try_for_each(|it| out.write_all(&length(*it)))?;
    // Flushed first, because reading may kill the helper.
    out.flush()
}

/// Writes the result of the copy and, if it was read, the names at the addresses of its processes,
/// in the order of the question.
pub(super) fn end(
    out: &mut impl Write,
    state: CopyState,
    named: impl IntoIterator<Item = Option<FunctionOffset>>,
) -> io::Result<()> {
    let place = STATES.iter().position(|it| *it == state).unwrap_or_default();
    out.write_all(&[u8::try_from(place).unwrap_or_default()])?;
    for named in named {
        // An empty name is written as no name.
        let Some((name, offset)) = named.filter(|it| !it.0.is_empty()) else {
            out.write_all(&length(0))?;
            continue;
        };
        let name = name.get(..NAME_BYTES_MAX).unwrap_or(&name);
        out.write_all(&length(name.len()))?;
        out.write_all(name)?;
        out.write_all(&offset.to_le_bytes())?;
    }
    Ok(())
}

impl SymbolsAnswer {
    /// Decodes the valid part of an answer.
    pub(super) fn decode(bytes: &[u8], requests: &[ProcessRequest]) -> Self {
        let mut answer = Self::default();
        let mut from = Cursor(bytes);
        let mut waiting: Vec<u8> = vec![COPIES_MAX; requests.len()];
        while let Some(announced) = next_processes(&mut from, &mut waiting) {
            let processes: Vec<usize> = announced.iter().map(|it| it.0).collect();
            let Some(group) = group(&mut from, &processes, requests) else {
                answer.at_hand = processes;
                break;
            };
            if group.state == CopyState::Other {
                for (place, left) in announced {
                    waiting.get_mut(place).into_iter().for_each(|it| *it = left - 1);
                }
            } else {
                answer.groups.push(group);
            }
        }
        answer
    }
}

/// Largest number of results for a process: one for each of its copies, and one if there is none.
const COPIES_MAX: u8 = 4;

/// Returns the processes that the next result concerns, each with the number of results that may
/// still follow.
fn next_processes(from: &mut Cursor<'_>, waiting: &mut [u8]) -> Option<Vec<(usize, u8)>> {
    let mut processes = Vec::new();
    for _ in 0..from.u32()? {
        let place = usize::try_from(from.u32()?).ok()?;
        let left = Some(std::mem::take(waiting.get_mut(place)?)).filter(|it| *it > 0)?;
        processes.push((place, left));
    }
    (!processes.is_empty()).then_some(processes)
}

fn group(from: &mut Cursor<'_>, processes: &[usize], requests: &[ProcessRequest]) -> Option<Group> {
    let state = *STATES.get(usize::from(from.u8()?))?;
    let is_read = matches!(state, CopyState::Read | CopyState::Cut);
    let mut found = Vec::new();
    // No names follow for a copy that is not the mapped file.
    for place in processes.iter().filter(|_| state != CopyState::Other) {
        let places = &requests.get(*place)?.places;
        let named = if is_read {
            places.iter().map(|_| named(from)).collect::<Option<_>>()?
        } else {
            vec![None; places.len()]
        };
        found.push((*place, named));
    }
    Some(Group { state, found })
}

fn named(from: &mut Cursor<'_>) -> Option<Option<FunctionOffset>> {
    let name = from.bytes().filter(|it| it.len() <= NAME_BYTES_MAX)?;
    if name.is_empty() {
        return Some(None);
    }
    Some(Some((name.to_vec(), from.u64()?)))
}

/// Appends a file in the form of a question.
pub(in super::super) fn push_file(out: &mut Vec<u8>, CodeFile { path, identity }: &CodeFile) {
    push_bytes(out, path);
    match identity {
        FileIdentity::BuildId(id) => {
            out.push(BUILD_ID);
            push_bytes(out, id);
        }
        FileIdentity::Inode(major, minor, ino) => {
            out.push(INODE);
            out.extend(major.to_le_bytes().into_iter().chain(minor.to_le_bytes()));
            out.extend(ino.to_le_bytes());
        }
    }
}

/// Reads a file in the form of a question; `None`: the bytes are not one.
pub(in super::super) fn file(from: &mut Cursor<'_>) -> Option<CodeFile> {
    let path = from.bytes()?.to_vec();
    let identity = match from.u8()? {
        BUILD_ID => FileIdentity::BuildId(from.bytes()?.to_vec()),
        INODE => FileIdentity::Inode(from.u32()?, from.u32()?, from.u64()?),
        _ => return None,
    };
    Some(CodeFile { path, identity })
}

/// Appends bytes, preceded by their length.
pub(in super::super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(length(bytes.len()));
    out.extend_from_slice(bytes);
}

/// Encodes a length. Lengths are limited far below `u32::MAX`.
pub(in super::super) fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(places: &[u64]) -> ProcessRequest {
        ProcessRequest { pid: Pid(7), owner: Some(1000), mapped: (1, 2), places: places.to_vec() }
    }

    #[test]
    fn a_question_is_understood() {
        let paths = [FileIdentity::BuildId(b"id".to_vec()), FileIdentity::Inode(8, 1, 1 << 40)];
        let files = paths.map(|identity| Some(CodeFile { path: b"/a\xff".to_vec(), identity }));
        for file in files.into_iter().chain([None]) {
            let processes =
                vec![request(&[3, u64::MAX]), ProcessRequest { owner: None, ..request(&[]) }];
            let question = SymbolsQuestion { file, processes };
            let bytes = question.encode();
            assert_eq!(SymbolsQuestion::decode(&bytes[..bytes.len() - 1]), None);
            assert_eq!(SymbolsQuestion::decode(&bytes), Some(question));
        }
    }

    fn name(text: &str) -> Option<FunctionOffset> {
        Some((text.as_bytes().to_vec(), 5))
    }

    /// Returns an answer: the first copy belongs to processes 0 and 2, the second is not the mapped
    /// file, the third belongs to the same process, and the last process has none.
    fn answer() -> Vec<u8> {
        let mut out = Vec::new();
        // An empty name counts as none.
        let named = [name("a"), name(""), name(&"b".repeat(NAME_BYTES_MAX + 1))];
        begin(&mut out, &[0, 2]).expect("memory");
        end(&mut out, CopyState::Read, named).expect("memory");
        begin(&mut out, &[1]).expect("memory");
        end(&mut out, CopyState::Other, []).expect("memory");
        begin(&mut out, &[1]).expect("memory");
        end(&mut out, CopyState::Cut, [name("c")]).expect("memory");
        begin(&mut out, &[3]).expect("memory");
        end(&mut out, CopyState::Gone, []).expect("memory");
        out
    }

    fn four() -> [ProcessRequest; 4] {
        [request(&[1, 2]), request(&[1]), request(&[3]), request(&[4])]
    }

    #[test]
    fn an_answer_is_understood() {
        let answer = SymbolsAnswer::decode(&answer(), &four());
        let long = name(&"b".repeat(NAME_BYTES_MAX));
        let groups = [
            (CopyState::Read, vec![(0, vec![name("a"), None]), (2, vec![long])]),
            (CopyState::Cut, vec![(1, vec![name("c")])]),
            (CopyState::Gone, vec![(3, vec![None])]),
        ];
        let groups = groups.map(|(state, found)| Group { state, found }).into();
        assert_eq!(answer, SymbolsAnswer { groups, at_hand: Vec::new() });
    }

    /// Fails if earlier results are lost, or if the processes of the copy are unknown.
    #[test]
    fn truncated_answer_gives_its_whole_groups() {
        let whole = answer();
        let ends = |end: usize| {
            let answer = SymbolsAnswer::decode(&whole[..end], &four());
            (answer.groups.len(), answer.at_hand)
        };
        let first = 4 + 8 + 1 + (4 + 1 + 8) + 4 + (4 + NAME_BYTES_MAX + 8);
        assert_eq!(ends(4), (0, vec![]));
        assert_eq!(ends(12), (0, vec![0, 2]));
        assert_eq!(ends(first - 1), (0, vec![0, 2]));
        assert_eq!(ends(first), (1, vec![]));
        assert_eq!(ends(first + 8), (1, vec![1]));
        assert_eq!(ends(whole.len()), (3, vec![]));
    }

    #[test]
    fn unrequested_answers_are_ignored() {
        let groups = |announced: &[&[usize]], state| {
            let mut out = Vec::new();
            for processes in announced {
                begin(&mut out, processes).expect("memory");
                end(&mut out, state, []).expect("memory");
            }
            SymbolsAnswer::decode(&out, &four()).groups.len()
        };
        assert_eq!(groups(&[&[0], &[1]], CopyState::Gone), 2);
        assert_eq!(groups(&[&[0], &[0]], CopyState::Gone), 1);
        assert_eq!(groups(&[&[0][..]; 9], CopyState::Other), 0);
        assert_eq!(groups(&[&[1, 1]], CopyState::Gone), 0);
        assert_eq!(groups(&[&[4]], CopyState::Gone), 0);
        assert_eq!(groups(&[&[]], CopyState::Gone), 0);
        let mut long = Vec::new();
        begin(&mut long, &[1]).expect("memory");
        long.push(0);
        long.extend(length(NAME_BYTES_MAX + 1));
        long.resize(1 << 20, b'x');
        let answer = SymbolsAnswer::decode(&long, &four());
        assert_eq!((answer.groups, answer.at_hand), (vec![], vec![1]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(0_u8..6, 0..200)) {
            let answer = SymbolsAnswer::decode(&bytes, &four());
            let found = answer.groups.iter().flat_map(|it| &it.found);
            let mut all: Vec<usize> = found.map(|it| it.0).chain(answer.at_hand.clone()).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            prop_assert!(all.len() == count && all.iter().all(|it| *it < 4));
            for (process, named) in answer.groups.iter().flat_map(|it| &it.found) {
                prop_assert_eq!(named.len(), four()[*process].places.len());
            }
        }
    }
}
