//! Pages of a part of a log: what depends on all requests does not depend on the filter.

use std::path::PathBuf;

use serde_json::Value;

use super::{data, page, printed, root};

/// A log with requests of several programs.
fn log() -> PathBuf {
    root().join("tests/corpus/logs/v2/block-xfs.iocap")
}

/// Rows of a table.
fn rows<'a>(report: &'a Value, table: &str) -> &'a Vec<Value> {
    report[table].as_array().expect("a table")
}

/// Largest depth of a page, and its sum over the requests that it has.
fn depth(page: &str) -> u64 {
    let (timeline, _) = data(page, "timeline");
    let depths = timeline["bins"]["depth"].as_array().expect("bins").iter();
    depths.map(|depth| depth.as_u64().expect("a number")).max().expect("a bin")
}

#[test]
fn page_says_that_it_is_filtered() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = root().join("tests/corpus/logs/v2/questions.iocap");
    let (_, page) = page(&log, directory.path(), &["-F", "app.conf"]);
    assert!(page.contains("which a filter has selected"));
    let (own, _) = data(&page, "summary");
    let text = printed(&["summary", "--json", "-F", "app.conf"], &log);
    assert_eq!(own, serde_json::from_str::<Value>(&text).expect("JSON"));
}

/// Process of a slow operation with a request that the disk got behind others.
fn waiting_process() -> String {
    let slow: Value = serde_json::from_str(&printed(&["slow", "--json"], &log())).expect("JSON");
    let first = rows(&slow, "requests").iter().find(|row| is_behind(row)).expect("a request");
    let rank = rows(&slow, "slowest").iter().find(|row| row["rank"] == first["rank"]);
    rank.expect("its operation")["pid"].to_string()
}

fn is_behind(request: &Value) -> bool {
    request["ahead"].as_u64().is_some_and(|ahead| ahead > 0)
}

/// Fails if the depth of a disk counts only requests that a filter has selected.
#[test]
fn depth_is_that_of_all_requests() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, whole) = page(&log(), directory.path(), &[]);
    let most = depth(&whole);
    assert!(most > 1, "{most}");
    let note = "Requests that the filter leaves out count here";
    assert!(!whole.contains(note));
    for filter in [["-p", &waiting_process()], ["-e", "block"], ["--io", "w"]] {
        let (_, page) = page(&log(), directory.path(), &filter);
        assert_eq!(depth(&page), most, "{filter:?}");
        assert!(page.contains(note), "{filter:?}");
    }
    // Another disk has no requests.
    let (_, page) = page(&log(), directory.path(), &["-d", "99:99"]);
    assert_eq!(depth(&page), 0);
}

/// Fails if the page has other requests of slow operations than `slow` with the same filter.
#[test]
fn slow_operations_have_their_requests() {
    let directory = tempfile::tempdir().expect("a directory");
    let pid = waiting_process();
    let (_, page) = page(&log(), directory.path(), &["-p", &pid]);
    let (own, limit) = data(&page, "slow");
    let text = printed(&["slow", "--json", "-n", &limit, "-p", &pid], &log());
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(own, expected);
    assert!(rows(&own, "requests").iter().any(is_behind), "{own}");
    assert!(page.contains("in the disk before it"));
}
