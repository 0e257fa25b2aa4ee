//! Tables of a page against the reports whose tables they are.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{data, printed};

/// Tables of the page: report, key, and the column whose exact numbers each row has.
const TABLES: &[(&str, &str, &str)] = &[
    ("summary", "calls", "time_ns"),
    ("summary", "processes", "time_ns"),
    ("summary", "devices", "bytes"),
    ("files", "files", "time_ns"),
    ("files", "directories", "time_ns"),
    ("disk", "disks", "written_bytes"),
    ("disk", "causes", "written_bytes"),
    ("latency", "layers", "time_ns"),
    ("latency", "split", "time_ns"),
    ("slow", "slowest", "duration_ns"),
    ("slow", "groups", "max_ns"),
];

/// The page without the elements of its scripts.
pub(crate) fn without_scripts(page: &str) -> String {
    let mut rest = page;
    let mut text = String::new();
    while let Some((before, script)) = rest.split_once("<script") {
        text.push_str(before);
        rest = script.split_once("</script>").expect("its end").1;
    }
    text + rest
}

/// Exact numbers of the cells: those of attributes, and those that are texts.
fn numbers(page: &str) -> BTreeSet<&str> {
    let exact = page.split("data-v=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let shown = page.split('>').skip(1).filter_map(|rest| rest.split('<').next());
    exact.chain(shown).collect()
}

/// Checks that the exact numbers of the reports are in the page without its scripts. Returns the
/// number of rows.
#[track_caller]
pub(crate) fn check_tables(page: &str, log: &Path) -> usize {
    let (html, name) = (without_scripts(page), log.display());
    let numbers = numbers(&html);
    // A page that would be too large has fewer rows.
    let (_, limit) = data(page, "summary");
    let limit = if limit == "0" || limit.len() > 2 { "100" } else { &limit };
    let mut rows = 0;
    for (report, table, column) in TABLES {
        let text = printed(&[report, "--json", "-n", limit], log);
        let report_json: Value = serde_json::from_str(&text).expect("JSON");
        for row in report_json[table].as_array().expect("a table") {
            let number = row[column].to_string();
            let is_there = numbers.contains(number.as_str()) || number == "0";
            assert!(is_there, "{name}: {report} {table}: no {number} of {row}");
            rows += 1;
        }
    }
    rows
}
