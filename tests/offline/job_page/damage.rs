//! Recordings that are not there, or not whole.

use std::fs;
use std::path::Path;

use super::{checked, copied, merged, number, ranked, rows};
use crate::support::scratch_dir;

/// Fails if the page does not say what is missing, or costs the other recordings.
#[test]
fn gaps_stand_where_the_numbers_are() {
    let dir = scratch_dir("job-damage");
    let whole = ranked("v2/job", &dir.path().join("whole"), "alpha", 0);
    let beta = ranked("v2/job", &dir.path().join("beta"), "beta", 2);
    let bytes = fs::read(&beta).expect("a log");
    let [torn, no_log] = ["torn.iocap", "no-log.iocap"].map(|name| dir.path().join(name));
    fs::write(&torn, &bytes[..bytes.len() * 3 / 4]).expect("space");
    fs::write(&no_log, "no log\n").expect("space");
    let missing = dir.path().join("missing.iocap");
    let output = dir.path().join("job.html");
    let all: [&Path; 4] = [&whole, &torn, &no_log, &missing];
    let finished = merged(&all, &output, &[]);
    let said = finished.stderr();
    assert_eq!(finished.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("LEFT OUT:").count(), 2, "{said}");
    assert!(said.contains("INCOMPLETE:") && said.contains("did not end in order"), "{said}");
    let page = checked(&output);
    for part in [
        "INCOMPLETE.",
        "2 recordings are left out; 1 recording is not whole",
        "Ranks of 4 without a recording of their own: 1, 3",
        "class=\"cut\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(rows(&page, "gaps").len(), 3);
    let ranks = rows(&page, "ranks");
    let missing = |rank: u64| {
        let row = ranks.iter().find(|row| row["rank"] == rank).expect("a row");
        row["missing"].as_str().map(str::to_owned)
    };
    assert_eq!(missing(0), None);
    assert!(missing(2).is_some_and(|text| text.contains("did not end in order")), "{ranks:?}");
    let hosts = rows(&page, "hosts");
    let incomplete: u64 = hosts.iter().map(|host| number(host, "incomplete_ranks")).sum();
    assert_eq!(incomplete, 1);

    let none = merged(&[&no_log], &dir.path().join("none.html"), &[]);
    assert_eq!(none.status.code(), Some(125), "{}", none.stderr());
    assert!(!dir.path().join("none.html").exists());
    let again = merged(&[&whole], &output, &[]);
    assert_eq!(again.status.code(), Some(125), "{}", again.stderr());
    assert!(again.stderr().contains("is there already"), "{}", again.stderr());
    merged(&[&whole], &output, &["--force"]).success();
}

/// Fails if lost records of a recording are not in the row of its rank, or are an error.
#[test]
fn lost_records_are_at_their_rank() {
    let dir = scratch_dir("job-lost");
    let lost = copied("v1/lost", &dir.path().join("lost"), |header| {
        header.host.hostname = "alpha".to_owned();
    });
    let output = dir.path().join("job.html");
    let finished = merged(&[&lost], &output, &[]);
    let page = checked(&output);
    assert!(page.contains("1,840 records lost"), "{}", finished.stderr());
    assert!(rows(&page, "ranks")[0]["missing"].as_str().is_some_and(|text| text.contains("1,840")));
}
