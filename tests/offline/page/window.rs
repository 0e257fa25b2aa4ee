//! Pages and pictures of a part of the time: their steps are shorter, and nothing else is in them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{data, page, printed, root};
use crate::support::page::markup::unbalanced;

/// Part of the time that is looked at.
const WINDOW: [&str; 4] = ["--from", "60ms", "--until", "80ms"];

/// Log with calls and requests.
fn log() -> PathBuf {
    root().join("tests/corpus/logs/v2/block-xfs.iocap")
}

/// Draws the picture of a log in a directory.
fn picture(directory: &Path, options: &[&str]) -> String {
    let path = directory.join("a.svg");
    let _ = fs::remove_file(&path);
    let file = path.to_str().expect("UTF-8");
    printed(&[&["report", "--svg", file], options].concat(), &log());
    fs::read_to_string(&path).expect("a picture")
}

#[test]
fn page_of_a_window_has_shorter_steps() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, whole) = page(&log(), directory.path(), &[]);
    let (_, part) = page(&log(), directory.path(), &WINDOW);
    let [(whole, _), (part, _)] = [&whole, &part].map(|page| data(page, "timeline"));
    let number = |of: &Value, key: &str| of[key].as_u64().expect(key);
    assert!(number(&part, "bin_ns") * 8 <= number(&whole, "bin_ns"), "{part}");
    let ends = ["from_ns", "to_ns", "origin_ns"].map(|key| number(&part, key));
    assert_eq!(ends, [60_000_000, 80_000_000, 60_000_000]);
    let summary = printed(&[&["summary", "--json"], WINDOW.as_slice()].concat(), &log());
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let sum = |key: &str| -> u64 {
        let bins = part["bins"][key].as_array().expect("bins");
        bins.iter().filter_map(Value::as_u64).sum()
    };
    let operations = sum("reads") + sum("writes") + sum("other_operations");
    assert_eq!(summary["operations"], operations);
    assert_eq!(summary["written_bytes"], sum("written_bytes"));
    // The second half of the log was not read.
    let notes = summary["notes"].to_string();
    assert!(
        notes.contains("the log was read up to 80.0 ms") && !notes.contains("audit:"),
        "{notes}"
    );
    let bins = part["bins"]["reads"].as_array().map_or(0, Vec::len) as u64;
    // No bin lies behind the end, whatever other requests there are.
    assert!(bins * number(&part, "bin_ns") < 20_000_000 + 2 * number(&part, "bin_ns"), "{bins}");
}

/// Fails if the picture needs a page, is no XML, or has colours that only browsers know.
#[test]
fn picture_stands_for_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = picture(directory.path(), &[]);
    let part = picture(directory.path(), &WINDOW);
    for (text, heading) in [(&whole, "I/O of sh xfs.sh, 160 ms,"), (&part, "60.0 ms to 80.0 ms")] {
        assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{text}");
        assert_eq!(unbalanced(text), None);
        assert!(!text.contains("var(") && !text.contains("<script"), "{text}");
        for part in [heading, "Bytes of calls", "Durations of operations", "Requests of disks"] {
            assert!(text.contains(part), "{part}");
        }
    }
    // Ticks are times of the recording.
    assert!(part.contains(">65 ms</text>") && !part.contains(">100 ms</text>"), "{part}");
    let files: Vec<_> = fs::read_dir(directory.path()).expect("it is there").collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn picture_of_nothing_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.svg");
    let log = log();
    let mut command = std::process::Command::new(super::BINARY);
    command.args(["report", "--from", "900s", "--svg"]).arg(&file).arg(&log);
    let finished = super::process::run(&mut command, super::TIMEOUT).expect("it ends");
    assert!(finished.stderr().contains("nothing to draw"), "{}", finished.stderr());
    assert!(!finished.status.success() && !file.exists());
}

/// Fails if an incomplete recording gives a picture that looks complete.
#[test]
fn losses_are_in_the_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.svg");
    let path = file.to_str().expect("UTF-8");
    printed(&["report", "--svg", path], &root().join("tests/corpus/logs/v1/lost.iocap"));
    let text = fs::read_to_string(&file).expect("a picture");
    assert!(text.contains("INCOMPLETE: 1,840 records lost"), "{text}");
}
