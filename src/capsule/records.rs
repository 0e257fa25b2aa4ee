//! Frames of records without names: the records stay at their places, and have their lengths.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::code_ranges::CodeRanges;
use super::payloads::PayloadRules;
use super::pseudonyms::Pseudonyms;
use crate::capture::header::{CapsuleCounts, Header, RecordLayout};
use crate::record::abi::{HEADER_BYTES, context, record_type};
use crate::record::layout::SampleLayout;
use crate::record::page::{self, PageEntry, PageLayout};
use crate::record::parse::{RecordKind, records};
use crate::record::program::x86;
use crate::tracefs::EventFormat;

/// Layout of the records of a frame.
#[derive(Debug)]
enum FrameLayout {
    Perf(SampleLayout),
    Tracefs(PageLayout),
    /// One that this program does not know: such frames are left out.
    Unknown,
}

impl FrameLayout {
    fn of(layout: &RecordLayout) -> Self {
        if layout.source == "tracefs" {
            let pages = PageLayout::parse(&layout.header_page);
            let continued = |pages: PageLayout| {
                if layout.pages_continue { pages.continued() } else { pages }
            };
            return pages.map_or(Self::Unknown, |pages| Self::Tracefs(continued(pages)));
        }
        let known = SampleLayout::new(layout.sample_type, layout.regs_user);
        known.map_or(Self::Unknown, Self::Perf)
    }
}

/// Rules for the records of a log.
#[derive(Debug)]
pub(super) struct RecordRules {
    layouts: Vec<FrameLayout>,
    payloads: FxHashMap<u16, PayloadRules>,
    /// Addresses that stay in call chains.
    pub(super) code: CodeRanges,
}

impl RecordRules {
    pub(super) fn of(header: &Header) -> Self {
        let machine = &*header.host.machine;
        let mut payloads = FxHashMap::default();
        for point in &header.tracepoints {
            if let Ok(format) = EventFormat::parse(&point.format) {
                payloads.insert(point.id, PayloadRules::of(&point.system, &format, machine));
            }
        }
        let layouts = header.layouts.iter().map(FrameLayout::of).collect();
        Self { layouts, payloads, code: CodeRanges::default() }
    }

