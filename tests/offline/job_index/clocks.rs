//! Clocks of an index: those of `--clock-offset` and `--clocks` stay, and a clock that was never
//! set has no error bound.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{MS, NAME, index, json};
use crate::clocks::{Injected, compared_job};
use crate::merge::{DD, Made, spans};
use crate::support::driver::recording::iotrace;
use crate::support::machine::requirements::{Need, require};
use crate::support::{scratch_dir, text};

/// Merges recordings or an index into an index; returns the clocks of it.
#[track_caller]
fn clocks_of(inputs: &[&str], output: &Path, options: &[&str]) -> Vec<Value> {
    let output_word = format!("{}/", text(output));
    let arguments = [&["merge", "-o", &output_word], inputs, options].concat();
    iotrace(&arguments).success();
    let index = fs::read_to_string(output.join(NAME)).expect("an index");
    let index: Value = serde_json::from_str(&index).expect("JSON");
    let captures = index["captures"].as_array().expect("recordings").iter();
    captures.map(|capture| capture["clock"].clone()).collect()
}

/// Fails if an offset that the index has is lost, or is added twice.
#[test]
fn offsets_of_an_index_stay_and_are_added_once() {
    let dir = scratch_dir("job-offset");
    let logs = [
        Made { rank: Some(0), ..DD }.write(dir.path(), "a"),
        Made { rank: Some(1), host: "beta", ..DD }.write(dir.path(), "b"),
    ];
    let at = |name: &str| dir.path().join(name);
    let offset = ["--clock-offset", "beta=+12ms"];
    let stored = clocks_of(&[text(&logs[0]), text(&logs[1])], &at("job"), &offset);
    assert_eq!(stored[1]["added_ns"], 12 * MS);
    let job = at("job");
    let job = text(&job);
    assert_eq!(clocks_of(&[job], &at("again"), &[]), stored);
    let other = clocks_of(&[job], &at("other"), &["--clock-offset", "beta=+5ms"]);
    assert_eq!((&other[0]["added_ns"], &other[1]["added_ns"]), (&0.into(), &(5 * MS).into()));
    let page = at("p.html");
    let said = iotrace(&["report", job, "-o", text(&page)]).success().stderr();
    assert!(said.contains("beta is moved by +12.0 ms (--clock-offset)"), "{said}");
    if require(Need::Otf2Print) {
        let archive = at("all.otf2");
        iotrace(&["convert", job, "-o", text(&archive)]).success();
        let times: Vec<(u64, u64)> = spans(&archive).into_values().collect();
        let found = times[times.len() / 2].0 - times[0].0;
        assert!(found.abs_diff(12_000_000) < 20_000, "{found}");
    }
    // A host with an offset may have no recording any more.
    fs::remove_file(&logs[1]).expect("ours");
    let page = at("q.html");
    let rest = iotrace(&["report", job, "-o", text(&page)]);
    assert_eq!(rest.status.code(), Some(1), "{}", rest.stderr());
    assert!(rest.stderr().contains("LEFT OUT: ") && page.is_file(), "{}", rest.stderr());
}

/// Fails if clocks that messages have compared are wall clocks again.
#[test]
fn compared_clocks_of_an_index_stay() {
    let dir = scratch_dir("job-compared");
    let injected = Injected { offset_ns: 50 * MS, drift_ppb: 20_000 };
    let made = compared_job(dir.path(), injected, 50 * MS);
    let logs: Vec<&str> = made.logs.iter().map(|log| text(log)).collect();
    let at = |name: &str| dir.path().join(name);
    let compared = ["--clocks", text(&made.clocks)];
    let stored = clocks_of(&logs, &at("job"), &compared);
    assert_eq!(
        (&stored[0]["source"], &stored[1]["source"]),
        (&"reference".into(), &"messages".into())
    );
    let job = at("job");
    let job = text(&job);
    assert_eq!(clocks_of(&[job], &at("again"), &[]), stored);
    for arguments in [["report", job, "-o", "p.html"], ["convert", job, "-o", "all.otf2"]] {
        let output = at(arguments[3]);
        let said = iotrace(&[arguments[0], job, "-o", text(&output)]).success().stderr();
        assert!(said.contains("messages compared the clocks with that of alpha"), "{said}");
    }
    if require(Need::Otf2Print) {
        let times: Vec<(u64, u64)> = spans(&at("all.otf2")).into_values().collect();
        let found = i128::from(times[times.len() / 2].0) - i128::from(times[0].0);
        // The wall clocks alone would have 100 ms.
        let error = found.abs_diff(injected.offset_at(made.span[0]));
        assert!(error < 100_000, "{found} ns");
    }
    // Comparisons that are given replace what the index has.
    let plain = clocks_of(&logs, &at("plain"), &["--clock-offset", "beta=+5ms"]);
    assert_eq!((&plain[0]["source"], &plain[1]["source"]), (&"wall".into(), &"wall".into()));
    let plain = at("plain");
    assert_eq!(clocks_of(&[text(&plain)], &at("later"), &compared), stored);
}

/// Fails if a clock that was never set has an error bound, or if an order is claimed by it.
#[test]
fn clocks_that_were_never_set_have_no_bound() {
    let dir = scratch_dir("job-unset");
    let unset_ns = -1_795_900_000_000 * MS;
    let logs = [
        Made { rank: Some(0), ..DD }.write(dir.path(), "a"),
        Made { rank: Some(1), ..DD }.write(dir.path(), "b"),
        Made { rank: Some(2), host: "beta", later_ns: unset_ns, ..DD }.write(dir.path(), "c"),
    ];
    let job = index(dir.path(), &logs);
    let job = text(&job);
    let info = json(&["info", "--json", job]);
    assert_eq!(info["clock_error_bound_ns"], Value::Null);
    let bounds: Vec<bool> = info["captures"]
        .as_array()
        .expect("recordings")
        .iter()
        .map(|row| row["clock_error_bound_ns"].is_null())
        .collect();
    assert_eq!(bounds, [false, false, true]);
    let said = iotrace(&["info", job]).success().stdout();
    assert!(said.contains("1 recording without dates"), "{said}");
    let summary = json(&["summary", "--json", job]);
    assert_eq!(summary["clock_error_bound_ns"], Value::Null);
    let said = iotrace(&["summary", job]).success().stdout();
    assert!(said.contains("a recording has no dates"), "{said}");
    assert!(!said.contains("apart have no known order"), "{said}");
    let page = dir.path().join("p.html");
    let said = iotrace(&["report", job, "-o", text(&page)]).success().stderr();
    assert!(said.contains("1 recording has no dates"), "{said}");
}
