//! What the helper is asked of files with code, and what it answers.
//!
//! The answer goes file by file, so if the helper does not come to its end, it is known at which file it was, and what was said of
//! those before is not lost. The maker of a file may have made the answer, too: nothing is taken from it but places inside
//! of that file, registers that there are, and calls that were asked for.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::capture::format::Cursor;
use crate::event::syscall_table::CallId;
use crate::probe_sites::{REGISTERS, Site, Sites};

/// Places of one file that take a probe. The C library of Debian 13 has 28. The kernel looks for each of them in the
/// memory of every process that maps the file.
pub(super) const SITES_MAX: usize = 512;

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The process that has found the files.
    pub pid: u32,
    /// Calls whose paths are wanted.
    pub calls: Vec<CallId>,
    pub files: Vec<Asked>,
}

/// A file that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Its descriptor in the process that has found it.
    pub fd: i32,
    /// It matters only if nothing links it when it starts.
    pub only_static: bool,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It was looked through.
    Read(Sites),
    /// It has more places than are probed.
    TooMany,
    /// It is larger than what is looked through.
    TooLarge,
    /// It is a program that others link.
    Linked,
    /// It has no code that is understood here.
    NoCode,
    /// It cannot be opened or mapped.
    Closed,
}

/// What was said until the helper's end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// By the files' places in the question.
    pub said: Vec<(usize, Said)>,
    /// The file that it was at when it ended.
    pub at_hand: Option<usize>,
}

const READ: u8 = 0;
const OTHERS: [Said; 5] = [Said::TooMany, Said::TooLarge, Said::Linked, Said::NoCode, Said::Closed];

/// No register holds the number.
const NO_REGISTER: u8 = u8::MAX;

impl Question {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.pid.to_le_bytes().to_vec();
        push_calls(&mut out, &self.calls);
        for Asked { fd, only_static } in &self.files {
            out.extend(fd.to_le_bytes());
            out.push(u8::from(*only_static));
        }
        out
    }

    /// `None`: this is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let pid = from.u32()?;
        let calls = calls(&mut from)?;
        let mut files = Vec::new();
        while !from.0.is_empty() {
            files.push(Asked { fd: from.i32()?, only_static: from.u8()? != 0 });
        }
        Some(Self { pid, calls, files })
    }
}

/// Says that this file is at hand.
pub(super) fn begin(out: &mut impl Write, file: usize) -> io::Result<()> {
    out.write_all(&number(file))?;
    // Before it may be our end.
    out.flush()
}

/// Says what became of it.
pub(super) fn end(out: &mut impl Write, said: &Said) -> io::Result<()> {
    let Said::Read(sites) = said else {
        let place = OTHERS.iter().position(|it| it == said).unwrap_or_default();
        return out.write_all(&[u8::try_from(place + 1).unwrap_or_default()]);
    };
    let mut bytes = vec![READ];
    bytes.extend(number(sites.sites.len()));
    for site in &sites.sites {
        bytes.extend(site.offset.to_le_bytes());
        bytes.push(site.number.map_or(NO_REGISTER, register));
        bytes.push(u8::from(site.emulated));
        bytes.extend(number(site.registers.len()));
        bytes.extend(site.registers.iter().map(|it| register(it)));
        push_calls(&mut bytes, &Vec::from_iter(site.calls.iter().copied()));
    }
    push_calls(&mut bytes, &sites.hidden);
    bytes.extend(number(sites.unknown));
    out.write_all(&bytes)
}

impl Answer {
    /// As far as it makes sense. `bytes`: how long each of the files is.
    pub(super) fn decode(answer: &[u8], question: &Question, bytes: &[u64]) -> Self {
        let mut decoded = Self::default();
        let mut from = Cursor(answer);
        let mut is_said = vec![false; question.files.len()];
        while let Some(file) = from.u32().and_then(|it| usize::try_from(it).ok()) {
            // Of each file once, and of none that was not asked about.
            let Some(said) = is_said.get_mut(file).filter(|it| !**it) else { break };
            *said = true;
            let length = bytes.get(file).copied().unwrap_or(0);
            let Some(said) = said_of(&mut from, &question.calls, length) else {
                decoded.at_hand = Some(file);
                break;
            };
            decoded.said.push((file, said));
        }
        decoded
    }
}

fn said_of(from: &mut Cursor<'_>, wanted: &[CallId], bytes: u64) -> Option<Said> {
    let state = from.u8()?;
    if state != READ {
        return OTHERS.get(usize::from(state) - 1).cloned();
    }
    let count = from.u32()?;
    let mut sites = Sites::default();
    for _ in 0..count {
        let site = site(from, wanted).filter(|it| it.offset < bytes)?;
        sites.sites.push(site);
        if sites.sites.len() > SITES_MAX {
            return Some(Said::TooMany);
        }
    }
    sites.hidden = calls(from)?;
    sites.unknown = usize::try_from(from.u32()?).ok()?;
    let is_wanted = sites.hidden.iter().all(|it| wanted.contains(it));
    is_wanted.then_some(Said::Read(sites))
}

