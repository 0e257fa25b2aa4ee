//! Pages of the corpus in a real browser: without errors and requests, labels and contrast in both
//! colour schemes, sorting and the selection of a time.

use std::fs;
use std::path::PathBuf;

use super::{page, root};
use crate::support::machine::requirements::{Need, require};
use crate::support::page::browser::{check, check_page, opened, probed};

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
