//! Protocol between the tracer and the helper that searches code for probe sites.
//!
//! The answer is written file by file. If the helper dies, it is therefore known at which file, and
//! earlier results are not lost. The author of a file may have forged the answer, too. Only
//! addresses inside the file, existing registers, and requested calls are accepted.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::capture::format::Cursor;
use crate::event::syscall_table::CallId;
use crate::probe_sites::{REGISTERS, Site, Sites};

/// Largest number of sites in one file. The C library of Debian 13 has 28. The kernel searches for
/// each site in the memory of every process that maps the file.
pub(super) const SITES_MAX: usize = 512;

/// Question to the helper.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SitesQuestion {
    /// Process that has found the files.
    pub pid: u32,
    /// Calls whose paths are wanted.
    pub calls: Vec<CallId>,
    pub files: Vec<BinaryRequest>,
}

/// A file in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinaryRequest {
    /// Descriptor in the process that has found the file.
    pub fd: i32,
    /// True if the file matters only when it is statically linked.
    pub only_static: bool,
}

/// Result for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SiteReply {
    /// The file was searched.
    Read(Sites),
    /// The file has more sites than are probed.
    TooMany,
    /// The file is larger than the limit of the search.
    TooLarge,
    /// The file is a dynamically linked program.
    Linked,
    /// The file has no code that this program understands.
    NoCode,
    /// The file cannot be opened or mapped.
    Closed,
}

/// Results until the helper's end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SitesAnswer {
    /// Results by the files' indices in the question.
    pub replies: Vec<(usize, SiteReply)>,
    /// File that the helper was processing when it ended.
    pub at_hand: Option<usize>,
}

const READ: u8 = 0;
const OTHERS: [SiteReply; 5] = [
    SiteReply::TooMany,
    SiteReply::TooLarge,
    SiteReply::Linked,
    SiteReply::NoCode,
    SiteReply::Closed,
];

/// Code for no register with the call number.
const NO_REGISTER: u8 = u8::MAX;

impl SitesQuestion {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.pid.to_le_bytes().to_vec();
        push_calls(&mut out, &self.calls);
        for BinaryRequest { fd, only_static } in &self.files {
            out.extend(fd.to_le_bytes());
            out.push(u8::from(*only_static));
        }
        out
    }

    /// Decodes a question; `None`: the bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let pid = from.u32()?;
        let calls = calls(&mut from)?;
        let mut files = Vec::new();
        while !from.0.is_empty() {
            files.push(BinaryRequest { fd: from.i32()?, only_static: from.u8()? != 0 });
        }
        Some(Self { pid, calls, files })
    }
}

/// Announces that this file is processed next.
pub(super) fn begin(out: &mut impl Write, file: usize) -> io::Result<()> {
    out.write_all(&number(file))?;
    // Flushed first, because the file may kill the helper.
    out.flush()
}

