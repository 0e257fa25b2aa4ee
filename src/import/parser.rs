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
