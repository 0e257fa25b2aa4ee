//! The interface of the parsers of text logs.

use super::import_report::ImportReport;
use super::imported_event::ImportedEvent;

/// A parser of lines.
pub(super) trait Parser {
    /// Parses a line into events of `out`. Returns false for a line that is not understood.
    fn line(&mut self, line: &[u8], out: &mut Vec<ImportedEvent>, notes: &mut ImportReport)
    -> bool;

    /// Ends the log. Returns true if there are more events, for which it must be called again.
    fn finish(&mut self, _out: &mut Vec<ImportedEvent>, _notes: &mut ImportReport) -> bool {
        false
    }
}

/// Parses a text, and returns the events and the report of the lines.
#[cfg(test)]
pub(super) fn parse_lines(
    parser: &mut dyn Parser,
    text: &str,
) -> (Vec<ImportedEvent>, ImportReport) {
    let (mut events, mut notes) = (Vec::new(), ImportReport::default());
    for line in text.lines() {
        notes.read += 1;
        if !parser.line(line.as_bytes(), &mut events, &mut notes) {
            notes.not_understood(notes.read, line.as_bytes());
        }
    }
    while parser.finish(&mut events, &mut notes) {}
    (events, notes)
}