/// Writes the result for a file.
pub(super) fn end(out: &mut impl Write, reply: &SiteReply) -> io::Result<()> {
    let SiteReply::Read(sites) = reply else {
        let place = OTHERS.iter().position(|it| it == reply).unwrap_or_default();
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

impl SitesAnswer {
    /// Decodes the valid part of an answer. `bytes` has the length of each file.
    pub(super) fn decode(answer: &[u8], question: &SitesQuestion, bytes: &[u64]) -> Self {
        let mut decoded = Self::default();
        let mut from = Cursor(answer);
        let mut is_answered = vec![false; question.files.len()];
        while let Some(file) = from.u32().and_then(|it| usize::try_from(it).ok()) {
            // Each file has one result; files that are not in the question have none.
            let Some(is_file_answered) = is_answered.get_mut(file).filter(|it| !**it) else {
                break;
            };
            *is_file_answered = true;
            let length = bytes.get(file).copied().unwrap_or(0);
            let Some(reply) = read_reply(&mut from, &question.calls, length) else {
                decoded.at_hand = Some(file);
                break;
            };
            decoded.replies.push((file, reply));
        }
        decoded
    }
}

/// Decodes the result for one file of this length, as [`end`] wrote it; `None`: the bytes are not
/// one.
pub(super) fn decode_reply(reply: &[u8], wanted: &[CallId], bytes: u64) -> Option<SiteReply> {
    read_reply(&mut Cursor(reply), wanted, bytes)
}

fn read_reply(from: &mut Cursor<'_>, wanted: &[CallId], bytes: u64) -> Option<SiteReply> {
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
            return Some(SiteReply::TooMany);
        }
    }
    sites.hidden = calls(from)?;
    sites.unknown = usize::try_from(from.u32()?).ok()?;
    let is_wanted = sites.hidden.iter().all(|it| wanted.contains(it));
    is_wanted.then_some(SiteReply::Read(sites))
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

/// Reads calls, all of which must exist.
fn calls(from: &mut Cursor<'_>) -> Option<Vec<CallId>> {
    let all = CallId::all().count();
    let count = from.u32()?;
    (0..count).map(|_| from.u16().map(CallId).filter(|it| usize::from(it.0) < all)).collect()
}

/// Encodes a number. Numbers are limited far below `u32::MAX`.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question() -> SitesQuestion {
        let calls: Vec<CallId> = CallId::all().filter(|it| it.call().has_path()).take(3).collect();
        let files = [7, 8, 9].map(|fd| BinaryRequest { fd, only_static: fd == 8 });
        SitesQuestion { pid: 42, calls, files: files.into() }
    }

    fn sites(count: usize) -> Sites {
        let SitesQuestion { calls, .. } = question();
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

    fn answer(replies: &[(usize, SiteReply)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (file, reply) in replies {
            begin(&mut out, *file).expect("memory");
            end(&mut out, reply).expect("memory");
        }
        out
    }

    const BYTES: [u64; 3] = [1 << 20; 3];

    #[test]
    fn question_and_answer_are_understood() {
        let question = question();
        let bytes = question.encode();
        assert_eq!(SitesQuestion::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(SitesQuestion::decode(&bytes), Some(question));
        let replies =
            [(1, SiteReply::Read(sites(3))), (0, SiteReply::Linked), (2, SiteReply::TooLarge)];
        let whole = answer(&replies);
        let decoded = SitesAnswer::decode(&whole, &self::question(), &BYTES);
        assert_eq!(decoded, SitesAnswer { replies: replies.into(), at_hand: None });
        // The last result is cut off, then the first one.
        let decoded = SitesAnswer::decode(&whole[..whole.len() - 1], &self::question(), &BYTES);
        assert_eq!((decoded.replies.len(), decoded.at_hand), (2, Some(2)));
        let decoded = SitesAnswer::decode(&whole[..9], &self::question(), &BYTES);
        assert_eq!((decoded.replies.len(), decoded.at_hand), (0, Some(1)));
    }

    /// Fails if a probe could be outside of its file, if there could be more probes than the limit,
    /// or if a call is accepted that was not requested.
    #[test]
    fn only_requested_answers_are_taken() {
        let reply = |of: SiteReply, bytes| {
            let decoded = SitesAnswer::decode(&answer(&[(0, of)]), &question(), &[bytes]);
            decoded.replies.into_iter().map(|it| it.1).next()
        };
        assert_eq!(reply(SiteReply::Read(sites(7)), 7), Some(SiteReply::Read(sites(7))));
        assert_eq!(reply(SiteReply::Read(sites(7)), 6), None);
        let bytes = 1 << 20;
        assert!(matches!(
            reply(SiteReply::Read(sites(SITES_MAX)), bytes),
            Some(SiteReply::Read(_))
        ));
        assert_eq!(reply(SiteReply::Read(sites(SITES_MAX + 1)), bytes), Some(SiteReply::TooMany));
        let other =
            CallId::all().find(|it| !question().calls.contains(it)).expect("there are more");
        let hidden = Sites { hidden: vec![other], ..Sites::default() };
        assert_eq!(reply(SiteReply::Read(hidden), bytes), None);
        let twice =
            answer(&[(0, SiteReply::Linked), (0, SiteReply::Linked), (1, SiteReply::Linked)]);
        assert_eq!(SitesAnswer::decode(&twice, &question(), &BYTES).replies.len(), 1);
        let unknown = answer(&[(3, SiteReply::Linked)]);
        assert_eq!(SitesAnswer::decode(&unknown, &question(), &BYTES), SitesAnswer::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(0_u8..6, 0..200)) {
            let decoded = SitesAnswer::decode(&bytes, &question(), &BYTES);
            prop_assert!(decoded.replies.len() <= 3);
            prop_assert!(decoded.replies.iter().all(|it| it.0 < 3));
        }
    }
}