fn site(from: &mut Cursor<'_>, wanted: &[CallId]) -> Option<Site> {
    let offset = from.u64()?;
    let number = match from.u8()? {
        NO_REGISTER => None,
        other => Some(*REGISTERS.get(usize::from(other))?),
    };
    let emulated = from.u8()? != 0;
    let count = usize::try_from(from.u32()?).ok().filter(|it| *it <= REGISTERS.len())?;
    let one = |_| REGISTERS.get(usize::from(from.u8()?)).copied();
    let registers = (0..count).map(one).collect::<Option<_>>()?;
    let calls: BTreeSet<CallId> = calls(from)?.into_iter().collect();
    let is_wanted = calls.iter().all(|it| wanted.contains(it));
    is_wanted.then_some(Site { offset, registers, calls, emulated, number })
}

fn register(name: &str) -> u8 {
    let place = REGISTERS.iter().position(|it| *it == name);
    place.and_then(|it| u8::try_from(it).ok()).unwrap_or(NO_REGISTER)
}

fn push_calls(out: &mut Vec<u8>, calls: &[CallId]) {
    out.extend(number(calls.len()));
    out.extend(calls.iter().flat_map(|it| it.0.to_le_bytes()));
}

/// Calls that there are.
fn calls(from: &mut Cursor<'_>) -> Option<Vec<CallId>> {
    let all = CallId::all().count();
    let count = from.u32()?;
    (0..count).map(|_| from.u16().map(CallId).filter(|it| usize::from(it.0) < all)).collect()
}

/// What is said at once has its limits, far below this one.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question() -> Question {
        let calls: Vec<CallId> = CallId::all().filter(|it| it.call().has_path()).take(3).collect();
        let files = [7, 8, 9].map(|fd| Asked { fd, only_static: fd == 8 });
        Question { pid: 42, calls, files: files.into() }
    }

    fn sites(count: usize) -> Sites {
        let Question { calls, .. } = question();
        let site = |offset| Site {
            offset,
            registers: vec!["si", "di"],
            calls: calls.iter().take(2).copied().collect(),
            emulated: offset % 2 == 0,
            number: (offset == 1).then_some("ax"),
        };
        let sites = (0..count as u64).map(site).collect();
        Sites { sites, hidden: vec![calls[2], calls[2]], unknown: 5 }
    }

    fn answer(said: &[(usize, Said)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (file, said) in said {
            begin(&mut out, *file).expect("memory");
            end(&mut out, said).expect("memory");
        }
        out
    }

    const BYTES: [u64; 3] = [1 << 20; 3];

    #[test]
    fn question_and_answer_are_understood() {
        let question = question();
        let bytes = question.encode();
        assert_eq!(Question::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Question::decode(&bytes), Some(question));
        let said = [(1, Said::Read(sites(3))), (0, Said::Linked), (2, Said::TooLarge)];
        let whole = answer(&said);
        let decoded = Answer::decode(&whole, &self::question(), &BYTES);
        assert_eq!(decoded, Answer { said: said.into(), at_hand: None });
        // Cut off in the last one, in the first one.
        let decoded = Answer::decode(&whole[..whole.len() - 1], &self::question(), &BYTES);
        assert_eq!((decoded.said.len(), decoded.at_hand), (2, Some(2)));
        let decoded = Answer::decode(&whole[..9], &self::question(), &BYTES);
        assert_eq!((decoded.said.len(), decoded.at_hand), (0, Some(1)));
    }

    /// Fails if a probe could stand outside of its file, if there could be more than their limit, or if a call is believed that was
    /// not asked for.
    #[test]
    fn only_what_was_asked_for_is_taken() {
        let said = |of: Said, bytes| {
            let decoded = Answer::decode(&answer(&[(0, of)]), &question(), &[bytes]);
            decoded.said.into_iter().map(|it| it.1).next()
        };
        assert_eq!(said(Said::Read(sites(7)), 7), Some(Said::Read(sites(7))));
        assert_eq!(said(Said::Read(sites(7)), 6), None);
        let bytes = 1 << 20;
        assert!(matches!(said(Said::Read(sites(SITES_MAX)), bytes), Some(Said::Read(_))));
        assert_eq!(said(Said::Read(sites(SITES_MAX + 1)), bytes), Some(Said::TooMany));
        let other =
            CallId::all().find(|it| !question().calls.contains(it)).expect("there are more");
        let hidden = Sites { hidden: vec![other], ..Sites::default() };
        assert_eq!(said(Said::Read(hidden), bytes), None);
        let twice = answer(&[(0, Said::Linked), (0, Said::Linked), (1, Said::Linked)]);
        assert_eq!(Answer::decode(&twice, &question(), &BYTES).said.len(), 1);
        let unknown = answer(&[(3, Said::Linked)]);
        assert_eq!(Answer::decode(&unknown, &question(), &BYTES), Answer::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(0_u8..6, 0..200)) {
            let decoded = Answer::decode(&bytes, &question(), &BYTES);
            prop_assert!(decoded.said.len() <= 3);
            prop_assert!(decoded.said.iter().all(|it| it.0 < 3));
        }
    }
}
