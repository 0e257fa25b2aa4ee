//! Pages of `report`: made, looked at, opened in a browser, and compared with `summary --json`.

pub(crate) mod browser;
pub(crate) mod markup;
pub(crate) mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT};
use markup::element;

/// Largest page.
pub(crate) const PAGE_BYTES_MAX: usize = 2_000_000;

/// Runs a subcommand on a log. Returns its standard output.
pub(crate) fn printed(arguments: &[&str], log: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg(log);
    process::run(&mut command, TIMEOUT).expect("it ends").success().stdout()
}

/// Makes the page of a log in a directory.
pub(crate) fn page(log: &Path, directory: &Path, options: &[&str]) -> (PathBuf, String) {
    let path = directory.join("page.html");
    let _ = fs::remove_file(&path);
    let output = path.to_str().expect("UTF-8");
    printed(&[&["report", "-o", output], options].concat(), log);
    let text = fs::read_to_string(&path).expect("a page");
    (path, text)
}

/// Data of the page: that of a report, and its number of rows.
pub(crate) fn data(page: &str, kind: &str) -> (Value, String) {
    let (attributes, json) = element(page, "script", &format!("id=\"data-{kind}\""));
    let rows = attributes.split("data-rows=\"").nth(1).and_then(|rest| rest.split('"').next());
    let json = serde_json::from_str(json).expect("JSON");
    (json, rows.expect("a number of rows").to_owned())
}

/// Checks that a page loads nothing: no element refers to another file.
pub(crate) fn check_references(page: &str, name: &str) {
    for reference in ["src=", "@import", "url(", "<iframe", "<object", "<embed", "<base"] {
        assert!(!page.contains(reference), "{name} has {reference}");
    }
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    for link in links {
        assert!(link.starts_with('#') || link == "data:,", "{name} refers to {link}");
    }
}

/// Checks the numbers of a page against `summary --json` of its log.
pub(crate) fn check_numbers(page: &str, log: &Path) {
    let name = log.display();
    let (own, rows) = data(page, "summary");
    let text = printed(&["summary", "--json", "-n", &rows], log);
    let mut of_summary: Value = serde_json::from_str(&text).expect("JSON");
    check_advice(page, log, &mut of_summary);
    assert_eq!(own, of_summary, "{name}");
    for fact in ["wall_ns", "operations", "read_bytes", "written_bytes", "file_ns", "failed"] {
        let shown = format!("data-fact=\"{fact}\" data-v=\"{}\"", of_summary[fact]);
        assert!(page.contains(&shown), "{name}: no {shown}");
    }
    let (timeline, _) = data(page, "timeline");
    let sum = |key: &str| -> u64 {
        let bins = timeline["bins"][key].as_array().expect("bins");
        bins.iter().map(|number| number.as_u64().expect("a number")).sum()
    };
    assert_eq!(of_summary["read_bytes"], sum("read_bytes"), "{name}");
    assert_eq!(of_summary["written_bytes"], sum("written_bytes"), "{name}");
    let operations = sum("reads") + sum("writes") + sum("other_operations");
    assert_eq!(of_summary["operations"], operations, "{name}");
    check_file_rows(page, &name.to_string());
}

/// Checks the findings with advice against `advise --json`, and takes them out of the summary,
/// which refers to them: the page has them once.
#[track_caller]
fn check_advice(page: &str, log: &Path, summary: &mut Value) {
    let (mut own, _) = data(page, "advise");
    let finished = process::run(Command::new(BINARY).args(["advise", "--json"]).arg(log), TIMEOUT);
    // The status tells the severity of the findings.
    let text = finished.expect("it ends").stdout();
    let mut advice: Value = serde_json::from_str(&text).expect("JSON");
    for report in [&mut own, &mut advice] {
        // The page does not know the path of the log.
        for finding in report["findings"].as_array_mut().expect("findings") {
            finding["command"].take();
        }
    }
    assert_eq!(own, advice, "{}", log.display());
    let rules: Vec<Value> = {
        let findings = advice["findings"].as_array().expect("findings").iter();
        findings.map(|finding| finding["finding"].clone()).collect()
    };
    for rule in &rules {
        let kind = format!("<li data-kind={rule}>");
        assert_eq!(page.matches(&kind).count(), 1, "{}: {rule}", log.display());
    }
    let findings = summary["findings"].as_array_mut().expect("findings");
    findings.retain(|finding| !rules.contains(&finding["finding"]));
    let notes = summary["notes"].as_array_mut().expect("notes");
    notes.retain(|note| !note.as_str().is_some_and(|text| text.contains("iotrace-perf advise ")));
}

/// Checks that the activity of each file has as many operations and bytes as its row in the table.
fn check_file_rows(page: &str, name: &str) {
    let ((rows, _), (files, _)) = (data(page, "file-rows"), data(page, "files"));
    let table = files["files"].as_array().expect("a table");
    let mut rows = rows.as_array().expect("rows").as_slice();
    // The data have more rows than the page, whose last one is the sum of the others.
    if let [shown @ .., others] = rows
        && rows.len() < table.len()
    {
        assert!(others.is_null(), "{name}: {others}");
        rows = shown;
    }
    for (cells, file) in rows.iter().zip(table) {
        let Some(cells) = cells.as_array() else {
            // Pipes, sockets, sums, and files that could not be opened.
            let is_one = file["path"].is_string() && file["class"] == "file";
            assert!(!is_one || file["count"] == file["errors"], "{name}: {file}");
            continue;
        };
        let numbers: Vec<u64> = cells.iter().filter_map(Value::as_u64).collect();
        let sum = |place: usize| numbers.iter().skip(place).step_by(4).sum::<u64>();
        assert_eq!(file["count"], sum(1), "{name}: {file}");
    }
}
