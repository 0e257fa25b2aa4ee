//! The page without its scripts: all tables and numbers are in the HTML, and nothing is hidden but
//! what only scripts use.

use super::{data, page, root};
use crate::support::page::markup::unbalanced;
use crate::support::page::tables::{check_tables, without_scripts};

#[test]
fn all_numbers_are_in_the_html() {
    let directory = tempfile::tempdir().expect("a directory");
    for log in ["v2/questions", "v2/block-xfs", "v2/layers-kprobe", "v1/tar"] {
        let path = root().join("tests/corpus/logs").join(log).with_extension("iocap");
        let (_, page) = page(&path, directory.path(), &[]);
        let html = without_scripts(&page);
        assert_eq!(unbalanced(&html), None, "{log}");
        let rows = check_tables(&page, &path);
        assert!(rows > 50, "{log}: {rows}");
        let (_, limit) = data(&page, "summary");
        assert!(!limit.is_empty());
        check_hidden(&html, log);
        // Closed parts open without a script.
        assert_eq!(html.matches("<details>").count(), html.matches("<summary>").count(), "{log}");
    }
}

/// Checks that only the fields of the selection, and its column, are hidden.
fn check_hidden(html: &str, log: &str) {
    let tags = html.split('<').filter_map(|tag| tag.split('>').next());
    let hidden = tags.filter(|tag| tag.split('"').step_by(2).any(|part| part.contains(" hidden")));
    for tag in hidden {
        let is_of_selection = tag.starts_with("form id=\"selection\"")
            || tag.starts_with("th scope=\"col\" class=\"n chosen\"")
            || tag.starts_with("td class=\"n chosen\"");
        assert!(is_of_selection, "{log}: <{tag}>");
    }
    assert!(!html.contains("<noscript"), "{log}");
}