    /// Returns the addresses of new executable mappings in a frame.
    pub(super) fn executable_mappings(&self, layout: u16, bytes: &[u8]) -> Vec<(u64, u64)> {
        match self.layouts.get(usize::from(layout)) {
            Some(FrameLayout::Perf(_)) => records(bytes)
                .flatten()
                .filter_map(|(_, record)| record.executable_mapping())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Replaces the names in a frame. Returns false if the frame has to be left out.
    pub(super) fn apply(
        &self,
        layout: u16,
        bytes: &mut [u8],
        names: &mut Pseudonyms,
        counts: &mut CapsuleCounts,
    ) -> bool {
        match self.layouts.get(usize::from(layout)) {
            Some(FrameLayout::Perf(layout)) => self.perf(layout, bytes, names, counts),
            Some(FrameLayout::Tracefs(pages)) => self.pages(*pages, bytes, names, counts),
            Some(FrameLayout::Unknown) | None => return false,
        }
        true
    }

    fn payload(&self, payload: &mut [u8], names: &mut Pseudonyms, counts: &mut CapsuleCounts) {
        let id = payload.first_chunk::<2>().map(|id| u16::from_le_bytes(*id));
        match id.and_then(|id| self.payloads.get(&id)) {
            Some(rules) => {
                rules.apply(payload, names);
                counts.payload_parts += u64::from(rules.leaves_out);
            }
            None => {
                // The number of the tracepoint is no name.
                payload.iter_mut().skip(2).for_each(|byte| *byte = 0);
                counts.payloads += 1;
            }
        }
    }

    fn pages(
        &self,
        layout: PageLayout,
        bytes: &mut [u8],
        names: &mut Pseudonyms,
        counts: &mut CapsuleCounts,
    ) {
        layout.clear_padding(bytes);
        let places: Vec<Range<usize>> = page::entries(bytes, layout)
            .filter_map(|entry| match entry {
                Ok(PageEntry::Hit(at, _)) => place_of_payload(bytes, at),
                _ => None,
            })
            .collect();
        for place in places {
            if let Some(payload) = bytes.get_mut(place) {
                self.payload(payload, names, counts);
            }
        }
    }

    fn perf(
        &self,
        layout: &SampleLayout,
        bytes: &mut [u8],
        names: &mut Pseudonyms,
        counts: &mut CapsuleCounts,
    ) {
        let found = records(bytes).flatten().map(|(at, record)| {
            let end = at + HEADER_BYTES + record.body.len();
            (at, end)
        });
        let places: Vec<(usize, usize)> = found.collect();
        let end = places.last().map_or(0, |(_, end)| *end);
        // Bytes after the last whole record.
        bytes.iter_mut().skip(end).for_each(|byte| *byte = 0);
        for (at, end) in places {
            if let Some(record) = bytes.get_mut(at..end) {
                self.record(layout, record, names, counts);
            }
        }
    }

    fn record(
        &self,
        layout: &SampleLayout,
        bytes: &mut [u8],
        names: &mut Pseudonyms,
        counts: &mut CapsuleCounts,
    ) {
        let Ok((record, _)) = RecordKind::first(bytes) else { return };
        let trailer = layout.trailer_bytes();
        let text_end = bytes.len().saturating_sub(trailer);
        match record.kind {
            record_type::SAMPLE => {
                let place = record.payload_place(layout);
                let program = record.program_at(layout);
                let chain = record.chain_place(layout);
                let Some(payload) = place.clone().and_then(|place| bytes.get_mut(place)) else {
                    let rest = bytes.get_mut(HEADER_BYTES + layout.fixed_bytes()..);
                    rest.into_iter().for_each(|rest| rest.fill(0));
                    counts.records += 1;
                    return;
                };
                self.payload(payload, names, counts);
                if let Some(chain) = chain.and_then(|place| bytes.get_mut(place)) {
                    counts.chain_words += clear_data(chain, &self.code);
                }
                if let Some(program) = program.and_then(|at| bytes.get_mut(at..)) {
                    counts.user_stacks += u64::from(clear_program(program, layout));
                }
            }
            record_type::COMM => text(bytes, HEADER_BYTES + 8..text_end, |name| names.name(name)),
            record_type::MMAP2 => {
                // The file may be known by its build id.
                if record.misc & crate::record::abi::MISC_MMAP_BUILD_ID != 0 {
                    let id = bytes.get_mut(HEADER_BYTES + 32..HEADER_BYTES + 56);
                    id.into_iter().for_each(|id| id.fill(0));
                }
                text(bytes, HEADER_BYTES + 64..text_end, |name| names.path(name));
            }
            record_type::FORK | record_type::EXIT | record_type::LOST => {}
            _ => {
                let body = bytes.get_mut(HEADER_BYTES..text_end);
                body.into_iter().for_each(|body| body.fill(0));
                counts.records += 1;
            }
        }
    }
}

/// Returns the place of the payload of a sample whose entry begins here.
fn place_of_payload(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let entry = bytes.get(at..)?;
    let payload = page::payload(entry)?;
    let begin = at + payload.as_ptr().addr().checked_sub(entry.as_ptr().addr())?;
    Some(begin..begin + payload.len())
}

/// Replaces a text that ends at its first NUL; everything after it becomes 0.
fn text(bytes: &mut [u8], place: Range<usize>, pseudonym: impl FnOnce(&[u8]) -> Vec<u8>) {
    let Some(field) = bytes.get_mut(place) else { return };
    let name = field.split(|byte| *byte == 0).next().unwrap_or_default();
    let pseudonym = pseudonym(name);
    field.fill(0);
    field.iter_mut().zip(pseudonym).for_each(|(to, from)| *to = from);
}

/// Clears the words of a call chain in the program that are not addresses of code: a walk
/// along frame pointers takes any word of the memory for one. Returns their number.
fn clear_data(chain: &mut [u8], code: &CodeRanges) -> u64 {
    let (words, _) = chain.as_chunks_mut::<8>();
    let (mut cleared, mut is_kernel) = (0, false);
    for word in words {
        let number = u64::from_le_bytes(*word);
        if number >= context::LOWEST {
            is_kernel = number == context::KERNEL;
        } else if !is_kernel && number != 0 && !code.contains(number) {
            *word = [0; 8];
            cleared += 1;
        }
    }
    cleared
}

/// Clears the stack of a program, and its registers except for the two that are the place in the
/// code and the top of the stack. Returns true if there was a program.
fn clear_program(program: &mut [u8], layout: &SampleLayout) -> bool {
    let mask = layout.registers().unwrap_or(0);
    let has_program = program.first_chunk::<8>().is_some_and(|abi| *abi != [0; 8]);
    let mut at = 8;
    if has_program {
        for bit in (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1) {
            let is_place = matches!(bit, x86::IP | x86::SP);
            if let Some(register) = program.get_mut(at..at + 8).filter(|_| !is_place) {
                register.fill(0);
            }
            at += 8;
        }
    }
    let size = program.get(at..).and_then(|rest| rest.first_chunk::<8>().copied());
    let size = size.and_then(|size| usize::try_from(u64::from_le_bytes(size)).ok()).unwrap_or(0);
    let stack = at + 8..(at + 8).saturating_add(size).min(program.len());
    if let Some(stack) = program.get_mut(stack) {
        stack.fill(0);
    }
    has_program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if words of the program's memory stay in a chain.
    #[test]
    fn words_of_a_chain_outside_of_code_are_cleared() {
        let mut code = CodeRanges::default();
        code.add(0x5000, 0x6000);
        let secret = u64::from_le_bytes(*b"password");
        let (kernel, user) = (context::KERNEL, context::USER);
        let words = [kernel, 0xffff_ffff_8100_0000, user, 0x5010, secret, 0x5fff, 0x6000];
        let mut chain: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(clear_data(&mut chain, &code), 2);
        let (found, _) = chain.as_chunks::<8>();
        let found: Vec<u64> = found.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(found, [kernel, 0xffff_ffff_8100_0000, user, 0x5010, 0, 0x5fff, 0]);
    }
}
