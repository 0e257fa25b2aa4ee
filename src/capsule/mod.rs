//! Anonymised capsules: a log, with pseudonyms for its names.
//!
//! ```text
//!   HEADER ─► headers ──┐
//!   DATA   ─► records ──┼─► the same frames, with the same records, at the same times
//!   FACTS  ─► facts   ──┘
//! ```
//!
//! Pseudonyms have the lengths of the names, so records keep their places; a path keeps its shape.
//! Sizes, times, numbers, flags and errors stay. What cannot be rewritten is left out and counted:
//! command lines, texts for people, frames of unknown kinds, copies of stacks, words of call chains
//! outside of code. The log is read three times: the code and the disks come first, and the counts
//! are in the header.

mod arities;
mod code_ranges;
mod facts;
mod headers;
mod payloads;
mod pseudonyms;
mod records;
mod survey;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::io::{self, Read, Write};

use thiserror::Error;

use self::pseudonyms::Pseudonyms;
use self::records::RecordRules;
use self::survey::Survey;
use crate::capture::fact::{self, FactsFrame};
use crate::capture::format::{Codec, FrameHeader, FrameKind};
pub use crate::capture::header::CapsuleCounts;
use crate::capture::header::{End, Header};
use crate::capture::reader::{Item, OpenError, Reader};
use crate::capture::writer::{DataFrame, Writer};
use crate::units::KernelTime;

/// Reason why no capsule was made.
#[derive(Debug, Error)]
pub enum CapsuleError {
    /// The log cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log has no header.
    #[error("the log has no header that can be read")]
    NoHeader,
    /// The log is a capsule.
    #[error("the log is an anonymised capsule already")]
    IsCapsule,
    /// The input or the output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the capsule of a log. `open` opens the log from its beginning, three times. Returns the
/// counts of what is left out.
///
/// # Errors
///
/// [`CapsuleError`].
pub fn write<R: Read>(
    open: impl Fn() -> io::Result<R>,
    salt: &[u8],
    out: impl Write,
) -> Result<CapsuleCounts, CapsuleError> {
    let mut names = Pseudonyms::new(salt);
    let mut survey = survey::survey(open()?)?;
    headers::keep_disks(&survey.disks, &mut names);
    let mut counts = CapsuleCounts::default();
    copy(open()?, &mut survey, &mut names, &mut counts, None, io::sink())?;
    counts.shared_pseudonyms = names.shared;
    let mut again = CapsuleCounts::default();
    copy(open()?, &mut survey, &mut names, &mut again, Some(counts), out)?;
    Ok(counts)
}

/// Copies a log; `known`: what its header says of the parts that are left out.
fn copy(
    log: impl Read,
    survey: &mut Survey,
    names: &mut Pseudonyms,
    counts: &mut CapsuleCounts,
    known: Option<CapsuleCounts>,
    out: impl Write,
) -> Result<(), CapsuleError> {
    let mut reader = Reader::new(log)?;
    let mut rules: Option<RecordRules> = None;
    let mut writer = Writer::new(out)?;
    while let Some(item) = reader.next_item()? {
        let Item::Frame(frame, mut payload) = item else {
            counts.frames += 1;
            continue;
        };
        let time = KernelTime(frame.first_time);
        match (frame.kind, &rules) {
            (FrameKind::HEADER, None) => {
                let Ok(header) = serde_json::from_slice::<Header>(&payload) else { continue };
                if header.capsule.is_some() {
                    return Err(CapsuleError::IsCapsule);
                }
                headers::keep_disks(&header.disks, names);
                let mut of_log = RecordRules::of(&header);
                of_log.code = std::mem::take(&mut survey.code);
                rules = Some(of_log);
                let header = headers::header(&header, names, counts);
                writer.json(frame.kind, time, &Header { capsule: known, ..header })?;
            }
            (_, None) => return Err(CapsuleError::NoHeader),
            (FrameKind::DATA, Some(rules)) => {
                match rules.apply(frame.layout, &mut payload, names, counts) {
                    true => writer.data(&data_frame(&frame), &mut payload)?,
                    false => counts.frames += 1,
                }
            }
            (FrameKind::ROUND, _) => writer.round(time)?,
            (FrameKind::FACTS | FrameKind::LAST_FACTS, Some(rules)) => {
                let mut facts = FactsFrame::default();
                let all = fact::facts(&payload);
                let mut left = facts::entries(&payload);
                for fact in all {
                    left = left.saturating_sub(1);
                    if let Some(fact) = facts::anonymous(fact, &rules.code, names, counts) {
                        facts.push(&fact);
                    }
                }
                counts.facts += left;
                match frame.kind {
                    FrameKind::FACTS => writer.facts(time, &mut facts)?,
                    _ => writer.last_facts(time, &mut facts)?,
                }
            }
            (FrameKind::END, _) => match serde_json::from_slice::<End>(&payload) {
                Ok(end) => writer.json(frame.kind, time, &headers::end(&end, counts))?,
                Err(_) => counts.frames += 1,
            },
            _ => counts.frames += 1,
        }
    }
    let rules = rules.ok_or(CapsuleError::NoHeader)?;
    survey.code = rules.code;
    Ok(())
}

fn data_frame(frame: &FrameHeader) -> DataFrame {
    DataFrame {
        cpu: frame.cpu,
        stream: frame.stream,
        layout: frame.layout,
        codec: if frame.codec == Codec::ZSTD_DELTA { Codec::ZSTD_DELTA } else { Codec::ZSTD },
        first_time: KernelTime(frame.first_time),
        last_time: KernelTime(frame.last_time),
        records: frame.items,
    }
}
