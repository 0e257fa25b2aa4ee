//! Pages of the corpus in a real browser: without errors and requests, labels and contrast in both
//! colour schemes, sorting and the selection of a time.

use std::fs;
use std::path::PathBuf;

use iotrace_perf::text::quantity::{size, time};

use super::{page, root};
use crate::support::machine::requirements::{Need, require};
use crate::support::page::browser::{check, check_page, opened, probed};
use crate::support::page::markup::element;

/// Logs whose pages are looked at.
const LOGS: &[&str] = &["v2/questions", "v2/block-xfs", "v2/layers-kprobe", "v1/fio"];

fn path_of(log: &str) -> PathBuf {
    root().join("tests/corpus/logs").join(log).with_extension("iocap")
}

#[test]
fn pages_work_in_a_browser() {
    if !require(Need::Browser) {
        return;
    }
    let counts: Vec<_> = LOGS.iter().map(|log| check_page(&path_of(log))).collect();
    assert!(counts.iter().any(|counts| counts.iter().all(|count| *count > 0)), "{counts:?}");
}

#[test]
fn dark_pages_are_readable() {
    if !require(Need::Browser) {
        return;
    }
    let (found, _) = probed(&path_of("v2/block-xfs"), &["--force-dark-mode"]);
    check("v2/block-xfs", &found);
    assert_eq!(found["isDark"], true);
}

#[test]
fn narrow_page_does_not_scroll_sideways() {
    if !require(Need::Browser) {
        return;
    }
    let (found, _) = probed(&path_of("v2/questions"), &["--window-size=500,900"]);
    check("v2/questions", &found);
    let overflow = found["overflow"].as_i64();
    assert!(overflow.is_some_and(|columns| columns <= 0), "{overflow:?}");
}

#[test]
fn page_is_whole_without_javascript() {
    if !require(Need::Browser) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (path, page) = page(&path_of("v2/questions"), directory.path(), &[]);
    // Without JavaScript the browser would not print the document.
    let blocked = page.replacen("script-src 'unsafe-inline'", "script-src 'none'", 1);
    assert_ne!(blocked, page);
    fs::write(&path, blocked).expect("written");
    let dom = opened(&path, &[]);
    // The script makes buttons of the headings, and shows the selection.
    assert!(!dom.contains("<th scope=\"col\" class=\"n\"><button"));
    assert!(dom.contains("<form id=\"selection\" hidden=\"\""));
    for part in ["<table", "<tr", "<svg", "<section", "data-v="] {
        let (found, made) = (dom.matches(part).count(), page.matches(part).count());
        assert!(found == made && made > 0, "{part}: {found} of {made}");
    }
}

/// Amounts at which the unit, the decimals or the form change.
const AMOUNTS: [u64; 17] = [
    0,
    1,
    999,
    1000,
    12_345,
    999_499,
    999_500,
    999_999,
    4_049_999_999,
    99_949_999_999,
    119_000_000_000,
    120_000_000_000,
    200_000_000_000,
    3_599_999_999_999,
    3_900_000_000_000,
    1_000_000_000_000_000,
    9_007_199_254_740_991,
];

#[test]
fn amounts_of_the_script_are_those_of_the_tables() {
    if !require(Need::Browser) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (path, page) = page(&path_of("v2/questions"), directory.path(), &[]);
    let probe = format!(
        "<script>document.body.append(Object.assign(document.createElement('pre'), {{
            id: 'probe-result',
            textContent: JSON.stringify({AMOUNTS:?}.map(
                (number) => [amounts.size(number), amounts.time(number)])),
        }}))</script></body>"
    );
    fs::write(&path, page.replacen("</body>", &probe, 1)).expect("written");
    let dom = opened(&path, &[]);
    let (_, result) = element(&dom, "pre", "id=\"probe-result\"");
    let found: Vec<[String; 2]> = serde_json::from_str(result).expect("JSON");
    let tables: Vec<_> = AMOUNTS.iter().map(|number| [size(*number), time(*number)]).collect();
    assert_eq!(found, tables);
}
