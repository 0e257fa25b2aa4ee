//! First reading of a log: parts on which the treatment of its records depends.

use std::io::Read;

use super::code_ranges::CodeRanges;
use super::records::RecordRules;
use crate::capture::fact::{self, Fact, Text};
use crate::capture::format::FrameKind;
use crate::capture::header::{Disk, End, Header};
use crate::capture::reader::{Item, OpenError, Reader};

/// Parts of a log that its records refer to.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Addresses of code in the memory of the recorded programs, all processes together.
    pub(super) code: CodeRanges,
    /// Disks of the end of the recording.
    pub(super) disks: Vec<Disk>,
}

/// Reads a log for the first time. A log without a header has an empty survey.
pub(super) fn survey(log: impl Read) -> Result<Survey, OpenError> {
    let mut reader = Reader::new(log)?;
    let mut survey = Survey::default();
    let mut rules: Option<RecordRules> = None;
    while let Some(item) = reader.next_item()? {
        let Item::Frame(frame, payload) = item else { continue };
        match (frame.kind, &rules) {
            (FrameKind::HEADER, None) => {
                let header = serde_json::from_slice::<Header>(&payload).ok();
                rules = header.map(|header| RecordRules::of(&header));
            }
            (FrameKind::DATA, Some(rules)) => {
                for (start, end) in rules.executable_mappings(frame.layout, &payload) {
                    survey.code.add(start, end);
                }
            }
            (FrameKind::FACTS | FrameKind::LAST_FACTS, _) => {
                for fact in fact::facts(&payload) {
                    if let Fact::Text { which: Text::MAPS, text, .. } = fact {
                        survey.code.add_maps(&text);
                    }
                }
            }
            (FrameKind::END, _) => {
                if let Ok(end) = serde_json::from_slice::<End>(&payload) {
                    survey.disks = end.disks;
                }
            }
            _ => {}
        }
    }
    Ok(survey)
}
