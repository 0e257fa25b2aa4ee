//! The data of the page as JSON, for its script and for other programs.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::activity::{self, ActivityKind};
use super::input::PageInput;
use super::reports::PageReports;
use super::time_scale::TimeScale;
use crate::analysis::timeline::{ActivityCell, TimeBin};
use crate::text::table::{Report, TableFormat, TextStyle, VERSION};

/// Returns the scripts with data; tables have this number of rows, 0 for all.
pub(super) fn scripts(input: &PageInput<'_>, rows: usize) -> Markup {
    let reports = PageReports::new(input, rows);
    let PageReports { summary, files, disk, latency, slow } = &reports;
    html! {
        @for report in [summary, files, disk, latency, slow] {
            (script(report.kind, rows, &printed(report)))
        }
        (script("timeline", 0, &timeline(input).to_string()))
    }
}

/// One script. No name in it can end the script: `<` occurs only inside strings of JSON.
fn script(kind: &str, rows: usize, json: &str) -> Markup {
    html! {
        script type="application/json" id={ "data-" (kind) } data-rows=(rows) {
            (PreEscaped(json.replace('<', "\\u003c")))
        }
    }
}

fn printed(report: &Report) -> String {
    let mut out = Vec::new();
    // Memory takes everything.
    let _ = report.print(TableFormat::Json, TextStyle::default(), &mut out);
    String::from_utf8(out).unwrap_or_default()
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
        "from_ns": scale.from_ns,
        "to_ns": scale.to_ns,
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
            let cell = |cell: &ActivityCell| {
                let sum = &cell.sum;
                [u64::from(cell.column), sum.operations, sum.bytes, sum.ns]
            };
            let cells: Vec<u64> = row.row.cells.iter().flat_map(cell).collect();
            rows.insert(activity::row_id(kind, number), json!(cells));
        }
    }
    Value::Object(rows)
}
