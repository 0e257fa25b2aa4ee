//! The page of `report`: for each log of the corpus it is small, whole, without references to a
//! network, and has the numbers of `summary --json`.

use std::fs;
use std::path::{Path, PathBuf};

mod browser;
mod filtered;
mod findings;
mod hostile_names;
mod many_files;
mod output_file;
mod scriptless;
mod window;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT};
use crate::support::page::markup::{element, unbalanced};
use crate::support::page::{PAGE_BYTES_MAX, check_numbers, check_references, data, page, printed};

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
