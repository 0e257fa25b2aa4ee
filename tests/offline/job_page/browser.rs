//! The page of a job in a real browser: without errors and requests, labels and contrast in both
//! colour schemes, sorting, and the selection of a line and of a field with pointer and keys.

use std::fs;

use serde_json::Value;

use super::{data, four_ranks, page_of};
use crate::support::machine::requirements::{Need, require};
use crate::support::page::browser::{check, opened, with_errors};
use crate::support::page::markup::element;
use crate::support::scratch_dir;

/// Results of the probe on the page of a job of four ranks.
fn probed(options: &[&str]) -> (Value, String) {
    let dir = scratch_dir("job-browser");
    let logs = four_ranks(dir.path());
    let path = dir.path().join("job.html");
    let page = page_of(&logs, &path);
    let probe = include_str!("probe.js");
    let with_probe =
        with_errors(&page).replacen("</body>", &format!("<script>{probe}</script></body>"), 1);
    fs::write(&path, with_probe).expect("written");
    let dom = opened(&path, options);
    let (_, result) = element(&dom, "pre", "id=\"probe-result\"");
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    (serde_json::from_str(&result).expect("JSON"), page)
}

#[test]
fn maps_work_in_a_browser() {
    if !require(Need::Browser) {
        return;
    }
    let (found, page) = probed(&[]);
    check("job", &found);
    let times = found["descending"].as_array().expect("numbers");
    let times: Vec<u64> = times.iter().filter_map(Value::as_u64).collect();
    assert!(times.len() == 4 && times.is_sorted_by(|one, other| one >= other), "{times:?}");
    // One map is shown, that of the chosen measure.
    assert_eq!(found["shownMaps"], serde_json::json!(["map-time"]));
    assert_eq!(found["shownAfterChoice"], serde_json::json!(["map-written"]));
    // The keys lead to the first line, then to its first field, to the last line, and away.
    let (map, _) = data(&page, "job-map");
    let text = |step: usize| found["texts"][step].as_str().expect("a text").to_owned();
    assert!(text(0).starts_with("Point at a field"), "{found}");
    assert!(text(1).starts_with("rank 0 on beta: "), "{found}");
    assert!(text(2).starts_with("From 0 ns to ") && text(2).contains("rank 0 on beta"), "{found}");
    assert!(text(3).contains("rank 3 on alpha: "), "{found}");
    assert!(text(4).starts_with("Point at a field"), "{found}");
    let clicked = found["clicked"].as_str().expect("a text");
    assert!(clicked.contains("rank 2 on alpha"), "{clicked} {map}");
    assert!(clicked.contains("Slowest file: "), "{clicked}");
}

#[test]
fn dark_page_of_a_job_is_readable() {
    if !require(Need::Browser) {
        return;
    }
    let (found, _) = probed(&["--force-dark-mode"]);
    check("job", &found);
    assert_eq!(found["isDark"], true);
}

#[test]
fn narrow_page_of_a_job_does_not_scroll_sideways() {
    if !require(Need::Browser) {
        return;
    }
    let (found, _) = probed(&["--window-size=500,900"]);
    let overflow = found["overflow"].as_i64();
    assert!(overflow.is_some_and(|columns| columns <= 0), "{overflow:?}");
}
