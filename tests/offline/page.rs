//! The page of `report`: for each log of the corpus it is small, whole, without references to a
//! network, and has the numbers of `summary --json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod browser;
mod filtered;
mod findings;
mod hostile_names;
mod many_files;
mod markup;
mod output_file;
mod scriptless;
mod window;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT};
use markup::{element, unbalanced};

/// Largest page.
const PAGE_BYTES_MAX: usize = 2_000_000;

/// Blocks that every page has.
const BLOCKS: &[&str] = &["findings", "layers", "appendix"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All logs of the corpus.
fn logs() -> Vec<PathBuf> {
    let folders = ["v1", "v2"].map(|version| root().join("tests/corpus/logs").join(version));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut logs: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "iocap")).collect();
    logs.sort();
    assert!(logs.len() >= 30, "{logs:?}");
    logs
}

/// Runs a subcommand on a log. Returns its standard output.
fn printed(arguments: &[&str], log: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg(log);
    process::run(&mut command, TIMEOUT).expect("it ends").success().stdout()
}

/// Makes a log in a directory in which each of these files below `/srv` is opened, read and closed.
fn log_of_files(
    directory: &Path,
    names: impl IntoIterator<Item = impl std::fmt::Display>,
) -> PathBuf {
    let mut lines = String::new();
    for (number, name) in names.into_iter().enumerate() {
        let time = 1_700_000_000 + number;
        lines.push_str(&format!(
            "7 {time}.000100 openat(AT_FDCWD, \"/srv/{name}\", O_RDONLY) = 3 <0.000010>\n\
             7 {time}.000200 read(3, \"abcd\", 4) = 4 <0.000020>\n\
             7 {time}.000300 close(3) = 0 <0.000005>\n"
        ));
    }
    let (text, log) = (directory.join("a.txt"), directory.join("a.iocap"));
    fs::write(&text, lines).expect("written");
    let output = log.to_str().expect("UTF-8");
    printed(&["import", "--from", "strace", "-o", output], &text);
    log
}

/// Makes the page of a log in a directory.
fn page(log: &Path, directory: &Path, options: &[&str]) -> (PathBuf, String) {
    let path = directory.join("page.html");
    let _ = fs::remove_file(&path);
    let output = path.to_str().expect("UTF-8");
    printed(&[&["report", "-o", output], options].concat(), log);
    let text = fs::read_to_string(&path).expect("a page");
    (path, text)
}

/// Data of the page: that of a report, and its number of rows.
fn data(page: &str, kind: &str) -> (Value, String) {
    let (attributes, json) = element(page, "script", &format!("id=\"data-{kind}\""));
    let rows = attributes.split("data-rows=\"").nth(1).and_then(|rest| rest.split('"').next());
    let json = serde_json::from_str(json).expect("JSON");
    (json, rows.expect("a number of rows").to_owned())
}

/// Checks that a page loads nothing: no element refers to another file.
fn check_references(page: &str, name: &str) {
    for reference in ["src=", "@import", "url(", "<iframe", "<object", "<embed", "<base"] {
        assert!(!page.contains(reference), "{name} has {reference}");
    }
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    for link in links {
        assert!(link.starts_with('#') || link == "data:,", "{name} refers to {link}");
    }
}

/// Checks the numbers of a page against `summary --json` of its log.
fn check_numbers(page: &str, log: &Path) {
    let name = log.display();
    let (own, rows) = data(page, "summary");
    let text = printed(&["summary", "--json", "-n", &rows], log);
    let of_summary: Value = serde_json::from_str(&text).expect("JSON");
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

/// Checks that the activity of each file has as many operations and bytes as its row in the table.
fn check_file_rows(page: &str, name: &str) {
    let ((rows, _), (files, _)) = (data(page, "file-rows"), data(page, "files"));
    let table = files["files"].as_array().expect("a table");
    for (cells, file) in rows.as_array().expect("rows").iter().zip(table) {
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

#[test]
fn pages_of_the_corpus_are_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    for log in logs() {
        let name = log.display().to_string();
        let (_, page) = page(&log, directory.path(), &[]);
        assert!(page.len() <= PAGE_BYTES_MAX, "{name}: {} bytes", page.len());
        check_references(&page, &name);
        assert_eq!(unbalanced(&page), None, "{name}");
        for block in BLOCKS {
            assert!(page.contains(&format!("<section id=\"{block}\"")), "{name}: no {block}");
        }
        check_numbers(&page, &log);
    }
}

#[test]
fn losses_come_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = root().join("tests/corpus/logs/v1/lost.iocap");
    let (_, page) = page(&log, directory.path(), &[]);
    let (lost, findings) = (page.find("INCOMPLETE"), page.find("<section id=\"findings\""));
    assert!(lost.is_some() && lost < findings, "{lost:?}, {findings:?}");
    assert!(page.contains("1,840 records lost"));
}

#[test]
fn column_without_content_is_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    for (log, has_parts) in [("v2/block-xfs", true), ("v2/layers", true), ("v1/dd", false)] {
        let path = root().join("tests/corpus/logs").join(log).with_extension("iocap");
        let (_, page) = page(&path, directory.path(), &[]);
        let (_, slowest) = element(&page, "section", "id=\"slowest\"");
        for part in ["where the time went", "Each strip is one operation"] {
            assert_eq!(slowest.contains(part), has_parts, "{log}: {part}");
        }
    }
}
