//! The data of the page as JSON, for its script and for other programs.

use std::io;

use serde_json::{Value, json};

use super::activity::{self, ActivityKind};
use super::files;
use super::input::PageInput;
use super::reports::{self, MAKERS, PageReports, finished, with_notes};
use super::time_scale::TimeScale;
use crate::analysis::advice::finding::PLACES_MAX;
use crate::analysis::timeline::{ActivityCell, ActivityRow, TimeBin};
use crate::text::table::VERSION;

/// Returns the scripts with data; tables have this number of rows, 0 for all. `None`: they are
/// larger than `bytes_max`. The reports are made, printed and dropped one after the other.
pub(super) fn scripts(input: &PageInput<'_>, rows: usize, bytes_max: usize) -> Option<String> {
    if rows == 0 && names_bytes(input) > bytes_max {
        return None;
    }
    let mut scripts = DataScripts::new(bytes_max);
    for make in MAKERS {
        let report = finished(input, make, rows);
        scripts.push(report.kind, rows, |out| report.write_json(out)).ok()?;
    }
    // A finding has no more places and proofs than that.
    let few = Some(rows).filter(|rows| (1..PLACES_MAX).contains(rows));
    let advise = with_notes(input, reports::advise(input, false, few));
    scripts.push(advise.kind, few.unwrap_or(0), |out| advise.write_json(out)).ok()?;
    let timeline = timeline(input);
    scripts.push("timeline", 0, |out| Ok(serde_json::to_writer(out, &timeline)?)).ok()?;
    scripts.into_text()
}

/// Returns the script with the activity of each row of the table of files: as in
/// [`activity_cells`], or null.
pub(super) fn file_rows(input: &PageInput<'_>, reports: &PageReports) -> String {
    let rows = files::activity(input, reports);
    let rows: Value = rows.into_iter().map(|row| row.map(activity_cells)).collect();
    let mut scripts = DataScripts::new(usize::MAX);
    // Memory takes all of it.
    let _ = scripts.push("file-rows", 0, |out| Ok(serde_json::to_writer(out, &rows)?));
    scripts.into_text().unwrap_or_default()
}

/// Returns column, operations, bytes and time of each cell of a row, one after the other.
fn activity_cells(row: &ActivityRow) -> Vec<u64> {
    let cell = |cell: &ActivityCell| {
        let sum = &cell.sum;
        [u64::from(cell.column), sum.operations, sum.bytes, sum.ns]
    };
    row.cells.iter().flat_map(cell).collect()
}

/// Bytes that the names in a table of all files have at least.
fn names_bytes(input: &PageInput<'_>) -> usize {
    input.fold.files.files.keys().map(|(key, _)| key.len()).sum()
}

/// Scripts with data. No name in them can end a script: `<` occurs only inside strings of JSON.
pub(super) struct DataScripts {
    text: Vec<u8>,
    bytes_max: usize,
}

impl DataScripts {
    /// Creates an empty text, which may have this number of bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { text: Vec::new(), bytes_max }
    }

    /// Returns the scripts.
    pub(super) fn into_text(self) -> Option<String> {
        String::from_utf8(self.text).ok()
    }

    /// Appends a script; `print` writes its JSON.
    pub(super) fn push(
        &mut self,
        kind: &str,
        rows: usize,
        print: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let begin =
            format!("<script type=\"application/json\" id=\"data-{kind}\" data-rows=\"{rows}\">");
        self.text.extend(begin.bytes());
        print(self)?;
        self.text.extend(b"</script>");
        Ok(())
    }
}

impl io::Write for DataScripts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'<') {
            match part.strip_suffix(b"<") {
                Some(before) => {
                    self.text.extend_from_slice(before);
                    self.text.extend_from_slice(b"\\u003c");
                }
                None => self.text.extend_from_slice(part),
            }
        }
        if self.text.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bins and rows of the timeline, a list for each amount.
fn timeline(input: &PageInput<'_>) -> Value {
    let fold = &input.fold.timeline;
    let scale = TimeScale::of(input);
    let list = |amount: fn(&TimeBin) -> u64| -> Value { fold.bins.iter().map(amount).collect() };
    let columns = json!({
        "read_bytes": list(|bin| bin.moved[0]),
        "written_bytes": list(|bin| bin.moved[1]),
        "file_read_bytes": list(|bin| bin.on_files[0]),
        "file_written_bytes": list(|bin| bin.on_files[1]),
        "reads": list(|bin| bin.operations[0]),
        "writes": list(|bin| bin.operations[1]),
        "other_operations": list(|bin| bin.operations[2]),
        "file_operations": list(|bin| bin.file_operations),
        "device_read_bytes": list(|bin| bin.device_bytes[0]),
        "device_written_bytes": list(|bin| bin.device_bytes[1]),
        "written_back_bytes": list(|bin| bin.written_back),
        "read_requests": list(|bin| bin.requests[0]),
        "write_requests": list(|bin| bin.requests[1]),
        "other_requests": list(|bin| bin.requests[2]),
        "depth": list(|bin| bin.depth),
    });
    json!({
        "kind": "timeline",
        "version": VERSION,
        "origin_ns": scale.origin_ns,
        "from_ns": scale.origin_ns + scale.from_ns,
        "to_ns": scale.origin_ns + scale.to_ns,
        "bin_ns": fold.axis.width_ns(),
        "bins": columns,
        "column_ns": fold.column_ns(),
        "rows": rows(input),
    })
}

/// Activity of the shown rows: column, operations, bytes and time, one after the other.
fn rows(input: &PageInput<'_>) -> Value {
    let mut rows = serde_json::Map::new();
    for kind in ActivityKind::ALL {
        for (number, row) in activity::rows(input, kind).shown.iter().enumerate() {
            rows.insert(activity::row_id(kind, number), json!(activity_cells(&row.row)));
        }
    }
    Value::Object(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::rows::column;
    use crate::text::table::{Cell, Report, Table};

    /// Returns a report with as many names of this length.
    fn report(names: usize, length: usize) -> Report {
        let row = || vec![Cell::Name(vec![b'<'; length])];
        let table = Table {
            key: "files",
            title: String::new(),
            columns: vec![column("path", "file")],
            rows: std::iter::repeat_with(row).take(names).collect(),
        };
        Report { kind: "files", tables: vec![table], ..Report::default() }
    }

    #[test]
    fn data_end_at_the_first_row_beyond_the_limit() {
        let mut scripts = DataScripts { text: Vec::new(), bytes_max: 10_007 };
        let printed = scripts.push("files", 0, |out| report(5003, 101).write_json(out));
        assert!(printed.is_err());
        // A row has 101 letters of six bytes.
        assert!((10_007..11_003).contains(&scripts.text.len()), "{}", scripts.text.len());
    }

    #[test]
    fn data_within_the_limit_are_whole() {
        let mut scripts = DataScripts { text: Vec::new(), bytes_max: 10_007 };
        let printed = scripts.push("files", 3, |out| report(3, 2).write_json(out));
        let text = String::from_utf8(scripts.text).expect("UTF-8");
        assert!(printed.is_ok() && text.ends_with("}\n</script>"), "{text}");
        assert_eq!(text.matches("{\"path\":\"\\u003c\\u003c\"}").count(), 3, "{text}");
        assert_eq!(text.matches('<').count(), 2, "{text}");
    }
}
