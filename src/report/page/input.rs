//! Input of the page.

use crate::analysis::overview::Overview;
use crate::pipeline::Summary;
use crate::report::recorded_scope::attached;

/// Results of a pass over a log, and sentences about them.
#[derive(Clone, Copy, Debug)]
pub struct PageInput<'a> {
    /// Results of the folds.
    pub fold: &'a Overview,
    /// Header, end and counts of the log.
    pub summary: &'a Summary,
    /// True for a page about all of a recording, false if a filter has selected a part.
    pub is_whole: bool,
    /// Parts that are missing from the recording; empty: none.
    pub incomplete: &'a [String],
    /// Facts that are not known although all records are there.
    pub unknown: &'a [String],
    /// Sentences about losses, accounting and limits.
    pub notes: &'a [String],
    /// Command that prints the same numbers.
    pub command: &'a str,
}

impl PageInput<'_> {
    /// Returns the subject of the recording: its program, or its scope.
    pub(super) fn subject(&self) -> String {
        let header = &self.summary.header;
        let scope = &header.scope;
        let words = scope.command.join(" ");
        if let Some(origin) = header.imported.as_ref().filter(|_| words.is_empty()) {
            return format!("what {} recorded in {}", origin.tool, origin.file);
        }
        match (words.as_str(), scope.roots.as_slice()) {
            ("", []) => "the whole machine".to_owned(),
            ("", _) => attached(scope),
            _ => words,
        }
    }
}
